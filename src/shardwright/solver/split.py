"""Splitting a problem in two: where the bound pretends most.

Where memory binds, that is the node whose usage differs most within the mixture of choices behind
the bound: at most its mean usage on one side, more on the other. Where tables had to be split, it
is a node with copies: its cheaper strategies on one side, the dearer ones on the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from shardwright.solver.multipliers import Priced
from shardwright.solver.narrow import Through
from shardwright.solver.problem import Mask, Problem
from shardwright.solver.reduce import reduce_problem


def split(problem: Problem, whole: Problem, priced: Priced, through: Through) -> Iterator[Problem]:
    """Two reduced problems that together hold all choices of ``problem``.

    Args:
        problem: what to split.
        whole: what it was when it was priced; it may have had more strategies.
        priced: the bound on ``whole`` and what it mixes.
        through: the bounds by strategy on ``whole``.
    """
    at = _most_mixed(problem, whole, priced)
    if at is None:
        node = _most_copied(problem, priced)
        below = _cheaper_half(problem, whole, node, through)
    else:
        node = at[0]
        below = np.asarray(problem.usages[node] <= at[1])
    for keep in (below, ~below):
        side = problem.copy()
        side.keep_strategies(node, keep)
        reduce_problem(side, nodes=(node, *side.edges[node]))
        yield side


def _most_mixed(problem: Problem, whole: Problem, priced: Priced) -> tuple[int, float] | None:
    """The node whose usage the mixture spreads most, and its mean usage there."""
    best, best_spread = None, 0.0
    for node, own in problem.usages.items():
        if not problem.uses_memory(node):
            continue
        usages = [(w, int(whole.usages[node][places[node]])) for w, places in priced.mixture]
        mean = sum(w * usage for w, usage in usages)
        spread = sum(w * abs(usage - mean) for w, usage in usages)
        if spread > best_spread and int(own.min()) <= mean < int(own.max()):
            best, best_spread = (node, mean), spread
    return best


def _most_copied(problem: Problem, priced: Priced) -> int:
    """The node with most copies among the tables, and then with most strategies."""
    buckets = () if priced.run is None else priced.run.program.buckets
    copies = Counter(bucket.node for bucket in buckets)
    open_nodes = [node for node, costs in problem.costs.items() if len(costs) > 1]
    return max(open_nodes, key=lambda node: (copies[node], len(problem.costs[node]), -node))


def _cheaper_half(problem: Problem, whole: Problem, node: int, through: Through) -> Mask:
    """The strategies with the lesser bounds."""
    totals = problem.costs[node]
    if node in through:
        totals = through[node][np.searchsorted(whole.labels[node], problem.labels[node])]
    rank = np.empty(len(totals), dtype=np.int64)
    rank[np.argsort(totals, kind="stable")] = np.arange(len(totals))
    return np.asarray(rank < len(totals) // 2)
