"""Laws of the cost model that hold whatever its figures are."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from shardwright.cluster import Device, LinkLevel, Mesh, PlacedMesh, Topology
from shardwright.cluster.place import place
from shardwright.cost import collective_time_s, matmul_time_s, memory_time_s, op_time_s
from shardwright.sharding import Collective, CollectiveKind, Sharding
from shardwright.sharding.reshard import reshard

DEVICE = Device(
    name="round figures",
    peak_flops_per_s=(("float32", 1e12), ("bfloat16", 4e12)),
    memory_bytes=10**9,
    memory_bandwidth_bytes_per_s=1e11,
    matmul_efficiency=0.5,
    launch_s=1e-6,
)
MOVING = [kind for kind in CollectiveKind if kind is not CollectiveKind.SLICE]
SIZES = draw.integers(0, 10**9)
BANDWIDTHS = draw.floats(1e6, 1e12)
LATENCIES = draw.floats(0, 1e-3)
law = settings(deadline=None, derandomize=True, max_examples=40)


def placed_on(sizes: dict[str, int], links: dict[str, tuple[float, float]]) -> PlacedMesh:
    """A mesh whose axes have these (bandwidth, latency) pairs."""
    mesh = Mesh.of(**sizes)
    levels = tuple(
        LinkLevel(
            name=axis.name,
            num_units=axis.size,
            bandwidth_bytes_per_s=links[axis.name][0],
            latency_s=links[axis.name][1],
        )
        for axis in reversed(mesh.axes)
    )
    return place(mesh, Topology(name="made up", device=DEVICE, levels=levels))


def step_of(kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Collective:
    """A collective whose larger side is ``size_bytes``; the smaller one plays no part in time."""
    gathers = kind is CollectiveKind.ALL_GATHER
    scatters = kind is CollectiveKind.REDUCE_SCATTER
    return Collective(
        kind=kind,
        axes=axes,
        input_bytes=0 if gathers else size_bytes,
        output_bytes=0 if scatters else size_bytes,
    )


def time_s(
    kind: CollectiveKind, size_bytes: int, placed: PlacedMesh, axes: tuple[str, ...] = ()
) -> float:
    return collective_time_s(step_of(kind, axes or placed.mesh.names, size_bytes), placed)


TWO_LEVELS = placed_on({"dp": 4, "tp": 8}, {"dp": (1e9, 1e-5), "tp": (1e11, 1e-6)})


@pytest.mark.parametrize("kind", CollectiveKind)
def test_zero_over_axes_of_size_one(kind: CollectiveKind) -> None:
    placed = placed_on({"one": 1, "also": 1}, {"one": (1.0, 1.0), "also": (1.0, 1.0)})
    assert time_s(kind, 10**9, placed) == 0


@pytest.mark.parametrize("kind", MOVING)
def test_an_axis_of_size_one_adds_nothing(kind: CollectiveKind) -> None:
    placed = placed_on({"one": 1, "tp": 8}, {"one": (1.0, 1.0), "tp": (1e9, 1e-6)})
    assert time_s(kind, 10**6, placed) == time_s(kind, 10**6, placed, ("tp",))


def test_a_slice_is_free() -> None:
    assert time_s(CollectiveKind.SLICE, 10**9, TWO_LEVELS) == 0


@pytest.mark.parametrize("kind", MOVING)
@given(small=SIZES, more=SIZES)
@law
def test_more_bytes_never_take_less_time(kind: CollectiveKind, small: int, more: int) -> None:
    assert time_s(kind, small, TWO_LEVELS) <= time_s(kind, small + more, TWO_LEVELS)


@pytest.mark.parametrize("kind", MOVING)
@given(size=SIZES, slow=BANDWIDTHS, other=BANDWIDTHS, gain=draw.floats(1, 1e3), wait=LATENCIES)
@law
def test_a_faster_link_is_never_slower(
    kind: CollectiveKind, size: int, slow: float, other: float, gain: float, wait: float
) -> None:
    def over(bandwidth: float, latency: float) -> float:
        links = {"dp": (bandwidth, latency), "tp": (other, 1e-6)}
        return time_s(kind, size, placed_on({"dp": 4, "tp": 8}, links))

    before = over(slow, wait)
    assert over(slow * gain, wait) <= before * (1 + 1e-12)
    assert over(slow, wait / gain) <= before * (1 + 1e-12)


@pytest.mark.parametrize("axes", [("dp",), ("tp",), ("dp", "tp"), ("tp", "dp")], ids=str)
@given(size=SIZES)
@law
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(
    axes: tuple[str, ...], size: int
) -> None:
    halves = [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER]
    whole = time_s(CollectiveKind.ALL_REDUCE, size, TWO_LEVELS, axes)
    assert whole == pytest.approx(sum(time_s(kind, size, TWO_LEVELS, axes) for kind in halves))


def test_over_two_axes_the_slow_link_carries_only_the_scattered_piece() -> None:
    both = time_s(CollectiveKind.ALL_REDUCE, 8 * 10**6, TWO_LEVELS)
    inside = time_s(CollectiveKind.ALL_REDUCE, 8 * 10**6, TWO_LEVELS, ("tp",))
    across = time_s(CollectiveKind.ALL_REDUCE, 10**6, TWO_LEVELS, ("dp",))
    assert both == pytest.approx(inside + across)


FIGURES = [
    (CollectiveKind.ALL_GATHER, 0.75 * 4e6 / 1e9 + 2e-6),
    (CollectiveKind.REDUCE_SCATTER, 0.75 * 4e6 / 1e9 + 2e-6),
    (CollectiveKind.ALL_REDUCE, 1.5 * 4e6 / 1e9 + 4e-6),
    (CollectiveKind.ALL_TO_ALL, 0.75 * 4e6 / 1e9 + 3e-6),
    (CollectiveKind.PERMUTE, 4e6 / 1e9 + 1e-6),
]


@pytest.mark.parametrize(("kind", "figure"), FIGURES)
def test_times_over_one_axis_of_four(kind: CollectiveKind, figure: float) -> None:
    placed = placed_on({"tp": 4}, {"tp": (1e9, 1e-6)})
    assert time_s(kind, 4 * 10**6, placed) == pytest.approx(figure, rel=1e-12)


def test_every_kind_that_moves_has_a_figure() -> None:
    assert {row[0] for row in FIGURES} == set(MOVING)


@dataclasses.dataclass(frozen=True, eq=False)
class Seconds:
    """The model's time as the price of a path."""

    placed: PlacedMesh

    def __call__(self, step: Collective) -> float:
        return collective_time_s(step, self.placed)


