"""Odd shapes plan and run as on one device, and nothing is gathered that was not planned."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardwright.cluster.parse import topology
from shardwright.search.find import Question
from shardwright.search.result import Outcome
from tests.e2e import subjects
from tests.e2e.subjects import Step, planner, run, search, unplanned_moves

SUBJECTS = (
    subjects.heads_71,
    subjects.heads_71_in_one_dim,
    subjects.kv_heads_2,
    subjects.vocab_50257,
    subjects.tied_embeddings,
    subjects.batch_of_1,
    subjects.dims_below_the_axis,
    subjects.scalars_and_empties,
    subjects.used_twice,
    subjects.masks_and_counters,
    subjects.metrics_of_all_shapes,
    subjects.dropout_with_typed_keys,
    subjects.dropout_with_raw_keys,
    subjects.handed_through,
    subjects.returned_twice,
    subjects.never_used,
    subjects.closed_over,
    subjects.loops_and_branches,
    subjects.unknown_primitive,
    subjects.bfloat16,
    subjects.optimizer_alone,
    subjects.data_of_its_own,
)
NOT_DIVIDED = "does not divide by 8"
REFUSED = {
    (subjects.batch_of_1, "zero-3"): "the batch of 1 does not divide by 8",
    (subjects.batch_of_1, "megatron-sp"): "the batch of 1 does not divide by 8",
    (subjects.dims_below_the_axis, "zero-3"): "the batch of 6 does not divide by 8",
    (subjects.dims_below_the_axis, "megatron-sp"): "no weight has a dim that divides by 4",
    (subjects.optimizer_alone, "megatron-sp"): "no weight has a dim that divides by 4",
    (subjects.data_of_its_own, "zero-3"): "the step has no batch input to cut",
    (subjects.data_of_its_own, "megatron-sp"): "the step has no batch input to cut",
}
"""Recipes that make no sense for a step, and why."""

BUILDERS = pytest.mark.parametrize("build", SUBJECTS, ids=lambda build: build.__name__)


def agree(build: Callable[[], Step], method: str, mesh: str) -> None:
    ran = run(build, method, mesh)
    ran.checked.require()
    assert not unplanned_moves(ran.comparison)
    assert ran.cut_inputs, "nothing is cut, so nothing is shown"


@BUILDERS
def test_the_search_finds_a_right_plan(build: Callable[[], Step]) -> None:
    agree(build, "auto", "x=2,y=4")


@pytest.mark.slow
@BUILDERS
@pytest.mark.parametrize(
    ("method", "mesh"), [("zero-3", "x=8"), ("megatron-sp", "x=2,y=4"), ("megatron", "x=8")]
)
def test_recipes_are_right_or_say_why_not(
    build: Callable[[], Step], method: str, mesh: str
) -> None:
    reason = REFUSED.get((build, method), "")
    result = search(build, method, mesh, "fast")
    if reason:
        assert (result.outcome, result.detail) == (Outcome.REFUSED, reason)
    elif result.plan is None:
        assert result.detail.startswith("no weight has a dim that divides by 8")
    else:
        agree(build, method, mesh)


@pytest.mark.parametrize(
    ("build", "size"), [(subjects.vocab_50257, 50257), (subjects.heads_71, 71)]
)
def test_a_dim_that_does_not_divide_is_left_whole_and_said(
    build: Callable[[], Step], size: int
) -> None:
    plan = search(build, "auto", "x=8", "fast").plan
    assert plan is not None
    assert any(f"={size} {NOT_DIVIDED}" in note for note in plan.provenance.notes)
    graph, resting = planner(build)[0].graph, plan.stages[0].sharding_of
    odd = [(graph.tensor(i), resting[i]) for i in graph.inputs if size in graph.tensor(i).shape]
    assert odd
    for tensor, sharding in odd:
        assert not sharding.dims[tensor.shape.index(size)], tensor.name


@pytest.mark.parametrize(
    "build", [subjects.dropout_with_typed_keys, subjects.dropout_with_raw_keys]
)
def test_dropout_drops_the_same_on_every_layout(build: Callable[[], Step]) -> None:
    ran = run(build, "auto", "x=2,y=4")
    (mask,) = {leaf.difference for leaf in ran.checked.leaves if leaf.name.endswith("mask")}
    assert mask == 0.0


def test_a_primitive_without_a_rule_is_shown_with_its_line() -> None:
    plan = search(subjects.unknown_primitive, "auto", "x=2,y=4", "fast").plan
    assert plan is not None
    (fallback,) = plan.fallbacks
    assert fallback.kind == "running_sum_of_ours"
    assert fallback.source.startswith("subjects.py:")
    assert "running_sum_of_ours" in fallback.reason


def test_one_device_needs_no_collective() -> None:
    _, found, args = planner(subjects.handed_through)
    result = found.find(topology("cpu:1"), Question())
    assert result.plan is not None
    assert result.plan.stages[0].collectives == ()
    ran = run(subjects.handed_through, "auto", "", cluster="cpu:1")
    ran.checked.require()
    assert ran.comparison.rows == ()
    assert len(ran.program.mesh.devices.flat) == 1
    assert args
