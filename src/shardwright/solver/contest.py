"""The public benchmark's JSON format, read and written; integers stay exact.

::

    {"problem": {"name": ..., "usage_limit": 50,
                 "nodes": {"intervals": [[lo, hi], ...], "costs": [[...], ...],
                           "usages": [[...], ...]},
                 "edges": {"nodes": [[u, v], ...], "costs": [[row-major |S_u| x |S_v|], ...]}}}

Costs of 10**18 and more are forbidden. A list of costs that holds a fraction is read as float64.

Source: github.com/google/iopddl, README and ``iopddl.cc``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from shardwright.errors import GraphError
from shardwright.solver.graph import (
    FORBIDDEN,
    FORBIDDEN_INT,
    Costs,
    StrategyGraph,
    Usages,
)


def read_contest_json(path: str | Path) -> StrategyGraph:
    """The strategy graph in a benchmark file, plain or gzipped by its ``.gz`` ending.

    Raises:
        GraphError: the file is missing or is no such JSON, or its parts disagree.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        document = json.loads(text)
    except FileNotFoundError as error:
        raise GraphError(f"there is no file {path.name}.", where=str(path)) from error
    except (OSError, EOFError, ValueError) as error:
        raise GraphError(f"not a readable JSON file: {error}.", where=str(path)) from error
    return parse_contest(document, where=str(path))


def parse_contest(document: Any, *, where: str = "") -> StrategyGraph:
    """The strategy graph in a parsed benchmark document.

    Raises:
        GraphError: a field is missing or of a wrong type, or the parts disagree.
    """
    problem = _field(document, "problem", dict, where)
    nodes = _field(problem, "nodes", dict, where)
    edges = _field(problem, "edges", dict, where)
    costs = [
        _costs(entry, f"nodes.costs[{index}]", where)
        for index, entry in enumerate(_field(nodes, "costs", list, where))
    ]
    usages = [
        _integers(entry, f"nodes.usages[{index}]", where)
        for index, entry in enumerate(_field(nodes, "usages", list, where))
    ]
    intervals = _pairs(_field(nodes, "intervals", list, where), "nodes.intervals", where)
    pairs = _pairs(_field(edges, "nodes", list, where), "edges.nodes", where)
    return StrategyGraph(
        node_costs=tuple(costs),
        usages=tuple(usages),
        intervals=intervals,
        edges=pairs,
        edge_costs=_matrices(_field(edges, "costs", list, where), pairs, costs, where),
        usage_limit=_limit(problem, where),
    )


def to_contest_json(graph: StrategyGraph, path: str | Path, *, name: str = "shardwright") -> None:
    """Write the graph as a benchmark file, gzipped where the path ends in ``.gz``."""
    path = Path(path)
    text = json.dumps(contest_document(graph, name=name), separators=(",", ":")).encode()
    # A fixed time stamp: the same graph gives the same bytes.
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def contest_document(graph: StrategyGraph, *, name: str = "shardwright") -> dict[str, Any]:
    """The graph as a benchmark document of plain lists and numbers."""
    problem: dict[str, Any] = {
        "name": name,
        "nodes": {
            "intervals": [list(interval) for interval in graph.intervals],
            "costs": [_plain(costs) for costs in graph.node_costs],
            "usages": [usages.tolist() for usages in graph.usages],
        },
        "edges": {
            "nodes": [list(pair) for pair in graph.edges],
            "costs": [_plain(matrix.ravel()) for matrix in graph.edge_costs],
        },
    }
    if graph.usage_limit is not None:
        problem["usage_limit"] = graph.usage_limit
    return {"problem": problem}


def _plain(costs: Costs) -> list[float | int]:
    return [FORBIDDEN_INT if cost == FORBIDDEN else cost for cost in costs.tolist()]


def _field(container: Any, name: str, kind: type, where: str) -> Any:
    if not isinstance(container, dict) or name not in container:
        raise GraphError(f'the field "{name}" is missing.', where=where)
    value = container[name]
    if not isinstance(value, kind):
        raise GraphError(
            f'the field "{name}" is a {type(value).__name__}, not a {kind.__name__}.', where=where
        )
    return value


def _limit(problem: dict[str, Any], where: str) -> int | None:
    limit = problem.get("usage_limit")
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool)):
        return limit
    raise GraphError(f'the field "usage_limit" is {limit!r}, not an integer.', where=where)


def _costs(entry: Any, field: str, where: str) -> Costs:
    if isinstance(entry, list) and any(isinstance(value, float) for value in entry):
        floats = np.array(entry, dtype=np.float64)
        floats[floats >= FORBIDDEN_INT] = FORBIDDEN
        return floats
    return _integers(entry, field, where)


def _integers(entry: Any, field: str, where: str) -> Usages:
    if not isinstance(entry, list) or not all(type(value) is int for value in entry):
        raise GraphError(f"{field} is not a list of integers.", where=where)
    try:
        return np.array(entry, dtype=np.int64)
    except OverflowError as error:
        raise GraphError(f"{field} holds a number outside int64.", where=where) from error


def _pairs(entries: list[Any], field: str, where: str) -> tuple[tuple[int, int], ...]:
    pairs = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, list) or [type(value) for value in entry] != [int, int]:
            raise GraphError(f"{field}[{index}] is not a pair of integers.", where=where)
        pairs.append((entry[0], entry[1]))
    return tuple(pairs)


def _matrices(
    entries: list[Any], pairs: tuple[tuple[int, int], ...], costs: list[Costs], where: str
) -> tuple[Costs, ...]:
    if len(entries) != len(pairs):
        raise GraphError(f"{len(entries)} edge cost lists for {len(pairs)} edges.", where=where)
    matrices = []
    for index, (entry, (u, v)) in enumerate(zip(entries, pairs, strict=True)):
        flat = _costs(entry, f"edges.costs[{index}]", where)
        if not (0 <= u < len(costs) and 0 <= v < len(costs)):
            raise GraphError(
                f"edges.nodes[{index}] is ({u}, {v}); there are {len(costs)} nodes.", where=where
            )
        rows, columns = len(costs[u]), len(costs[v])
        if flat.size != rows * columns:
            raise GraphError(
                f"edges.costs[{index}] has {flat.size} entries; its nodes have {rows} and "
                f"{columns} strategies.",
                where=where,
            )
        matrices.append(flat.reshape(rows, columns))
    return tuple(matrices)
