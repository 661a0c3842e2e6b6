"""Reduction: what an edge says about one end alone is moved into that end's node.

Subtracting each row's least entry and then each column's leaves every total as it was when the
nodes take them up. A matrix that was a row vector plus a column vector becomes zero, and zero edges
go.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shardwright.solver.problem import Floats, Problem

_ROUNDING = 8 * np.finfo(np.float64).eps


def push_separable(problem: Problem, nodes: Iterable[int]) -> set[int]:
    """Normalise every edge at ``nodes``; returns the ends of edges that changed.

    Afterwards every row and column of an edge has a zero and no entry is negative. Needs arc
    consistency: a row of forbidden entries has no least one.
    """
    changed: set[int] = set()
    for u in nodes:
        if u not in problem.edges:
            continue
        for v in tuple(problem.edges[u]):
            if _normalise(problem, u, v):
                changed.update((u, v))
    return changed


def _normalise(problem: Problem, u: int, v: int) -> bool:
    matrix = problem.edges[u][v]
    rows = matrix.min(axis=1)
    columns = (matrix - rows[:, None]).min(axis=0)
    if not rows.any() and not columns.any():
        if not matrix.any():
            problem.drop_edge(u, v)
            return True
        return False
    rest = _without_noise(matrix - rows[:, None] - columns, matrix)
    problem.costs[u] = problem.costs[u] + rows
    problem.costs[v] = problem.costs[v] + columns
    if rest.any():
        problem.set_edge(u, v, rest)
    else:
        problem.drop_edge(u, v)
    return True


def _without_noise(rest: Floats, matrix: Floats) -> Floats:
    """``rest`` with entries that are only rounding of larger numbers made exactly zero."""
    scale = float(np.abs(matrix, where=np.isfinite(matrix), out=np.zeros_like(matrix)).max())
    return np.where(rest <= _ROUNDING * scale, 0.0, rest)
