"""Strategies: which mesh axes cut which factors of an operator, and what follows from that.

Source:
    The assignment of axes to loops is Mesh-TensorFlow's layout (Shazeer et al., NeurIPS 2018) made
    per operator; finishing a cut contraction by all-reduce or reduce-scatter is in GSPMD (Xu et
    al., 2021, section 4) and Alpa (Zheng et al., OSDI 2022, section 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from shardwright.cluster import Mesh
from shardwright.errors import ShardingError
from shardwright.sharding.collective import Collective, CollectiveKind, local_bytes
from shardwright.sharding.factor import Combiner, Factor, FactorKind, OpRule, TensorFactors
from shardwright.sharding.spec import DimAxes, Sharding

Shape = tuple[int, ...]

ScatterPairs = tuple[tuple[str, int], ...]
"""(mesh axis, result dim) pairs: that axis is reduce-scattered onto that dim."""

_REFUSED_KINDS = {
    FactorKind.HALO: "needs a halo exchange, which is not planned yet",
    FactorKind.PERMUTATION: "moves whole data between devices, which is not planned yet",
    FactorKind.NEED_REPLICATION: "must be whole",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to run one operator on a mesh.

    Attributes:
        factor_axes: for each factor of the rule, the axes that cut it, major first.
        operands: how each operand must lie when the operator starts.
        results: how each result lies once the operator's own collectives are done.
        partials: how each result lies before them, unreduced over the axes of cut reductions.
    """

    factor_axes: tuple[DimAxes, ...]
    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    partials: tuple[Sharding, ...]

    @property
    def axes(self) -> DimAxes:
        """Every axis that cuts some factor, in the rule's factor order."""
        return tuple(axis for axes in self.factor_axes for axis in axes)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why an assignment of axes to factors is no strategy."""

    reason: str


def strategy_of(
    rule: OpRule,
    operand_shapes: Sequence[Shape],
    result_shapes: Sequence[Shape],
    factor_axes: Sequence[DimAxes],
    mesh: Mesh,
    *,
    scatter: ScatterPairs = (),
) -> Strategy | Rejection:
    """The strategy in which ``factor_axes`` cut the factors, or why there is none.

    Args:
        rule: the operator's factors.
        operand_shapes: whole shapes.
        result_shapes: whole shapes.
        factor_axes: for each factor its axes, major first.
        mesh: gives the axis sizes.
        scatter: reduction axes that are reduce-scattered instead of all-reduced.
    """
    sizes = mesh.sizes
    reason = _refuse_factors(rule, factor_axes, sizes)
    if reason:
        return Rejection(reason=reason)
    operands = _layouts(rule, rule.operands, operand_shapes, factor_axes, sizes, "operand")
    if isinstance(operands, Rejection):
        return operands
    cut = _layouts(rule, rule.results, result_shapes, factor_axes, sizes, "result")
    if isinstance(cut, Rejection):
        return cut
    partials = tuple(
        Sharding(dims=layout.dims, unreduced=_unreduced(rule, dims, factor_axes, mesh))
        for layout, dims in zip(cut, rule.results, strict=True)
    )
    base = Strategy(
        factor_axes=tuple(factor_axes), operands=operands, results=cut, partials=partials
    )
    return scattered(base, rule, result_shapes, mesh, scatter) if scatter else base


def scattered(
    base: Strategy,
    rule: OpRule,
    result_shapes: Sequence[Shape],
    mesh: Mesh,
    scatter: ScatterPairs,
) -> Strategy | Rejection:
    """``base`` with some of its reduction axes reduce-scattered onto result dims."""
    reason = _refuse_scatter(base, rule, scatter)
    if reason:
        return Rejection(reason=reason)
    results = []
    for position, shape in enumerate(result_shapes):
        where = f"result {position}"
        layout = _onto_dims(base.results[position], shape, scatter, mesh.sizes, where)
        if isinstance(layout, Rejection):
            return layout
        results.append(layout)
    return Strategy(
        factor_axes=base.factor_axes,
        operands=base.operands,
        results=tuple(results),
        partials=base.partials,
    )


def own_collectives(
    strategy: Strategy,
    result_shapes: Sequence[Shape],
    result_itemsizes_bytes: Sequence[int],
    mesh: Mesh,
) -> tuple[tuple[Collective, ...], ...]:
    """For each result, the collectives that finish it, in order: reduce-scatters, all-reduce.

    Scattering comes first, so that what is left to all-reduce is the smaller piece.
    """
    return tuple(
        _finish(partial, result, shape, itemsize, mesh)
        for partial, result, shape, itemsize in zip(
            strategy.partials, strategy.results, result_shapes, result_itemsizes_bytes, strict=True
        )
    )


def refuse_factor(factor: Factor, axes: DimAxes, sizes: Mapping[str, int]) -> str:
    """Why ``axes`` cannot cut ``factor`` whatever else is cut; empty when they can."""
    if factor.kind in _REFUSED_KINDS:
        return f"factor {factor.name}={factor.size} {_REFUSED_KINDS[factor.kind]}"
    ways = math.prod(sizes[axis] for axis in axes)
    by = f"{ways} ({'+'.join(axes)})"
    if factor.size % ways:
        return f"factor {factor.name}={factor.size} does not divide by {by}"
    if (factor.size // ways) % factor.block:
        blocks = factor.size // factor.block
        return (
            f"factor {factor.name}={factor.size} has {blocks} blocks of {factor.block}, "
            f"which do not divide by {by}"
        )
    return ""


def _refuse_factors(rule: OpRule, factor_axes: Sequence[DimAxes], sizes: Mapping[str, int]) -> str:
    if len(factor_axes) != len(rule.factors):
        raise ShardingError(
            f"the rule has {len(rule.factors)} factors, axes are given for {len(factor_axes)}",
            where=f"rule {rule}",
        )
    seen: set[str] = set()
    for factor, axes in zip(rule.factors, factor_axes, strict=True):
        if not axes:
            continue
        twice = seen.intersection(axes)
        if twice or len(set(axes)) != len(axes):
            return f'axis "{min(twice or set(axes))}" cuts two factors'
        seen.update(axes)
        reason = refuse_factor(factor, axes, sizes)
        if reason:
            return reason
    return ""


def _layouts(
    rule: OpRule,
    tensors: Sequence[TensorFactors],
    shapes: Sequence[Shape],
    factor_axes: Sequence[DimAxes],
    sizes: Mapping[str, int],
    word: str,
) -> tuple[Sharding, ...] | Rejection:
    layouts = []
    for position, (dims, shape) in enumerate(zip(tensors, shapes, strict=True)):
        where = f"{word} {position}"
        reason = _refuse_strided(rule, dims, factor_axes, sizes, where)
        if reason:
            return Rejection(reason=reason)
        layout = Sharding(dims=tuple([_dim_axes(factors, factor_axes) for factors in dims]))
        axes = layout.axes
        if len(set(axes)) != len(axes):
            return Rejection(reason=f"one factor makes up two dims of {where}")
        if axes and not layout.divides(shape, sizes):
            return Rejection(reason=_uneven_text(layout, shape, sizes, where))
        layouts.append(layout)
    return tuple(layouts)


def _dim_axes(factors: tuple[int, ...], factor_axes: Sequence[DimAxes]) -> DimAxes:
    if len(factors) == 1:
        return factor_axes[factors[0]]
    return tuple(axis for factor in factors for axis in factor_axes[factor])


def _refuse_strided(
    rule: OpRule,
    dims: TensorFactors,
    factor_axes: Sequence[DimAxes],
    sizes: Mapping[str, int],
    where: str,
) -> str:
    for dim, factors in enumerate(dims):
        whole: Factor | None = None
        for position in factors if len(factors) > 1 else ():
            factor, axes = rule.factors[position], factor_axes[position]
            if axes and whole is not None:
                return (
                    f"strided pieces are not a sharding: {factor.name}={factor.size} is cut in "
                    f"dim {dim} of {where}, where {whole.name}={whole.size} before it is not cut "
                    "to single elements"
                )
            if math.prod(sizes[axis] for axis in axes) != factor.size and whole is None:
                whole = factor
    return ""


def _unreduced(
    rule: OpRule, dims: TensorFactors, factor_axes: Sequence[DimAxes], mesh: Mesh
) -> DimAxes:
    """Axes of cut reductions that the result does not itself contain, in mesh order."""
    inside = {position for factors in dims for position in factors}
    axes = {
        axis
        for position, factor in enumerate(rule.factors)
        if factor.kind is FactorKind.REDUCTION and position not in inside
        for axis in factor_axes[position]
    }
    return tuple([axis for axis in mesh.names if axis in axes]) if axes else ()


def _refuse_scatter(base: Strategy, rule: OpRule, scatter: ScatterPairs) -> str:
    for axis, _ in scatter:
        if not all(axis in partial.unreduced for partial in base.partials):
            return f'axis "{axis}" cuts no reduction of every result, so nothing is scattered'
        for factor, axes in zip(rule.factors, base.factor_axes, strict=True):
            if axis in axes and factor.combiner is not Combiner.SUM:
                return (
                    f"factor {factor.name}={factor.size} reduces by {factor.combiner}, "
                    "and only sums are scattered"
                )
    return ""


def _onto_dims(
    layout: Sharding,
    shape: Shape,
    scatter: ScatterPairs,
    sizes: Mapping[str, int],
    where: str,
) -> Sharding | Rejection:
    dims = list(layout.dims)
    for axis, dim in scatter:
        if dim >= len(dims):
            return Rejection(
                reason=f"{where} has {len(dims)} dims, so none of them is dim {dim} to scatter onto"
            )
        dims[dim] = (*dims[dim], axis)
    target = Sharding(dims=tuple(dims))
    if target.divides(shape, sizes):
        return target
    return Rejection(reason=_uneven_text(target, shape, sizes, f"scattered {where}"))


def _finish(
    partial: Sharding, result: Sharding, shape: Shape, itemsize_bytes: int, mesh: Mesh
) -> tuple[Collective, ...]:
    steps: list[Collective] = []
    held, left = partial.dims, set(partial.unreduced)
    for dim, (before, after) in enumerate(zip(partial.dims, result.dims, strict=True)):
        if before == after:
            continue
        axes = after[len(before) :]
        after_dims = (*held[:dim], after, *held[dim + 1 :])
        steps.append(
            Collective(
                kind=CollectiveKind.REDUCE_SCATTER,
                axes=axes,
                input_bytes=local_bytes(shape, held, itemsize_bytes, mesh),
                output_bytes=local_bytes(shape, after_dims, itemsize_bytes, mesh),
                dim=dim,
            )
        )
        held, left = after_dims, left.difference(axes)
    left.difference_update(result.unreduced)
    if left:
        size_bytes = local_bytes(shape, held, itemsize_bytes, mesh)
        steps.append(
            Collective(
                kind=CollectiveKind.ALL_REDUCE,
                axes=tuple(axis for axis in mesh.names if axis in left),
                input_bytes=size_bytes,
                output_bytes=size_bytes,
            )
        )
    return tuple(steps)


def _uneven_text(layout: Sharding, shape: Shape, sizes: Mapping[str, int], where: str) -> str:
    ways = [math.prod(sizes[axis] for axis in axes) for axes in layout.dims]
    dim = next(d for d, (size, count) in enumerate(zip(shape, ways, strict=True)) if size % count)
    return f"dim {dim} of {where} has size {shape[dim]}, which does not divide by {ways[dim]}"
