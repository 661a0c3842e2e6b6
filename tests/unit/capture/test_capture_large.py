"""A step far larger than this machine is captured in little memory: nothing is materialised."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from shardwright.units import GIB

_SCRIPT = textwrap.dedent(
    """
    import json, pathlib, re, resource, sys
    from shardwright.capture import capture
    from shardwright.ir import verify_graph
    from shardwright.models.registry import build

    def peak_bytes():
        # What a process used most is handed on by the one that started it, but not in /proc.
        status = pathlib.Path("/proc/self/status")
        if not status.exists():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024

    case = build("gpt3-175b", optimizer="adam", scan=sys.argv[1] == "scan")
    graph = capture(case.step, case.abstract_state(), case.abstract_batch()).graph
    verify_graph(graph)
    print(json.dumps({
        "peak_bytes": peak_bytes(),
        "ops": sum(1 for _ in graph.walk()),
        "state_bytes": sum(graph.tensor(row).size_bytes for row, _ in graph.state_pairs),
        "parameters": sum(
            graph.tensor(row).num_elements
            for row in graph.inputs
            if graph.tensor(row).role == "parameter"
        ),
    }))
    """
)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "least_ops"), [("scan", 400), ("unrolled", 30_000)])
def test_gpt3_is_captured_in_two_gib(form: str, least_ops: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, form], capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout)
    assert figures["peak_bytes"] < 2 * GIB
    assert figures["ops"] > least_ops
    assert 174e9 < figures["parameters"] < 176e9
    assert figures["state_bytes"] > 3 * 4 * figures["parameters"] * 0.99
