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

from shardwright.ir.columns import Flags, Ints
from shardwright.ir.flat import FlatGraph
from shardwright.sharding.rules.elementwise import RULES as _ELEMENTWISE

KEPT_DISTANCE = 200
"""Operators between a value and its reader beyond which the value is taken to be kept in memory."""

_CHEAP = frozenset(_ELEMENTWISE) | {
    *("broadcast_in_dim", "concatenate", "copy", "expand_dims", "iota", "pad", "rev", "slice"),
    *("split", "squeeze", "transpose"),
}
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
    graph, writes = flat.graph, flat.columns.writes
    views = flat.columns.is_any_of(_VIEWS) & (flat.columns.reads.widths == 1)
    cheap = flat.columns.is_any_of(_CHEAP)
    inputs = np.array(graph.inputs, dtype=np.int64)
    stored = np.zeros(len(graph.tensors), dtype=np.bool_)
    first = np.full(len(graph.tensors), -1, dtype=np.int64)
    stored[inputs], first[inputs] = True, 0
    first[writes.values] = writes.owners
    owner = _owners(flat, views)
    read_from_memory = _read_from_memory(flat, views, owner, first)
    fresh = writes.values[(owner == np.arange(len(owner)))[writes.values]]
    fresh = fresh[~_remade(flat, views | cheap)[fresh]]
    stored[fresh] = ~cheap[first[fresh]] | read_from_memory[fresh]
    last = np.array(flat.live_until, dtype=np.int64)
    written = stored.copy()
    for before, after in graph.state_pairs:
        written[after] |= owner[after] == after
        last[before] = len(flat.ops)
        if after != before:
            stored[after], owner[after] = False, before
    stored[owner[list(graph.outputs)]] = True
    np.maximum.at(last, owner, last.copy())
    return Storage(owner=owner, is_stored=stored, is_written=written, first=first, last=last)


def _owners(flat: FlatGraph, views: Flags) -> Ints:
    """For each tensor the one whose buffer it views; itself where it views none."""
    owners = list(range(len(flat.graph.tensors)))
    for position in np.flatnonzero(views).tolist():
        op = flat.ops[position].op
        for tensor_id in op.results:
            owners[tensor_id] = owners[op.operands[0]]
    return np.array(owners, dtype=np.int64)


def _read_from_memory(flat: FlatGraph, views: Flags, owner: Ints, first: Ints) -> Flags:
    """Values that some reader cannot take from a fused neighbour; views pass the question on."""
    reads = flat.columns.reads
    roots, readers = owner[reads.values], reads.owners
    is_near = readers - first[roots] < KEPT_DISTANCE
    is_fused = flat.columns.is_any_of(_READS_FUSED)[readers] & is_near
    read = np.zeros(len(owner), dtype=np.bool_)
    read[roots[~views[readers] & ~is_fused]] = True
    return read


def _remade(flat: FlatGraph, is_made: Flags) -> Flags:
    """Values made of constants alone, such as masks: each reader makes its own."""
    tensors = flat.graph.tensors
    remade = {tensor.id for tensor in tensors if not tensor.shape or tensor.value is not None}
    for position in np.flatnonzero(is_made).tolist():
        op = flat.ops[position].op
        if remade.issuperset(op.operands):
            remade.update(op.results)
    flags = np.zeros(len(tensors), dtype=np.bool_)
    flags[[tensor_id for tensor_id in remade if tensors[tensor_id].shape]] = True
    return flags


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
