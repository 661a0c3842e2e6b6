"""Every word of the errors about running a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardwright.capture import Captured, capture
from shardwright.cluster import Mesh
from shardwright.errors import ExecuteError
from shardwright.execute import CheckResult, LeafDifference, Program, create, read_back
from shardwright.execute.groups import parse_groups
from shardwright.execute.inject import inject
from shardwright.execute.place import place
from tests.unit.execute.hand import S, build, hand_plan

MESH = Mesh.of(dp=8)
STATE = {"w": np.ones((8, 2), np.float32)}
X = np.ones((8, 2), np.float32)
LIKE = "arguments like those that were captured, or a new plan"


def step(state: Any, x: Any) -> Any:
    return {"w": state["w"] - x}, (x * 2).sum()


@pytest.fixture(scope="module")
def captured() -> Captured:
    return capture(step, STATE, X)


@pytest.fixture(scope="module")
def program(captured: Captured) -> Program:
    return build(captured, hand_plan(captured.graph, MESH, resting={(8, 2): S("dp", None)}))


def said(call: Callable[[], object]) -> str:
    with pytest.raises(ExecuteError) as caught:
        call()
    assert caught.value.exit_code == 1
    return str(caught.value)


def test_too_few_devices(captured: Captured) -> None:
    plan = hand_plan(captured.graph, MESH)
    assert said(lambda: build(captured, plan, devices=jax.devices()[:3])) == (
        "the plan needs 8 devices; there are 3\n"
        "  where  mesh dp=8 of the plan for by hand\n"
        "  try    plan for 3 devices, or run where there are 8;"
        ' jax.config.update("jax_num_cpu_devices", n) gives virtual ones on CPU'
    )


def test_a_pipeline(captured: Captured) -> None:
    plan = hand_plan(captured.graph, MESH)
    assert said(lambda: build(captured, replace(plan, stages=plan.stages * 2))) == (
        "the plan has 2 pipeline stages; this engine runs 1\n  try    a plan without a pipeline"
    )


def test_microbatches(captured: Captured) -> None:
    plan = replace(hand_plan(captured.graph, MESH), num_microbatches=4)
    assert said(lambda: build(captured, plan)) == (
        "the plan has 4 microbatches; this engine runs 1\n  try    a plan without microbatches"
    )


def test_another_structure(program: Program) -> None:
    assert said(lambda: program(STATE)) == (
        "the arguments have another structure than the plan was made for: 1 arrays in"
        " (({'w': *},), {}), against 2 in (({'w': *}, *), {})\n"
        f"  try    {LIKE}"
    )


@pytest.mark.parametrize(
    ("x", "given"),
    [(np.ones((8, 3), np.float32), "float32[8, 3]"), (np.ones((8, 2), np.int32), "int32[8, 2]")],
)
def test_another_argument(program: Program, x: Any, given: str) -> None:
    expected = f"x is {given}; the plan was made for float32[8, 2]\n  try    {LIKE}"
    assert said(lambda: program(STATE, x)) == expected
    state, _ = program(STATE, X)
    assert said(lambda: program(state, x)) == expected


def test_a_state_used_again(program: Program) -> None:
    state, x = program.place(STATE, X)
    program(state, x)
    assert said(lambda: program(state, x)) == (
        "state.w is gone: an earlier step took its memory over\n"
        "  try    the state that the last step returned; a step takes its state's memory over"
    )


def test_a_graph_of_another_capture(captured: Captured) -> None:
    other = capture(lambda s, x: step(s, jnp.sin(x)), STATE, X)
    plan = hand_plan(other.graph, MESH)
    assert said(lambda: inject(captured.jaxpr, other.graph, place(plan))) == (
        f"the jaxpr and the graph differ: {len(captured.graph.ops)} equations against"
        f" {len(other.graph.ops)} operators in <lambda>\n"
        "  try    the jaxpr and the graph of one capture"
    ).replace("<lambda>", other.graph.name)
    swapped = replace(captured.graph, ops=tuple(reversed(captured.graph.ops)))
    first, last = captured.graph.ops[0], swapped.ops[0]
    assert said(lambda: inject(captured.jaxpr, swapped, place(plan))) == (
        f"the jaxpr and the graph differ: equation {first.kind} with 1 results against operator"
        f" {last.kind} %{last.id} with 1\n"
        f"  where  {last.source}\n"
        "  try    the jaxpr and the graph of one capture"
    )


def test_an_operator_with_a_body_that_is_not_known() -> None:
    captured = capture(lambda x: jax.lax.scan(lambda h, w: (h + w, None), x[0], x)[0], X)
    (scan,) = (op for op in captured.graph.ops if op.kind == "scan")
    closed = captured.jaxpr
    (equation,) = (e for e in closed.jaxpr.eqns if e.primitive.name == "scan")
    renamed = replace(scan, kind="loop")
    graph = replace(
        captured.graph,
        ops=tuple(renamed if op is scan else op for op in captured.graph.ops),
    )
    primitive = jax.extend.core.Primitive("loop")
    primitive.multiple_results = True
    equations = [e.replace(primitive=primitive) if e is equation else e for e in closed.jaxpr.eqns]
    jaxpr = jax.extend.core.ClosedJaxpr(closed.jaxpr.replace(eqns=equations), closed.consts)
    plan = hand_plan(graph, MESH)
    assert said(lambda: inject(jaxpr, graph, place(plan))) == (
        f"operator loop %{scan.id} has 1 regions; this engine knows those of checkpoint, cond,"
        " remat2, scan, while\n"
        f"  where  {scan.source}\n"
        "  try    report it with the step that shows it"
    )


def test_groups_in_an_unknown_form() -> None:
    assert said(lambda: parse_groups("channel_id=1, replica_groups=<<0,1>>, x=1", 2)) == (
        "the compiled program writes device groups in a form that is not known:"
        " replica_groups=<<0,1>>, x=1\n"
        "  try    a release of jax that this release was tested with"
    )


def test_groups_by_an_unknown_axis() -> None:
    assert said(lambda: parse_groups("replica_groups=mesh['a'=2] {'b'}", 2)) == (
        "the compiled program groups devices by \"'b'\", which is no axis"
    )


def test_a_backend_without_text() -> None:
    class Silent:
        def as_text(self) -> None:
            return None

    assert said(lambda: read_back(Silent())) == (
        "the compiled program has no text to read back\n  try    a backend of XLA (CPU, GPU, TPU)"
    )


def test_a_number_that_differs() -> None:
    leaf = LeafDifference(
        name="params.layers.3.w",
        step=2,
        difference=0.032,
        tolerance=1e-4,
        index=(3, 5),
        planned=0.1234567,
        reference=0.13,
    )
    result = CheckResult(steps=2, scalars=(), leaves=(leaf,), update_norms=())
    assert said(result.require) == (
        "params.layers.3.w differs from one device's by 0.032 of its largest value; 0.0001 is"
        " allowed\n"
        "  where  after step 2, at [3, 5]: 0.123457 against 0.13\n"
        "  try    a larger tolerance if the step amplifies rounding, or report the plan"
    )


def test_a_state_made_otherwise(program: Program) -> None:
    (wanted, _), key = program.input_shardings, jax.random.key(0)
    same = "the function that made the captured state, or a new plan"
    assert said(lambda: create(lambda _: {"w": 1.0, "b": 2.0}, key, shardings=wanted)) == (
        "the state has another structure than the plan was made for: 2 arrays against 1\n"
        f"  try    {same}"
    )
    text = said(lambda: create(lambda _: {"w": jnp.ones((6, 2))}, key, shardings=wanted))
    first, *rest = text.splitlines()
    assert first.startswith("w of shape [6, 2] cannot be cut as P('dp'")
    assert rest[-1] == f"  try    {same}"
