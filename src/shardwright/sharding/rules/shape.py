"""Rules of operators that rearrange or copy whole dims: transpose, broadcast, reversal, tiling."""

from __future__ import annotations

from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction, dim_name
from shardwright.sharding.rules.view import OpView


def transpose_rule(view: OpView) -> OpRule:
    """The rule ``i j k -> k i j`` of any permutation of dims."""
    draft = RuleDraft()
    dims = draft.all_pass(view.operands[0].shape)
    return draft.rule([dims], [[dims[d] for d in view.ints("permutation")]])


def broadcast_in_dim_rule(view: OpView) -> OpRule:
    """The rule ``j -> i j``: new dims, and dims grown from size 1, are the result's alone."""
    operand, result = view.operands[0], view.results[0]
    draft = RuleDraft()
    made = draft.all_pass(result.shape)
    dims: list[Dim] = [
        made[d] if operand.shape[source] == result.shape[d] else ()
        for source, d in enumerate(view.ints("broadcast_dimensions"))
    ]
    return draft.rule([dims], [made])


def squeeze_rule(view: OpView) -> OpRule:
    """The rule ``i 1 j -> i j``: the dims taken away have size 1."""
    draft = RuleDraft()
    operand = view.operands[0]
    gone = {d % operand.rank for d in view.ints("dimensions")}
    dims = draft.all_pass(operand.shape)
    return draft.rule([dims], [[dim for d, dim in enumerate(dims) if d not in gone]])


def rev_rule(view: OpView) -> OpRule:
    """The rule ``i j -> i j`` where reversed dims change places between devices."""
    draft = RuleDraft()
    reversed_dims = view.ints("dimensions")
    dims = [
        draft.moves(dim_name(d), size) if d in reversed_dims else draft.passes(dim_name(d), size)
        for d, size in enumerate(view.operands[0].shape)
    ]
    return draft.rule([dims], [dims])


def tile_rule(view: OpView) -> OpRule:
    """The rule ``i j -> (r i) (s j)``: repeats are the major factors, and the result's alone."""
    draft = RuleDraft()
    dims = draft.all_pass(view.operands[0].shape)
    repeats = [draft.passes("r", count) for count in view.ints("reps")]
    return draft.rule([dims], [[r + dim for r, dim in zip(repeats, dims, strict=True)]])


def bitcast_rule(view: OpView) -> OpRule:
    """The rule ``i j -> i j w``: an element split into words, or made of them, is whole.

    Words of the same width pass one by one.
    """
    operand, result = view.operands[0], view.results[0]
    draft = RuleDraft()
    rank = min(operand.rank, result.rank)
    dims = draft.all_pass(operand.shape[:rank])
    return draft.rule(
        [[*dims, *draft.all_whole(operand.shape[rank:])]],
        [[*dims, *draft.all_whole(result.shape[rank:])]],
    )


RULES: dict[str, RuleFunction] = {
    "bitcast_convert_type": bitcast_rule,
    "broadcast_in_dim": broadcast_in_dim_rule,
    "random_unwrap": bitcast_rule,
    "random_wrap": bitcast_rule,
    "rev": rev_rule,
    "squeeze": squeeze_rule,
    "tile": tile_rule,
    "transpose": transpose_rule,
}
