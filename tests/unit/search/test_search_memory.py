"""Budgets are kept, shortages are described, and tighter never means faster."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import pytest

from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.cluster.place import place
from shardwright.cost.estimate import estimate
from shardwright.search.build import build_space
from shardwright.search.find import Planner, Question
from shardwright.search.intra import Effort, solve_mesh
from shardwright.search.masks import everything
from shardwright.search.memory import MemoryView
from shardwright.search.result import Outcome
from tests.unit.search.subjects import planner_of

CLUSTER = topology("8xH100")
MESH = Mesh.of(x=2, y=4)


@pytest.mark.slow
def test_a_budget_is_kept_and_a_tighter_one_is_never_faster() -> None:
    planner = planner_of("gpt-scan-remat")
    times = []
    effort = Effort(gap=2e-2, time_limit_s=30.0)
    free = planner.find(CLUSTER, Question(meshes=(MESH,), effort=effort))
    peak = free.candidates[0].peak_bytes
    for share in (1.0, 0.7):
        budget = int(peak * share)
        question = Question(meshes=(MESH,), budget_bytes=budget, effort=effort)
        result = planner.find(CLUSTER, question)
        assert result.plan is not None
        assert result.candidates[0].peak_bytes <= budget
        found = estimate(result.plan, planner.folded.graph, CLUSTER)
        assert found.memory.peak_bytes <= budget * 1.05
        assert result.lower_bound_s <= result.objective_s
        times.append(result.objective_s)
    assert all(later >= earlier * (1 - 2e-2) for earlier, later in itertools.pairwise(times))


def test_what_cannot_fit_says_what_is_short() -> None:
    result = planner_of("gpt").find(CLUSTER, Question(meshes=(MESH,), budget_bytes=10_000))
    assert result.outcome is Outcome.DOES_NOT_FIT
    assert result.plan is None
    shortage = result.shortage
    assert shortage is not None
    assert shortage.needed_bytes > shortage.budget_bytes == 10_000
    assert shortage.short_bytes == shortage.needed_bytes - 10_000
    sizes = [size for _, size in shortage.largest]
    assert sizes == sorted(sizes, reverse=True)
    assert shortage.moment


def test_the_choice_is_the_best_of_all_choices() -> None:
    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w).sum()

    f32 = jnp.float32
    graph = capture(
        step, jax.ShapeDtypeStruct((1024, 512), f32), jax.ShapeDtypeStruct((512, 256), f32)
    ).graph
    planner = Planner.of(graph)
    space = build_space(planner.folded, planner.lead, planner.storage, place(Mesh.of(x=4), CLUSTER))
    best = min(
        sum(costs[pick] for costs, pick in zip(space.node_costs, choice, strict=True))
        + sum(matrix[choice[u], choice[v]] for (u, v), matrix in space.edge_costs.items())
        for choice in itertools.product(*(range(size) for size in space.sizes))
    )
    memory = MemoryView.of(space, planner.storage)
    answer = solve_mesh(space, memory, everything(space.sizes), 1 << 40, Effort())
    assert answer.objective_s == pytest.approx(best)


def test_the_gap_counts_every_mesh_that_was_searched() -> None:
    result = planner_of("mlp").find(CLUSTER, Question())
    least = min(candidate.lower_bound_s for candidate in result.candidates)
    assert result.lower_bound_s == pytest.approx(min(least, result.objective_s))
    assert result.gap == pytest.approx(
        max(0.0, result.objective_s - result.lower_bound_s) / result.objective_s
    )


def test_meshes_without_time_are_listed() -> None:
    effort = Effort(total_time_s=0.0)
    meshes = (Mesh.of(x=8), MESH)
    result = planner_of("mlp").find(CLUSTER, Question(meshes=meshes, effort=effort))
    assert [c.outcome for c in result.candidates][1:] == [Outcome.NOT_SEARCHED]
    assert result.plan is not None
    assert result.plan.provenance.notes[0] == (
        "1 meshes were not searched to the end for want of time: x=2,y=4"
    )
