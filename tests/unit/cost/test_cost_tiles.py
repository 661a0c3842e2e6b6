"""Shares that tiling leaves, against products counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from shardwright.cost.tiles import tile_share

SIZES = draw.integers(1, 5000)


@pytest.mark.parametrize(
    ("batch", "rows", "columns", "units", "share"),
    [
        (1, 2560, 1280, 100, 1.0),
        (4, 256, 128, 4, 1.0),
        (1, 2560, 1280, 200, 0.94),
        (1, 256, 128, 4, 0.8),
        (1, 64, 64, 1, 0.62),
        (1, 2560, 1281, 110, 2560 * 1281 / (110 * 256 * 128)),
        (1, 1000, 999, 0, 1.0),
        (1, 0, 128, 108, 1.0),
    ],
    ids=[
        "one whole wave",
        "a batch of tiles",
        "half the tile fills the wave better",
        "a quarter of the tile on each of four units",
        "the smallest tile",
        "one column too many",
        "unknown units",
        "nothing to compute",
    ],
)
def test_by_hand(batch: int, rows: int, columns: int, units: int, share: float) -> None:
    assert tile_share(batch, rows, columns, units) == pytest.approx(share)


@given(SIZES, SIZES, draw.integers(1, 8), draw.sampled_from([0, 80, 108, 132]))
@settings(deadline=None, derandomize=True, max_examples=80)
def test_a_share_is_a_share(rows: int, columns: int, batch: int, units: int) -> None:
    share = tile_share(batch, rows, columns, units)
    assert 0 < share <= 1
    assert share == pytest.approx(tile_share(batch, columns, rows, units))


@given(SIZES, SIZES, draw.integers(1, 8), draw.sampled_from([0, 80, 108, 132]))
@settings(deadline=None, derandomize=True, max_examples=80)
def test_two_halves_never_fit_better(half: int, columns: int, batch: int, units: int) -> None:
    whole = tile_share(batch, 2 * half, columns, units)
    assert tile_share(batch, half, columns, units) <= whole * (1 + 1e-12)
    assert tile_share(batch, columns, half, units) <= whole * (1 + 1e-12)
    assert tile_share(batch, half, columns, units) <= tile_share(2 * batch, half, columns, units)
