"""Branch and bound over prices of memory: what closes the gap that prices alone leave.

Each open part of the search space is a reduced problem. It is bounded by pricing memory; strategies
through which every choice costs too much are dropped, and the rest reduced again; what is small by
then goes to the integer program, and what is not is split. The split is on the node whose usage
differs most within the mixture of choices that the bound pretends to use: at most its mean usage on
one side, more on the other.

Source: Fisher, "The Lagrangian relaxation method for solving integer programming problems", 1981;
Balas and Saltzman, "An algorithm for the three-index assignment problem", 1991 (reduced cost fixing
with multipliers).
"""

from __future__ import annotations

import dataclasses
import heapq
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

import numpy as np

from shardwright.solver.dynamic_program import dynamic_program
from shardwright.solver.incumbent import Incumbent
from shardwright.solver.integer_program import program_size, solve_integer_program
from shardwright.solver.local_search import improve
from shardwright.solver.memory_rows import CutName
from shardwright.solver.multipliers import (
    Effort,
    Plane,
    Priced,
    Start,
    plane_of,
    price_memory,
)
from shardwright.solver.problem import Floats, Labels, Mask, Problem
from shardwright.solver.reduce import reduce_problem
from shardwright.solver.windows import WindowSearch

_MOST_ENTRIES = 8_000_000
"""Largest table of the dynamic program: 64 MB."""
_SMALL = 250
"""Strategies left at which a part goes to the integer program."""
_MOST_PROGRAM_NODES = 300
"""Nodes that the integer program may open in a part before the part is split instead."""
_CORE = 150
"""Strategies, beside one per node, among which good choices are looked for first."""
_PARTS_BEFORE_DOUBT, _LEAST_PROGRESS = 40, 0.2
"""Parts after which this share of the gap must be closed, or the rest is solved whole."""
_LARGEST_PROGRAM = 100_000
"""Columns of the largest integer program that is worth a try."""
_SHRUNK = 0.7
"""A part that lost more than the rest of this share is bounded once more before it is split."""
_FIRST_RUNS, _LATER_RUNS = 60, 12
_WINDOW_ROUNDS = 3
_CUT_ROUNDS = 8
_MOST_INHERITED = 30


@final
@dataclass(frozen=True, order=True, slots=True, kw_only=True)
class _Part:
    """An open part: least bound first, deeper first among equals, then as they came."""

    bound: float
    shallowness: int
    number: int
    problem: Problem = field(compare=False)
    parent: Inheritance | None = field(compare=False, default=None)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inheritance:
    """What a part may begin from: prices by time, cuts, the box, and choices by label."""

    prices: dict[int, float]
    cuts: tuple[tuple[CutName, float], ...]
    radius: float
    choices: tuple[Labels, ...]


