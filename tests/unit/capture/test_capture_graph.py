"""What the graph says of each operator: attributes, literals, lines, scopes, names."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from shardwright.capture import capture
from shardwright.capture.attributes import literal
from shardwright.ir import Graph, Op, Role, verify_graph

X = np.ones((8, 8), np.float32)
KEY = jax.random.key(0)
ROWS = np.zeros((3, 1), np.int32)
MESH = jax.sharding.AbstractMesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)


def _graph(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    graph = capture(step, *args, **kwargs).graph
    verify_graph(graph)
    return graph


def _only(graph: Graph, kind: str) -> Op:
    (op,) = (op for op in graph.walk() if op.kind == kind)
    return op


ATTRIBUTES = [
    (
        lambda x: lax.dot_general(x, x, (((1,), (0,)), ((), ())), precision="highest"),
        "dot_general",
        {
            "dimension_numbers": (((1,), (0,)), ((), ())),
            "precision": ("HIGHEST", "HIGHEST"),
            "preferred_element_type": None,
        },
    ),
    (lambda x: x.astype(jnp.bfloat16), "convert_element_type", {"new_dtype": "bfloat16"}),
    (
        lambda x: lax.conv_general_dilated(
            x[None, :, :, None],
            jnp.ones((3, 3, 1, 2)),
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        ),
        "conv_general_dilated",
        {
            "dimension_numbers.lhs_spec": (0, 3, 1, 2),
            "dimension_numbers.rhs_spec": (3, 2, 0, 1),
            "dimension_numbers.out_spec": (0, 3, 1, 2),
            "feature_group_count": 1,
            "padding": ((1, 1), (1, 1)),
        },
    ),
    (
        lambda x: lax.gather(
            x, ROWS, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 8), mode="clip"
        ),
        "gather",
        {"mode": "CLIP", "dimension_numbers.offset_dims": (1,), "slice_sizes": (1, 8)},
    ),
    (
        lambda x: x.at[ROWS[:, 0]].add(1.0),
        "scatter-add",
        {"mode": "FILL_OR_DROP", "dimension_numbers.update_window_dims": (1,)},
    ),
    (lambda x: lax.reduce(x, 1.0, lax.mul, (0,)), "reduce_prod", {"axes": (0,)}),
    (lambda x: lax.reduce(x, 2.0, lax.add, (0,)), "reduce", {"combiner": "add"}),
    (lambda x: lax.reduce(x, 2.0, lambda a, b: a + 2 * b, (0,)), "reduce", {"combiner": ""}),
    (lambda x: lax.reduce(x, 2.0, lambda a, _: a + a, (0,)), "reduce", {"combiner": ""}),
    (
        lambda x: lax.reduce((x, x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)),
        "reduce",
        {"combiner": "", "dimensions": (0,)},
    ),
    (
        lambda x: lax.reduce_window(x, 2.0, lax.max, (2, 2), (1, 1), "SAME"),
        "reduce_window",
        {"combiner": "max", "window_dimensions": (2, 2)},
    ),
    (
        lambda x: lax.with_sharding_constraint(x, NamedSharding(MESH, P(("dp", "tp"), None))),
        "sharding_constraint",
        {"sharding.mesh": (("dp", 2), ("tp", 4)), "sharding.spec": (("dp", "tp"), None)},
    ),
    (
        lambda x: jax.shard_map(jnp.sin, mesh=MESH, in_specs=P("dp"), out_specs=P("dp"))(x),
        "shard_map",
        {"mesh": (("dp", 2), ("tp", 4)), "in_specs": (("dp",),), "out_specs": (("dp",),)},
    ),
    (lambda x: checkpoint_name(x, "mlp out"), "name", {"name": "mlp out"}),
    (
        lambda x: jax.checkpoint(jnp.sin, policy=jax.checkpoint_policies.everything_saveable)(x),
        "remat2",
        {"policy": "everything_saveable", "prevent_cse": True},
    ),
    (
        lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x, reverse=True),
        "scan",
        {"length": 8, "num_consts": 0, "num_carry": 1, "reverse": True},
    ),
    (
        lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x),
        "while",
        {"cond_nconsts": 0, "body_nconsts": 0},
    ),
    (lambda x: jnp.fft.fft(x), "fft", {"fft_type": "FFT", "fft_lengths": (8,)}),
]


@pytest.mark.parametrize(("step", "kind", "expected"), ATTRIBUTES)
def test_attributes_are_plain_literals(
    step: Callable[..., Any], kind: str, expected: dict[str, Any]
) -> None:
    attributes = _only(_graph(step, X), kind).attributes
    assert attributes == tuple(sorted(attributes))
    assert expected.items() <= dict(attributes).items()
    assert not {"jaxpr", "branches", "update_jaxpr", "out_sharding"} & dict(attributes).keys()


@pytest.mark.parametrize(
    ("step", "kind", "names"),
    [
        (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x), "scan", ["body"]),
        (
            lambda x: lax.while_loop(lambda c: c[0, 0] < 9, lambda c: c + 1, x),
            "while",
            ["cond", "body"],
        ),
        (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), "cond", ["branch0", "branch1"]),
        (lambda x: jax.checkpoint(jnp.sin)(x), "remat2", ["body"]),
        (lambda x: jax.pure_callback(np.sin, x, x), "pure_callback", []),
    ],
)
def test_bodies_are_regions(step: Callable[..., Any], kind: str, names: list[str]) -> None:
    assert [region.name for region in _only(_graph(step, X), kind).regions] == names


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.dtype("bfloat16"), "bfloat16"),
        (KEY.dtype, "key<fry>"),
        (jnp.float32, "float32"),
        (frozenset({"b", "a"}), ("a", "b")),
        ({"b": 1, "a": [2]}, (("a", (2,)), ("b", 1))),
        (jnp.sin, "sin"),
        (functools.partial(print, 1), "functools.partial(<built-in function print>, 1)"),
    ],
)
def test_any_parameter_has_a_stable_literal(value: Any, expected: Any) -> None:
    assert literal(value) == expected


def test_no_literal_shows_an_address() -> None:
    assert "0x" not in str(literal(object()))


def test_equal_numbers_of_one_type_share_a_tensor() -> None:
    graph = _graph(lambda x, n: (x * 2.0 + 2.0 - (-0.0) * x, n * 2, x / 0.0), X, ROWS)
    literals = [t for t in graph.tensors if t.value is not None]
    assert sorted((t.dtype, repr(t.value)) for t in literals) == [
        ("float32", "-0.0"),
        ("float32", "0.0"),
        ("float32", "2.0"),
        ("int32", "2"),
    ]
    assert all(t.role is Role.CONSTANT and t.shape == () for t in literals)


def test_keys_keep_their_type() -> None:
    graph = _graph(lambda key: jax.random.split(key, 3), KEY)
    (split,) = graph.ops
    assert graph.tensor(split.operands[0]).dtype == "key<fry>"
    assert graph.tensor(split.results[0]).shape == (3,)


def _layer(x: jax.Array) -> jax.Array:
    with jax.named_scope("mlp"):
        return jax.nn.relu(x) @ x  # the marked line


def test_operators_know_scope_and_line_even_through_library_calls() -> None:
    def step(x: jax.Array) -> jax.Array:
        with jax.named_scope("layers"):
            return jax.jit(_layer)(_layer(x))

    lines, start = inspect.getsourcelines(_layer)
    marked = start + next(i for i, line in enumerate(lines) if "the marked line" in line)
    ops = _graph(step, X).ops
    assert [op.kind for op in ops] == ["max", "dot_general"] * 2
    assert {op.scope for op in ops} == {"layers/mlp"}
    assert {op.source for op in ops} == {f"test_capture_graph.py:{marked}"}


def test_a_cached_library_call_has_the_line_of_each_use() -> None:
    def step(x: jax.Array) -> jax.Array:
        y = jnp.where(x > 0, x, 3.5)
        return jnp.where(y > 0, y, 3.5)

    selects = [op.source for op in _graph(step, X).ops if op.kind == "select_n"]
    first, second = (int(re.split(":", source)[1]) for source in selects)
    assert second == first + 1


def test_the_graph_is_called_after_the_step() -> None:
    assert _graph(_layer, X).name == "_layer"
    assert _graph(jax.jit(functools.partial(_layer)), X).name == "_layer"
    assert _graph(lambda x: x, X).name == "step"


def test_two_captures_of_one_step_are_equal() -> None:
    step = jax.grad(lambda x: jax.checkpoint(_layer)(x).sum())
    assert _graph(step, X) == _graph(step, X)
