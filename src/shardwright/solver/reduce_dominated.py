"""Reduction: drop a strategy when another of its node is never worse, whatever the neighbours do.

Strategy i dominates j when it uses no more memory and ::

    c[i] - c[j] + sum over edges e of max over k of (M[e][i, k] - M[e][j, k])  <=  0

where k runs over the neighbour's strategies that j may stand beside. Differences are taken between
classes of equal rows and columns, which are few.

Source: Goldstein, "Efficient rotamer elimination applied to protein side-chains", 1994 (the
criterion); Moffitt, "ModelSat/XLA strategy pruning" uses the same test without edges.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shardwright.solver.classes import row_classes
from shardwright.solver.problem import Floats, Mask, Problem

_MOST_WORK = 20_000_000
_ROUNDING = 4 * np.finfo(np.float64).eps


def drop_dominated(problem: Problem, nodes: Iterable[int]) -> set[int]:
    """Drop the dominated strategies of ``nodes``; returns the nodes that lost some."""
    changed: set[int] = set()
    for node in nodes:
        if node not in problem.costs or len(problem.costs[node]) < 2:
            continue
        keep = _undominated(_dominates(problem, node))
        if not keep.all():
            problem.keep_strategies(node, keep)
            changed.add(node)
    return changed


def _dominates(problem: Problem, node: int) -> Mask:
    """Matrix of whether strategy i may always stand in for strategy j."""
    costs = problem.costs[node]
    excess = costs[:, None] - costs
    for matrix in problem.edges[node].values():
        excess = excess + _worst_difference(matrix)
    scale = float(np.abs(costs).max())
    replaces = excess <= _ROUNDING * scale
    if problem.uses_memory(node):
        usages = problem.usages[node]
        replaces = replaces & (usages[:, None] <= usages)
    np.fill_diagonal(replaces, False)
    return np.asarray(replaces)


def _worst_difference(matrix: Floats) -> Floats:
    """Largest of M[i, k] - M[j, k] over the k that are allowed beside j."""
    table, of_row, _ = row_classes(matrix)
    rows, columns = table.shape
    if rows * rows * columns > _MOST_WORK:
        return np.full((len(matrix), len(matrix)), np.inf)
    allowed = np.isfinite(table)
    finite = np.where(allowed, table, 0.0)
    difference = np.where(allowed, finite[:, None, :] - finite, -np.inf)
    blocked = allowed[None, :, :] & ~allowed[:, None, :]
    worst = np.where(blocked, np.inf, difference).max(axis=2)
    return np.asarray(worst[np.ix_(of_row, of_row)])


def _undominated(replaces: Mask) -> Mask:
    """Which strategies stay. One at a time, so that of equals exactly one stays."""
    keep = np.ones(len(replaces), dtype=np.bool_)
    for strategy in np.flatnonzero(replaces.any(axis=0))[::-1]:
        keep[strategy] = not (replaces[:, strategy] & keep).any()
    return keep
