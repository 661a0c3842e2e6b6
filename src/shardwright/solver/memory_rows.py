"""The memory limits as rows over choices, and the sharper rows that follow from them by rounding.

A row gives every strategy a weight and says that the weights of a choice add up to at most a bound.
The first rows are the limits at each moment. Where memory is tight those alone are weak, since a
bound may pretend to use a fraction of a large strategy that does not fit whole. So rows are added
that only whole choices must keep. With u' the usages at a moment less the least of each node, L'
the limit less all of those, and any divisor d, ::

    sum over nodes of F(u'[v, s_v])  <=  floor(L' / d)
    F(u) = floor(u / d) + max(0, frac(u / d) - frac(L' / d)) / (1 - frac(L' / d))

because F is superadditive, does not fall, and F(L') is the right side.

Source: Nemhauser and Wolsey, "A recursive procedure to generate all cuts for 0-1 mixed integer
programs", 1990 (mixed integer rounding).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from shardwright.solver.problem import Floats, Ints, Places, Problem
from shardwright.solver.reduce_memory import spare_per_moment

_LEAST_VIOLATION = 1e-3
_MOST_DIVISORS = 64


class CutName(NamedTuple):
    """What a rounded row is made from, so that another part of the search can make its own."""

    time: int
    divisor: int


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cut:
    """A rounded row: per node alive at its moment the weight of each strategy, and the bound."""

    name: CutName
    weights: Mapping[int, Floats]
    bound: float

    def excess(self, places: Places) -> float:
        """Weight of a choice less the bound."""
        return sum(float(own[places[node]]) for node, own in self.weights.items()) - self.bound


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryRows:
    """All rows of one problem: its limits in order of moments, then the cuts."""

    problem: Problem
    cuts: tuple[Cut, ...] = ()

    @property
    def sizes(self) -> Floats:
        """A natural unit of each row: its bound, or 1."""
        bounds = [*np.abs(self.problem.limits).tolist(), *(cut.bound for cut in self.cuts)]
        return np.maximum(np.array(bounds, dtype=np.float64), 1.0)

    @property
    def bounds(self) -> Floats:
        """The right side of each row."""
        cuts = [cut.bound for cut in self.cuts]
        return np.concatenate([self.problem.limits.astype(np.float64), cuts])

    def excess(self, places: Places) -> Floats:
        """Per row, how much a choice is above the bound."""
        usage = self.problem.usage(places) - self.problem.limits
        return np.concatenate([usage.astype(np.float64), [c.excess(places) for c in self.cuts]])

    def priced(self, prices: Floats) -> dict[int, Floats]:
        """Per node, the cost of each strategy plus the prices of its weights."""
        num_moments = len(self.problem.limits)
        until = np.concatenate([[0.0], np.cumsum(prices[:num_moments])])
        costs = {}
        for node, own in self.problem.costs.items():
            first, end = self.problem.spans[node]
            costs[node] = own + self.problem.usages[node] * (until[end] - until[first])
        for cut, price in zip(self.cuts, prices[num_moments:].tolist(), strict=True):
            if price > 0:
                for node, weights in cut.weights.items():
                    costs[node] = costs[node] + price * weights
        return costs

    def with_cuts(self, names: Iterable[CutName]) -> MemoryRows:
        """These rows and the cuts named, where their moments still bind."""
        spare = spare_per_moment(self.problem)
        known = {cut.name for cut in self.cuts}
        moment_of = {time: moment for moment, time in enumerate(self.problem.times)}
        more = [
            make_cut(
                self.problem, moment_of[name.time], name.divisor, int(spare[moment_of[name.time]])
            )
            for name in names
            if name.time in moment_of and name not in known
        ]
        return MemoryRows(problem=self.problem, cuts=(*self.cuts, *more))


def make_cut(problem: Problem, moment: int, divisor: int, spare: int) -> Cut:
    """The limit at a moment, less the least usages, rounded by a divisor."""
    weights = {}
    for node, (first, end) in problem.spans.items():
        if first <= moment < end:
            usages = problem.usages[node]
            rounded = round_usages(usages - usages.min(), divisor, spare)
            if rounded.any():
                weights[node] = rounded
    return Cut(
        name=CutName(problem.times[moment], divisor), weights=weights, bound=float(spare // divisor)
    )


def round_usages(usages: Ints, divisor: int | Ints, spare: int) -> Floats:
    """F of the usages."""
    part = spare % divisor / divisor
    whole, rest = np.divmod(usages, divisor)
    return np.asarray(whole + np.maximum(0.0, rest / divisor - part) / (1.0 - part))


def violated_cuts(
    problem: Problem, mixture: Sequence[tuple[float, Places]], *, most: int
) -> list[CutName]:
    """The cuts that a mixture of choices violates most, at most one per moment.

    Args:
        problem: whose choices are mixed.
        mixture: weights that add up to 1, each with its choice.
        most: how many to return.
    """
    spare = spare_per_moment(problem)
    found = []
    for moment in range(len(problem.limits)):
        best = _most_violated(problem, moment, int(spare[moment]), mixture)
        if best is not None:
            found.append((best[0], CutName(problem.times[moment], best[1])))
    return [name for _, name in sorted(found, reverse=True)[:most]]


def _most_violated(
    problem: Problem, moment: int, spare: int, mixture: Sequence[tuple[float, Places]]
) -> tuple[float, int] | None:
    """The largest relative violation at a moment and its divisor."""
    usages, shares = [], []
    for node, (first, end) in problem.spans.items():
        if first <= moment < end:
            least = int(problem.usages[node].min())
            for weight, places in mixture:
                usages.append(int(problem.usages[node][places[node]]) - least)
                shares.append(weight)
    held = np.array(usages, dtype=np.int64)
    divisors = _divisors(held, spare)
    if not len(divisors):
        return None
    weight = round_usages(held, divisors[:, None], spare) @ np.array(shares)
    bounds = spare // divisors
    violation = (weight - bounds) / np.maximum(bounds, 1)
    best = int(violation.argmax())
    if violation[best] < _LEAST_VIOLATION:
        return None
    return float(violation[best]), int(divisors[best])


def _divisors(held: Ints, spare: int) -> Ints:
    """Usages that occur, and those that just fail to fit a whole number of times."""
    just_too_large = spare // np.arange(1, 13) + 1
    candidates = np.unique(np.concatenate([held[held > 0], just_too_large]))
    return candidates[candidates > 1][-_MOST_DIVISORS:]
