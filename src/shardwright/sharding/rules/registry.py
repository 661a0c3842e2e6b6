"""Which rule describes which operator kind, and the recorded fallback for kinds without one."""

from __future__ import annotations

from collections.abc import Mapping

from shardwright.ir import Graph, Op
from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules import (
    boundary,
    conv,
    cumulative,
    dot,
    elementwise,
    gather,
    linalg,
    opaque,
    ordering,
    ragged,
    random,
    reduce,
    reshape,
    scatter,
    shape,
    slicing,
    spectral,
    window,
)
from shardwright.sharding.rules.draft import RuleFunction
from shardwright.sharding.rules.draft import whole_rule as whole_rule
from shardwright.sharding.rules.view import OpView

_FAMILIES: tuple[Mapping[str, RuleFunction], ...] = (
    boundary.RULES,
    conv.RULES,
    cumulative.RULES,
    dot.RULES,
    elementwise.RULES,
    gather.RULES,
    linalg.RULES,
    opaque.RULES,
    ordering.RULES,
    ragged.RULES,
    random.RULES,
    reduce.RULES,
    reshape.RULES,
    scatter.RULES,
    shape.RULES,
    slicing.RULES,
    spectral.RULES,
    window.RULES,
)


def merge_families(families: tuple[Mapping[str, RuleFunction], ...]) -> dict[str, RuleFunction]:
    """One table of all families' rules.

    Raises:
        ValueError: two families describe the same kind.
    """
    merged: dict[str, RuleFunction] = {}
    for family in families:
        twice = sorted(merged.keys() & family.keys())
        if twice:
            raise ValueError(f"two families of rules describe {', '.join(twice)}")
        merged.update(family)
    return merged


_REGISTRY: Mapping[str, RuleFunction] = merge_families(_FAMILIES)


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
