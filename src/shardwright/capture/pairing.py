"""State: which outputs are the next values of which inputs.

A step takes its state and returns it anew, so some sub-tree of its result has the structure, shapes
and element types of some sub-tree of its arguments. The largest such pairs come first; among equal
candidates the one whose name ends alike, then the first. Equal structure alone convinces for
sub-trees of several leaves. A single array must also behave like state, since a loss has the shape
of a counter and a reconstruction that of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from shardwright.capture.arguments import Leaves
from shardwright.capture.dataflow import feeds_outputs
from shardwright.capture.trees import SubTree, subtrees
from shardwright.capture.updates import update_sources
from shardwright.ir import Graph, Op, Tensor

_FREE = -1


def pair_state(graph: Graph, arguments: Leaves, result: Leaves) -> list[tuple[int, int]]:
    """(position of an argument's leaf, position of a result's leaf) of each state tensor."""
    count = len(arguments.names)
    before = _subtrees_of(graph, arguments, graph.inputs[:count], parts_at=2)
    after = _subtrees_of(graph, result, graph.outputs, parts_at=1)
    matcher = _Matcher(
        graph=graph,
        candidates=_Candidates.of(before),
        producers={row: op for op in graph.ops for row in op.results},
        replaced_by=[_FREE] * count,
    )
    for tree in sorted(after, key=lambda tree: -tree.size):
        matcher.match(tree)
    for argument in {tree.index: tree for tree in reversed(before)}.values():
        matcher.release_data(argument)
    return [(i, o) for i, o in enumerate(matcher.replaced_by) if o != _FREE]


def _subtrees_of(
    graph: Graph, leaves: Leaves, rows: Sequence[int], *, parts_at: int
) -> list[SubTree]:
    types = [_type(graph.tensor(row)) for row in rows]
    return subtrees(leaves.tree, leaves.names, types, parts_at=parts_at)


def _type(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tensor.shape, tensor.dtype


@final
@dataclass(frozen=True, kw_only=True)
class _Candidates:
    """Sub-trees of the arguments by signature, and by signature and the end of their name."""

    by_signature: dict[object, list[SubTree]] = field(default_factory=dict)
    by_ending: dict[tuple[object, str], list[SubTree]] = field(default_factory=dict)

    @classmethod
    def of(cls, trees: Sequence[SubTree]) -> _Candidates:
        index = cls()
        for tree in trees:
            index.by_signature.setdefault(tree.signature, []).append(tree)
            for ending in _endings(tree.path):
                index.by_ending.setdefault((tree.signature, ending), []).append(tree)
        return index

    def alike(self, tree: SubTree) -> Iterator[SubTree]:
        """Candidates whose name ends as the sub-tree's does, longest common ending first."""
        for ending in _endings(tree.path):
            yield from self.by_ending.get((tree.signature, ending), ())

    def equal(self, tree: SubTree) -> Sequence[SubTree]:
        """All candidates of the sub-tree's structure and leaves, in order of the arguments."""
        return self.by_signature.get(tree.signature, ())


def _endings(path: str) -> list[str]:
    """Ends of a dotted name that hold a word, the longest first; numbers alone say nothing."""
    parts = path.split(".")
    endings = [".".join(parts[start:]) for start in range(len(parts))]
    return [ending for ending in endings if not ending.replace(".", "").isdigit()]


