"""The solver against brute force, on random small problems of every awkward kind."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shardwright.solver.brute import solve_brute_force
from shardwright.solver.graph import FORBIDDEN, StrategyGraph
from shardwright.solver.solution import Reason
from shardwright.solver.solve import solve, solve_exact
from tests.conformance.solver_cases import awkward_graph, judge

CASES = 400


def random_graph(seed: int) -> StrategyGraph:
    """Up to six nodes; some have one strategy, some edges are parallel, some lives are empty."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 7))
    sizes = rng.integers(1, 5, size=count)
    scale = 10.0 ** int(rng.integers(-6, 4))
    node_costs = tuple(rng.integers(0, 9, size=size) * scale for size in sizes)
    usages = tuple(rng.integers(0, 6, size=size).astype(np.int64) for size in sizes)
    starts = rng.integers(0, 5, size=count)
    intervals = tuple((int(lo), int(lo + rng.integers(-1, 4))) for lo in starts)
    num_edges = int(rng.integers(0, 2 * count)) if count > 1 else 0
    edges, edge_costs = [], []
    for _ in range(num_edges):
        u, v = (int(end) for end in rng.choice(count, size=2, replace=False))
        matrix = rng.integers(0, 9, size=(sizes[u], sizes[v])) * scale
        matrix[rng.random(matrix.shape) < 0.2] = FORBIDDEN
        edges.append((u, v))
        edge_costs.append(matrix)
    limit = int(rng.integers(0, 14)) if rng.random() < 0.6 else None
    return StrategyGraph(
        node_costs=node_costs,
        usages=usages,
        intervals=intervals,
        edges=tuple(edges),
        edge_costs=tuple(edge_costs),
        usage_limit=limit,
    )


@pytest.mark.parametrize("block", range(8))
def test_equal_to_brute_force(block: int) -> None:
    for seed in range(block, CASES, 8):
        graph = random_graph(seed)
        best, found = solve_brute_force(graph), solve(graph, gap=1e-9)
        if best.choice is None:
            assert found.choice is None, seed
            assert found.termination.reason is Reason.INFEASIBLE, seed
            if best.shortfall is not None:
                assert found.shortfall is not None, seed
                assert found.shortfall.size_bytes == best.shortfall.size_bytes, seed
            continue
        assert found.choice is not None, seed
        assert found.cost == pytest.approx(best.cost, rel=1e-9), seed
        assert graph.fits(found.choice), seed
        assert graph.evaluate(found.choice) == pytest.approx(found.cost), seed
        assert found.lower_bound <= best.cost * (1 + 1e-9), seed
        assert found.termination.reason is Reason.OPTIMAL, seed


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 10))]
)
def test_five_thousand_graphs_of_up_to_fourteen_nodes(block: int) -> None:
    for seed in range(block, 5000, 10):
        graph = awkward_graph(seed)
        best, found = judge(graph), solve(graph, gap=1e-9)
        if best.cost is None:
            assert found.choice is None, seed
            assert found.termination.reason is Reason.INFEASIBLE, seed
            missing = None if found.shortfall is None else found.shortfall.size_bytes
            assert missing == best.overshoot, seed
            continue
        assert found.choice is not None, seed
        assert graph.fits(found.choice), seed
        assert float(found.cost) == pytest.approx(best.cost, rel=1e-9, abs=1e-12), seed
        assert found.lower_bound <= best.cost * (1 + 1e-9), seed


def test_the_integer_program_alone_is_exact_too() -> None:
    for seed in range(300):
        graph = awkward_graph(seed)
        best, found = judge(graph), solve_exact(graph)
        if best.cost is None:
            assert found.termination.reason is Reason.INFEASIBLE, seed
            continue
        assert float(found.cost) == pytest.approx(best.cost, rel=1e-9, abs=1e-12), seed
        assert found.termination.reason is Reason.OPTIMAL, seed


def test_the_awkward_graphs_are_of_every_kind() -> None:
    graphs = [awkward_graph(seed) for seed in range(300)]
    answers = [judge(graph) for graph in graphs]
    assert any(answer.cost is None and answer.overshoot is None for answer in answers)
    assert any(answer.cost is None and answer.overshoot is not None for answer in answers)
    assert any(graph.num_nodes == 14 for graph in graphs)
    assert {graph.is_integral for graph in graphs} == {True, False}


def test_the_random_problems_are_of_every_kind() -> None:
    graphs = [random_graph(seed) for seed in range(CASES)]
    answers = [solve_brute_force(graph) for graph in graphs[:120]]
    assert any(answer.choice is None for answer in answers)
    assert any(graph.usage_limit is None for graph in graphs)
    assert any(len(set(graph.edges)) < len(graph.edges) for graph in graphs)
    assert any(lo >= hi for graph in graphs for lo, hi in graph.intervals)
    assert any(1 in graph.num_strategies for graph in graphs)


def test_a_start_is_never_made_worse() -> None:
    for seed in range(30):
        graph = random_graph(seed)
        best = solve_brute_force(graph)
        if best.choice is not None:
            again = solve(graph, start=best.choice)
            assert again.cost == pytest.approx(best.cost, rel=1e-4)


def test_the_same_seed_gives_the_same_answer() -> None:
    graph = random_graph(17)
    assert solve(graph, seed=3) == solve(graph, seed=3)


def test_integer_totals_beyond_floats_are_exact() -> None:
    big = 2**53
    graph = StrategyGraph(
        node_costs=(np.array([big + 1, big + 3]), np.array([1, 2])),
        usages=(np.array([0, 0]), np.array([0, 0])),
        intervals=((0, 1), (0, 1)),
    )
    assert graph.evaluate((0, 0)) == big + 2
    assert isinstance(graph.evaluate((0, 0)), int)


def test_a_forbidden_choice_costs_infinity_and_no_sum_is_spoilt() -> None:
    graph = StrategyGraph(
        node_costs=(np.array([1.0, 2.0]), np.array([1.0, 2.0])),
        usages=(np.array([0, 0]), np.array([0, 0])),
        intervals=((0, 0), (0, 0)),
        edges=((0, 1),),
        edge_costs=(np.array([[FORBIDDEN, 1.0], [FORBIDDEN, FORBIDDEN]]),),
    )
    assert graph.evaluate((0, 0)) == FORBIDDEN
    found = solve(graph)
    assert (found.choice, found.cost) == ((0, 1), 4.0)
    assert not math.isnan(found.gap)
