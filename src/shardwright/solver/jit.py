"""Compiled functions: numba's, kept on disk so that only the first use of an installation waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function compiled at its first call; it holds no lock while it runs."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
