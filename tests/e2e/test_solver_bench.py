"""The solver's bench on a made-up instance: a process of its own, judged, and kept when better."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.contest_judge import cost_of, read_problem
from bench.solver import PREFIX, keep, run
from bench.solver_cases import hard_case
from shardwright.solver import solve, to_contest_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    to_contest_json(hard_case(nodes=40, strategies=4), tmp_path / f"{PREFIX}X.json.gz")
    return tmp_path


def test_a_cost_below_the_best_known_is_kept_with_what_checks_it(folder: Path) -> None:
    best = int(solve(hard_case(nodes=40, strategies=4), gap=0.0).cost)
    row = run(folder, "X", 300.0, 1, 0, {"X": {"best_known": best + 100}})
    assert row["judged"] == "sound"
    assert row["is_bound_valid"]
    assert row["ratio"] < 1
    assert row["cost"] == cost_of(read_problem(folder / f"{PREFIX}X.json.gz"), row["choice"])
    assert row["rss_gib"] > 0
    keep(folder / "results", row)
    kept = json.loads((folder / "results" / "iopddl-X.json").read_text())
    text = str(row["choice"])
    assert kept["cost"] == row["cost"]
    assert kept["choice_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_only_a_better_cost_is_kept(tmp_path: Path) -> None:
    row = {"instance": "X", "cost": 9, "best_known": 10, "bound": 8, "choice": [0, 1]}
    row |= {"limit_s": 10.0, "threads": 2, "seed": 0}
    path = tmp_path / "iopddl-X.json"
    for cost, want in ((10, None), (None, None), (9, 9), (7, 7), (8, 7)):
        keep(tmp_path, {**row, "cost": cost})
        assert (json.loads(path.read_text())["cost"] if path.exists() else None) == want


def test_a_folder_without_instances_says_where_they_are(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench.solver", "--folder", str(tmp_path)]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert "published at github.com/google/iopddl" in said.stderr
