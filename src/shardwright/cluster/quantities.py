"""Quantities that a person writes in a file; each reader raises ``ValueError`` on other text."""

from __future__ import annotations

import math
import re

from shardwright.units import parse_bytes

_TIME = re.compile(r"^\s*([0-9.]+(?:e[+-]?\d+)?)\s*(ns|us|ms|s)?\s*$", re.IGNORECASE)
_TIME_STEPS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_FLOPS = re.compile(
    r"^\s*([0-9.]+(?:e[+-]?\d+)?)\s*([kMGTP]?)(?:FLOPS?(?:/s)?)?\s*$", re.IGNORECASE
)
_FLOPS_STEPS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}


def whole(text: str) -> int:
    """A whole number, at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def share(text: str) -> float:
    """A number in (0, 1]."""
    number = float(text)
    if not 0 < number <= 1:
        raise ValueError(text)
    return number


def memory_bytes(text: str) -> int:
    """Bytes, more than none, of text such as ``64 GiB``."""
    return int(_above_zero(parse_bytes(text)))


def bytes_per_s(text: str) -> float:
    """Bytes per second of text such as ``450 GB/s`` or ``4.5e11``."""
    bare = text.removesuffix("/s")
    number = _plain_number(bare)
    return _above_zero(parse_bytes(bare) if number is None else number)


def seconds(text: str) -> float:
    """Seconds of text such as ``2 us`` or ``2e-6``."""
    return _with_unit(text, _TIME, _TIME_STEPS, "s")


def flops(text: str) -> float:
    """FLOP per second of text such as ``400 TFLOP/s`` or ``4e14``."""
    return _above_zero(_with_unit(text, _FLOPS, _FLOPS_STEPS, ""))


def _with_unit(
    text: str, pattern: re.Pattern[str], steps: dict[str, float], bare_unit: str
) -> float:
    match = pattern.match(text)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * steps[(match[2] or bare_unit).lower()]


def _plain_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _above_zero(number: float) -> float:
    if not 0 < number < math.inf:
        raise ValueError(number)
    return number


def flag(text: str) -> bool:
    """Whether the text is ``true`` rather than ``false``."""
    known = {"true": True, "false": False}
    if text.lower() not in known:
        raise ValueError(text)
    return known[text.lower()]
