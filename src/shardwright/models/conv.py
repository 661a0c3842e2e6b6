"""A convolution followed by batch norm, with running statistics as state."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shardwright.models.case import Params
from shardwright.models.layers import normal

_EPSILON = 1e-5
_MOMENTUM = 0.9  # share of the old running statistics that a step keeps


def init_conv(key: jax.Array, *, size: int, inputs: int, outputs: int, dtype: str) -> Params:
    """A ``kernel`` [size, size, inputs, outputs] and the norm's ``scale`` and ``bias``."""
    shape = (size, size, inputs, outputs)
    return {
        "kernel": normal(key, shape, fan_in=size * size * inputs, dtype=dtype),
        "scale": jnp.ones(outputs, dtype),
        "bias": jnp.zeros(outputs, dtype),
    }


def init_stats(channels: int) -> Params:
    """Running ``mean`` and ``variance`` [channels] before the first step, float32."""
    return {
        "mean": jnp.zeros(channels, jnp.float32),
        "variance": jnp.ones(channels, jnp.float32),
    }


def apply_conv(
    params: Params, stats: Params, x: jax.Array, *, stride: int
) -> tuple[jax.Array, Params]:
    """The normed convolution of ``x`` [batch, height, width, inputs], and new statistics."""
    x = jax.lax.conv_general_dilated(
        x,
        params["kernel"],
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return _batch_norm(params, stats, x)


def _batch_norm(params: Params, stats: Params, x: jax.Array) -> tuple[jax.Array, Params]:
    """``x`` normed over all dims but its last by this batch's statistics.

    **Source**: Ioffe and Szegedy 2015, Batch Normalization, algorithm 1.
    """
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=(0, 1, 2))
    variance = jnp.mean(jnp.square(wide - mean), axis=(0, 1, 2))
    normed = (wide - mean) * jax.lax.rsqrt(variance + _EPSILON)
    new_stats = {
        "mean": _MOMENTUM * stats["mean"] + (1.0 - _MOMENTUM) * mean,
        "variance": _MOMENTUM * stats["variance"] + (1.0 - _MOMENTUM) * variance,
    }
    return (normed * params["scale"] + params["bias"]).astype(x.dtype), new_stats
