"""Which tensors of a step take memory of their own, and over which stretch of the step.

A compiler fuses chains of elementwise operators, so most values of a graph never reach memory. A
value is *stored* when something other than a fused neighbour reads it, or when it is read much
later (an activation kept for the backward pass). Views (reshapes, a region's border) share the
buffer of what they view, and a state's next value is written over its donated input.

Source:
    XLA's instruction fusion and buffer donation, as documented in the XLA architecture notes; the
    distance after which a value counts as kept is ours and provisional.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.ir import Op
from shardwright.ir.flat import FlatGraph
from shardwright.sharding.rules.elementwise import RULES as _ELEMENTWISE

KEPT_DISTANCE = 200
"""Operators between a value and its reader beyond which the value is taken to be kept in memory."""

_CHEAP = frozenset(_ELEMENTWISE) | {"broadcast_in_dim", "iota", "squeeze", "expand_dims", "copy"}
_READS_FUSED = _CHEAP | {
    "reduce_sum",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_and",
    "reduce_or",
    "shard.scan_stack",
}
_VIEWS = frozenset({"reshape", "squeeze", "expand_dims", "shard.alias", "shard.carry", "copy"})


@final
@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where every tensor of a flat graph lives.

    Attributes:
        owner: for each tensor the tensor whose buffer it is part of; itself when it has its own.
        is_stored: for each tensor whether it has a buffer of its own.
        is_written: for each tensor whether it is written to memory: into a buffer of its own, or
            over the state whose next value it is.
        first: for each stored tensor the position in the flat list at which its buffer appears.
        last: the last position that needs it.
    """

    owner: NDArray[np.int64]
    is_stored: NDArray[np.bool_]
    is_written: NDArray[np.bool_]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def storage_of(flat: FlatGraph) -> Storage:
    """The buffers of a step; time is linear in its operators."""
    count = len(flat.graph.tensors)
    owner = np.arange(count)
    stored = np.zeros(count, dtype=np.bool_)
    first = np.full(count, -1, dtype=np.int64)
    last = np.array(flat.live_until, dtype=np.int64)
    end = len(flat.ops)
    for tensor_id in flat.graph.inputs:
        stored[tensor_id], first[tensor_id] = True, 0
    for position, flat_op in enumerate(flat.ops):
        for tensor_id in flat_op.op.results:
            first[tensor_id] = position
            if _is_view(flat_op.op):
                owner[tensor_id] = owner[flat_op.op.operands[0]]
    read_from_memory, remade = _read_from_memory(flat, owner, first), _remade(flat)
    for flat_op in flat.ops:
        for tensor_id in flat_op.op.results:
            if owner[tensor_id] == tensor_id and tensor_id not in remade:
                is_fusible = flat_op.op.kind in _CHEAP
                stored[tensor_id] = not is_fusible or tensor_id in read_from_memory
    written = stored.copy()
    for before, after in flat.graph.state_pairs:
        written[after] |= owner[after] == after
        last[before] = end
        if after != before:
            stored[after], owner[after] = False, before
    for tensor_id in flat.graph.outputs:
        stored[owner[tensor_id]] = True
    np.maximum.at(last, owner, last.copy())
    return Storage(owner=owner, is_stored=stored, is_written=written, first=first, last=last)


def _is_view(op: Op) -> bool:
    return op.kind in _VIEWS and len(op.operands) == 1


def _read_from_memory(
    flat: FlatGraph, owner: NDArray[np.int64], first: NDArray[np.int64]
) -> set[int]:
    """Values that some reader cannot take from a fused neighbour; views pass the question on."""
    read: set[int] = set()
    for position, flat_op in enumerate(flat.ops):
        if _is_view(flat_op.op):
            continue
        fused = flat_op.op.kind in _READS_FUSED
        for tensor_id in flat_op.op.operands:
            root = int(owner[tensor_id])
            if not (fused and position - first[root] < KEPT_DISTANCE):
                read.add(root)
    return read


def _remade(flat: FlatGraph) -> set[int]:
    """Values made of constants alone, such as masks: each reader makes its own."""
    tensors = flat.graph.tensors
    remade = {tensor.id for tensor in tensors if tensor.rank == 0 or tensor.value is not None}
    for flat_op in flat.ops:
        op = flat_op.op
        is_made = op.kind in _CHEAP or _is_view(op)
        if is_made and all(tensor_id in remade for tensor_id in op.operands):
            remade.update(op.results)
    return {tensor_id for tensor_id in remade if tensors[tensor_id].rank}


def live_bytes(storage: Storage, size_bytes: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Bytes in use at every position of the flat list.

    Args:
        storage: the buffers.
        size_bytes: per tensor, what one device holds of it.
        length: number of positions.
    """
    change = np.zeros(length + 2, dtype=np.int64)
    used = storage.is_stored & (storage.last >= storage.first)
    np.add.at(change, storage.first[used], size_bytes[used])
    np.add.at(change, storage.last[used] + 1, -size_bytes[used])
    return np.cumsum(change)[: length + 1]


def live_at(storage: Storage, position: int) -> NDArray[np.int64]:
    """Ids of the stored tensors in use at one position."""
    used = storage.is_stored & (storage.first <= position) & (position <= storage.last)
    return np.flatnonzero(used)
