"""The time of local work on one device: the roofline, with the device's published figures.

``max(flops / (peak * efficiency), bytes / memory bandwidth) + launch``. Devices that share one
host's cores (virtual CPU devices) take as long together as one after another, so their time is
multiplied by their number. Measured tables replace these figures when there are any.

Source:
    Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
    multicore architectures" (2009).
"""

from __future__ import annotations

from shardwright.cluster import Device, Topology
from shardwright.cost.flops import CONTRACTION_KINDS
from shardwright.errors import CostError

_STAND_INS = {
    "bfloat16": ("float16", "float32"),
    "float16": ("bfloat16", "float32"),
    "float8_e4m3fn": ("float8_e5m2", "bfloat16", "float16", "float32"),
    "float8_e5m2": ("float8_e4m3fn", "bfloat16", "float16", "float32"),
}


def op_time_s(kind: str, flops: float, size_bytes: float, dtype: str, topology: Topology) -> float:
    """Seconds of one device's share of an operator that does not fuse with its neighbours.

    Args:
        kind: of the operator; only contractions are ever bound by arithmetic.
        flops: of the share.
        size_bytes: read and written in the device's main memory.
        dtype: in which it computes.
        topology: the machines; every device is taken to be at the same work.
    """
    if kind in CONTRACTION_KINDS:
        return matmul_time_s(flops, size_bytes, dtype, topology)
    return memory_time_s(size_bytes, topology)


def matmul_time_s(flops: float, size_bytes: float, dtype: str, topology: Topology) -> float:
    """Seconds of one device's share of a contraction, bound by arithmetic or by memory."""
    device = topology.device
    arithmetic_s = flops / (peak_flops_per_s(device, dtype) * device.matmul_efficiency)
    memory_s = size_bytes / device.memory_bandwidth_bytes_per_s
    return _sharers(topology) * (max(arithmetic_s, memory_s) + device.launch_s)


def memory_time_s(size_bytes: float, topology: Topology) -> float:
    """Seconds of one device's share of work that is bound by memory."""
    device = topology.device
    memory_s = size_bytes / device.memory_bandwidth_bytes_per_s
    return _sharers(topology) * (memory_s + device.launch_s)


def peak_flops_per_s(device: Device, dtype: str) -> float:
    """The device's dense peak for an element type, or for the nearest type that it does have.

    Narrow floats fall back to the next wider ones that the device lists (bfloat16 on a V100 counts
    as float16); any other type counts at the slowest peak listed.

    Raises:
        CostError: the device lists no peak at all.
    """
    peaks = dict(device.peak_flops_per_s)
    if not peaks:
        raise CostError(
            f"device {device.name} lists no peak FLOP/s for any element type, {dtype} among them",
            hint="give its peak_flops_per_s at least one pair, such as ('float32', 1e12)",
        )
    for name in (dtype, *_STAND_INS.get(dtype, ())):
        if name in peaks:
            return peaks[name]
    return min(peaks.values())


def _sharers(topology: Topology) -> int:
    return topology.num_devices if topology.shared_compute else 1
