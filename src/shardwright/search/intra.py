"""The best choice on one mesh: an integer program over the space, memory added where it binds.

Source:
    The integer program is Alpa's (Zheng et al., OSDI 2022, section 4.2). Memory enters at single
    moments, found by solving and looking where the choice overflows (cutting planes), so that most
    programs, which fit anyway, never carry a memory row.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.search.masks import Mask
from shardwright.search.memory import Bytes, MemoryView
from shardwright.search.result import Shortage
from shardwright.search.space import Space
from shardwright.solver.graph import StrategyGraph
from shardwright.solver.solution import Reason, Solution
from shardwright.solver.solve import solve

_MAX_ROUNDS = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to search.

    Attributes:
        gap: relative gap between plan and bound at which to stop.
        time_limit_s: wall seconds for one mesh.
        total_time_s: wall seconds after which no further mesh is begun.
        seed: of the randomised parts.
    """

    gap: float = 1e-4
    time_limit_s: float = 60.0
    total_time_s: float = math.inf
    seed: int = 0


@final
@dataclass(frozen=True, kw_only=True)
class MeshChoice:
    """The answer for one mesh.

    Attributes:
        choice: a strategy per node, or None.
        objective_s: seconds per step.
        lower_bound_s: no choice within budget is better.
        peak_bytes: on the busiest device.
        is_proven: whether the gap asked for was reached.
        is_beaten: whether the bound alone shows that another mesh is better.
        shortage: when nothing fits.
    """

    choice: tuple[int, ...] | None
    objective_s: float
    lower_bound_s: float
    peak_bytes: int
    is_proven: bool
    is_beaten: bool = False
    shortage: Shortage | None = None


def solve_mesh(
    space: Space,
    memory: MemoryView,
    masks: Sequence[Mask],
    budget_bytes: int,
    effort: Effort,
    *,
    beat_s: float = math.inf,
) -> MeshChoice:
    """The best choice of a space within a memory budget per device.

    Args:
        space: what can be chosen.
        memory: what it takes.
        masks: what is allowed of it.
        budget_bytes: per device.
        effort: how hard to search.
        beat_s: an objective that is known already; the search ends when it cannot be beaten.
    """
    return _MeshSearch(
        space=space,
        memory=memory,
        masks=tuple(masks),
        budget_bytes=budget_bytes,
        effort=effort,
        beat_s=beat_s,
    ).run()


@final
@dataclass(frozen=True, kw_only=True)
class _Limits:
    """Memory rows of a program: positions in the flat list and the bytes allowed at each."""

    positions: tuple[int, ...] = ()
    allowed_bytes: tuple[int, ...] = ()

    def tighten(self, position: int, allowed_bytes: int) -> _Limits:
        rows = dict(zip(self.positions, self.allowed_bytes, strict=True))
        rows[position] = min(allowed_bytes, rows.get(position, allowed_bytes))
        ordered = sorted(rows.items())
        return _Limits(
            positions=tuple(p for p, _ in ordered), allowed_bytes=tuple(b for _, b in ordered)
        )


