"""The solver as a whole: limits, interruption, progress, and the same answer twice."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bench.contest_judge import cost_of
from bench.solver_cases import hard_case
from shardwright.solver import Limit, Progress, Reason, StrategyGraph, solve
from shardwright.solver.contest import contest_document
from shardwright.solver.cooling import walks

MEDIUM = {"nodes": 1500, "strategies": 14}


@pytest.fixture(scope="module")
def medium() -> StrategyGraph:
    """Too large for the integer program and for branch and bound."""
    return hard_case(**MEDIUM)


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_a_limit_of_work_gives_the_same_answer_twice(
    medium: StrategyGraph, num_threads: int
) -> None:
    first, second = (
        solve(medium, seed=5, num_threads=num_threads, work_limit=100_000_000) for _ in range(2)
    )
    assert first == second
    assert first.termination.limit is Limit.WORK
    document = contest_document(medium)["problem"]
    assert first.choice is not None
    assert cost_of(document, first.choice) == first.cost
    assert first.lower_bound <= first.cost


def test_more_work_is_never_worse(medium: StrategyGraph) -> None:
    little = solve(medium, work_limit=20_000_000)
    much = solve(medium, work_limit=200_000_000)
    assert much.cost <= little.cost
    assert much.gap < 0.2


def test_progress_only_improves(medium: StrategyGraph) -> None:
    seen: list[Progress] = []
    solution = solve(medium, work_limit=100_000_000, progress=seen.append)
    costs = [p.cost for p in seen if p.cost is not None]
    bounds = [p.lower_bound for p in seen]
    assert costs == sorted(costs, reverse=True)
    assert bounds == sorted(bounds)
    assert costs[-1] == pytest.approx(float(solution.cost))
    assert all(p.seconds >= 0.0 for p in seen)


def test_interrupted_it_returns_its_best(medium: StrategyGraph) -> None:
    def stop_at_the_third(progress: Progress) -> None:
        if progress.cost is not None:
            costs.append(progress.cost)
        if len(costs) == 3:
            raise KeyboardInterrupt

    costs: list[float] = []
    solution = solve(medium, time_limit_s=60.0, progress=stop_at_the_third)
    assert solution.termination.reason is Reason.FEASIBLE
    assert solution.termination.limit is Limit.INTERRUPT
    assert solution.choice is not None
    assert medium.fits(solution.choice)


def test_a_limit_of_time_is_kept_and_says_so(medium: StrategyGraph) -> None:
    solution = solve(medium, time_limit_s=1.0, gap=0.0)
    assert solution.termination.limit is Limit.TIME
    assert solution.choice is not None


def test_small_problems_are_proven() -> None:
    solution = solve(hard_case(nodes=120, strategies=4), time_limit_s=60.0)
    assert solution.termination.reason is Reason.OPTIMAL
    assert solution.gap <= 1e-4


def test_a_start_that_is_better_is_kept() -> None:
    graph = hard_case(nodes=300, strategies=8)
    good = solve(graph, work_limit=400_000_000)
    assert good.choice is not None
    again = solve(graph, work_limit=1, start=good.choice)
    assert again.cost <= good.cost


def test_no_nodes_cost_nothing() -> None:
    graph = StrategyGraph(node_costs=(), usages=(), intervals=())
    solution = solve(graph)
    assert (solution.choice, solution.cost) == ((), 0)
    assert solution.termination.reason is Reason.OPTIMAL


def test_costs_near_the_largest_integers() -> None:
    big = 3 * 10**17
    graph = StrategyGraph(
        node_costs=tuple(np.array([big + i, 2 * big]) for i in range(40)),
        usages=tuple(np.array([1, 0]) for _ in range(40)),
        intervals=tuple((0, 1) for _ in range(40)),
        usage_limit=39,
    )
    solution = solve(graph)
    assert isinstance(solution.cost, int)
    assert solution.cost == graph.evaluate(solution.choice or ())
    assert solution.cost > 2**63


def test_walks_fill_the_budget_and_double() -> None:
    for share, cycle, threads in ((0.1, 0.02, 2), (0.3, 5.0, 1), (0.0, 0.3, 4)):
        lanes = walks(share, cycle, threads)
        assert len(lanes) == threads
        for lane in lanes:
            assert lane[-1].end == pytest.approx(1.0)
            assert all(a.end == b.begin for a, b in pairwise(lane))
            lengths = [cooling.end - cooling.begin for cooling in lane[1:]]
            assert lengths == sorted(lengths)


def test_a_budget_that_is_spent_leaves_no_walk() -> None:
    assert walks(1.5, 0.1, 1)[0][0].end == pytest.approx(1.5)


@pytest.mark.slow
def test_a_million_strategies() -> None:
    graph = hard_case(nodes=50_000, strategies=20, tightness=0.5)
    assert sum(graph.num_strategies) == 1_000_000
    solution = solve(graph, time_limit_s=25.0)
    assert solution.choice is not None
    assert graph.fits(solution.choice)
