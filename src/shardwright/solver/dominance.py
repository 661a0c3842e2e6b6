"""Strategies that another of the same node beats whatever the neighbours choose.

Strategy a makes b needless when its cost, with the worst difference on every edge, is no more and
each of its terms uses no more. Worst differences add up over chains of such strategies, so all that
are found can go at once.

Source: dead-end elimination, Goldstein, "Efficient rotamer elimination applied to protein
side-chains and related spin glasses", Biophysical Journal 1994, with usage beside cost.
"""

from __future__ import annotations

import numpy as np

from shardwright.solver.arrays import Edges, Flat, Floats, Ints
from shardwright.solver.consistency import Mask, incident
from shardwright.solver.jit import compiled

_MOST_WORK = 20_000_000


@compiled
def undominated(flat: Flat) -> Mask:
    """Strategies that no other one of their node makes needless; never none of a node."""
    first = flat.nodes.first
    start, at = incident(flat.edges, len(first) - 1)
    keep = np.ones(len(flat.nodes.cost), np.bool_)
    for v in range(len(first) - 1):
        count = first[v + 1] - first[v]
        if count < 2 or _work(flat, v, start, at) > _MOST_WORK:
            continue
        worst = _alone(flat, v)
        for j in range(start[v], start[v + 1]):
            _add_worst(flat.edges, at[j], v, worst)
        for b in range(count):
            for a in range(count):
                if a != b and keep[first[v] + a] and worst[a, b] <= 0.0:
                    keep[first[v] + b] = False
                    break
    return keep


@compiled
def _work(flat: Flat, v: int, start: Ints, at: Ints) -> int:
    edges, first = flat.edges, flat.nodes.first
    work = int((first[v + 1] - first[v]) ** 2 * (start[v + 1] - start[v]))
    for j in range(start[v], start[v + 1]):
        e = at[j]
        mine = edges.rows[e] if edges.u[e] == v else edges.columns[e]
        work += int(mine * edges.rows[e] * edges.columns[e])
    return work


@compiled
def _alone(flat: Flat, v: int) -> Floats:
    """What taking a instead of b costs the node itself; infinite where a uses more."""
    first, cost, terms = flat.nodes.first, flat.nodes.cost, flat.terms
    count = first[v + 1] - first[v]
    worst = np.empty((count, count))
    for a in range(count):
        for b in range(count):
            worst[a, b] = cost[first[v] + a] - cost[first[v] + b]
    for k in range(terms.first[v], terms.first[v + 1]):
        for a in range(count):
            for b in range(count):
                if terms.usage[terms.at[k] + a] > terms.usage[terms.at[k] + b]:
                    worst[a, b] = np.inf
    return worst


@compiled
def _add_worst(edges: Edges, e: int, v: int, worst: Floats) -> None:
    """Add the worst difference that an edge can make between two strategies of one end."""
    is_row = edges.u[e] == v
    rows, columns = edges.rows[e], edges.columns[e]
    table = edges.table[edges.table_at[e] : edges.table_at[e] + rows * columns]
    mine, theirs = (rows, columns) if is_row else (columns, rows)
    down, across = (columns, 1) if is_row else (1, columns)
    between = np.empty((mine, mine))
    for a in range(mine):
        for b in range(mine):
            most = -np.inf
            for c in range(theirs):
                other = table[b * down + c * across]
                if other < np.inf:
                    most = max(most, table[a * down + c * across] - other)
            between[a, b] = most
    classes = edges.classes[edges.row_at[e] if is_row else edges.column_at[e] :]
    for a in range(len(worst)):
        for b in range(len(worst)):
            worst[a, b] += between[classes[a], classes[b]]
