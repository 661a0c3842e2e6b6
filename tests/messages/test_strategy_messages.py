"""Errors of strategies, reshards and costs, to the letter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardwright.cluster import Device, Mesh
from shardwright.cost import peak_flops_per_s
from shardwright.errors import CostError, ShardingError, ShardwrightError
from shardwright.sharding import Combiner, Sharding, rule_from_text
from shardwright.sharding.collective import MovedBytes
from shardwright.sharding.follow import follow
from shardwright.sharding.reshard import reshard
from shardwright.sharding.strategy import strategy_of

MESH = Mesh.of(dp=2, tp=4)
RULE = rule_from_text("b v -> b", {"b": 8, "v": 16}, {"v": Combiner.SUM})
SHAPES = ((8, 16),), ((8,),)
S = Sharding.of


def move(source: Sharding, target: Sharding) -> Callable[[], object]:
    return lambda: reshard((8, 10), 4, source, target, MESH, MovedBytes(mesh=MESH))


def peakless() -> object:
    device = Device(
        name="bare", peak_flops_per_s=(), memory_bytes=1, memory_bandwidth_bytes_per_s=1.0
    )
    return peak_flops_per_s(device, "bfloat16")


ROWS: list[tuple[str, Callable[[], object], type[ShardwrightError], str]] = [
    (
        "rank",
        move(S("dp"), S(None, None)),
        ShardingError,
        "the source [dp] of a reshard has 1 dims, the tensor has 2",
    ),
    (
        "axis twice",
        move(S(None, None), S("dp", "dp")),
        ShardingError,
        'the target [dp, dp] of a reshard uses axis "dp" twice',
    ),
    (
        "uneven",
        move(S(None, None), S(None, "tp")),
        ShardingError,
        "dim 1 of the target [-, tp] has size 10; mesh axes tp of size 4 do not divide it\n"
        "  try    reshards move equal pieces only; leave that dim whole",
    ),
    (
        "new partial sums",
        move(S(None, None), Sharding(dims=((), ()), unreduced=("dp",))),
        ShardingError,
        'the target [-, -] unreduced dp is unreduced over "dp", the source [-, -] is not\n'
        "  try    only an operator makes partial sums; ask for a finished target",
    ),
    (
        "factor count",
        lambda: strategy_of(RULE, *SHAPES, (("dp",),), MESH),
        ShardingError,
        "the rule has 2 factors, axes are given for 1\n  where  rule b v -> b  {b=8, v=16}  v: sum",
    ),
    (
        "rank to follow",
        lambda: follow(RULE, *SHAPES, MESH, 0, S("dp")),
        ShardingError,
        "the sharding [dp] has 1 dims, the tensor has 2\n"
        "  where  rule b v -> b  {b=8, v=16}  v: sum",
    ),
    (
        "no peak",
        peakless,
        CostError,
        "device bare lists no peak FLOP/s for any element type, bfloat16 among them\n"
        "  try    give its peak_flops_per_s at least one pair, such as ('float32', 1e12)",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "text"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_error_reads(
    call: Callable[[], object], kind: type[ShardwrightError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
