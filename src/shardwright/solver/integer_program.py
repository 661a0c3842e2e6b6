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
node look alike to a neighbour. To learn how many bytes are missing, costs are left out, a column z
>= 0 joins every memory row, and z alone is minimised (_measure_excess).

Source: Zheng et al., "Alpa", OSDI 2022, section 4.2 (equations 1 to 4), with memory over time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.solver.classes import row_classes
from shardwright.solver.linear_model import Columns, LinearModel, ModelResult
from shardwright.solver.problem import Places, Problem

_LARGEST_LIMIT = 1e5
"""Size to which memory rows are scaled down; HiGHS's tolerance is 1e-6 of a row's unit."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """What the integer program gave.

    Attributes:
        places: the choice found by place, or None.
        bound: no choice that was asked for costs less; infinite when there is none.
        is_complete: whether the search ended by proof and not by a limit.
    """

    places: Places | None
    bound: float
    is_complete: bool


def solve_integer_program(
    problem: Problem,
    *,
    gap: float,
    time_limit_s: float,
    cutoff: float = math.inf,
    start: Places | None = None,
    most_nodes: int | None = None,
    seed: int = 0,
) -> ProgramResult:
    """The best choice of a reduced problem that costs less than ``cutoff``, with a bound."""
    if not problem.costs:
        return _settled(problem, cutoff)
    model = LinearModel()
    x = _choose_one(problem, model)
    _link_ends(problem, x, model)
    _fit_memory(problem, x, model)
    result = model.minimise(
        gap=gap,
        time_limit_s=time_limit_s,
        cutoff=cutoff - problem.offset,
        most_nodes=most_nodes,
        seed=seed,
        start=None if start is None else np.array([x[node][at] for node, at in start.items()]),
    )
    return ProgramResult(
        places=_places(result, x),
        bound=problem.offset + result.bound,
        is_complete=result.is_complete,
    )


def _settled(problem: Problem, cutoff: float) -> ProgramResult:
    """The result when nothing is left to choose."""
    is_wanted = problem.offset < cutoff and not (problem.limits < 0).any()
    return ProgramResult(
        places={} if is_wanted else None,
        bound=problem.offset if is_wanted else math.inf,
        is_complete=True,
    )


def least_overshoot(problem: Problem, *, time_limit_s: float) -> Places | None:
    """A choice whose largest excess over the limits is least; None when all are forbidden."""
    model = LinearModel()
    x = _choose_one(problem, model, costs_count=False)
    _link_ends(problem, x, model, costs_count=False)
    _measure_excess(problem, x, model)
    return _places(model.minimise(gap=1e-9, time_limit_s=time_limit_s), x)


def program_size(problem: Problem) -> int:
    """Columns that the integer program would have."""
    size = sum(len(costs) for costs in problem.costs.values())
    for u, v in problem.pairs():
        size += int(np.isfinite(row_classes(problem.edges[u][v])[0]).sum())
    return size


def _choose_one(
    problem: Problem, model: LinearModel, *, costs_count: bool = True
) -> dict[int, Columns]:
    x = {}
    for node, costs in problem.costs.items():
        x[node] = model.add_columns(costs if costs_count else np.zeros(len(costs)), is_binary=True)
        model.add_row(x[node], 1.0, 1.0, 1.0)
    return x


def _link_ends(
    problem: Problem, x: dict[int, Columns], model: LinearModel, *, costs_count: bool = True
) -> None:
    for u, v in problem.pairs():
        table, of_row, of_column = row_classes(problem.edges[u][v])
        allowed = np.isfinite(table)
        y = np.full(table.shape, -1, dtype=np.int32)
        y[allowed] = model.add_columns(table[allowed] if costs_count else np.zeros(allowed.sum()))
        for end, member_of, numbers in ((u, of_row, y), (v, of_column, y.T)):
            for index, line in enumerate(numbers):
                used, members = line[line >= 0], x[end][member_of == index]
                values = np.concatenate([np.ones(len(used)), -np.ones(len(members))])
                model.add_row(np.concatenate([used, members]), values, 0.0, 0.0)


def _fit_memory(problem: Problem, x: dict[int, Columns], model: LinearModel) -> None:
    for moment, limit in enumerate(problem.limits.tolist()):
        alive = _alive_at(problem, moment)
        if alive:
            usages = np.concatenate([problem.usages[node] for node in alive])
            # In whole units where there are some, so that one unit too much shows.
            unit = max(1, int(np.gcd.reduce(usages)))
            scale = max(1.0, limit / unit / _LARGEST_LIMIT)
            columns = np.concatenate([x[node] for node in alive])
            model.add_row(columns, usages / (unit * scale), -math.inf, limit // unit / scale)


def _measure_excess(problem: Problem, x: dict[int, Columns], model: LinearModel) -> None:
    excess = model.add_columns(np.ones(1))
    scale = float(max(1, np.abs(problem.limits).max(initial=1))) / _LARGEST_LIMIT
    for moment, limit in enumerate(problem.limits.tolist()):
        alive = _alive_at(problem, moment)
        if alive:
            usages = np.concatenate([problem.usages[node] for node in alive])
            columns = np.concatenate([*(x[node] for node in alive), excess])
            model.add_row(columns, np.append(usages / scale, -1.0), -math.inf, limit / scale)


def _alive_at(problem: Problem, moment: int) -> list[int]:
    return [node for node, (first, end) in problem.spans.items() if first <= moment < end]


def _places(result: ModelResult, x: dict[int, Columns]) -> Places | None:
    values = result.values
    if values is None:
        return None
    return {node: int(values[numbers].argmax()) for node, numbers in x.items()}
