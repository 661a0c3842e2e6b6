"""Who decides and who follows: the few operators whose strategy is a choice, and the rest.

Only some operators pose a question: contractions, convolutions, lookups, the places where state
rests, the carries of loops. These *decide*, each group of them one node of the strategy graph.
Every other operator *follows* one of its operands, the one that does the most work upstream, so its
strategy is a function of that node's. Operators that only stretch a smaller tensor (a bias
broadcast over the batch) are *asked*: what their reader wants is asked of the small tensor, before
it is stretched. Values that any device can make for itself (constants, iota, random bits, scalars)
are *free*.

Source:
    Following the operand of greatest depth is Alpa's operator merging (Zheng et al., OSDI 2022,
    section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

from shardwright.ir import Role
from shardwright.search.fold import FoldedGraph, FoldedOp, Source
from shardwright.sharding import FactorKind

FREE = -1
ASKED = -2

_DECIDING_KINDS = frozenset(
    {
        "dot_general",
        "conv_general_dilated",
        "ragged_dot_general",
        "gather",
        "scatter",
        "scatter-add",
        "scatter-max",
        "scatter-min",
        "scatter-mul",
        "scatter-sub",
        "shard.carry",
    }
)
_STRETCHING_KINDS = frozenset({"broadcast_in_dim"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One choice of the strategy graph.

    Attributes:
        inputs: folded graph inputs that rest as it says.
        ops: folded operators that decide it together (siblings that read the same tensor).
    """

    inputs: tuple[int, ...]
    ops: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpLead:
    """How one folded operator comes by its strategy.

    Attributes:
        node: the node that decides it; FREE or ASKED.
        follows: the operand whose sharding it takes over; -1 when it decides itself.
    """

    node: int
    follows: int = -1


@final
@dataclass(frozen=True, kw_only=True)
class Lead:
    """Who decides what.

    Attributes:
        nodes: the choices.
        ops: for each folded operator how it comes by its strategy.
        tensors: for each folded tensor the node that decides how it lies; FREE or ASKED.
    """

    nodes: tuple[Node, ...]
    ops: tuple[OpLead, ...]
    tensors: tuple[int, ...]


def find_lead(folded: FoldedGraph) -> Lead:
    """The division of a folded graph into deciding nodes and followers."""
    return _Leader(folded=folded).run()


