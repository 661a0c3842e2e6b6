"""What a solve returns: a choice where there is one, how good it is, and why the search ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, final

from shardwright.solver.graph import FORBIDDEN


class Reason(StrEnum):
    """Why a search ended."""

    OPTIMAL = "optimal"
    """The choice costs at most the asked gap more than any other."""
    FEASIBLE = "feasible"
    """There is a choice, but a limit stopped the proof that it is near enough to the best."""
    INFEASIBLE = "infeasible"
    """It is proven that no choice keeps the limit and avoids all that is forbidden."""
    NO_SOLUTION_FOUND = "no_solution_found"
    """A limit stopped the search before it found a choice or a proof that there is none."""


class Limit(StrEnum):
    """Which limit stopped a search."""

    NONE = "none"
    TIME = "time"
    WORK = "work"
    INTERRUPT = "interrupt"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """Why the search ended, which limit stopped it, and one sentence more."""

    reason: Reason
    limit: Limit = Limit.NONE
    detail: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a search stands.

    Attributes:
        seconds: since it began.
        cost: of the best choice so far; None before there is one.
        lower_bound: no choice costs less.
    """

    seconds: float
    cost: float | None
    lower_bound: float


class Shortfall(NamedTuple):
    """The moment at which memory cannot suffice, and the fewest bytes that are missing there."""

    time: int
    size_bytes: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The answer of a solve.

    Attributes:
        choice: one strategy per node, or None.
        cost: exact cost of the choice; ``FORBIDDEN`` without one.
        lower_bound: no choice that keeps the limit costs less than this.
        gap: ``relative_gap(cost, lower_bound)``.
        termination: why the search ended.
        shortfall: of an infeasible problem, the moment and the bytes short; None when memory is not
            the reason.
    """

    choice: tuple[int, ...] | None
    cost: float | int
    lower_bound: float | int
    gap: float
    termination: Termination
    shortfall: Shortfall | None = None

    @property
    def is_feasible(self) -> bool:
        """Whether there is a choice to use."""
        return self.choice is not None


def relative_gap(cost: float | int, lower_bound: float | int) -> float:
    """How much of the cost is not proven needed: 0 is proven best, infinite without a choice."""
    if cost == FORBIDDEN:
        return math.inf
    difference = float(cost - lower_bound)
    return (
        max(0.0, difference) / abs(float(cost)) if cost else (math.inf if difference > 0 else 0.0)
    )
