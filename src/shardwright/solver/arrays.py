"""The solver's working form: a strategy graph as flat arrays that compiled code walks over.

Rows and columns of an edge's matrix that are equal are one *class*, and the table holds one entry
per pair of classes: a planner's matrix depends on the layouts of one tensor, of which there are
few, and a node that follows another reaches its old table through the classes alone.

Memory is a list of *terms*: a term is alive over moments ``[lo, hi)`` and takes bytes by its
node's strategy. A node that has taken in others carries the terms of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.graph import FORBIDDEN_INT, StrategyGraph
from shardwright.solver.jit import compiled
from shardwright.solver.moments import compress_times

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Nodes(NamedTuple):
    """Strategies of node ``v`` are ``first[v]`` to ``first[v + 1]``; infinite cost forbids one."""

    first: Ints
    cost: Floats


class Terms(NamedTuple):
    """Terms of node ``v`` are ``first[v]`` to ``first[v + 1]``.

    Bytes of term ``k`` by strategy begin at ``at[k]`` of ``usage``.
    """

    first: Ints
    lo: Ints
    hi: Ints
    at: Ints
    usage: Ints


class Edges(NamedTuple):
    """Edge ``e`` joins ``u[e]`` and ``v[e]``; u comes before v and no two edges join the same pair.

    Strategy ``s`` of u is of class ``classes[row_at[e] + s]``, strategy ``t`` of v of class
    ``classes[column_at[e] + t]``; their table of ``rows[e]`` times ``columns[e]`` begins at
    ``table_at[e]``.
    """

    u: Ints
    v: Ints
    row_at: Ints
    column_at: Ints
    classes: NDArray[np.int32]
    rows: Ints
    columns: Ints
    table_at: Ints
    table: Floats


class Flat(NamedTuple):
    """One problem: nodes, memory terms, edges, and the bytes allowed at each moment."""

    nodes: Nodes
    terms: Terms
    edges: Edges
    limits: Ints


def flatten(graph: StrategyGraph) -> tuple[Flat, tuple[int, ...]]:
    """The working form of a graph, and the original time of each moment.

    Edges keep their order and may still be parallel or loops; the first rebuilding merges them.
    """
    counts = np.fromiter(map(len, graph.node_costs), np.int64, graph.num_nodes)
    nodes = Nodes(first=_offsets(counts), cost=_joined(graph.node_costs))
    moments = compress_times(graph.intervals)
    limit = graph.usage_limit
    spans = np.array(moments.spans, dtype=np.int64).reshape(-1, 2)
    lives = spans[:, 0] < spans[:, 1] if limit is not None else np.zeros(len(spans), np.bool_)
    alive = np.flatnonzero(lives)
    usage = np.concatenate([*graph.usages, np.zeros(0, np.int64)])
    terms = Terms(
        first=_offsets(lives.astype(np.int64)),
        lo=spans[alive, 0].copy(),
        hi=spans[alive, 1].copy(),
        at=nodes.first[alive],
        usage=usage,
    )
    limits = np.full(len(moments.times), 0 if limit is None else limit, dtype=np.int64)
    return Flat(nodes, terms, _edges(graph, counts), limits), moments.times


def _edges(graph: StrategyGraph, counts: Ints) -> Edges:
    ends = np.array(graph.edges, dtype=np.int64).reshape(-1, 2)
    u, v = ends[:, 0].copy(), ends[:, 1].copy()
    table = _joined(graph.edge_costs)
    row_at = _offsets(counts[u] + counts[v])
    table_at = _offsets(counts[u] * counts[v])
    classes, rows, columns, small = classify(counts[u], counts[v], row_at, table_at, table)
    return Edges(
        u=u,
        v=v,
        row_at=row_at[:-1],
        column_at=row_at[:-1] + counts[u],
        classes=classes,
        rows=rows,
        columns=columns,
        table_at=_offsets(rows * columns)[:-1],
        table=small,
    )


def _offsets(counts: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _joined(parts: tuple[NDArray[np.float64] | NDArray[np.int64], ...]) -> Floats:
    """All numbers in one array of float64; what is forbidden is infinite."""
    if not parts:
        return np.zeros(0)
    if all(part.dtype.kind == "i" for part in parts):
        whole = np.concatenate([part.ravel() for part in parts])
        floats = whole.astype(np.float64)
        floats[whole >= FORBIDDEN_INT] = np.inf
        return floats
    return np.concatenate(
        [
            np.where(part >= FORBIDDEN_INT, np.inf, part.astype(np.float64)).ravel()
            if part.dtype.kind == "i"
            else part.ravel()
            for part in parts
        ]
    )


@compiled
def classify(
    num_rows: Ints, num_columns: Ints, class_at: Ints, table_at: Ints, table: Floats
) -> tuple[NDArray[np.int32], Ints, Ints, Floats]:
    """Classes of equal rows and columns of every matrix, and the tables of classes."""
    count = len(num_rows)
    classes = np.empty(class_at[count], np.int32)
    rows, columns = np.empty(count, np.int64), np.empty(count, np.int64)
    small = np.empty(len(table))
    end = 0
    for e in range(count):
        r, c = num_rows[e], num_columns[e]
        matrix = table[table_at[e] : table_at[e] + r * c].reshape(r, c)
        at = class_at[e]
        first_rows = group_rows(matrix, classes[at : at + r])
        picked = np.empty((c, len(first_rows)))
        for i in range(len(first_rows)):
            for j in range(c):
                picked[j, i] = matrix[first_rows[i], j]
        first_columns = group_rows(picked, classes[at + r : at + r + c])
        rows[e], columns[e] = len(first_rows), len(first_columns)
        for i in range(len(first_rows)):
            for j in range(len(first_columns)):
                small[end] = picked[first_columns[j], i]
                end += 1
    return classes, rows, columns, small[:end].copy()


@compiled
def group_rows(matrix: Floats, classes: NDArray[np.int32]) -> Ints:
    """The first row of each class of equal rows; ``classes`` is told the class of each."""
    count, width = matrix.shape
    firsts = np.empty(count, np.int64)
    marks = np.empty(count)
    found = 0
    for i in range(count):
        mark = 0.0
        for j in range(width):
            value = matrix[i, j]
            mark = mark * 0.7390851332151607 + (value if value < np.inf else -1.2345e9)
        number = -1
        for k in range(found):
            if marks[k] == mark:
                same = True
                for j in range(width):
                    if matrix[firsts[k], j] != matrix[i, j]:
                        same = False
                        break
                if same:
                    number = k
                    break
        if number < 0:
            number = found
            firsts[found] = i
            marks[found] = mark
            found += 1
        classes[i] = number
    return firsts[:found].copy()
