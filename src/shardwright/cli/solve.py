"""``shardwright solve``: the public benchmark's problem, one strategy per node under a limit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.status import Status

from shardwright.cli.answer import give, json_option
from shardwright.solver import (
    Limit,
    Progress,
    Reason,
    Solution,
    StrategyGraph,
    read_contest_json,
    solve,
)

_LAST_S = 0.8
_LAST_S_PER_PART = 2.5e-6
"""Kept back for evaluating and printing the answer."""

_STOPPED = {
    Limit.NONE: "",
    Limit.TIME: " (time is up)",
    Limit.WORK: " (work is done)",
    Limit.INTERRUPT: " (interrupted)",
}


@click.command("solve")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--time", "time_s", default=60.0, show_default=True, help="Seconds in all.")
@click.option("--gap", default=1e-4, show_default=True, help="Gap at which it may end.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random walks.")
@click.option("--threads", default=2, show_default=True, help="Threads that work side by side.")
@json_option
def command(
    *, file: Path, time_s: float, gap: float, seed: int, threads: int, as_json: bool
) -> int:
    """Solve FILE, a problem in the JSON of github.com/google/iopddl (or gzipped).

    Prints cost, lower bound and gap and, as its last line, the strategies in the benchmark's form:
    [s0, s1, ...]. The time counts from the start of the program, reading included; the first use
    after an installation takes a minute more, to compile. Ctrl-C ends the search with its best.
    """
    _check(time_s, gap, threads)
    with _shown() as status:
        graph = read_contest_json(file)
        parts = graph.num_nodes + len(graph.edges)
        left_s = time_s - _spent_s() - _LAST_S - _LAST_S_PER_PART * parts
        solution = solve(
            graph,
            gap=gap,
            time_limit_s=max(0.05, left_s),
            seed=seed,
            num_threads=threads,
            progress=lambda progress: _show(status, progress),
        )
    return _tell(graph, solution, as_json=as_json)


def _check(time_s: float, gap: float, threads: int) -> None:
    for name, value, is_right in (
        ("--time", time_s, time_s > 0),
        ("--gap", gap, gap >= 0),
        ("--threads", threads, threads >= 1),
    ):
        if not is_right:
            raise click.BadParameter(f"{value} is too small.", param_hint=f"'{name}'")


def _spent_s() -> float:
    """Seconds since this process began, where the system tells; else those it has worked."""
    try:
        began = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        # The clock that the process's start is told in; /proc/uptime may be a container's own.
        now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return max(0.0, now_s - began / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()


@contextmanager
def _shown() -> Iterator[Status | None]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("reading") as status:
        yield status


def _show(status: Status | None, progress: Progress) -> None:
    if status is not None:
        cost = "none yet" if progress.cost is None else f"{progress.cost:,.0f}"
        status.update(f"{progress.seconds:.1f} s   best {cost}   bound {progress.lower_bound:,.0f}")


def _tell(graph: StrategyGraph, solution: Solution, *, as_json: bool) -> int:
    exit_code = 0 if solution.is_feasible else 3
    text = _text(graph, solution)
    if solution.choice is not None and not as_json:
        text += "\n" + str(list(solution.choice))
    return give(text, _document(solution), as_json=as_json, exit_code=exit_code)


def _text(graph: StrategyGraph, solution: Solution) -> str:
    ended = solution.termination
    lines = [f"{graph.num_nodes:,} nodes, {len(graph.edges):,} edges", f"ended    {ended.reason}"]
    lines[-1] += _STOPPED[ended.limit]
    if solution.is_feasible:
        lines += [f"cost     {solution.cost:,}", f"bound    {solution.lower_bound:,.0f}"]
        lines += [f"gap      {100 * solution.gap:.4f} %"]
    if solution.shortfall is not None:
        lines += [
            f"short    {solution.shortfall.size_bytes:,} bytes at time {solution.shortfall.time}"
        ]
    elif ended.reason is Reason.INFEASIBLE:
        lines += ["why      every choice is forbidden by some cost or passes the limit"]
    return "\n".join(lines)


def _document(solution: Solution) -> dict[str, Any]:
    short = solution.shortfall
    return {
        "cost": solution.cost if solution.is_feasible else None,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "feasible": solution.is_feasible,
        "choice": None if solution.choice is None else list(solution.choice),
        "seconds": round(_spent_s(), 3),
        "termination": str(solution.termination.reason),
        "limit": str(solution.termination.limit),
        "shortfall": None if short is None else {"time": short.time, "bytes": short.size_bytes},
    }
