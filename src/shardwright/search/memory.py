"""Memory of a choice over time, and the moments at which the solver must keep it within budget.

The solver knows one number per strategy and moment. Which moments matter is found as cutting planes
are: solve, look at the whole step under that choice, and where it overflows add that moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.cost.storage import Storage, live_at, live_bytes, storage_of
from shardwright.ir.dtypes import itemsize_bytes
from shardwright.search.space import Space
from shardwright.sharding import Sharding

Bytes = NDArray[np.int64]


@final
@dataclass(frozen=True, kw_only=True)
class MemoryView:
    """What the tensors of a space take on one device, by choice and by moment."""

    space: Space
    storage: Storage
    palette_bytes: tuple[Bytes | None, ...] = field(repr=False)

    @staticmethod
    def of(space: Space, storage: Storage | None = None) -> MemoryView:
        """The view of a space; ``storage`` may be shared between meshes."""
        return MemoryView(
            space=space,
            storage=storage or storage_of(space.folded.flat),
            palette_bytes=tuple(
                _palette_bytes(space, index) for index in range(len(space.folded.tensors))
            ),
        )

    @property
    def folded_of(self) -> NDArray[np.int64]:
        """Folded tensor of each tensor id; -1 for tensors that never appear."""
        return self.space.folded.index_of

    def tensor_bytes(self, choice: Sequence[int]) -> Bytes:
        """Bytes on one device of each folded tensor under a choice."""
        sizes = np.zeros(len(self.palette_bytes), dtype=np.int64)
        for index, palette in enumerate(self.palette_bytes):
            if palette is None:
                sizes[index] = self.space.folded.tensors[index].tensor.size_bytes
            else:
                sizes[index] = palette[choice[self.space.palette(index)[0]]]
        return sizes

    def timeline(self, choice: Sequence[int]) -> Bytes:
        """Bytes in use on one device at every position of the flat list, moving copies included."""
        folded_bytes = self.tensor_bytes(choice)
        known = self.folded_of >= 0
        sizes = np.zeros(len(self.folded_of), dtype=np.int64)
        sizes[known] = folded_bytes[self.folded_of[known]]
        length = len(self.space.folded.flat.ops)
        return live_bytes(self.storage, sizes, length) + self.transients(choice)

    def transients(self, choice: Sequence[int]) -> Bytes:
        """Bytes that exist only while one operator runs: gathered operands, unfinished sums."""
        folded = self.space.folded
        extra = np.zeros(len(folded.flat.ops) + 1, dtype=np.int64)
        per_op = np.zeros(len(folded.ops), dtype=np.int64)
        sizes = self.space.placed.mesh.sizes
        for demand in self.space.demands:
            if demand.reader < 0:
                continue
            tensor = folded.tensors[demand.tensor].tensor
            wanted = demand.palette[demand.index[choice[demand.node]]]
            resting = self.space.sharding(demand.tensor, choice)
            if resting is not None and wanted != resting:
                itemsize = itemsize_bytes(tensor.dtype)
                copy = math.prod(wanted.local_shape(tensor.shape, sizes)) * itemsize
                held = math.prod(resting.local_shape(tensor.shape, sizes)) * itemsize
                per_op[demand.reader] += copy if copy > held else 0
        for op in folded.ops:
            strategy = self.space.strategy(op.index, choice)
            if strategy is None:
                continue
            for slot, (partial, result) in enumerate(
                zip(strategy.partials, strategy.results, strict=True)
            ):
                if partial.dims != result.dims:
                    tensor = folded.tensors[op.results[slot]].tensor
                    local = math.prod(partial.local_shape(tensor.shape, sizes))
                    per_op[op.index] += local * itemsize_bytes(tensor.dtype)
            if per_op[op.index]:
                extra[np.array(op.positions)] += per_op[op.index]
        return extra

    def usage_rows(self, position: int) -> list[Bytes]:
        """For each node and strategy, the bytes of its tensors that live at one position."""
        rows = [np.zeros(size, dtype=np.int64) for size in self.space.sizes]
        counts = np.bincount(
            self.folded_of[live_at(self.storage, position)], minlength=len(self.palette_bytes)
        )
        for index in np.flatnonzero(counts):
            palette = self.palette_bytes[index]
            if palette is not None:
                rows[self.space.palette(int(index))[0]] += palette * int(counts[index])
        return rows

    def largest_at(
        self, choice: Sequence[int], position: int, count: int = 10
    ) -> tuple[tuple[str, int], ...]:
        """The (tensor, bytes per device) pairs that weigh most at one position, largest first."""
        sizes = self.tensor_bytes(choice)
        counts = np.bincount(
            self.folded_of[live_at(self.storage, position)], minlength=len(self.palette_bytes)
        )
        totals = sizes * counts
        order = np.argsort(-totals, kind="stable")[:count]
        return tuple(
            (self._name(int(i), int(counts[i])), int(totals[i])) for i in order if totals[i]
        )

    def _name(self, index: int, copies: int) -> str:
        folded = self.space.folded.tensors[index]
        name = folded.tensor.name
        if not name:
            producer = self.space.folded.ops[folded.producer].op
            name = f"{producer.kind} at {producer.source or 'an unknown line'}"
        return name if copies == 1 else f"{copies} like {name}"

    def fixed_bytes(self, position: int) -> int:
        """Bytes of tensors at one position that no node decides."""
        counts = np.bincount(
            self.folded_of[live_at(self.storage, position)], minlength=len(self.palette_bytes)
        )
        return sum(
            self.space.folded.tensors[index].tensor.size_bytes * int(counts[index])
            for index in np.flatnonzero(counts)
            if self.palette_bytes[index] is None
        )


def _palette_bytes(space: Space, index: int) -> Bytes | None:
    _, palette = space.palette(index)
    if palette is None:
        return None
    tensor = space.folded.tensors[index].tensor
    itemsize = itemsize_bytes(tensor.dtype)
    sizes = space.placed.mesh.sizes

    def local(sharding: Sharding) -> int:
        return math.prod(sharding.local_shape(tensor.shape, sizes)) * itemsize

    return np.array([local(s) for s in palette.shardings], dtype=np.int64)[palette.index]
