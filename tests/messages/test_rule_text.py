"""How rules are printed, and what is said of a text that is no rule."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.sharding import Combiner, Factor, FactorKind, OpRule, Window, rule_from_text


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (
            rule_from_text(
                "b m k, b k n -> b m n", {"b": 4, "m": 8, "k": 16, "n": 32}, {"k": Combiner.SUM}
            ),
            "b m k, b k n -> b m n  {b=4, m=8, k=16, n=32}  k: sum",
        ),
        (
            rule_from_text("b s (h d) -> b s h d", {"b": 2, "s": 8, "h": 4, "d": 16}),
            "b s (h d) -> b s h d  {b=2, s=8, h=4, d=16}",
        ),
        (
            rule_from_text("i w, () -> i 1", {"i": 6, "w": 4}, {"w": FactorKind.NEED_REPLICATION}),
            "i w, () -> i 1  {i=6, w=4}  w: need_replication",
        ),
        (
            OpRule(
                factors=(
                    Factor(name="h", size=8, kind=FactorKind.HALO, window=Window(size=3)),
                    Factor(name="r", size=2, kind=FactorKind.PERMUTATION),
                ),
                operands=(((0,), (1,)),),
                results=(((0,), (1,)),),
            ),
            "h r -> h r  {h=8, r=2}  h: halo, r: permutation",
        ),
    ],
)
def test_a_rule_is_printed_as_it_is_written(rule: OpRule, text: str) -> None:
    assert str(rule) == text


@pytest.mark.parametrize(
    "text",
    ["b m k, b k n -> b m n", "(h d) 1 -> 1 h d", "() -> i", "i -> ()", "i j, () -> j i, i"],
)
def test_a_printed_rule_reads_back(text: str) -> None:
    sizes = dict.fromkeys("bmknhdij", 2)
    assert str(rule_from_text(text, sizes)).split("  {")[0] == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("i j, i j", "the rule 'i j, i j' has no '->' between operands and results"),
        ("i (j k -> i", "the rule 'i (j k -> i' leaves a bracket open"),
        ("i j) -> i", "the rule 'i j) -> i' closes a bracket that it did not open"),
        ("i z -> i", "the rule 'i z -> i' names factor 'z' without a size"),
    ],
)
def test_a_text_that_is_no_rule_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ShardingError) as caught:
        rule_from_text(text, {"i": 2, "j": 2, "k": 2})
    assert str(caught.value) == complaint
