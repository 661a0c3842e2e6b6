"""Traps that stock partitioning falls into and a plan must not, each on eight devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright
from shardwright.capture.from_jax import capture
from shardwright.execute.create import create, lower_create
from shardwright.execute.hlo import parse_module
from shardwright.execute.on_jax import Program
from shardwright.models.case import StepCase
from shardwright.models.registry import build
from shardwright.search.find import Planner, Question
from tests.e2e import subjects
from tests.e2e.subjects import (
    Step,
    compiled,
    descend,
    draw,
    machines,
    mesh_of,
    mlp_loss,
    mlp_params,
    moved_shapes,
    run,
    shapes_of,
    unplanned_moves,
)

KEY = jax.random.key(0)


# -- optimizer state is made where it lies --


SIZES = {
    # No two of these, nor any part of one by 2, 4 or 8, are equal.
    "mlp": {"d_model": 24, "ffn": 176},
    "gpt": {"layers": 3, "d_model": 40, "heads": 8, "ffn": 176, "vocab": 208, "seq": 16},
}


@cache
def prepared(model: str, optimizer: str, method: str, mesh: str) -> tuple[StepCase, Program]:
    sizes = SIZES[model] | ({"scan": True} if model == "gpt" else {})
    case = build(model, optimizer=optimizer, **sizes)
    captured = capture(case.step, case.abstract_state(), case.abstract_batch())
    question = Question(method=method, meshes=(mesh_of(mesh),))
    plan = Planner.of(captured.graph).find(machines("cpu:8"), question).plan
    assert plan is not None
    return case, compiled(captured, plan)


CREATED = [
    ("mlp", "adam", "zero-1", "x=8"),
    *(
        pytest.param("gpt", optimizer, method, mesh, marks=pytest.mark.slow)
        for optimizer in ("adam", "adafactor")
        for method, mesh in (("zero-1", "x=8"), ("zero-3", "x=2,y=4"), ("megatron", "x=2,y=4"))
    ),
]


@pytest.mark.parametrize(("model", "optimizer", "method", "mesh"), CREATED)
def test_no_device_ever_holds_a_whole_moment(
    model: str, optimizer: str, method: str, mesh: str
) -> None:
    case, ready = prepared(model, optimizer, method, mesh)
    shardings = ready.input_shardings[0]["opt_state"]

    def moments(key: jax.Array) -> Any:
        return case.init_state(key)["opt_state"]

    leaves = jax.tree.leaves(jax.eval_shape(moments, KEY))
    placed = list(zip(leaves, jax.tree.leaves(shardings), strict=True))
    cut = {leaf.shape for leaf, s in placed if s.shard_shape(leaf.shape) != leaf.shape}
    assert cut, "the plan cuts no moment"
    made = jax.tree.leaves(create(moments, KEY, shardings=shardings))
    for array, (leaf, sharding) in zip(made, placed, strict=True):
        held = {shard.data.shape for shard in array.addressable_shards}
        assert held == {sharding.shard_shape(leaf.shape)}
    # The same of the program that makes them: no instruction of it is as large as a cut moment.
    program = lower_create(moments, KEY, shardings=shardings).compile()
    whole = cut - {sharding.shard_shape(leaf.shape) for leaf, sharding in placed}
    assert whole
    found = {
        shape
        for computation in parse_module(program.as_text() or "").computations
        for item in computation.instructions
        for shape in shapes_of(item.shape)
    }
    assert found.isdisjoint(whole)


def test_the_front_door_makes_state_in_parts() -> None:
    case = build("mlp", optimizer="adam", **SIZES["mlp"])
    step = shardwright.parallelize(case.step, cluster="cpu:8", method="zero-1", mesh={"x": 8})
    step.prepare(case.abstract_state(), case.abstract_batch())
    state = step.create(case.init_state, KEY)
    moments = [m for m in jax.tree.leaves(state["opt_state"]) if m.ndim]
    for moment in moments:
        pieces = {shard.data.size for shard in moment.addressable_shards}
        assert pieces == {moment.size // 8}
    _, metrics = step(state, case.make_batch(0))
    _, single = jax.jit(case.step)(jax.jit(case.init_state)(KEY), case.make_batch(0))
    np.testing.assert_allclose(metrics["loss"], single["loss"], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["zero-3", "megatron"])
def test_a_whole_state_is_made_in_parts_and_gathers_nothing(method: str) -> None:
    case, ready = prepared("gpt", "adam", method, "x=2,y=4")
    program = lower_create(case.init_state, KEY, shardings=ready.input_shardings[0]).compile()
    assert not any(word in (program.as_text() or "") for word in ("all-gather(", "all-to-all("))
    single = jax.jit(case.init_state)(KEY)
    for ours, theirs in zip(
        jax.tree.leaves(create(case.init_state, KEY, shardings=ready.input_shardings[0])),
        jax.tree.leaves(single),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


# -- a batch is split into microbatches where it lies --


def summed(step: Callable[[Any, Any], Any], params: Any, count: int) -> Callable[..., Any]:
    """The loop body that adds one microbatch's loss and gradients to the sums so far."""

    def one(sums: Any, batch: Any) -> tuple[Any, None]:
        value, gradients = jax.value_and_grad(step)(params, batch)
        return jax.tree.map(lambda s, g: s + g / count, sums, (value, gradients)), None

    return one


