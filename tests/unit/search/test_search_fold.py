"""Repetition is folded away, whatever the depth, and nothing is lost in the folding."""

from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import pytest

from shardwright.capture.from_jax import capture
from shardwright.ir.flat import BORDER_KINDS, flatten
from shardwright.search.fold import fold
from shardwright.search.lead import ASKED, FREE
from tests.unit.search.subjects import SUBJECTS, graph_of, planner_of

F32 = jnp.float32


def shape(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, F32)


@pytest.mark.parametrize("layers", [4, 7])
def test_deeper_models_fold_to_the_same_graph(layers: int) -> None:
    deep, reference = planner_of("gpt", layers), planner_of("gpt", 5)
    assert len(deep.folded.ops) == len(reference.folded.ops)
    assert len(deep.lead.nodes) == len(reference.lead.nodes)
    kinds = [Counter(op.op.kind for op in p.folded.ops) for p in (deep, reference)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("name", SUBJECTS)
def test_folding_loses_no_run(name: str) -> None:
    folded = planner_of(name).folded
    assert sum(op.runs for op in folded.ops) == sum(op.runs for op in folded.flat.ops)
    positions = sorted(position for op in folded.ops for position in op.positions)
    assert positions == list(range(len(folded.flat.ops)))
    for op in folded.ops:
        for sources in op.operands:
            assert sum(source.runs for source in sources) == op.runs


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_flat_tensor_is_written_once_before_it_is_read(name: str) -> None:
    flat = flatten(graph_of(name))
    constants = {t.id for t in flat.graph.tensors if t.value is not None}
    written = {*flat.graph.inputs, *constants}
    for flat_op in flat.ops:
        if flat_op.op.kind != "shard.carry_back":
            assert set(flat_op.op.operands) <= written
        assert not written & set(flat_op.op.results)
        written.update(flat_op.op.results)


def test_nested_loops_multiply_their_trips() -> None:
    def step(x: jax.Array) -> jax.Array:
        def inner(c: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jnp.sin(c), None

        def outer(c: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jax.lax.scan(inner, c, None, length=3)[0], None

        return jax.lax.scan(outer, x, None, length=5)[0]

    flat = flatten(capture(step, shape(4)).graph)
    runs = {flat_op.op.kind: flat_op.runs for flat_op in flat.ops if flat_op.op.kind == "sin"}
    assert runs == {"sin": 15}
    borders = Counter(f.op.kind for f in flat.ops if f.op.kind in BORDER_KINDS)
    assert borders == {"shard.carry": 2, "shard.carry_back": 2, "shard.alias": 2}


def test_what_a_loop_reads_lives_until_the_loop_ends() -> None:
    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        def body(c: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jnp.tanh(c + w) * 2.0, None

        return jax.lax.scan(body, x, None, length=3)[0]

    flat = flatten(capture(step, shape(4), shape(4)).graph)
    last_of_body = max(i for i, f in enumerate(flat.ops) if f.op.kind == "mul")
    assert flat.live_until[flat.graph.inputs[1]] > last_of_body


def test_a_while_loop_says_that_its_trips_are_unknown() -> None:
    def step(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda c: c.sum() < 9.0, lambda c: c * 2.0, x)

    flat = flatten(capture(step, shape(4)).graph)
    (loop,) = [op for op in flat.graph.walk() if op.kind == "while"]
    assert flat.unknown_trips == (loop.id,)


def test_branches_join_in_one_result() -> None:
    def step(flag: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.cond(flag, jnp.sin, jnp.cos, x)

    flat = flatten(capture(step, jax.ShapeDtypeStruct((), jnp.bool_), shape(4)).graph)
    kinds = [f.op.kind for f in flat.ops]
    assert kinds.count("shard.join") == 1
    assert {"sin", "cos"} <= set(kinds)


def test_different_carries_are_never_folded_together() -> None:
    def step(x: jax.Array, y: jax.Array) -> jax.Array:
        def body(c: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, ...], None]:
            return (jnp.sin(c[0]), jnp.sin(c[1])), None

        a, b = jax.lax.scan(body, (x, y), None, length=3)[0]
        return a @ b

    folded = fold(capture(step, shape(4, 4), shape(4, 4)).graph)
    backs = [op for op in folded.ops if op.op.kind == "shard.carry_back"]
    assert [len(op.operands[1]) for op in backs] == [1] * len(backs)


@pytest.mark.parametrize("name", SUBJECTS)
def test_followers_follow_an_operand_of_their_node(name: str) -> None:
    planner = planner_of(name)
    folded, lead = planner.folded, planner.lead
    for op, op_lead in zip(folded.ops, lead.ops, strict=True):
        if op_lead.follows < 0 or op.op.kind == "shard.carry_back":
            continue
        followed = {lead.tensors[s.tensor] for s in op.operands[op_lead.follows]}
        assert followed == {op_lead.node}
        for result in op.results:
            scalar = folded.tensors[result].tensor.rank == 0
            assert lead.tensors[result] == (FREE if scalar else op_lead.node)


def test_moments_of_adam_rest_as_one_and_projections_decide_together() -> None:
    planner = planner_of("gpt")
    folded, lead = planner.folded, planner.lead
    moments = [n for n in lead.nodes if len(n.inputs) == 2]
    assert moments
    for node in moments:
        names = [folded.tensors[i].tensor.name for i in node.inputs]
        assert {".mu." in name or ".nu." in name for name in names} == {True}
    siblings = [n for n in lead.nodes if len(n.ops) > 1]
    assert siblings
    assert ASKED in lead.tensors


def test_a_step_without_repetition_folds_to_itself() -> None:
    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w).sum()

    graph = capture(step, shape(8, 4), shape(4, 2)).graph
    folded = fold(graph)
    assert [op.op.id for op in folded.ops] == [op.id for op in graph.ops]
