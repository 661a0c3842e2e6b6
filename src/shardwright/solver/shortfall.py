"""How far an infeasible problem is from fitting: the moment, and the fewest bytes missing there."""

from __future__ import annotations

import time

from shardwright.solver.graph import StrategyGraph
from shardwright.solver.integer_program import least_overshoot
from shardwright.solver.problem import problem_of
from shardwright.solver.reduce_forbidden import drop_forbidden
from shardwright.solver.solution import Shortfall


def least_shortfall(graph: StrategyGraph, *, deadline_s: float) -> Shortfall | None:
    """What must be added to the limit before some choice fits, and when it is missing.

    None when every choice is forbidden, however much memory there is, or memory has no limit.
    """
    if graph.usage_limit is None:
        return None
    problem = problem_of(graph)
    drop_forbidden(problem, problem.nodes)
    if problem.is_infeasible:
        return None
    places = least_overshoot(problem, time_limit_s=deadline_s - time.monotonic())
    if places is None:
        return None
    labels = problem.labelled(places)
    peak, moment = graph.peak_usage([labels[node] for node in range(graph.num_nodes)])
    return Shortfall(moment, peak - graph.usage_limit)
