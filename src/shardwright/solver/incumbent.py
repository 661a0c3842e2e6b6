"""The best choice so far, and the cost below which another is of interest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

from shardwright.solver.graph import FORBIDDEN, StrategyGraph
from shardwright.solver.problem import Labels, Places, Problem

OnProgress = Callable[[float, float], None]
"""Called with the best cost and the best bound so far, whenever one improves."""

_LEAST_GAP = 1e-9
"""Relative gap that sums of floats can tell from none."""


@final
class Incumbent:
    """Keeps the best choice that is offered, judged exactly on the given graph."""

    def __init__(self, graph: StrategyGraph, gap: float, on_progress: OnProgress | None) -> None:
        self._graph = graph
        self._on_progress = on_progress
        self.gap = max(gap, _LEAST_GAP)
        self.choice: tuple[int, ...] | None = None
        self.cost: float | int = FORBIDDEN
        self.bound = -math.inf

    @property
    def target(self) -> float:
        """A bound that reaches this proves the choice good enough; infinite without a choice."""
        cost = float(self.cost)
        if cost == FORBIDDEN:
            return math.inf
        target = cost - self.gap * abs(cost)
        # The next better total of integers is a whole unit away; half of it is room for rounding.
        return min(target, cost - 0.5) if self._graph.is_integral else target

    def offer(self, problem: Problem, places: Places, cost: float) -> bool:
        """Keep the choice if it fits and is better; says whether it was kept."""
        if cost >= self.cost or (problem.usage(places) > problem.limits).any():
            return False
        return self.offer_labels(problem.labelled(places))

    def offer_labels(self, labels: Labels) -> bool:
        """The same for a choice by label of the whole graph."""
        choice = tuple(labels[node] for node in range(self._graph.num_nodes))
        cost = self._graph.evaluate(choice)
        if cost >= self.cost or not self._graph.fits(choice):
            return False
        self.choice, self.cost = choice, cost
        self._report()
        return True

    def raise_bound(self, bound: float) -> None:
        """Note a proven lower bound of all choices."""
        if bound > self.bound:
            self.bound = bound
            self._report()

    def _report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(float(self.cost), min(self.bound, float(self.cost)))
