"""Cutting and joining arrays along one factor of a rule; numpy only, so nothing compiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from shardwright.sharding.factor import Combiner, OpRule, TensorFactors, Window

COMBINE: dict[Combiner, Any] = {
    Combiner.SUM: np.add,
    Combiner.MAX: np.maximum,
    Combiner.MIN: np.minimum,
    Combiner.PROD: np.multiply,
    Combiner.AND: np.bitwise_and,
    Combiner.OR: np.bitwise_or,
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Factor ``position`` of a rule cut into ``count`` parts."""

    rule: OpRule
    position: int
    count: int

    def carries(self, dims: TensorFactors) -> bool:
        """Whether the factor is in one of these dims."""
        return any(self.position in dim for dim in dims)

    def dim_of(self, dims: TensorFactors) -> int | None:
        """The first of these dims that the factor is in."""
        return next((d for d, dim in enumerate(dims) if self.position in dim), None)

    def part(self, whole: np.ndarray, dims: TensorFactors, index: int) -> np.ndarray:
        """Part ``index`` of an array whose dims have these factors."""
        for d, dim in enumerate(dims):
            if self.position in dim:
                whole = self._part_of_dim(whole, d, dim, index)
        return whole

    def join(self, parts: list[np.ndarray], dims: TensorFactors) -> np.ndarray:
        """The array whose parts along the factor these are; it must be in exactly one dim."""
        (d,) = (d for d, dim in enumerate(dims) if self.position in dim)
        sizes = self._factor_sizes(dims[d])
        place = dims[d].index(self.position)
        sizes[place] //= self.count
        shape = parts[0].shape
        exposed = [part.reshape(*shape[:d], *sizes, *shape[d + 1 :]) for part in parts]
        joined = np.concatenate(exposed, axis=d + place)
        return joined.reshape(*shape[:d], shape[d] * self.count, *shape[d + 1 :])

    def local_shape(self, shape: tuple[int, ...], dims: TensorFactors) -> tuple[int, ...]:
        """The shape of each part."""
        return tuple(
            size // self.count if self.position in dim else size
            for size, dim in zip(shape, dims, strict=True)
        )

    def _factor_sizes(self, dim: tuple[int, ...]) -> list[int]:
        return [self.rule.factors[position].size for position in dim]

    def _part_of_dim(
        self, whole: np.ndarray, d: int, dim: tuple[int, ...], index: int
    ) -> np.ndarray:
        # A factor that is not the major one is strided in its dim: show it, cut it, flatten again.
        sizes = self._factor_sizes(dim) if len(dim) > 1 else [whole.shape[d]]
        place = dim.index(self.position)
        shape = whole.shape
        exposed = whole.reshape(*shape[:d], *sizes, *shape[d + 1 :])
        size = sizes[place] // self.count
        window = [slice(None)] * exposed.ndim
        window[d + place] = slice(index * size, (index + 1) * size)
        flat = math.prod(sizes) // self.count
        return exposed[tuple(window)].reshape(*shape[:d], flat, *shape[d + 1 :])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HaloPart:
    """The elements that one shard of a halo factor reads.

    Attributes:
        start: its first element.
        stop: one past its last.
        pad_low: padding and dilation holes left before its first element.
        pad_high: the same after its last.
    """

    start: int
    stop: int
    pad_low: int
    pad_high: int


def halo_part(
    window: Window, operand_size: int, result_size: int, index: int, count: int
) -> HaloPart:
    """What one shard reads of an operand's dim to make its part of the result."""
    local = result_size // count
    reach = (window.size - 1) * window.dilation + 1
    low = index * local * window.stride - window.pad_low
    high = ((index + 1) * local - 1) * window.stride + reach - window.pad_low
    spacing = window.base_dilation
    start = min(max(0, -(-low // spacing)), operand_size)
    stop = min(operand_size, (high - 1) // spacing + 1)
    assert start < stop, f"shard {index} of {count} reads nothing: low {low}, high {high}"
    return HaloPart(
        start=start,
        stop=stop,
        pad_low=start * spacing - low,
        pad_high=high - ((stop - 1) * spacing + 1),
    )
