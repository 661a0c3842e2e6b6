"""Rules of prefix sums and their kin: the dim that is summed along must be whole.

A prefix scan over shards exists; it is not a combiner of partial results, so it is not used yet.
"""

from __future__ import annotations

from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules.draft import RuleDraft, RuleFunction, dim_name
from shardwright.sharding.rules.view import OpView

_KINDS = ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum")


def cumulative_rule(view: OpView) -> OpRule:
    """The rule ``i j -> i j`` with the dim ``axis`` whole."""
    axis = view.integer("axis")
    draft = RuleDraft()
    dims = [
        draft.whole(size) if d == axis else draft.passes(dim_name(d), size)
        for d, size in enumerate(view.operands[0].shape)
    ]
    return draft.rule([dims], [dims])


RULES: dict[str, RuleFunction] = dict.fromkeys(_KINDS, cumulative_rule)
