"""Names that tie what XLA writes to what the plan decided.

A mark goes on JAX's name stack, travels through XLA as part of ``op_name``, and is found again in
the compiled text and in profiles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

_MARK = re.compile(r"plan\.(op|tensor)(\d+)(?:\.(operand|result)(\d+))?")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a name says.

    Attributes:
        op_id: the operator, or -1.
        tensor_id: the tensor, or -1.
        side: ``operand``, ``result`` or empty for the operator itself.
        position: of the operand or result.
    """

    op_id: int = -1
    tensor_id: int = -1
    side: str = ""
    position: int = -1


def op_mark(op_id: int) -> str:
    """The mark of a decided operator."""
    return f"plan.op{op_id}"


def operand_mark(op_id: int, position: int) -> str:
    """The mark of the constraint on an operand at its use."""
    return f"plan.op{op_id}.operand{position}"


def result_mark(op_id: int, position: int) -> str:
    """The mark of the constraint on a result."""
    return f"plan.op{op_id}.result{position}"


def tensor_mark(tensor_id: int) -> str:
    """The mark of the constraint on a tensor at its definition."""
    return f"plan.tensor{tensor_id}"


def read_marks(op_name: str) -> tuple[Mark, ...]:
    """The marks in an ``op_name``; several where XLA has combined operators."""
    return tuple(_mark(*found) for found in _MARK.findall(op_name))


def _mark(noun: str, number: str, side: str, position: str) -> Mark:
    if noun == "tensor":
        return Mark(tensor_id=int(number))
    return Mark(op_id=int(number), side=side, position=int(position) if position else -1)
