"""What one device has to do in one run of a planned graph, as columns of numbers.

A plan without a pipeline is taken apart into *segments*: the forward and the backward pass of the
layers that a loop repeats, the same of what lies outside (embedding, head, loss), and the update.
So a schedule of microbatches and stages can be put together from the segments of one microbatch,
and a layer's time is that of its segment over the number of layers.

Work is counted here and priced elsewhere: products of matrices with their sizes, attention's inner
products apart, bytes that reach memory when elementwise chains are fused and when they are not.
Collectives are priced at once, each by its purpose, which decides how often a step needs it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.cluster import PlacedMesh, Topology
from shardwright.cluster.place import place
from shardwright.cost.attention import score_tensors
from shardwright.cost.collective import planned_time_s
from shardwright.cost.dims import left_dims
from shardwright.cost.flops import CONTRACTION_KINDS, op_flops
from shardwright.cost.phases import Phase, phases_of
from shardwright.cost.purpose import Purpose, purposes_of
from shardwright.cost.storage import Storage, storage_of
from shardwright.cost.tiles import tile_share
from shardwright.cost.work import local_bytes
from shardwright.ir import Graph, Op
from shardwright.ir.columns import Flags, Ints
from shardwright.ir.flat import FlatGraph, FlatOp, flatten
from shardwright.plan.record import OpDecision, Plan, PlannedCollective, Stage
from shardwright.sharding import Sharding
from shardwright.sharding.rules import rule_for

Numbers = NDArray[np.float64]


class Segment(IntEnum):
    """A part of a step that a schedule moves as a whole."""

    LAYER_FORWARD = 0
    LAYER_BACKWARD = 1
    OUTER_FORWARD = 2
    OUTER_BACKWARD = 3
    UPDATE = 4


@final
@dataclass(frozen=True, kw_only=True)
class Products:
    """Products of matrices, one row for each, on one device.

    Attributes:
        segment: a ``Segment`` value.
        runs: in one run of the graph.
        flops: of one run.
        size_bytes: read and written by one run.
        tile_share: of the peak that its sizes allow.
        depth: steps that it sums over.
        score_bytes: of ``size_bytes``, those of attention's scores; zero for any other product.
    """

    segment: Ints
    runs: Numbers
    flops: Numbers
    size_bytes: Numbers
    tile_share: Numbers
    depth: Numbers
    score_bytes: Numbers

    @property
    def is_attention(self) -> Flags:
        """Whether a product is one of attention's inner ones."""
        return self.score_bytes > 0


