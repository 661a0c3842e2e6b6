"""How a group of devices lies over the link levels: how many units of each, how many in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from shardwright.cluster.topology import LinkLevel, Topology


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """How the groups of one or more axes use one level.

    Attributes:
        level: that they cross.
        num_units: units of it that one group spans.
        members_per_unit: members of a group in each unit.
        stride_units: units from one member to the next, at least 1.
    """

    level: LinkLevel
    num_units: int
    members_per_unit: int
    stride_units: int

    @property
    def covers_side(self) -> bool:
        """Whether a group covers the whole side of a torus, so that its ring may close."""
        return self.num_units * self.stride_units >= self.level.num_units

    def bandwidth_bytes_per_s(self) -> float:
        """One way, left to each member when every group talks; direct wires to peers add up."""
        if self.level.is_torus:
            return self._ring_bandwidth()
        whole = self.level.bandwidth_bytes_per_s
        peer = self.level.peer_bandwidth_bytes_per_s
        return min(whole, peer * (self.num_units - 1)) if peer else whole

    def _ring_bandwidth(self) -> float:
        """Of a torus side: halved for a part of it, shared by the groups that interleave on it."""
        level = self.level
        interleaved = min(self.stride_units, level.num_units // self.num_units)
        part = 1 if self.covers_side else 2
        return level.bandwidth_bytes_per_s / part / max(1, interleaved)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GroupLayout:
    """The groups along some axes of a placed mesh; equal only to itself, so cheap as a key.

    Attributes:
        num_devices: in one group.
        mesh_devices: in all groups together.
        crossings: of the levels that one group crosses, innermost first.
        topology: the machines.
    """

    num_devices: int
    mesh_devices: int
    crossings: tuple[Crossing, ...]
    topology: Topology

    @property
    def sharing(self) -> float:
        """How much more each device gets than when all talk, where all share one memory."""
        return self.topology.num_devices / self.mesh_devices if self.topology.shared_compute else 1
