"""An operator takes on what its neighbour decided, and says which axes it cannot carry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardwright.cluster import Mesh
from shardwright.sharding import Combiner, OpRule, Sharding, rule_from_text
from shardwright.sharding.enumerate import enumerate_strategies
from shardwright.sharding.factor import FactorKind, TensorFactors
from shardwright.sharding.follow import Followed, follow, follow_result

MESH = Mesh.of(dp=2, tp=4)
S = Sharding.of
WHOLE = FactorKind.NEED_REPLICATION


def shapes(rule: OpRule, tensors: tuple[TensorFactors, ...]) -> tuple[tuple[int, ...], ...]:
    sizes = [factor.size for factor in rule.factors]

    def size(factors: tuple[int, ...]) -> int:
        return sizes[factors[0]] * size(factors[1:]) if factors else 1

    return tuple(tuple(size(factors) for factors in dims) for dims in tensors)


def forward(rule: OpRule, sharding: Sharding) -> Followed:
    return follow(rule, shapes(rule, rule.operands), shapes(rule, rule.results), MESH, 0, sharding)


def backward(rule: OpRule, sharding: Sharding) -> Followed:
    operands, results = shapes(rule, rule.operands), shapes(rule, rule.results)
    return follow_result(rule, operands, results, MESH, 0, sharding)


ADD = rule_from_text("b d, b d -> b d", {"b": 8, "d": 16})
SPLIT = rule_from_text("b (h d) -> b h d", {"b": 8, "h": 4, "d": 8})
FEW_HEADS = rule_from_text("b (h d) -> b h d", {"b": 8, "h": 2, "d": 32})
SUM = rule_from_text("b v -> b", {"b": 8, "v": 16}, {"v": Combiner.SUM})
SOFT = rule_from_text("b v -> b v", {"b": 8, "v": 16}, {"v": WHOLE})
MERGE = rule_from_text("h d -> (h d)", {"h": 4, "d": 8})
SWAP = rule_from_text("h d -> (d h)", {"h": 8, "d": 4})

ROWS = [
    ("carried", forward, ADD, S("dp", "tp"), [S("dp", "tp")] * 2, [S("dp", "tp")], ()),
    ("order kept", forward, ADD, S(("tp", "dp"), None), [S(("tp", "dp"), None)] * 2, None, ()),
    ("into the major", forward, SPLIT, S(None, "tp"), None, [S(None, "tp", None)], ()),
    ("on to the minor", forward, SPLIT, S(None, ("tp", "dp")), None, [S(None, "tp", "dp")], ()),
    ("straddles", forward, FEW_HEADS, S(None, "tp"), [S(None, None)], None, ("tp",)),
    ("first fits", forward, FEW_HEADS, S(None, ("dp", "tp")), None, [S(None, "dp", "tp")], ()),
    (
        "second fits",
        forward,
        FEW_HEADS,
        S(None, ("tp", "dp")),
        None,
        [S(None, "dp", None)],
        ("tp",),
    ),
    ("reduced", forward, SUM, S("dp", "tp"), [S("dp", "tp")], [S("dp")], ()),
    ("whole", forward, SOFT, S("dp", "tp"), [S("dp", None)], [S("dp", None)], ("tp",)),
    ("strided elsewhere", forward, MERGE, S(None, "dp"), [S(None, None)], [S(None)], ("dp",)),
    ("both of a merge", forward, MERGE, S("tp", "dp"), [S("tp", "dp")], [S(("tp", "dp"))], ()),
    ("placed later", forward, SWAP, S("dp", "tp"), [S("dp", "tp")], [S(("tp", "dp"))], ()),
    (
        "sums are finished first",
        forward,
        ADD,
        Sharding(dims=(("dp",), ()), unreduced=("tp",)),
        [S("dp", None)] * 2,
        None,
        ("tp",),
    ),
    ("backwards", backward, SPLIT, S("dp", "tp", None), [S("dp", "tp")], None, ()),
    ("backwards, strided", backward, SPLIT, S(None, None, "dp"), [S(None, None)], None, ("dp",)),
]


@pytest.mark.parametrize(
    ("ask", "rule", "sharding", "operands", "results", "dropped"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_follow(
    ask: Callable[[OpRule, Sharding], Followed],
    rule: OpRule,
    sharding: Sharding,
    operands: list[Sharding] | None,
    results: list[Sharding] | None,
    dropped: tuple[str, ...],
) -> None:
    found = ask(rule, sharding)
    assert operands is None or found.strategy.operands == tuple(operands)
    assert results is None or found.strategy.results == tuple(results)
    assert found.dropped == dropped


@pytest.mark.parametrize("rule", [ADD, SPLIT, FEW_HEADS, MERGE, SWAP, SOFT, SUM], ids=str)
def test_what_a_strategy_asks_for_leads_back_to_it(rule: OpRule) -> None:
    operands, results = shapes(rule, rule.operands), shapes(rule, rule.results)
    for strategy in enumerate_strategies(rule, operands, results, MESH).strategies:
        found = follow(rule, operands, results, MESH, 0, strategy.operands[0])
        assert found.strategy.operands == strategy.operands
        assert found.strategy.partials == strategy.partials
        assert found.dropped == ()
