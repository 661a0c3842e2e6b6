"""Mixture of experts that drops no token: sort by expert, then matmuls over ragged groups.

**Source**: Gale et al. 2022, MegaBlocks, section 5; here with ``jax.lax.ragged_dot``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shardwright.models.case import Params


def ragged_ffn(params: Params, x: jax.Array, *, top_k: int) -> tuple[jax.Array, jax.Array]:
    """The experts' answer for each token, and the loss that keeps their loads equal.

    Shapes:
        x: [batch, seq, d_model]; params: ``router`` [d, e], ``gate`` and ``up`` [e, d, f],
        ``down`` [e, f, d]; result: as x, and a float32 scalar.
    """
    experts = params["router"].shape[1]
    tokens = x.reshape(-1, x.shape[-1])
    gates = jax.nn.softmax((tokens @ params["router"]).astype(jnp.float32))
    weights, chosen = jax.lax.top_k(gates, top_k)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    flat = chosen.reshape(-1)
    sizes = jnp.bincount(flat, length=experts).astype(jnp.int32)
    order = jnp.argsort(flat)
    answers = _experts(params, jnp.take(tokens, order // top_k, axis=0), sizes)
    restored = jnp.take(answers, jnp.argsort(order), axis=0).reshape(*chosen.shape, -1)
    out = jnp.einsum("tk,tkd->td", weights.astype(x.dtype), restored)
    share = sizes / flat.shape[0]
    balance = experts * jnp.sum(jax.lax.stop_gradient(share) * jnp.mean(gates, axis=0))
    return out.reshape(x.shape), balance


def _experts(params: Params, x: jax.Array, sizes: jax.Array) -> jax.Array:
    gate = jax.nn.silu(jax.lax.ragged_dot(x, params["gate"], sizes))
    hidden = gate * jax.lax.ragged_dot(x, params["up"], sizes)
    return jax.lax.ragged_dot(hidden, params["down"], sizes)