def of_microbatches(params: Any, batch: Any) -> Any:
    return mlp_loss(params, batch["x"], batch["y"])


def microbatched(count: int, how: str, batch: int = 64) -> Step:
    def split(array: Any) -> Any:
        if how == "rows apart":
            return jnp.swapaxes(array.reshape(-1, count, *array.shape[1:]), 0, 1)
        return array.reshape(count, -1, *array.shape[1:])

    def step(params: Any, batch: Any) -> Any:
        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
        one = summed(of_microbatches, params, count)
        if how == "sliced":
            rows = batch["x"].shape[0] // count

            def sliced(i: Any, sums: Any) -> Any:
                cut = partial(jax.lax.dynamic_slice_in_dim, start_index=i * rows, slice_size=rows)
                return one(sums, jax.tree.map(cut, batch))[0]

            value, gradients = jax.lax.fori_loop(0, count, sliced, zero)
        else:
            (value, gradients), _ = jax.lax.scan(one, zero, jax.tree.map(split, batch))
        return descend(params, gradients), value

    return step, (mlp_params(), {"x": draw(batch, 16), "y": draw(batch, 16, seed=4)})


MICRO = {
    "4 in a row": partial(microbatched, 4, "in a row"),
    "16 in a row": partial(microbatched, 16, "in a row", batch=256),
    "rows apart": partial(microbatched, 4, "rows apart"),
    "sliced": partial(microbatched, 4, "sliced"),
}
SPLIT = [
    ("4 in a row", "data-parallel", "x=8"),
    ("16 in a row", "data-parallel", "x=8"),
    ("rows apart", "data-parallel", "x=8"),
    *(
        pytest.param(how, method, mesh, marks=pytest.mark.slow)
        for how in MICRO
        for method, mesh in (
            ("zero-3", "x=8"),
            ("zero-2", "x=2,y=4"),
            ("megatron-sp", "x=2,y=4"),
        )
    ),
    pytest.param("sliced", "data-parallel", "x=8", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("how", "method", "mesh"), SPLIT)
def test_splitting_a_batch_into_microbatches_moves_none_of_it(
    how: str, method: str, mesh: str
) -> None:
    ran = run(MICRO[how], method, mesh)
    ran.checked.require()
    assert not unplanned_moves(ran.comparison)
    graph = ran.captured.graph
    batch = {graph.tensor(i).shape for i in graph.inputs if "batch" in graph.tensor(i).name}
    rows = next(iter(batch))[0]
    moved = moved_shapes(ran.program)
    # Neither the batch nor its microbatches; what is made of them has 32 features or no rows.
    count = 16 if "16" in how else 4
    parts = {(rows, 16), (count, rows // count, 16)}
    assert moved.isdisjoint(parts)
    from_batch = {i for i in graph.inputs if "batch" in graph.tensor(i).name}
    assert not [c for c in ran.plan.stages[0].collectives if c.tensor_id in from_batch]
    # Each device works on its own rows only.
    stage = ran.plan.stages[0]
    products = [op for op in graph.walk() if op.kind == "dot_general"]
    decided = {decision.op_id: decision for decision in stage.ops}
    used = {
        axis
        for op in products
        for sharding in decided[op.id].operands
        if sharding is not None
        for axis in sharding.axes
    }
    assert used == set(stage.mesh.names)


# -- stacked weights are gathered layer by layer --

LAYERS = 3


def scanned() -> Step:
    params = {"up": draw(LAYERS, 24, 80), "down": draw(LAYERS, 80, 24, seed=1)}

    def loss(params: Any, x: Any, y: Any) -> Any:
        def layer(h: Any, weights: Any) -> tuple[Any, None]:
            return h + jnp.tanh(h @ weights["up"]) @ weights["down"], None

        return jnp.mean((jax.lax.scan(layer, x, params)[0] - y) ** 2)

    return subjects.trained(loss), (params, draw(16, 24), draw(16, 24, seed=4))


def is_whole_stack(shape: tuple[int, ...], sizes: set[int]) -> bool:
    return len(shape) > 1 and shape[0] == LAYERS and sizes.issuperset(shape[1:])


@pytest.mark.parametrize(
    ("method", "mesh"),
    [
        ("zero-3", "x=8"),
        ("auto", "x=2,y=4"),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (("hsdp", "x=2,y=4"), ("megatron-sp", "x=2,y=4"), ("zero-2", "x=8"))
        ),
    ],
)
def test_a_weight_stack_is_never_gathered_whole(method: str, mesh: str) -> None:
    ran = run(scanned, method, mesh)
    ran.checked.require()
    assert not unplanned_moves(ran.comparison)
    stacks = {shape for shape in moved_shapes(ran.program) if is_whole_stack(shape, {24, 80})}
    # ZeRO-2 hands every device the new parameters, whole by its nature.
    assert bool(stacks) == (method == "zero-2")


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "adafactor"])
def test_a_scanned_model_gathers_one_layer_at_a_time(optimizer: str) -> None:
    _, ready = prepared("gpt", optimizer, "zero-3", "x=2,y=4")
    graph = ready.graph
    stacks = {
        tuple(size for size in graph.tensor(i).shape if size != 1)
        for i in graph.inputs
        if graph.tensor(i).name.startswith("state.params.blocks")
    }
    assert moved_shapes(ready).isdisjoint(stacks)


