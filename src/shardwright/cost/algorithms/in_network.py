"""Sums in the switches: each member sends its part once and reads the result once.

Inside a host (NVLink SHARP) a member's link carries its own ``S`` out for the others to sum, the
``S/g`` that it sums itself on top, and as much in. Across hosts the sums go over a tree, or are
themselves made in the switches (InfiniBand SHARP), which sends each byte once.

Source:
    Klenk et al., "An in-network architecture for accelerating shared-memory multiprocessor
    collectives" (2020). Graham et al., "Scalable hierarchical aggregation protocol
    (SHArP)" (2016). NVIDIA/nccl: algorithms NVLS, NVLS Tree, CollNet.
"""

from __future__ import annotations

from shardwright.cost.algorithms.route import Leg, Route
from shardwright.cost.algorithms.tree import tree_load, tree_wait_s
from shardwright.cost.algorithms.way import Way
from shardwright.cost.links import IN_NETWORK_S


def in_network_way(route: Route) -> Way | None:
    """An all-reduce whose innermost sums are made by switches; ``None`` where they do not add."""
    inner, outer = route.legs[0], route.legs[1:]
    if not inner.reduces_in_network:
        return None
    loads = [_load(route, index) for index in range(1, len(route.legs))]
    wait_s = sum(_wait_s(leg) for leg in outer)
    return Way(
        algorithm="in-network",
        wait_s=route.launch_s + IN_NETWORK_S + 2 * wait_s,
        carry_s_per_byte=max([_switch_load(inner), *loads]),
        copy_s_per_byte=0.0,
        fill_s=inner.profile.fill_s,
        chunk_wait_s=2 * wait_s,
    )


def _switch_load(leg: Leg) -> float:
    profile = leg.profile
    gain = (profile.reduce_efficiency or profile.efficiency) / profile.efficiency
    bandwidth = leg.bandwidth_bytes_per_s * gain
    return (1 + 1 / leg.num_units) / (leg.members * bandwidth)


def _load(route: Route, index: int) -> float:
    leg = route.legs[index]
    return _switch_load(leg) if leg.reduces_in_network else tree_load(route, index)


def _wait_s(leg: Leg) -> float:
    return leg.latency_s if leg.reduces_in_network else tree_wait_s(leg)
