"""What can be decided exactly before any search: strategies that cannot be, nodes that follow.

Each function looks at a problem and says what may be dropped or merged; ``rebuild`` does it.

Source: arc consistency is Mackworth's ("Consistency in networks of relations", 1977); eliminating
a leaf is one step of dynamic programming over a tree (Bertele and Brioschi, 1972).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.arrays import Edges, Flat, Floats, Ints
from shardwright.solver.jit import compiled

Mask = NDArray[np.bool_]


@compiled
def incident(edges: Edges, num_nodes: int) -> tuple[Ints, Ints]:
    """Edges at each node: offsets per node and edge numbers, in order."""
    start = np.zeros(num_nodes + 1, np.int64)
    for e in range(len(edges.u)):
        start[edges.u[e] + 1] += 1
        start[edges.v[e] + 1] += 1
    start = np.cumsum(start)
    fill = start[:-1].copy()
    at = np.empty(start[-1], np.int64)
    for e in range(len(edges.u)):
        for end in (edges.u[e], edges.v[e]):
            at[fill[end]] = e
            fill[end] += 1
    return start, at


@compiled
def consistent(flat: Flat, alive: Mask) -> Mask:
    """Those of the ``alive`` strategies that have a partner on every edge; maybe none of a node."""
    first, edges = flat.nodes.first, flat.edges
    num_nodes = len(first) - 1
    start, at = incident(edges, num_nodes)
    queue = np.arange(len(edges.u))
    waits = np.ones(len(edges.u), np.bool_)
    head, length = 0, len(edges.u)
    while length > 0:
        e = queue[head]
        head = (head + 1) % len(queue)
        length -= 1
        waits[e] = False
        for node in (edges.u[e], edges.v[e]):
            if not _supported(flat, e, node, alive):
                continue
            for i in range(start[node], start[node + 1]):
                other = at[i]
                if other != e and not waits[other]:
                    waits[other] = True
                    queue[(head + length) % len(queue)] = other
                    length += 1
    return alive


@compiled
def _supported(flat: Flat, e: int, node: int, alive: Mask) -> bool:
    """Drop the strategies of one end that the other end does not allow; whether any was."""
    first, edges = flat.nodes.first, flat.edges
    u, v = edges.u[e], edges.v[e]
    table = edges.table[edges.table_at[e] :]
    rows, columns = edges.rows[e], edges.columns[e]
    is_row = node == u
    other = v if is_row else u
    mine_at = edges.row_at[e] if is_row else edges.column_at[e]
    other_at = edges.column_at[e] if is_row else edges.row_at[e]
    held = np.zeros(columns if is_row else rows, np.bool_)
    for s in range(first[other + 1] - first[other]):
        if alive[first[other] + s]:
            held[edges.classes[other_at + s]] = True
    allowed = np.zeros(rows if is_row else columns, np.bool_)
    for r in range(rows):
        for c in range(columns):
            if table[r * columns + c] < np.inf:
                if is_row and held[c]:
                    allowed[r] = True
                elif not is_row and held[r]:
                    allowed[c] = True
    dropped = False
    for s in range(first[node + 1] - first[node]):
        if alive[first[node] + s] and not allowed[edges.classes[mine_at + s]]:
            alive[first[node] + s] = False
            dropped = True
    return dropped


@compiled
def separate(flat: Flat) -> Mask:
    """Edges that are one cost per row plus one per column, now paid by the nodes."""
    first, edges, cost = flat.nodes.first, flat.edges, flat.nodes.cost
    gone = np.zeros(len(edges.u), np.bool_)
    for e in range(len(edges.u)):
        r, c = edges.rows[e], edges.columns[e]
        table = edges.table[edges.table_at[e] : edges.table_at[e] + r * c].reshape(r, c)
        if not _is_separable(table):
            continue
        gone[e] = True
        u, v = edges.u[e], edges.v[e]
        for s in range(first[u + 1] - first[u]):
            cost[first[u] + s] += table[edges.classes[edges.row_at[e] + s], 0]
        for s in range(first[v + 1] - first[v]):
            cost[first[v] + s] += table[0, edges.classes[edges.column_at[e] + s]] - table[0, 0]
    return gone


@compiled
def _is_separable(table: Floats) -> bool:
    for r in range(table.shape[0]):
        for c in range(table.shape[1]):
            if not table[r, c] < np.inf:
                return False
            if table[r, c] != table[r, 0] + table[0, c] - table[0, 0]:
                return False
    return True


@compiled
def keep_edges(edges: Edges, keep: Mask) -> Edges:
    """The edges that stay; what they pointed at is shared."""
    chosen = np.flatnonzero(keep)
    return Edges(
        edges.u[chosen],
        edges.v[chosen],
        edges.row_at[chosen],
        edges.column_at[chosen],
        edges.classes,
        edges.rows[chosen],
        edges.columns[chosen],
        edges.table_at[chosen],
        edges.table,
    )


@compiled
def _root(leader: Ints, v: int) -> int:
    while leader[v] != v:
        leader[v] = leader[leader[v]]
        v = leader[v]
    return v


@compiled
def leaders(flat: Flat) -> tuple[Ints, Ints]:
    """For each node the node that it follows and the edge that says so, or -1.

    A node follows a neighbour whose every strategy allows it one, and a leaf without memory takes
    the best that its neighbour allows. No cycles.
    """
    first, edges, terms = flat.nodes.first, flat.edges, flat.terms
    num_nodes = len(first) - 1
    root = np.arange(num_nodes)
    leader, by = np.full(num_nodes, -1, np.int64), np.full(num_nodes, -1, np.int64)
    degree = np.zeros(num_nodes, np.int64)
    for e in range(len(edges.u)):
        degree[edges.u[e]] += 1
        degree[edges.v[e]] += 1
    for e in range(len(edges.u)):
        u, v = edges.u[e], edges.v[e]
        for a, b in ((u, v), (v, u)):
            if leader[b] >= 0:
                continue
            is_leaf = degree[b] == 1 and terms.first[b] == terms.first[b + 1]
            if (is_leaf or _follows(flat, e, b)) and _root(root, a) != b:
                leader[b], by[b] = a, e
                root[b] = _root(root, a)
                break
    return leader, by


@compiled
def _follows(flat: Flat, e: int, follower: int) -> bool:
    """Whether each strategy of the other end allows the follower one strategy alone."""
    first, edges = flat.nodes.first, flat.edges
    rows, columns = edges.rows[e], edges.columns[e]
    is_column = follower == edges.v[e]
    mine_at = edges.column_at[e] if is_column else edges.row_at[e]
    members = np.zeros(columns if is_column else rows, np.int64)
    for s in range(first[follower + 1] - first[follower]):
        members[edges.classes[mine_at + s]] += 1
    for i in range(rows if is_column else columns):
        total = 0
        for j in range(columns if is_column else rows):
            at = i * columns + j if is_column else j * columns + i
            if edges.table[edges.table_at[e] + at] < np.inf:
                total += members[j]
        if total != 1:
            return False
    return True


@compiled
def best_reply(flat: Flat, e: int, follower: int) -> Ints:
    """The follower's cheapest strategy for each strategy of the other end of the edge."""
    first, cost, edges = flat.nodes.first, flat.nodes.cost, flat.edges
    rows, columns = edges.rows[e], edges.columns[e]
    is_column = follower == edges.v[e]
    leader = edges.u[e] if is_column else edges.v[e]
    mine_at = edges.column_at[e] if is_column else edges.row_at[e]
    lead_at = edges.row_at[e] if is_column else edges.column_at[e]
    num_classes = rows if is_column else columns
    reply = np.zeros(num_classes, np.int64)
    for i in range(num_classes):
        best = np.inf
        for s in range(first[follower + 1] - first[follower]):
            j = edges.classes[mine_at + s]
            at = i * columns + j if is_column else j * columns + i
            value = cost[first[follower] + s] + edges.table[edges.table_at[e] + at]
            if value < best:
                best, reply[i] = value, s
    answer = np.empty(first[leader + 1] - first[leader], np.int64)
    for s in range(len(answer)):
        answer[s] = reply[edges.classes[lead_at + s]]
    return answer
