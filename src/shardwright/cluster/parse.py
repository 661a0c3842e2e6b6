"""Readers of machine names: from ``4x p5.48xlarge`` to a ``Topology``."""

from __future__ import annotations

import re
from pathlib import Path

from shardwright.cluster.catalogue import (
    DeviceEntry,
    device_entry,
    device_names,
    find_device,
    find_instance,
    instances,
)
from shardwright.cluster.hosts import hosts_topology, of_devices, of_instances
from shardwright.cluster.this_machine import host_cpu_topology
from shardwright.cluster.topology import Topology
from shardwright.cluster.tpu import slice_named, slice_of_devices
from shardwright.cluster.yaml_file import read_topology
from shardwright.errors import TopologyError, did_you_mean

_CPU = re.compile(r"^(?:cpu(?::(-?\d+))?|(\d+)\s*x\s*cpu)$", re.IGNORECASE)
_COUNTS = re.compile(r"^(\d+)(?:\s*[x×*]\s*|\s+)(?:(\d+)\s*[x×*]\s*)?(\S.*)$")  # noqa: RUF001


def topology(text: str | Path | Topology) -> Topology:
    """The machines that a short text, or a YAML file, names.

    ==============================  ============================================================
    ``8xH100-80GB-SXM``, ``H100``   devices of the catalogue, in any spelling that is clear
    ``64xH100``                     more than a host: hosts of the device's usual size, mostly 8
    ``2x4xA100``                    hosts times devices
    ``4x p5.48xlarge``              cloud instances and vendor boxes
    ``v5e-16``, ``2x v5p-128``      TPU slices
    ``cpu:8``                       virtual CPU devices that share this host's cores
    ``cluster.yaml``                a file, see ``yaml_file``
    ==============================  ============================================================

    Naming devices alone leaves the network open. Then it is that of the device's DGX box, or of
    its commonest instance in the table: one 400 Gb/s port per device for H100 and its successors,
    200 Gb/s for A100. Devices that no instance holds get 100 Gb/s each.

    Raises:
        TopologyError: no text, an unknown name, a count of zero, devices that do not fill whole
            hosts, a slice that does not exist, or a damaged file.
    """
    if isinstance(text, Topology):
        return text
    if not isinstance(text, str | Path):
        raise TopologyError(
            f"cluster is {text!r}; a name, a file or a Topology is wanted",
            hint='"8xH100", "4x p5.48xlarge", "v5e-16", "cpu:8" or "cluster.yaml"',
        )
    if isinstance(text, Path) or text.strip().lower().endswith((".yaml", ".yml")):
        return read_topology(Path(text))
    return _named(text.strip())


def _named(text: str) -> Topology:
    cpu = _CPU.match(text)
    if cpu:
        return host_cpu_topology(int(cpu[1] or cpu[2] or 1))
    counts, name = _split_counts(text)
    if 0 in counts:
        raise TopologyError(f'"{text}" asks for 0 devices; at least 1')
    count = counts[0] if counts else 1
    found = None
    if len(counts) < 2:
        found = slice_named(text, name, num_slices=count) or _of_instances(text, name, count)
    return found or _of_devices(text, name, counts)


def _split_counts(text: str) -> tuple[tuple[int, ...], str]:
    match = _COUNTS.match(text)
    if match is None:
        return (), text
    return tuple(int(count) for count in match.groups()[:2] if count), match[3]


def _of_instances(text: str, name: str, count: int) -> Topology | None:
    instance = find_instance(name)
    if instance is None:
        return None
    return of_instances(text, count, instance, device_entry(instance.device_name))


def _of_devices(text: str, name: str, counts: tuple[int, ...]) -> Topology:
    entry = find_device(name) or _unknown(name)
    if len(counts) == 2:
        return _hosts_times_devices(text, entry, *counts)
    count = counts[0] if counts else 1
    if entry.is_tpu:
        return slice_of_devices(text, entry, count)
    return of_devices(text, count, entry)


def _hosts_times_devices(text: str, entry: DeviceEntry, hosts: int, per_host: int) -> Topology:
    if entry.is_tpu:
        raise TopologyError(
            f'"{text}" counts hosts, but {entry.device.name} devices stand in a torus',
            hint='a slice, as in "v5e-16"',
        )
    return hosts_topology(text, entry, num_hosts=hosts, per_host=per_host)


def _unknown(name: str) -> DeviceEntry:
    known = (*device_names(), *(item.name for item in instances()))
    raise TopologyError(
        f'no device or instance is called "{name}"',
        hint=f"{did_you_mean(name, known)} (or state its figures in a YAML file)",
    )
