"""Local search on a choice: make it fit, then make it cheaper one node or one edge at a time.

For every node the cost of each strategy beside its neighbours' present ones is kept up to date, so
a move costs as much as the node has edges. What is forbidden counts as very dear, which keeps sums
finite; a choice that still pays it is not returned. Repair takes, at the worst moment, the move
that costs least per byte it frees. Descent moves single nodes and both ends of edges while that is
cheaper and fits.

Source: Besag, "On the statistical analysis of dirty pictures", 1986 (iterated conditional modes).
"""

from __future__ import annotations

import time
from typing import final

import numpy as np

from shardwright.solver.problem import Floats, Ints, Mask, Places, Problem

_DEAR = 1e3
"""What is forbidden costs as much as so many of the dearest entries."""
_GAIN = 1e-14
"""Gain, as a share of what is forbidden, below which a move is rounding."""


def improve(
    problem: Problem, places: Places, *, deadline_s: float = float("inf")
) -> tuple[Places, float] | None:
    """A choice that fits, no dearer than nearby ones, and its cost; None when repair fails."""
    search = _Search(problem, places)
    if not search.repair(deadline_s):
        return None
    search.descend(deadline_s)
    cost = problem.total_cost(search.places)
    return (search.places, cost) if cost < np.inf else None


@final
class _Search:
    def __init__(self, problem: Problem, places: Places) -> None:
        self._problem = problem
        self._dear = _DEAR * _largest_entry(problem)
        self._edges: dict[int, dict[int, Floats]] = {node: {} for node in problem.costs}
        for u, v in problem.pairs():
            self._edges[u][v] = self._finite(problem.edges[u][v])
            self._edges[v][u] = self._edges[u][v].T
        self.places = dict(places)
        self._left = problem.limits - problem.usage(places)
        self._beside = {node: self._cost_beside(node) for node in problem.costs}

    def _finite(self, costs: Floats) -> Floats:
        return np.where(np.isfinite(costs), costs, self._dear)

    def _cost_beside(self, node: int) -> Floats:
        total = self._finite(self._problem.costs[node])
        for other, matrix in self._edges[node].items():
            total = total + matrix[:, self.places[other]]
        return total

    def _move(self, node: int, place: int) -> None:
        before = self.places[node]
        first, end = self._problem.spans[node]
        self._left[first:end] -= int(self._growth(node)[place])
        self.places[node] = place
        for other, matrix in self._edges[node].items():
            self._beside[other] += matrix[place] - matrix[before]

    def repair(self, deadline_s: float) -> bool:
        """Free memory until all moments fit; False when no move frees any where it is missing."""
        while len(self._left) and int(self._left.min()) < 0:
            if time.monotonic() > deadline_s or not self._free_at(int(self._left.argmin())):
                return False
        return True

    def _free_at(self, moment: int) -> bool:
        """The move that costs least per byte that it frees of what is missing at the moment."""
        missing = -int(self._left[moment])
        best: tuple[float, int, int] | None = None
        for node, (first, end) in self._problem.spans.items():
            if not first <= moment < end:
                continue
            freed = -self._growth(node)
            rise = self._beside[node] - self._beside[node][self.places[node]]
            rates = np.where(freed > 0, rise / np.clip(freed, 1, missing), np.inf)
            place = int(rates.argmin())
            if np.isfinite(rates[place]) and (best is None or rates[place] < best[0]):
                best = (float(rates[place]), node, place)
        if best is None:
            return False
        self._move(best[1], best[2])
        return True

    def descend(self, deadline_s: float) -> None:
        """Move nodes and edges while that is cheaper and fits."""
        waiting = dict.fromkeys(self._problem.costs)
        while waiting and time.monotonic() < deadline_s:
            node = next(iter(waiting))
            del waiting[node]
            moved = self._move_one(node) or self._move_edge(node)
            for changed in moved:
                waiting.update(dict.fromkeys((changed, *self._problem.edges[changed])))

    def _growth(self, node: int) -> Ints:
        usages = self._problem.usages[node]
        return np.asarray(usages - usages[self.places[node]])

    def _room(self, node: int) -> int:
        first, end = self._problem.spans[node]
        return int(self._left[first:end].min()) if first < end else 2**62

    def _move_one(self, node: int) -> tuple[int, ...]:
        beside, place = self._beside[node], self.places[node]
        allowed = np.where(self._growth(node) <= self._room(node), beside, np.inf)
        best = int(allowed.argmin())
        if not allowed[best] < beside[place] - _GAIN * self._dear:
            return ()
        self._move(node, best)
        return (node,)

    def _move_edge(self, node: int) -> tuple[int, ...]:
        for other, matrix in self._edges[node].items():
            pair = self._better_pair(node, other, matrix)
            if pair is not None:
                self._move(node, pair[0])
                self._move(other, pair[1])
                return (node, other)
        return ()

    def _better_pair(self, node: int, other: int, matrix: Floats) -> tuple[int, int] | None:
        """The best strategies of both ends, when they are cheaper than the present ones."""
        at, there = self.places[node], self.places[other]
        own = self._beside[node] - matrix[:, there]
        totals = own[:, None] + (self._beside[other] - matrix[at]) + matrix
        totals = np.where(self._pair_fits(node, other), totals, np.inf)
        best = int(totals.argmin())
        pair = best // totals.shape[1], best % totals.shape[1]
        now = float(totals[at, there])
        return pair if totals[pair] < now - _GAIN * self._dear else None

    def _pair_fits(self, node: int, other: int) -> Mask:
        growth, their_growth = self._growth(node)[:, None], self._growth(other)
        room, their_room = self._room(node), self._room(other)
        fits = (growth <= room) & (their_growth <= their_room)
        (first, end), (their_first, their_end) = self._spans(node), self._spans(other)
        if max(first, their_first) < min(end, their_end):
            fits &= growth + their_growth <= min(room, their_room)
        return np.asarray(fits)

    def _spans(self, node: int) -> tuple[int, int]:
        return self._problem.spans[node]


def _largest_entry(problem: Problem) -> float:
    largest = 0.0
    for costs in (*problem.costs.values(), *(problem.edges[u][v] for u, v in problem.pairs())):
        finite = costs[np.isfinite(costs)]
        largest = max(largest, float(np.abs(finite).max(initial=0.0)))
    return largest or 1.0
