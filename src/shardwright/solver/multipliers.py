"""Prices of memory: the best lower bound that the dynamic program can give.

With a price per byte and moment, memory joins the costs and the limit is dropped::

    q(price) = min over choices x of  cost(x) + sum over t of price[t] (usage[t](x) - limit[t])

is below the cost of every choice that fits, for any prices >= 0. q is concave and each run of the
dynamic program gives a plane above it, so the prices are found by cutting planes: a linear program
over the planes proposes the next prices inside a box around the best ones, which grows while steps
succeed at its border and shrinks when they fail. The planes that bind at the end say which mixture
of choices the bound pretends to use. Rows that the mixture violates but no whole choice does are
priced as well (``memory_rows``), and the climb goes on; branching takes apart what remains.

Source: Geoffrion, "Lagrangean relaxation for integer programming", 1974; Marsten, Hogan and
Blankenship, "The boxstep method for large-scale optimization", 1975.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.solver.dynamic_program import DynamicProgram, Run
from shardwright.solver.master_program import MasterProgram
from shardwright.solver.memory_rows import CutName, MemoryRows, violated_cuts
from shardwright.solver.problem import Floats, Places, Problem

_TOLERANCE = 1e-5
"""Relative gain that is still worth a run."""
_MOST_NEW_CUTS = 4
"""Cuts taken up at once."""
_DEAR = 100.0
"""Prices, in units of the free cost, at which the leanest choice comes up."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plane:
    """A choice as it came up: by place, with its cost and its usage less the limits by moment."""

    places: Places
    cost: float
    excess: Floats


