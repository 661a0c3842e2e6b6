"""Re-deciding a small part of a choice at once: exact dynamic programming over a random forest.

A region is a set of nodes without a cycle among them. With all others as they are, the best choice
for it at given prices is found exactly; where memory does not allow it, the moment that lacks bytes
gets a price of its own and the region decides again.

Source: moves over induced forests as in Fix, Chen, Boros and Zabih, "Approximate MRF
inference using bounded treewidth subgraphs", ECCV 2012; large neighbourhood search after Shaw, CP
1998.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardwright.solver.arrays import Flat, Floats, Ints
from shardwright.solver.jit import compiled
from shardwright.solver.messages import Wiring
from shardwright.solver.slack import Slack, add_span


class Mates(NamedTuple):
    """Nodes alive together: those of sampled moment ``b`` are ``first[b]`` to ``first[b + 1]``."""

    step: int
    first: Ints
    node: Ints


class Region(NamedTuple):
    """Room for one region.

    ``mark[v]`` is the number of the last region that held node ``v``, ``place[v]`` its place in it;
    ``counter`` holds that number and the size. ``nodes`` are in the order in which they joined,
    ``up`` is the edge that brought each in, or -1; strategies of the node at place ``i`` begin at
    ``at[i]``: ``own`` is their cost beside fixed neighbours, ``rent`` their price, ``fine`` what is
    added to make the region fit, ``sum`` all that with the nodes brought in. ``reply`` is the best
    strategy for each class of the node that brought it in, ``new`` the region's new choice.
    """

    mark: Ints
    place: Ints
    nodes: Ints
    up: Ints
    at: Ints
    own: Floats
    rent: Floats
    fine: Floats
    sum: Floats
    reply: Ints
    new: Ints
    scratch: Floats
    best: Floats
    arg: Ints
    counter: Ints


@compiled
def make_region(flat: Flat, wiring: Wiring, most: int) -> Region:
    """Room for regions of up to ``most`` nodes."""
    count = len(flat.nodes.first) - 1
    width = wiring.widest
    return Region(
        np.full(count, -1, np.int64),
        np.zeros(count, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most + 1, np.int64),
        np.zeros(most * width),
        np.zeros(most * width),
        np.zeros(most * width),
        np.zeros(most * width),
        np.zeros(most * width, np.int64),
        np.zeros(most, np.int64),
        np.zeros(width),
        np.zeros(width),
        np.zeros(width, np.int64),
        np.zeros(2, np.int64),
    )


@compiled
def make_mates(flat: Flat, most: int) -> Mates:
    """Up to ``most`` nodes alive at each of up to 1024 moments."""
    count = len(flat.limits)
    step = max(1, count // 1024)
    buckets = (count + step - 1) // step
    terms = flat.terms
    fill = np.zeros(buckets, np.int64)
    room = np.empty((buckets, most), np.int64)
    seen = np.zeros(buckets, np.int64)
    state = np.array([88172645463325252], np.uint64)
    for v in range(len(flat.nodes.first) - 1):
        for k in range(terms.first[v], terms.first[v + 1]):
            for b in range((terms.lo[k] + step - 1) // step, (terms.hi[k] - 1) // step + 1):
                seen[b] += 1
                if fill[b] < most:
                    room[b, fill[b]] = v
                    fill[b] += 1
                else:
                    place = draw(state, seen[b])
                    if place < most:
                        room[b, place] = v
    first = np.zeros(buckets + 1, np.int64)
    for b in range(buckets):
        first[b + 1] = first[b] + fill[b]
    node = np.empty(first[buckets], np.int64)
    for b in range(buckets):
        node[first[b] : first[b + 1]] = room[b, : fill[b]]
    return Mates(step, first, node)


@compiled
def draw(state: np.ndarray, below: int) -> int:
    """A random number from 0 to ``below`` - 1 (xorshift64*)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return int((x * np.uint64(2685821657736338717)) >> np.uint64(33)) % below


@compiled
def begin(region: Region) -> None:
    """An empty region."""
    region.counter[0] += 1
    region.counter[1] = 0


@compiled
def join(flat: Flat, region: Region, v: int, up: int) -> None:
    """Put a node into the region, brought in over edge ``up``."""
    size = region.counter[1]
    region.mark[v] = region.counter[0]
    region.place[v] = size
    region.nodes[size], region.up[size] = v, up
    region.at[size + 1] = region.at[size] + flat.nodes.first[v + 1] - flat.nodes.first[v]
    region.counter[1] = size + 1


