from __future__ import annotations

import os

import pytest

from shardwright.cluster.parse import topology
from shardwright.cluster.this_machine import describe_devices, host_cpu_topology

H100 = "NVIDIA H100 80GB HBM3"


def test_cpu_devices_share_memory_links_and_cores():
    one, eight = host_cpu_topology(1), host_cpu_topology(8)
    assert eight.num_devices == 8
    assert one.levels == ()
    assert eight.shared_compute
    assert eight.reserve_bytes == 0
    assert eight.device.peak_flops_per_s == one.device.peak_flops_per_s
    assert eight.device.memory_bytes == one.device.memory_bytes // 8
    host_bandwidth = 8 * eight.levels[0].bandwidth_bytes_per_s
    assert host_bandwidth == pytest.approx(one.device.memory_bandwidth_bytes_per_s / 2)


def test_the_host_is_this_one():
    host = host_cpu_topology(1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert dict(host.device.peak_flops_per_s)["float32"] == cores * 30e9
    assert 2**28 < host.device.memory_bytes < 2**46


# platform, kinds, processes, the same as
ROWS = [
    ("cpu", ["cpu"] * 4, [0] * 4, "cpu:4"),
    ("cpu", ["cpu"] * 4, [0, 0, 1, 1], "cpu:4"),
    ("gpu", [H100] * 8, [0] * 8, "8xH100"),
    ("cuda", [H100] * 16, [0] * 8 + [1] * 8, "16xH100"),
    ("gpu", [H100] * 8, [0, 0, 0, 0, 1, 1, 1, 1], "2x4xH100"),
    ("gpu", [H100] * 16, list(range(16)), "16xH100"),  # one process per device: hosts unknown
    ("gpu", ["NVIDIA A100-SXM4-40GB"], [0], "A100-40"),
    ("rocm", ["AMD Instinct MI300X"] * 8, [0] * 8, "8xMI300X"),
    ("tpu", ["TPU v4"] * 4, [0] * 4, "v4-8"),
    ("tpu", ["TPU v5 lite"] * 16, [0] * 8 + [1] * 8, "v5e-16"),
    ("tpu", ["TPU v5p"] * 64, [0] * 64, "v5p-128"),
    ("tpu", ["TPU v3"] * 8, [0] * 8, "v3-8"),
    ("tpu", ["TPU7x"] * 2, [0] * 2, "tpu7x-2"),
]


@pytest.mark.parametrize(
    ("platform", "kinds", "processes", "same"), ROWS, ids=[f"{r[0]} {r[3]}" for r in ROWS]
)
def test_reported_devices_become_the_topology_of_their_name(platform, kinds, processes, same):
    described = describe_devices(platform, kinds, processes)
    assert described.num_devices == len(kinds)
    assert described.fingerprint == topology(same).fingerprint
