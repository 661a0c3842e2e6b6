"""A mesh of numpy blocks: what each device holds of a tensor, and collectives run on them."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from shardwright.cluster import Mesh
from shardwright.sharding import Collective, CollectiveKind, Sharding

Place = tuple[int, ...]
"""A device, by its position along each axis of the mesh."""

Block = NDArray[np.float64]
Blocks = dict[Place, Block]


def places(mesh: Mesh) -> list[Place]:
    return list(itertools.product(*(range(axis.size) for axis in mesh.axes)))


def index_along(mesh: Mesh, place: Place, axes: tuple[str, ...]) -> int:
    """Which of the pieces a device holds when ``axes``, major first, cut something."""
    index = 0
    for axis in axes:
        index = index * mesh.size(axis) + place[mesh.names.index(axis)]
    return index


def piece(array: Block, dim: int, index: int, count: int) -> Block:
    return np.split(array, count, axis=dim)[index]


def cut(whole: Block, dims: tuple[tuple[str, ...], ...], mesh: Mesh) -> Blocks:
    blocks = {}
    for place in places(mesh):
        block = whole
        for dim, axes in enumerate(dims):
            block = piece(block, dim, index_along(mesh, place, axes), mesh.size_of(axes))
        blocks[place] = block
    return blocks


def scattered_sums(whole: Block, sharding: Sharding, mesh: Mesh, seed: int = 0) -> Blocks:
    """Blocks of ``sharding`` whose partial sums over its unreduced axes add up to ``whole``."""
    random = np.random.default_rng(seed)
    count = mesh.size_of(sharding.unreduced)
    terms = [random.integers(-9, 9, whole.shape).astype(float) for _ in range(count - 1)]
    terms.append(whole - sum(terms) if terms else whole)
    by_term = [cut(term, sharding.dims, mesh) for term in terms]
    return {
        place: by_term[index_along(mesh, place, sharding.unreduced)][place]
        for place in places(mesh)
    }


def run(
    step: Collective,
    before: Sharding,
    after: Sharding,
    blocks: Blocks,
    mesh: Mesh,
    reduce: np.ufunc = np.add,
) -> Blocks:
    """The blocks after one collective; only a permute looks at ``after``, to know where to."""
    count = mesh.size_of(step.axes)
    own = {place: index_along(mesh, place, step.axes) for place in blocks}
    group = {place: _group(place, step.axes, mesh) for place in blocks}

    def gathered(place: Place, dim: int) -> Block:
        return np.concatenate([blocks[other] for other in group[place]], axis=dim)

    def joined(place: Place) -> Block:
        return reduce.reduce([blocks[other] for other in group[place]])

    match step.kind:
        case CollectiveKind.SLICE:
            return {p: piece(b, step.dim, own[p], count) for p, b in blocks.items()}
        case CollectiveKind.ALL_GATHER:
            return {p: gathered(p, step.dim) for p in blocks}
        case CollectiveKind.ALL_REDUCE:
            return {p: joined(p) for p in blocks}
        case CollectiveKind.REDUCE_SCATTER:
            return {p: piece(joined(p), step.dim, own[p], count) for p in blocks}
        case CollectiveKind.ALL_TO_ALL:
            origin = _origin(step, before)
            return {p: piece(gathered(p, origin), step.dim, own[p], count) for p in blocks}
        case CollectiveKind.PERMUTE:
            return _permuted(before, after, blocks, group, mesh)


def run_path(
    steps: tuple[Collective, ...],
    layouts: tuple[Sharding, ...],
    source: Sharding,
    blocks: Blocks,
    mesh: Mesh,
) -> Blocks:
    """The blocks after a whole path, with the bytes that each step claims checked on the way."""
    before = source
    for step, after in zip(steps, layouts, strict=True):
        for block in blocks.values():
            assert block.nbytes == step.input_bytes, (step, before)
        blocks = run(step, before, after, blocks, mesh)
        for block in blocks.values():
            assert block.nbytes == step.output_bytes, (step, after)
        before = after
    return blocks


def assert_equal_blocks(found: Blocks, wanted: Blocks) -> None:
    for place, block in wanted.items():
        np.testing.assert_allclose(found[place], block, rtol=0, atol=1e-9, err_msg=str(place))


def gather_then_slice_bytes(
    whole_bytes: int, source: Sharding, target: Sharding, mesh: Mesh
) -> float:
    """Bytes moved by the path that always works: finish the sums, gather all, slice for free."""
    moved, held = 0.0, whole_bytes / mesh.size_of(source.axes)
    ways = mesh.size_of(axis for axis in source.unreduced if axis not in target.unreduced)
    moved += 2 * (ways - 1) / ways * held
    for axes in source.dims:
        moved += held * (mesh.size_of(axes) - 1)
        held *= mesh.size_of(axes)
    return moved


def _group(place: Place, axes: tuple[str, ...], mesh: Mesh) -> list[Place]:
    """The devices that differ from ``place`` only along ``axes``, in the order of the pieces."""
    positions = [mesh.names.index(axis) for axis in axes]
    members = []
    for chosen in itertools.product(*(range(mesh.size(axis)) for axis in axes)):
        member = list(place)
        for position, index in zip(positions, chosen, strict=True):
            member[position] = index
        members.append(tuple(member))
    return members


def _origin(step: Collective, before: Sharding) -> int:
    ends = [dim for dim, axes in enumerate(before.dims) if axes[-len(step.axes) :] == step.axes]
    (origin,) = ends
    return origin


def _permuted(
    before: Sharding, after: Sharding, blocks: Blocks, group: dict[Place, list[Place]], mesh: Mesh
) -> Blocks:
    moved: Blocks = {}
    sent: set[Place] = set()
    for place in blocks:
        wanted = [index_along(mesh, place, axes) for axes in after.dims]
        sender = next(
            other
            for other in group[place]
            if other not in sent
            and [index_along(mesh, other, axes) for axes in before.dims] == wanted
        )
        sent.add(sender)
        moved[place] = blocks[sender]
    assert len(sent) == math.prod(axis.size for axis in mesh.axes)
    return moved
