"""Collectives: the moves that change how a tensor lies over a mesh."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from shardwright.cluster import Mesh


class CollectiveKind(StrEnum):
    """What moves."""

    SLICE = "slice"
    """Each device keeps a part of what it holds; nothing moves."""
    ALL_GATHER = "all-gather"
    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    PERMUTE = "permute"
    """Each device sends its whole part to one other."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective over one group of mesh axes.

    Attributes:
        kind: what moves.
        axes: the axes that its groups span.
        input_bytes: what each device holds before, of this tensor.
        output_bytes: what each device holds after.
        dim: the dim that is gathered, scattered or newly cut; -1 where none.
    """

    kind: CollectiveKind
    axes: tuple[str, ...]
    input_bytes: int
    output_bytes: int
    dim: int = -1


def local_bytes(
    shape: tuple[int, ...], dims: tuple[tuple[str, ...], ...], itemsize_bytes: int, mesh: Mesh
) -> int:
    """Bytes that one device holds of a tensor whose dims are cut by these axes, rounded up."""
    sizes = mesh.sizes
    elements = 1
    for size, axes in zip(shape, dims, strict=True):
        elements *= -(-size // math.prod([sizes[axis] for axis in axes])) if axes else size
    return elements * itemsize_bytes


def moved_bytes(collective: Collective, mesh: Mesh) -> float:
    """Bytes that each device sends in this collective when it moves no byte too many.

    Source:
        The lower bounds of Chan et al., "Collective communication: theory, practice, and
        experience" (2007): (n-1)/n of the whole for a gather or scatter, twice that for
        an all-reduce.
    """
    num_devices = mesh.size_of(collective.axes)
    share = (num_devices - 1) / num_devices
    match collective.kind:
        case CollectiveKind.SLICE:
            return 0.0
        case CollectiveKind.ALL_GATHER:
            return share * collective.output_bytes
        case CollectiveKind.ALL_REDUCE:
            return 2 * share * collective.input_bytes
        case CollectiveKind.REDUCE_SCATTER | CollectiveKind.ALL_TO_ALL:
            return share * collective.input_bytes
        case CollectiveKind.PERMUTE:
            return float(collective.input_bytes) if num_devices > 1 else 0.0


@final
@dataclass(frozen=True, kw_only=True)
class MovedBytes:
    """A price for reshards that counts bytes sent per device, whatever carries them."""

    mesh: Mesh

    def __call__(self, collective: Collective) -> float:
        """Bytes that each device sends."""
        return moved_bytes(collective, self.mesh)
