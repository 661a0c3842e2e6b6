"""Scatter: embedding gradients, segment sums, and ``x.at[indices]`` updates.

An indexed dim passes through operand and result while indices and updates stay whole on its axes:
each device applies the updates that fall among its own rows and drops the others.

The dims of the updates that the operand does not have (tokens, in an embedding's gradient) reduce
by the scatter's own combiner: each device scatters its own updates, one of them into the operand
and the others into the combiner's neutral element, so the operand counts once. A plain ``scatter``
overwrites, and partial results that overwrite cannot be joined: there those dims must be whole.

Source:
    The dim numbers: StableHLO specification, ``scatter``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

from shardwright.sharding.factor import Combiner, OpRule
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView

_NUMBERS = "dimension_numbers."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """Which dim of a scatter plays which part."""

    update_window: tuple[int, ...]
    inserted: tuple[int, ...]
    indexed: tuple[int, ...]
    operand_batch: tuple[int, ...]
    indices_batch: tuple[int, ...]

    @staticmethod
    def of(view: OpView) -> _Numbers:
        return _Numbers(
            update_window=view.ints(_NUMBERS + "update_window_dims"),
            inserted=view.ints(_NUMBERS + "inserted_window_dims"),
            indexed=view.ints(_NUMBERS + "scatter_dims_to_operand_dims"),
            operand_batch=view.ints(_NUMBERS + "operand_batching_dims"),
            indices_batch=view.ints(_NUMBERS + "scatter_indices_batching_dims"),
        )


def scatter_rule(view: OpView, *, combiner: Combiner | None) -> OpRule:
    """Windows and batching dims pass, indexed dims pass without the updates, updates reduce.

    Args:
        view: the operator: operand, indices, updates.
        combiner: what joins two partial results; None for a scatter that overwrites.
    """
    operand, indices, updates = view.operands
    numbers = _Numbers.of(view)
    draft = RuleDraft()
    index_dims = _index_dims(draft, indices.shape[:-1], numbers, combiner)
    operand_dims: list[Dim] = []
    window_dims: list[Dim] = []
    window_sizes = iter([updates.shape[dim] for dim in numbers.update_window])
    for dim, size in enumerate(operand.shape):
        if dim in numbers.operand_batch:
            place = numbers.indices_batch[numbers.operand_batch.index(dim)]
            operand_dims.append(index_dims[place])
            continue
        inserted = dim in numbers.inserted
        written = 1 if inserted else next(window_sizes)
        own, window = _written_dim(draft, size, written, indexed=dim in numbers.indexed)
        operand_dims.append(own)
        if not inserted:
            window_dims.append(window)
    starts = [*index_dims, draft.whole(indices.shape[-1])]
    windows, outer = iter(window_dims), iter(index_dims)
    update_dims = [
        next(windows) if dim in numbers.update_window else next(outer)
        for dim in range(updates.rank)
    ]
    return draft.rule([operand_dims, starts, update_dims], [operand_dims])


def _index_dims(
    draft: RuleDraft, shape: tuple[int, ...], numbers: _Numbers, combiner: Combiner | None
) -> list[Dim]:
    dims: list[Dim] = []
    for dim, size in enumerate(shape):
        if dim in numbers.indices_batch:
            dims.append(draft.passes("b", size))
        elif combiner is None:
            dims.append(draft.whole(size))
        else:
            dims.append(draft.reduces("i", size, combiner))
    return dims


def _written_dim(draft: RuleDraft, size: int, written: int, *, indexed: bool) -> tuple[Dim, Dim]:
    """The dim's factors in the operand and in the updates' window."""
    if written == size:
        passing = draft.passes("d", size)
        return passing, passing
    if written == 1 and indexed:
        return draft.passes("v", size), ()
    return draft.whole(size), draft.whole(written)


RULES: dict[str, RuleFunction] = {
    "scatter": partial(scatter_rule, combiner=None),
    "scatter-add": partial(scatter_rule, combiner=Combiner.SUM),
    "scatter-max": partial(scatter_rule, combiner=Combiner.MAX),
    "scatter-min": partial(scatter_rule, combiner=Combiner.MIN),
    "scatter-mul": partial(scatter_rule, combiner=Combiner.PROD),
    # Partial results are the operand less some updates, and zero less the others: they add up.
    "scatter-sub": partial(scatter_rule, combiner=Combiner.SUM),
}
