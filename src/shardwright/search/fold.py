"""The folded graph: one operator for all the operators that repeat, with how often each runs.

Search works on this graph only, so its size is that of one layer however many there are. A folded
operand may have several sources (the first layer reads the embedding, the others the layer before);
each source is weighted by how often a step reads from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from shardwright.ir import Graph, Op, Tensor
from shardwright.ir.columns import Ints, numbered, renumbered
from shardwright.ir.flat import FlatGraph, flatten
from shardwright.ir.repeats import classes_of
from shardwright.search.split import split_carries, split_updates
from shardwright.sharding import OpRule
from shardwright.sharding.rules import rule_for


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One tensor that feeds a folded operand, and how many reads per step that stands for."""

    tensor: int
    runs: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedTensor:
    """All tensors that play one part.

    Attributes:
        index: its number in the folded graph.
        tensor: the first of them.
        producer: folded operator that writes it; -1 for a graph input or a literal.
        is_input: whether it is a graph input.
        count: how many tensors it stands for.
    """

    index: int
    tensor: Tensor
    producer: int
    is_input: bool
    count: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedOp:
    """All operators that play one part.

    Attributes:
        index: its number, in running order of the first of them.
        op: the first of them.
        rule: their factors.
        runs: how often a step runs any of them.
        positions: where they stand in the flat list.
        operands: for each operand its sources.
        results: folded tensors written.
    """

    index: int
    op: Op
    rule: OpRule
    runs: int
    positions: tuple[int, ...]
    operands: tuple[tuple[Source, ...], ...]
    results: tuple[int, ...]


