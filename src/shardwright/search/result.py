"""What a search answers: a plan or the reason why there is none, and always a bound.

Running out of time or memory is a result, not an exception. A result that is not proven best says
how far from it the bound still is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import final

from shardwright.plan.record import Plan


class Outcome(StrEnum):
    """How a search ended."""

    OPTIMAL = "optimal"
    """The plan is best in the searched space, within the gap that was asked for."""
    FEASIBLE = "feasible"
    """The plan fits, but a limit ended the search above the gap that was asked for."""
    DOES_NOT_FIT = "does not fit"
    """No choice keeps every device within its memory."""
    REFUSED = "refused"
    """The recipe makes no sense for this model on these meshes."""
    BEATEN = "beaten"
    """Of one mesh: its bound is no better than a plan that another mesh already gave."""
    NOT_SEARCHED = "not searched"
    """Of one mesh: the time for the whole search was over before its search had ended."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Where memory ends, when nothing fits.

    Attributes:
        needed_bytes: what the busiest device would hold then under the leanest choice found.
        budget_bytes: what it may hold.
        moment: the operator that runs then, with its source line.
        largest: (tensor name, bytes per device) of what is held then, largest first.
    """

    needed_bytes: int
    budget_bytes: int
    moment: str
    largest: tuple[tuple[str, int], ...]

    @property
    def short_bytes(self) -> int:
        """How many bytes are missing."""
        return self.needed_bytes - self.budget_bytes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One mesh that was searched.

    Attributes:
        mesh: its text.
        objective_s: seconds per step of its best choice; infinite when it has none.
        lower_bound_s: no choice on this mesh is better.
        peak_bytes: of that choice on the busiest device.
        search_time_s: wall time spent.
        outcome: how its search ended.
        note: why it was refused or what ended it.
    """

    mesh: str
    objective_s: float
    lower_bound_s: float
    peak_bytes: int
    search_time_s: float
    outcome: Outcome
    note: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The answer of a search.

    Attributes:
        plan: the best plan, or None.
        outcome: how the search ended.
        objective_s: seconds per step of the plan; infinite without one.
        lower_bound_s: nothing in the searched space is better.
        gap: (objective - bound) / objective.
        candidates: every mesh that was searched, best first.
        shortage: when nothing fits, what is short.
        detail: one sentence on the reason.
    """

    plan: Plan | None
    outcome: Outcome
    objective_s: float
    lower_bound_s: float
    gap: float
    candidates: tuple[Candidate, ...]
    shortage: Shortage | None = None
    detail: str = ""
