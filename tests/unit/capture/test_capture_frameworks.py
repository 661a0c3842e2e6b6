"""Steps written with flax.linen, flax.nnx and equinox: names, state and roles come out right."""

from __future__ import annotations

from collections import Counter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx

from shardwright.capture import Captured, capture
from shardwright.ir import parse_graph, print_graph, verify_graph

X, Y = np.ones((4, 8), np.float32), np.ones((4, 2), np.float32)
ADAM = optax.adam(1e-3)


def _roles(captured: Captured) -> dict[str, str]:
    graph = captured.graph
    verify_graph(graph)
    assert parse_graph(print_graph(graph)) == graph
    return {graph.tensor(row).name: graph.tensor(row).role.value for row in graph.inputs}


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = linen.BatchNorm(use_running_average=False)(linen.Dense(8)(x))
        x = linen.Dropout(0.1, deterministic=False)(linen.relu(x))
        return linen.Dense(2)(x)


def test_linen_with_batch_norm_and_dropout() -> None:
    model = Linen()

    def loss(params: Any, stats: Any, key: Any, batch: Any) -> Any:
        variables = {"params": params, "batch_stats": stats}
        out, new = model.apply(
            variables, batch["x"], rngs={"dropout": key}, mutable=["batch_stats"]
        )
        return ((out - batch["y"]) ** 2).mean(), new["batch_stats"]

    @jax.jit
    def step(state: Any, batch: Any, key: Any) -> Any:
        (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(
            state["params"], state["stats"], key, batch
        )
        updates, opt = ADAM.update(grads, state["opt"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "stats": stats, "opt": opt}, {"loss": value}

    def init(key: Any) -> Any:
        variables = model.init({"params": key, "dropout": key}, X)
        params = variables["params"]
        return {"params": params, "stats": variables["batch_stats"], "opt": ADAM.init(params)}

    key = jax.random.key(0)
    captured = capture(step, jax.eval_shape(init, key), {"x": X, "y": Y}, key)
    roles = _roles(captured)
    assert roles["state.params.Dense_0.kernel"] == "parameter"
    assert roles["state.stats.BatchNorm_0.mean"] == "optimizer_state"
    assert roles["state.opt.0.mu.Dense_1.bias"] == "optimizer_state"
    assert roles["key"] == "input"
    assert Counter(roles.values()) == {
        "parameter": 6,
        "optimizer_state": 2 + 6 + 6 + 1,
        "batch": 2,
        "input": 1,
    }
    assert len(captured.graph.state_pairs) == 6 + 2 + 13
    scopes = {op.scope for op in captured.graph.ops}
    assert "jvp(Linen)/BatchNorm_0" in scopes
    sources = {op.source.split(":")[0] for op in captured.graph.ops}
    assert sources == {"test_capture_frameworks.py"}


class Nnx(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(8, 2, rngs=rngs)])

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.layers[0](self.norm(x))


def test_nnx_taken_apart_and_put_together() -> None:
    model = Nnx(nnx.Rngs(0))
    definition, state = nnx.split((model, nnx.Optimizer(model, ADAM, wrt=nnx.Param)))

    @nnx.jit
    def step(state: Any, batch: Any) -> Any:
        model, optimizer = nnx.merge(definition, state)

        def loss(model: Any) -> Any:
            return ((model(batch["x"]) - batch["y"]) ** 2).mean()

        value, grads = nnx.value_and_grad(loss)(model)
        optimizer.update(model, grads)
        return nnx.split((model, optimizer))[1], value

    roles = _roles(capture(step, state, {"x": X, "y": Y}))
    assert roles["state.0.layers.0.kernel"] == "parameter"
    assert roles["state.0.norm.mean"] == "optimizer_state"
    assert roles["state.1.opt_state.0.mu.norm.scale"] == "optimizer_state"
    assert Counter(roles.values()) == {"parameter": 4, "optimizer_state": 2 + 8 + 2, "batch": 2}


class Equinox(eqx.Module):
    inner: eqx.nn.Linear
    bias: jax.Array | None
    width: int = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.inner(x) / self.width


def test_equinox_with_none_and_static_fields() -> None:
    model = Equinox(inner=eqx.nn.Linear(8, 2, key=jax.random.key(0)), bias=None, width=8)
    params, static = eqx.partition(model, eqx.is_array)

    def step(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return ((jax.vmap(eqx.combine(params, static))(x) - y) ** 2).mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, opt_state = ADAM.update(grads, opt_state, params)
        return eqx.apply_updates(params, updates), opt_state, jnp.sqrt(value)

    roles = _roles(capture(step, params, ADAM.init(params), X, Y))
    assert roles == {
        "params.inner.weight": "parameter",
        "params.inner.bias": "parameter",
        "opt_state.0.count": "optimizer_state",
        "opt_state.0.mu.inner.weight": "optimizer_state",
        "opt_state.0.mu.inner.bias": "optimizer_state",
        "opt_state.0.nu.inner.weight": "optimizer_state",
        "opt_state.0.nu.inner.bias": "optimizer_state",
        "x": "batch",
        "y": "batch",
    }


def test_equinox_filter_jit_is_a_step_like_any_other() -> None:
    linear = eqx.nn.Linear(8, 2, key=jax.random.key(0))

    @eqx.filter_jit
    def step(model: Any, x: Any, y: Any) -> Any:
        def loss(model: Any) -> Any:
            return ((jax.vmap(model)(x) - y) ** 2).mean()

        value, grads = eqx.filter_value_and_grad(loss)(model)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), value

    captured = capture(step, linear, X, Y)
    assert _roles(captured) == {
        "model.weight": "parameter",
        "model.bias": "parameter",
        "x": "batch",
        "y": "batch",
    }
    assert captured.graph.name == "step"
