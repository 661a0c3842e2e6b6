"""The search space of one graph on one mesh: every node's strategies, and the price of each pair.

Shardings repeat far more than strategies do, so everything is kept in *palettes*: the distinct
shardings (or strategies) of a tensor (or operator), and an index from the node's strategies into
them. A price matrix is computed between two palettes and spread over the strategies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from shardwright.cluster import PlacedMesh
from shardwright.search.fold import FoldedGraph
from shardwright.search.lead import FREE, Lead
from shardwright.search.prices import Prices
from shardwright.sharding import Sharding, Strategy
from shardwright.sharding.enumerate import Pruned

Index = NDArray[np.int64]
Matrix = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPalette:
    """The shardings that a folded tensor may have, and which one each strategy means."""

    shardings: tuple[Sharding, ...]
    index: Index


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpPalette:
    """The strategies that a folded operator may have, and which each one of its node means."""

    strategies: tuple[Strategy, ...]
    index: Index


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A tensor wanted in a certain form by a node.

    Attributes:
        node: who wants it.
        tensor: what is wanted; its own node decides how it rests.
        reader: folded operator that reads it; -1 for the next step's state.
        operand: which of the reader's operands.
        palette: the distinct forms wanted.
        index: which one each strategy of the node wants.
        runs: how often a step moves it.
    """

    node: int
    tensor: int
    reader: int
    operand: int
    palette: tuple[Sharding, ...]
    index: Index
    runs: int


@final
@dataclass(frozen=True, kw_only=True)
class Space:
    """Everything that can be chosen for one graph on one mesh, priced.

    Attributes:
        folded: the graph.
        lead: its nodes.
        placed: the mesh.
        prices: what moves and work cost there.
        sizes: number of strategies per node.
        ops: palette of each folded operator; None for free and asked ones.
        tensors: palette of each folded tensor; None likewise.
        node_costs: seconds per step of each node's strategies: work and own collectives.
        edge_costs: seconds per step of reshards between two nodes' strategies.
        demands: every reshard that may happen, for reading the plan back.
        borrowed: free and asked tensors' forms, as their first reader wants them, and its node.
        pruned: what was left out and why.
    """

    folded: FoldedGraph
    lead: Lead
    placed: PlacedMesh
    prices: Prices
    sizes: tuple[int, ...]
    ops: tuple[OpPalette | None, ...]
    tensors: tuple[TensorPalette | None, ...]
    node_costs: tuple[Matrix, ...]
    edge_costs: dict[tuple[int, int], Matrix]
    demands: tuple[Demand, ...]
    borrowed: dict[int, tuple[int, TensorPalette]]
    pruned: tuple[Pruned, ...]

    @cached_property
    def priced(self) -> frozenset[int]:
        """Folded tensors that rest in one form, so that any other has to be made of it."""
        return frozenset(demand.tensor for demand in self.demands)

    def strategy(self, op_index: int, choice: Sequence[int]) -> Strategy | None:
        """The strategy of a folded operator under a choice per node."""
        palette = self.ops[op_index]
        if palette is None:
            return None
        return palette.strategies[int(palette.index[choice[self.lead.ops[op_index].node]])]

    def sharding(self, tensor_index: int, choice: Sequence[int]) -> Sharding | None:
        """How a folded tensor lies under a choice per node; None when nobody cares."""
        node, palette = self.palette(tensor_index)
        return None if palette is None else palette.shardings[int(palette.index[choice[node]])]

    def palette(self, tensor_index: int) -> tuple[int, TensorPalette | None]:
        """The node that decides how a folded tensor lies, and its forms."""
        own = self.tensors[tensor_index]
        if own is not None:
            return self.lead.tensors[tensor_index], own
        return self.borrowed.get(tensor_index, (FREE, None))


def distinct(shardings: Sequence[Sharding], index: Index) -> TensorPalette:
    """The distinct shardings that are used, and the index carried over to them."""
    number: dict[Sharding, int] = {}
    renumber = np.array([number.setdefault(sharding, len(number)) for sharding in shardings])
    return TensorPalette(shardings=tuple(number), index=renumber[index])
