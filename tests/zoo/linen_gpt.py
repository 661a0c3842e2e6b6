"""A GPT of flax linen modules, with dropout."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from shardwright.models.batches import language_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import cross_entropy
from shardwright.models.train import TrainConfig, step_case


class Block(nn.Module):
    heads: int
    ffn: int
    dropout: float

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        drop = nn.Dropout(self.dropout, deterministic=False)
        normed = nn.LayerNorm()(x)
        mask = nn.make_causal_mask(normed[..., 0])
        x = x + drop(nn.MultiHeadDotProductAttention(self.heads)(normed, mask=mask))
        hidden = nn.gelu(nn.Dense(self.ffn)(nn.LayerNorm()(x)))
        return x + nn.Dropout(self.dropout, deterministic=False)(nn.Dense(x.shape[-1])(hidden))


class Gpt(nn.Module):
    layers: int
    d_model: int
    heads: int
    ffn: int
    vocab: int
    dropout: float

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        embed = nn.Embed(self.vocab, self.d_model)
        positions = nn.Embed(tokens.shape[1], self.d_model)
        x = embed(tokens) + positions(jnp.arange(tokens.shape[1]))
        for _ in range(self.layers):
            x = Block(self.heads, self.ffn, self.dropout)(x)
        return embed.attend(nn.LayerNorm()(x))


def case(
    *,
    name: str,
    layers: int = 1,
    d_model: int = 32,
    heads: int = 8,
    ffn: int = 64,
    vocab: int = 64,
    seq: int = 16,
    batch: int = 16,
    dropout: float = 0.1,
    optimizer: str = "sgd",
) -> StepCase:
    model = Gpt(layers, d_model, heads, ffn, vocab, dropout)

    def init(key: jax.Array) -> Params:
        rngs = {"params": key, "dropout": key}
        return model.init(rngs, jnp.zeros((batch, seq), jnp.int32))["params"]

    def loss(params: Params, batch: Batch) -> jax.Array:
        rngs = {"dropout": jax.random.wrap_key_data(batch["key"])}
        logits = model.apply({"params": params}, batch["tokens"], rngs=rngs)
        return cross_entropy(logits, batch["targets"])

    return step_case(
        name=name,
        init=init,
        loss=loss,
        batches=language_source(batch=batch, seq=seq, vocab=vocab, with_key=True),
        train=TrainConfig(optimizer=optimizer),
    )
