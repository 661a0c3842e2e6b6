"""Every exception that Shardwright raises, and the exit code that each becomes.

::

    ShardwrightError                 exit 1
    ├── UsageError                   exit 2   the call itself is wrong
    ├── CaptureError                 exit 2   the step cannot be written down as a graph
    ├── GraphError                   exit 2   a graph or its text breaks its own rules
    ├── TopologyError                exit 2   the machines named do not exist or do not suffice
    ├── ShardingError                exit 2   a tensor cannot be cut as asked
    ├── PlanError                    exit 2   a plan is damaged, stale or of another graph
    ├── CostError                    exit 2   a table of costs is unreadable
    ├── NoPlanError                  exit 3   a step is to run, and no plan fits
    ├── ConstraintError              exit 4   what the user asks for contradicts itself
    └── ExecuteError                 exit 1   the planned program could not be run or disagreed

A search that finds no plan raises nothing: it returns a result with a reason (exit 3) and the
smallest change that would fit. Only a step that has to run without a plan raises.

Each error speaks in three parts: *what* is wrong with both numbers, *where* it is, what to *try*.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ShardwrightError(Exception):
    """Base of all errors of the package; catch it to catch them all."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(self.text())

    def text(self) -> str:
        """The message: one line of what, then ``where`` and ``try`` lines when they are known."""
        lines = [self.what]
        if self.where:
            lines.append(f"  where  {self.where}")
        if self.hint:
            lines.append(f"  try    {self.hint}")
        return "\n".join(lines)


class UsageError(ShardwrightError):
    """A call or command line that cannot be meant: an unknown method, a missing argument."""

    exit_code = 2


class CaptureError(ShardwrightError):
    """The step cannot become a graph: not a function, or its shapes depend on data."""

    exit_code = 2


class GraphError(ShardwrightError):
    """A graph breaks its own rules, or its text form cannot be read."""

    exit_code = 2


class TopologyError(ShardwrightError):
    """Machines that are not known, or a mesh that they cannot hold."""

    exit_code = 2


class ShardingError(ShardwrightError):
    """A tensor cannot be cut as asked: a size that does not divide, an axis used twice."""

    exit_code = 2


class PlanError(ShardwrightError):
    """A plan that is damaged, of another schema, or made for another graph or cluster."""

    exit_code = 2


class CostError(ShardwrightError):
    """A table of costs that is missing, damaged or of other units."""

    exit_code = 2


class NoPlanError(ShardwrightError):
    """A step is to run, and no plan fits; the message says what is short and what would fit."""

    exit_code = 3


class ConstraintError(ShardwrightError):
    """Constraints that clash with the graph or with each other; the message names which."""

    exit_code = 4


class ExecuteError(ShardwrightError):
    """The planned program could not be run, or its results differ from one device's."""

    exit_code = 1


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known words, or lists a few when none is near."""
    candidates = sorted(set(known))
    near = difflib.get_close_matches(word, candidates, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(f'"{name}"' for name in near) + "?"
    if not candidates:
        return ""
    shown = ", ".join(f'"{name}"' for name in candidates[:8])
    more = "" if len(candidates) <= 8 else f" and {len(candidates) - 8} more"
    return f"one of {shown}{more}"
