"""Meshes over topologies: which devices each axis joins, and what its traffic really gets.

A mesh is laid out row-major on the first devices of a topology, so the last axis lies innermost,
on the fastest links. For each axis its groups are looked at, all talking at once.

- A group that spans several units of a level with ``g`` of its members in each unit crosses the
  level's border on ``g`` devices' links at once, as collective libraries do when they run one ring
  per network port. So a level gives each member ``g`` times its per-device bandwidth, and the
  slowest level decides.
- Where direct wires join each pair, a group of ``n`` units uses ``n - 1`` of them.
- The sides of a torus add up: a group over two sides uses the wires of both. A group that covers
  part of a side has a line, not a ring, and groups that interleave on a side share its wires.
- Devices that share one host's memory share its bandwidth: fewer devices leave more to each.

**Source**: NCCL's "Understanding bus bandwidth" (nccl-tests, ``doc/PERFORMANCE.md``) for rings over
hosts; jax-ml/scaling-book, ``sharding.md``, for axes over a torus; RCCL on fully wired hosts,
stas00/ml-engineering, ``network/README.md``, section on peer-to-peer bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from shardwright.cluster.layout import Crossing, GroupLayout
from shardwright.cluster.mesh import AxisLink, Mesh, PlacedMesh
from shardwright.cluster.topology import Topology
from shardwright.errors import TopologyError

NO_LINK = AxisLink(level="none", bandwidth_bytes_per_s=math.inf, latency_s=0.0)
"""What an axis of size 1 uses."""


def place(mesh: Mesh, topology: Topology) -> PlacedMesh:
    """The mesh on the topology's first devices, row-major, with what each axis gets of the links.

    Raises:
        TopologyError: the mesh has more devices than the topology.
    """
    if mesh.num_devices > topology.num_devices:
        raise TopologyError(
            f"the mesh {mesh} needs {mesh.num_devices} devices; "
            f"{topology.name} has {topology.num_devices}",
            hint=f"a mesh of at most {topology.num_devices} devices",
        )
    return PlacedMesh(
        mesh=mesh,
        topology=topology,
        device_ids=tuple(range(mesh.num_devices)),
        links=tuple(group_link(mesh, (name,), topology) for name in mesh.names),
    )


def group_link(mesh: Mesh, axis_names: Iterable[str], topology: Topology) -> AxisLink:
    """What each device gets when every group that spans those axes talks at once.

    Raises:
        TopologyError: the mesh has no axis of that name.
    """
    crossings = _crossings(mesh, axis_names, topology)
    if not crossings:
        return NO_LINK
    slowest = min(crossings, key=lambda crossing: crossing.level.bandwidth_bytes_per_s)
    bandwidth = _bandwidth(crossings)
    if topology.shared_compute:
        bandwidth *= topology.num_devices / mesh.num_devices
    return AxisLink(
        level=slowest.level.name,
        bandwidth_bytes_per_s=bandwidth,
        latency_s=max(crossing.level.latency_s for crossing in crossings),
    )


def group_layout(placed: PlacedMesh, axis_names: tuple[str, ...]) -> GroupLayout:
    """How the groups along those axes lie over the levels; made once and remembered.

    Raises:
        TopologyError: the mesh has no axis of that name.
    """
    found = placed.layouts.get(axis_names)
    if found is None:
        found = placed.layouts[axis_names] = GroupLayout(
            num_devices=placed.mesh.size_of(axis_names),
            mesh_devices=placed.mesh.num_devices,
            crossings=_crossings(placed.mesh, axis_names, placed.topology),
            topology=placed.topology,
        )
    return found


def _crossings(mesh: Mesh, axis_names: Iterable[str], topology: Topology) -> tuple[Crossing, ...]:
    """The levels that groups along the chosen axes cross, innermost first.

    Two members cross a level when they stand in different units of it but in one unit of the level
    above.
    """
    chosen = {name for name in axis_names if mesh.size(name) > 1}
    groups = _groups(mesh, chosen)
    stride = _stride(groups)
    found = []
    unit_devices = 1
    for level in topology.levels:
        in_units = groups // unit_devices
        units = _most_units(in_units)
        unit_stride = max(1, stride // unit_devices)
        unit_devices *= level.num_units
        outer_units = _most_units(groups // unit_devices)
        if units > outer_units:
            found.append(
                Crossing(
                    level=level,
                    num_units=math.ceil(units / outer_units),
                    members_per_unit=_fewest_members(in_units),
                    stride_units=unit_stride,
                )
            )
    return tuple(found)


def _groups(mesh: Mesh, chosen: set[str]) -> npt.NDArray[np.int64]:
    """Device positions of every group along the chosen axes, one ascending row per group."""
    order = sorted(range(len(mesh.axes)), key=lambda index: mesh.names[index] in chosen)
    ids = np.arange(mesh.num_devices, dtype=np.int64).reshape([axis.size for axis in mesh.axes])
    return ids.transpose(order).reshape(-1, mesh.size_of(chosen))


def _stride(groups: npt.NDArray[np.int64]) -> int:
    """Devices from the first member of a group to the next."""
    return int(groups[0, 1] - groups[0, 0]) if groups.shape[1] > 1 else 1


def _most_units(groups: npt.NDArray[np.int64]) -> int:
    """The most distinct units in any group; positions never fall along a group."""
    return int(1 + (np.diff(groups, axis=1) != 0).sum(axis=1).max(initial=0))


def _fewest_members(groups: npt.NDArray[np.int64]) -> int:
    """The fewest members that any group has in a unit where it has some."""
    starts = np.ones(groups.shape, dtype=bool)
    starts[:, 1:] = np.diff(groups, axis=1) != 0
    return int(np.diff(np.flatnonzero(starts), append=groups.size).min())


def _bandwidth(crossings: tuple[Crossing, ...]) -> float:
    rings = [crossing for crossing in crossings if crossing.level.is_torus]
    others = [crossing for crossing in crossings if not crossing.level.is_torus]
    shares = [crossing.bandwidth_bytes_per_s() * crossing.members_per_unit for crossing in others]
    if rings:
        inside = min(crossing.members_per_unit for crossing in rings)
        shares.append(sum(crossing.bandwidth_bytes_per_s() for crossing in rings) * inside)
    return min(shares)
