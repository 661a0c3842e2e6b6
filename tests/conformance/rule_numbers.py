"""Numbers for the rows of the rules' proof, on the host and the same in every run."""

from __future__ import annotations

import numpy as np

KEY_WORDS = np.dtype([("words", np.uint32, (2,))])
"""Typed random keys on the host: one structured element per key, so that numpy can cut them."""


def floats(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """float32 numbers, uniform between ``low`` and ``high``."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def ints(*shape: int, low: int = 0, high: int = 100, seed: int = 0) -> np.ndarray:
    """int32 numbers from ``low`` up to ``high``, that one left out."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


def words(*shape: int, seed: int = 0) -> np.ndarray:
    """uint32 numbers of the whole range."""
    return np.random.default_rng(seed).integers(0, 2**32, shape, dtype=np.uint32)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    """Booleans."""
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.bool_)


def complexes(*shape: int, seed: int = 0) -> np.ndarray:
    """complex64 numbers."""
    return (floats(*shape, seed=seed) + 1j * floats(*shape, seed=seed + 1)).astype(np.complex64)


def keys(*shape: int, seed: int = 0) -> np.ndarray:
    """Typed random keys, as host arrays."""
    return words(*shape, 2, seed=seed).view(KEY_WORDS)[..., 0]