@final
@dataclass(frozen=True, kw_only=True)
class _MeshSearch:
    space: Space
    memory: MemoryView
    masks: tuple[Mask, ...]
    budget_bytes: int
    effort: Effort
    beat_s: float

    def run(self) -> MeshChoice:
        deadline = time.monotonic() + self.effort.time_limit_s
        limits, bound, start = _Limits(), 0.0, None
        choice: tuple[int, ...] | None = None
        is_exact = True
        for _ in range(_MAX_ROUNDS):
            if any(
                self.memory.fixed_bytes(position) >= allowed
                for position, allowed in zip(limits.positions, limits.allowed_bytes, strict=True)
            ):
                return self.overflows(choice, bound)
            left_s = max(deadline - time.monotonic(), 1.0)
            solution = self.solve(limits, left_s, start)
            if is_exact and solution.choice is not None:
                bound = max(bound, float(solution.lower_bound))
            if solution.choice is None:
                return self.nothing(limits, bound, solution)
            if bound >= self.beat_s:
                return self.beaten(bound)
            choice = self.whole(solution.choice)
            timeline = self.memory.timeline(choice)
            position = int(np.argmax(timeline))
            peak = int(timeline[position])
            if peak <= self.budget_bytes:
                return self.found(choice, bound, peak, solution)
            if position in limits.positions:
                # What one operator holds for a moment depends on two nodes at once, which a row
                # cannot say: the row is tightened by what the last choice held too much.
                before = limits.allowed_bytes[limits.positions.index(position)]
                held = max(before - (peak - self.budget_bytes), before // 2)
                limits, is_exact = limits.tighten(position, held), False
            else:
                limits = limits.tighten(position, self.budget_bytes)
            start = solution.choice
        return self.overflows(choice, bound)

    def beaten(self, bound: float) -> MeshChoice:
        return MeshChoice(
            choice=None,
            objective_s=math.inf,
            lower_bound_s=bound,
            peak_bytes=0,
            is_proven=True,
            is_beaten=True,
        )

    def found(
        self, choice: tuple[int, ...], bound: float, peak: int, solution: Solution
    ) -> MeshChoice:
        cost = float(solution.cost)
        proven = cost - bound <= self.effort.gap * abs(cost) * 1.0001
        return MeshChoice(
            choice=choice,
            objective_s=cost,
            lower_bound_s=bound,
            peak_bytes=peak,
            is_proven=proven and solution.termination.reason is Reason.OPTIMAL,
        )

    def solve(
        self, limits: _Limits, time_limit_s: float, start: tuple[int, ...] | None
    ) -> Solution:
        graph = self.program(limits)
        return solve(
            graph,
            gap=self.effort.gap,
            time_limit_s=time_limit_s,
            start=start if start is not None and len(start) == graph.num_nodes else None,
            seed=self.effort.seed,
        )

    def program(self, limits: _Limits) -> StrategyGraph:
        """The strategy graph of what the masks allow, with one time step per memory row."""
        kept = [np.flatnonzero(mask) for mask in self.masks]
        edges = tuple(self.space.edge_costs)
        graph = StrategyGraph(
            node_costs=tuple(
                costs[keep] for costs, keep in zip(self.space.node_costs, kept, strict=True)
            ),
            usages=tuple(np.zeros(len(keep), dtype=np.int64) for keep in kept),
            intervals=((0, 0),) * len(kept),
            edges=edges,
            edge_costs=tuple(
                self.space.edge_costs[u, v][np.ix_(kept[u], kept[v])] for u, v in edges
            ),
        )
        return _with_rows(graph, self.rows(limits, kept), limits) if limits.positions else graph

    def rows(self, limits: _Limits, kept: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Per node a (moments, strategies) table of bytes, rows scaled to one common limit."""
        largest = max(limits.allowed_bytes)
        per_moment: list[list[Bytes]] = []
        for position, allowed in zip(limits.positions, limits.allowed_bytes, strict=True):
            fixed = self.memory.fixed_bytes(position)
            scale = largest / max(allowed - fixed, 1)
            rows = self.memory.usage_rows(position)
            per_moment.append([np.ceil(row * scale).astype(np.int64) for row in rows])
        return [
            np.stack([rows[node][keep] for rows in per_moment]) for node, keep in enumerate(kept)
        ]

    def whole(self, choice: tuple[int, ...]) -> tuple[int, ...]:
        """The solver's choice in the space's own numbers, added copies of nodes dropped."""
        return tuple(
            int(np.flatnonzero(mask)[pick]) for mask, pick in zip(self.masks, choice, strict=False)
        )

    def nothing(self, limits: _Limits, bound: float, solution: Solution) -> MeshChoice:
        shortage = None
        is_infeasible = solution.termination.reason is Reason.INFEASIBLE
        if is_infeasible and limits.positions:
            shortage = self.shortage(limits)
        return MeshChoice(
            choice=None,
            objective_s=math.inf,
            lower_bound_s=math.inf if is_infeasible else bound,
            peak_bytes=0,
            is_proven=is_infeasible,
            shortage=shortage,
        )

    def overflows(self, choice: tuple[int, ...] | None, bound: float) -> MeshChoice:
        assert choice is not None
        timeline = self.memory.timeline(choice)
        position = int(np.argmax(timeline))
        return MeshChoice(
            choice=None,
            objective_s=math.inf,
            lower_bound_s=bound,
            peak_bytes=int(timeline[position]),
            is_proven=False,
            shortage=self.describe(choice, position),
        )

    def shortage(self, limits: _Limits) -> Shortage:
        """What the tightest moment needs when every node takes the least that it can there."""
        worst: Shortage | None = None
        for position in limits.positions:
            least = self.least_choice(position)
            described = self.describe(least, position)
            if worst is None or described.needed_bytes > worst.needed_bytes:
                worst = described
        assert worst is not None
        return worst

    def least_choice(self, position: int) -> tuple[int, ...]:
        rows = self.memory.usage_rows(position)
        picks = []
        for row, mask in zip(rows, self.masks, strict=True):
            allowed = np.flatnonzero(mask)
            picks.append(int(allowed[np.argmin(row[allowed])]))
        return tuple(picks)

    def describe(self, choice: tuple[int, ...], position: int) -> Shortage:
        flat = self.space.folded.flat
        op = flat.ops[min(position, len(flat.ops) - 1)].op
        return Shortage(
            needed_bytes=int(self.memory.timeline(choice)[position]),
            budget_bytes=self.budget_bytes,
            moment=f"{op.kind} at {op.source or 'an unknown line'}",
            largest=self.memory.largest_at(choice, position),
        )


def _with_rows(
    graph: StrategyGraph, rows: list[NDArray[np.int64]], limits: _Limits
) -> StrategyGraph:
    """``graph`` with memory: a node whose usage changes over time gets a tied copy per change."""
    intervals, usages = list(graph.intervals), list(graph.usages)
    node_costs, edges = list(graph.node_costs), list(graph.edges)
    edge_costs = list(graph.edge_costs)
    for node, table in enumerate(rows):
        first = True
        for lo, hi in _equal_runs(table):
            if not table[lo].any():
                continue
            if first:
                intervals[node], usages[node], first = (lo, hi), table[lo], False
                continue
            size = table.shape[1]
            edges.append((node, len(node_costs)))
            edge_costs.append(np.where(np.eye(size, dtype=bool), 0.0, math.inf))
            node_costs.append(np.zeros(size))
            usages.append(table[lo])
            intervals.append((lo, hi))
    return replace(
        graph,
        node_costs=tuple(node_costs),
        usages=tuple(usages),
        intervals=tuple(intervals),
        edges=tuple(edges),
        edge_costs=tuple(edge_costs),
        usage_limit=max(limits.allowed_bytes),
    )


def _equal_runs(table: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Stretches of equal rows, as half-open intervals."""
    changes = [0, *(k for k in range(1, len(table)) if (table[k] != table[k - 1]).any())]
    return list(zip(changes, [*changes[1:], len(table)], strict=True))
