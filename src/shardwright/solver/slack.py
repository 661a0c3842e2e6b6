"""Bytes left at every moment, kept in a tree: a change over a span and the least of all are quick.

Source: the segment tree with pending additions is folklore; Bentley, "Solutions to Klee's rectangle
problems", 1977, for the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardwright.solver.arrays import Ints
from shardwright.solver.jit import compiled

_PLENTY = 2**62


class Slack(NamedTuple):
    """Leaf ``t`` is at ``size + t``; a node holds the least below it with its own ``pending``."""

    least: Ints
    pending: Ints
    size: int


@compiled
def slack_tree(slack: Ints) -> Slack:
    """The tree over bytes left per moment."""
    size = 1
    while size < len(slack):
        size *= 2
    least, pending = np.full(2 * size, _PLENTY, np.int64), np.zeros(size, np.int64)
    least[size : size + len(slack)] = slack
    for p in range(size - 1, 0, -1):
        least[p] = min(least[2 * p], least[2 * p + 1])
    return Slack(least, pending, size)


@compiled
def add_span(tree: Slack, lo: int, hi: int, value: int) -> None:
    """Add ``value`` to the moments ``[lo, hi)``."""
    least, pending, size = tree
    left, right = lo + size, hi + size
    first, last = left, right - 1
    while left < right:
        if left & 1:
            least[left] += value
            if left < size:
                pending[left] += value
            left += 1
        if right & 1:
            right -= 1
            least[right] += value
            if right < size:
                pending[right] += value
        left >>= 1
        right >>= 1
    p = first >> 1
    while p > 0:
        least[p] = min(least[2 * p], least[2 * p + 1]) + pending[p]
        p >>= 1
    p = last >> 1
    while p > 0:
        least[p] = min(least[2 * p], least[2 * p + 1]) + pending[p]
        p >>= 1


@compiled
def tightest(tree: Slack) -> int:
    """The first moment with the least bytes left."""
    least, _, size = tree
    p = 1
    while p < size:
        p = 2 * p if least[2 * p] <= least[2 * p + 1] else 2 * p + 1
    return p - size
