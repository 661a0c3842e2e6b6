from __future__ import annotations

import pytest

from shardwright.cluster.catalogue import devices, instances
from shardwright.cluster.figures import reserve_bytes
from shardwright.cluster.parse import topology
from shardwright.cluster.table import rows_of_kind

# text, device, (level, units, GB/s one way per device) innermost first
ROWS = [
    ("H100", "H100-SXM5-80GB", []),
    ("1xA100", "A100-SXM4-80GB", []),
    ("8xH100-80GB-SXM", "H100-SXM5-80GB", [("NVLink4", 8, 450)]),
    ("8 x h100", "H100-SXM5-80GB", [("NVLink4", 8, 450)]),
    ("8 H100", "H100-SXM5-80GB", [("NVLink4", 8, 450)]),
    ("8×H100", "H100-SXM5-80GB", [("NVLink4", 8, 450)]),  # noqa: RUF001
    ("3xH100", "H100-SXM5-80GB", [("NVLink4", 3, 450)]),
    ("64xH100", "H100-SXM5-80GB", [("NVLink4", 8, 450), ("NDR InfiniBand CX-7", 8, 50)]),
    ("2x4xA100", "A100-SXM4-80GB", [("NVLink3", 4, 300), ("HDR InfiniBand", 2, 25)]),
    ("3x1xH100", "H100-SXM5-80GB", [("NDR InfiniBand CX-7", 3, 50)]),
    ("p4d.24xlarge", "A100-SXM4-40GB", [("NVLink3", 8, 300)]),
    ("4x p5.48xlarge", "H100-SXM5-80GB", [("NVLink4", 8, 450), ("EFA v2", 4, 50)]),
    ("2xP4D.24xlarge", "A100-SXM4-40GB", [("NVLink3", 8, 300), ("EFA v1", 2, 6.25)]),
    ("2x DGX H100", "H100-SXM5-80GB", [("NVLink4", 8, 450), ("NDR InfiniBand CX-7", 2, 50)]),
    ("g5.48xlarge", "A10G-24GB", [("PCIe4 x16", 8, 31)]),
    ("8xMI300X", "MI300X", [("xGMI", 8, 448)]),
    ("16xMI250X", "MI250X", [("xGMI", 8, 175), ("Ethernet (assumed)", 2, 12.5)]),
    ("2xGH200", "GH200-141GB", [("Ethernet (assumed)", 2, 12.5)]),
    # a fast domain of 72 over trays of 4
    ("72xGB200", "GB200-186GB", [("NVLink5", 72, 900)]),
    ("128xGB200", "GB200-186GB", [("NVLink5", 64, 900), ("RoCE CX-7", 2, 50)]),
    ("18x a4x-highgpu-4g", "GB200-186GB", [("NVLink5", 72, 900)]),
    ("2x GB200-NVL72-rack", "GB200-186GB", [("NVLink5", 72, 900), ("XDR/NDR", 2, 100)]),
    # TPU: N counts chips on v5e and v6e, TensorCores on v4 and v5p, JAX devices on tpu7x
    ("v5e-16", "TPU-v5e", [("ICI", 4, 50), ("ICI", 4, 50)]),
    ("v5litepod-8", "TPU-v5e", [("ICI", 2, 50), ("ICI", 4, 50)]),
    ("v5e-256", "TPU-v5e", [("ICI", 16, 100), ("ICI", 16, 100)]),
    ("v5e-1", "TPU-v5e", []),
    ("2x v5e-256", "TPU-v5e", [("ICI", 16, 100), ("ICI", 16, 100), ("DCN", 2, 3.1)]),
    ("v4-8", "TPU-v4", [("ICI", 2, 45), ("ICI", 2, 45)]),
    ("v5p-128", "TPU-v5p", [("ICI", 4, 200), ("ICI", 4, 200), ("ICI", 4, 200)]),
    ("v5p-64", "TPU-v5p", [("ICI", 2, 100), ("ICI", 4, 100), ("ICI", 4, 100)]),
    ("TPU v6e-8", "TPU-v6e", [("ICI", 4, 100), ("ICI", 2, 100)]),
    ("v3-8", "TPU-v3", [("die to die", 2, 225), ("ICI", 2, 50), ("ICI", 2, 50)]),
    (
        "tpu7x-128",
        "TPU-v7x",
        [("die to die", 2, 1845), ("ICI", 4, 100), ("ICI", 4, 100), ("ICI", 4, 100)],
    ),
    ("4xTPU-v5e", "TPU-v5e", [("ICI", 2, 50), ("ICI", 2, 50)]),
    ("1xTPU-v7x", "TPU-v7x", []),
]


@pytest.mark.parametrize(("text", "device", "levels"), ROWS, ids=[row[0] for row in ROWS])
def test_a_name_becomes_a_topology(text, device, levels):
    read = topology(text)
    assert read.name == text
    assert read.device.name == device
    found = [
        (level.name, level.num_units, level.bandwidth_bytes_per_s / 1e9) for level in read.levels
    ]
    assert [row[:2] for row in found] == [row[:2] for row in levels]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in levels])
    assert all(level.latency_s > 0 for level in read.levels)
    assert read.reserve_bytes == reserve_bytes(read.device)
    assert not read.shared_compute


@pytest.mark.parametrize("row", rows_of_kind("tpu_slice"), ids=lambda row: row.name)
def test_every_listed_slice_reads_with_its_devices(row):
    stated = int(row.number("scaleup_domain_devices") or 0)
    assert topology(row.name).num_devices == stated
    assert topology(row.name).device.name == row.text("device")


@pytest.mark.parametrize("item", instances(), ids=lambda item: item.name)
def test_two_of_every_instance_hold_twice_its_devices(item):
    read = topology(f"2x {item.name}")
    assert read.num_devices == 2 * item.devices_per_host
    assert read.device.name == item.device_name


@pytest.mark.parametrize("one", devices(), ids=lambda one: one.name)
def test_two_of_every_device_have_a_link(one):
    read = topology(f"2x{one.name}")
    assert read.num_devices == 2
    assert read.device == one
    assert read.levels[0].bandwidth_bytes_per_s > 1e9


@pytest.mark.parametrize("text", ["cpu:8", "CPU:8", "8xcpu"])
def test_cpu_devices_share_this_host(text):
    read = topology(text)
    assert read.num_devices == 8
    assert read.shared_compute


def test_one_cpu_device_needs_no_count():
    assert topology("cpu").num_devices == 1


def test_a_topology_passes_through():
    read = topology("8xH100")
    assert topology(read) is read


def test_the_same_text_has_the_same_fingerprint_and_another_network_another():
    assert topology("64xH100").fingerprint == topology("64 H100-SXM5").fingerprint
    assert topology("8x p5.48xlarge").fingerprint != topology("8x a3-megagpu-8g").fingerprint


def test_directly_wired_devices_state_what_one_pair_gets():
    assert topology("8xMI300X").levels[0].peer_bandwidth_bytes_per_s == 64e9
    assert topology("8xH100").levels[0].peer_bandwidth_bytes_per_s == 0
