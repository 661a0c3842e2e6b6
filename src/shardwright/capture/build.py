"""A normalised jaxpr written down as a graph: one table of tensors, operators in running order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from shardwright.capture.attributes import attributes_of, dtype_name
from shardwright.capture.source import SourceLines
from shardwright.ir import Attribute, Graph, Op, Region, Role, Tensor
from shardwright.jax_bridge import Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var

_BODIES = {
    "scan": (("body", "jaxpr"),),
    "while": (("cond", "cond_jaxpr"), ("body", "body_jaxpr")),
    "remat2": (("body", "jaxpr"),),
    "checkpoint": (("body", "jaxpr"),),
}
"""Region name and parameter of each body, in the order of the regions."""


def build_graph(closed: ClosedJaxpr, name: str) -> Graph:
    """The graph of a normalised jaxpr; inputs have role input or constant, names are empty.

    Inputs are the jaxpr's, then its constants. Time is linear in the equations.
    """
    builder = _Builder()
    rows: dict[Var, int] = {}
    jaxpr = closed.jaxpr
    inputs = [builder.define(v, rows, Role.INPUT) for v in jaxpr.invars]
    inputs += [
        builder.define(v, rows, Role.CONSTANT, f"constant.{position}")
        for position, v in enumerate(jaxpr.constvars)
    ]
    ops = builder.ops(jaxpr, rows)
    # A result may be a number that no operator reads, and then its row is only now made.
    outputs = builder.read_all(jaxpr.outvars, rows)
    return Graph(
        name=name,
        tensors=tuple(builder.tensors),
        inputs=tuple(inputs),
        outputs=outputs,
        ops=ops,
    )


@final
@dataclass(frozen=True, kw_only=True)
class _Builder:
    """The table so far, and what was looked up on the way."""

    tensors: list[Tensor] = field(default_factory=list)
    op_ids: list[int] = field(default_factory=list)
    literals: dict[tuple[str, str], int] = field(default_factory=dict)
    types: dict[int, tuple[Any, tuple[int, ...], str]] = field(default_factory=dict)
    attributes: dict[int, tuple[Any, tuple[tuple[str, Attribute], ...]]] = field(
        default_factory=dict
    )
    scopes: dict[Any, str] = field(default_factory=dict)
    sources: SourceLines = field(default_factory=SourceLines)

    def ops(self, jaxpr: Jaxpr, rows: dict[Var, int]) -> tuple[Op, ...]:
        return tuple([self.op(eqn, rows) for eqn in jaxpr.eqns])

    def op(self, eqn: JaxprEqn, rows: dict[Var, int]) -> Op:
        op_id = len(self.op_ids)
        self.op_ids.append(op_id)
        kind = eqn.primitive.name
        operands = self.read_all(eqn.invars, rows)
        regions = self.regions(kind, eqn)
        return Op(
            id=op_id,
            kind=kind,
            operands=operands,
            results=tuple([self.define(v, rows, Role.ACTIVATION) for v in eqn.outvars]),
            attributes=self.attributes_of(kind, eqn.params),
            regions=regions,
            scope=self.scope(eqn.source_info.name_stack),
            source=self.sources.of(eqn.source_info.traceback),
        )

    def regions(self, kind: str, eqn: JaxprEqn) -> tuple[Region, ...]:
        if kind == "cond":
            branches = enumerate(eqn.params["branches"])
            return tuple([self.region(f"branch{k}", body) for k, body in branches])
        bodies = _BODIES.get(kind, ())
        return tuple([self.region(name, eqn.params[key]) for name, key in bodies])

    def region(self, name: str, body: Jaxpr | ClosedJaxpr) -> Region:
        jaxpr = body.jaxpr if isinstance(body, ClosedJaxpr) else body
        rows: dict[Var, int] = {}
        inputs = tuple([self.define(v, rows, Role.ACTIVATION) for v in jaxpr.invars])
        ops = self.ops(jaxpr, rows)
        outputs = self.read_all(jaxpr.outvars, rows)
        return Region(name=name, inputs=inputs, outputs=outputs, ops=ops)

    def define(self, variable: Var, rows: dict[Var, int], role: Role, name: str = "") -> int:
        row = len(self.tensors)
        shape, dtype = self.type_of(variable.aval)
        self.tensors.append(Tensor(id=row, shape=shape, dtype=dtype, role=role, name=name))
        if not isinstance(variable, DropVar):
            rows[variable] = row
        return row

    def read_all(self, atoms: Sequence[Atom], rows: dict[Var, int]) -> tuple[int, ...]:
        return tuple([self.literal(a) if isinstance(a, Literal) else rows[a] for a in atoms])

    def literal(self, atom: Literal) -> int:
        """The row of a number; equal numbers of one type share a row."""
        shape, dtype = self.type_of(atom.aval)
        value = literal_value(atom.val, dtype)
        key = (dtype, repr(value))
        row = self.literals.get(key)
        if row is None:
            row = self.literals[key] = len(self.tensors)
            self.tensors.append(
                Tensor(id=row, shape=shape, dtype=dtype, role=Role.CONSTANT, value=value)
            )
        return row

    def type_of(self, aval: Any) -> tuple[tuple[int, ...], str]:
        known = self.types.get(id(aval))
        if known is None:
            shape = tuple(int(size) for size in getattr(aval, "shape", ()))
            dtype = getattr(aval, "dtype", None)
            known = (aval, shape, "float0" if dtype is None else dtype_name(dtype))
            self.types[id(aval)] = known
        return known[1], known[2]

    def attributes_of(self, kind: str, params: dict[str, Any]) -> tuple[tuple[str, Attribute], ...]:
        known = self.attributes.get(id(params))
        if known is None:
            known = self.attributes[id(params)] = (params, attributes_of(kind, params))
        return known[1]

    def scope(self, name_stack: Any) -> str:
        known = self.scopes.get(name_stack)
        if known is None:
            known = self.scopes[name_stack] = str(name_stack)
        return known


def literal_value(value: Any, dtype: str) -> bool | int | float:
    """A scalar as a Python number; every NaN becomes the same object, so that records compare."""
    if dtype == "bool":
        return bool(value)
    if dtype.startswith(("int", "uint")):
        return int(value)
    number = 0.0 if dtype == "float0" else float(value)
    return math.nan if math.isnan(number) else number
