"""Repetition: which operators of a step play the same part in different layers.

A 96-layer model has 96 copies of one layer, and nothing is gained by deciding each copy by itself.
Operators are coloured by what they are (kind, attributes, shapes) and then, a few times over, by
the colours of their neighbours; operators of one colour look alike as far as a few steps away and
share one decision. Layers near the ends of the stack differ in the few operators that see the end.

A wrong tie is never an error, only a smaller search: tied operators have equal shapes and so equal
choices, and the price of a choice is counted over all of them.

Source:
    Colour refinement, Weisfeiler and Leman, "The reduction of a graph to canonical form", 1968.
"""

from __future__ import annotations

from collections.abc import Hashable

from shardwright.ir.flat import FlatGraph

ROUNDS = 3


def classes_of(flat: FlatGraph, rounds: int = ROUNDS) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The class of each flat operator and of each graph input, as small numbers from 0.

    Args:
        flat: the step.
        rounds: how many steps away a difference still separates two operators.

    Returns:
        (class per position of ``flat.ops``, class per position of ``flat.graph.inputs``), numbered
        in one series; the same number means the same class.
    """
    producer, users = _neighbours(flat)
    colours = _intern(_first_colours(flat))
    for _ in range(rounds):
        colours = _intern(
            [
                (colour, tuple([colours[i] for i in sources]), _multiset(colours, followers))
                for colour, sources, followers in zip(colours, producer, users, strict=True)
            ]
        )
    num_ops = len(flat.ops)
    return tuple(colours[:num_ops]), tuple(colours[num_ops:])


def _first_colours(flat: FlatGraph) -> list[Hashable]:
    tensors = flat.graph.tensors
    types = _intern([(tensor.shape, tensor.dtype, tensor.value) for tensor in tensors])
    first: list[Hashable] = []
    for flat_op in flat.ops:
        op = flat_op.op
        first.append(
            (
                op.kind,
                flat_op.runs,
                op.attributes,
                tuple([types[i] for i in op.operands]),
                tuple([types[i] for i in op.results]),
            )
        )
    first.extend(("input", types[i], tensors[i].role) for i in flat.graph.inputs)
    return first


def _neighbours(flat: FlatGraph) -> tuple[list[list[int]], list[list[int]]]:
    """Per node (operators, then inputs) the nodes it reads and the nodes that read it.

    A state's input and output are joined, so that a parameter knows its own update.
    """
    num_ops = len(flat.ops)
    writer = {tensor_id: num_ops + i for i, tensor_id in enumerate(flat.graph.inputs)}
    for position, flat_op in enumerate(flat.ops):
        for tensor_id in flat_op.op.results:
            writer[tensor_id] = position
    total = num_ops + len(flat.graph.inputs)
    producer: list[list[int]] = [[] for _ in range(total)]
    users: list[list[int]] = [[] for _ in range(total)]
    for position, flat_op in enumerate(flat.ops):
        for tensor_id in flat_op.op.operands:
            source = writer.get(tensor_id)
            if source is not None:
                producer[position].append(source)
                users[source].append(position)
    for before, after in flat.graph.state_pairs:
        producer[writer[before]].append(writer[after])
    return producer, users


def _intern(keys: list[Hashable]) -> list[int]:
    table: dict[Hashable, int] = {}
    return [table.setdefault(key, len(table)) for key in keys]


def _multiset(colours: list[int], positions: list[int]) -> tuple[int, ...]:
    if len(positions) == 1:
        return (colours[positions[0]],)
    return tuple(sorted([colours[i] for i in positions]))
