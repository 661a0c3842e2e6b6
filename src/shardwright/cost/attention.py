"""Where a step attends: the scores of attention and what is computed from them.

Scores are what a contraction with two or more batch dims makes when its result is larger than both
operands (queries by keys). From there they spread through elementwise operators, reductions' inputs
and loops' borders to every tensor of the same size: the masked scores, the probabilities, their
gradients, and the stacks of them that a loop keeps. A fused attention kernel writes none of them.

Source:
    Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness"
    (NeurIPS 2022), section 3: what the kernel keeps out of memory.
"""

from __future__ import annotations

import numpy as np

from shardwright.cost.dims import left_dims
from shardwright.ir import Op
from shardwright.ir.columns import Flags
from shardwright.ir.flat import FlatGraph
from shardwright.sharding.rules.elementwise import RULES as _ELEMENTWISE

_CARRIERS = frozenset(_ELEMENTWISE) | {
    *("broadcast_in_dim", "convert_element_type", "copy", "expand_dims", "name", "reshape"),
    *("select_n", "squeeze", "transpose", "shard.alias"),
}
_STACKS = frozenset({"shard.scan_stack", "shard.scan_slice"})


def score_tensors(flat: FlatGraph) -> Flags:
    """For each tensor whether it holds one number for each query and key."""
    scores = {op.results[0] for op in (f.op for f in flat.ops) if _opens(flat, op)}
    sizes = {flat.graph.tensor(i).num_elements for i in scores}
    before = -1
    while scores and len(scores) != before:
        before = len(scores)
        for flat_op in flat.ops:
            _spread(flat, flat_op.op, scores, sizes)
    found = np.zeros(len(flat.graph.tensors), dtype=np.bool_)
    found[list(scores)] = True
    return found


def _opens(flat: FlatGraph, op: Op) -> bool:
    """Whether an operator compares every query with every key."""
    if op.kind != "dot_general":
        return False
    sizes = [flat.graph.tensor(i).num_elements for i in (*op.operands, *op.results)]
    return len(left_dims(op).batch) >= 2 and sizes[2] > max(sizes[:2])


def _spread(flat: FlatGraph, op: Op, scores: set[int], sizes: set[int]) -> None:
    tensors = (*op.operands, *op.results)
    if scores.isdisjoint(tensors):
        return
    if op.kind in _CARRIERS:
        scores.update(i for i in tensors if flat.graph.tensor(i).num_elements in sizes)
    elif op.kind in _STACKS:
        scores.update(op.operands + op.results)
