"""Pure combinatorics: one strategy per node, least cost, memory that fits at every moment."""

from shardwright.solver.contest import read_contest_json, to_contest_json
from shardwright.solver.graph import FORBIDDEN, StrategyGraph
from shardwright.solver.solution import Limit, Progress, Reason, Shortfall, Solution, Termination
from shardwright.solver.solve import solve, solve_exact

__all__ = [
    "FORBIDDEN",
    "Limit",
    "Progress",
    "Reason",
    "Shortfall",
    "Solution",
    "StrategyGraph",
    "Termination",
    "read_contest_json",
    "solve",
    "solve_exact",
    "to_contest_json",
]
