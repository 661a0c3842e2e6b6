"""What one assignment of axes to factors implies, and why some are refused."""

from __future__ import annotations

import dataclasses

import pytest

from shardwright.cluster import Mesh
from shardwright.sharding import (
    CollectiveKind,
    Combiner,
    Factor,
    OpRule,
    Sharding,
    Strategy,
    rule_from_text,
)
from shardwright.sharding.factor import FactorKind
from shardwright.sharding.strategy import Rejection, own_collectives, strategy_of

MESH = Mesh.of(dp=2, tp=4)
SIZES = {"m": 8, "k": 16, "n": 32}
MATMUL = rule_from_text("m k, k n -> m n", SIZES, {"k": Combiner.SUM})
SHAPES = ((8, 16), (16, 32)), ((8, 32),)


def test_cut_factors_cut_the_dims_that_hold_them() -> None:
    strategy = strategy_of(MATMUL, *SHAPES, (("dp",), (), ("tp",)), MESH)
    assert isinstance(strategy, Strategy)
    assert strategy.operands == (Sharding.of("dp", None), Sharding.of(None, "tp"))
    assert strategy.results == strategy.partials == (Sharding.of("dp", "tp"),)


def test_a_cut_reduction_is_unreduced_until_it_is_finished() -> None:
    strategy = strategy_of(MATMUL, *SHAPES, ((), ("dp", "tp"), ()), MESH)
    assert isinstance(strategy, Strategy)
    assert strategy.operands == (Sharding.of(None, ("dp", "tp")), Sharding.of(("dp", "tp"), None))
    assert strategy.partials == (Sharding(dims=((), ()), unreduced=("dp", "tp")),)
    assert strategy.results == (Sharding.replicated(2),)


def test_scattered_axes_become_the_minor_axes_of_the_dim() -> None:
    strategy = strategy_of(MATMUL, *SHAPES, (("dp",), ("tp",), ()), MESH, scatter=(("tp", 0),))
    assert isinstance(strategy, Strategy)
    assert strategy.results == (Sharding.of(("dp", "tp"), None),)
    ((step,),) = own_collectives(strategy, SHAPES[1], [4], MESH)
    assert step.kind is CollectiveKind.REDUCE_SCATTER
    assert (step.axes, step.dim) == (("tp",), 0)
    assert (step.input_bytes, step.output_bytes) == (512, 128)


def test_one_axis_is_scattered_before_the_other_is_all_reduced() -> None:
    strategy = strategy_of(MATMUL, *SHAPES, ((), ("dp", "tp"), ()), MESH, scatter=(("tp", 1),))
    assert isinstance(strategy, Strategy)
    ((scatter, reduce),) = own_collectives(strategy, SHAPES[1], [4], MESH)
    assert scatter.kind is CollectiveKind.REDUCE_SCATTER
    assert reduce.kind is CollectiveKind.ALL_REDUCE
    assert reduce.axes == ("dp",)
    assert scatter.input_bytes == 1024
    assert reduce.input_bytes == 256


def test_an_operator_without_a_cut_reduction_has_no_collective() -> None:
    strategy = strategy_of(MATMUL, *SHAPES, (("dp",), (), ("tp",)), MESH)
    assert isinstance(strategy, Strategy)
    assert own_collectives(strategy, SHAPES[1], [4], MESH) == ((),)


HEADS = rule_from_text("b (h d) -> b h d", {"b": 8, "h": 4, "d": 16})
HEAD_SHAPES = ((8, 64),), ((8, 4, 16),)


def test_a_minor_factor_may_be_cut_once_the_major_one_is_cut_to_single_elements() -> None:
    strategy = strategy_of(HEADS, *HEAD_SHAPES, ((), ("tp",), ("dp",)), MESH)
    assert isinstance(strategy, Strategy)
    assert strategy.operands == (Sharding.of(None, ("tp", "dp")),)
    assert strategy.results == (Sharding.of(None, "tp", "dp"),)


def _with_factor(rule: OpRule, position: int, factor: Factor) -> OpRule:
    factors = (*rule.factors[:position], factor, *rule.factors[position + 1 :])
    return dataclasses.replace(rule, factors=factors)


