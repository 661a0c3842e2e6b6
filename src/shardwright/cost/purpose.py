"""What each planned collective is for, which decides how often a step needs it and what hides it.

A step of several microbatches moves activations in each of them, sums gradients once (or in each,
where gradients are kept cut), and gathers new weights once; weights that are kept cut are gathered
in each. Gradients and weights move beside computation where the software overlaps them; activations
stand in the way of what comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from shardwright.cost.phases import Phase, phases_of
from shardwright.ir import Op, Role
from shardwright.ir.flat import FlatGraph
from shardwright.plan.record import PlannedCollective

_PASSING = frozenset(
    {
        *("convert_element_type", "copy", "expand_dims", "name", "reduce_precision", "reshape"),
        *("slice", "squeeze", "transpose", "shard.alias", "shard.scan_slice", "shard.scan_stack"),
    }
)
_RESIZING = frozenset({"broadcast_in_dim", "reduce_sum"})
_SUMMING = frozenset({"add", "add_any", "integer_pow", "mul", "square", "shard.carry"})


class Purpose(IntEnum):
    """Why data moves."""

    ACTIVATION = 0
    WEIGHT = 1
    GRADIENT = 2
    STATE = 3


def purposes_of(flat: FlatGraph, collectives: Sequence[PlannedCollective]) -> tuple[Purpose, ...]:
    """The purpose of each collective of a plan of ``flat``."""
    weights, gradients = weights_of(flat), _gradients(flat)
    state = {after for _, after in flat.graph.state_pairs}

    def purpose(planned: PlannedCollective) -> Purpose:
        if planned.tensor_id in state:
            return Purpose.STATE
        if planned.tensor_id in weights:
            return Purpose.WEIGHT
        return Purpose.GRADIENT if planned.tensor_id in gradients else Purpose.ACTIVATION

    return tuple(purpose(planned) for planned in collectives)


def weights_of(flat: FlatGraph) -> set[int]:
    """Parameters and what is a converted, sliced or reordered form of one."""
    graph = flat.graph
    found = {i for i in graph.inputs if graph.tensor(i).role is Role.PARAMETER}
    for flat_op in flat.ops:
        op = flat_op.op
        if op.kind in _PASSING and not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _gradients(flat: FlatGraph) -> set[int]:
    """What the update reads of the backward pass, and what was summed or reordered into it."""
    phases = phases_of(flat)
    of_backward, read_by_update = set[int](), set[int]()
    for flat_op, phase in zip(flat.ops, phases, strict=True):
        if phase == Phase.BACKWARD:
            of_backward.update(flat_op.op.results)
        if phase == Phase.UPDATE:
            read_by_update.update(flat_op.op.operands)
    found = of_backward & read_by_update
    for flat_op in reversed(flat.ops):
        if not found.isdisjoint(flat_op.op.results) and _keeps_numbers(flat, flat_op.op):
            found.update(i for i in flat_op.op.operands if flat.graph.tensor(i).rank)
    return found


def _keeps_numbers(flat: FlatGraph, op: Op) -> bool:
    """Whether an operator only reorders, widens, scales or adds up what it reads."""
    sizes = {flat.graph.tensor(i).num_elements for i in (*op.operands, *op.results)}
    return op.kind in _PASSING | _SUMMING or (op.kind in _RESIZING and len(sizes) == 1)
