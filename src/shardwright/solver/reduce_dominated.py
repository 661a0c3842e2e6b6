"""Reduction: drop a strategy when another of its node is never worse, whatever the neighbours do.

Strategy i dominates j when it uses no more memory and ::

    c[i] - c[j] + sum over edges e of max over k of (M[e][i, k] - M[e][j, k])  <=  0

where k runs over the neighbour's strategies that j may stand beside. Any k bounds a maximum from
below, so a few of them rule out most pairs, and whole maxima are taken for the pairs that are left.

Source: Goldstein, "Efficient rotamer elimination applied to protein side-chains", 1994 (the
criterion); Moffitt, "ModelSat/XLA strategy pruning" uses the same test without edges.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shardwright.solver.classes import row_classes
from shardwright.solver.problem import Floats, Ints, Mask, Problem

_ROUNDING = 4 * np.finfo(np.float64).eps
_FIRST_LOOK = 6
"""Columns of each edge that are looked at for all pairs."""
_BLOCK = 100_000
"""Entries compared at once: what fits a cache."""


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
    slack = _ROUNDING * float(np.abs(costs).max())
    tables = [row_classes(matrix)[:2] for matrix in problem.edges[node].values()]
    glimpses = [_glimpse(table) for table, _ in tables]
    least = costs[:, None] - costs
    with np.errstate(invalid="ignore"):  # what is forbidden beside what is free proves nothing
        for (_, of_row), glimpse in zip(tables, glimpses, strict=True):
            least = least + glimpse[np.ix_(of_row, of_row)]
        better, worse = np.nonzero((least <= slack) & _may_by_usage(problem, node))
    excess = costs[better] - costs[worse]
    for table, of_row in tables:
        excess = excess + _worst_difference(table, of_row[better], of_row[worse])
        left = excess < np.inf
        better, worse, excess = better[left], worse[left], excess[left]
    better, worse = better[excess <= slack], worse[excess <= slack]
    replaces = np.zeros(least.shape, dtype=np.bool_)
    replaces[better, worse] = True
    return replaces


def _may_by_usage(problem: Problem, node: int) -> Mask:
    """The pairs of different strategies of which the first uses no more memory."""
    usages = problem.usages[node]
    may = np.ones((len(usages), len(usages)), dtype=np.bool_)
    if problem.uses_memory(node):
        may = usages[:, None] <= usages
    np.fill_diagonal(may, False)
    return may


def _glimpse(table: Floats) -> Floats:
    """Per pair of rows, the largest difference over the few columns that differ most."""
    spread = np.where(np.isfinite(table), table, 0.0).std(axis=0)
    seen = np.full((len(table), len(table)), -np.inf)
    for column in table[:, np.argsort(-spread, kind="stable")[:_FIRST_LOOK]].T:
        np.maximum(seen, _difference(column[:, None], column), out=seen)
    return seen


def _difference(mine: Floats, theirs: Floats) -> Floats:
    """``mine - theirs`` where the other is allowed; nothing to lose where it is not."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(theirs), mine - theirs, -np.inf)


def _worst_difference(table: Floats, better: Ints, worse: Ints) -> Floats:
    """Per pair of rows, the largest difference over the columns that the second allows."""
    rows = max(1, _BLOCK // max(1, table.shape[1]))
    parts = [np.zeros(0)] + [
        _difference(table[better[at : at + rows]], table[worse[at : at + rows]]).max(axis=1)
        for at in range(0, len(better), rows)
    ]
    return np.concatenate(parts)


def _undominated(replaces: Mask) -> Mask:
    """Which strategies stay. One at a time, so that of equals exactly one stays."""
    keep = np.ones(len(replaces), dtype=np.bool_)
    for strategy in np.flatnonzero(replaces.any(axis=0))[::-1]:
        keep[strategy] = not (replaces[:, strategy] & keep).any()
    return keep
