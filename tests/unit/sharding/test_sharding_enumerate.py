"""The strategies of an operator are all that there are, in mesh order, and no more."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from shardwright.cluster import Mesh
from shardwright.sharding import Combiner, Sharding, Strategy, rule_from_text
from shardwright.sharding.enumerate import Pruned, enumerate_shardings, enumerate_strategies
from shardwright.sharding.factor import FactorKind
from shardwright.sharding.strategy import strategy_of

MESH = Mesh.of(dp=2, tp=4)
MATMUL = rule_from_text("m k, k n -> m n", {"m": 8, "k": 16, "n": 32}, {"k": Combiner.SUM})
OPERANDS, RESULTS = ((8, 16), (16, 32)), ((8, 32),)


def scattered(strategy: Strategy) -> bool:
    return any(
        partial.dims != result.dims
        for partial, result in zip(strategy.partials, strategy.results, strict=True)
    )


def test_every_assignment_of_a_matmul_is_there_once() -> None:
    found = enumerate_strategies(MATMUL, OPERANDS, RESULTS, MESH).strategies
    bases = [strategy for strategy in found if not scattered(strategy)]
    by_hand = []
    for dp, tp in itertools.product(range(-1, 3), repeat=2):
        axes: list[tuple[str, ...]] = [(), (), ()]
        if dp >= 0:
            axes[dp] = ("dp",)
        if tp >= 0:
            axes[tp] = (*axes[tp], "tp")
        by_hand.append(strategy_of(MATMUL, OPERANDS, RESULTS, axes, MESH))
    assert bases == by_hand


def test_a_reduction_over_two_axes_is_finished_in_every_natural_way() -> None:
    found = enumerate_strategies(MATMUL, OPERANDS, RESULTS, MESH).strategies
    results = [s.results[0] for s in found if s.factor_axes == ((), ("dp", "tp"), ())]
    assert results == [
        Sharding.of(None, None),
        Sharding.of(("dp", "tp"), None),
        Sharding.of(None, ("dp", "tp")),
        Sharding.of("dp", None),
        Sharding.of(None, "dp"),
        Sharding.of("tp", None),
        Sharding.of(None, "tp"),
    ]


def test_an_axis_is_not_scattered_inside_one_that_comes_later_in_the_mesh() -> None:
    found = enumerate_strategies(MATMUL, OPERANDS, RESULTS, MESH).strategies
    results = [s.results[0] for s in found if s.factor_axes == (("tp",), ("dp",), ())]
    assert results == [Sharding.of("tp", None), Sharding.of("tp", "dp")]


def test_maxima_are_never_scattered() -> None:
    rule = rule_from_text("b v -> b", {"b": 8, "v": 8}, {"v": Combiner.MAX})
    found = enumerate_strategies(rule, ((8, 8),), ((8,),), MESH)
    assert not any(scattered(strategy) for strategy in found.strategies)
    assert any(partial.unreduced for s in found.strategies for partial in s.partials)


def test_what_cannot_be_cut_is_counted_with_its_reason() -> None:
    rule = rule_from_text("v d, b -> b d", {"v": 50257, "d": 10, "b": 8}, {"v": Combiner.SUM})
    found = enumerate_strategies(rule, ((50257, 10), (8,)), ((8, 10),), MESH)
    assert found.pruned == (
        Pruned(reason="factor v=50257 does not divide by 2 (dp)", count=1),
        Pruned(reason="factor v=50257 does not divide by 4 (tp)", count=1),
        Pruned(reason="factor d=10 does not divide by 4 (tp)", count=1),
    )


def test_combinations_that_fail_only_together_are_counted() -> None:
    rule = rule_from_text("v -> v", {"v": 4})
    found = enumerate_strategies(rule, ((4,),), ((4,),), MESH)
    assert found.pruned == (Pruned(reason="factor v=4 does not divide by 8 (dp+tp)", count=1),)
    assert len(found.strategies) == 3


def test_an_operator_kept_whole_names_the_reason_of_its_rule() -> None:
    rule = rule_from_text("v -> v", {"v": 8}, {"v": FactorKind.NEED_REPLICATION})
    found = enumerate_strategies(rule, ((8,),), ((8,),), MESH)
    assert [s.axes for s in found.strategies] == [()]
    assert found.pruned == (Pruned(reason="factor v=8 must be whole", count=2),)
    opaque = dataclasses.replace(rule, fallback='no rule for "odd"')
    found = enumerate_strategies(opaque, ((8,),), ((8,),), MESH)
    assert [s.axes for s in found.strategies] == [()]
    assert found.pruned == (Pruned(reason='no rule for "odd"', count=2),)


def test_an_axis_of_size_one_is_never_used() -> None:
    mesh = Mesh.of(one=1, tp=4)
    found = enumerate_strategies(MATMUL, OPERANDS, RESULTS, mesh).strategies
    assert {axis for strategy in found for axis in strategy.axes} == {"tp"}
    shardings = enumerate_shardings((8, 8), mesh)
    assert {axis for sharding in shardings for axis in sharding.axes} == {"tp"}


def test_the_same_question_is_answered_from_memory() -> None:
    first = enumerate_strategies(MATMUL, OPERANDS, RESULTS, MESH)
    assert enumerate_strategies(MATMUL, OPERANDS, RESULTS, MESH) is first


SHARDINGS = [
    ("scalar", (), (), 1),
    ("vector", (8,), (), 4),
    ("matrix", (8, 8), (), 9),
    ("too narrow for both axes", (4, 8), (), 8),
    ("odd", (7, 8), (), 4),
    ("a dim kept whole", (8, 8), (0,), 4),
    ("nothing to cut", (1, 1), (), 1),
]


@pytest.mark.parametrize(
    ("shape", "whole_dims", "count"), [row[1:] for row in SHARDINGS], ids=[r[0] for r in SHARDINGS]
)
def test_even_shardings_of_a_tensor(
    shape: tuple[int, ...], whole_dims: tuple[int, ...], count: int
) -> None:
    found = enumerate_shardings(shape, MESH, whole_dims)
    assert len(found) == len(set(found)) == count
    assert found[0].is_replicated
    for sharding in found:
        assert sharding.divides(shape, MESH.sizes)
        assert all(not sharding.dims[dim] for dim in whole_dims)
        for axes in sharding.dims:
            assert list(axes) == [name for name in MESH.names if name in axes]
