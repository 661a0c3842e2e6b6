"""Where constraints stand in a jaxpr; nothing here is compiled."""

from __future__ import annotations

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
from shardwright.plan import Plan
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
