"""Normalisation keeps every bit, inlines every call, and walks in step with the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardwright.capture import capture
from shardwright.capture.arguments import flatten_arguments
from shardwright.capture.normalise import normalise
from shardwright.capture.trace import trace_step
from shardwright.ir import Op, verify_graph
from shardwright.jax_bridge import ClosedJaxpr, Jaxpr, check_jaxpr, jaxpr_as_fun

TABLE = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
OFFSET = np.linspace(0, 1, 8, dtype=np.float32)

W = np.linspace(-0.5, 0.7, 64, dtype=np.float32).reshape(8, 8)
X = np.linspace(-1, 2, 32, dtype=np.float32).reshape(4, 8)


@jax.custom_vjp
def doubled_gradient(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


doubled_gradient.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (2 * g * jnp.cos(x),))


def calls(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """jit in jit, custom_jvp, custom_vjp, an unused result, an array closed over."""

    def loss(w: jax.Array) -> jax.Array:
        h = jax.nn.relu(x @ w) + jax.jit(lambda h: jnp.where(h > 0, h, 2.0) @ TABLE)(x)
        return jnp.sum(doubled_gradient(jax.nn.silu(h)) ** 2)

    value, grad = jax.value_and_grad(loss)(w)
    _ = jnp.sort(w, axis=0)
    return w - 0.1 * grad, value


def loops(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Scan over remat, while and cond, each with arrays closed over."""

    @jax.checkpoint
    def block(h: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.jit(lambda h: jnp.tanh(h @ w + OFFSET))(h), h.sum()

    def loss(w: jax.Array) -> jax.Array:
        h, sums = jax.lax.scan(block, x, jnp.stack([w, w @ TABLE, w.T]))
        return (h**2).mean() + sums.mean()

    def grows(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
        return (carry[0] < 3) & (carry[1].sum() < jnp.sum(TABLE) + 100)

    grad = jax.grad(loss)(w)
    _, grown = jax.lax.while_loop(grows, lambda c: (c[0] + 1, c[1] * 1.5 + OFFSET), (0, grad))
    branches = [lambda a: a + TABLE, lambda a: a * OFFSET, jax.nn.relu]
    return grad, grown, jax.lax.switch(jnp.argmax(x[0]) % 3, branches, grad)


def noise(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Dropout by typed keys, batch normalisation with running means."""

    def loss(w: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = x @ w
        mean = h.mean(0)
        h = (h - mean) * jax.lax.rsqrt(h.var(0) + 1e-5)
        keep = jax.random.bernoulli(jax.random.fold_in(jax.random.key(3), 7), 0.9, h.shape)
        return jnp.sum(jnp.where(keep, h / 0.9, 0.0) ** 3), mean

    grad, mean = jax.grad(loss, has_aux=True)(w)
    return w - grad, 0.9 * w[0] + 0.1 * mean


STEPS = (calls, loops, noise)
BODIED = {"scan", "while", "cond", "remat2"}


def _original(step: Callable[..., Any], *args: Any) -> ClosedJaxpr:
    return trace_step(step, flatten_arguments(step, args, {})).jaxpr


@pytest.mark.parametrize("step", STEPS)
def test_the_normal_form_computes_every_bit_alike(step: Callable[..., Any]) -> None:
    original = _original(step, W, X)
    expected = jax.jit(jaxpr_as_fun(original))(W, X)
    actual = jax.jit(jaxpr_as_fun(normalise(original)))(W, X)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("step", STEPS)
def test_no_call_and_no_inner_constant_is_left(step: Callable[..., Any]) -> None:
    closed = normalise(_original(step, W, X))
    check_jaxpr(closed.jaxpr)
    for jaxpr in _all_jaxprs(closed.jaxpr):
        kinds = {eqn.primitive.name for eqn in jaxpr.eqns}
        assert kinds.isdisjoint({"jit", "custom_jvp_call", "custom_vjp_call", "closed_call"})
        assert jaxpr is closed.jaxpr or not jaxpr.constvars


@pytest.mark.parametrize("step", STEPS)
def test_equations_and_operators_walk_in_step(step: Callable[..., Any]) -> None:
    captured = capture(step, W, X)
    verify_graph(captured.graph)
    shapes = [tensor.shape for tensor in captured.graph.tensors]

    def walk(jaxpr: Jaxpr, ops: Sequence[Op]) -> None:
        for eqn, op in zip(jaxpr.eqns, ops, strict=True):
            assert eqn.primitive.name == op.kind
            assert [v.aval.shape for v in eqn.invars] == [shapes[i] for i in op.operands]
            assert [v.aval.shape for v in eqn.outvars] == [shapes[i] for i in op.results]
            bodies = list(_bodies(eqn)) if op.kind in BODIED else []
            for body, region in zip(bodies, op.regions, strict=True):
                walk(body, region.ops)

    walk(captured.jaxpr.jaxpr, captured.graph.ops)


def test_dead_equations_go_and_unused_inputs_stay() -> None:
    def step(w: jax.Array, _unused: jax.Array) -> jax.Array:
        jnp.sort(w)
        return w * 2

    closed = normalise(_original(step, W, X))
    assert [eqn.primitive.name for eqn in closed.jaxpr.eqns] == ["mul"]
    assert len(closed.jaxpr.invars) == 2


def test_side_effects_stay() -> None:
    def step(w: jax.Array) -> jax.Array:
        jax.debug.print("sum {}", w.sum())
        return w * 2

    kinds = [eqn.primitive.name for eqn in normalise(_original(step, W)).jaxpr.eqns]
    assert kinds == ["reduce_sum", "debug_print", "mul"]


def test_an_array_closed_over_twice_becomes_one_constant() -> None:
    captured = capture(loops, W, X)
    constants = [captured.graph.tensor(row) for row in captured.graph.inputs[2:]]
    assert sorted((c.shape, c.role.value) for c in constants) == [
        ((8,), "constant"),
        ((8, 8), "constant"),
    ]
    for constant, value in zip(constants, captured.jaxpr.consts, strict=True):
        assert constant.shape == value.shape


def test_one_body_used_by_many_loops_is_normalised_once() -> None:
    block = jax.checkpoint(lambda h, w: jnp.tanh(h @ w))

    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        for _ in range(6):
            x = block(x, w)
        return x

    bodies = [eqn.params["jaxpr"] for eqn in normalise(_original(step, W, X)).jaxpr.eqns]
    assert len(bodies) == 6
    assert len({id(body) for body in bodies}) == 1


def _bodies(eqn: Any) -> Iterator[Jaxpr]:
    for name in ("jaxpr", "cond_jaxpr", "body_jaxpr", "branches"):
        value = eqn.params.get(name, ())
        for body in value if isinstance(value, tuple) else (value,):
            yield body.jaxpr if isinstance(body, ClosedJaxpr) else body


def _all_jaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    yield jaxpr
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in BODIED:
            for body in _bodies(eqn):
                yield from _all_jaxprs(body)
