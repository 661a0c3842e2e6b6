"""Work of whole steps: shares of devices, a step written twice, collectives as planned."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.cost.estimate import estimate
from shardwright.cost.purpose import Purpose
from shardwright.cost.workload import Segment, Workload, workload_of
from shardwright.ir import Graph
from shardwright.plan import Plan
from shardwright.search.find import Planner, Question
from tests.unit.cost.test_cost_passes import GPT, graph_of

MACHINES = topology("8xH100")


@cache
def planned(recipe: str, mesh: Mesh, family: str = "gpt", **sizes: Any) -> tuple[Plan, Graph]:
    graph = graph_of(family, **sizes)
    plan = Planner.of(graph).find(MACHINES, Question(method=recipe, meshes=(mesh,))).plan
    assert plan is not None
    return plan, graph


@cache
def work_of(recipe: str, mesh: Mesh, **sizes: Any) -> Workload:
    plan, graph = planned(recipe, mesh, **{**GPT, "optimizer": "adam", "fused": True, **sizes})
    return workload_of(plan, graph, MACHINES)


def total(work: Workload) -> float:
    return float((work.products.runs * work.products.flops).sum())


@pytest.mark.parametrize("ways", [2, 4])
@pytest.mark.parametrize("recipe", ["data", "zero-3", "tensor"])
def test_devices_share_the_layers_arithmetic_evenly(recipe: str, ways: int) -> None:
    cut, whole = work_of(recipe, Mesh.of(x=ways), scan=True), work_of("data", Mesh.of(), scan=True)
    for segment in (Segment.LAYER_FORWARD, Segment.LAYER_BACKWARD):
        mine, all_of_it = (
            (work.products.runs * work.products.flops)[work.products.segment == segment].sum()
            for work in (cut, whole)
        )
        assert mine * ways == all_of_it
    assert cut.traffic.score_bytes.sum() * ways == whole.traffic.score_bytes.sum()


@pytest.mark.parametrize(("recipe", "ways"), [("data", 4), ("tensor", 4)])
def test_a_loop_and_its_layers_one_by_one_do_the_same_work(recipe: str, ways: int) -> None:
    loop, line = (work_of(recipe, Mesh.of(x=ways), scan=scan) for scan in (True, False))
    assert (loop.layers, line.layers) == (2, 1)
    assert (loop.head_dim, line.head_dim) == (4, 4)
    assert total(loop) == total(line)
    attention = [(w.products.runs * w.products.score_bytes).sum() for w in (loop, line)]
    assert attention[0] == attention[1]
    assert not np.isin(line.products.segment, (Segment.OUTER_FORWARD, Segment.OUTER_BACKWARD)).any()


def test_a_loop_sums_its_activations_as_often_as_layers_one_by_one() -> None:
    loop, line = (
        work_of("tensor", Mesh.of(x=4), scan=scan).collective_s[Purpose.ACTIVATION]
        for scan in (True, False)
    )
    forward, backward = np.array(
        [[s, s + 2] for s in (Segment.LAYER_FORWARD, Segment.LAYER_BACKWARD)]
    )
    assert loop[forward].sum() == pytest.approx(line[forward].sum(), rel=0.05)
    assert loop[backward].sum() == pytest.approx(line[backward].sum(), rel=0.05)


@pytest.mark.parametrize(
    ("family", "recipe", "shared"),
    [
        ("mlp", "data", 0),
        ("mlp", "tensor", 0),
        ("mlp", "zero-1", 0),
        ("mlp", "zero-2", 0),
        # A weight that two products read is gathered for both at once.
        ("mlp", "zero-3", 1),
        ("gpt", "data", 0),
        ("gpt", "zero-2", 0),
    ],
)
def test_collectives_take_what_the_estimate_says_but_shared_ones_go_once(
    family: str, recipe: str, shared: int
) -> None:
    sizes = {**GPT, "scan": True} if family == "gpt" else {}
    plan, graph = planned(recipe, Mesh.of(x=8), family, optimizer="adam", **sizes)
    priced = estimate(plan, graph, MACHINES).collectives
    once = {
        (p.planned.kind, p.planned.axes, p.planned.tensor_id, p.planned.size_bytes): p.time_s
        for p in priced
    }
    assert len(priced) - len(once) == shared
    work = workload_of(plan, graph, MACHINES)
    assert work.collective_s.sum() == pytest.approx(sum(once.values()))


def test_a_step_without_attention_has_no_scores() -> None:
    plan, graph = planned("data", Mesh.of(x=8), "mlp", optimizer="sgd")
    work = workload_of(plan, graph, MACHINES)
    assert (work.layers, work.head_dim) == (1, 0)
    assert not work.products.is_attention.any()
    assert work.traffic.score_bytes.sum() == 0
    assert work.traffic.fused_bytes[Segment.UPDATE] > 0
    assert work.collective_s[Purpose.GRADIENT].sum() > 0


def test_a_function_without_products_has_no_rows() -> None:
    graph = capture(lambda x: jnp.sum(jnp.tanh(x)), jnp.ones((8, 8))).graph
    plan = Planner.of(graph).find(MACHINES, Question(method="auto", meshes=(Mesh.of(x=8),))).plan
    assert plan is not None
    work = workload_of(plan, graph, MACHINES)
    assert len(work.products.runs) == 0
    assert work.layers == 1
    assert work.traffic.eager_bytes.sum() > 0
