"""GPT: learned positions, layer norms, GELU, biases everywhere.

**Source**: Radford et al. 2019, Language Models are Unsupervised Multitask Learners (GPT-2);
Brown et al. 2020, Language Models are Few-Shot Learners (GPT-3, table 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp

from shardwright.models.attention import causal_attention
from shardwright.models.batches import language_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import (
    cast,
    cross_entropy,
    dropout,
    init_layer_norm,
    layer_norm,
    normal,
    operand,
    token_logits,
)
from shardwright.models.sizes import require_multiple
from shardwright.models.stack import apply_blocks, init_blocks
from shardwright.models.train import TrainConfig, step_case


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GptConfig:
    """Sizes and choices of a GPT.

    Attributes:
        dropout: rate after the embedding, attention and feed-forward; above zero, each batch
            brings a random key.
        tied: the output matrix is the embedding.
        scan: blocks run in one loop over stacked weights.
        remat: activations inside a block are computed again in the backward pass.
        remat_attention: attention scores alone are.
        lean: only what matrix products read and write is kept, and the rest computed again.
        fused: the projections of queries, keys and values are one weight, as Megatron keeps them.
    """

    layers: int = 2
    d_model: int = 64
    heads: int = 8
    ffn: int = 128
    vocab: int = 128
    seq: int = 16
    batch: int = 16
    dropout: float = 0.0
    tied: bool = True
    scan: bool = False
    remat: bool = False
    remat_attention: bool = False
    lean: bool = False
    fused: bool = False
    param_dtype: str = "float32"
    compute_dtype: str = "float32"

    def __post_init__(self) -> None:
        """Refuse heads of unequal size."""
        require_multiple(d_model=self.d_model, heads=self.heads)

    @property
    def head_dim(self) -> int:
        """Features of one head."""
        return self.d_model // self.heads


def init(config: GptConfig, key: jax.Array) -> Params:
    """All weights: ``embed``, ``positions``, ``blocks``, ``final_norm`` and maybe ``head``."""
    embed, positions, blocks, head = jax.random.split(key, 4)
    d_model, dtype = config.d_model, config.param_dtype
    params = {
        "embed": 0.02 * jax.random.normal(embed, (config.vocab, d_model), dtype),
        "positions": 0.02 * jax.random.normal(positions, (config.seq, d_model), dtype),
        "blocks": init_blocks(
            partial(init_block, config), blocks, layers=config.layers, scan=config.scan
        ),
        "final_norm": init_layer_norm(d_model, dtype),
    }
    if not config.tied:
        params["head"] = normal(head, (d_model, config.vocab), fan_in=d_model, dtype=dtype)
    return params


def init_block(config: GptConfig, key: jax.Array) -> Params:
    """Weights of one block: two norms, attention, feed-forward."""
    attention, ffn = jax.random.split(key)
    return {
        "attention_norm": init_layer_norm(config.d_model, config.param_dtype),
        "attention": _init_attention(config, attention),
        "ffn_norm": init_layer_norm(config.d_model, config.param_dtype),
        "ffn": _init_ffn(config, ffn),
    }


def _init_attention(config: GptConfig, key: jax.Array) -> Params:
    d_model, heads, head_dim = config.d_model, config.heads, config.head_dim
    draw = partial(normal, fan_in=d_model, dtype=config.param_dtype)
    q, k, v, out = jax.random.split(key, 4)
    if config.fused:
        return {
            "wqkv": draw(q, (d_model, heads, 3, head_dim)),
            "wo": draw(out, (heads, head_dim, d_model)),
            "bqkv": jnp.zeros((heads, 3, head_dim), config.param_dtype),
            "bo": jnp.zeros(d_model, config.param_dtype),
        }
    return {
        "wq": draw(q, (d_model, heads, head_dim)),
        "wk": draw(k, (d_model, heads, head_dim)),
        "wv": draw(v, (d_model, heads, head_dim)),
        "wo": draw(out, (heads, head_dim, d_model)),
        "bq": jnp.zeros((heads, head_dim), config.param_dtype),
        "bk": jnp.zeros((heads, head_dim), config.param_dtype),
        "bv": jnp.zeros((heads, head_dim), config.param_dtype),
        "bo": jnp.zeros(d_model, config.param_dtype),
    }


def _init_ffn(config: GptConfig, key: jax.Array) -> Params:
    up, down = jax.random.split(key)
    d_model, ffn, dtype = config.d_model, config.ffn, config.param_dtype
    return {
        "up": normal(up, (d_model, ffn), fan_in=d_model, dtype=dtype),
        "up_bias": jnp.zeros(ffn, dtype),
        "down": normal(down, (ffn, d_model), fan_in=ffn, dtype=dtype),
        "down_bias": jnp.zeros(d_model, dtype),
    }


def block(config: GptConfig, params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
    """``x`` [batch, seq, d_model] after attention and feed-forward, each added to its input."""
    params = cast(params, config.compute_dtype)
    first, second = (None, None) if key is None else jax.random.split(key)
    normed = operand(layer_norm(params["attention_norm"], x))
    attended = _attention(config, params["attention"], normed)
    x = x + dropout(attended, config.dropout, first)
    passed = _ffn(params["ffn"], operand(layer_norm(params["ffn_norm"], x)))
    return x + dropout(passed, config.dropout, second)


def _attention(config: GptConfig, params: Params, x: jax.Array) -> jax.Array:
    attend = jax.checkpoint(causal_attention) if config.remat_attention else causal_attention
    attended = attend(*_projected(params, x))
    return jnp.einsum("bshk,hkd->bsd", attended, params["wo"]) + params["bo"]


def _projected(params: Params, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    if "wqkv" in params:
        joint = jnp.einsum("bsd,dhnk->bshnk", x, params["wqkv"]) + params["bqkv"]
        return joint[:, :, :, 0], joint[:, :, :, 1], joint[:, :, :, 2]
    q = jnp.einsum("bsd,dhk->bshk", x, params["wq"]) + params["bq"]
    k = jnp.einsum("bsd,dhk->bshk", x, params["wk"]) + params["bk"]
    return q, k, jnp.einsum("bsd,dhk->bshk", x, params["wv"]) + params["bv"]


def _ffn(params: Params, x: jax.Array) -> jax.Array:
    hidden = jax.nn.gelu(jnp.einsum("bsd,df->bsf", x, params["up"]) + params["up_bias"])
    return jnp.einsum("bsf,fd->bsd", operand(hidden), params["down"]) + params["down_bias"]


def forward(
    config: GptConfig, params: Params, tokens: jax.Array, key: jax.Array | None = None
) -> jax.Array:
    """Logits [batch, seq, vocab] for ``tokens`` [batch, seq]."""
    x = jnp.take(params["embed"], tokens, axis=0) + params["positions"]
    embed_key, block_key = (None, None) if key is None else jax.random.split(key)
    x = dropout(x.astype(config.compute_dtype), config.dropout, embed_key)
    x = apply_blocks(
        partial(block, config),
        params["blocks"],
        x,
        scan=config.scan,
        remat=config.remat,
        lean=config.lean,
        key=block_key,
    )
    x = layer_norm(params["final_norm"], x)
    return token_logits(params, x)


def loss(config: GptConfig, params: Params, batch: Batch) -> jax.Array:
    """Mean next-token cross-entropy, a float32 scalar in nats."""
    key = jax.random.wrap_key_data(batch["key"]) if config.dropout else None
    return cross_entropy(forward(config, params, batch["tokens"], key), batch["targets"])


def case(config: GptConfig, train: TrainConfig) -> StepCase:
    """The training step of this model."""
    return step_case(
        name="gpt",
        init=partial(init, config),
        loss=partial(loss, config),
        batches=language_source(
            batch=config.batch,
            seq=config.seq,
            vocab=config.vocab,
            with_key=config.dropout > 0.0,
        ),
        train=train,
    )
