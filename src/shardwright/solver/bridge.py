"""Nodes without memory between two neighbours, replaced by one edge: exact elimination.

The edge that joins the neighbours holds, for each pair of their classes, the least that the node
between them and its two edges can cost. Going back, the node takes the strategy that is cheapest
beside what its neighbours took.

Source: non-serial dynamic programming, Bertele and Brioschi, 1972; the reduction R II of the
partitioned Boolean quadratic problem, Scholz and Eckstein, LCTES 2002.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardwright.solver.arrays import Edges, Flat, Floats, Ints, Nodes
from shardwright.solver.consistency import Mask, incident
from shardwright.solver.jit import compiled

_MOST_ENTRIES = 200_000
_MOST_WORK = 20_000_000


class Bridged(NamedTuple):
    """Nodes that were replaced, and the problem in which they still stood."""

    nodes: Ints
    flat: Flat


@compiled
def bridged(flat: Flat) -> tuple[Flat, Ints]:
    """The problem with some such nodes cut off, at no cost of their own, and which they are.

    No two of them are neighbours. New edges may be parallel to others.
    """
    edges, first, terms = flat.edges, flat.nodes.first, flat.terms
    num_nodes = len(first) - 1
    start, at = incident(edges, num_nodes)
    is_near = np.zeros(num_nodes, np.bool_)
    chosen = np.empty(num_nodes, np.int64)
    found, size = 0, 0
    for v in range(num_nodes):
        if start[v + 1] - start[v] != 2 or terms.first[v] < terms.first[v + 1] or is_near[v]:
            continue
        _, rows = _end(edges, at[start[v]], v)
        _, columns = _end(edges, at[start[v] + 1], v)
        entries = rows * columns
        if entries > _MOST_ENTRIES or entries * (first[v + 1] - first[v]) > _MOST_WORK:
            continue
        for j in (start[v], start[v] + 1):
            is_near[edges.u[at[j]]] = True
            is_near[edges.v[at[j]]] = True
        chosen[found] = v
        found += 1
        size += entries
    cost = flat.nodes.cost.copy()
    keep = np.ones(len(edges.u), np.bool_)
    table = np.empty(len(edges.table) + size)
    table[: len(edges.table)] = edges.table
    new = np.empty((found, 7), np.int64)
    end = len(edges.table)
    for i in range(found):
        v = chosen[i]
        e, f = at[start[v]], at[start[v] + 1]
        a, rows = _end(edges, e, v)
        b, columns = _end(edges, f, v)
        if a > b:
            e, f, a, b, rows, columns = f, e, b, a, columns, rows
        _fill(flat, v, e, f, table[end : end + rows * columns])
        new[i, 0], new[i, 1] = a, b
        new[i, 2] = edges.row_at[e] if edges.u[e] == a else edges.column_at[e]
        new[i, 3] = edges.row_at[f] if edges.u[f] == b else edges.column_at[f]
        new[i, 4], new[i, 5], new[i, 6] = rows, columns, end
        end += rows * columns
        keep[e] = keep[f] = False
        cost[first[v] : first[v + 1]] = 0.0
    joined = _with(edges, keep, new, table)
    return Flat(Nodes(first, cost), terms, joined, flat.limits), chosen[:found].copy()


@compiled
def _end(edges: Edges, e: int, v: int) -> tuple[int, int]:
    """The other end of an edge and how many classes it has there."""
    if edges.u[e] == v:
        return edges.v[e], edges.columns[e]
    return edges.u[e], edges.rows[e]


@compiled
def _fill(flat: Flat, v: int, e: int, f: int, out: Floats) -> None:
    """Tell ``out`` the least cost through v for each pair of classes of the two other ends."""
    edges, first, cost = flat.edges, flat.nodes.first, flat.nodes.cost
    _, rows = _end(edges, e, v)
    _, columns = _end(edges, f, v)
    out[:] = np.inf
    mine_e = edges.row_at[e] if edges.u[e] == v else edges.column_at[e]
    mine_f = edges.row_at[f] if edges.u[f] == v else edges.column_at[f]
    for s in range(first[v + 1] - first[v]):
        c, d = edges.classes[mine_e + s], edges.classes[mine_f + s]
        for i in range(rows):
            at = c * edges.columns[e] + i if edges.u[e] == v else i * edges.columns[e] + c
            here = cost[first[v] + s] + edges.table[edges.table_at[e] + at]
            for j in range(columns):
                at = d * edges.columns[f] + j if edges.u[f] == v else j * edges.columns[f] + d
                total = here + edges.table[edges.table_at[f] + at]
                if total < out[i * columns + j]:
                    out[i * columns + j] = total


@compiled
def _with(edges: Edges, keep: Mask, new: Ints, table: Floats) -> Edges:
    left = np.flatnonzero(keep)
    return Edges(
        np.concatenate((edges.u[left], new[:, 0])),
        np.concatenate((edges.v[left], new[:, 1])),
        np.concatenate((edges.row_at[left], new[:, 2])),
        np.concatenate((edges.column_at[left], new[:, 3])),
        edges.classes,
        np.concatenate((edges.rows[left], new[:, 4])),
        np.concatenate((edges.columns[left], new[:, 5])),
        np.concatenate((edges.table_at[left], new[:, 6])),
        table,
    )


@compiled
def reply_all(bridge: Bridged, choice: Ints) -> Ints:
    """The choice with each replaced node at its cheapest beside its neighbours."""
    flat, edges = bridge.flat, bridge.flat.edges
    start, at = incident(edges, len(choice))
    for v in bridge.nodes:
        first, best, reply = flat.nodes.first[v], np.inf, 0
        for s in range(flat.nodes.first[v + 1] - first):
            total = flat.nodes.cost[first + s]
            for j in range(start[v], start[v + 1]):
                e = at[j]
                a, b = (s, choice[edges.v[e]]) if edges.u[e] == v else (choice[edges.u[e]], s)
                r, c = edges.classes[edges.row_at[e] + a], edges.classes[edges.column_at[e] + b]
                total += edges.table[edges.table_at[e] + r * edges.columns[e] + c]
            if total < best:
                best, reply = total, s
        choice[v] = reply
    return choice
