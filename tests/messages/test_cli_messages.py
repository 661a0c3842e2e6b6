"""What the command line says about bad input, to the letter, and what it leaves behind: nothing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import jax
import pytest
from click.testing import CliRunner

from shardwright.cli import main
from shardwright.ir import print_graph
from tests.e2e.graphs import TINY, tiny_graph

STEPS = """
import jax
import jax.numpy as jnp

X = jax.ShapeDtypeStruct((8, 4), jnp.float32)
NUMBER = 3

def not_a_step():
    return 3, (X,)

def not_a_pair():
    return lambda x: x

def no_tuple():
    return (lambda x: x), [X]

def fails():
    return {}["w"]  # here

def by_data():
    return (lambda x: x[x > 0].sum()), (X,)
"""

PLAN = ("plan", "--graph", "graph.txt", "--cluster", "8xH100")
MESH = (*PLAN, "--mesh", "dp=2,tp=4")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in: a graph, another graph, the first one's plan, the user's steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "user_steps", raising=False)
    Path("graph.txt").write_text(print_graph(tiny_graph()))
    Path("other.txt").write_text(
        TINY.replace("f32[16,64]", "f32[8,64]").replace("[16,32]", "[8,32]")
    )
    Path("user_steps.py").write_text(STEPS)
    code, _, error = said(*PLAN, "--mesh", "x=8", "--out", "plan.json")
    assert code == 0, error
    Path("half.json").write_text(Path("plan.json").read_text()[:200])
    Path("folder").mkdir()
    return tmp_path


def said(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command."""
    result = CliRunner().invoke(main, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


ROWS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no such command": (
        ("pan",),
        2,
        'there is no command "pan"\n  try    did you mean "plan" or "explain"?',
    ),
    "no step": (
        ("plan", "--cluster", "8xH100"),
        2,
        "0 steps are named; exactly 1 is needed\n"
        "  try    --model NAME, --step package.module:factory or --graph FILE",
    ),
    "two steps": (
        (*PLAN, "--model", "gpt"),
        2,
        "2 steps are named; exactly 1 is needed\n"
        "  try    --model NAME, --step package.module:factory or --graph FILE",
    ),
    "a setting without a model": (
        (*PLAN, "--set", "layers=4"),
        2,
        "--set changes a --model, and none is named",
    ),
    "a setting that is none": (
        ("plan", "--model", "gpt", "--set", "layers", "--cluster", "8xH100"),
        2,
        '"layers" is not a setting\n  try    --set layers=4',
    ),
    "an unknown field": (
        ("plan", "--model", "gpt", "--set", "layer=4", "--cluster", "8xH100"),
        2,
        'model "gpt" has no field "layer"\n  try    did you mean "layers"?',
    ),
    "a graph without machines": (
        ("plan", "--graph", "graph.txt"),
        2,
        "--graph needs --cluster\n  try    --cluster 8xH100",
    ),
    "no such graph": (
        ("plan", "--graph", "no.txt", "--cluster", "8xH100"),
        2,
        "the graph cannot be read: No such file or directory\n  where  no.txt\n"
        "  try    `shardwright plan --save-graph FILE` writes one",
    ),
    "no factory's name": (
        ("plan", "--step", "user_steps", "--cluster", "8xH100"),
        2,
        '"user_steps" does not name a factory\n  try    --step package.module:factory',
    ),
    "no such module": (
        ("plan", "--step", "no_steps:factory", "--cluster", "8xH100"),
        2,
        "module no_steps cannot be imported: ModuleNotFoundError: No module named 'no_steps'\n"
        "  try    run where the module can be found, or set PYTHONPATH",
    ),
    "no such factory": (
        ("plan", "--step", "user_steps:factory", "--cluster", "8xH100"),
        2,
        "user_steps:factory is nothing, not a function\n  try    a function without arguments that "
        "gives the step and a tuple of its arguments",
    ),
    "a factory that is a number": (
        ("plan", "--step", "user_steps:NUMBER", "--cluster", "8xH100"),
        2,
        "user_steps:NUMBER is a int, not a function\n  try    a function without arguments that "
        "gives the step and a tuple of its arguments",
    ),
    "a factory that gives a step alone": (
        ("plan", "--step", "user_steps:not_a_pair", "--cluster", "8xH100"),
        2,
        "user_steps:not_a_pair gave a function; it must give the step and a tuple of its arguments"
        "\n  try    def factory(): return step, (state, batch)",
    ),
    "a factory that gives a list": (
        ("plan", "--step", "user_steps:no_tuple", "--cluster", "8xH100"),
        2,
        "user_steps:no_tuple gave a tuple of 2; it must give the step and a tuple of its arguments"
        "\n  try    def factory(): return step, (state, batch)",
    ),
    "a factory that fails": (
        ("plan", "--step", "user_steps:fails", "--cluster", "8xH100"),
        2,
        "user_steps:fails failed: KeyError: 'w'\n  where  user_steps.py:18",
    ),
    "a step that is no function": (
        ("plan", "--step", "user_steps:not_a_step", "--cluster", "8xH100"),
        2,
        "the step is a int, not a function\n  try    the function itself first, then its arguments",
    ),
    "an unknown method": (
        (*PLAN, "--method", "zero3"),
        2,
        '"zero3" is not a method or recipe\n'
        '  try    did you mean "zero-3" or "zero-2" or "zero-1"?',
    ),
    "unknown machines": (
        ("plan", "--graph", "graph.txt", "--cluster", "8xH10"),
        2,
        'no device or instance is called "H10"\n'
        '  try    did you mean "H100" or "V100" or "A100"? '
        "(or state its figures in a YAML file)",
    ),
    "a mesh that is none": (
        (*PLAN, "--mesh", "dp=2,tp"),
        2,
        '"tp" in mesh "dp=2,tp" is not a new axis and its size\n'
        "  try    name=size pairs with commas between, as in dp=2,tp=4",
    ),
    "an axis twice": (
        (*PLAN, "--mesh", "dp=2,dp=4"),
        2,
        '"dp=4" in mesh "dp=2,dp=4" is not a new axis and its size\n'
        "  try    name=size pairs with commas between, as in dp=2,tp=4",
    ),
    "a mesh larger than the devices": (
        (*PLAN, "--mesh", "dp=16"),
        2,
        "the mesh dp=16 needs 16 devices; 8xH100 has 8\n  try    a mesh of at most 8 devices",
    ),
    "a memory that is none": (
        (*PLAN, "--memory", "lots"),
        2,
        "--memory: 'lots' is not a byte size such as '80GiB' or '512 MB'\n  try    --memory 80GiB",
    ),
    "a gap below zero": (
        (*PLAN, "--gap", "-1"),
        2,
        "--gap -1 is below 0\n  try    --gap of 0 or more",
    ),
    "a constraint that is none": (
        (*MESH, "--constraint", "params.w"),
        2,
        '"params.w" is not a constraint\n  try    NAME=DIMS with one entry per dim: an axis, a+b '
        "for two axes, - for a whole dim; as in 'params.w=dp,-'",
    ),
    "a constraint without a mesh": (
        (*PLAN, "--constraint", "params.w=dp,-"),
        2,
        "1 constraints name mesh axes, but no mesh is given\n"
        "  try    --mesh dp=2,tp=4 with the axes that the constraints name",
    ),
    "a constraint with an unknown axis": (
        (*MESH, "--constraint", "params.w=dq,-"),
        4,
        'constraint "params.w": [dq, -] names axis "dq", which the mesh dp=2,tp=4 does not have\n'
        '  try    did you mean "dp"?',
    ),
    "a constraint with an unknown tensor": (
        (*MESH, "--constraint", "param.w=dp,-"),
        4,
        'constraint "param.w": [dp, -] names no input of the step\n'
        '  try    did you mean "params.w"?',
    ),
    "constraints that clash": (
        (*MESH, "--constraint", "params.w=dp,-", "--constraint", "params.*=-,tp"),
        4,
        'constraint "params.*": [-, tp] clashes with constraint "params.w": [dp, -]: nothing '
        "satisfies both\n  where  params.w float32[64, 32]\n"
        "  try    drop one of the two, or fix them to one sharding (tied state shares one)",
    ),
    "a plan file that is missing": (
        ("check", "no.json", "--graph", "graph.txt"),
        2,
        "the plan cannot be read: No such file or directory\n  where  no.json\n"
        "  try    `shardwright plan --out FILE` writes one",
    ),
    "a file in a folder that is none": (
        (*PLAN, "--mesh", "x=8", "--save-graph", "no/graph.txt"),
        2,
        "the file cannot be written: No such file or directory\n  where  no/graph.txt\n"
        "  try    a folder that exists and may be written",
    ),
    "run without a model": (
        ("run",),
        2,
        "no model is named\n  try    --model gpt --steps 10",
    ),
    "run of no steps": (
        ("run", "--model", "mlp", "--steps", "0"),
        2,
        "0 steps asked for; at least 1\n  try    --model gpt --steps 10",
    ),
    "run on no devices": (
        ("run", "--model", "mlp", "--devices", "0"),
        2,
        "0 devices asked for; at least 1",
    ),
}


