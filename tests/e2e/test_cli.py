"""The command line from end to end: what it prints, writes and exits with."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from shardwright.api import Options
from shardwright.cli import asked as asked_module
from shardwright.cli import main
from shardwright.cli.answer import json_line, table
from shardwright.cli.demo import Demo
from shardwright.cli.group import COMMANDS
from shardwright.cli.plan import exit_code
from shardwright.cli.training import Trained
from shardwright.execute.check import CheckResult, LeafDifference
from shardwright.ir import parse_graph, print_graph
from shardwright.plan import load
from shardwright.search.result import Outcome, SearchResult
from tests.e2e.graphs import tiny_graph

CLUSTER = ("--cluster", "8xH100")
GPT = ("--model", "gpt", "--set", "layers=1", "--set", "d_model=32", "--set", "scan=true")
FACTORY = """
import jax
def step(w, x):
    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)
def factory():
    f32 = jax.numpy.float32
    return step, (jax.ShapeDtypeStruct((64, 32), f32), jax.ShapeDtypeStruct((16, 64), f32))
"""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What one command said and left with."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return found


def run(*words: str | Path) -> Said:
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr)


@dataclass(frozen=True, kw_only=True)
class Files:
    """A tiny GPT's graph, and two plans for it."""

    graph: Path
    plan: Path
    other: Path
    said: Said


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("plans")
    graph, plan, other = (folder / name for name in ("graph.txt", "plan.json", "other.json"))
    said = run(
        "plan", *GPT, *CLUSTER, "--mesh", "x=8", "--save", plan, "--save-graph", graph, "--json"
    )
    assert said.exit_code == 0, said.stderr
    run(
        *("plan", "--graph", graph, *CLUSTER, "--mesh", "dp=2,tp=4", "--method", "megatron"),
        *("--out", other),
    )
    return Files(graph=graph, plan=plan, other=other, said=said)


# -- plan --


def test_plan_prints_a_plan_and_one_object(files: Files) -> None:
    assert isinstance(files.said.document, dict)
    assert files.said.document["exit_code"] == 0
    assert len(files.said.stdout.splitlines()) > 1
    assert files.said.stderr == ""


def test_plan_writes_whole_files_that_read_back(files: Files) -> None:
    graph = parse_graph(files.graph.read_text())
    assert load(files.plan).graph_fingerprint == graph.fingerprint
    assert load(files.other).provenance.method == "megatron"
    assert sorted(files.plan.parent.iterdir()) == sorted([files.graph, files.plan, files.other])


def test_plan_takes_a_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "steps_of_a_user.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    said = run("plan", "--step", "steps_of_a_user:factory", *CLUSTER, "--mesh", "x=8")
    assert said.exit_code == 0, said.stderr


def test_a_constraint_is_kept(tmp_path: Path) -> None:
    graph, plan = tmp_path / "graph.txt", tmp_path / "plan.json"
    graph.write_text(print_graph(tiny_graph()))
    said = run(
        *("plan", "--graph", graph, *CLUSTER, "--mesh", "a=2,b=2,c=2", "--out", plan),
        *("--constraint", "params.w=-,a+b"),
    )
    assert said.exit_code == 0, said.stderr
    assert load(plan).stages[0].sharding_of[0].dims == ((), ("a", "b"))


def test_no_plan_writes_no_file(tmp_path: Path) -> None:
    graph, plan = tmp_path / "graph.txt", tmp_path / "plan.json"
    graph.write_text(print_graph(tiny_graph()))
    said = run(
        *("plan", "--graph", graph, *CLUSTER, "--mesh", "x=8", "--memory", "1KiB"),
        *("--save", plan, "--json"),
    )
    assert said.exit_code == said.document["exit_code"] == 3
    assert list(tmp_path.iterdir()) == [graph]


def test_a_recipe_that_makes_no_sense_is_no_plan(files: Files) -> None:
    said = run(
        "plan", "--graph", files.graph, *CLUSTER, "--mesh", "x=8", "--method", "expert-parallel"
    )
    assert said.exit_code == 3
    assert "no experts" in said.stdout


