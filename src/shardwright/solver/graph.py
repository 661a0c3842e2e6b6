"""The solver's problem: one strategy per node, so that costs are least and memory always fits.

A node is a choice among strategies; each strategy has a cost and a usage. A node lives over a
half-open interval of time ``[lo, hi)`` and uses memory only then, so an empty interval uses none.
An edge adds a cost that depends on the two strategies it joins; parallel edges add. Nothing here
knows what an operator is.

The problem is the public benchmark of intra-operator parallelism (google/iopddl, ASPLOS 2025),
which is the integer program of Alpa with memory over time.

Source: Moffitt and Fegade, "The ASPLOS 2025 / EuroSys 2025 Contest on Intra-Operator Parallelism
for Distributed Deep Learning"; Zheng et al., "Alpa", OSDI 2022, section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from shardwright.errors import UsageError
from shardwright.solver.verify import verify_parts

Costs = NDArray[np.float64] | NDArray[np.int64]
Usages = NDArray[np.int64]

FORBIDDEN: float = math.inf
"""Cost of a choice that must not be made, in arrays of floats and as a total."""

FORBIDDEN_INT: int = 10**18
"""The same in arrays of integers and in the benchmark's JSON; larger entries mean it too."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StrategyGraph:
    """Nodes with strategies, edges with cost matrices, and a limit on memory at every moment.

    Attributes:
        node_costs: per node, the cost of each strategy; float64 or int64.
        usages: per node, the memory of each strategy in bytes; int64, not negative.
        intervals: per node, its life ``[lo, hi)``; empty when ``lo >= hi``.
        edges: pairs of nodes; parallel edges are allowed and add.
        edge_costs: per edge ``(u, v)``, a matrix of shape (strategies of u, strategies of v).
        usage_limit: most bytes that may be in use at any moment; None for no limit.

    Raises:
        GraphError: counts, shapes or types do not agree; the message names the node or edge.
    """

    node_costs: tuple[Costs, ...]
    usages: tuple[Usages, ...]
    intervals: tuple[tuple[int, int], ...]
    edges: tuple[tuple[int, int], ...] = ()
    edge_costs: tuple[Costs, ...] = ()
    usage_limit: int | None = None

    def __post_init__(self) -> None:
        verify_parts(
            self.node_costs,
            self.usages,
            self.intervals,
            self.edges,
            self.edge_costs,
            self.usage_limit,
        )

    @property
    def num_nodes(self) -> int:
        """How many choices are to be made."""
        return len(self.node_costs)

    @property
    def num_strategies(self) -> tuple[int, ...]:
        """Per node, how many strategies it has."""
        return tuple(len(costs) for costs in self.node_costs)

    @property
    def is_integral(self) -> bool:
        """Whether every cost is an integer, so that totals are exact integers."""
        return all(costs.dtype.kind == "i" for costs in (*self.node_costs, *self.edge_costs))

    def evaluate(self, choice: Sequence[int]) -> float | int:
        """Total cost of one strategy per node; ``FORBIDDEN`` where any part of it is forbidden.

        Integers are added as Python integers and floats with one rounding in all, so the answer
        does not depend on the order of nodes and edges.

        Raises:
            UsageError: the choice has another length than the graph, or names no strategy.
        """
        self._check(choice)
        parts = list(self._parts(choice))
        if any(is_forbidden(part) for part in parts):
            return FORBIDDEN
        if self.is_integral:
            return int(sum(parts))
        return math.fsum(parts)

    def peak_usage(self, choice: Sequence[int]) -> tuple[int, int]:
        """Most bytes in use at once and the first time at which they are; (0, 0) for no lives."""
        self._check(choice)
        changes: dict[int, int] = {}
        for node, (lo, hi) in enumerate(self.intervals):
            if lo < hi:
                usage = int(self.usages[node][choice[node]])
                changes[lo] = changes.get(lo, 0) + usage
                changes[hi] = changes.get(hi, 0) - usage
        return _highest_point(changes)

    def fits(self, choice: Sequence[int]) -> bool:
        """Whether the choice stays within the limit at every time."""
        return self.usage_limit is None or self.peak_usage(choice)[0] <= self.usage_limit

    def _parts(self, choice: Sequence[int]) -> Iterable[Any]:
        for node, costs in enumerate(self.node_costs):
            yield costs[choice[node]].item()
        for (u, v), matrix in zip(self.edges, self.edge_costs, strict=True):
            yield matrix[choice[u], choice[v]].item()

    def _check(self, choice: Sequence[int]) -> None:
        if len(choice) != self.num_nodes:
            raise UsageError(
                f"the choice names {len(choice)} strategies; the graph has {self.num_nodes} nodes."
            )
        for node, (strategy, count) in enumerate(zip(choice, self.num_strategies, strict=True)):
            if not 0 <= strategy < count:
                raise UsageError(
                    f"the choice gives node {node} strategy {strategy}; it has {count} strategies.",
                    hint=f"a strategy from 0 to {count - 1}",
                )


def is_forbidden(cost: float | int) -> bool:
    """Whether one cost, of either type, marks a choice that must not be made."""
    return bool(cost >= FORBIDDEN_INT if isinstance(cost, int) else cost == FORBIDDEN)


def as_float(costs: Costs) -> NDArray[np.float64]:
    """The costs as float64 with ``FORBIDDEN`` where they are forbidden, ready for arithmetic."""
    if costs.dtype.kind == "f":
        return costs.astype(np.float64, copy=False)
    return np.where(costs >= FORBIDDEN_INT, FORBIDDEN, costs.astype(np.float64))


def _highest_point(changes: dict[int, int]) -> tuple[int, int]:
    peak, peak_time, level = 0, min(changes, default=0), 0
    for time in sorted(changes):
        level += changes[time]
        if level > peak:
            peak, peak_time = level, time
    return peak, peak_time
