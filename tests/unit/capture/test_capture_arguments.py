"""Arguments of every kind, under the names that the user knows them by."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardwright.capture import capture
from shardwright.ir import Role


class State(NamedTuple):
    params: Any
    count: Any


X = np.ones((2, 3), np.float32)


def keyword_only(x: Any, *, scale: Any) -> Any:
    return x * scale


def collected(first: Any, *rest: Any, **named: Any) -> Any:
    return first + sum(rest) + named["bias"]


def state_step(state: Any, batch: Any) -> Any:
    return state.params["w"][0].sum() + batch["x"].sum() + state.count


NAMES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], tuple[str, ...]]] = [
    (keyword_only, (X,), {"scale": 2.0}, ("x", "scale")),
    (collected, (X, X, X), {"bias": X}, ("first", "rest.0", "rest.1", "bias")),
    (
        state_step,
        (State(params={"w": [X, X]}, count=0), {"x": X}),
        {},
        ("state.params.w.0", "state.params.w.1", "state.count", "batch.x"),
    ),
    (functools.partial(keyword_only, scale=2.0), (X,), {}, ("x",)),
    (functools.partial(collected, X, bias=1.0), (X,), {}, ("rest.0",)),
    (jax.jit(keyword_only), (X,), {"scale": X}, ("x", "scale")),
    (jnp.sin, (X,), {}, ("x",)),
]


@pytest.mark.parametrize(("step", "args", "kwargs", "names"), NAMES)
def test_inputs_have_the_users_names(
    step: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: tuple[str, ...],
) -> None:
    captured = capture(step, *args, **kwargs)
    assert captured.in_names == names
    graph = captured.graph
    assert tuple(graph.tensor(row).name for row in graph.inputs[: len(names)]) == names


def test_results_have_names_too() -> None:
    captured = capture(lambda x: ({"loss": x.sum()}, [x]), X)
    assert captured.out_names == ("result.0.loss", "result.1.0")
    assert capture(lambda x: x + 1, X).out_names == ("result",)


@pytest.mark.parametrize(
    ("argument", "shape", "dtype"),
    [
        (X, (2, 3), "float32"),
        (X.astype(np.float64), (2, 3), "float32"),
        (jnp.zeros(4, jnp.bfloat16), (4,), "bfloat16"),
        (jax.ShapeDtypeStruct((5, 6), jnp.int8), (5, 6), "int8"),
        (1.5, (), "float32"),
        (True, (), "bool"),
        (np.int16(3), (), "int16"),
        (jax.random.key(0), (), "key<fry>"),
    ],
)
def test_arguments_may_be_arrays_numbers_or_only_shapes(
    argument: Any, shape: tuple[int, ...], dtype: str
) -> None:
    graph = capture(lambda a: (a,), argument).graph
    tensor = graph.tensor(graph.inputs[0])
    assert (tensor.shape, tensor.dtype) == (shape, dtype)


def test_the_trees_take_real_arguments_and_results_apart() -> None:
    captured = capture(state_step, State(params={"w": [X, X]}, count=0), batch={"x": X})
    call = ((State(params={"w": [X, X]}, count=1),), {"batch": {"x": X}})
    assert jax.tree.structure(call) == captured.in_tree
    assert jax.tree.structure(0.0) == captured.out_tree
    assert captured.in_names[-1] == "batch.x"


def test_none_is_no_leaf() -> None:
    captured = capture(lambda p: {"w": p["w"] * 2, "b": p["b"]}, {"w": X, "b": None})
    assert captured.in_names == ("p.w",)
    assert len(captured.graph.state_pairs) == 1


def test_the_users_roles_overrule() -> None:
    def step(params: Any, table: Any, x: Any) -> Any:
        return params * 0.9, (params @ x + table).sum()

    args = (np.ones((3, 3), np.float32), X.T, X.T)
    roles = {"table": "parameter", "x": Role.INPUT}
    graph = capture(step, *args, roles=roles).graph
    assert [graph.tensor(row).role for row in graph.inputs] == ["parameter", "parameter", "input"]
    assert graph.state_pairs == ((graph.inputs[0], graph.outputs[0]),)

    graph = capture(step, *args, roles={"param*": "batch"}).graph
    assert graph.tensor(graph.inputs[0]).role is Role.BATCH
    assert graph.state_pairs == ()
    assert graph.tensor(graph.outputs[0]).role is Role.OUTPUT


def test_later_patterns_overrule_earlier_ones() -> None:
    roles = {"p.*": "batch", "p.b": "constant"}
    graph = capture(lambda p: p["a"] + p["b"], {"a": X, "b": X}, roles=roles).graph
    assert [graph.tensor(row).role for row in graph.inputs] == ["batch", "constant"]
