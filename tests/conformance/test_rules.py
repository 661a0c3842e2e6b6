"""Every rule holds when its operator is run in shards."""

from __future__ import annotations

import pytest

from tests.conformance import (
    rule_rows_core,
    rule_rows_elementwise,
    rule_rows_indexing,
    rule_rows_linalg,
    rule_rows_random,
    rule_rows_window,
)
from tests.conformance.rule_harness import RuleRow, prove

ROWS: tuple[RuleRow, ...] = (
    *rule_rows_core.ROWS,
    *rule_rows_elementwise.ROWS,
    *rule_rows_indexing.ROWS,
    *rule_rows_linalg.ROWS,
    *rule_rows_random.ROWS,
    *rule_rows_window.ROWS,
)


SLOW_ROWS: tuple[RuleRow, ...] = (
    *rule_rows_elementwise.SLOW_ROWS,
    *rule_rows_linalg.SLOW_ROWS,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_each_factor_of_a_rule_holds_in_shards(row: RuleRow) -> None:
    prove(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", SLOW_ROWS, ids=lambda row: row.label)
def test_each_factor_of_a_costly_rule_holds_in_shards(row: RuleRow) -> None:
    prove(row)
