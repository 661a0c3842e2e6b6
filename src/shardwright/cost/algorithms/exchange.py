"""All-to-all, and one device sending to one other.

All-to-all of ``S`` bytes held: each member sends ``S/n`` to every other. On each level a member's
own link carries what goes to members that share no unit below; levels work at the same time. Peers
are served ``PEERS_AT_ONCE`` at a time; a piece too large to be sent at once pays for a handshake.
On a side of ``m`` devices of a torus every byte crosses ``m/4`` links of each way round on average.

Source:
    NVIDIA/nccl, ``src/include/device.h``, ``NCCL_MAX_DEV_WORK_P2P_PER_BATCH``. jax-ml/scaling-book,
    ``sharding.md``, "AllToAll".
"""

from __future__ import annotations

import math

from shardwright.cost.algorithms.route import Leg, Route
from shardwright.cost.algorithms.way import Way

PEERS_AT_ONCE = 8


def exchange_way(route: Route) -> Way:
    """An all-to-all over the whole group."""
    waits, loads, inside = [], [], 1
    for leg in route.legs:
        peers = inside * (leg.num_units - 1)
        loads.append(_load(leg, peers / route.num_devices))
        waits.append(_wait_s(leg, peers))
        inside *= leg.num_units
    profile = route.legs[0].profile
    eager = profile.eager_bytes_per_s
    return Way(
        algorithm="exchange",
        wait_s=route.launch_s + max(waits),
        carry_s_per_byte=max(loads),
        copy_s_per_byte=route.copy_s_per_byte / route.num_devices,
        fill_s=max(leg.profile.fill_s for leg in route.legs),
        eager_s_per_byte=1 / route.num_devices / eager if eager else 0.0,
        handshake_s=profile.handshake_s if eager else 0.0,
    )


def _load(leg: Leg, share: float) -> float:
    """Seconds per byte of one level; ``share`` of them go across it."""
    if not leg.is_torus:
        return share / leg.bandwidth_bytes_per_s
    sides = zip(leg.sides, leg.bandwidths_bytes_per_s, strict=True)
    return sum(max(units / 4, (units - 1) / units) / bandwidth for units, bandwidth in sides)


def _wait_s(leg: Leg, peers: int) -> float:
    if leg.is_torus:
        return leg.latency_s * leg.hops
    if peers < PEERS_AT_ONCE:
        return leg.latency_s * (1 + math.log2(leg.num_units))
    return leg.latency_s * (3 + math.ceil(peers / PEERS_AT_ONCE))


def permute_way(route: Route) -> Way:
    """Each member sends all it holds to the next; the slowest level that some cross decides."""
    waits = [leg.latency_s for leg in route.legs]
    fills = [leg.profile.fill_s for leg in route.legs]
    return Way(
        algorithm="send",
        wait_s=route.launch_s + max(waits),
        carry_s_per_byte=max(1 / leg.peer_bandwidth_bytes_per_s for leg in route.legs),
        fill_s=max(fills),
    )
