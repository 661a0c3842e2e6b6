"""Classes of operators that look alike and must still be free to differ: updates and carries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from shardwright.ir.flat import FlatGraph
from shardwright.ir.graph import STATE_ROLES
from shardwright.sharding.rules.elementwise import RULES as _ELEMENTWISE
from shardwright.sharding.rules.reduce import RULES as _REDUCTIONS
from shardwright.sharding.rules.shape import RULES as _SHAPES

_OF_AN_UPDATE = frozenset(_ELEMENTWISE) | frozenset(_REDUCTIONS) | frozenset(_SHAPES) | {"reshape"}
"""Operators that optimizers are made of; products, lookups and loops are not."""

_NONE = -1


def split_updates(
    flat: FlatGraph, op_class: tuple[int, ...], input_class: tuple[int, ...]
) -> tuple[int, ...]:
    """Classes in which what is computed of two different states never shares one class.

    Updates of two parameters look alike when their shapes do, however differently they are used,
    and each must be free to follow its own state, and its own gradient on the way there.
    """
    return _Updates(flat=flat, op_class=op_class, input_class=input_class).split()


@final
@dataclass(frozen=True, kw_only=True)
class _Updates:
    flat: FlatGraph
    op_class: tuple[int, ...]
    input_class: tuple[int, ...]

    @cached_property
    def sizes(self) -> list[int]:
        """Elements of each tensor."""
        return [tensor.num_elements for tensor in self.flat.graph.tensors]

    @cached_property
    def array_sizes(self) -> list[int]:
        """Elements of each tensor that has dims."""
        tensors = self.flat.graph.tensors
        return [
            size if tensor.shape else _NONE
            for tensor, size in zip(tensors, self.sizes, strict=True)
        ]

    @cached_property
    def candidates(self) -> list[int]:
        """Positions of the operators that an optimizer could be made of."""
        return np.flatnonzero(self.flat.columns.is_any_of(_OF_AN_UPDATE)).tolist()

    def split(self) -> tuple[int, ...]:
        update = self.on_the_way()
        makers, states, state_sizes = self.makers(), self.states(), self.state_sizes()
        number: dict[tuple[int, ...], int] = {}
        first = 1 + max((*self.op_class, *self.input_class), default=0)
        classes = list(self.op_class)
        for position in self.candidates:
            op = self.flat.ops[position].op
            size = max([state_sizes[i] for i in op.operands], default=_NONE)
            is_of_state = size >= 0 and self.is_no_larger(op.results, size)
            if not is_of_state and not update[position]:
                continue
            known = makers if update[position] else states
            key = (classes[position], *[known[i] for i in op.operands])
            colour = classes[position] = number.setdefault(key, first + len(number))
            for i in op.results:
                makers[i] = colour
                if is_of_state and self.array_sizes[i] >= 0:
                    states[i], state_sizes[i] = colour, self.array_sizes[i]
        return tuple(classes)

    def makers(self) -> list[int]:
        """The class that makes each tensor, before anything is split."""
        writes = self.flat.columns.writes
        makers = np.full(len(self.flat.graph.tensors), _NONE, dtype=np.int64)
        makers[list(self.flat.graph.inputs)] = self.input_class
        makers[writes.values] = np.array(self.op_class, dtype=np.int64)[writes.owners]
        return makers.tolist()

    def states(self) -> list[int]:
        """The class of each tensor that is a state."""
        graph = self.flat.graph
        states = [_NONE] * len(graph.tensors)
        for tensor_id, colour in zip(graph.inputs, self.input_class, strict=True):
            if graph.tensor(tensor_id).role in STATE_ROLES:
                states[tensor_id] = colour
        return states

    def state_sizes(self) -> list[int]:
        """Elements of each tensor that is a state and has dims."""
        sizes = self.array_sizes
        return [_NONE if s < 0 else size for s, size in zip(self.states(), sizes, strict=True)]

    def is_no_larger(self, results: tuple[int, ...], size: int) -> bool:
        """Whether what an operator makes of a state is a part, a copy or a sum of it.

        What is larger than the state is an activation, and those fold over layers. Scalars do too,
        or a sum over all parameters would come apart.
        """
        return max([self.sizes[i] for i in results], default=0) <= size

    def on_the_way(self) -> list[bool]:
        """Of each operator whether it lies between a gradient and the next value of its state.

        Scalars are left out, or a sum over all parameters would come apart.
        """
        flat, sizes, array_sizes = self.flat, self.sizes, self.array_sizes
        reach = [_NONE] * len(sizes)
        for _, after in flat.graph.state_pairs:
            reach[after] = sizes[after]
        found = [False] * len(flat.ops)
        for position in reversed(self.candidates):
            op = flat.ops[position].op
            made = max([reach[i] for i in op.results if array_sizes[i] >= 0], default=_NONE)
            if made >= 0:
                found[position] = True
                for i in op.operands:
                    if sizes[i] <= made:
                        reach[i] = made
        return found


def split_carries(flat: FlatGraph, op_class: tuple[int, ...]) -> tuple[int, ...]:
    """Classes in which the ends of two different carries never share one class."""
    ends = np.flatnonzero(flat.columns.is_any_of({"shard.carry_back"})).tolist()
    writer = flat.columns.writer(len(flat.graph.tensors))
    split: dict[tuple[int, int], int] = {}
    classes = list(op_class)
    for position in ends:
        start = int(writer[flat.ops[position].op.operands[1]])
        key = (classes[position], classes[start])
        classes[position] = split.setdefault(key, -1 - len(split))
    return tuple(classes)
