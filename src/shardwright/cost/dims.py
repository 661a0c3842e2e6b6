"""The dims of a ``dot_general``'s left operand by what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from shardwright.ir import Attribute, Op


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeftDims:
    """Dims of the left operand.

    Attributes:
        summed: over which the product sums.
        batch: that it keeps apart.
    """

    summed: tuple[int, ...]
    batch: tuple[int, ...]


def left_dims(op: Op) -> LeftDims:
    """What a ``dot_general`` does with the dims of its left operand."""
    summed, batch = _items(op.attribute("dimension_numbers"))
    return LeftDims(summed=_ints(_items(summed)[0]), batch=_ints(_items(batch)[0]))


def _items(value: Attribute) -> tuple[Attribute, ...]:
    assert isinstance(value, tuple)
    return value


def _ints(value: Attribute) -> tuple[int, ...]:
    return tuple(item for item in _items(value) if isinstance(item, int))
