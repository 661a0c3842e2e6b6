"""Gather: embedding lookups, ``take_along_axis``, and slices at computed places.

An indexed dim of which one row is taken reduces by sum: each device holds some rows, looks up the
indices that fall among them and gives zeros for the others, so exactly one device contributes to
each place of the result. This is the vocabulary-parallel embedding. Modes differ only in what an
index outside the whole dim means, and a device decides that from the whole size before it looks at
its own rows: "CLIP" clamps first; under "FILL_OR_DROP" one device gives the fill value (jax: NaN)
and the others zeros.

Source:
    Shoeybi et al., "Megatron-LM", 2019, section 3 (vocabulary-parallel embedding).
    The dim numbers: StableHLO specification, ``gather``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from shardwright.sharding.factor import Combiner, OpRule
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView

_NUMBERS = "dimension_numbers."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """Which dim of a gather plays which part."""

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    indexed: tuple[int, ...]
    operand_batch: tuple[int, ...]
    indices_batch: tuple[int, ...]
    slice_sizes: tuple[int, ...]

    @staticmethod
    def of(view: OpView) -> _Numbers:
        return _Numbers(
            offset=view.ints(_NUMBERS + "offset_dims"),
            collapsed=view.ints(_NUMBERS + "collapsed_slice_dims"),
            indexed=view.ints(_NUMBERS + "start_index_map"),
            operand_batch=view.ints(_NUMBERS + "operand_batching_dims"),
            indices_batch=view.ints(_NUMBERS + "start_indices_batching_dims"),
            slice_sizes=view.ints("slice_sizes"),
        )


def gather_rule(view: OpView) -> OpRule:
    """Batching dims and dims taken whole pass; single rows reduce; partial slices stay whole.

    With two indexed dims, as in ``x[arange(n), labels]``, each reduces by itself: nothing in the
    operator tells that the first index counts up, so the rows of ``x`` and the labels are different
    factors.
    """
    operand, indices = view.operands
    numbers = _Numbers.of(view)
    draft = RuleDraft()
    index_dims: list[Dim] = [
        draft.passes("b" if dim in numbers.indices_batch else "i", size)
        for dim, size in enumerate(indices.shape[:-1])
    ]
    operand_dims: list[Dim] = []
    window_dims: list[Dim] = []
    for dim in range(operand.rank):
        if dim in numbers.operand_batch:
            place = numbers.indices_batch[numbers.operand_batch.index(dim)]
            operand_dims.append(index_dims[place])
            continue
        taken, window = _sliced_dim(draft, view, numbers, dim)
        operand_dims.append(taken)
        if dim not in numbers.collapsed:
            window_dims.append(window)
    starts = [*index_dims, draft.whole(indices.shape[-1])]
    result = _result_dims(view.results[0].rank, numbers.offset, window_dims, index_dims)
    return draft.rule([operand_dims, starts], [result])


def _sliced_dim(draft: RuleDraft, view: OpView, numbers: _Numbers, dim: int) -> tuple[Dim, Dim]:
    """The dim's factors in the operand and in the result's window."""
    size, taken = view.operands[0].shape[dim], numbers.slice_sizes[dim]
    if taken == size:
        passing = draft.passes("d", size)
        return passing, passing
    if taken == 1 and dim in numbers.indexed:
        combiner = Combiner.OR if view.results[0].dtype == "bool" else Combiner.SUM
        return draft.reduces("v", size, combiner), ()
    return draft.whole(size), draft.whole(taken)


def _result_dims(
    rank: int, offset: tuple[int, ...], window_dims: list[Dim], index_dims: list[Dim]
) -> list[Dim]:
    windows, indices = iter(window_dims), iter(index_dims)
    return [next(windows) if dim in offset else next(indices) for dim in range(rank)]


RULES: dict[str, RuleFunction] = {"gather": gather_rule}
