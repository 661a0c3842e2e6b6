"""Sub-trees of flattened arguments and results, so that equal ones can be found."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import final

from shardwright.jax_bridge import PyTreeDef


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SubTree:
    """A sub-tree that holds at least one leaf.

    Attributes:
        start: position of its first leaf.
        stop: position after its last leaf.
        path: dotted name of the sub-tree; a leaf's own name for a leaf.
        signature: equal for two sub-trees of one structure and equal leaves.
        index: which argument, or which part of the result, it lies in; -1 for the whole result.
    """

    start: int
    stop: int
    path: str
    signature: Hashable
    index: int

    @property
    def size(self) -> int:
        """How many leaves it holds."""
        return self.stop - self.start


def subtrees(
    tree: PyTreeDef, names: Sequence[str], leaves: Sequence[Hashable], *, parts_at: int
) -> list[SubTree]:
    """Every sub-tree with a leaf, outer before inner, in order of the leaves.

    Args:
        tree: the structure.
        names: dotted name of each leaf.
        leaves: what must be equal for two leaves to be equal: shape and element type.
        parts_at: depth of the parts that ``index`` counts: 2 for ``(args, kwargs)``, whose two
            upper levels are no sub-trees of the user's; 1 for a result.
    """
    found: list[SubTree] = []
    first = 0 if parts_at == 1 else parts_at

    def walk(node: PyTreeDef, start: int, depth: int, index: int) -> int:
        stop = start + node.num_leaves
        if node.num_leaves and depth >= first:
            found.append(
                SubTree(
                    start=start,
                    stop=stop,
                    path=_common_path(names[start:stop]),
                    signature=(_structure(node), tuple(leaves[start:stop])),
                    index=index,
                )
            )
        position = start
        for number, child in enumerate(node.children()):
            inner = number if depth < parts_at else index
            position = walk(child, position, depth + 1, inner)
        return stop

    walk(tree, 0, 0, -1)
    return found


def _structure(node: PyTreeDef) -> Hashable:
    """The structure as something hashable; custom nodes may hold what cannot be hashed."""
    try:
        hash(node)
        return node
    except TypeError:
        return str(node)


def _common_path(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    first, last = names[0].split("."), names[-1].split(".")
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return ".".join(first[:same])
