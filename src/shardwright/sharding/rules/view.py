"""What a rule sees of an operator: its kind, shapes and attributes, nothing around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from shardwright.ir import Attribute, Graph, Op, Tensor


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpView:
    """An operator with its operand and result tensors resolved."""

    op: Op
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]

    @staticmethod
    def of(op: Op, graph: Graph) -> OpView:
        """The view of ``op`` in ``graph``."""
        return OpView(
            op=op,
            operands=tuple(graph.tensor(i) for i in op.operands),
            results=tuple(graph.tensor(i) for i in op.results),
        )

    @property
    def kind(self) -> str:
        """The primitive's name."""
        return self.op.kind

    def attribute(self, name: str, default: Attribute = None) -> Attribute:
        """The literal stored under ``name``, or ``default``."""
        return self.op.attribute(name, default)

    def ints(self, name: str) -> tuple[int, ...]:
        """An attribute that is a tuple of whole numbers; empty when absent."""
        value = self.op.attribute(name)
        if not isinstance(value, tuple):
            return ()
        return tuple(item for item in value if isinstance(item, int))

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is one whole number."""
        value = self.op.attribute(name, default)
        return value if isinstance(value, int) else default

    def int_lists(self, name: str) -> tuple[tuple[int, ...], ...]:
        """An attribute that is a tuple of tuples of whole numbers, such as ``padding``."""
        value = self.op.attribute(name)
        if not isinstance(value, tuple):
            return ()
        lists = [items for items in value if isinstance(items, tuple)]
        return tuple(tuple(item for item in items if isinstance(item, int)) for items in lists)
