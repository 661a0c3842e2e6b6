"""What capture says when a step cannot be written down, to the letter."""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from shardwright import jax_bridge
from shardwright.capture import capture
from shardwright.errors import CaptureError, UsageError

X = np.ones((2, 3), np.float32)
FILE = "test_capture_messages.py"


def branches(x: jax.Array) -> jax.Array:
    if x.sum() > 0:  # here
        return x
    return -x


def loops_by_data(x: jax.Array) -> jax.Array:
    return sum(x for _ in range(x[0, 0].astype(int)))  # here


def numpy_inside(x: jax.Array) -> Any:
    return np.sin(x)  # here


def masks(x: jax.Array) -> jax.Array:
    return x[x > 0].sum()  # here


def shape_by_data(x: jax.Array) -> jax.Array:
    return jnp.arange(x.sum())  # here


def fails(x: jax.Array) -> jax.Array:
    return x @ x  # here


def fails_in_a_library(x: jax.Array) -> jax.Array:
    return jnp.reshape(functools.reduce(jnp.add, [x, x]), (5,))  # here


def mutates(x: jax.Array) -> jax.Array:
    ref = jax.new_ref(x)
    ref[...] = x * 2  # here
    return jax.ref.freeze(ref)


def line_of(step: Callable[..., Any]) -> str:
    lines, start = inspect.getsourcelines(step)
    return f"{FILE}:{start + next(i for i, line in enumerate(lines) if '# here' in line)}"


DATA_DEPENDENT = [
    (
        branches,
        "the step branches on data: it asks whether an array is true while only shapes are known",
        "jnp.where to choose values, jax.lax.cond to choose what runs;"
        " functools.partial(step, train=True) to keep an option a Python value",
    ),
    (
        loops_by_data,
        "the step uses data as a Python index or size while only shapes are known",
        "x[i] on a JAX array to index; functools.partial(step, n=8) to keep a size a Python number",
    ),
    (
        numpy_inside,
        "the step hands a traced array to NumPy, which needs its values",
        "the function of the same name in jax.numpy",
    ),
    (
        masks,
        "the step selects by a mask, so a shape depends on data",
        "jnp.where(mask, x, 0) to keep the shape, or jnp.nonzero(mask, size=n)",
    ),
    (
        shape_by_data,
        "the step needs the value of an array while only shapes are known",
        "Python numbers for sizes, size= where jax.numpy offers it, jax.lax.cond for branches",
    ),
    (
        mutates,
        "the step reads or writes a mutable reference (swap)",
        "pass the value in and return the new one",
    ),
]


@pytest.mark.parametrize(("step", "what", "hint"), DATA_DEPENDENT)
def test_what_depends_on_data_is_named_with_its_line(
    step: Callable[..., Any], what: str, hint: str
) -> None:
    with pytest.raises(CaptureError) as raised:
        capture(step, X)
    assert str(raised.value) == f"{what}\n  where  {line_of(step)}\n  try    {hint}"


def test_an_error_of_the_step_itself_is_passed_on_with_its_line() -> None:
    with pytest.raises(CaptureError) as raised:
        capture(fails, X)
    assert raised.value.what == (
        "the step raised TypeError while it was traced: dot_general requires contracting"
        " dimensions to have the same shape, got (3,) and (2,)."
    )
    assert raised.value.where == line_of(fails)
    assert raised.value.hint == (
        "the same call without capture, or jax.eval_shape(step, ...), shows the whole error"
    )
    assert isinstance(raised.value.__cause__, TypeError)


def test_the_line_is_the_users_even_when_a_library_fails() -> None:
    with pytest.raises(CaptureError) as raised:
        capture(fails_in_a_library, X)
    assert raised.value.where == line_of(fails_in_a_library)


def test_wrong_arguments_have_no_line() -> None:
    with pytest.raises(CaptureError) as raised:
        capture(fails, X, X)
    assert str(raised.value) == (
        "the step raised TypeError while it was traced:"
        " fails() takes 1 positional argument but 2 were given\n"
        "  try    the same call without capture, or jax.eval_shape(step, ...),"
        " shows the whole error"
    )


