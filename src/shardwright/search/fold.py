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

from shardwright.ir import Graph, Op, Tensor
from shardwright.ir.flat import FlatGraph, flatten
from shardwright.ir.graph import STATE_ROLES
from shardwright.ir.repeats import classes_of
from shardwright.sharding import OpRule
from shardwright.sharding.rules import rule_for
from shardwright.sharding.rules.elementwise import RULES as _ELEMENTWISE
from shardwright.sharding.rules.reduce import RULES as _REDUCTIONS
from shardwright.sharding.rules.shape import RULES as _SHAPES

_OF_AN_UPDATE = frozenset(_ELEMENTWISE) | frozenset(_REDUCTIONS) | frozenset(_SHAPES) | {"reshape"}
"""Operators that optimizers are made of; products, lookups and loops are not."""


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
    op_class = _split_updates(flat, op_class, input_class)
    return _Folder(
        flat=flat, op_class=_split_carries(flat, op_class), input_class=input_class
    ).fold()


def _split_updates(
    flat: FlatGraph, op_class: tuple[int, ...], input_class: tuple[int, ...]
) -> tuple[int, ...]:
    """Classes in which what is computed of two different states never shares one class.

    Updates of two parameters look alike when their shapes do, however differently they are used,
    and each must be free to follow its own state, and its own gradient on the way there.
    """
    graph, update = flat.graph, _update_positions(flat)
    maker = dict(zip(graph.inputs, input_class, strict=True))
    state = {i: c for i, c in maker.items() if graph.tensor(i).role in STATE_ROLES}
    split: dict[tuple[int, tuple[int | None, ...]], int] = {}
    first = 1 + max((*op_class, *input_class), default=0)
    classes = list(op_class)
    for position, flat_op in enumerate(flat.ops):
        op = flat_op.op
        arrays = [i for i in op.results if graph.tensor(i).rank]
        is_of_state = _is_made_of(op, state, graph)
        if position in update or is_of_state:
            sources = tuple((maker if position in update else state).get(i) for i in op.operands)
            key = (classes[position], sources)
            classes[position] = split.setdefault(key, first + len(split))
        if is_of_state:
            state.update(dict.fromkeys(arrays, classes[position]))
        maker.update(dict.fromkeys(op.results, classes[position]))
    return tuple(classes)


def _is_made_of(op: Op, state: Mapping[int, int], graph: Graph) -> bool:
    """Whether an operator makes a part, a copy or a sum of a state.

    What is larger than the state is an activation, and those fold over layers. Scalars do too, or
    a sum over all parameters would come apart.
    """
    sources = [i for i in op.operands if i in state and graph.tensor(i).rank]
    if op.kind not in _OF_AN_UPDATE or not sources:
        return False
    size = max(graph.tensor(i).num_elements for i in sources)
    return all(graph.tensor(i).num_elements <= size for i in op.results)


def _update_positions(flat: FlatGraph) -> frozenset[int]:
    """Operators on the way from a gradient to the next value of its state.

    Scalars are left out, or a sum over all parameters would come apart.
    """
    graph = flat.graph
    sizes = {after: graph.tensor(after).num_elements for _, after in graph.state_pairs}
    found: set[int] = set()
    for position in reversed(range(len(flat.ops))):
        op = flat.ops[position].op
        made = [sizes[i] for i in op.results if i in sizes and graph.tensor(i).rank]
        if not made or op.kind not in _OF_AN_UPDATE:
            continue
        found.add(position)
        for tensor_id in op.operands:
            if graph.tensor(tensor_id).num_elements <= max(made):
                sizes[tensor_id] = max(made)
    return frozenset(found)


def _split_carries(flat: FlatGraph, op_class: tuple[int, ...]) -> tuple[int, ...]:
    """Classes in which the ends of two different carries never share one class."""
    writer: dict[int, int] = {}
    split: dict[tuple[int, int], int] = {}
    classes = list(op_class)
    for position, flat_op in enumerate(flat.ops):
        if flat_op.op.kind == "shard.carry_back":
            key = (classes[position], classes[writer[flat_op.op.operands[1]]])
            classes[position] = split.setdefault(key, -1 - len(split))
        writer.update(dict.fromkeys(flat_op.op.results, position))
    return tuple(classes)


@final
@dataclass(kw_only=True)
class _Folder:
    flat: FlatGraph
    op_class: tuple[int, ...]
    input_class: tuple[int, ...]

    def fold(self) -> FoldedGraph:
        members: dict[int, list[int]] = {}
        for position, colour in enumerate(self.op_class):
            members.setdefault(colour, []).append(position)
        tensors, tensor_of = self._number_tensors(members)
        ops = tuple(
            self._fold_op(index, positions, tensor_of)
            for index, positions in enumerate(members.values())
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

    def _number_tensors(
        self, members: dict[int, list[int]]
    ) -> tuple[tuple[FoldedTensor, ...], list[int]]:
        """Inputs first, then results and literals in order of first appearance."""
        graph = self.flat.graph
        keys: dict[tuple[int, int], int] = {}
        groups: list[list[int]] = []
        owners: list[int] = []
        tensor_of = [-1] * len(graph.tensors)

        def put(key: tuple[int, int], tensor_id: int, owner: int) -> None:
            index = keys.setdefault(key, len(groups))
            if index == len(groups):
                groups.append([])
                owners.append(owner)
            groups[index].append(tensor_id)
            tensor_of[tensor_id] = index

        for tensor_id, colour in zip(graph.inputs, self.input_class, strict=True):
            put((colour, -1), tensor_id, -1)
        for owner, positions in enumerate(members.values()):
            colour = self.op_class[positions[0]]
            for position in positions:
                for slot, tensor_id in enumerate(self.flat.ops[position].op.results):
                    put((colour, slot), tensor_id, owner)
        inputs = len(set(self.input_class))
        for flat_op in self.flat.ops:
            for tensor_id in flat_op.op.operands:
                if tensor_of[tensor_id] < 0:
                    put((-1 - tensor_id, 0), tensor_id, -1)
        return tuple(
            FoldedTensor(
                index=index,
                tensor=graph.tensor(group[0]),
                producer=owners[index],
                is_input=index < inputs,
                count=len(group),
            )
            for index, group in enumerate(groups)
        ), tensor_of

    def _fold_op(self, index: int, positions: list[int], tensor_of: list[int]) -> FoldedOp:
        first = self.flat.ops[positions[0]]
        sources: list[Counter[int]] = [Counter() for _ in first.op.operands]
        total = 0
        for position in positions:
            flat_op = self.flat.ops[position]
            total += flat_op.runs
            for counter, tensor_id in zip(sources, flat_op.op.operands, strict=True):
                counter[tensor_of[tensor_id]] += flat_op.runs
        return FoldedOp(
            index=index,
            op=first.op,
            rule=rule_for(first.op, self.flat.graph),
            runs=total,
            positions=tuple(positions),
            operands=tuple(
                tuple(Source(tensor=tensor, runs=runs) for tensor, runs in counter.items())
                for counter in sources
            ),
            results=tuple(tensor_of[i] for i in first.op.results),
        )
