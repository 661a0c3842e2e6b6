"""Level by level: scatter inside, do the rest of the work on the piece left, gather inside.

Over levels of ``n_l`` units, innermost first, with ``P_l`` members of the group inside one unit::

    sum over l of  k ( (n_l - 1)/n_l  S/P_l / B_l  +  hops_l a_l )

``k`` is 2 for an all-reduce (a scatter, then a gather), 1 for either alone. Slow outer links carry
only the piece that is left, on all links of a unit at once. Hops are those of recursive doubling,
or half the way round each side of a torus.

Source:
    Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH"
    (2005), section 4. jax-ml/scaling-book, ``sharding.md``, for a torus.
"""

from __future__ import annotations

import math

from shardwright.cost.algorithms.route import Leg, Route
from shardwright.cost.algorithms.way import Way


def hierarchical_way(route: Route, rounds: int) -> Way:
    """All levels one after another; ``rounds`` is 1 for a gather or scatter, 2 for a sum."""
    wait_s = carry = 0.0
    inside = 1
    for leg in route.legs:
        share = (leg.num_units - 1) / leg.num_units
        carry += share / inside / leg.bandwidth_bytes_per_s
        wait_s += _hops(leg) * leg.latency_s
        inside *= leg.num_units
    return Way(
        algorithm="hierarchical",
        wait_s=route.launch_s + rounds * wait_s,
        carry_s_per_byte=rounds * carry,
        fill_s=max(leg.profile.fill_s for leg in route.legs),
    )


def _hops(leg: Leg) -> float:
    return leg.hops if leg.is_torus else math.ceil(math.log2(leg.num_units))
