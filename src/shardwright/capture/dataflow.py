"""Which tensors a set of outputs, or any product, depends on; loops are followed by fixpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

from shardwright.ir import Graph, Op, Region

CONTRACTIONS = frozenset(
    {
        "dot_general",
        "ragged_dot",
        "ragged_dot_general",
        "conv_general_dilated",
        "gather",
        "scatter-add",
        "pallas_call",
        "custom_call",
        "ffi_call",
    }
)
"""Operators that trained tensors feed: products, convolutions, lookups and opaque kernels."""


def feeds_outputs(
    graph: Graph, outputs: Iterable[int], *, once: frozenset[int] = frozenset()
) -> set[int]:
    """Every tensor that the given tensors depend on, themselves included.

    Args:
        graph: the step.
        outputs: where to begin.
        once: ids of scans of which only one trip counts: what a carry became in one trip is not
            followed into the next.
    """
    walker = _Needs(sources=frozenset(), needed=set(outputs), once=once)
    walker.run(graph.ops)
    return walker.needed


def feeds_contraction(graph: Graph) -> set[int]:
    """Every tensor that some product, convolution or lookup depends on."""
    walker = _Needs(sources=CONTRACTIONS, needed=set())
    walker.run(graph.ops)
    return walker.needed


@final
@dataclass(frozen=True, kw_only=True)
class _Needs:
    """Backward reachability; ``needed`` only grows, so each loop settles after few rounds."""

    sources: frozenset[str]
    needed: set[int] = field(default_factory=set)
    once: frozenset[int] = frozenset()

    def run(self, ops: tuple[Op, ...]) -> None:
        for op in reversed(ops):
            if not op.regions:
                if op.kind in self.sources or not self.needed.isdisjoint(op.results):
                    self.needed.update(op.operands)
            elif op.kind == "scan":
                self.scan(op)
            elif op.kind == "while":
                self.while_loop(op)
            else:
                self.branches(op)

    def scan(self, op: Op) -> None:
        (body,) = op.regions
        consts, carries = _count(op, "num_consts"), _count(op, "num_carry")
        self.link(op.results, body.outputs)
        self.loop(body, consts, 0 if op.id in self.once else carries)
        self.link(body.inputs, op.operands)

    def while_loop(self, op: Op) -> None:
        condition, body = op.regions
        head, consts = _count(op, "cond_nconsts"), _count(op, "body_nconsts")
        before = len(self.needed)
        self.link(op.results, body.outputs)
        carries = len(body.outputs)
        self.loop(body, consts, carries)
        if (
            len(self.needed) > before
        ):  # the loop matters, and its condition decides how long it runs
            self.needed.update(condition.outputs)
            self.run(condition.ops)
            self.link(condition.inputs[head:], body.outputs)
            self.loop(body, consts, carries)
        self.link(condition.inputs[:head], op.operands[:head])
        self.link(body.inputs, op.operands[head:])

    def branches(self, op: Op) -> None:
        start = len(op.operands) - len(op.regions[0].inputs)
        before = len(self.needed)
        for branch in op.regions:
            self.link(op.results, branch.outputs)
            self.run(branch.ops)
            self.link(branch.inputs, op.operands[start:])
        if len(self.needed) > before:
            self.needed.update(op.operands[:start])

    def loop(self, body: Region, consts: int, carries: int) -> None:
        """Run a body backwards until no further carry is needed."""
        while True:
            self.run(body.ops)
            before = len(self.needed)
            self.link(body.inputs[consts : consts + carries], body.outputs[:carries])
            if len(self.needed) == before:
                return

    def link(self, known: tuple[int, ...], other: tuple[int, ...]) -> None:
        """Where a tensor is needed, its counterpart across a border is needed too."""
        self.needed.update(b for a, b in zip(known, other, strict=True) if a in self.needed)


def _count(op: Op, name: str) -> int:
    value = op.attribute(name, 0)
    return value if isinstance(value, int) else 0