@compiled
def neighbours_inside(flat: Flat, wiring: Wiring, region: Region, v: int) -> int:
    """How many edges join ``v`` to the region."""
    edges, found = flat.edges, 0
    for j in range(wiring.start[v], wiring.start[v + 1]):
        e = wiring.at[j]
        other = edges.u[e] + edges.v[e] - v
        if region.mark[other] == region.counter[0]:
            found += 1
    return found


@compiled
def grow(
    flat: Flat, wiring: Wiring, region: Region, seed: int, size: int, random: np.ndarray
) -> None:
    """Grow a tree from ``seed`` until the region has ``size`` nodes or nothing can join."""
    now = region.counter[0]
    if region.mark[seed] == now or neighbours_inside(flat, wiring, region, seed) > 0:
        return
    base = region.counter[1]
    join(flat, region, seed, -1)
    misses = 0
    while region.counter[1] < size and misses < 12:
        v = region.nodes[base + draw(random, region.counter[1] - base)]
        degree = wiring.start[v + 1] - wiring.start[v]
        misses += 1
        if degree == 0:
            continue
        e = wiring.at[wiring.start[v] + draw(random, degree)]
        other = flat.edges.u[e] + flat.edges.v[e] - v
        if region.mark[other] != now and neighbours_inside(flat, wiring, region, other) == 1:
            join(flat, region, other, e)
            misses = 0


@compiled
def look_around(
    flat: Flat,
    wiring: Wiring,
    region: Region,
    choice: Ints,
    price: Floats,
    weight: float,
    heat: float,
    random: np.ndarray,
) -> int:
    """Fill in costs beside fixed neighbours and rents; returns the entries that were read."""
    edges, first = flat.edges, flat.nodes.first
    now, work = region.counter[0], 0
    for i in range(region.counter[1]):
        v, at = region.nodes[i], region.at[i]
        count = first[v + 1] - first[v]
        for s in range(count):
            region.own[at + s] = flat.nodes.cost[first[v] + s]
            region.rent[at + s] = weight * price[first[v] + s]
            region.fine[at + s] = 0.0
            if heat > 0.0:
                region.rent[at + s] += heat * np.log((draw(random, 1 << 30) + 1) / float(1 << 30))
        for j in range(wiring.start[v], wiring.start[v + 1]):
            e = wiring.at[j]
            other = edges.u[e] + edges.v[e] - v
            if region.mark[other] == now:
                continue
            if edges.u[e] == v:
                c = edges.classes[edges.column_at[e] + choice[other]]
                line, mine = edges.table_at[e] + c * edges.rows[e], edges.row_at[e]
                for s in range(count):
                    region.own[at + s] += wiring.across[line + edges.classes[mine + s]]
            else:
                r = edges.classes[edges.row_at[e] + choice[other]]
                line, mine = edges.table_at[e] + r * edges.columns[e], edges.column_at[e]
                for s in range(count):
                    region.own[at + s] += edges.table[line + edges.classes[mine + s]]
            work += count
    return work


@compiled
def decide(flat: Flat, wiring: Wiring, region: Region) -> int:
    """The region's best choice at its rents, in ``region.new``; returns the entries read."""
    size, work = region.counter[1], 0
    for x in range(region.at[size]):
        region.sum[x] = region.own[x] + region.rent[x] + region.fine[x]
    for i in range(size - 1, -1, -1):
        if region.up[i] >= 0:
            work += _reply(flat, wiring, region, i)
    for i in range(size):
        v, e = region.nodes[i], region.up[i]
        if e < 0:
            at, least = region.at[i], 0
            for s in range(1, flat.nodes.first[v + 1] - flat.nodes.first[v]):
                if region.sum[at + s] < region.sum[at + least]:
                    least = s
            region.new[i] = least
        else:
            lead, theirs = _lead(flat, e, v)
            r = flat.edges.classes[theirs + region.new[region.place[lead]]]
            region.new[i] = region.reply[i * wiring.widest + r]
    return work


@compiled
def _lead(flat: Flat, e: int, v: int) -> tuple[int, int]:
    """The other end of an edge, and where its classes begin."""
    edges = flat.edges
    if edges.v[e] == v:
        return edges.u[e], edges.row_at[e]
    return edges.v[e], edges.column_at[e]


