"""Made-up problems for the solver: like a planner's, of any size, from a seed."""

from __future__ import annotations

import numpy as np

from shardwright.solver import StrategyGraph


def hard_case(
    *, nodes: int = 600, strategies: int = 12, seed: int = 0, tightness: float = 0.35
) -> StrategyGraph:
    """A layered network with skips whose memory binds, some of whose nodes use none.

    Args:
        nodes: how many.
        strategies: of each node.
        seed: of everything random.
        tightness: where the limit lies between the least peak and the greatest.
    """
    rng = np.random.default_rng(seed)
    costs = [rng.integers(0, 1000, strategies) for _ in range(nodes)]
    usages = [rng.integers(0, 1000, strategies) * int(rng.random() < 0.7) for _ in range(nodes)]
    lives = [(i, i + int(rng.choice([1, 2, 5, nodes // 4]))) for i in range(nodes)]
    edges = [(i - 1, i) for i in range(1, nodes)]
    edges += [(int(rng.integers(0, i - 1)), i) for i in range(2, nodes) if rng.random() < 0.6]
    matrices = [rng.integers(0, 1000, (strategies, strategies)) for _ in edges]
    least, most = (
        _peak(lives, [int(getattr(usage, end)()) for usage in usages]) for end in ("min", "max")
    )
    return StrategyGraph(
        node_costs=tuple(costs),
        usages=tuple(usages),
        intervals=tuple(lives),
        edges=tuple(edges),
        edge_costs=tuple(matrices),
        usage_limit=int(least + tightness * (most - least)),
    )


def _peak(lives: list[tuple[int, int]], usages: list[int]) -> int:
    changes = np.zeros(max(hi for _, hi in lives) + 1, np.int64)
    for (lo, hi), usage in zip(lives, usages, strict=True):
        changes[lo] += usage
        changes[hi] -= usage
    return int(np.cumsum(changes).max())
