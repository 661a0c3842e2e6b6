"""The judge of the bench against the solver's own evaluation: two programs, one answer."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from bench.contest_judge import cost_of
from bench.solver_cases import hard_case
from shardwright.solver import FORBIDDEN, StrategyGraph
from shardwright.solver.contest import contest_document
from tests.conformance.solver_cases import awkward_graph


def judged(problem: dict[str, Any], choice: tuple[int, ...]) -> float:
    """The judge's cost, infinite where it refuses."""
    try:
        return cost_of(problem, choice)
    except ValueError:
        return FORBIDDEN


def test_both_say_the_same_of_any_choice() -> None:
    refused = allowed = 0
    for seed in range(150):
        graph = awkward_graph(seed)
        problem = contest_document(graph)["problem"]
        rng = np.random.default_rng(seed)
        for _ in range(20):
            choice = tuple(int(rng.integers(size)) for size in graph.num_strategies)
            want = graph.evaluate(choice) if graph.fits(choice) else FORBIDDEN
            assert judged(problem, choice) == pytest.approx(want), seed
            refused += want == FORBIDDEN
            allowed += want != FORBIDDEN
    assert min(refused, allowed) > 300


def test_totals_beyond_64_bits_are_exact() -> None:
    nodes = 40
    graph = StrategyGraph(
        node_costs=(np.array([10**18 - 1]),) * nodes,
        usages=(np.array([0]),) * nodes,
        intervals=((0, 1),) * nodes,
    )
    want = nodes * (10**18 - 1)
    assert want > 2**63
    assert graph.evaluate((0,) * nodes) == want
    assert cost_of(contest_document(graph)["problem"], (0,) * nodes) == want


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ((0,), "1 strategies for 2 nodes"),
        ((0, 2), "a strategy that a node does not have"),
        ((0, -1), "a strategy that a node does not have"),
        ((1, 1), "120 bytes at time 3; the limit is 100"),
        ((1, 0), "a choice that is forbidden"),
    ],
)
def test_it_refuses_what_is_no_answer(choice: tuple[int, ...], text: str) -> None:
    graph = StrategyGraph(
        node_costs=(np.array([1, 2]), np.array([1, 2])),
        usages=(np.array([10, 60]), np.array([20, 60])),
        intervals=((0, 5), (3, 9)),
        edges=((0, 1),),
        edge_costs=(np.array([[0, 0], [10**18, 0]]),),
        usage_limit=100,
    )
    with pytest.raises(ValueError, match=text):
        cost_of(contest_document(graph)["problem"], choice)


def test_the_peak_is_the_same_at_every_limit() -> None:
    graph = hard_case(nodes=12, strategies=3)
    problem = contest_document(graph)["problem"]
    for choice in itertools.islice(itertools.product(range(3), repeat=12), 0, 3**12, 6000):
        peak = graph.peak_usage(choice)[0]
        cost_of({**problem, "usage_limit": peak}, choice)
        with pytest.raises(ValueError, match=f"{peak} bytes at time"):
            cost_of({**problem, "usage_limit": peak - 1}, choice)
