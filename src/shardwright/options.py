"""What a user may ask of the search, checked as soon as it is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from shardwright.cluster import Mesh
from shardwright.errors import UsageError, did_you_mean
from shardwright.ir import Role
from shardwright.search.constraints import Constraint
from shardwright.search.find import Question
from shardwright.search.intra import Effort
from shardwright.sharding import Sharding

MeshLike = Mesh | Mapping[str, int] | str
ConstraintsLike = Mapping[str, Sequence[str | tuple[str, ...] | None]]


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be asked of a search; every field has the default that suits most.

    Attributes:
        method: ``auto``, or a recipe's name such as ``zero-3``.
        mesh: axis sizes by name, such as ``{"dp": 2, "tp": 4}`` or ``"dp=2,tp=4"``; by default all
            shapes are tried.
        constraints: shardings by input name (``*`` allowed), one entry per dim: an axis, a tuple
            of axes, or None.
        memory_bytes: budget per device; by default the cluster's memory less a stated reserve.
        gap: relative gap between plan and bound at which the search may stop.
        time_limit_s: wall seconds of search per mesh.
        total_time_s: wall seconds of search after which no further mesh is tried.
        roles: roles by input name, where capture guesses wrong.
    """

    method: str = "auto"
    mesh: MeshLike | None = None
    constraints: ConstraintsLike | None = None
    memory_bytes: int = 0
    gap: float = 1e-3
    time_limit_s: float = 20.0
    total_time_s: float = 40.0
    roles: Mapping[str, Role | str] | None = None

    def __post_init__(self) -> None:
        """Refuse what no search could take."""
        for name, (wanted, is_right) in _RIGHT.items():
            value = getattr(self, name)
            if not is_right(value):
                raise UsageError(f"{name} is {value!r}; {wanted} is wanted")
        for pattern, dims in (self.constraints or {}).items():
            if not _is_dims(dims):
                raise UsageError(
                    f"constraint {pattern!r} is {dims!r}; one entry per dim is wanted",
                    hint='an axis, a tuple of axes, or None for a whole dim, as in ("dp", None)',
                )

    def question(self) -> Question:
        """The same, as the search asks it."""
        if self.constraints and self.mesh is None:
            raise UsageError(
                f"{len(self.constraints)} constraints name mesh axes, but no mesh is given",
                hint='mesh={"dp": 2, "tp": 4} with the axes that the constraints name',
            )
        return Question(
            method=self.method,
            meshes=() if self.mesh is None else (as_mesh(self.mesh),),
            constraints=tuple(
                Constraint(pattern=pattern, sharding=Sharding.of(*dims))
                for pattern, dims in (self.constraints or {}).items()
            ),
            budget_bytes=self.memory_bytes,
            effort=Effort(
                gap=self.gap, time_limit_s=self.time_limit_s, total_time_s=self.total_time_s
            ),
        )


def as_mesh(mesh: MeshLike) -> Mesh:
    """A mesh from axis sizes by name, or from a text such as ``dp=2,tp=4``.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(mesh, Mesh):
        return mesh
    if isinstance(mesh, str):
        return Mesh.parse(mesh)
    if isinstance(mesh, Mapping) and all(
        isinstance(name, str) and _is_whole(size) for name, size in mesh.items()
    ):
        return Mesh.of(**mesh)
    raise UsageError(
        f"mesh is {mesh!r}; axis sizes by name are wanted",
        hint='mesh={"dp": 2, "tp": 4}, or "dp=2,tp=4"',
    )


def options_of(options: Options | None, settings: Mapping[str, Any]) -> Options:
    """The options with some fields set by name.

    Raises:
        UsageError: no field is called so, or a value is none that it can have.
    """
    known = Options.__dataclass_fields__
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise UsageError(f'"{unknown[0]}" is not an option', hint=did_you_mean(unknown[0], known))
    return replace(options or Options(), **settings)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_dims(dims: Any) -> bool:
    return isinstance(dims, Sequence) and all(
        entry is None
        or isinstance(entry, str)
        or (isinstance(entry, tuple) and all(isinstance(axis, str) for axis in entry))
        for entry in dims
    )


_RIGHT: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "method": ('"auto" or a recipe by name', lambda value: isinstance(value, str)),
    "constraints": (
        "a dict of dims by input name",
        lambda value: value is None or isinstance(value, Mapping),
    ),
    "memory_bytes": (
        "a whole number of bytes, 0 for the cluster's own,",
        lambda value: _is_whole(value) and value >= 0,
    ),
    "gap": (
        "a share such as 0.001, at least 0,",
        lambda value: _is_positive(value) or (value == 0 and not isinstance(value, bool)),
    ),
    "time_limit_s": ("a number of seconds above 0", _is_positive),
    "total_time_s": ("a number of seconds above 0", _is_positive),
    "roles": (
        "a dict of roles by input name",
        lambda value: value is None or isinstance(value, Mapping),
    ),
}
"""For each field that any value could be given to: what it must be, and whether a value is that."""