OnChoice = Callable[[Problem, Plane], None]
"""Told of every choice that comes up."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """What a climb begins from, such as the end of one on a larger problem.

    Attributes:
        prices: cost per byte at each moment.
        cuts: the cuts to begin with and the price of each.
        radius: half the width of the box.
        planes: choices that are known.
    """

    prices: Floats
    cuts: tuple[tuple[CutName, float], ...]
    radius: float
    planes: tuple[Plane, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """The outcome: prices, the bound at them, and the mixture of choices behind the bound.

    Attributes:
        bound: no choice that fits costs less; infinite when nothing is allowed.
        end: prices, cuts and planes from which another climb may begin.
        constant: what totals of ``run`` lack to be bounds on whole choices.
        weights: share of each plane of ``end`` in the mixture.
        run: the run of the dynamic program at the prices; None when nothing is allowed.
    """

    bound: float
    end: Start
    constant: float
    weights: tuple[float, ...]
    run: Run | None

    @property
    def mixture(self) -> list[tuple[float, Places]]:
        """The choices that the bound mixes, with their shares; without prices the last one."""
        known = _mixture(self.weights, self.end.planes)
        return known or [(1.0, plane.places) for plane in self.end.planes[-1:]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """When to end a climb.

    Attributes:
        most_runs: runs of the dynamic program.
        most_cut_rounds: times that violated cuts are looked for.
        enough: a bound that will do.
        deadline_s: by ``time.monotonic()``.
    """

    most_runs: int = 60
    most_cut_rounds: int = 8
    enough: float = math.inf
    deadline_s: float = math.inf


def price_memory(
    problem: Problem,
    program: DynamicProgram,
    *,
    on_choice: OnChoice,
    effort: Effort,
    start: Start | None = None,
) -> Priced:
    """Prices with a bound near the best that prices can give, on a reduced problem."""
    return _Ascent(problem, program, on_choice).climb(start, effort)


def plane_of(problem: Problem, places: Places) -> Plane:
    """The plane of a choice."""
    excess = (problem.usage(places) - problem.limits).astype(np.float64)
    return Plane(places=places, cost=problem.total_cost(places), excess=excess)


def _mixture(
    weights: tuple[float, ...], planes: tuple[Plane, ...] | list[Plane]
) -> list[tuple[float, Places]]:
    pairs = zip(weights, planes, strict=False)
    return [(weight, plane.places) for weight, plane in pairs if weight > 1e-9]


@final
class _Ascent:
    """One climb. Prices are held as what a whole bound's worth of a row costs."""

    def __init__(self, problem: Problem, program: DynamicProgram, on_choice: OnChoice) -> None:
        self._problem, self._program, self._on_choice = problem, program, on_choice
        self._rows = MemoryRows(problem=problem)
        self._planes: list[Plane] = []
        self._best = -math.inf
        self._at = np.zeros(len(problem.limits))
        self._run: Run | None = None
        self._radius = 1.0
        self._weights: tuple[float, ...] = ()
        self._master = MasterProgram(len(problem.limits))

    def climb(self, start: Start | None, effort: Effort) -> Priced:
        self._begin(start)
        rounds = 0
        while self._best <= effort.enough and len(self._planes) < effort.most_runs:
            if not len(self._at) or time.monotonic() > effort.deadline_s:
                break
            if self._step():
                continue
            if rounds == effort.most_cut_rounds or not self._add_violated_cuts():
                break
            rounds += 1
        return self._outcome()

    def _outcome(self) -> Priced:
        prices, num_moments = self._at / self._rows.sizes, len(self._problem.limits)
        cuts = zip(self._rows.cuts, prices[num_moments:].tolist(), strict=True)
        return Priced(
            bound=self._best,
            end=Start(
                prices=prices[:num_moments],
                cuts=tuple((cut.name, price) for cut, price in cuts if price > 0),
                radius=self._radius,
                planes=tuple(self._planes),
            ),
            constant=self._problem.offset - float(prices @ self._rows.bounds),
            weights=self._weights,
            run=self._run,
        )

    def _begin(self, start: Start | None) -> None:
        if start is None:
            self._evaluate(self._at)
            self._radius = max(abs(self._best), 1e-9)
            if len(self._at):
                self._evaluate(np.full(len(self._at), _DEAR * self._radius))
            return
        prices = start.prices
        if start.cuts:
            self._rows = self._rows.with_cuts(name for name, _ in start.cuts)
            price_of = dict(start.cuts)
            more = [price_of[cut.name] for cut in self._rows.cuts]
            prices = np.concatenate([prices, more])
            self._master = MasterProgram(len(prices))
        self._radius = start.radius
        for plane in start.planes:
            self._add(plane, height=plane.cost)
        self._evaluate(prices * self._rows.sizes)

    def _step(self) -> bool:
        """Try the prices that the planes propose; says whether there was anything to gain."""
        model, at, self._weights = self._master.best_in_box(self._at, self._radius)
        is_at_border = bool((np.abs(at - self._at) > self._radius * (1 - 1e-6)).any())
        before = self._best
        gain = model - before
        if gain <= _TOLERANCE * abs(before) and not is_at_border:
            return False
        value = self._evaluate(at)
        if value > before + 0.1 * gain and is_at_border:
            self._radius *= 2.0
        elif value < before:
            self._radius *= 0.5
        return value < math.inf

    def _add_violated_cuts(self) -> bool:
        """Price the cuts that the mixture violates; says whether there were any."""
        mixture = _mixture(self._weights, self._planes)
        names = violated_cuts(self._problem, mixture, most=_MOST_NEW_CUTS) if mixture else []
        rows = self._rows.with_cuts(names)
        new = rows.cuts[len(self._rows.cuts) :]
        for cut in new:
            size = max(cut.bound, 1.0)
            self._master.add_price([cut.excess(plane.places) / size for plane in self._planes])
        self._at = np.concatenate([self._at, np.zeros(len(new))])
        self._rows = rows
        return bool(new)

    def _evaluate(self, at: Floats) -> float:
        """The bound at these prices; remembers them when they are the best so far."""
        prices = at / self._rows.sizes
        run = self._program.run(self._rows.priced(prices))
        if run.total == math.inf:
            self._best = math.inf
            return math.inf
        value = self._problem.offset + run.total - float(prices @ self._rows.bounds)
        plane = plane_of(self._problem, run.best_choice())
        self._add(plane, height=value - float(prices @ self._rows.excess(plane.places)))
        if value > self._best:
            self._best, self._at, self._run = value, at, run
        return value

    def _add(self, plane: Plane, *, height: float) -> None:
        """Take up a plane; its height is its cost, or less where the run only bounds."""
        self._on_choice(self._problem, plane)
        self._planes.append(plane)
        self._master.add(height, self._rows.excess(plane.places) / self._rows.sizes)
