"""Every strategy of an operator on a mesh, and every even sharding of one tensor."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import final

from shardwright.cluster import Mesh
from shardwright.sharding.factor import FactorKind, OpRule
from shardwright.sharding.spec import DimAxes, Sharding
from shardwright.sharding.strategy import (
    Rejection,
    ScatterPairs,
    Shape,
    Strategy,
    refuse_factor,
    scattered,
    strategy_of,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """A reason why choices were left out.

    Attributes:
        reason: with the numbers that clash.
        count: how many placements (one axis on one factor) or combinations of them it rules out.
    """

    reason: str
    count: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySet:
    """The strategies of one operator on one mesh, the all-replicated one first."""

    strategies: tuple[Strategy, ...]
    pruned: tuple[Pruned, ...]


@lru_cache(maxsize=4096)
def enumerate_strategies(
    rule: OpRule,
    operand_shapes: tuple[Shape, ...],
    result_shapes: tuple[Shape, ...],
    mesh: Mesh,
) -> StrategySet:
    """Every strategy in which each axis cuts at most one factor, and what was left out.

    A cut reduction is finished by an all-reduce, and in further variants by a reduce-scatter onto
    one result dim. Axes on one factor stand in mesh order.
    """
    pruned: Counter[str] = Counter()
    axes = tuple(axis.name for axis in mesh.axes if axis.size > 1)
    choices = [_places(rule, axis, mesh, pruned) for axis in axes]
    strategies: list[Strategy] = []
    for chosen in itertools.product(*choices):
        factor_axes = _factor_axes(len(rule.factors), axes, chosen)
        base = strategy_of(rule, operand_shapes, result_shapes, factor_axes, mesh)
        if isinstance(base, Rejection):
            pruned[base.reason] += 1
            continue
        strategies.append(base)
        for scatter in _scatters(base, mesh):
            variant = scattered(base, rule, result_shapes, mesh, scatter)
            if isinstance(variant, Rejection):
                pruned[variant.reason] += 1
            else:
                strategies.append(variant)
    return StrategySet(
        strategies=tuple(strategies),
        pruned=tuple(Pruned(reason=reason, count=count) for reason, count in pruned.items()),
    )


@lru_cache(maxsize=4096)
def enumerate_shardings(
    shape: Shape, mesh: Mesh, whole_dims: tuple[int, ...] = ()
) -> tuple[Sharding, ...]:
    """Every even sharding of one tensor, the replicated one first.

    Each axis cuts at most one dim; axes on one dim stand in mesh order.

    Args:
        shape: of the whole tensor.
        mesh: the axes to cut by.
        whole_dims: dims that no axis may cut.
    """
    axes = tuple(axis.name for axis in mesh.axes if axis.size > 1)
    open_dims = [dim for dim, size in enumerate(shape) if size > 1 and dim not in whole_dims]
    found = []
    for chosen in itertools.product((-1, *open_dims), repeat=len(axes)):
        sharding = Sharding(dims=_factor_axes(len(shape), axes, chosen))
        if sharding.divides(shape, mesh.sizes):
            found.append(sharding)
    return tuple(found)


def _places(rule: OpRule, axis: str, mesh: Mesh, pruned: Counter[str]) -> list[int]:
    """Factors that the axis may cut, by position; -1 stands for none and comes first."""
    places = [-1]
    for position, factor in enumerate(rule.factors):
        if factor.size <= 1:
            continue
        reason = refuse_factor(factor, (axis,), mesh.sizes)
        if reason:
            whole = factor.kind is FactorKind.NEED_REPLICATION
            pruned[rule.fallback if rule.fallback and whole else reason] += 1
        else:
            places.append(position)
    return places


def _factor_axes(count: int, axes: tuple[str, ...], chosen: tuple[int, ...]) -> tuple[DimAxes, ...]:
    cut: list[DimAxes] = [()] * count
    for axis, position in zip(axes, chosen, strict=True):
        if position >= 0:
            cut[position] = (*cut[position], axis)
    return tuple(cut)


def _scatters(base: Strategy, mesh: Mesh) -> Iterator[ScatterPairs]:
    """Which unreduced axes go together onto which dim, where mesh order stays natural."""
    if not base.partials or not base.partials[0].unreduced:
        return
    rank = mesh.names.index
    unreduced = base.partials[0].unreduced
    for count in range(len(unreduced), 0, -1):
        for axes in itertools.combinations(unreduced, count):
            for dim, before in enumerate(base.results[0].dims):
                if not before or rank(before[-1]) < rank(axes[0]):
                    yield tuple((axis, dim) for axis in axes)
