"""The proof of operator rules: each factor cut, run in shards, and compared with the whole.

A table of rows (``RuleRow``) holds one primitive application each, with numbers. ``trace`` finds
the equation of the primitive and asks for its rule; ``prove`` then cuts each factor of the rule:

- pass-through: the shards' results are laid side by side and must equal the whole's;
- reduction: the shards' results are joined by the combiner and must equal the whole's;
- halo: each shard gets its part and the neighbours' edges, and padding only at the true edges;
- permutation and need-replication: a naive run in shards must be impossible or wrong, so that no
  rule is lazy; a row names the factors that are whole for another reason.

Everything runs on one CPU device, a row in one program; cutting and joining is numpy's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.sharding.factor import Combiner, Factor, FactorKind, OpRule, TensorFactors
from tests.conformance.rule_cutting import COMBINE, Cut, HaloPart, halo_part
from tests.conformance.rule_numbers import KEY_WORDS
from tests.conformance.rule_numbers import bools as bools
from tests.conformance.rule_numbers import complexes as complexes
from tests.conformance.rule_numbers import floats as floats
from tests.conformance.rule_numbers import ints as ints
from tests.conformance.rule_numbers import keys as keys
from tests.conformance.rule_numbers import words as words
from tests.conformance.rule_programs import Outcome, run_shards
from tests.conformance.rule_trace import RuleRow as RuleRow
from tests.conformance.rule_trace import Shard as Shard
from tests.conformance.rule_trace import Traced, trace

IMPOSSIBLE = (TypeError, ValueError, IndexError, ZeroDivisionError)
"""What a primitive raises when its operands do not fit each other."""


@final
@dataclass(frozen=True, kw_only=True)
class Runs:
    """What the whole run gave, and what the shards of one cut gave."""

    whole: tuple[np.ndarray, ...]
    shards: list[Outcome]

    def results_of(self, index: int) -> tuple[np.ndarray, ...]:
        """The results of one shard; raises what it raised."""
        outcome = self.shards[index]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def prove(row: RuleRow) -> OpRule:
    """The row's rule, once every factor of it has been cut and compared.

    Raises:
        AssertionError: a claim of the rule does not hold, or a factor is kept whole for nothing.
    """
    traced = trace(row)
    prove_rule(traced)
    return traced.rule


def prove_rule(traced: Traced) -> None:
    """Nothing, once every factor of a traced row's rule has been cut and compared."""
    row = traced.row
    assert bool(traced.rule.fallback) == row.opaque, traced.rule.fallback or "a fallback expected"
    text = str(traced.rule).split("  {")[0].strip()
    assert not row.rule or text == row.rule, f"the rule is {text!r}, not {row.rule!r}"
    check_structure(traced)
    if row.opaque:
        return
    unknown = row.conservative.keys() - {factor.name for factor in traced.rule.factors}
    assert not unknown, f"the row excuses factors that the rule does not have: {unknown}"
    cuts = _all_cuts(traced)
    parts = [(cut, index) for cut in cuts for index in range(cut.count)]
    whole, outcomes = run_shards(traced, [make_shard(traced, *part) for part in parts])
    ran = iter(outcomes)
    for cut in cuts:
        runs = Runs(whole=whole, shards=[next(ran) for _ in range(cut.count)])
        try:
            _prove_cut(traced.rule, cut, runs)
        except Exception as error:
            name = traced.rule.factors[cut.position].name
            raise AssertionError(f"factor {name} of {traced.rule}: {error}") from error


def check_structure(traced: Traced) -> None:
    """Nothing, if the rule describes exactly the tensors of its operator."""
    rule, op, graph = traced.rule, traced.op, traced.graph
    names = [factor.name for factor in rule.factors]
    assert len(set(names)) == len(names), f"a factor's name is used twice: {rule}"
    for factor in rule.factors:
        assert factor.size > 1, f"factor {factor.name} cannot be cut: its size is {factor.size}"
        assert (factor.combiner is not None) == (factor.kind is FactorKind.REDUCTION), factor
        assert (factor.window is not None) == (factor.kind is FactorKind.HALO), factor
        assert factor.size % factor.block == 0, factor
    used = {p for dims in (*rule.operands, *rule.results) for dim in dims for p in dim}
    assert used == set(range(len(names))), f"a factor is in no dim: {rule}"
    for tensor_id, dims in zip(op.operands, rule.operands, strict=True):
        _check_tensor(rule, graph.tensor(tensor_id).shape, dims, is_operand=True)
    for tensor_id, dims in zip(op.results, rule.results, strict=True):
        _check_tensor(rule, graph.tensor(tensor_id).shape, dims, is_operand=False)


def _check_tensor(
    rule: OpRule, shape: tuple[int, ...], dims: TensorFactors, *, is_operand: bool
) -> None:
    assert len(dims) == len(shape), f"a tensor of shape {shape} has {len(dims)} dims in {rule}"
    for size, dim in zip(shape, dims, strict=True):
        factors = [rule.factors[position] for position in dim]
        if is_operand and any(factor.kind is FactorKind.HALO for factor in factors):
            assert len(dim) == 1, f"a halo factor shares a dim in {rule}"
            continue
        product = math.prod(factor.size for factor in factors)
        assert product == size or (not dim and size == 0), (
            f"a dim of size {size} has factors of product {product} in {rule}"
        )


