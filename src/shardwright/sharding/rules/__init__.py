"""Operator rules, one small file per family; ``registry.py`` maps kinds to them."""

from shardwright.sharding.rules.registry import registered_kinds as registered_kinds
from shardwright.sharding.rules.registry import rule_for as rule_for
