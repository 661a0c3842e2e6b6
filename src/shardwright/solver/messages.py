"""Sequential tree-reweighted message passing: a lower bound and a good choice at given prices.

Nodes are visited in order, forwards and backwards. A node sends each neighbour further on what the
neighbour's classes would cost it, with its own costs shared evenly among the chains that pass
through it; what is subtracted from the messages on the way back adds up to the bound, which never
falls while prices stand still and is exact on trees. On the way forwards each node takes its best
strategy given those before it.

Source: Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", PAMI 2006,
sections 4 and 5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardwright.solver.arrays import Edges, Flat, Floats, Ints
from shardwright.solver.consistency import incident
from shardwright.solver.jit import compiled


class Wiring(NamedTuple):
    """What message passing needs beside the problem.

    ``start`` and ``at`` list the edges at each node; messages to u and to v of edge ``e`` begin at
    ``to_u[e]`` and ``to_v[e]``; ``across`` holds each table by columns, at the same place.
    """

    start: Ints
    at: Ints
    to_u: Ints
    to_v: Ints
    across: Floats
    size: int
    widest: int


@compiled
def wire(flat: Flat) -> Wiring:
    """The wiring of a problem."""
    edges, first = flat.edges, flat.nodes.first
    start, at = incident(edges, len(first) - 1)
    to_u, to_v = np.empty(len(edges.u), np.int64), np.empty(len(edges.u), np.int64)
    across = np.empty(len(edges.table))
    size = 0
    for e in range(len(edges.u)):
        rows, columns, base = edges.rows[e], edges.columns[e], edges.table_at[e]
        to_u[e], to_v[e] = size, size + rows
        size += rows + columns
        for r in range(rows):
            for c in range(columns):
                across[base + c * rows + r] = edges.table[base + r * columns + c]
    widest = 1
    for v in range(len(first) - 1):
        widest = max(widest, first[v + 1] - first[v])
    return Wiring(start, at, to_u, to_v, across, size, widest)


@compiled
def _send(
    theta: Floats,
    share: float,
    classes: np.ndarray,
    count: int,
    back: Floats,
    table: Floats,
    out: Floats,
    scratch: Floats,
) -> float:
    """Send a message less its least, which is returned; ``table`` has a row per sender's class."""
    senders, receivers = len(back), len(out)
    for r in range(senders):
        scratch[r] = np.inf
    for s in range(count):
        r = classes[s]
        if theta[s] < scratch[r]:
            scratch[r] = theta[s]
    for c in range(receivers):
        out[c] = np.inf
    for r in range(senders):
        value = share * scratch[r] - back[r]
        base = r * receivers
        for c in range(receivers):
            total = value + table[base + c]
            out[c] = total if total < out[c] else out[c]
    least = np.inf
    for c in range(receivers):
        least = out[c] if out[c] < least else least
    for c in range(receivers):
        out[c] -= least
    return least


@compiled
def sweep(
    flat: Flat,
    wiring: Wiring,
    price: Floats,
    messages: Floats,
    choice: Ints,
    over: Floats,
    direction: int,
) -> float:
    """One sweep over the nodes, forwards (1) or backwards (-1); a lower bound on cost and price.

    ``choice`` is told the strategy that each node takes on the way, ``over`` what each strategy
    costs more than its node's cheapest, all messages counted. The bound holds for any messages that
    the sweep begins with, so prices may change between any two sweeps. After two sweeps at one
    price, there and back, the first one's bound and what the second tells ``over`` of a strategy
    together are a bound for all choices with that strategy.
    """
    first = flat.nodes.first
    theta, pick = np.empty(wiring.widest), np.empty(wiring.widest)
    scratch = np.empty(wiring.widest)
    bound = 0.0
    last = len(first) - 2
    for step in range(last + 1):
        i = step if direction > 0 else last - step
        count = first[i + 1] - first[i]
        chains = _listen(flat, wiring, price, messages, choice, direction, i, theta, pick)
        best, least = 0, theta[0]
        for s in range(1, count):
            least = min(least, theta[s])
            if pick[s] < pick[best]:
                best = s
        choice[i] = best
        for s in range(count):
            theta[s] -= least
            over[first[i] + s] = theta[s]
        bound += least
        bound += _speak(flat, wiring, messages, direction, i, theta, 1.0 / chains, scratch)
    return bound