@pytest.mark.parametrize(("words", "code", "text"), ROWS.values(), ids=ROWS)
def test_bad_input_is_told(words: tuple[str, ...], code: int, text: str) -> None:
    before = sorted(Path.cwd().rglob("*.*"))
    found, stdout, stderr = said(*words, "--json")
    assert stderr == f"error: {text}\n"
    assert json.loads(stdout.splitlines()[-1]) == {"error": text, "exit_code": code}
    assert found == code
    after = [path for path in sorted(Path.cwd().rglob("*.*")) if "__pycache__" not in path.parts]
    assert after == before


def test_more_devices_than_there_are() -> None:
    there = len(jax.devices())  # From here on, no more can be made.
    code, _, stderr = said("run", "--model", "mlp", "--devices", "4096")
    assert code == 2
    assert stderr == (
        f"error: 4096 cpu devices asked for; there are {there}\n  try    --devices {there}\n"
    )


def test_a_field_of_another_type() -> None:
    code, _, stderr = said("plan", "--model", "gpt", "--set", "layers=many", "--cluster", "8xH100")
    assert code == 2
    assert stderr.startswith('error: model "gpt" cannot be built with layers=many: ')
    assert stderr.endswith("  try    values of the same type as the field's own\n")


def test_shapes_that_depend_on_data() -> None:
    code, _, stderr = said("plan", "--step", "user_steps:by_data", "--cluster", "8xH100")
    assert code == 2
    assert "depend" in stderr
    assert "user_steps.py:21" in stderr
    assert "Traceback" not in stderr


