"""A language model of LSTM layers, each a loop over time.

**Source**: Hochreiter and Schmidhuber 1997, Long Short-Term Memory; forget gate of
Gers et al. 2000, Learning to Forget.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp

from shardwright.models.batches import language_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import cast, cross_entropy, normal
from shardwright.models.train import TrainConfig, step_case

_GATES = 4  # input, forget, cell, output


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LstmConfig:
    """Sizes of an LSTM language model."""

    layers: int = 2
    d_model: int = 64
    vocab: int = 128
    seq: int = 16
    batch: int = 16
    param_dtype: str = "float32"
    compute_dtype: str = "float32"


def init(config: LstmConfig, key: jax.Array) -> Params:
    """All weights: ``embed``, ``layers`` and ``head``."""
    embed, layers, head = jax.random.split(key, 3)
    d_model, dtype = config.d_model, config.param_dtype
    return {
        "embed": normal(embed, (config.vocab, d_model), fan_in=1, dtype=dtype),
        "layers": [_init_layer(config, each) for each in jax.random.split(layers, config.layers)],
        "head": normal(head, (d_model, config.vocab), fan_in=d_model, dtype=dtype),
    }


def _init_layer(config: LstmConfig, key: jax.Array) -> Params:
    from_input, from_hidden = jax.random.split(key)
    d_model, dtype = config.d_model, config.param_dtype
    shape = (d_model, _GATES, d_model)
    return {
        "wx": normal(from_input, shape, fan_in=d_model, dtype=dtype),
        "wh": normal(from_hidden, shape, fan_in=d_model, dtype=dtype),
        "bias": jnp.zeros((_GATES, d_model), dtype),
    }


def cell(
    params: Params, carry: tuple[jax.Array, jax.Array], x: jax.Array
) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    """Hidden and cell state after one time step, and the hidden state again as its output.

    Shapes:
        x and both states: [batch, d_model].
    """
    hidden, memory = carry
    from_input = jnp.einsum("bd,dgh->bgh", x, params["wx"])
    gates = from_input + jnp.einsum("bd,dgh->bgh", hidden, params["wh"]) + params["bias"]
    write, keep, read = (jax.nn.sigmoid(gates[:, gate]) for gate in (0, 1, 3))
    memory = keep * memory + write * jnp.tanh(gates[:, 2])
    hidden = read * jnp.tanh(memory)
    return (hidden, memory), hidden


def forward(config: LstmConfig, params: Params, tokens: jax.Array) -> jax.Array:
    """Logits [batch, seq, vocab] for ``tokens`` [batch, seq]."""
    params = cast(params, config.compute_dtype)
    x = jnp.swapaxes(jnp.take(params["embed"], tokens, axis=0), 0, 1)
    zeros = jnp.zeros(x.shape[1:], x.dtype)
    for layer in params["layers"]:
        _, x = jax.lax.scan(partial(cell, layer), (zeros, zeros), x)
    return jnp.einsum("sbd,dv->bsv", x, params["head"])


def loss(config: LstmConfig, params: Params, batch: Batch) -> jax.Array:
    """Mean next-token cross-entropy, a float32 scalar in nats."""
    return cross_entropy(forward(config, params, batch["tokens"]), batch["targets"])


def case(config: LstmConfig, train: TrainConfig) -> StepCase:
    """The training step of this model."""
    return step_case(
        name="lstm",
        init=partial(init, config),
        loss=partial(loss, config),
        batches=language_source(batch=config.batch, seq=config.seq, vocab=config.vocab),
        train=train,
    )
