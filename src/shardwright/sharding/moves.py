"""The moves of a reshard: from one layout of a tensor, every collective and where it leads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import final

from shardwright.cluster import Mesh
from shardwright.sharding.collective import Collective, CollectiveKind
from shardwright.sharding.spec import DimAxes, Sharding

Dims = tuple[DimAxes, ...]

State = tuple[Dims, DimAxes]
"""(axes of each dim, unreduced axes in mesh order): a sharding, bare for speed."""

Move = tuple[Collective, State]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The tensor, and the axes and dims that a path may use: those of its two ends.

    Parking pieces on a third dim or axis can save a little (at most a fifth of the bytes, in one
    pair of seventy, on a 2x2x2 mesh), at many times the states to look through.

    Attributes:
        shape: of the whole tensor.
        whole_bytes: of the whole tensor.
        axes: (name, size) of the axes that either end uses, in mesh order.
        dims: that either end cuts; no other is ever cut on the way.
        kept: axes over which the target stays unreduced.
    """

    shape: tuple[int, ...]
    whole_bytes: int
    axes: tuple[tuple[str, int], ...]
    dims: tuple[int, ...]
    kept: DimAxes

    @staticmethod
    def between(
        source: Sharding,
        target: Sharding,
        shape: tuple[int, ...],
        itemsize_bytes: int,
        mesh: Mesh,
    ) -> Board:
        """The board on which a path from ``source`` to ``target`` is looked for."""
        used = {*source.axes, *source.unreduced, *target.axes}
        return Board(
            shape=shape,
            whole_bytes=math.prod(shape) * itemsize_bytes,
            axes=tuple((axis.name, axis.size) for axis in mesh.axes if axis.name in used),
            dims=tuple(
                dim
                for dim, ends in enumerate(zip(source.dims, target.dims, strict=True))
                if any(ends)
            ),
            kept=target.unreduced,
        )

    def state(self, sharding: Sharding) -> State:
        """The sharding as a state."""
        return sharding.dims, tuple(name for name, _ in self.axes if name in sharding.unreduced)

    def moves(self, state: State) -> Iterator[Move]:
        """Every collective from ``state`` and the state that it leads to."""
        yield from self._slices(state)
        yield from self._gathers(state)
        yield from self._exchanges(state)
        yield from self._permutes(state)
        yield from self._reductions(state)

    def _slices(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        used = {*unreduced, *itertools.chain.from_iterable(dims)}
        for name, _ in self.axes:
            if name in used:
                continue
            for dim in self.dims:
                after = self._appended(dims, dim, (name,))
                if after is not None:
                    yield self._move(CollectiveKind.SLICE, (name,), dims, (after, unreduced), dim)

    def _gathers(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        for dim, axes in enumerate(dims):
            for keep in range(len(axes)):
                after = (*dims[:dim], axes[:keep], *dims[dim + 1 :])
                kind = CollectiveKind.ALL_GATHER
                yield self._move(kind, axes[keep:], dims, (after, unreduced), dim)

    def _exchanges(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        for origin, axes in enumerate(dims):
            for keep in range(len(axes)):
                shorter = (*dims[:origin], axes[:keep], *dims[origin + 1 :])
                for dim in self.dims:
                    if dim == origin:
                        continue
                    after = self._appended(shorter, dim, axes[keep:])
                    if after is not None:
                        kind = CollectiveKind.ALL_TO_ALL
                        yield self._move(kind, axes[keep:], dims, (after, unreduced), dim)

    def _permutes(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        free = tuple(axis for axis in self.axes if axis[0] not in unreduced)
        for after in _arrangements(tuple(self._pieces(axes) for axes in dims), free):
            if after != dims:
                axes = _changed(dims, after)
                spanned = tuple(name for name, _ in self.axes if name in axes)
                yield self._move(CollectiveKind.PERMUTE, spanned, dims, (after, unreduced), -1)

    def _reductions(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        open_axes = [axis for axis in unreduced if axis not in self.kept]
        for count in range(1, len(open_axes) + 1):
            for axes in itertools.combinations(open_axes, count):
                left = tuple(axis for axis in unreduced if axis not in axes)
                yield self._move(CollectiveKind.ALL_REDUCE, axes, dims, (dims, left), -1)
                for dim, order in itertools.product(range(len(dims)), itertools.permutations(axes)):
                    after = self._appended(dims, dim, order)
                    if after is not None:
                        kind = CollectiveKind.REDUCE_SCATTER
                        yield self._move(kind, order, dims, (after, left), dim)

    def _move(
        self, kind: CollectiveKind, axes: DimAxes, before: Dims, after: State, dim: int
    ) -> Move:
        step = Collective(
            kind=kind,
            axes=axes,
            input_bytes=self._local_bytes(before),
            output_bytes=self._local_bytes(after[0]),
            dim=dim,
        )
        return step, after

    def _local_bytes(self, dims: Dims) -> int:
        return self.whole_bytes // math.prod([self._pieces(axes) for axes in dims if axes])

    def _pieces(self, names: DimAxes) -> int:
        return math.prod([size for name, size in self.axes if name in names]) if names else 1

    def _appended(self, dims: Dims, dim: int, axes: DimAxes) -> Dims | None:
        cut = (*dims[dim], *axes)
        if self.shape[dim] % self._pieces(cut):
            return None
        return (*dims[:dim], cut, *dims[dim + 1 :])


@lru_cache(maxsize=4096)
def _arrangements(pieces: tuple[int, ...], axes: tuple[tuple[str, int], ...]) -> tuple[Dims, ...]:
    """Every way to cut the dims into exactly these many pieces by some of the axes."""
    if not pieces:
        return ((),)
    found: list[Dims] = []
    for head in _ordered(pieces[0], axes):
        rest = tuple(axis for axis in axes if axis[0] not in head)
        found.extend((head, *tail) for tail in _arrangements(pieces[1:], rest))
    return tuple(found)


@lru_cache(maxsize=4096)
def _ordered(pieces: int, axes: tuple[tuple[str, int], ...]) -> tuple[DimAxes, ...]:
    return tuple(
        tuple(name for name, _ in chosen)
        for count in range(len(axes) + 1)
        for chosen in itertools.permutations(axes, count)
        if math.prod(size for _, size in chosen) == pieces
    )


def _changed(before: Dims, after: Dims) -> set[str]:
    """Axes along which data moves: on each dim, what is left between equal heads and tails."""
    changed: set[str] = set()
    for old, new in zip(before, after, strict=True):
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        old, new = old[head:], new[head:]
        while old and new and old[-1] == new[-1]:
            old, new = old[:-1], new[:-1]
        changed.update(old, new)
    return changed