@final
@dataclass(frozen=True, kw_only=True)
class FoldedGraph:
    """A step with its repetitions folded.

    Attributes:
        flat: the unfolded step.
        ops: folded operators.
        tensors: folded tensors.
        tensor_of: folded tensor of each tensor id; -1 for tensors that the flat list never meets.
        state_pairs: (input, output, count) of folded state tensors.
    """

    flat: FlatGraph
    ops: tuple[FoldedOp, ...]
    tensors: tuple[FoldedTensor, ...]
    tensor_of: tuple[int, ...]
    state_pairs: tuple[tuple[int, int, int], ...]

    @property
    def graph(self) -> Graph:
        """The captured graph."""
        return self.flat.graph

    def shapes(self, tensor_indices: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Shapes of folded tensors."""
        return tuple(self.tensors[i].tensor.shape for i in tensor_indices)

    def operand_shapes(self, op: FoldedOp) -> tuple[tuple[int, ...], ...]:
        """Shapes of a folded operator's operands."""
        return tuple(self.graph.tensor(i).shape for i in op.op.operands)

    @cached_property
    def index_of(self) -> Ints:
        """``tensor_of`` as an array."""
        return np.array(self.tensor_of, dtype=np.int64)

    @cached_property
    def op_of(self) -> Ints:
        """The folded operator of each position of the flat list."""
        op_of = np.empty(len(self.flat.ops), dtype=np.int64)
        for op in self.ops:
            op_of[list(op.positions)] = op.index
        return op_of

    def reads(self, positions: Sequence[int], operand: int, moves: int) -> Mapping[int, int]:
        """How often each tensor is read as one operand of some operators, ``moves`` by each."""
        ids = self.flat.columns.reads.column(np.array(positions, dtype=np.int64), operand).tolist()
        if len(reads := dict.fromkeys(ids, moves)) == len(ids):
            return reads
        return {i: count * moves for i, count in Counter(ids).items()}

    @cached_property
    def consumers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each folded tensor the (folded operator, operand position) pairs that read it."""
        table: list[list[tuple[int, int]]] = [[] for _ in self.tensors]
        for op in self.ops:
            for position, sources in enumerate(op.operands):
                for source in sources:
                    table[source.tensor].append((op.index, position))
        return tuple(tuple(readers) for readers in table)


def fold(graph: Graph) -> FoldedGraph:
    """The folded form of ``graph``; time is linear in its operators."""
    flat = flatten(graph)
    op_class, input_class = classes_of(flat)
    op_class = split_updates(flat, op_class, input_class)
    return _Folder(
        flat=flat, op_class=split_carries(flat, op_class), input_class=input_class
    ).fold()


@final
@dataclass(frozen=True, kw_only=True)
class _Folder:
    flat: FlatGraph
    op_class: tuple[int, ...]
    input_class: tuple[int, ...]

    def fold(self) -> FoldedGraph:
        tensors, tensor_of = self._number_tensors()
        sources = self._sources(np.array(tensor_of, dtype=np.int64))
        ops = tuple(
            self._fold_op(index, positions, tensor_of, sources)
            for index, positions in enumerate(self.members)
        )
        pairs = Counter(
            (tensor_of[before], tensor_of[after]) for before, after in self.flat.graph.state_pairs
        )
        return FoldedGraph(
            flat=self.flat,
            ops=ops,
            tensors=tensors,
            tensor_of=tuple(tensor_of),
            state_pairs=tuple((a, b, count) for (a, b), count in pairs.items()),
        )

    @cached_property
    def number(self) -> Ints:
        """The folded operator of each position, in running order of their first ones."""
        return renumbered(np.array(self.op_class, dtype=np.int64))

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The positions that each folded operator stands for."""
        ends = np.cumsum(np.bincount(self.number))[:-1]
        order = np.argsort(self.number, kind="stable")
        return tuple(tuple(part.tolist()) for part in np.split(order, ends) if len(part))

    def _number_tensors(self) -> tuple[tuple[FoldedTensor, ...], list[int]]:
        """Inputs first, then results and literals in order of first appearance."""
        graph, writes = self.flat.graph, self.flat.columns.writes
        tensor_of = np.full(len(graph.tensors), -1, dtype=np.int64)
        numbers, classes = numbered(self.input_class)
        tensor_of[list(graph.inputs)] = numbers
        firsts = np.array([positions[0] for positions in self.members], dtype=np.int64)
        widths = writes.widths[firsts]
        base = len(classes) + np.cumsum(widths) - widths
        tensor_of[writes.values] = base[self.number[writes.owners]] + writes.slots
        owners = [-1] * len(classes) + np.repeat(np.arange(len(firsts)), widths).tolist()
        reads = self.flat.columns.reads.values
        literals = list(dict.fromkeys(reads[tensor_of[reads] < 0].tolist()))
        tensor_of[literals] = len(owners) + np.arange(len(literals))
        owners += [-1] * len(literals)
        first_ids, counts = _firsts(
            np.concatenate([list(graph.inputs), writes.values, literals]).astype(np.int64),
            tensor_of,
        )
        return tuple(
            FoldedTensor(
                index=index,
                tensor=graph.tensor(first),
                producer=owners[index],
                is_input=index < len(classes),
                count=count,
            )
            for index, (first, count) in enumerate(zip(first_ids, counts, strict=True))
        ), tensor_of.tolist()

    def _sources(self, tensor_of: Ints) -> dict[tuple[int, int], list[Source]]:
        """The sources of each (folded operator, operand), in order of first appearance."""
        columns = self.flat.columns
        reads, total = columns.reads, len(tensor_of)
        slot_count = int(reads.widths.max(initial=0))
        place = self.number[reads.owners] * slot_count + reads.slots
        keys = place * total + tensor_of[reads.values]
        found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        runs = np.zeros(len(found), dtype=np.int64)
        np.add.at(runs, inverse, columns.runs[reads.owners])
        sources: dict[tuple[int, int], list[Source]] = {}
        for i in np.argsort(first).tolist():
            where, tensor = divmod(int(found[i]), total)
            sources.setdefault(divmod(where, slot_count), []).append(
                Source(tensor=tensor, runs=int(runs[i]))
            )
        return sources

    def _fold_op(
        self,
        index: int,
        positions: tuple[int, ...],
        tensor_of: list[int],
        sources: dict[tuple[int, int], list[Source]],
    ) -> FoldedOp:
        op = self.flat.ops[positions[0]].op
        return FoldedOp(
            index=index,
            op=op,
            rule=rule_for(op, self.flat.graph),
            runs=int(self.flat.columns.runs[list(positions)].sum()),
            positions=positions,
            operands=tuple(tuple(sources[index, slot]) for slot in range(len(op.operands))),
            results=tuple(tensor_of[i] for i in op.results),
        )


def _firsts(tensor_ids: Ints, tensor_of: Ints) -> tuple[list[int], list[int]]:
    """For each folded tensor the first of ``tensor_ids`` that it stands for, and how many."""
    _, first, counts = np.unique(tensor_of[tensor_ids], return_index=True, return_counts=True)
    return tensor_ids[first].tolist(), counts.tolist()
