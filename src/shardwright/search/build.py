"""The search space laid out and priced: palettes first, then work, reshards and state.

A deciding operator brings its strategies; a follower's are implied by the operand that it follows.
Then every operand is *demanded* in some form by its reader, and the demand is priced against every
form in which the tensor may rest (``demands.py``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np

from shardwright.cluster import PlacedMesh
from shardwright.cost.storage import Storage
from shardwright.ir.columns import Flags
from shardwright.search.demands import Demands, Wish
from shardwright.search.fold import FoldedGraph, FoldedOp
from shardwright.search.lead import Lead, Node
from shardwright.search.prices import Prices
from shardwright.search.space import Matrix, OpPalette, Space, TensorPalette, distinct
from shardwright.sharding import Sharding, Strategy
from shardwright.sharding.enumerate import Pruned, enumerate_shardings, enumerate_strategies
from shardwright.sharding.follow import follow

MAX_STRATEGIES = 400
"""Beyond this a node keeps only strategies that use every axis they could."""


def build_space(folded: FoldedGraph, lead: Lead, storage: Storage, placed: PlacedMesh) -> Space:
    """The priced search space of ``folded`` on a mesh laid over machines."""
    prices = Prices(placed=placed)
    tensors: list[TensorPalette | None] = [None] * len(folded.tensors)
    demands = Demands(folded=folded, lead=lead, storage=storage, prices=prices, tensors=tensors)
    return _Builder(
        folded=folded,
        lead=lead,
        storage=storage,
        placed=placed,
        prices=prices,
        ops=[None] * len(folded.ops),
        tensors=tensors,
        node_costs=demands.node_costs,
        demands=demands,
    ).build()


@final
@dataclass(frozen=True, kw_only=True)
class _Builder:
    folded: FoldedGraph
    lead: Lead
    storage: Storage
    placed: PlacedMesh
    prices: Prices
    ops: list[OpPalette | None]
    tensors: list[TensorPalette | None]
    node_costs: list[Matrix]
    demands: Demands
    sizes: list[int] = field(default_factory=list)
    pruned: Counter[str] = field(default_factory=Counter)

    def build(self) -> Space:
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
            edge_costs=self.demands.edge_costs,
            demands=tuple(self.demands.found),
            borrowed=self.demands.borrowed,
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
        for operand in range(len(op.operands)):
            if self.folded.graph.tensor(op.op.operands[operand]).rank:
                self.demands.add(
                    Wish(
                        node=node,
                        reader=op.index,
                        operand=operand,
                        forms=tuple(strategy.operands[operand] for strategy in palette.strategies),
                        index=palette.index,
                        reads=self.demands.reads(op, operand),
                    )
                )

    def written_runs(self, op: FoldedOp) -> Counter[tuple[bool, ...]]:
        """How often the operator runs with which of its results reaching memory."""
        if not op.results:
            return Counter({(): op.runs})
        positions = np.array(op.positions)
        writes = self.folded.flat.columns.writes
        written = [
            self.is_written[writes.column(positions, slot)].tolist()
            for slot in range(len(op.results))
        ]
        # All that are folded into one run equally often.
        runs = self.folded.flat.ops[op.positions[0]].runs
        return Counter({kept: n * runs for kept, n in Counter(zip(*written, strict=True)).items()})

    @cached_property
    def is_written(self) -> Flags:
        """Of each tensor whether it is an array that is written to memory."""
        is_array = [bool(tensor.shape) for tensor in self.folded.graph.tensors]
        return np.logical_and(self.storage.is_written, is_array)

    def price_carry(self, op: FoldedOp, node: int) -> None:
        """What a loop's body hands back must lie as the carry does."""
        carry = self.tensors[op.operands[1][0].tensor]
        if carry is not None:
            self.demands.add(
                Wish(
                    node=node,
                    reader=op.index,
                    operand=0,
                    forms=carry.shardings,
                    index=carry.index,
                    reads=self.demands.reads(op, 0),
                )
            )

    def price_state(self) -> None:
        """A state's next value must lie as the state does."""
        tensor_of = self.folded.tensor_of
        nexts: dict[tuple[int, int], Counter[int]] = {}
        for before, after in self.folded.graph.state_pairs:
            nexts.setdefault((tensor_of[before], tensor_of[after]), Counter())[after] += 1
        for (before, _), reads in nexts.items():
            palette = self.tensors[before]
            if palette is not None:
                self.demands.add(
                    Wish(
                        node=self.lead.tensors[before],
                        reader=-1,
                        operand=0,
                        forms=palette.shardings,
                        index=palette.index,
                        reads=reads,
                    )
                )

    def price_borrowed(self) -> None:
        """What free and asked operators write to memory is written in the form it is read in."""
        for op in self.folded.ops:
            if self.ops[op.index] is not None or op.op.kind == "shard.carry_back":
                continue
            for slot, result in enumerate(op.results):
                if result in self.demands.borrowed:
                    node, palette = self.demands.borrowed[result]
                    runs = sum(r for kept, r in self.written_runs(op).items() if kept[slot])
                    times = [
                        self.prices.write_time_s(self.folded, op, result, form)
                        for form in palette.shardings
                    ]
                    self.node_costs[node] += (np.array(times) * runs)[palette.index]
