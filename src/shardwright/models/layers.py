"""Layers that several models share: functions of a parameter dictionary and an array."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from shardwright.models.case import Params

_EPSILON = 1e-5
_OPERAND = "operand of a matrix product"

_policies = jax.checkpoint_policies
keeping_matmuls = _policies.save_from_both_policies(
    _policies.dots_saveable, _policies.save_only_these_names(_OPERAND)
)
"""A checkpoint policy: keep what matrix products read (``operand``) and write, and no more."""


def operand(x: jax.Array) -> jax.Array:
    """``x``, marked as what a matrix product reads."""
    marked: jax.Array = checkpoint_name(x, _OPERAND)
    return marked


def normal(key: jax.Array, shape: tuple[int, ...], *, fan_in: int, dtype: str) -> jax.Array:
    """A weight of variance 1 / ``fan_in``."""
    return (jax.random.normal(key, shape) * fan_in**-0.5).astype(dtype)


def cast(params: Params, dtype: str) -> Params:
    """The same weights in the dtype of the computation."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype), params)


def init_layer_norm(d_model: int, dtype: str) -> Params:
    """Scale and shift [d_model] of a layer norm."""
    return {"scale": jnp.ones(d_model, dtype), "bias": jnp.zeros(d_model, dtype)}


def layer_norm(params: Params, x: jax.Array) -> jax.Array:
    """``x`` [..., d] with zero mean and unit variance over ``d``; statistics in float32.

    **Source**: Ba et al. 2016, Layer Normalization.
    """
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    variance = jnp.square(centered).mean(-1, keepdims=True)
    normed = centered * jax.lax.rsqrt(variance + _EPSILON)
    return (normed * params["scale"] + params["bias"]).astype(x.dtype)


def init_rms_norm(d_model: int, dtype: str) -> Params:
    """Scale [d_model] of an RMS norm."""
    return {"scale": jnp.ones(d_model, dtype)}


def rms_norm(params: Params, x: jax.Array) -> jax.Array:
    """``x`` [..., d] divided by its root mean square over ``d``, in float32.

    **Source**: Zhang and Sennrich 2019, Root Mean Square Layer Normalization.
    """
    wide = x.astype(jnp.float32)
    mean_square = jnp.square(wide).mean(-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean_square + _EPSILON) * params["scale"]).astype(x.dtype)


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """``x`` with a share ``rate`` of its entries set to zero and the rest scaled up."""
    if key is None or rate == 0.0:
        return x
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), jnp.zeros_like(x))


def token_logits(params: Params, x: jax.Array) -> jax.Array:
    """Scores [batch, seq, vocab] of each next token, by ``head`` or the tied ``embed``."""
    if "head" in params:
        return jnp.einsum("bsd,dv->bsv", x, params["head"].astype(x.dtype))
    return jnp.einsum("bsd,vd->bsv", x, params["embed"].astype(x.dtype))


def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean negative log-likelihood, a float32 scalar; no one-hot is built.

    Args:
        logits: [..., vocab].
        targets: [...], the right entry of each row.
    """
    wide = logits.astype(jnp.float32)
    picked = jnp.take_along_axis(wide, targets[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(wide, axis=-1) - picked)
