"""Rows of the rules' proof: elementwise, products, convolutions, reductions, shapes, randomness."""

from __future__ import annotations

from jax import lax
from tests.conformance.rule_harness import RuleRow, floats

ROWS: tuple[RuleRow, ...] = (
    RuleRow(kind="exp", function=lax.exp, arguments=(floats(6, 12),), rule="i j -> i j"),
)
