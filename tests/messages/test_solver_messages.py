"""The words of a malformed strategy graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardwright.errors import GraphError, ShardwrightError, UsageError
from shardwright.solver import StrategyGraph, read_contest_json
from shardwright.solver.brute import solve_brute_force


def parts(**changes: Any) -> dict[str, Any]:
    return {
        "node_costs": (np.array([1.0, 2.0]), np.array([3.0])),
        "usages": (np.array([1, 2]), np.array([3])),
        "intervals": ((0, 2), (1, 3)),
        "edges": ((0, 1),),
        "edge_costs": (np.zeros((2, 1)),),
        "usage_limit": 9,
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"usages": (np.array([1]), np.array([3]))}, "2 costs but 1 usages."),
        ({"usages": (np.array([1, -2]), np.array([3]))}, "usage -2 is below 0."),
        (
            {"usages": (np.array([1.0, 2.0]), np.array([3]))},
            "usages are bytes in int64, not float64.",
        ),
        ({"edges": ((0, 5),)}, "node 5 is not one of 2 nodes."),
        (
            {"edge_costs": (np.zeros((1, 1)),)},
            "the cost matrix has shape (1, 1); its nodes have 2 and 1 strategies.",
        ),
        ({"usage_limit": -1}, "the usage limit is -1 bytes; it cannot be below 0."),
    ],
)
def test_a_bad_graph_says_what_and_where(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(GraphError) as caught:
        StrategyGraph(**parts(**changes))
    assert caught.value.what == text


def test_a_choice_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        StrategyGraph(**parts()).evaluate((0,))
    assert str(caught.value) == "the choice names 1 strategies; the graph has 2 nodes."


def test_brute_force_refuses_what_would_take_for_ever() -> None:
    nodes = 40
    graph = StrategyGraph(
        node_costs=(np.zeros(3),) * nodes,
        usages=(np.zeros(3, dtype=np.int64),) * nodes,
        intervals=((0, 1),) * nodes,
    )
    with pytest.raises(ShardwrightError, match="brute force tries at most 2000000 choices"):
        solve_brute_force(graph)


def test_a_contest_file_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "problem.json"
    path.write_text(
        json.dumps(
            {
                "problem": {
                    "name": "two",
                    "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 2], [3]],
                              "usages": [[1, 2], [3]]},
                    "edges": {"nodes": [[0, 1]], "costs": [[5, 10**18]]},
                    "usage_limit": 9,
                }
            }
        )
    )  # fmt: skip
    graph = read_contest_json(path)
    assert graph.evaluate((0, 0)) == 9
    assert graph.evaluate((1, 0)) == float("inf")


def test_a_missing_or_damaged_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"there is no file nothing\.json"):
        read_contest_json(tmp_path / "nothing.json")
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    with pytest.raises(GraphError, match="not a readable JSON file"):
        read_contest_json(bad)
