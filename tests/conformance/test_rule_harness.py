"""The proof of rules is no rubber stamp: a rule that lies is caught, whatever it lies about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

import numpy as np
import pytest
from jax import lax

from shardwright.sharding.factor import Combiner, Factor, FactorKind, OpRule, Window
from shardwright.sharding.rule import Mark, rule_from_text
from tests.conformance.rule_cutting import HaloPart, halo_part
from tests.conformance.rule_harness import RuleRow, floats, prove_rule, trace
from tests.conformance.rule_rows_core import RESHAPES
from tests.conformance.rule_rows_window import WINDOWS

ROWS = {row.label: row for row in (*RESHAPES, *WINDOWS)}
WHOLE = FactorKind.NEED_REPLICATION


@final
@dataclass(frozen=True, kw_only=True)
class Lie:
    """A rule that is wrong for the operator of ``row``."""

    about: str
    row: RuleRow
    text: str
    sizes: dict[str, int]
    complaint: str
    marks: dict[str, Mark] = field(default_factory=dict)

    @property
    def rule(self) -> OpRule:
        return rule_from_text(self.text, self.sizes, self.marks)


def row(kind: str, function: Any, *arguments: np.ndarray) -> RuleRow:
    return RuleRow(kind=kind, function=function, arguments=arguments)


SQUARE = floats(6, 6)
CUMSUM = row("cumsum", partial(lax.cumsum, axis=1), floats(6, 12))
TOTAL = row("reduce_sum", lambda x: lax.reduce_sum(x, (1,)), floats(6, 12))
PRODUCT = row("dot_general", lax.dot, SQUARE, floats(6, 6, seed=1))
TRANSPOSE = row("transpose", lambda x: lax.transpose(x, (1, 0)), SQUARE)
ADD = row("add", lax.add, SQUARE, floats(6, 6, seed=1))
SPLIT = replace(ROWS["reshape-split-heads"], rule="")
SPLIT_SIZES = {"b": 4, "s": 6, "h": 4, "d": 6}

LIES = (
    Lie(
        about="a prefix sum passes through",
        row=CUMSUM,
        text="i j -> i j",
        sizes={"i": 6, "j": 12},
        complaint="Not equal to tolerance",
    ),
    Lie(
        about="a sum reduces by maximum",
        row=TOTAL,
        text="i j -> i",
        sizes={"i": 6, "j": 12},
        marks={"j": Combiner.MAX},
        complaint="joined by max",
    ),
    Lie(
        about="a reduced dim passes through",
        row=TOTAL,
        text="i j -> i",
        sizes={"i": 6, "j": 12},
        complaint="of a whole result",
    ),
    Lie(
        about="the wrong dims are contracted",
        row=PRODUCT,
        text="m k, n k -> m n",
        sizes={"m": 6, "k": 6, "n": 6},
        marks={"k": Combiner.SUM},
        complaint="factor",
    ),
    Lie(
        about="a transpose leaves dims where they are",
        row=TRANSPOSE,
        text="i j -> i j",
        sizes={"i": 6, "j": 6},
        complaint="factor i",
    ),
    Lie(
        about="the minor factor is the major one",
        row=SPLIT,
        text="b s (d h) -> b s h d",
        sizes=SPLIT_SIZES,
        complaint="factor",
    ),
    Lie(
        about="an operand that is cut need not be",
        row=ADD,
        text="i j, w w2 -> i j",
        sizes={"i": 6, "j": 6, "w": 6, "w2": 6},
        marks={"w": WHOLE, "w2": WHOLE},
        complaint="factor i",
    ),
    Lie(
        about="a dim is whole for nothing",
        row=ADD,
        text="w j, w j -> w j",
        sizes={"w": 6, "j": 6},
        marks={"w": WHOLE},
        complaint="it is called need_replication, yet it passes through",
    ),
    Lie(
        about="a sum is whole for nothing",
        row=TOTAL,
        text="i w -> i",
        sizes={"i": 6, "w": 12},
        marks={"w": WHOLE},
        complaint="it is called need_replication, yet it reduces by sum",
    ),
    Lie(
        about="a dim moves for nothing",
        row=ADD,
        text="i j, i j -> i j",
        sizes={"i": 6, "j": 6},
        marks={"j": FactorKind.PERMUTATION},
        complaint="it is called permutation, yet it passes through",
    ),
    Lie(
        about="a factor has another size than its dim",
        row=ADD,
        text="i j, i j -> i j",
        sizes={"i": 6, "j": 12},
        complaint="a dim of size 6 has factors of product 12",
    ),
    Lie(
        about="a dim is missing",
        row=ADD,
        text="i, i -> i",
        sizes={"i": 6},
        complaint="a tensor of shape (6, 6) has 1 dims",
    ),
    Lie(
        about="a dim that could be cut has no factor",
        row=ADD,
        text="i 1, i 1 -> i 1",
        sizes={"i": 6},
        complaint="a dim of size 6 has factors of product 1",
    ),
)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.about)
def test_a_rule_that_lies_is_caught(lie: Lie) -> None:
    traced = replace(trace(lie.row), rule=lie.rule)
    with pytest.raises(AssertionError) as caught:
        prove_rule(traced)
    assert lie.complaint in str(caught.value)


@pytest.mark.parametrize(
    "window",
    [
        Window(size=1, pad_low=1, pad_high=1),
        Window(size=3),
        Window(size=3, pad_low=2, pad_high=0),
        Window(size=2, pad_low=1, pad_high=1),
    ],
    ids=str,
)
def test_a_window_that_lies_is_caught(window: Window) -> None:
    traced = trace(ROWS["reduce_window_sum-same"])
    lied = tuple(
        replace(factor, window=window) if factor.window else factor
        for factor in traced.rule.factors
    )
    with pytest.raises(AssertionError):
        prove_rule(replace(traced, rule=replace(traced.rule, factors=lied)))


def test_a_block_that_cannot_be_cut_is_reported() -> None:
    traced = trace(ADD)
    blocks = (Factor(name="i", size=6, block=3), Factor(name="j", size=6))
    with pytest.raises(AssertionError, match=r"its 2 blocks cannot be cut 2-way and 3- or 4-way"):
        prove_rule(replace(traced, rule=replace(traced.rule, factors=blocks)))


def test_an_excuse_for_a_factor_that_is_not_there_is_refused() -> None:
    excused = replace(ADD, conservative={"z": "no such factor"})
    with pytest.raises(AssertionError, match=r"excuses factors that the rule does not have"):
        prove_rule(trace(excused))


def test_a_fallback_nobody_asked_for_is_reported() -> None:
    traced = trace(ADD)
    with pytest.raises(AssertionError, match=r"no reason"):
        prove_rule(replace(traced, rule=replace(traced.rule, fallback="no reason")))


def test_a_row_that_does_not_apply_its_primitive_is_reported() -> None:
    with pytest.raises(LookupError, match=r"does not apply mul"):
        trace(replace(ADD, kind="mul"))


@pytest.mark.parametrize(
    ("window", "index", "expected"),
    [
        # Three elements, centred: one neighbour's element on each inner side.
        (
            Window(size=3, pad_low=1, pad_high=1),
            0,
            HaloPart(start=0, stop=5, pad_low=1, pad_high=0),
        ),
        (
            Window(size=3, pad_low=1, pad_high=1),
            1,
            HaloPart(start=3, stop=9, pad_low=0, pad_high=0),
        ),
        (
            Window(size=3, pad_low=1, pad_high=1),
            2,
            HaloPart(start=7, stop=12, pad_low=0, pad_high=1),
        ),
    ],
)
def test_a_shard_reads_its_part_and_its_neighbours_edges(
    window: Window, index: int, expected: HaloPart
) -> None:
    assert halo_part(window, 12, 12, index, 3) == expected


def test_a_shard_of_a_spread_operand_keeps_the_holes_at_its_edges() -> None:
    # Elements lie at 0, 2, 4 and so on; the second of two shards needs 4 to 9 of 0 to 10.
    window = Window(size=2, base_dilation=2, pad_low=0, pad_high=0)
    assert halo_part(window, 6, 10, 1, 2) == HaloPart(start=3, stop=6, pad_low=1, pad_high=0)
