"""Rows of the rules' proof: numbers made from positions and keys."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax import lax
from jax._src.random import prng
from jax.extend.core import primitives

from tests.conformance.rule_harness import RuleRow, Shard, floats, keys, words


def bits_part(shard: Shard, key: Any) -> Any:
    """The bits of a shard's own positions: threefry of the key and of each position's number."""
    shape = shard.traced.result_shapes[0]
    hi, lo = counts_part(shard, key)
    words_of = jax.random.key_data(key)
    spread = (..., *[None] * len(shape[key.ndim :]))
    return primitives.threefry2x32_p.bind(
        *(np.broadcast_to(np.asarray(words_of)[..., i][spread], hi.shape) for i in (0, 1)), hi, lo
    )


def counts_part(shard: Shard, *keys_or_none: Any) -> tuple[np.ndarray, np.ndarray]:
    """The row-major numbers of a shard's own positions, as high and low words."""
    key_rank = keys_or_none[0].ndim if keys_or_none else 0
    shape = shard.traced.result_shapes[0][key_rank:]
    local = shard.result_shapes[0]
    numbers = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    dim = shard.result_dims[0]
    if dim is not None and dim >= key_rank:
        numbers = np.take(numbers, range(shard.start, shard.start + shard.size), dim - key_rank)
    numbers = np.broadcast_to(numbers, local)
    return (numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)


def iota_part(shard: Shard) -> Any:
    """A shard's own numbers: counted from its start where its dim is the counted one."""
    numbers = np.asarray(shard.bind(shape=shard.result_shapes[0]))
    return numbers + (shard.start if shard.result_dims[0] == shard.param("dimension") else 0)


def xor_bits(shard: Shard, key: Any) -> Any:
    """Both words of a position's bits, folded into one of 32 bits."""
    first, second = bits_part(shard, key)
    return np.asarray(first) ^ np.asarray(second)


def split_keys(shard: Shard, key: Any) -> Any:
    """The keys of a shard's own positions."""
    first, second = bits_part(shard, key)
    return jax.random.wrap_key_data(np.stack([first, second], axis=-1))


ROWS: tuple[RuleRow, ...] = (
    RuleRow(
        kind="iota",
        function=lambda: lax.broadcasted_iota(np.int32, (6, 4), 0),
        arguments=(),
        rule="-> i j",
        local=iota_part,
    ),
    RuleRow(
        kind="iota_2x32_shape",
        function=lambda: prng.iota_2x32_shape((6, 4)),
        arguments=(),
        rule="-> i j, i j",
        local=counts_part,
    ),
    RuleRow(
        kind="random_bits",
        function=lambda key: jax.random.bits(key, (6, 4)),
        arguments=(keys(),),
        rule="() -> i j",
        local=xor_bits,
    ),
    RuleRow(
        kind="random_bits",
        case="many-keys",
        function=jax.vmap(lambda key: jax.random.bits(key, (6,))),
        arguments=(keys(4),),
        rule="i -> i j",
        local=xor_bits,
    ),
    RuleRow(
        kind="random_bits",
        case="other-generator",
        function=lambda w: jax.random.bits(jax.random.wrap_key_data(w, impl="rbg"), (6, 4)),
        arguments=(words(4),),
        rule="() -> w w2",
    ),
    RuleRow(
        kind="random_gamma",
        function=lambda key, shape: jax.random.gamma(key, shape),
        arguments=(keys(), floats(4, low=1.0)),
        opaque=True,
    ),
    RuleRow(
        kind="random_split",
        function=lambda key: jax.random.split(key, (6, 4)),
        arguments=(keys(),),
        rule="() -> i j",
        local=split_keys,
    ),
    RuleRow(
        kind="random_wrap",
        function=jax.random.wrap_key_data,
        arguments=(words(6, 2),),
        rule="i w -> i",
    ),
    RuleRow(
        kind="random_unwrap",
        function=jax.random.key_data,
        arguments=(keys(6),),
        rule="i -> i w",
    ),
    RuleRow(
        kind="rng_bit_generator",
        function=lambda key: lax.rng_bit_generator(key, (6, 4)),
        arguments=(words(4),),
        rule="w -> w2, w3 w4",
    ),
    RuleRow(
        kind="rng_uniform",
        function=lambda a, b: lax.rng_uniform(a, b, (6, 4)),
        arguments=(floats(low=0.0, high=0.5), floats(low=0.5, high=1.0)),
        rule="(), () -> w w2",
    ),
)
