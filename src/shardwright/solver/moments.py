"""The few moments that matter: every other time's live nodes all live at one of these too.

Between two changes of the set of live nodes nothing happens, and a set that is contained in a later
one needs no row of its own. What is left is one moment per start that is followed by an end: the
maximal cliques of the interval graph. Each node lives over a contiguous range of them.

Source: Fulkerson and Gross, "Incidence matrices and interval graphs", 1965.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The moments and each node's life among them.

    Attributes:
        times: one original time per moment, ascending.
        spans: per node, its moments ``[first, end)``; ``(0, 0)`` for an empty life.
    """

    times: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


def compress_times(intervals: Sequence[tuple[int, int]]) -> Moments:
    """The moments at which memory must be checked so that it is checked at every time."""
    alive = [(lo, hi) for lo, hi in intervals if lo < hi]
    starts = np.unique(np.array([lo for lo, _ in alive], dtype=np.int64))
    ends = np.unique(np.array([hi for _, hi in alive], dtype=np.int64))
    times = starts[_ends_before_next_start(starts, ends)]
    first = np.searchsorted(times, np.array([lo for lo, _ in intervals], dtype=np.int64))
    end = np.searchsorted(times, np.array([hi for _, hi in intervals], dtype=np.int64))
    spans = tuple(
        (int(a), int(b)) if lo < hi else (0, 0)
        for (lo, hi), a, b in zip(intervals, first, end, strict=True)
    )
    return Moments(times=tuple(times.tolist()), spans=spans)


def _ends_before_next_start(
    starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Per start, whether some life ends after it and no later than the next start."""
    following = np.append(starts[1:], np.iinfo(np.int64).max)
    return np.searchsorted(ends, following, side="right") > np.searchsorted(
        ends, starts, side="right"
    )


def usage_per_moment(
    spans: Sequence[tuple[int, int]], usages: Sequence[int], num_moments: int
) -> NDArray[np.int64]:
    """Bytes in use at each moment when node ``k`` uses ``usages[k]`` over ``spans[k]``."""
    changes = np.zeros(num_moments + 1, dtype=np.int64)
    if len(spans):
        ends = np.array(spans, dtype=np.int64)
        sizes = np.array(usages, dtype=np.int64)
        np.add.at(changes, ends[:, 0], sizes)
        np.subtract.at(changes, ends[:, 1], sizes)
    return np.cumsum(changes)[:num_moments]
