"""Steps of odd shapes, and one way to plan, run and compare any step on eight devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.extend.core import Primitive
from jax.interpreters import mlir

from shardwright.capture.from_jax import capture
from shardwright.capture.record import Captured
from shardwright.cluster import Device, LinkLevel, Mesh, Topology
from shardwright.cluster.parse import topology as parse_topology
from shardwright.execute.check import CheckResult, check
from shardwright.execute.compare import Comparison, compare
from shardwright.execute.hlo import parse_module
from shardwright.execute.on_jax import Program, program
from shardwright.plan import Plan
from shardwright.search.find import Planner, Question
from shardwright.search.intra import Effort
from shardwright.search.result import SearchResult

Step = tuple[Callable[..., Any], tuple[Any, ...]]
"""A step and the arguments of its first call."""

FAST_LINKS = Topology(
    name="slow devices behind fast links",
    device=Device(
        name="slow",
        peak_flops_per_s=(("float32", 1e7), ("bfloat16", 2e7)),
        memory_bytes=2**34,
        memory_bandwidth_bytes_per_s=1e7,
    ),
    levels=(LinkLevel(name="link", num_units=8, bandwidth_bytes_per_s=1e8, latency_s=0.0),),
)
"""Machines on which even the smallest step is worth cutting."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A step that was planned, run beside one device, and read back.

    Attributes:
        captured: the step.
        plan: how it was cut.
        program: what ran.
        checked: its numbers beside one device's.
        comparison: its collectives beside the plan's.
    """

    captured: Captured
    plan: Plan
    program: Program
    checked: CheckResult
    comparison: Comparison

    @property
    def cut_inputs(self) -> int:
        """How many inputs do not rest whole."""
        resting = self.plan.stages[0].sharding_of
        return sum(not resting[i].is_replicated for i in self.captured.graph.inputs)


def mesh_of(text: str) -> Mesh:
    return Mesh.of(**{k: int(v) for k, v in (part.split("=") for part in text.split(","))})


def machines(text: str) -> Topology:
    return FAST_LINKS if text == "fast" else parse_topology(text)


@cache
def planner(build: Callable[[], Step]) -> tuple[Captured, Planner, tuple[Any, ...]]:
    step, args = build()
    captured = capture(step, *args)
    return captured, Planner.of(captured.graph), args


@cache
def search(build: Callable[[], Step], method: str, mesh: str, cluster: str) -> SearchResult:
    _, found, _ = planner(build)
    meshes = (mesh_of(mesh),) if mesh else ()
    question = Question(method=method, meshes=meshes, effort=Effort(gap=1e-2))
    return found.find(machines(cluster), question)


def compiled(captured: Captured, plan: Plan) -> Program:
    return program(
        graph=captured.graph,
        jaxpr=captured.jaxpr,
        in_tree=captured.in_tree,
        out_tree=captured.out_tree,
        plan=plan,
    )


@cache
def run(
    build: Callable[[], Step], method: str, mesh: str, cluster: str = "fast", steps: int = 2
) -> Ran:
    captured, _, args = planner(build)
    plan = search(build, method, mesh, cluster).plan
    assert plan is not None
    ready = compiled(captured, plan)
    return Ran(
        captured=captured,
        plan=plan,
        program=ready,
        checked=check(ready, *args, steps=steps),
        comparison=compare(plan.stages[0], ready.read_back(), captured.graph),
    )


def unplanned_moves(comparison: Comparison) -> list[str]:
    """Where the program moves more data around than was planned, sums of partial results aside."""
    lines = []
    for kind in ("all-gather", "all-to-all", "permute", "broadcast"):
        rows = [row for row in comparison.rows if row.kind == kind]
        planned = sum(row.planned_bytes for row in rows)
        measured = sum(row.measured_bytes for row in rows)
        if measured > 1.01 * planned + 128:
            lines += [f"{row} {row.causes}" for row in rows]
    return lines


_SHAPE = re.compile(r"[a-z]\w*\[([0-9,]*)\]")
_MOVES = ("all-gather", "all-to-all", "collective-permute", "collective-broadcast")


def shapes_of(text: str) -> list[tuple[int, ...]]:
    """The shapes in an instruction's type, such as ``(f32[2,8]{1,0}, s32[])``."""
    return [tuple(int(n) for n in dims.split(",") if n) for dims in _SHAPE.findall(text)]


