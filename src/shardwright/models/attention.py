"""Causal attention with heads as real dims, and rotary positions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shardwright.models.case import Params
from shardwright.models.layers import normal, operand


def causal_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """What each position gathers from itself and the positions before it.

    Shapes:
        q, k, v: [batch, seq, heads, head_dim]; result: the same.

    **Source**: Vaswani et al. 2017, Attention Is All You Need, section 3.2.
    """
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bhqs,bshk->bqhk", _causal_softmax(scores), v)


def grouped_causal_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention in which ``heads // kv_heads`` queries share a key and a value.

    Shapes:
        q: [batch, seq, heads, head_dim]; k, v: [batch, seq, kv_heads, head_dim]; result: as q.

    **Source**: Ainslie et al. 2023, GQA, section 2.2.
    """
    batch, seq, heads, head_dim = q.shape
    kv_heads = k.shape[2]
    grouped = q.reshape(batch, seq, kv_heads, heads // kv_heads, head_dim)
    scores = jnp.einsum("bqgrk,bsgk->bgrqs", grouped, k) * head_dim**-0.5
    out = jnp.einsum("bgrqs,bsgk->bqgrk", _causal_softmax(scores), v)
    return out.reshape(q.shape)


def init_grouped_attention(
    key: jax.Array,
    *,
    d_model: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    dtype: str,
    fused: bool = False,
) -> Params:
    """Weights of grouped-query attention without biases; heads are dims of their own.

    With ``fused`` the projections of queries, keys and values are one weight, cut by key heads:
    [d_model, kv_heads, queries of a key + 2, head_dim].
    """
    q, k, v, out = jax.random.split(key, 4)
    if fused:
        shape = (d_model, kv_heads, heads // kv_heads + 2, head_dim)
        return {
            "wqkv": normal(q, shape, fan_in=d_model, dtype=dtype),
            "wo": normal(out, (heads, head_dim, d_model), fan_in=heads * head_dim, dtype=dtype),
        }
    return {
        "wq": normal(q, (d_model, heads, head_dim), fan_in=d_model, dtype=dtype),
        "wk": normal(k, (d_model, kv_heads, head_dim), fan_in=d_model, dtype=dtype),
        "wv": normal(v, (d_model, kv_heads, head_dim), fan_in=d_model, dtype=dtype),
        "wo": normal(out, (heads, head_dim, d_model), fan_in=heads * head_dim, dtype=dtype),
    }


def grouped_attention(
    params: Params, x: jax.Array, *, theta: float, remat: bool = False
) -> jax.Array:
    """Grouped-query causal attention with rotary positions, [batch, seq, d_model] both ways.

    With ``remat`` the scores are computed again in the backward pass.
    """
    q, k, v = _projected(params, x)
    attend = jax.checkpoint(grouped_causal_attention) if remat else grouped_causal_attention
    attended = attend(operand(rotary(q, theta=theta)), operand(rotary(k, theta=theta)), v)
    return jnp.einsum("bshk,hkd->bsd", attended, params["wo"])


def _projected(params: Params, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    if "wqkv" not in params:
        q = jnp.einsum("bsd,dhk->bshk", x, params["wq"])
        k = jnp.einsum("bsd,dgk->bsgk", x, params["wk"])
        return q, k, jnp.einsum("bsd,dgk->bsgk", x, params["wv"])
    joint = jnp.einsum("bsd,dgrk->bsgrk", x, params["wqkv"])
    batch, seq, kv_heads, width, head_dim = joint.shape
    q = joint[:, :, :, :-2].reshape(batch, seq, kv_heads * (width - 2), head_dim)
    return q, joint[:, :, :, -2], joint[:, :, :, -1]


def rotary(x: jax.Array, *, theta: float) -> jax.Array:
    """``x`` [batch, seq, heads, head_dim] with each pair of features turned by its position.

    **Source**: Su et al. 2021, RoFormer, section 3.2; feature i pairs with i + head_dim / 2.
    """
    half = x.shape[-1] // 2
    frequencies = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * frequencies
    cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    low, high = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    turned = jnp.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
    return turned.astype(x.dtype)


def _causal_softmax(scores: jax.Array) -> jax.Array:
    """Probabilities over the last dim (keys), none of them after the query; float32 inside."""
    queries, keys = scores.shape[-2:]
    visible = jnp.arange(queries)[:, None] >= jnp.arange(keys)[None, :]
    masked = jnp.where(visible, scores.astype(jnp.float32), jnp.finfo(jnp.float32).min)
    return operand(jax.nn.softmax(masked, axis=-1).astype(scores.dtype))
