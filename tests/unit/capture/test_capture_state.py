"""Which outputs replace which inputs, and what each input is for: a table of whole steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from shardwright.capture import Captured, capture
from shardwright.ir import verify_graph

F32 = jnp.float32
PARAMETER, OPTIMIZER, BATCH, INPUT = "parameter", "optimizer_state", "batch", "input"


def sds(*shape: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


W, B, X, Y = sds(8, 8), sds(8), sds(4, 8), sds(4, 8)
PARAMS = {"w": W, "b": B}
KEY = jax.eval_shape(lambda: jax.random.key(0))
COUNT, RATE = sds(dtype=jnp.int32), sds()


def predict(p: Any, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ p["w"] + p["b"])


def loss_of(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return ((predict(p, x) - y) ** 2).mean()


def sgd(p: Any, g: Any, rate: Any = 0.1) -> Any:
    return jax.tree.map(lambda p, g: p - rate * g, p, g)


def arrays(w: Any, b: Any, x: Any, y: Any) -> Any:
    loss, (dw, db) = jax.value_and_grad(lambda w, b: loss_of({"w": w, "b": b}, x, y), (0, 1))(w, b)
    return w - dw, b - db, loss


def loss_first(w: Any, b: Any, x: Any, y: Any) -> Any:
    w, b, loss = arrays(w, b, x, y)
    return loss, w, b


def plain(params: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    return sgd(params, grads), loss


def without_metrics(params: Any, x: Any, y: Any) -> Any:
    return plain(params, x, y)[0]


def metrics_first(state: Any, batch: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(state["params"], batch["x"], batch["y"])
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], grads)
    new = {
        "params": sgd(state["params"], momentum),
        "momentum": momentum,
        "count": state["count"] + 1,
    }
    return {"loss": loss, "update_norm": optax.tree.norm(momentum)}, new


def adam(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    updates, opt_state = optax.adam(1e-3).update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def average(params: Any, ema: Any, x: Any, y: Any) -> Any:
    params, loss = plain(params, x, y)
    return params, jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, ema, params), loss


def average_by_name(params: Any, ema: Any, x: Any, y: Any) -> Any:
    params, ema, loss = average(params, ema, x, y)
    return {"ema": ema, "loss": loss, "params": params}


def with_rate(params: Any, rate: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    return sgd(params, grads, rate), loss * rate


def with_counter(params: Any, count: Any, x: Any, y: Any) -> Any:
    params, loss = plain(params, x, y)
    return params, count + 1, jnp.sum(x > 0), loss


def with_key(params: Any, key: Any, x: Any, y: Any) -> Any:
    key, use = jax.random.split(key)
    return *plain(params, x * jax.random.bernoulli(use, 0.9, x.shape), y), key


def with_raw_key_state(params: Any, key: Any, x: Any, y: Any) -> Any:
    key, use = jax.random.split(key)
    return *plain(params, x * jax.random.bernoulli(use, 0.9, x.shape), y), key


def rate_in_metrics(params: Any, rate: Any, x: Any, y: Any) -> Any:
    return *plain(params, x, y), {"rate": rate}


def with_raw_key(params: Any, key: Any, x: Any, y: Any) -> Any:
    return plain(params, x * jax.random.bernoulli(jax.random.split(key)[0], 0.9, x.shape), y)


def norm(params: Any, mean: Any, x: Any, y: Any) -> Any:
    now = x.mean(0)
    params, loss = plain(params, x - now, y)
    return params, 0.9 * mean + 0.1 * now, loss


def batch_handed_back(params: Any, x: Any, y: Any) -> Any:
    return *plain(params, x, y), x


def entry_handed_back(params: Any, batch: Any) -> Any:
    params, loss = plain(params, batch["x"], batch["y"])
    return params, {"loss": loss, "x": batch["x"]}


def reconstruct(params: Any, x: Any) -> Any:
    recon = x + predict(params, x)
    return without_metrics(params, x, x), recon


def adapter(frozen_model: Any, params: Any, x: Any, y: Any) -> Any:
    params, loss = plain(params, predict(frozen_model, x), y)
    return params, loss


def frozen_handed_through(frozen: Any, params: Any, x: Any, y: Any) -> Any:
    return frozen, *plain(params, predict(frozen, x), y)


def forward(params: Any, x: Any) -> Any:
    return predict(params, x).sum()


def many_steps(params: Any, momentum: Any, xs: Any, ys: Any) -> Any:
    def one(carry: Any, batch: Any) -> Any:
        params, momentum = carry
        loss, grads = jax.value_and_grad(loss_of)(params, *batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return (sgd(params, momentum), momentum), loss

    return jax.lax.scan(one, (params, momentum), (xs, ys))


def scaled(params: Any, loss_scale: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(lambda p: loss_scale * loss_of(p, x, y))(params)
    good = jnp.isfinite(loss)
    return {
        "params": sgd(params, grads),
        "loss": loss,
        "loss_scale": jnp.where(good, loss_scale * 2, loss_scale / 2),
    }


@dataclass(frozen=True)
class Row:
    step: Callable[..., Any]
    args: tuple[Any, ...]
    pairs: dict[str, str]
    roles: dict[str, str]


def params_at(root: str, prefix: str = "params") -> dict[str, str]:
    return {f"{prefix}.b": f"{root}.b", f"{prefix}.w": f"{root}.w"}


TRAINED = {"params.b": PARAMETER, "params.w": PARAMETER}
DATA = {"x": BATCH, "y": BATCH}
XY = (X, Y)
STATE = {"params": PARAMS, "momentum": PARAMS, "count": COUNT}

ROWS = [
    Row(
        arrays,
        (W, B, *XY),
        {"w": "result.0", "b": "result.1"},
        {"w": PARAMETER, "b": PARAMETER} | DATA,
    ),
    Row(
        loss_first,
        (W, B, *XY),
        {"w": "result.1", "b": "result.2"},
        {"w": PARAMETER, "b": PARAMETER} | DATA,
    ),
    Row(plain, (PARAMS, *XY), params_at("result.0"), TRAINED | DATA),
    Row(without_metrics, (PARAMS, *XY), params_at("result"), TRAINED | DATA),
    Row(
        metrics_first,
        (STATE, {"x": X, "y": Y}),
        {
            "state.count": "result.1.count",
            **params_at("result.1.momentum", "state.momentum"),
            **params_at("result.1.params", "state.params"),
        },
        {
            "state.count": OPTIMIZER,
            "state.momentum.b": OPTIMIZER,
            "state.momentum.w": OPTIMIZER,
            "state.params.b": PARAMETER,
            "state.params.w": PARAMETER,
            "batch.x": BATCH,
            "batch.y": BATCH,
        },
    ),
    Row(
        adam,
        (PARAMS, jax.eval_shape(optax.adam(1e-3).init, PARAMS), *XY),
        {
            **params_at("result.0"),
            "opt_state.0.count": "result.1.0.count",
            **params_at("result.1.0.mu", "opt_state.0.mu"),
            **params_at("result.1.0.nu", "opt_state.0.nu"),
        },
        TRAINED
        | {"opt_state.0.count": OPTIMIZER}
        | {f"opt_state.0.{m}.{p}": OPTIMIZER for m in ("mu", "nu") for p in "bw"}
        | DATA,
    ),
    Row(
        average,
        (PARAMS, PARAMS, *XY),
        params_at("result.0") | params_at("result.1", "ema"),
        TRAINED | {"ema.b": OPTIMIZER, "ema.w": OPTIMIZER} | DATA,
    ),
    Row(
        average_by_name,
        (PARAMS, PARAMS, *XY),
        params_at("result.params") | params_at("result.ema", "ema"),
        TRAINED | {"ema.b": OPTIMIZER, "ema.w": OPTIMIZER} | DATA,
    ),
    Row(with_rate, (PARAMS, RATE, *XY), params_at("result.0"), TRAINED | {"rate": INPUT} | DATA),
    Row(
        with_counter,
        (PARAMS, COUNT, *XY),
        params_at("result.0") | {"count": "result.1"},
        TRAINED | {"count": OPTIMIZER} | DATA,
    ),
    Row(
        with_key,
        (PARAMS, KEY, *XY),
        params_at("result.0") | {"key": "result.2"},
        TRAINED | {"key": OPTIMIZER} | DATA,
    ),
    Row(
        with_raw_key,
        (PARAMS, sds(2, dtype=jnp.uint32), *XY),
        params_at("result.0"),
        TRAINED | {"key": INPUT} | DATA,
    ),
    Row(
        with_raw_key_state,
        (PARAMS, sds(2, dtype=jnp.uint32), *XY),
        params_at("result.0") | {"key": "result.2"},
        TRAINED | {"key": OPTIMIZER} | DATA,
    ),
    Row(
        rate_in_metrics,
        (PARAMS, RATE, *XY),
        params_at("result.0"),
        TRAINED | {"rate": INPUT} | DATA,
    ),
    Row(
        norm,
        (PARAMS, B, *XY),
        params_at("result.0") | {"mean": "result.1"},
        TRAINED | {"mean": OPTIMIZER} | DATA,
    ),
    Row(batch_handed_back, (PARAMS, *XY), params_at("result.0"), TRAINED | DATA),
    Row(
        entry_handed_back,
        (PARAMS, {"x": XY[0], "y": XY[1]}),
        params_at("result.0"),
        TRAINED | {"batch.x": BATCH, "batch.y": BATCH},
    ),
    Row(reconstruct, (PARAMS, X), params_at("result.0"), TRAINED | {"x": BATCH}),
    Row(
        adapter,
        (PARAMS, PARAMS, *XY),
        params_at("result.0", "frozen_model"),
        {"frozen_model.b": PARAMETER, "frozen_model.w": PARAMETER} | TRAINED | DATA,
    ),
    Row(
        frozen_handed_through,
        (PARAMS, PARAMS, *XY),
        params_at("result.0", "frozen") | params_at("result.1"),
        {"frozen.b": PARAMETER, "frozen.w": PARAMETER} | TRAINED | DATA,
    ),
    Row(forward, (PARAMS, X), {}, TRAINED | {"x": BATCH}),
    Row(
        many_steps,
        (PARAMS, PARAMS, sds(3, 4, 8), sds(3, 4, 8)),
        params_at("result.0.0") | params_at("result.0.1", "momentum"),
        TRAINED | {"momentum.b": OPTIMIZER, "momentum.w": OPTIMIZER} | {"xs": BATCH, "ys": BATCH},
    ),
    Row(
        scaled,
        (PARAMS, RATE, *XY),
        params_at("result.params") | {"loss_scale": "result.loss_scale"},
        TRAINED | {"loss_scale": PARAMETER} | DATA,
    ),
]


def pairs_by_name(captured: Captured) -> dict[str, str]:
    graph = captured.graph
    inputs = dict(zip(graph.inputs, captured.in_names, strict=False))
    outputs = dict(zip(graph.outputs, captured.out_names, strict=True))
    return {inputs[a]: outputs[b] for a, b in graph.state_pairs}


def roles_by_name(captured: Captured) -> dict[str, str]:
    graph = captured.graph
    rows = zip(captured.in_names, graph.inputs, strict=False)
    return {name: graph.tensor(row).role.value for name, row in rows}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.step.__name__)
def test_state_is_found_and_roles_are_given(row: Row) -> None:
    captured = capture(row.step, *row.args)
    verify_graph(captured.graph)
    assert pairs_by_name(captured) == row.pairs
    assert roles_by_name(captured) == row.roles
