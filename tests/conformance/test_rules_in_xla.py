"""What a rule promises is what runs: cut by one axis and copied over another, nothing else moves.

Every row of the rules' proof is planned with one factor cut, run through the executor, and its
collectives are read back. A strategy that the partitioner answers with a gather of its own would
make every price of the search wrong.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest

from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh
from shardwright.execute.on_jax import program
from shardwright.ir.dtypes import itemsize_bytes
from shardwright.plan import OpDecision, Plan, Provenance, Stage, TensorDecision
from shardwright.sharding.strategy import Rejection, Strategy, own_collectives, strategy_of
from tests.conformance.rule_harness import RuleRow, Traced, trace
from tests.conformance.rule_trace import as_tuple, bind, to_device
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


def lay(traced: Traced, strategy: Strategy) -> Any:
    """What XLA makes of the row's operator under a strategy."""
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
    border = dict.fromkeys((*graph.inputs, *graph.outputs))

    def shown(ids: tuple[int, ...]) -> tuple[Any, ...]:
        is_key = [graph.tensor(i).dtype.startswith("key") for i in ids]
        return tuple(
            forms[i] if forms[i].rank and not key else None
            for i, key in zip(ids, is_key, strict=True)
        )

    decision = OpDecision(op_id=op.id, operands=shown(op.operands), results=shown(op.results))
    stage = Stage(
        device_ids=tuple(range(MESH.num_devices)),
        mesh=MESH,
        ops=(decision,),
        tensors=tuple(TensorDecision(tensor_id=i, sharding=forms[i]) for i in border if i in forms),
    )
    plan = Plan(
        graph_fingerprint=graph.fingerprint,
        cluster_fingerprint="any",
        cluster_name="by hand",
        stages=(stage,),
        provenance=Provenance(method="one factor"),
    )
    return program(
        graph=graph,
        jaxpr=step.jaxpr,
        in_tree=step.in_tree,
        out_tree=step.out_tree,
        plan=plan,
    ).read_back()


def cuts(traced: Traced) -> list[tuple[str, Strategy]]:
    """Every strategy of the row's rule in which the first axis cuts one factor."""
    graph, rule = traced.graph, traced.rule
    operands = [graph.tensor(i).shape for i in traced.op.operands]
    found = []
    for position, factor in enumerate(rule.factors):
        axes = [("x",) if place == position else () for place in range(len(rule.factors))]
        strategy = strategy_of(rule, operands, traced.result_shapes, axes, MESH)
        if not isinstance(strategy, Rejection):
            found.append((factor.name, strategy))
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
        found = lay(traced, strategy).collectives
        moved = [f"{item.kind} of {item.step_bytes} B" for item in found]
        measured = sum(item.step_bytes for item in found)
        assert measured <= planned + allowed, f"{name} of {traced.rule}: {moved}"
