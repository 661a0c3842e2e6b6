"""Which operators of a training step are its forward pass, its backward pass and its update.

Forward is what the loss needs: of the results that are no state, the one that the fewest operators
lead to. Update is what reads optimizer state, directly or not, what writes the new parameters where
there is none (SGD), and the elementwise work that these alone read (gradients widened, squared,
scaled). Everything else is backward.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from shardwright.ir import Op, Role
from shardwright.ir.flat import FlatGraph
from shardwright.sharding.rules.elementwise import RULES as _ELEMENTWISE


class Phase(IntEnum):
    """A part of a training step."""

    FORWARD = 0
    BACKWARD = 1
    UPDATE = 2


def phases_of(flat: FlatGraph) -> NDArray[np.int64]:
    """The phase of every operator of the flat list; a step without a loss is all backward."""
    phases = np.full(len(flat.ops), Phase.BACKWARD, dtype=np.int64)
    phases[_forward(flat)] = Phase.FORWARD
    phases[_update(flat)] = Phase.UPDATE
    return phases


def _forward(flat: FlatGraph) -> list[int]:
    state = {after for _, after in flat.graph.state_pairs}
    results = [i for i in dict.fromkeys(flat.graph.outputs) if i not in state]
    candidates = (_leading_to(flat, result) for result in results)
    return min((found for found in candidates if found), key=len, default=[])


def _leading_to(flat: FlatGraph, result: int) -> list[int]:
    """Positions of the operators that a tensor depends on; loops are followed until they settle."""
    needed, before = {result}, 0
    positions: set[int] = set()
    while len(needed) != before:
        before = len(needed)
        for position in range(len(flat.ops) - 1, -1, -1):
            op = flat.ops[position].op
            if _is_needed(op, needed):
                positions.add(position)
                needed.update(op.operands)
    return sorted(positions)


def _is_needed(op: Op, needed: set[int]) -> bool:
    if op.kind == "shard.carry_back":
        return op.operands[1] in needed
    return not needed.isdisjoint(op.results)


def _update(flat: FlatGraph) -> list[int]:
    graph = flat.graph
    fed = {i for i in graph.inputs if graph.tensor(i).role is Role.OPTIMIZER_STATE}
    positions = set()
    for position, flat_op in enumerate(flat.ops):
        if not fed.isdisjoint(flat_op.op.operands):
            fed.update(flat_op.op.results)
            positions.add(position)
    positions |= _writing_parameters(flat)
    return sorted(positions | _preparing(flat, positions))


def _writing_parameters(flat: FlatGraph) -> set[int]:
    """Elementwise operators that make the new parameters; all that an update without state has."""
    graph = flat.graph
    new = {after for i, after in graph.state_pairs if graph.tensor(i).role is Role.PARAMETER}
    return {
        position
        for position, flat_op in enumerate(flat.ops)
        if flat_op.op.kind in _ELEMENTWISE and not new.isdisjoint(flat_op.op.results)
    }


def _preparing(flat: FlatGraph, update: set[int]) -> set[int]:
    """Elementwise operators outside of loops whose results the update alone reads."""
    elsewhere, positions = set(flat.graph.outputs), set()
    for position in range(len(flat.ops) - 1, -1, -1):
        flat_op = flat.ops[position]
        if position in update:
            continue
        op = flat_op.op
        is_read_elsewhere = not elsewhere.isdisjoint(op.results)
        if op.kind in _ELEMENTWISE and flat_op.runs == 1 and not is_read_elsewhere:
            positions.add(position)
        else:
            elsewhere.update(op.operands)
    return positions
