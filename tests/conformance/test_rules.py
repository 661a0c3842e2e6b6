"""Every rule holds when its operator is run in shards."""

from __future__ import annotations

import pytest
from tests.conformance import rule_rows_core
from tests.conformance.rule_harness import RuleRow, prove

ROWS: tuple[RuleRow, ...] = (*rule_rows_core.ROWS,)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_each_factor_of_a_rule_holds_in_shards(row: RuleRow) -> None:
    prove(row)
