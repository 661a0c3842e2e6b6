"""Cutting and joining: slice, split, concatenate, stack, pad, and the slices that move at run time.

A dim that the operator takes whole passes through. A dim that it cuts, joins or pads has two sizes,
one in the operand and one in the result, so no even shards of the two line up: both must be whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardwright.ir import Tensor
from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView


def slice_rule(view: OpView) -> OpRule:
    """Dims taken whole pass; any other range of a dim needs it whole."""
    operand, result = view.operands[0], view.results[0]
    touched = _resized(operand, result)
    return _moved_rule(view, operand, (result,), touched)


def split_rule(view: OpView) -> OpRule:
    """The split dim must be whole in the operand and in each part."""
    return _moved_rule(view, view.operands[0], view.results, {view.integer("axis")})


def pad_rule(view: OpView) -> OpRule:
    """Dims without padding pass; a padded dim must be whole; so does the scalar padded with."""
    config = view.int_lists("padding_config")
    touched = {dim for dim, padding in enumerate(config) if padding != (0, 0, 0)}
    return _moved_rule(view, view.operands[0], view.results, touched)


def concatenate_rule(view: OpView) -> OpRule:
    """The joined dim must be whole in every operand and in the result."""
    result = view.results[0]
    draft, joined = RuleDraft(), view.integer("dimension")
    shared = _shared(draft, result.shape, {joined})
    operands = [_placed(draft, operand.shape, shared) for operand in view.operands]
    return draft.rule(operands, [_placed(draft, result.shape, shared)])


def stack_rule(view: OpView) -> OpRule:
    """The new dim must be whole; the others pass."""
    result, axis = view.results[0], view.integer("axis")
    draft = RuleDraft()
    shared = _shared(draft, result.shape, {axis})
    operand = [dim for place, dim in enumerate(shared) if place != axis and dim is not None]
    return draft.rule([operand] * len(view.operands), [_placed(draft, result.shape, shared)])


def unstack_rule(view: OpView) -> OpRule:
    """The dim that is taken apart must be whole; the others pass."""
    operand, axis = view.operands[0], view.integer("axis")
    draft = RuleDraft()
    shared = _shared(draft, operand.shape, {axis})
    result = [dim for place, dim in enumerate(shared) if place != axis and dim is not None]
    return draft.rule([_placed(draft, operand.shape, shared)], [result] * len(view.results))


def dynamic_slice_rule(view: OpView) -> OpRule:
    """Dims taken whole pass; a dim sliced at run time must be whole."""
    operand, result = view.operands[0], view.results[0]
    return _moved_rule(view, operand, (result,), _resized(operand, result))


def dynamic_update_slice_rule(view: OpView) -> OpRule:
    """Dims that the update covers pass; so does one where the update is a single row.

    A single row, such as the newest token of a key-value cache, falls in one shard: each device
    gets the update whole and writes it only if it falls in its own part. A longer update may
    straddle a border, so its dim must be whole.
    """
    operand, update = view.operands[0], view.operands[1]
    draft = RuleDraft()
    operand_dims: list[Dim] = []
    update_dims: list[Dim] = []
    for size, updated in zip(operand.shape, update.shape, strict=True):
        if updated == size or updated == 1:
            operand_dims.append(draft.passes("d", size))
            update_dims.append(operand_dims[-1] if updated == size else ())
        else:
            operand_dims.append(draft.whole(size))
            update_dims.append(draft.whole(updated))
    starts: list[tuple[Dim, ...]] = [()] * (len(view.operands) - 2)
    return draft.rule([operand_dims, update_dims, *starts], [operand_dims])


RULES: dict[str, RuleFunction] = {
    "concatenate": concatenate_rule,
    "dynamic_slice": dynamic_slice_rule,
    "dynamic_update_slice": dynamic_update_slice_rule,
    "pad": pad_rule,
    "slice": slice_rule,
    "split": split_rule,
    "stack": stack_rule,
    "unstack": unstack_rule,
}


def _moved_rule(
    view: OpView, operand: Tensor, results: Iterable[Tensor], touched: set[int]
) -> OpRule:
    draft = RuleDraft()
    shared = _shared(draft, operand.shape, touched)
    rest: list[tuple[Dim, ...]] = [()] * (len(view.operands) - 1)
    operand_dims = _placed(draft, operand.shape, shared)
    return draft.rule(
        [operand_dims, *rest], [_placed(draft, result.shape, shared) for result in results]
    )


def _shared(draft: RuleDraft, shape: tuple[int, ...], touched: set[int]) -> list[Dim | None]:
    return [None if dim in touched else draft.passes("d", size) for dim, size in enumerate(shape)]


def _placed(draft: RuleDraft, shape: tuple[int, ...], shared: list[Dim | None]) -> list[Dim]:
    return [
        draft.whole(size) if dim is None else dim for size, dim in zip(shape, shared, strict=True)
    ]


def _resized(operand: Tensor, result: Tensor) -> set[int]:
    sizes = zip(operand.shape, result.shape, strict=True)
    return {dim for dim, (before, after) in enumerate(sizes) if before != after}
