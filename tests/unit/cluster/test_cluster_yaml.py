from __future__ import annotations

import pytest

from shardwright.cluster import LinkLevel
from shardwright.cluster.catalogue import device
from shardwright.cluster.figures import reserve_bytes
from shardwright.cluster.parse import topology
from shardwright.cluster.quantities import bytes_per_s, flag, flops, memory_bytes, seconds, share
from shardwright.units import GIB

WHOLE = """\
name: lab cluster
device:
  name: X100
  peaks: {bfloat16: 400 TFLOP/s, float32: 2e14}
  memory: 64 GiB
  memory_bandwidth: 2 TB/s
  matmul_efficiency: 0.6
  launch: 4 us
levels:
  - {name: Wire, num_units: 4, bandwidth: 350 GB/s, latency: 2 us, peer_bandwidth: 100 GB/s}
  - name: Ring
    num_units: 8
    bandwidth: 5.0e10
    latency: 5e-6
    torus: true
reserve: 4 GiB
shared_compute: true
"""


def test_a_file_states_everything(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text(WHOLE)
    read = topology(path)
    assert read == topology(str(path))
    assert read.name == "lab cluster"
    assert read.num_devices == 32
    assert read.device.name == "X100"
    assert dict(read.device.peak_flops_per_s) == {"bfloat16": 4e14, "float32": 2e14}
    assert read.device.memory_bytes == 64 * GIB
    assert read.device.memory_bandwidth_bytes_per_s == 2e12
    assert read.device.matmul_efficiency == 0.6
    assert read.device.launch_s == pytest.approx(4e-6)
    assert read.device.source == f"{path}:3, device"
    assert read.reserve_bytes == 4 * GIB
    assert read.shared_compute
    assert read.levels == (
        LinkLevel(
            name="Wire",
            num_units=4,
            bandwidth_bytes_per_s=350e9,
            latency_s=2e-6,
            peer_bandwidth_bytes_per_s=100e9,
        ),
        LinkLevel(
            name="Ring",
            num_units=8,
            bandwidth_bytes_per_s=50e9,
            latency_s=5e-6,
            is_torus=True,
        ),
    )


def test_a_catalogue_device_needs_only_its_levels(tmp_path):
    path = tmp_path / "lab.yml"
    path.write_text("device: H100\nlevels: []\n")
    read = topology(path)
    assert (read.name, read.num_devices) == ("lab", 1)
    assert read.device == device("H100")
    assert read.reserve_bytes == reserve_bytes(read.device)
    assert not read.shared_compute


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (bytes_per_s, "450 GB/s", 450e9),
        (bytes_per_s, "450GB/s", 450e9),
        (bytes_per_s, "1 GiB/s", GIB),
        (bytes_per_s, "4.5e11", 4.5e11),
        (seconds, "2 us", 2e-6),
        (seconds, "2e-6", 2e-6),
        (seconds, "0", 0.0),
        (seconds, "1.5ms", 1.5e-3),
        (flops, "400 TFLOP/s", 4e14),
        (flops, "1.2 PFLOPS", 1.2e15),
        (flops, "30e9", 30e9),
        (memory_bytes, "80 GB", 80 * 10**9),
        (share, "1", 1.0),
        (flag, "True", True),
    ],
)
def test_quantities(parse, text, value):
    assert parse(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (bytes_per_s, "fast"),
        (bytes_per_s, "0"),
        (bytes_per_s, "-1e9"),
        (bytes_per_s, "inf"),
        (bytes_per_s, "nan"),
        (seconds, "-1 us"),
        (seconds, "2 minutes"),
        (seconds, "1.2.3"),
        (flops, "0 TFLOP/s"),
        (memory_bytes, "0"),
        (share, "0"),
        (share, "1.1"),
        (share, "nan"),
        (flag, "yes"),
    ],
)
def test_senseless_quantities_are_refused(parse, text):
    with pytest.raises(ValueError, match=r".*"):
        parse(text)
