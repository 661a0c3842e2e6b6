"""Dropping strategies by proof: those through which every choice costs too much.

Source: Balas and Saltzman, "An algorithm for the three-index assignment problem", 1991 (reduced
cost fixing with multipliers).
"""

from __future__ import annotations

from shardwright.solver.multipliers import Priced
from shardwright.solver.problem import Floats, Problem
from shardwright.solver.reduce import reduce_problem

Through = dict[int, Floats]
"""Per node, a bound on all choices that fit and have each of its strategies."""


def through_costs(priced: Priced) -> Through:
    """The bounds that the run behind a price gives; empty where nothing was run."""
    if priced.run is None:
        return {}
    return {node: totals + priced.constant for node, totals in priced.run.through_costs().items()}


def kept_below(problem: Problem, through: Through, most: float, *, deadline_s: float) -> Problem:
    """A reduced copy with the strategies whose bound is below ``most``."""
    left = problem.copy()
    touched: set[int] = set()
    for node, totals in through.items():
        keep = totals < most
        if not keep.all():
            left.keep_strategies(node, keep)
            touched.update((node, *left.edges[node]))
    if not left.is_infeasible:
        reduce_problem(left, nodes=touched, deadline_s=deadline_s)
    return left
