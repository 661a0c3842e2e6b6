"""Updates follow their own state, microbatches stay where they are, values made once are moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.cluster.place import place
from shardwright.ir.graph import STATE_ROLES
from shardwright.search.asked import in_common
from shardwright.search.build import build_space
from shardwright.search.cuts import keeps_cut
from shardwright.search.find import Planner, Question
from shardwright.search.labels import DimLabel
from shardwright.search.space import Space
from shardwright.sharding import Sharding
from shardwright.sharding.rules.elementwise import RULES as ELEMENTWISE
from tests.unit.search.subjects import SUBJECTS, planner_of

S = Sharding.of


def shape(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def space(step: Callable[..., Any], *args: Any, mesh: Mesh | None = None) -> tuple[Planner, Space]:
    planner = Planner.of(capture(step, *args).graph)
    placed = place(mesh or Mesh.of(x=8), topology("8xH100"))
    return planner, build_space(planner.folded, planner.lead, planner.storage, placed)


@pytest.mark.parametrize("name", SUBJECTS)
def test_an_update_reads_one_state_only(name: str) -> None:
    folded = planner_of(name).folded
    for op in folded.ops:
        if op.op.kind in ELEMENTWISE:
            for sources in op.operands:
                inputs = [s for s in sources if folded.tensors[s.tensor].is_input]
                state = [s for s in inputs if folded.tensors[s.tensor].tensor.role in STATE_ROLES]
                assert len(state) <= 1


def microbatched(params: Any, batch: Any) -> Any:
    def one(gradient: Any, x: Any) -> Any:
        return gradient + jax.grad(lambda w: jnp.sum((x @ w) ** 2))(params), None

    parts = batch.reshape(16, -1, *batch.shape[1:])
    return params - jax.lax.scan(one, jnp.zeros_like(params), parts)[0]


def looked_at(params: Any, batch: Any) -> Any:
    return params - jax.grad(lambda w: jnp.sum((batch[:, :-1] @ w) ** 2))(params)


def test_both_parts_of_a_split_batch_are_batch() -> None:
    planner, _ = space(microbatched, shape(16, 24), shape(256, 16))
    (parts,) = [
        tensor
        for tensor in planner.folded.tensors
        if tensor.tensor.shape == (16, 16, 16) and not tensor.is_input
    ]
    labels = planner.labels.tensors[parts.index]
    assert labels == (DimLabel.BATCH, DimLabel.BATCH, None)


def test_a_slice_means_what_it_is_a_slice_of() -> None:
    planner, _ = space(looked_at, shape(15, 24), shape(8, 16))
    (part,) = [t for t in planner.folded.tensors if t.tensor.shape == (8, 15)]
    assert planner.labels.tensors[part.index] == (DimLabel.BATCH, None)


@pytest.mark.parametrize(
    ("step", "args", "keeps"),
    [
        (microbatched, (shape(16, 24), shape(256, 16)), False),
        (looked_at, (shape(15, 24), shape(8, 16)), True),
    ],
)
def test_a_cut_batch_lives_on_unless_it_is_split(
    step: Callable[..., Any], args: Any, keeps: Any
) -> None:
    planner, found = space(step, *args)
    (batch,) = [t.index for t in planner.folded.tensors if t.tensor.name == "batch"]
    assert keeps_cut(found, batch, S("x", None)) is keeps
    assert keeps_cut(found, batch, S(None, None))


def drawn(params: Any, key: Any) -> Any:
    x = jax.random.normal(key, (8, 16))

    def loss(params: Any) -> Any:
        return jnp.sum((x @ params) ** 2) + jnp.sum((jnp.flip(x) @ params) ** 2)

    return params - jax.grad(loss)(params), key


def test_a_value_that_is_made_once_is_priced_when_it_is_read_in_two_forms() -> None:
    planner, found = space(drawn, shape(16, 24), jax.random.key(0))
    made = [
        demand
        for demand in found.demands
        if planner.folded.tensors[demand.tensor].tensor.shape == (8, 16)
        and planner.lead.tensors[demand.tensor] < 0
    ]
    assert made and all(demand.tensor in found.borrowed for demand in made)


def test_a_state_is_written_though_it_has_no_buffer_of_its_own() -> None:
    planner, _ = space(looked_at, shape(15, 24), shape(8, 16))
    ((before, after),) = planner.folded.graph.state_pairs
    storage = planner.storage
    assert storage.is_written[after] and not storage.is_stored[after]
    assert storage.owner[after] == before


@pytest.mark.parametrize(
    ("forms", "common"),
    [
        ([S("x", None)], S("x", None)),
        ([S("x", None), S("x", "y")], S("x", None)),
        ([S(("x", "y"), None), S("x", "z")], S("x", None)),
        ([S(("x", "y")), S(("y", "x"))], S(None)),
        ([S(None, "y"), S("y", None)], S(None, None)),
    ],
)
def test_a_stretched_value_serves_all_its_readers(forms: list[Sharding], common: Sharding) -> None:
    assert in_common(forms) == common


def unrolled(params: Any, batch: Any) -> Any:
    def loss(params: Any) -> Any:
        h = batch
        for weight in params:
            h = jnp.tanh(h @ weight)
        return jnp.sum(h**2)

    return [p - 0.1 * g for p, g in zip(params, jax.grad(loss)(params), strict=True)]


def test_gradients_that_are_scattered_are_never_gathered_again() -> None:
    planner, _ = space(unrolled, [shape(64, 64)] * 8, shape(16, 64))
    question = Question(method="zero-3", meshes=(Mesh.of(x=8),))
    plan = planner.find(topology("8xH100"), question).plan
    assert plan is not None
    collectives = plan.stages[0].collectives
    gathered = {c.tensor_id for c in collectives if c.kind == "all-gather"}
    assert gathered <= set(planner.folded.graph.inputs)
    assert sum(c.runs for c in collectives if c.kind == "reduce-scatter") == 8
