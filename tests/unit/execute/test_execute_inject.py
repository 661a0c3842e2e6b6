"""Where constraints stand in a jaxpr; nothing here is compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import check_jaxpr

from shardwright.capture import Captured, capture
from shardwright.cluster import Mesh
from shardwright.execute.inject import inject
from shardwright.execute.place import place
from shardwright.ir import Op, Tensor
from shardwright.plan import OpDecision, Plan, Route, TensorDecision
from shardwright.sharding import Sharding
from tests.unit.execute.hand import S, hand_plan

MESH = Mesh.of(dp=2, tp=4)
X = jax.ShapeDtypeStruct((8, 16), jnp.float32)


def written(captured: Captured, plan: Plan) -> Any:
    closed = inject(captured.jaxpr, captured.graph, place(plan))
    check_jaxpr(closed.jaxpr)
    return closed.jaxpr


def kinds(jaxpr: Any) -> list[str]:
    """Primitives in order; a constraint by what it holds to."""
    return [
        str(tuple(eqn.params["sharding"].spec))
        if eqn.primitive.name == "sharding_constraint"
        else eqn.primitive.name
        for eqn in jaxpr.eqns
    ]


def always(sharding: Sharding) -> Any:
    def choose(op: Op, position: int, tensor: Tensor) -> Sharding | None:
        del op, position
        return sharding if tensor.rank == sharding.rank else None

    return choose


ROWS, COLUMNS = "('dp',)", "(None, 'tp')"


def test_operands_are_held_at_their_use_and_results_at_their_definition() -> None:
    captured = capture(lambda x: jnp.sin(x) + x, X)
    plan = hand_plan(
        captured.graph, MESH, operand=always(S("dp", None)), result=always(S(None, "tp"))
    )
    # The argument is held once for both of its uses; sin's result is cut one way and used another.
    assert kinds(written(captured, plan)) == [ROWS, "sin", COLUMNS, ROWS, "add", COLUMNS]


def test_a_value_that_already_lies_so_is_not_held_again() -> None:
    captured = capture(lambda x: jnp.cos(jnp.sin(x)), X)
    both = always(S("dp", None))
    plan = hand_plan(captured.graph, MESH, operand=both, result=both)
    assert kinds(written(captured, plan)) == [ROWS, "sin", ROWS, "cos", ROWS]
    resting = {X.shape: S("dp", None)}
    plan = hand_plan(captured.graph, MESH, operand=both, result=both, resting=resting)
    assert kinds(written(captured, plan)) == ["sin", ROWS, "cos", ROWS]


def test_a_result_that_rests_elsewhere_is_held_twice() -> None:
    captured = capture(jnp.sin, X)
    plan = hand_plan(
        captured.graph, MESH, result=always(S("dp", None)), resting={X.shape: S(None, "tp")}
    )
    assert kinds(written(captured, plan)) == ["sin", ROWS, COLUMNS]


def test_an_undecided_plan_changes_nothing() -> None:
    captured = capture(lambda x: jnp.sin(x) + x, X)
    assert kinds(written(captured, hand_plan(captured.graph, MESH))) == ["sin", "add"]


@pytest.mark.parametrize(
    "sharding", [Sharding.of(), Sharding(dims=((), ()), unreduced=("tp",))], ids=["scalar", "sum"]
)
def test_what_xla_has_no_name_for_is_left_free(sharding: Sharding) -> None:
    captured = capture(lambda x: (x * 2).sum(), X)
    plan = hand_plan(captured.graph, MESH, operand=always(sharding), result=always(sharding))
    assert kinds(written(captured, plan)) == ["mul", "reduce_sum"]


def test_random_keys_are_left_free() -> None:
    captured = capture(lambda k: jax.random.split(k, 4), jax.random.key(0))
    plan = hand_plan(captured.graph, MESH, result=always(S("tp")))
    assert "('tp',)" not in kinds(written(captured, plan))


def loop(x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda h, w: (jnp.sin(h) + w, None), x, jnp.stack([x, x]))[0]


def counted(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, jnp.int32(x.sum()), lambda i, h: jnp.sin(h) * i, x)


def branch(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)


def kept(x: jax.Array) -> jax.Array:
    return jax.grad(lambda y: jax.checkpoint(lambda z: jnp.sin(jnp.sin(z)))(y).sum())(x)


def test_constraints_stand_inside_bodies() -> None:
    for step, primitive in ((loop, "scan"), (counted, "while"), (branch, "cond"), (kept, "remat2")):
        captured = capture(step, X)
        both = always(S("dp", None))
        plan = hand_plan(captured.graph, MESH, operand=both, result=both)
        (outer,) = [e for e in written(captured, plan).eqns if e.primitive.name == primitive]
        (name,) = {"jaxpr", "body_jaxpr", "branches"} & outer.params.keys()
        bodies = outer.params[name]
        for body in bodies if isinstance(bodies, tuple | list) else (bodies,):
            assert ROWS in kinds(getattr(body, "jaxpr", body)), primitive


def test_a_bodys_inputs_are_held_where_they_enter() -> None:
    captured = capture(loop, X)
    plan = hand_plan(captured.graph, MESH, resting={X.shape: S("dp", None)})
    (scan,) = [e for e in written(captured, plan).eqns if e.primitive.name == "scan"]
    # The carry and the slice as they enter, the new carry as it leaves.
    assert kinds(scan.params["jaxpr"].jaxpr) == [ROWS, ROWS, "sin", "add", ROWS]


def test_names_lead_back_to_the_plan() -> None:
    captured = capture(jnp.sin, X)
    plan = hand_plan(
        captured.graph,
        MESH,
        operand=always(S("dp", None)),
        result=always(S("dp", None)),
        resting={X.shape: S(None, "tp")},
    )
    (op,), (output,) = captured.graph.ops, captured.graph.outputs
    names = [str(eqn.source_info.name_stack) for eqn in written(captured, plan).eqns]
    assert names == [
        f"plan.op{op.id}.operand0",
        f"plan.op{op.id}",
        f"plan.op{op.id}.result0",
        f"plan.tensor{output}",
    ]


def with_stage(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, stages=(replace(plan.stages[0], **changes),))


def test_a_reshard_of_several_steps_is_walked_step_by_step() -> None:
    captured = capture(lambda x: jnp.cos(jnp.sin(x)), X)
    plan = hand_plan(
        captured.graph,
        MESH,
        operand=lambda op, *_: S(None, "tp") if op.kind == "cos" else None,
        result=lambda op, *_: S("dp", None) if op.kind == "sin" else None,
    )
    way = Route(
        shape=X.shape,
        dtype="float32",
        source=S("dp", None),
        target=S(None, "tp"),
        via=(S("dp", "tp"),),
    )
    both = "('dp', 'tp')"
    assert kinds(written(captured, with_stage(plan, routes=(way,)))) == [
        "sin",
        ROWS,
        both,
        COLUMNS,
        "cos",
    ]
    assert kinds(written(captured, plan)) == ["sin", ROWS, COLUMNS, "cos"]
    other = replace(way, shape=(16, 8))
    assert kinds(written(captured, with_stage(plan, routes=(other,)))).count(both) == 0


def test_scattered_sums_are_held_whole_first() -> None:
    captured = capture(lambda x: x @ x.T, X)
    decision = OpDecision(
        op_id=captured.graph.ops[-1].id,
        operands=(S(None, "tp"), S("tp", None)),
        results=(S("tp", None),),
        partials=(S(None, None),),
    )
    plan = with_stage(hand_plan(captured.graph, MESH), ops=(decision,))
    assert kinds(written(captured, plan))[-3:] == ["dot_general", "()", "('tp',)"]


def test_what_a_body_hands_back_lies_as_outside() -> None:
    for step, primitive, place_of in (
        (loop, "scan", lambda eqn: eqn.params["jaxpr"].jaxpr),
        (counted, "while", lambda eqn: eqn.params["body_jaxpr"].jaxpr),
        (branch, "cond", lambda eqn: eqn.params["branches"][1].jaxpr),
    ):
        captured = capture(step, X)
        graph = captured.graph
        (op,) = [op for op in graph.walk() if op.kind == primitive]
        outside = {i for region in op.regions for i in region.inputs} | set(op.results)
        plan = with_stage(
            hand_plan(graph, MESH),
            tensors=tuple(
                TensorDecision(tensor_id=i, sharding=S("dp", None))
                for i in sorted(outside)
                if graph.tensor(i).shape == X.shape
            ),
        )
        (outer,) = [e for e in written(captured, plan).eqns if e.primitive.name == primitive]
        body = place_of(outer)
        ends = [v for v in body.outvars if getattr(v.aval, "shape", ()) == X.shape]
        made = {eqn.outvars[0]: eqn for eqn in body.eqns}
        assert ends and all(made[v].primitive.name == "sharding_constraint" for v in ends), step


GROUPED = {"feature_group_count": 4, "window_strides": (1,), "padding": "SAME"}


@pytest.mark.parametrize(
    ("step", "shapes", "operands", "results", "local"),
    [
        (lambda x: jax.lax.top_k(x, 3), [(8, 16)], [S("dp", None)], [S("dp", None)] * 2, True),
        (lambda x: jnp.fft.fft(x), [(8, 16)], [S("dp", None)], [S("dp", None)], True),
        (
            lambda x, w: jax.lax.conv_general_dilated(x, w, **GROUPED),
            [(8, 8, 16), (12, 2, 3)],
            [S("dp", "tp", None), S("tp", None, None)],
            [S("dp", "tp", None)],
            True,
        ),
        (  # The sums over input features have to move.
            lambda x, w: jax.lax.conv_general_dilated(x, w, (1,), "SAME"),
            [(8, 8, 16), (12, 8, 3)],
            [S("dp", "tp", None), S(None, "tp", None)],
            [S("dp", None, None)],
            False,
        ),
        (lambda x: jax.lax.top_k(x, 3), [(8, 16)], [S(None, None)], [S(None, None)] * 2, False),
    ],
    ids=["top_k", "fft", "grouped", "plain conv", "whole"],
)
def test_what_xla_would_gather_runs_on_parts(
    step: Any, shapes: Any, operands: Any, results: Any, local: Any
) -> None:
    captured = capture(step, *[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes])
    op = next(
        op for op in captured.graph.ops if op.kind in ("top_k", "fft", "conv_general_dilated")
    )
    decision = OpDecision(op_id=op.id, operands=tuple(operands), results=tuple(results))
    plan = with_stage(hand_plan(captured.graph, MESH), ops=(decision,))
    found = kinds(written(captured, plan))
    assert ("shard_map" in found, op.kind in found) == (local, not local)
