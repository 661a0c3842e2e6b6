"""A small problem as an integer program, solved by HiGHS to a certified gap.

With x[v,s] = 1 when node v takes strategy s, and the strategies of either end of an edge e = (u, v)
grouped into classes r and k of equal rows and columns of its table M[e]::

    minimise    sum c[v,s] x[v,s]  +  sum M[e][r,k] y[e,r,k]
    subject to  sum_s x[v,s] = 1                               each node v
                sum_k y[e,r,k] = sum_{s in r} x[u,s]           each class r of u
                sum_r y[e,r,k] = sum_{s in k} x[v,s]           each class k of v
                sum_{k alive at t} b[k,s] x[v,s] <= limit[t]   each moment t that was asked for
                x binary, y >= 0 and absent where M[e][r,k] is forbidden

y needs no integrality: whole x leave one y per edge. Memory enters at the moments at which a choice
was seen to overflow, and the program is solved again until none does.

Source: Zheng et al., "Alpa", OSDI 2022, section 4.2 (equations 1 to 4), with memory over time.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, final

import highspy
import numpy as np
from highspy.highs import _Highs  # type: ignore[attr-defined]
from scipy import sparse

from shardwright.solver.arrays import Flat, Floats, Ints
from shardwright.solver.messages import cost_of, slack_of

_Entries = list[tuple[Any, Any, Any]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExactResult:
    """What HiGHS found: a choice that fits, a bound, and whether it was finished.

    ``choice`` is None where none was found; then ``is_complete`` says that there is none.
    """

    choice: Ints | None
    bound: float
    is_complete: bool


@final
@dataclass(slots=True, kw_only=True)
class _Program:
    """The program without memory: rows as (row, column, value), costs, right sides.

    ``column_of`` is the column of each table entry, or -1.
    """

    costs: Floats
    entries: _Entries
    sides: Floats
    num_binary: int
    column_of: Ints
    has_excess: bool = False


def solve_program(
    flat: Flat,
    *,
    gap: float,
    time_limit_s: float,
    seed: int = 0,
    start: Ints | None = None,
    stop: threading.Event | None = None,
) -> ExactResult:
    """The best choice within ``gap``, a bound, or the proof that no choice fits."""
    deadline = time.monotonic() + time_limit_s
    program = _program(flat)
    moments: list[int] = []
    bound, best = -math.inf, None if start is None or not _fits(flat, start) else start
    if not np.all(flat.limits >= 0):
        return ExactResult(choice=None, bound=math.inf, is_complete=True)
    if not len(flat.nodes.cost):
        return ExactResult(choice=np.zeros(0, np.int64), bound=0.0, is_complete=True)
    while True:
        left_s = deadline - time.monotonic()
        solver = _solver(flat, program, moments)
        _set_options(solver, gap=gap, time_limit_s=left_s, seed=seed)
        _heed(solver, stop)
        if start is not None:
            _set_start(solver, flat, program, start)
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            return ExactResult(choice=None, bound=math.inf, is_complete=True)
        choice = _chosen(flat, np.array(solver.getSolution().col_value))
        has_point = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        told = info.objective_function_value / _scale(flat)
        if has_point and start is not None and _differ(told, float(cost_of(flat, choice))):
            # Given a start, HiGHS 1.16 now and then claims an optimum cheaper than its solution.
            start = None
            continue
        bound = max(bound, info.mip_dual_bound / _scale(flat))
        is_done = status == highspy.HighsModelStatus.kOptimal
        if not has_point:
            return ExactResult(choice=best, bound=bound, is_complete=False)
        more = _overflows(flat, choice, set(moments))
        if not more:
            return ExactResult(choice=choice, bound=bound, is_complete=is_done)
        if time.monotonic() >= deadline or (stop is not None and stop.is_set()):
            return ExactResult(choice=best, bound=bound, is_complete=False)
        moments += more


def least_overshoot(flat: Flat, *, time_limit_s: float) -> tuple[int, int] | None:
    """The moment of the least overshoot that any allowed choice has, and its bytes.

    None where no choice is allowed at all, or none was found in time.
    """
    deadline = time.monotonic() + time_limit_s
    plain = _program(flat)
    costs = np.zeros(len(plain.costs) + 1)
    costs[-1] = 1.0
    program = replace(plain, costs=costs, has_excess=True)
    moments: list[int] = []
    while True:
        solver = _solver(flat, program, moments)
        _set_options(solver, gap=1e-9, time_limit_s=deadline - time.monotonic(), seed=0)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        choice = _chosen(flat, np.array(solver.getSolution().col_value))
        more = _overflows(flat, choice, set(moments))
        slack = slack_of(flat, choice)
        worst = int(np.argmin(slack))
        if worst in moments or not more:
            return worst, -int(slack[worst])
        moments += more


def _differ(told: float, counted: float) -> bool:
    return abs(told - counted) > 1e-6 * max(abs(told), abs(counted))


def _largest(flat: Flat) -> float:
    return float(max(1, flat.limits.max(initial=1), flat.terms.usage.max(initial=1)))


def _fits(flat: Flat, choice: Ints) -> bool:
    return bool(np.all(slack_of(flat, choice) >= 0))


def _overflows(flat: Flat, choice: Ints, known: set[int]) -> list[int]:
    """The worst moment of each stretch of time that overflows."""
    slack = slack_of(flat, choice)
    bad = np.flatnonzero(slack < 0)
    if not len(bad):
        return []
    stretches = np.split(bad, np.flatnonzero(np.diff(bad) > 1) + 1)
    worst = {int(part[np.argmin(slack[part])]) for part in stretches}
    return sorted(worst - known) or [int(t) for t in bad if int(t) not in known][:1]


def _scale(flat: Flat) -> float:
    """A power of two that makes the solver's absolute tolerances small beside the costs."""
    first, cost = flat.nodes.first, np.abs(flat.nodes.cost)
    least = float(np.minimum.reduceat(cost, first[:-1]).sum()) if len(cost) else 0.0
    typical = max(least, float(cost.max(initial=0.0)) / 16.0)
    return 2.0 ** round(math.log2(1e4 / typical)) if 0.0 < typical < math.inf else 1.0


