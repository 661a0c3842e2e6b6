"""Logical meshes: named axes, and the links that each axis really uses once laid over machines.

``Mesh`` is names and sizes alone, all that a plan or a sharding needs. ``PlacedMesh`` is the same
mesh on a topology: which device stands where, and for each axis the slowest link that its groups
cross. *Axis* is always a mesh's, *dim* always a tensor's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

from shardwright.cluster.layout import GroupLayout
from shardwright.cluster.topology import Topology
from shardwright.errors import TopologyError, UsageError, did_you_mean


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A named axis of a mesh."""

    name: str
    size: int


@final
@dataclass(frozen=True, kw_only=True)
class Mesh:
    """An arrangement of devices along named axes, the first axis outermost."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        names = [axis.name for axis in self.axes]
        for axis in self.axes:
            if axis.size < 1:
                raise TopologyError(
                    f'mesh axis "{axis.name}" has size {axis.size}; sizes start at 1'
                )
        if len(set(names)) != len(names):
            raise TopologyError(f"mesh axis names must differ, got {', '.join(names)}")

    @staticmethod
    def of(**sizes: int) -> Mesh:
        """A mesh from keyword sizes: ``Mesh.of(dp=2, tp=4)``."""
        return Mesh(axes=tuple(Axis(name=name, size=size) for name, size in sizes.items()))

    @staticmethod
    def parse(text: str) -> Mesh:
        """The mesh that a text such as ``dp=2,tp=4`` names.

        Raises:
            UsageError: it cannot be read.
        """
        sizes: dict[str, int] = {}
        for part in text.split(","):
            name, _, size = (piece.strip() for piece in part.partition("="))
            if not name.isidentifier() or not size.isdecimal() or name in sizes:
                raise UsageError(
                    f'"{part.strip()}" in mesh "{text}" is not a new axis and its size',
                    hint="name=size pairs with commas between, as in dp=2,tp=4",
                )
            sizes[name] = int(size)
        return Mesh.of(**sizes)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Axis sizes by name, in mesh order."""
        return {axis.name: axis.size for axis in self.axes}

    @property
    def names(self) -> tuple[str, ...]:
        """Axis names in mesh order."""
        return tuple(axis.name for axis in self.axes)

    @property
    def num_devices(self) -> int:
        """How many devices the mesh holds."""
        return math.prod(axis.size for axis in self.axes)

    def size(self, name: str) -> int:
        """The size of one axis.

        Raises:
            TopologyError: the mesh has no axis of that name.
        """
        try:
            return self.sizes[name]
        except KeyError:
            raise TopologyError(
                f'the mesh {self} has no axis "{name}"', hint=did_you_mean(name, self.sizes)
            ) from None

    def size_of(self, names: Iterable[str]) -> int:
        """The number of devices in a group that spans these axes; 1 for none."""
        return math.prod(self.size(name) for name in names)

    def __str__(self) -> str:
        return ",".join(f"{axis.name}={axis.size}" for axis in self.axes) or "one device"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AxisLink:
    """What carries the traffic of one mesh axis.

    Attributes:
        level: the slowest link level that a group along the axis crosses, such as ``NVLink4``.
        bandwidth_bytes_per_s: one way, per device, left to this axis once its groups share links.
        latency_s: of one message between neighbours along the axis.
    """

    level: str
    bandwidth_bytes_per_s: float
    latency_s: float


@final
@dataclass(frozen=True, kw_only=True)
class PlacedMesh:
    """A mesh laid over a topology.

    Attributes:
        mesh: the logical axes.
        topology: the machines.
        device_ids: positions in the topology, row-major over the mesh.
        links: one per axis, in mesh order.
    """

    mesh: Mesh
    topology: Topology
    device_ids: tuple[int, ...]
    links: tuple[AxisLink, ...]

    @cached_property
    def layouts(self) -> dict[tuple[str, ...], GroupLayout]:
        """How groups lie over the levels, by their axes; ``group_layout`` fills it when asked."""
        return {}

    def link(self, axis_name: str) -> AxisLink:
        """What carries the traffic of that axis."""
        return self.links[self.mesh.names.index(axis_name)]
