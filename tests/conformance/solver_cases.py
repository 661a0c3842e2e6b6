"""Random strategy graphs of every awkward kind, and a judge that tries all choices at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shardwright.solver import FORBIDDEN, StrategyGraph

MOST_CHOICES = 20_000


def awkward_graph(seed: int) -> StrategyGraph:
    """Up to 14 nodes: one-strategy nodes, parallel edges, loose parts, empty lives, no limit."""
    rng = np.random.default_rng([seed, 14])
    count = int(rng.integers(1, 15))
    sizes = _sizes(rng, count)
    costs = [rng.integers(0, 30, size) for size in sizes]
    usages = [rng.integers(0, 8, size) * int(rng.random() < 0.8) for size in sizes]
    starts = rng.integers(0, 9, count)
    lives = tuple((int(lo), int(lo + rng.integers(-1, 6))) for lo in starts)
    edges, matrices = [], []
    forbids = rng.random() < 0.5
    for _ in range(int(rng.integers(0, 2 * count)) if count > 1 else 0):
        u, v = (int(end) for end in rng.choice(count, 2, replace=False))
        matrix = rng.integers(0, 30, (sizes[u], sizes[v])).astype(np.float64)
        if rng.random() < 0.2:
            matrix = matrix[:, :1] + matrix[:1, :]
        if forbids:
            matrix[rng.random(matrix.shape) < 0.25] = FORBIDDEN
        edges.append((u, v))
        matrices.append(matrix)
    is_float = rng.random() < 0.5
    scale = 10.0 ** int(rng.integers(-6, 4)) if is_float else 1
    return StrategyGraph(
        node_costs=tuple(cost * scale if is_float else cost for cost in costs),
        usages=tuple(usage.astype(np.int64) for usage in usages),
        intervals=lives,
        edges=tuple(edges),
        edge_costs=tuple(m * scale if is_float else _whole(m) for m in matrices),
        usage_limit=int(rng.integers(0, 3 * count)) if rng.random() < 0.7 else None,
    )


def _sizes(rng: np.random.Generator, count: int) -> list[int]:
    """Strategies per node, so few that all choices can be tried."""
    sizes = [int(size) for size in rng.integers(1, 6, count)]
    while math.prod(sizes) > MOST_CHOICES:
        sizes[int(np.argmax(sizes))] -= 1
    return sizes


def _whole(matrix: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(matrix), 10**18, matrix).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The least cost of a choice that fits (None: there is none), and the least overshoot."""

    cost: float | None
    overshoot: int | None


def judge(graph: StrategyGraph) -> Judged:
    """What trying every choice says; all of them are rows of one array."""
    sizes = graph.num_strategies
    choices = np.indices(sizes).reshape(len(sizes), -1)
    cost = np.zeros(choices.shape[1])
    for node, costs in enumerate(graph.node_costs):
        cost += costs[choices[node]]
    for (u, v), matrix in zip(graph.edges, graph.edge_costs, strict=True):
        cost += np.where(matrix >= 10**18, np.inf, matrix)[choices[u], choices[v]]
    over = _overshoot(graph, choices)
    allowed = np.isfinite(cost)
    if not allowed.any():
        return Judged(cost=None, overshoot=None)
    fits = allowed & (over <= 0)
    return Judged(
        cost=float(cost[fits].min()) if fits.any() else None,
        overshoot=int(over[allowed].min()),
    )


def _overshoot(graph: StrategyGraph, choices: np.ndarray) -> np.ndarray:
    """Bytes by which the peak of each choice passes the limit; below zero where it fits."""
    if graph.usage_limit is None:
        return np.full(choices.shape[1], -1)
    peak = np.zeros(choices.shape[1], np.int64)
    for time in {lo for lo, hi in graph.intervals if lo < hi}:
        use = np.zeros(choices.shape[1], np.int64)
        for node, (lo, hi) in enumerate(graph.intervals):
            if lo <= time < hi:
                use += graph.usages[node][choices[node]]
        peak = np.maximum(peak, use)
    return peak - graph.usage_limit