def _result(outcome: Outcome, *, has_plan: bool) -> SearchResult:
    return SearchResult(
        plan=SimpleNamespace() if has_plan else None,  # type: ignore[arg-type]
        outcome=outcome,
        objective_s=1.0,
        lower_bound_s=0.5,
        gap=0.5,
        candidates=(),
    )


@pytest.mark.parametrize(
    ("outcome", "has_plan", "code"),
    [
        (Outcome.OPTIMAL, True, 0),
        (Outcome.FEASIBLE, True, 5),
        (Outcome.DOES_NOT_FIT, False, 3),
        (Outcome.REFUSED, False, 3),
    ],
)
def test_outcomes_become_exit_codes(outcome: Outcome, *, has_plan: bool, code: int) -> None:
    assert exit_code(_result(outcome, has_plan=has_plan)) == code


def test_defaults_are_those_of_the_library() -> None:
    options = Options()
    assert options.gap == asked_module.GAP
    assert options.time_limit_s == asked_module.MESH_TIME_S
    assert options.total_time_s == asked_module.TOTAL_TIME_S


# -- explain, check, diff --


def test_explain_finds_the_machines_in_the_plan(files: Files) -> None:
    said = run("explain", files.plan, "--graph", files.graph, "--json")
    assert said.exit_code == 0, said.stderr
    assert said.document["exit_code"] == 0
    assert "x=8" in said.stdout


def test_check_accepts_the_plan_of_its_graph(files: Files) -> None:
    said = run("check", files.plan, "--graph", files.graph, *CLUSTER, "--json")
    assert said.exit_code == 0, said.stderr
    assert said.document["valid"] is True
    assert said.document["mesh"] == {"x": 8}


def test_check_takes_the_model_itself(files: Files) -> None:
    assert run("check", files.plan, *GPT).exit_code == 0


def test_diff_of_a_plan_with_itself_is_empty(files: Files) -> None:
    said = run("diff", files.plan, files.plan, "--json")
    assert said.document == {"equal": True, "lines": [], "exit_code": 0}
    assert said.stdout.splitlines()[0] == "the plans decide alike"


def test_diff_speaks_of_names_where_the_graph_is_known(files: Files) -> None:
    said = run("diff", files.plan, files.other, "--graph", files.graph, "--json")
    assert said.document["equal"] is False
    assert "mesh: x=8 -> dp=2,tp=4" in said.document["lines"]
    assert any("params.blocks" in line for line in said.document["lines"])


# -- hardware --


def test_hardware_lists_the_catalogue() -> None:
    said = run("hardware", "--json")
    assert said.exit_code == 0
    for word in ("H100-SXM5-80GB", "p5.48xlarge", "v5p-128 (4x4x4)"):
        assert word in said.stdout
    assert {"devices", "hosts", "slices"} <= said.document.keys()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("H100", ("budget", "NVLink4", "source", "3.35 TB/s")),
        ("4x p5.48xlarge", ("32 x H100-SXM5-80GB", "8 on NVLink4", "4 on EFA v2")),
        ("v5e-16", ("a torus",)),
        ("8xMI300X", ("between two",)),
        ("cpu:8", ("nominal",)),
    ],
)
def test_hardware_shows_one(name: str, words: tuple[str, ...]) -> None:
    said = run("hardware", name, "--json")
    assert said.exit_code == 0, said.stderr
    for word in words:
        assert word in said.stdout
    assert said.document["budget_bytes"] > 0


# -- help, tables, JSON --


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_its_exit_codes_and_json(name: str) -> None:
    said = run(name, "--help")
    assert said.exit_code == 0
    assert "Exit codes:" in said.stdout
    assert "--json" in said.stdout


def test_help_lists_every_command() -> None:
    said = run("--help")
    assert all(f"  {name} " in said.stdout for name in COMMANDS)


def test_numbers_that_json_lacks_become_null() -> None:
    assert json.loads(json_line({"a": [math.inf, {"b": math.nan}], "c": 1.5})) == {
        "a": [None, {"b": None}],
        "c": 1.5,
    }


def test_tables_align() -> None:
    assert table(("a", "bb"), [("x", "1"), ("yyy", "22")]).splitlines() == [
        "a    bb",
        "---  --",
        "x     1",
        "yyy  22",
    ]


# -- the demo's verdict --

GRADIENT = "state.opt_state.0.trace.blocks.up"


