"""The rule of reshapes: which factors the dims before and after have in common.

Source:
    The walk over dims by greatest common divisors is Shardy's for ``stablehlo.reshape``
    (openxla/shardy, dialect/sdy/transforms/propagation/op_sharding_rule_registry.cc); it is walked
    here from both ends, so more of a reshape that does not line up can be cut.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction, dim_name
from shardwright.sharding.rules.view import OpView

Shared = list[tuple[int, int, int]]
"""Factors that two shapes have in common: size, dim on the left, dim on the right."""


def reshape_rule(view: OpView) -> OpRule:
    """The rule of a reshape: ``i j (k l) -> i j k l`` where dims merge or split.

    Where neither side's dims divide the other's, common factors still pass, and the stretch that
    does not line up must be whole: ``[6, 35] -> [10, 21]`` is ``(i w) (w2 j) -> (i w3) (w4 j)``.
    """
    operand, result = view.operands[0], view.results[0]
    draft = RuleDraft()
    if operand.num_elements == 0:
        return draft.rule([draft.all_whole(operand.shape)], [draft.all_whole(result.shape)])
    order = view.ints("dimensions") or tuple(range(operand.rank))
    before: list[Dim] = []
    after: list[Dim] = []
    names = map(dim_name, itertools.count())
    for left, right in _stretches([operand.shape[d] for d in order], list(result.shape)):
        _align(draft, names, (left, right), (before, after))
    dims = dict(zip(order, before, strict=True))
    return draft.rule([[dims[d] for d in range(operand.rank)]], [after])


def _stretches(before: list[int], after: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The shortest runs of dims on both sides that hold equally many elements."""
    left: list[int] = []
    right: list[int] = []
    i = j = 0
    while i < len(before) or j < len(after):
        behind = math.prod(left) <= math.prod(right)
        if j == len(after) or (behind and i < len(before)):
            left.append(before[i])
            i += 1
        else:
            right.append(after[j])
            j += 1
        if left and right and math.prod(left) == math.prod(right):
            yield left, right
            left, right = [], []
    if left or right:
        yield left, right


def _align(
    draft: RuleDraft,
    names: Iterator[str],
    stretch: tuple[list[int], list[int]],
    sides: tuple[list[Dim], list[Dim]],
) -> None:
    """Append to both sides the factors of one stretch: common from its ends, whole between."""
    majors, left, right = _take_common(*stretch)
    minors, left, right = _take_common(left[::-1], right[::-1])
    last = (len(left) - 1, len(right) - 1)
    minors = [(size, last[0] - i, last[1] - j) for size, i, j in reversed(minors)]
    major_dims = [draft.passes(next(names), size) for size, _, _ in majors]
    minor_dims = [draft.passes(next(names), size) for size, _, _ in minors]
    for side, rest in enumerate((left[::-1], right[::-1])):
        for d, size in enumerate(rest):
            sides[side].append(
                _of_dim(majors, major_dims, side, d)
                + draft.whole(size)
                + _of_dim(minors, minor_dims, side, d)
            )


def _take_common(left: list[int], right: list[int]) -> tuple[Shared, list[int], list[int]]:
    """What two lists of sizes have in common from their fronts, and what is left of each size."""
    left, right = list(left), list(right)
    shared: Shared = []
    i = j = 0
    while i < len(left) and j < len(right):
        common = math.gcd(left[i], right[j])
        if common > 1:
            shared.append((common, i, j))
            left[i] //= common
            right[j] //= common
        if left[i] > 1 and right[j] > 1:
            break
        i, j = i + (left[i] == 1), j + (right[j] == 1)
    return shared, left, right


def _of_dim(shared: Shared, made: list[Dim], side: int, d: int) -> Dim:
    return sum((dim for (_, *at), dim in zip(shared, made, strict=True) if at[side] == d), ())


RULES: dict[str, RuleFunction] = {"reshape": reshape_rule}
