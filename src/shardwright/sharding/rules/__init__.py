"""Operator rules, one small file per family; ``registry.py`` maps kinds to them."""

from shardwright.sharding.rules.draft import RuleDraft as RuleDraft
from shardwright.sharding.rules.draft import RuleFunction as RuleFunction
from shardwright.sharding.rules.draft import whole_rule as whole_rule
from shardwright.sharding.rules.registry import registered_kinds as registered_kinds
from shardwright.sharding.rules.registry import rule_for as rule_for
