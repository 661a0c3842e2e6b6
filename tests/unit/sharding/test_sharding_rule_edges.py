"""Rules at the edges of what operators may be: empty dims, odd ranks, missing attributes."""

from __future__ import annotations

import pytest

from shardwright.ir import Attribute, Graph, Op, Role, Tensor
from shardwright.sharding import FactorKind, OpRule
from shardwright.sharding.rules import RuleDraft, registered_kinds, rule_for

Shape = tuple[int, ...]


def rule_of(
    kind: str, operands: list[Shape], results: list[Shape], **attributes: Attribute
) -> OpRule:
    tensors = tuple(
        Tensor(id=row, shape=shape, dtype="float32", role=Role.ACTIVATION)
        for row, shape in enumerate([*operands, *results])
    )
    ids = tuple(range(len(tensors)))
    arity = len(operands)
    pairs = tuple(sorted((name.replace("__", "."), value) for name, value in attributes.items()))
    op = Op(id=0, kind=kind, operands=ids[:arity], results=ids[arity:], attributes=pairs)
    graph = Graph(name="edge", tensors=tensors, inputs=ids[:arity], outputs=ids[arity:], ops=(op,))
    return rule_for(op, graph)


def text(rule: OpRule) -> str:
    return str(rule).split("  {")[0].strip()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((), (1, 1), "() -> 1 1"),
        ((1,), (), "1 -> ()"),
        ((2, 3), (6,), "i j -> (i j)"),
        ((4, 6, 8), (4, 48), "i j k -> i (j k)"),
        ((2, 2, 3), (6, 2), "i w w2 -> (i w3) w4"),
        ((0, 4), (0, 2, 2), "1 w -> 1 w2 w3"),
        ((1, 8, 1), (8,), "1 i 1 -> i"),
        ((8, 1), (1, 8, 1, 1), "i 1 -> 1 i 1 1"),
        ((5, 7), (7, 5), "w w2 -> w3 w4"),
        ((12,), (2, 2, 3), "(i j k) -> i j k"),
    ],
)
def test_reshapes_share_what_lines_up(before: Shape, after: Shape, expected: str) -> None:
    rule = rule_of("reshape", [before], [after], new_sizes=after, dimensions=None)
    assert text(rule) == expected


def test_a_convolution_of_four_spatial_dims_has_numbered_names() -> None:
    spec = (0, 5, 1, 2, 3, 4)
    rule = rule_of(
        "conv_general_dilated",
        [(2, 8, 8, 8, 8, 3), (4, 3, 1, 1, 1, 1)],
        [(2, 8, 8, 8, 8, 4)],
        dimension_numbers__lhs_spec=spec,
        dimension_numbers__rhs_spec=(0, 1, 2, 3, 4, 5),
        dimension_numbers__out_spec=spec,
        window_strides=(1, 1, 1, 1),
        padding=((0, 0),) * 4,
        lhs_dilation=(1, 1, 1, 1),
        rhs_dilation=(1, 1, 1, 1),
        feature_group_count=1,
        batch_group_count=1,
    )
    assert text(rule) == "n x0 x1 x2 x3 i, o i 1 1 1 1 -> n x0 x1 x2 x3 o"


def test_scales_of_unequal_blocks_keep_the_contracted_dim_whole() -> None:
    rule = rule_of(
        "scaled_dot",
        [(4, 24), (24, 6), (4, 4), (8, 6)],
        [(4, 6)],
        dimension_numbers=(((1,), (0,)), ((), ())),
    )
    assert text(rule) == "m k, k n, m w, w2 n -> m n"
    assert {factor.kind for factor in rule.factors if factor.name in ("k", "w", "w2")} == {
        FactorKind.NEED_REPLICATION
    }


def test_an_empty_dim_has_no_factor() -> None:
    assert text(rule_of("add", [(0, 4), (0, 4)], [(0, 4)])) == "1 j, 1 j -> 1 j"


def test_a_kind_without_a_rule_is_kept_whole_and_says_so() -> None:
    rule = rule_of("no_such_operator", [(2, 1)], [(3,), ()])
    assert rule.fallback == 'no rule for "no_such_operator"'
    assert text(rule) == "w 1 -> w2, ()"


def test_names_that_are_taken_get_numbers() -> None:
    draft = RuleDraft()
    dims = [draft.passes("b", 2), draft.passes("b", 3), draft.whole(4), draft.whole(1)]
    rule = draft.rule([dims], [])
    assert [factor.name for factor in rule.factors] == ["b", "b2", "w"]
    assert rule.operands == (((0,), (1,), (2,), ()),)


def test_many_dims_run_out_of_letters() -> None:
    rule = rule_of("exp", [(2,) * 10], [(2,) * 10])
    assert text(rule) == "i j k l m n p q d8 d9 -> i j k l m n p q d8 d9"


def test_kinds_are_listed_in_order() -> None:
    kinds = registered_kinds()
    assert list(kinds) == sorted(set(kinds))
    assert {"dot_general", "reshape", "gather", "shard.alias"} <= set(kinds)
