"""How one tensor is cut over a mesh: for each dim the axes that cut it, major axis first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

DimAxes = tuple[str, ...]
"""Mesh axes that cut one dim, major first; empty when the dim is whole."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Which mesh axes cut which dim of a tensor; axes not named hold copies.

    Attributes:
        dims: for each dim its axes, major first.
        unreduced: axes over which the devices hold partial results still to be combined.
    """

    dims: tuple[DimAxes, ...]
    unreduced: DimAxes = ()

    @staticmethod
    def of(*dims: str | DimAxes | None) -> Sharding:
        """A sharding from one entry per dim: an axis, a tuple of axes, or None for a whole dim."""
        return Sharding(
            dims=tuple(() if d is None else (d,) if isinstance(d, str) else tuple(d) for d in dims)
        )

    @staticmethod
    def replicated(rank: int) -> Sharding:
        """A copy of the whole tensor on every device."""
        return Sharding(dims=((),) * rank)

    @property
    def rank(self) -> int:
        """How many dims it describes."""
        return len(self.dims)

    @property
    def axes(self) -> DimAxes:
        """Every axis that cuts some dim, in dim order."""
        return tuple(axis for dim in self.dims for axis in dim)

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole, finished tensor."""
        return not self.unreduced and not any(self.dims)

    def num_shards(self, sizes: Mapping[str, int]) -> int:
        """How many different pieces the tensor is cut into."""
        return math.prod(sizes[axis] for axis in self.axes)

    def local_shape(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of the largest piece; a dim that does not divide is rounded up."""
        return tuple(
            -(-size // math.prod(sizes[axis] for axis in axes)) if axes else size
            for size, axes in zip(shape, self.dims, strict=True)
        )

    def divides(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> bool:
        """Whether every cut dim divides evenly."""
        return all(
            size % math.prod(sizes[axis] for axis in axes) == 0
            for size, axes in zip(shape, self.dims, strict=True)
            if axes
        )

    def __str__(self) -> str:
        body = ", ".join("+".join(axes) or "-" for axes in self.dims)
        tail = f" unreduced {'+'.join(self.unreduced)}" if self.unreduced else ""
        return f"[{body}]{tail}"
