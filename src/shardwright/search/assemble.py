"""A choice per node, written out as a plan for every operator and tensor of the whole graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from shardwright.ir.flat import entering
from shardwright.plan.record import (
    Fallback,
    OpDecision,
    Plan,
    PlannedCollective,
    Provenance,
    Route,
    Stage,
    TensorDecision,
)
from shardwright.search.asked import asked_strategies
from shardwright.search.fold import FoldedOp
from shardwright.search.memory import MemoryView
from shardwright.search.space import Demand, Space
from shardwright.sharding import Collective, CollectiveKind, Sharding, Strategy


def assemble(
    space: Space, memory: MemoryView, choice: Sequence[int], provenance: Provenance
) -> Plan:
    """The plan that a choice of strategies amounts to."""
    topology = space.placed.topology
    writer = _Writer(space=space, memory=memory, choice=tuple(choice))
    return Plan(
        graph_fingerprint=space.folded.graph.fingerprint,
        cluster_fingerprint=topology.fingerprint,
        cluster_name=topology.name,
        stages=(
            Stage(
                device_ids=space.placed.device_ids,
                mesh=space.placed.mesh,
                ops=(*writer.op_decisions(), *writer.region_decisions()),
                tensors=tuple(writer.tensor_decisions()),
                collectives=tuple(writer.collectives()),
                routes=tuple(writer.routes()),
            ),
        ),
        fallbacks=tuple(writer.fallbacks()),
        provenance=provenance,
    )


def before_scatter(strategy: Strategy) -> tuple[Sharding | None, ...]:
    """How each result would lie if its sums were not scattered; None where they are not.

    Only where one axis is scattered and nothing else is summed: then reducing the whole and
    keeping a slice moves what a reduce-scatter moves.
    """
    return tuple(
        Sharding(dims=partial.dims)
        if len(partial.unreduced) == 1 and partial.dims != result.dims
        else None
        for partial, result in zip(strategy.partials, strategy.results, strict=True)
    )


_GATHERED_KINDS = frozenset({"fft", "ormqr", "top_k", "triangular_solve", "tridiagonal_solve"})
"""Operators that XLA gathers before they start unless it is told how they run."""


@final
@dataclass(frozen=True, kw_only=True)
class _Writer:
    space: Space
    memory: MemoryView
    choice: tuple[int, ...]

    @cached_property
    def moved(self) -> frozenset[int]:
        """Folded tensors that somebody wants in another form than the one in which they rest."""
        return frozenset(
            demand.tensor
            for demand in self.space.demands
            if self.wanted(demand) != self.resting(demand)
        )

    def wanted(self, demand: Demand) -> Sharding:
        return demand.palette[int(demand.index[self.choice[demand.node]])]

    def resting(self, demand: Demand) -> Sharding:
        sharding = self.space.sharding(demand.tensor, self.choice)
        assert sharding is not None
        return sharding

    def op_decisions(self) -> Iterator[OpDecision]:
        """Operators that decide, move an operand or finish a sum; the rest follows by itself."""
        for op in self.space.folded.ops:
            strategy = self.space.strategy(op.index, self.choice)
            if strategy is None or op.op.id < 0 or not self.matters(op, strategy):
                continue
            yield from self.decisions(op, strategy)
        yield from self.asked_decisions()

    def asked_decisions(self) -> Iterator[OpDecision]:
        """Operators that stretch, each as its own readers want it; equal ones share their forms."""
        tensor_of = self.space.folded.tensor_of
        known: dict[tuple[int, ...], tuple[Sharding | None, ...] | None] = {}
        # The strategies are held, so that each keeps its identity.
        found = list(asked_strategies(self.space, self.choice))
        for asked, strategy in found:
            if asked.id < 0:
                continue
            sources = [tensor_of[i] for i in asked.operands]
            key = (id(strategy), *sources)
            if key not in known:
                moves = self.moves_any(sources, strategy)
                known[key] = self.shown(asked.operands, strategy.operands) if moves else None
            operands = known[key]
            if operands is not None:
                results = (None,) * len(asked.results)
                yield OpDecision(op_id=asked.id, operands=operands, results=results)

    def decisions(self, op: FoldedOp, strategy: Strategy) -> Iterator[OpDecision]:
        """One folded operator's strategy, for every operator that it stands for."""
        operands = self.shown(op.op.operands, strategy.operands)
        results = self.shown(op.op.results, strategy.results)
        partials = self.shown(op.op.results, before_scatter(strategy))
        for position in op.positions:
            yield OpDecision(
                op_id=self.space.folded.flat.ops[position].op.id,
                operands=operands,
                results=results,
                partials=partials if any(partials) else (),
            )

    def region_decisions(self) -> Iterator[OpDecision]:
        """Loops, branches and blocks: what enters them lies as it does inside."""
        for op in self.space.folded.graph.walk():
            # One value may enter twice and lie differently inside, so operands go by position.
            forms: dict[int, Sharding] = {}
            for position, inner in entering(op) if op.regions else ():
                if inner in self.entries:
                    forms.setdefault(position, self.entries[inner])
            if forms:
                operands = tuple(forms.get(position) for position in range(len(op.operands)))
                results = (None,) * len(op.results)
                yield OpDecision(op_id=op.id, operands=operands, results=results)

    @cached_property
    def entries(self) -> dict[int, Sharding]:
        """For each region input that is decided, how what enters must lie outside."""
        entries: dict[int, Sharding] = {}
        for op in self.space.folded.ops:
            strategy = self.space.strategy(op.index, self.choice)
            if strategy is None or op.op.id >= 0 or not op.op.results:
                continue
            for position in op.positions:
                border = self.space.folded.flat.ops[position].op
                entries[border.results[0]] = strategy.operands[0]
        return entries

    def matters(self, op: FoldedOp, strategy: Strategy) -> bool:
        decides = self.space.lead.ops[op.index].follows < 0
        finishes = any(partial.unreduced for partial in strategy.partials)
        left_to_itself_is_gathered = op.op.kind in _GATHERED_KINDS
        return (
            decides
            or finishes
            or left_to_itself_is_gathered
            or not self.moved.isdisjoint(op.results)
            or any(
                self.moves(source.tensor, wanted)
                for sources, wanted in zip(op.operands, strategy.operands, strict=True)
                for source in sources
            )
        )

    def moves(self, source: int, wanted: Sharding) -> bool:
        """Whether a folded tensor rests in another form than its reader wants."""
        return source in self.space.priced and self.space.sharding(source, self.choice) != wanted

    def moves_any(self, tensors: Sequence[int], strategy: Strategy) -> bool:
        """Whether some operand rests in another form than its operator wants."""
        return any(map(self.moves, tensors, strategy.operands))

    def shown(
        self, tensor_ids: tuple[int, ...], shardings: tuple[Sharding | None, ...]
    ) -> tuple[Sharding | None, ...]:
        graph = self.space.folded.graph
        return tuple(
            sharding
            if graph.tensor(i).rank and not graph.tensor(i).dtype.startswith("key")
            else None
            for i, sharding in zip(tensor_ids, shardings, strict=True)
        )

    def tensor_decisions(self) -> Iterator[TensorDecision]:
        """Inputs, outputs, values at a region's border, and every value that reaches memory."""
        graph, folded = self.space.folded.graph, self.space.folded
        boundary = dict.fromkeys((*graph.inputs, *graph.outputs))
        border = {
            tensor_id
            for op in graph.walk()
            for region in op.regions
            for tensor_id in (*region.inputs, *region.outputs, *op.results)
        }
        resting = [self.space.sharding(t.index, self.choice) for t in folded.tensors]
        state = {after: before for before, after in graph.state_pairs}
        stored = self.memory.storage.is_stored.tolist()
        for tensor in graph.tensors:
            tensor_id = tensor.id
            if tensor_id in boundary:
                index = folded.tensor_of[state.get(tensor_id, tensor_id)]
                known = resting[index] if index >= 0 else None
                yield TensorDecision(
                    tensor_id=tensor_id, sharding=known or Sharding.replicated(tensor.rank)
                )
            elif stored[tensor_id] or tensor_id in border:
                index = folded.tensor_of[state.get(tensor_id, tensor_id)]
                known = resting[index] if index >= 0 else None
                if known is not None:
                    yield TensorDecision(tensor_id=tensor_id, sharding=known)

    def collectives(self) -> Iterator[PlannedCollective]:
        """Every collective that the choice asks for, one line for all its repetitions."""
        for demand in self.space.demands:
            yield from self.reshard_steps(demand)
        for op in self.space.folded.ops:
            strategy = self.space.strategy(op.index, self.choice)
            if strategy is not None:
                yield from self.finishing_steps(op, strategy)

    def reshard_steps(self, demand: Demand) -> Iterator[PlannedCollective]:
        folded = self.space.folded
        tensor = folded.tensors[demand.tensor].tensor
        path = self.space.prices.reshard(tensor, self.resting(demand), self.wanted(demand))
        if demand.reader < 0:
            op_id, why = -1, f"next value of {tensor.label}"
        else:
            op = folded.ops[demand.reader].op
            op_id, why = op.id, f"operand {demand.operand} of {op.kind}"
        for step in path.steps:
            if step.kind is not CollectiveKind.SLICE:
                yield self.planned(step, demand.runs, tensor.id, op_id, why)

    def finishing_steps(self, op: FoldedOp, strategy: Strategy) -> Iterator[PlannedCollective]:
        folded = self.space.folded
        finishes = self.space.prices.own_collectives(folded, op, strategy)
        for slot, steps in enumerate(finishes):
            tensor = folded.tensors[op.results[slot]].tensor
            for step in steps:
                why = f"partial sums of {op.op.kind}"
                yield self.planned(step, op.runs, tensor.id, op.op.id, why)

    def routes(self) -> Iterator[Route]:
        """The way of every reshard that takes several steps, once for each shape and pair."""
        found: dict[Route, None] = {}
        for demand in self.space.demands:
            tensor = self.space.folded.tensors[demand.tensor].tensor
            source, target = self.resting(demand), self.wanted(demand)
            path = self.space.prices.reshard(tensor, source, target)
            if len(path.steps) > 1 and not source.unreduced:
                found[
                    Route(
                        shape=tensor.shape,
                        dtype=tensor.dtype,
                        source=source,
                        target=target,
                        via=path.layouts[:-1],
                    )
                ] = None
        yield from found

    def planned(
        self, step: Collective, runs: int, tensor_id: int, op_id: int, why: str
    ) -> PlannedCollective:
        scatters = step.kind is CollectiveKind.REDUCE_SCATTER
        return PlannedCollective(
            kind=step.kind.value,
            axes=step.axes,
            size_bytes=step.input_bytes if scatters else step.output_bytes,
            runs=runs,
            tensor_id=tensor_id,
            op_id=op_id,
            stands_for=why,
        )

    def fallbacks(self) -> Iterator[Fallback]:
        """Operators kept whole for want of a rule, and loops whose trips are unknown."""
        folded = self.space.folded
        for op in folded.ops:
            if op.rule.fallback and any(r for r in folded.operand_shapes(op)):
                yield Fallback(
                    op_id=op.op.id, kind=op.op.kind, source=op.op.source, reason=op.rule.fallback
                )
        for op_id in folded.flat.unknown_trips:
            loop = folded.graph.ops_by_id[op_id]
            yield Fallback(
                op_id=op_id,
                kind=loop.kind,
                source=loop.source,
                reason="its trip count is unknown; its body is priced as one trip",
            )
