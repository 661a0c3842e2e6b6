"""Collectives on real machines: laws across algorithms, who wins when, and published plateaus."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from shardwright.cluster import Mesh, PlacedMesh, Topology
from shardwright.cluster.parse import topology
from shardwright.cluster.place import place
from shardwright.cost.collective import collective_time_s, collective_way
from shardwright.cost.links import HANDSHAKE_S, NEUTRAL, PROFILES, kind_of_link, link_profile
from shardwright.sharding import Collective, CollectiveKind

KINDS = [kind for kind in CollectiveKind if kind is not CollectiveKind.SLICE]
MACHINES = ["32xH100", "2x p4d.24xlarge", "8xMI300X", "8xL40S", "v5p-128", "2x v5e-16", "cpu:8"]
SIZES = [0, *(2**power + offset for power in range(6, 34) for offset in (0, 1))]
GIGA = 1e9


def step(kind: CollectiveKind, size_bytes: int, *axes: str) -> Collective:
    return Collective(kind=kind, axes=axes, input_bytes=size_bytes, output_bytes=size_bytes)


def flat(machines: Topology, num_devices: int = 0) -> PlacedMesh:
    return place(Mesh.of(x=num_devices or machines.num_devices), machines)


def summing(machines: Topology, *levels: int) -> Topology:
    """The same machines whose switches of those levels add, and no others."""
    return dataclasses.replace(
        machines,
        levels=tuple(
            dataclasses.replace(level, reduces_in_network=index in levels)
            for index, level in enumerate(machines.levels)
        ),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MACHINES)
def test_more_bytes_never_take_less_time_whatever_algorithm_wins(
    name: str, kind: CollectiveKind
) -> None:
    for machines in (topology(name), summing(topology(name), 0)):
        times = [collective_time_s(step(kind, size, "x"), flat(machines)) for size in SIZES]
        assert times == sorted(times)
        assert times[0] > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MACHINES)
def test_a_faster_link_is_never_slower(name: str, kind: CollectiveKind) -> None:
    machines = topology(name)
    for index, field, factor in itertools.product(
        range(len(machines.levels)), ("bandwidth_bytes_per_s", "latency_s"), (1.5, 30)
    ):
        gain = factor if field == "bandwidth_bytes_per_s" else 1 / factor
        levels = list(machines.levels)
        better = getattr(levels[index], field) * gain
        levels[index] = dataclasses.replace(levels[index], **{field: better})
        faster = dataclasses.replace(machines, levels=tuple(levels))
        for size in SIZES[::7]:
            moved = step(kind, size, "x")
            was = collective_time_s(moved, flat(machines))
            assert collective_time_s(moved, flat(faster)) <= was * (1 + 1e-12)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not CollectiveKind.PERMUTE])
@pytest.mark.parametrize("name", ["64xH100", "8x p4d.24xlarge", "8xL40S"])
def test_the_same_result_on_more_devices_is_never_cheaper(name: str, kind: CollectiveKind) -> None:
    """Where a switch gives any pair all bandwidth and does not add.

    An exchange of short pieces may save a handshake, since each peer gets less.
    """
    saved_s = HANDSHAKE_S if kind is CollectiveKind.ALL_TO_ALL else 0
    machines = summing(topology(name))
    for size in (2**10, 2**16, 2**20, 2**26, 2**32):
        counts = [n for n in (2, 4, 8, 16, 24, 32, 64) if n <= machines.num_devices]
        times = [collective_time_s(step(kind, size, "x"), flat(machines, n)) for n in counts]
        assert all(fewer <= more + saved_s for fewer, more in itertools.pairwise(times))


def test_nothing_for_a_slice_and_for_axes_of_one() -> None:
    placed = place(Mesh.of(one=1, x=8), topology("8xH100"))
    assert collective_time_s(step(CollectiveKind.SLICE, 10**9, "x"), placed) == 0
    assert collective_way(step(CollectiveKind.ALL_REDUCE, 10**9, "one"), placed) is None


WINNERS = [
    ("8xA100", (), 2**30, "ring"),
    ("32xA100", (), 2**12, "tree"),
    ("32xA100", (), 2**33, "ring"),
    ("16xA100", (), 2**33, "tree"),
    ("8xH100", (0,), 2**10, "ring"),
    ("8xH100", (0,), 2**30, "in-network"),
    ("4xH100", (0,), 2**22, "ring"),
    ("16xH100", (0,), 2**33, "in-network"),
    ("v5p-128", (), 2**30, "ring"),
    ("cpu:8", (), 2**30, "hierarchical"),
]


@pytest.mark.parametrize(("name", "adding", "size", "winner"), WINNERS)
def test_the_algorithm_that_a_library_picks(
    name: str, adding: tuple[int, ...], size: int, winner: str
) -> None:
    machines = summing(topology(name), *adding)
    way = collective_way(step(CollectiveKind.ALL_REDUCE, size, "x"), flat(machines))
    assert way is not None
    assert way.algorithm == winner


PLATEAUS = [
    ("8xA100", (), 232),
    ("8xH100", (), 370),
    ("8xH100", (0,), 480),
    ("4x DGX-A100", (), 192),
    ("4x DGX-H100", (0,), 380),
    ("4x DGX-H100", (0, 1), 480),
    ("8xMI300X", (), 313),
]
"""Bus bandwidth in GB/s of long all-reduces. Source: NVIDIA GTC 2024, session S62129; for MI300X
stas00/ml-engineering, ``network/README.md``."""


@pytest.mark.parametrize(("name", "adding", "gbs"), PLATEAUS)
def test_long_all_reduces_reach_the_published_plateaus(
    name: str, adding: tuple[int, ...], gbs: float
) -> None:
    placed = flat(summing(topology(name), *adding))
    num_devices, size = placed.mesh.num_devices, 2**34
    time_s = collective_time_s(step(CollectiveKind.ALL_REDUCE, size, "x"), placed)
    bus = 2 * (num_devices - 1) / num_devices * size / time_s
    assert bus / GIGA == pytest.approx(gbs, rel=0.12)


def test_groups_that_share_a_port_wait_for_each_other() -> None:
    machines = topology("64xH100")
    size = 2**30
    alone = collective_time_s(step(CollectiveKind.ALL_REDUCE, size, "x"), flat(machines))
    eight = place(Mesh.of(x=8, y=8), machines)
    one_of_eight = collective_time_s(step(CollectiveKind.ALL_REDUCE, size, "x"), eight)
    assert one_of_eight > 4 * alone


def test_an_exchange_across_hosts_takes_the_time_of_its_ports() -> None:
    machines, size = topology("2x DGX-H100"), 2**30
    inside = place(Mesh.of(x=2, y=8), machines)
    across = collective_time_s(step(CollectiveKind.ALL_TO_ALL, size, "x"), flat(machines))
    near = collective_time_s(step(CollectiveKind.ALL_TO_ALL, size, "y"), inside)
    assert across == pytest.approx(size / 2 / (0.95 * 50 * GIGA), rel=0.02)
    assert near < across / 3


def test_an_exchange_on_a_torus_is_bound_by_its_bisection() -> None:
    """Every byte crosses a quarter of the side, either way round."""
    machines, size = topology("v5e-256"), 2**30
    placed = place(Mesh.of(x=16, y=16), machines)
    time_s = collective_time_s(step(CollectiveKind.ALL_TO_ALL, size, "y"), placed)
    wire = machines.levels[0].bandwidth_bytes_per_s / 2
    assert time_s == pytest.approx(size * 16 / 8 / (0.9 * wire), rel=0.01)


def test_a_message_takes_one_way_round_a_ring_and_one_wire_to_a_peer() -> None:
    size = 2**30
    ring = place(Mesh.of(x=16, y=16), topology("v5e-256"))
    wire = ring.topology.levels[0].bandwidth_bytes_per_s / 2
    sent = step(CollectiveKind.PERMUTE, size, "y")
    assert collective_time_s(sent, ring) == pytest.approx(size / (0.9 * wire), rel=0.01)
    peers = place(Mesh.of(x=1, y=8), topology("8xMI300X"))
    assert collective_time_s(sent, peers) == pytest.approx(size / (0.72 * 64 * GIGA), rel=0.01)


def test_devices_of_one_memory_leave_each_other_more_when_fewer_talk() -> None:
    machines = topology("cpu:8")
    moved = step(CollectiveKind.ALL_GATHER, 2**30, "x")
    pair, all_pairs = place(Mesh.of(x=2), machines), place(Mesh.of(y=4, x=2), machines)
    ratio = collective_time_s(moved, all_pairs) / collective_time_s(moved, pair)
    assert ratio == pytest.approx(4, rel=0.01)


def test_kinds_of_links_are_found_by_their_names() -> None:
    assert link_profile("NVLink4").efficiency == dict(PROFILES)["NVLink4"].efficiency
    assert kind_of_link("NVLink6") == "NVLink"
    assert kind_of_link("NDR InfiniBand CX-7") == "InfiniBand"
    assert link_profile("carrier pigeon") == NEUTRAL
