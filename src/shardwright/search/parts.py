"""What one mesh axis may cut, by the part that it plays: the parts that recipes are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, final

import numpy as np

from shardwright.cost.flops import CONTRACTION_KINDS
from shardwright.ir import Role
from shardwright.search.cuts import keeps_cut
from shardwright.search.labels import DimLabel, Labels
from shardwright.search.masks import Mask, Refusal, require
from shardwright.search.space import Space
from shardwright.sharding import Sharding, Strategy

_T = TypeVar("_T")


class AxisPart(StrEnum):
    """What a mesh axis is used for."""

    DATA = "data"
    TENSOR = "tensor"
    EXPERT = "expert"
    CONTEXT = "context"


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


@final
@dataclass(frozen=True, kw_only=True)
class Part:
    """One axis' part, applied to every node."""

    use: AxisUse
    space: Space
    labels: Labels
    masks: list[Mask]

    def apply(self) -> Refusal | None:
        """Narrow the masks to what the part allows, or tell why the step has no such part."""
        refusal = self._check_model()
        if refusal is not None:
            return refusal
        for number, node in enumerate(self.space.lead.nodes):
            for tensor in node.inputs:
                self._limit_input(number, tensor)
            for op in node.ops:
                self._limit_op(number, op)
        return None

    def _check_model(self) -> Refusal | None:
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
            ways = self.space.placed.mesh.num_devices if len(self._data_axes()) > 1 else size
            if all(batch % size for batch in sizes):
                return Refusal(reason=f"the batch of {sizes[0]} does not divide by {ways}")
        if part is AxisPart.CONTEXT and not self.labels.has(DimLabel.SEQUENCE):
            return Refusal(reason="the step has no sequence: no batch input of tokens")
        if part is AxisPart.TENSOR and not self._weights_divide(size):
            return Refusal(reason=f"no weight has a dim that divides by {size}")
        return None

    def _data_axes(self) -> tuple[str, ...]:
        return tuple(self.space.placed.mesh.names)

    def _weights_divide(self, size: int) -> bool:
        return any(
            tensor.is_input
            and tensor.tensor.role is Role.PARAMETER
            and tensor.tensor.rank >= 2
            and any(extent % size == 0 for extent in tensor.tensor.shape)
            for tensor in self.space.folded.tensors
        )

    def _limit_input(self, node: int, tensor_index: int) -> None:
        palette = self.space.tensors[tensor_index]
        assert palette is not None
        role = self.space.folded.tensors[tensor_index].tensor.role
        shardings = palette.shardings
        cut = self._mark(shardings, lambda s: self.use.axis in s.axes)
        wanted = self._wanted_input(tensor_index, role, shardings, cut)
        if wanted is not None and not require(self.masks[node], wanted[palette.index]):
            require(self.masks[node], ~cut[palette.index])

    def _wanted_input(
        self, tensor_index: int, role: Role, shardings: tuple[Sharding, ...], cut: Mask
    ) -> Mask | None:
        labels = self.labels.tensors[tensor_index]
        tensor = self.space.folded.tensors[tensor_index].tensor
        by_batch = self._mark(shardings, lambda s: self._cuts_label(s, labels, DimLabel.BATCH))
        by_sequence = self._mark(
            shardings, lambda s: self._cuts_label(s, labels, DimLabel.SEQUENCE)
        )
        if self.use.part is AxisPart.DATA:
            if role is Role.BATCH:
                return by_batch if self._stays_cut(tensor_index, shardings, by_batch) else ~cut
            stage = {Role.PARAMETER: 3, Role.OPTIMIZER_STATE: 1}.get(role, 4)
            return cut if self.use.zero_stage >= stage else ~cut
        if self.use.part is AxisPart.CONTEXT:
            return by_sequence if role is Role.BATCH else ~cut
        if self.use.part is AxisPart.TENSOR:
            if role is Role.PARAMETER and tensor.rank >= 2:
                return cut & ~self._mark(shardings, lambda s: self._cuts_kept_dim(s, labels))
            return ~cut if role is Role.BATCH else None
        if role is Role.BATCH:
            return by_batch if self._stays_cut(tensor_index, shardings, by_batch) else ~cut
        by_expert = self._mark(shardings, lambda s: self._cuts_label(s, labels, DimLabel.EXPERT))
        return by_expert if DimLabel.EXPERT in labels else ~cut

    def _stays_cut(
        self, tensor_index: int, shardings: tuple[Sharding, ...], by_batch: Mask
    ) -> bool:
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

    def _cuts_label(
        self, sharding: Sharding, labels: tuple[DimLabel | None, ...], wanted: DimLabel
    ) -> bool:
        return any(
            self.use.axis in axes and label is wanted
            for axes, label in zip(sharding.dims, labels, strict=True)
        )

    def _cuts_kept_dim(self, sharding: Sharding, labels: tuple[DimLabel | None, ...]) -> bool:
        """Whether it cuts what tensor parallelism leaves whole: the stream, and positions."""
        return any(
            self._cuts_label(sharding, labels, kept)
            for kept in (DimLabel.STREAM, DimLabel.SEQUENCE)
        )

    def _limit_op(self, node: int, op_index: int) -> None:
        palette = self.space.ops[op_index]
        assert palette is not None
        labels = self.labels.factors[op_index]
        strategies = palette.strategies
        uses = self._mark(strategies, lambda s: self.use.axis in s.axes)
        cut = [self._factor_label(strategy, labels) for strategy in strategies]
        on = {label: np.array([of is label for of in cut], np.bool_) for label in DimLabel}
        mask = self.masks[node]
        if self.use.part is AxisPart.DATA:
            # Gradients summed over microbatches may lie as gradients do.
            is_sum = self.space.folded.ops[op_index].op.kind == "shard.carry"
            lies_free = is_sum and self.use.zero_stage >= 2
            if not require(mask, on[DimLabel.BATCH][palette.index]) and not lies_free:
                require(mask, ~uses[palette.index])
            if self.use.zero_stage < 2:
                scattered = self._mark(strategies, self._scatters)
                require(mask, ~scattered[palette.index])
        elif self.use.part is AxisPart.CONTEXT:
            if not require(mask, on[DimLabel.SEQUENCE][palette.index]):
                require(mask, ~uses[palette.index])
        elif self.use.part is AxisPart.TENSOR:
            self._limit_tensor_op(mask, strategies, palette.index, on)
            if self._multiplies_weight(op_index):
                require(mask, ~on[DimLabel.SEQUENCE][palette.index])
        elif DimLabel.EXPERT in labels:
            allowed = on[DimLabel.EXPERT]
            if not self._reads_weight(op_index):
                allowed = allowed | on[DimLabel.BATCH]
            if not require(mask, allowed[palette.index]):
                require(mask, ~uses[palette.index])
        elif not require(mask, on[DimLabel.BATCH][palette.index]):
            require(mask, ~uses[palette.index])

    def _limit_tensor_op(
        self,
        mask: Mask,
        strategies: tuple[Strategy, ...],
        index: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
        on: dict[DimLabel, Mask],
    ) -> None:
        require(mask, ~on[DimLabel.BATCH][index])
        require(mask, ~on[DimLabel.STREAM][index])
        if not self.use.sequence:
            require(mask, ~on[DimLabel.SEQUENCE][index])
            scattered = self._mark(strategies, self._scatters)
            require(mask, ~scattered[index])

    def _multiplies_weight(self, op_index: int) -> bool:
        """Whether it is a product with a parameter, perhaps converted or taken from a stack."""
        op = self.space.folded.ops[op_index]
        return op.op.kind in CONTRACTION_KINDS and any(
            self.labels.is_weight[source.tensor] for sources in op.operands for source in sources
        )

    def _reads_weight(self, op_index: int) -> bool:
        """Whether a parameter is among the operands."""
        op = self.space.folded.ops[op_index]
        return any(
            self.space.folded.tensors[source.tensor].tensor.role is Role.PARAMETER
            for sources in op.operands
            for source in sources
        )

    def _factor_label(
        self, strategy: Strategy, labels: tuple[DimLabel | None, ...]
    ) -> DimLabel | None:
        for axes, label in zip(strategy.factor_axes, labels, strict=True):
            if self.use.axis in axes:
                return label
        return None

    def _scatters(self, strategy: Strategy) -> bool:
        return any(
            self.use.axis in partial.unreduced and self.use.axis in result.axes
            for partial, result in zip(strategy.partials, strategy.results, strict=True)
        )

    @staticmethod
    def _mark(items: tuple[_T, ...], test: Callable[[_T], bool]) -> Mask:
        return np.array([test(item) for item in items], dtype=np.bool_)
