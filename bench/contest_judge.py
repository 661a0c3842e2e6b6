"""The public benchmark's rules in plain integers, sharing nothing with the solver."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORBIDDEN = 10**18


def read_problem(path: Path) -> dict[str, Any]:
    """The problem in a benchmark file, by the standard library alone."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    problem: dict[str, Any] = json.loads(text)["problem"]
    return problem


def cost_of(problem: dict[str, Any], choice: Sequence[int]) -> int:
    """The cost of a choice, exactly.

    Raises:
        ValueError: the choice has another length, names no strategy, makes a forbidden choice, or
            does not fit in memory.
    """
    nodes, edges = problem["nodes"], problem["edges"]
    if len(choice) != len(nodes["costs"]):
        raise ValueError(f"{len(choice)} strategies for {len(nodes['costs'])} nodes")
    if any(not 0 <= s < len(costs) for s, costs in zip(choice, nodes["costs"], strict=True)):
        raise ValueError("a strategy that a node does not have")
    _check_memory(problem, choice)
    parts: list[int] = [costs[s] for s, costs in zip(choice, nodes["costs"], strict=True)]
    for (u, v), matrix in zip(edges["nodes"], edges["costs"], strict=True):
        parts.append(matrix[choice[u] * len(nodes["costs"][v]) + choice[v]])
    if max(parts, default=0) >= FORBIDDEN:
        raise ValueError("a choice that is forbidden")
    return sum(parts)


def _check_memory(problem: dict[str, Any], choice: Sequence[int]) -> None:
    nodes, limit = problem["nodes"], problem.get("usage_limit")
    if limit is None:
        return
    changes: dict[int, int] = {}
    for (lo, hi), usages, s in zip(nodes["intervals"], nodes["usages"], choice, strict=True):
        if lo < hi:
            changes[lo] = changes.get(lo, 0) + int(usages[s])
            changes[hi] = changes.get(hi, 0) - int(usages[s])
    level = 0
    for time in sorted(changes):
        level += changes[time]
        if level > limit:
            raise ValueError(f"{level} bytes at time {time}; the limit is {limit}")
