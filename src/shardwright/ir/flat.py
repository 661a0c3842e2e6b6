"""The same graph as one flat list of operators in running order, loops' bodies in place.

Planning, pricing and liveness all walk a step from its first operator to its last, and a loop's
body is for them one more stretch that runs many times. Where a value crosses a region's border a
*border operator* stands in the list (kinds ``shard.*``), so that a sharding can be followed across
it by the same rules as through any other operator:

- ``shard.alias``: the same value on the other side (constants of a loop, branches, remat);
- ``shard.scan_slice`` and ``shard.scan_stack``: one layer out of a stack, and back onto it;
- ``shard.carry``: a loop's carry on its way in; it rests one way for the whole loop;
- ``shard.carry_back``: the carry's next value, which must lie as the carry does; writes nothing;
- ``shard.join``: the result of whichever branch ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

from shardwright.ir.columns import Columns, columns_of
from shardwright.ir.graph import Graph, Op

BORDER_KINDS = frozenset(
    {
        "shard.alias",
        "shard.scan_slice",
        "shard.scan_stack",
        "shard.carry",
        "shard.carry_back",
        "shard.join",
    }
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FlatOp:
    """An operator of the flat list.

    Attributes:
        op: the operator; border operators have negative ids.
        runs: how often one step runs it, the product of the trip counts around it.
    """

    op: Op
    runs: int


@final
@dataclass(frozen=True, kw_only=True)
class FlatGraph:
    """A graph in running order.

    Attributes:
        graph: what was flattened.
        ops: operators and border operators in running order; position is time.
        live_until: for each tensor the last position that needs it, loops counted to their end;
            -1 for a tensor that nothing reads.
        unknown_trips: operators (``while``) whose trip count the graph does not tell; taken as 1.
    """

    graph: Graph
    ops: tuple[FlatOp, ...]
    live_until: tuple[int, ...]
    unknown_trips: tuple[int, ...]

    @cached_property
    def columns(self) -> Columns:
        """The operators as columns of numbers."""
        return columns_of(self.ops)


def flatten(graph: Graph) -> FlatGraph:
    """The flat form of ``graph``; time and memory are linear in its operators."""
    walker = _Walker(graph=graph, live_until=[-1] * len(graph.tensors))
    walker.run(graph.ops, 1)
    end = len(walker.ops)
    for tensor_id in graph.outputs:
        walker.live_until[tensor_id] = end
    return FlatGraph(
        graph=graph,
        ops=tuple(walker.ops),
        live_until=tuple(walker.live_until),
        unknown_trips=tuple(walker.unknown_trips),
    )


@final
@dataclass(kw_only=True)
class _Walker:
    graph: Graph
    live_until: list[int]
    ops: list[FlatOp] = field(default_factory=list)
    unknown_trips: list[int] = field(default_factory=list)
    next_border_id: int = -1

    def run(self, ops: tuple[Op, ...], runs: int) -> None:
        for op in ops:
            enter = _ENTER.get(op.kind) if op.regions else None
            if enter is None:
                self.emit(op, runs)
            else:
                enter(self, op, runs)

    def emit(self, op: Op, runs: int) -> None:
        # Positions only grow, so the last reader to come is the last to need it.
        position = len(self.ops)
        for tensor_id in op.operands:
            self.live_until[tensor_id] = position
        self.ops.append(FlatOp(op=op, runs=runs))

    def border(
        self, kind: str, parent: Op, operands: tuple[int, ...], results: tuple[int, ...], runs: int
    ) -> None:
        border = Op(
            id=self.next_border_id,
            kind=kind,
            operands=operands,
            results=results,
            scope=parent.scope,
            source=parent.source,
        )
        self.next_border_id -= 1
        self.emit(border, runs)

    def alias_all(
        self, parent: Op, sources: tuple[int, ...], targets: tuple[int, ...], runs: int
    ) -> None:
        for source, target in zip(sources, targets, strict=True):
            self.border("shard.alias", parent, (source,), (target,), runs)

    def hold_to_here(self, tensor_ids: tuple[int, ...]) -> None:
        """Keep what a loop reads in every trip alive until the loop ends."""
        position = len(self.ops) - 1
        for tensor_id in tensor_ids:
            self.live_until[tensor_id] = position


def _enter_scan(walker: _Walker, op: Op, runs: int) -> None:
    (body,) = op.regions
    consts, carries = _int(op, "num_consts"), _int(op, "num_carry")
    trips = runs * max(_int(op, "length"), 1)
    head = consts + carries
    walker.alias_all(op, op.operands[:consts], body.inputs[:consts], runs)
    _carry_in(walker, op, op.operands[consts:head], body.inputs[consts:head], runs)
    for stack, layer in zip(op.operands[head:], body.inputs[head:], strict=True):
        walker.border("shard.scan_slice", op, (stack,), (layer,), trips)
    walker.run(body.ops, trips)
    for layer, stack in zip(body.outputs[carries:], op.results[carries:], strict=True):
        walker.border("shard.scan_stack", op, (layer,), (stack,), trips)
    _carry_out(walker, op, body.inputs[consts:head], body.outputs[:carries], trips)
    walker.hold_to_here(op.operands + body.inputs[:consts])


def _enter_while(walker: _Walker, op: Op, runs: int) -> None:
    condition, body = op.regions
    cond_consts, body_consts = _int(op, "cond_nconsts"), _int(op, "body_nconsts")
    head = cond_consts + body_consts
    walker.unknown_trips.append(op.id)
    walker.alias_all(op, op.operands[:cond_consts], condition.inputs[:cond_consts], runs)
    walker.alias_all(op, op.operands[cond_consts:head], body.inputs[:body_consts], runs)
    carries = body.inputs[body_consts:]
    _carry_in(walker, op, op.operands[head:], carries, runs)
    walker.alias_all(op, carries, condition.inputs[cond_consts:], runs)
    walker.run(condition.ops, runs)
    walker.run(body.ops, runs)
    _carry_out(walker, op, carries, body.outputs, runs)
    walker.hold_to_here(op.operands + body.inputs[:body_consts])


def _enter_cond(walker: _Walker, op: Op, runs: int) -> None:
    for branch in op.regions:
        walker.alias_all(op, op.operands[1:], branch.inputs, runs)
        walker.run(branch.ops, runs)
    for position, result in enumerate(op.results):
        outcomes = tuple(branch.outputs[position] for branch in op.regions)
        walker.border("shard.join", op, outcomes, (result,), runs)
    walker.hold_to_here(op.operands)


def _enter_block(walker: _Walker, op: Op, runs: int) -> None:
    (body,) = op.regions
    walker.alias_all(op, op.operands, body.inputs, runs)
    walker.run(body.ops, runs)
    walker.alias_all(op, body.outputs, op.results, runs)


def _carry_in(
    walker: _Walker, op: Op, starts: tuple[int, ...], carries: tuple[int, ...], runs: int
) -> None:
    for start, carry in zip(starts, carries, strict=True):
        walker.border("shard.carry", op, (start,), (carry,), runs)


def _carry_out(
    walker: _Walker,
    op: Op,
    carries: tuple[int, ...],
    nexts: tuple[int, ...],
    trips: int,
) -> None:
    for carry, following in zip(carries, nexts, strict=True):
        walker.border("shard.carry_back", op, (following, carry), (), trips)
    for carry, result in zip(carries, op.results, strict=False):
        walker.border("shard.alias", op, (carry,), (result,), 1)


def entering(op: Op) -> Iterator[tuple[int, int]]:
    """(operand position, region input that it becomes) of an operator with regions."""
    if op.kind == "while":
        condition, body = op.regions
        cond_consts, body_consts = _int(op, "cond_nconsts"), _int(op, "body_nconsts")
        yield from enumerate(condition.inputs[:cond_consts])
        yield from enumerate(body.inputs, start=cond_consts)
        yield from enumerate(condition.inputs[cond_consts:], start=cond_consts + body_consts)
        return
    for region in op.regions:
        yield from enumerate(region.inputs, start=1 if op.kind == "cond" else 0)


def _int(op: Op, name: str) -> int:
    value = op.attribute(name, 0)
    return value if isinstance(value, int) else 0


_ENTER = {
    "scan": _enter_scan,
    "while": _enter_while,
    "cond": _enter_cond,
    "remat2": _enter_block,
    "checkpoint": _enter_block,
}


def producers(flat: FlatGraph) -> Iterator[tuple[int, int]]:
    """(tensor id, position of the operator that writes it) of every written tensor."""
    for position, flat_op in enumerate(flat.ops):
        for tensor_id in flat_op.op.results:
            yield tensor_id, position
