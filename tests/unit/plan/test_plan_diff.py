"""What two plans do differently, line by line."""

from __future__ import annotations

from dataclasses import replace

from shardwright.cluster import Mesh
from shardwright.plan import OpDecision, Provenance, diff
from tests.unit.plan.samples import GRAPH, PLAN, STAGE, S, with_op, with_resting, with_stage


def test_equal_decisions_differ_in_nothing() -> None:
    assert diff(PLAN, PLAN) == ()
    assert diff(PLAN, replace(PLAN, provenance=Provenance(method="mcmc"))) == ()


def test_tensors_go_by_the_users_names() -> None:
    other = with_resting(1, S(None, "dp"))
    assert diff(PLAN, other, GRAPH) == ("x: [dp, -] -> [-, dp]",)
    assert diff(PLAN, other) == ("tensor %1: [dp, -] -> [-, dp]",)
    assert diff(PLAN, with_resting(1, None), GRAPH) == ("x: [dp, -] -> free",)


def test_operators_go_by_their_lines() -> None:
    other = with_op(OpDecision(op_id=0, operands=(S("dp", None), None), results=(S(None, None),)))
    assert diff(PLAN, other, GRAPH) == (
        "dot_general %0 at model.py:88, operand 1: [-, tp] -> free",
        "dot_general %0 at model.py:88, result 0: [dp, tp] -> [-, -]",
    )
    assert diff(PLAN, other)[0].startswith("operator 0, operand 1")
    assert diff(PLAN, with_stage(ops=STAGE.ops[:1]), GRAPH) == (
        "neg %1 at model.py:90: decided -> undecided",
    )
    assert diff(with_stage(ops=STAGE.ops[:1]), PLAN, GRAPH) == (
        "neg %1 at model.py:90: undecided -> decided",
    )


def test_the_frame_of_a_plan_comes_first() -> None:
    other = replace(
        with_stage(mesh=Mesh.of(dp=8), device_ids=tuple(range(8, 0, -1)), collectives=()),
        graph_fingerprint="g",
        num_microbatches=4,
        schedule="1f1b",
    )
    assert diff(PLAN, other) == (
        f"graph: {GRAPH.fingerprint} -> g",
        "microbatches: 1 -> 4",
        "schedule: none -> 1f1b",
        "mesh: dp=2,tp=4 -> dp=8",
        "devices: [0, 1, 2, 3, 4, 5, 6, 7] -> [8, 7, 6, 5, 4, 3, 2, 1]",
        "all-gather over tp: 1.5 KiB -> 0 B per device and step",
    )


def test_stages_are_told_apart() -> None:
    two = replace(PLAN, stages=(STAGE, STAGE))
    other = replace(PLAN, stages=(STAGE, with_resting(1, S(None, "dp")).stages[0]))
    assert diff(two, other, GRAPH) == ("stage 1: x: [dp, -] -> [-, dp]",)
    assert diff(PLAN, two) == ("stages: 1 -> 2",)
