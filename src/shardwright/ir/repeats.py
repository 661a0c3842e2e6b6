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

import numpy as np
from numpy.typing import NDArray

from shardwright.ir.columns import Ints, Rows, numbered, renumbered
from shardwright.ir.flat import FlatGraph

ROUNDS = 3

Colours = NDArray[np.uint64]
"""64-bit digests; among 10^5 nodes two meet by chance in one graph of 10^9."""


def classes_of(flat: FlatGraph, rounds: int = ROUNDS) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The class of each flat operator and of each graph input, as small numbers from 0.

    Args:
        flat: the step.
        rounds: how many steps away a difference still separates two operators.

    Returns:
        (class per position of ``flat.ops``, class per position of ``flat.graph.inputs``), numbered
        in one series; the same number means the same class.
    """
    producers, users = _neighbours(flat)
    colours = np.concatenate(_first_colours(flat))
    for _ in range(rounds):
        before = _sequences(producers, colours)
        behind = _row_sums(users, _mixed(colours)[users.values])
        colours = _mixed(_mixed(_mixed(colours) + before) + behind)
    classes = renumbered(colours.view(np.int64)).tolist()
    num_ops = len(flat.ops)
    return tuple(classes[:num_ops]), tuple(classes[num_ops:])


def _first_colours(flat: FlatGraph) -> tuple[Colours, Colours]:
    """What each operator and each graph input is, whatever is around it."""
    graph, columns = flat.graph, flat.columns
    numbers, _ = numbered((tensor.shape, tensor.dtype, tensor.value) for tensor in graph.tensors)
    types = numbers.astype(np.uint64)
    ops = np.zeros(len(flat.ops), dtype=np.uint64)
    for part in (columns.kind, columns.runs, _attributes(flat)):
        ops = _mixed(ops + part.astype(np.uint64))
    for rows in (columns.reads, columns.writes):
        ops = _mixed(ops + _sequences(rows, types))
    inputs = np.array(graph.inputs, dtype=np.int64)
    roles, _ = numbered(graph.tensor(i).role for i in graph.inputs)
    return ops, _mixed(_mixed(~types[inputs]) + roles.astype(np.uint64))


def _attributes(flat: FlatGraph) -> Ints:
    """A number for each operator's attributes; those that share one object are compared once."""
    attributes = [flat_op.op.attributes for flat_op in flat.ops]
    objects, _ = numbered(map(id, attributes))
    _, first = np.unique(objects, return_index=True)
    values, _ = numbered(attributes[position] for position in first.tolist())
    return values[objects]


def _neighbours(flat: FlatGraph) -> tuple[Rows, Rows]:
    """Per node (operators, then inputs) the nodes it reads and the nodes that read it.

    A state's input and output are joined, so that a parameter knows its own update.
    """
    graph, columns, num_ops = flat.graph, flat.columns, len(flat.ops)
    inputs = np.array(graph.inputs, dtype=np.int64)
    writer = np.full(len(graph.tensors), -1, dtype=np.int64)
    writer[inputs] = num_ops + np.arange(len(inputs))
    writer[columns.writes.values] = columns.writes.owners
    reader, source = columns.reads.owners, writer[columns.reads.values]
    reader, source = reader[source >= 0], source[source >= 0]
    pairs = writer[np.array(graph.state_pairs, dtype=np.int64).reshape(-1, 2)]
    total = num_ops + len(inputs)
    producers = Rows.grouped(
        np.concatenate([reader, pairs[:, 0]]), np.concatenate([source, pairs[:, 1]]), total
    )
    return producers, Rows.grouped(source, reader, total)


def _sequences(rows: Rows, colours: Colours) -> Colours:
    """A digest of each row's colours in their order."""
    places = _mixed(rows.slots.astype(np.uint64))
    return _row_sums(rows, _mixed(colours[rows.values] + places))


def _row_sums(rows: Rows, digests: Colours) -> Colours:
    """The sum of each row's digests, whatever their order, modulo 2^64."""
    sums = np.zeros(len(digests) + 1, dtype=np.uint64)
    np.cumsum(digests, out=sums[1:])
    return sums[rows.starts[1:]] - sums[rows.starts[:-1]]


def _mixed(numbers: Colours) -> Colours:
    """A digest of each number, far from those of its neighbours.

    Source:
        The output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
        number generators", OOPSLA 2014).
    """
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
