"""A reduced problem has the same best cost, and its choices come back as choices of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from shardwright.solver import StrategyGraph
from shardwright.solver.arrays import Flat, Ints, flatten
from shardwright.solver.bridge import bridged
from shardwright.solver.consistency import consistent
from shardwright.solver.dominance import undominated
from shardwright.solver.messages import cost_of, slack_of
from shardwright.solver.rebuild import rebuild
from shardwright.solver.reduce import Reduced, affordable, kept, reduced
from tests.conformance.solver_cases import awkward_graph, judge

SEEDS = range(250)


def reduced_form(graph: StrategyGraph) -> Reduced:
    flat, times = flatten(graph)
    return reduced(flat, np.array(times, dtype=np.int64))


def choices_of(flat: Flat) -> Ints:
    """Every choice of a small problem, one per row."""
    sizes = np.diff(flat.nodes.first)
    if not len(sizes):
        return np.zeros((1, 0), np.int64)
    return np.indices(sizes).reshape(len(sizes), -1).T.astype(np.int64)


def best_of(flat: Flat) -> tuple[float, Ints | None]:
    """The cheapest choice that fits, by trying all."""
    best, found = np.inf, None
    for choice in choices_of(flat):
        cost = cost_of(flat, choice)
        if cost < best and np.all(slack_of(flat, choice) >= 0):
            best, found = cost, choice
    return best, found


@pytest.mark.parametrize("block", range(5))
def test_the_best_choice_of_the_reduced_problem_is_the_best_of_the_whole(block: int) -> None:
    for seed in SEEDS[block::5]:
        graph = awkward_graph(seed)
        small, best = reduced_form(graph), judge(graph)
        if small.is_infeasible:
            assert best.cost is None, seed
            continue
        cost, choice = best_of(small.flat)
        if best.cost is None:
            assert choice is None, seed
            continue
        assert choice is not None, seed
        whole = tuple(small.restore(choice).tolist())
        assert graph.fits(whole), seed
        assert cost + small.offset == pytest.approx(best.cost, rel=1e-9, abs=1e-12), seed
        assert float(graph.evaluate(whole)) == pytest.approx(best.cost, rel=1e-9, abs=1e-12), seed


def test_every_choice_of_the_reduced_problem_costs_the_same_in_the_whole() -> None:
    for seed in SEEDS:
        graph = awkward_graph(seed)
        small = reduced_form(graph)
        if small.is_infeasible:
            continue
        for choice in choices_of(small.flat)[:20]:
            whole = tuple(small.restore(choice.copy()).tolist())
            cost = cost_of(small.flat, choice) + small.offset
            assert float(graph.evaluate(whole)) == pytest.approx(cost, rel=1e-9, abs=1e-12), seed
            assert graph.fits(whole) == bool(np.all(slack_of(small.flat, choice) >= 0)), seed


def test_most_small_problems_are_decided_by_reduction_alone() -> None:
    left = [len(reduced_form(awkward_graph(seed)).flat.nodes.cost) for seed in SEEDS]
    assert sum(count == 0 for count in left) > len(left) / 3


def line(*, forbids: bool = False, usages: int = 0) -> Flat:
    """Three nodes in a row: a middle one between two ends."""
    rng = np.random.default_rng(0)
    matrix = np.array([[0.0, np.inf], [np.inf, 0.0]]) if forbids else rng.random((2, 2))
    graph = StrategyGraph(
        node_costs=(np.array([1.0, 2.0]), np.array([0.5, 0.1]), np.array([3.0, 0.0])),
        usages=tuple(np.array([0, usages]) for _ in range(3)),
        intervals=((0, 2), (0, 2), (1, 3)),
        edges=((0, 1), (1, 2)),
        edge_costs=(matrix, rng.random((2, 2))),
        usage_limit=2 * usages,
    )
    flat, _ = flatten(graph)
    every = kept(flat.nodes.first, np.ones(len(flat.nodes.cost), np.bool_))
    return rebuild(flat, every)[0]


def test_a_node_between_two_becomes_an_edge() -> None:
    flat = line()
    bare, cut = bridged(flat)
    assert cut.tolist() == [1]
    assert [(int(u), int(v)) for u, v in zip(bare.edges.u, bare.edges.v, strict=True)] == [(0, 2)]


def test_a_node_that_uses_memory_is_no_bridge() -> None:
    assert not len(bridged(line(usages=5))[1])


def test_what_no_neighbour_allows_is_dropped() -> None:
    flat = line(forbids=True)
    alive = np.ones(6, np.bool_)
    alive[0] = False
    assert consistent(flat, alive).tolist() == [False, True, False, True, True, True]


def test_what_cannot_fit_is_dropped() -> None:
    graph = StrategyGraph(
        node_costs=(np.array([1.0, 2.0]), np.array([1.0, 2.0])),
        usages=(np.array([3, 9]), np.array([4, 5])),
        intervals=((0, 2), (0, 2)),
        usage_limit=10,
    )
    flat, _ = flatten(graph)
    every = kept(flat.nodes.first, np.ones(4, np.bool_))
    assert affordable(rebuild(flat, every)[0]).tolist() == [True, False, True, True]


def test_a_dearer_strategy_that_uses_as_much_is_needless() -> None:
    graph = StrategyGraph(
        node_costs=(np.array([1.0, 2.0, 0.5]),),
        usages=(np.array([3, 3, 9]),),
        intervals=((0, 2),),
        usage_limit=10,
    )
    assert undominated(flatten(graph)[0]).tolist() == [True, False, True]


def test_what_nobody_can_avoid_is_infeasible_even_when_no_node_is_left() -> None:
    graph = StrategyGraph(
        node_costs=(np.array([1.0]), np.array([2.0])),
        usages=(np.array([6]), np.array([5])),
        intervals=((0, 2), (1, 3)),
        usage_limit=10,
    )
    small = reduced_form(graph)
    assert small.is_infeasible
    assert not len(small.flat.nodes.cost)