def _program(flat: Flat) -> _Program:
    first, cost, edges = flat.nodes.first, flat.nodes.cost, flat.edges
    node_of = np.repeat(np.arange(len(first) - 1), np.diff(first))
    entries: _Entries = [(node_of, np.arange(len(cost)), np.ones(len(cost)))]
    costs, row, column = [cost], len(first) - 1, len(cost)
    column_of = np.full(len(edges.table), -1, dtype=np.int64)
    for e in range(len(edges.u)):
        rows, columns = int(edges.rows[e]), int(edges.columns[e])
        table = edges.table[edges.table_at[e] : edges.table_at[e] + rows * columns]
        allowed = np.flatnonzero(np.isfinite(table))
        numbers = column + np.arange(len(allowed))
        column_of[edges.table_at[e] + allowed] = numbers
        costs.append(table[allowed])
        ones = np.ones(len(allowed))
        entries.append((row + allowed // columns, numbers, ones))
        entries.append((row + rows + allowed % columns, numbers, ones))
        for node, at, begin in (
            (edges.u[e], edges.row_at[e], row),
            (edges.v[e], edges.column_at[e], row + rows),
        ):
            count = int(first[node + 1] - first[node])
            classes = edges.classes[at : at + count]
            entries.append((begin + classes, first[node] + np.arange(count), -np.ones(count)))
        row, column = row + rows + columns, column + len(allowed)
    sides = np.zeros(row)
    sides[: len(first) - 1] = 1.0
    return _Program(
        costs=np.concatenate(costs) * _scale(flat),
        entries=entries,
        sides=sides,
        num_binary=len(cost),
        column_of=column_of,
    )


def _memory_rows(flat: Flat, moments: list[int]) -> tuple[_Entries, Floats]:
    """Rows of the moments, scaled by what is allowed, and their right sides."""
    first, terms = flat.nodes.first, flat.terms
    owner = np.repeat(np.arange(len(first) - 1), np.diff(terms.first))
    entries: _Entries = []
    sides = np.empty(len(moments))
    for row, moment in enumerate(moments):
        limit = float(flat.limits[moment])
        scale = max(1.0, limit)
        sides[row] = limit / scale
        for k in np.flatnonzero((terms.lo <= moment) & (moment < terms.hi)):
            node = owner[k]
            count = int(first[node + 1] - first[node])
            bytes_used = terms.usage[terms.at[k] : terms.at[k] + count] / scale
            where = np.full(count, row)
            entries.append((where, first[node] + np.arange(count), bytes_used))
    return entries, sides


def _solver(flat: Flat, program: _Program, moments: list[int]) -> Any:
    memory, limits = _memory_rows(flat, moments)
    if program.has_excess:
        # One column more: bytes over the limits, in units of the largest one.
        excess, last = np.arange(len(moments)), np.full(len(moments), len(program.costs) - 1)
        scales = np.maximum(1.0, flat.limits[moments].astype(np.float64))
        memory.append((excess, last, -_largest(flat) / scales))
    base = len(program.sides)
    entries = [*program.entries, *((base + row, column, value) for row, column, value in memory)]
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    shape = (base + len(moments), len(program.costs))
    matrix = sparse.csr_matrix((values, (rows, columns)), shape=shape)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = shape[1], shape[0]
    model.col_cost_ = program.costs
    model.col_lower_ = np.zeros(shape[1])
    is_binary = np.arange(shape[1]) < program.num_binary
    model.col_upper_ = np.where(is_binary, 1.0, math.inf)
    model.row_lower_ = np.concatenate([program.sides, np.full(len(moments), -math.inf)])
    model.row_upper_ = np.concatenate([program.sides, limits])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    model.a_matrix_.index_ = matrix.indices.astype(np.int32)
    model.a_matrix_.value_ = matrix.data
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    model.integrality_ = [kinds[int(flag)] for flag in is_binary]
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


def _heed(solver: Any, stop: threading.Event | None) -> None:
    """Make the solver end soon after ``stop`` is set."""
    if stop is None:
        return

    def look(*told: Any) -> None:
        answer = told[3]
        if stop.is_set():
            answer.user_interrupt = True

    solver.setCallback(look, None)
    for kind in (
        highspy.cb.HighsCallbackType.kCallbackMipInterrupt,
        highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt,
    ):
        solver.startCallback(kind)


def _set_start(solver: Any, flat: Flat, program: _Program, start: Ints) -> None:
    """Begin from a choice, told in full: from the binaries alone HiGHS may take it for cheaper."""
    edges = flat.edges
    values = np.zeros(len(program.costs))
    values[flat.nodes.first[:-1] + start] = 1.0
    rows = edges.classes[edges.row_at + start[edges.u]]
    columns = edges.classes[edges.column_at + start[edges.v]]
    values[program.column_of[edges.table_at + rows * edges.columns + columns]] = 1.0
    solution = highspy.HighsSolution()
    solution.col_value = values.tolist()
    solver.setSolution(solution)


def _chosen(flat: Flat, values: Floats) -> Ints:
    first = flat.nodes.first
    return np.array(
        [np.argmax(values[first[v] : first[v + 1]]) for v in range(len(first) - 1)], dtype=np.int64
    )
