"""How one shard runs the operators that need more than smaller operands.

All but the operator itself is numpy's, so that the operator alone compiles. Nothing here asks what
the rule claims of the factor, only where it is: a factor kept whole for nothing is found out too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.lax import FftType, GatherScatterMode

from tests.conformance.rule_harness import Shard

NEUTRAL = {
    "scatter-add": 0.0,
    "scatter-sub": 0.0,
    "scatter-mul": 1.0,
    "scatter-min": np.inf,
    "scatter-max": -np.inf,
}
"""What a scatter's combiner leaves unchanged."""


def slice_shard(shard: Shard, operand: Any) -> Any:
    """A slice whose whole dims end where the shard's part ends."""
    limits = list(shard.param("limit_indices"))
    dim = shard.operand_dims[0]
    if dim is not None and dim == shard.result_dims[0]:
        limits[dim] = shard.size
    return shard.bind(operand, limit_indices=tuple(limits))


def dynamic_slice_shard(shard: Shard, operand: Any, *starts: Any) -> Any:
    """A slice of the size that the shard's result has."""
    return shard.bind(operand, *starts, slice_sizes=shard.result_shapes[0])


def dynamic_update_slice_shard(shard: Shard, operand: Any, update: Any, *starts: Any) -> Any:
    """An update; of a cut dim whose single row falls in another shard, nothing is written."""
    dim = shard.operand_dims[0]
    if dim is None or shard.operand_dims[1] is not None or update.shape[dim] > 1:
        return shard.bind(operand, update, *starts)
    local = np.clip(np.asarray(starts[dim]), 0, shard.factor.size - 1) - shard.start
    if not 0 <= local < shard.size:
        return operand
    return shard.bind(operand, update, *starts[:dim], local, *starts[dim + 1 :])


def gather_shard(shard: Shard, operand: Any, indices: Any) -> Any:
    """A lookup: of a cut dim of rows, the rows of other shards are read as zeros."""
    sizes = list(shard.param("slice_sizes"))
    dim = shard.operand_dims[0]
    indexed = shard.param("dimension_numbers").start_index_map
    if dim is not None and dim in indexed and sizes[dim] == 1:
        return _masked_lookup(shard, operand, np.asarray(indices))
    if dim is not None and sizes[dim] == shard.factor.size:
        sizes[dim] = shard.size
    return shard.bind(operand, indices, slice_sizes=tuple(sizes))


def _masked_lookup(shard: Shard, operand: Any, indices: np.ndarray) -> np.ndarray:
    numbers = shard.param("dimension_numbers")
    part = numbers.start_index_map.index(shard.operand_dims[0])
    places = indices[..., part]
    fills = shard.param("mode") is GatherScatterMode.FILL_OR_DROP
    outside = (places < 0) | (places >= shard.factor.size)
    if not fills:
        places = np.clip(places, 0, shard.factor.size - 1)
    local = places - shard.start
    mine = (local >= 0) & (local < shard.size)
    rows = np.asarray(shard.bind(operand, _replaced(indices, part, np.where(mine, local, 0))))
    zero = np.zeros((), rows.dtype)
    found = np.where(np.expand_dims(mine, numbers.offset_dims), rows, zero)
    if fills and shard.index == 0:
        # Which of the shards writes the fill value does not matter, so long as only one does.
        fill = np.asarray(shard.param("fill_value"), rows.dtype)
        return np.where(np.expand_dims(outside, numbers.offset_dims), fill, found)
    return found


def scatter_shard(shard: Shard, operand: Any, indices: Any, updates: Any) -> Any:
    """A scatter: rows of other shards are dropped; the operand counts in the first shard only."""
    kind, (in_operand, _, in_updates) = shard.traced.op.kind, shard.operand_dims
    if in_operand is None and shard.index > 0 and kind in NEUTRAL:
        operand = np.full(operand.shape, NEUTRAL[kind], operand.dtype)
    if in_operand is not None and in_updates is None and _is_single(shard, in_operand):
        return _own_rows(shard, operand, np.asarray(indices), updates)
    return shard.bind(operand, indices, updates)


def _is_single(shard: Shard, dim: int) -> bool:
    """Whether each update writes one row of this dim of the operand."""
    numbers = shard.param("dimension_numbers")
    if dim not in numbers.scatter_dims_to_operand_dims:
        return False
    return _window_sizes(shard)[dim] == 1


