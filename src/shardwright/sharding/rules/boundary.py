"""Rules of operators that hand values on unchanged, and of the borders of regions.

The kinds ``shard.*`` are no primitives: planning puts them where a value enters or leaves the body
of a loop or a branch, so that both sides of the border are priced and agreed on.
"""

from __future__ import annotations

from shardwright.ir import Tensor
from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules.draft import RuleDraft, RuleFunction
from shardwright.sharding.rules.elementwise import elementwise_rule
from shardwright.sharding.rules.view import OpView


def hand_on_rule(view: OpView) -> OpRule:
    """The rule ``i j, k -> i j, k``: each result is its operand, cut in any way of its own."""
    draft = RuleDraft()
    dims = [draft.all_pass(tensor.shape) for tensor in view.operands]
    return draft.rule(dims, dims)


def scan_slice_rule(view: OpView) -> OpRule:
    """The rule ``w i j -> i j``: one iteration's part of what a loop walks over."""
    return _iterated(view, view.results[0], stacked_is_operand=True)


def scan_stack_rule(view: OpView) -> OpRule:
    """The rule ``i j -> w i j``: the results of all iterations, stacked."""
    return _iterated(view, view.operands[0], stacked_is_operand=False)


def carry_back_rule(view: OpView) -> OpRule:
    """The rule ``i j, i j ->``: a carry's next value lies as the carry does; nothing is written."""
    draft = RuleDraft()
    dims = draft.all_pass(view.operands[0].shape)
    return draft.rule([dims, dims], [])


def _iterated(view: OpView, single: Tensor, *, stacked_is_operand: bool) -> OpRule:
    draft = RuleDraft()
    dims = draft.all_pass(single.shape)
    stacked_tensor = view.operands[0] if stacked_is_operand else view.results[0]
    # Iterations run one after the other on every device, so no device can skip some.
    stacked = [draft.whole(stacked_tensor.shape[0]), *dims]
    return draft.rule([stacked], [dims]) if stacked_is_operand else draft.rule([dims], [stacked])


RULES: dict[str, RuleFunction] = {
    "device_put": hand_on_rule,
    "optimization_barrier": hand_on_rule,
    "shard.alias": elementwise_rule,
    "shard.carry": elementwise_rule,
    "shard.carry_back": carry_back_rule,
    "shard.join": elementwise_rule,
    "shard.scan_slice": scan_slice_rule,
    "shard.scan_stack": scan_stack_rule,
    "sharding_constraint": elementwise_rule,
}
