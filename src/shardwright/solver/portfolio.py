"""Who works on what and when: prices, walks and the integer program side by side, in rounds.

In a round every thread does one piece of work on data of its own; between rounds they exchange the
best choice, the best bound and the prices. What a round does depends on the seed and on how much of
the budget is spent, so a budget of work (and not of time) gives the same answer every time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import final

import numpy as np

from shardwright.solver.arrays import Flat, Ints
from shardwright.solver.branch import BranchAndBound
from shardwright.solver.budget import Budget
from shardwright.solver.cooling import Cooling, walks
from shardwright.solver.dual import Dual, ascend, new_dual, seek
from shardwright.solver.exact import ExactResult, solve_program
from shardwright.solver.messages import Wiring, cost_of, slack_of, wire
from shardwright.solver.region import Mates, make_mates
from shardwright.solver.solution import Limit, relative_gap
from shardwright.solver.walker import Walker

_ROUND_WORK = 4_000_000
"""Entries read by one thread in one round: a fraction of a second."""

_PRICING = 0.2
"""Share of the budget after which walks begin, if prices have not settled before."""

_LONGEST_PRICING_S = 6.0
_AHEAD = 0.1
_MOST_SWEEPS = 50
_ROUNDS_BEFORE_PROGRAM = 5
_CYCLE = 400.0
"""How often a first walk should read each table entry."""
_USUAL_WORK_PER_S = 1.6e8
_TINY = (400, 10_000)
_SMALL = (8_000, 150_000)
"""Strategies and table entries up to which the integer program is tried."""
_BRANCHED = (12_000, 400_000)
"""The same for branch and bound, where the integer program is not."""


@final
@dataclass(kw_only=True)
class _Lane:
    """What one thread does over time: walks, or prices (None) before the first."""

    coolings: tuple[Cooling, ...]
    walker: Walker | None = None
    price_of: float = math.inf

    def cooling(self, share: float) -> Cooling | None:
        """The walk at this share of the budget; None before the first begins."""
        if share < self.coolings[0].begin:
            return None
        return next((c for c in self.coolings if share < c.end), self.coolings[-1])


@final
@dataclass(kw_only=True)
class Portfolio:
    """The search for one reduced problem."""

    flat: Flat
    budget: Budget
    gap: float
    seed: int
    num_threads: int
    offset: float
    report: Callable[[float, float], None]
    best: Ints | None = None
    cost: float = np.inf
    bound: float = -np.inf
    is_complete: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    num_walkers: int = 0
    num_rounds: int = 0
    tree: BranchAndBound | None = None
    found: list[Ints] = field(default_factory=list)
    wiring: Wiring = field(init=False)
    mates: Mates = field(init=False)
    dual: Dual = field(init=False)
    walkers: list[Walker] = field(default_factory=list)

    def run(self) -> None:
        """Search until the gap is closed or the budget is spent; fills in best, cost and bound."""
        self.wiring = wire(self.flat)
        self.mates = make_mates(self.flat, 256)
        self.dual = new_dual(self.flat, self.wiring)
        try:
            if self.is_at_most(_TINY):
                self.run_tiny()
            if not self.is_over():
                self.run_rounds()
        except KeyboardInterrupt:
            self.budget.is_interrupted = True
        finally:
            self.stop.set()

    def offer(self, choice: Ints) -> None:
        """Take a choice as the best if it fits and is the cheapest so far."""
        cost = float(cost_of(self.flat, choice))
        if cost < self.cost and np.all(slack_of(self.flat, choice) >= 0):
            self.best, self.cost = choice.copy(), cost
            self.report(self.cost, self.bound)

    def is_over(self) -> bool:
        """Whether there is nothing more to do or to spend."""
        if self.is_complete or self.budget.limit is not Limit.NONE:
            return True
        return relative_gap(self.cost + self.offset, self.bound + self.offset) <= self.gap

    def is_at_most(self, size: tuple[int, int]) -> bool:
        """Whether the problem has at most so many strategies and table entries."""
        strategies, entries = size
        return len(self.flat.nodes.cost) <= strategies and len(self.flat.edges.table) <= entries

    def run_tiny(self) -> None:
        """A few sweeps, then the integer program alone."""
        self.price()
        if not self.is_over():
            self.take(self.solve_program())

    def run_rounds(self) -> None:
        """Rounds until it is over: prices first, then every thread its lane."""
        with ThreadPoolExecutor(max_workers=max(1, self.num_threads)) as pool:
            try:
                self.run_pricing(pool)
                self.run_lanes(pool)
            finally:
                # The integer program must not keep the pool waiting.
                self.stop.set()

    def run_pricing(self, pool: ThreadPoolExecutor) -> None:
        """Prices alone, until they are settled or have had their share and a choice fits."""
        began_s = self.budget.left_s
        while not self.is_over():
            self.round(pool, [self.price])
            spent_s = began_s - self.budget.left_s if self.budget.work_limit is None else 0.0
            is_late = self.budget.share > _PRICING or spent_s > _LONGEST_PRICING_S
            if not (is_late or self.dual.is_stale):
                continue
            if self.best is None:
                self.seek()
            if self.best is None and self.is_at_most(_SMALL):
                self.take(self.solve_program())
            if self.best is not None:
                return

    def run_lanes(self, pool: ThreadPoolExecutor) -> None:
        """Walks, prices and the integer program side by side."""
        plan = walks(self.budget.share, self.cycle(), self.num_threads)
        lanes = [_Lane(coolings=coolings) for coolings in plan]
        for _ in range(_ROUNDS_BEFORE_PROGRAM):
            if not self.is_over():
                self.round(pool, [self.task(lanes[0])])
        program = None if self.is_over() else self.start_program(pool)
        if (program is not None or self.is_at_most(_BRANCHED)) and len(lanes) > 1:
            del lanes[1]
        if program is None and self.is_at_most(_BRANCHED):
            self.tree = BranchAndBound(
                flat=self.flat, cost=self.cost, offer=self.found.append, gap=self.gap
            )
        while not self.is_over():
            tasks = [self.task(lane) for lane in lanes]
            if self.tree is not None and self.num_threads > 1:
                tasks = [*tasks[: self.num_threads - 1], self.branch]
            elif self.tree is not None and self.num_rounds % 2:
                tasks = [self.branch]
            self.round(pool, tasks)
            if program is not None and program.done():
                self.take(program.result())
                program = None

    def cycle(self) -> float:
        """The share of the budget that a first walk should have."""
        work = _CYCLE * len(self.flat.edges.table)
        if self.budget.work_limit is not None:
            return work / max(1, self.budget.work_limit)
        return work / _USUAL_WORK_PER_S / max(1e-9, self.budget.time_limit_s)

    def branch(self) -> None:
        """One split of branch and bound, or its beginning."""
        tree = self.tree
        assert tree is not None
        tree.cost = min(tree.cost, self.cost)
        if tree.bound == -math.inf:
            tree.begin()
        elif not tree.is_done:
            tree.split()

    def take_branches(self) -> None:
        """Take over what branch and bound found."""
        for choice in self.found:
            self.offer(choice)
        self.found.clear()
        if self.tree is not None and self.tree.bound > self.bound:
            self.bound = self.tree.bound
            self.report(self.cost, self.bound)

    def task(self, lane: _Lane) -> Callable[[], None]:
        """What a lane does in the coming round."""
        share = self.budget.share
        cooling = lane.cooling(share)
        if cooling is None and not self.dual.is_stale:
            return self.price
        assert self.best is not None
        wanted = cooling or lane.coolings[-1]
        if lane.walker is None:
            lane.walker = self.new_walker(wanted)
        if lane.walker.cooling is not wanted:
            lane.walker.restart(self.best, self.dual.best_prices, wanted)
        elif lane.price_of < self.dual.bound:
            lane.walker.take_prices(self.dual.best_prices)
        lane.price_of = self.dual.bound
        return partial(lane.walker.walk, share, _ROUND_WORK)

    def new_walker(self, cooling: Cooling) -> Walker:
        """A walker with a random sequence of its own, standing at the best choice."""
        assert self.best is not None
        self.num_walkers += 1
        seed = (self.seed * 1_000_003 + self.num_walkers) * 2_654_435_761 + 88_172_645_463_325_252
        walker = Walker(
            flat=self.flat,
            wiring=self.wiring,
            mates=self.mates,
            random=np.array([seed % 2**64], np.uint64),
            unit=abs(self.cost) / len(self.best),
        )
        walker.restart(self.best, self.dual.best_prices, cooling)
        self.walkers.append(walker)
        return walker

    def round(self, pool: ThreadPoolExecutor, tasks: list[Callable[[], None]]) -> None:
        """Do the tasks side by side, then exchange what they found."""
        for future in [pool.submit(task) for task in tasks]:
            future.result()
        self.budget.work += _ROUND_WORK
        self.num_rounds += 1
        self.take_branches()
        for walker in self.walkers:
            if walker.cost < self.cost:
                self.offer(walker.choice)
        self.dual.numbers[1] = min(self.dual.numbers[1], self.cost)

    def price(self) -> None:
        """One round of prices; their bound and their choice are taken over."""
        work = len(self.flat.edges.table) + 4 * len(self.flat.nodes.cost) + 1
        ascend(
            self.flat,
            self.wiring,
            self.dual,
            min(_MOST_SWEEPS, max(1, round(2 * _ROUND_WORK / work))),
            _AHEAD,
        )
        self.take_dual()

    def seek(self) -> None:
        """Look for any choice that fits."""
        seek(self.flat, self.wiring, self.dual, 100)
        self.take_dual()

    def take_dual(self) -> None:
        """Take over the bound and the choice that pricing found."""
        if self.dual.bound > self.bound:
            self.bound = self.dual.bound
            self.report(self.cost, self.bound)
        if self.dual.cost < self.cost:
            self.offer(self.dual.best_choice)

    def start_program(self, pool: ThreadPoolExecutor) -> Future[ExactResult] | None:
        """The integer program on a thread of its own, where the problem is small enough.

        It stops by the clock, so a budget of work leaves it out, and needs a thread for itself.
        """
        by_clock = self.budget.work_limit is None and self.num_threads > 1
        if not by_clock or not self.is_at_most(_SMALL):
            return None
        return pool.submit(self.solve_program)

    def solve_program(self) -> ExactResult:
        """The integer program on what is left of the time."""
        return solve_program(
            self.flat,
            gap=self.gap,
            time_limit_s=self.budget.left_s,
            seed=self.seed,
            start=self.best,
            stop=self.stop,
        )

    def take(self, result: ExactResult) -> None:
        """Take over what the integer program found."""
        self.bound = max(self.bound, result.bound)
        if result.choice is not None:
            self.offer(result.choice)
        self.is_complete = result.is_complete
        self.report(self.cost, self.bound)
