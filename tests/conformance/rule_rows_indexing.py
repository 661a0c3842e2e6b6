"""Rows of the rules' proof: slicing, gather, scatter, ordering."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance.rule_harness import RuleRow, bools, floats, ints
from tests.conformance.rule_shards_indexing import (
    dynamic_slice_shard,
    dynamic_update_slice_shard,
    gather_shard,
    scatter_shard,
    slice_shard,
)

IDS = ints(4, 6, high=12)
STRAY_IDS = np.array([-3, 0, 12, 7, 7, 40], np.int32)
LABELS = ints(6, high=12)


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _row(function: Any, kind: str, case: str, *arguments: Any, **more: Any) -> RuleRow:
    return RuleRow(kind=kind, case=case, function=function, arguments=arguments, **more)


def _slice(case: str, function: Any, rule: str, *shape: int) -> RuleRow:
    return _row(function, "slice", case, floats(*shape), rule=rule, local=slice_shard)


SLICING = (
    _slice("range", lambda x: lax.slice(x, (0, 1), (4, 5)), "d w -> d w2", 4, 6),
    _slice("prefix", lambda x: x[:, :6], "d w -> d w2", 4, 12),
    _slice("strided", lambda x: x[::2], "w d -> w2 d", 12, 4),
    _slice("one-row", lambda x: x[2], "w d -> 1 d", 6, 4),
    _row(
        lambda x: jnp.split(x, [4, 8], 1),
        "split",
        "",
        floats(4, 12),
        rule="d w -> d w2, d w3, d w4",
    ),
    _row(
        lambda x, y: jnp.concatenate([x, y], 1),
        "concatenate",
        "",
        floats(4, 6),
        floats(4, 2, seed=1),
        rule="d w, d w2 -> d w3",
    ),
    _row(
        lambda x, y: jnp.stack([x, y], 1),
        "stack",
        "",
        floats(4, 6),
        floats(4, 6, seed=1),
        rule="d d2, d d2 -> d w d2",
    ),
    _row(
        lambda x: jnp.unstack(x, axis=1),
        "unstack",
        "",
        floats(4, 2, 6),
        rule="d w d2 -> d d2, d d2",
    ),
    _row(
        lambda x: lax.pad(x, 0.5, ((0, 0, 0), (2, 4, 0))),
        "pad",
        "edges",
        floats(4, 6),
        rule="d w, () -> d w2",
    ),
    _row(
        lambda x: lax.pad(x, 0.5, ((1, -1, 0), (0, 0, 0))),
        "pad",
        "shift",
        floats(4, 6),
        rule="w d, () -> w2 d",
    ),
    _row(
        lambda x: lax.pad(x, 0.0, ((0, 0, 0), (0, 1, 1))),
        "pad",
        "interior",
        floats(4, 6),
        rule="d w, () -> d w2",
    ),
    _row(
        lambda x, i: lax.dynamic_slice_in_dim(x, i, 4, 1),
        "dynamic_slice",
        "range",
        floats(4, 12),
        int32(5)[0],
        rule="d w, (), () -> d w2",
        local=dynamic_slice_shard,
    ),
    _row(
        lambda x, i: x[i],
        "dynamic_slice",
        "one-row",
        floats(6, 4),
        int32(4)[0],
        rule="w d, (), () -> 1 d",
        local=dynamic_slice_shard,
    ),
)


def _update(case: str, update: np.ndarray, position: int, rule: str) -> RuleRow:
    starts = (0,) * (update.ndim - 2)
    cache = floats(4, 12, *update.shape[2:])
    dims, scalars = rule.split(", ")[0], ", ".join(["()"] * update.ndim)
    return _row(
        lambda c, u, p: lax.dynamic_update_slice(c, u, (0, p, *starts)),
        "dynamic_update_slice",
        case,
        cache,
        update,
        int32(position)[0],
        rule=f"{rule}, {scalars} -> {dims}",
        local=dynamic_update_slice_shard,
    )


CACHE = (
    _update("cache-token", floats(4, 1, 6, 4, seed=1), 7, "d d2 d3 d4, d 1 d3 d4"),
    _update("cache-past-its-end", floats(4, 1, seed=1), 30, "d d2, d 1"),
    _update("cache-prompt", floats(4, 6, seed=1), 3, "d w, d w2"),
)


def _gather(case: str, function: Any, rule: str, *arguments: Any) -> RuleRow:
    return _row(function, "gather", case, *arguments, rule=rule, local=gather_shard)


def _take(mode: str) -> Any:
    return lambda table, ids: table.at[ids].get(mode=mode, wrap_negative_indices=False)


WINDOWS = lax.GatherDimensionNumbers(
    offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0,)
)
SHIFTED = lax.GatherDimensionNumbers(
    offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1)
)
LABEL_ROWS = "b v, b 1 1 -> b 1"

GATHER = (
    _gather("embedding", lambda e, i: e[i], "v d, i i2 1 -> i i2 d", floats(12, 4), IDS),
    _gather("embedding-filled", _take("fill"), "v d, i 1 -> i d", floats(12, 4), STRAY_IDS),
    _gather("embedding-clipped", _take("clip"), "v d, i 1 -> i d", floats(12, 4), STRAY_IDS),
    _gather("table-of-ints", _take("fill"), "v d, i 1 -> i d", ints(12, 4), STRAY_IDS),
    _gather("table-of-bools", _take("clip"), "v d, i 1 -> i d", bools(12, 4), STRAY_IDS),
    _gather("columns", lambda x, i: x[:, i], "d v, i 1 -> d i", floats(4, 12), LABELS),
    _gather(
        "labels-along-axis",
        lambda x, i: jnp.take_along_axis(x, i[:, None], -1),
        LABEL_ROWS,
        floats(6, 12),
        LABELS,
    ),
    _gather(
        "labels-by-pairs", lambda x, i: x[jnp.arange(6), i], "v v2, i w -> i", floats(6, 12), LABELS
    ),
    _gather(
        "sort-order",
        lambda x, i: jnp.take_along_axis(x, i, 0),
        "v b, i b 1 -> i b",
        floats(12, 4),
        ints(6, 4, high=12),
    ),
    _gather(
        "rows-of-each", jax.vmap(lambda x, i: x[i]), "b v d, b i 1 -> b i d", floats(4, 12, 6), IDS
    ),
    _gather(
        "windows",
        lambda x, i: lax.gather(x, i, WINDOWS, (2, 4), mode="clip"),
        "w d, i 1 -> i w2 d",
        floats(12, 4),
        ints(6, 1, high=11),
    ),
    _gather(
        "rows-kept",
        lambda x, i: lax.gather(x, i, WINDOWS, (1, 4), mode="clip"),
        "v d, i 1 -> i 1 d",
        floats(12, 4),
        ints(6, 1, high=12),
    ),
    _gather(
        "whole-dim-missed",
        lambda x, i: lax.gather(x, i, SHIFTED, (1, 4), mode="fill"),
        "v d, i w -> i 1 d",
        floats(12, 4),
        ints(6, 2, high=2),
    ),
    _gather(
        "slice-of-each",
        jax.vmap(lambda x, i: lax.dynamic_slice_in_dim(x, i, 3)),
        "b w d, b w3 -> b w2 d",
        floats(4, 6, 12),
        ints(4, high=4),
    ),
)


def _scatter(
    kind: str, case: str, function: Any, rule: str, *arguments: Any, **more: Any
) -> RuleRow:
    return _row(function, kind, case, *arguments, rule=rule, local=scatter_shard, **more)


def _at(method: str, mode: str = "drop") -> Any:
    def update(x: Any, ids: Any, updates: Any) -> Any:
        at = x.at[ids]
        return getattr(at, method)(updates, mode=mode, wrap_negative_indices=False)

    return update


def _rows(kind: str, method: str, case: str = "rows") -> RuleRow:
    return _scatter(
        kind,
        case,
        _at(method),
        "v d, i 1, i d -> v d",
        floats(12, 4),
        STRAY_IDS,
        floats(6, 4, seed=2),
    )


def _column(kind: str, method: str) -> RuleRow:
    """A single index, which XLA lowers apart from several."""
    return _scatter(
        kind,
        "column",
        lambda x, u: getattr(x.at[:, 5], method)(u),
        "d v, 1, d -> d v",
        floats(6, 12),
        floats(6, seed=2),
    )


def _label_gradient(x: Any, ids: Any) -> Any:
    return jax.grad(lambda y: jnp.sum(jnp.take_along_axis(y, ids[:, None], -1) ** 2))(x)


STAMPS = lax.ScatterDimensionNumbers(
    update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
)

SCATTER = (
    _scatter(
        "scatter-add",
        "embedding-gradient",
        jax.grad(lambda e, i: jnp.sum(e[i] ** 2)),
        "v d, i i2 1, i i2 d -> v d",
        floats(12, 4),
        IDS,
    ),
    _scatter(
        "scatter-add",
        "segment-sum",
        lambda x, i: jax.ops.segment_sum(x, i, 12),
        "v d, i 1, i d -> v d",
        floats(6, 4),
        STRAY_IDS,
    ),
    _scatter(
        "scatter-add",
        "label-gradient",
        _label_gradient,
        "b v, b 1 1, b 1 -> b v",
        floats(6, 12),
        LABELS,
    ),
    _scatter(
        "scatter-add",
        "label-pairs",
        lambda x, i: x.at[jnp.arange(6), i].add(1.5),
        "v v2, i w, i -> v v2",
        floats(6, 12),
        LABELS,
    ),
    _scatter(
        "scatter-add",
        "clipped",
        _at("add", "clip"),
        "v d, i 1, i d -> v d",
        floats(12, 4),
        STRAY_IDS,
        floats(6, 4, seed=2),
    ),
    _scatter(
        "scatter-add",
        "columns",
        lambda x, i, u: x.at[:, i].add(u),
        "d v, i 1, d i -> d v",
        floats(4, 12),
        LABELS,
        floats(4, 6, seed=2),
    ),
    _scatter(
        "scatter-add",
        "windows",
        lambda x, i, u: lax.scatter_add(x, i, u, STAMPS),
        "w d, i 1, i w2 d -> w d",
        floats(12, 4),
        ints(6, 1, high=11),
        floats(6, 2, 4, seed=2),
    ),
    _column("scatter", "set"),
    _column("scatter-add", "add"),
    _column("scatter-mul", "mul"),
    _column("scatter-min", "min"),
    _column("scatter-max", "max"),
    _rows("scatter-sub", "subtract"),
    _rows("scatter-mul", "mul"),
    _rows("scatter-min", "min"),
    _rows("scatter-max", "max"),
    _scatter(
        "scatter",
        "rows",
        _at("set"),
        "v d, w 1, w d -> v d",
        floats(12, 4),
        LABELS,
        floats(6, 4, seed=2),
    ),
    _scatter(
        "scatter",
        "applied",
        lambda x, i: x.at[i].apply(jnp.sin),
        "v d, w 1, w d -> v d",
        floats(12, 4),
        LABELS,
    ),
    _scatter(
        "scatter",
        "cache-of-each",
        jax.vmap(lambda c, u, p: lax.dynamic_update_slice_in_dim(c, u, p, 0)),
        "b v d, b w, b 1 d -> b v d",
        floats(4, 12, 6),
        floats(4, 1, 6, seed=2),
        int32(3, 20, 0, 11),
    ),
)

ORDERING = (
    _row(lambda x: lax.sort(x, dimension=1), "sort", "keys", floats(4, 12), rule="d w -> d w"),
    _row(
        lambda x, y: lax.sort((x, y), dimension=0, num_keys=1),
        "sort",
        "pairs",
        ints(6, 4, high=3),
        floats(6, 4),
        rule="w d, w d -> w d, w d",
    ),
    _row(lambda x: lax.top_k(x, 2), "top_k", "last", floats(4, 12), rule="d w -> d k, d k"),
    _row(
        lambda x: lax.top_k(x, 2, axis=0), "top_k", "first", floats(12, 4), rule="w d -> k d, k d"
    ),
    _row(
        lambda x: lax.approx_max_k(x, 2), "approx_top_k", "", floats(4, 12), rule="d w -> d k, d k"
    ),
    _row(lambda x: lax.argmax(x, 1, jnp.int32), "argmax", "", floats(4, 12), rule="d w -> d"),
    _row(lambda x: lax.argmin(x, 0, jnp.int32), "argmin", "", floats(12, 4), rule="w d -> d"),
)


ROWS: tuple[RuleRow, ...] = (*SLICING, *CACHE, *GATHER, *SCATTER, *ORDERING)
