"""One row of the rules' proof: the primitive that it applies, found, run whole, and its rule.

The equation is written down with the parameters that capture writes, so a rule is proven on the
attributes that it will meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np
from jax.extend.core import JaxprEqn, Literal

from shardwright.capture.attributes import attributes_of, dtype_name
from shardwright.capture.build import literal_value
from shardwright.ir import Graph, Op, Role, Tensor
from shardwright.sharding.factor import Factor, OpRule
from shardwright.sharding.rules import rule_for
from tests.conformance.rule_cutting import HaloPart
from tests.conformance.rule_numbers import KEY_WORDS


@final
@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """One application of one primitive.

    Attributes:
        kind: the primitive's name; the first equation of it that the function makes is taken. A
            kind "shard.*" is no primitive: the function itself, of numpy arrays, is what runs.
        case: words that tell this row from the others of its kind; may be empty.
        function: a function of ``arguments`` that applies the primitive. Operations around it are
            fine: the equation's operands are computed from the arguments.
        arguments: numpy arrays (``keys`` makes typed random keys). Sizes: 4, 6 or 12 are good,
            since factors are cut 2-way and 3- or 4-way.
        rule: the rule's text up to the sizes (``"b m k, b k n -> b m n"``), compared where given.
        local: the operator as one shard runs it, where that is not the same primitive with the
            same parameters on smaller operands: called as ``local(shard, *operands)``, it returns
            the results (one, or a tuple). ``shard.bind(*operands, shape=...)`` runs the primitive
            with some parameters changed.
        conservative: factors kept whole though some run in shards exists, with the reason.
        opaque: the operator is kept whole on purpose: a fallback with a reason is expected, and
            the operator is not run.
    """

    kind: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    case: str = ""
    rule: str = ""
    local: Callable[..., Any] | None = None
    conservative: Mapping[str, str] = field(default_factory=dict)
    opaque: bool = False

    @property
    def label(self) -> str:
        """The row's name in a test report."""
        return f"{self.kind}-{self.case}" if self.case else self.kind


@final
@dataclass(frozen=True, kw_only=True)
class Traced:
    """A row's equation with its rule and the numbers that it is run on.

    Attributes:
        row: the row.
        eqn: the equation of the primitive under test; None for a kind that is no primitive.
        op: the operator made of it.
        graph: a graph that holds the operator alone.
        rule: what the registry says.
        operands: host arrays.
    """

    row: RuleRow
    eqn: JaxprEqn | None
    op: Op
    graph: Graph
    rule: OpRule
    operands: tuple[np.ndarray, ...]

    @property
    def result_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the whole results."""
        return tuple(self.graph.tensor(tensor_id).shape for tensor_id in self.op.results)


@final
@dataclass(frozen=True, kw_only=True)
class Shard:
    """What a row's ``local`` is told of the shard that it runs.

    Attributes:
        traced: the whole run.
        factor: the factor that is cut.
        index: which shard, of ``count``.
        count: how many shards.
        operand_dims: for each operand the dim that the factor is in, or None.
        result_dims: the same for each result.
        result_shapes: the shapes that the shard's results must have.
        halo: what it reads of a halo factor's operands, else None.
        binder: what ``bind`` does with operands and changed parameters.
    """

    traced: Traced
    factor: Factor
    index: int
    count: int
    operand_dims: tuple[int | None, ...]
    result_dims: tuple[int | None, ...]
    result_shapes: tuple[tuple[int, ...], ...]
    halo: HaloPart | None = None
    binder: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None

    @property
    def size(self) -> int:
        """Iterations of the factor that the shard has."""
        return self.factor.size // self.count

    @property
    def start(self) -> int:
        """The first iteration of the factor that the shard has."""
        return self.index * self.size

    def param(self, name: str) -> Any:
        """The whole primitive's parameter."""
        assert self.traced.eqn is not None
        return self.traced.eqn.params[name]

    def bind(self, *operands: Any, **changed: Any) -> Any:
        """The primitive's results on these operands, some parameters changed."""
        assert self.binder is not None
        return self.binder(operands, changed)


