"""``shardwright solve``: what it prints, and what it leaves with."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from bench.contest_judge import cost_of, read_problem
from bench.solver_cases import hard_case
from shardwright.cli import main
from shardwright.solver import (
    FORBIDDEN,
    Progress,
    Solution,
    StrategyGraph,
    solve,
    to_contest_json,
)


@pytest.fixture(autouse=True)
def young(monkeypatch: pytest.MonkeyPatch) -> None:
    # The time counts from the start of the process, and this one runs other tests too.
    monkeypatch.setattr("shardwright.cli.solve._spent_s", lambda: 0.1)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["solve", *(str(word) for word in words)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "case.json.gz"
    to_contest_json(hard_case(nodes=60, strategies=4), path)
    return path


def test_the_last_line_is_the_choice(file: Path) -> None:
    said = run(file, "--time", "600")
    assert said.exit_code == 0
    choice = json.loads(said.stdout.splitlines()[-1])
    cost = cost_of(read_problem(file), choice)
    assert f"cost     {cost:,}" in said.stdout
    assert "ended    optimal" in said.stdout


def test_json_is_one_object(file: Path) -> None:
    said = run(file, "--time", "600", "--seed", "3", "--threads", "1", "--json")
    answer = json.loads(said.stdout.splitlines()[-1])
    assert answer["feasible"] is True
    assert answer["cost"] == cost_of(read_problem(file), answer["choice"])
    assert answer["lower_bound"] <= answer["cost"]
    assert answer["gap"] == pytest.approx(1 - answer["lower_bound"] / answer["cost"], abs=1e-9)
    assert answer["seconds"] > 0
    assert "[" not in said.stdout.splitlines()[-2]


def test_what_cannot_fit_says_when_and_by_how_much(tmp_path: Path) -> None:
    path = tmp_path / "tight.json"
    graph = StrategyGraph(
        node_costs=(np.array([1, 2]), np.array([1, 2])),
        usages=(np.array([60, 50]), np.array([70, 80])),
        intervals=((0, 5), (3, 9)),
        usage_limit=100,
    )
    to_contest_json(graph, path)
    said = run(path)
    assert said.exit_code == 3
    assert "ended    infeasible" in said.stdout
    assert "short    20 bytes at time 3" in said.stdout


def test_what_is_forbidden_says_so(tmp_path: Path) -> None:
    path = tmp_path / "forbidden.json"
    graph = StrategyGraph(
        node_costs=(np.array([1.0]), np.array([1.0])),
        usages=(np.array([0]), np.array([0])),
        intervals=((0, 1), (0, 1)),
        edges=((0, 1),),
        edge_costs=(np.array([[FORBIDDEN]]),),
        usage_limit=1,
    )
    to_contest_json(graph, path)
    said = run(path, "--json")
    assert said.exit_code == 3
    assert "every choice is forbidden by some cost" in said.stdout
    answer = json.loads(said.stdout.splitlines()[-1])
    assert (answer["feasible"], answer["cost"], answer["choice"]) == (False, None, None)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--time", "0"), "0.0 is too small"),
        (("--threads", "0"), "0 is too small"),
        (("--gap", "-1"), "-1.0 is too small"),
        (("--time", "soon"), "'soon' is not a valid float"),
    ],
)
def test_bad_options_are_refused(file: Path, words: tuple[str, ...], text: str) -> None:
    said = run(file, *words)
    assert said.exit_code == 2
    assert text in said.stderr


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    said = run(tmp_path / "none.json")
    assert said.exit_code == 2
    assert "there is no file none.json" in said.stderr


def test_the_time_counts_from_the_start_of_the_program(file: Path) -> None:
    words = [sys.executable, "-m", "shardwright", "solve", str(file), "--time", "300", "--json"]
    began = time.monotonic()
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    wall_s = time.monotonic() - began
    answer = json.loads(said.stdout.splitlines()[-1])
    tick_s = 0.02
    assert 0 < answer["seconds"] <= wall_s + tick_s
    assert said.stderr == ""


def test_what_the_program_spent_is_taken_from_the_time(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def watched(graph: StrategyGraph, *, time_limit_s: float, **rest: Any) -> Solution:
        given.append(time_limit_s)
        return solve(graph, time_limit_s=time_limit_s, **rest)

    monkeypatch.setattr("shardwright.cli.solve.solve", watched)
    monkeypatch.setattr("shardwright.cli.solve._spent_s", lambda: 3.0)
    assert run(file, "--time", "600").exit_code == 0
    assert run(file, "--time", "2").exit_code in (0, 3)
    assert 590 < given[0] < 597
    assert 0 < given[1] < 0.1


def test_ctrl_c_prints_the_best_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hard.json"
    to_contest_json(hard_case(nodes=300, strategies=8), path)
    told: list[Progress] = []

    def stop(_: object, progress: Progress) -> None:
        if progress.cost is not None and not told:
            told.append(progress)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("shardwright.cli.solve._show", stop)
    said = run(path, "--time", "300", "--gap", "0")
    assert told
    assert said.exit_code == 0
    assert "ended    feasible (interrupted)" in said.stdout
    choice = json.loads(said.stdout.splitlines()[-1])
    cost = cost_of(read_problem(path), choice)
    assert f"cost     {cost:,}" in said.stdout
    assert told[0].cost is not None
    assert cost <= told[0].cost * (1 + 1e-9)


def test_a_terminal_is_shown_the_best_and_the_bound(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr("shardwright.cli.solve.Console", lambda **_: terminal)
    said = run(file, "--time", "600", "--json")
    cost = json.loads(said.stdout.splitlines()[-1])["cost"]
    assert f"best {cost:,}" in screen.getvalue()
    assert "bound " in screen.getvalue()


def test_a_malformed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"problem": {}}')
    said = run(path, "--json")
    assert said.exit_code == 2
    assert 'the field "nodes" is missing' in said.stderr
    assert json.loads(said.stdout.splitlines()[-1])["exit_code"] == 2
