"""Ragged products: a batched matrix product whose groups are runs of rows of unequal length.

The group sizes stay whole on every device: they are few, and a device reads from them which of the
rows it holds belong to which group. So cutting the ragged dim is exact, each device clips the
groups' ranges to its own rows; and cutting the groups is exact too, each device works on the rows
of its own groups and takes all others as zero (expert parallelism without moving tokens).

Source:
    Gale et al., "MegaBlocks", MLSys 2023, section 3 (products over groups of unequal size).
    The three modes: CHLO specification, ``ragged_dot``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import final

from shardwright.ir import Attribute
from shardwright.sharding.factor import Combiner, OpRule
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction, whole_rule
from shardwright.sharding.rules.view import OpView

_NUMBERS = "ragged_dot_dimension_numbers."


class _Mode(Enum):
    """Which kind of dim of the left operand is ragged."""

    FREE = auto()
    CONTRACTING = auto()
    BATCH = auto()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """Which dim of a ragged product plays which part."""

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    ragged: int
    groups: tuple[int, ...]

    @staticmethod
    def of(view: OpView) -> _Numbers:
        contracting, batch = _pair(view.attribute(_NUMBERS + "dot_dimension_numbers"))
        lhs_contracting, rhs_contracting = _pair(contracting)
        lhs_batch, rhs_batch = _pair(batch)
        return _Numbers(
            lhs_contracting=_ints(lhs_contracting),
            rhs_contracting=_ints(rhs_contracting),
            lhs_batch=_ints(lhs_batch),
            rhs_batch=_ints(rhs_batch),
            ragged=view.ints(_NUMBERS + "lhs_ragged_dimensions")[0],
            groups=view.ints(_NUMBERS + "rhs_group_dimensions"),
        )

    @property
    def mode(self) -> _Mode:
        if self.ragged in self.lhs_contracting:
            return _Mode.CONTRACTING
        return _Mode.BATCH if self.ragged in self.lhs_batch else _Mode.FREE

    def lhs_free(self, rank: int) -> list[int]:
        used = (*self.lhs_contracting, *self.lhs_batch)
        return [dim for dim in range(rank) if dim not in used]

    def prefix(self, rank: int) -> list[int]:
        """The left operand's dims before the groups in the group sizes."""
        if self.mode is _Mode.BATCH:
            return _before(self.lhs_batch, self.ragged)
        inner = self.lhs_contracting
        if self.mode is _Mode.FREE:
            inner = tuple(self.lhs_free(rank))
        return [*self.lhs_batch, *_before(inner, self.ragged)]


def ragged_dot_general_rule(view: OpView) -> OpRule:
    """As a dense product, with the groups as one more factor.

    - A free dim is ragged, ``m k, g k n, [g] -> m n``: the groups reduce by sum, since a row is in
      one group only.
    - A contracted dim is ragged, ``m x, m n, [g] -> g x n`` (the gradient of the weights): the
      groups pass, the rows reduce by sum.
    - A batch dim is ragged: a batched product, to which the groups make no difference.
    """
    if view.attribute("group_offset") is not None:
        return whole_rule(view, "a ragged product that starts at a group known only at run time")
    lhs, rhs, sizes = view.operands
    numbers = _Numbers.of(view)
    draft = RuleDraft()
    lhs_dims = [_lhs_dim(draft, numbers, dim, size) for dim, size in enumerate(lhs.shape)]
    rhs_dims = [_rhs_dim(draft, numbers, lhs_dims, dim, n) for dim, n in enumerate(rhs.shape)]
    prefix = [lhs_dims[dim] for dim in numbers.prefix(lhs.rank)] if sizes.rank > 1 else []
    sizes_dims = [*prefix, draft.whole(sizes.shape[-1])]
    result = [lhs_dims[dim] for dim in (*numbers.lhs_batch, *numbers.lhs_free(lhs.rank))]
    used = (*numbers.rhs_contracting, *numbers.rhs_batch, *numbers.groups)
    result += [dim for place, dim in enumerate(rhs_dims) if place not in used]
    if numbers.mode is _Mode.CONTRACTING:
        result = [draft.passes("g", sizes.shape[-1]), *result]
    return draft.rule([lhs_dims, rhs_dims, sizes_dims], [result])


def _lhs_dim(draft: RuleDraft, numbers: _Numbers, dim: int, size: int) -> Dim:
    if dim in numbers.lhs_contracting:
        return draft.reduces("m" if dim == numbers.ragged else "k", size, Combiner.SUM)
    if dim in numbers.lhs_batch:
        return draft.passes("b", size)
    return draft.passes("m" if dim == numbers.ragged else "x", size)


def _rhs_dim(draft: RuleDraft, numbers: _Numbers, lhs_dims: list[Dim], dim: int, size: int) -> Dim:
    if dim in numbers.rhs_contracting:
        return lhs_dims[numbers.lhs_contracting[numbers.rhs_contracting.index(dim)]]
    if dim in numbers.rhs_batch:
        return lhs_dims[numbers.lhs_batch[numbers.rhs_batch.index(dim)]]
    if dim in numbers.groups:
        return draft.reduces("g", size, Combiner.SUM)
    return draft.passes("n", size)


def _pair(value: Attribute) -> tuple[Attribute, Attribute]:
    assert isinstance(value, tuple)
    first, second = value
    return first, second


def _ints(value: Attribute) -> tuple[int, ...]:
    assert isinstance(value, tuple)
    return tuple(item for item in value if isinstance(item, int))


def _before(dims: tuple[int, ...], dim: int) -> list[int]:
    return list(dims[: dims.index(dim)])


RULES: dict[str, RuleFunction] = {"ragged_dot_general": ragged_dot_general_rule}