def test_a_path_takes_the_sum_of_its_steps_and_more_for_larger_tensors() -> None:
    price, mesh = Seconds(TWO_LEVELS), TWO_LEVELS.mesh
    ends = [Sharding.of(*dims) for dims in itertools.product((None, "dp", "tp"), repeat=2)]
    ends = [end for end in ends if len(set(end.axes)) == len(end.axes)]
    for source, target in itertools.product(ends, repeat=2):
        small = reshard((64, 64), 4, source, target, mesh, price)
        large = reshard((64, 128), 4, source, target, mesh, price)
        assert small.price == pytest.approx(sum(price(step) for step in small.steps))
        assert small.price <= large.price


@given(flops=draw.floats(0, 1e15), size=draw.floats(0, 1e12), more=draw.floats(1, 100))
@law
def test_more_work_never_takes_less_time(flops: float, size: float, more: float) -> None:
    topology = TWO_LEVELS.topology
    base = matmul_time_s(flops, size, "float32", topology)
    assert base <= matmul_time_s(flops * more, size, "float32", topology)
    assert base <= matmul_time_s(flops, size * more, "float32", topology)
    assert base >= memory_time_s(size, topology)
    assert memory_time_s(size, topology) <= memory_time_s(size * more, topology)


@pytest.mark.parametrize("kind", ["dot_general", "add"])
def test_devices_that_share_cores_take_turns(kind: str) -> None:
    alone = TWO_LEVELS.topology
    shared = dataclasses.replace(alone, shared_compute=True)
    one = op_time_s(kind, 1e9, 1e6, "float32", alone)
    assert op_time_s(kind, 1e9, 1e6, "float32", shared) == pytest.approx(32 * one)
