"""A transformer of flax nnx modules, made functional by ``nnx.split`` and ``nnx.merge``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from shardwright.models.batches import language_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import cross_entropy
from shardwright.models.train import TrainConfig, step_case


class Block(nnx.Module):
    def __init__(self, d_model: int, heads: int, ffn: int, rngs: nnx.Rngs) -> None:
        self.attention_norm = nnx.LayerNorm(d_model, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, d_model, decode=False, rngs=rngs)
        self.ffn_norm = nnx.LayerNorm(d_model, rngs=rngs)
        self.up = nnx.Linear(d_model, ffn, rngs=rngs)
        self.down = nnx.Linear(ffn, d_model, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        mask = nnx.make_causal_mask(x[..., 0])
        x = x + self.attention(self.attention_norm(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.ffn_norm(x))))


class Transformer(nnx.Module):
    def __init__(
        self, *, layers: int, d_model: int, heads: int, ffn: int, vocab: int, rngs: nnx.Rngs
    ) -> None:
        self.embed = nnx.Embed(vocab, d_model, rngs=rngs)
        self.blocks = nnx.List([Block(d_model, heads, ffn, rngs) for _ in range(layers)])
        self.head = nnx.Linear(d_model, vocab, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


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
            layers=layers, d_model=d_model, heads=heads, ffn=ffn, vocab=vocab, rngs=nnx.Rngs(key)
        )

    definition = nnx.graphdef(nnx.eval_shape(lambda: model(jax.random.key(0))))

    def init(key: jax.Array) -> Params:
        return nnx.state(model(key))

    def loss(params: Params, batch: Batch) -> jax.Array:
        logits = nnx.merge(definition, params)(batch["tokens"])
        return cross_entropy(logits.astype(jnp.float32), batch["targets"])

    return step_case(
        name=name,
        init=init,
        loss=loss,
        batches=language_source(batch=batch, seq=seq, vocab=vocab),
        train=TrainConfig(optimizer=optimizer),
    )
