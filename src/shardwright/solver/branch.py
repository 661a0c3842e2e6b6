"""Branch and bound over prices of memory: what closes the gap that prices alone leave.

Each open part of the search space is a reduced problem. It is bounded by pricing memory; strategies
through which every choice costs too much are dropped, and the rest reduced again; what is small by
then goes to the integer program, what shrank much is bounded again, and what did not is split.
Tables are small at first, since a rough bound often drops most of what would have made them large.

Source: Fisher, "The Lagrangian relaxation method for solving integer programming problems", 1981.
"""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from shardwright.solver.choices import ChoiceFinder
from shardwright.solver.dynamic_program import DynamicProgram, dynamic_program
from shardwright.solver.incumbent import Incumbent
from shardwright.solver.inheritance import Inheritance, inheritance, start_of
from shardwright.solver.integer_program import program_size, solve_integer_program
from shardwright.solver.multipliers import Effort, Priced, plane_of, price_memory
from shardwright.solver.narrow import Through, kept_below, through_costs
from shardwright.solver.problem import Problem
from shardwright.solver.split import split

_TABLE_ENTRIES = (100_000, 1_000_000, 8_000_000)
"""Largest table of the dynamic program, level by level; the last is 64 MB."""
_SMALL = 350
"""Strategies left at which a part goes to the integer program."""
_MOST_PROGRAM_NODES = 300
"""Nodes that the integer program may open in a part before the part is split instead."""
_SHRUNK = 0.7
"""A part that lost more than the rest of this share is bounded once more before anything else."""
_PARTS_BEFORE_DOUBT, _LEAST_PROGRESS = 40, 0.2
"""Parts after which this share of the gap must be closed, or the rest is solved whole."""
_LARGEST_PROGRAM = 100_000
"""Columns of the largest integer program that is worth a try."""
_FIRST_RUNS, _LATER_RUNS = 60, 12
_FIRST_CUT_ROUNDS, _LATER_CUT_ROUNDS = 8, 1


@final
@dataclass(frozen=True, order=True, slots=True, kw_only=True)
class _Part:
    """An open part: least bound first, deeper first among equals, then as they came."""

    bound: float
    shallowness: int
    number: int
    problem: Problem = field(compare=False)
    level: int = field(compare=False, default=0)
    parent: Inheritance | None = field(compare=False, default=None)

    @property
    def is_root(self) -> bool:
        return self.shallowness == 0

    def within(self, problem: Problem, bound: float, parent: Inheritance) -> _Part:
        """This part when less of it is left and more is known."""
        return replace(self, problem=problem, bound=bound, parent=parent)


