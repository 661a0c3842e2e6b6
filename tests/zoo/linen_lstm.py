"""A language model of flax linen's optimized LSTM cell, run over time by ``nn.RNN``."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from shardwright.models.batches import language_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import cross_entropy
from shardwright.models.train import TrainConfig, step_case


class LanguageLstm(nn.Module):
    d_model: int
    vocab: int

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.d_model)(tokens)
        x = nn.RNN(nn.OptimizedLSTMCell(self.d_model))(x)
        return nn.Dense(self.vocab)(x)


def case(
    *,
    name: str,
    d_model: int = 32,
    vocab: int = 64,
    seq: int = 8,
    batch: int = 16,
    optimizer: str = "sgd",
) -> StepCase:
    model = LanguageLstm(d_model, vocab)

    def init(key: jax.Array) -> Params:
        return model.init(key, jnp.zeros((batch, seq), jnp.int32))["params"]

    def loss(params: Params, batch: Batch) -> jax.Array:
        return cross_entropy(model.apply({"params": params}, batch["tokens"]), batch["targets"])

    return step_case(
        name=name,
        init=init,
        loss=loss,
        batches=language_source(batch=batch, seq=seq, vocab=vocab),
        train=TrainConfig(optimizer=optimizer),
    )
