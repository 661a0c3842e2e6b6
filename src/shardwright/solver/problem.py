"""The solver's working form of a graph: floats, simple edges, moments; reductions change it.

Every strategy keeps its *label*, its number in the graph that was given, so that a choice can be
read back whatever has been dropped. Removed nodes leave an *undo*: a function that reads the choice
of the nodes left and adds its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.graph import StrategyGraph, as_float
from shardwright.solver.moments import compress_times, usage_per_moment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Labels = dict[int, int]
"""A choice by label: node to strategy number in the given graph."""

Undo = Callable[[Labels], None]


@final
@dataclass(slots=True, kw_only=True)
class Problem:
    """One problem being reduced. Mutable on purpose: reductions work on it in place.

    Attributes:
        costs: per node left, the cost of each strategy left.
        usages: per node left, the bytes of each strategy left.
        labels: per node left, the number of each strategy left in the given graph, ascending.
        spans: per node, its life in moments; ``(0, 0)`` where memory cannot bind.
        edges: per node, its neighbours and the cost matrix seen from it; both directions are kept
            and are views of the same numbers.
        limits: bytes left for the nodes left, per moment; empty when nothing can bind.
        times: the original time of each moment.
        offset: cost already decided.
        undos: how to put removed nodes back; applied last to first.
        is_infeasible: some node has no strategy left.
    """

    costs: dict[int, Floats]
    usages: dict[int, Ints]
    labels: dict[int, Ints]
    spans: dict[int, tuple[int, int]]
    edges: dict[int, dict[int, Floats]]
    limits: Ints
    times: tuple[int, ...]
    offset: float = 0.0
    undos: list[Undo] = field(default_factory=list)
    is_infeasible: bool = False

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes left, in their first order."""
        return tuple(self.costs)

    def pairs(self) -> list[tuple[int, int]]:
        """Edges left, each once, with the lower node first."""
        return [(u, v) for u in self.edges for v in self.edges[u] if u < v]

    def uses_memory(self, node: int) -> bool:
        """Whether the node's choice matters to a moment that can bind."""
        first, end = self.spans[node]
        if first >= end:
            return False
        usages = self.usages[node]
        return bool((usages != usages[0]).any())

    def set_edge(self, u: int, v: int, matrix: Floats) -> None:
        """Make ``matrix`` (strategies of u, strategies of v) the cost between u and v."""
        self.edges[u][v] = matrix
        self.edges[v][u] = matrix.T

    def add_edge(self, u: int, v: int, matrix: Floats) -> None:
        """Add ``matrix`` to the cost between u and v."""
        present = self.edges[u].get(v)
        self.set_edge(u, v, matrix if present is None else present + matrix)

    def drop_edge(self, u: int, v: int) -> None:
        """Forget the edge between u and v."""
        del self.edges[u][v]
        del self.edges[v][u]

    def keep_strategies(self, node: int, keep: Mask) -> None:
        """Drop the node's strategies where ``keep`` is False."""
        if not keep.any():
            self.is_infeasible = True
        self.costs[node] = self.costs[node][keep]
        self.usages[node] = self.usages[node][keep]
        self.labels[node] = self.labels[node][keep]
        for other in self.edges[node]:
            self.set_edge(node, other, self.edges[node][other][keep])

    def remove_node(self, node: int, undo: Undo) -> None:
        """Take the node and its edges out; its usage, the same for all strategies, stays."""
        first, end = self.spans[node]
        if first < end:
            self.limits[first:end] -= int(self.usages[node][0])
        for other in tuple(self.edges[node]):
            self.drop_edge(node, other)
        for table in (self.costs, self.usages, self.labels, self.spans, self.edges):
            del table[node]
        self.undos.append(undo)

    def restore(self, choice: Labels) -> Labels:
        """The choice by label of every node, from that of the nodes left."""
        full = dict(choice)
        for undo in reversed(self.undos):
            undo(full)
        return full


def problem_of(graph: StrategyGraph) -> Problem:
    """The working form: forbidden is infinite, parallel edges are added, times compressed."""
    moments = compress_times(graph.intervals)
    nodes = range(graph.num_nodes)
    limit = graph.usage_limit
    problem = Problem(
        costs={node: as_float(graph.node_costs[node]) for node in nodes},
        usages=dict(enumerate(graph.usages)),
        labels={node: np.arange(len(graph.node_costs[node])) for node in nodes},
        spans=dict(enumerate(moments.spans)),
        edges={node: {} for node in nodes},
        limits=np.full(len(moments.times), 0 if limit is None else limit, dtype=np.int64),
        times=moments.times,
    )
    for (u, v), matrix in zip(graph.edges, graph.edge_costs, strict=True):
        if u == v:
            problem.costs[u] = problem.costs[u] + np.diagonal(as_float(matrix))
        else:
            problem.add_edge(u, v, as_float(matrix))
    if limit is None:
        _keep_moments(problem, np.zeros(len(moments.times), dtype=np.bool_))
    else:
        drop_slack_moments(problem)
    return problem


def drop_slack_moments(problem: Problem) -> bool:
    """Forget the moments at which even the largest usages fit; says whether there were any."""
    nodes = problem.nodes
    most = usage_per_moment(
        [problem.spans[node] for node in nodes],
        [int(problem.usages[node].max(initial=0)) for node in nodes],
        len(problem.limits),
    )
    binding = most > problem.limits
    if binding.all():
        return False
    _keep_moments(problem, binding)
    return True


def _keep_moments(problem: Problem, keep: Mask) -> None:
    """Renumber the moments and all lives, dropping those where ``keep`` is False."""
    number = np.concatenate([[0], np.cumsum(keep)])
    problem.spans = {
        node: (int(number[first]), int(number[end])) for node, (first, end) in problem.spans.items()
    }
    problem.limits = problem.limits[keep]
    problem.times = tuple(np.array(problem.times, dtype=np.int64)[keep].tolist())
