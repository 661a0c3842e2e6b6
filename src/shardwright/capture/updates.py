"""Whether a tensor is another one's next value: the same array, worked on element by element."""

from __future__ import annotations

from collections.abc import Mapping

from shardwright.ir import Graph, Op

_MIXING = frozenset(
    {
        "reduce_sum",
        "dot_general",
        "ragged_dot_general",
        "conv_general_dilated",
        "transpose",
        "sort",
        "broadcast_in_dim",
    }
)
"""Operators whose result is a new array, even where it happens to have an operand's shape."""


def is_updated_from(graph: Graph, after: int, before: int) -> bool:
    """Whether ``after`` comes from ``before`` along tensors that all have its shape.

    An optimizer's update (``w - rate * g``), a moving average and a cache write all do; a layer's
    output of the same shape as its input does not, unless it is residual. A step inside a loop is
    followed by position: the loop's result from the operand that starts the carry.
    """
    producers = {row: op for op in graph.ops for row in op.results}
    shape = graph.tensor(after).shape
    seen: set[int] = set()
    waiting = [after]
    while waiting:
        row = waiting.pop()
        if row == before:
            return True
        if row in seen or graph.tensor(row).shape != shape:
            continue
        seen.add(row)
        waiting += _predecessors(producers, row)
    return False


def _predecessors(producers: Mapping[int, Op], row: int) -> tuple[int, ...]:
    op = producers.get(row)
    if op is None or op.kind in _MIXING:
        return ()
    start = _first_carry(op)
    if start is None:
        return op.operands
    position = start + op.results.index(row)
    return op.operands[position : position + 1]


def _first_carry(op: Op) -> int | None:
    """Position of the operand that starts a loop's first carry; None for other operators."""
    names = {"scan": ("num_consts",), "while": ("cond_nconsts", "body_nconsts")}.get(op.kind)
    if names is None:
        return None
    return sum(int(str(op.attribute(name, 0))) for name in names)