@final
class BranchAndBound:
    """One search over the parts of one problem."""

    def __init__(self, incumbent: Incumbent, *, deadline_s: float, seed: int = 0) -> None:
        self._incumbent = incumbent
        self._seed = seed
        self._deadline_s = deadline_s
        self._open: list[_Part] = []
        self._count = 0
        self._closed = math.inf
        self._ceiling = math.inf
        self._first_bound = -math.inf
        self._whole: Problem | None = None

    def run(self, problem: Problem) -> float:
        """A lower bound on all choices that fit; infinite when there are none.

        Ends when the gap is reached, when nothing is open, or at the deadline.
        """
        if problem.is_infeasible:
            return math.inf
        self._ceiling = _dearest_total(problem)
        self._push(problem, bound=-math.inf, depth=0)
        num_parts = 0
        while self._open and self._open[0].bound < self._incumbent.target and not self._is_late():
            self._process(heapq.heappop(self._open))
            self._incumbent.raise_bound(self._bound())
            num_parts += 1
            if num_parts == _PARTS_BEFORE_DOUBT and self._is_stuck():
                return max(self._bound(), self._solve_whole())
        return self._bound()

    def _is_stuck(self) -> bool:
        """Whether splitting has closed little of the gap that there was after the first part."""
        gap = self._incumbent.target - self._first_bound
        return self._bound() - self._first_bound < _LEAST_PROGRESS * gap

    def _solve_whole(self) -> float:
        """Hand all that the first part left to the integer program, for the time that is left."""
        whole = self._whole
        if whole is None or program_size(whole) > _LARGEST_PROGRAM:
            return -math.inf
        result = solve_integer_program(
            whole,
            gap=self._incumbent.gap / 2,
            time_limit_s=self._deadline_s - time.monotonic(),
            cutoff=self._incumbent.target,
            seed=self._seed,
        )
        if result.places is not None:
            self._offer(whole, plane_of(whole, result.places))
        return min(self._closed, result.bound)

    def _bound(self) -> float:
        return min(self._closed, self._open[0].bound if self._open else math.inf)

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline_s

    def _push(
        self, problem: Problem, *, bound: float, depth: int, parent: Inheritance | None = None
    ) -> None:
        if not problem.is_infeasible:
            self._count += 1
            part = _Part(
                bound=bound,
                shallowness=-depth,
                number=self._count,
                problem=problem,
                parent=parent,
            )
            heapq.heappush(self._open, part)

    def _close(self, bound: float) -> None:
        """Note that everything of a part costs at least this."""
        self._closed = min(self._closed, bound)

    def _process(self, part: _Part) -> None:
        priced = self._price(part)
        bound = max(part.bound, priced.bound)
        if bound > self._ceiling:
            bound = math.inf  # dearer than any choice: nothing fits
        if bound >= self._incumbent.target:
            self._close(bound)
        elif self._is_late():
            heapq.heappush(self._open, dataclasses.replace(part, bound=bound))
        else:
            self._narrow(part, priced, bound)

    def _price(self, part: _Part) -> Priced:
        return price_memory(
            part.problem,
            dynamic_program(part.problem, most_entries=_MOST_ENTRIES),
            on_choice=self._offer,
            start=_inherited(part.problem, part.parent),
            effort=Effort(
                most_runs=_FIRST_RUNS if part.parent is None else _LATER_RUNS,
                most_cut_rounds=_CUT_ROUNDS if part.parent is None else 1,
                enough=min(self._incumbent.target, self._ceiling),
                deadline_s=self._deadline_s,
            ),
        )

    def _offer(self, problem: Problem, plane: Plane) -> None:
        if (plane.excess <= 0).all():
            self._incumbent.offer(problem, plane.places, plane.cost)

    def _narrow(self, part: _Part, priced: Priced, bound: float) -> None:
        """Drop what is too dear; then solve, bound again or split what is left."""
        through = _through_costs(priced)
        if part.parent is None:
            self._polish(part.problem, priced)
            self._solve_core(part.problem, through)
            self._search_windows(part.problem, through)
        left = self._without_dear(part.problem, through)
        if part.parent is None:
            self._first_bound, self._whole = bound, left
        before, now = _num_strategies(part.problem), _num_strategies(left)
        if left.is_infeasible:
            return
        if not now:
            self._offer(left, plane_of(left, {}))
            self._close(max(bound, left.offset))
            return
        if now <= _SMALL:
            bound = self._finish(left, bound)
            if bound >= self._incumbent.target:
                self._close(bound)
                return
        heirs = _inheritance(part.problem, priced)
        depth = 1 - part.shallowness
        if now < _SHRUNK * before and now > _SMALL:
            self._push(left, bound=bound, depth=depth, parent=heirs)
            return
        for side in _split(left, _most_mixed(part.problem, left, priced)):
            self._push(side, bound=bound, depth=depth, parent=heirs)

    def _polish(self, problem: Problem, priced: Priced) -> None:
        """Make the choices of the mixture fit, and better."""
        for _, places in priced.mixture:
            if not self._is_late():
                better = improve(problem, places, deadline_s=self._deadline_s)
                if better is not None:
                    self._incumbent.offer(problem, *better)

    def _solve_core(self, problem: Problem, through: dict[int, Floats]) -> None:
        """Look for a good choice among the strategies with the least totals through them."""
        totals = np.sort(np.concatenate([np.zeros(0), *through.values()]))
        if len(totals) <= len(through) + _CORE:
            return
        most = float(totals[len(through) + _CORE])
        core = _kept_below(problem, through, most, self._deadline_s)
        if core.is_infeasible or not core.costs:
            return
        result = solve_integer_program(
            core,
            gap=self._incumbent.gap / 2,
            time_limit_s=self._deadline_s - time.monotonic(),
            cutoff=self._incumbent.target,
            most_nodes=_MOST_PROGRAM_NODES,
            seed=self._seed,
        )
        if result.places is not None:
            self._offer(core, plane_of(core, result.places))

    def _search_windows(self, problem: Problem, through: dict[int, Floats]) -> None:
        """Improve the incumbent among the strategies that are not too dear."""
        choice = self._incumbent.choice
        places = None if choice is None else problem.placed(dict(enumerate(choice)))
        if places is None:
            return
        left = problem.copy()
        for node, totals in through.items():
            keep = totals < self._incumbent.target
            keep[places[node]] = True
            left.keep_strategies(node, keep)
        places = left.placed(problem.chosen(places))
        if places is not None and _num_strategies(left) > _SMALL:
            search = WindowSearch(left, places, deadline_s=self._deadline_s, seed=self._seed)
            search.run(most_rounds=_WINDOW_ROUNDS)
            self._incumbent.offer(left, search.places, search.cost)

    def _without_dear(self, problem: Problem, through: dict[int, Floats]) -> Problem:
        """A reduced copy without the strategies through which all choices reach the target."""
        target = self._incumbent.target
        for totals in through.values():
            self._close(float(totals.min(where=totals >= target, initial=math.inf)))
        return _kept_below(problem, through, target, self._deadline_s)

    def _finish(self, problem: Problem, bound: float) -> float:
        """The bound after the integer program has had its try."""
        result = solve_integer_program(
            problem,
            gap=self._incumbent.gap / 2,
            time_limit_s=self._deadline_s - time.monotonic(),
            cutoff=self._incumbent.target,
            most_nodes=_MOST_PROGRAM_NODES,
            seed=self._seed,
        )
        if result.places is not None:
            plane = plane_of(problem, result.places)
            self._offer(problem, plane)
            if (plane.excess > 0).any():  # it fits only within HiGHS's tolerance
                return bound
        return max(bound, result.bound)


