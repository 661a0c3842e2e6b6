"""What operators that only stretch a smaller tensor are asked for, once a choice is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np

from shardwright.ir import Op
from shardwright.search.fold import FoldedOp
from shardwright.search.lead import ASKED
from shardwright.search.space import Space
from shardwright.sharding import Sharding, Strategy
from shardwright.sharding.follow import follow_result


def asked_strategies(space: Space, choice: Sequence[int]) -> Iterator[tuple[Op, Strategy]]:
    """Each asked operator of the whole graph that is read, and a strategy for all its readers.

    Operators that are folded together may be read in different forms, so each is asked by itself.
    Where the readers of one want different forms, it runs in what they have in common, and they
    slice; what reaches memory is made in its resting form.
    """
    return _Asker(space=space, choice=choice).run()


@final
@dataclass(frozen=True, kw_only=True)
class _Asker:
    space: Space
    choice: Sequence[int]
    forms: dict[int, list[Sharding]] = field(default_factory=dict)
    known: dict[tuple[object, ...], Strategy] = field(default_factory=dict)

    def run(self) -> Iterator[tuple[Op, Strategy]]:
        folded = self.space.folded
        for before, after in folded.graph.state_pairs:
            self.hear(after, before)
        # Readers stand behind what they read: at an operator's turn all its readers have spoken.
        for position in reversed(self.turns()):
            op, index = folded.flat.ops[position].op, int(folded.op_of[position])
            strategy = self.strategies[index]
            if self.asks[index]:
                strategy = self.answer(op, folded.ops[index])
                if strategy is not None:
                    yield op, strategy
            if op.kind == "shard.carry_back":
                self.hear(op.operands[0], op.operands[1])
            if strategy is not None:
                for tensor_id, wanted in zip(op.operands, strategy.operands, strict=True):
                    if self.is_asked[tensor_id]:
                        self.forms.setdefault(tensor_id, []).append(wanted)

    def turns(self) -> list[int]:
        """The positions of what is asked and of what reads it."""
        folded = self.space.folded
        reads = folded.flat.columns.reads
        has_turn = np.array(self.asks, dtype=np.bool_)[folded.op_of]
        has_turn[reads.owners[np.array(self.is_asked, dtype=np.bool_)[reads.values]]] = True
        return np.flatnonzero(has_turn).tolist()

    @cached_property
    def asks(self) -> list[bool]:
        """Of each folded operator whether it is asked."""
        return [lead.node == ASKED for lead in self.space.lead.ops]

    @cached_property
    def strategies(self) -> list[Strategy | None]:
        """The strategy of each folded operator that has one of its own."""
        return [self.space.strategy(op.index, self.choice) for op in self.space.folded.ops]

    @cached_property
    def is_asked(self) -> list[bool]:
        """Of each tensor of the whole graph whether an asked operator makes it."""
        folded = self.space.folded
        asked = [t.producer >= 0 and self.asks[t.producer] for t in folded.tensors]
        found: list[bool] = np.array([*asked, False], dtype=np.bool_)[folded.index_of].tolist()
        return found

    def hear(self, tensor_id: int, like: int) -> None:
        """Note that a tensor must lie like another."""
        if not self.is_asked[tensor_id]:
            return
        wanted = self.space.sharding(self.space.folded.tensor_of[like], self.choice)
        if wanted is not None:
            self.forms.setdefault(tensor_id, []).append(wanted)

    def answer(self, op: Op, folded_op: FoldedOp) -> Strategy | None:
        """What is common to the wishes of one operator's readers; equal wishes share an answer."""
        wishes = [(slot, self.forms[t]) for slot, t in enumerate(op.results) if t in self.forms]
        if not wishes:
            return None
        slot, forms = wishes[0]
        key = (folded_op.index, slot, *forms)
        strategy = self.known.get(key)
        if strategy is None:
            strategy = self.known[key] = self.asked_for(folded_op, slot, forms)
        return strategy

    def asked_for(self, folded_op: FoldedOp, slot: int, forms: list[Sharding]) -> Strategy:
        folded = self.space.folded
        index = folded_op.results[slot]
        resting = self.space.sharding(index, self.choice)
        if index in self.space.priced and resting is not None:
            forms = [resting]
        return follow_result(
            folded_op.rule,
            folded.operand_shapes(folded_op),
            folded.shapes(folded_op.results),
            self.space.placed.mesh,
            slot,
            in_common(forms),
        ).strategy


def in_common(forms: Iterable[Sharding]) -> Sharding:
    """The sharding that cuts each dim by the leading axes that all ``forms`` cut it by."""
    return Sharding(
        dims=tuple(
            tuple(_common_head(axes)) for axes in zip(*(form.dims for form in forms), strict=True)
        )
    )


def _common_head(axes: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for names in zip(*axes, strict=False):
        if len(set(names)) > 1:
            return
        yield names[0]
