"""Llama: RMS norms, rotary positions, grouped-query attention, SwiGLU, no biases.

**Source**: Touvron et al. 2023, Llama 2, section 2; Grattafiori et al. 2024, The Llama 3 Herd of
Models, section 3.2. The feed-forward with a squared ReLU and no gate is that of Parmar et al. 2024,
Nemotron-4 15B, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp

from shardwright.models.attention import grouped_attention, init_grouped_attention
from shardwright.models.batches import language_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import (
    cast,
    cross_entropy,
    init_rms_norm,
    normal,
    operand,
    rms_norm,
    token_logits,
)
from shardwright.models.sizes import require_multiple
from shardwright.models.stack import apply_blocks, init_blocks
from shardwright.models.train import TrainConfig, step_case


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """Sizes and choices of a Llama.

    Attributes:
        head_dim: features of one head; heads * head_dim need not be d_model.
        tied: the output matrix is the embedding.
        scan: blocks run in one loop over stacked weights.
        remat: activations inside a block are computed again in the backward pass.
        remat_attention: attention scores alone are.
        lean: only what matrix products read and write is kept, and the rest computed again.
        fused: weights that multiply the same activations are one (queries, keys and values; gate
            and up), as Megatron keeps them.
        gated: SwiGLU; else a squared ReLU without a gate.
    """

    layers: int = 2
    d_model: int = 64
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 8
    ffn: int = 128
    vocab: int = 128
    seq: int = 16
    batch: int = 16
    rope_theta: float = 10_000.0
    tied: bool = False
    scan: bool = False
    remat: bool = False
    remat_attention: bool = False
    lean: bool = False
    fused: bool = False
    gated: bool = True
    param_dtype: str = "float32"
    compute_dtype: str = "float32"

    def __post_init__(self) -> None:
        """Refuse keys that no equal number of queries would share."""
        require_multiple(heads=self.heads, kv_heads=self.kv_heads)


def init(config: LlamaConfig, key: jax.Array) -> Params:
    """All weights: ``embed``, ``blocks``, ``final_norm`` and maybe ``head``."""
    embed, blocks, head = jax.random.split(key, 3)
    d_model, dtype = config.d_model, config.param_dtype
    params = {
        "embed": 0.02 * jax.random.normal(embed, (config.vocab, d_model), dtype),
        "blocks": init_blocks(
            partial(init_block, config), blocks, layers=config.layers, scan=config.scan
        ),
        "final_norm": init_rms_norm(d_model, dtype),
    }
    if not config.tied:
        params["head"] = normal(head, (d_model, config.vocab), fan_in=d_model, dtype=dtype)
    return params


def init_block(config: LlamaConfig, key: jax.Array) -> Params:
    """Weights of one block: two norms, attention, feed-forward."""
    attention, ffn = jax.random.split(key)
    return {
        "attention_norm": init_rms_norm(config.d_model, config.param_dtype),
        "attention": init_grouped_attention(
            attention,
            d_model=config.d_model,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            dtype=config.param_dtype,
            fused=config.fused,
        ),
        "ffn_norm": init_rms_norm(config.d_model, config.param_dtype),
        "ffn": _init_ffn(config, ffn),
    }


def _init_ffn(config: LlamaConfig, key: jax.Array) -> Params:
    gate, up, down = jax.random.split(key, 3)
    d_model, ffn = config.d_model, config.ffn
    draw = partial(normal, fan_in=d_model, dtype=config.param_dtype)
    params = {"down": normal(down, (ffn, d_model), fan_in=ffn, dtype=config.param_dtype)}
    if not config.gated:
        return params | {"up": draw(up, (d_model, ffn))}
    if config.fused:
        return params | {"gate_up": draw(up, (d_model, 2, ffn))}
    return params | {"gate": draw(gate, (d_model, ffn)), "up": draw(up, (d_model, ffn))}


def block(config: LlamaConfig, params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
    """``x`` [batch, seq, d_model] after attention and feed-forward, each added to its input."""
    del key
    params = cast(params, config.compute_dtype)
    normed = operand(rms_norm(params["attention_norm"], x))
    theta, remat = config.rope_theta, config.remat_attention
    x = x + grouped_attention(params["attention"], normed, theta=theta, remat=remat)
    hidden = _hidden(params["ffn"], operand(rms_norm(params["ffn_norm"], x)))
    return x + jnp.einsum("bsf,fd->bsd", operand(hidden), params["ffn"]["down"])


def _hidden(params: Params, x: jax.Array) -> jax.Array:
    """Hidden units of the feed-forward, [batch, seq, ffn]."""
    if "gate_up" in params:
        both = jnp.einsum("bsd,dnf->bsnf", x, params["gate_up"])
        return jax.nn.silu(both[:, :, 0]) * both[:, :, 1]
    up = jnp.einsum("bsd,df->bsf", x, params["up"])
    if "gate" not in params:
        return jnp.square(jax.nn.relu(up))
    return jax.nn.silu(jnp.einsum("bsd,df->bsf", x, params["gate"])) * up


def forward(config: LlamaConfig, params: Params, tokens: jax.Array) -> jax.Array:
    """Logits [batch, seq, vocab] for ``tokens`` [batch, seq]."""
    x = jnp.take(params["embed"], tokens, axis=0).astype(config.compute_dtype)
    run = partial(block, config)
    x = apply_blocks(
        run, params["blocks"], x, scan=config.scan, remat=config.remat, lean=config.lean
    )
    return token_logits(params, rms_norm(params["final_norm"], x))


def loss(config: LlamaConfig, params: Params, batch: Batch) -> jax.Array:
    """Mean next-token cross-entropy, a float32 scalar in nats."""
    return cross_entropy(forward(config, params, batch["tokens"]), batch["targets"])


def case(config: LlamaConfig, train: TrainConfig) -> StepCase:
    """The training step of this model."""
    return step_case(
        name="llama",
        init=partial(init, config),
        loss=partial(loss, config),
        batches=language_source(batch=config.batch, seq=config.seq, vocab=config.vocab),
        train=train,
    )
