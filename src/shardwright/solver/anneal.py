"""Annealing of a choice that always fits: regions are re-decided while heat and prices fall.

Heat makes strategies cheaper by random amounts, so that a region's exact decision is a random good
one; memory is charged a falling share of its price, so that bytes go first where they save most and
what is left over is spent at the end.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 1983;
perturb-and-MAP after Papandreou and Yuille, ICCV 2011, for the random amounts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.arrays import Flat, Floats, Ints
from shardwright.solver.jit import compiled
from shardwright.solver.messages import Wiring
from shardwright.solver.region import (
    Mates,
    Region,
    begin,
    charge,
    decide,
    draw,
    extra_use,
    grow,
    look_around,
    swap,
    value_of,
)
from shardwright.solver.slack import Slack, tightest

_ATTEMPTS = 10


@compiled
def improve(
    flat: Flat,
    wiring: Wiring,
    mates: Mates,
    region: Region,
    tree: Slack,
    choice: Ints,
    price: Floats,
    weight: float,
    heat: float,
    size: int,
    random: NDArray[np.uint64],
    work_limit: int,
) -> float:
    """Re-decide random regions of up to ``size`` nodes; returns the change of the cost.

    A region's new choice is taken when it fits and lowers its cost, disturbed by ``heat``, plus
    ``weight`` times the ``price`` of what it uses.
    """
    gained, work = 0.0, 0
    levels = 1
    while (1 << levels) < size:
        levels += 1
    while work < work_limit:
        begin(region)
        seed = draw(random, len(choice))
        if flat.nodes.first[seed + 1] - flat.nodes.first[seed] < 2:
            work += 20
            continue
        _gather(flat, wiring, mates, region, seed, min(size, 2 << draw(random, levels)), random)
        work += 40 * region.counter[1]
        work += look_around(flat, wiring, region, choice, price, weight, heat, random)
        change, spent = _redecide(flat, wiring, region, tree, choice)
        gained += change
        work += spent
    return gained


@compiled
def _gather(
    flat: Flat,
    wiring: Wiring,
    mates: Mates,
    region: Region,
    seed: int,
    most: int,
    random: NDArray[np.uint64],
) -> None:
    """Grow one tree from the seed and up to three more from nodes that are alive with it."""
    terms = flat.terms
    wanted, trees = 1 + draw(random, most), 1 + draw(random, 4)
    grow(flat, wiring, region, seed, max(1, wanted // trees), random)
    if trees == 1 or terms.first[seed + 1] == terms.first[seed]:
        return
    k = terms.first[seed] + draw(random, terms.first[seed + 1] - terms.first[seed])
    moment = terms.lo[k] + draw(random, terms.hi[k] - terms.lo[k])
    bucket = min(moment // mates.step, len(mates.first) - 2)
    around = mates.first[bucket + 1] - mates.first[bucket]
    if around > 0:
        for i in range(1, trees):
            other = mates.node[mates.first[bucket] + draw(random, around)]
            grow(flat, wiring, region, other, max(1, wanted * (i + 1) // trees), random)


@compiled
def _redecide(
    flat: Flat, wiring: Wiring, region: Region, tree: Slack, choice: Ints
) -> tuple[float, int]:
    """Take the best choice that is found to fit; the change of the cost and the work done."""
    before = value_of(flat, region, choice, 0, 1.0, 0.0)
    work = 0
    for _ in range(_ATTEMPTS):
        work += decide(flat, wiring, region)
        if value_of(flat, region, choice, 1, 1.0, 0.0) >= before - 1e-12 * abs(before):
            break
        work += swap(flat, region, choice, tree)
        if tree.least[1] >= 0:
            # After the exchange the region's new choice is the choice, the old one is new.
            gained = value_of(flat, region, choice, 0, 0.0, 0.0)
            return gained - value_of(flat, region, choice, 1, 0.0, 0.0), work
        moment = tightest(tree)
        work += swap(flat, region, choice, tree)
        better = value_of(flat, region, choice, 0, 1.0, 1.0)
        better -= value_of(flat, region, choice, 1, 1.0, 1.0)
        extra = extra_use(flat, region, choice, moment)
        if better <= 0.0 or extra <= 0:
            break
        # At this fine the old and the new choice cost the same: what beats both lies between.
        work += charge(flat, region, moment, better / extra * 1.000001)
    return 0.0, work
