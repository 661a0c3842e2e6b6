"""Time that one device works on one run of an operator, without any communication.

Contractions are bound by arithmetic or by the bytes that they touch. Everything else is bound by
memory: a value that reaches memory is written once and read once, a fused value costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shardwright.cluster import PlacedMesh
from shardwright.cost.compute import matmul_time_s, memory_time_s
from shardwright.cost.flops import CONTRACTION_KINDS, op_flops
from shardwright.ir import Graph, Op
from shardwright.ir.dtypes import itemsize_bytes
from shardwright.sharding import OpRule, Sharding

_STACKING = "shard.scan_stack"


def local_work_s(
    op: Op,
    graph: Graph,
    rule: OpRule,
    operands: Sequence[Sharding | None],
    results: Sequence[Sharding | None],
    is_written: Sequence[bool],
    placed: PlacedMesh,
) -> float:
    """Seconds of one run of ``op`` on one device when its tensors lie as told.

    Args:
        op: the operator.
        graph: holds its tensors.
        rule: its factors, for the arithmetic of contractions.
        operands: how each operand lies at its use; None is whole.
        results: how each result lies; None is whole.
        is_written: for each result whether it reaches memory.
        placed: the mesh and its devices.
    """
    if op.kind in CONTRACTION_KINDS:
        return _contraction_s(op, graph, rule, operands, results, placed)
    written = sum(
        written_bytes(op, graph, tensor_id, sharding, placed)
        for tensor_id, sharding, kept in zip(op.results, results, is_written, strict=True)
        if kept
    )
    return memory_time_s(2.0 * written, placed.topology) if written else 0.0


def _contraction_s(
    op: Op,
    graph: Graph,
    rule: OpRule,
    operands: Sequence[Sharding | None],
    results: Sequence[Sharding | None],
    placed: PlacedMesh,
) -> float:
    layouts = (*operands, *results)
    axes = {axis for layout in layouts if layout is not None for axis in layout.axes}
    tensors = zip((*op.operands, *op.results), layouts, strict=True)
    touched = sum(local_bytes(graph, i, layout, placed) for i, layout in tensors)
    flops = op_flops(op, graph, rule) / placed.mesh.size_of(axes)
    dtype = graph.tensor(op.operands[0]).dtype
    return matmul_time_s(flops, touched, dtype, placed.topology)


def written_bytes(
    op: Op, graph: Graph, tensor_id: int, sharding: Sharding | None, placed: PlacedMesh
) -> int:
    """Bytes that one run of ``op`` writes of a result on one device.

    A trip of a loop writes its own layer of a stack, not the whole of it.
    """
    size = local_bytes(graph, tensor_id, sharding, placed)
    return size // max(1, graph.tensor(tensor_id).shape[0]) if op.kind == _STACKING else size


def local_bytes(graph: Graph, tensor_id: int, sharding: Sharding | None, placed: PlacedMesh) -> int:
    """Bytes on one device of a tensor; None is whole."""
    tensor = graph.tensor(tensor_id)
    if sharding is None:
        return tensor.size_bytes
    local = math.prod(sharding.local_shape(tensor.shape, placed.mesh.sizes))
    return local * itemsize_bytes(tensor.dtype)
