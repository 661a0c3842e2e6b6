"""Rows of the rules' proof: convolutions, poolings and their gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import primitives

from tests.conformance.rule_harness import RuleRow, Shard, floats

# --- convolutions --------------------------------------------------------------------------------


def convolve_part(shard: Shard, lhs: Any, rhs: Any) -> Any:
    """A convolution's shard: its own padding, its own groups, its own part of a patch."""
    changed: dict[str, Any] = {}
    names = shard.param("dimension_numbers")
    lhs_dim, rhs_dim = shard.operand_dims
    if shard.halo is not None:
        padding = list(shard.param("padding"))
        axis = names.lhs_spec.index(lhs_dim) - 2
        padding[axis] = (shard.halo.pad_low, shard.halo.pad_high)
        changed["padding"] = tuple(padding)
    elif shard.factor.name == "g":
        for name in ("feature_group_count", "batch_group_count"):
            changed[name] = max(1, shard.param(name) // shard.count)
    elif lhs_dim in names.lhs_spec[2:] and rhs_dim in names.rhs_spec[2:]:
        strides = list(shard.param("window_strides"))
        axis = names.rhs_spec.index(rhs_dim) - 2
        strides[axis] = max(1, strides[axis] // shard.count)
        changed["window_strides"] = tuple(strides)
    return shard.bind(lhs, rhs, **changed)


def conv(
    case: str,
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Any,
    rule: str = "",
    **options: Any,
) -> RuleRow:
    """A row of ``conv_general_dilated``; the layout is NHWC and HWIO unless options say another."""
    rank = len(strides)
    options.setdefault(
        "dimension_numbers",
        ("NHWC", "HWIO", "NHWC") if rank == 2 else ("NHC", "HIO", "NHC"),
    )
    return RuleRow(
        kind="conv_general_dilated",
        case=case,
        function=lambda a, b: lax.conv_general_dilated(a, b, strides, padding, **options),
        arguments=(floats(*lhs), floats(*rhs, seed=1)),
        rule=rule,
        local=convolve_part,
    )


def _depthwise(a: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(
        *(a, kernel, (1,), [(2, 0)]),
        dimension_numbers=("NHC", "HIO", "NHC"),
        feature_group_count=a.shape[-1] // kernel.shape[1],
    )


CONVOLUTIONS = (
    conv(
        "same",
        (4, 12, 12, 4),
        (3, 3, 4, 6),
        (1, 1),
        "SAME",
        "n h w i, kh kw i o -> n h w o",
    ),
    conv("valid", (4, 14, 4), (3, 4, 6), (1,), "VALID", "n w i, kw i o -> n w o"),
    conv("wide", (4, 24, 4), (5, 4, 6), (1,), "SAME"),
    conv("strided", (4, 24, 4), (3, 4, 6), (2,), "SAME", "n w i, kw i o -> n w o"),
    conv("pointwise", (4, 6, 4), (1, 4, 6), (1,), "VALID", "n w i, 1 i o -> n w o"),
    conv("pointwise-strided", (4, 24, 4), (1, 4, 6), (2,), "VALID", "n w i, 1 i o -> n w o"),
    conv("dilated", (4, 24, 4), (3, 4, 6), (1,), "SAME", rhs_dilation=(2,)),
    conv("transposed", (4, 12, 4), (4, 4, 6), (1,), [(2, 2)], lhs_dilation=(2,)),
    conv("input-gradient", (4, 12, 4), (3, 4, 6), (1,), [(1, 2)], lhs_dilation=(2,)),
    conv("cropped", (4, 14, 4), (1, 4, 6), (1,), [(-1, -1)]),
    conv(
        "patches",
        (4, 24, 4),
        (4, 4, 6),
        (4,),
        "VALID",
        "n (w kw) i, kw i o -> n w o",
    ),
    conv("whole-window", (4, 12, 4), (12, 4, 6), (1,), "VALID", "n kw i, kw i o -> n 1 o"),
    conv(
        "kernel-gradient",
        (4, 12, 4),
        (12, 4, 6),
        (1,),
        [(2, 1)],
        "n w i, kw i o -> n w2 o",
    ),
    conv(
        "grouped",
        (4, 12, 24),
        (3, 4, 24),
        (1,),
        "SAME",
        "n w (g i), kw i (g o) -> n w (g o)",
        feature_group_count=6,
    ),
    conv(
        "depthwise",
        (4, 12, 6),
        (3, 1, 6),
        (1,),
        "SAME",
        "n w g, kw 1 g -> n w g",
        feature_group_count=6,
    ),
    conv(
        "batch-grouped",
        (24, 12, 4),
        (3, 4, 24),
        (1,),
        "SAME",
        "(g n) w i, kw i (g o) -> n w (g o)",
        batch_group_count=6,
    ),
    RuleRow(
        kind="conv_general_dilated",
        case="grouped-kernel-gradient",
        function=lambda a, cotangent: jax.linear_transpose(
            lambda kernel: _depthwise(a, kernel), floats(3, 4, 24)
        )(cotangent),
        arguments=(floats(12, 6, 24), floats(12, 6, 24, seed=1)),
        rule="i w (g n), i kw (g o) -> w2 n (g o)",
        local=convolve_part,
    ),
    conv(
        "channels-first",
        (4, 4, 12),
        (6, 4, 3),
        (1,),
        "SAME",
        "n i w, o i kw -> n o w",
        dimension_numbers=("NCH", "OIH", "NCH"),
    ),
)

# --- windows -------------------------------------------------------------------------------------


def pool_part(shard: Shard, *operands: Any) -> Any:
    """A pooling's shard: its own padding, or its own part of each window."""
    changed: dict[str, Any] = {}
    dim = next((dim for dim in shard.operand_dims if dim is not None), 0)
    if shard.halo is not None:
        padding = list(shard.param("padding"))
        padding[dim] = (shard.halo.pad_low, shard.halo.pad_high)
        changed["padding"] = tuple(padding)
    elif shard.factor.name.startswith("k"):
        for name in ("window_dimensions", "window_strides"):
            sizes = list(shard.param(name))
            sizes[dim] = max(1, sizes[dim] // shard.count)
            changed[name] = tuple(sizes)
    return shard.bind(*operands, **changed)


def pool(
    kind: str, case: str, shape: tuple[int, ...], window: Any, strides: Any, padding: Any, rule: str
) -> RuleRow:
    """A row of pooling by sum, maximum or minimum."""
    init, function = {
        "reduce_window_sum": (0.0, lax.add),
        "reduce_window_max": (-np.inf, lax.max),
        "reduce_window_min": (np.inf, lax.min),
    }[kind]
    return RuleRow(
        kind=kind,
        case=case,
        function=lambda x: lax.reduce_window(x, init, function, window, strides, padding),
        arguments=(floats(*shape),),
        rule=rule,
        local=pool_part,
    )


def max_pool(x: Any, window: tuple[int, ...], strides: tuple[int, ...], padding: Any) -> Any:
    """Pooling by maximum."""
    return lax.reduce_window(x, -np.inf, lax.max, window, strides, padding)


def pool_gradient(
    case: str, window: int, stride: int, padding: Any, rule: str, sizes: tuple[int, int]
) -> RuleRow:
    """A row of the gradient of pooling by maximum."""

    def function(g: Any, x: Any) -> Any:
        pooled = partial(max_pool, window=(1, window), strides=(1, stride), padding=padding)
        return jax.vjp(pooled, x)[1](g)

    full, small = sizes
    return RuleRow(
        kind="select_and_scatter_add",
        case=case,
        function=function,
        arguments=(floats(6, small), floats(6, full, seed=1)),
        rule=rule,
        local=pool_part,
    )


def pool_tangent(
    case: str, window: int, stride: int, padding: Any, rule: str, size: int
) -> RuleRow:
    """A row of the directional derivative of pooling by maximum."""

    def function(t: Any, x: Any) -> Any:
        pooled = partial(max_pool, window=(1, window), strides=(1, stride), padding=padding)
        return jax.jvp(pooled, (x,), (t,))

    return RuleRow(
        kind="select_and_gather_add",
        case=case,
        function=function,
        arguments=(floats(6, size), floats(6, size, seed=1)),
        rule=rule,
        local=pool_part,
    )


def scatter_by_window(x: Any, source: Any) -> Any:
    """``select_and_scatter`` with its functions given, which lax itself has no front for."""
    select = jax.make_jaxpr(lax.ge)(0.0, 0.0)
    scatter = jax.make_jaxpr(lax.add)(0.0, 0.0)
    return primitives.select_and_scatter_p.bind(
        x,
        source,
        np.float32(0),
        select_jaxpr=select.jaxpr,
        select_consts=(),
        scatter_jaxpr=scatter.jaxpr,
        scatter_consts=(),
        window_dimensions=(1, 3),
        window_strides=(1, 3),
        padding=((0, 0), (0, 0)),
    )


WINDOWS = (
    pool("reduce_window_sum", "same", (6, 12), (1, 3), (1, 1), "SAME", "i j -> i j"),
    pool("reduce_window_max", "strided", (6, 24), (1, 3), (1, 2), "SAME", "i j -> i j"),
    pool("reduce_window_min", "valid", (6, 14), (1, 3), (1, 1), "VALID", "i j -> i j"),
    pool("reduce_window_sum", "tiles", (4, 24), (1, 4), (1, 4), "VALID", "i (j kj) -> i j"),
    pool("reduce_window_max", "tiles", (4, 24), (1, 4), (1, 4), "VALID", "i (j kj) -> i j"),
    pool("reduce_window_min", "all", (4, 12), (1, 12), (1, 1), "VALID", "i kj -> i 1"),
    pool("reduce_window_sum", "too-wide", (4, 12), (1, 11), (1, 1), "SAME", "i w -> i w2"),
    RuleRow(
        kind="reduce_window",
        function=lambda x: lax.reduce_window(
            x, np.float32(0.5), lambda a, b: a * b + 1.0, (1, 4), (1, 4), "VALID"
        ),
        arguments=(floats(4, 24),),
        rule="i (j kj), () -> i j",
        local=pool_part,
    ),
    pool_gradient("tiles", 3, 3, "VALID", "i j, i (j kj) -> i (j kj)", (12, 4)),
    pool_gradient("overlapping", 3, 2, "SAME", "i w2, i w -> i w", (12, 6)),
    pool_tangent("tiles", 3, 3, "VALID", "i (j kj), i (j kj) -> i j", 12),
    pool_tangent("overlapping", 3, 2, "SAME", "i j, i j -> i j", 24),
    RuleRow(
        kind="select_and_scatter",
        function=scatter_by_window,
        arguments=(floats(6, 12), floats(6, 4, seed=1)),
        rule="i (j kj), i j, () -> i (j kj)",
        local=pool_part,
    ),
)

ROWS: tuple[RuleRow, ...] = (*CONVOLUTIONS, *WINDOWS)
