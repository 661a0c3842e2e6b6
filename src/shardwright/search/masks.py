"""Masks: which strategies of each node a recipe or a user's constraint still allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a recipe makes no sense for a model on a mesh, or which constraints clash."""

    reason: str


def everything(sizes: Sequence[int]) -> list[Mask]:
    """Masks that allow every strategy."""
    return [np.ones(size, dtype=np.bool_) for size in sizes]


def require(mask: Mask, wanted: Mask) -> bool:
    """Narrow ``mask`` to ``wanted`` where that leaves something; whether it did."""
    both = mask & wanted
    if not both.any():
        return False
    mask &= wanted
    return True
