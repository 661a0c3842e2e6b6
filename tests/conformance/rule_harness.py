"""The proof of operator rules: each factor cut, run in shards, and compared with the whole.

A table of rows (``RuleRow``) holds one primitive application each, with numbers. ``trace`` finds
the equation of the primitive and asks for its rule; ``prove`` then cuts each factor of the rule:

- pass-through: the shards' results are laid side by side and must equal the whole's;
- reduction: the shards' results are joined by the combiner and must equal the whole's;
- halo: each shard gets its part and the neighbours' edges, and padding only at the true edges;
- permutation and need-replication: a naive run in shards must be impossible or wrong, so that no
  rule is lazy; a row names the factors that are whole for another reason.

Everything runs eagerly on one CPU device; cutting and joining is numpy's.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np
from jax.extend.core import JaxprEqn, Literal
from tests.conformance.rule_cutting import COMBINE, Cut, HaloPart, halo_part

from shardwright.ir import Attribute, Graph, Op, Role, Tensor
from shardwright.sharding.factor import Combiner, Factor, FactorKind, OpRule, TensorFactors
from shardwright.sharding.rules import rule_for

KEY_WORDS = np.dtype([("words", np.uint32, (2,))])
"""Typed random keys on the host: one structured element per key, so that numpy can cut them."""

IMPOSSIBLE = (TypeError, ValueError, IndexError, ZeroDivisionError)
"""What a primitive raises when its operands do not fit each other."""


@final
@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """One application of one primitive.

    Attributes:
        kind: the primitive's name; the function must apply it exactly once.
        case: words that tell this row from the others of its kind; may be empty.
        function: a function of ``arguments`` that applies the primitive. Operations around it are
            fine: the equation's operands are computed from the arguments.
        arguments: numpy arrays (``keys`` makes typed random keys). Sizes: 6 or 12 are good, since
            every factor is cut 2-way and 3- or 4-way.
        rule: the rule's text up to the sizes (``"b m k, b k n -> b m n"``), compared where given.
        local: the operator as one shard runs it, where that is not the same primitive with the
            same parameters on smaller operands: called as ``local(shard, *operands)``, it returns
            the results (one, or a tuple). ``shard.bind(*operands, shape=...)`` runs the primitive
            with some parameters changed.
        conservative: factors kept whole though some run in shards exists, with the reason.
        opaque: the operator is kept whole on purpose: a fallback with a reason is expected.
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
    """A row's equation with its rule and the numbers of the whole run.

    Attributes:
        row: the row.
        eqn: the equation of the primitive under test.
        op: the operator made of it.
        graph: a graph that holds the operator alone.
        rule: what the registry says.
        operands: host arrays.
        results: host arrays of the whole run.
    """

    row: RuleRow
    eqn: JaxprEqn
    op: Op
    graph: Graph
    rule: OpRule
    operands: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]


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
    """

    traced: Traced
    factor: Factor
    index: int
    count: int
    operand_dims: tuple[int | None, ...]
    result_dims: tuple[int | None, ...]
    result_shapes: tuple[tuple[int, ...], ...]
    halo: HaloPart | None = None

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
        return self.traced.eqn.params[name]

    def bind(self, *operands: Any, **changed: Any) -> Any:
        """The primitive's results on these operands, some parameters changed."""
        return bind(self.traced.eqn, operands, **changed)


# --- tracing -------------------------------------------------------------------------------------


def trace(row: RuleRow) -> Traced:
    """The row's equation, run whole, and its rule."""
    arguments = [to_device(argument) for argument in row.arguments]
    closed = jax.make_jaxpr(row.function)(*arguments)
    eqn, values = _find(closed.jaxpr, list(closed.consts), arguments, row.kind)
    op, graph = _graph_of(eqn)
    results = tuple(to_host(value) for value in _as_tuple(bind(eqn, values)))
    operands = tuple(to_host(value) for value in values)
    rule = rule_for(op, graph)
    return Traced(
        row=row, eqn=eqn, op=op, graph=graph, rule=rule, operands=operands, results=results
    )


