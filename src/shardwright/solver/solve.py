"""The solver's front door: make the problem small, search it, and say why the search ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from shardwright.solver.arrays import flatten
from shardwright.solver.budget import Budget
from shardwright.solver.exact import least_overshoot
from shardwright.solver.graph import FORBIDDEN, StrategyGraph
from shardwright.solver.portfolio import Portfolio
from shardwright.solver.reduce import Reduced, allowed, reduced
from shardwright.solver.solution import (
    Limit,
    Progress,
    Reason,
    Shortfall,
    Solution,
    Termination,
    relative_gap,
)

_ROUNDING = 1e-10
"""Share of a bound that its floating sums may be wrong by."""

_OVERSHOOT_S = 10.0
_LARGEST_PROGRAM = 150_000


def solve(
    graph: StrategyGraph,
    *,
    gap: float = 1e-4,
    time_limit_s: float = 60.0,
    start: tuple[int, ...] | None = None,
    seed: int = 0,
    num_threads: int = 2,
    work_limit: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """A choice within ``gap`` of the best, or the reason why there is none.

    The search can be interrupted (``KeyboardInterrupt``) and then returns its best so far.

    Args:
        graph: the problem.
        gap: relative gap between cost and lower bound at which the search may end.
        time_limit_s: wall clock seconds after which it ends with what it has.
        start: a choice to be no worse than, such as an earlier plan; ignored where it does not fit.
        seed: of the random walks and of tie breaking.
        num_threads: threads that work side by side.
        work_limit: table entries that each thread may read before it ends; with it the same seed
            and number of threads give the same answer whatever the clock says.
        progress: is told each better choice and bound.
    """
    began = time.monotonic()
    small = _reduced(graph)
    budget = Budget(deadline=began + time_limit_s, time_limit_s=time_limit_s, work_limit=work_limit)
    search = Portfolio(
        flat=small.flat,
        budget=budget,
        gap=gap,
        seed=seed,
        num_threads=num_threads,
        offset=small.offset,
        report=_reporter(progress, began, small.offset),
    )
    if not small.is_infeasible:
        search.run()
    return _answer(graph, small, search, start)


def solve_exact(
    graph: StrategyGraph, *, gap: float = 1e-9, time_limit_s: float = 60.0, seed: int = 0
) -> Solution:
    """The best choice of a small graph by the integer program alone, after exact reduction.

    Args:
        graph: the problem; a few thousand strategies at most.
        gap: relative gap between cost and lower bound at which it may end.
        time_limit_s: wall clock seconds after which it ends with what it has.
        seed: of the integer program's tie breaking.
    """
    began = time.monotonic()
    small = _reduced(graph)
    search = Portfolio(
        flat=small.flat,
        budget=Budget(deadline=began + time_limit_s, time_limit_s=time_limit_s),
        gap=gap,
        seed=seed,
        num_threads=1,
        offset=small.offset,
        report=_reporter(None, began, small.offset),
    )
    if not small.is_infeasible:
        search.take(search.solve_program())
    return _answer(graph, small, search, None)


def _reduced(graph: StrategyGraph) -> Reduced:
    flat, times = flatten(graph)
    return reduced(flat, np.array(times, dtype=np.int64))


def _reporter(
    progress: Callable[[Progress], None] | None, began: float, offset: float
) -> Callable[[float, float], None]:
    """What tells the caller of a cost and a bound of the reduced problem."""

    def report(cost: float, bound: float) -> None:
        if progress is not None:
            progress(
                Progress(
                    seconds=time.monotonic() - began,
                    cost=cost + offset if cost < math.inf else None,
                    lower_bound=bound + offset,
                )
            )

    return report


def _answer(
    graph: StrategyGraph, small: Reduced, search: Portfolio, start: tuple[int, ...] | None
) -> Solution:
    if small.is_infeasible or (search.best is None and search.is_complete):
        return _infeasible(graph)
    bound = search.bound + small.offset
    bound -= _ROUNDING * abs(bound)
    found = None if search.best is None else tuple(small.restore(search.best).tolist())
    candidates = [c for c in (found, start) if c is not None and graph.fits(c)]
    limit = search.budget.limit
    if not candidates:
        return Solution(
            choice=None,
            cost=FORBIDDEN,
            lower_bound=bound,
            gap=math.inf,
            termination=Termination(reason=Reason.NO_SOLUTION_FOUND, limit=limit),
        )
    cost, choice = min((graph.evaluate(candidate), candidate) for candidate in candidates)
    if len(small.flat.nodes.cost) == 0 or bound > cost:
        bound = cost
    reached = relative_gap(cost, bound)
    done = reached <= search.gap
    return Solution(
        choice=choice,
        cost=cost,
        lower_bound=bound,
        gap=reached,
        termination=Termination(
            reason=Reason.OPTIMAL if done else Reason.FEASIBLE,
            limit=Limit.NONE if done else limit,
        ),
    )


def _infeasible(graph: StrategyGraph) -> Solution:
    return Solution(
        choice=None,
        cost=FORBIDDEN,
        lower_bound=FORBIDDEN,
        gap=math.inf,
        termination=Termination(reason=Reason.INFEASIBLE),
        shortfall=None if graph.usage_limit is None else _shortfall(graph),
    )


def _shortfall(graph: StrategyGraph) -> Shortfall | None:
    """The moment that cannot be served and the bytes missing there; None if memory is not why.

    On a large graph every node is taken to use its least, which some choice may not reach.
    """
    whole, times = flatten(graph)
    flat = allowed(whole)
    if flat is None:
        return None
    if len(flat.edges.table) <= _LARGEST_PROGRAM:
        found = least_overshoot(flat, time_limit_s=_OVERSHOOT_S)
        if found is not None:
            return Shortfall(times[found[0]], found[1])
    worst = int(np.argmin(flat.limits))
    missing = -int(flat.limits[worst])
    return Shortfall(times[worst], missing) if missing > 0 else None