def test_a_model_that_cannot_fit() -> None:
    code, stdout, stderr = said(*PLAN, "--mesh", "x=8", "--memory", "1KiB", "--json")
    assert code == 3
    assert stderr == ""
    lines = stdout.splitlines()
    assert lines[0] == "no plan for 8xH100 (8 devices): does not fit"
    assert re.fullmatch(
        r"  short  \S+ \w+ per device: the leanest choice found needs \S+ KiB, 1 KiB are allowed",
        lines[1],
    )
    found = json.loads(lines[-1])
    assert found["exit_code"] == 3
    assert found["remedies"]
    assert f"  try    {' or '.join(found['remedies'])}" in lines


def test_a_plan_of_another_graph() -> None:
    code, _, stderr = said("check", "plan.json", "--graph", "other.txt")
    assert code == 2
    assert stderr.startswith("error: the plan is stale: it was made for graph ")
    assert "plan again for this step" in stderr


def test_a_plan_of_another_cluster() -> None:
    code, _, stderr = said("explain", "plan.json", "--graph", "graph.txt", "--cluster", "8xA100")
    assert code == 2
    assert stderr.startswith("error: the plan is stale: it was made for cluster ")


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_damaged_plan(command: str) -> None:
    code, _, stderr = said(command, "half.json", "--graph", "graph.txt")
    assert code == 2
    assert stderr.startswith("error: the plan is damaged")
    assert "half.json" in stderr


def test_a_damaged_plan_in_a_diff() -> None:
    assert said("diff", "plan.json", "half.json")[0] == 2


def test_an_unknown_option_is_told_as_json_too() -> None:
    code, stdout, stderr = said(*PLAN, "--mash", "x=8", "--json")
    assert code == 2
    assert "No such option" in stderr
    assert json.loads(stdout)["exit_code"] == 2


def test_a_plan_that_cannot_be_written_leaves_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    code, _, stderr = said(*PLAN, "--mesh", "x=8", "--out", "folder")
    assert code == 2
    assert stderr.startswith("error: the plan cannot be written: ")
    assert sorted(folder.rglob("*")) == before


def test_errors_without_json_print_nothing_on_stdout() -> None:
    assert said("plan", "--graph", "graph.txt")[1] == ""
