"""From a sentence that describes a cluster to the catalogue's topology, or why there is none."""

from __future__ import annotations

import dataclasses
import re

from shardwright.cluster import LinkLevel, Topology
from shardwright.cluster.catalogue import DeviceEntry, device_entries, find_instance
from shardwright.cluster.hosts import hosts_topology, of_instances
from shardwright.errors import ShardwrightError

GIGABIT = 1e9 / 8

SITES = {
    "ABCI Compute Node A": ("InfiniBand HDR", 4 * 200),
    "ABCI Compute Node V": ("InfiniBand EDR", 2 * 100),
    "JeanZay V100": ("Omni-Path", 4 * 100),
    "JeanZay A100": ("Omni-Path", 4 * 100),
}
"""Network of a node in Gb/s, where the text leaves it out.

Source: for node V two EDR ports, news.mynavi.jp/article/abci-2. Assumed for the others: one port
for two devices on node A, four ports on Jean Zay.
"""

_RATES = {"EDR": 100, "HDR": 200, "NDR": 400, "XDR": 800}
_PER_NODE = re.compile(r"(\d+)/node|\bx ?(\d+)\b|\((\d+)x |^(\d+)x ", re.IGNORECASE)
_NODES = re.compile(r"(\d+) (?:nodes?|hosts?)\b", re.IGNORECASE)
_TIMES = re.compile(r"(\d+) ?x ([\w.]+)")
_PORTS = re.compile(r"(\d+) ?x ?(\d+) ?Gb(?:ps|E|/s)?\b( per GPU)?", re.IGNORECASE)
_NAMED_PORTS = re.compile(r"(\d+) ?x ?(EDR|HDR|NDR|XDR)\b")
_SWITCHED_SUMS = ("NVLink4", "NVLink5")


class Unmapped(Exception):
    """Why a row names no cluster of the catalogue."""


def topology_of(text: str, num_devices: int) -> Topology:
    """The machines that a row ran on.

    Raises:
        Unmapped: the text names no device, or the devices do not fill whole nodes.
    """
    try:
        return as_built(_topology(text, num_devices))
    except ShardwrightError as error:
        raise Unmapped(str(error)) from error


def as_built(topology: Topology) -> Topology:
    """The same machines with what the catalogue leaves out: sums in switches, boards of four."""
    return dataclasses.replace(topology, levels=tuple(map(_as_built, topology.levels)))


def device_of(text: str) -> DeviceEntry:
    """The device whose name shares the most words with the text.

    Raises:
        Unmapped: no device's model number stands in it.
    """
    words = _words(text)
    named = [
        (len(words & _words(name)), -index, entry)
        for index, entry in enumerate(device_entries())
        for name in (entry.device.name, *entry.aliases)
        if _model(name) in words
    ]
    if not named:
        raise Unmapped("the catalogue has no such device")
    return max(named, key=lambda found: found[:2])[2]


def _topology(text: str, num_devices: int) -> Topology:
    for count, name in _TIMES.findall(text):
        instance = find_instance(name)
        if instance is not None:
            entry = device_of(instance.device_name)
            return of_instances(text, int(count), instance, entry)
    entry = device_of(text)
    per_host = _per_host(text, entry, num_devices)
    num_hosts, left = divmod(num_devices, per_host)
    if num_hosts and left:
        raise Unmapped(f"{num_devices} devices do not fill nodes of {per_host}")
    return hosts_topology(
        text,
        entry,
        num_hosts=max(1, num_hosts),
        per_host=per_host,
        network=_network(text, per_host) or None,
    )


def _per_host(text: str, entry: DeviceEntry, num_devices: int) -> int:
    """Of a whole node where it is only partly used, as the links are wired for all of it."""
    nodes = _NODES.search(text)
    if nodes and int(nodes[1]) > 1 and num_devices % int(nodes[1]) == 0:
        return num_devices // int(nodes[1])
    stated = _PER_NODE.search(text)
    return int(next(filter(None, stated.groups()))) if stated else entry.devices_per_host


def _network(text: str, per_host: int) -> tuple[str, float] | None:
    for site, (name, gigabits) in SITES.items():
        if site in text:
            return name, gigabits * GIGABIT / per_host
    ports = _PORTS.search(text)
    if ports and not ports[3]:
        name = "EFA" if "EFA" in text else "InfiniBand"
        return name, int(ports[1]) * int(ports[2]) * GIGABIT / per_host
    named = _NAMED_PORTS.search(text)
    if named:
        return "InfiniBand", int(named[1]) * _RATES[named[2]] * GIGABIT / per_host
    return None


def _as_built(level: LinkLevel) -> LinkLevel:
    """On boards of four V100 each pair has two of the six links, not one or two as among eight."""
    if level.name == "NVLink2" and level.num_units == 4:
        return dataclasses.replace(level, peer_bandwidth_bytes_per_s=0.0)
    adds = level.reduces_in_network or level.name.startswith(_SWITCHED_SUMS)
    return dataclasses.replace(level, reduces_in_network=adds)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def _model(name: str) -> str:
    """The word that tells generations apart: the first with a digit."""
    return next((word for word in re.findall(r"[a-z0-9]+", name.lower()) if _has_digit(word)), "")


def _has_digit(word: str) -> bool:
    return any(letter.isdigit() for letter in word)
