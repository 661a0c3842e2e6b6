"""Whether a cut of a tensor lives on in what is made of it, up to the operators that decide."""

from __future__ import annotations

from collections.abc import Iterator

from shardwright.search.space import Space
from shardwright.sharding import Sharding
from shardwright.sharding.follow import Followed, follow


def keeps_cut(space: Space, tensor_index: int, sharding: Sharding) -> bool:
    """Whether no reader, nor any that follows it, has to gather what ``sharding`` cuts."""
    waiting, seen = [(tensor_index, sharding)], set[tuple[int, Sharding]]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        for op_index, operand, followed in _readers(space, *place):
            if followed.dropped:
                return False
            if space.lead.ops[op_index].follows == operand:
                results = space.folded.ops[op_index].results
                waiting.extend(zip(results, followed.strategy.results, strict=True))
    return True


def _readers(
    space: Space, tensor_index: int, sharding: Sharding
) -> Iterator[tuple[int, int, Followed]]:
    folded, mesh = space.folded, space.placed.mesh
    for op_index, operand in folded.consumers[tensor_index]:
        op = folded.ops[op_index]
        shapes = (folded.operand_shapes(op), folded.shapes(op.results))
        yield op_index, operand, follow(op.rule, *shapes, mesh, operand, sharding)
