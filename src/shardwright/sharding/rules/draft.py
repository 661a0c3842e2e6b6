"""A rule under construction: dims are asked for one by one, and each brings its factor along."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

from shardwright.sharding.factor import (
    Combiner,
    Factor,
    FactorKind,
    OpRule,
    TensorFactors,
    Window,
)
from shardwright.sharding.rules.view import OpView

RuleFunction = Callable[[OpView], OpRule]
"""A rule: what an operator's shapes and attributes say of its factors."""

Dim = tuple[int, ...]
"""The positions of one dim's factors, major first; empty for a dim that cannot be cut."""


@final
class RuleDraft:
    """The factors gathered so far; dims of size 0 and 1 get none.

    A dim that two tensors share is asked for once and placed in both.
    """

    def __init__(self) -> None:
        self._factors: list[Factor] = []
        self._names: set[str] = set()

    def factor(
        self,
        name: str,
        size: int,
        kind: FactorKind = FactorKind.PASS_THROUGH,
        *,
        combiner: Combiner | None = None,
        window: Window | None = None,
        block: int = 1,
    ) -> Dim:
        """The dim made of one new factor; no factor at all when ``size`` is below 2.

        Args:
            name: its name, made unique by a number where the rule has it already.
            size: iterations.
            kind: what cutting it does; ``combiner`` and ``window`` set it themselves.
            combiner: how partial results are joined, for a reduction.
            window: what slides, for a halo.
            block: it may be cut only between blocks of this many iterations.
        """
        if size < 2:
            return ()
        if combiner is not None:
            kind = FactorKind.REDUCTION
        elif window is not None:
            kind = FactorKind.HALO
        self._factors.append(
            Factor(
                name=self._unique(name),
                size=size,
                kind=kind,
                combiner=combiner,
                window=window,
                block=block,
            )
        )
        return (len(self._factors) - 1,)

    def passes(self, name: str, size: int, *, block: int = 1) -> Dim:
        """A dim that each device computes its own part of."""
        return self.factor(name, size, block=block)

    def reduces(self, name: str, size: int, combiner: Combiner) -> Dim:
        """A dim whose parts give partial results, joined by ``combiner``."""
        return self.factor(name, size, combiner=combiner)

    def slides(self, name: str, size: int, window: Window) -> Dim:
        """A dim along which a window slides; ``size`` is the result's."""
        return self.factor(name, size, window=window)

    def moves(self, name: str, size: int) -> Dim:
        """A dim whose elements change places between devices."""
        return self.factor(name, size, FactorKind.PERMUTATION)

    def whole(self, size: int, name: str = "w") -> Dim:
        """A dim that every device needs whole."""
        return self.factor(name, size, FactorKind.NEED_REPLICATION)

    def all_pass(self, shape: Iterable[int]) -> TensorFactors:
        """A passing dim for every size of ``shape``, named i, j, k and so on."""
        return tuple(self.passes(dim_name(place), size) for place, size in enumerate(shape))

    def all_whole(self, shape: Iterable[int]) -> TensorFactors:
        """A whole dim for every size of ``shape``."""
        return tuple(self.whole(size) for size in shape)

    def rule(self, operands: Iterable[Iterable[Dim]], results: Iterable[Iterable[Dim]]) -> OpRule:
        """The rule with these dims in the operands and results."""
        return OpRule(
            factors=tuple(self._factors),
            operands=tuple(tuple(dims) for dims in operands),
            results=tuple(tuple(dims) for dims in results),
        )

    def _unique(self, name: str) -> str:
        unique, number = name, 2
        while unique in self._names:
            unique, number = f"{name}{number}", number + 1
        self._names.add(unique)
        return unique


def dim_name(position: int) -> str:
    """The usual letter of a dim: i, j, k, l and so on, then ``d8``, ``d9``."""
    letters = "ijklmnpq"
    return letters[position] if position < len(letters) else f"d{position}"


def whole_rule(view: OpView, reason: str) -> OpRule:
    """A rule under which every dim of every operand and result must be whole.

    Args:
        view: the operator.
        reason: why, as reports show it.
    """
    draft = RuleDraft()
    operands = [[draft.whole(size) for size in tensor.shape] for tensor in view.operands]
    results = [[draft.whole(size) for size in tensor.shape] for tensor in view.results]
    rule = draft.rule(operands, results)
    return OpRule(
        factors=rule.factors, operands=rule.operands, results=rule.results, fallback=reason
    )