@final
@dataclass(frozen=True, kw_only=True)
class _Matcher:
    """The pairs so far: for each leaf of the arguments the leaf of the result that replaces it."""

    graph: Graph
    candidates: _Candidates
    producers: Mapping[int, Op]
    replaced_by: list[int]
    matched: set[int] = field(default_factory=set)

    def match(self, after: SubTree) -> None:
        """Pair a sub-tree of the result with the best candidate that behaves like state."""
        if not self.matched.isdisjoint(range(after.start, after.stop)):
            return
        evidence = _Evidence(graph=self.graph, producers=self.producers, after=after)
        before = self.first_free(self.candidates.alike(after), evidence, is_alike=True)
        if before is None:
            before = self.first_free(self.candidates.equal(after), evidence, is_alike=False)
        if before is not None:
            for offset in range(before.size):
                self.replaced_by[before.start + offset] = after.start + offset
                self.matched.add(after.start + offset)

    def first_free(
        self,
        candidates: Iterator[SubTree] | Sequence[SubTree],
        evidence: _Evidence,
        *,
        is_alike: bool,
    ) -> SubTree | None:
        for before in candidates:
            replaced = self.replaced_by[before.start : before.stop]
            is_free = all(leaf == _FREE for leaf in replaced)
            if is_free and self.is_state(before, evidence, is_alike=is_alike):
                return before
        return None

    def is_state(self, before: SubTree, evidence: _Evidence, *, is_alike: bool) -> bool:
        first = self.graph.tensor(self.graph.inputs[before.start])
        is_scalar = before.size == 1 and first.rank == 0
        if evidence.is_handed_through(before):
            is_same_place = before.index == evidence.after.index
            return not is_scalar and (is_alike or is_same_place) and self.leaves_data(before)
        if before.size > 1:
            return True
        if is_scalar or first.dtype == "uint32" or first.dtype.startswith("key<"):
            return is_alike or evidence.is_own_successor(before)
        return (is_alike or evidence.is_update(before)) and self.leaves_data(before)

    def release_data(self, argument: SubTree) -> None:
        """Undo the pairs of an argument that the step only reads: one entry of a batch handed back.

        An argument is read only when nothing of it is updated and something is not given back.
        """
        leaves = range(argument.start, argument.stop)
        pairs = [(i, self.replaced_by[i]) for i in leaves if self.replaced_by[i] != _FREE]
        if len(pairs) == argument.size:
            return
        if all(self.graph.inputs[i] == self.graph.outputs[o] for i, o in pairs):
            for i, _ in pairs:
                self.replaced_by[i] = _FREE

    def leaves_data(self, before: SubTree) -> bool:
        """Whether, with this pair, some input is left that can be the step's data.

        The first pair may always be made: a step on state alone makes its own data.
        """
        if all(leaf == _FREE for leaf in self.replaced_by):
            return True
        taken = {i for i, leaf in enumerate(self.replaced_by) if leaf != _FREE}
        taken.update(range(before.start, before.stop))
        rest = (row for i, row in enumerate(self.graph.inputs) if i not in taken)
        return any(
            self.graph.tensor(row).rank > 0 or self.graph.tensor(row).dtype.startswith("key<")
            for row in rest
        )


@final
@dataclass(kw_only=True)
class _Evidence:
    """What the graph says about one sub-tree of the result; looked up when first asked."""

    graph: Graph
    producers: Mapping[int, Op]
    after: SubTree
    updated: frozenset[int] | None = None
    read: frozenset[int] | None = None

    def is_handed_through(self, before: SubTree) -> bool:
        """Whether the sub-tree is the argument itself, unchanged."""
        inputs = self.graph.inputs[before.start : before.stop]
        return inputs == self.graph.outputs[self.after.start : self.after.stop]

    def is_update(self, before: SubTree) -> bool:
        """Whether a single array is the argument's next value, worked out element by element."""
        if self.updated is None:
            output = self.graph.outputs[self.after.start]
            self.updated = update_sources(self.graph, self.producers, output)
        return self.graph.inputs[before.start] in self.updated

    def is_own_successor(self, before: SubTree) -> bool:
        """Whether an array follows from the argument and scalars alone, like a counter or key."""
        if self.read is None:
            output = self.graph.outputs[self.after.start]
            self.read = frozenset(self.graph.inputs) & feeds_outputs(self.graph, [output])
        row = self.graph.inputs[before.start]
        others = self.read - {row}
        return row in self.read and all(self.graph.tensor(other).rank == 0 for other in others)
