"""Building one rule: names and positions of factors are given out as dims are described."""

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

DimFactors = tuple[int, ...]
"""The positions of one dim's factors, major first; empty for a dim that cannot be cut."""


@final
class RuleBuilder:
    """The factors of one rule while it is written; dims of size 0 and 1 get no factor."""

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
    ) -> DimFactors:
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

    def whole(self, name: str, size: int) -> DimFactors:
        """The dim made of one new factor that must be whole."""
        return self.factor(name, size, FactorKind.NEED_REPLICATION)

    def dims(
        self, shape: Iterable[int], kind: FactorKind = FactorKind.PASS_THROUGH
    ) -> TensorFactors:
        """A new factor for every dim of ``shape``, named i, j, k and so on."""
        return tuple(
            self.factor(dim_name(position), size, kind) for position, size in enumerate(shape)
        )

    def rule(self, operands: Iterable[TensorFactors], results: Iterable[TensorFactors]) -> OpRule:
        """The finished rule."""
        return OpRule(
            factors=tuple(self._factors), operands=tuple(operands), results=tuple(results)
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
    build = RuleBuilder()

    def dims_of(shape: tuple[int, ...]) -> TensorFactors:
        return tuple(build.whole("w", size) for size in shape)

    rule = build.rule(
        [dims_of(tensor.shape) for tensor in view.operands],
        [dims_of(tensor.shape) for tensor in view.results],
    )
    return OpRule(
        factors=rule.factors, operands=rule.operands, results=rule.results, fallback=reason
    )
