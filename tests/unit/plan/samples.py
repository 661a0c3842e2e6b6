"""A graph and plans for it, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardwright.cluster import Device, LinkLevel, Mesh, Topology
from shardwright.ir import Graph, Op, Role, Tensor
from shardwright.plan import (
    Fallback,
    OpDecision,
    Plan,
    PlannedCollective,
    Provenance,
    Route,
    Stage,
    TensorDecision,
)
from shardwright.sharding import Sharding

S = Sharding.of

TENSORS = (
    Tensor(id=0, shape=(8, 16), dtype="float32", role=Role.PARAMETER, name="params.w"),
    Tensor(id=1, shape=(6, 8), dtype="float32", role=Role.BATCH, name="x"),
    Tensor(id=2, shape=(6, 16), dtype="float32", role=Role.ACTIVATION),
    Tensor(id=3, shape=(8, 16), dtype="float32", role=Role.OUTPUT, name="params.w"),
)

GRAPH = Graph(
    name="step",
    tensors=TENSORS,
    inputs=(0, 1),
    outputs=(3, 2),
    ops=(
        Op(
            id=0,
            kind="dot_general",
            operands=(1, 0),
            results=(2,),
            scope="mlp",
            source="model.py:88",
        ),
        Op(id=1, kind="neg", operands=(0,), results=(3,), source="model.py:90"),
    ),
    state_pairs=((0, 3),),
)

TOPOLOGY = Topology(
    name="one host",
    device=Device(
        name="CPU",
        peak_flops_per_s=(("float32", 1e11),),
        memory_bytes=2**30,
        memory_bandwidth_bytes_per_s=1e10,
    ),
    levels=(LinkLevel(name="memory", num_units=8, bandwidth_bytes_per_s=1e9, latency_s=1e-6),),
)

STAGE = Stage(
    device_ids=tuple(range(8)),
    mesh=Mesh.of(dp=2, tp=4),
    ops=(
        OpDecision(op_id=0, operands=(S("dp", None), S(None, "tp")), results=(S("dp", "tp"),)),
        OpDecision(op_id=1, operands=(None,), results=(S(None, "tp"),)),
    ),
    tensors=(
        TensorDecision(tensor_id=0, sharding=S(None, "tp")),
        TensorDecision(tensor_id=1, sharding=S("dp", None)),
        TensorDecision(tensor_id=3, sharding=S(None, "tp")),
    ),
    collectives=(
        PlannedCollective(
            kind="all-gather",
            axes=("tp",),
            size_bytes=512,
            runs=3,
            tensor_id=2,
            op_id=-1,
            stands_for="the result",
        ),
    ),
    routes=(
        Route(
            shape=(8, 16),
            dtype="float32",
            source=S("dp", None),
            target=S(None, "tp"),
            via=(S("dp", "tp"),),
        ),
    ),
)

PLAN = Plan(
    graph_fingerprint=GRAPH.fingerprint,
    cluster_fingerprint=TOPOLOGY.fingerprint,
    cluster_name=TOPOLOGY.name,
    stages=(STAGE,),
    fallbacks=(Fallback(op_id=1, kind="neg", source="model.py:90", reason='no rule for "neg"'),),
    provenance=Provenance(
        method="auto",
        options=(("memory", "1 GiB"), ("axes", "dp, tp")),
        objective_s=1.25e-3,
        lower_bound_s=1.2e-3,
        gap=0.04,
        termination="optimal",
        notes=("dim 0 of x stays whole",),
    ),
)


def with_stage(**changes: Any) -> Plan:
    """The plan with a changed stage."""
    return replace(PLAN, stages=(replace(STAGE, **changes),))


def with_resting(tensor_id: int, sharding: Sharding | None) -> Plan:
    """The plan with another resting place for one tensor, or none."""
    kept = [t for t in STAGE.tensors if t.tensor_id != tensor_id]
    if sharding is not None:
        kept.append(TensorDecision(tensor_id=tensor_id, sharding=sharding))
    return with_stage(tensors=tuple(kept))


def with_op(decision: OpDecision) -> Plan:
    """The plan with one operator decided otherwise."""
    others = tuple(op for op in STAGE.ops if op.op_id != decision.op_id)
    return with_stage(ops=(*others, decision))
