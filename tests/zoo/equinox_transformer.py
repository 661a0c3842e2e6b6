"""A transformer of equinox modules written for one sequence and mapped over the batch."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from shardwright.models.batches import language_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import cross_entropy
from shardwright.models.train import TrainConfig, step_case


class Block(eqx.Module):
    attention_norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    ffn_norm: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, d_model: int, heads: int, ffn: int, key: jax.Array) -> None:
        attention, up, down = jax.random.split(key, 3)
        self.attention_norm = eqx.nn.LayerNorm(d_model)
        self.attention = eqx.nn.MultiheadAttention(heads, d_model, key=attention)
        self.ffn_norm = eqx.nn.LayerNorm(d_model)
        self.up = eqx.nn.Linear(d_model, ffn, key=up)
        self.down = eqx.nn.Linear(ffn, d_model, key=down)

    def __call__(self, x: jax.Array) -> jax.Array:
        mask = jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool))
        normed = jax.vmap(self.attention_norm)(x)
        x = x + self.attention(normed, normed, normed, mask=mask)
        hidden = jax.nn.gelu(jax.vmap(self.up)(jax.vmap(self.ffn_norm)(x)))
        return x + jax.vmap(self.down)(hidden)


class Transformer(eqx.Module):
    embed: eqx.nn.Embedding
    blocks: list[Block]
    head: eqx.nn.Linear

    def __init__(
        self, *, layers: int, d_model: int, heads: int, ffn: int, vocab: int, key: jax.Array
    ) -> None:
        embed, head, *blocks = jax.random.split(key, 2 + layers)
        self.embed = eqx.nn.Embedding(vocab, d_model, key=embed)
        self.blocks = [Block(d_model, heads, ffn, each) for each in blocks]
        self.head = eqx.nn.Linear(d_model, vocab, key=head)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = jax.vmap(self.embed)(tokens)
        for block in self.blocks:
            x = block(x)
        return jax.vmap(self.head)(x)


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
    optimizer: str = "sgd",
) -> StepCase:
    def model(key: jax.Array) -> Transformer:
        return Transformer(
            layers=layers, d_model=d_model, heads=heads, ffn=ffn, vocab=vocab, key=key
        )

    shapes = eqx.filter_eval_shape(model, jax.random.key(0))
    static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))[1]

    def init(key: jax.Array) -> Params:
        return eqx.filter(model(key), eqx.is_inexact_array)

    def loss(params: Params, batch: Batch) -> jax.Array:
        logits = jax.vmap(eqx.combine(params, static))(batch["tokens"])
        return cross_entropy(logits, batch["targets"])

    return step_case(
        name=name,
        init=init,
        loss=loss,
        batches=language_source(batch=batch, seq=seq, vocab=vocab),
        train=TrainConfig(optimizer=optimizer),
    )
