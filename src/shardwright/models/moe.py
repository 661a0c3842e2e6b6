"""A Llama whose feed-forward is a mixture of experts.

**Source**: Jiang et al. 2024, Mixtral of Experts, section 2; load balance of Fedus et al. 2021,
Switch Transformers, section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp

from shardwright.errors import UsageError, did_you_mean
from shardwright.models.attention import grouped_attention, init_grouped_attention
from shardwright.models.batches import language_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.gshard import gshard_ffn
from shardwright.models.layers import (
    cast,
    cross_entropy,
    init_rms_norm,
    normal,
    operand,
    rms_norm,
    token_logits,
)
from shardwright.models.ragged import ragged_ffn
from shardwright.models.sizes import require_at_most, require_multiple
from shardwright.models.stack import apply_blocks, init_blocks
from shardwright.models.train import TrainConfig, step_case

_DISPATCHES = ("gshard", "ragged")

Flow = tuple[jax.Array, jax.Array]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MoeConfig:
    """Sizes and choices of a mixture of experts.

    Attributes:
        ffn: hidden units of one expert.
        top_k: experts of one token.
        dispatch: ``gshard`` (masks, fixed capacity) or ``ragged`` (sort, no token dropped).
        capacity_factor: of ``gshard``: room of an expert over its even share.
        balance_weight: of the load-balance loss.
        scan: blocks run in one loop over stacked weights.
        remat: activations inside a block are computed again in the backward pass.
        remat_attention: attention scores alone are.
        lean: only what matrix products read and write is kept, and the rest computed again.
        fused: the projections of queries, keys and values are one weight, as Megatron keeps them.
    """

    layers: int = 1
    d_model: int = 64
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 8
    experts: int = 8
    top_k: int = 2
    ffn: int = 64
    vocab: int = 128
    seq: int = 16
    batch: int = 16
    rope_theta: float = 10_000.0
    dispatch: str = "gshard"
    capacity_factor: float = 2.0
    balance_weight: float = 0.01
    scan: bool = False
    remat: bool = False
    remat_attention: bool = False
    lean: bool = False
    fused: bool = False
    param_dtype: str = "float32"
    compute_dtype: str = "float32"

    def __post_init__(self) -> None:
        """Refuse a dispatch that does not exist, and sizes that do not fit each other."""
        require_multiple(heads=self.heads, kv_heads=self.kv_heads)
        require_at_most(top_k=self.top_k, experts=self.experts)
        if self.dispatch not in _DISPATCHES:
            raise UsageError(
                f'no expert dispatch is named "{self.dispatch}"',
                hint=did_you_mean(self.dispatch, _DISPATCHES),
            )


def init(config: MoeConfig, key: jax.Array) -> Params:
    """All weights: ``embed``, ``blocks``, ``final_norm`` and ``head``."""
    embed, blocks, head = jax.random.split(key, 3)
    d_model, dtype = config.d_model, config.param_dtype
    return {
        "embed": 0.02 * jax.random.normal(embed, (config.vocab, d_model), dtype),
        "blocks": init_blocks(
            partial(init_block, config), blocks, layers=config.layers, scan=config.scan
        ),
        "final_norm": init_rms_norm(d_model, dtype),
        "head": normal(head, (d_model, config.vocab), fan_in=d_model, dtype=dtype),
    }


def init_block(config: MoeConfig, key: jax.Array) -> Params:
    """Weights of one block: two norms, attention, router and experts."""
    attention, experts = jax.random.split(key)
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
        "ffn": _init_experts(config, experts),
    }


def _init_experts(config: MoeConfig, key: jax.Array) -> Params:
    router, gate, up, down = jax.random.split(key, 4)
    d_model, ffn, experts = config.d_model, config.ffn, config.experts
    draw = partial(normal, dtype=config.param_dtype)
    return {
        "router": draw(router, (d_model, experts), fan_in=d_model),
        "gate": draw(gate, (experts, d_model, ffn), fan_in=d_model),
        "up": draw(up, (experts, d_model, ffn), fan_in=d_model),
        "down": draw(down, (experts, ffn, d_model), fan_in=ffn),
    }


def block(config: MoeConfig, params: Params, flow: Flow, key: jax.Array | None) -> Flow:
    """Activations [batch, seq, d_model] after one block, and the balance loss summed so far."""
    del key
    x, balance = flow
    params = cast(params, config.compute_dtype)
    normed = operand(rms_norm(params["attention_norm"], x))
    theta, remat = config.rope_theta, config.remat_attention
    x = x + grouped_attention(params["attention"], normed, theta=theta, remat=remat)
    answer, added = _ffn(config, params["ffn"], operand(rms_norm(params["ffn_norm"], x)))
    return x + answer, balance + added


def _ffn(config: MoeConfig, params: Params, x: jax.Array) -> Flow:
    if config.dispatch == "ragged":
        return ragged_ffn(params, x, top_k=config.top_k)
    return gshard_ffn(params, x, top_k=config.top_k, factor=config.capacity_factor)


def forward(config: MoeConfig, params: Params, tokens: jax.Array) -> Flow:
    """Logits [batch, seq, vocab] for ``tokens`` [batch, seq], and the balance loss."""
    x = jnp.take(params["embed"], tokens, axis=0).astype(config.compute_dtype)
    run = partial(block, config)
    flow = (x, jnp.zeros((), jnp.float32))
    x, balance = apply_blocks(
        run, params["blocks"], flow, scan=config.scan, remat=config.remat, lean=config.lean
    )
    return token_logits(params, rms_norm(params["final_norm"], x)), balance


def loss(config: MoeConfig, params: Params, batch: Batch) -> jax.Array:
    """Next-token cross-entropy plus the weighted balance loss, a float32 scalar."""
    logits, balance = forward(config, params, batch["tokens"])
    return cross_entropy(logits, batch["targets"]) + config.balance_weight * balance


def case(config: MoeConfig, train: TrainConfig) -> StepCase:
    """The training step of this model."""
    return step_case(
        name=f"moe-{config.dispatch}",
        init=partial(init, config),
        loss=partial(loss, config),
        batches=language_source(batch=config.batch, seq=config.seq, vocab=config.vocab),
        train=train,
    )