def trace(row: RuleRow) -> Traced:
    """The row's equation with its operands and its rule."""
    if row.kind.startswith("shard."):
        return _trace_border(row)
    arguments = [to_device(argument) for argument in row.arguments]
    closed = jax.make_jaxpr(row.function)(*arguments)
    eqn, values = _find(closed.jaxpr, list(closed.consts), arguments, row.kind)
    atoms = (*eqn.invars, *eqn.outvars)
    op, graph = _graph_of(row.kind, atoms, len(eqn.invars), eqn.params)
    operands = tuple(to_host(value) for value in values)
    return Traced(row=row, eqn=eqn, op=op, graph=graph, rule=rule_for(op, graph), operands=operands)


def _trace_border(row: RuleRow) -> Traced:
    results = as_tuple(row.function(*row.arguments))
    op, graph = _graph_of(row.kind, (*row.arguments, *results), len(row.arguments), {})
    return Traced(
        row=row,
        eqn=None,
        op=op,
        graph=graph,
        rule=rule_for(op, graph),
        operands=row.arguments,
    )


def bind(eqn: JaxprEqn, operands: Any, **changed: Any) -> Any:
    """The equation's primitive applied to ``operands``."""
    params = eqn.primitive.get_bind_params({**eqn.params, **changed})
    with eqn.ctx.manager:
        return eqn.primitive.bind(*[to_device(operand) for operand in operands], **params)


def to_device(value: Any) -> Any:
    """What jax takes: host keys become typed keys, other arrays are taken as they are."""
    if isinstance(value, np.ndarray) and value.dtype == KEY_WORDS:
        return jax.random.wrap_key_data(np.ascontiguousarray(value["words"]))
    return value


def to_host(value: Any) -> np.ndarray:
    """A numpy array; typed keys become structured elements."""
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        words = np.ascontiguousarray(jax.random.key_data(value))
        return words.view(KEY_WORDS)[..., 0]
    return np.asarray(value)


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of a primitive, which are a list only where it may have several."""
    return tuple(results) if isinstance(results, list | tuple) else (results,)


def _find(jaxpr: Any, consts: list[Any], arguments: list[Any], kind: str) -> tuple[JaxprEqn, list]:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return np.asarray(atom.val, atom.aval.dtype) if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        if eqn.primitive.name == kind:
            return eqn, operands
        body = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if eqn.primitive.name in ("jit", "custom_jvp_call", "custom_vjp_call"):
            try:
                return _find(body.jaxpr, list(body.consts), operands, kind)
            except LookupError:
                pass
        values.update(zip(eqn.outvars, as_tuple(bind(eqn, operands)), strict=True))
    raise LookupError(f"the row's function does not apply {kind}: {jaxpr}")


def _graph_of(
    kind: str, values: Sequence[Any], arity: int, params: Mapping[str, Any]
) -> tuple[Op, Graph]:
    """An operator and a graph that holds it alone; ``values`` have shapes and element types."""
    tensors = tuple(_tensor_of(place, value) for place, value in enumerate(values))
    ids = tuple(range(len(tensors)))
    operands, results = ids[:arity], ids[arity:]
    attributes = attributes_of(kind, params)
    op = Op(id=0, kind=kind, operands=operands, results=results, attributes=attributes)
    graph = Graph(name="row", tensors=tensors, inputs=operands, outputs=results, ops=(op,))
    return op, graph


def _tensor_of(tensor_id: int, value: Any) -> Tensor:
    aval = getattr(value, "aval", value)
    dtype = dtype_name(aval.dtype)
    is_number = isinstance(value, Literal) and aval.shape == ()
    return Tensor(
        id=tensor_id,
        shape=tuple(int(size) for size in aval.shape),
        dtype=dtype,
        role=Role.CONSTANT if is_number else Role.ACTIVATION,
        value=literal_value(value.val, dtype) if is_number else None,
    )
