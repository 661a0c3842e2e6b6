"""The parts of the search, each against the plainest form of what it claims."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bench.solver_cases import hard_case
from shardwright.solver import StrategyGraph, branch
from shardwright.solver.anneal import improve
from shardwright.solver.arrays import Flat, flatten
from shardwright.solver.branch import BranchAndBound
from shardwright.solver.dual import ascend, bounds_of, new_dual, seek
from shardwright.solver.exact import solve_program
from shardwright.solver.messages import cost_of, priced, slack_of, sweep, wire
from shardwright.solver.reduce import reduced
from shardwright.solver.region import make_mates, make_region
from shardwright.solver.slack import add_span, slack_tree, tightest
from tests.conformance.solver_cases import judge


def core_of(graph: StrategyGraph) -> tuple[Flat, float]:
    flat, times = flatten(graph)
    small = reduced(flat, np.array(times, dtype=np.int64))
    return small.flat, small.offset


def hard_core(**changes: int) -> Flat:
    return core_of(hard_case(**{"nodes": 80, "strategies": 5, **changes}))[0]


def solvable(count: int) -> list[tuple[int, Flat, float, float]]:
    """Small tight graphs that reduction leaves open: seed, core, offset, best cost."""
    cases = []
    for seed in range(4 * count):
        graph = hard_case(nodes=9, strategies=3, seed=seed, tightness=0.1 + 0.05 * (seed % 9))
        flat, offset = core_of(graph)
        best = judge(graph).cost
        if best is not None and len(flat.nodes.cost):
            cases.append((seed, flat, offset, best))
        if len(cases) == count:
            return cases
    raise AssertionError(f"only {len(cases)} open cases")


@pytest.fixture(scope="module")
def open_cases() -> list[tuple[int, Flat, float, float]]:
    return solvable(80)


def test_a_bound_holds_at_any_prices_and_messages(
    open_cases: list[tuple[int, Flat, float, float]],
) -> None:
    rng = np.random.default_rng(0)
    for seed, flat, offset, best in open_cases:
        wiring = wire(flat)
        messages = rng.random(wiring.size) * abs(best)
        choice = np.zeros(len(flat.nodes.first) - 1, np.int64)
        price, over = np.zeros(len(flat.nodes.cost)), np.zeros(len(flat.nodes.cost))
        for turn in range(6):
            prices = rng.random(len(flat.limits)) * abs(best) * rng.integers(0, 2)
            given = priced(flat, prices, price)
            bound = sweep(flat, wiring, price, messages, choice, over, 1 - 2 * (turn % 2)) - given
            assert bound + offset <= best + 1e-9 * abs(best), seed


def best_with(flat: Flat) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """For each strategy the least cost of a choice with it that fits; infinite where none does."""
    first = flat.nodes.first
    best = np.full(len(flat.nodes.cost), np.inf)
    for taken in itertools.product(*(range(count) for count in np.diff(first).tolist())):
        choice = np.array(taken, dtype=np.int64)
        if (slack_of(flat, choice) >= 0).all():
            at = first[:-1] + choice
            best[at] = np.minimum(best[at], cost_of(flat, choice))
    return best


def test_a_strategys_bound_is_below_every_choice_with_it(
    open_cases: list[tuple[int, Flat, float, float]],
) -> None:
    raised = 0
    for seed, flat, _, best in open_cases[:40]:
        wiring = wire(flat)
        dual = new_dual(flat, wiring)
        for _ in range(4):
            bounds = bounds_of(flat, wiring, dual)
            assert (bounds <= best_with(flat) + 1e-9 * abs(best)).all(), seed
            raised += int((bounds > dual.bound + 1e-6 * abs(best)).sum())
            ascend(flat, wiring, dual, 10, 0.3)
    assert raised > 100


def test_prices_only_raise_the_bound_and_never_above_the_best(
    open_cases: list[tuple[int, Flat, float, float]],
) -> None:
    for seed, flat, offset, best in open_cases:
        wiring = wire(flat)
        dual = new_dual(flat, wiring)
        last = -np.inf
        for _ in range(10):
            ascend(flat, wiring, dual, 10, 0.1)
            assert dual.bound >= last, seed
            last = dual.bound
        assert dual.bound + offset <= best + 1e-9 * abs(best), seed
        if np.isfinite(dual.cost):
            assert np.all(slack_of(flat, dual.best_choice) >= 0), seed
            assert dual.cost == pytest.approx(cost_of(flat, dual.best_choice)), seed


def test_branch_and_bound_finds_the_best(
    open_cases: list[tuple[int, Flat, float, float]],
) -> None:
    for seed, flat, offset, best in open_cases:
        found: list[np.ndarray] = []
        tree = BranchAndBound(flat=flat, cost=np.inf, offer=found.append)
        tree.begin()
        while not tree.is_done:
            tree.split()
        assert tree.cost + offset == pytest.approx(best, rel=1e-9, abs=1e-12), seed
        assert tree.bound == pytest.approx(tree.cost, rel=1e-9, abs=1e-12), seed
        cheapest = min(found, key=lambda choice: cost_of(flat, choice))
        assert np.all(slack_of(flat, cheapest) >= 0), seed
        assert cost_of(flat, cheapest) == pytest.approx(tree.cost), seed


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("known", [1.0, 1.3, np.inf])
def test_branch_and_bound_never_claims_too_much(
    open_cases: list[tuple[int, Flat, float, float]],
    monkeypatch: pytest.MonkeyPatch,
    gap: float,
    known: float,
) -> None:
    """With hardly any pricing, from a cost that is none, loose or the best, to any gap."""
    monkeypatch.setattr(branch, "_TURNS", 1)
    monkeypatch.setattr(branch, "_SWEEPS", 2)
    unknown_at_a_split = 0
    for seed, flat, offset, best in open_cases:
        cost = best - offset + (known - 1.0) * abs(best)
        tree = BranchAndBound(flat=flat, cost=cost, offer=lambda _: None, gap=gap)
        tree.begin()
        while not tree.is_done:
            unknown_at_a_split += not np.isfinite(tree.cost)
            tree.split()
        slack = 1e-9 * abs(best)
        assert tree.bound + offset <= best + slack, seed
        assert tree.cost + offset <= best + gap * abs(tree.cost) + slack, seed
    assert unknown_at_a_split > 0 or np.isfinite(known)


@pytest.mark.parametrize("begin", ["cold", "from a start"])
def test_the_integer_program_finds_the_best(
    open_cases: list[tuple[int, Flat, float, float]], begin: str
) -> None:
    for seed, flat, offset, best in open_cases:
        start = None
        if begin == "from a start":
            wiring = wire(flat)
            dual = new_dual(flat, wiring)
            seek(flat, wiring, dual, 100)
            start = dual.best_choice if np.isfinite(dual.cost) else None
        result = solve_program(flat, gap=1e-9, time_limit_s=10.0, start=start)
        assert result.choice is not None, seed
        assert result.is_complete, seed
        cost = cost_of(flat, result.choice) + offset
        assert cost == pytest.approx(best, rel=1e-7, abs=1e-12), seed
        assert result.bound + offset <= best * (1 + 1e-7) + 1e-12, seed


def test_a_sweep_is_exact_on_a_tree() -> None:
    chain = hard_case(nodes=12, strategies=3, tightness=1.0)
    graph = StrategyGraph(
        node_costs=chain.node_costs,
        usages=chain.usages,
        intervals=chain.intervals,
        edges=chain.edges[:11],
        edge_costs=chain.edge_costs[:11],
    )
    whole, _ = flatten(graph)
    wiring = wire(whole)
    messages, choice = np.zeros(wiring.size), np.zeros(12, np.int64)
    price, over = np.zeros(len(whole.nodes.cost)), np.zeros(len(whole.nodes.cost))
    for direction in (1, -1, 1):
        bound = sweep(whole, wiring, price, messages, choice, over, direction)
    assert bound == pytest.approx(cost_of(whole, choice))
    assert bound == pytest.approx(judge_of_chain(graph))


def judge_of_chain(graph: StrategyGraph) -> float:
    """The best cost of a chain, by dynamic programming over its nodes in order."""
    best = graph.node_costs[0].astype(float)
    for node, matrix in enumerate(graph.edge_costs, start=1):
        best = (best[:, None] + matrix).min(axis=0) + graph.node_costs[node]
    return float(best.min())


@pytest.mark.parametrize(("weight", "heat"), [(1.0, 0.0), (0.0, 0.0), (0.5, 300.0)])
def test_a_walk_fits_at_every_step_and_counts_right(weight: float, heat: float) -> None:
    flat = hard_core()
    wiring = wire(flat)
    dual = new_dual(flat, wiring)
    ascend(flat, wiring, dual, 50, 0.1)
    seek(flat, wiring, dual, 200)
    choice = dual.best_choice.copy()
    tree, price = slack_tree(slack_of(flat, choice)), np.zeros(len(flat.nodes.cost))
    priced(flat, dual.best_prices, price)
    region, mates = make_region(flat, wiring, len(choice)), make_mates(flat, 16)
    random = np.array([7], np.uint64)
    cost, moved = cost_of(flat, choice), 0
    for _ in range(60):
        before = choice.copy()
        cost += improve(
            flat, wiring, mates, region, tree, choice, price, weight, heat, 12, random, 3000
        )
        moved += int((before != choice).any())
        slack = slack_of(flat, choice)
        assert slack.min() >= 0
        assert tree.least[1] == slack.min()
        assert cost == pytest.approx(cost_of(flat, choice))
    assert moved > 0
    if weight == 0.0:
        assert cost <= cost_of(flat, dual.best_choice)


def test_the_slack_tree_is_an_array_with_a_quick_least() -> None:
    rng = np.random.default_rng(1)
    for count in (1, 2, 5, 16, 37):
        plain = rng.integers(-50, 50, count)
        tree = slack_tree(plain.copy())
        for _ in range(200):
            lo = int(rng.integers(0, count))
            hi = int(rng.integers(lo + 1, count + 1))
            value = int(rng.integers(-20, 20))
            plain[lo:hi] += value
            add_span(tree, lo, hi, value)
            assert tree.least[1] == plain.min()
            assert tightest(tree) == int(np.argmin(plain))
