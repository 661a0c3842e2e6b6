"""The verifier at the solver's door: a graph whose parts disagree is refused, with the place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardwright.errors import GraphError

_LARGEST_TOTAL = 2**62
_BEYOND_INT64 = 2**63


def verify_parts(
    node_costs: Sequence[NDArray[Any]],
    usages: Sequence[NDArray[Any]],
    intervals: Sequence[tuple[int, int]],
    edges: Sequence[tuple[int, int]],
    edge_costs: Sequence[NDArray[Any]],
    usage_limit: int | None,
) -> None:
    """Return only when the parts make one strategy graph.

    Raises:
        GraphError: the first disagreement found, with the node or edge it is at.
    """
    num_nodes = len(node_costs)
    _same_count("usages", len(usages), num_nodes, "nodes")
    _same_count("intervals", len(intervals), num_nodes, "nodes")
    _same_count("edge cost matrices", len(edge_costs), len(edges), "edges")
    if not _all_sound(node_costs, usages, intervals, edges, edge_costs):
        for node in range(num_nodes):
            _verify_node(node, node_costs[node], usages[node], intervals[node])
        for index, ((u, v), matrix) in enumerate(zip(edges, edge_costs, strict=True)):
            _verify_edge(index, u, v, matrix, node_costs)
    _verify_totals(usages, usage_limit)


def _all_sound(
    node_costs: Sequence[NDArray[Any]],
    usages: Sequence[NDArray[Any]],
    intervals: Sequence[tuple[int, int]],
    edges: Sequence[tuple[int, int]],
    edge_costs: Sequence[NDArray[Any]],
) -> bool:
    """Whether nothing is wrong, asked of everything at once: a graph may have 100,000 parts."""
    if not node_costs:
        return not edges
    shapes = [costs.shape for costs in node_costs]
    if any(len(shape) != 1 or not shape[0] for shape in shapes):
        return False
    if [usage.shape for usage in usages] != shapes or set(map(len, intervals)) != {2}:
        return False
    try:
        np.fromiter(chain.from_iterable(intervals), np.int64, 2 * len(intervals))
    except OverflowError:
        return False
    dtypes = {costs.dtype for costs in (*node_costs, *edge_costs)}
    if not dtypes <= {np.dtype(np.float64), np.dtype(np.int64)}:
        return False
    joined = np.concatenate(usages)
    if joined.dtype.kind != "i" or int(joined.min()) < 0:
        return False
    if any(usage.dtype.kind != "i" for usage in usages):
        return False
    count = len(shapes)
    if not all(0 <= u < count and 0 <= v < count for u, v in edges):
        return False
    want = [(shapes[u][0], shapes[v][0]) for u, v in edges]
    if [matrix.shape for matrix in edge_costs] != want:
        return False
    floats = [costs.ravel() for costs in (*node_costs, *edge_costs) if costs.dtype.kind == "f"]
    return not floats or bool((np.concatenate(floats) > -np.inf).all())


def _same_count(what: str, have: int, want: int, of: str) -> None:
    if have != want:
        raise GraphError(f"the strategy graph has {have} {what} for {want} {of}.")


def _verify_node(
    node: int, costs: NDArray[Any], usages: NDArray[Any], interval: tuple[int, int]
) -> None:
    where = f"node {node} of the strategy graph"
    if costs.ndim != 1 or not len(costs):
        raise GraphError(
            f"a node needs at least one strategy; its costs have shape {costs.shape}.", where=where
        )
    if usages.shape != costs.shape:
        raise GraphError(f"{len(costs)} costs but {usages.size} usages.", where=where)
    if usages.dtype.kind != "i":
        raise GraphError(f"usages are bytes in int64, not {usages.dtype}.", where=where)
    if int(usages.min()) < 0:
        raise GraphError(f"usage {int(usages.min())} is below 0.", where=where)
    if len(interval) != 2:
        raise GraphError(
            f"an interval is [lo, hi); this one has {len(interval)} ends.", where=where
        )
    if not all(-_BEYOND_INT64 <= end < _BEYOND_INT64 for end in interval):
        raise GraphError(
            f"the interval [{interval[0]}, {interval[1]}) does not fit int64.", where=where
        )
    _verify_costs(costs, where)


def _verify_edge(
    index: int, u: int, v: int, matrix: NDArray[Any], node_costs: Sequence[NDArray[Any]]
) -> None:
    where = f"edge {index} ({u}, {v}) of the strategy graph"
    for end in (u, v):
        if not 0 <= end < len(node_costs):
            raise GraphError(f"node {end} is not one of {len(node_costs)} nodes.", where=where)
    want = (len(node_costs[u]), len(node_costs[v]))
    if matrix.shape != want:
        raise GraphError(
            f"the cost matrix has shape {matrix.shape}; its nodes have {want[0]} and {want[1]} "
            "strategies.",
            where=where,
        )
    _verify_costs(matrix, where)


def _verify_costs(costs: NDArray[Any], where: str) -> None:
    if costs.dtype not in (np.dtype(np.float64), np.dtype(np.int64)):
        raise GraphError(f"costs are float64 or int64, not {costs.dtype}.", where=where)
    if costs.dtype.kind == "f" and not bool((costs > -np.inf).all()):
        raise GraphError("a cost is not a number or is minus infinity.", where=where)


def _verify_totals(usages: Sequence[NDArray[Any]], usage_limit: int | None) -> None:
    total = _largest_total(usages)
    if total > _LARGEST_TOTAL:
        raise GraphError(f"usages may add up to {total} bytes; int64 sums are safe to 2**62.")
    if usage_limit is not None and usage_limit < 0:
        raise GraphError(f"the usage limit is {usage_limit} bytes; it cannot be below 0.")
    if usage_limit is not None and usage_limit >= _BEYOND_INT64:
        raise GraphError(
            f"the usage limit is {usage_limit} bytes; int64 ends at {_BEYOND_INT64 - 1}.",
            hint="None for no limit",
        )


def _largest_total(usages: Sequence[NDArray[Any]]) -> int:
    """What all nodes use together where each takes its most; exact, whatever its size."""
    if not usages:
        return 0
    ends = np.cumsum(np.fromiter(map(len, usages), np.int64, len(usages)))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return sum(np.maximum.reduceat(np.concatenate(usages), starts).tolist())
