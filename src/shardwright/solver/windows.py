"""Large neighbourhood search: free a window of nodes, hold the rest, and solve the window exactly.

A window is a ball around one node, or two balls apart, since memory that one place frees is of use
in another. Windows go round the nodes until a whole round brings nothing.

Source: Shaw, "Using constraint programming and local search methods to solve vehicle routing
problems", 1998.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import final

import numpy as np

from shardwright.solver.integer_program import solve_integer_program
from shardwright.solver.problem import Places, Problem
from shardwright.solver.reduce import reduce_problem

_MOST_STRATEGIES = 200
"""Strategies freed at once."""
_MOST_PROGRAM_NODES = 10
_GAP = 1e-6


@final
class WindowSearch:
    """Improves one choice, which must fit, on one problem."""

    def __init__(self, problem: Problem, places: Places, *, deadline_s: float, seed: int) -> None:
        self._problem = problem
        self._deadline_s = deadline_s
        self._rng = np.random.default_rng(seed)
        self.places = dict(places)
        self.cost = problem.total_cost(places)

    def run(self, *, most_rounds: int) -> None:
        """Go round until a round brings nothing."""
        for _ in range(most_rounds):
            before = self.cost
            self._round()
            if not self.cost < before:
                return

    def _round(self) -> None:
        waiting = list(self._rng.permutation(self._problem.nodes).tolist())
        covered: set[int] = set()
        for index, centre in enumerate(waiting):
            if centre in covered or time.monotonic() > self._deadline_s:
                continue
            other = waiting[(index + len(waiting) // 2) % len(waiting)]
            whole = self._ball([centre], _MOST_STRATEGIES)
            halves = self._ball([centre], _MOST_STRATEGIES // 2)
            self._solve(whole)
            self._solve(halves | self._ball([other], _MOST_STRATEGIES // 2))
            covered |= halves

    def _ball(self, centres: Iterable[int], most_strategies: int) -> set[int]:
        """The nodes nearest to the centres whose strategies are not too many."""
        ball: set[int] = set()
        waiting, count = list(centres), 0
        for node in waiting:
            size = len(self._problem.costs[node])
            if node in ball or count + size > most_strategies:
                continue
            ball.add(node)
            count += size
            waiting.extend(self._problem.edges[node])
        return ball

    def _solve(self, free: set[int]) -> None:
        window = window_of(self._problem, self.places, free)
        reduce_problem(window)
        if window.is_infeasible:
            return
        result = solve_integer_program(
            window,
            gap=_GAP,
            time_limit_s=self._deadline_s - time.monotonic(),
            cutoff=self.cost - _GAP * abs(self.cost),
            most_nodes=_MOST_PROGRAM_NODES,
        )
        if result.places is not None:
            self._take(window.labelled(result.places))

    def _take(self, labels: dict[int, int]) -> None:
        changed = self.places | {
            node: int(np.searchsorted(self._problem.labels[node], label))
            for node, label in labels.items()
        }
        cost = self._problem.total_cost(changed)
        if cost < self.cost and not (self._problem.usage(changed) > self._problem.limits).any():
            self.places, self.cost = changed, cost


def window_of(problem: Problem, places: Places, free: set[int]) -> Problem:
    """The problem of the nodes in ``free`` when all others keep their place."""
    held = {node: place for node, place in places.items() if node not in free}
    window = Problem(
        costs={},
        usages={node: problem.usages[node] for node in free},
        labels={node: problem.labels[node] for node in free},
        spans={node: problem.spans[node] for node in free},
        edges={node: {} for node in free},
        limits=problem.limits - problem.usage(held),
        times=problem.times,
        offset=problem.offset,
    )
    for node in sorted(free):
        window.costs[node] = problem.costs[node]
        for other, matrix in problem.edges[node].items():
            if other in held:
                window.costs[node] = window.costs[node] + matrix[:, held[other]]
            else:
                window.edges[node][other] = matrix
    window.offset += _cost_among(problem, held)
    return window


def _cost_among(problem: Problem, held: Places) -> float:
    """Cost of the held nodes and of the edges between them."""
    total = 0.0
    for node, place in held.items():
        total += float(problem.costs[node][place])
        for other, matrix in problem.edges[node].items():
            if node < other and other in held:
                total += float(matrix[place, held[other]])
    return total