@final
@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes of elementwise work that reach one device's memory, by segment.

    Attributes:
        fused_bytes: written and read again when chains of operators are fused.
        eager_bytes: when every operator writes its result and the next reads it.
        score_bytes: attention's scores, when attention is not fused.
        num_kernels: chains that are started.
    """

    fused_bytes: Numbers
    eager_bytes: Numbers
    score_bytes: Numbers
    num_kernels: Numbers


@final
@dataclass(frozen=True, kw_only=True)
class Workload:
    """The whole of it.

    Attributes:
        layers: trips of the loop over layers; 1 for a graph without one.
        products: matrix products.
        traffic: elementwise work.
        collective_s: seconds of collectives, by purpose and segment.
        head_dim: features of one attention head; 0 without attention.
    """

    layers: int
    products: Products
    traffic: Traffic
    collective_s: Numbers
    head_dim: int


def workload_of(plan: Plan, graph: Graph, topology: Topology) -> Workload:
    """What each device does in one run of the graph as the plan has it; near linear in operators.

    Raises:
        ValueError: the plan has more than one stage.
    """
    (stage,) = plan.stages
    return _Counter(
        graph=graph, flat=flatten(graph), stage=stage, placed=place(stage.mesh, topology)
    ).count()


@final
@dataclass(frozen=True, kw_only=True)
class _Counter:
    graph: Graph
    flat: FlatGraph
    stage: Stage
    placed: PlacedMesh

    @cached_property
    def storage(self) -> Storage:
        return storage_of(self.flat)

    @cached_property
    def scores(self) -> Flags:
        return score_tensors(self.flat)

    @cached_property
    def decisions(self) -> dict[int, OpDecision]:
        return {decision.op_id: decision for decision in self.stage.ops}

    @cached_property
    def held_share(self) -> Numbers:
        """For each tensor the share of it that one device holds; what is not decided follows."""
        shares = np.ones(len(self.graph.tensors))
        for tensor, sharding in self.stage.sharding_of.items():
            shares[tensor] = 1 / self.placed.mesh.size_of(sharding.axes)
        for flat_op in self.flat.ops:
            self.follow(flat_op.op, shares)
        return shares

    def follow(self, op: Op, shares: Numbers) -> None:
        decision, rest = self.decisions.get(op.id), self.stage.sharding_of
        made = decision.results if decision is not None else (None,) * len(op.results)
        largest = max(op.operands, key=lambda i: self.graph.tensor(i).num_elements, default=None)
        for result, sharding in zip(op.results, made, strict=True):
            if sharding is not None:
                shares[result] = 1 / self.placed.mesh.size_of(sharding.axes)
            elif result not in rest and largest is not None:
                shares[result] = shares[largest]

    @cached_property
    def layers(self) -> int:
        """The trip count that most of the arithmetic shares."""
        weights: defaultdict[int, float] = defaultdict(float)
        for flat_op in self.flat.ops:
            op = flat_op.op
            if op.kind in CONTRACTION_KINDS:
                flops = op_flops(op, self.graph, rule_for(op, self.graph))
                weights[flat_op.runs] += flat_op.runs * flops
        return max(weights, key=lambda runs: weights[runs], default=1)

    @cached_property
    def segments(self) -> Ints:
        phases = phases_of(self.flat)
        runs = np.array([flat_op.runs for flat_op in self.flat.ops], dtype=np.int64)
        is_outer = (runs < self.layers) if self.layers > 1 else np.zeros(len(runs), np.bool_)
        segments: Ints = np.where(
            phases == Phase.UPDATE, Segment.UPDATE, phases + 2 * is_outer.astype(np.int64)
        )
        return segments

    def count(self) -> Workload:
        rows = [
            (int(self.segments[position]), float(flat_op.runs), *self.product(flat_op.op))
            for position, flat_op in enumerate(self.flat.ops)
            if flat_op.op.kind in CONTRACTION_KINDS
        ]
        columns = np.array(rows, dtype=np.float64).reshape(len(rows), 7).T
        return Workload(
            layers=self.layers,
            products=Products(
                segment=columns[0].astype(np.int64),
                runs=columns[1],
                flops=columns[2],
                size_bytes=columns[3],
                tile_share=columns[4],
                depth=columns[5],
                score_bytes=columns[6],
            ),
            traffic=self.traffic(),
            collective_s=self.collectives(),
            head_dim=self.head_dim(),
        )

    def layouts(self, op: Op) -> tuple[tuple[Sharding | None, ...], tuple[Sharding | None, ...]]:
        """How operands and results lie; what is not decided lies as its tensor rests."""
        decision = self.decisions.get(op.id)
        rest = self.stage.sharding_of
        if decision is None:
            return tuple(rest.get(i) for i in op.operands), tuple(rest.get(i) for i in op.results)
        results = tuple(
            made if made is not None else rest.get(i)
            for made, i in zip(decision.results, op.results, strict=True)
        )
        return decision.operands, results

    def sizes(self, op: Op) -> tuple[list[int], list[int]]:
        """Bytes on one device of every operand and of every result."""
        operands, results = self.layouts(op)
        return (
            [
                local_bytes(self.graph, i, s, self.placed)
                for i, s in zip(op.operands, operands, strict=True)
            ],
            [
                local_bytes(self.graph, i, s, self.placed)
                for i, s in zip(op.results, results, strict=True)
            ],
        )

    def product(self, op: Op) -> tuple[float, float, float, float, float]:
        """(flops, bytes, share that tiling allows, depth, bytes of scores) of one run."""
        operands, results = self.layouts(op)
        axes = {axis for layout in (*operands, *results) if layout for axis in layout.axes}
        flops = op_flops(op, self.graph, rule_for(op, self.graph)) / self.placed.mesh.size_of(axes)
        read, written = self.sizes(op)
        pairs = list(zip((*op.operands, *op.results), (*read, *written), strict=True))
        scores = sum(size for tensor, size in pairs if self.scores[tensor])
        share, depth = self.share(op, operands) if op.kind == "dot_general" else (1.0, math.inf)
        return flops, float(sum(read + written)), share, depth, float(scores)

    def share(self, op: Op, operands: Sequence[Sharding | None]) -> tuple[float, float]:
        """(share that tiling allows, steps summed over) of a ``dot_general``."""
        dims = left_dims(op)
        left, right = (self.local_shape(i, s) for i, s in zip(op.operands, operands, strict=True))
        batches = math.prod(left[dim] for dim in dims.batch)
        depth = math.prod(left[dim] for dim in dims.summed)
        inner = max(1, batches * depth)
        rows, columns = math.prod(left) // inner, math.prod(right) // inner
        units = self.placed.topology.device.compute_units
        return tile_share(batches, rows, columns, units), float(depth)

    def local_shape(self, tensor: int, sharding: Sharding | None) -> tuple[int, ...]:
        shape = self.graph.tensor(tensor).shape
        return shape if sharding is None else sharding.local_shape(shape, self.placed.mesh.sizes)

    def traffic(self) -> Traffic:
        table = np.zeros((4, len(Segment)))
        for position, flat_op in enumerate(self.flat.ops):
            if flat_op.op.kind in CONTRACTION_KINDS:
                continue
            table[:, self.segments[position]] += self.moved(flat_op)
        fused, eager, score, kernels = table
        return Traffic(
            fused_bytes=fused,
            eager_bytes=np.maximum(eager, fused),
            score_bytes=score,
            num_kernels=kernels,
        )

    def moved(self, flat_op: FlatOp) -> tuple[float, float, float, float]:
        """(fused, eager, score bytes, kernels) of all runs of an operator that is no product."""
        op, runs = flat_op.op, flat_op.runs
        if op.kind.startswith("shard."):
            return 0.0, 0.0, 0.0, 0.0
        _, written = self.sizes(op)
        fused = score = eager = 0.0
        for tensor, size in zip(op.results, written, strict=True):
            if self.graph.tensor(tensor).rank == 0:
                continue
            is_score = bool(self.scores[tensor])
            held = self.graph.tensor(tensor).size_bytes * self.held_share[tensor]
            eager += 0.0 if is_score else 2.0 * held
            if self.storage.is_written[tensor]:
                fused += 0.0 if is_score else 2.0 * size
                score += 2.0 * size if is_score else 0.0
        kernels = float(runs if fused or score else 0)
        return runs * fused, runs * eager, runs * score, kernels

    def collectives(self) -> Numbers:
        table = np.zeros((len(Purpose), len(Segment)))
        segment_of = {f.op.id: int(self.segments[i]) for i, f in enumerate(self.flat.ops)}
        purposes = purposes_of(self.flat, self.stage.collectives)
        for planned, purpose in self.once(purposes):
            segment = segment_of.get(planned.op_id, int(Segment.UPDATE))
            table[purpose, segment] += planned.runs * planned_time_s(planned, self.placed)
        return table

    def once(self, purposes: Sequence[Purpose]) -> Iterator[tuple[PlannedCollective, Purpose]]:
        """The collectives, those that move one tensor the same way in one loop counted once."""
        seen: set[tuple[object, ...]] = set()
        for planned, purpose in zip(self.stage.collectives, purposes, strict=True):
            key = (planned.kind, planned.axes, planned.tensor_id, planned.size_bytes)
            if key not in seen or planned.stands_for.startswith("partial"):
                seen.add(key)
                yield planned, purpose

    def head_dim(self) -> int:
        for flat_op in self.flat.ops:
            op = flat_op.op
            if op.kind == "dot_general" and self.scores[op.results[0]]:
                shape = self.graph.tensor(op.operands[0]).shape
                return math.prod(shape[dim] for dim in left_dims(op).summed)
        return 0