def _dearest_total(problem: Problem) -> float:
    """A cost that no allowed choice exceeds, with room for rounding."""
    total, size = problem.offset, abs(problem.offset)
    for costs in (*problem.costs.values(), *(problem.edges[u][v] for u, v in problem.pairs())):
        largest = float(np.max(costs, where=np.isfinite(costs), initial=-math.inf))
        total, size = total + largest, size + abs(largest)
    return total + 1e-9 * size


def _through_costs(priced: Priced) -> dict[int, Floats]:
    """Per node, a bound on all choices that fit and have each of its strategies."""
    if priced.run is None:
        return {}
    return {node: totals + priced.constant for node, totals in priced.run.through_costs().items()}


def _kept_below(
    problem: Problem, through: dict[int, Floats], most: float, deadline_s: float
) -> Problem:
    """A reduced copy with the strategies whose totals are below ``most``."""
    left = problem.copy()
    touched: set[int] = set()
    for node, totals in through.items():
        keep = totals < most
        if not keep.all():
            left.keep_strategies(node, keep)
            touched.update((node, *left.edges[node]))
    if not left.is_infeasible:
        reduce_problem(left, nodes=touched, deadline_s=deadline_s)
    return left


def _num_strategies(problem: Problem) -> int:
    return sum(len(costs) for costs in problem.costs.values())


def _inheritance(problem: Problem, priced: Priced) -> Inheritance:
    return Inheritance(
        prices=dict(zip(problem.times, priced.end.prices.tolist(), strict=True)),
        cuts=priced.end.cuts,
        radius=priced.end.radius,
        choices=tuple(
            {node: int(problem.labels[node][at]) for node, at in plane.places.items()}
            for plane in priced.end.planes[-_MOST_INHERITED:]
        ),
    )


def _inherited(problem: Problem, parent: Inheritance | None) -> Start | None:
    if parent is None:
        return None
    places = [problem.placed(labels) for labels in parent.choices]
    planes = [plane_of(problem, at) for at in places if at is not None]
    return Start(
        cuts=parent.cuts,
        prices=np.array([parent.prices.get(moment, 0.0) for moment in problem.times]),
        radius=parent.radius,
        planes=tuple(plane for plane in planes if plane.cost < math.inf),
    )


def _most_mixed(problem: Problem, left: Problem, priced: Priced) -> tuple[int, float] | None:
    """The node of ``left`` whose usage the mixture spreads most, and its mean usage there."""
    best, best_spread = None, 0.0
    for node in left.costs:
        if not left.uses_memory(node):
            continue
        usages = [(w, int(problem.usages[node][places[node]])) for w, places in priced.mixture]
        mean = sum(w * usage for w, usage in usages)
        spread = sum(w * abs(usage - mean) for w, usage in usages)
        own = left.usages[node]
        if spread > best_spread and int(own.min()) <= mean < int(own.max()):
            best, best_spread = (node, mean), spread
    return best


def _split(problem: Problem, at: tuple[int, float] | None) -> Iterator[Problem]:
    """Two reduced problems that together hold all choices of this one."""
    if at is None:
        node = max(problem.costs, key=lambda node: len(problem.costs[node]))
        below: Mask = np.arange(len(problem.costs[node])) < len(problem.costs[node]) // 2
    else:
        node = at[0]
        below = problem.usages[node] <= at[1]
    for keep in (below, ~below):
        side = problem.copy()
        side.keep_strategies(node, keep)
        reduce_problem(side, nodes=(node, *side.edges[node]))
        yield side
