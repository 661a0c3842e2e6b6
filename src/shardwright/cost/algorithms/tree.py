"""Trees: sums go up and the result comes down, so that waits grow with the logarithm of the units.

Members of the innermost unit form a chain; two trees over the units carry half of the data each,
so that every unit is a leaf of one. A unit sends and receives ``2 S``, but only ``S`` when there
are two units, each the root of one tree. The pipeline's chunks are chosen to suit the size: with
time ``A`` through the empty pipeline and ``x`` to carry all bytes the best choice takes
``A + x + 2 sqrt(A x)``.

Source:
    Sanders, Speck and Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and
    scan" (2009). Depth: NVIDIA/nccl, ``src/graph/tuning.cc``. Gathers: "PAT: a new algorithm for
    all-gather and reduce-scatter operations at scale" (2025), arXiv:2506.20252.
"""

from __future__ import annotations

import math

from shardwright.cost.algorithms.route import Leg, Route
from shardwright.cost.algorithms.way import Way

CHAIN_UNITS = 8
"""Members of one host; a wider fast domain has a tree over chains of so many."""


def tree_way(route: Route) -> Way:
    """An all-reduce over a double tree."""
    depth_s = chain_wait_s(route.legs[0]) + sum(tree_wait_s(leg) for leg in route.legs[1:])
    return Way(
        algorithm="tree",
        wait_s=route.launch_s + 2 * depth_s,
        carry_s_per_byte=max(tree_load(route, index) for index in range(len(route.legs))),
        chunk_wait_s=2 * depth_s,
    )


def chain_wait_s(leg: Leg) -> float:
    """Seconds of one message along the innermost level: a chain per host, a tree over hosts."""
    if leg.profile.is_network:
        return tree_wait_s(leg)
    chain = min(leg.num_units, CHAIN_UNITS) - 1
    return leg.latency_s * (chain + math.ceil(math.log2(max(1, leg.num_units / CHAIN_UNITS))))


def tree_wait_s(leg: Leg) -> float:
    """Seconds of one message from a leaf to the root."""
    return leg.latency_s * math.ceil(math.log2(leg.num_units))


def tree_load(route: Route, index: int) -> float:
    """Seconds per byte of the links of one level: what a unit sends, over what it can send."""
    leg = route.legs[index]
    passes = 1 if route.units_from(index) == 2 else 2
    return passes / (leg.members * leg.bandwidth_bytes_per_s)


def gather_tree_way(route: Route) -> Way:
    """A gather or scatter over a binomial tree, which libraries have for one device per host."""
    (leg,) = route.legs
    share = (route.num_devices - 1) / route.num_devices
    wait_s = tree_wait_s(leg)
    return Way(
        algorithm="tree",
        wait_s=route.launch_s + wait_s,
        carry_s_per_byte=share / leg.bandwidth_bytes_per_s,
        copy_s_per_byte=route.copy_s_per_byte / route.num_devices,
        chunk_wait_s=wait_s,
    )
