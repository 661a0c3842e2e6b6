"""An order in which nodes are eliminated, and the shape of every table that arises.

Eliminating a node joins all that still speaks of it (its edges, and the tables left by nodes gone
before) into one *bucket*: a table over the node and those neighbours, minimised over the node. The
tables are over classes of strategies that everything in the bucket treats alike, so they stay small
where a planner's matrices repeat. Only the shapes are settled here; costs come at each run, so one
plan serves every choice of multipliers.

Where a table would be too large the bucket is split: each piece gets a copy of the node of its own,
as if the copies could differ. What follows is then a lower bound and no longer exact.

Source: Bertele and Brioschi, "Nonserial Dynamic Programming", 1972; Dechter, "Bucket elimination",
1999; Dechter and Rish, "Mini-buckets", 2003; greedy order by the size of the next table. With at
most two neighbours a step is OptCNN's node elimination (Jia et al., ICML 2018, section 5.2).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.solver.classes import joint_classes, row_classes
from shardwright.solver.problem import Floats, Ints, Problem


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Factor:
    """Something that speaks of several nodes: an edge's table, or what an eliminated node left.

    Attributes:
        scope: the nodes, ascending.
        maps: per node of the scope, its class map.
        source: index of the bucket that leaves it, or -1 for an edge.
        table: costs by classes, one axis per node of the scope; None for what a bucket leaves.
    """

    scope: tuple[int, ...]
    maps: tuple[Ints, ...]
    source: int = -1
    table: Floats | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """A factor as it enters a bucket.

    Attributes:
        source: as in ``Factor``.
        order: the factor's axes in the bucket's order.
        axes: the axis of the bucket's table for each of ``order``; ascending.
        indices: for each of ``order``, the factor's class for each class of the bucket, or None
            where they are the same.
        table: as in ``Factor``.
    """

    source: int
    order: tuple[int, ...]
    axes: tuple[int, ...]
    indices: tuple[Ints | None, ...]
    table: Floats | None


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bucket:
    """One elimination: axis 0 of its table is the node, the others are the scope.

    Attributes:
        node: what is eliminated.
        first: index of the first bucket of the same node; those after it hold copies.
        scope: the neighbours it has by then, ascending.
        maps: class maps of the node and then of the scope.
        shape: classes along each axis.
        parts: what is added up.
    """

    node: int
    first: int
    scope: tuple[int, ...]
    maps: tuple[Ints, ...]
    shape: tuple[int, ...]
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Entries of the table."""
        return table_size(self.shape)


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Elimination:
    """The buckets in order; what a bucket leaves enters a later one."""

    buckets: tuple[Bucket, ...]

    @property
    def size(self) -> int:
        """Entries of all tables: a measure of the work of one run."""
        return sum(bucket.size for bucket in self.buckets)

    @property
    def is_exact(self) -> bool:
        """Whether no bucket was split."""
        return all(bucket.first == number for number, bucket in enumerate(self.buckets))


def table_size(shape: Iterable[int]) -> int:
    """Entries of a table, as a Python integer that cannot overflow."""
    return math.prod(shape)


def plan_elimination(problem: Problem, *, most_entries: int) -> Elimination:
    """The order and shapes for a reduced problem, with tables of about ``most_entries`` at most."""
    return _Planner(problem, most_entries).plan()


