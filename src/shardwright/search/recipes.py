"""Recipes: the layouts that people pick by hand, as constraints on the same search space.

A recipe gives each mesh axis a part to play, and each part says which factors the axis may cut:

- *data*: the batch of every operator; of state nothing (stage 0), optimizer state (1), gradients
  too (2), parameters too (3);
- *tensor*: weights and what they produce, never the batch, and the sequence only between
  operators when sequence parallelism is asked for;
- *expert*: the experts where there are any, the batch elsewhere.

What a recipe leaves open, the search decides by the same prices as everything else.

Source:
    ZeRO (Rajbhandari et al., SC 2020) stages 1 to 3; FSDP and hybrid sharding (Zhao et al., VLDB
    2023); Megatron-LM (Shoeybi et al., 2019) and its sequence parallelism (Korthikanti et al.,
    MLSys 2023); expert parallelism (Lepikhin et al., GShard, ICLR 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, final

import numpy as np

from shardwright.cluster import Mesh
from shardwright.errors import UsageError, did_you_mean
from shardwright.ir import Role
from shardwright.search.cuts import keeps_cut
from shardwright.search.labels import DimLabel, Labels
from shardwright.search.masks import Mask, Refusal, everything, require
from shardwright.search.space import Space
from shardwright.sharding import Sharding, Strategy

_T = TypeVar("_T")


class AxisPart(StrEnum):
    """What a mesh axis is used for."""

    DATA = "data"
    TENSOR = "tensor"
    EXPERT = "expert"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AxisUse:
    """One axis and its part.

    Attributes:
        axis: name of the mesh axis.
        part: what it is used for.
        zero_stage: of a data axis, how much state it cuts (0 to 3).
        sequence: of a tensor axis, whether it may cut the sequence between operators.
    """

    axis: str
    part: AxisPart
    zero_stage: int = 0
    sequence: bool = False


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


def recipe_names() -> tuple[str, ...]:
    """Every recipe that can be asked for by name."""
    return tuple(_RECIPES)


def canonical_recipe(name: str) -> str:
    """The full name of a recipe.

    Raises:
        UsageError: there is no such recipe.
    """
    full = _ALIASES.get(name, name)
    if full not in _RECIPES:
        raise UsageError(
            f'"{name}" is not a method or recipe',
            hint=did_you_mean(name, ["auto", *_RECIPES, *_ALIASES]),
        )
    return full


def recipe_masks(name: str, space: Space, labels: Labels) -> list[Mask] | Refusal:
    """What a recipe allows each node of a space, or why it makes no sense there."""
    uses = _RECIPES[canonical_recipe(name)](space.placed.mesh)
    if isinstance(uses, Refusal):
        return uses
    masks = everything(space.sizes)
    for use in uses:
        refusal = _Part(use=use, space=space, labels=labels, masks=masks).apply()
        if refusal is not None:
            return refusal
    return masks


@final
@dataclass(frozen=True, kw_only=True)
class _Part:
    """One axis' part, applied to every node."""

    use: AxisUse
    space: Space
    labels: Labels
    masks: list[Mask]

    def apply(self) -> Refusal | None:
        refusal = self.check_model()
        if refusal is not None:
            return refusal
        for number, node in enumerate(self.space.lead.nodes):
            for tensor in node.inputs:
                self.limit_input(number, tensor)
            for op in node.ops:
                self.limit_op(number, op)
        return None

    def check_model(self) -> Refusal | None:
        axis, part = self.use.axis, self.use.part
        size = self.space.placed.mesh.size(axis)
        if part is AxisPart.EXPERT and not self.labels.has(DimLabel.EXPERT):
            return Refusal(reason="the step has no experts: no contraction keeps a weight's dim")
        if part is AxisPart.DATA:
            sizes = [
                tensor.tensor.shape[0]
                for tensor in self.space.folded.tensors
                if tensor.is_input and tensor.tensor.role is Role.BATCH and tensor.tensor.rank
            ]
            if not sizes:
                return Refusal(reason="the step has no batch input to cut")
            ways = self.space.placed.mesh.num_devices if len(self.data_axes()) > 1 else size
            if all(batch % size for batch in sizes):
                return Refusal(reason=f"the batch of {sizes[0]} does not divide by {ways}")
        if part is AxisPart.TENSOR and not self.weights_divide(size):
            return Refusal(reason=f"no weight has a dim that divides by {size}")
        return None

    def data_axes(self) -> tuple[str, ...]:
        return tuple(self.space.placed.mesh.names)

    def weights_divide(self, size: int) -> bool:
        return any(
            tensor.is_input
            and tensor.tensor.role is Role.PARAMETER
            and tensor.tensor.rank >= 2
            and any(extent % size == 0 for extent in tensor.tensor.shape)
            for tensor in self.space.folded.tensors
        )

    def limit_input(self, node: int, tensor_index: int) -> None:
        palette = self.space.tensors[tensor_index]
        assert palette is not None
        role = self.space.folded.tensors[tensor_index].tensor.role
        shardings = palette.shardings
        cut = self.mark(shardings, lambda s: self.use.axis in s.axes)
        wanted = self.wanted_input(tensor_index, role, shardings, cut)
        if wanted is not None and not require(self.masks[node], wanted[palette.index]):
            require(self.masks[node], ~cut[palette.index])

    def wanted_input(
        self, tensor_index: int, role: Role, shardings: tuple[Sharding, ...], cut: Mask
    ) -> Mask | None:
        labels = self.labels.tensors[tensor_index]
        tensor = self.space.folded.tensors[tensor_index].tensor
        by_batch = self.mark(shardings, lambda s: self.cuts_label(s, labels, DimLabel.BATCH))
        if self.use.part is AxisPart.DATA:
            if role is Role.BATCH:
                return by_batch if self.stays_cut(tensor_index, shardings, by_batch) else ~cut
            stage = {Role.PARAMETER: 3, Role.OPTIMIZER_STATE: 1}.get(role, 4)
            return cut if self.use.zero_stage >= stage else ~cut
        if self.use.part is AxisPart.TENSOR:
            if role is Role.PARAMETER and tensor.rank >= 2:
                return cut
            return ~cut if role is Role.BATCH else None
        if role is Role.BATCH:
            return by_batch if self.stays_cut(tensor_index, shardings, by_batch) else ~cut
        by_expert = self.mark(shardings, lambda s: self.cuts_label(s, labels, DimLabel.EXPERT))
        return by_expert if DimLabel.EXPERT in labels else ~cut

    def stays_cut(self, tensor_index: int, shardings: tuple[Sharding, ...], by_batch: Mask) -> bool:
        """Whether every reader of a batch can go on with its cut by this axis alone.

        Rows i, i + m, i + 2m, ... are no even piece of a batch, so a cut batch that is split into
        microbatches would be gathered: it rests whole, and each device slices what it needs.
        """
        alone = (
            sharding
            for sharding, cut in zip(shardings, by_batch, strict=True)
            if cut and sharding.axes == (self.use.axis,)
        )
        return all(keeps_cut(self.space, tensor_index, sharding) for sharding in alone)

    def cuts_label(
        self, sharding: Sharding, labels: tuple[DimLabel | None, ...], wanted: DimLabel
    ) -> bool:
        return any(
            self.use.axis in axes and label is wanted
            for axes, label in zip(sharding.dims, labels, strict=True)
        )

    def limit_op(self, node: int, op_index: int) -> None:
        palette = self.space.ops[op_index]
        assert palette is not None
        labels = self.labels.factors[op_index]
        strategies = palette.strategies
        uses = self.mark(strategies, lambda s: self.use.axis in s.axes)
        cut = [self.factor_label(strategy, labels) for strategy in strategies]
        on = {label: np.array([of is label for of in cut], np.bool_) for label in DimLabel}
        mask = self.masks[node]
        if self.use.part is AxisPart.DATA:
            # Gradients summed over microbatches may lie as gradients do.
            is_sum = self.space.folded.ops[op_index].op.kind == "shard.carry"
            lies_free = is_sum and self.use.zero_stage >= 2
            if not require(mask, on[DimLabel.BATCH][palette.index]) and not lies_free:
                require(mask, ~uses[palette.index])
            if self.use.zero_stage < 2:
                scattered = self.mark(strategies, self.scatters)
                require(mask, ~scattered[palette.index])
        elif self.use.part is AxisPart.TENSOR:
            self.limit_tensor_op(mask, strategies, palette.index, on)
        elif DimLabel.EXPERT in labels:
            allowed = on[DimLabel.EXPERT]
            if not self.reads_weight(op_index):
                allowed = allowed | on[DimLabel.BATCH]
            if not require(mask, allowed[palette.index]):
                require(mask, ~uses[palette.index])
        elif not require(mask, on[DimLabel.BATCH][palette.index]):
            require(mask, ~uses[palette.index])

    def limit_tensor_op(
        self,
        mask: Mask,
        strategies: tuple[Strategy, ...],
        index: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
        on: dict[DimLabel, Mask],
    ) -> None:
        require(mask, ~on[DimLabel.BATCH][index])
        if not self.use.sequence:
            require(mask, ~on[DimLabel.SEQUENCE][index])
            scattered = self.mark(strategies, self.scatters)
            require(mask, ~scattered[index])

    def reads_weight(self, op_index: int) -> bool:
        """Whether a parameter is among the operands."""
        op = self.space.folded.ops[op_index]
        return any(
            self.space.folded.tensors[source.tensor].tensor.role is Role.PARAMETER
            for sources in op.operands
            for source in sources
        )

    def factor_label(
        self, strategy: Strategy, labels: tuple[DimLabel | None, ...]
    ) -> DimLabel | None:
        for axes, label in zip(strategy.factor_axes, labels, strict=True):
            if self.use.axis in axes:
                return label
        return None

    def scatters(self, strategy: Strategy) -> bool:
        return any(
            self.use.axis in partial.unreduced and self.use.axis in result.axes
            for partial, result in zip(strategy.partials, strategy.results, strict=True)
        )

    @staticmethod
    def mark(items: tuple[_T, ...], test: Callable[[_T], bool]) -> Mask:
        return np.array([test(item) for item in items], dtype=np.bool_)
