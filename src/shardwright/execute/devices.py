"""The devices that JAX sees: in what order a plan counts them, and the machines that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from shardwright.cluster import Topology
from shardwright.cluster.this_machine import describe_devices


def ordered_devices(devices: Sequence[Any] | None = None) -> list[Any]:
    """The devices in the order in which a plan counts them.

    Args:
        devices: kept in their order; by default all that JAX sees, process by process.
    """
    if devices is not None:
        return list(devices)
    # Ids of other processes' devices start anew at large numbers, so the process goes first.
    return sorted(jax.devices(), key=lambda device: (device.process_index, device.id))


def this_machine(devices: Sequence[Any] | None = None) -> Topology:
    """The machines that these devices are part of, by default all that JAX sees.

    Raises:
        TopologyError: the devices are of several kinds, or of one that is not in the catalogue.
    """
    found = ordered_devices(devices)
    return describe_devices(
        found[0].platform,
        [device.device_kind for device in found],
        [device.process_index for device in found],
    )
