from __future__ import annotations

import math

import pytest

from shardwright.cluster import Device, LinkLevel, Mesh, Topology
from shardwright.cluster.parse import topology
from shardwright.cluster.place import NO_LINK, group_link, place

# topology, mesh, (axis -> slowest level, GB/s per device)
ROWS = [
    # two levels: 8 hosts of 8, NVLink 450, one 50 GB/s port per device
    ("64xH100", {"x": 8, "y": 8}, {"x": ("NDR InfiniBand CX-7", 50), "y": ("NVLink4", 450)}),
    ("64xH100", {"x": 64}, {"x": ("NDR InfiniBand CX-7", 400)}),
    ("64xH100", {"x": 16, "y": 4}, {"x": ("NDR InfiniBand CX-7", 100), "y": ("NVLink4", 450)}),
    (
        "64xH100",
        {"x": 4, "y": 16},
        {"x": ("NDR InfiniBand CX-7", 50), "y": ("NDR InfiniBand CX-7", 400)},
    ),
    (
        "64xH100",
        {"x": 2, "y": 4, "z": 8},
        {"x": ("NDR InfiniBand CX-7", 50), "y": ("NDR InfiniBand CX-7", 50), "z": ("NVLink4", 450)},
    ),
    (
        "64xH100",
        {"x": 8, "y": 4, "z": 2},
        {"x": ("NDR InfiniBand CX-7", 50), "y": ("NVLink4", 450), "z": ("NVLink4", 450)},
    ),
    # fewer devices than the topology: the first host, or the first two
    ("64xH100", {"x": 2, "y": 4}, {"x": ("NVLink4", 450), "y": ("NVLink4", 450)}),
    ("64xH100", {"x": 2, "y": 8}, {"x": ("NDR InfiniBand CX-7", 50), "y": ("NVLink4", 450)}),
    # ragged: 8 devices in one host and 4 in the next, 6 and then 2 + 4
    ("64xH100", {"x": 12}, {"x": ("NDR InfiniBand CX-7", 200)}),
    ("64xH100", {"x": 2, "y": 6}, {"x": ("NDR InfiniBand CX-7", 50), "y": (None, 100)}),
    # the network can be faster than the host's link
    ("2x p6-b300.48xlarge", {"x": 16}, {"x": ("EFA v4", 800)}),
    ("2x g5.48xlarge", {"x": 2, "y": 8}, {"x": ("100 Gbps ENA/EFA", 1.56), "y": ("PCIe4 x16", 31)}),
    # direct wires: n - 1 of 7
    ("8xMI300X", {"x": 4, "y": 2}, {"x": ("xGMI", 192), "y": ("xGMI", 64)}),
    ("8xMI300X", {"x": 8}, {"x": ("xGMI", 448)}),
    # torus of three rings of 4 that wrap, 100 each way
    (
        "v5p-128",
        {"x": 4, "y": 4, "z": 4},
        {"x": ("ICI", 200), "y": ("ICI", 200), "z": ("ICI", 200)},
    ),
    ("v5p-128", {"x": 16, "y": 4}, {"x": ("ICI", 400), "y": ("ICI", 200)}),
    ("v5p-128", {"x": 64}, {"x": ("ICI", 600)}),
    # half a ring is a line; two interleaved halves share the whole ring
    ("v5p-128", {"x": 32, "y": 2}, {"x": ("ICI", 500), "y": ("ICI", 100)}),
    ("v5p-128", {"x": 2, "y": 2}, {"x": ("ICI", 100), "y": ("ICI", 100)}),
    # slices on the data centre's network
    ("2x v5e-256", {"x": 2, "y": 256}, {"x": ("DCN", 3.1), "y": ("ICI", 200)}),
    ("2x v5e-256", {"x": 512}, {"x": ("DCN", 200)}),
    # cores of one chip
    ("v3-8", {"x": 4, "y": 2}, {"x": ("ICI", 100), "y": ("die to die", 225)}),
]


