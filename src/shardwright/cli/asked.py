"""What may be asked of a search on the command line, as options of a command and as a record."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import click

from shardwright.cluster import Mesh
from shardwright.errors import UsageError
from shardwright.search.constraints import Constraint
from shardwright.search.find import Question
from shardwright.search.intra import Effort
from shardwright.sharding import Sharding
from shardwright.units import parse_bytes

# The defaults of shardwright.api.Options, which a command that loads no framework cannot read.
GAP = 1e-3
MESH_TIME_S = 20.0
TOTAL_TIME_S = 40.0

Dims = tuple[str | tuple[str, ...] | None, ...]

_OPTIONS = (
    click.option("--method", default="auto", show_default=True, help="auto, or a recipe's name."),
    click.option("--mesh", default="", help="Axis sizes, as in dp=2,tp=4; by default all."),
    click.option(
        "--constraint",
        "constraints",
        multiple=True,
        help="An input's sharding, as in 'params.w=dp,-': one entry per dim, '-' a whole dim, "
        "'a+b' two axes; names may hold '*'. Needs --mesh. Repeatable.",
    ),
    click.option("--memory", default="", help="Budget per device, as in 80GiB."),
    click.option("--gap", default=GAP, show_default=True, help="Gap at which to stop."),
    click.option(
        "--time", "time_s", default=TOTAL_TIME_S, show_default=True, help="Seconds of search."
    ),
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked of the search.

    Attributes:
        method: ``auto`` or a recipe's name.
        mesh: the mesh to search; None for every candidate.
        constraints: (input name or pattern, dims) pairs.
        memory_bytes: budget per device; 0 for the cluster's own.
        gap: relative gap at which to stop.
        time_s: seconds of search in all.
    """

    method: str
    mesh: Mesh | None
    constraints: tuple[tuple[str, Dims], ...]
    memory_bytes: int
    gap: float
    time_s: float

    @property
    def mesh_time_s(self) -> float:
        """Seconds of search for one mesh: all of them when there is one mesh alone."""
        return self.time_s if self.mesh is not None else min(MESH_TIME_S, self.time_s)

    def question(self) -> Question:
        """The same, as the search asks it."""
        return Question(
            method=self.method,
            meshes=() if self.mesh is None else (self.mesh,),
            constraints=tuple(
                Constraint(pattern=pattern, sharding=Sharding.of(*dims))
                for pattern, dims in self.constraints
            ),
            budget_bytes=self.memory_bytes,
            effort=Effort(gap=self.gap, time_limit_s=self.mesh_time_s, total_time_s=self.time_s),
        )


def asked_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a search; it takes them as one ``asked``."""

    @functools.wraps(command)
    def with_asked(
        *,
        method: str,
        mesh: str,
        constraints: tuple[str, ...],
        memory: str,
        gap: float,
        time_s: float,
        **rest: Any,
    ) -> Any:
        asked = Asked(
            method=method,
            mesh=Mesh.parse(mesh) if mesh else None,
            constraints=tuple(parse_constraint(text) for text in constraints),
            memory_bytes=_parse_memory(memory) if memory else 0,
            gap=gap,
            time_s=time_s,
        )
        _check(asked)
        return command(asked=asked, **rest)

    wrapped: Callable[..., Any] = with_asked
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def parse_constraint(text: str) -> tuple[str, Dims]:
    """The pattern and dims of a text such as ``params.w=dp,-``.

    Raises:
        UsageError: it cannot be read.
    """
    pattern, equals, dims = (piece.strip() for piece in text.rpartition("="))
    entries = [entry.strip() for entry in dims.split(",")] if dims else []
    if not equals or not pattern or not all(map(_is_entry, entries)):
        raise UsageError(
            f'"{text}" is not a constraint',
            hint="NAME=DIMS with one entry per dim: an axis, a+b for two axes, - for a whole dim; "
            "as in 'params.w=dp,-'",
        )
    return pattern, tuple(_dim(entry) for entry in entries)


def _is_entry(entry: str) -> bool:
    return entry == "-" or all(axis.strip().isidentifier() for axis in entry.split("+"))


def _dim(entry: str) -> str | tuple[str, ...] | None:
    if entry == "-":
        return None
    axes = tuple(axis.strip() for axis in entry.split("+"))
    return axes[0] if len(axes) == 1 else axes


def _parse_memory(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise UsageError(f"--memory: {error}", hint="--memory 80GiB") from error


def _check(asked: Asked) -> None:
    if asked.constraints and asked.mesh is None:
        raise UsageError(
            f"{len(asked.constraints)} constraints name mesh axes, but no mesh is given",
            hint="--mesh dp=2,tp=4 with the axes that the constraints name",
        )
    for name, value in (("--gap", asked.gap), ("--time", asked.time_s)):
        if not value >= 0:
            raise UsageError(f"{name} {value:g} is below 0", hint=f"{name} of 0 or more")
