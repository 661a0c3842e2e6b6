"""Bytes that a collective moves, and what a device holds of a cut tensor."""

from __future__ import annotations

import pytest

from shardwright.cluster import Mesh
from shardwright.sharding import Collective, CollectiveKind
from shardwright.sharding.collective import MovedBytes, local_bytes, moved_bytes

MESH = Mesh.of(one=1, dp=2, tp=4)

MOVED = [
    (CollectiveKind.SLICE, 800, 200, 0),
    (CollectiveKind.ALL_GATHER, 200, 800, 600),
    (CollectiveKind.REDUCE_SCATTER, 800, 200, 600),
    (CollectiveKind.ALL_REDUCE, 800, 800, 1200),
    (CollectiveKind.ALL_TO_ALL, 800, 800, 600),
    (CollectiveKind.PERMUTE, 800, 800, 800),
]


@pytest.mark.parametrize(("kind", "before", "after", "moved"), MOVED)
def test_bytes_moved_over_an_axis_of_four(
    kind: CollectiveKind, before: int, after: int, moved: int
) -> None:
    step = Collective(kind=kind, axes=("tp",), input_bytes=before, output_bytes=after)
    assert moved_bytes(step, MESH) == moved
    assert MovedBytes(mesh=MESH)(step) == moved


@pytest.mark.parametrize("kind", CollectiveKind)
def test_nothing_moves_over_an_axis_of_one(kind: CollectiveKind) -> None:
    step = Collective(kind=kind, axes=("one",), input_bytes=800, output_bytes=800)
    assert moved_bytes(step, MESH) == 0


def test_every_kind_has_a_row() -> None:
    assert {row[0] for row in MOVED} == set(CollectiveKind)


def test_a_device_holds_the_largest_piece() -> None:
    assert local_bytes((8, 10), (("dp",), ("tp",)), 2, MESH) == 4 * 3 * 2
    assert local_bytes((), (), 4, MESH) == 4
