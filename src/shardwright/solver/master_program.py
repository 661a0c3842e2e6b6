"""The linear program of the cutting planes: the highest point below all planes inside a box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import highspy
import numpy as np

from shardwright.solver.linear_model import quiet_solver
from shardwright.solver.problem import Floats

_COST_SIZE = 1e4


@final
class MasterProgram:
    """Maximise h with ``h <= cost + prices . excess`` for every plane, prices in a box and >= 0."""

    def __init__(self, num_prices: int) -> None:
        self._scale = 0.0
        self._solver = quiet_solver()
        self._num_columns = num_prices + 1
        for _ in range(self._num_columns):
            self._solver.addVar(-math.inf, math.inf)
        self._solver.changeColCost(0, -1.0)

    def add(self, cost: float, excess: Floats) -> None:
        """One more plane."""
        if not self._scale:
            self._scale = _COST_SIZE / (abs(cost) or 1.0)
        numbers = np.arange(self._num_columns, dtype=np.int32)
        values = np.concatenate([[1.0], -excess])
        self._solver.addRow(-math.inf, cost * self._scale, len(values), numbers, values)

    def add_price(self, excesses: Sequence[float]) -> None:
        """One more price, with its excess in each plane; it counts from the next call on."""
        planes = np.arange(len(excesses), dtype=np.int32)
        self._solver.addCol(0.0, 0.0, 0.0, len(planes), planes, -np.array(excesses))
        self._num_columns += 1

    def best_in_box(self, centre: Floats, radius: float) -> tuple[float, Floats, tuple[float, ...]]:
        """The height of the highest point, its prices, and the weight of each plane there."""
        lower = np.maximum(0.0, centre - radius) * self._scale
        upper = (centre + radius) * self._scale
        numbers = np.arange(1, self._num_columns, dtype=np.int32)
        self._solver.changeColsBounds(len(numbers), numbers, lower, upper)
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return -math.inf, centre, ()
        solution = self._solver.getSolution()
        values = np.array(solution.col_value)
        at = np.clip(values[1:], lower, upper) / self._scale
        return float(values[0]) / self._scale, at, tuple(-dual for dual in solution.row_dual)
