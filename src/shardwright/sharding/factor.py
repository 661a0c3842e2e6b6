"""Factors: the named loops of an operator's iteration space, and the rule made of them.

Every operator is described once, by which factors make up each dim of its operands and results::

    dot_general   b m k, b k n -> b m n      k reduces by sum
    reshape       b (h d) -> b h d

A *strategy* gives mesh axes to factors, and from the rule follow the shardings of every operand and
result, the local shapes, and the collectives.

Source:
    Shardy's ``OpShardingRule`` (openxla/shardy, dialect/sdy/ir/attrs.td); the idea is older:
    Mesh-TensorFlow's einsum (Shazeer et al., NeurIPS 2018) and FlexFlow's SOAP dimensions
    (Jia et al., MLSys 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import final


class FactorKind(StrEnum):
    """What cutting a factor does to the operator."""

    PASS_THROUGH = "pass_through"
    """Each device computes its own part of the results."""
    REDUCTION = "reduction"
    """Each device computes a partial result; a combiner joins them."""
    HALO = "halo"
    """A window slides over it: each device also needs the edge of its neighbours' parts."""
    PERMUTATION = "permutation"
    """The data must move between devices: a reversal, a roll, a slice."""
    NEED_REPLICATION = "need_replication"
    """It must be whole on every device."""


class Combiner(StrEnum):
    """How partial results of a reduction factor are joined."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AND = "and"
    OR = "or"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window that slides along a halo factor.

    Attributes:
        size: elements of the window before dilation.
        stride: step between windows.
        dilation: spacing of the window's elements.
        base_dilation: spacing put between the operand's elements first (transposed convolution).
        pad_low: padding before the first element.
        pad_high: padding after the last.
    """

    size: int
    stride: int = 1
    dilation: int = 1
    base_dilation: int = 1
    pad_low: int = 0
    pad_high: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One loop of an operator.

    Attributes:
        name: a short letter or word, unique in the rule.
        size: iterations; for a halo factor, the size of the result's dim.
        kind: what cutting it does.
        combiner: how partial results are joined; set exactly for reductions.
        window: what slides; set exactly for halo factors.
        block: it may be cut only between blocks of this many iterations.
    """

    name: str
    size: int
    kind: FactorKind = FactorKind.PASS_THROUGH
    combiner: Combiner | None = None
    window: Window | None = None
    block: int = 1


TensorFactors = tuple[tuple[int, ...], ...]
"""For each dim of a tensor, the positions of its factors in the rule, major first."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpRule:
    """One operator's factors and where they appear.

    Attributes:
        factors: the loops.
        operands: for each operand the factors of its dims; a dim of size 1 may have none.
        results: the same for each result.
        fallback: why the operator has no real rule and is kept whole; empty for a real rule.
    """

    factors: tuple[Factor, ...]
    operands: tuple[TensorFactors, ...]
    results: tuple[TensorFactors, ...]
    fallback: str = ""

    def __str__(self) -> str:
        left = ", ".join(self._tensor_text(dims) for dims in self.operands)
        right = ", ".join(self._tensor_text(dims) for dims in self.results)
        sizes = ", ".join(f"{factor.name}={factor.size}" for factor in self.factors)
        marks = [
            f"{factor.name}: {factor.combiner or factor.kind.value}"
            for factor in self.factors
            if factor.kind is not FactorKind.PASS_THROUGH
        ]
        return f"{left} -> {right}  {{{sizes}}}" + (f"  {', '.join(marks)}" if marks else "")

    def _tensor_text(self, dims: TensorFactors) -> str:
        return " ".join(self._dim_text(factors) for factors in dims) or "()"

    def _dim_text(self, factors: tuple[int, ...]) -> str:
        names = [self.factors[position].name for position in factors]
        if len(names) == 1:
            return names[0]
        return f"({' '.join(names)})" if names else "1"
