"""A problem made as small as it exactly can be, and the way back to the given one.

Strategies without partners are dropped, edges that decide nothing are paid by their nodes, nodes
that follow a neighbour are merged into it, and moments that cannot bind are forgotten, until
nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.arrays import Flat, Ints, Terms
from shardwright.solver.bridge import Bridged, bridged, reply_all
from shardwright.solver.consistency import (
    Mask,
    best_reply,
    consistent,
    keep_edges,
    leaders,
    separate,
)
from shardwright.solver.dominance import undominated
from shardwright.solver.jit import compiled
from shardwright.solver.rebuild import Merge, rebuild, restore

Step = Merge | Bridged
"""One change of variables that can be taken back."""


@final
@dataclass(frozen=True, kw_only=True)
class Reduced:
    """A smaller problem that is worth solving instead.

    Attributes:
        flat: the smaller problem.
        offset: cost that is already decided.
        steps: how to come back, in the order in which they were made.
        times: the original time of each moment left.
        is_infeasible: some node has no strategy that its neighbours and memory allow, or what no
            choice can avoid passes a limit.
    """

    flat: Flat
    offset: float
    steps: tuple[Step, ...]
    times: Ints
    is_infeasible: bool = False

    def restore(self, choice: Ints) -> Ints:
        """The given problem's choice from the smaller one's."""
        return restored(self.steps, choice)


def restored(steps: tuple[Step, ...], choice: Ints) -> Ints:
    """The choice before the steps from the one after them."""
    for step in reversed(steps):
        if isinstance(step, Merge):
            choice = restore(step, choice)
            continue
        choice = reply_all(step, choice)
    return choice


def reduced(flat: Flat, times: Ints) -> Reduced:
    """The problem reduced until nothing more, or hardly anything, can be decided exactly."""
    offset, steps = 0.0, list[Step]()

    def merged(flat: Flat, merge: Merge) -> Flat:
        nonlocal offset
        flat, decided = rebuild(flat, merge)
        offset += decided
        steps.append(merge)
        return flat

    is_first = True
    while True:
        before = (len(flat.nodes.first) - 1, len(flat.nodes.cost))
        alive = consistent(flat, affordable(flat))
        if not all_have_some(flat.nodes.first, alive):
            return Reduced(
                flat=flat, offset=offset, steps=tuple(steps), times=times, is_infeasible=True
            )
        if not is_first:
            alive &= undominated(flat)
        if is_first or not alive.all():
            flat = merged(flat, kept(flat.nodes.first, alive))
        gone = separate(flat)
        flat = Flat(flat.nodes, flat.terms, keep_edges(flat.edges, ~gone), flat.limits)
        flat, times = forget_moments(flat, times)
        bare, cut = bridged(flat)
        if len(cut):
            steps.append(Bridged(cut, flat))
            flat = bare
        merge = followed(flat)
        if len(merge.first) < len(flat.nodes.first):
            flat = merged(flat, merge)
        after = (len(flat.nodes.first) - 1, len(flat.nodes.cost))
        if not is_first and _is_settled(before, after):
            return Reduced(
                flat=flat,
                offset=offset,
                steps=tuple(steps),
                times=times,
                is_infeasible=bool(np.any(flat.limits < 0)),
            )
        is_first = False


def allowed(flat: Flat) -> Flat | None:
    """The problem with only what edges allow and the bytes left when all use their least."""
    alive = consistent(flat, flat.nodes.cost < np.inf)
    if not all_have_some(flat.nodes.first, alive):
        return None
    return rebuild(flat, kept(flat.nodes.first, alive))[0]


def _is_settled(before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether a round dropped less than one in a hundred: another costs more than it saves."""
    return all(0.99 * old <= new for old, new in zip(before, after, strict=True))


@compiled
def all_have_some(first: Ints, alive: Mask) -> bool:
    """Whether every node has a strategy that is alive."""
    without = 0
    for v in range(len(first) - 1):
        without += int(not alive[first[v] : first[v + 1]].any())
    return without == 0


@compiled
def affordable(flat: Flat) -> Mask:
    """Strategies that are allowed and whose every term fits when all others take their least."""
    nodes, terms = flat.nodes, flat.terms
    least = _range_minima(flat.limits)
    alive = nodes.cost < np.inf
    for v in range(len(nodes.first) - 1):
        for k in range(terms.first[v], terms.first[v + 1]):
            level = 0
            while (2 << level) <= terms.hi[k] - terms.lo[k]:
                level += 1
            free = min(least[level, terms.lo[k]], least[level, terms.hi[k] - (1 << level)])
            for s in range(nodes.first[v + 1] - nodes.first[v]):
                if terms.usage[terms.at[k] + s] > free:
                    alive[nodes.first[v] + s] = False
    return alive


@compiled
def _range_minima(values: Ints) -> NDArray[np.int64]:
    """Row ``l`` holds at ``i`` the least of the ``2**l`` values from ``i``."""
    count, levels = len(values), 1
    while (1 << levels) <= count:
        levels += 1
    table = np.empty((levels, count), np.int64)
    table[0] = values
    for level in range(1, levels):
        half = 1 << (level - 1)
        for i in range(count - (1 << level) + 1):
            table[level, i] = min(table[level - 1, i], table[level - 1, i + half])
    return table


