"""Operators that no rule can look into are kept whole, and the rule says why."""

from __future__ import annotations

import pytest

from shardwright.ir import Attribute, Graph, Op, Role, Tensor
from shardwright.sharding.factor import FactorKind, OpRule
from shardwright.sharding.rules import opaque, rule_for


def rule_of(kind: str, *shapes: tuple[int, ...], **attributes: Attribute) -> OpRule:
    """The rule of an operator that reads all but the last of these shapes and makes the last."""
    tensors = tuple(
        Tensor(id=row, shape=shape, dtype="float32", role=Role.ACTIVATION)
        for row, shape in enumerate(shapes)
    )
    ids = tuple(range(len(shapes)))
    op = Op(
        id=0,
        kind=kind,
        operands=ids[:-1],
        results=ids[-1:],
        attributes=tuple(sorted(attributes.items())),
    )
    graph = Graph(name="row", tensors=tensors, inputs=ids[:-1], outputs=ids[-1:], ops=(op,))
    return rule_for(op, graph)


def assert_whole(rule: OpRule) -> None:
    assert {factor.kind for factor in rule.factors} == {FactorKind.NEED_REPLICATION}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("pure_callback", "it calls Python code on the host, which expects whole arrays"),
        ("io_callback", "it calls Python code on the host, which expects whole arrays"),
        ("debug_print", "it shows values to the user, who expects them whole"),
        ("debug_callback", "it shows values to the user, who expects them whole"),
        ("ffi_call", "it calls a foreign function, and nothing says how it may be cut"),
        ("pallas_call", "its kernel is written by hand, and nothing says how it may be cut"),
        ("custom_partitioning", "it brings its own partitioning, which only the compiler calls"),
        (
            "custom_linear_solve",
            "the linear function it wraps may mix every element of its operands",
        ),
    ],
)
def test_an_opaque_operator_is_kept_whole_for_its_own_reason(kind: str, reason: str) -> None:
    rule = rule_of(kind, (4, 6), (4,))
    assert rule.fallback == reason
    assert_whole(rule)


@pytest.mark.parametrize("kind", sorted(opaque.RULES))
def test_every_opaque_rule_is_a_recorded_fallback(kind: str) -> None:
    rule = rule_of(kind, (4, 1), (6,))
    assert rule.fallback
    assert_whole(rule)


def test_a_ragged_product_from_a_computed_group_is_kept_whole() -> None:
    rule = rule_of("ragged_dot_general", (12, 6), (4, 6, 4), (4,), (12, 4), group_offset="int32[1]")
    assert rule.fallback == "a ragged product that starts at a group known only at run time"
    assert_whole(rule)
