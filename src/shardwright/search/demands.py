"""What nodes want of tensors, priced against every form in which the tensors may rest.

A demand on a stretched tensor goes through to what it is made of; one that reaches memory is made
once, in the form in which it is read first, and moved for every other reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import numpy as np

from shardwright.cost.storage import Storage
from shardwright.ir.flat import FlatOp
from shardwright.search.fold import FoldedGraph, FoldedOp
from shardwright.search.lead import ASKED, Lead
from shardwright.search.prices import Prices
from shardwright.search.space import Demand, Index, Matrix, TensorPalette, distinct
from shardwright.sharding import Sharding
from shardwright.sharding.follow import follow_result


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a node wants of an operand.

    Attributes:
        node: who wants it.
        reader: the folded operator that reads it; -1 for the next step's state.
        operand: which of its operands.
        forms: what is wanted.
        index: which form each strategy of the node wants.
        reads: for each tensor of the whole graph that is read, how often a step moves it.
    """

    node: int
    reader: int
    operand: int
    forms: tuple[Sharding, ...]
    index: Index
    reads: Mapping[int, int]


@final
@dataclass(frozen=True, kw_only=True)
class Demands:
    """Every reshard that may happen, and what each adds to the costs of nodes and edges.

    Attributes:
        folded: the graph.
        lead: its nodes.
        storage: what reaches memory.
        prices: what moves cost.
        tensors: forms of each folded tensor; None for free and asked ones.
        node_costs: seconds per step of each node's strategies, added to.
        edge_costs: seconds per step of reshards between two nodes' strategies, added to.
        found: the demands so far.
        borrowed: free and asked tensors' forms, as their first reader wants them, and its node.
        served: for each node, tensor and forms wanted, the tensors that have been moved.
    """

    folded: FoldedGraph
    lead: Lead
    storage: Storage
    prices: Prices
    tensors: list[TensorPalette | None]
    node_costs: list[Matrix] = field(default_factory=list)
    edge_costs: dict[tuple[int, int], Matrix] = field(default_factory=dict)
    found: list[Demand] = field(default_factory=list)
    borrowed: dict[int, tuple[int, TensorPalette]] = field(default_factory=dict)
    served: dict[tuple[int, int, bytes], set[int]] = field(default_factory=dict)

    def reads(self, op: FoldedOp, operand: int) -> Mapping[int, int]:
        """For each tensor of the whole graph that an operand reads, how often it may be moved."""
        first = self.folded.flat.ops[op.positions[0]]
        return self.folded.reads(op.positions, operand, self.moves(first))

    def moves(self, flat_op: FlatOp) -> int:
        """How often an operator's operand may be moved; a loop's stack is, before the loop."""
        if flat_op.op.kind != "shard.scan_slice":
            return flat_op.runs
        trips = self.folded.graph.tensor(flat_op.op.operands[0]).shape[0]
        return flat_op.runs // max(trips, 1)

    def add(self, wish: Wish) -> None:
        """Price an operand's wanted forms against its sources, through stretched tensors."""
        for tensor, reads in self.by_tensor(wish.reads).items():
            self.add_one(replace(wish, reads=reads), tensor)

    def by_tensor(self, reads: Mapping[int, int]) -> dict[int, Mapping[int, int]]:
        """The reads of each folded tensor."""
        tensors = list(map(self.folded.tensor_of.__getitem__, reads))
        if len(set(tensors)) == 1:
            return {tensors[0]: reads}
        parts: dict[int, dict[int, int]] = {}
        for tensor, (tensor_id, moves) in zip(tensors, reads.items(), strict=True):
            parts.setdefault(tensor, {})[tensor_id] = moves
        return dict(parts)

    def add_one(self, wish: Wish, tensor: int) -> None:
        """Price an operand's wanted forms against one folded tensor that it reads.

        Args:
            wish: what is wanted; it reads that tensor only.
            tensor: the folded tensor.
        """
        if self.lead.tensors[tensor] >= 0:
            self.connect(wish, tensor)
        elif tensor not in self.borrowed:
            self.borrowed[tensor] = (wish.node, distinct(wish.forms, wish.index))
            self.ask(wish, tensor)
        elif self.is_made_once(tensor):
            node, forms = self.borrowed[tensor]
            self.ask(replace(wish, node=node, forms=forms.shardings, index=forms.index), tensor)
            self.connect(wish, tensor)
        else:
            self.ask(wish, tensor)

    def is_made_once(self, tensor_index: int) -> bool:
        """Whether a free or asked tensor reaches memory, in the form in which it is read first."""
        tensor = self.folded.tensors[tensor_index].tensor
        is_key = tensor.dtype.startswith("key")
        return tensor.rank > 0 and not is_key and tensor_index in self.stored

    @cached_property
    def stored(self) -> frozenset[int]:
        """Folded tensors some of which reach memory."""
        return frozenset(self.folded.index_of[self.storage.is_stored].tolist())

    def ask(self, wish: Wish, tensor_index: int) -> None:
        """Ask what a stretched tensor is made of for what is wanted of it; a free one is not."""
        if self.lead.tensors[tensor_index] != ASKED:
            return
        fresh = self.fresh(wish, tensor_index, distinct(wish.forms, wish.index))
        if not fresh:
            return
        folded = self.folded
        asked = folded.ops[folded.tensors[tensor_index].producer]
        shapes = (folded.operand_shapes(asked), folded.shapes(asked.results))
        slot = asked.results.index(tensor_index)
        answers = [
            follow_result(asked.rule, *shapes, self.prices.placed.mesh, slot, form).strategy
            for form in wish.forms
        ]
        writes, flat_op = folded.flat.columns.writes, folded.flat.ops[asked.positions[0]]
        made = writes.column(np.array(asked.positions), slot).tolist()
        stretched = [p for p, i in zip(asked.positions, made, strict=True) if i in fresh]
        for operand in range(len(asked.operands)):
            reads = folded.reads(stretched, operand, self.moves(flat_op))
            if folded.graph.tensor(asked.op.operands[operand]).rank:
                forms = tuple(answer.operands[operand] for answer in answers)
                self.add(replace(wish, forms=forms, reads=reads))

    def connect(self, wish: Wish, tensor_index: int) -> None:
        """Price the reshards of one tensor for one reader."""
        forms = distinct(wish.forms, wish.index)
        fresh = self.fresh(wish, tensor_index, forms)
        if not fresh:
            return
        runs = sum(fresh.values())
        owner, resting = self.lead.tensors[tensor_index], self.tensors[tensor_index]
        if resting is None:
            owner, resting = self.borrowed[tensor_index]
        tensor = self.folded.tensors[tensor_index].tensor
        small = self.prices.reshard_matrix(tensor, resting.shardings, forms.shardings) * runs
        self.found.append(
            Demand(
                node=wish.node,
                tensor=tensor_index,
                reader=wish.reader,
                operand=wish.operand,
                palette=forms.shardings,
                index=forms.index,
                runs=runs,
            )
        )
        if owner == wish.node:
            self.node_costs[owner] += small[resting.index, forms.index]
        elif small.any():
            self.add_edge(owner, wish.node, small[np.ix_(resting.index, forms.index)])

    def fresh(self, wish: Wish, tensor_index: int, forms: TensorPalette) -> Mapping[int, int]:
        """The reads of one folded tensor that no earlier reader's copy serves.

        Two readers of one node that want one tensor in the same form share one copy of it. A folded
        tensor stands for many, though, and two readers may read different ones.
        """
        served = self.served.setdefault((wish.node, tensor_index, _signature(forms)), set())
        fresh = wish.reads
        if served:
            fresh = {i: moves for i, moves in wish.reads.items() if i not in served}
        served.update(fresh)
        return fresh

    def add_edge(self, left: int, right: int, matrix: Matrix) -> None:
        """Add seconds to the edge between two nodes, rows for the left one's strategies."""
        if left > right:
            left, right, matrix = right, left, matrix.T
        known = self.edge_costs.get((left, right))
        self.edge_costs[left, right] = matrix if known is None else known + matrix


def _signature(forms: TensorPalette) -> bytes:
    text = "|".join(str(sharding) for sharding in forms.shardings)
    return text.encode() + forms.index.tobytes()
