"""Sorting and choosing along one dim: that dim must be whole, every other passes through."""

from __future__ import annotations

from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules.draft import RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView


def sort_rule(view: OpView) -> OpRule:
    """The sorted dim must be whole; keys and the operands that follow them share every dim."""
    sorted_dim = _dim(view, "dimension")
    draft = RuleDraft()
    dims = [
        draft.whole(size) if dim == sorted_dim else draft.passes("d", size)
        for dim, size in enumerate(view.operands[0].shape)
    ]
    return draft.rule([dims] * len(view.operands), [dims] * len(view.results))


def top_k_rule(view: OpView) -> OpRule:
    """The searched dim must be whole, and so must the dim of the k found."""
    name = "reduction_dimension" if view.kind == "approx_top_k" else "axis"
    operand, result = view.operands[0], view.results[0]
    searched = _dim(view, name, default=operand.rank - 1)
    draft = RuleDraft()
    passing = [
        () if dim == searched else draft.passes("d", size) for dim, size in enumerate(operand.shape)
    ]
    before, after = list(passing), list(passing)
    before[searched] = draft.whole(operand.shape[searched])
    after[searched] = draft.whole(result.shape[searched], "k")
    return draft.rule([before], [after] * len(view.results))


def arg_reduce_rule(view: OpView) -> OpRule:
    """The searched dim must be whole: the place of the best of one part says nothing alone."""
    searched = view.ints("axes")
    draft = RuleDraft()
    dims = [
        draft.whole(size) if dim in searched else draft.passes("d", size)
        for dim, size in enumerate(view.operands[0].shape)
    ]
    result = [dim for place, dim in enumerate(dims) if place not in searched]
    return draft.rule([dims], [result])


RULES: dict[str, RuleFunction] = {
    "approx_top_k": top_k_rule,
    "argmax": arg_reduce_rule,
    "argmin": arg_reduce_rule,
    "sort": sort_rule,
    "top_k": top_k_rule,
}


def _dim(view: OpView, name: str, default: int = 0) -> int:
    value = view.attribute(name)
    return value % view.operands[0].rank if isinstance(value, int) else default
