"""Recipes keep their promises, refuse with a reason, and never beat the free search."""

from __future__ import annotations

import pytest

from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.errors import UsageError
from shardwright.ir import Role
from shardwright.plan import Plan
from shardwright.search.find import Question
from shardwright.search.intra import Effort
from shardwright.search.labels import DimLabel
from shardwright.search.recipes import recipe_names
from shardwright.search.result import Outcome, SearchResult
from shardwright.sharding import CollectiveKind, Sharding
from tests.unit.search.subjects import SUBJECTS, planner_of

CLUSTER = topology("8xH100")
FLAT, GRID = Mesh.of(x=8), Mesh.of(x=2, y=4)


def search(name: str, method: str, mesh: Mesh) -> SearchResult:
    question = Question(method=method, meshes=(mesh,), effort=Effort(gap=1e-3))
    return planner_of(name).find(CLUSTER, question)


def plan_of(name: str, method: str, mesh: Mesh) -> Plan:
    result = search(name, method, mesh)
    assert result.plan is not None, result.detail
    return result.plan


def shardings(plan: Plan, name: str, role: Role) -> dict[str, Sharding]:
    graph = planner_of(name).folded.graph
    return {
        graph.tensor(i).name: plan.stages[0].sharding_of[i]
        for i in graph.inputs
        if graph.tensor(i).role is role and graph.tensor(i).rank
    }


def kinds(plan: Plan) -> set[str]:
    return {collective.kind for collective in plan.stages[0].collectives}


@pytest.mark.parametrize(
    "mesh", [FLAT, pytest.param(GRID, marks=pytest.mark.slow)], ids=["x=8", "x=2,y=4"]
)
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_free_search_is_never_worse_than_a_recipe(name: str, mesh: Mesh) -> None:
    auto = search(name, "auto", mesh)
    assert auto.outcome is Outcome.OPTIMAL
    for recipe in recipe_names():
        result = search(name, recipe, mesh)
        if result.plan is None:
            assert result.outcome is Outcome.REFUSED
            assert result.detail
        else:
            assert auto.objective_s <= result.objective_s * (1 + 1e-3)
            assert result.lower_bound_s <= result.objective_s * (1 + 1e-9)


def test_data_parallel_copies_state_and_cuts_the_batch() -> None:
    plan = plan_of("gpt", "data-parallel", FLAT)
    for role in (Role.PARAMETER, Role.OPTIMIZER_STATE):
        assert all(s.is_replicated for s in shardings(plan, "gpt", role).values())
    assert all(s.dims[0] == ("x",) for s in shardings(plan, "gpt", Role.BATCH).values())
    assert kinds(plan) == {CollectiveKind.ALL_REDUCE}


def test_zero_stages_cut_one_thing_more_each() -> None:
    cut = {
        stage: {
            role: any(s.axes for s in shardings(plan, "gpt", role).values())
            for role in (Role.PARAMETER, Role.OPTIMIZER_STATE)
        }
        for stage in (1, 2, 3)
        for plan in [plan_of("gpt", f"zero-{stage}", FLAT)]
    }
    assert cut == {
        1: {Role.PARAMETER: False, Role.OPTIMIZER_STATE: True},
        2: {Role.PARAMETER: False, Role.OPTIMIZER_STATE: True},
        3: {Role.PARAMETER: True, Role.OPTIMIZER_STATE: True},
    }
    assert CollectiveKind.REDUCE_SCATTER not in kinds(plan_of("gpt", "zero-1", FLAT))
    assert CollectiveKind.REDUCE_SCATTER in kinds(plan_of("gpt", "zero-2", FLAT))


def test_hybrid_sharding_cuts_state_over_the_inner_axis_alone() -> None:
    plan = plan_of("gpt", "hsdp", GRID)
    axes = {axis for s in shardings(plan, "gpt", Role.PARAMETER).values() for axis in s.axes}
    assert axes == {"y"}
    assert all(s.dims[0] == ("x", "y") for s in shardings(plan, "gpt", Role.BATCH).values())


@pytest.mark.parametrize("name", ["gpt", "llama-scan"])
def test_megatron_cuts_weights_and_reduces_twice_a_layer(name: str) -> None:
    plan = plan_of(name, "megatron", GRID)
    weights = {n: s for n, s in shardings(plan, name, Role.PARAMETER).items() if s.rank > 1}
    matrices = {n: s for n, s in weights.items() if ".w" in n or ".up" in n or ".down" in n}
    assert matrices
    assert all("y" in s.axes for s in matrices.values())
    labels = planner_of(name).labels
    graph = planner_of(name).folded.graph
    for batch in (i for i in graph.inputs if graph.tensor(i).role is Role.BATCH):
        assert "y" not in plan.stages[0].sharding_of[batch].axes
    assert labels.has(DimLabel.SEQUENCE)


