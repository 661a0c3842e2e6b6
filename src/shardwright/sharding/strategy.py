"""Strategies: which mesh axes cut which factors of an operator, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from shardwright.sharding.spec import DimAxes, Sharding


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
