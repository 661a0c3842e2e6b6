"""A problem rebuilt after strategies were dropped and nodes merged: an exact change of variables.

Every old node is told its new one and, for each strategy of that, which of its own it stands for.
Costs add, an edge inside a new node becomes cost, edges that now join the same pair are added, and
classes that have become equal are one again. Bytes that no choice can avoid leave the limits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.arrays import Edges, Flat, Floats, Ints, Nodes, Terms, group_rows
from shardwright.solver.jit import compiled

Classes = NDArray[np.int32]


class Merge(NamedTuple):
    """Where old nodes go.

    ``parent[v]`` is the new node that decides old node ``v``, or -1 where v is decided by itself;
    under strategy ``s`` of the parent, v takes ``maps[at[v] + s]``. ``first`` are the offsets of
    the new nodes' strategies.
    """

    parent: Ints
    at: Ints
    maps: Ints
    first: Ints


@compiled
def restore(merge: Merge, choice: Ints) -> Ints:
    """The old nodes' choice from the new ones'."""
    parent, at, maps, _ = merge
    old = np.empty(len(parent), np.int64)
    for v in range(len(parent)):
        old[v] = maps[at[v] + (choice[parent[v]] if parent[v] >= 0 else 0)]
    return old


@compiled
def rebuild(flat: Flat, merge: Merge) -> tuple[Flat, float]:
    """The problem in its new variables, and the cost of what decided itself."""
    cost, offset = _merged_costs(flat.nodes, merge)
    terms, limits = _merged_terms(flat, merge)
    edges = _merged_edges(flat, merge, cost)
    return Flat(Nodes(merge.first, cost), terms, edges, limits), offset


@compiled
def _merged_costs(nodes: Nodes, merge: Merge) -> tuple[Floats, float]:
    parent, at, maps, first = merge
    cost = np.zeros(first[-1])
    offset = 0.0
    for v in range(len(parent)):
        p = parent[v]
        if p < 0:
            offset += nodes.cost[nodes.first[v] + maps[at[v]]]
            continue
        for s in range(first[p + 1] - first[p]):
            cost[first[p] + s] += nodes.cost[nodes.first[v] + maps[at[v] + s]]
    return cost, offset


@compiled
def _by_parent(merge: Merge) -> tuple[Ints, Ints]:
    """Old nodes sorted by parent: offsets per parent and the nodes."""
    parent, _, _, first = merge
    start = np.zeros(len(first), np.int64)
    for p in parent:
        if p >= 0:
            start[p + 1] += 1
    start = np.cumsum(start)
    fill = start[:-1].copy()
    order = np.empty(start[-1], np.int64)
    for v in range(len(parent)):
        if parent[v] >= 0:
            order[fill[parent[v]]] = v
            fill[parent[v]] += 1
    return start, order


@compiled
def _merged_terms(flat: Flat, merge: Merge) -> tuple[Terms, Ints]:
    _, at, maps, first = merge
    old = flat.terms
    size = _room_for_usage(flat, merge)
    lo, hi = np.empty(len(old.lo), np.int64), np.empty(len(old.lo), np.int64)
    where, usage = np.empty(len(old.lo), np.int64), np.zeros(size, np.int64)
    fixed = np.zeros(len(flat.limits) + 1, np.int64)
    starts = np.zeros(len(first), np.int64)
    start, order = _by_parent(merge)
    count, end = 0, 0
    for p in range(len(first) - 1):
        begin, width, tail = count, first[p + 1] - first[p], end
        for v in order[start[p] : start[p + 1]]:
            for k in range(old.first[v], old.first[v + 1]):
                into = begin
                while into < count and (lo[into] != old.lo[k] or hi[into] != old.hi[k]):
                    into += 1
                if into == count:
                    lo[into], hi[into], where[into] = old.lo[k], old.hi[k], tail
                    usage[tail : tail + width] = 0
                    count += 1
                    tail += width
                for s in range(width):
                    usage[where[into] + s] += old.usage[old.at[k] + maps[at[v] + s]]
        kept = begin
        for j in range(begin, count):
            least = usage[where[j] : where[j] + width].min()
            most = usage[where[j] : where[j] + width].max()
            fixed[lo[j]] += least
            fixed[hi[j]] -= least
            if most > least:
                lo[kept], hi[kept] = lo[j], hi[j]
                for s in range(width):
                    usage[end + s] = usage[where[j] + s] - least
                where[kept] = end
                kept += 1
                end += width
        count = kept
        starts[p + 1] = count
    _fix_alone(flat, merge, fixed)
    limits = flat.limits - np.cumsum(fixed)[: len(flat.limits)]
    terms = Terms(
        starts, lo[:count].copy(), hi[:count].copy(), where[:count].copy(), usage[:end].copy()
    )
    return terms, limits


@compiled
def _room_for_usage(flat: Flat, merge: Merge) -> int:
    size = 0
    for v in range(len(merge.parent)):
        p = merge.parent[v]
        width = merge.first[p + 1] - merge.first[p] if p >= 0 else 1
        size += (flat.terms.first[v + 1] - flat.terms.first[v]) * width
    return size


@compiled
def _fix_alone(flat: Flat, merge: Merge, fixed: Ints) -> None:
    """Add what nodes that decide themselves use to the changes of the bytes that are fixed."""
    old = flat.terms
    for v in range(len(merge.parent)):
        if merge.parent[v] < 0:
            for k in range(old.first[v], old.first[v + 1]):
                used = old.usage[old.at[k] + merge.maps[merge.at[v]]]
                fixed[old.lo[k]] += used
                fixed[old.hi[k]] -= used


@compiled
def _merged_edges(flat: Flat, merge: Merge, cost: Floats) -> Edges:
    """The edges between new nodes; those inside one are added to ``cost``."""
    old, first = flat.edges, merge.first
    keys, order = _sorted_pairs(flat, merge, cost)
    count = len(first) - 1
    groups, size = 0, 0
    for i in range(len(order)):
        key = keys[order[i]]
        if i == 0 or key != keys[order[i - 1]]:
            p, q = key // count, key % count
            groups += 1
            size += first[p + 1] - first[p] + first[q + 1] - first[q]
    u, v = np.empty(groups, np.int64), np.empty(groups, np.int64)
    row_at, column_at = np.empty(groups, np.int64), np.empty(groups, np.int64)
    rows, columns = np.empty(groups, np.int64), np.empty(groups, np.int64)
    table_at, classes = np.empty(groups, np.int64), np.empty(size, np.int32)
    table = np.empty(max(16, len(old.table)))
    class_end, table_end, i = 0, 0, 0
    for group in range(groups):
        key = keys[order[i]]
        p, q = key // count, key % count
        now = _loaded(old, order[i], merge, p)
        i += 1
        while i < len(order) and keys[order[i]] == key:
            now = _added(now, _loaded(old, order[i], merge, p))
            i += 1
        now = _shrunk(now)
        r, c = now[2].shape
        u[group], v[group], rows[group], columns[group] = p, q, r, c
        row_at[group], column_at[group] = class_end, class_end + len(now[0])
        class_end = _put_classes(classes, class_end, now)
        table = _with_room(table, table_end, r * c)
        table[table_end : table_end + r * c] = now[2].ravel()
        table_at[group] = table_end
        table_end += r * c
    return Edges(
        u, v, row_at, column_at, classes, rows, columns, table_at, table[:table_end].copy()
    )


@compiled
def _sorted_pairs(flat: Flat, merge: Merge, cost: Floats) -> tuple[Ints, Ints]:
    """A key for each old edge's pair of new nodes, and the edges between two in its order.

    Edges inside one new node are added to ``cost``.
    """
    old, parent = flat.edges, merge.parent
    count = len(merge.first) - 1
    keys = np.full(len(old.u), -1, np.int64)
    for e in range(len(old.u)):
        p, q = parent[old.u[e]], parent[old.v[e]]
        if p < 0 or q < 0:
            continue
        if p == q:
            _add_loop(old, e, merge, p, cost)
        else:
            keys[e] = min(p, q) * count + max(p, q)
    order = np.argsort(keys, kind="mergesort")
    return keys, order[np.searchsorted(keys[order], 0) :]


@compiled
def _put_classes(classes: Classes, end: int, edge: tuple[Classes, Classes, Floats]) -> int:
    for part in (edge[0], edge[1]):
        classes[end : end + len(part)] = part
        end += len(part)
    return end


@compiled
def _with_room(table: Floats, end: int, more: int) -> Floats:
    if end + more <= len(table):
        return table
    larger = np.empty(2 * (end + more))
    larger[:end] = table[:end]
    return larger


@compiled
def _add_loop(old: Edges, e: int, merge: Merge, p: int, cost: Floats) -> None:
    _, at, maps, first = merge
    at_u, at_v = at[old.u[e]], at[old.v[e]]
    for s in range(first[p + 1] - first[p]):
        r = old.classes[old.row_at[e] + maps[at_u + s]]
        c = old.classes[old.column_at[e] + maps[at_v + s]]
        cost[first[p] + s] += old.table[old.table_at[e] + r * old.columns[e] + c]


@compiled
def _loaded(old: Edges, e: int, merge: Merge, p: int) -> tuple[Classes, Classes, Floats]:
    """Classes and table of an old edge, seen from new node p; unused ones dropped."""
    parent, at, maps, first = merge
    a, b = old.u[e], old.v[e]
    flip = parent[a] != p
    rows, row_of = _used(
        old.classes,
        old.row_at[e],
        maps,
        at[a],
        first[parent[a] + 1] - first[parent[a]],
        old.rows[e],
    )
    columns, column_of = _used(
        old.classes,
        old.column_at[e],
        maps,
        at[b],
        first[parent[b] + 1] - first[parent[b]],
        old.columns[e],
    )
    height, width = len(row_of), len(column_of)
    table = np.empty((width, height)) if flip else np.empty((height, width))
    for i in range(height):
        base = old.table_at[e] + row_of[i] * old.columns[e]
        for j in range(width):
            if flip:
                table[j, i] = old.table[base + column_of[j]]
            else:
                table[i, j] = old.table[base + column_of[j]]
    if flip:
        return columns, rows, table
    return rows, columns, table


@compiled
def _used(
    classes: Classes, class_at: int, maps: Ints, map_at: int, count: int, num_classes: int
) -> tuple[Classes, Ints]:
    """New strategies' classes numbered by first use, and the old number of each."""
    number = np.full(num_classes, -1, np.int64)
    old = np.empty(num_classes, np.int64)
    mine = np.empty(count, np.int32)
    found = 0
    for s in range(count):
        c = classes[class_at + maps[map_at + s]]
        if number[c] < 0:
            number[c] = found
            old[found] = c
            found += 1
        mine[s] = number[c]
    return mine, old[:found].copy()


