"""Device groups: every way in which XLA writes them."""

from __future__ import annotations

import pytest

from shardwright.cluster import Mesh
from shardwright.execute.groups import axes_of_groups, axes_of_pairs, parse_groups, parse_pairs

MESH = Mesh.of(dp=2, tp=4)
OVER_TP = ((0, 1, 2, 3), (4, 5, 6, 7))
OVER_DP = ((0, 4), (1, 5), (2, 6), (3, 7))


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("replica_groups={{0,1,2,3},{4,5,6,7}}", OVER_TP),
        ("replica_groups={{0,1,2,3}, {4,5,6,7}}, dimensions={0}", OVER_TP),
        ("replica_groups={}, to_apply=%add", (tuple(range(8)),)),
        ("channel_id=1, to_apply=%add", (tuple(range(8)),)),
        ("replica_groups=[2,4]<=[8], dimensions={0}", OVER_TP),
        ("replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true", OVER_DP),
        ("replica_groups=[1,8]<=[8]", (tuple(range(8)),)),
        (
            "replica_groups=[4,2]<=[2,2,2]T(0,2,1), dimensions={1}",
            ((0, 2), (1, 3), (4, 6), (5, 7)),
        ),
        ("replica_groups=mesh['a'=2,'b'=4] {'b'}, dimensions={0}", OVER_TP),
        ("replica_groups=mesh['a'=2,'b'=4] {'a'}", OVER_DP),
        ("replica_groups=mesh['a'=2,'one'=1,'b'=4] {'a'}", OVER_DP),
        ("replica_groups=mesh['a'=8,'one'=1] {'one'}", tuple((i,) for i in range(8))),
        ("replica_groups=mesh['a'=2,'b'=4] {'a','b'}", (tuple(range(8)),)),
        ("replica_groups=mesh['a'=2,'b'=4] {'b','a'}", ((0, 4, 1, 5, 2, 6, 3, 7),)),
        ("replica_groups=mesh['a'=8] {'a':(1)2}", OVER_DP),
        ("replica_groups=mesh['a'=8] {'a':(2)4}", OVER_TP),
        ("replica_groups=mesh['a'=8] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        (
            "replica_groups=mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'b'}, dimensions={0}",
            OVER_DP,
        ),
        (
            "replica_groups=mesh['a'=4,'b'=2], device_ids=(0,4,1,5,2,6,3,7) {'b'}",
            OVER_DP,
        ),
    ],
)
def test_every_form_of_groups_is_read(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert parse_groups(text, 8) == groups


@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        (OVER_TP, ("tp",)),
        (OVER_DP, ("dp",)),
        (tuple(reversed([tuple(reversed(group)) for group in OVER_DP])), ("dp",)),
        ((tuple(range(8)),), ("dp", "tp")),
        (tuple((i,) for i in range(8)), ()),
        (((0, 1), (2, 3), (4, 5), (6, 7)), None),
    ],
)
def test_groups_are_named_by_the_axes_they_span(
    groups: tuple[tuple[int, ...], ...], axes: tuple[str, ...] | None
) -> None:
    assert axes_of_groups(groups, MESH) == axes


def test_an_axis_of_size_one_is_never_spanned() -> None:
    mesh = Mesh.of(pp=1, dp=2, tp=4)
    assert axes_of_groups(OVER_DP, mesh) == ("dp",)


def test_a_permute_spans_the_axes_along_which_it_moves() -> None:
    ring = parse_pairs("channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, metadata={}")
    assert ring == ((0, 1), (1, 2), (2, 3), (3, 0))
    assert axes_of_pairs(ring, MESH) == ("tp",)
    assert axes_of_pairs(((0, 4), (4, 0)), MESH) == ("dp",)
    assert axes_of_pairs(((0, 5),), MESH) == ("dp", "tp")
