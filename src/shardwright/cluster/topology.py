"""Physical machines: devices, the hosts that hold them, and the link levels that join them.

A topology is a hierarchy of *levels*, innermost first: at each level a number of units of the level
below are joined by one kind of link. Eight GPUs in a host and four hosts on InfiniBand are two
levels, (8, NVLink) and (4, InfiniBand). Devices are numbered so that the innermost level varies
fastest.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

from shardwright.errors import TopologyError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator (or one virtual CPU device), with its peaks.

    Attributes:
        name: catalogue name, such as ``H100-SXM5-80GB``.
        peak_flops_per_s: (element type, dense peak) pairs; types that the device lacks are absent.
        memory_bytes: what the device has, before any reserve.
        memory_bandwidth_bytes_per_s: of its main memory.
        matmul_efficiency: achievable over peak for large matrix products, in (0, 1].
        launch_s: fixed time of starting one operator.
        compute_units: that each work on a tile of their own (streaming multiprocessors of a GPU);
            0 where they are unknown or the matrix unit is one.
        source: where the figures come from.
    """

    name: str
    peak_flops_per_s: tuple[tuple[str, float], ...]
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    matmul_efficiency: float = 0.7
    launch_s: float = 5e-6
    compute_units: int = 0
    source: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLevel:
    """One level of the hierarchy.

    Attributes:
        name: kind of link, such as ``NVLink4`` or ``InfiniBand``.
        num_units: units of the level below that this level joins.
        bandwidth_bytes_per_s: one way, per device, when every device of the level talks at once.
        latency_s: of one message across this level.
        peer_bandwidth_bytes_per_s: one way between two units where direct wires join each pair, so
            that a small group cannot use the whole; 0 where a switch gives any pair everything.
        is_torus: whether the units form one ring of a torus, whose wires come on top of those of
            the other rings; ``bandwidth_bytes_per_s`` is then that of the whole ring.
        wraps: whether the ring of a torus is closed; an open one is a line of units.
        reduces_in_network: whether its switches add up what passes through them (NVLink SHARP,
            InfiniBand SHARP), so that an all-reduce sends each byte once.
    """

    name: str
    num_units: int
    bandwidth_bytes_per_s: float
    latency_s: float
    peer_bandwidth_bytes_per_s: float = 0.0
    is_torus: bool = False
    wraps: bool = True
    reduces_in_network: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class Topology:
    """The machines that a step may use.

    Attributes:
        name: what the user called them, such as ``4x p5.48xlarge``.
        device: every device of it (all alike).
        levels: innermost first.
        shared_compute: whether the devices share one host's cores (virtual CPU devices), so that
            work done by all at once takes as long as work done by one after another.
        reserve_bytes: per device, kept from the planner for the runtime and fragmentation.
    """

    name: str
    device: Device
    levels: tuple[LinkLevel, ...]
    shared_compute: bool = False
    reserve_bytes: int = 0

    def __post_init__(self) -> None:
        for level in self.levels:
            if level.num_units < 1:
                raise TopologyError(
                    f"level {level.name} of {self.name} joins {level.num_units} units; at least 1"
                )

    @property
    def num_devices(self) -> int:
        """How many devices there are."""
        return math.prod(level.num_units for level in self.levels)

    @property
    def budget_bytes(self) -> int:
        """Bytes of each device that a plan may use: its memory less the stated reserve."""
        return self.device.memory_bytes - self.reserve_bytes

    @cached_property
    def fingerprint(self) -> str:
        """A digest of every figure that planning depends on."""
        text = f"{self.device}{self.levels}{self.shared_compute}{self.reserve_bytes}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]
