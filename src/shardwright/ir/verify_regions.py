"""What operators with regions promise: counts and types across the border of loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardwright.errors import GraphError
from shardwright.ir.graph import Graph, Op, Region

Type = tuple[tuple[int, ...], str]
"""Shape and element type."""


def op_place(op: Op) -> str:
    """How messages name an operator: its kind and id, and the user's line where it is known."""
    name = f"{op.kind} #{op.id}"
    return f"{name} at {op.source}" if op.source else name


def verify_regions(graph: Graph, op: Op) -> None:
    """Check that an operator's regions take and give what its operands and results are.

    Raises:
        GraphError: a count or a type differs; the message gives both.
    """
    check = _CHECKS.get(op.kind)
    if check is not None:
        check(graph, op)


def _verify_scan(graph: Graph, op: Op) -> None:
    (body,) = _regions(op, 1)
    consts, carries = _count(op, "num_consts"), _count(op, "num_carry")
    length = _count(op, "length")
    head = consts + carries
    operands, results = _types(graph, op.operands), _types(graph, op.results)
    inputs = operands[:head] + [_unstacked(op, t, length) for t in operands[head:]]
    outputs = results[:carries] + [_unstacked(op, t, length) for t in results[carries:]]
    _match(op, body, "inputs", _types(graph, body.inputs), inputs)
    _match(op, body, "outputs", _types(graph, body.outputs), outputs)
    _match(op, body, "carries", outputs[:carries], operands[consts:head])


def _verify_while(graph: Graph, op: Op) -> None:
    condition, body = _regions(op, 2)
    cond_consts, body_consts = _count(op, "cond_nconsts"), _count(op, "body_nconsts")
    head = cond_consts + body_consts
    operands, results = _types(graph, op.operands), _types(graph, op.results)
    carries = operands[head:]
    wanted = operands[:cond_consts] + carries
    _match(op, condition, "inputs", _types(graph, condition.inputs), wanted)
    _match(op, condition, "outputs", _types(graph, condition.outputs), [((), "bool")])
    wanted = operands[cond_consts:head] + carries
    _match(op, body, "inputs", _types(graph, body.inputs), wanted)
    _match(op, body, "outputs", _types(graph, body.outputs), carries)
    _match(op, body, "outputs", _types(graph, body.outputs), results)


def _verify_cond(graph: Graph, op: Op) -> None:
    operands, results = _types(graph, op.operands), _types(graph, op.results)
    if not op.operands or operands[0][0] != ():
        raise GraphError("the first operand of cond is not a scalar index", where=op_place(op))
    for branch in op.regions:
        _match(op, branch, "inputs", _types(graph, branch.inputs), operands[1:])
        _match(op, branch, "outputs", _types(graph, branch.outputs), results)


def _verify_block(graph: Graph, op: Op) -> None:
    (body,) = _regions(op, 1)
    _match(op, body, "inputs", _types(graph, body.inputs), _types(graph, op.operands))
    _match(op, body, "outputs", _types(graph, body.outputs), _types(graph, op.results))


_CHECKS: dict[str, Callable[[Graph, Op], None]] = {
    "scan": _verify_scan,
    "while": _verify_while,
    "cond": _verify_cond,
    "remat2": _verify_block,
    "checkpoint": _verify_block,
}


def _regions(op: Op, count: int) -> tuple[Region, ...]:
    if len(op.regions) != count:
        raise GraphError(
            f"{op.kind} has {len(op.regions)} regions, not {count}", where=op_place(op)
        )
    return op.regions


def _count(op: Op, name: str) -> int:
    value = op.attribute(name)
    if not isinstance(value, int) or value < 0:
        raise GraphError(
            f"attribute {name} of {op.kind} is {value!r}, not a count", where=op_place(op)
        )
    return value


def _types(graph: Graph, rows: Sequence[int]) -> list[Type]:
    return [(graph.tensor(row).shape, graph.tensor(row).dtype) for row in rows]


def _unstacked(op: Op, stacked: Type, length: int) -> Type:
    shape, dtype = stacked
    if not shape or shape[0] != length:
        raise GraphError(
            f"scan runs {length} times over a stack of shape {shape}", where=op_place(op)
        )
    return shape[1:], dtype


def _match(op: Op, region: Region, what: str, have: list[Type], want: list[Type]) -> None:
    where = f"region {region.name} of {op_place(op)}"
    if len(have) != len(want):
        raise GraphError(f"the region has {len(have)} {what} for {len(want)}", where=where)
    for position, (mine, theirs) in enumerate(zip(have, want, strict=True)):
        if mine != theirs:
            raise GraphError(
                f"{what[:-1]} {position} of the region is {_text(mine)}, not {_text(theirs)}",
                where=where,
            )


def _text(kind: Type) -> str:
    shape, dtype = kind
    return f"{dtype}[{','.join(map(str, shape))}]"
