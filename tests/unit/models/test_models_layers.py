"""Layers against independent ones: JAX's own, optax, flax, equinox."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from shardwright.models import gpt, llama, moe
from shardwright.models.attention import causal_attention, grouped_causal_attention, rotary
from shardwright.models.conv import apply_conv, init_conv, init_stats
from shardwright.models.gshard import route
from shardwright.models.layers import cross_entropy, dropout
from shardwright.models.lstm import cell
from shardwright.models.registry import build


def draw(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def assert_close(got: object, want: object) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("attend", "kv_heads"), [(causal_attention, 4), (grouped_causal_attention, 2)]
)
def test_attention_equals_jax(attend, kv_heads: int) -> None:
    q, k, v = draw(0, 2, 6, 4, 8), draw(1, 2, 6, kv_heads, 8), draw(2, 2, 6, kv_heads, 8)
    want = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="xla")
    assert_close(jax.jit(attend)(q, k, v), want)


def test_rotary_scores_depend_on_distance_alone() -> None:
    q = jnp.broadcast_to(draw(0, 8), (1, 6, 1, 8))
    k = jnp.broadcast_to(draw(1, 8), (1, 6, 1, 8))
    turn = jax.jit(partial(rotary, theta=100.0))
    scores = np.einsum("bqhk,bshk->qs", turn(q), turn(k))
    for distance in range(-5, 6):
        diagonal = np.diagonal(scores, distance)
        assert_close(diagonal, np.full_like(diagonal, diagonal[0]))
    assert not np.allclose(scores[0], scores[0, 0])


def test_cross_entropy_equals_optax() -> None:
    logits, targets = draw(0, 2, 3, 8), jnp.array([[0, 7, 3], [1, 1, 6]])
    want = optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()
    assert_close(cross_entropy(logits, targets), want)


def test_dropout_keeps_the_mean() -> None:
    out = np.asarray(dropout(jnp.ones((100, 100)), 0.25, jax.random.key(0)))
    assert set(np.unique(out)) == {np.float32(0.0), np.float32(1.0 / 0.75)}
    assert out.mean() == pytest.approx(1.0, abs=0.03)


def test_lstm_cell_equals_equinox() -> None:
    theirs = eqx.nn.LSTMCell(3, 5, key=jax.random.key(0))
    ours = {
        "wx": theirs.weight_ih.T.reshape(3, 4, 5),
        "wh": theirs.weight_hh.T.reshape(5, 4, 5),
        "bias": theirs.bias.reshape(4, 5),
    }
    x, hidden, memory = draw(0, 3), draw(1, 5), draw(2, 5)
    carry, out = cell(ours, (hidden[None], memory[None]), x[None])
    want_hidden, want_memory = theirs(x, (hidden, memory))
    assert_close(out[0], want_hidden)
    assert_close(carry[1][0], want_memory)


def test_conv_with_batch_norm_equals_flax() -> None:
    x = draw(0, 4, 6, 6, 3)
    params = init_conv(jax.random.key(0), size=3, inputs=3, outputs=5, dtype="float32")
    got, stats = apply_conv(params, init_stats(5), x, stride=2)
    conv = nn.Conv(5, (3, 3), (2, 2), use_bias=False).apply(
        {"params": {"kernel": params["kernel"]}}, x
    )
    norm = nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-5)
    variables = norm.init(jax.random.key(0), conv)
    want, updated = norm.apply(variables, conv, mutable=["batch_stats"])
    assert_close(got, want)
    assert_close(stats["mean"], updated["batch_stats"]["mean"])
    assert_close(stats["variance"], updated["batch_stats"]["var"])


@pytest.mark.slow
def test_both_dispatches_agree_when_no_token_is_dropped() -> None:
    sizes = {"layers": 1, "heads": 4, "kv_heads": 2, "seq": 8, "batch": 4, "balance_weight": 0.0}
    masks = moe.MoeConfig(dispatch="gshard", capacity_factor=4.0, **sizes)
    sort = moe.MoeConfig(dispatch="ragged", **sizes)
    params = jax.jit(partial(moe.init, masks))(jax.random.key(0))
    tokens = build("moe-gshard", seq=8, batch=4).make_batch(0)["tokens"]
    got, got_balance = jax.jit(partial(moe.forward, masks))(params, tokens)
    want, want_balance = jax.jit(partial(moe.forward, sort))(params, tokens)
    assert_close(got, want)
    assert got_balance > 0.0
    assert want_balance > 0.0


def test_a_full_expert_drops_its_last_tokens() -> None:
    gates = jnp.broadcast_to(jnp.array([0.7, 0.2, 0.1]), (1, 4, 3))
    combine, balance = route(gates, top_k=1, limit=2)
    assert_close(combine.sum(axis=-1)[0, :, 0], [1.0, 1.0, 0.0, 0.0])
    assert_close(combine.sum(axis=-1)[0, :, 1:], np.zeros((4, 2)))
    assert_close(combine[0, :2, 0], np.eye(2))
    assert_close(balance, 3 * 0.7)


def test_even_routing_has_balance_one() -> None:
    gates = jax.nn.one_hot(jnp.arange(6)[None] % 3, 3) * 0.97 + 0.01
    assert_close(route(gates, top_k=2, limit=6)[1], 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "config"), [(gpt, gpt.GptConfig(layers=1)), (llama, llama.LlamaConfig(layers=1))]
)
def test_no_position_sees_the_future(model, config) -> None:
    params = jax.jit(partial(model.init, config))(jax.random.key(0))
    forward = jax.jit(partial(model.forward, config))
    tokens = np.zeros((1, config.seq), np.int32)
    changed = tokens.copy()
    changed[0, 9] = 1
    before, after = np.asarray(forward(params, tokens)), np.asarray(forward(params, changed))
    np.testing.assert_array_equal(before[0, :9], after[0, :9])
    assert np.abs(before[0, 9:] - after[0, 9:]).max(axis=-1).min() > 0.0


@pytest.mark.slow
def test_scan_with_remat_equals_unrolled() -> None:
    metrics = []
    for loop in (False, True):
        case = build("gpt", dropout=0.1, seq=8, ffn=64, grad_norm=True, scan=loop, remat=loop)
        batch = case.make_batch(0)
        run = jax.jit(lambda key, case=case, batch=batch: case.step(case.init_state(key), batch)[1])
        metrics.append(run(jax.random.key(0)))
    assert_close(metrics[0]["loss"], metrics[1]["loss"])
    assert_close(metrics[0]["grad_norm"], metrics[1]["grad_norm"])
