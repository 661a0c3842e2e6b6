"""Reading and writing benchmark files: exact, whatever the numbers are."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardwright.errors import GraphError
from shardwright.solver import FORBIDDEN, StrategyGraph, read_contest_json, solve, to_contest_json
from shardwright.solver.contest import contest_document, parse_contest
from tests.conformance.solver_cases import awkward_graph


def one_node(costs: list[Any], usages: list[int] | None = None) -> dict[str, Any]:
    usages = [0] * len(costs) if usages is None else usages
    nodes = {"intervals": [[0, 1]], "costs": [costs], "usages": [usages]}
    return {"problem": {"nodes": nodes, "edges": {"nodes": [], "costs": []}}}


def read(document: Any, path: Path) -> StrategyGraph:
    path.write_text(json.dumps(document))
    return read_contest_json(path)


@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz"])
def test_what_is_written_reads_back(name: str, tmp_path: Path) -> None:
    for seed in range(60):
        graph = awkward_graph(seed)
        to_contest_json(graph, tmp_path / name)
        again = read_contest_json(tmp_path / name)
        assert contest_document(again) == contest_document(graph), seed
        assert solve(again).cost == pytest.approx(float(solve(graph).cost)), seed


@pytest.mark.parametrize("exact", [2**53 + 1, 10**18 - 1, -(2**53) - 1, -(2**63)])
def test_integers_of_64_bits_stay_exact(exact: int, tmp_path: Path) -> None:
    graph = read(one_node([exact, 2**53 + 3]), tmp_path / "x.json")
    assert graph.node_costs[0].tolist() == [exact, 2**53 + 3]
    assert graph.is_integral


@pytest.mark.parametrize("forbidden", [10**18, 2**63 - 1, 2**63, 10**19, 2**64, 10**30, 1e19])
def test_all_from_ten_to_the_18_is_forbidden_and_spoils_no_neighbour(
    forbidden: float, tmp_path: Path
) -> None:
    graph = read(one_node([2**53 + 1, forbidden]), tmp_path / "x.json")
    assert graph.is_integral
    assert graph.evaluate((0,)) == 2**53 + 1
    assert graph.evaluate((1,)) == FORBIDDEN


def test_a_fraction_makes_its_list_floats(tmp_path: Path) -> None:
    graph = read(one_node([1, 2.5, 10**18, 10**19]), tmp_path / "x.json")
    assert graph.node_costs[0].tolist() == [1.0, 2.5, FORBIDDEN, FORBIDDEN]


def test_one_large_number_leaves_the_other_lists_as_they_are() -> None:
    document = one_node([1, 2])
    nodes = document["problem"]["nodes"]
    nodes["costs"].append([2**70, 2**53 + 1])
    nodes["usages"].append([5, 2**61])
    nodes["intervals"].append([3, 4])
    graph = parse_contest(document)
    assert [costs.tolist() for costs in graph.node_costs] == [[1, 2], [10**18, 2**53 + 1]]
    assert graph.usages[1].tolist() == [5, 2**61]


def test_a_graph_of_no_nodes_reads() -> None:
    empty = {"nodes": {"intervals": [], "costs": [], "usages": []}}
    graph = parse_contest({"problem": {**empty, "edges": {"nodes": [], "costs": []}}})
    assert (graph.num_nodes, graph.edges) == (0, ())


def test_reading_leaves_the_collector_as_it_was(tmp_path: Path) -> None:
    assert gc.isenabled()
    read(one_node([1]), tmp_path / "x.json")
    assert gc.isenabled()
    with pytest.raises(GraphError):
        read_contest_json(tmp_path / "none.json")
    assert gc.isenabled()
    gc.disable()
    try:
        read_contest_json(tmp_path / "x.json")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_largest_limit_and_the_farthest_times_are_solved() -> None:
    graph = StrategyGraph(
        node_costs=(np.array([3, 1]), np.array([4, 9])),
        usages=(np.array([2**60, 2**61]), np.array([1, 2])),
        intervals=((-(2**63), 2**63 - 1), (5, 6)),
        usage_limit=2**63 - 1,
    )
    assert solve(graph).cost == 5
