"""Which rule describes which operator kind, and the recorded fallback for kinds without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shardwright.ir import Graph, Op
from shardwright.sharding.factor import Factor, FactorKind, OpRule, TensorFactors
from shardwright.sharding.rules.view import OpView

RuleFunction = Callable[[OpView], OpRule]


def _build_registry() -> Mapping[str, RuleFunction]:
    return {}


_REGISTRY = _build_registry()


def registered_kinds() -> tuple[str, ...]:
    """Every operator kind that has a rule, sorted."""
    return tuple(sorted(_REGISTRY))


def rule_for(op: Op, graph: Graph) -> OpRule:
    """The factors of ``op``; a kind without a rule keeps every dim whole and says so.

    Returns:
        A rule whose ``fallback`` is empty, or the reason why the operator is kept whole.
    """
    view = OpView.of(op, graph)
    build = _REGISTRY.get(op.kind)
    if build is None:
        return whole_rule(view, f'no rule for "{op.kind}"')
    return build(view)


def whole_rule(view: OpView, reason: str) -> OpRule:
    """A rule under which every dim of every operand and result must be whole."""
    factors: list[Factor] = []

    def dims_of(shape: tuple[int, ...]) -> TensorFactors:
        dims = []
        for size in shape:
            dims.append((len(factors),))
            name = f"w{len(factors)}"
            factors.append(Factor(name=name, size=size, kind=FactorKind.NEED_REPLICATION))
        return tuple(dims)

    operands = tuple(dims_of(tensor.shape) for tensor in view.operands)
    results = tuple(dims_of(tensor.shape) for tensor in view.results)
    return OpRule(factors=tuple(factors), operands=operands, results=results, fallback=reason)