@pytest.mark.parametrize(
    ("text", "sizes", "links"), ROWS, ids=[f"{row[0]} {Mesh.of(**row[1])}" for row in ROWS]
)
def test_each_axis_gets_its_share_of_the_slowest_level(text, sizes, links):
    placed = place(Mesh.of(**sizes), topology(text))
    for name, (level, gbs) in links.items():
        link = placed.link(name)
        assert level is None or link.level == level
        assert link.bandwidth_bytes_per_s / 1e9 == pytest.approx(gbs)


def test_devices_are_the_first_in_order():
    placed = place(Mesh.of(x=2, y=3), topology("8xH100"))
    assert placed.device_ids == (0, 1, 2, 3, 4, 5)


def test_latency_is_that_of_the_farthest_level_crossed():
    placed = place(Mesh.of(x=2, y=16), topology("32xH100"))
    assert placed.link("y").latency_s == pytest.approx(5.0e-6)
    assert place(Mesh.of(x=2, y=8), topology("32xH100")).link("y").latency_s == pytest.approx(
        1.0e-6
    )


def test_an_axis_of_one_and_a_mesh_of_one_use_no_link():
    assert place(Mesh.of(x=1, y=8), topology("8xH100")).link("x") == NO_LINK
    assert place(Mesh(axes=()), topology("H100")).links == ()
    assert place(Mesh.of(x=1), topology("H100")).links == (NO_LINK,)


def test_a_group_over_two_axes_is_priced_like_one_axis_of_both():
    mesh, machines = Mesh.of(x=8, y=2, z=4), topology("64xH100")
    flat = place(Mesh.of(x=64), machines).link("x")
    assert group_link(mesh, ("x", "y", "z"), machines) == flat
    assert group_link(mesh, ("z", "y"), machines).level == "NVLink4"
    # two members in each host, on two ports
    assert group_link(mesh, ("x", "y"), machines).bandwidth_bytes_per_s == 100e9
    assert group_link(mesh, (), machines) == NO_LINK


def test_interleaved_groups_share_a_ring():
    ring = _torus(4)
    placed = place(Mesh.of(x=2, y=2), ring)
    assert placed.link("y").bandwidth_bytes_per_s == 50  # half a ring: one wire
    assert placed.link("x").bandwidth_bytes_per_s == 50  # a whole ring shared by two


def test_shared_memory_leaves_more_to_fewer_devices():
    shared = Topology(
        name="host",
        device=_DEVICE,
        levels=(_level("shared memory", 8, 10.0),),
        shared_compute=True,
    )
    assert place(Mesh.of(x=8), shared).link("x").bandwidth_bytes_per_s == 10
    assert place(Mesh.of(x=2, y=2), shared).link("x").bandwidth_bytes_per_s == 20


def test_no_axis_beats_the_links_inside_a_host():
    machines = topology("64xH100")
    for outer in (1, 2, 4, 8, 16, 32, 64):
        mesh = Mesh.of(x=outer, y=64 // outer)
        for link in place(mesh, machines).links:
            assert link.bandwidth_bytes_per_s <= 450e9 or math.isinf(link.bandwidth_bytes_per_s)


_DEVICE = Device(
    name="test",
    peak_flops_per_s=(("float32", 1e12),),
    memory_bytes=2**30,
    memory_bandwidth_bytes_per_s=1e11,
)


def _level(name: str, num_units: int, bandwidth: float, *, is_torus: bool = False) -> LinkLevel:
    return LinkLevel(
        name=name,
        num_units=num_units,
        bandwidth_bytes_per_s=bandwidth,
        latency_s=1e-6,
        is_torus=is_torus,
    )


def _torus(size: int) -> Topology:
    level = _level("ring", size, 100.0, is_torus=True)
    return Topology(name="ring", device=_DEVICE, levels=(level,))
