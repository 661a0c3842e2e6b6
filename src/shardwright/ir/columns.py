"""A flat graph as columns of numbers, so that a pass over every operator is one over arrays."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from shardwright.ir.flat import FlatOp

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_Key = TypeVar("_Key", bound=Hashable)


@final
@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of numbers of different lengths, one behind the other.

    Attributes:
        values: every row's numbers.
        starts: where each row starts in ``values``; one more entry tells where the last ends.
    """

    values: Ints
    starts: Ints

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> Rows:
        """The rows of a sequence of sequences."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        values = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(starts[-1]))
        return Rows(values=values, starts=starts)

    @staticmethod
    def grouped(owners: Ints, values: Ints, count: int) -> Rows:
        """``count`` rows from pairs of a row and a value; a row keeps the order of its pairs."""
        starts = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(owners, minlength=count), out=starts[1:])
        return Rows(values=values[np.argsort(owners, kind="stable")], starts=starts)

    @cached_property
    def widths(self) -> Ints:
        """How many numbers each row has."""
        return np.diff(self.starts)

    @cached_property
    def owners(self) -> Ints:
        """The row of each value."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    @cached_property
    def slots(self) -> Ints:
        """The place of each value in its row."""
        return np.arange(len(self.values)) - np.repeat(self.starts[:-1], self.widths)

    def column(self, rows: Ints, slot: int) -> Ints:
        """The number in one place of some rows, all of which must be that long."""
        return self.values[self.starts[rows] + slot]


@final
@dataclass(frozen=True, kw_only=True)
class Columns:
    """The operators of a flat graph, by position.

    Attributes:
        kind: each operator's kind as a number.
        kinds: the text of each number.
        runs: how often a step runs each.
        reads: operands of each.
        writes: results of each.
    """

    kind: Ints
    kinds: tuple[str, ...]
    runs: Ints
    reads: Rows
    writes: Rows

    def is_any_of(self, kinds: Collection[str]) -> Flags:
        """For each operator whether its kind is one of ``kinds``."""
        return np.array([kind in kinds for kind in self.kinds], dtype=np.bool_)[self.kind]

    def writer(self, num_tensors: int) -> Ints:
        """For each tensor the position that writes it; -1 where none does."""
        writer = np.full(num_tensors, -1, dtype=np.int64)
        writer[self.writes.values] = self.writes.owners
        return writer


def columns_of(flat_ops: Sequence[FlatOp]) -> Columns:
    """The columns of some operators; time is linear in them."""
    ops = [flat_op.op for flat_op in flat_ops]
    kind, kinds = numbered(op.kind for op in ops)
    return Columns(
        kind=kind,
        kinds=tuple(kinds),
        runs=np.array([flat_op.runs for flat_op in flat_ops], dtype=np.int64),
        reads=Rows.of([op.operands for op in ops]),
        writes=Rows.of([op.results for op in ops]),
    )


def numbered(keys: Iterable[_Key]) -> tuple[Ints, list[_Key]]:
    """Each key's number in order of first appearance, and the key of each number."""
    table: dict[_Key, int] = {}
    numbers = [table.setdefault(key, len(table)) for key in keys]
    return np.array(numbers, dtype=np.int64), list(table)


def renumbered(numbers: Ints) -> Ints:
    """The same partition, its parts numbered from 0 in order of first appearance."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
