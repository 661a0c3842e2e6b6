"""Reduction: eliminate nodes that have at most two neighbours and do not weigh on memory.

For each pair of strategies of the neighbours the node's best answer is known, so the node becomes
part of the neighbour's cost (one neighbour), of an edge between them (two), or a constant (none).
Edges that become parallel are added. A node of two neighbours is only taken when the new edge is no
larger than the two it replaces, so the problem never grows.

Source: Jia, Lin, Qi and Aiken, "Exploring Hidden Dimensions in Parallelizing Convolutional Neural
Networks" (OptCNN), ICML 2018, section 5.2: node elimination and edge elimination.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shardwright.solver.problem import Floats, Ints, Labels, Problem, Undo


def eliminate_nodes(problem: Problem, nodes: Iterable[int]) -> set[int]:
    """Eliminate what can be among ``nodes``, and what follows; returns the neighbours changed."""
    waiting = dict.fromkeys(nodes)
    changed: set[int] = set()
    while waiting:
        node, _ = waiting.popitem()
        if node not in problem.costs or not _can_go(problem, node):
            continue
        neighbours = tuple(problem.edges[node])
        _eliminate(problem, node, neighbours)
        waiting.update(dict.fromkeys(neighbours))
        changed.update(neighbours)
    return changed & problem.costs.keys()


def _can_go(problem: Problem, node: int) -> bool:
    if problem.uses_memory(node) or not len(problem.costs[node]):
        return False
    sizes = [len(problem.costs[other]) for other in problem.edges[node]]
    if len(sizes) < 2:
        return True
    own = len(problem.costs[node])
    return len(sizes) == 2 and sizes[0] * sizes[1] <= own * (sizes[0] + sizes[1])


def _eliminate(problem: Problem, node: int, neighbours: tuple[int, ...]) -> None:
    if not neighbours:
        _settle(problem, node)
        return
    to_first = problem.edges[node][neighbours[0]]
    own = problem.costs[node]
    if len(neighbours) == 1:
        totals = own[:, None] + to_first
        problem.costs[neighbours[0]] = problem.costs[neighbours[0]] + totals.min(axis=0)
        problem.remove_node(node, _answer(problem, node, neighbours, totals.argmin(axis=0)))
        return
    to_second = problem.edges[node][neighbours[1]]
    best, answers = _best_between(own, to_first, to_second)
    problem.remove_node(node, _answer(problem, node, neighbours, answers))
    problem.add_edge(neighbours[0], neighbours[1], best)


def _settle(problem: Problem, node: int) -> None:
    """Take the cheapest strategy of a node without neighbours."""
    best = int(problem.costs[node].argmin())
    label = int(problem.labels[node][best])
    problem.offset += float(problem.costs[node][best])

    def undo(choice: Labels) -> None:
        choice[node] = label

    problem.remove_node(node, undo)


def _best_between(own: Floats, to_first: Floats, to_second: Floats) -> tuple[Floats, Ints]:
    """Least cost of the node for each pair of its neighbours' strategies, and the strategy."""
    best = np.empty((to_first.shape[1], to_second.shape[1]))
    answers = np.empty(best.shape, dtype=np.int64)
    for row in range(len(best)):
        totals = (own + to_first[:, row])[:, None] + to_second
        answers[row] = totals.argmin(axis=0)
        best[row] = totals[answers[row], np.arange(best.shape[1])]
    return best, answers


def _answer(problem: Problem, node: int, neighbours: tuple[int, ...], answers: Ints) -> Undo:
    """How to choose for the node when its neighbours have chosen."""
    own = problem.labels[node]
    theirs = [problem.labels[other] for other in neighbours]

    def undo(choice: Labels) -> None:
        place = tuple(
            int(np.searchsorted(labels, choice[other]))
            for other, labels in zip(neighbours, theirs, strict=True)
        )
        choice[node] = int(own[answers[place]])

    return undo
