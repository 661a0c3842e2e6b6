"""Classes of strategies that look alike: equal rows and columns of a matrix, found by hashing.

A planner's matrix depends on the layouts of one tensor, of which there are few, so most of the rows
repeat. Everything that walks over matrices walks over classes instead.

A *class map* of a node is an array of strategies that gives each its class, numbered from 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.problem import Floats, Ints


def equal_rows(matrix: Floats) -> tuple[Ints, Ints]:
    """The first row of each class of equal rows, and the class of each row.

    Classes are numbered by first appearance.
    """
    rows = np.ascontiguousarray(matrix)
    firsts, classes = _by_first_appearance(_hashes(rows))
    if not np.array_equal(rows, rows[firsts][classes]):
        # Two rows share a hash: their bytes do not.
        numbers: dict[bytes, int] = {}
        codes = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
        firsts, classes = _by_first_appearance(np.array(codes, dtype=np.uint64))
    return firsts, classes


def _hashes(rows: Floats) -> NDArray[np.uint64]:
    """A number per row, the same for equal bytes and hardly ever for others."""
    words = rows.view(np.uint64)
    mixed = (words ^ (words >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    places = np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed * (places | np.uint64(1))).sum(axis=1, dtype=np.uint64))


def _by_first_appearance(codes: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Where each different code comes first, ascending, and the rank of each code among them."""
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return firsts[order].astype(np.int64), rank[inverse]


def row_classes(matrix: Floats) -> tuple[Floats, Ints, Ints]:
    """The matrix of classes, the class of each row and the class of each column."""
    positive = matrix + 0.0  # minus zero becomes zero, so that equal numbers have equal bytes
    first_rows, of_row = equal_rows(positive)
    first_columns, of_column = equal_rows(positive[first_rows].T)
    return positive[np.ix_(first_rows, first_columns)], of_row, of_column


def joint_classes(maps: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The class map that tells apart what any of the maps does, and the first member of each class.

    Classes are numbered in lexicographic order of the maps' classes.
    """
    code = maps[0]
    for other in maps[1:]:
        code = code * (int(other.max()) + 1) + other
    if len(maps) == 1 and _is_dense(code):
        return code, np.unique(code, return_index=True)[1]
    _, firsts, inverse = np.unique(code, return_index=True, return_inverse=True)
    return inverse.astype(np.int64, copy=False), firsts


def _is_dense(code: Ints) -> bool:
    return int(np.count_nonzero(np.bincount(code))) == int(code.max()) + 1
