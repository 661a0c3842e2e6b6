"""Rows of the rules' proof: products, reductions, shapes, borders."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from tests.conformance.rule_harness import RuleRow, Shard, bools, floats, ints

# --- products ------------------------------------------------------------------------------------


def dot(lhs: tuple[int, ...], rhs: tuple[int, ...], dims: Any, case: str, rule: str) -> RuleRow:
    """A row of ``dot_general``."""
    return RuleRow(
        kind="dot_general",
        case=case,
        function=lambda a, b: lax.dot_general(a, b, dims),
        arguments=(floats(*lhs), floats(*rhs, seed=1)),
        rule=rule,
    )


DOTS = (
    dot((4, 6), (6, 12), (((1,), (0,)), ((), ())), "matrix", "m k, k n -> m n"),
    dot((12,), (12,), (((0,), (0,)), ((), ())), "vectors", "k, k -> ()"),
    dot((4, 1), (1, 6), (((1,), (0,)), ((), ())), "outer", "m 1, 1 n -> m n"),
    dot((4, 6, 4), (6, 12, 4), (((2,), (2,)), ((1,), (0,))), "batch", "m b k, b n k -> b m n"),
    dot(
        (4, 6, 4, 6),
        (6, 4, 12),
        (((1, 2), (0, 1)), ((), ())),
        "two-contracted",
        "m k k2 m2, k k2 n -> m m2 n",
    ),
    RuleRow(
        kind="dot_general",
        case="integers",
        function=lambda a, b: lax.dot(a, b, preferred_element_type=np.int32),
        arguments=(ints(4, 6).astype(np.int8), ints(6, 12).astype(np.int8)),
    ),
    RuleRow(
        kind="scaled_dot",
        case="equal-blocks",
        function=lambda a, b, s, t: lax.scaled_dot(
            a, b, lhs_scale=s, rhs_scale=t, preferred_element_type=np.float32
        ),
        rule="b m (k e), b (k e) n, b m k, b k n -> b m n",
        arguments=(
            # Small whole numbers, so that the eight bits of a scaled number lose nothing.
            ints(4, 6, 24, low=-3, high=4).astype(np.float32),
            ints(4, 24, 6, low=-3, high=4, seed=1).astype(np.float32),
            ints(4, 6, 4, low=1, high=3, seed=2).astype(np.float32),
            ints(4, 4, 6, low=1, high=3, seed=3).astype(np.float32),
        ),
    ),
)

# --- reductions ----------------------------------------------------------------------------------


def reduction(kind: str, argument: Any, rule: str = "i j k -> j") -> RuleRow:
    """A row of a reduction over the first and the last of three dims."""
    return RuleRow(
        kind=kind,
        function=lambda x: getattr(lax, kind)(x, (0, 2)),
        arguments=(argument,),
        rule=rule,
    )


def general_reduction(
    case: str, function: Any, init: float, rule: str, *, argument: Any = None
) -> RuleRow:
    """A row of ``reduce`` over the last dim, by a function that lax has no reduction for."""
    operand = floats(6, 12, low=0.5, high=1.5) if argument is None else argument
    return RuleRow(
        kind="reduce",
        case=case,
        function=lambda x: lax.reduce(x, operand.dtype.type(init), function, (1,)),
        arguments=(operand,),
        rule=rule,
    )


REDUCTIONS = (
    reduction("reduce_sum", floats(6, 4, 6)),
    reduction("reduce_max", floats(6, 4, 6)),
    reduction("reduce_min", floats(6, 4, 6)),
    reduction("reduce_prod", floats(6, 4, 6, low=0.5, high=1.5)),
    reduction("reduce_and", bools(6, 4, 6) | bools(6, 4, 6, seed=1)),
    reduction("reduce_or", bools(6, 4, 6) & bools(6, 4, 6, seed=1)),
    RuleRow(
        kind="reduce_xor",
        function=lambda x: lax.reduce_xor(x, (0,)),
        arguments=(ints(6, 12),),
        rule="w j -> j",
    ),
    general_reduction("product", lambda a, b: a * b, 1.0, "i j, () -> i"),
    general_reduction("product-counted-again", lambda a, b: a * b, 2.0, "i w, () -> i"),
    general_reduction("maximum-counted-again", lax.max, 1.25, "i j, () -> i"),
    general_reduction("unknown", lambda a, b: a + b + a * b, 0.0, "i w, () -> i"),
    RuleRow(
        kind="reduce",
        case="two-arrays",
        function=lambda x, y: lax.reduce(
            (x, y), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)
        ),
        arguments=(floats(6, 4), floats(6, 4, seed=1)),
        rule="i w, i w, (), () -> i, i",
        conservative={"w": "two combiners at once are not told apart yet"},
    ),
)

CUMULATIVE = tuple(
    RuleRow(
        kind=kind,
        function=partial(getattr(lax, kind), axis=1),
        arguments=(floats(6, 4),),
        rule="i w -> i w",
    )
    for kind in ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum")
)

# --- shapes --------------------------------------------------------------------------------------


def reshape_part(shard: Shard, x: Any) -> Any:
    """A reshape's shard: to its own shape."""
    return shard.bind(x, new_sizes=shard.result_shapes[0])


def reshape(case: str, before: tuple[int, ...], after: tuple[int, ...], rule: str) -> RuleRow:
    """A row of ``reshape``."""
    return RuleRow(
        kind="reshape",
        case=case,
        function=lambda x: lax.reshape(x, after),
        arguments=(floats(*before),),
        rule=rule,
        local=reshape_part,
    )