def _leaf(name: str, difference: float = 1e-7, tolerance: float = 1e-4) -> LeafDifference:
    return LeafDifference(
        name=name,
        step=1,
        difference=difference,
        tolerance=tolerance,
        index=(0,),
        planned=0.0,
        reference=0.0,
    )


def _checked(*leaves: LeafDifference) -> CheckResult:
    return CheckResult(steps=1, scalars=(), leaves=leaves, update_norms=())


def _trained(loss: float) -> Trained:
    return Trained(metrics=({"loss": loss},), step_times_s=(1.0,))


def _demo() -> Demo:
    sharding = SimpleNamespace(axes=("x",))
    stage = SimpleNamespace(
        mesh=SimpleNamespace(num_devices=8), ops=[SimpleNamespace(operands=(None, sharding))]
    )
    planned: Any = SimpleNamespace(plan=SimpleNamespace(stages=[stage]))
    figures: Any = SimpleNamespace()
    return Demo(
        planned=planned,
        figures=figures,
        parallel=_trained(3.0),
        single=_trained(3.0),
        checked=_checked(_leaf(GRADIENT), _leaf("state.params.blocks.up")),
        recipes={},
    )


def test_the_demo_is_verified_when_all_is_compared_and_equal() -> None:
    noise = _leaf("state.params.blocks.attention.bk", 1.0, 10.0)
    assert _demo().is_verified
    assert replace(_demo(), checked=_checked(_leaf(GRADIENT), noise)).is_verified


WHOLE: Any = SimpleNamespace(
    plan=SimpleNamespace(
        stages=[
            SimpleNamespace(
                mesh=SimpleNamespace(num_devices=8),
                ops=[SimpleNamespace(operands=(None, SimpleNamespace(axes=())))],
            )
        ]
    )
)


@pytest.mark.parametrize(
    "change",
    [
        {"parallel": _trained(3.0001)},
        {"parallel": _trained(math.nan)},
        {"parallel": _trained(math.nan), "single": _trained(math.nan)},
        {"checked": _checked(_leaf(GRADIENT, 1e-3))},
        {"checked": _checked(_leaf(GRADIENT), _leaf("state.params.blocks.up", 1e-3))},
        {"checked": _checked(_leaf("state.params.blocks.up"))},
        {"checked": _checked(_leaf(GRADIENT), _leaf("state.params.blocks.up", 1.0, 10.0))},
        {"checked": _checked()},
        {"planned": WHOLE},
    ],
    ids=[
        "a loss differs",
        "a loss is no number",
        "no loss is a number",
        "a gradient differs",
        "a parameter differs",
        "no gradient was compared",
        "a parameter was not compared",
        "nothing was compared",
        "nothing is cut",
    ],
)
def test_the_demo_is_not_verified_when(change: dict[str, Any]) -> None:
    assert not replace(_demo(), **change).is_verified


# -- real programs, each in a process of its own --


def _process(*words: str) -> Said:
    done = subprocess.run(
        [sys.executable, "-m", "shardwright", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "1"},
    )
    return Said(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


@pytest.mark.slow
def test_demo_trains_on_eight_devices_as_on_one() -> None:
    said = _process("demo", "--steps", "12", "--json")
    assert said.exit_code == 0, said.stdout + said.stderr
    found = said.document
    assert found["verified"] is True
    assert math.prod(found["mesh"].values()) == 8
    assert found["losses"] == pytest.approx(found["one_device_losses"], rel=1e-5)
    assert found["losses"][-1] < 0.8 * found["losses"][0]
    assert found["gradients_compared"] >= 19
    assert found["planned_collective_bytes"] > 0
    assert "nominal" in said.stdout
    best = min(row.get("objective_s", math.inf) for row in found["recipes"].values())
    assert found["predicted_step_s"] <= best * (1 + found["gap"])


@pytest.mark.slow
def test_run_measures_beside_what_it_planned() -> None:
    said = _process("run", "--model", "mlp", "--devices", "4", "--steps", "3", "--verify", "--json")
    assert said.exit_code == 0, said.stdout + said.stderr
    found = said.document
    assert found["verified"] is True
    assert len(found["losses"]) == 3
    assert found["measured_step_s"] > 0
    assert found["collectives_as_planned"] is True
