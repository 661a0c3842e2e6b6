"""Rules from einsum-like text, the form in which errors, tests and reports print them."""

from __future__ import annotations

from collections.abc import Mapping

from shardwright.errors import ShardingError
from shardwright.sharding.factor import Combiner, Factor, FactorKind, OpRule, TensorFactors

Mark = FactorKind | Combiner
"""What a factor is, where it does not simply pass through: a kind, or a reduction's combiner."""


def rule_from_text(
    text: str, sizes: Mapping[str, int], marks: Mapping[str, Mark] | None = None
) -> OpRule:
    """The rule written as ``"b m k, b k n -> b m n"``.

    Dims are separated by spaces, tensors by commas; ``(h d)`` is one dim of two factors, major
    first; ``1`` is a dim without factors; ``()`` is a scalar.

    Args:
        text: operands, an arrow, results.
        sizes: the size of every factor named in the text.
        marks: kinds of the factors that do not pass through; a combiner marks a reduction.

    Raises:
        ShardingError: a factor has no size, or a bracket is not closed.
    """
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ShardingError(f"the rule {text!r} has no '->' between operands and results")
    names: dict[str, int] = {}
    operands = tuple(_tensor(part, names, text) for part in _split_tensors(left))
    results = tuple(_tensor(part, names, text) for part in _split_tensors(right))
    factors = tuple(_factor(name, sizes, marks or {}, text) for name in names)
    return OpRule(factors=factors, operands=operands, results=results)


def _split_tensors(side: str) -> list[str]:
    return [part.strip() for part in side.split(",")] if side.strip() else []


def _tensor(part: str, names: dict[str, int], text: str) -> TensorFactors:
    if part == "()":
        return ()
    dims: list[tuple[int, ...]] = []
    group: list[int] | None = None
    for token in part.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            group = []
        elif token == ")":
            if group is None:
                raise ShardingError(f"the rule {text!r} closes a bracket that it did not open")
            dims.append(tuple(group))
            group = None
        elif token == "1":
            dims.append(())
        else:
            position = names.setdefault(token, len(names))
            if group is None:
                dims.append((position,))
            else:
                group.append(position)
    if group is not None:
        raise ShardingError(f"the rule {text!r} leaves a bracket open")
    return tuple(dims)


def _factor(name: str, sizes: Mapping[str, int], marks: Mapping[str, Mark], text: str) -> Factor:
    if name not in sizes:
        raise ShardingError(f"the rule {text!r} names factor {name!r} without a size")
    mark = marks.get(name, FactorKind.PASS_THROUGH)
    if isinstance(mark, Combiner):
        return Factor(name=name, size=sizes[name], kind=FactorKind.REDUCTION, combiner=mark)
    return Factor(name=name, size=sizes[name], kind=mark)
