"""Which tensors another one is the next value of: the same array, worked on element by element."""

from __future__ import annotations

from collections.abc import Mapping

from shardwright.ir import Graph, Op

_KEEPING = frozenset(
    {
        "add",
        "add_any",
        "and",
        "clamp",
        "cond",
        "convert_element_type",
        "copy",
        "copy_p",
        "div",
        "dynamic_update_slice",
        "max",
        "min",
        "mul",
        "name",
        "neg",
        "optimization_barrier",
        "or",
        "reduce_precision",
        "rem",
        "remat2",
        "scan",
        "scatter",
        "scatter-add",
        "scatter-max",
        "scatter-min",
        "scatter-mul",
        "select_n",
        "sharding_constraint",
        "sub",
        "while",
        "xor",
    }
)
"""Operators by which optimizers, averages and caches make the next value out of the last."""


def update_sources(graph: Graph, producers: Mapping[int, Op], after: int) -> frozenset[int]:
    """Tensors that ``after`` comes from along tensors that all have its shape.

    An optimizer's update (``w - rate * g``), a moving average and a cache write all lead back to
    the old value so; a layer's output of the same shape as its input does not, unless it is
    residual. A step inside a loop is followed by position: from the loop's result to the operand
    that starts its carry.
    """
    shape = graph.tensor(after).shape
    seen: set[int] = set()
    waiting = [after]
    while waiting:
        row = waiting.pop()
        if row not in seen and graph.tensor(row).shape == shape:
            seen.add(row)
            waiting += _predecessors(producers, row)
    return frozenset(seen)


def _predecessors(producers: Mapping[int, Op], row: int) -> tuple[int, ...]:
    op = producers.get(row)
    if op is None or op.kind not in _KEEPING:
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
    counts = [op.attribute(name, 0) for name in names]
    return sum(count for count in counts if isinstance(count, int))