def _window_sizes(shard: Shard) -> list[int]:
    """For each dim of the operand, how many of its rows one update writes."""
    numbers = shard.param("dimension_numbers")
    operand, _, updates = shard.traced.operands
    windows = iter([updates.shape[dim] for dim in numbers.update_window_dims])
    single = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    return [1 if dim in single else next(windows) for dim in range(operand.ndim)]


def _own_rows(shard: Shard, operand: Any, indices: np.ndarray, updates: Any) -> Any:
    numbers = shard.param("dimension_numbers")
    part = numbers.scatter_dims_to_operand_dims.index(shard.operand_dims[0])
    if shard.param("mode") is GatherScatterMode.CLIP:
        indices = _clamped(shard, indices)
    local = indices[..., part] - shard.start
    mine = (local >= 0) & (local < shard.size)
    own = _replaced(indices, part, np.where(mine, local, shard.size))
    return shard.bind(operand, own, updates, mode=GatherScatterMode.FILL_OR_DROP)


def _clamped(shard: Shard, indices: np.ndarray) -> np.ndarray:
    """Indices whose windows lie inside the whole operand."""
    numbers, windows = shard.param("dimension_numbers"), _window_sizes(shard)
    shape = shard.traced.operands[0].shape
    last = [shape[dim] - windows[dim] for dim in numbers.scatter_dims_to_operand_dims]
    return np.clip(indices, 0, last)


def _replaced(indices: np.ndarray, part: int, places: np.ndarray) -> np.ndarray:
    own = np.array(indices, np.int32)
    own[..., part] = places
    return own


def ragged_shard(shard: Shard, lhs: Any, rhs: Any, sizes: Any) -> Any:
    """A ragged product on some rows, or on some groups, of the whole."""
    numbers = shard.param("ragged_dot_dimension_numbers")
    if shard.operand_dims[0] == numbers.lhs_ragged_dimensions[0]:
        return shard.bind(lhs, rhs, _clipped(np.asarray(sizes), shard.start, shard.size))
    if shard.factor.name == "g":
        return _own_groups(shard, lhs, np.asarray(rhs), np.asarray(sizes))
    return shard.bind(lhs, rhs, sizes)


def _clipped(sizes: np.ndarray, start: int, size: int) -> np.ndarray:
    """How many rows of each group are among ``size`` rows from ``start``."""
    ends = np.clip(np.cumsum(sizes, axis=-1) - start, 0, size)
    return np.diff(ends, axis=-1, prepend=0).astype(np.int32)


def _own_groups(shard: Shard, lhs: Any, rhs: np.ndarray, sizes: np.ndarray) -> Any:
    """The shard's groups; a group of zeros, or one cut off again, holds all rows before them."""
    before = np.sum(sizes[..., : shard.start], axis=-1, keepdims=True, dtype=np.int32)
    own = sizes[..., shard.start : shard.start + shard.size]
    sizes = np.concatenate([before, own], axis=-1)
    if shard.result_dims[0] is not None:
        return np.asarray(shard.bind(lhs, rhs, sizes))[1:]
    (dim,) = shard.param("ragged_dot_dimension_numbers").rhs_group_dimensions
    widths = [(1, 0) if place == dim else (0, 0) for place in range(rhs.ndim)]
    return shard.bind(lhs, np.pad(rhs, widths), sizes)


def fft_shard(shard: Shard, operand: Any) -> Any:
    """A transform of as many elements as the shard has."""
    lengths = list(operand.shape[-len(shard.param("fft_lengths")) :])
    if shard.param("fft_type") is FftType.IRFFT:
        lengths[-1] = 2 * (lengths[-1] - 1)
    return shard.bind(operand, fft_lengths=tuple(lengths))


def geqp3_shard(shard: Shard, matrix: Any, pivots: Any) -> Any:
    """A pivoted factorization.

    Raises:
        ValueError: there is not one pivot to a column. The primitive does not check this and hands
            both to LAPACK, which then writes past the end of the shorter one.
    """
    if pivots.shape[-1] != matrix.shape[-1]:
        raise ValueError(f"{pivots.shape[-1]} pivots for {matrix.shape[-1]} columns")
    return shard.bind(matrix, pivots)
