"""``shardwright hardware``: the catalogue, or one kind of machines in full."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from shardwright.cli.answer import give, json_option, table
from shardwright.cluster import Device, LinkLevel, Topology
from shardwright.cluster.catalogue import (
    DeviceEntry,
    device_entries,
    find_device,
    instances,
    slice_shapes,
)
from shardwright.cluster.parse import topology as parse_topology
from shardwright.units import format_bytes, format_rate, format_time


@click.command("hardware")
@click.argument("name", default="")
@json_option
def command(*, name: str, as_json: bool) -> int:
    """List the devices and hosts that are known, or show what NAME stands for.

    NAME is what --cluster takes: H100, 8xH100, '4x p5.48xlarge', v5e-16, cpu:8, a YAML file.
    """
    if name:
        topology = parse_topology(name)
        return give(_shown(topology), _document(topology), as_json=as_json)
    return give(_catalogue(), _catalogue_document(), as_json=as_json)


def _shown(topology: Topology) -> str:
    device = topology.device
    entry = find_device(device.name)
    lines = [
        f"{topology.name}: {topology.num_devices} x {device.name}",
        f"  memory     {format_bytes(device.memory_bytes)}"
        f" at {format_rate(device.memory_bandwidth_bytes_per_s, 'B')}",
        f"  budget     {format_bytes(topology.budget_bytes)} a device"
        f" ({format_bytes(topology.reserve_bytes)} kept for the runtime)",
        f"  peak       {_peaks(device)}",
        f"  assumed    {device.matmul_efficiency:.0%} of the peak in large products,"
        f" {format_time(device.launch_s)} to start an operator",
        *(f"  level {index}    {_level(level)}" for index, level in enumerate(topology.levels)),
    ]
    if topology.shared_compute:
        lines.append("  note       the devices share one host's cores; their figures are nominal")
    if entry is not None:
        lines += _wiring(entry)
    if device.source:
        lines.append(f"  source     {device.source}")
    return "\n".join(lines)


def _peaks(device: Device) -> str:
    return ", ".join(
        f"{dtype} {format_rate(peak, 'FLOP')}" for dtype, peak in device.peak_flops_per_s
    )


def _level(level: LinkLevel) -> str:
    bandwidth = format_rate(level.bandwidth_bytes_per_s, "B")
    text = (
        f"{level.num_units} on {level.name}: {bandwidth} one way per device,"
        f" {format_time(level.latency_s)}"
    )
    if level.peer_bandwidth_bytes_per_s:
        text += f", {format_rate(level.peer_bandwidth_bytes_per_s, 'B')} between two"
    return text + (", a torus" if level.is_torus else "")


def _wiring(entry: DeviceEntry) -> list[str]:
    lines = [
        f"  usually    {entry.devices_per_host} a host on {entry.link}, hosts on {entry.network}",
        f"  confidence {entry.confidence}",
    ]
    return [*lines, f"  note       {entry.notes}"] if entry.notes else lines


def _document(topology: Topology) -> dict[str, Any]:
    return {
        **asdict(topology),
        "num_devices": topology.num_devices,
        "budget_bytes": topology.budget_bytes,
        "fingerprint": topology.fingerprint,
    }


def _catalogue() -> str:
    devices = table(
        ("device", "memory", "bfloat16 peak", "link", "one way", "a host", "confidence"),
        [_device_row(entry) for entry in device_entries()],
    )
    hosts = table(
        ("host", "devices", "network", "one way per device", "confidence"),
        [
            (
                item.name,
                f"{item.devices_per_host} x {item.device_name}",
                item.network,
                format_rate(item.network_bandwidth_bytes_per_s, "B"),
                item.confidence,
            )
            for item in instances()
        ],
    )
    slices = ", ".join(
        f"{name} ({'x'.join(map(str, shape))})" for name, shape in slice_shapes().items()
    )
    return f"{devices}\n\n{hosts}\n\nTPU slices: {slices}"


def _device_row(entry: DeviceEntry) -> tuple[object, ...]:
    peaks = dict(entry.device.peak_flops_per_s)
    bandwidth = entry.link_bandwidth_bytes_per_s
    return (
        entry.device.name,
        format_bytes(entry.device.memory_bytes),
        format_rate(peaks["bfloat16"], "FLOP") if "bfloat16" in peaks else "-",
        entry.link,
        format_rate(bandwidth, "B") if bandwidth else "-",
        entry.devices_per_host,
        entry.confidence,
    )


def _catalogue_document() -> dict[str, Any]:
    return {
        "devices": [asdict(entry) for entry in device_entries()],
        "hosts": [asdict(item) for item in instances()],
        "slices": slice_shapes(),
    }
