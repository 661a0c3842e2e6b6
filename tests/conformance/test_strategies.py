"""Every strategy holds: the operator run in shards, its own collectives done, equals it whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from shardwright.cluster import Mesh
from shardwright.sharding import (
    Collective,
    CollectiveKind,
    Combiner,
    OpRule,
    Sharding,
    Strategy,
    rule_from_text,
)
from shardwright.sharding.enumerate import enumerate_strategies
from shardwright.sharding.factor import FactorKind, TensorFactors
from shardwright.sharding.rule import Mark
from shardwright.sharding.strategy import own_collectives
from tests.conformance.blocks import Blocks, assert_equal_blocks, cut, places, run

MESHES = (Mesh.of(x=2, y=4), Mesh.of(x=2, y=2, z=2))
K = {"k": Combiner.SUM}


@dataclass(frozen=True)
class Row:
    """A rule; the operator multiplies its operands over all loops and joins what is reduced."""

    text: str
    sizes: Mapping[str, int]
    marks: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def rule(self) -> OpRule:
        return rule_from_text(self.text, self.sizes, self.marks)


ROWS = (
    Row("m k, k n -> m n", {"m": 8, "k": 16, "n": 4}, K),
    Row("b m k, b k n -> b m n", {"b": 2, "m": 4, "k": 8, "n": 8}, K),
    Row(
        "b t k, b t n -> k n",
        {"b": 4, "t": 8, "k": 8, "n": 2},
        {"b": Combiner.SUM, "t": Combiner.SUM},
    ),
    Row("b t v -> b t", {"b": 4, "t": 2, "v": 16}, {"v": Combiner.SUM}),
    Row("b t v -> b t", {"b": 4, "t": 2, "v": 16}, {"v": Combiner.MAX}),
    Row("b (h d) -> b h d", {"b": 4, "h": 4, "d": 8}),
    Row("b t h d -> (b t) (h d)", {"b": 2, "t": 4, "h": 2, "d": 4}),
    Row("(b t) k, k (h d) -> b t h d", {"b": 2, "t": 4, "k": 8, "h": 4, "d": 2}, K),
    Row("n -> b n", {"b": 8, "n": 8}),
    Row("a b c -> c a b", {"a": 4, "b": 8, "c": 2}),
    Row("a b, 1 b, () -> a b", {"a": 8, "b": 4}),
    Row("b k -> b, b k", {"b": 4, "k": 8}, K),
    Row("m k, k n -> m n, n m", {"m": 8, "k": 8, "n": 8}, K),
    Row("m k -> ()", {"m": 4, "k": 8}, {"m": Combiner.SUM, "k": Combiner.SUM}),
    Row("b k w -> b w", {"b": 8, "k": 4, "w": 6}, K | {"w": FactorKind.NEED_REPLICATION}),
)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_every_strategy_computes_the_whole_operator(row: Row, mesh: Mesh) -> None:
    rule, random = row.rule, np.random.default_rng(0)
    shapes = [_shape(rule, dims) for dims in rule.operands]
    result_shapes = [_shape(rule, dims) for dims in rule.results]
    operands = [random.integers(-3, 4, shape).astype(float) for shape in shapes]
    sizes = [factor.size for factor in rule.factors]
    whole = _compute(rule, operands, sizes)
    found = enumerate_strategies(rule, tuple(shapes), tuple(result_shapes), mesh)
    assert len(found.strategies) > 1
    for strategy in found.strategies:
        blocks = _run_in_shards(rule, strategy, operands, sizes, mesh)
        finish = own_collectives(strategy, result_shapes, [8] * len(whole), mesh)
        for position, result in enumerate(whole):
            done = _finish(rule, strategy, position, finish[position], blocks[position], mesh)
            layout = strategy.results[position]
            assert not layout.unreduced
            assert_equal_blocks(done, cut(result, layout.dims, mesh))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_no_strategy_is_listed_twice(row: Row) -> None:
    rule = row.rule
    operands = tuple(_shape(rule, dims) for dims in rule.operands)
    results = tuple(_shape(rule, dims) for dims in rule.results)
    found = enumerate_strategies(rule, operands, results, MESHES[1]).strategies
    assert len(set(found)) == len(found)
    assert all(sharding.is_replicated for sharding in found[0].operands)


def _shape(rule: OpRule, dims: TensorFactors) -> tuple[int, ...]:
    return tuple(int(np.prod([rule.factors[f].size for f in factors])) for factors in dims)


def _compute(
    rule: OpRule, operands: Sequence[NDArray[np.float64]], sizes: Sequence[int]
) -> list[NDArray[np.float64]]:
    """The operator on factors of these sizes: whole ones, or those of one device."""
    total = np.ones(sizes)
    for array, dims in zip(operands, rule.operands, strict=True):
        total = total * _over_all_factors(array, dims, sizes)
    results = []
    for dims in rule.results:
        order = [position for factors in dims for position in factors]
        result = total
        for position in reversed(range(len(sizes))):
            if position not in order:
                result = _join(rule, position).reduce(result, axis=position)
        kept = sorted(order)
        result = np.transpose(result, [kept.index(position) for position in order])
        shape = [int(np.prod([sizes[f] for f in factors])) for factors in dims]
        results.append(np.reshape(result, shape))
    return results


def _over_all_factors(
    array: NDArray[np.float64], dims: TensorFactors, sizes: Sequence[int]
) -> NDArray[np.float64]:
    order = [position for factors in dims for position in factors]
    by_factor = np.reshape(array, [sizes[position] for position in order])
    sorted_order = sorted(order)
    ordered = np.transpose(by_factor, [order.index(position) for position in sorted_order])
    return np.reshape(ordered, [n if i in order else 1 for i, n in enumerate(sizes)])


def _join(rule: OpRule, position: int) -> np.ufunc:
    return np.maximum if rule.factors[position].combiner is Combiner.MAX else np.add


def _run_in_shards(
    rule: OpRule,
    strategy: Strategy,
    operands: Sequence[NDArray[np.float64]],
    sizes: Sequence[int],
    mesh: Mesh,
) -> list[Blocks]:
    local = [
        size // mesh.size_of(axes) for size, axes in zip(sizes, strategy.factor_axes, strict=True)
    ]
    held = [
        cut(array, layout.dims, mesh)
        for array, layout in zip(operands, strategy.operands, strict=True)
    ]
    computed = {
        place: _compute(rule, [blocks[place] for blocks in held], local) for place in places(mesh)
    }
    return [
        {place: results[position] for place, results in computed.items()}
        for position in range(len(rule.results))
    ]


def _finish(
    rule: OpRule,
    strategy: Strategy,
    position: int,
    steps: tuple[Collective, ...],
    blocks: Blocks,
    mesh: Mesh,
) -> Blocks:
    partial = strategy.partials[position]
    reduced = {f.combiner for f in rule.factors if f.combiner is not None}
    reduce = np.maximum if reduced == {Combiner.MAX} else np.add
    assert bool(steps) == bool(partial.unreduced)
    assert sorted(a for step in steps for a in step.axes) == sorted(partial.unreduced)
    for step in steps:
        assert step.kind in {CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER}
        assert {block.nbytes for block in blocks.values()} == {step.input_bytes}
        blocks = run(step, partial, Sharding.of(), blocks, mesh, reduce)
        assert {block.nbytes for block in blocks.values()} == {step.output_bytes}
    return blocks