def moved_shapes(ready: Program) -> set[tuple[int, ...]]:
    """Shapes of what the compiled program gathers or exchanges, dims of size 1 left out."""
    module = parse_module(ready.compiled.as_text() or "")
    return {
        tuple(size for size in shape if size != 1)
        for computation in module.computations
        for item in computation.instructions
        if item.opcode.removesuffix("-start") in _MOVES
        for shape in shapes_of(item.shape)
    }


def draw(*shape: int, seed: int = 0, scale: float = 0.2) -> np.ndarray:
    return (scale * np.random.default_rng([seed, *shape]).normal(size=shape)).astype(np.float32)


def whole_numbers(*shape: int, below: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(0, below, shape).astype(np.int32)


def descend(params: Any, gradients: Any) -> Any:
    return jax.tree.map(lambda p, g: p - jnp.asarray(0.1, p.dtype) * g, params, gradients)


def mlp_params(features: int = 16, hidden: int = 32) -> dict[str, np.ndarray]:
    return {"up": draw(features, hidden), "down": draw(hidden, features, seed=1)}


def predict(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["up"]) @ params["down"]


def mlp_loss(params: Any, x: Any, y: Any) -> Any:
    return jnp.mean((predict(params, x) - y) ** 2)


def trained(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step of plain gradient descent on a loss of (params, *data)."""

    def step(params: Any, *data: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, *data)
        return descend(params, gradients), value

    return step


XY = (draw(8, 16), draw(8, 16, seed=4))
BATCH = {"x": XY[0], "y": XY[1]}


def attention(heads: int, kv_heads: int, head_dim: int = 2, features: int = 16) -> Step:
    params = {
        "q": draw(features, heads, head_dim),
        "k": draw(features, kv_heads, head_dim, seed=1),
        "v": draw(features, kv_heads, head_dim, seed=2),
        "out": draw(heads, head_dim, features, seed=3),
    }

    def loss(params: Any, x: Any, y: Any) -> Any:
        q, k, v = (jnp.einsum("bsd,dhk->bshk", x, params[name]) for name in "qkv")
        q = q.reshape(*q.shape[:2], kv_heads, heads // kv_heads, head_dim)
        weights = jax.nn.softmax(jnp.einsum("bqgrk,bsgk->bgrqs", q, k))
        mixed = jnp.einsum("bgrqs,bsgk->bqgrk", weights, v)
        mixed = mixed.reshape(*mixed.shape[:2], heads, head_dim)
        return jnp.mean((jnp.einsum("bshk,hkd->bsd", mixed, params["out"]) - y) ** 2)

    return trained(loss), (params, draw(8, 4, features), draw(8, 4, features, seed=9))


def heads_71() -> Step:
    return attention(71, 71)


def heads_71_in_one_dim() -> Step:
    """As models write it that keep heads and features in one dim of the weight."""
    params = {name: draw(16, 142, seed=i) for i, name in enumerate("qkv")}
    params["out"] = draw(142, 16, seed=3)

    def loss(params: Any, x: Any, y: Any) -> Any:
        q, k, v = ((x @ params[name]).reshape(*x.shape[:2], 71, 2) for name in "qkv")
        weights = jax.nn.softmax(jnp.einsum("bqhk,bshk->bhqs", q, k))
        mixed = jnp.einsum("bhqs,bshk->bqhk", weights, v).reshape(*x.shape[:2], 142)
        return jnp.mean((mixed @ params["out"] - y) ** 2)

    return trained(loss), (params, draw(8, 4, 16), draw(8, 4, 16, seed=9))


def kv_heads_2() -> Step:
    return attention(8, 2, head_dim=4)


def language(vocab: int, *, batch: int = 8, seq: int = 4, features: int = 8) -> Step:
    """Embedding and output matrix are one parameter."""
    params = {"embed": draw(vocab, features), **mlp_params(features, 16)}

    def loss(params: Any, tokens: Any, targets: Any) -> Any:
        h = predict(params, params["embed"][tokens])
        log_probs = jax.nn.log_softmax(h @ params["embed"].T)
        return -jnp.mean(jnp.take_along_axis(log_probs, targets[..., None], axis=-1))

    tokens, targets = (whole_numbers(batch, seq, below=vocab, seed=seed) for seed in (0, 1))
    return trained(loss), (params, tokens, targets)


def vocab_50257() -> Step:
    return language(50257)


def tied_embeddings() -> Step:
    return language(64)


def batch_of_1() -> Step:
    return trained(mlp_loss), (mlp_params(), draw(1, 16), draw(1, 16, seed=2))


def dims_below_the_axis() -> Step:
    params = {"up": draw(3, 5), "down": draw(5, 2, seed=1), "bias": draw(2, seed=3)}

    def loss(params: Any, x: Any, y: Any) -> Any:
        return mlp_loss(params, x, y - params["bias"])

    return trained(loss), (params, draw(6, 3), draw(6, 2))


def scalars_and_empties() -> Step:
    params = {
        **mlp_params(),
        "gain": np.float32(1.5),
        "none": np.zeros((0,), np.float32),
        "no_rows": np.zeros((0, 16), np.float32),
    }
    batch = {**BATCH, "extra": np.zeros((0, 16), np.float32)}

    def step(state: Any, batch: Any) -> Any:
        def loss(params: Any) -> Any:
            x = jnp.concatenate([batch["x"], batch["extra"]])
            value = params["gain"] * mlp_loss(params, x, batch["y"])
            return value + params["none"].sum() + params["no_rows"].sum()

        value, gradients = jax.value_and_grad(loss)(state["params"])
        new_state = {"params": descend(state["params"], gradients), "count": state["count"] + 1}
        return new_state, {"loss": value, "extra": batch["extra"] * 2, "rate": 0.1}

    return step, ({"params": params, "count": np.int32(3)}, batch)


def used_twice() -> Step:
    def loss(params: Any, x: Any, y: Any) -> Any:
        h = jnp.tanh(x @ params["w"]) @ params["w"].T
        return jnp.mean((h @ (params["w"] @ params["w"]) - y) ** 2)

    return trained(loss), ({"w": draw(16, 16)}, *XY)


def masks_and_counters() -> Step:
    params = mlp_params()
    state = {
        "params": params,
        "mask": {name: draw(*p.shape, seed=7) > 0 for name, p in params.items()},
        "seen": np.zeros(64, np.int32),
        "hit": np.zeros(64, np.bool_),
    }
    batch = {
        **BATCH,
        "valid": whole_numbers(8, below=2) > 0,
        "ids": whole_numbers(8, below=64),
    }

    def step(state: Any, batch: Any) -> Any:
        def loss(params: Any) -> Any:
            masked = jax.tree.map(lambda p, m: jnp.where(m, p, 0), params, state["mask"])
            errors = jnp.mean((predict(masked, batch["x"]) - batch["y"]) ** 2, axis=-1)
            return jnp.sum(jnp.where(batch["valid"], errors, 0)) / jnp.sum(batch["valid"])

        value, gradients = jax.value_and_grad(loss)(state["params"])
        seen = state["seen"].at[batch["ids"]].add(1)
        small = jax.tree.map(lambda m, g: m & (jnp.abs(g) < 9), state["mask"], gradients)
        new_state = {
            "params": descend(state["params"], gradients),
            "mask": small,
            "seen": seen,
            "hit": state["hit"] | (seen > 0),
        }
        return new_state, {"loss": value, "valid": batch["valid"].sum(), "any": jnp.any(seen > 1)}

    return step, (state, batch)


def metrics_of_all_shapes() -> Step:
    def step(params: Any, batch: Any) -> Any:
        def loss(params: Any) -> Any:
            out = predict(params, batch["x"])
            return jnp.mean((out - batch["y"]) ** 2), out

        (value, out), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        metrics = {
            "loss": value,
            "out": out,
            "transposed": out.T,
            "per_example": jnp.mean(out, axis=-1),
            "histogram": jnp.histogram(out, bins=5, range=(-1.0, 1.0))[0],
            "best": jnp.argmax(out, axis=-1),
            "top": jax.lax.top_k(out, 3),
            "spectrum": jnp.abs(jnp.fft.rfft(out)),
            "norms": jax.tree.map(jnp.linalg.norm, gradients),
            "finite": jnp.all(jnp.isfinite(out)),
        }
        return descend(params, gradients), metrics

    return step, (mlp_params(), BATCH)


def dropout_with_typed_keys() -> Step:
    def step(state: Any, batch: Any) -> Any:
        key, use = jax.random.split(state["key"])

        def loss(params: Any) -> Any:
            h = jnp.tanh(batch["x"] @ params["up"])
            kept = jax.random.bernoulli(use, 0.5, h.shape)
            return jnp.mean((jnp.where(kept, 2 * h, 0) @ params["down"] - batch["y"]) ** 2), kept

        (value, kept), gradients = jax.value_and_grad(loss, has_aux=True)(state["params"])
        new_state = {"params": descend(state["params"], gradients), "key": key}
        return new_state, {"loss": value, "mask": kept}

    return step, ({"params": mlp_params(), "key": jax.random.key(3)}, BATCH)


def dropout_with_raw_keys() -> Step:
    def step(state: Any, batch: Any, key: Any) -> Any:
        use = jax.random.fold_in(key, state["step"])

        def loss(params: Any) -> Any:
            h = jnp.tanh(batch["x"] @ params["up"])
            kept = jax.random.bernoulli(use, 0.5, h.shape)
            h = h + 0.1 * jax.random.normal(state["noise"], h.shape)
            return jnp.mean((jnp.where(kept, h, 0) @ params["down"] - batch["y"]) ** 2), kept

        (value, kept), gradients = jax.value_and_grad(loss, has_aux=True)(state["params"])
        new_state = {
            "params": descend(state["params"], gradients),
            "noise": jax.random.split(state["noise"])[0],
            "step": state["step"] + 1,
        }
        return new_state, {"loss": value, "mask": kept}

    state = {"params": mlp_params(), "noise": jax.random.PRNGKey(3), "step": np.int32(0)}
    return step, (state, BATCH, jax.random.PRNGKey(5))


def handed_through() -> Step:
    def step(state: Any, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(mlp_loss)(state["params"], *batch.values())
        new_state = {"params": descend(state["params"], gradients), "frozen": state["frozen"]}
        return new_state, {"loss": value, "x": batch["x"], "frozen": state["frozen"]}

    return step, ({"params": mlp_params(), "frozen": draw(16, 16)}, BATCH)


def returned_twice() -> Step:
    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(mlp_loss)(params, x, y)
        new = descend(params, gradients)
        return new, value, new["up"], value

    return step, (mlp_params(), *XY)


def never_used() -> Step:
    return trained(mlp_loss), ({**mlp_params(), "lonely": draw(16, 8)}, *XY)


def closed_over() -> Step:
    table, mask = jnp.asarray(draw(16, 32)), jnp.asarray(draw(8, 16) > 0)

    def loss(params: Any, x: Any, y: Any) -> Any:
        return mlp_loss({**params, "up": params["up"] + table}, jnp.where(mask, x, 0), y)

    return trained(loss), (mlp_params(), *XY)


def loops_and_branches() -> Step:
    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(mlp_loss)(params, x, y)

        def is_large(gradients: Any) -> Any:
            return sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)) > 1e-4

        def halved(gradients: Any) -> Any:
            return jax.tree.map(lambda g: 0.5 * g, gradients)

        clipped = jax.lax.while_loop(is_large, halved, gradients)
        new = jax.lax.cond(jnp.isfinite(value), lambda: descend(params, clipped), lambda: params)
        h = jax.lax.fori_loop(0, 3, lambda _, h: jnp.tanh(predict(new, h)), x)
        return new, {"loss": value, "mean": jnp.mean(h)}

    return step, (mlp_params(), *XY)


RUNNING_SUM = Primitive("running_sum_of_ours")
RUNNING_SUM.def_abstract_eval(lambda x: x)
mlir.register_lowering(
    RUNNING_SUM, mlir.lower_fun(lambda x: jnp.cumsum(x, axis=0), multiple_results=False)
)


def unknown_primitive() -> Step:
    def loss(params: Any, x: Any, y: Any) -> Any:
        return mlp_loss(params, x, y)

    def step(params: Any, x: Any, y: Any) -> Any:
        return trained(loss)(params, RUNNING_SUM.bind(x), y)

    return step, (mlp_params(), *XY)


def bfloat16() -> Step:
    params = jax.tree.map(lambda p: p.astype(jnp.bfloat16), mlp_params())
    return trained(mlp_loss), (params, XY[0].astype(jnp.bfloat16), XY[1])


def optimizer_alone() -> Step:
    optimizer = optax.adamw(1e-2)
    params = mlp_params()

    def step(params: Any, moments: Any, gradients: Any) -> Any:
        updates, moments = optimizer.update(gradients, moments, params)
        return optax.apply_updates(params, updates), moments

    return step, (params, optimizer.init(params), jax.tree.map(lambda p: 0.3 * p, params))


def data_of_its_own() -> Step:
    """No input but state: the step draws its batch."""

    def step(params: Any, key: Any) -> Any:
        key, use = jax.random.split(key)
        x = jax.random.normal(use, (8, 16))
        value, gradients = jax.value_and_grad(mlp_loss)(params, x, jnp.roll(x, 1, axis=0))
        return descend(params, gradients), key, value

    return step, (mlp_params(), jax.random.key(0))
