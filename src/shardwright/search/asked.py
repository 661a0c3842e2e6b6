"""What operators that only stretch a smaller tensor are asked for, once a choice is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from shardwright.search.fold import FoldedOp
from shardwright.search.lead import ASKED
from shardwright.search.space import Space
from shardwright.sharding import Sharding, Strategy
from shardwright.sharding.follow import follow_result


def asked_strategies(space: Space, choice: Sequence[int]) -> dict[int, Strategy]:
    """For each asked folded operator that is read, a strategy that serves all its readers.

    Where readers want different forms, it runs in what they have in common, and they slice.
    """
    return _Asker(space=space, choice=choice).run()


@final
@dataclass(frozen=True, kw_only=True)
class _Asker:
    space: Space
    choice: Sequence[int]
    forms: dict[int, list[Sharding]] = field(default_factory=dict)

    def run(self) -> dict[int, Strategy]:
        folded = self.space.folded
        for before, after, _ in folded.state_pairs:
            resting = self.space.sharding(before, self.choice)
            if resting is not None:
                self.forms.setdefault(after, []).append(resting)
        answers: dict[int, Strategy] = {}
        # Readers stand behind what they read: at an operator's turn all its readers have spoken.
        for op in reversed(folded.ops):
            strategy = self.space.strategy(op.index, self.choice)
            if self.space.lead.ops[op.index].node == ASKED:
                strategy = self.answer(op)
                if strategy is not None:
                    answers[op.index] = strategy
            if strategy is not None:
                self.ask_operands(op, strategy)
        return answers

    def ask_operands(self, op: FoldedOp, strategy: Strategy) -> None:
        for sources, wanted in zip(op.operands, strategy.operands, strict=True):
            for source in sources:
                self.forms.setdefault(source.tensor, []).append(wanted)

    def answer(self, op: FoldedOp) -> Strategy | None:
        folded = self.space.folded
        wishes = [(slot, self.forms[t]) for slot, t in enumerate(op.results) if t in self.forms]
        if not wishes:
            return None
        slot, forms = wishes[0]
        return follow_result(
            op.rule,
            folded.operand_shapes(op),
            folded.shapes(op.results),
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
