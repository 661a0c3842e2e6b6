"""The roofline of local work, and the peak that stands in for a missing one."""

from __future__ import annotations

import pytest

from shardwright.cluster import Device, LinkLevel, Topology
from shardwright.cost import matmul_time_s, memory_time_s, op_time_s, peak_flops_per_s


def device(**peaks: float) -> Device:
    return Device(
        name="made up",
        peak_flops_per_s=tuple(peaks.items()),
        memory_bytes=10**9,
        memory_bandwidth_bytes_per_s=1e10,
        matmul_efficiency=0.5,
        launch_s=1e-6,
    )


LINK = LinkLevel(name="link", num_units=2, bandwidth_bytes_per_s=1e9, latency_s=0.0)
PAIR = Topology(name="pair", device=device(float32=1e12), levels=(LINK,))

PEAKS = [
    ("its own", {"float32": 1.0, "bfloat16": 4.0}, "bfloat16", 4.0),
    ("bfloat16 as float16", {"float32": 1.0, "float16": 8.0}, "bfloat16", 8.0),
    ("bfloat16 as float32", {"float64": 0.5, "float32": 1.0}, "bfloat16", 1.0),
    ("float16 as bfloat16", {"float32": 1.0, "bfloat16": 4.0}, "float16", 4.0),
    ("float8 as bfloat16", {"float32": 1.0, "bfloat16": 4.0}, "float8_e4m3fn", 4.0),
    ("float64 as the slowest", {"float32": 1.0, "bfloat16": 4.0}, "float64", 1.0),
    ("int32 as the slowest", {"float32": 1.0, "float64": 0.5}, "int32", 0.5),
]


@pytest.mark.parametrize(
    ("peaks", "dtype", "peak"), [row[1:] for row in PEAKS], ids=[row[0] for row in PEAKS]
)
def test_the_nearest_peak_stands_in(peaks: dict[str, float], dtype: str, peak: float) -> None:
    assert peak_flops_per_s(device(**peaks), dtype) == peak


def test_a_large_product_is_bound_by_arithmetic() -> None:
    assert matmul_time_s(1e12, 1e6, "float32", PAIR) == pytest.approx(2 + 1e-6)


def test_a_thin_product_is_bound_by_memory() -> None:
    assert matmul_time_s(1e6, 1e10, "float32", PAIR) == pytest.approx(1 + 1e-6)


def test_other_work_is_bound_by_memory_whatever_it_computes() -> None:
    assert memory_time_s(1e10, PAIR) == pytest.approx(1 + 1e-6)
    assert op_time_s("exp", 1e15, 1e10, "float32", PAIR) == memory_time_s(1e10, PAIR)
    assert op_time_s("dot_general", 1e12, 1e6, "float32", PAIR) == pytest.approx(2 + 1e-6)
