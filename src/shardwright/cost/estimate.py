"""What a plan will take: seconds per step and bytes per device, predicted from the plan alone.

An estimate stands beside a plan and is never part of it. It is the search's own objective, counted
again from the written plan: the time of every operator's local share, and of every collective that
the plan lists. Overlap of the two is not assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.cluster import PlacedMesh, Topology
from shardwright.cluster.place import place
from shardwright.cost.collective import planned_time_s
from shardwright.cost.storage import Storage, live_at, live_bytes, storage_of
from shardwright.cost.work import local_bytes, local_work_s
from shardwright.ir import Graph, Op, Role
from shardwright.ir.flat import FlatGraph, flatten
from shardwright.plan.record import OpDecision, Plan, PlannedCollective, Stage
from shardwright.sharding import CollectiveKind, Sharding
from shardwright.sharding.rules import rule_for


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveEstimate:
    """One planned collective, priced.

    Attributes:
        planned: as the plan lists it.
        time_s: seconds per step, all its runs.
    """

    planned: PlannedCollective
    time_s: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes on the busiest device.

    Attributes:
        peak_bytes: the most at any moment.
        budget_bytes: what the device may hold.
        state_bytes: parameters and optimizer state.
        moment: the operator that runs at the peak, with its source line.
        largest: (tensor name, bytes) of what is held at the peak, largest first.
    """

    peak_bytes: int
    budget_bytes: int
    state_bytes: int
    moment: str
    largest: tuple[tuple[str, int], ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Predicted figures of one plan.

    Attributes:
        step_time_s: seconds per step.
        compute_time_s: of them, local work.
        collective_time_s: of them, collectives.
        collectives: each collective's part, longest first.
        memory: bytes per device.
    """

    step_time_s: float
    compute_time_s: float
    collective_time_s: float
    collectives: tuple[CollectiveEstimate, ...]
    memory: MemoryEstimate


def estimate(plan: Plan, graph: Graph, topology: Topology) -> Estimate:
    """The predicted step time in seconds and memory in bytes of a plan without a pipeline."""
    (stage,) = plan.stages
    pricer = _Pricer(
        graph=graph, flat=flatten(graph), stage=stage, placed=place(stage.mesh, topology)
    )
    collectives = pricer.collectives()
    compute_s = pricer.compute_s()
    collective_s = sum(part.time_s for part in collectives)
    return Estimate(
        step_time_s=compute_s + collective_s,
        compute_time_s=compute_s,
        collective_time_s=collective_s,
        collectives=collectives,
        memory=pricer.memory(topology.budget_bytes),
    )


@final
@dataclass(frozen=True, kw_only=True)
class _Pricer:
    graph: Graph
    flat: FlatGraph
    stage: Stage
    placed: PlacedMesh

    def collectives(self) -> tuple[CollectiveEstimate, ...]:
        parts = [
            CollectiveEstimate(
                planned=planned, time_s=planned.runs * planned_time_s(planned, self.placed)
            )
            for planned in self.stage.collectives
        ]
        return tuple(sorted(parts, key=lambda part: -part.time_s))

    def compute_s(self) -> float:
        decisions = {decision.op_id: decision for decision in self.stage.ops}
        storage = storage_of(self.flat)
        kinds: Counter[tuple[object, ...]] = Counter()
        times: dict[tuple[object, ...], float] = {}
        for flat_op in self.flat.ops:
            op = flat_op.op
            decision = decisions.get(op.id)
            if decision is not None and self.leaves_results(op, decision):
                decision = None
            results = self.results(op.results, decision)
            written = tuple(
                bool(storage.is_written[i]) and self.graph.tensor(i).rank > 0 for i in op.results
            )
            is_decided = decision is not None or any(r is not None for r in results)
            if not is_decided or (decision is None and not any(written)):
                continue
            operands = decision.operands if decision is not None else (None,) * len(op.operands)
            shapes = tuple(self.graph.tensor(i).shape for i in (*op.operands, *op.results))
            key = (op.kind, op.attributes, shapes, operands, results, written)
            if key not in times:
                rule = rule_for(op, self.graph)
                times[key] = local_work_s(
                    op, self.graph, rule, operands, results, written, self.placed
                )
            kinds[key] += flat_op.runs
        return sum(times[key] * runs for key, runs in kinds.items())

    def leaves_results(self, op: Op, decision: OpDecision) -> bool:
        """Whether only what the operator reads is decided, and each reader makes it anew."""
        return not any(decision.results) and any(self.graph.tensor(i).rank for i in op.results)

    def results(
        self, tensor_ids: Sequence[int], decision: OpDecision | None
    ) -> tuple[Sharding | None, ...]:
        if decision is not None:
            return decision.results
        return tuple(self.stage.sharding_of.get(i) for i in tensor_ids)

    def memory(self, budget_bytes: int) -> MemoryEstimate:
        storage = storage_of(self.flat)
        sizes = np.zeros(len(self.graph.tensors), dtype=np.int64)
        for tensor_id in np.flatnonzero(storage.is_stored):
            sharding = self.stage.sharding_of.get(int(tensor_id))
            sizes[tensor_id] = local_bytes(self.graph, int(tensor_id), sharding, self.placed)
        length = len(self.flat.ops)
        timeline = live_bytes(storage, sizes, length) + self.transients()
        position = int(np.argmax(timeline))
        state = sum(
            int(sizes[i])
            for i in self.graph.inputs
            if self.graph.tensor(i).role in (Role.PARAMETER, Role.OPTIMIZER_STATE)
        )
        return MemoryEstimate(
            peak_bytes=int(timeline[position]),
            budget_bytes=budget_bytes,
            state_bytes=state,
            moment=self.moment(position),
            largest=self.largest(storage, sizes, position),
        )

    def transients(self) -> NDArray[np.int64]:
        """Bytes that exist only while one operator runs: gathered operands, unfinished sums."""
        extra = np.zeros(len(self.flat.ops) + 1, dtype=np.int64)
        decisions = {decision.op_id: decision for decision in self.stage.ops}
        unfinished: Counter[int] = Counter()
        for planned in self.stage.collectives:
            if planned.kind == CollectiveKind.REDUCE_SCATTER:
                unfinished[planned.op_id] += planned.size_bytes
        for position, flat_op in enumerate(self.flat.ops):
            op = flat_op.op
            extra[position] += unfinished[op.id]
            if op.id in decisions and not op.regions:
                extra[position] += self.copies_bytes(op, decisions[op.id])
        return extra

    def copies_bytes(self, op: Op, decision: OpDecision) -> int:
        """Bytes of the operands that are larger at their use than where they rest."""
        total = 0
        for tensor_id, wanted in zip(op.operands, decision.operands, strict=True):
            resting = self.stage.sharding_of.get(tensor_id)
            if wanted is None or resting is None or wanted == resting:
                continue
            copy = local_bytes(self.graph, tensor_id, wanted, self.placed)
            if copy > local_bytes(self.graph, tensor_id, resting, self.placed):
                total += copy
        return total

    def moment(self, position: int) -> str:
        op = self.flat.ops[min(position, len(self.flat.ops) - 1)].op
        return f"{op.kind} at {op.source or 'an unknown line'}"

    def largest(
        self, storage: Storage, sizes: NDArray[np.int64], position: int, count: int = 10
    ) -> tuple[tuple[str, int], ...]:
        live = live_at(storage, position)
        order = live[np.argsort(-sizes[live], kind="stable")[:count]]
        writers = {i: flat_op.op for flat_op in self.flat.ops for i in flat_op.op.results}
        return tuple((self.described(int(i), writers), int(sizes[i])) for i in order)

    def described(self, tensor_id: int, writers: dict[int, Op]) -> str:
        """The user's name of a tensor, or what wrote it and where."""
        name = self.graph.tensor(tensor_id).name
        if name or tensor_id not in writers:
            return name or f"%{tensor_id}"
        writer = writers[tensor_id]
        return f"%{tensor_id}, {writer.kind} at {writer.source or 'an unknown line'}"