# -- labels are looked up where the logits lie --


def wide_language() -> Step:
    return subjects.language(1536, batch=8, seq=8, features=16)


@pytest.mark.parametrize(
    ("method", "mesh"),
    [
        ("auto", "x=8"),
        pytest.param("auto", "x=2,y=4", marks=pytest.mark.slow),
        pytest.param("megatron", "x=8", marks=pytest.mark.slow),
        pytest.param("megatron-sp", "x=2,y=4", marks=pytest.mark.slow),
    ],
)
def test_a_label_lookup_never_gathers_the_logits(method: str, mesh: str) -> None:
    ran = run(wide_language, method, mesh)
    ran.checked.require()
    assert not unplanned_moves(ran.comparison)
    graph, resting = ran.captured.graph, ran.plan.stages[0].sharding_of
    (embed,) = [i for i in graph.inputs if graph.tensor(i).name == "params.embed"]
    assert not resting[embed].is_replicated
    # The table is [1536, 16]; nothing else of so many entries may move.
    assert [s for s in moved_shapes(ran.program) if 1536 in s and s != (1536, 16)] == []


def test_logits_that_are_cut_in_the_vocabulary_stay_so() -> None:
    ran = run(wide_language, "auto", "x=8")
    graph, decided = ran.captured.graph, {d.op_id: d for d in ran.plan.stages[0].ops}
    logits = [
        decided[op.id].results[0]
        for op in graph.ops
        if op.kind == "dot_general" and graph.tensor(op.results[0]).shape == (8, 8, 1536)
    ]
    assert logits and all(s is not None and s.dims[2] == ("x",) for s in logits)


# -- experts' weights stay where they are --

EXPERTS = {
    "layers": 1,
    "d_model": 40,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 10,
    "ffn": 176,
    "experts": 8,
    "vocab": 208,
    "seq": 24,
    "scan": True,
}


def experts(dispatch: str) -> Step:
    case = build(f"moe-{dispatch}", optimizer="sgd", learning_rate=1e-2, **EXPERTS)
    return case.step, (jax.jit(case.init_state)(KEY), case.make_batch(0))


MIXTURES = {name: partial(experts, name) for name in ("gshard", "ragged")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dispatch", "method", "mesh"),
    [
        ("gshard", "expert-parallel", "x=2,y=4"),
        ("gshard", "expert-parallel", "x=4,y=2"),
        ("gshard", "auto", "x=2,y=4"),
        ("gshard", "auto", "x=4,y=2"),
        ("ragged", "expert-parallel", "x=2,y=4"),
    ],
)
def test_experts_are_never_gathered(dispatch: str, method: str, mesh: str) -> None:
    ran = run(MIXTURES[dispatch], method, mesh)
    ran.checked.require()
    assert not unplanned_moves(ran.comparison)
    graph, resting = ran.captured.graph, ran.plan.stages[0].sharding_of
    weights = [
        i for i in graph.inputs if graph.tensor(i).name.endswith(("ffn.gate", "ffn.up", "ffn.down"))
    ]
    assert len(weights) == 3
    for weight in weights:
        assert resting[weight].dims[1], "the experts are not cut"
    if method == "expert-parallel":
        batch = [i for i in graph.inputs if graph.tensor(i).name.startswith("batch.")]
        assert all("x" in resting[i].dims[0] for i in batch)
    # No activation has both the model's features and the experts' hidden units.
    hidden, features = {176, 88, 44, 22}, {40, 20, 10}
    moved = moved_shapes(ran.program)
    assert [s for s in moved if hidden.intersection(s) and features.intersection(s)] == []


# -- and all of it together --


def transformer() -> Step:
    case = build("gpt", layers=2, d_model=32, batch=8, seq=8, scan=True, learning_rate=1e-2)
    return case.step, (jax.jit(case.init_state)(KEY), case.make_batch(0))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "megatron-sp"])
def test_a_transformer_moves_what_was_planned(method: str) -> None:
    # Its biases rest cut and are stretched over activations that are whole in the same dim.
    ran = run(transformer, method, "x=2,y=4", cluster="cpu:8")
    ran.checked.require()
    assert not unplanned_moves(ran.comparison)