def test_static_arguments_must_be_bound_before() -> None:
    step = jax.jit(lambda x, train: x if train else -x, static_argnames="train")
    with pytest.raises(CaptureError) as raised:
        capture(step, X, train=True)
    assert raised.value.what == (
        "the step takes a static argument (jax.jit's static_argnums), but was given an array"
    )
    assert raised.value.hint == (
        "bind it before: capture(functools.partial(step, train=True), ...)"
    )
    assert capture(functools.partial(step, train=True), X).in_names == ("x",)


def test_no_function() -> None:
    with pytest.raises(CaptureError) as raised:
        capture({"w": X}, X)  # type: ignore[arg-type]
    assert str(raised.value) == (
        "the step is a dict, not a function\n  try    the function itself first, then its arguments"
    )


@pytest.mark.parametrize(
    ("leaf", "described"),
    [
        ("gelu", "the text 'gelu'"),
        (branches, "the function branches"),
        (object(), "a object"),
        (np.array(["a"]), "an array of <U1"),
    ],
)
def test_a_leaf_that_is_no_array(leaf: Any, described: str) -> None:
    with pytest.raises(CaptureError) as raised:
        capture(lambda x, config: (x, config), X, {"act": leaf})
    assert str(raised.value) == (
        f"argument config.act is {described}, not an array\n"
        "  try    bind what is no data with functools.partial(step, ...), or close over it"
    )


def test_a_result_that_is_no_array() -> None:
    with pytest.raises(CaptureError) as raised:
        capture(lambda x: {"loss": x.sum(), "note": "good"}, X)
    assert str(raised.value) == (
        "the step returns result.note, which is the text 'good', not an array\n"
        "  try    return arrays and numbers only; None stands for nothing"
    )


def test_a_role_for_no_input() -> None:
    with pytest.raises(CaptureError) as raised:
        capture(lambda params, x: params @ x, X, X.T, roles={"parms*": "parameter"})
    assert str(raised.value) == (
        'roles: the pattern "parms*" matches no input of the step\n  try    did you mean "params"?'
    )


def test_no_such_role() -> None:
    with pytest.raises(CaptureError) as raised:
        capture(lambda x: x, X, roles={"x": "paramter"})
    assert str(raised.value) == (
        'roles: "paramter" is not a role of an input\n  try    did you mean "parameter"?'
    )


def test_objects_changed_in_place() -> None:
    class Count(nnx.Module):
        def __init__(self) -> None:
            self.seen = nnx.Variable(jnp.zeros(()))

    def step(model: Count, x: jax.Array) -> jax.Array:
        model.seen[...] = model.seen[...] + 1
        return x.sum()

    with pytest.raises(CaptureError) as raised:
        capture(step, Count(), X)
    assert str(raised.value) == (
        "the step changes arrays of its arguments in place and does not return them:"
        " model.seen\n"
        "  try    take the state apart and return it: nnx.split before, nnx.merge inside the step"
    )


def test_a_name_that_jax_no_longer_has() -> None:
    with pytest.raises(UsageError) as raised:
        jax_bridge.need("jax._src.core", "no_such_name")
    assert str(raised.value) == (
        f"jax {jax.__version__} has no jax._src.core.no_such_name,"
        " which was checked on jax 0.10.2\n"
        '  try    pip install "jax>=0.10.2,<0.11"'
    )
    with pytest.raises(UsageError, match=r"has no jax\.no_such_module\.name"):
        jax_bridge.need("jax.no_such_module", "name")


def test_the_bridge_does_not_load_where_a_name_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("jax.extend.core.new_jaxpr_eqn")
    spec = importlib.util.spec_from_file_location("bridge_copy", jax_bridge.__file__)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(UsageError, match=r"has no jax\.extend\.core\.new_jaxpr_eqn, which was"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
