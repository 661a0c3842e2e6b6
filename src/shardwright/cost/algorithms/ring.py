r"""Rings: every member passes pieces to the next, one round for a gather, two for an all-reduce.

With ``k`` rounds over ``n`` members, ``g_l`` of them in each unit of level ``l``, whose links carry
``B_l`` each and take ``a_l`` per message::

    launch + k sum_l h_l a_l  +  x + fill x/(x + fill)  +  own part / copy speed
    x = k (n-1)/n S / min_l(g_l B_l)        h_l = units of level l - units of the level above

One ring runs per port, so the ``g_l`` links of a unit add up. ``fill`` is what waiting for the
first chunks costs: a short message sends and receives in turn, a long one both at once.

Source:
    Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
    (2009). Steps per level: NVIDIA/nccl, ``src/graph/tuning.cc``.
"""

from __future__ import annotations

from shardwright.cost.algorithms.route import Route
from shardwright.cost.algorithms.way import Way


def ring_way(route: Route, rounds: int) -> Way:
    """The ring over the whole group; ``rounds`` is 1 for a gather or scatter, 2 for a sum."""
    hops = [leg.hops * route.units_from(i + 1) for i, leg in enumerate(route.legs)]
    wait_s = sum(hop * leg.latency_s for hop, leg in zip(hops, route.legs, strict=True))
    hop_fill_s = sum(
        hop * leg.profile.hop_fill_s for hop, leg in zip(hops, route.legs, strict=True)
    )
    bandwidth = min(leg.members * leg.bandwidth_bytes_per_s for leg in route.legs)
    share = (route.num_devices - 1) / route.num_devices
    return Way(
        algorithm="ring",
        wait_s=route.launch_s + rounds * wait_s,
        carry_s_per_byte=rounds * share / bandwidth,
        copy_s_per_byte=route.copy_s_per_byte / route.num_devices,
        fill_s=max(leg.profile.fill_s for leg in route.legs) + rounds * hop_fill_s,
    )