def test_the_stream_is_what_residual_blocks_hand_on() -> None:
    planner = planner_of("llama-scan")
    streams = {
        tensor.tensor.name.removeprefix("state.params."): labels.index(DimLabel.STREAM)
        for tensor, labels in zip(planner.folded.tensors, planner.labels.tensors, strict=True)
        if tensor.is_input and tensor.tensor.role is Role.PARAMETER and tensor.tensor.rank > 1
        if DimLabel.STREAM in labels
    }
    assert streams == {
        "embed": 1,
        "head": 0,
        **dict.fromkeys((f"blocks.attention.{name}" for name in ("wq", "wk", "wv")), 1),
        "blocks.attention.wo": 3,
        **dict.fromkeys((f"blocks.ffn.{name}" for name in ("gate", "up")), 1),
        "blocks.ffn.down": 2,
        "blocks.attention_norm.scale": 1,
    }


@pytest.mark.parametrize("name", ["gpt", "llama-scan"])
def test_tensor_parallelism_reduces_twice_a_layer_each_way_and_cuts_no_stream(name: str) -> None:
    plan = plan_of(name, "tensor", FLAT)
    folded, labels = planner_of(name).folded, planner_of(name).labels
    for tensor in folded.tensors:
        sharding = plan.stages[0].sharding_of.get(tensor.tensor.id)
        for dim, label in enumerate(labels.tensors[tensor.index] if sharding else ()):
            assert sharding is not None
            assert label is not DimLabel.STREAM or not sharding.dims[dim]
    moved = {c.kind for c in plan.stages[0].collectives if c.size_bytes > 4096}
    assert moved <= {CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER}


def test_parts_are_given_to_axes_in_turn() -> None:
    plan = plan_of("gpt", "zero-1+tensor", GRID)
    weights = {n: s for n, s in shardings(plan, "gpt", Role.PARAMETER).items() if s.rank > 1}
    moments = shardings(plan, "gpt", Role.OPTIMIZER_STATE)
    assert {axis for s in weights.values() for axis in s.axes} == {"y"}
    assert {axis for s in moments.values() for axis in s.axes} == {"x", "y"}
    batch = shardings(plan, "gpt", Role.BATCH)
    assert all(s.dims[0] == ("x",) for s in batch.values())


def test_context_parallelism_cuts_the_sequence_and_moves_keys() -> None:
    plan = plan_of("gpt", "data+context", GRID)
    assert all(s.dims == (("x",), ("y",)) for s in shardings(plan, "gpt", Role.BATCH).values())
    over_context = {c.kind for c in plan.stages[0].collectives if c.axes == ("y",)}
    assert CollectiveKind.ALL_GATHER in over_context
    assert all(s.is_replicated for s in shardings(plan, "gpt", Role.PARAMETER).values())


def test_expert_parallel_cuts_the_experts() -> None:
    plan = plan_of("moe-gshard", "expert-parallel", GRID)
    labels, folded = planner_of("moe-gshard").labels, planner_of("moe-gshard").folded
    found = 0
    for tensor in folded.tensors:
        if tensor.is_input and DimLabel.EXPERT in labels.tensors[tensor.index]:
            dim = labels.tensors[tensor.index].index(DimLabel.EXPERT)
            assert plan.stages[0].sharding_of[tensor.tensor.id].dims[dim] == ("y",)
            found += 1
    assert found >= 2


@pytest.mark.parametrize(
    ("name", "method", "mesh", "reason"),
    [
        (
            "gpt",
            "hsdp",
            FLAT,
            "hsdp copies state over one axis and cuts it over another; the mesh x=8 has 1",
        ),
        (
            "gpt",
            "expert-parallel",
            FLAT,
            "the step has no experts: no contraction keeps a weight's dim",
        ),
        ("gpt", "data-parallel", Mesh.of(x=3), "the batch of 16 does not divide by 3"),
        ("mlp", "megatron", Mesh.of(x=7), "no weight has a dim that divides by 7"),
        ("mlp", "context", FLAT, "the step has no sequence: no batch input of tokens"),
        (
            "gpt",
            "zero-1+tensor",
            FLAT,
            '"zero-1+tensor" has 2 parts, one for each axis; the mesh x=8 has 1',
        ),
    ],
)
def test_refusals_say_why(name: str, method: str, mesh: Mesh, reason: str) -> None:
    result = search(name, method, mesh)
    assert (result.outcome, result.detail) == (Outcome.REFUSED, reason)


def test_an_unknown_recipe_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        search("mlp", "zero3", FLAT)
    assert str(caught.value) == (
        '"zero3" is not a method or recipe\n  try    did you mean "zero-3" or "zero-2" or "zero-1"?'
    )


def test_an_unknown_part_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        search("mlp", "zero-1+tensr", GRID)
    assert str(caught.value) == (
        '"tensr" of "zero-1+tensr" is not a part that an axis can play\n'
        '  try    did you mean "tensor" or "tensor-sp"?'
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt", {DimLabel.BATCH, DimLabel.SEQUENCE, DimLabel.STREAM}),
        ("mlp", {DimLabel.BATCH}),
        ("resnet", {DimLabel.BATCH, DimLabel.STREAM}),
        ("moe-gshard", set(DimLabel)),
        ("moe-ragged", set(DimLabel)),
    ],
)
def test_labels_are_found_where_they_are(name: str, expected: set[DimLabel]) -> None:
    labels = planner_of(name).labels
    assert {label for label in DimLabel if labels.has(label)} == expected
