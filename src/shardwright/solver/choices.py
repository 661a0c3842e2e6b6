"""Finding good choices on the way: from mixtures, from the cheapest strategies, and by windows."""

from __future__ import annotations

import time
from typing import final

import numpy as np

from shardwright.solver.incumbent import Incumbent
from shardwright.solver.integer_program import solve_integer_program
from shardwright.solver.local_search import improve
from shardwright.solver.multipliers import Plane, Priced, plane_of
from shardwright.solver.narrow import Through, kept_below
from shardwright.solver.problem import Problem
from shardwright.solver.windows import WindowSearch

_CORE = 150
"""Strategies, beside one per node, among which good choices are looked for first."""
_MOST_PROGRAM_NODES = 300
_WINDOW_ROUNDS = 3


@final
class ChoiceFinder:
    """Ways to better choices; all that they find is offered to the incumbent."""

    def __init__(self, incumbent: Incumbent, *, deadline_s: float, seed: int) -> None:
        self._incumbent = incumbent
        self._deadline_s = deadline_s
        self._seed = seed

    def offer(self, problem: Problem, plane: Plane) -> None:
        """Offer a choice that came up."""
        if (plane.excess <= 0).all():
            self._incumbent.offer(problem, plane.places, plane.cost)

    def from_mixture(self, problem: Problem, priced: Priced) -> None:
        """Make the choices behind a bound fit, and better."""
        for _, places in priced.mixture:
            if time.monotonic() < self._deadline_s:
                better = improve(problem, places, deadline_s=self._deadline_s)
                if better is not None:
                    self._incumbent.offer(problem, *better)

    def from_core(self, problem: Problem, through: Through) -> None:
        """Solve the problem of the strategies with the least bounds."""
        totals = np.sort(np.concatenate([np.zeros(0), *through.values()]))
        if len(totals) <= len(through) + _CORE:
            return
        most = float(totals[len(through) + _CORE])
        core = kept_below(problem, through, most, deadline_s=self._deadline_s)
        if core.is_infeasible:
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
            self.offer(core, plane_of(core, result.places))

    def from_windows(self, problem: Problem, through: Through) -> None:
        """Improve the incumbent window by window, among strategies that are not too dear."""
        choice = self._incumbent.choice
        places = None if choice is None else problem.placed(dict(enumerate(choice)))
        if places is None:
            return
        left = problem.copy()
        for node, totals in through.items():
            keep = totals < self._incumbent.target
            keep[places[node]] = True
            left.keep_strategies(node, keep)
        at = left.placed(problem.chosen(places))
        if at is not None:
            search = WindowSearch(left, at, deadline_s=self._deadline_s, seed=self._seed)
            search.run(most_rounds=_WINDOW_ROUNDS)
            self._incumbent.offer(left, search.places, search.cost)