RESHAPES = (
    reshape("split-heads", (4, 6, 24), (4, 6, 4, 6), "i j (k l) -> i j k l"),
    reshape("merge-tokens", (4, 6, 12), (24, 12), "i j k -> (i j) k"),
    reshape("ones", (1, 4, 1, 6), (4, 6, 1), "1 i 1 j -> i j 1"),
    reshape("regroup", (24, 4), (4, 24), "(i j) k -> i (j k)"),
    reshape(
        "not-aligned-then-aligned",
        (12, 30, 4, 6),
        (20, 18, 24),
        "(i w) (w2 j) k l -> (i w3) (w4 j) (k l)",
    ),
    RuleRow(
        kind="reshape",
        case="transposed-first",
        function=lambda x: lax.reshape(x, (24,), (1, 0)),
        arguments=(floats(4, 6),),
        rule="j i -> (i j)",
        local=reshape_part,
    ),
)

SHAPES = (
    RuleRow(
        kind="transpose",
        function=lambda x: lax.transpose(x, (2, 0, 1)),
        arguments=(floats(4, 6, 12),),
        rule="i j k -> k i j",
    ),
    RuleRow(
        kind="broadcast_in_dim",
        function=lambda x: lax.broadcast_in_dim(x, (4, 6, 12), (1, 2)),
        arguments=(floats(6, 1),),
        rule="j 1 -> i j k",
        local=lambda shard, x: shard.bind(x, shape=shard.result_shapes[0]),
    ),
    RuleRow(
        kind="broadcast_in_dim",
        case="scalar",
        function=lambda x: lax.broadcast_in_dim(x, (4, 6), ()),
        arguments=(floats(),),
        rule="() -> i j",
        local=lambda shard, x: shard.bind(x, shape=shard.result_shapes[0]),
    ),
    RuleRow(
        kind="squeeze",
        function=lambda x: lax.squeeze(x, (0, 2)),
        arguments=(floats(1, 6, 1, 4),),
        rule="1 j 1 l -> j l",
    ),
    RuleRow(
        kind="rev",
        function=lambda x: lax.rev(x, (1,)),
        arguments=(floats(4, 6),),
        rule="i j -> i j",
    ),
    RuleRow(
        kind="tile",
        function=lambda x: lax.tile(x, (4, 6)),
        arguments=(floats(6, 4),),
        rule="i j -> (r i) (r2 j)",
        local=lambda shard, x: shard.bind(
            x,
            reps=tuple(
                result // size for result, size in zip(shard.result_shapes[0], x.shape, strict=True)
            ),
        ),
    ),
    RuleRow(
        kind="bitcast_convert_type",
        case="same-width",
        function=lambda x: lax.bitcast_convert_type(x, np.uint32),
        arguments=(floats(4, 6),),
        rule="i j -> i j",
    ),
    RuleRow(
        kind="bitcast_convert_type",
        case="narrower",
        function=lambda x: lax.bitcast_convert_type(x, np.uint8),
        arguments=(floats(4, 6),),
        rule="i j -> i j w",
    ),
    RuleRow(
        kind="bitcast_convert_type",
        case="wider",
        function=lambda x: lax.bitcast_convert_type(x, np.uint32),
        arguments=(ints(6, 4).astype(np.uint8),),
        rule="i w -> i",
    ),
)

# --- borders -------------------------------------------------------------------------------------

BORDERS = (
    RuleRow(
        kind="device_put",
        function=jax.device_put,
        arguments=(floats(6, 4),),
        rule="i j -> i j",
    ),
    RuleRow(
        kind="optimization_barrier",
        function=lambda x, y: lax.optimization_barrier((x, y)),
        arguments=(floats(6, 4), floats(4)),
        rule="i j, i2 -> i j, i2",
    ),
    RuleRow(
        kind="sharding_constraint",
        function=lambda x: lax.with_sharding_constraint(
            x, jax.sharding.SingleDeviceSharding(jax.devices()[0])
        ),
        arguments=(floats(6, 4),),
        rule="i j -> i j",
    ),
    RuleRow(kind="shard.alias", function=lambda x: x, arguments=(floats(6, 4),), rule="i j -> i j"),
    RuleRow(kind="shard.carry", function=lambda x: x, arguments=(floats(6, 4),), rule="i j -> i j"),
    RuleRow(
        kind="shard.carry_back",
        function=lambda *_: (),
        arguments=(floats(6, 4), floats(6, 4)),
        rule="i j, i j ->",
    ),
    RuleRow(
        kind="shard.join",
        function=lambda x, y: x * 0 + y,
        arguments=(floats(6, 4), floats(6, 4, seed=1)),
        rule="i j, i j -> i j",
    ),
    RuleRow(
        kind="shard.scan_slice",
        function=lambda xs: xs[0],
        arguments=(floats(12, 6, 4),),
        rule="w i j -> i j",
    ),
    RuleRow(
        kind="shard.scan_stack",
        function=lambda x: np.stack([x * step for step in range(12)]),
        arguments=(floats(6, 4),),
        rule="i j -> w i j",
    ),
)

ROWS: tuple[RuleRow, ...] = (
    *DOTS,
    *REDUCTIONS,
    *CUMULATIVE,
    *RESHAPES,
    *SHAPES,
    *BORDERS,
)
