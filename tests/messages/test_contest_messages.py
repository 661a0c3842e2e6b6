"""The words of a malformed benchmark file: what is wrong, and where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardwright.errors import GraphError
from shardwright.solver import StrategyGraph, read_contest_json
from tests.messages.test_solver_messages import parts

MISSING = object()


def document() -> dict[str, Any]:
    return {
        "problem": {
            "name": "two",
            "nodes": {
                "intervals": [[0, 2], [1, 3]],
                "costs": [[1, 2], [3]],
                "usages": [[1, 2], [3]],
            },
            "edges": {"nodes": [[0, 1]], "costs": [[5, 6]]},
            "usage_limit": 9,
        }
    }


def changed(place: str, value: Any) -> str:
    """The document with one place of it set to another value, or taken away."""
    whole: Any = document()
    *path, last = [int(word) if word.isdigit() else word for word in place.split(".")]
    part = whole
    for step in path:
        part = part[step]
    if value is MISSING:
        del part[last]
    else:
        part[last] = value
    return json.dumps(whole)


CASES: list[tuple[str, Any, str]] = [
    ("problem", MISSING, 'the field "problem" is missing.'),
    ("problem.nodes", [], 'the field "nodes" is a list, not a dict.'),
    ("problem.edges", MISSING, 'the field "edges" is missing.'),
    ("problem.nodes.usages", MISSING, 'the field "usages" is missing.'),
    ("problem.nodes.costs", 7, 'the field "costs" is a int, not a list.'),
    ("problem.nodes.costs.1", 7, "nodes.costs[1] is not a list of numbers."),
    ("problem.nodes.costs.0.1", "x", "nodes.costs[0] is not a list of numbers."),
    ("problem.nodes.costs.0.1", True, "nodes.costs[0] is not a list of numbers."),
    ("problem.nodes.costs.0.1", [2], "nodes.costs[0] is not a list of numbers."),
    ("problem.nodes.costs.0.1", -(10**19), "nodes.costs[0] holds a number outside int64."),
    ("problem.nodes.costs.0.1", -1e19, "nodes.costs[0] holds a number outside int64."),
    ("problem.nodes.costs.1", [], "edges.costs[0] has 2 entries; its nodes have 2 and 0 "
                                  "strategies."),
    ("problem.nodes.usages.1", None, "nodes.usages[1] is not a list of integers."),
    ("problem.nodes.usages.0.1", 1.5, "nodes.usages[0] is not a list of integers."),
    ("problem.nodes.usages.0.1", False, "nodes.usages[0] is not a list of integers."),
    ("problem.nodes.usages.0.1", 2**63, "nodes.usages[0] holds a number outside int64."),
    ("problem.nodes.usages.0.1", 10**30, "nodes.usages[0] holds a number outside int64."),
    ("problem.nodes.usages.0.1", -3, "usage -3 is below 0."),
    ("problem.nodes.usages.0", [1], "2 costs but 1 usages."),
    ("problem.nodes.usages", [[1, 2]], "the strategy graph has 1 usages for 2 nodes."),
    ("problem.nodes.intervals.1", [1], "nodes.intervals[1] is not a pair of integers."),
    ("problem.nodes.intervals.1", [1, 2.0], "nodes.intervals[1] is not a pair of integers."),
    ("problem.nodes.intervals.1", [1, 2**63], "the interval [1, 9223372036854775808) does not fit "
                                              "int64."),
    ("problem.nodes.intervals", [[0, 1]], "the strategy graph has 1 intervals for 2 nodes."),
    ("problem.edges.nodes.0", [0, True], "edges.nodes[0] is not a pair of integers."),
    ("problem.edges.nodes.0", [0, 1, 1], "edges.nodes[0] is not a pair of integers."),
    ("problem.edges.nodes.0", [0, 2], "edges.nodes[0] is (0, 2); there are 2 nodes."),
    ("problem.edges.nodes.0", [-1, 1], "edges.nodes[0] is (-1, 1); there are 2 nodes."),
    ("problem.edges.costs", [], "0 edge cost lists for 1 edges."),
    ("problem.edges.costs.0", {}, "edges.costs[0] is not a list of numbers."),
    ("problem.edges.costs.0", [5, 6, 7], "edges.costs[0] has 3 entries; its nodes have 2 and 1 "
                                         "strategies."),
    ("problem.usage_limit", 9.0, 'the field "usage_limit" is 9.0, not an integer.'),
    ("problem.usage_limit", True, 'the field "usage_limit" is True, not an integer.'),
    ("problem.usage_limit", 10**30, 'the field "usage_limit" is outside int64.'),
    ("problem.usage_limit", 2**63, "the usage limit is 9223372036854775808 bytes; int64 ends at "
                                   "9223372036854775807."),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value", "text"), CASES)
def test_a_malformed_file_says_what(place: str, value: Any, text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(changed(place, value))
    with pytest.raises(GraphError) as caught:
        read_contest_json(path)
    assert caught.value.what == text


def test_it_says_where(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(changed("problem.nodes.costs.0", [1, "2"]))
    with pytest.raises(GraphError) as caught:
        read_contest_json(path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400"])
def test_what_is_no_number_is_not_read(number: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document()).replace("[5, 6]", f"[5, {number}]"))
    with pytest.raises(GraphError, match="not a readable JSON file"):
        read_contest_json(path)


def test_more_after_the_end_or_less_is_not_read(tmp_path: Path) -> None:
    text = json.dumps(document()).encode()
    packed = gzip.compress(text)
    damaged = {
        "more.json": text + b"]",
        "less.json": text[:-1],
        "empty.json": b"",
        "cut.json.gz": packed[:-9],
        "plain.json.gz": text,
        "spoilt.json.gz": packed[:20] + b"\0\0\0\0" + packed[24:],
    }
    for name, content in damaged.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(GraphError, match="not a readable JSON file"):
            read_contest_json(path)


BAD_PARTS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"node_costs": (np.array([1.0, 2.0]), np.zeros(0))},
        "a node needs at least one strategy; its costs have shape (0,).",
        "node 1 of the strategy graph",
    ),
    (
        {"intervals": ((0, 2), (1, 2, 3))},
        "an interval is [lo, hi); this one has 3 ends.",
        "node 1 of the strategy graph",
    ),
    (
        {"intervals": ((-(2**63) - 1, 2), (1, 3))},
        "the interval [-9223372036854775809, 2) does not fit int64.",
        "node 0 of the strategy graph",
    ),
    (
        {"node_costs": (np.array([1.0, 2.0]), np.array([3.0], dtype=np.float32))},
        "costs are float64 or int64, not float32.",
        "node 1 of the strategy graph",
    ),
    (
        {"edge_costs": (np.array([[0.0], [np.nan]]),)},
        "a cost is not a number or is minus infinity.",
        "edge 0 (0, 1) of the strategy graph",
    ),
    (
        {"usages": (np.array([1, 2**62]), np.array([2**62]))},
        "usages may add up to 9223372036854775808 bytes; int64 sums are safe to 2**62.",
        "",
    ),
    (
        {"edge_costs": ()},
        "the strategy graph has 0 edge cost matrices for 1 edges.",
        "",
    ),
]


@pytest.mark.parametrize(("changes", "what", "where"), BAD_PARTS)
def test_bad_parts_say_what_and_where(changes: dict[str, Any], what: str, where: str) -> None:
    with pytest.raises(GraphError) as caught:
        StrategyGraph(**parts(**changes))
    assert (caught.value.what, caught.value.where) == (what, where)


def test_a_limit_beyond_int64_says_what_to_give_instead() -> None:
    with pytest.raises(GraphError) as caught:
        StrategyGraph(**parts(usage_limit=2**63))
    assert caught.value.hint == "None for no limit"
