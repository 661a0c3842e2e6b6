"""What loads a framework and what must not; and which names the package offers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import shardwright
from shardwright.ir import print_graph
from tests.e2e.graphs import tiny_graph

FRAMEWORKS = {"jax", "jaxlib", "optax", "flax", "torch"}
WATCH = "\nprint('LOADED', *sorted(name for name in sys.modules if '.' not in name))"
PUBLIC = {"Options", "ParallelStep", "Planned", "parallelize", "plan"}


def frameworks_after(code: str) -> set[str]:
    """The frameworks that a fresh interpreter has loaded after some code."""
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}{WATCH}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    words = run.stdout.splitlines()[-1].split()
    assert words[0] == "LOADED"
    return FRAMEWORKS & set(words)


def command_line(*words: str) -> str:
    """Code that does what ``python -m shardwright`` does with these words."""
    return "\n".join(
        [
            "import runpy",
            f"sys.argv = {['shardwright', *words]!r}",
            "try:",
            "    runpy.run_module('shardwright', run_name='__main__', alter_sys=True)",
            "except SystemExit as left:",
            "    assert left.code == 0, left.code",
        ]
    )


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "graph.txt"
    path.write_text(print_graph(tiny_graph()))
    return path


def test_importing_the_package_loads_no_framework() -> None:
    assert frameworks_after("import shardwright") == set()


def test_help_loads_no_framework() -> None:
    assert frameworks_after(command_line("--help")) == set()


def test_planning_a_saved_graph_loads_no_framework(graph_file: Path) -> None:
    words = ("plan", "--graph", str(graph_file), "--cluster", "8xH100", "--mesh", "x=8", "--json")
    assert frameworks_after(command_line(*words)) == set()


def test_the_check_above_can_fail() -> None:
    assert "jax" in frameworks_after("import shardwright.api")


def test_the_package_offers_these_names() -> None:
    assert set(shardwright.__all__) == PUBLIC
    for name in PUBLIC:
        assert callable(getattr(shardwright, name)), name


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'paralelize'"):
        _ = shardwright.paralelize  # type: ignore[attr-defined]
