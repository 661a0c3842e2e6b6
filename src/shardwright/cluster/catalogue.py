"""The catalogue: devices, cloud instances and TPU slices by name, with source and confidence.

What the table leaves open is settled here, once: how many devices make a host, and which network
joins hosts when only the device is named (see ``DeviceEntry``).
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import final

from shardwright.cluster.figures import DEVICES_PER_PACKAGE, device_of
from shardwright.cluster.names import best_match
from shardwright.cluster.table import GIGA, Row, rows_of_kind
from shardwright.cluster.topology import Device
from shardwright.errors import TopologyError, did_you_mean

DEFAULT_DEVICES_PER_HOST = 8
DEVICES_PER_HOST = {"GH200-141GB": 1}
ASSUMED_NETWORK = ("Ethernet (assumed)", 12.5 * GIGA)
"""One 100 Gb/s port per device: for devices that no instance of the table holds."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEntry:
    """A device of the catalogue and how its kind is usually wired.

    Attributes:
        device: as JAX counts devices (half an MI250X, TPU v3 or TPU v7x package).
        aliases: other names, such as what a driver reports.
        devices_per_host: of its DGX row or else its commonest instance; 8 when it has none.
        domain_devices: devices that the fast link joins, when more than a host.
        link: the fast link's name, such as ``NVLink4``.
        link_bandwidth_bytes_per_s: one way, per device; 0 when unknown.
        peer_bandwidth_bytes_per_s: one way between two devices; less than the whole where direct
            wires join each pair.
        network: what joins hosts.
        network_bandwidth_bytes_per_s: one way, per device, all talking.
        confidence: ``high`` or ``medium``, as the row states.
        notes: what to know about the figures.
    """

    device: Device
    aliases: tuple[str, ...]
    devices_per_host: int
    domain_devices: int
    link: str
    link_bandwidth_bytes_per_s: float
    peer_bandwidth_bytes_per_s: float
    network: str
    network_bandwidth_bytes_per_s: float
    confidence: str
    notes: str

    @property
    def is_tpu(self) -> bool:
        """Whether its slices are tori of chips rather than hosts on a network."""
        return self.device.name.startswith("TPU")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A kind of host that one can rent or buy, such as ``p5.48xlarge``.

    Attributes:
        name: as its vendor writes it.
        aliases: other names.
        device_name: catalogue name of its devices.
        devices_per_host: how many it holds.
        domain_devices: devices that the fast link joins, over several hosts when more than a host.
        network: what joins hosts.
        network_bandwidth_bytes_per_s: one way, per device, all talking.
        confidence: ``high`` or ``medium``.
        notes: what to know about the figures.
        source: where they come from.
    """

    name: str
    aliases: tuple[str, ...]
    device_name: str
    devices_per_host: int
    domain_devices: int
    network: str
    network_bandwidth_bytes_per_s: float
    confidence: str
    notes: str
    source: str


@functools.cache
def device_entries() -> tuple[DeviceEntry, ...]:
    """Every device with its wiring, in table order."""
    return tuple(_entry(row) for row in rows_of_kind("device"))


def devices() -> tuple[Device, ...]:
    """Every device of the catalogue, in table order."""
    return tuple(entry.device for entry in device_entries())


@functools.cache
def instances() -> tuple[Instance, ...]:
    """Every kind of host of the catalogue, in table order."""
    return tuple(_instance(row) for row in rows_of_kind("instance"))


@functools.cache
def slice_shapes() -> dict[str, tuple[int, ...]]:
    """Chip grids of the TPU slices that the table lists, by name such as ``v5p-128``."""
    return {
        row.name: tuple(int(size) for size in row.text("intra_topology").split("x"))
        for row in rows_of_kind("tpu_slice")
    }


def find_device(name: str) -> DeviceEntry | None:
    """The device that a tolerant reading of ``name`` means; ``None`` for none.

    Vendor words, case, separators and the order of words do not count, and words may be left out:
    ``h100-80gb`` is ``H100-SXM5-80GB``. Where several devices fit, the first of the table does.
    """
    named = [(entry.device.name, *entry.aliases) for entry in device_entries()]
    index = best_match(name, named)
    return None if index is None else device_entries()[index]


def find_instance(name: str) -> Instance | None:
    """The host kind of that name, in any case and with any separators; ``None`` for none."""
    named = [(item.name, *item.aliases) for item in instances()]
    index = best_match(name, named, whole=True)
    return None if index is None else instances()[index]


def device_entry(name: str) -> DeviceEntry:
    """The device of that name or alias, with its wiring.

    Raises:
        TopologyError: no device is called so.
    """
    entry = find_device(name)
    if entry is None:
        raise TopologyError(
            f'no device is called "{name}"',
            hint=f"{did_you_mean(name, device_names())} (or state its figures in a YAML file)",
        )
    return entry


def device(name: str) -> Device:
    """The device of that name or alias.

    Raises:
        TopologyError: no device is called so.
    """
    return device_entry(name).device


def device_names() -> tuple[str, ...]:
    """Every name and alias of a device."""
    return tuple(name for entry in device_entries() for name in (entry.device.name, *entry.aliases))


def _entry(row: Row) -> DeviceEntry:
    package = DEVICES_PER_PACKAGE.get(row.name, 1)
    host = _usual_instance(row.name)
    network, bandwidth = _network(row, host)
    per_host = host.devices_per_host if host else DEFAULT_DEVICES_PER_HOST
    return DeviceEntry(
        device=device_of(row),
        aliases=row.aliases,
        devices_per_host=DEVICES_PER_HOST.get(row.name, per_host),
        domain_devices=int(row.number("scaleup_domain_devices") or 0),
        link=_short(row.text("intra_link")),
        link_bandwidth_bytes_per_s=_gbs(row, "intra_gbs_oneway_per_device") / package,
        peer_bandwidth_bytes_per_s=_gbs(row, "intra_p2p_gbs_oneway"),
        network=network,
        network_bandwidth_bytes_per_s=bandwidth,
        confidence=row.text("confidence"),
        notes=row.text("notes"),
    )


def _network(row: Row, host: Instance | None) -> tuple[str, float]:
    if host is not None:
        return host.network, host.network_bandwidth_bytes_per_s
    stated = _gbs(row, "inter_gbs_oneway_per_device")
    return (_short(row.text("inter_link")), stated) if stated else ASSUMED_NETWORK


def _usual_instance(device_name: str) -> Instance | None:
    """Its DGX row, else the first of its commonest network bandwidth, the lower one on a tie."""
    holding = [item for item in instances() if item.device_name == device_name]
    for item in holding:
        if item.name.startswith("DGX"):
            return item
    counts = Counter(item.network_bandwidth_bytes_per_s for item in holding)
    return min(
        holding,
        key=lambda item: (
            -counts[item.network_bandwidth_bytes_per_s],
            item.network_bandwidth_bytes_per_s,
        ),
        default=None,
    )


def _instance(row: Row) -> Instance:
    return Instance(
        name=row.name,
        aliases=row.aliases,
        device_name=row.text("device"),
        devices_per_host=int(row.number("devices_per_node") or 0),
        domain_devices=int(row.number("scaleup_domain_devices") or 0),
        network=_short(row.text("inter_link")),
        network_bandwidth_bytes_per_s=_gbs(row, "inter_gbs_oneway_per_device"),
        confidence=row.text("confidence"),
        notes=row.text("notes"),
        source=row.text("source"),
    )


def _gbs(row: Row, column: str) -> float:
    return (row.number(column) or 0.0) * GIGA


def _short(link: str) -> str:
    """``NDR InfiniBand CX-7, 8x400 Gbps`` -> ``NDR InfiniBand CX-7``."""
    return link.split(",")[0].split(" (")[0]
