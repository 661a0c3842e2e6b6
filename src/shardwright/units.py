"""Formatting and parsing of quantities; every number inside the house is in base units.

Bytes are integers, times are seconds, rates are per second. Only this module writes ``GiB`` or
``ms``.
"""

from __future__ import annotations

import re

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4

_BYTE_STEPS = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
_TIME_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_RATE_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTE_PATTERN = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*([KMGT]i?)?B?\s*$", re.IGNORECASE)
_BYTE_FACTORS = {
    "": 1,
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "t": 1000**4,
    "ki": KIB,
    "mi": MIB,
    "gi": GIB,
    "ti": TIB,
}


def format_bytes(size_bytes: float) -> str:
    """Text of a byte count with a binary unit, such as ``1.5 GiB``."""
    for step, unit in _BYTE_STEPS:
        if abs(size_bytes) >= step:
            return (
                f"{size_bytes / step:.3g} {unit}"
                if size_bytes < 1000 * step
                else (f"{size_bytes / step:,.0f} {unit}")
            )
    return f"{size_bytes:.0f} B"


def format_time(time_s: float) -> str:
    """Text of a duration with the unit that suits it, such as ``320 us``."""
    if time_s == 0:
        return "0 s"
    for step, unit in _TIME_STEPS:
        if abs(time_s) >= step:
            return f"{time_s / step:.3g} {unit}" if time_s < 1000 * step else f"{time_s:,.0f} s"
    return f"{time_s / 1e-9:.3g} ns"


def format_rate(per_s: float, unit: str) -> str:
    """Text of a rate with a decimal prefix, such as ``989 TFLOP/s``."""
    for step, prefix in _RATE_STEPS:
        if abs(per_s) >= step:
            return f"{per_s / step:.3g} {prefix}{unit}/s"
    return f"{per_s:.3g} {unit}/s"


def format_count(count: float) -> str:
    """Text of a large count with a decimal suffix, such as ``175 B`` for parameters."""
    for step, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= step:
            return f"{count / step:.3g} {suffix}"
    return f"{count:.0f}"


def parse_bytes(text: str) -> int:
    """Bytes named by text such as ``80GiB``, ``80 GB`` or ``1024``.

    Raises:
        ValueError: the text is not a number with an optional byte unit.
    """
    match = _BYTE_PATTERN.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a byte size such as '80GiB' or '512 MB'")
    number, prefix = match.groups()
    return int(float(number) * _BYTE_FACTORS[(prefix or "").lower()])
