"""Branch and bound over prices: a problem split by what one node may use at the dearest moment.

Each part is reduced again, which often decides much of it, then priced for a while; what cannot
beat the best known cost is dropped, whole parts and single strategies alike. The least bound of the
parts that are left is a bound for all.

Source: Land and Doig, "An automatic method of solving discrete programming problems", 1960;
Lagrangian bounds in it after Fisher, "The Lagrangian relaxation method", 1981; single choices ruled
out by their own bounds after Dantzig, Fulkerson and Johnson, "Solution of a large-scale
traveling-salesman problem", 1954.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np

from shardwright.solver.arrays import Flat, Floats, Ints
from shardwright.solver.consistency import Mask
from shardwright.solver.dual import Dual, ascend, bounds_of, new_dual
from shardwright.solver.messages import slack_of, wire
from shardwright.solver.rebuild import rebuild
from shardwright.solver.reduce import Step, kept, reduced, restored

_SWEEPS = 15
_TURNS = 12
_AHEAD = 0.3
_WARM_STEP = 0.3
_ROUNDING = 1e-9
"""Of the cost: what sums of bounds may be off by, far above what they are."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of the problem that may still hold the best choice, as it was left by pricing."""

    flat: Flat
    offset: float
    steps: tuple[Step, ...]
    dual: Dual


@final
@dataclass(kw_only=True)
class BranchAndBound:
    """The parts that are left of one problem.

    Attributes:
        flat: the problem.
        cost: no part is kept that cannot cost less than this.
        offer: is told every choice that fits.
        bound: no choice costs less, or it costs at least ``cost``.
        gap: parts within this share of the cost are dropped.
    """

    flat: Flat
    cost: float
    offer: Callable[[Ints], None]
    gap: float = 0.0
    bound: float = -math.inf
    parts: list[tuple[float, int, _Part]] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    dropped: float = math.inf

    def begin(self) -> None:
        """Price the whole."""
        self.take(self.flat, 0.0, (), None, -math.inf)
        self.settle()

    @property
    def is_done(self) -> bool:
        """Whether no part is left."""
        return not self.parts

    def split(self) -> None:
        """Split the part with the least bound."""
        bound, _, part = heapq.heappop(self.parts)
        node, low = dearest_split(part.flat, part.dual)
        can_win = self.can_win(part)
        if not can_win.all():
            self.dropped = min(self.dropped, self.target())
        for chosen in (low, ~low):
            alive = can_win.copy()
            begin, end = part.flat.nodes.first[node : node + 2]
            alive[begin:end] &= chosen
            if not np.logical_or.reduceat(alive, part.flat.nodes.first[:-1]).all():
                continue
            merge = kept(part.flat.nodes.first, alive)
            flat, offset = rebuild(part.flat, merge)
            small = reduced(flat, np.arange(len(flat.limits)))
            if small.is_infeasible:
                continue
            prices = part.dual.best_prices[small.times]
            steps = (*part.steps, merge, *small.steps)
            self.take(small.flat, part.offset + offset + small.offset, steps, prices, bound)
        self.settle()

    def can_win(self, part: _Part) -> Mask:
        """Strategies of a part with which a choice may still cost less than what is asked."""
        if not math.isfinite(self.cost):
            return np.ones(len(part.flat.nodes.cost), np.bool_)
        bounds = bounds_of(part.flat, wire(part.flat), part.dual) + part.offset
        return bounds < self.target() + _ROUNDING * abs(self.cost)

    def settle(self) -> None:
        """Drop what can no longer be better, and look what the bound is now."""
        least = self.parts[0][0] if self.parts else math.inf
        self.bound = max(self.bound, min(least, self.cost, self.dropped))

    def target(self) -> float:
        """The cost that a part must be able to beat; infinite while none is known."""
        if not math.isfinite(self.cost):
            return self.cost
        return self.cost - self.gap * abs(self.cost)

    def take(
        self,
        flat: Flat,
        offset: float,
        steps: tuple[Step, ...],
        prices: Floats | None,
        bound: float,
    ) -> None:
        """Price a part, offer what it finds, and keep it if it can still be better."""
        if not len(flat.nodes.cost):
            self.found(restored(steps, np.zeros(0, np.int64)), offset)
            return
        dual = self.priced(flat, offset, prices)
        if dual.cost + offset < self.cost:
            self.found(restored(steps, dual.best_choice), dual.cost + offset)
        bound = max(bound, dual.bound + offset)
        if bound >= self.target():
            self.dropped = min(self.dropped, max(bound, self.target()))
            return
        part = _Part(flat=flat, offset=offset, steps=steps, dual=dual)
        heapq.heappush(self.parts, (bound, next(self.numbers), part))

    def found(self, choice: Ints, cost: float) -> None:
        """Remember and offer a choice."""
        self.cost = min(self.cost, cost)
        self.offer(choice)

    def priced(self, flat: Flat, offset: float, prices: Floats | None) -> Dual:
        """Prices of a part, from those of the part that it was split from."""
        wiring = wire(flat)
        dual = new_dual(flat, wiring)
        if math.isfinite(self.cost):
            dual.numbers[1] = self.cost - offset
        if prices is not None:
            dual.prices[:] = dual.best_prices[:] = prices
            dual.numbers[2] = _WARM_STEP
        for _ in range(_TURNS):
            ascend(flat, wiring, dual, _SWEEPS, _AHEAD)
            if dual.is_stale or dual.bound + offset >= self.target():
                break
        return dual


def dearest_split(flat: Flat, dual: Dual) -> tuple[int, Mask]:
    """A node and those of its strategies that use less than half of its most.

    The moment is the one whose limit is worth most, or has the least bytes left where none is worth
    anything; the node is the one that could use most then. Without memory it is the node with most
    strategies, and the cheaper half of them.
    """
    first, terms = flat.nodes.first, flat.terms
    if len(flat.limits):
        worth = dual.best_prices * np.maximum(1, flat.limits)
        free = slack_of(flat, dual.choice) / np.maximum(1, flat.limits)
        moment = int(np.argmax(worth)) if worth.max() > 0.0 else int(np.argmin(free))
        owner = np.repeat(np.arange(len(first) - 1), np.diff(terms.first))
        best: tuple[int, int, Mask] | None = None
        for k in np.flatnonzero((terms.lo <= moment) & (moment < terms.hi)):
            node = int(owner[k])
            usage = terms.usage[terms.at[k] : terms.at[k] + first[node + 1] - first[node]]
            most = int(usage.max())
            if best is None or most > best[0]:
                best = (most, node, usage <= most / 2)
        if best is not None:
            return best[1], best[2]
    node = int(np.argmax(np.diff(first)))
    cost = flat.nodes.cost[first[node] : first[node + 1]]
    low = np.zeros(len(cost), np.bool_)
    low[np.argsort(cost, kind="stable")[: max(1, len(cost) // 2)]] = True
    return node, low