@final
@dataclass(kw_only=True)
class _Leader:
    folded: FoldedGraph
    parent: list[int] = field(default_factory=list)
    node_inputs: list[list[int]] = field(default_factory=list)
    node_ops: list[list[int]] = field(default_factory=list)
    whole: set[int] = field(default_factory=set)
    state: dict[int, Role] = field(default_factory=dict)
    siblings: dict[object, int] = field(default_factory=dict)
    tensors: list[int | None] = field(default_factory=list)
    ops: list[OpLead] = field(default_factory=list)

    def run(self) -> Lead:
        self.tensors = [None] * len(self.folded.tensors)
        for tensor in self.folded.tensors:
            if tensor.is_input and tensor.tensor.rank and not tensor.tensor.dtype.startswith("key"):
                node = self.new_node(inputs=[tensor.index])
                self.tensors[tensor.index] = node
                self.state[node] = tensor.tensor.role
            elif tensor.producer < 0:
                self.tensors[tensor.index] = FREE
        for op in self.folded.ops:
            lead = self.lead_of(op)
            self.ops.append(lead)
            for result in op.results:
                scalar = self.folded.tensors[result].tensor.rank == 0
                self.tensors[result] = FREE if scalar else lead.node
        return self.number()

    def lead_of(self, op: FoldedOp) -> OpLead:
        if op.op.kind == "shard.carry_back":
            carry = self.resolve(op.operands[1])
            return OpLead(node=FREE if carry is None else carry, follows=1)
        resolved = [self.resolve(sources) for sources in op.operands]
        ranks = [self.folded.graph.tensor(i).rank for i in op.op.operands]
        wanted = [node for node, rank in zip(resolved, ranks, strict=True) if rank]
        if all(node == FREE for node in wanted) and op.op.kind != "shard.carry":
            return OpLead(node=FREE)
        if op.op.kind in _DECIDING_KINDS or op.rule.fallback:
            return self.decide(op)
        if op.op.kind == "shard.scan_slice" and self.is_split_batch(op, resolved[0]):
            return self.decide(op)
        if self.only_stretches(op, wanted):
            return OpLead(node=ASKED)
        followed = self.choose(op, resolved, ranks)
        return self.decide(op) if followed is None else followed

    def is_split_batch(self, op: FoldedOp, node: int | None) -> bool:
        """Whether a loop runs over microbatches that the step itself splits a batch into.

        A batch in microbatches is no longer cut as the batch was: what the loop reads is chosen.
        """
        if node is None or node < 0 or self.state.get(self.find(node)) is not Role.BATCH:
            return False
        return any(not self.folded.tensors[source.tensor].is_input for source in op.operands[0])

    def only_stretches(self, op: FoldedOp, wanted: list[int | None]) -> bool:
        if any(factor.kind is FactorKind.REDUCTION for factor in op.rule.factors):
            return False
        if op.op.kind in _STRETCHING_KINDS:
            return True
        return all(node in (FREE, ASKED) for node in wanted)

    def choose(self, op: FoldedOp, resolved: list[int | None], ranks: list[int]) -> OpLead | None:
        """The operand to follow: optimizer state first, then parameters, size, and depth."""
        best: tuple[tuple[int, int, int], int] | None = None
        for position, (node, rank) in enumerate(zip(resolved, ranks, strict=True)):
            if node is None or node < 0 or not rank or node in self.whole:
                continue
            tensor = self.folded.graph.tensor(op.op.operands[position])
            depth = max(self.folded.tensors[s.tensor].producer for s in op.operands[position])
            score = (self.precedence(node), tensor.num_elements, depth)
            if best is None or score > best[0]:
                best = (score, position)
        if best is None:
            return None
        node = resolved[best[1]]
        assert node is not None
        self.tie_optimizer_state(node, resolved)
        return OpLead(node=self.find(node), follows=best[1])

    def precedence(self, node: int) -> int:
        role = self.state.get(node)
        return 2 if role is Role.OPTIMIZER_STATE else 1 if role is Role.PARAMETER else 0

    def tie_optimizer_state(self, node: int, others: Iterable[int | None]) -> None:
        """State of one parameter that meets in one operator (Adam's moments) rests alike."""
        if self.state.get(node) is not Role.OPTIMIZER_STATE:
            return
        shape = self.input_shape(node)
        for other in others:
            if other is None or other < 0 or self.find(other) == self.find(node):
                continue
            is_state = self.state.get(other) is Role.OPTIMIZER_STATE
            if is_state and self.input_shape(other) == shape:
                self.join(node, other)

    def input_shape(self, node: int) -> tuple[int, ...]:
        return self.folded.tensors[self.node_inputs[node][0]].tensor.shape

    def decide(self, op: FoldedOp) -> OpLead:
        node = self.new_node(ops=[op.index])
        if op.rule.fallback:
            self.whole.add(node)
        if op.op.kind == "dot_general":
            for position, sources in enumerate(op.operands):
                key = (op.op.attributes, op.rule, op.runs, position, sources)
                sibling = self.siblings.setdefault(key, node)
                if self.find(sibling) != self.find(node):
                    self.join(sibling, node)
        return OpLead(node=self.find(node))

    def resolve(self, sources: tuple[Source, ...]) -> int | None:
        """The one node behind all sources of an operand, or None when they disagree."""
        nodes = set()
        for source in sources:
            node = self.tensors[source.tensor]
            if node is None:
                return None
            nodes.add(node if node < 0 else self.find(node))
        return nodes.pop() if len(nodes) == 1 else None

    def new_node(self, *, inputs: list[int] | None = None, ops: list[int] | None = None) -> int:
        self.parent.append(len(self.parent))
        self.node_inputs.append(inputs or [])
        self.node_ops.append(ops or [])
        return len(self.parent) - 1

    def find(self, node: int) -> int:
        while self.parent[node] != node:
            self.parent[node] = self.parent[self.parent[node]]
            node = self.parent[node]
        return node

    def join(self, keep: int, other: int) -> None:
        keep, other = self.find(keep), self.find(other)
        self.parent[other] = keep
        self.node_inputs[keep] += self.node_inputs[other]
        self.node_ops[keep] += self.node_ops[other]

    def number(self) -> Lead:
        roots = [node for node in range(len(self.parent)) if self.find(node) == node]
        number = {root: index for index, root in enumerate(roots)}

        def final(node: int | None) -> int:
            if node is None:
                return FREE
            return node if node < 0 else number[self.find(node)]

        return Lead(
            nodes=tuple(
                Node(inputs=tuple(self.node_inputs[r]), ops=tuple(self.node_ops[r])) for r in roots
            ),
            ops=tuple(OpLead(node=final(lead.node), follows=lead.follows) for lead in self.ops),
            tensors=tuple(final(node) for node in self.tensors),
        )
