"""Small steps, and plans for them written by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardwright.capture import Captured, capture
from shardwright.cluster import Mesh
from shardwright.execute import Program, program
from shardwright.ir import Graph, Op, Tensor
from shardwright.plan import OpDecision, Plan, PlannedCollective, Provenance, Stage, TensorDecision
from shardwright.sharding import Sharding

BATCH, WIDTH, HIDDEN, LAYERS = 24, 16, 64, 3
"""All different, so that a hand-written plan can go by shapes."""

Choose = Callable[[Op, int, Tensor], Sharding | None]
S = Sharding.of


def flat_step(params: Any, x: jax.Array, y: jax.Array) -> Any:
    """Gradient descent on two layers in a row, (state, loss)."""

    def loss(params: Any) -> jax.Array:
        h = x
        for up, down in params:
            h = h + jnp.tanh(h @ up) @ down
        return jnp.mean((h - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def scan_step(params: Any, x: jax.Array, y: jax.Array, *, remat: bool = False) -> Any:
    """The same under scan, weights stacked [layers, ...]."""

    def loss(params: Any) -> jax.Array:
        def body(h: jax.Array, layer: Any) -> tuple[jax.Array, None]:
            return h + jnp.tanh(h @ layer[0]) @ layer[1], None

        h, _ = jax.lax.scan(jax.checkpoint(body) if remat else body, x, params)
        return jnp.mean((h - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def draw(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return (0.2 * np.random.default_rng([seed, *shape]).normal(size=shape)).astype(np.float32)


def flat_args() -> tuple[Any, ...]:
    layers = [(draw(WIDTH, HIDDEN, seed=i), draw(HIDDEN, WIDTH, seed=i)) for i in range(LAYERS - 1)]
    return layers, draw(BATCH, WIDTH), draw(BATCH, WIDTH, seed=1)


def scan_args() -> tuple[Any, ...]:
    stacks = (draw(LAYERS, WIDTH, HIDDEN), draw(LAYERS, HIDDEN, WIDTH))
    return stacks, draw(BATCH, WIDTH), draw(BATCH, WIDTH, seed=1)


@functools.cache
def captured_flat() -> Captured:
    return capture(flat_step, *flat_args())


@functools.cache
def captured_scan(*, remat: bool) -> Captured:
    return capture(functools.partial(scan_step, remat=remat), *scan_args())


def hand_plan(
    graph: Graph,
    mesh: Mesh,
    *,
    operand: Choose | None = None,
    result: Choose | None = None,
    resting: Mapping[tuple[int, ...], Sharding] | None = None,
    collectives: tuple[PlannedCollective, ...] = (),
) -> Plan:
    """A plan that decides operators by functions and resting tensors by shape."""
    decided = resting or {}
    ids = dict.fromkeys((*graph.inputs, *graph.outputs, *_region_tensors(graph)))
    stage = Stage(
        device_ids=tuple(range(mesh.num_devices)),
        mesh=mesh,
        ops=tuple(_decision(graph, op, operand, result) for op in graph.walk()),
        tensors=tuple(
            TensorDecision(tensor_id=i, sharding=decided[graph.tensor(i).shape])
            for i in ids
            if graph.tensor(i).shape in decided
        ),
        collectives=collectives,
    )
    return Plan(
        graph_fingerprint=graph.fingerprint,
        cluster_fingerprint="any",
        cluster_name="by hand",
        stages=(stage,),
        provenance=Provenance(method="hand"),
    )


def build(captured: Captured, plan: Plan, **options: Any) -> Program:
    return program(
        graph=captured.graph,
        jaxpr=captured.jaxpr,
        in_tree=captured.in_tree,
        out_tree=captured.out_tree,
        plan=plan,
        **options,
    )


def megatron(graph: Graph, mesh: Mesh, **options: Any) -> Plan:
    """Column then row, batch over dp; the axes are dp and tp."""
    shapes = {
        (WIDTH, HIDDEN): S(None, "tp"),
        (HIDDEN, WIDTH): S("tp", None),
        (BATCH, WIDTH): S("dp", None),
        (BATCH, HIDDEN): S("dp", "tp"),
        (LAYERS, WIDTH, HIDDEN): S(None, None, "tp"),
        (LAYERS, HIDDEN, WIDTH): S(None, "tp", None),
        (LAYERS, BATCH, WIDTH): S(None, "dp", None),
        (LAYERS, BATCH, HIDDEN): S(None, "dp", "tp"),
    }
    return _by_shape(graph, mesh, shapes, {}, options)


def data_parallel(graph: Graph, mesh: Mesh, **options: Any) -> Plan:
    """Weights whole, batch over dp."""
    return _by_shape(graph, mesh, _BATCH_CUT, {}, options)


def fully_sharded(graph: Graph, mesh: Mesh, **options: Any) -> Plan:
    """Weights and gradients rest cut over dp; an operator takes its weight whole."""
    # Both weights are cut in the dim that keeps its place when a gradient is transposed.
    weights = {
        (WIDTH, HIDDEN): S(None, "dp"),
        (HIDDEN, WIDTH): S("dp", None),
        (LAYERS, WIDTH, HIDDEN): S(None, None, "dp"),
        (LAYERS, HIDDEN, WIDTH): S(None, "dp", None),
    }
    whole = {(WIDTH, HIDDEN): S(None, None), (HIDDEN, WIDTH): S(None, None)}
    return _by_shape(graph, mesh, weights | _BATCH_CUT, whole, options)


_BATCH_CUT = {
    (BATCH, WIDTH): S("dp", None),
    (BATCH, HIDDEN): S("dp", None),
    (LAYERS, BATCH, WIDTH): S(None, "dp", None),
    (LAYERS, BATCH, HIDDEN): S(None, "dp", None),
}


def _by_shape(
    graph: Graph,
    mesh: Mesh,
    shapes: Mapping[tuple[int, ...], Sharding],
    at_products: Mapping[tuple[int, ...], Sharding],
    options: Mapping[str, Any],
) -> Plan:
    def operand(op: Op, position: int, tensor: Tensor) -> Sharding | None:
        del position
        if op.kind == "dot_general" and tensor.shape in at_products:
            return at_products[tensor.shape]
        return shapes.get(tensor.shape)

    def result(op: Op, position: int, tensor: Tensor) -> Sharding | None:
        del op, position
        return shapes.get(tensor.shape)

    return hand_plan(graph, mesh, operand=operand, result=result, resting=shapes, **options)


def _decision(graph: Graph, op: Op, operand: Choose | None, result: Choose | None) -> OpDecision:
    def choose(function: Choose | None, ids: tuple[int, ...]) -> tuple[Sharding | None, ...]:
        if function is None:
            return (None,) * len(ids)
        return tuple(function(op, i, graph.tensor(tensor)) for i, tensor in enumerate(ids))

    return OpDecision(
        op_id=op.id, operands=choose(operand, op.operands), results=choose(result, op.results)
    )


def _region_tensors(graph: Graph) -> Iterator[int]:
    for op in graph.walk():
        for region in op.regions:
            yield from region.inputs
            yield from region.outputs
