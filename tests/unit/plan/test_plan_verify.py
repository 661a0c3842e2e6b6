"""A plan that fits its graph passes; each broken rule is found (its words: tests/messages)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardwright.cluster import Mesh
from shardwright.errors import PlanError
from shardwright.plan import OpDecision, Plan, TensorDecision, verify_plan
from shardwright.sharding import Sharding
from tests.unit.plan.samples import (
    GRAPH,
    PLAN,
    STAGE,
    TOPOLOGY,
    S,
    with_op,
    with_resting,
    with_stage,
)

WHOLE = Sharding.replicated(2)


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        with_stage(ops=()),
        with_stage(tensors=()),
        with_op(OpDecision(op_id=0, operands=(None, None), results=(S("dp", None),))),
        # Inside the step an uneven cut is XLA's to pad; only the border must be even.
        with_op(OpDecision(op_id=0, operands=(S("tp", None), None), results=(S("tp", None),))),
        # A partial result may stand between operators.
        with_op(
            OpDecision(
                op_id=0,
                operands=(None, None),
                results=(Sharding(dims=((), ()), unreduced=("tp",)),),
            )
        ),
        replace(PLAN, stages=(replace(STAGE, mesh=Mesh.of(dp=2, tp=4, pp=1)),)),
    ],
)
def test_a_plan_for_this_graph_passes(plan: Plan) -> None:
    verify_plan(plan, GRAPH)
    verify_plan(plan, GRAPH, TOPOLOGY)


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, graph_fingerprint="another"),
        replace(PLAN, cluster_fingerprint="another"),
        with_stage(device_ids=tuple(range(7))),
        with_stage(device_ids=(0, 1, 2, 3, 4, 5, 6, 6)),
        with_stage(device_ids=(0, 1, 2, 3, 4, 5, 6, 8)),
        with_stage(ops=(STAGE.ops[0], STAGE.ops[0])),
        with_stage(tensors=(*STAGE.tensors, STAGE.tensors[0])),
        with_op(OpDecision(op_id=9, operands=(), results=())),
        with_op(OpDecision(op_id=0, operands=(None,), results=(None,))),
        with_op(OpDecision(op_id=0, operands=(None, None), results=())),
        with_stage(tensors=(TensorDecision(tensor_id=4, sharding=WHOLE),)),
        with_stage(tensors=(TensorDecision(tensor_id=-1, sharding=WHOLE),)),
        with_resting(1, S("dp")),
        with_resting(1, S("pp", None)),
        with_resting(1, S("dp", "dp")),
        with_resting(1, Sharding(dims=(("dp",), ()), unreduced=("dp",))),
        with_resting(1, Sharding(dims=((), ()), unreduced=("tp",))),
        with_resting(1, S("tp", None)),
        with_resting(2, S(None, ("dp", "tp", "tp"))),
        with_resting(3, S("dp", None)),
        with_resting(3, None),
        with_stage(routes=(replace(STAGE.routes[0], via=(S("pp", None),)),)),
        with_stage(routes=(replace(STAGE.routes[0], target=S("dp")),)),
    ],
)
def test_each_broken_rule_is_found(plan: Plan) -> None:
    with pytest.raises(PlanError):
        verify_plan(plan, GRAPH, TOPOLOGY)


def test_every_stage_is_checked() -> None:
    broken = replace(STAGE, device_ids=(0,) * 8)
    with pytest.raises(PlanError):
        verify_plan(replace(PLAN, stages=(STAGE, broken)), GRAPH)
