"""The time of one collective on the links that carry it: that of the fastest way to do it.

A group's layout over the link levels gives its route; each algorithm in ``cost/algorithms`` says
what it costs there as a function of size; the fastest is taken, as a library does by size:

    kind                          NCCL and its kin                  elsewhere
    all-gather, reduce-scatter    ring; tree over single devices    ring; level by level
    all-reduce                    ring; tree; in-network            ring; level by level
    all-to-all                    exchange                          exchange
    permute                       send                              send
    slice                         nothing                           nothing

Being the least of functions that grow with size, the time grows with size. Figures of each kind of
link stand in ``cost/links.py``.
"""

from __future__ import annotations

import functools

from shardwright.cluster import PlacedMesh
from shardwright.cluster.layout import GroupLayout
from shardwright.cluster.place import group_layout
from shardwright.cost.algorithms.exchange import exchange_way, permute_way
from shardwright.cost.algorithms.hierarchical import hierarchical_way
from shardwright.cost.algorithms.in_network import in_network_way
from shardwright.cost.algorithms.ring import ring_way
from shardwright.cost.algorithms.route import Route, route_of
from shardwright.cost.algorithms.tree import gather_tree_way, tree_way
from shardwright.cost.algorithms.way import Way
from shardwright.plan.record import PlannedCollective
from shardwright.sharding import Collective, CollectiveKind


def collective_time_s(collective: Collective, placed: PlacedMesh) -> float:
    """Seconds that the collective takes when its own groups alone use the links, all at once.

    Exactly zero for a slice and over axes of size one. On devices that share a host's cores the
    links' figures already include the sharing.
    """
    ways = _ways(collective.kind, group_layout(placed, collective.axes))
    size_bytes = _size_bytes(collective)
    return min([way.time_s(size_bytes) for way in ways]) if ways else 0.0


def planned_time_s(planned: PlannedCollective, placed: PlacedMesh) -> float:
    """Seconds of one run of a collective that a plan lists."""
    kind, size_bytes = CollectiveKind(planned.kind), planned.size_bytes
    part_bytes = size_bytes // placed.mesh.size_of(planned.axes)
    return collective_time_s(
        Collective(
            kind=kind,
            axes=planned.axes,
            input_bytes=part_bytes if kind is CollectiveKind.ALL_GATHER else size_bytes,
            output_bytes=part_bytes if kind is CollectiveKind.REDUCE_SCATTER else size_bytes,
        ),
        placed,
    )


def collective_way(collective: Collective, placed: PlacedMesh) -> Way | None:
    """The way that ``collective_time_s`` takes; ``None`` where nothing moves."""
    ways = _ways(collective.kind, group_layout(placed, collective.axes))
    size_bytes = _size_bytes(collective)
    return min(ways, key=lambda way: way.time_s(size_bytes), default=None)


def _size_bytes(collective: Collective) -> int:
    """Of the larger side: what is gathered, scattered, summed or held."""
    gathers = collective.kind is CollectiveKind.ALL_GATHER
    return collective.output_bytes if gathers else collective.input_bytes


@functools.lru_cache(maxsize=4096)
def _ways(kind: CollectiveKind, layout: GroupLayout) -> tuple[Way, ...]:
    if not layout.crossings:
        return ()
    return ways_of(kind, route_of(layout))


def ways_of(kind: CollectiveKind, route: Route) -> tuple[Way, ...]:
    """Every way that a library may do a collective of this kind on a route."""
    match kind:
        case CollectiveKind.SLICE:
            return ()
        case CollectiveKind.ALL_TO_ALL:
            return (exchange_way(route),)
        case CollectiveKind.PERMUTE:
            return (permute_way(route),)
        case CollectiveKind.ALL_REDUCE:
            return _sums(route)
        case CollectiveKind.ALL_GATHER | CollectiveKind.REDUCE_SCATTER:
            return _gathers(route)


def _gathers(route: Route) -> tuple[Way, ...]:
    ring = ring_way(route, 1)
    if not route.is_ring_library:
        return (ring, hierarchical_way(route, 1))
    (*inner, last) = route.legs
    if not inner and last.profile.is_network:
        return (ring, gather_tree_way(route))
    return (ring,)


def _sums(route: Route) -> tuple[Way, ...]:
    ring = ring_way(route, 2)
    if not route.is_ring_library:
        return (ring, hierarchical_way(route, 2))
    ways = (ring, tree_way(route), in_network_way(route))
    return tuple(way for way in ways if way is not None)
