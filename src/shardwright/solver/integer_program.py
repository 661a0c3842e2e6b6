"""The problem as an integer program, solved by HiGHS.

With x[v,s] = 1 when node v takes strategy s, and the strategies of either end of an edge e = (u, v)
grouped into classes r of equal rows and k of equal columns of its matrix M[e]::

    minimise    sum c[v,s] x[v,s]  +  sum M[e][r,k] y[e,r,k]
    subject to  sum_s x[v,s] = 1                             each node v        (_choose_one)
                sum_k y[e,r,k] = sum_{s in r} x[u,s]         each class r of u  (_link_ends)
                sum_r y[e,r,k] = sum_{s in k} x[v,s]         each class k of v  (_link_ends)
                sum_{v alive at t} b[v,s] x[v,s] <= limit[t] each moment t      (_fit_memory)
                x binary, y >= 0 and absent where M[e][r,k] is forbidden

y needs no integrality: whole x leave one y per edge. Classes keep y small where strategies of a
node look alike to a neighbour. To learn how many bytes are missing, costs are left out, a column
z >= 0 joins every memory row, and z alone is minimised.

Source: Zheng et al., "Alpa", OSDI 2022, section 4.2 (equations 1 to 4), with memory over time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, final

import highspy
import numpy as np
from highspy.highs import _Highs  # type: ignore[attr-defined]

from shardwright.solver.classes import row_classes
from shardwright.solver.problem import Floats, Labels, Problem


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """What HiGHS found: a choice by label, a bound on its objective, and whether it finished."""

    choice: Labels | None
    bound: float
    is_infeasible: bool = False
    is_complete: bool = False


@final
@dataclass(slots=True)
class _Rows:
    """Rows of the program while they are written, in compressed sparse form."""

    starts: list[int] = field(default_factory=list)
    columns: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    length: int = 0

    def add(self, columns: Any, values: Any, lower: float, upper: float) -> None:
        self.starts.append(self.length)
        self.columns.append(np.asarray(columns, dtype=np.int32))
        self.values.append(np.broadcast_to(np.asarray(values, dtype=np.float64), len(columns)))
        self.lower.append(lower)
        self.upper.append(upper)
        self.length += len(columns)


@final
@dataclass(slots=True)
class _Columns:
    """Columns of the program: cost and first column of each node."""

    first: dict[int, int] = field(default_factory=dict)
    costs: list[Floats] = field(default_factory=list)
    length: int = 0

    def add(self, costs: Floats) -> Any:
        """The numbers of the new columns."""
        begin = self.length
        self.costs.append(costs)
        self.length += len(costs)
        return np.arange(begin, self.length)


def solve_integer_program(
    problem: Problem,
    *,
    gap: float,
    time_limit_s: float,
    start: Labels | None = None,
    seed: int = 0,
) -> ProgramResult:
    """The best choice of a reduced problem, a bound, or the proof that there is none."""
    rows, columns = _Rows(), _Columns()
    x = _choose_one(problem, rows, columns)
    _link_ends(problem, x, rows, columns)
    _fit_memory(problem, x, rows)
    scale = _scale(problem)
    columns.costs = [costs * scale for costs in columns.costs]
    solver = _solver(rows, columns, num_integers=_num_strategies(problem))
    _set_options(solver, gap=gap, time_limit_s=time_limit_s, seed=seed)
    if start is not None:
        _set_start(solver, problem, x, start)
    solver.run()
    return _result(solver, problem, x, scale=scale)


def _scale(problem: Problem) -> float:
    """What costs are multiplied by, so that the solver's absolute tolerances are small beside them.

    A power of two, which loses no digit.
    """
    least = sum(float(np.min(np.abs(costs))) for costs in problem.costs.values())
    most = max((float(np.max(np.abs(costs))) for costs in problem.costs.values()), default=0.0)
    typical = max(least, most / 16.0)
    return 2.0 ** round(math.log2(1e4 / typical)) if 0.0 < typical < math.inf else 1.0


def least_overshoot(problem: Problem, *, time_limit_s: float) -> tuple[float, Labels] | None:
    """Fewest bytes by which every allowed choice exceeds some moment, and one choice that does."""
    rows, columns = _Rows(), _Columns()
    x = _choose_one(problem, rows, columns, costs_count=False)
    _link_ends(problem, x, rows, columns, costs_count=False)
    over = columns.add(np.ones(1))
    _fit_memory(problem, x, rows, over=over)
    solver = _solver(rows, columns, num_integers=_num_strategies(problem))
    _set_options(solver, gap=1e-9, time_limit_s=time_limit_s, seed=0)
    solver.run()
    result = _result(solver, problem, x, scale=1.0)
    if result.choice is None:
        return None
    return solver.getInfo().objective_function_value, result.choice


def _num_strategies(problem: Problem) -> int:
    return sum(len(costs) for costs in problem.costs.values())


def _choose_one(
    problem: Problem, rows: _Rows, columns: _Columns, *, costs_count: bool = True
) -> dict[int, Any]:
    x = {}
    for node, costs in problem.costs.items():
        x[node] = columns.add(costs if costs_count else np.zeros(len(costs)))
        rows.add(x[node], 1.0, 1.0, 1.0)
    return x


def _link_ends(
    problem: Problem,
    x: dict[int, Any],
    rows: _Rows,
    columns: _Columns,
    *,
    costs_count: bool = True,
) -> None:
    for u, v in problem.pairs():
        table, of_row, of_column = row_classes(problem.edges[u][v])
        allowed = np.isfinite(table)
        y = np.full(table.shape, -1)
        y[allowed] = columns.add(table[allowed] if costs_count else np.zeros(int(allowed.sum())))
        for end, member_of, numbers in ((u, of_row, y), (v, of_column, y.T)):
            for index, line in enumerate(numbers):
                used = line[line >= 0]
                members = x[end][member_of == index]
                values = np.concatenate([np.ones(len(used)), -np.ones(len(members))])
                rows.add(np.concatenate([used, members]), values, 0.0, 0.0)


def _fit_memory(problem: Problem, x: dict[int, Any], rows: _Rows, *, over: Any = None) -> None:
    for moment, limit in enumerate(problem.limits.tolist()):
        alive = [n for n, (first, end) in problem.spans.items() if first <= moment < end]
        numbers = [x[node] for node in alive] + ([] if over is None else [over])
        sizes = [problem.usages[node] for node in alive] + ([] if over is None else [[-1.0]])
        if numbers:
            values = np.concatenate(sizes).astype(np.float64)
            scale = float(max(1.0, abs(limit)))
            rows.add(np.concatenate(numbers), values / scale, -math.inf, limit / scale)


def _solver(rows: _Rows, columns: _Columns, *, num_integers: int) -> Any:
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = columns.length, len(rows.lower)
    model.col_cost_ = np.concatenate(columns.costs)
    model.col_lower_ = np.zeros(columns.length)
    is_integer = np.arange(columns.length) < num_integers
    model.col_upper_ = np.where(is_integer, 1.0, math.inf)
    model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array([*rows.starts, rows.length], dtype=np.int32)
    model.a_matrix_.index_ = np.concatenate(rows.columns)
    model.a_matrix_.value_ = np.concatenate(rows.values)
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    model.integrality_ = [kinds[int(flag)] for flag in is_integer]
    # The wrapper class greets on standard output whatever its options say; its base does not.
    solver: Any = _Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    return solver


def _set_options(solver: Any, *, gap: float, time_limit_s: float, seed: int) -> None:
    solver.setOptionValue("mip_rel_gap", gap)
    solver.setOptionValue("mip_abs_gap", 0.0)
    solver.setOptionValue("time_limit", max(0.01, time_limit_s))
    # One thread, so that the same seed gives the same answer.
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", seed)


def _set_start(solver: Any, problem: Problem, x: dict[int, Any], start: Labels) -> None:
    chosen = [
        int(x[node][np.searchsorted(problem.labels[node], start[node])]) for node in problem.costs
    ]
    numbers = np.concatenate([x[node] for node in problem.costs]).astype(np.int32)
    values = np.isin(numbers, chosen).astype(np.float64)
    solver.setSolution(len(numbers), numbers, values)


def _result(solver: Any, problem: Problem, x: dict[int, Any], *, scale: float) -> ProgramResult:
    status, info = solver.getModelStatus(), solver.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return ProgramResult(choice=None, bound=math.inf, is_infeasible=True, is_complete=True)
    choice = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = np.array(solver.getSolution().col_value)
        choice = {
            node: int(problem.labels[node][np.argmax(values[numbers])])
            for node, numbers in x.items()
        }
    bound = float(info.mip_dual_bound)
    return ProgramResult(
        choice=choice,
        # Nothing but rounding is below zero cost where the solver works at a scale of thousands.
        bound=0.0 if abs(bound) < 1e-9 else bound / scale,
        is_complete=status == highspy.HighsModelStatus.kOptimal,
    )
