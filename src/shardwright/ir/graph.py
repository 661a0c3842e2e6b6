"""The records of a captured step: tensors, operators, regions, and the graph that holds them.

A graph is in single-assignment form. Tensors live in one table for the whole graph, nested regions
included, and ``Tensor.id`` is the row; operators have ids of their own, unique in the same way. So
a plan can speak of any operator or tensor by one number, however deep in loops it lies.

Operator kinds are the primitive names of JAX's lax ("dot_general", "scan"), the field's most exact
public vocabulary; attributes are plain Python literals, so the text form can be parsed back.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import final

from shardwright.ir.dtypes import itemsize_bytes

Attribute = None | bool | int | float | str | tuple["Attribute", ...]
"""What an operator's attribute may be: literals and nested tuples of literals."""


class Role(StrEnum):
    """What a tensor is for in the training step."""

    INPUT = "input"
    PARAMETER = "parameter"
    OPTIMIZER_STATE = "optimizer_state"
    BATCH = "batch"
    CONSTANT = "constant"
    ACTIVATION = "activation"
    OUTPUT = "output"


STATE_ROLES = frozenset({Role.PARAMETER, Role.OPTIMIZER_STATE})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One value of the graph.

    Attributes:
        id: its row in ``Graph.tensors``.
        shape: sizes of its dims; ``()`` for a scalar.
        dtype: element type by name, such as ``bfloat16``.
        role: what it is for.
        name: the user's name, a pytree path such as ``params.layers.3.mlp.up``; may be empty.
        value: the literal of a scalar constant, else None.
    """

    id: int
    shape: tuple[int, ...]
    dtype: str
    role: Role
    name: str = ""
    value: bool | int | float | None = None

    @property
    def rank(self) -> int:
        """How many dims it has."""
        return len(self.shape)

    @property
    def num_elements(self) -> int:
        """How many elements it holds; 1 for a scalar, 0 when a dim is empty."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.num_elements * itemsize_bytes(self.dtype)

    @property
    def label(self) -> str:
        """The user's name where there is one, else ``%id``."""
        return self.name or f"%{self.id}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A sub-graph that an operator runs: a loop body, a branch, a rematerialised block."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ops: tuple[Op, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operator.

    Attributes:
        id: unique in the graph, nested regions included; running order within a region.
        kind: the primitive's name.
        operands: tensor ids read.
        results: tensor ids written.
        attributes: sorted (name, literal) pairs.
        regions: bodies of ``scan`` (body), ``while`` (cond, body), ``cond`` (branches), ``remat2``.
        scope: the user's name stack, such as ``layers.3/mlp``; may be empty.
        source: the user's line, such as ``model.py:88``; may be empty.
    """

    id: int
    kind: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    regions: tuple[Region, ...] = ()
    scope: str = ""
    source: str = ""

    def attribute(self, name: str, default: Attribute = None) -> Attribute:
        """The literal stored under ``name``, or ``default``."""
        for key, value in self.attributes:
            if key == name:
                return value
        return default


@final
@dataclass(frozen=True, kw_only=True)
class Graph:
    """A whole step.

    Attributes:
        name: the step function's name.
        tensors: every tensor, nested ones too; row number is ``Tensor.id``.
        inputs: tensor ids of the flattened arguments, in order, then of captured constants.
        outputs: tensor ids of the flattened results, in order; a tensor may appear twice.
        ops: top-level operators in running order.
        state_pairs: (input id, output id) of state that a step replaces; a pair shares one
            sharding, and its input buffer is donated.
    """

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ops: tuple[Op, ...]
    state_pairs: tuple[tuple[int, int], ...] = ()

    def tensor(self, tensor_id: int) -> Tensor:
        """The tensor of that id."""
        return self.tensors[tensor_id]

    def walk(self) -> Iterator[Op]:
        """Every operator, outer before inner, in running order."""
        return _walk(self.ops)

    @cached_property
    def ops_by_id(self) -> dict[int, Op]:
        """Every operator by its id, nested ones too."""
        return {op.id: op for op in self.walk()}

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that planning depends on; names and source lines are left out."""
        digest = hashlib.sha256()
        digest.update("".join(self._tensor_texts()).encode())
        digest.update("".join(self._op_texts()).encode())
        digest.update(f"{self.inputs}{self.outputs}{self.state_pairs}".encode())
        return digest.hexdigest()[:16]

    def _tensor_texts(self) -> Iterator[str]:
        shapes, roles = _Texts(), {role: str(role) for role in Role}
        for tensor in self.tensors:
            yield f"{shapes.of(tensor.shape)}{tensor.dtype}{roles[tensor.role]}{tensor.value}"

    def _op_texts(self) -> Iterator[str]:
        attributes = _Texts()
        for op in self.walk():
            text, regions = attributes.of(op.attributes), "[]"
            if op.regions:
                regions = str([(r.name, r.inputs, r.outputs) for r in op.regions])
            yield f"{op.id}{op.kind}{op.operands}{op.results}{text}{regions}"


@final
class _Texts:
    """Texts of objects that many records share, and that outlive it: each is made once."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def of(self, value: object) -> str:
        # By identity: equal values, such as 1 and True, may have different texts.
        text = self._known.get(id(value))
        if text is None:
            text = self._known[id(value)] = str(value)
        return text


def _walk(ops: tuple[Op, ...]) -> Iterator[Op]:
    for op in ops:
        yield op
        for region in op.regions:
            yield from _walk(region.ops)