@compiled
def _listen(
    flat: Flat,
    wiring: Wiring,
    price: Floats,
    messages: Floats,
    choice: Ints,
    direction: int,
    i: int,
    theta: Floats,
    pick: Floats,
) -> int:
    """Sum up what node ``i`` hears; how many chains pass through it.

    ``theta`` is told each strategy's cost with all messages, ``pick`` the same with the choices of
    the nodes behind in the place of their messages.
    """
    edges, base = flat.edges, flat.nodes.first[i]
    count = flat.nodes.first[i + 1] - base
    for s in range(count):
        theta[s] = flat.nodes.cost[base + s] + price[base + s]
        pick[s] = theta[s]
    ahead, behind = 0, 0
    for j in range(wiring.start[i], wiring.start[i + 1]):
        e = wiring.at[j]
        is_row = edges.u[e] == i
        to = wiring.to_u[e] if is_row else wiring.to_v[e]
        mine = edges.row_at[e] if is_row else edges.column_at[e]
        if is_row == (direction > 0):
            ahead += 1
            for s in range(count):
                message = messages[to + edges.classes[mine + s]]
                theta[s] += message
                pick[s] += message
            continue
        behind += 1
        if is_row:
            c = edges.classes[edges.column_at[e] + choice[edges.v[e]]]
            line, table = edges.table_at[e] + c * edges.rows[e], wiring.across
        else:
            r = edges.classes[edges.row_at[e] + choice[edges.u[e]]]
            line, table = edges.table_at[e] + r * edges.columns[e], edges.table
        for s in range(count):
            c = edges.classes[mine + s]
            theta[s] += messages[to + c]
            pick[s] += table[line + c]
    return max(1, ahead, behind)


@compiled
def _speak(
    flat: Flat,
    wiring: Wiring,
    messages: Floats,
    direction: int,
    i: int,
    theta: Floats,
    share: float,
    scratch: Floats,
) -> float:
    """Send node ``i``'s messages to the nodes ahead; what was taken out of them."""
    edges = flat.edges
    count = flat.nodes.first[i + 1] - flat.nodes.first[i]
    taken = 0.0
    for j in range(wiring.start[i], wiring.start[i + 1]):
        e = wiring.at[j]
        is_row = edges.u[e] == i
        if is_row != (direction > 0):
            continue
        rows, columns, table_at = edges.rows[e], edges.columns[e], edges.table_at[e]
        to_u = messages[wiring.to_u[e] : wiring.to_u[e] + rows]
        to_v = messages[wiring.to_v[e] : wiring.to_v[e] + columns]
        end = table_at + rows * columns
        if is_row:
            mine, table = edges.row_at[e], edges.table[table_at:end]
            back, out = to_u, to_v
        else:
            mine, table = edges.column_at[e], wiring.across[table_at:end]
            back, out = to_v, to_u
        taken += _send(theta, share, edges.classes[mine:], count, back, table, out, scratch)
    return taken


@compiled
def priced(flat: Flat, prices: Floats, out: Floats) -> float:
    """Tell ``out`` what each strategy pays for memory; returns what the limits give back."""
    sums = np.zeros(len(prices) + 1)
    given = 0.0
    for t in range(len(prices)):
        sums[t + 1] = sums[t] + prices[t]
        given += prices[t] * flat.limits[t]
    first, terms = flat.nodes.first, flat.terms
    out[:] = 0.0
    for v in range(len(first) - 1):
        count = first[v + 1] - first[v]
        for k in range(terms.first[v], terms.first[v + 1]):
            rent = sums[terms.hi[k]] - sums[terms.lo[k]]
            if rent > 0.0:
                for s in range(count):
                    out[first[v] + s] += rent * terms.usage[terms.at[k] + s]
    return given


@compiled
def slack_of(flat: Flat, choice: Ints) -> Ints:
    """Bytes left at each moment; below zero where the choice does not fit."""
    terms = flat.terms
    change = np.zeros(len(flat.limits) + 1, np.int64)
    for v in range(len(choice)):
        for k in range(terms.first[v], terms.first[v + 1]):
            usage = terms.usage[terms.at[k] + choice[v]]
            change[terms.lo[k]] += usage
            change[terms.hi[k]] -= usage
    slack = np.empty(len(flat.limits), np.int64)
    level = 0
    for t in range(len(slack)):
        level += change[t]
        slack[t] = flat.limits[t] - level
    return slack


@compiled
def cost_of(flat: Flat, choice: Ints) -> float:
    """Cost of a choice in float64."""
    first, cost, edges = flat.nodes.first, flat.nodes.cost, flat.edges
    total = 0.0
    for v in range(len(choice)):
        total += cost[first[v] + choice[v]]
    for e in range(len(edges.u)):
        total += _edge_cost(edges, e, choice[edges.u[e]], choice[edges.v[e]])
    return total


@compiled
def _edge_cost(edges: Edges, e: int, s: int, t: int) -> float:
    r, c = edges.classes[edges.row_at[e] + s], edges.classes[edges.column_at[e] + t]
    return float(edges.table[edges.table_at[e] + r * edges.columns[e] + c])
