"""The collectives that a plan expects beside those that XLA wrote, by kind and mesh axes, in bytes.

XLA combines, splits and reorders collectives, so counts mean little; bytes per device and step,
summed over each kind and group of axes, are what a plan promised. Where a sum differs, the marks
that the executor left in the program tell which operators are behind it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

from shardwright.cluster import Mesh
from shardwright.execute.groups import axes_of_groups, axes_of_pairs
from shardwright.execute.marks import Mark, read_marks
from shardwright.execute.read_back import MeasuredCollective, ReadBack
from shardwright.ir import Graph, Op
from shardwright.plan import PlannedCollective, Stage
from shardwright.sharding import CollectiveKind
from shardwright.units import format_bytes

_SLACK_BYTES = 128
_SLACK_FRACTION = 0.01
_SHOWN = 8
_HALVES = frozenset({"bfloat16", "float16"})
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
"""A position within a pytree path, such as a layer's."""
_OTHER = ("other groups",)
"""Stands for axes where device groups are no whole axes of the mesh."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """One kind of collective over one group of axes.

    Attributes:
        kind: a ``CollectiveKind`` value.
        axes: in mesh order.
        planned_bytes: per device and step.
        measured_bytes: per device and step.
        causes: where the sums differ, lines that name the operators behind the difference.
    """

    kind: str
    axes: tuple[str, ...]
    planned_bytes: int
    measured_bytes: int
    causes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether the sums are equal up to scalars and rounding."""
        return _close(self.planned_bytes, self.measured_bytes)

    def __str__(self) -> str:
        verdict = "as planned" if self.agrees else "differs"
        return (
            f"{self.kind} over {'+'.join(self.axes)}: planned {format_bytes(self.planned_bytes)},"
            f" measured {format_bytes(self.measured_bytes)} per device and step, {verdict}"
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A plan's collectives beside a program's.

    Attributes:
        rows: sorted by kind and axes.
        notes: what to know when reading them.
    """

    rows: tuple[CollectiveRow, ...]
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether every row does."""
        return all(row.agrees for row in self.rows)

    @property
    def planned_bytes(self) -> int:
        """All that the plan expects, per device and step."""
        return sum(row.planned_bytes for row in self.rows)

    @property
    def measured_bytes(self) -> int:
        """All that the program does, per device and step."""
        return sum(row.measured_bytes for row in self.rows)

    def lines(self) -> tuple[str, ...]:
        """The comparison as text, causes indented below their row."""
        text: list[str] = []
        for row in self.rows:
            text.append(str(row))
            text.extend(f"  {cause}" for cause in row.causes)
        return (*text, *(f"note: {note}" for note in self.notes))


def compare(stage: Stage, measured: ReadBack, graph: Graph) -> Comparison:
    """The collectives of ``stage`` beside those of its compiled program."""
    reader = _Reader(graph=graph, mesh=stage.mesh)
    planned = [reader.planned(item) for item in stage.collectives if _moves(item)]
    found = [(item, reader.measured(item)) for item in measured.collectives]
    done = [_as_planned(item, planned) if _is_either(raw) else item for raw, item in found]
    keys = {(item.kind, item.axes) for item in (*planned, *done) if item.axes}
    rows = tuple(_row(key, planned, done) for key in sorted(keys))
    widened = sum(item.is_widened for _, item in found)
    return Comparison(rows=rows, notes=tuple(_notes(measured, widened)))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One collective of either side, and what it moves in words."""

    kind: str
    axes: tuple[str, ...]
    step_bytes: int
    moves: str
    is_widened: bool = False


def _is_either(collective: MeasuredCollective) -> bool:
    """Whether it is written as a reduce of the whole, of which each device keeps its slice."""
    return collective.kind == CollectiveKind.REDUCE_SCATTER and collective.opcode == "all-reduce"


def _as_planned(item: _Item, planned: list[_Item]) -> _Item:
    """The item as a reduce of the whole, where the plan itself has one there and then slices."""
    kinds = {p.kind for p in planned if (p.axes, p.moves) == (item.axes, item.moves)}
    if CollectiveKind.ALL_REDUCE in kinds and CollectiveKind.REDUCE_SCATTER not in kinds:
        return replace(item, kind=CollectiveKind.ALL_REDUCE.value)
    return item


def _row(
    key: tuple[str, tuple[str, ...]], planned: list[_Item], done: list[_Item]
) -> CollectiveRow:
    kind, axes = key
    expected = [item for item in planned if (item.kind, item.axes) == key]
    found = [item for item in done if (item.kind, item.axes) == key]
    row = CollectiveRow(
        kind=kind,
        axes=axes,
        planned_bytes=sum(item.step_bytes for item in expected),
        measured_bytes=sum(item.step_bytes for item in found),
    )
    return row if row.agrees else replace(row, causes=tuple(_causes(expected, found)))


def _causes(expected: list[_Item], found: list[_Item]) -> Iterator[str]:
    """What each tensor adds to a difference, largest first."""
    first, second = Counter[str](), Counter[str]()
    for counter, items in ((first, expected), (second, found)):
        for item in items:
            counter[item.moves] += item.step_bytes
    differing = [name for name in first | second if not _close(first[name], second[name], slack=0)]
    differing.sort(key=lambda name: (-abs(first[name] - second[name]), name))
    for name in differing[:_SHOWN]:
        yield (
            f"{name}: planned {format_bytes(first[name])}, measured {format_bytes(second[name])}"
        )
    if len(differing) > _SHOWN:
        yield f"and {len(differing) - _SHOWN} more"


def _moves(collective: PlannedCollective) -> bool:
    return collective.kind != CollectiveKind.SLICE and collective.size_bytes > 0


@final
@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Both sides put into the same words, those of one graph on one mesh."""

    graph: Graph
    mesh: Mesh

    @cached_property
    def makers(self) -> dict[int, Op]:
        """For each tensor the operator that makes it."""
        return {result: op for op in self.graph.walk() for result in op.results}

    def planned(self, collective: PlannedCollective) -> _Item:
        return _Item(
            kind=collective.kind,
            axes=tuple(
                axis.name
                for axis in self.mesh.axes
                if axis.name in collective.axes and axis.size > 1
            ),
            step_bytes=collective.size_bytes * collective.runs,
            moves=self.tensor_text(collective.tensor_id),
        )

    def measured(self, collective: MeasuredCollective) -> _Item:
        if collective.kind == CollectiveKind.PERMUTE:
            axes: tuple[str, ...] | None = axes_of_pairs(collective.groups, self.mesh)
        else:
            axes = axes_of_groups(collective.groups, self.mesh)
        marks = read_marks(collective.op_name)
        tensor_id = self.marked(marks[-1]) if marks else -1
        dtype = self.graph.tensor(tensor_id).dtype if marks else ""
        is_widened = dtype in _HALVES and collective.dtype == "f32"
        return _Item(
            kind=collective.kind,
            axes=_OTHER if axes is None else axes,
            step_bytes=collective.step_bytes // (2 if is_widened else 1),
            moves=self.tensor_text(tensor_id) if marks else _unmarked_text(collective),
            is_widened=is_widened,
        )

    def marked(self, mark: Mark) -> int:
        """The tensor that a marked collective moves; the innermost mark speaks for it."""
        if mark.tensor_id >= 0:
            return mark.tensor_id
        op = self.graph.ops_by_id[mark.op_id]
        side = op.operands if mark.side == "operand" else op.results
        return side[max(mark.position, 0)]

    def tensor_text(self, tensor_id: int) -> str:
        if tensor_id < 0:
            return "unnamed"
        tensor = self.graph.tensor(tensor_id)
        # A plan speaks of one layer for all that are like it, so both sides leave out which.
        name = _NUMBER.sub("*", tensor.name)
        maker = self.makers.get(tensor_id)
        if maker is None:
            return name or tensor.label
        made = f"{maker.kind} at {maker.source}" if maker.source else maker.kind
        return f"{name} ({made})" if name else made


def _unmarked_text(collective: MeasuredCollective) -> str:
    name = collective.op_name.rpartition("/")[2] or collective.opcode
    return f"{name} at {collective.source}" if collective.source else name


def _notes(measured: ReadBack, widened: int) -> Iterator[str]:
    scattered = sum(_is_either(item) for item in measured.collectives)
    if scattered:
        yield (
            f"{scattered} all-reduces of which each device keeps its own slice count as"
            " reduce-scatters, unless the plan reduces there and then slices"
        )
    if widened:
        yield (
            f"{widened} collectives of half-precision numbers are written in float32, as XLA does"
            " where the hardware has no half-precision arithmetic; they count half"
        )
    uncounted = sum(not item.runs_known for item in measured.collectives)
    if uncounted:
        yield f"{uncounted} collectives lie in loops without a known trip count and count once"


def _close(first: int, second: int, slack: int = _SLACK_BYTES) -> bool:
    return abs(first - second) <= max(slack, _SLACK_FRACTION * max(first, second))
