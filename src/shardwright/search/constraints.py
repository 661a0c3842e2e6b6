"""Shardings that a user fixes: by tensor name, dim by dim, on a mesh whose axes they named."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.errors import ConstraintError, did_you_mean
from shardwright.search.masks import Mask
from shardwright.search.space import Space
from shardwright.sharding import Sharding


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One fixed sharding.

    Attributes:
        pattern: name of an input, ``*`` and ``?`` as in file names.
        sharding: how every input of that name lies.
    """

    pattern: str
    sharding: Sharding

    def __str__(self) -> str:
        return f'"{self.pattern}": {self.sharding}'


def constraint_masks(
    space: Space, masks: Sequence[Mask], constraints: Sequence[Constraint]
) -> list[Mask]:
    """``masks`` narrowed to what the constraints allow.

    Raises:
        ConstraintError: a name or axis is unknown, a dim does not divide, or two constraints (or a
            constraint and the recipe) leave a tensor nothing.
    """
    narrowed = [mask.copy() for mask in masks]
    fixed_by: dict[int, Constraint] = {}
    for constraint in constraints:
        _check_axes(space, constraint)
        for tensor_index in _matching(space, constraint):
            _fix(space, narrowed, tensor_index, constraint, fixed_by)
    return narrowed


def _check_axes(space: Space, constraint: Constraint) -> None:
    mesh = space.placed.mesh
    for axis in constraint.sharding.axes:
        if axis not in mesh.sizes:
            raise ConstraintError(
                f'constraint {constraint} names axis "{axis}", which the mesh {mesh} does not have',
                hint=did_you_mean(axis, mesh.names),
            )
    axes = constraint.sharding.axes
    if len(set(axes)) != len(axes):
        raise ConstraintError(f"constraint {constraint} cuts two dims by one axis")


def _matching(space: Space, constraint: Constraint) -> Iterator[int]:
    folded, graph = space.folded, space.folded.graph
    names = {tensor_id: graph.tensor(tensor_id).name for tensor_id in graph.inputs}
    found = [i for i, name in names.items() if fnmatch.fnmatchcase(name, constraint.pattern)]
    if not found:
        raise ConstraintError(
            f"constraint {constraint} names no input of the step",
            hint=did_you_mean(constraint.pattern, names.values()),
        )
    yield from dict.fromkeys(folded.tensor_of[i] for i in found)


def _fix(
    space: Space,
    masks: list[Mask],
    tensor_index: int,
    constraint: Constraint,
    fixed_by: dict[int, Constraint],
) -> None:
    tensor = space.folded.tensors[tensor_index].tensor
    where = f"{tensor.label} {tensor.dtype}{list(tensor.shape)}"
    if constraint.sharding.rank != tensor.rank:
        raise ConstraintError(
            f"constraint {constraint} has {constraint.sharding.rank} dims, the tensor has "
            f"{tensor.rank}",
            where=where,
        )
    for dim, axes in enumerate(constraint.sharding.dims):
        ways = space.placed.mesh.size_of(axes)
        if tensor.shape[dim] % ways:
            raise ConstraintError(
                f"constraint {constraint} cuts dim {dim} of size {tensor.shape[dim]} by {ways}, "
                "which does not divide it",
                where=where,
                hint=f"an axis size that divides {tensor.shape[dim]}, or leave dim {dim} whole",
            )
    palette = space.tensors[tensor_index]
    node = space.lead.tensors[tensor_index]
    if palette is None:
        if not constraint.sharding.is_replicated:
            raise ConstraintError(
                f"constraint {constraint} cuts a tensor that is kept whole", where=where
            )
        return
    wanted = np.array([s == constraint.sharding for s in palette.shardings])[palette.index]
    if not (masks[node] & wanted).any():
        other = fixed_by.get(node)
        clash = f"constraint {other}" if other is not None else "the method asked for"
        raise ConstraintError(
            f"constraint {constraint} clashes with {clash}: nothing satisfies both",
            where=where,
            hint="drop one of the two, or fix them to one sharding (tied state shares one)",
        )
    masks[node] &= wanted
    fixed_by[node] = constraint
