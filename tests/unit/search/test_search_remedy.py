"""Remedies are true: what is told to fit does fit, and what is smaller does not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology as parse_topology
from shardwright.ir import parse_graph
from shardwright.search.constraints import Constraint
from shardwright.search.find import Planner, Question
from shardwright.search.remedy import smallest_changes
from shardwright.sharding import Sharding
from shardwright.units import parse_bytes
from tests.e2e.graphs import TINY

TOPOLOGY = parse_topology("8xH100")
WHOLE_BYTES = (64 * 32 + 16 * 64 + 16 * 32) * 4
X8 = (Mesh.of(x=8),)


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner.of(parse_graph(TINY))


def remedies(planner: Planner, question: Question) -> tuple[str, ...]:
    result = planner.find(TOPOLOGY, question)
    assert result.plan is None
    return smallest_changes(planner, TOPOLOGY, question, result)


def test_a_plan_needs_no_remedy(planner: Planner) -> None:
    result = planner.find(TOPOLOGY, Question(meshes=X8))
    assert smallest_changes(planner, TOPOLOGY, Question(meshes=X8), result) == ()


def test_a_refused_recipe_has_no_remedy_of_memory(planner: Planner) -> None:
    assert remedies(planner, Question(method="expert-parallel", meshes=X8)) == ()


def test_the_memory_told_fits_and_less_does_not(planner: Planner) -> None:
    question = Question(meshes=X8, budget_bytes=1024)
    (text,) = (t for t in remedies(planner, question) if "per device" in t)
    told = re.match(r"(\S+ \w+) per device, (\S+ \w+) more$", text)
    assert told is not None
    budget_bytes = parse_bytes(told[1])
    assert parse_bytes(told[2]) == pytest.approx(budget_bytes - 1024, abs=16)
    enough = replace(question, budget_bytes=budget_bytes + 16)  # The text is rounded.
    assert planner.find(TOPOLOGY, enough).plan is not None
    less = replace(question, budget_bytes=int(budget_bytes * 0.9))
    assert planner.find(TOPOLOGY, less).plan is None


def test_the_devices_told_suffice(planner: Planner) -> None:
    least_bytes = WHOLE_BYTES // 8
    texts = remedies(planner, Question(budget_bytes=least_bytes - 64))
    (text,) = (t for t in texts if "devices instead of 8" in t)
    told = re.match(r"(\d+) devices instead of 8, mesh (.+)$", text)
    assert told is not None
    bigger = parse_topology(f"{told[1]}xH100")
    assert planner.find(bigger, Question(budget_bytes=least_bytes - 64)).plan is not None


def test_a_recipe_gives_way_where_another_layout_fits(planner: Planner) -> None:
    question = Question(method="data-parallel", meshes=X8, budget_bytes=64 * 32 * 4)
    assert 'method "auto" instead of "data-parallel"' in remedies(planner, question)


def test_a_constraint_gives_way_where_another_layout_fits(planner: Planner) -> None:
    fixed = Constraint(pattern="params.w", sharding=Sharding.of(None, None))
    question = Question(constraints=(fixed,), meshes=X8, budget_bytes=64 * 32 * 4)
    assert "no constraints" in remedies(planner, question)


def test_a_mesh_gives_way_where_another_fits(planner: Planner) -> None:
    question = Question(meshes=(Mesh.of(x=2),), budget_bytes=WHOLE_BYTES // 3)
    assert any(re.match(r"the mesh .+ instead of x=2$", t) for t in remedies(planner, question))


def test_a_budget_beyond_the_device_names_the_device(planner: Planner) -> None:
    question = Question(meshes=X8)
    small = replace(TOPOLOGY, device=replace(TOPOLOGY.device, memory_bytes=1536), reserve_bytes=512)
    result = planner.find(small, question)
    texts = smallest_changes(planner, small, question, result)
    assert any(re.search(r"more \(devices of \S+ \w+ and more\)$", t) for t in texts)


def test_no_time_no_remedy(planner: Planner) -> None:
    question = Question(meshes=X8, budget_bytes=1024)
    result = planner.find(TOPOLOGY, question)
    assert smallest_changes(planner, TOPOLOGY, question, result, time_limit_s=-1.0) == ()
