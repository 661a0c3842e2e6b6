"""Dynamic programming along an elimination: the best choice, and the best one through any strategy.

A run goes up the buckets in order. Each adds its parts and the node's own costs and leaves the
least over the node. Going back down, each node takes its best strategy beside those already taken;
or, for the *through costs*, each bucket learns what the rest of the graph costs at best, so that
the least total through every single strategy is known.

Source: Dechter, "Bucket elimination", 1999 (the way up); Shafer and Shenoy, "Probability
propagation", 1990 (the way down).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.solver.elimination import Bucket, Elimination, Part, plan_elimination
from shardwright.solver.problem import Floats, Ints, Problem

_MOST_KEPT = 30_000_000
"""Entries of sums of edges that are kept between runs rather than added up again."""


@final
class DynamicProgram:
    """An elimination made ready to be run with any costs of nodes."""

    def __init__(self, elimination: Elimination) -> None:
        self.buckets = elimination.buckets
        self.is_exact = elimination.is_exact
        kept = elimination.size <= _MOST_KEPT
        self._bases = [_edge_sum(bucket) if kept else None for bucket in self.buckets]
        self._groups = [_Groups.of(bucket.maps[0]) for bucket in self.buckets]
        self._copies = _copies(self.buckets)

    def run(self, costs: Mapping[int, Floats]) -> Run:
        """The way up with ``costs`` per node."""
        own: list[Floats] = []
        left: list[Floats] = []
        for copies in self._copies:
            tables = [self.sum_of_parts(number, left) for number in copies]
            shares = _shares(tables) if len(copies) > 1 else [np.zeros(len(tables[0]))]
            shares[0] += self._groups[copies[0]].least(costs[self.buckets[copies[0]].node])
            for table, share in zip(tables, shares, strict=True):
                table += share.reshape(-1, *(1,) * (table.ndim - 1))
                left.append(table.min(axis=0))
            own.extend(shares)
        total = sum(float(left[n]) for n, bucket in enumerate(self.buckets) if not bucket.scope)
        return Run(program=self, costs=costs, own=own, left=left, total=total)

    def own_costs(self, number: int, run: Run) -> Floats:
        """What a bucket charges for each strategy of its node: its costs, or a copy's share."""
        bucket = self.buckets[number]
        charged = run.own[number][bucket.maps[0]]
        if number != bucket.first:
            return charged
        least = self._groups[number].least(run.costs[bucket.node])
        return charged + (run.costs[bucket.node] - least[bucket.maps[0]])

    def sum_of_parts(self, number: int, left: Sequence[Floats]) -> Floats:
        """A fresh table of the bucket without the node's own costs."""
        bucket, base = self.buckets[number], self._bases[number]
        table = _edge_sum(bucket) if base is None else base.copy()
        for part in bucket.parts:
            if part.source >= 0:
                table += _expanded(left[part.source], part, len(bucket.shape))
        return table

    def line_at(self, number: int, left: Sequence[Floats], place: tuple[int, ...]) -> Floats:
        """One line of ``sum_of_parts``: the node's classes beside given classes of its scope."""
        bucket = self.buckets[number]
        line = np.zeros(bucket.shape[0])
        for part in bucket.parts:
            table = left[part.source] if part.table is None else part.table
            at: list[Ints | int | slice] = [slice(None)] * table.ndim
            for axis, place_axis, index in zip(part.order, part.axes, part.indices, strict=True):
                if place_axis == 0:
                    at[axis] = slice(None) if index is None else index
                else:
                    spot = place[place_axis - 1]
                    at[axis] = spot if index is None else int(index[spot])
            line += table[tuple(at)]
        return line


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One way up, from which choices and through costs are read.

    Attributes:
        program: what was run.
        costs: per node, the cost of each strategy.
        own: per bucket, the least that it charges for each class of its node.
        left: per bucket, what it leaves.
        total: least total cost, or a bound below it when the program is not exact; infinite when
            everything is forbidden.
    """

    program: DynamicProgram
    costs: Mapping[int, Floats]
    own: Sequence[Floats]
    left: Sequence[Floats]
    total: float

    def best_choice(self) -> dict[int, int]:
        """A strategy (by place) per node; its cost is ``total`` when the program is exact."""
        choice: dict[int, int] = {}
        beside: Floats | None = None
        for number in reversed(range(len(self.program.buckets))):
            bucket = self.program.buckets[number]
            line = self._line_beside(number, choice)
            beside = line if beside is None else beside + line
            if number == bucket.first:
                choice[bucket.node] = int((self.costs[bucket.node] + beside).argmin())
                beside = None
        return choice

    def _line_beside(self, number: int, choice: Mapping[int, int]) -> Floats:
        """Least cost of what is below a bucket, for each strategy of its node."""
        bucket = self.program.buckets[number]
        place = tuple(
            int(class_map[choice[other]])
            for other, class_map in zip(bucket.scope, bucket.maps[1:], strict=True)
        )
        return self.program.line_at(number, self.left, place)[bucket.maps[0]]

    def through_costs(self) -> dict[int, Floats]:
        """Per node, the least total cost with each of its strategies, or a bound below it."""
        buckets = self.program.buckets
        above: list[Floats | None] = [None] * len(buckets)
        through: dict[int, Floats] = {}
        for number in reversed(range(len(buckets))):
            bucket = buckets[number]
            table = self.program.sum_of_parts(number, self.left)
            outside = above[number]
            table += self.total - float(self.left[number]) if outside is None else outside
            others = tuple(range(1, table.ndim))
            totals = self.program.own_costs(number, self) + table.min(axis=others)[bucket.maps[0]]
            known = through.get(bucket.node)
            through[bucket.node] = totals if known is None else np.maximum(known, totals)
            table += self.own[number].reshape(-1, *(1,) * len(bucket.scope))
            for part in bucket.parts:
                if part.source >= 0:
                    above[part.source] = _without(table, self.left[part.source], part)
            above[number] = None
        return through


def _copies(buckets: Sequence[Bucket]) -> list[range]:
    """The buckets of each node, which follow each other."""
    firsts = [number for number, bucket in enumerate(buckets) if bucket.first == number]
    return [range(a, b) for a, b in itertools.pairwise([*firsts, len(buckets)])]


def _shares(tables: Sequence[Floats]) -> list[Floats]:
    """What each copy charges so that all agree on the best cost of every class; they sum to zero.

    Source: Ihler, Flerova, Dechter and Otten, "Join-graph based cost-shifting schemes", 2012.
    """
    least = [table.min(axis=tuple(range(1, table.ndim))) for table in tables]
    mean = np.mean(least, axis=0)
    shares = [np.where(np.isfinite(one), mean - one, 0.0) for one in least]
    return [np.where(np.isfinite(mean), share, 0.0) for share in shares]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Groups:
    """Members of each class, laid out so that the least of each is one call."""

    order: Ints
    starts: Ints

    @staticmethod
    def of(class_map: Ints) -> _Groups:
        order = np.argsort(class_map, kind="stable")
        starts = np.searchsorted(class_map[order], np.arange(int(class_map.max()) + 1))
        return _Groups(order=order, starts=starts)

    def least(self, values: Floats, axis: int = 0) -> Floats:
        """Least value of each class along an axis."""
        if len(self.starts) == len(self.order):
            return values.take(self.order, axis)
        ordered = values.take(self.order, axis)
        return np.asarray(np.minimum.reduceat(ordered, self.starts, axis=axis))


def _edge_sum(bucket: Bucket) -> Floats:
    table = np.zeros(bucket.shape)
    for part in bucket.parts:
        if part.table is not None:
            table += _expanded(part.table, part, len(bucket.shape))
    return table


def _expanded(table: Floats, part: Part, rank: int) -> Floats:
    """The factor over the bucket's classes, with length 1 along axes that it does not speak of."""
    table = table.transpose(part.order)
    for axis, index in enumerate(part.indices):
        if index is not None:
            table = table.take(index, axis)
    shape = [1] * rank
    for axis, count in zip(part.axes, table.shape, strict=True):
        shape[axis] = count
    return table.reshape(shape)


def _without(table: Floats, message: Floats, part: Part) -> Floats:
    """Least of ``table`` less the message that is in it, over the message's own classes."""
    expanded = _expanded(message, part, table.ndim)
    # Where the message forbids, its bucket stays forbidden whatever is outside: 0 will do.
    rest = table - np.where(np.isfinite(expanded), expanded, 0.0)
    gone = tuple(axis for axis in range(table.ndim) if axis not in part.axes)
    rest = rest.min(axis=gone) if gone else rest
    for axis, index in enumerate(part.indices):
        if index is not None:
            rest = _Groups.of(index).least(rest, axis)
    return rest.transpose(np.argsort(part.order))


def dynamic_program(problem: Problem, *, most_entries: int) -> DynamicProgram:
    """The program for a reduced problem; exact unless a table would be larger than allowed."""
    return DynamicProgram(plan_elimination(problem, most_entries=most_entries))
