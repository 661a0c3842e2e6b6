"""Collectives: the moves that change how a tensor lies over a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import final


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
