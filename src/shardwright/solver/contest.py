"""The public benchmark's JSON format, read and written; integers stay exact.

::

    {"problem": {"name": ..., "usage_limit": 50,
                 "nodes": {"intervals": [[lo, hi], ...], "costs": [[...], ...],
                           "usages": [[...], ...]},
                 "edges": {"nodes": [[u, v], ...], "costs": [[row-major |S_u| x |S_v|], ...]}}}

Costs of 10**18 and more are forbidden, however large. A list of costs that holds a fraction is read
as float64. Every other number must fit int64.

Source: github.com/google/iopddl, README and ``iopddl.cc``.
"""

from __future__ import annotations

import gc
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from shardwright.errors import GraphError
from shardwright.solver.graph import (
    FORBIDDEN,
    FORBIDDEN_INT,
    Costs,
    StrategyGraph,
    Usages,
)

_LEAST, _MOST = -(2**63), 2**63 - 1


def read_contest_json(path: str | Path) -> StrategyGraph:
    """The strategy graph in a benchmark file, plain or gzipped by its ``.gz`` ending.

    Raises:
        GraphError: the file is missing or is no such JSON, or its parts disagree.
    """
    path = Path(path)
    with _without_collection():
        return parse_contest(_document_in(path), where=str(path))


def _document_in(path: Path) -> Any:
    try:
        raw = path.read_bytes()
        return orjson.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except FileNotFoundError as error:
        raise GraphError(f"there is no file {path.name}.", where=str(path)) from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise GraphError(f"not a readable JSON file: {error}.", where=str(path)) from error


@contextmanager
def _without_collection() -> Iterator[None]:
    # A document holds no cycles, and walking its millions of numbers again and again in search of
    # some takes 40 % of the reading.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def parse_contest(document: Any, *, where: str = "") -> StrategyGraph:
    """The strategy graph in a parsed benchmark document.

    Raises:
        GraphError: a field is missing or of a wrong type, or the parts disagree.
    """
    problem = _field(document, "problem", dict, where)
    nodes = _field(problem, "nodes", dict, where)
    edges = _field(problem, "edges", dict, where)
    costs = _all_costs(_field(nodes, "costs", list, where), "nodes.costs", where)
    usages = _all_integers(_field(nodes, "usages", list, where), "nodes.usages", where)
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
    text = orjson.dumps(contest_document(graph, name=name))
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
    if _is_beyond(limit):
        raise GraphError('the field "usage_limit" is outside int64.', where=where)
    raise GraphError(f'the field "usage_limit" is {limit!r}, not an integer.', where=where)


def _all_costs(entries: list[Any], field: str, where: str) -> list[Costs]:
    """One array per list: all of one block where everything is an integer."""
    blocks = _blocks(entries)
    if blocks is not None:
        return list(blocks)
    return [_costs(entry, f"{field}[{index}]", where) for index, entry in enumerate(entries)]


def _all_integers(entries: list[Any], field: str, where: str) -> list[Usages]:
    blocks = _blocks(entries)
    if blocks is not None:
        return blocks
    return [_integers(entry, f"{field}[{index}]", where) for index, entry in enumerate(entries)]


def _types(entries: list[Any]) -> set[type]:
    """The types of all numbers in lists of lists; of something else where they are no lists."""
    if set(map(type, entries)) <= {list}:
        return set(map(type, chain.from_iterable(entries)))
    return {type(None)}


def _blocks(entries: list[Any]) -> list[Usages] | None:
    """Views of one block of integers, one per list; None where not everything fits int64."""
    if not _types(entries) <= {int}:
        return None
    sizes = np.fromiter(map(len, entries), np.int64, len(entries))
    try:
        block = np.fromiter(chain.from_iterable(entries), np.int64, int(sizes.sum()))
    except OverflowError:
        return None
    ends = np.cumsum(sizes)
    starts = (ends - sizes).tolist()
    return [block[a:b] for a, b in zip(starts, ends.tolist(), strict=True)]


def _costs(entry: Any, field: str, where: str) -> Costs:
    if not isinstance(entry, list) or not set(map(type, entry)) <= {int, float}:
        raise GraphError(f"{field} is not a list of numbers.", where=where)
    if min(entry, default=0) < _LEAST:
        raise GraphError(f"{field} holds a number outside int64.", where=where)
    capped = [min(value, FORBIDDEN_INT) for value in entry]
    if float not in map(type, capped):
        return np.array(capped, dtype=np.int64)
    floats = np.array(capped, dtype=np.float64)
    floats[floats >= FORBIDDEN_INT] = FORBIDDEN
    return floats


def _integers(entry: Any, field: str, where: str) -> Usages:
    if isinstance(entry, list) and any(map(_is_beyond, entry)):
        raise GraphError(f"{field} holds a number outside int64.", where=where)
    if not isinstance(entry, list) or not all(type(value) is int for value in entry):
        raise GraphError(f"{field} is not a list of integers.", where=where)
    return np.array(entry, dtype=np.int64)


def _is_beyond(value: Any) -> bool:
    """Whether a number leaves int64; one that leaves 64 bits has been read as a float."""
    return type(value) in (int, float) and not _LEAST <= value <= _MOST


def _pairs(entries: list[Any], field: str, where: str) -> tuple[tuple[int, int], ...]:
    is_plain = _types(entries) <= {int} and set(map(len, entries)) <= {2}
    if not is_plain:
        for index, entry in enumerate(entries):
            if not isinstance(entry, list) or [type(value) for value in entry] != [int, int]:
                raise GraphError(f"{field}[{index}] is not a pair of integers.", where=where)
    return tuple(map(tuple, entries))


def _matrices(
    entries: list[Any],
    pairs: tuple[tuple[int, int], ...],
    costs: Sequence[Costs],
    where: str,
) -> tuple[Costs, ...]:
    if len(entries) != len(pairs):
        raise GraphError(f"{len(entries)} edge cost lists for {len(pairs)} edges.", where=where)
    flats = _all_costs(entries, "edges.costs", where)
    return tuple(_shaped(flats, pairs, [len(cost) for cost in costs], where))


def _shaped(
    flats: Iterable[Costs], pairs: tuple[tuple[int, int], ...], sizes: list[int], where: str
) -> Iterable[Costs]:
    for index, (flat, (u, v)) in enumerate(zip(flats, pairs, strict=True)):
        if not (0 <= u < len(sizes) and 0 <= v < len(sizes)):
            raise GraphError(
                f"edges.nodes[{index}] is ({u}, {v}); there are {len(sizes)} nodes.", where=where
            )
        if flat.size != sizes[u] * sizes[v]:
            raise GraphError(
                f"edges.costs[{index}] has {flat.size} entries; its nodes have {sizes[u]} and "
                f"{sizes[v]} strategies.",
                where=where,
            )
        yield flat.reshape(sizes[u], sizes[v])
