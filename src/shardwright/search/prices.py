"""What moves and work cost on one mesh, remembered, so that equal questions are asked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.cluster import PlacedMesh
from shardwright.cost.collective import collective_time_s
from shardwright.cost.compute import memory_time_s
from shardwright.cost.work import local_work_s, written_bytes
from shardwright.ir import Tensor
from shardwright.ir.dtypes import itemsize_bytes
from shardwright.search.fold import FoldedGraph, FoldedOp
from shardwright.sharding import Collective, Sharding, Strategy
from shardwright.sharding.atlas import Atlas
from shardwright.sharding.reshard import Reshard
from shardwright.sharding.strategy import own_collectives


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CollectivePrice:
    """The time of a collective on one placed mesh, in seconds; hashed by identity."""

    placed: PlacedMesh
    known: dict[Collective, float] = field(default_factory=dict, repr=False)

    def __call__(self, collective: Collective) -> float:
        """Seconds of one collective."""
        found = self.known.get(collective)
        if found is None:
            found = self.known[collective] = collective_time_s(collective, self.placed)
        return found


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Prices:
    """Prices of one placed mesh."""

    placed: PlacedMesh
    atlases: dict[tuple[tuple[int, ...], int], Atlas] = field(default_factory=dict, repr=False)
    price: CollectivePrice = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", CollectivePrice(placed=self.placed))

    def reshard(self, tensor: Tensor, source: Sharding, target: Sharding) -> Reshard:
        """The cheapest path between two shardings of a tensor."""
        return self.atlas(tensor).path(source, target)

    def reshard_matrix(
        self, tensor: Tensor, sources: Sequence[Sharding], targets: Sequence[Sharding]
    ) -> NDArray[np.float64]:
        """Seconds of one reshard from each of ``sources`` (rows) to each of ``targets``."""
        return self.atlas(tensor).matrix(sources, targets)

    def atlas(self, tensor: Tensor) -> Atlas:
        """Every sharding of tensors of that shape and element size, and the ways between them."""
        key = (tensor.shape, itemsize_bytes(tensor.dtype))
        found = self.atlases.get(key)
        if found is None:
            found = Atlas.of(*key, self.placed.mesh, self.price)
            self.atlases[key] = found
        return found

    def own_collectives(
        self, folded: FoldedGraph, op: FoldedOp, strategy: Strategy
    ) -> tuple[tuple[Collective, ...], ...]:
        """For each result of an operator the collectives that finish it."""
        results = [folded.tensors[i].tensor for i in op.results]
        return own_collectives(
            strategy,
            [tensor.shape for tensor in results],
            [itemsize_bytes(tensor.dtype) for tensor in results],
            self.placed.mesh,
        )

    def write_time_s(
        self, folded: FoldedGraph, op: FoldedOp, tensor_index: int, form: Sharding
    ) -> float:
        """Seconds of one run of ``op`` to write a result in a given form and read it once."""
        tensor_id = folded.tensors[tensor_index].tensor.id
        size_bytes = written_bytes(op.op, folded.graph, tensor_id, form, self.placed)
        return memory_time_s(2.0 * size_bytes, self.placed.topology)

    def op_time_s(
        self, folded: FoldedGraph, op: FoldedOp, strategy: Strategy, is_written: Sequence[bool]
    ) -> float:
        """Seconds of one run of an operator on one device, its own collectives included."""
        work = local_work_s(
            op.op,
            folded.graph,
            op.rule,
            strategy.operands,
            strategy.results,
            is_written,
            self.placed,
        )
        finish = self.own_collectives(folded, op, strategy)
        return work + sum(self.price(step) for steps in finish for step in steps)
