"""Reduction: drop strategies that no whole choice can use.

A strategy is dropped when its own cost is forbidden or when some neighbour has no strategy left
that it may stand beside; dropping it may take away another's last support, so the work spreads.

Source: Mackworth, "Consistency in networks of relations", 1977 (arc consistency).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shardwright.solver.problem import Mask, Problem


def drop_forbidden(problem: Problem, nodes: Iterable[int]) -> set[int]:
    """Make ``nodes`` and what depends on them arc consistent; returns what changed."""
    waiting = dict.fromkeys(nodes)
    changed: set[int] = set()
    while waiting and not problem.is_infeasible:
        node, _ = waiting.popitem()
        if node not in problem.costs:
            continue
        keep = _supported(problem, node)
        if not keep.all():
            problem.keep_strategies(node, keep)
            changed.add(node)
            waiting.update(dict.fromkeys(problem.edges[node]))
    return changed


def _supported(problem: Problem, node: int) -> Mask:
    keep = np.isfinite(problem.costs[node])
    for matrix in problem.edges[node].values():
        keep = keep & np.isfinite(matrix).any(axis=1)
    return np.asarray(keep)
