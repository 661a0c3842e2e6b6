"""The time of one collective on the links that carry it.

Over one axis of ``n`` devices with bandwidth ``B`` per device and latency ``a`` per message::

    all-gather of S bytes out        (n-1)/n S/B + log2(n) a
    reduce-scatter of S bytes in     (n-1)/n S/B + log2(n) a
    all-reduce of S bytes          2 (n-1)/n S/B + 2 log2(n) a     reduce-scatter, then all-gather
    all-to-all of S bytes held       (n-1)/n S/B + (n-1) a         pairwise; no congestion
    permute of S bytes held                  S/B + a
    slice                                  nothing

Bytes are those of a ring, which no algorithm beats; steps are those of recursive halving and
doubling where that is fewer than the ring's, rounded up for ``n`` that is no power of two.

Over several axes the work is done axis by axis, fastest link first, so that slower links carry only
the piece that is left: an all-reduce scatters inside a host, reduces across hosts, gathers inside.
All-to-all exchanges everything once per axis; a permute crosses the slowest link once.

These are first figures from published link speeds; measured tables replace them when there are any.

Source:
    Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
    (2009), for the bytes. Thakur, Rabenseifner and Gropp, "Optimization of collective communication
    operations in MPICH" (2005), section 4, for the steps.
"""

from __future__ import annotations

import math

from shardwright.cluster import PlacedMesh
from shardwright.sharding import Collective, CollectiveKind


def collective_time_s(collective: Collective, placed: PlacedMesh) -> float:
    """Seconds that the collective takes when nothing else uses its links.

    Exactly zero for a slice and over axes of size one. On devices that share a host's cores the
    links' figures already include the sharing.
    """
    axes = [axis for axis in collective.axes if placed.mesh.size(axis) > 1]
    if not axes:
        return 0.0
    match collective.kind:
        case CollectiveKind.SLICE:
            return 0.0
        case CollectiveKind.ALL_GATHER:
            return _shrinking_time_s(collective.output_bytes, axes, placed)
        case CollectiveKind.REDUCE_SCATTER:
            return _shrinking_time_s(collective.input_bytes, axes, placed)
        case CollectiveKind.ALL_REDUCE:
            return 2 * _shrinking_time_s(collective.input_bytes, axes, placed)
        case CollectiveKind.ALL_TO_ALL:
            return sum(_exchange_time_s(collective.input_bytes, axis, placed) for axis in axes)
        case CollectiveKind.PERMUTE:
            links = [placed.link(axis) for axis in axes]
            bandwidth = min(link.bandwidth_bytes_per_s for link in links)
            latency = max(link.latency_s for link in links)
            return collective.input_bytes / bandwidth + latency


def _shrinking_time_s(size_bytes: float, axes: list[str], placed: PlacedMesh) -> float:
    """A reduce-scatter of ``size_bytes``, fastest axis first; an all-gather is its mirror image.

    Fastest first is the best order, so a faster link can never make the sum larger.
    """
    time_s = 0.0
    fastest_first = sorted(axes, key=lambda axis: -placed.link(axis).bandwidth_bytes_per_s)
    for axis in fastest_first:
        link, num_devices = placed.link(axis), placed.mesh.size(axis)
        moved = (num_devices - 1) / num_devices * size_bytes
        steps = math.ceil(math.log2(num_devices))
        time_s += moved / link.bandwidth_bytes_per_s + steps * link.latency_s
        size_bytes /= num_devices
    return time_s


def _exchange_time_s(size_bytes: float, axis: str, placed: PlacedMesh) -> float:
    link, num_devices = placed.link(axis), placed.mesh.size(axis)
    moved = (num_devices - 1) / num_devices * size_bytes
    return moved / link.bandwidth_bytes_per_s + (num_devices - 1) * link.latency_s
