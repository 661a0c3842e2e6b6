"""The solver's front door: clean the problem, solve it, and say why the search ended."""

from __future__ import annotations

import math
import time

from shardwright.solver.graph import FORBIDDEN, StrategyGraph
from shardwright.solver.integer_program import least_overshoot, solve_integer_program
from shardwright.solver.problem import Labels, problem_of
from shardwright.solver.solution import (
    Limit,
    Reason,
    Shortfall,
    Solution,
    Termination,
    relative_gap,
)


def solve(
    graph: StrategyGraph,
    *,
    gap: float = 1e-4,
    time_limit_s: float = 60.0,
    start: tuple[int, ...] | None = None,
    seed: int = 0,
) -> Solution:
    """A choice within ``gap`` of the best, or the reason why there is none.

    Args:
        graph: the problem.
        gap: relative gap between cost and lower bound at which the search may end.
        time_limit_s: wall clock seconds after which it ends with what it has.
        start: a choice to begin from, such as an earlier plan; ignored where it does not fit.
        seed: of the solver's tie breaking; the same seed gives the same answer.
    """
    deadline = time.monotonic() + time_limit_s
    problem = problem_of(graph)
    begin = dict(enumerate(start)) if start is not None and graph.fits(start) else None
    result = solve_integer_program(
        problem, gap=gap, time_limit_s=deadline - time.monotonic(), start=begin, seed=seed
    )
    if result.choice is None and result.is_infeasible:
        return _infeasible(graph)
    if result.choice is None:
        return Solution(
            choice=None,
            cost=FORBIDDEN,
            lower_bound=result.bound,
            gap=math.inf,
            termination=Termination(reason=Reason.NO_SOLUTION_FOUND, limit=Limit.TIME),
        )
    return _found(graph, result.choice, result.bound, gap)


def _found(graph: StrategyGraph, labels: Labels, bound: float, gap: float) -> Solution:
    choice = tuple(labels[node] for node in range(graph.num_nodes))
    cost = graph.evaluate(choice)
    bound = min(bound, cost)
    reached = relative_gap(cost, bound)
    done = reached <= gap
    return Solution(
        choice=choice,
        cost=cost,
        lower_bound=bound,
        gap=reached,
        termination=Termination(
            reason=Reason.OPTIMAL if done else Reason.FEASIBLE,
            limit=Limit.NONE if done else Limit.TIME,
        ),
    )


def _infeasible(graph: StrategyGraph) -> Solution:
    shortfall = None
    overshoot = least_overshoot(problem_of(graph), time_limit_s=10.0)
    if overshoot is not None and graph.usage_limit is not None:
        choice = tuple(overshoot[1][node] for node in range(graph.num_nodes))
        peak, moment = graph.peak_usage(choice)
        shortfall = Shortfall(moment, peak - graph.usage_limit)
    return Solution(
        choice=None,
        cost=FORBIDDEN,
        lower_bound=FORBIDDEN,
        gap=math.inf,
        termination=Termination(reason=Reason.INFEASIBLE),
        shortfall=shortfall,
    )
