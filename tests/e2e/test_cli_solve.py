"""``shardwright solve``: what it prints, and what it leaves with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bench.contest_judge import cost_of, read_problem
from bench.solver_cases import hard_case
from shardwright.cli import main
from shardwright.solver import FORBIDDEN, StrategyGraph, to_contest_json


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["solve", *(str(word) for word in words)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "case.json.gz"
    to_contest_json(hard_case(nodes=60, strategies=4), path)
    return path


def test_the_last_line_is_the_choice(file: Path) -> None:
    said = run(file, "--time", "20")
    assert said.exit_code == 0
    choice = json.loads(said.stdout.splitlines()[-1])
    cost = cost_of(read_problem(file), choice)
    assert f"cost     {cost:,}" in said.stdout
    assert "ended    optimal" in said.stdout


def test_json_is_one_object(file: Path) -> None:
    said = run(file, "--time", "20", "--seed", "3", "--threads", "1", "--json")
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
