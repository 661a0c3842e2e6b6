"""The packaged table of public hardware figures, row by row.

``data/hardware.csv`` holds devices, cloud instances and TPU slices. Every figure was stated by the
public source named in its row; an empty cell is unknown. Bandwidths are one way in GB/s (1e9),
memory is in GiB, peaks are dense (no sparsity) in TFLOP/s.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import final

GIGA = 1e9
TERA = 1e12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table, by column name."""

    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """The cell's text; empty when unknown."""
        return self.cells[column]

    def number(self, column: str) -> float | None:
        """The cell's number in the column's own unit; ``None`` when unknown."""
        cell = self.cells[column]
        return float(cell) if cell else None

    @property
    def name(self) -> str:
        """The row's name, unique among rows of its kind."""
        return self.cells["name"]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the same thing, such as what a driver reports."""
        return tuple(alias for alias in self.cells["aliases"].split(";") if alias)


@functools.cache
def all_rows() -> tuple[Row, ...]:
    """Every row of the packaged table, in file order."""
    path = resources.files("shardwright.cluster") / "data" / "hardware.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(Row(cells=cells) for cells in csv.DictReader(lines))


def rows_of_kind(kind: str) -> tuple[Row, ...]:
    """The rows whose ``row_kind`` is ``device``, ``instance`` or ``tpu_slice``."""
    return tuple(row for row in all_rows() if row.text("row_kind") == kind)