@compiled
def kept(first: Ints, alive: Mask) -> Merge:
    """Every node its own parent, with the strategies that are alive."""
    count = len(first) - 1
    new = np.zeros(count + 1, np.int64)
    for v in range(count):
        new[v + 1] = new[v] + alive[first[v] : first[v + 1]].sum()
    maps = np.empty(new[-1], np.int64)
    end = 0
    for v in range(count):
        for s in range(first[v + 1] - first[v]):
            if alive[first[v] + s]:
                maps[end] = s
                end += 1
    return Merge(np.arange(count), new[:-1].copy(), maps, new)


@compiled
def followed(flat: Flat) -> Merge:
    """Followers merged into those they follow; what stands alone without memory decides itself."""
    leader, by = leaders(flat)
    first = flat.nodes.first
    count = len(leader)
    number, new = _numbered(flat, leader)
    root, parent, at = (
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.zeros(count, np.int64),
    )
    size = 0
    for v in range(count):
        r = v
        while leader[r] >= 0:
            r = leader[r]
        root[v], parent[v], at[v] = r, number[r], size
        size += first[r + 1] - first[r] if parent[v] >= 0 else 1
    maps = np.empty(size, np.int64)
    done = np.zeros(count, np.bool_)
    path = np.empty(count, np.int64)
    for v in range(count):
        depth, w = 0, v
        while not done[w]:
            path[depth] = w
            depth += 1
            if leader[w] < 0:
                break
            w = leader[w]
        for i in range(depth - 1, -1, -1):
            w = path[i]
            done[w] = True
            width = first[root[w] + 1] - first[root[w]]
            if leader[w] >= 0:
                reply = best_reply(flat, by[w], w)
                for s in range(width):
                    maps[at[w] + s] = reply[maps[at[leader[w]] + s]]
            elif parent[w] >= 0:
                for s in range(width):
                    maps[at[w] + s] = s
            else:
                maps[at[w]] = np.argmin(flat.nodes.cost[first[w] : first[w + 1]])
    return Merge(parent, at, maps, new)


@compiled
def _numbered(flat: Flat, leader: Ints) -> tuple[Ints, Ints]:
    """New numbers of the nodes that go on deciding, -1 for others, and their offsets."""
    first, terms = flat.nodes.first, flat.terms
    count = len(leader)
    touched = np.zeros(count, np.bool_)
    for e in range(len(flat.edges.u)):
        touched[flat.edges.u[e]] = True
        touched[flat.edges.v[e]] = True
    number, new = np.full(count, -1, np.int64), np.zeros(count + 1, np.int64)
    found = 0
    for v in range(count):
        if leader[v] < 0 and (touched[v] or terms.first[v] < terms.first[v + 1]):
            number[v] = found
            new[found + 1] = new[found] + first[v + 1] - first[v]
            found += 1
    return number, new[: found + 1].copy()


@compiled
def forget_moments(flat: Flat, times: Ints) -> tuple[Flat, Ints]:
    """Only the moments that can bind, and of those that include each other the tightest."""
    terms, limits = flat.terms, flat.limits
    count = len(limits)
    most, starts = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    finish = np.zeros(count + 1, np.int64)
    for v in range(len(flat.nodes.first) - 1):
        width = flat.nodes.first[v + 1] - flat.nodes.first[v]
        for k in range(terms.first[v], terms.first[v + 1]):
            top = terms.usage[terms.at[k] : terms.at[k] + width].max()
            most[terms.lo[k]] += top
            most[terms.hi[k]] -= top
            starts[terms.lo[k]] += 1
            finish[terms.hi[k]] += 1
    stack = np.empty(count, np.int64)
    begun, ended = np.zeros(count, np.int64), np.zeros(count, np.int64)
    depth, level = 0, 0
    new_starts, new_ends = 0, 0
    for t in range(count):
        level += most[t]
        new_starts += starts[t]
        new_ends += finish[t]
        if level <= limits[t]:
            continue
        # Between the last moment kept and this one: what has begun, what has ended.
        is_needed = True
        while depth > 0:
            if new_ends == 0 and limits[stack[depth - 1]] >= limits[t]:
                depth -= 1
                new_starts += begun[depth]
                new_ends += ended[depth]
            elif new_starts == 0 and limits[stack[depth - 1]] <= limits[t]:
                is_needed = False
                break
            else:
                break
        if is_needed:
            stack[depth], begun[depth], ended[depth] = t, new_starts, new_ends
            depth += 1
            new_starts, new_ends = 0, 0
    chosen = stack[:depth].copy()
    lo, hi = np.searchsorted(chosen, terms.lo), np.searchsorted(chosen, terms.hi)
    live = lo < hi
    first = np.zeros(len(terms.first), np.int64)
    for v in range(len(terms.first) - 1):
        first[v + 1] = first[v] + live[terms.first[v] : terms.first[v + 1]].sum()
    picked = np.flatnonzero(live)
    left = Terms(first, lo[picked], hi[picked], terms.at[picked], terms.usage)
    return Flat(flat.nodes, left, flat.edges, limits[chosen]), times[chosen]
