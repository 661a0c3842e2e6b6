"""A stack of equal blocks: one loop over stacked weights, or unrolled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from shardwright.models.case import Params
from shardwright.models.layers import keeping_matmuls

Carry = TypeVar("Carry")
Block = Callable[[Params, Carry, jax.Array | None], Carry]


def init_blocks(
    init: Callable[[jax.Array], Params], key: jax.Array, *, layers: int, scan: bool
) -> Any:
    """Weights of the blocks: stacked along a leading dim under ``scan``, else a list.

    Both forms hold the same numbers for the same key.
    """
    keys = jax.random.split(key, layers)
    return jax.vmap(init)(keys) if scan else [init(keys[layer]) for layer in range(layers)]


def apply_blocks(
    block: Block[Carry],
    weights: Any,
    carry: Carry,
    *,
    scan: bool,
    remat: bool,
    lean: bool = False,
    key: jax.Array | None = None,
) -> Carry:
    """The carry after all blocks.

    Args:
        block: (weights of one block, carry, key or None) in, carry out.
        weights: what ``init_blocks`` made.
        carry: enters the first block.
        scan: the blocks run in one ``lax.scan``.
        remat: activations inside a block are computed again in the backward pass.
        lean: of the activations only what matrix products read and write is kept for the backward
            pass, as kernels written by hand do; what lies between is computed again.
        key: each block gets its own key folded from this one.
    """
    # A loop already keeps XLA from merging the recomputation with the forward pass.
    policy = keeping_matmuls if lean and not remat else None
    checkpointed = jax.checkpoint(block, prevent_cse=not scan, policy=policy)
    run = checkpointed if remat or lean else block
    if scan:
        return _scanned(run, weights, carry, key)
    for layer, layer_weights in enumerate(weights):
        carry = run(layer_weights, carry, _folded(key, layer))
    return carry


def _scanned(run: Block[Carry], weights: Any, carry: Carry, key: jax.Array | None) -> Carry:
    layers = jax.tree.leaves(weights)[0].shape[0]
    indices = None if key is None else jnp.arange(layers)

    def body(carry: Carry, entry: Any) -> tuple[Carry, None]:
        layer_weights, layer = entry
        return run(layer_weights, carry, _folded(key, layer)), None

    return jax.lax.scan(body, carry, (weights, indices))[0]


def _folded(key: jax.Array | None, layer: Any) -> jax.Array | None:
    return None if key is None else jax.random.fold_in(key, layer)
