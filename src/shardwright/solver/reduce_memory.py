"""Reduction: drop strategies that leave too little memory even for the leanest others.

At each moment the room of a node is the limit less the least usages of all other nodes alive then.
A strategy that uses more than the least room of its life is in no choice that fits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shardwright.solver.moments import usage_per_moment
from shardwright.solver.problem import Ints, Problem


def drop_too_large(problem: Problem, nodes: Iterable[int]) -> set[int]:
    """Drop what cannot fit; returns the nodes that lost strategies.

    All nodes are looked at where any of ``nodes`` may have changed: they share the room. Sets
    ``is_infeasible`` when even the least usages do not fit.
    """
    changed: set[int] = set()
    if not len(problem.limits) or not any(True for _ in nodes):
        return changed
    spare = spare_per_moment(problem)
    if int(spare.min()) < 0:
        problem.is_infeasible = True
        return changed
    for node in problem.nodes:
        first, end = problem.spans[node]
        if first >= end:
            continue
        usages = problem.usages[node]
        keep = usages <= int(usages.min()) + int(spare[first:end].min())
        if not keep.all():
            problem.keep_strategies(node, np.asarray(keep))
            changed.add(node)
    return changed


def spare_per_moment(problem: Problem) -> Ints:
    """Bytes left at each moment when every node uses its least; negative where that is too much."""
    nodes = problem.nodes
    least = usage_per_moment(
        [problem.spans[node] for node in nodes],
        [int(problem.usages[node].min(initial=2**62)) for node in nodes],
        len(problem.limits),
    )
    return problem.limits - least