def bind(eqn: JaxprEqn, operands: Any, **changed: Any) -> Any:
    """The equation's primitive applied to ``operands``."""
    params = eqn.primitive.get_bind_params({**eqn.params, **changed})
    with eqn.ctx.manager:
        return eqn.primitive.bind(*[to_device(operand) for operand in operands], **params)


def to_device(value: Any) -> Any:
    """A jax array; host keys become typed keys."""
    if isinstance(value, np.ndarray) and value.dtype == KEY_WORDS:
        return jax.random.wrap_key_data(np.ascontiguousarray(value["words"]))
    return jax.numpy.asarray(value) if isinstance(value, np.ndarray | np.generic) else value


def to_host(value: Any) -> np.ndarray:
    """A numpy array; typed keys become structured elements."""
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        words = np.ascontiguousarray(jax.random.key_data(value))
        return words.view(KEY_WORDS)[..., 0]
    return np.asarray(value)


def _as_tuple(results: Any) -> tuple[Any, ...]:
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
        values.update(zip(eqn.outvars, _as_tuple(bind(eqn, operands)), strict=True))
    raise LookupError(f"the row's function does not apply {kind}: {jaxpr}")


def _graph_of(eqn: JaxprEqn) -> tuple[Op, Graph]:
    tensors: list[Tensor] = []
    for atom in (*eqn.invars, *eqn.outvars):
        value = None
        if isinstance(atom, Literal) and atom.aval.shape == ():
            value = np.asarray(atom.val).item()
        tensors.append(
            Tensor(
                id=len(tensors),
                shape=tuple(int(size) for size in atom.aval.shape),
                dtype=str(atom.aval.dtype),
                role=Role.ACTIVATION if value is None else Role.CONSTANT,
                value=value,
            )
        )
    arity = len(eqn.invars)
    ids = tuple(range(len(tensors)))
    op = Op(
        id=0,
        kind=eqn.primitive.name,
        operands=ids[:arity],
        results=ids[arity:],
        attributes=tuple(sorted(_attributes(eqn.params))),
    )
    graph = Graph(
        name="row", tensors=tuple(tensors), inputs=ids[:arity], outputs=ids[arity:], ops=(op,)
    )
    return op, graph


def _attributes(params: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Attribute]]:
    found: list[tuple[str, Attribute]] = []
    for name, value in params.items():
        if hasattr(value, "_fields"):
            found += _attributes(value._asdict(), f"{prefix}{name}.")
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            found += _attributes(dataclasses.asdict(value), f"{prefix}{name}.")
        elif name == "jaxpr" and not prefix:
            found.append(("combiner", _combiner(value)))
        else:
            found.append((f"{prefix}{name}", _literal(value)))
    return found


def _combiner(closed: Any) -> str:
    jaxpr = getattr(closed, "jaxpr", closed)
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    known = ("add", "max", "min", "mul", "and", "or")
    return names[0] if len(names) == 1 and names[0] in known else ""


def _literal(value: Any) -> Attribute:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, list | tuple):
        return tuple(_literal(item) for item in value)
    return str(getattr(value, "name", value))


# --- proving -------------------------------------------------------------------------------------


def prove(row: RuleRow) -> OpRule:
    """The row's rule, once every factor of it has been cut and compared.

    Raises:
        AssertionError: a claim of the rule does not hold, or a factor is kept whole for nothing.
    """
    traced = trace(row)
    assert bool(traced.rule.fallback) == row.opaque, traced.rule.fallback or "a fallback expected"
    if row.rule:
        assert str(traced.rule).split("  {")[0] == row.rule
    check_structure(traced)
    for position, factor in enumerate(traced.rule.factors):
        try:
            _prove_factor(traced, position)
        except Exception as error:
            raise AssertionError(f"factor {factor.name} of {traced.rule}: {error}") from error
    unknown = row.conservative.keys() - {factor.name for factor in traced.rule.factors}
    assert not unknown, f"the row excuses factors that the rule does not have: {unknown}"
    return traced.rule