@compiled
def _reply(flat: Flat, wiring: Wiring, region: Region, i: int) -> int:
    """Tell the node that brought in the one at place ``i`` what the latter costs it."""
    edges, first = flat.edges, flat.nodes.first
    v, at, e = region.nodes[i], region.at[i], region.up[i]
    lead, theirs = _lead(flat, e, v)
    is_column = edges.v[e] == v
    mine = edges.column_at[e] if is_column else edges.row_at[e]
    width = edges.columns[e] if is_column else edges.rows[e]
    height = edges.rows[e] if is_column else edges.columns[e]
    for c in range(width):
        region.scratch[c] = np.inf
    for s in range(first[v + 1] - first[v]):
        c = edges.classes[mine + s]
        if region.sum[at + s] < region.scratch[c]:
            region.scratch[c] = region.sum[at + s]
            region.arg[c] = s
    room, base = i * wiring.widest, edges.table_at[e]
    table = edges.table if is_column else wiring.across
    for r in range(height):
        least, who = np.inf, 0
        for c in range(width):
            total = region.scratch[c] + table[base + r * width + c]
            if total < least:
                least, who = total, c
        region.best[r] = least
        region.reply[room + r] = region.arg[who]
    lead_at = region.at[region.place[lead]]
    for s in range(first[lead + 1] - first[lead]):
        region.sum[lead_at + s] += region.best[edges.classes[theirs + s]]
    return int(width * height)


@compiled
def value_of(
    flat: Flat, region: Region, choice: Ints, is_new: int, weight: float, fined: float
) -> float:
    """Cost of the region beside fixed neighbours, its rent times ``weight``, its fines."""
    edges, total = flat.edges, 0.0
    for i in range(region.counter[1]):
        v, e = region.nodes[i], region.up[i]
        s = region.new[i] if is_new else choice[v]
        at = region.at[i] + s
        total += region.own[at] + weight * region.rent[at] + fined * region.fine[at]
        if e >= 0:
            lead = edges.u[e] + edges.v[e] - v
            other = region.new[region.place[lead]] if is_new else choice[lead]
            r, c = (other, s) if edges.v[e] == v else (s, other)
            row = edges.classes[edges.row_at[e] + r]
            column = edges.classes[edges.column_at[e] + c]
            total += edges.table[edges.table_at[e] + row * edges.columns[e] + column]
    return total


@compiled
def swap(flat: Flat, region: Region, choice: Ints, tree: Slack) -> int:
    """Exchange the region's choice with ``region.new``, and the bytes left with it."""
    terms, work = flat.terms, 0
    for i in range(region.counter[1]):
        v = region.nodes[i]
        old, new = choice[v], region.new[i]
        if old == new:
            continue
        for k in range(terms.first[v], terms.first[v + 1]):
            change = terms.usage[terms.at[k] + old] - terms.usage[terms.at[k] + new]
            if change != 0:
                add_span(tree, terms.lo[k], terms.hi[k], change)
                work += 30
        choice[v], region.new[i] = new, old
    return work


@compiled
def extra_use(flat: Flat, region: Region, choice: Ints, moment: int) -> int:
    """Bytes that the region's new choice uses more than the old one at a moment."""
    terms, extra = flat.terms, 0
    for i in range(region.counter[1]):
        v = region.nodes[i]
        old, new = choice[v], region.new[i]
        if old == new:
            continue
        for k in range(terms.first[v], terms.first[v + 1]):
            if terms.lo[k] <= moment < terms.hi[k]:
                extra += terms.usage[terms.at[k] + new] - terms.usage[terms.at[k] + old]
    return extra


@compiled
def charge(flat: Flat, region: Region, moment: int, amount: float) -> int:
    """Raise the fine for what the region uses at one moment."""
    terms, first, work = flat.terms, flat.nodes.first, 0
    for i in range(region.counter[1]):
        v, at = region.nodes[i], region.at[i]
        count = first[v + 1] - first[v]
        for k in range(terms.first[v], terms.first[v + 1]):
            if terms.lo[k] <= moment < terms.hi[k]:
                for s in range(count):
                    region.fine[at + s] += amount * terms.usage[terms.at[k] + s]
                work += count
    return work
