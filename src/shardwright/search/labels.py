"""What the dims of a step mean: batch, sequence, expert, found by following factors.

Recipes speak of "the batch" and "the experts" of any model. A batch input's first dim is batch, the
second dim of integer batch inputs (token ids) is sequence, the dim over which a contraction runs
one weight per slice is expert, and the dim that most weights share, where there is one, is the
stream: the features that a residual network hands from block to block. From there a meaning spreads
through every operator that carries the dim along a factor, forward and backward, until nothing
changes; a part that is sliced out of a dim means what the dim means, and a batch that is split into
microbatches is batch in both dims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from shardwright.ir import Role
from shardwright.search.fold import FoldedGraph, FoldedOp
from shardwright.search.lead import Lead
from shardwright.sharding import FactorKind
from shardwright.sharding.factor import TensorFactors

_CONTRACTIONS = frozenset({"dot_general", "ragged_dot_general"})
_SLICES = frozenset({"slice", "dynamic_slice", "split"})
_LEAST_SHARERS = 3
"""Weights that must share a dim before it is taken for a stream."""
_BLIND_KINDS = frozenset({FactorKind.NEED_REPLICATION, FactorKind.PERMUTATION})


class DimLabel(StrEnum):
    """The meaning of a dim."""

    BATCH = "batch"
    SEQUENCE = "sequence"
    EXPERT = "expert"
    STREAM = "stream"


@final
@dataclass(frozen=True, kw_only=True)
class Labels:
    """Meanings of dims and factors.

    Attributes:
        tensors: for each folded tensor the labels of its dims (None where a dim means nothing).
        factors: for each folded operator the labels of its factors.
        is_weight: for each folded tensor whether it is a parameter, perhaps converted or taken from
            a stack.
    """

    tensors: tuple[tuple[DimLabel | None, ...], ...]
    factors: tuple[tuple[DimLabel | None, ...], ...]
    is_weight: tuple[bool, ...]

    def has(self, label: DimLabel) -> bool:
        """Whether any dim of the step has that meaning."""
        return any(label in dims for dims in self.tensors)


def find_labels(folded: FoldedGraph, lead: Lead) -> Labels:
    """The meaning of every dim of a folded graph; time is near linear in its operators."""
    return _Labeller(folded=folded, lead=lead).run()


@final
@dataclass(kw_only=True)
class _Labeller:
    folded: FoldedGraph
    lead: Lead
    starts: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)

    def run(self) -> Labels:
        for tensor in self.folded.tensors:
            self.starts.append(len(self.parent))
            self.parent.extend(range(len(self.parent), len(self.parent) + tensor.tensor.rank))
        for op in self.folded.ops:
            self.join_factors(op)
        for before, after, _ in self.folded.state_pairs:
            for dim in range(self.folded.tensors[before].tensor.rank):
                self.join(self.starts[before] + dim, self.starts[after] + dim)
        meaning = self.seed()
        return Labels(
            tensors=tuple(
                tuple(
                    meaning.get(self.find(self.starts[tensor.index] + dim))
                    for dim in range(tensor.tensor.rank)
                )
                for tensor in self.folded.tensors
            ),
            factors=tuple(self.factor_labels(op, meaning) for op in self.folded.ops),
            is_weight=tuple(self.is_weight(tensor.index) for tensor in self.folded.tensors),
        )

    def slots(self, op: FoldedOp) -> Iterator[tuple[int, int]]:
        """(factor, dim slot) of every dim led by that factor, over all operands and results."""
        for dims, sources in zip(op.rule.operands, op.operands, strict=True):
            for source in sources:
                yield from self._tensor_slots(dims, source.tensor)
        for dims, result in zip(op.rule.results, op.results, strict=True):
            yield from self._tensor_slots(dims, result)

    def _tensor_slots(self, dims: TensorFactors, tensor: int) -> Iterator[tuple[int, int]]:
        for dim, factors in enumerate(dims):
            if factors:
                yield factors[0], self.starts[tensor] + dim

    def join_factors(self, op: FoldedOp) -> None:
        first: dict[int, int] = {}
        for factor, slot in self.slots(op):
            if op.rule.factors[factor].kind not in _BLIND_KINDS:
                self.join(first.setdefault(factor, slot), slot)
        if op.op.kind in _SLICES:
            self.join_parts(op)

    def join_parts(self, op: FoldedOp) -> None:
        """Parts cut out of a tensor lie along its dims, whatever their sizes."""
        for source in op.operands[0]:
            for result in op.results:
                for dim in range(self.folded.tensors[result].tensor.rank):
                    self.join(self.starts[source.tensor] + dim, self.starts[result] + dim)

    def seed(self) -> dict[int, DimLabel]:
        meaning: dict[int, DimLabel] = dict.fromkeys(self.streams(), DimLabel.STREAM)
        for op in self.folded.ops:
            if op.op.kind in _CONTRACTIONS:
                for slot in self.expert_slots(op):
                    meaning[self.find(slot)] = DimLabel.EXPERT
        batches = [
            tensor
            for tensor in self.folded.tensors
            if tensor.is_input and tensor.tensor.role is Role.BATCH and tensor.tensor.rank
        ]
        for tensor in batches:
            if tensor.tensor.rank >= 2 and tensor.tensor.dtype.startswith(("int", "uint")):
                meaning[self.find(self.starts[tensor.index] + 1)] = DimLabel.SEQUENCE
        for tensor in batches:
            for slot in self.batch_slots(tensor.index):
                meaning[self.find(slot)] = DimLabel.BATCH
        return meaning

    def streams(self) -> Iterator[int]:
        """The class of dims, if any, that more than half of all weights have a part in."""
        weights = [
            tensor
            for tensor in self.folded.tensors
            if tensor.is_input and tensor.tensor.role is Role.PARAMETER and tensor.tensor.rank >= 2
        ]
        sharers: Counter[int] = Counter()
        for tensor in weights:
            start = self.starts[tensor.index]
            sharers.update({self.find(start + dim) for dim in range(tensor.tensor.rank)})
        for slot, count in sharers.most_common(1):
            if count >= _LEAST_SHARERS and 2 * count > len(weights):
                yield slot

    def batch_slots(self, tensor_index: int) -> Iterator[int]:
        """A batch input's first dim, and both of the dims that it is split into, if it is."""
        waiting = [tensor_index]
        while waiting:
            tensor_index = waiting.pop()
            yield self.starts[tensor_index]
            for reader, _ in self.folded.consumers[tensor_index]:
                op = self.folded.ops[reader]
                if op.op.kind == "convert_element_type":
                    waiting.extend(op.results)
                if op.op.kind == "reshape":
                    split = set(op.rule.operands[0][0])
                    for dim, factors in enumerate(op.rule.results[0]):
                        if split.intersection(factors):
                            yield self.starts[op.results[0]] + dim

    def expert_slots(self, op: FoldedOp) -> Iterator[int]:
        """Dims of weights that a contraction keeps apart: one weight per slice."""
        weights = [
            (dims, source.tensor)
            for dims, sources in zip(op.rule.operands, op.operands, strict=True)
            for source in sources
            if self.is_weight(source.tensor)
        ]
        if op.op.kind == "ragged_dot_general":
            slots = (self.starts[t] for dims, t in weights if len(dims) == 3)
            yield from slots
            return
        in_both = set.intersection(
            *({factors[0] for factors in dims if factors} for dims in op.rule.operands)
        )
        in_result = {factors[0] for factors in op.rule.results[0] if factors}
        for dims, tensor in weights:
            for factor, slot in self._tensor_slots(dims, tensor):
                if factor in in_both & in_result:
                    yield slot

    def is_weight(self, tensor_index: int) -> bool:
        """Whether a tensor is a parameter, perhaps converted or taken from a stack."""
        node = self.lead.tensors[tensor_index]
        return node >= 0 and any(
            self.folded.tensors[i].tensor.role is Role.PARAMETER
            for i in self.lead.nodes[node].inputs
        )

    def factor_labels(
        self, op: FoldedOp, meaning: dict[int, DimLabel]
    ) -> tuple[DimLabel | None, ...]:
        labels: list[DimLabel | None] = [None] * len(op.rule.factors)
        for factor, slot in self.slots(op):
            labels[factor] = labels[factor] or meaning.get(self.find(slot))
        return tuple(labels)

    def find(self, slot: int) -> int:
        while self.parent[slot] != slot:
            self.parent[slot] = self.parent[self.parent[slot]]
            slot = self.parent[slot]
        return slot

    def join(self, left: int, right: int) -> None:
        left, right = self.find(left), self.find(right)
        if left != right:
            self.parent[right] = left