def check_structure(traced: Traced) -> None:
    """Nothing, if the rule describes exactly the tensors of its operator."""
    rule, op, graph = traced.rule, traced.op, traced.graph
    names = [factor.name for factor in rule.factors]
    assert len(set(names)) == len(names), f"a factor's name is used twice: {rule}"
    for factor in rule.factors:
        assert factor.size > 1, f"factor {factor.name} cannot be cut: its size is {factor.size}"
        assert (factor.combiner is not None) == (factor.kind is FactorKind.REDUCTION), factor
        assert (factor.window is not None) == (factor.kind is FactorKind.HALO), factor
        assert factor.size % factor.block == 0, factor
    used = {p for dims in (*rule.operands, *rule.results) for dim in dims for p in dim}
    assert used == set(range(len(names))), f"a factor is in no dim: {rule}"
    for tensor_id, dims in zip(op.operands, rule.operands, strict=True):
        _check_tensor(rule, graph.tensor(tensor_id).shape, dims, is_operand=True)
    for tensor_id, dims in zip(op.results, rule.results, strict=True):
        _check_tensor(rule, graph.tensor(tensor_id).shape, dims, is_operand=False)


def _check_tensor(
    rule: OpRule, shape: tuple[int, ...], dims: TensorFactors, *, is_operand: bool
) -> None:
    assert len(dims) == len(shape), f"a tensor of shape {shape} has {len(dims)} dims in {rule}"
    for size, dim in zip(shape, dims, strict=True):
        factors = [rule.factors[position] for position in dim]
        if is_operand and any(factor.kind is FactorKind.HALO for factor in factors):
            assert len(dim) == 1, f"a halo factor shares a dim in {rule}"
            continue
        product = math.prod(factor.size for factor in factors)
        assert product == size or (not dim and size == 0), (
            f"a dim of size {size} has factors of product {product} in {rule}"
        )


def cut_counts(factor: Factor) -> tuple[int, ...]:
    """Into how many parts the factor is cut: 2 and 3, or 2 and 4, or what divides it."""
    blocks = factor.size // factor.block
    counts = tuple(count for count in (2, 3, 4) if blocks % count == 0)[:2]
    if factor.kind in (FactorKind.NEED_REPLICATION, FactorKind.PERMUTATION):
        return counts[:1] or (next(n for n in range(2, blocks + 1) if blocks % n == 0),)
    assert len(counts) == 2, (
        f"its {blocks} blocks cannot be cut 2-way and 3- or 4-way: choose 4, 6 or 12"
    )
    return counts


def _prove_factor(traced: Traced, position: int) -> None:
    factor = traced.rule.factors[position]
    for count in cut_counts(factor):
        cut = Cut(rule=traced.rule, position=position, count=count)
        if factor.kind in (FactorKind.NEED_REPLICATION, FactorKind.PERMUTATION):
            if factor.name not in traced.row.conservative:
                _prove_not_lazy(traced, cut)
        else:
            _compare(traced, cut, factor.combiner)


def _compare(traced: Traced, cut: Cut, combiner: Combiner | None) -> None:
    """Nothing, if the shards' results make up the whole results."""
    shards = [run_shard(traced, cut, index) for index in range(cut.count)]
    for r, (whole, dims) in enumerate(zip(traced.results, traced.rule.results, strict=True)):
        parts = [results[r] for results in shards]
        where = f"result {r} cut {cut.count}-way"
        if cut.carries(dims):
            expected = cut.local_shape(whole.shape, dims)
            for part in parts:
                assert part.shape == expected, f"{where}: {part.shape} is not {expected}"
            _assert_close(cut.join(parts, dims), whole, where)
        elif combiner is not None:
            total = parts[0]
            for part in parts[1:]:
                total = COMBINE[combiner](total, part)
            _assert_close(total, whole, f"{where}, joined by {combiner}")
        else:
            for index, part in enumerate(parts):
                _assert_close(part, whole, f"{where}, shard {index} of a whole result")


