"""The solver's front door: reduce, bound, search, prove, and say why it ended.

1. ``problem_of``: forbidden is infinite, parallel edges are added, times become moments.
2. ``reduce_problem``: exact reductions, again and again.
3. ``BranchAndBound``: the dynamic program under prices of memory bounds what is left, and drops
   what it proves too dear; local search and the integer program find choices; splits close the gap.
4. Infeasible problems are asked how many bytes are missing.
"""

from __future__ import annotations

import math
import time

from shardwright.solver.branch import BranchAndBound
from shardwright.solver.graph import FORBIDDEN, StrategyGraph
from shardwright.solver.incumbent import Incumbent, OnProgress
from shardwright.solver.problem import problem_of
from shardwright.solver.reduce import reduce_problem
from shardwright.solver.shortfall import least_shortfall
from shardwright.solver.solution import Limit, Reason, Solution, Termination, relative_gap


def solve(
    graph: StrategyGraph,
    *,
    gap: float = 1e-4,
    time_limit_s: float = 60.0,
    start: tuple[int, ...] | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Solution:
    """A choice within ``gap`` of the best, or the reason why there is none.

    The same graph gives the same answer unless the time limit cuts the search short.

    Args:
        graph: the problem.
        gap: relative gap between cost and lower bound at which the search may end.
        time_limit_s: wall clock seconds after which it ends with what it has.
        start: a choice to begin from, such as an earlier plan; of no effect where it does not fit.
        seed: of the integer program's tie breaking.
        on_progress: called with (cost, bound) as they improve.

    Raises:
        UsageError: ``start`` is not a choice of this graph.
    """
    deadline_s = time.monotonic() + time_limit_s
    incumbent = Incumbent(graph, gap, on_progress)
    if start is not None:
        incumbent.offer_labels(dict(enumerate(start)))
    problem = problem_of(graph)
    reduce_problem(problem, deadline_s=deadline_s)
    bound = BranchAndBound(incumbent, deadline_s=deadline_s, seed=seed).run(problem)
    if incumbent.choice is not None:
        return _found(graph, incumbent, bound)
    if bound == math.inf:
        return _infeasible(graph, deadline_s)
    return _nothing(bound)


def _found(graph: StrategyGraph, incumbent: Incumbent, bound: float) -> Solution:
    cost = incumbent.cost
    lower_bound: float | int = min(bound, cost)
    if graph.is_integral and lower_bound < cost and math.isfinite(lower_bound):
        lower_bound = min(int(cost), math.ceil(bound - 1e-9 * abs(bound)))
    gap = relative_gap(cost, lower_bound)
    is_proven = gap <= incumbent.gap
    termination = Termination(
        reason=Reason.OPTIMAL if is_proven else Reason.FEASIBLE,
        limit=Limit.NONE if is_proven else Limit.TIME,
        detail=f"cost {cost:.6g}, at least {lower_bound:.6g} is needed (gap {gap:.2g})",
    )
    return Solution(
        choice=incumbent.choice,
        cost=cost,
        lower_bound=lower_bound,
        gap=gap,
        termination=termination,
    )


def _infeasible(graph: StrategyGraph, deadline_s: float) -> Solution:
    shortfall = least_shortfall(graph, deadline_s=max(deadline_s, time.monotonic() + 1.0))
    if shortfall is None:
        detail = "every choice uses something forbidden"
    else:
        detail = f"at time {shortfall.time} every choice needs {shortfall.size_bytes} bytes more"
    return Solution(
        choice=None,
        cost=FORBIDDEN,
        lower_bound=FORBIDDEN,
        gap=math.inf,
        termination=Termination(reason=Reason.INFEASIBLE, detail=detail),
        shortfall=shortfall,
    )


def _nothing(bound: float) -> Solution:
    return Solution(
        choice=None,
        cost=FORBIDDEN,
        lower_bound=bound,
        gap=math.inf,
        termination=Termination(
            reason=Reason.NO_SOLUTION_FOUND,
            limit=Limit.TIME,
            detail="no choice that fits was found in time, and no proof that there is none",
        ),
    )
