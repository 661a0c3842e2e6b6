"""Arithmetic of one operator, counted from its rule and shapes.

Source:
    The counts of matrix factorisations are the leading terms in Golub and Van Loan, "Matrix
    computations" (4th ed., 2013); 5 n log2 n for a transform is the count that FFTW's benchmarks
    use for Cooley and Tukey's algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shardwright.ir import Attribute, Graph, Op
from shardwright.sharding import OpRule

Shape = tuple[int, ...]

CONTRACTION_KINDS = frozenset(
    {"dot_general", "conv_general_dilated", "ragged_dot", "ragged_dot_general"}
)
"""Operators that run on matrix units; all others are bound by memory."""

_MOVING_KINDS = frozenset(
    {
        *("bitcast_convert_type", "broadcast", "broadcast_in_dim", "concatenate"),
        *("convert_element_type", "copy", "copy_p", "dynamic_slice", "dynamic_update_slice"),
        *("expand_dims", "gather", "iota", "name", "optimization_barrier", "pad"),
        *("reshape", "rev", "scatter", "sharding_constraint", "slice", "split"),
        *("squeeze", "stop_gradient", "transpose"),
    }
)

_READING_KINDS = ("reduce", "argm", "cum")
"""Beginnings of kinds that do about one operation per element read."""

_SORTING_KINDS = frozenset({"sort", "top_k", "approx_top_k"})

_FACTORISATION_WEIGHTS = {
    "cholesky": 1 / 3,
    "lu": 2 / 3,
    "qr": 4 / 3,
    "geqrf": 4 / 3,
    "householder_product": 4 / 3,
    "eigh": 9.0,
    "svd": 22.0,
}
"""Multiples of n^3 for one square matrix."""


def op_flops(op: Op, graph: Graph, rule: OpRule) -> float:
    """Floating-point operations of one forward run of the whole operator; an estimate."""
    operands = [graph.tensor(i).shape for i in op.operands]
    results = [graph.tensor(i).shape for i in op.results]
    return kind_flops(op.kind, rule, operands, results, op.attributes)


def kind_flops(
    kind: str,
    rule: OpRule,
    operand_shapes: Sequence[Shape],
    result_shapes: Sequence[Shape],
    attributes: Sequence[tuple[str, Attribute]] = (),
) -> float:
    """Floating-point operations of one operator of that kind on tensors of those shapes.

    A multiply and an add count two. An elementwise function counts one per element however hard it
    is, and moving data counts nothing.
    """
    if kind.startswith("ragged_dot"):
        return _ragged_flops(rule)
    if kind in CONTRACTION_KINDS:
        return _contraction_flops(rule, operand_shapes, result_shapes)
    if kind in _MOVING_KINDS or kind.startswith("shard."):
        return 0.0
    if kind in _FACTORISATION_WEIGHTS:
        return _FACTORISATION_WEIGHTS[kind] * _cubes(operand_shapes[0])
    if kind == "triangular_solve":
        return float(math.prod(operand_shapes[1]) * operand_shapes[0][-1])
    if kind in _SORTING_KINDS:
        return math.prod(operand_shapes[0]) * math.log2(max((2, *operand_shapes[0])))
    if kind.startswith("scatter"):
        return float(math.prod(operand_shapes[-1]))
    if kind.startswith(_READING_KINDS) and kind != "reduce_precision":
        return float(sum(math.prod(shape) for shape in operand_shapes))
    written = float(sum(math.prod(shape) for shape in result_shapes))
    return written * _steps_per_element(kind, dict(attributes))


def _contraction_flops(
    rule: OpRule, operand_shapes: Sequence[Shape], result_shapes: Sequence[Shape]
) -> float:
    """Two for each element of the result and each step of the loops that it sums over."""
    kept = {position for factors in rule.results[0] for position in factors}
    summed = 1.0
    for size, factors in zip(operand_shapes[1], rule.operands[1], strict=True):
        summed *= size / math.prod(rule.factors[f].size for f in factors if f in kept)
    return 2.0 * summed * math.prod(result_shapes[0])


def _ragged_flops(rule: OpRule) -> float:
    """Two for each step of the loops that two sides share: a row meets one group, not each."""
    sides = [
        {f for factors in dims for f in factors} for dims in (*rule.operands[:2], *rule.results)
    ]
    shared = {f for side in sides for f in side if sum(f in other for other in sides) > 1}
    return 2.0 * math.prod(rule.factors[factor].size for factor in shared)


def _cubes(shape: Shape) -> float:
    """The n^3 of a batch of matrices; for oblong ones the short side squared times the long."""
    *batch, rows, columns = shape
    return float(math.prod(batch) * min(rows, columns) ** 2 * max(rows, columns))


def _steps_per_element(kind: str, attributes: dict[str, Attribute]) -> float:
    exponent, lengths = attributes.get("y"), attributes.get("fft_lengths")
    if kind == "integer_pow" and isinstance(exponent, int):
        power = max(1, abs(exponent))
        return max(1, power.bit_length() + power.bit_count() - 2)
    if kind == "fft" and isinstance(lengths, tuple):
        points = math.prod(length for length in lengths if isinstance(length, int))
        return 5 * math.log2(max(2, points))
    return 1.0
