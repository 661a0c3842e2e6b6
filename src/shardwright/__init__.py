r"""Shardwright: automatic parallelism for training steps.

::

    step, args -> capture -> search -> plan -> execute -> the same step on many devices
                                 \-> cost, report: how long, how many bytes, why

Read the rooms in this order: ``ir``, ``cluster``, ``sharding``, ``solver``, ``search``, ``plan``,
``cost``, ``capture``, ``execute``, ``report``, ``api``. Importing the package loads no framework.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

# The room of that name is loaded first, so that ``shardwright.plan`` stays the function below.
import shardwright.plan  # noqa: F401

if TYPE_CHECKING:
    from shardwright.api import Options as Options
    from shardwright.api import ParallelStep as ParallelStep
    from shardwright.api import Planned as Planned
    from shardwright.api import parallelize as parallelize

__version__ = "0.1.0"

__all__ = ["Options", "ParallelStep", "Planned", "parallelize", "plan"]

_LAZY = frozenset(__all__) - {"plan"}


def plan(step: Callable[..., Any], *args: Any, **settings: Any) -> Planned:
    """The best plan for a step on some machines; see ``shardwright.api.plan``."""
    answer: Planned = importlib.import_module("shardwright.api").plan(step, *args, **settings)
    return answer


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module("shardwright.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
