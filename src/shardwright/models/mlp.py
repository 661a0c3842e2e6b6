"""The smallest model: two matrices and a squared error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp

from shardwright.models.batches import regression_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import cast, normal
from shardwright.models.train import TrainConfig, step_case


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MlpConfig:
    """Sizes of a regression from ``d_model`` to ``d_model`` numbers through ``ffn`` units."""

    d_model: int = 32
    ffn: int = 64
    batch: int = 16
    param_dtype: str = "float32"
    compute_dtype: str = "float32"


def init(config: MlpConfig, key: jax.Array) -> Params:
    """Weights ``up`` [d_model, ffn] and ``down`` [ffn, d_model], with biases."""
    up, down = jax.random.split(key)
    dtype = config.param_dtype
    return {
        "up": normal(up, (config.d_model, config.ffn), fan_in=config.d_model, dtype=dtype),
        "up_bias": jnp.zeros(config.ffn, dtype),
        "down": normal(down, (config.ffn, config.d_model), fan_in=config.ffn, dtype=dtype),
        "down_bias": jnp.zeros(config.d_model, dtype),
    }


def forward(config: MlpConfig, params: Params, x: jax.Array) -> jax.Array:
    """Predictions [batch, d_model] for ``x`` [batch, d_model]."""
    weights = cast(params, config.compute_dtype)
    hidden = jax.nn.relu(x.astype(config.compute_dtype) @ weights["up"] + weights["up_bias"])
    return hidden @ weights["down"] + weights["down_bias"]


def loss(config: MlpConfig, params: Params, batch: Batch) -> jax.Array:
    """Mean squared error, a float32 scalar."""
    error = forward(config, params, batch["x"]).astype(jnp.float32) - batch["y"]
    return jnp.mean(jnp.square(error))


def case(config: MlpConfig, train: TrainConfig) -> StepCase:
    """The training step of this model."""
    return step_case(
        name="mlp",
        init=partial(init, config),
        loss=partial(loss, config),
        batches=regression_source(
            batch=config.batch, inputs=config.d_model, outputs=config.d_model
        ),
        train=train,
    )
