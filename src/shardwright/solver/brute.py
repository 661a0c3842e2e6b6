"""Every choice, one after another: the judge of all cleverer solvers, for small graphs only."""

from __future__ import annotations

import itertools
import math

from shardwright.errors import UsageError
from shardwright.solver.graph import FORBIDDEN, StrategyGraph
from shardwright.solver.solution import Reason, Shortfall, Solution, Termination

_MOST_CHOICES = 2_000_000


def solve_brute_force(graph: StrategyGraph) -> Solution:
    """The first of the best choices in lexicographic order, by trying all of them.

    Raises:
        UsageError: the graph has more than two million choices.
    """
    count = math.prod(graph.num_strategies)
    if count > _MOST_CHOICES:
        raise UsageError(
            f"brute force tries at most {_MOST_CHOICES} choices; this graph has {count}.",
            hint="solve(graph)",
        )
    best: tuple[int, ...] | None = None
    best_cost: float | int = FORBIDDEN
    for choice in itertools.product(*(range(size) for size in graph.num_strategies)):
        cost = graph.evaluate(choice)
        if cost < best_cost and graph.fits(choice):
            best, best_cost = choice, cost
    if best is None:
        return _infeasible(graph)
    return Solution(
        choice=best,
        cost=best_cost,
        lower_bound=best_cost,
        gap=0.0,
        termination=Termination(reason=Reason.OPTIMAL, detail="all choices tried"),
    )


def _infeasible(graph: StrategyGraph) -> Solution:
    return Solution(
        choice=None,
        cost=FORBIDDEN,
        lower_bound=FORBIDDEN,
        gap=math.inf,
        termination=Termination(reason=Reason.INFEASIBLE, detail="all choices tried"),
        shortfall=_least_shortfall(graph),
    )


def _least_shortfall(graph: StrategyGraph) -> Shortfall | None:
    """The least overshoot of the peak over all allowed choices, at the time where it is."""
    least: Shortfall | None = None
    for choice in itertools.product(*(range(size) for size in graph.num_strategies)):
        if graph.usage_limit is None or graph.evaluate(choice) == FORBIDDEN:
            continue
        peak, time = graph.peak_usage(choice)
        if least is None or peak - graph.usage_limit < least.size_bytes:
            least = Shortfall(time, peak - graph.usage_limit)
    return least
