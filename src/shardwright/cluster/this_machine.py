"""The devices at hand: virtual CPU devices of this host, or what a framework reports.

This room knows no framework: the caller passes what it saw, as plain strings and integers.

The figures of CPU devices are nominal, for a planner that must order plans, not for a forecast;
measuring the host replaces them. All virtual devices share the host's cores, so each has the whole
host's peak and the topology says ``shared_compute``; memory and link bandwidth are shared out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from shardwright.cluster.catalogue import device_entry
from shardwright.cluster.hosts import hosts_topology, of_devices
from shardwright.cluster.topology import Device, LinkLevel, Topology
from shardwright.cluster.tpu import slice_of_devices
from shardwright.errors import TopologyError

CORE_FLOPS_PER_S = 30e9
"""float32, one core with 8-wide fused multiply-add, about half its nominal peak."""
CORE_BANDWIDTH_BYTES_PER_S = 8e9
"""Share of the host's memory bandwidth that one core can draw."""
CPU_MATMUL_EFFICIENCY = 0.7
CPU_LAUNCH_S = 1e-5
CPU_LINK_LATENCY_S = 5e-5
"""Meeting of threads at a collective."""

_CPU_DTYPES = ("float32", "bfloat16", "float16", "int8")


def host_cpu_topology(num_devices: int) -> Topology:
    """This host's cores seen as virtual devices, with nominal figures.

    Each device gets an equal share of the host's memory and no reserve. A message is written and
    read once, so the link carries half the memory bandwidth, shared by the devices.

    Args:
        num_devices: virtual CPU devices.

    Raises:
        TopologyError: fewer than one device.
    """
    if num_devices < 1:
        raise TopologyError(f"{num_devices} CPU devices asked for; at least 1")
    cores = _num_cores()
    return Topology(
        name=f"cpu:{num_devices}",
        device=_cpu_device(cores, _host_memory_bytes() // num_devices),
        levels=_shared_memory(cores, num_devices),
        shared_compute=True,
    )


def describe_devices(
    platform: str, device_kinds: Sequence[str], process_indices: Sequence[int]
) -> Topology:
    """The topology of devices that a framework reports, such as ``jax.devices()``.

    Devices of one process share a host. Where every process drives one device the hosts cannot be
    told apart, and the device's usual host size is taken.

    Args:
        platform: ``cpu``, ``gpu`` (``cuda``, ``rocm``) or ``tpu``.
        device_kinds: the kind of each device, such as ``NVIDIA H100 80GB HBM3``.
        process_indices: the process that drives each device.

    Raises:
        TopologyError: no devices, devices of several kinds, an unknown kind, or processes with
            unequal numbers of devices.
    """
    if platform == "cpu":
        return host_cpu_topology(len(device_kinds))
    kind = _the_one_kind(device_kinds)
    entry = device_entry(kind)
    count = len(device_kinds)
    name = f"{count}x{entry.device.name}"
    if entry.is_tpu:
        return slice_of_devices(name, entry, count)
    per_process = _devices_per_process(process_indices)
    if per_process == 1:
        return of_devices(name, count, entry)
    return hosts_topology(name, entry, num_hosts=count // per_process, per_host=per_process)


def _the_one_kind(device_kinds: Sequence[str]) -> str:
    counts = Counter(device_kinds)
    if len(counts) != 1:
        listed = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no devices"
        raise TopologyError(
            f"the devices must be of one kind; found {listed}",
            hint="pass devices of one kind only",
        )
    return device_kinds[0]


def _devices_per_process(process_indices: Sequence[int]) -> int:
    counts = Counter(process_indices)
    fewest, most = min(counts.values()), max(counts.values())
    if fewest != most:
        raise TopologyError(
            f"processes drive from {fewest} to {most} devices each; all must drive equally many"
        )
    return most


def _cpu_device(cores: int, memory_bytes: int) -> Device:
    return Device(
        name="cpu",
        peak_flops_per_s=(
            *((dtype, cores * CORE_FLOPS_PER_S) for dtype in _CPU_DTYPES),
            ("float64", cores * CORE_FLOPS_PER_S / 2),
        ),
        memory_bytes=memory_bytes,
        memory_bandwidth_bytes_per_s=cores * CORE_BANDWIDTH_BYTES_PER_S,
        matmul_efficiency=CPU_MATMUL_EFFICIENCY,
        launch_s=CPU_LAUNCH_S,
        source="nominal figures of this host",
    )


def _shared_memory(cores: int, num_devices: int) -> tuple[LinkLevel, ...]:
    if num_devices == 1:
        return ()
    return (
        LinkLevel(
            name="shared memory",
            num_units=num_devices,
            bandwidth_bytes_per_s=cores * CORE_BANDWIDTH_BYTES_PER_S / 2 / num_devices,
            latency_s=CPU_LINK_LATENCY_S,
        ),
    )


def _num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _host_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
