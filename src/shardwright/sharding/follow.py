"""The strategy that one operator takes on when a neighbour already decides one of its tensors.

Source:
    Propagation from one tensor through an operator's factors, as in GSPMD (Xu et al., 2021,
    section 3) and Shardy's factor propagation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

from shardwright.cluster import Mesh
from shardwright.errors import ShardingError
from shardwright.sharding.factor import OpRule, TensorFactors
from shardwright.sharding.spec import DimAxes, Sharding
from shardwright.sharding.strategy import Rejection, Shape, Strategy, strategy_of

_Build = Callable[[tuple[DimAxes, ...]], Strategy | Rejection]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A strategy implied by one tensor's sharding.

    Attributes:
        strategy: with cut reductions all-reduced.
        dropped: axes of that sharding that the operator cannot carry; they are gathered (or, where
            unreduced, reduced) before it starts.
    """

    strategy: Strategy
    dropped: tuple[str, ...]


@lru_cache(maxsize=65536)
def follow(
    rule: OpRule,
    operand_shapes: tuple[Shape, ...],
    result_shapes: tuple[Shape, ...],
    mesh: Mesh,
    operand: int,
    sharding: Sharding,
) -> Followed:
    """The strategy implied when ``operand`` arrives cut by ``sharding``."""
    dims = rule.operands[operand]
    return _follow(rule, operand_shapes, result_shapes, mesh, dims, sharding)


@lru_cache(maxsize=65536)
def follow_result(
    rule: OpRule,
    operand_shapes: tuple[Shape, ...],
    result_shapes: tuple[Shape, ...],
    mesh: Mesh,
    result: int,
    sharding: Sharding,
) -> Followed:
    """The strategy under which ``result`` leaves cut by ``sharding``, as far as it can."""
    dims = rule.results[result]
    return _follow(rule, operand_shapes, result_shapes, mesh, dims, sharding)


def _follow(
    rule: OpRule,
    operand_shapes: tuple[Shape, ...],
    result_shapes: tuple[Shape, ...],
    mesh: Mesh,
    dims: TensorFactors,
    sharding: Sharding,
) -> Followed:
    if len(dims) != sharding.rank:
        raise ShardingError(
            f"the sharding {sharding} has {sharding.rank} dims, the tensor has {len(dims)}",
            where=f"rule {rule}",
        )

    def build(factor_axes: tuple[DimAxes, ...]) -> Strategy | Rejection:
        return strategy_of(rule, operand_shapes, result_shapes, factor_axes, mesh)

    best = build(((),) * len(rule.factors))
    assert isinstance(best, Strategy), best
    cuts = [(axis, d) for d, axes in enumerate(sharding.dims) for axis in axes]
    waiting = [(axis, dim) for axis, dim in cuts if mesh.size(axis) > 1]
    # An axis may become possible only after another is placed, so the refused ones are tried again.
    progress = True
    while waiting and progress:
        progress, refused = False, []
        for axis, dim in waiting:
            extended = _place(best, axis, dims[dim], sharding.dims[dim], build)
            if extended is None:
                refused.append((axis, dim))
            else:
                best, progress = extended, True
        waiting = refused
    dropped = (*(axis for axis, _ in waiting), *sharding.unreduced)
    return Followed(strategy=best, dropped=dropped)


def _place(
    current: Strategy, axis: str, factors: tuple[int, ...], order: DimAxes, build: _Build
) -> Strategy | None:
    """``current`` with ``axis`` on the first factor of the dim that takes it in the dim's order."""
    for position in factors:
        cut = list(current.factor_axes)
        cut[position] = (*cut[position], axis)
        placed = [name for factor in factors for name in cut[factor]]
        if placed != [name for name in order if name in placed]:
            continue
        extended = build(tuple(cut))
        if isinstance(extended, Strategy):
            return extended
    return None
