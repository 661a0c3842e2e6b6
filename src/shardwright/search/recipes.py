"""Recipes: the layouts that people pick by hand, as constraints on the same search space.

A recipe gives each mesh axis a part to play, and each part says which factors the axis may cut:

- *data*: the batch of every operator; of state nothing (stage 0), optimizer state (1), gradients
  too (2), parameters too (3);
- *tensor*: weights and what they produce, never the batch nor the features that residual blocks
  hand on, and the sequence only between operators when sequence parallelism is asked for;
- *expert*: the experts where there are any, the batch elsewhere;
- *context*: the sequence of every operator, so that of attention one side's keys move.

Recipes are single names (``zero-1`` gives its part to every axis) or parts joined by ``+``, one for
each mesh axis in turn: ``zero-1+tensor-sp`` on a mesh of 8 by 4 is 8 ways of data, its optimizer
state cut, by 4 ways of tensor parallelism with sequence parallelism.

What a recipe leaves open, the search decides by the same prices as everything else.

Source:
    ZeRO (Rajbhandari et al., SC 2020) stages 1 to 3; FSDP and hybrid sharding (Zhao et al., VLDB
    2023); Megatron-LM (Shoeybi et al., 2019) and its sequence parallelism (Korthikanti et al.,
    MLSys 2023); expert parallelism (Lepikhin et al., GShard, ICLR 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardwright.cluster import Mesh
from shardwright.errors import UsageError, did_you_mean
from shardwright.search.labels import Labels
from shardwright.search.masks import Mask, Refusal, everything
from shardwright.search.parts import AxisPart, AxisUse, Part
from shardwright.search.space import Space


def _data(stage: int) -> Callable[[Mesh], tuple[AxisUse, ...] | Refusal]:
    def uses(mesh: Mesh) -> tuple[AxisUse, ...]:
        return tuple(
            AxisUse(axis=name, part=AxisPart.DATA, zero_stage=stage) for name in mesh.names
        )

    return uses


def _hybrid(mesh: Mesh) -> tuple[AxisUse, ...] | Refusal:
    if len(mesh.axes) < 2:
        return Refusal(
            reason=f"hsdp copies state over one axis and cuts it over another; the mesh {mesh} has "
            f"{len(mesh.axes)}"
        )
    head = AxisUse(axis=mesh.names[0], part=AxisPart.DATA)
    return (
        head,
        *(AxisUse(axis=name, part=AxisPart.DATA, zero_stage=3) for name in mesh.names[1:]),
    )


def _inner(part: AxisPart, *, sequence: bool) -> Callable[[Mesh], tuple[AxisUse, ...] | Refusal]:
    def uses(mesh: Mesh) -> tuple[AxisUse, ...]:
        outer = tuple(AxisUse(axis=name, part=AxisPart.DATA) for name in mesh.names[:-1])
        last = AxisUse(axis=mesh.names[-1], part=part, sequence=sequence)
        return (*outer, last)

    return uses


_RECIPES: dict[str, Callable[[Mesh], tuple[AxisUse, ...] | Refusal]] = {
    "data-parallel": _data(0),
    "zero-1": _data(1),
    "zero-2": _data(2),
    "zero-3": _data(3),
    "hsdp": _hybrid,
    "megatron": _inner(AxisPart.TENSOR, sequence=False),
    "megatron-sp": _inner(AxisPart.TENSOR, sequence=True),
    "expert-parallel": _inner(AxisPart.EXPERT, sequence=False),
}
_ALIASES = {"dp": "data-parallel", "fsdp": "zero-3", "ep": "expert-parallel"}

_PARTS = {
    **{
        name: AxisUse(axis="", part=AxisPart.DATA, zero_stage=stage)
        for stage, name in enumerate(("data", "zero-1", "zero-2", "zero-3"))
    },
    "tensor": AxisUse(axis="", part=AxisPart.TENSOR),
    "tensor-sp": AxisUse(axis="", part=AxisPart.TENSOR, sequence=True),
    "expert": AxisUse(axis="", part=AxisPart.EXPERT),
    "context": AxisUse(axis="", part=AxisPart.CONTEXT),
}
_JOINT = "+"


def recipe_names() -> tuple[str, ...]:
    """Every recipe that can be asked for by name."""
    return tuple(_RECIPES)


def canonical_recipe(name: str) -> str:
    """The full name of a recipe, or of parts joined by ``+``.

    Raises:
        UsageError: there is no such recipe or part.
    """
    full = _ALIASES.get(name, name)
    parts = full.split(_JOINT)
    if full in _RECIPES or all(part in _PARTS for part in parts):
        return full
    if len(parts) > 1:
        wrong = next(part for part in parts if part not in _PARTS)
        raise UsageError(
            f'"{wrong}" of "{name}" is not a part that an axis can play',
            hint=did_you_mean(wrong, _PARTS),
        )
    raise UsageError(
        f'"{name}" is not a method or recipe',
        hint=did_you_mean(name, ["auto", *_RECIPES, *_ALIASES]),
    )


def recipe_masks(name: str, space: Space, labels: Labels) -> list[Mask] | Refusal:
    """What a recipe allows each node of a space, or why it makes no sense there."""
    uses = _uses(canonical_recipe(name), space.placed.mesh)
    if isinstance(uses, Refusal):
        return uses
    masks = everything(space.sizes)
    for use in uses:
        refusal = Part(use=use, space=space, labels=labels, masks=masks).apply()
        if refusal is not None:
            return refusal
    return masks


def _uses(name: str, mesh: Mesh) -> tuple[AxisUse, ...] | Refusal:
    if name in _RECIPES:
        return _RECIPES[name](mesh)
    parts = name.split(_JOINT)
    if len(parts) != len(mesh.axes):
        return Refusal(
            reason=f'"{name}" has {len(parts)} parts, one for each axis; the mesh {mesh} has '
            f"{len(mesh.axes)}"
        )
    return tuple(
        replace(_PARTS[part], axis=axis) for part, axis in zip(parts, mesh.names, strict=True)
    )
