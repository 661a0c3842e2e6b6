"""Link levels of GPU-like machines: devices in a host or a wider domain, hosts on a network."""

from __future__ import annotations

from shardwright.cluster.catalogue import DeviceEntry, Instance
from shardwright.cluster.figures import reserve_bytes
from shardwright.cluster.latency import latency_s
from shardwright.cluster.topology import LinkLevel, Topology
from shardwright.errors import TopologyError


def of_instances(name: str, count: int, instance: Instance, entry: DeviceEntry) -> Topology:
    """A topology of ``count`` hosts of one catalogued kind."""
    return hosts_topology(
        name,
        entry,
        num_hosts=count,
        per_host=instance.devices_per_host,
        domain_devices=instance.domain_devices,
        network=(instance.network, instance.network_bandwidth_bytes_per_s),
    )


def of_devices(name: str, count: int, entry: DeviceEntry) -> Topology:
    """A topology of ``count`` devices in hosts of the device's usual size, on its usual network.

    Raises:
        TopologyError: the count is more than a host and does not fill whole hosts.
    """
    per_host = min(entry.devices_per_host, count)
    if count % per_host:
        lower = count - count % per_host
        raise TopologyError(
            f"{count} devices do not fill hosts of {per_host} {entry.device.name}",
            where=f'"{name}"',
            hint=f"{lower} or {lower + per_host} devices, or HOSTSxDEVICESxNAME as in "
            f'"2x4x{entry.device.name}"',
        )
    return hosts_topology(name, entry, num_hosts=count // per_host, per_host=per_host)


def hosts_topology(
    name: str,
    entry: DeviceEntry,
    *,
    num_hosts: int,
    per_host: int,
    domain_devices: int | None = None,
    network: tuple[str, float] | None = None,
) -> Topology:
    """A topology of equal hosts.

    A fast domain wider than a host (72 GPUs over 18 trays) takes the largest equal share of the
    hosts that it can hold: 32 trays of 4 are two domains of 64.

    Args:
        name: what the user called it.
        entry: the device and its usual wiring.
        num_hosts: how many hosts.
        per_host: devices in each.
        domain_devices: devices that the fast link joins; the entry's by default.
        network: name and per-device bandwidth of what joins hosts; the entry's by default.
    """
    domain = entry.domain_devices if domain_devices is None else domain_devices
    network = network or (entry.network, entry.network_bandwidth_bytes_per_s)
    hosts_in_domain = _largest_divisor(num_hosts, limit=max(1, domain // per_host))
    inner = per_host * hosts_in_domain
    levels = [_fast_level(entry, inner)] if inner > 1 else []
    if num_hosts > hosts_in_domain:
        levels.append(_network_level(network, num_hosts // hosts_in_domain))
    return Topology(
        name=name,
        device=entry.device,
        levels=tuple(levels),
        reserve_bytes=reserve_bytes(entry.device),
    )


def _fast_level(entry: DeviceEntry, num_units: int) -> LinkLevel:
    bandwidth = entry.link_bandwidth_bytes_per_s
    if not bandwidth:
        raise TopologyError(
            f"the catalogue has no bandwidth between {entry.device.name} devices in one host",
            hint="state the levels in a YAML file",
        )
    peer = entry.peer_bandwidth_bytes_per_s
    return LinkLevel(
        name=entry.link,
        num_units=num_units,
        bandwidth_bytes_per_s=bandwidth,
        latency_s=latency_s(entry.link),
        peer_bandwidth_bytes_per_s=peer if peer < bandwidth else 0.0,
    )


def _network_level(network: tuple[str, float], num_units: int) -> LinkLevel:
    name, bandwidth = network
    return LinkLevel(
        name=name,
        num_units=num_units,
        bandwidth_bytes_per_s=bandwidth,
        latency_s=latency_s(name),
    )


def _largest_divisor(number: int, *, limit: int) -> int:
    return max(size for size in range(1, min(number, limit) + 1) if number % size == 0)