REJECTIONS = [
    (
        "does not divide",
        rule_from_text("v -> v", {"v": 50257}),
        (("dp", "tp"),),
        (),
        "factor v=50257 does not divide by 8 (dp+tp)",
    ),
    (
        "whole",
        rule_from_text("v -> v", {"v": 8}, {"v": FactorKind.NEED_REPLICATION}),
        (("dp",),),
        (),
        "factor v=8 must be whole",
    ),
    (
        "halo",
        rule_from_text("v -> v", {"v": 8}, {"v": FactorKind.HALO}),
        (("dp",),),
        (),
        "factor v=8 needs a halo exchange, which is not planned yet",
    ),
    (
        "permutation",
        rule_from_text("v -> v", {"v": 8}, {"v": FactorKind.PERMUTATION}),
        (("dp",),),
        (),
        "factor v=8 moves whole data between devices, which is not planned yet",
    ),
    (
        "blocks",
        _with_factor(rule_from_text("v -> v", {"v": 12}), 0, Factor(name="v", size=12, block=6)),
        (("tp",),),
        (),
        "factor v=12 has 2 blocks of 6, which do not divide by 4 (tp)",
    ),
    (
        "axis twice",
        MATMUL,
        (("dp",), (), ("dp",)),
        (),
        'axis "dp" cuts two factors',
    ),
    (
        "axis twice on one factor",
        MATMUL,
        (("dp", "dp"), (), ()),
        (),
        'axis "dp" cuts two factors',
    ),
    (
        "strided",
        HEADS,
        ((), ("dp",), ("tp",)),
        (),
        "strided pieces are not a sharding: d=16 is cut in dim 1 of operand 0, where h=4 before it "
        "is not cut to single elements",
    ),
    (
        "diagonal",
        rule_from_text("i i -> i", {"i": 8}),
        (("dp",),),
        (),
        "one factor makes up two dims of operand 0",
    ),
    (
        "scatter of a maximum",
        rule_from_text("v n -> n", {"v": 8, "n": 8}, {"v": Combiner.MAX}),
        (("dp",), ()),
        (("dp", 0),),
        "factor v=8 reduces by max, and only sums are scattered",
    ),
    (
        "scatter of what is not reduced",
        MATMUL,
        (("dp",), (), ()),
        (("dp", 1),),
        'axis "dp" cuts no reduction of every result, so nothing is scattered',
    ),
    (
        "scatter that does not divide",
        rule_from_text("v n -> n", {"v": 8, "n": 6}, {"v": Combiner.SUM}),
        (("tp",), ()),
        (("tp", 0),),
        "dim 0 of scattered result 0 has size 6, which does not divide by 4",
    ),
    (
        "scatter onto a dim that is not there",
        rule_from_text("v -> ()", {"v": 8}, {"v": Combiner.SUM}),
        (("tp",),),
        (("tp", 0),),
        "result 0 has 0 dims, so none of them is dim 0 to scatter onto",
    ),
]


@pytest.mark.parametrize(
    ("rule", "factor_axes", "scatter", "reason"),
    [row[1:] for row in REJECTIONS],
    ids=[row[0] for row in REJECTIONS],
)
def test_an_assignment_that_is_no_strategy_says_why(
    rule: OpRule,
    factor_axes: tuple[tuple[str, ...], ...],
    scatter: tuple[tuple[str, int], ...],
    reason: str,
) -> None:
    operands = [_whole_shape(rule, dims) for dims in rule.operands]
    results = [_whole_shape(rule, dims) for dims in rule.results]
    found = strategy_of(rule, operands, results, factor_axes, MESH, scatter=scatter)
    assert found == Rejection(reason=reason)


def test_a_shape_that_its_factors_do_not_tell_must_divide_too() -> None:
    rule = rule_from_text("v, w -> v", {"v": 8, "w": 9})
    wider = dataclasses.replace(rule, operands=(((0,),), ((0,),)))
    found = strategy_of(wider, ((8,), (9,)), ((8,),), (("dp",), ()), MESH)
    reason = "dim 0 of operand 1 has size 9, which does not divide by 2"
    assert found == Rejection(reason=reason)


def _whole_shape(rule: OpRule, dims: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    shape = []
    for factors in dims:
        size = 1
        for position in factors:
            size *= rule.factors[position].size
        shape.append(size)
    return tuple(shape)
