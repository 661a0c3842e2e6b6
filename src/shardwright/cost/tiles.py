"""The share of a device's matrix units that a product of given sizes can keep busy.

A product is cut into tiles of its result, one to a compute unit at a time. Tiles that hang over the
edge compute what nobody asked for (tile quantisation), and the last round of tiles may fill only
some of the units (wave quantisation). Small tiles fit better but reuse less of what they load.

Source:
    NVIDIA, "Matrix Multiplication Background User's Guide" (2023), sections 3 (tile quantisation)
    and 4 (wave quantisation); the relative rates of tile shapes are those that section 2.1 draws
    for A100, rounded.
"""

from __future__ import annotations

import functools
import math

_RATE_OF_TILE = (
    ((256, 128), 1.0),
    ((128, 256), 1.0),
    ((128, 128), 0.94),
    ((256, 64), 0.9),
    ((64, 256), 0.9),
    ((128, 64), 0.8),
    ((64, 128), 0.8),
    ((64, 64), 0.62),
)


@functools.lru_cache(maxsize=1 << 16)
def tile_share(batch: int, rows: int, columns: int, compute_units: int) -> float:
    """Share in (0, 1] of the peak that the best tiling of a product can reach.

    Args:
        batch: independent products.
        rows: of each result.
        columns: of each result.
        compute_units: of the device; 0 where they are unknown or there is one big matrix unit, and
            then nothing is lost.
    """
    wanted = batch * rows * columns
    if not compute_units or not wanted:
        return 1.0
    return max(
        rate * wanted / _computed(batch, rows, columns, tile, compute_units)
        for tile, rate in _RATE_OF_TILE
    )


def _computed(
    batch: int, rows: int, columns: int, tile: tuple[int, int], compute_units: int
) -> float:
    """Elements that all units could have computed in the time of all waves."""
    tiles = batch * math.ceil(rows / tile[0]) * math.ceil(columns / tile[1])
    waves = math.ceil(tiles / compute_units)
    return float(waves * compute_units * tile[0] * tile[1])
