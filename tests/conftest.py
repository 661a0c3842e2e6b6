"""Eight virtual CPU devices for every test, and a cache so that a program compiles once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_CACHE = Path(__file__).parent.parent / ".cache" / "jax"

# JAX reads these when it is first imported, which no plug-in of the suite does before this file.
# Set here rather than through jax.config, so that tests of the pure rooms need not import it.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Compiled text is read back with its names and source lines, so they are part of a program's key.
os.environ.setdefault("JAX_COMPILATION_CACHE_INCLUDE_METADATA_IN_KEY", "True")


def pytest_configure(config: pytest.Config) -> None:
    # A run that was killed while writing leaves a damaged entry; JAX then compiles anew and warns.
    for verb in ("reading", "writing"):
        config.addinivalue_line(
            "filterwarnings", f"ignore:Error {verb} persistent compilation cache entry"
        )
