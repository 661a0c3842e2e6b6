"""Classes of strategies that look alike: equal rows and columns of a matrix, found by hashing.

A planner's matrix depends on the layouts of one tensor, of which there are few, so most of the rows
repeat. Everything that walks over matrices walks over classes instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.problem import Floats, Ints


def equal_rows(matrix: NDArray[Any]) -> tuple[Ints, Ints]:
    """The first row of each class of equal rows, and the class of each row.

    Classes are numbered by first appearance.
    """
    rows = np.ascontiguousarray(matrix)
    seen: dict[bytes, int] = {}
    firsts: list[int] = []
    classes = np.empty(len(rows), dtype=np.int64)
    for index, row in enumerate(rows):
        number = seen.setdefault(row.tobytes(), len(seen))
        if number == len(firsts):
            firsts.append(index)
        classes[index] = number
    return np.array(firsts, dtype=np.int64), classes


def row_classes(matrix: Floats) -> tuple[Floats, Ints, Ints]:
    """The matrix of classes, the class of each row and the class of each column."""
    positive = matrix + 0.0  # minus zero becomes zero, so that equal numbers have equal bytes
    first_rows, of_row = equal_rows(positive)
    first_columns, of_column = equal_rows(positive[first_rows].T)
    return positive[np.ix_(first_rows, first_columns)], of_row, of_column
