"""Counts of arithmetic, kind by kind."""

from __future__ import annotations

import math

import pytest

from shardwright.cost.flops import kind_flops, op_flops
from shardwright.ir import Attribute, Graph, Op, Role, Tensor
from shardwright.sharding import Combiner, OpRule, rule_from_text

Shapes = list[tuple[int, ...]]
NO_RULE = OpRule(factors=(), operands=(), results=())

CONTRACTIONS = [
    ("matmul", "dot_general", "m k, k n -> m n", {"m": 2, "k": 3, "n": 5}, 2 * 2 * 3 * 5),
    (
        "batched",
        "dot_general",
        "b m k, b k n -> b m n",
        {"b": 7, "m": 2, "k": 3, "n": 5},
        2 * 7 * 2 * 3 * 5,
    ),
    ("outer", "dot_general", "m, n -> m n", {"m": 4, "n": 6}, 2 * 24),
    (
        "convolution",
        "conv_general_dilated",
        "n i h, o i w -> n o h",
        {"n": 2, "i": 3, "h": 8, "o": 4, "w": 5},
        2 * (2 * 4 * 8) * (3 * 5),
    ),
    (
        "depthwise convolution",
        "conv_general_dilated",
        "n c h, c 1 w -> n c h",
        {"n": 2, "c": 4, "h": 8, "w": 3},
        2 * (2 * 4 * 8) * 3,
    ),
    (
        "split heads",
        "dot_general",
        "b k, k (h d) -> b h d",
        {"b": 2, "k": 3, "h": 4, "d": 5},
        2 * 2 * 3 * 20,
    ),
    (
        "rows of groups",
        "ragged_dot_general",
        "m k, g k n, g -> m n",
        {"m": 6, "k": 3, "g": 4, "n": 5},
        2 * 6 * 3 * 5,
    ),
    (
        "weights of groups",
        "ragged_dot_general",
        "m k, m n, g -> g k n",
        {"m": 6, "k": 3, "g": 4, "n": 5},
        2 * 6 * 3 * 5,
    ),
]


def shapes_of(rule: OpRule) -> tuple[Shapes, Shapes]:
    def shape(dims: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
        return tuple(math.prod(rule.factors[f].size for f in factors) for factors in dims)

    return [shape(dims) for dims in rule.operands], [shape(dims) for dims in rule.results]


@pytest.mark.parametrize(
    ("kind", "text", "sizes", "flops"),
    [row[1:] for row in CONTRACTIONS],
    ids=[row[0] for row in CONTRACTIONS],
)
def test_contractions(kind: str, text: str, sizes: dict[str, int], flops: int) -> None:
    marks = {name: Combiner.SUM for name in sizes if name in {"k", "i"}}
    rule = rule_from_text(text, sizes, marks)
    assert kind_flops(kind, rule, *shapes_of(rule)) == flops


OTHERS = [
    ("add", [(4, 8), (4, 8)], [(4, 8)], (), 32),
    ("exp", [(4, 8)], [(4, 8)], (), 32),
    ("reduce_precision", [(4, 8)], [(4, 8)], (), 32),
    ("integer_pow", [(8,)], [(8,)], (("y", 2),), 8),
    ("integer_pow", [(8,)], [(8,)], (("y", 3),), 16),
    ("integer_pow", [(8,)], [(8,)], (("y", 4),), 16),
    ("integer_pow", [(8,)], [(8,)], (("y", -1),), 8),
    ("reduce_sum", [(4, 8)], [(4,)], (), 32),
    ("argmax", [(4, 8)], [(4,)], (), 32),
    ("cumsum", [(4, 8)], [(4, 8)], (), 32),
    ("reshape", [(4, 8)], [(32,)], (), 0),
    ("transpose", [(4, 8)], [(8, 4)], (), 0),
    ("gather", [(100, 8), (4,)], [(4, 8)], (), 0),
    ("scatter_add", [(100, 8), (4,), (4, 8)], [(100, 8)], (), 32),
    ("shard.carry", [(4, 8)], [(4, 8)], (), 0),
    ("sort", [(4, 8)], [(4, 8)], (), 32 * 3),
    ("sort", [()], [()], (), 1),
    ("cholesky", [(2, 6, 6)], [(2, 6, 6)], (), 2 * 216 / 3),
    ("qr", [(8, 6)], [(8, 6), (6, 6)], (), 4 / 3 * 36 * 8),
    ("triangular_solve", [(6, 6), (6, 5)], [(6, 5)], (), 180),
    ("fft", [(3, 8)], [(3, 8)], (("fft_lengths", (8,)),), 5 * 24 * 3),
]


@pytest.mark.parametrize(("kind", "operands", "results", "attributes", "flops"), OTHERS)
def test_other_kinds(
    kind: str,
    operands: Shapes,
    results: Shapes,
    attributes: tuple[tuple[str, Attribute], ...],
    flops: float,
) -> None:
    assert kind_flops(kind, NO_RULE, operands, results, attributes) == pytest.approx(flops)


def test_an_operator_of_a_graph_counts_by_its_tensors() -> None:
    rule = rule_from_text("m k, k n -> m n", {"m": 2, "k": 3, "n": 5}, {"k": Combiner.SUM})
    shapes = (2, 3), (3, 5), (2, 5)
    tensors = tuple(
        Tensor(id=i, shape=shape, dtype="float32", role=Role.ACTIVATION)
        for i, shape in enumerate(shapes)
    )
    op = Op(id=0, kind="dot_general", operands=(0, 1), results=(2,))
    graph = Graph(name="step", tensors=tensors, inputs=(0, 1), outputs=(2,), ops=(op,))
    assert op_flops(op, graph, rule) == 60
