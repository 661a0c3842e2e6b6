"""The search's objective, counted again from the written plan, is the same number."""

from __future__ import annotations

import numpy as np
import pytest

from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.cost.estimate import estimate
from shardwright.plan import from_json, to_json, verify_plan
from shardwright.plan.record import Provenance
from shardwright.search.assemble import assemble
from shardwright.search.find import Question
from shardwright.search.memory import MemoryView
from shardwright.search.space import Space
from tests.unit.search.subjects import MESHES, SUBJECTS, planner_of, space_of


def random_choice(space: Space, seed: int) -> tuple[int, ...]:
    rng = np.random.default_rng(seed)
    return tuple(int(rng.integers(size)) for size in space.sizes)


def objective_s(space: Space, choice: tuple[int, ...]) -> float:
    nodes = sum(costs[choice[node]] for node, costs in enumerate(space.node_costs))
    edges = sum(matrix[choice[u], choice[v]] for (u, v), matrix in space.edge_costs.items())
    return float(nodes + edges)


@pytest.mark.parametrize("cluster", ["8xH100", "cpu:8"])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", SUBJECTS)
def test_estimate_of_any_choice_is_its_objective(name: str, mesh: Mesh, cluster: str) -> None:
    space = space_of(name, mesh, cluster)
    memory = MemoryView.of(space, planner_of(name).storage)
    graph = space.folded.graph
    for seed in range(2):
        choice = random_choice(space, seed)
        plan = assemble(space, memory, choice, Provenance(method="random"))
        verify_plan(plan, graph, space.placed.topology)
        found = estimate(plan, graph, space.placed.topology)
        assert found.step_time_s == pytest.approx(objective_s(space, choice), rel=1e-6)
        parts = found.compute_time_s + found.collective_time_s
        assert found.step_time_s == pytest.approx(parts)


@pytest.mark.parametrize("name", SUBJECTS)
def test_estimate_counts_memory_as_the_search_does(name: str) -> None:
    space = space_of(name, MESHES[1])
    memory = MemoryView.of(space, planner_of(name).storage)
    for seed in range(3):
        choice = random_choice(space, seed)
        plan = assemble(space, memory, choice, Provenance(method="random"))
        found = estimate(plan, space.folded.graph, space.placed.topology)
        peak = int(memory.timeline(choice).max())
        assert found.memory.peak_bytes == pytest.approx(peak, rel=0.05)


def test_plan_of_a_search_survives_json() -> None:
    space = space_of("gpt-scan-remat", MESHES[1])
    memory = MemoryView.of(space, planner_of("gpt-scan-remat").storage)
    plan = assemble(space, memory, random_choice(space, 7), Provenance(method="random"))
    assert from_json(to_json(plan)) == plan


def test_a_layer_more_costs_as_much_as_the_layer_before() -> None:
    """A trip of a loop writes its own layer of what the loop stacks, not the whole stack."""
    machines, question = topology("8xH100"), Question(method="data-parallel", meshes=(MESHES[0],))
    time_s = {}
    for layers in (2, 4, 8):
        planner = planner_of("llama-scan", layers)
        plan = planner.find(machines, question).plan
        assert plan is not None
        time_s[layers] = estimate(plan, planner.folded.graph, machines).compute_time_s
    assert time_s[8] - time_s[4] == pytest.approx(2 * (time_s[4] - time_s[2]), rel=1e-6)
