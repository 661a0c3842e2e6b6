"""What a rule promises is what runs: the same numbers, and nothing moves but what it says.

Every row of the rules' proof is planned with one factor cut and the other axis copied over, run
through the executor, and its collectives are read back: a strategy that the partitioner answers
with a gather of its own would make every price of the search wrong. With one factor cut, and with
any two, its numbers are compared with those of one device: a partitioner has faults of its own.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from typing import Any, final

import jax
import numpy as np
import pytest

from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh
from shardwright.execute.on_jax import Program, program
from shardwright.ir.dtypes import itemsize_bytes
from shardwright.plan import OpDecision, Plan, Provenance, Stage, TensorDecision
from shardwright.sharding import Sharding
from shardwright.sharding.strategy import Rejection, Strategy, own_collectives, strategy_of
from tests.conformance.rule_harness import RuleRow, Traced, trace
from tests.conformance.rule_numbers import KEY_WORDS
from tests.conformance.rule_trace import as_tuple, bind, to_device, to_host
from tests.conformance.test_rules import ROWS, SLOW_ROWS

MESH = Mesh.of(x=2, y=4)
NOT_LOWERED = {"mulhi", "philox2x32", "philox4x32", "sharding_constraint"}
"""Primitives that this backend cannot compile, and one that names devices of its own."""
GATHERS = {
    # The sizes of the groups are gathered, a number for each expert.
    "ragged_dot_general": 128,
    # Series that are summed until every element has converged.
    "igamma": 2,
    "igamma_grad_a": 2,
    "igammac": 2,
    "regularized_incomplete_beta": 2,
    # Pooling of a whole dim; sums and maxima are reduced as planned.
    "reduce_window_min-all": 192,
}
"""Bytes that XLA moves all the same, by kind or row."""


@final
class Inputs(enum.Enum):
    """How a row's operands lie before the operator wants them cut."""

    CUT = "as the operator wants them"
    WHOLE = "whole on every device"


def lay(traced: Traced, strategy: Strategy, inputs: Inputs = Inputs.CUT) -> Program:
    """The row's operator as it runs under a strategy."""
    assert traced.eqn is not None
    arguments = [to_device(operand) for operand in traced.operands]
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments]
    roles = {"*": "batch"} if shapes else {}  # Or a result might be taken for an operand's next.
    step = capture(lambda *ops: as_tuple(bind(traced.eqn, ops)), *shapes, roles=roles)
    graph = step.graph
    (op,) = [op for op in graph.walk() if op.kind == traced.row.kind]
    forms = dict(
        zip((*op.operands, *op.results), strategy.operands + strategy.results, strict=True)
    )
    resting = dict(forms)
    if inputs is Inputs.WHOLE:
        resting |= {
            i: Sharding.replicated(graph.tensor(i).rank) for i in graph.inputs if i in forms
        }

    def shown(ids: tuple[int, ...]) -> tuple[Any, ...]:
        is_key = [graph.tensor(i).dtype.startswith("key") for i in ids]
        return tuple(
            forms[i] if forms[i].rank and not key else None
            for i, key in zip(ids, is_key, strict=True)
        )

    border = dict.fromkeys((*graph.inputs, *graph.outputs))
    stage = Stage(
        device_ids=tuple(range(MESH.num_devices)),
        mesh=MESH,
        ops=(OpDecision(op_id=op.id, operands=shown(op.operands), results=shown(op.results)),),
        tensors=tuple(
            TensorDecision(tensor_id=i, sharding=resting[i]) for i in border if i in resting
        ),
    )
    plan = Plan(
        graph_fingerprint=graph.fingerprint,
        cluster_fingerprint="any",
        cluster_name="by hand",
        stages=(stage,),
        provenance=Provenance(method="by hand"),
    )
    trees = {"in_tree": step.in_tree, "out_tree": step.out_tree}
    return program(graph=graph, jaxpr=step.jaxpr, plan=plan, **trees)


def cuts(traced: Traced, *, second: Sequence[int | None] = (None,)) -> list[tuple[str, Strategy]]:
    """Every strategy of the row's rule in which the first axis cuts one factor.

    The second axis cuts the factors at the places ``second``, if any.
    """
    graph, factors = traced.graph, traced.rule.factors
    operands = [graph.tensor(i).shape for i in traced.op.operands]
    found = []
    for first, other in itertools.product(range(len(factors)), second):
        axes = [
            ("x",) * (place == first) + ("y",) * (place == other) for place in range(len(factors))
        ]
        strategy = strategy_of(traced.rule, operands, traced.result_shapes, axes, MESH)
        if not isinstance(strategy, Rejection):
            names = [factors[place].name for place in (first, other) if place is not None]
            found.append(("/".join(names), strategy))
    return found


def is_one_operator(row: RuleRow) -> bool:
    """Whether the row is a primitive that this backend compiles."""
    return not (row.opaque or row.kind.startswith("shard.") or row.kind in NOT_LOWERED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    [row for row in (*ROWS, *SLOW_ROWS) if is_one_operator(row)],
    ids=lambda row: row.label,
)
def test_nothing_moves_but_what_the_rule_says(row: RuleRow) -> None:
    traced = trace(row)
    graph = traced.graph
    sizes = [itemsize_bytes(graph.tensor(i).dtype) for i in traced.op.results]
    allowed = GATHERS.get(row.label, GATHERS.get(row.kind, 0))
    for name, strategy in cuts(traced):
        finish = own_collectives(strategy, traced.result_shapes, sizes, MESH)
        planned = sum(step.input_bytes for steps in finish for step in steps)
        found = lay(traced, strategy).read_back().collectives
        moved = [f"{item.kind} of {item.step_bytes} B" for item in found]
        measured = sum(item.step_bytes for item in found)
        assert measured <= planned + allowed, f"{name} of {traced.rule}: {moved}"


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether two results are equal, floating ones up to the order of their sums."""
    if found.dtype == KEY_WORDS or found.dtype.kind in "biu":
        return np.array_equal(found, wanted)
    return np.allclose(found, wanted, rtol=2e-4, atol=2e-4, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", Inputs, ids=lambda inputs: inputs.name.lower())
@pytest.mark.parametrize(
    "row",
    [row for row in (*ROWS, *SLOW_ROWS) if is_one_operator(row)],
    ids=lambda row: row.label,
)
def test_every_one_and_two_cuts_give_the_numbers_of_one_device(
    row: RuleRow, inputs: Inputs
) -> None:
    traced = trace(row)
    arguments = [to_device(operand) for operand in traced.operands]
    whole = jax.jit(lambda *operands: as_tuple(bind(traced.eqn, operands)))(*arguments)
    wanted = [to_host(result) for result in whole]
    for name, strategy in cuts(traced, second=(None, *range(len(traced.rule.factors)))):
        found = [to_host(r) for r in as_tuple(lay(traced, strategy, inputs)(*arguments))]
        agree = [same(*pair) for pair in zip(found, wanted, strict=True)]
        assert all(agree), f"{name} of {traced.rule}: result {agree.index(False)} differs"
