"""All exact reductions, again and again until none finds anything.

Each keeps at least one best choice and the best cost, and can be undone (``Problem.restore``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from shardwright.solver.problem import Problem, drop_slack_moments
from shardwright.solver.reduce_dominated import drop_dominated
from shardwright.solver.reduce_forbidden import drop_forbidden
from shardwright.solver.reduce_memory import drop_too_large
from shardwright.solver.reduce_nodes import eliminate_nodes
from shardwright.solver.reduce_separable import push_separable

Reduction = Callable[[Problem, Iterable[int]], set[int]]

REDUCTIONS: tuple[Reduction, ...] = (
    drop_too_large,
    drop_forbidden,
    push_separable,
    drop_dominated,
    eliminate_nodes,
)
"""In the order in which they are tried: edges are normalised only when no row is all forbidden."""


def reduce_problem(
    problem: Problem, *, nodes: Iterable[int] | None = None, deadline_s: float = float("inf")
) -> None:
    """Reduce in place until nothing changes, time is up, or a node has no strategy left.

    Args:
        problem: what to reduce.
        nodes: where something may be found; None for everywhere.
        deadline_s: when to stop, by ``time.monotonic()``.
    """
    waiting = set(problem.nodes if nodes is None else nodes)
    while waiting and not problem.is_infeasible and time.monotonic() < deadline_s:
        waiting = _one_round(problem, waiting)
        if drop_slack_moments(problem):
            waiting.update(problem.nodes)


def _one_round(problem: Problem, waiting: set[int]) -> set[int]:
    """Try each reduction once at ``waiting``; returns where the next round may find something."""
    changed: set[int] = set()
    for reduction in REDUCTIONS:
        # Sorted, so that the result does not depend on how a set happens to iterate.
        changed |= reduction(problem, sorted((waiting | changed) & problem.costs.keys()))
        if problem.is_infeasible:
            return set()
    return _with_neighbours(problem, changed)


def _with_neighbours(problem: Problem, nodes: set[int]) -> set[int]:
    present = nodes & problem.costs.keys()
    return present.union(*(problem.edges[node].keys() for node in present))
