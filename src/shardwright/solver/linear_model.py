"""A linear or mixed integer model while it is written, and its run in HiGHS.

HiGHS judges by absolute tolerances of 1e-7 to 1e-6, so costs are brought near a million before they
go in and brought back when they come out. One thread and a fixed seed: the same model gives the
same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import highspy
import numpy as np
from highspy._core import _Highs  # the subclass prints a banner before it can be silenced
from numpy.typing import NDArray

from shardwright.solver.problem import Floats

Columns = NDArray[np.int32]

_COST_SIZE = 1e6


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelResult:
    """What HiGHS says: values of the columns or None, a bound on the cost, and how it ended."""

    values: Floats | None
    bound: float
    is_infeasible: bool = False
    is_complete: bool = False


@final
class LinearModel:
    """Columns are zero or more, and at most 1 when they are binary; rows have two sides."""

    def __init__(self) -> None:
        self._costs: list[Floats] = []
        self._upper: list[Floats] = []
        self._is_binary: list[NDArray[np.bool_]] = []
        self._starts: list[int] = []
        self._columns: list[Columns] = []
        self._values: list[Floats] = []
        self._sides: list[tuple[float, float]] = []
        self._length = 0
        self.num_columns = 0

    @property
    def num_rows(self) -> int:
        """How many rows have been written."""
        return len(self._sides)

    def add_columns(self, costs: Floats, *, is_binary: bool = False) -> Columns:
        """The numbers of new columns with these costs."""
        begin = self.num_columns
        self._costs.append(np.asarray(costs, dtype=np.float64))
        self._upper.append(np.full(len(costs), 1.0 if is_binary else math.inf))
        self._is_binary.append(np.full(len(costs), is_binary))
        self.num_columns += len(costs)
        return np.arange(begin, self.num_columns, dtype=np.int32)

    def add_row(self, columns: Columns, values: Any, lower: float, upper: float) -> None:
        """Require ``lower <= sum of values x columns <= upper``."""
        self._starts.append(self._length)
        self._columns.append(columns)
        self._values.append(np.broadcast_to(np.asarray(values, dtype=np.float64), len(columns)))
        self._sides.append((lower, upper))
        self._length += len(columns)

    def minimise(
        self,
        *,
        gap: float,
        time_limit_s: float,
        cutoff: float = math.inf,
        start: Columns | None = None,
        most_nodes: int | None = None,
        seed: int = 0,
    ) -> ModelResult:
        """The least cost, to a relative gap.

        Args:
            gap: relative gap at which to end.
            time_limit_s: seconds after which to end.
            cutoff: only costs below this are of interest.
            start: the binary columns that are 1 in a choice to begin from.
            most_nodes: branch-and-bound nodes after which to end.
            seed: of HiGHS's tie breaking.
        """
        costs = np.concatenate(self._costs)
        scale = _COST_SIZE / max(float(np.abs(costs).max(initial=0.0)), 1e-300)
        solver = self._solver(costs * scale)
        solver.setOptionValue("random_seed", seed)
        solver.setOptionValue("mip_rel_gap", gap)
        solver.setOptionValue("mip_abs_gap", 0.0)
        solver.setOptionValue("time_limit", max(0.01, time_limit_s))
        if cutoff < math.inf:
            solver.setOptionValue("objective_bound", cutoff * scale)
            # A good choice is known, so the proof matters more than finding others.
            solver.setOptionValue("mip_heuristic_effort", 0.0)
            solver.setOptionValue("mip_allow_restart", False)
        if most_nodes is not None:
            solver.setOptionValue("mip_max_nodes", most_nodes)
        if start is not None:
            binary = np.flatnonzero(np.concatenate(self._is_binary)).astype(np.int32)
            solver.setSolution(len(binary), binary, np.isin(binary, start).astype(np.float64))
        solver.run()
        return _result(solver, scale)

    def _solver(self, costs: Floats) -> Any:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.num_columns, self.num_rows
        model.col_cost_ = costs
        model.col_lower_ = np.zeros(self.num_columns)
        model.col_upper_ = np.concatenate(self._upper)
        model.row_lower_ = np.array([lower for lower, _ in self._sides])
        model.row_upper_ = np.array([upper for _, upper in self._sides])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array([*self._starts, self._length], dtype=np.int32)
        model.a_matrix_.index_ = np.concatenate(self._columns)
        model.a_matrix_.value_ = np.concatenate(self._values)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[int(flag)] for flag in np.concatenate(self._is_binary)]
        solver = quiet_solver()
        solver.passModel(model)
        return solver


def quiet_solver() -> Any:
    """A HiGHS instance that prints nothing and uses one thread."""
    solver = _Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    return solver


def _result(solver: Any, scale: float) -> ModelResult:
    status, info = solver.getModelStatus(), solver.getInfo()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kObjectiveBound):
        return ModelResult(values=None, bound=math.inf, is_infeasible=True, is_complete=True)
    values = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = np.array(solver.getSolution().col_value)
    return ModelResult(
        values=values,
        bound=float(info.mip_dual_bound) / scale,
        is_complete=status == highspy.HighsModelStatus.kOptimal,
    )
