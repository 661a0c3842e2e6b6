"""The rules that every graph keeps, checked one by one with a message for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from shardwright.errors import GraphError
from shardwright.ir.dtypes import itemsize_bytes
from shardwright.ir.graph import STATE_ROLES, Graph, Op, Region, Role, Tensor
from shardwright.ir.verify_regions import op_place, verify_regions

_ORIGIN = "the inputs"


def verify_graph(graph: Graph) -> None:
    """Check that a graph is well formed; time is linear in its operators.

    Every tensor stands in its row and is defined once, before it is used, and only where it can be
    seen: a region sees its own tensors and literals. Operator ids are unique; regions take and give
    what their operator does; state pairs agree in shape and element type.

    Raises:
        GraphError: the first rule that is broken, and where.
    """
    verifier = _Verifier(graph=graph)
    for row, tensor in enumerate(graph.tensors):
        _verify_row(row, tensor)
        if tensor.value is not None:
            verifier.defined[row] = "the literals"
            verifier.literals.add(row)
    seen: set[int] = set()
    verifier.define(graph.inputs, _ORIGIN, seen)
    verifier.ops(graph.ops, seen)
    verifier.use(graph.outputs, "the outputs", seen)
    verifier.every_row_defined()
    _verify_state(graph)


def _verify_row(row: int, tensor: Tensor) -> None:
    where = f"row {row} of the tensor table"
    if tensor.id != row:
        raise GraphError(f"tensor %{tensor.id} stands in row {row}", where=where)
    if any(size < 0 for size in tensor.shape):
        raise GraphError(f"{tensor.label} has a negative size: shape {tensor.shape}", where=where)
    itemsize_bytes(tensor.dtype)
    if tensor.value is not None and (tensor.shape or tensor.role is not Role.CONSTANT):
        raise GraphError(
            f"{tensor.label} has the value {tensor.value!r} but is no scalar constant:"
            f" shape {tensor.shape}, role {tensor.role}",
            where=where,
        )


@final
@dataclass(frozen=True, kw_only=True)
class _Verifier:
    """What is defined so far, and by what."""

    graph: Graph
    defined: dict[int, str] = field(default_factory=dict)
    literals: set[int] = field(default_factory=set)
    op_ids: set[int] = field(default_factory=set)

    def define(self, rows: Sequence[int], where: str, seen: set[int]) -> None:
        for row in rows:
            self.row(row, where)
            if row in self.defined:
                raise GraphError(
                    f"tensor %{row} is defined twice: by {self.defined[row]} and by {where}",
                    where=where,
                )
            self.defined[row] = where
            seen.add(row)

    def row(self, row: int, where: str) -> None:
        count = len(self.graph.tensors)
        if not 0 <= row < count:
            raise GraphError(f"tensor %{row} is not among the {count} of the table", where=where)

    def use(self, rows: Sequence[int], where: str, seen: set[int]) -> None:
        for row in rows:
            if row in seen or row in self.literals:
                continue
            self.row(row, where)
            label = self.graph.tensor(row).label
            if row in self.defined:
                raise GraphError(
                    f"{label} is used outside the region that it belongs to",
                    where=where,
                    hint=f"pass it in as an operand; it is defined by {self.defined[row]}",
                )
            raise GraphError(f"{label} is used before it is defined", where=where)

    def ops(self, ops: tuple[Op, ...], seen: set[int]) -> None:
        for op in ops:
            where = op_place(op)
            if op.id in self.op_ids:
                raise GraphError(f"operator id #{op.id} occurs twice", where=where)
            self.op_ids.add(op.id)
            self.use(op.operands, where, seen)
            for region in op.regions:
                self.region(region, f"region {region.name} of {where}")
            verify_regions(self.graph, op)
            self.define(op.results, where, seen)

    def region(self, region: Region, where: str) -> None:
        seen: set[int] = set()
        self.define(region.inputs, where, seen)
        self.ops(region.ops, seen)
        self.use(region.outputs, where, seen)

    def every_row_defined(self) -> None:
        for tensor in self.graph.tensors:
            if tensor.id not in self.defined:
                raise GraphError(
                    f"{tensor.label} is never defined: no input, no result, no literal",
                    where=f"row {tensor.id} of the tensor table",
                )


def _verify_state(graph: Graph) -> None:
    inputs, outputs = set(graph.inputs), set(graph.outputs)
    paired: set[int] = set()
    for before, after in graph.state_pairs:
        where = f"state pair %{before} -> %{after}"
        if before not in inputs or after not in outputs:
            side = f"%{before} is no input" if before not in inputs else f"%{after} is no output"
            raise GraphError(
                f"a state pair leads from an input to an output, but {side}", where=where
            )
        if before in paired:
            raise GraphError(f"input %{before} is replaced by two outputs", where=where)
        paired.add(before)
        old, new = graph.tensor(before), graph.tensor(after)
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise GraphError(
                f"state {old.label} is {old.dtype}{list(old.shape)}"
                f" but its next value is {new.dtype}{list(new.shape)}",
                where=where,
            )
        if old.role not in STATE_ROLES:
            raise GraphError(f"state {old.label} has role {old.role}", where=where)
