"""Topologies from YAML files.

::

    name: lab cluster             # optional; the file's name otherwise
    device: H100                  # a catalogue name, or figures:
    # device:
    #   name: X100
    #   peaks: {bfloat16: 400 TFLOP/s, float32: 200 TFLOP/s}
    #   memory: 64 GiB
    #   memory_bandwidth: 2 TB/s
    #   matmul_efficiency: 0.6    # optional
    #   launch: 5 us              # optional
    levels:                       # innermost first; bandwidths one way, per device
      - {name: NVLink4, num_units: 8, bandwidth: 450 GB/s, latency: 2 us}
      - {name: InfiniBand, num_units: 4, bandwidth: 50 GB/s, latency: 5 us}
    reserve: 4 GiB                # optional; 7 % of the memory, at least 1 GiB
    shared_compute: false         # optional; true when the devices share one host's cores

A level may also state ``peer_bandwidth`` (direct wires between each pair) and ``torus: true``.
Numbers without a unit are bytes, bytes per second, FLOP per second and seconds.
"""

from __future__ import annotations

from pathlib import Path

from shardwright.cluster.catalogue import device_entry
from shardwright.cluster.figures import PEAK_DTYPES, reserve_bytes
from shardwright.cluster.topology import Device, LinkLevel, Topology
from shardwright.cluster.yaml_section import Section, open_section
from shardwright.errors import TopologyError
from shardwright.units import format_bytes

_TOP = ("name", "device", "levels", "reserve", "shared_compute")
_DEVICE = ("name", "peaks", "memory", "memory_bandwidth", "matmul_efficiency", "launch")
_LEVEL = ("name", "num_units", "bandwidth", "latency", "peer_bandwidth", "torus")


def read_topology(path: Path) -> Topology:
    """The topology that a YAML file states.

    Raises:
        TopologyError: the file is missing, is not YAML, or a key is unknown, missing or senseless;
            the message names file and line.
    """
    top = open_section(path)
    top.allow(_TOP)
    device = _device(top)
    reserve = top.reserve_bytes("reserve", default=reserve_bytes(device))
    if reserve >= device.memory_bytes:
        raise TopologyError(
            f"the reserve of {format_bytes(reserve)} leaves nothing of "
            f"{format_bytes(device.memory_bytes)}",
            where=top.where("reserve"),
        )
    return Topology(
        name=top.text("name", default=path.stem),
        device=device,
        levels=tuple(_level(section) for section in top.sections("levels")),
        shared_compute=top.flag("shared_compute"),
        reserve_bytes=reserve,
    )


def _device(top: Section) -> Device:
    section = top.section_or_none("device")
    if section is None:
        name = top.text("device")
        try:
            return device_entry(name).device
        except TopologyError as error:
            raise TopologyError(error.what, where=top.where("device"), hint=error.hint) from None
    section.allow(_DEVICE)
    return Device(
        name=section.text("name"),
        peak_flops_per_s=section.rates("peaks", PEAK_DTYPES),
        memory_bytes=section.memory_bytes("memory"),
        memory_bandwidth_bytes_per_s=section.bytes_per_s("memory_bandwidth"),
        matmul_efficiency=section.share("matmul_efficiency", default=0.65),
        launch_s=section.seconds("launch", default=5e-6),
        source=top.where("device"),
    )


def _level(section: Section) -> LinkLevel:
    section.allow(_LEVEL)
    return LinkLevel(
        name=section.text("name"),
        num_units=section.count("num_units"),
        bandwidth_bytes_per_s=section.bytes_per_s("bandwidth"),
        latency_s=section.seconds("latency"),
        peer_bandwidth_bytes_per_s=section.bytes_per_s("peer_bandwidth", default=0.0),
        is_torus=section.flag("torus"),
    )
