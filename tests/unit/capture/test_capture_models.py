"""Every reference model and every animal of the zoo is captured as its author meant it."""

from __future__ import annotations

import pytest

from shardwright.capture import capture
from shardwright.ir import parse_graph, print_graph
from shardwright.models import registry
from shardwright.models.case import StepCase
from tests.zoo.cases import ZOO
from tests.zoo.cases import build as build_zoo

FAMILIES = ("gpt", "llama", "lstm", "mlp", "moe-gshard", "moe-ragged", "resnet")
SCANNED = {"scan": True, "remat": True, "dropout": 0.1}
CASES = [
    *[pytest.param(lambda n=n: registry.build(n, optimizer="adam"), id=n) for n in FAMILIES],
    pytest.param(lambda: registry.build("gpt", optimizer="adafactor", **SCANNED), id="gpt-scan"),
    *[pytest.param(lambda n=n: build_zoo(n), id=n) for n in ZOO],
]


@pytest.mark.parametrize("build", CASES)
def test_roles_are_what_the_case_calls_its_arguments(build: object) -> None:
    assert callable(build)
    case: StepCase = build()
    graph = capture(case.step, case.abstract_state(), case.abstract_batch()).graph
    for row in graph.inputs:
        tensor = graph.tensor(row)
        part = ".".join(tensor.name.split(".")[:2])
        expected = {
            "state.params": "parameter",
            "state.opt_state": "optimizer_state",
            "state.stats": "optimizer_state",
            "constant.0": "constant",
        }.get(part, "input" if tensor.name == "batch.key" else "batch")
        assert tensor.role == expected, tensor
    assert len(graph.state_pairs) == sum(
        graph.tensor(row).name.startswith("state.") for row in graph.inputs
    )
    assert parse_graph(print_graph(graph)) == graph
