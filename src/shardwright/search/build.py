"""The search space laid out and priced: palettes first, then work, reshards and state.

A deciding operator brings its strategies; a follower's are implied by the operand that it follows.
Then every operand is *demanded* in some form by its reader, and the demand is priced against every
form in which the tensor may rest. Demands on a stretched tensor go through to what it is made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np

from shardwright.cluster import PlacedMesh
from shardwright.cost.storage import Storage
from shardwright.search.fold import FoldedGraph, FoldedOp, Source
from shardwright.search.lead import ASKED, FREE, Lead, Node
from shardwright.search.prices import Prices
from shardwright.search.space import (
    Demand,
    Index,
    Matrix,
    OpPalette,
    Space,
    TensorPalette,
    distinct,
)
from shardwright.sharding import Sharding, Strategy
from shardwright.sharding.enumerate import Pruned, enumerate_shardings, enumerate_strategies
from shardwright.sharding.follow import follow, follow_result

MAX_STRATEGIES = 400
"""Beyond this a node keeps only strategies that use every axis they could."""


def build_space(folded: FoldedGraph, lead: Lead, storage: Storage, placed: PlacedMesh) -> Space:
    """The priced search space of ``folded`` on a mesh laid over machines."""
    builder = _Builder(
        folded=folded, lead=lead, storage=storage, placed=placed, prices=Prices(placed=placed)
    )
    return builder.build()


@final
@dataclass(kw_only=True)
class _Builder:
    folded: FoldedGraph
    lead: Lead
    storage: Storage
    placed: PlacedMesh
    prices: Prices
    ops: list[OpPalette | None] = field(default_factory=list)
    tensors: list[TensorPalette | None] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    node_costs: list[Matrix] = field(default_factory=list)
    edge_costs: dict[tuple[int, int], Matrix] = field(default_factory=dict)
    demands: list[Demand] = field(default_factory=list)
    borrowed: dict[int, tuple[int, TensorPalette]] = field(default_factory=dict)
    seen: set[tuple[int, int, bytes]] = field(default_factory=set)
    pruned: Counter[str] = field(default_factory=Counter)

    def build(self) -> Space:
        self.ops = [None] * len(self.folded.ops)
        self.tensors = [None] * len(self.folded.tensors)
        for node in self.lead.nodes:
            size = self.open_node(node)
            self.sizes.append(size)
            self.node_costs.append(np.zeros(size))
        for op in self.folded.ops:
            self.follow_op(op)
        for op in self.folded.ops:
            self.price_op(op)
        self.price_state()
        self.price_borrowed()
        return Space(
            folded=self.folded,
            lead=self.lead,
            placed=self.placed,
            prices=self.prices,
            sizes=tuple(self.sizes),
            ops=tuple(self.ops),
            tensors=tuple(self.tensors),
            node_costs=tuple(self.node_costs),
            edge_costs=self.edge_costs,
            demands=tuple(self.demands),
            borrowed=self.borrowed,
            pruned=tuple(Pruned(reason=r, count=c) for r, c in self.pruned.most_common()),
        )

    def open_node(self, node: Node) -> int:
        """Lay out the palettes of a node's inputs and deciding operators; how many strategies."""
        for tensor_index in node.inputs:
            shape = self.folded.tensors[tensor_index].tensor.shape
            shardings = enumerate_shardings(shape, self.placed.mesh, self.stacked_dims(node))
            index = np.arange(len(shardings))
            self.tensors[tensor_index] = TensorPalette(shardings=shardings, index=index)
        strategies: tuple[Strategy, ...] = ()
        for op_index in node.ops:
            strategies = self.enumerate(self.folded.ops[op_index])
            index = np.arange(len(strategies))
            self.ops[op_index] = OpPalette(strategies=strategies, index=index)
        return len(strategies) if node.ops else len(shardings)

    def stacked_dims(self, node: Node) -> tuple[int, ...]:
        """Dim 0 of a stack of layers stays whole: cutting it would gather the stack each trip."""
        readers = (
            self.folded.ops[reader].op.kind
            for tensor_index in node.inputs
            for reader, _ in self.folded.consumers[tensor_index]
        )
        return (0,) if any(kind == "shard.scan_slice" for kind in readers) else ()

    def enumerate(self, op: FoldedOp) -> tuple[Strategy, ...]:
        found = enumerate_strategies(
            op.rule,
            self.folded.operand_shapes(op),
            self.folded.shapes(op.results),
            self.placed.mesh,
        )
        for pruned in found.pruned:
            self.pruned[pruned.reason] += pruned.count
        strategies = found.strategies
        if len(strategies) > MAX_STRATEGIES:
            most = max(len(strategy.axes) for strategy in strategies)
            kept = tuple(s for s in strategies if len(s.axes) in (0, most))
            self.pruned[f"leaves an axis unused where {most} could be used"] += len(
                strategies
            ) - len(kept)
            return kept
        return strategies

    def follow_op(self, op: FoldedOp) -> None:
        """Palettes of an operator that follows, then of every operator's results."""
        lead = self.lead.ops[op.index]
        if lead.node < 0 or op.op.kind == "shard.carry_back":
            return
        if lead.follows >= 0:
            source = self.tensors[op.operands[lead.follows][0].tensor]
            assert source is not None
            self.ops[op.index] = OpPalette(
                strategies=tuple(
                    self.followed(op, lead.follows, sharding) for sharding in source.shardings
                ),
                index=source.index,
            )
        palette = self.ops[op.index]
        assert palette is not None
        for slot, result in enumerate(op.results):
            if self.lead.tensors[result] >= 0:
                self.tensors[result] = distinct(
                    [strategy.results[slot] for strategy in palette.strategies], palette.index
                )

    def followed(self, op: FoldedOp, operand: int, sharding: Sharding) -> Strategy:
        return follow(
            op.rule,
            self.folded.operand_shapes(op),
            self.folded.shapes(op.results),
            self.placed.mesh,
            operand,
            sharding,
        ).strategy

    def price_op(self, op: FoldedOp) -> None:
        node = self.lead.ops[op.index].node
        if op.op.kind == "shard.carry_back":
            self.price_carry(op, node)
            return
        palette = self.ops[op.index]
        if palette is None:
            return
        work = np.zeros(len(palette.strategies))
        for written, runs in self.written_runs(op).items():
            work += runs * np.array(
                [
                    self.prices.op_time_s(self.folded, op, strategy, written)
                    for strategy in palette.strategies
                ]
            )
        self.node_costs[node] += work[palette.index]
        for operand, sources in enumerate(op.operands):
            if self.folded.graph.tensor(op.op.operands[operand]).rank:
                wanted = [strategy.operands[operand] for strategy in palette.strategies]
                share = self.moves_per_run(op)
                self.demand(node, op.index, operand, sources, wanted, palette.index, share)

    def moves_per_run(self, op: FoldedOp) -> float:
        """How often an operand is moved for each run; a loop's stack is moved before the loop."""
        if op.op.kind != "shard.scan_slice":
            return 1.0
        return 1.0 / max(self.folded.operand_shapes(op)[0][0], 1)

    def written_runs(self, op: FoldedOp) -> Counter[tuple[bool, ...]]:
        """How often the operator runs with which of its results reaching memory."""
        counts: Counter[tuple[bool, ...]] = Counter()
        for position in op.positions:
            flat_op = self.folded.flat.ops[position]
            written = tuple(
                bool(self.storage.is_written[i]) and self.folded.graph.tensor(i).rank > 0
                for i in flat_op.op.results
            )
            counts[written] += flat_op.runs
        return counts

    def price_carry(self, op: FoldedOp, node: int) -> None:
        """What a loop's body hands back must lie as the carry does."""
        carry = self.tensors[op.operands[1][0].tensor]
        if carry is not None:
            self.demand(node, op.index, 0, op.operands[0], carry.shardings, carry.index, 1.0)

    def price_state(self) -> None:
        """A state's next value must lie as the state does."""
        for before, after, count in self.folded.state_pairs:
            palette = self.tensors[before]
            if palette is not None:
                source = (Source(tensor=after, runs=count),)
                node = self.lead.tensors[before]
                self.demand(node, -1, 0, source, palette.shardings, palette.index, 1.0)

    def price_borrowed(self) -> None:
        """What free and asked operators write to memory is written in the form it is read in."""
        for op in self.folded.ops:
            if self.ops[op.index] is not None or op.op.kind == "shard.carry_back":
                continue
            for slot, result in enumerate(op.results):
                if result in self.borrowed:
                    node, palette = self.borrowed[result]
                    runs = sum(r for kept, r in self.written_runs(op).items() if kept[slot])
                    times = [
                        self.prices.write_time_s(self.folded, result, form)
                        for form in palette.shardings
                    ]
                    self.node_costs[node] += (np.array(times) * runs)[palette.index]

    def demand(
        self,
        node: int,
        reader: int,
        operand: int,
        sources: Iterable[Source],
        wanted: Sequence[Sharding],
        index: Index,
        share: float,
    ) -> None:
        """Price an operand's wanted forms against its sources, through stretched tensors."""
        for source in sources:
            owner = self.lead.tensors[source.tensor]
            is_first = owner < 0 and source.tensor not in self.borrowed
            if is_first:
                self.borrowed[source.tensor] = (node, distinct(wanted, index))
            if owner == ASKED:
                self.ask(node, reader, operand, source, wanted, index, share)
            elif owner != FREE or (not is_first and self.is_made_once(source.tensor)):
                runs = max(1, round(source.runs * share))
                self.connect(node, reader, operand, source.tensor, wanted, index, runs)

    def is_made_once(self, tensor_index: int) -> bool:
        """Whether a free tensor reaches memory, so that its first reader's form is all there is."""
        tensor = self.folded.tensors[tensor_index].tensor
        is_key = tensor.dtype.startswith("key")
        return tensor.rank > 0 and not is_key and tensor_index in self.stored

    @cached_property
    def stored(self) -> frozenset[int]:
        """Folded tensors some of which reach memory."""
        tensor_of = self.folded.tensor_of
        return frozenset(tensor_of[i] for i in np.flatnonzero(self.storage.is_stored))

    def ask(
        self,
        node: int,
        reader: int,
        operand: int,
        source: Source,
        wanted: Sequence[Sharding],
        index: Index,
        share: float,
    ) -> None:
        asked = self.folded.ops[self.folded.tensors[source.tensor].producer]
        slot = asked.results.index(source.tensor)
        answers = [
            follow_result(
                asked.rule,
                self.folded.operand_shapes(asked),
                self.folded.shapes(asked.results),
                self.placed.mesh,
                slot,
                sharding,
            ).strategy
            for sharding in wanted
        ]
        share = share * source.runs / asked.runs
        for position, sources in enumerate(asked.operands):
            if self.folded.graph.tensor(asked.op.operands[position]).rank:
                forms = [answer.operands[position] for answer in answers]
                self.demand(node, reader, operand, sources, forms, index, share)

    def connect(
        self,
        node: int,
        reader: int,
        operand: int,
        tensor_index: int,
        wanted: Sequence[Sharding],
        index: Index,
        runs: int,
    ) -> None:
        forms = distinct(wanted, index)
        key = (node, tensor_index, _signature(forms))
        if key in self.seen:
            # Two readers of one node that want a tensor in the same form share one copy of it.
            return
        self.seen.add(key)
        owner, resting = self.lead.tensors[tensor_index], self.tensors[tensor_index]
        if resting is None:
            owner, resting = self.borrowed[tensor_index]
        tensor = self.folded.tensors[tensor_index].tensor
        small = self.prices.reshard_matrix(tensor, resting.shardings, forms.shardings) * runs
        self.demands.append(
            Demand(
                node=node,
                tensor=tensor_index,
                reader=reader,
                operand=operand,
                palette=forms.shardings,
                index=forms.index,
                runs=runs,
            )
        )
        if owner == node:
            self.node_costs[node] += small[resting.index, forms.index]
        elif small.any():
            self.add_edge(owner, node, small[np.ix_(resting.index, forms.index)])

    def add_edge(self, left: int, right: int, matrix: Matrix) -> None:
        if left > right:
            left, right, matrix = right, left, matrix.T
        known = self.edge_costs.get((left, right))
        self.edge_costs[left, right] = matrix if known is None else known + matrix


def _signature(forms: TensorPalette) -> bytes:
    text = "|".join(str(sharding) for sharding in forms.shardings)
    return text.encode() + forms.index.tobytes()
