"""State: which outputs are the next values of which inputs.

A step takes its state and returns it anew, so some sub-tree of its result has the structure, shapes
and element types of some sub-tree of its arguments. The largest such pairs come first. Equal
structure alone convinces for sub-trees of several leaves; a single array must also behave like
state, since a loss has the shape of a counter and a reconstruction that of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from shardwright.capture.arguments import Leaves
from shardwright.capture.dataflow import feeds_outputs
from shardwright.capture.trees import SubTree, subtrees
from shardwright.capture.updates import is_updated_from
from shardwright.ir import Graph, Tensor


def pair_state(graph: Graph, arguments: Leaves, result: Leaves) -> list[tuple[int, int]]:
    """(position of an argument's leaf, position of a result's leaf) of each state tensor."""
    sides = [
        subtrees(leaves.tree, leaves.names, [_type(graph.tensor(i)) for i in rows], depth)
        for leaves, rows, depth in (
            (arguments, graph.inputs[: len(arguments.names)], 1),
            (result, graph.outputs, 0),
        )
    ]
    matcher = _Matcher(
        graph=graph, num_inputs=len(arguments.names), taken=[-1] * len(arguments.names)
    )
    matcher.run(*sides)
    return [(i, o) for i, o in enumerate(matcher.taken) if o >= 0]


def _type(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tensor.shape, tensor.dtype


@final
@dataclass(frozen=True, kw_only=True)
class _Matcher:
    """The pairs so far: for each argument leaf the result leaf that replaces it, or -1."""

    graph: Graph
    num_inputs: int
    taken: list[int]
    done: set[int] = field(default_factory=set)

    def run(self, before: Sequence[SubTree], after: Sequence[SubTree]) -> None:
        by_signature: dict[object, list[SubTree]] = {}
        for tree in before:
            by_signature.setdefault(tree.signature, []).append(tree)
        for tree in sorted(after, key=lambda t: -t.size):
            if self.done.isdisjoint(range(tree.start, tree.stop)):
                found = self.best(tree, by_signature.get(tree.signature, ()))
                if found is not None:
                    self.pair(found, tree)

    def pair(self, before: SubTree, after: SubTree) -> None:
        for offset in range(before.size):
            self.taken[before.start + offset] = after.start + offset
            self.done.add(after.start + offset)

    def best(self, after: SubTree, candidates: Sequence[SubTree]) -> SubTree | None:
        """The free candidate of the most alike name, then in order, that behaves like state."""
        free = [c for c in candidates if all(o < 0 for o in self.taken[c.start : c.stop])]
        free.sort(key=lambda c: -_alike(c.path, after.path))
        return next((c for c in free if self.is_state(c, after)), None)

    def is_state(self, before: SubTree, after: SubTree) -> bool:
        alike = _alike(before.path, after.path) > 0
        if self.is_handed_through(before, after):
            return (alike or before.index == after.index) and self.leaves_data(before)
        if before.size > 1:
            return True
        row = self.graph.inputs[before.start]
        if self.graph.tensor(row).rank == 0:
            return alike or self.is_own_successor(before, after)
        is_update = is_updated_from(self.graph, self.graph.outputs[after.start], row)
        return (alike or is_update) and self.leaves_data(before)

    def is_handed_through(self, before: SubTree, after: SubTree) -> bool:
        inputs = self.graph.inputs[before.start : before.stop]
        return inputs == self.graph.outputs[after.start : after.stop]

    def is_own_successor(self, before: SubTree, after: SubTree) -> bool:
        """Whether an output depends on one input and, beside that, on constants or scalars only."""
        row = self.graph.inputs[before.start]
        needed = feeds_outputs(self.graph, [self.graph.outputs[after.start]])
        used = needed.intersection(self.graph.inputs)
        return row in used and all(self.graph.tensor(i).rank == 0 for i in used)

    def leaves_data(self, before: SubTree) -> bool:
        """Whether, with this pair, some input is still left that can be the step's data."""
        if all(o < 0 for o in self.taken) and before.size < self.num_inputs:
            return True
        for position, row in enumerate(self.graph.inputs):
            is_state = position < self.num_inputs and self.taken[position] >= 0
            if is_state or before.start <= position < before.stop:
                continue
            tensor = self.graph.tensor(row)
            if tensor.rank > 0 or tensor.dtype.startswith("key<"):
                return True
        return before.size == self.num_inputs


def _alike(a: str, b: str) -> int:
    """How many parts at the end of two dotted names agree; numbers alone say nothing."""
    same = 0
    named = 0
    for x, y in zip(_reversed_parts(a), _reversed_parts(b), strict=False):
        if x != y:
            break
        same += 1
        named += not x.isdigit()
    return same if named else 0


def _reversed_parts(path: str) -> Iterator[str]:
    return reversed(path.split("."))