@compiled
def _added(
    a: tuple[Classes, Classes, Floats], b: tuple[Classes, Classes, Floats]
) -> tuple[Classes, Classes, Floats]:
    """The sum of two parallel edges."""
    rows, row_a, row_b = _paired(a[0], b[0], a[2].shape[0], b[2].shape[0])
    columns, column_a, column_b = _paired(a[1], b[1], a[2].shape[1], b[2].shape[1])
    table = np.empty((len(row_a), len(column_a)))
    for i in range(len(row_a)):
        for j in range(len(column_a)):
            table[i, j] = a[2][row_a[i], column_a[j]] + b[2][row_b[i], column_b[j]]
    return rows, columns, table


@compiled
def _paired(a: Classes, b: Classes, num_a: int, num_b: int) -> tuple[Classes, Ints, Ints]:
    number = np.full(num_a * num_b, -1, np.int64)
    of_a, of_b = np.empty(len(a), np.int64), np.empty(len(a), np.int64)
    mine = np.empty(len(a), np.int32)
    found = 0
    for s in range(len(a)):
        pair = a[s] * num_b + b[s]
        if number[pair] < 0:
            number[pair] = found
            of_a[found], of_b[found] = a[s], b[s]
            found += 1
        mine[s] = number[pair]
    return mine, of_a[:found].copy(), of_b[:found].copy()


@compiled
def _shrunk(edge: tuple[Classes, Classes, Floats]) -> tuple[Classes, Classes, Floats]:
    """The same edge with equal rows and equal columns of its table made one."""
    rows, columns, table = edge
    row_class = np.empty(table.shape[0], np.int32)
    row_of = group_rows(table, row_class)
    across = np.empty((table.shape[1], len(row_of)))
    for i in range(len(row_of)):
        for j in range(table.shape[1]):
            across[j, i] = table[row_of[i], j]
    column_class = np.empty(table.shape[1], np.int32)
    column_of = group_rows(across, column_class)
    small = np.empty((len(row_of), len(column_of)))
    for i in range(len(row_of)):
        for j in range(len(column_of)):
            small[i, j] = across[column_of[j], i]
    for s in range(len(rows)):
        rows[s] = row_class[rows[s]]
    for s in range(len(columns)):
        columns[s] = column_class[columns[s]]
    return rows, columns, small
