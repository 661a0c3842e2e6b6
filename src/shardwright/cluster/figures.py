"""From a row of the table to a ``Device``: peaks by element type, efficiency, and the reserve.

Rules, each for want of a better public figure:

- *float32* products run as tf32 where the device has it, since that is what JAX's default matmul
  precision does; on a TPU the default precision is one bfloat16 pass, so float32 has the bfloat16
  peak. A device with neither figure gets half its bfloat16 peak, the ratio of tf32 to bfloat16 on
  every tensor-core GPU of the table.
- *Achievable share* of the peak: 0.8 of the best matmul rate that was measured on the device (the
  column ``measured_bf16_tflops``), over the peak; 0.65 where none was, about the middle of the
  others.
- A row may describe a package that JAX sees as several devices (``DEVICES_PER_PACKAGE``); its
  figures are shared out evenly.

**Source**: stas00/ml-engineering, ``compute/accelerator/README.md`` (measured rates); jax
documentation of ``jax_default_matmul_precision``.
"""

from __future__ import annotations

from shardwright.cluster.table import GIGA, TERA, Row
from shardwright.cluster.topology import Device
from shardwright.units import GIB

DEVICES_PER_PACKAGE = {"MI250X": 2, "TPU-v3": 2, "TPU-v7x": 2}
MEASURED_SHARE = 0.8
DEFAULT_MATMUL_EFFICIENCY = 0.65
RESERVE_SHARE = 0.07
MIN_RESERVE_BYTES = GIB

_FLOAT8 = (
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
)

COMPUTE_UNITS = {
    **dict.fromkeys(("V100-SXM2-16GB", "V100-SXM2-32GB", "V100-PCIe"), 80),
    **dict.fromkeys(("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-80GB"), 108),
    **dict.fromkeys(("H100-SXM5-80GB", "H100-NVL-94GB", "H200-SXM-141GB", "GH200-141GB"), 132),
    "H100-PCIe-80GB": 114,
    **dict.fromkeys(("B200-SXM-180GB", "GB200-186GB"), 148),
    "L4-24GB": 58,
    "L40S-48GB": 142,
    "A10-24GB": 72,
    "A10G-24GB": 80,
    "RTX-4090-24GB": 128,
}
"""Streaming multiprocessors, as NVIDIA's architecture papers of each generation count them."""

PEAK_DTYPES = ("float64", "float32", "float16", "bfloat16", *_FLOAT8, "int8")
"""Element types that a device may state a peak for."""


def device_of(row: Row) -> Device:
    """The device of one ``device`` row, as JAX counts devices."""
    package = DEVICES_PER_PACKAGE.get(row.name, 1)
    memory_gib = row.number("mem_gib") or 0.0
    bandwidth_gbs = row.number("mem_bw_gbs") or 0.0
    return Device(
        name=row.name,
        peak_flops_per_s=tuple(
            (dtype, tflops * TERA / package) for dtype, tflops in _peaks_tflops(row)
        ),
        memory_bytes=int(memory_gib * GIB / package),
        memory_bandwidth_bytes_per_s=bandwidth_gbs * GIGA / package,
        matmul_efficiency=_matmul_efficiency(row),
        compute_units=COMPUTE_UNITS.get(row.name, 0),
        source=row.text("source"),
    )


def reserve_bytes(device: Device) -> int:
    """Bytes of an accelerator kept from the planner: 7 % of its memory, at least 1 GiB.

    They stand for the driver's context, communication buffers and fragmentation.
    """
    return max(MIN_RESERVE_BYTES, int(RESERVE_SHARE * device.memory_bytes))


def _peaks_tflops(row: Row) -> list[tuple[str, float]]:
    pairs = [
        ("float32", _float32_tflops(row)),
        ("float16", row.number("fp16_tflops")),
        ("bfloat16", row.number("bf16_tflops")),
        *((dtype, row.number("fp8_tflops")) for dtype in _FLOAT8),
        ("int8", row.number("int8_tops")),
    ]
    return [(dtype, tflops) for dtype, tflops in pairs if tflops]


def _float32_tflops(row: Row) -> float | None:
    bf16 = row.number("bf16_tflops")
    if row.name.startswith("TPU"):
        return bf16
    known = row.number("tf32_tflops") or row.number("fp32_tflops")
    return known or (bf16 / 2 if bf16 else None)


def _matmul_efficiency(row: Row) -> float:
    measured, peak = row.number("measured_bf16_tflops"), row.number("bf16_tflops")
    if not measured or not peak:
        return DEFAULT_MATMUL_EFFICIENCY
    return round(MEASURED_SHARE * measured / peak, 3)