def run_shard(traced: Traced, cut: Cut, index: int) -> tuple[np.ndarray, ...]:
    """The results of one shard."""
    rule = traced.rule
    factor = rule.factors[cut.position]
    halo: HaloPart | None = None
    operands = []
    for whole, dims in zip(traced.operands, rule.operands, strict=True):
        d = cut.dim_of(dims)
        if factor.window is not None and d is not None:
            halo = halo_part(factor.window, whole.shape[d], factor.size, index, cut.count)
            _check_halo(factor, halo, whole.shape[d], index, cut.count)
            operands.append(np.take(whole, range(halo.start, halo.stop), axis=d))
        else:
            operands.append(cut.part(whole, dims, index))
    shard = Shard(
        traced=traced,
        factor=factor,
        index=index,
        count=cut.count,
        operand_dims=tuple(cut.dim_of(dims) for dims in rule.operands),
        result_dims=tuple(cut.dim_of(dims) for dims in rule.results),
        result_shapes=tuple(
            cut.local_shape(whole.shape, dims)
            for whole, dims in zip(traced.results, rule.results, strict=True)
        ),
        halo=halo,
    )
    local = traced.row.local or Shard.bind
    return tuple(to_host(value) for value in _as_tuple(local(shard, *map(to_device, operands))))


def _check_halo(factor: Factor, halo: HaloPart, size: int, index: int, count: int) -> None:
    """Nothing, if the shard reads its own part and no further than its neighbours' parts."""
    part = -(-size // count)
    assert halo.start >= (index - 1) * part and halo.stop <= (index + 2) * part, (
        f"shard {index} of {count} reads {halo}, beyond its neighbours of {part}"
    )
    window = factor.window
    assert window is not None
    if window.base_dilation == 1:
        inner_low = index > 0 and halo.start > 0
        inner_high = index < count - 1 and halo.stop < size
        assert not (inner_low and halo.pad_low > 0), "padding inside the operand"
        assert not (inner_high and halo.pad_high > 0), "padding inside the operand"


def _prove_not_lazy(traced: Traced, cut: Cut) -> None:
    """Nothing, if no naive run in shards along the factor gives the whole results."""
    in_results = any(cut.carries(dims) for dims in traced.rule.results)
    for combiner in (None,) if in_results else (None, *Combiner):
        try:
            _compare(traced, cut, combiner)
        except (*IMPOSSIBLE, AssertionError):
            continue
        how = "passes through" if combiner is None else f"reduces by {combiner}"
        raise AssertionError(f"it is called {traced.rule.factors[cut.position].kind}, yet it {how}")


def _assert_close(actual: np.ndarray, expected: np.ndarray, where: str) -> None:
    assert actual.shape == expected.shape, f"{where}: {actual.shape} is not {expected.shape}"
    if expected.dtype == KEY_WORDS:
        actual, expected = actual["words"], expected["words"]
    assert actual.dtype == expected.dtype, f"{where}: {actual.dtype} is not {expected.dtype}"
    if expected.dtype.kind in "biu":
        assert np.array_equal(actual, expected), f"{where}: numbers differ"
    else:
        np.testing.assert_allclose(
            actual.astype(np.complex128),
            expected.astype(np.complex128),
            rtol=2e-5,
            atol=2e-5,
            err_msg=where,
        )


# --- numbers for rows ------------------------------------------------------------------------


def floats(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """float32 numbers, uniform between ``low`` and ``high``."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def ints(*shape: int, low: int = 0, high: int = 100, seed: int = 0) -> np.ndarray:
    """int32 numbers from ``low`` up to ``high``, that one left out."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


def words(*shape: int, seed: int = 0) -> np.ndarray:
    """uint32 numbers of the whole range."""
    return np.random.default_rng(seed).integers(0, 2**32, shape, dtype=np.uint32)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    """Booleans."""
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.bool_)


def complexes(*shape: int, seed: int = 0) -> np.ndarray:
    """complex64 numbers."""
    return (floats(*shape, seed=seed) + 1j * floats(*shape, seed=seed + 1)).astype(np.complex64)


def keys(*shape: int, seed: int = 0) -> np.ndarray:
    """Typed random keys, as host arrays."""
    return words(*shape, 2, seed=seed).view(KEY_WORDS)[..., 0]
