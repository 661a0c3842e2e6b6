"""The devices that JAX sees: in what order a plan counts them, and the machines that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from shardwright.cluster import Topology
from shardwright.cluster.this_machine import describe_devices
from shardwright.errors import UsageError


def ordered_devices(devices: Sequence[Any] | None = None) -> list[Any]:
    """The devices in the order in which a plan counts them.

    Args:
        devices: kept in their order; by default all that JAX sees, process by process.

    Raises:
        UsageError: the list is empty, or holds something else.
    """
    if devices is not None:
        return _given(devices)
    # Ids of other processes' devices start anew at large numbers, so the process goes first.
    return sorted(jax.devices(), key=lambda device: (device.process_index, device.id))


def _given(devices: Sequence[Any]) -> list[Any]:
    given = list(devices)
    wrong = [device for device in given if not isinstance(device, jax.Device)]
    if wrong or not given:
        raise UsageError(
            f"devices holds {wrong[0]!r}, which is no device" if wrong else "devices is empty",
            hint="jax.devices(), or some of them",
        )
    return given


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