def cut_counts(traced: Traced, position: int) -> tuple[int, ...]:
    """Into how many parts a factor is cut: 2 and 3, or 2 and 4.

    Where parts differ in more than their numbers (windows, dims of several factors, shards with a
    ``local`` of their own) both are tried. The plain factors of a rule take turns, since every
    shape that runs is compiled.
    """
    factor = traced.rule.factors[position]
    blocks = factor.size // factor.block
    counts = tuple(count for count in (2, 3, 4) if blocks % count == 0)[:2]
    if factor.kind in (FactorKind.NEED_REPLICATION, FactorKind.PERMUTATION):
        return counts[:1] or (next(n for n in range(2, blocks + 1) if blocks % n == 0),)
    assert len(counts) == 2, (
        f"its {blocks} blocks cannot be cut 2-way and 3- or 4-way: choose 4, 6 or 12"
    )
    if factor.kind is FactorKind.HALO or traced.row.local or _shares_a_dim(traced.rule, position):
        return counts
    return (counts[(position + 1) % 2],)


def _shares_a_dim(rule: OpRule, position: int) -> bool:
    tensors = (*rule.operands, *rule.results)
    return any(position in dim and len(dim) > 1 for dims in tensors for dim in dims)


def _all_cuts(traced: Traced) -> list[Cut]:
    return [
        Cut(rule=traced.rule, position=position, count=count)
        for position, factor in enumerate(traced.rule.factors)
        if factor.name not in traced.row.conservative
        for count in cut_counts(traced, position)
    ]


def _prove_cut(rule: OpRule, cut: Cut, runs: Runs) -> None:
    factor = rule.factors[cut.position]
    if factor.kind in (FactorKind.NEED_REPLICATION, FactorKind.PERMUTATION):
        _prove_not_lazy(rule, cut, runs)
    else:
        _compare(rule, cut, runs, factor.combiner)


def _compare(rule: OpRule, cut: Cut, runs: Runs, combiner: Combiner | None) -> None:
    """Nothing, if the shards' results make up the whole results."""
    shards = [runs.results_of(index) for index in range(cut.count)]
    for r, (whole, dims) in enumerate(zip(runs.whole, rule.results, strict=True)):
        parts = [results[r] for results in shards]
        where = f"result {r} cut {cut.count}-way"
        if cut.carries(dims):
            expected = cut.local_shape(whole.shape, dims)
            for part in parts:
                assert part.shape == expected, f"{where}: {part.shape} is not {expected}"
            _assert_close(cut.join(parts, dims), whole, where)
        elif combiner is not None:
            total = parts[0]
            for part in parts[1:]:
                total = COMBINE[combiner](total, part)
            _assert_close(total, whole, f"{where}, joined by {combiner}")
        else:
            for index, part in enumerate(parts):
                _assert_close(part, whole, f"{where}, shard {index} of a whole result")


def make_shard(traced: Traced, cut: Cut, index: int) -> tuple[Shard, tuple[np.ndarray, ...]]:
    """One shard and its parts of the operands."""
    rule = traced.rule
    factor = rule.factors[cut.position]
    halo: HaloPart | None = None
    operands = []
    for whole, dims in zip(traced.operands, rule.operands, strict=True):
        d = cut.dim_of(dims)
        if factor.window is not None and d is not None:
            halo = halo_part(factor.window, whole.shape[d], factor.size, index, cut.count)
            _check_halo(factor, halo, whole.shape[d], index, cut.count)
            operands.append(np.take(whole, range(halo.start, halo.stop), axis=d))
        else:
            operands.append(cut.part(whole, dims, index))
    shard = Shard(
        traced=traced,
        factor=factor,
        index=index,
        count=cut.count,
        operand_dims=tuple(cut.dim_of(dims) for dims in rule.operands),
        result_dims=tuple(cut.dim_of(dims) for dims in rule.results),
        result_shapes=tuple(
            cut.local_shape(shape, dims)
            for shape, dims in zip(traced.result_shapes, rule.results, strict=True)
        ),
        halo=halo,
    )
    return shard, tuple(operands)


def _check_halo(factor: Factor, halo: HaloPart, size: int, index: int, count: int) -> None:
    """Nothing, if the shard reads its own part and no further than its neighbours' parts."""
    part = -(-size // count)
    assert halo.start >= (index - 1) * part and halo.stop <= (index + 2) * part, (
        f"shard {index} of {count} reads {halo}, beyond its neighbours of {part}"
    )
    window = factor.window
    assert window is not None
    if window.base_dilation == 1:
        inner_low = index > 0 and halo.start > 0
        inner_high = index < count - 1 and halo.stop < size
        assert not (inner_low and halo.pad_low > 0), "padding inside the operand"
        assert not (inner_high and halo.pad_high > 0), "padding inside the operand"


def _prove_not_lazy(rule: OpRule, cut: Cut, runs: Runs) -> None:
    """Nothing, if no naive run in shards along the factor gives the whole results.

    A routine given operands that do not fit each other may return any numbers: those may overflow.
    """
    in_results = any(cut.carries(dims) for dims in rule.results)
    for combiner in (None,) if in_results else (None, *Combiner):
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                _compare(rule, cut, runs, combiner)
        except (*IMPOSSIBLE, AssertionError):
            continue
        how = "passes through" if combiner is None else f"reduces by {combiner}"
        raise AssertionError(f"it is called {rule.factors[cut.position].kind}, yet it {how}")


def _assert_close(actual: np.ndarray, expected: np.ndarray, where: str) -> None:
    assert actual.shape == expected.shape, f"{where}: {actual.shape} is not {expected.shape}"
    if expected.dtype == KEY_WORDS:
        actual, expected = actual["words"], expected["words"]
    assert actual.dtype == expected.dtype, f"{where}: {actual.dtype} is not {expected.dtype}"
    if expected.dtype.kind in "biu":
        assert np.array_equal(actual, expected), f"{where}: numbers differ"
    else:
        np.testing.assert_allclose(
            actual.astype(np.complex128),
            expected.astype(np.complex128),
            rtol=2e-5,
            atol=2e-5,
            err_msg=where,
        )
