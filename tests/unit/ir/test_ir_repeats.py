"""Classes of repeated operators, against the plainest form of colour refinement."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pytest

from shardwright.ir import Graph, Op, Role, Tensor
from shardwright.ir.columns import Rows, renumbered
from shardwright.ir.flat import FlatGraph, flatten
from shardwright.ir.repeats import classes_of


def _stack(layers: int, *, shared_scale: bool) -> Graph:
    """Layers of ``x = tanh(x * w * scale)``, each updating its own ``w``."""
    tensors = [Tensor(id=0, shape=(8, 4), dtype="f32", role=Role.BATCH)]
    tensors.append(Tensor(id=1, shape=(), dtype="f32", role=Role.INPUT))
    inputs, value = [0, 1], 0
    ops: list[Op] = []
    pairs: list[tuple[int, int]] = []

    def add(kind: str, operands: tuple[int, ...], shape: tuple[int, ...]) -> int:
        tensors.append(Tensor(id=len(tensors), shape=shape, dtype="f32", role=Role.ACTIVATION))
        result = tensors[-1].id
        ops.append(Op(id=len(ops), kind=kind, operands=operands, results=(result,)))
        return result

    for layer in range(layers):
        weight = Tensor(id=len(tensors), shape=(4,), dtype="f32", role=Role.PARAMETER)
        tensors.append(weight)
        inputs.append(weight.id)
        scaled = add("mul", (weight.id, 1) if shared_scale or layer % 2 else (1, weight.id), (4,))
        value = add("tanh", (add("mul", (value, scaled), (8, 4)),), (8, 4))
        pairs.append((weight.id, add("sub", (weight.id, scaled), (4,))))
    return Graph(
        name="stack",
        tensors=tuple(tensors),
        inputs=tuple(inputs),
        outputs=(value, *(after for _, after in pairs)),
        ops=tuple(ops),
        state_pairs=tuple(pairs),
    )


def _plain(flat: FlatGraph, rounds: int) -> list[int]:
    """Colours as nested tuples, never shortened to digests."""
    graph, num_ops = flat.graph, len(flat.ops)
    kind = {t.id: (t.shape, t.dtype, t.value) for t in graph.tensors}
    writer = {i: num_ops + n for n, i in enumerate(graph.inputs)}
    writer |= {i: p for p, f in enumerate(flat.ops) for i in f.op.results}
    producers: list[list[int]] = [[] for _ in range(num_ops + len(graph.inputs))]
    users: list[list[int]] = [[] for _ in producers]
    for position, flat_op in enumerate(flat.ops):
        for tensor_id in flat_op.op.operands:
            producers[position].append(writer[tensor_id])
            users[writer[tensor_id]].append(position)
    for before, after in graph.state_pairs:
        producers[writer[before]].append(writer[after])
    colours = _numbers(
        [
            (f.op.kind, f.runs, f.op.attributes, tuple(kind[i] for i in f.op.operands))
            for f in flat.ops
        ]
        + [("input", kind[i], graph.tensor(i).role) for i in graph.inputs]
    )
    for _ in range(rounds):
        colours = _numbers(
            [
                (c, tuple(colours[i] for i in p), tuple(sorted(colours[i] for i in u)))
                for c, p, u in zip(colours, producers, users, strict=True)
            ]
        )
    return colours


def _numbers(keys: Sequence[Hashable]) -> list[int]:
    table: dict[Hashable, int] = {}
    return [table.setdefault(key, len(table)) for key in keys]


@pytest.mark.parametrize("shared_scale", [True, False])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_classes_are_those_of_plain_refinement(*, shared_scale: bool, rounds: int) -> None:
    flat = flatten(_stack(9, shared_scale=shared_scale))
    ops, inputs = classes_of(flat, rounds)
    assert [*ops, *inputs] == _plain(flat, rounds)
    assert len(set(ops)) < len(ops)


def test_order_of_operands_tells_operators_apart() -> None:
    alike, mirrored = (
        classes_of(flatten(_stack(9, shared_scale=shared)))[0] for shared in (True, False)
    )
    assert len(set(mirrored)) > len(set(alike))


def test_rows_keep_the_order_of_their_pairs() -> None:
    rows = Rows.grouped(np.array([2, 0, 2, 0]), np.array([5, 6, 7, 8]), 4)
    parts = np.split(rows.values, rows.starts[1:-1])
    assert [part.tolist() for part in parts] == [[6, 8], [], [5, 7], []]
    assert rows.slots.tolist() == [0, 1, 0, 1]
    assert rows.column(np.array([0, 2]), 1).tolist() == [8, 7]


def test_rows_of_sequences_of_any_length() -> None:
    rows = Rows.of([(3, 4), (), (5,)])
    assert rows.widths.tolist() == [2, 0, 1]
    assert rows.owners.tolist() == [0, 0, 2]


def test_numbers_start_again_in_order_of_first_appearance() -> None:
    assert renumbered(np.array([7, -2, 7, 9, -2])).tolist() == [0, 1, 0, 2, 1]
