"""Mixture of experts by dispatch and combine masks with a fixed capacity.

**Source**: Lepikhin et al. 2020, GShard, section 2.2 and algorithm 1; its appendix writes the layer
as these einsums. Second choices are always sent, not at random, so that a step has one answer.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shardwright.models.case import Params


def capacity(*, seq: int, experts: int, top_k: int, factor: float) -> int:
    """Tokens that one expert takes from one group of ``seq`` tokens."""
    return max(1, int(factor * top_k * seq / experts))


def gshard_ffn(
    params: Params, x: jax.Array, *, top_k: int, factor: float
) -> tuple[jax.Array, jax.Array]:
    """The experts' answer for each token, and the loss that keeps their loads equal.

    Shapes:
        x: [groups, seq, d_model]; params: ``router`` [d, e], ``gate`` and ``up`` [e, d, f],
        ``down`` [e, f, d]; result: as x, and a float32 scalar.
    """
    experts = params["router"].shape[1]
    limit = capacity(seq=x.shape[1], experts=experts, top_k=top_k, factor=factor)
    gates = jax.nn.softmax(jnp.einsum("gsd,de->gse", x, params["router"]).astype(jnp.float32))
    combine, balance = route(gates, top_k=top_k, limit=limit)
    combine = combine.astype(x.dtype)
    dispatched = jnp.einsum("gsec,gsd->egcd", (combine > 0).astype(x.dtype), x)
    answers = _experts(params, dispatched)
    return jnp.einsum("gsec,egcd->gsd", combine, answers), balance


def route(gates: jax.Array, *, top_k: int, limit: int) -> tuple[jax.Array, jax.Array]:
    """Combine weights [groups, seq, experts, limit] and the load-balance loss, a scalar.

    A token whose expert is full is dropped by that expert.

    Args:
        gates: probabilities [groups, seq, experts].
        top_k: experts of one token.
        limit: tokens that an expert takes from a group.
    """
    experts = gates.shape[-1]
    chosen = _choices(gates, top_k)
    share, load = jnp.mean(gates, axis=1), jnp.mean(chosen[0], axis=1)
    balance = experts**2 * jnp.mean(share * load)
    total = sum(jnp.sum(gates * mask, axis=-1) for mask in chosen)
    combine = jnp.zeros((*gates.shape, limit), gates.dtype)
    taken = jnp.zeros_like(gates[:, :1])
    for mask in chosen:
        position = jnp.cumsum(mask, axis=1) - mask + taken
        taken = taken + jnp.sum(mask, axis=1, keepdims=True)
        kept = mask * (position < limit)
        weight = jnp.sum(gates * kept, axis=-1) / total
        slots = jnp.sum(position * kept, axis=-1).astype(jnp.int32)
        slot = jax.nn.one_hot(slots, limit, dtype=gates.dtype)
        combine = combine + jnp.einsum("gs,gse,gsc->gsec", weight, kept, slot)
    return combine, balance


def _choices(gates: jax.Array, top_k: int) -> list[jax.Array]:
    """A mask [groups, seq, experts] for each choice, the best expert first."""
    chosen = []
    left = gates
    for _ in range(top_k):
        mask = jax.nn.one_hot(jnp.argmax(left, axis=-1), gates.shape[-1], dtype=gates.dtype)
        chosen.append(mask)
        left = left * (1.0 - mask)
    return chosen


def _experts(params: Params, x: jax.Array) -> jax.Array:
    gate = jax.nn.silu(jnp.einsum("egcd,edf->egcf", x, params["gate"]))
    hidden = gate * jnp.einsum("egcd,edf->egcf", x, params["up"])
    return jnp.einsum("egcf,efd->egcd", hidden, params["down"])
