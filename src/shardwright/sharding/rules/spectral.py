"""Fourier transforms: the transformed dims must be whole, the dims before them pass through."""

from __future__ import annotations

from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules.draft import RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView


def fft_rule(view: OpView) -> OpRule:
    """The last dims, one for each length, must be whole; real transforms change the last size."""
    operand, result = view.operands[0], view.results[0]
    batch_rank = operand.rank - len(view.ints("fft_lengths"))
    draft = RuleDraft()
    batch = [draft.passes("b", size) for size in operand.shape[:batch_rank]]
    before = [draft.whole(size) for size in operand.shape[batch_rank:]]
    after = [draft.whole(size) for size in result.shape[batch_rank:]]
    return draft.rule([batch + before], [batch + after])


RULES: dict[str, RuleFunction] = {"fft": fft_rule}
