"""The route of a group: what one member gets of each level that the group crosses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from shardwright.cluster.layout import Crossing, GroupLayout
from shardwright.cost.links import COPY_SHARE, LinkProfile, link_profile


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One level, or all sides of a torus together.

    Attributes:
        sides: units along each side; one side unless a torus.
        members: of the group in each unit, whose links carry its traffic side by side.
        bandwidths_bytes_per_s: one way, that one member really gets, per side.
        peer_bandwidth_bytes_per_s: one way, from one member to one other.
        latency_s: of one message.
        profile: of this kind of link.
        is_torus: whether the sides are rings or lines of a torus.
        hops: from one end of the leg to the other and on, as a ring walks it.
        reduces_in_network: whether its switches add up.
    """

    sides: tuple[int, ...]
    members: int
    bandwidths_bytes_per_s: tuple[float, ...]
    peer_bandwidth_bytes_per_s: float
    latency_s: float
    profile: LinkProfile
    is_torus: bool
    hops: float
    reduces_in_network: bool

    @property
    def num_units(self) -> int:
        """Units that the group spans here."""
        return math.prod(self.sides)

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """One way, that one member gets; the sides of a torus add up."""
        return sum(self.bandwidths_bytes_per_s)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """All legs of a group, innermost first.

    Attributes:
        num_devices: in the group.
        legs: that it crosses.
        launch_s: until its members have started and met.
        copy_s_per_byte: of copying within a device, in libraries that do.
        is_ring_library: whether NCCL or its kin drives the machines.
    """

    num_devices: int
    legs: tuple[Leg, ...]
    launch_s: float
    copy_s_per_byte: float
    is_ring_library: bool

    def units_from(self, index: int) -> int:
        """Distinct units of one leg's level over the whole group."""
        return math.prod(leg.num_units for leg in self.legs[index:])


def route_of(layout: GroupLayout, profile_of: Callable[[str], LinkProfile] = link_profile) -> Route:
    """The route of a group that crosses at least one level.

    Args:
        layout: of the group.
        profile_of: what a library makes of each level, by name; the fitted table by default.
    """
    rings = tuple(crossing for crossing in layout.crossings if crossing.level.is_torus)
    others = tuple(crossing for crossing in layout.crossings if not crossing.level.is_torus)
    legs = [_torus(rings, layout, profile_of(rings[0].level.name))] if rings else []
    legs += [_leg(crossing, layout, profile_of(crossing.level.name)) for crossing in others]
    profile = profile_of(layout.topology.levels[0].name)
    copy = COPY_SHARE * layout.topology.device.memory_bandwidth_bytes_per_s
    return Route(
        num_devices=layout.num_devices,
        legs=tuple(legs),
        launch_s=profile.launch_s,
        copy_s_per_byte=1 / copy if profile.is_ring_library and copy else 0.0,
        is_ring_library=profile.is_ring_library,
    )


def _leg(crossing: Crossing, layout: GroupLayout, profile: LinkProfile) -> Leg:
    level = crossing.level
    reached = _reached(crossing, layout, profile)
    peer = level.peer_bandwidth_bytes_per_s * profile.efficiency * layout.sharing
    return Leg(
        sides=(crossing.num_units,),
        members=crossing.members_per_unit,
        bandwidths_bytes_per_s=(reached,),
        peer_bandwidth_bytes_per_s=min(reached, peer) if peer else reached,
        latency_s=level.latency_s,
        profile=profile,
        is_torus=False,
        hops=crossing.num_units - 1,
        reduces_in_network=level.reduces_in_network,
    )


def _reached(crossing: Crossing, layout: GroupLayout, profile: LinkProfile) -> float:
    """Bandwidth that a member gets; groups of more than a pair may cross the host's bridges."""
    whole = crossing.bandwidth_bytes_per_s() * layout.sharing
    is_bridged = crossing.num_units * crossing.stride_units > 2
    if not (profile.bridged_efficiency and is_bridged):
        return whole * profile.efficiency
    talking = min(crossing.level.num_units, layout.mesh_devices)
    host = profile.host_bytes_per_s / talking if profile.host_bytes_per_s else math.inf
    return min(whole * profile.bridged_efficiency, host)


def _torus(rings: tuple[Crossing, ...], layout: GroupLayout, profile: LinkProfile) -> Leg:
    bandwidths = [
        crossing.bandwidth_bytes_per_s() * profile.efficiency * layout.sharing for crossing in rings
    ]
    return Leg(
        sides=tuple(crossing.num_units for crossing in rings),
        members=min(crossing.members_per_unit for crossing in rings),
        bandwidths_bytes_per_s=tuple(bandwidths),
        peer_bandwidth_bytes_per_s=min(map(_one_way, rings, bandwidths)),
        latency_s=max(crossing.level.latency_s for crossing in rings),
        profile=profile,
        is_torus=True,
        hops=sum(map(_side_hops, rings)),
        reduces_in_network=False,
    )


def _is_ring(crossing: Crossing) -> bool:
    return crossing.level.wraps and crossing.covers_side and crossing.num_units > 2


def _one_way(crossing: Crossing, bandwidth: float) -> float:
    """A message to one neighbour takes one of the two ways round a closed ring."""
    return bandwidth / 2 if _is_ring(crossing) else bandwidth


def _side_hops(crossing: Crossing) -> float:
    """From a device to the farthest on its side: both ways round where the ring is closed."""
    units = crossing.num_units
    return math.ceil(units / 2) if _is_ring(crossing) else units - 1
