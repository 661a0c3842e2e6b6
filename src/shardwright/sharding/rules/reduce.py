"""Rules of reductions over dims: ``i j k -> i k``, j joined by the reduction's own combiner."""

from __future__ import annotations

from functools import partial

from shardwright.ir import Tensor
from shardwright.sharding.factor import Combiner, OpRule
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction, dim_name
from shardwright.sharding.rules.view import OpView

_COMBINERS = {
    "add": Combiner.SUM,
    "mul": Combiner.PROD,
    "max": Combiner.MAX,
    "min": Combiner.MIN,
    "and": Combiner.AND,
    "or": Combiner.OR,
}

_NEUTRAL: dict[Combiner, int | None] = {Combiner.SUM: 0, Combiner.PROD: 1}
"""Initial values that may join every shard; other combiners may join any value twice."""


def reduce_rule(view: OpView, *, combiner: Combiner | None) -> OpRule:
    """The rule of a reduction over the dims in ``axes``; whole dims where there is no combiner."""
    return _reduce(view, view.ints("axes"), combiner, arrays=len(view.operands))


def general_reduce_rule(view: OpView) -> OpRule:
    """The rule of ``reduce`` by any function; the last half of its operands are initial values.

    A reduced dim may be cut when the function is a known combiner, and the initial value, which
    each shard joins once, does no harm when it is joined again.
    """
    arrays = len(view.operands) // 2
    combiner = _COMBINERS.get(str(view.attribute("combiner", "")))
    if combiner and not all(_is_neutral(init, combiner) for init in view.operands[arrays:]):
        combiner = None
    return _reduce(view, view.ints("dimensions"), combiner, arrays=arrays)


def _is_neutral(init: Tensor, combiner: Combiner) -> bool:
    return combiner not in _NEUTRAL or init.value == _NEUTRAL[combiner]


def _reduce(
    view: OpView, axes: tuple[int, ...], combiner: Combiner | None, *, arrays: int
) -> OpRule:
    draft = RuleDraft()

    def dim(d: int, size: int) -> Dim:
        if d not in axes:
            return draft.passes(dim_name(d), size)
        if combiner is None:
            return draft.whole(size)
        return draft.reduces(dim_name(d), size, combiner)

    dims = [dim(d, size) for d, size in enumerate(view.operands[0].shape)]
    kept = [factors for d, factors in enumerate(dims) if d not in axes]
    inits = len(view.operands) - arrays
    return draft.rule([dims] * arrays + [[]] * inits, [kept for _ in view.results])


RULES: dict[str, RuleFunction] = {
    "reduce": general_reduce_rule,
    "reduce_and": partial(reduce_rule, combiner=Combiner.AND),
    "reduce_max": partial(reduce_rule, combiner=Combiner.MAX),
    "reduce_min": partial(reduce_rule, combiner=Combiner.MIN),
    "reduce_or": partial(reduce_rule, combiner=Combiner.OR),
    "reduce_prod": partial(reduce_rule, combiner=Combiner.PROD),
    "reduce_sum": partial(reduce_rule, combiner=Combiner.SUM),
    # No fabric reduces by exclusive or, so there is no combiner for it.
    "reduce_xor": partial(reduce_rule, combiner=None),
}