@final
class BranchAndBound:
    """One search over the parts of one problem."""

    def __init__(self, incumbent: Incumbent, *, deadline_s: float, seed: int = 0) -> None:
        self._incumbent = incumbent
        self._finder = ChoiceFinder(incumbent, deadline_s=deadline_s, seed=seed)
        self._deadline_s = deadline_s
        self._seed = seed
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
        self._ceiling = _dearest_total(problem)
        self._push(_Part(bound=-math.inf, shallowness=0, number=0, problem=problem))
        while self._open and self._open[0].bound < self._incumbent.target and not self._is_late():
            self._process(heapq.heappop(self._open))
            self._incumbent.raise_bound(self._bound())
            if self._count > _PARTS_BEFORE_DOUBT and self._whole is not None and self._is_stuck():
                return max(self._bound(), self._solve_whole(self._whole))
        return self._bound()

    def _bound(self) -> float:
        return min(self._closed, self._open[0].bound if self._open else math.inf)

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline_s

    def _push(self, part: _Part) -> None:
        if not part.problem.is_infeasible:
            self._count += 1
            heapq.heappush(self._open, replace(part, number=self._count))

    def _close(self, bound: float) -> None:
        """Note that everything of a part costs at least this."""
        self._closed = min(self._closed, bound)

    def _process(self, part: _Part) -> None:
        program = dynamic_program(part.problem, most_entries=_TABLE_ENTRIES[part.level])
        priced = self._price(part, program)
        bound = max(part.bound, priced.bound)
        if bound > self._ceiling:
            bound = math.inf  # dearer than any choice: nothing fits
        part = replace(part, bound=bound)
        if bound < self._incumbent.target and self._is_late():
            self._push(part)
        elif bound < self._incumbent.target and part.is_root:
            self._finder.from_mixture(part.problem, priced)
            self._narrow(part, priced, is_exact=program.is_exact)
        elif bound < self._incumbent.target:
            self._narrow(part, priced, is_exact=program.is_exact)
        else:
            self._close(bound)

    def _price(self, part: _Part, program: DynamicProgram) -> Priced:
        return price_memory(
            part.problem,
            program,
            on_choice=self._finder.offer,
            start=None if part.parent is None else start_of(part.problem, part.parent),
            effort=Effort(
                most_runs=_FIRST_RUNS if part.is_root else _LATER_RUNS,
                most_cut_rounds=_FIRST_CUT_ROUNDS if part.is_root else _LATER_CUT_ROUNDS,
                enough=min(self._incumbent.target, self._ceiling),
                deadline_s=self._deadline_s,
            ),
        )

    def _narrow(self, part: _Part, priced: Priced, *, is_exact: bool) -> None:
        """Drop what is too dear; then solve, bound again or split what is left."""
        through = through_costs(priced)
        left = self._without_dear(part.problem, through)
        if left.is_infeasible:
            return
        if not left.costs:
            self._finder.offer(left, plane_of(left, {}))
            self._close(max(part.bound, left.offset))
            return
        less = part.within(left, part.bound, inheritance(part.problem, priced))
        before, now = _num_strategies(part.problem), _num_strategies(left)
        if now <= _SMALL:
            self._finish(less, part, priced, through)
        elif now < _SHRUNK * before:
            self._push(less)
        elif not is_exact and part.level + 1 < len(_TABLE_ENTRIES):
            self._push(replace(less, level=part.level + 1))
        elif part.is_root and self._find_better(part.problem, through):
            self._push(replace(less, shallowness=-1))
        else:
            self._split(less, part, priced, through)

    def _without_dear(self, problem: Problem, through: Through) -> Problem:
        """A reduced copy without the strategies through which all choices reach the target."""
        target = self._incumbent.target
        for totals in through.values():
            self._close(float(totals.min(where=totals >= target, initial=math.inf)))
        return kept_below(problem, through, target, deadline_s=self._deadline_s)

    def _find_better(self, problem: Problem, through: Through) -> bool:
        """Look harder for a better choice, once; says whether there was one."""
        before = self._incumbent.cost
        self._finder.from_core(problem, through)
        self._finder.from_windows(problem, through)
        return self._incumbent.cost < before

    def _finish(self, less: _Part, part: _Part, priced: Priced, through: Through) -> None:
        """Let the integer program try; split what it cannot solve."""
        result = solve_integer_program(
            less.problem,
            gap=self._incumbent.gap / 2,
            time_limit_s=self._deadline_s - time.monotonic(),
            cutoff=self._incumbent.target,
            most_nodes=_MOST_PROGRAM_NODES,
            seed=self._seed,
        )
        bound, fits = max(less.bound, result.bound), True
        if result.places is not None:
            plane = plane_of(less.problem, result.places)
            self._finder.offer(less.problem, plane)
            fits = bool((plane.excess <= 0).all())  # and not only within HiGHS's tolerance
        if fits and bound >= self._incumbent.target:
            self._close(bound)
        else:
            self._split(replace(less, bound=bound if fits else less.bound), part, priced, through)

    def _split(self, less: _Part, part: _Part, priced: Priced, through: Through) -> None:
        if self._whole is None:
            self._first_bound, self._whole = less.bound, less.problem
        for side in split(less.problem, part.problem, priced, through):
            self._push(replace(less, problem=side, shallowness=less.shallowness - 1))

    def _is_stuck(self) -> bool:
        """Whether splitting has closed little of the gap that there was before."""
        gap = self._incumbent.target - self._first_bound
        return self._bound() - self._first_bound < _LEAST_PROGRESS * gap

    def _solve_whole(self, whole: Problem) -> float:
        """The bound of the integer program on all that was left before the first split."""
        if program_size(whole) > _LARGEST_PROGRAM:
            return -math.inf
        result = solve_integer_program(
            whole,
            gap=self._incumbent.gap / 2,
            time_limit_s=self._deadline_s - time.monotonic(),
            cutoff=self._incumbent.target,
            seed=self._seed,
        )
        if result.places is not None:
            self._finder.offer(whole, plane_of(whole, result.places))
        return min(self._closed, result.bound)


def _dearest_total(problem: Problem) -> float:
    """A cost that no allowed choice exceeds, with room for rounding."""
    total, size = problem.offset, abs(problem.offset)
    for costs in (*problem.costs.values(), *(problem.edges[u][v] for u, v in problem.pairs())):
        largest = float(np.max(costs, where=np.isfinite(costs), initial=-math.inf))
        total, size = total + largest, size + abs(largest)
    return total + 1e-9 * size


def _num_strategies(problem: Problem) -> int:
    return sum(len(costs) for costs in problem.costs.values())