@final
class _Planner:
    """Greedy choice of the node whose table is smallest, with scores kept in a lazy heap."""

    def __init__(self, problem: Problem, most_entries: int) -> None:
        self._sizes = {node: len(costs) for node, costs in problem.costs.items()}
        self._most_entries = most_entries
        self._factors: dict[int, dict[int, Factor]] = {node: {} for node in problem.costs}
        self._scores: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []
        self._buckets: list[Bucket] = []
        self._next_key = 0
        for u, v in problem.pairs():
            table, of_row, of_column = row_classes(problem.edges[u][v])
            self._insert(Factor(scope=(u, v), maps=(of_row, of_column), table=table))

    def plan(self) -> Elimination:
        for node in self._factors:
            self._rescore(node)
        while self._heap:
            score, node = heapq.heappop(self._heap)
            if self._scores.get(node) == score:
                self._eliminate(node, is_small=score <= self._most_entries)
        return Elimination(buckets=tuple(self._buckets))

    def _insert(self, factor: Factor) -> None:
        for node in factor.scope:
            self._factors[node][self._next_key] = factor
        self._next_key += 1

    def _rescore(self, node: int) -> None:
        factors = tuple(self._factors[node].values())
        size = self._table_size(node, factors, len(self._joint(node, factors)[1]))
        self._scores[node] = size
        heapq.heappush(self._heap, (size, node))

    def _table_size(self, node: int, factors: Sequence[Factor], own: int) -> int:
        """Entries of a table of a node with ``own`` classes and of the others in the factors."""
        scope = _scope_of(node, factors)
        return own * table_size(len(self._joint(other, factors)[1]) for other in scope)

    def _joint(self, node: int, factors: Sequence[Factor]) -> tuple[Ints, Ints]:
        """Classes of a node that all of the factors treat alike, and the first of each."""
        maps = [f.maps[f.scope.index(node)] for f in factors if node in f.scope]
        if not maps:
            return np.zeros(self._sizes[node], dtype=np.int64), np.zeros(1, dtype=np.int64)
        return joint_classes(maps)

    def _eliminate(self, node: int, *, is_small: bool) -> None:
        entries = self._factors.pop(node)
        del self._scores[node]
        factors = tuple(entries.values())
        touched = _scope_of(node, factors)
        for key, factor in entries.items():
            for other in factor.scope:
                if other != node:
                    del self._factors[other][key]
        own, first = self._joint(node, factors), len(self._buckets)
        for group in (factors,) if is_small else self._groups(node, factors, len(own[1])):
            scope = _scope_of(node, group)
            joints = {node: own} | {other: self._joint(other, group) for other in scope}
            self._close(_bucket((node, *scope), first, joints, group))
        for other in touched:
            self._rescore(other)

    def _close(self, bucket: Bucket) -> None:
        number = len(self._buckets)
        self._buckets.append(bucket)
        if bucket.scope:
            self._insert(Factor(scope=bucket.scope, maps=bucket.maps[1:], source=number))

    def _groups(self, node: int, factors: tuple[Factor, ...], own: int) -> list[tuple[Factor, ...]]:
        """The factors in groups whose tables are small enough, the widest factors first."""
        groups: list[tuple[Factor, ...]] = []
        for factor in sorted(factors, key=lambda factor: -len(factor.scope)):
            for index, group in enumerate(groups):
                if self._table_size(node, (*group, factor), own) <= self._most_entries:
                    groups[index] = (*group, factor)
                    break
            else:
                groups.append((factor,))
        return groups


def _scope_of(node: int, factors: Iterable[Factor]) -> tuple[int, ...]:
    others: set[int] = set()
    for factor in factors:
        others.update(factor.scope)
    return tuple(sorted(others - {node}))


def _bucket(
    order: tuple[int, ...],
    first: int,
    joints: dict[int, tuple[Ints, Ints]],
    factors: tuple[Factor, ...],
) -> Bucket:
    return Bucket(
        node=order[0],
        first=first,
        scope=order[1:],
        maps=tuple(joints[other][0] for other in order),
        shape=tuple(len(joints[other][1]) for other in order),
        parts=tuple(_part(factor, order, joints) for factor in factors),
    )


def _part(factor: Factor, order: tuple[int, ...], joints: dict[int, tuple[Ints, Ints]]) -> Part:
    places = sorted(range(len(factor.scope)), key=lambda place: order.index(factor.scope[place]))
    return Part(
        source=factor.source,
        order=tuple(places),
        axes=tuple(order.index(factor.scope[place]) for place in places),
        indices=tuple(
            _index(factor.maps[place], joints[factor.scope[place]][1]) for place in places
        ),
        table=factor.table,
    )


def _index(class_map: Ints, firsts: Ints) -> Ints | None:
    """The factor's class of each joint class; None where each class is one joint class in order."""
    index = class_map[firsts]
    count = int(class_map.max()) + 1
    if len(index) == count and bool((index == np.arange(count)).all()):
        return None
    return index
