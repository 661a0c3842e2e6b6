"""Rules of matrix products: ``b m k, b n k -> b m n`` with any number of each, k reduced by sum."""

from __future__ import annotations

from shardwright.ir import Attribute
from shardwright.sharding.factor import Combiner, OpRule
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView

Dims = dict[int, Dim]
"""The factors of some dims of one operand, by dim."""


def dot_general_rule(view: OpView) -> OpRule:
    """The rule of a product with batch dims b, free dims m and n, and contracted dims k."""
    lhs, rhs = view.operands[:2]
    (lhs_k, rhs_k), (lhs_b, rhs_b) = _dimension_numbers(view)
    draft = RuleDraft()
    batch = [draft.passes("b", lhs.shape[d]) for d in lhs_b]
    left: Dims = dict(zip(lhs_b, batch, strict=True))
    right: Dims = dict(zip(rhs_b, batch, strict=True))
    rows = _free_dims(draft, "m", lhs.shape, left, lhs_k)
    inner = [draft.reduces("k", lhs.shape[d], Combiner.SUM) for d in lhs_k]
    left.update(zip(lhs_k, inner, strict=True))
    right.update(zip(rhs_k, inner, strict=True))
    columns = _free_dims(draft, "n", rhs.shape, right, rhs_k)
    return draft.rule([_in_order(left), _in_order(right)], [batch + rows + columns])


def scaled_dot_rule(view: OpView) -> OpRule:
    """The rule of a product of block-scaled numbers: k is blocks and their elements, (k e).

    A scale has the block dim alone. Both sum: a block may be cut too, its scale on every device.
    """
    lhs, rhs, lhs_scale, rhs_scale = view.operands
    (lhs_k, rhs_k), (lhs_b, rhs_b) = _dimension_numbers(view)
    draft = RuleDraft()
    batch = [draft.passes("b", lhs.shape[d]) for d in lhs_b]
    left: Dims = dict(zip(lhs_b, batch, strict=True))
    right: Dims = dict(zip(rhs_b, batch, strict=True))
    rows = _free_dims(draft, "m", lhs.shape, left, lhs_k)
    columns = _free_dims(draft, "n", rhs.shape, right, rhs_k)
    left_scale, right_scale = dict(left), dict(right)
    for i, j in zip(lhs_k, rhs_k, strict=True):
        size, left_blocks, right_blocks = lhs.shape[i], lhs_scale.shape[i], rhs_scale.shape[j]
        if left_blocks == right_blocks:
            blocks = draft.reduces("k", left_blocks, Combiner.SUM)
            whole = blocks + draft.reduces("e", size // left_blocks, Combiner.SUM)
            left_scale[i] = right_scale[j] = blocks
        else:
            whole = draft.whole(size, "k")
            left_scale[i], right_scale[j] = draft.whole(left_blocks), draft.whole(right_blocks)
        left[i] = right[j] = whole
    operands = [_in_order(dims) for dims in (left, right, left_scale, right_scale)]
    return draft.rule(operands, [batch + rows + columns])


def _dimension_numbers(
    view: OpView,
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]:
    contracting, batch = _pair(view.attribute("dimension_numbers"))
    (lhs_k, rhs_k), (lhs_b, rhs_b) = _pair(contracting), _pair(batch)
    return (_ints(lhs_k), _ints(rhs_k)), (_ints(lhs_b), _ints(rhs_b))


def _pair(value: Attribute) -> tuple[Attribute, Attribute]:
    assert isinstance(value, tuple)
    first, second = value
    return first, second


def _ints(value: Attribute) -> tuple[int, ...]:
    assert isinstance(value, tuple)
    return tuple(item for item in value if isinstance(item, int))


def _free_dims(
    draft: RuleDraft, name: str, shape: tuple[int, ...], taken: Dims, contracted: tuple[int, ...]
) -> list[Dim]:
    free = [d for d in range(len(shape)) if d not in taken and d not in contracted]
    for d in free:
        taken[d] = draft.passes(name, shape[d])
    return [taken[d] for d in free]


def _in_order(dims: Dims) -> list[Dim]:
    return [dims[d] for d in sorted(dims)]


RULES: dict[str, RuleFunction] = {
    "dot_general": dot_general_rule,
    "scaled_dot": scaled_dot_rule,
}
