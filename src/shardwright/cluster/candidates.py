"""Mesh shapes worth trying on a topology.

Every ordered factorisation is possible; few are useful. An axis that covers the whole of some
level and a ragged part of the next mixes fast and slow links to no gain, so only shapes whose axes
end at or inside level borders, or fill whole multiples of a level, are listed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from shardwright.cluster.mesh import Axis, Mesh
from shardwright.cluster.topology import Topology
from shardwright.errors import TopologyError

AXIS_NAMES = ("x", "y", "z", "w", "v", "u")
MAX_CANDIDATES = 12
_MAX_UNSPLIT = 6


def candidate_meshes(
    topology: Topology, max_axes: int = 3, num_devices: int | None = None
) -> tuple[Mesh, ...]:
    """Mesh shapes over the first ``num_devices`` devices, the most promising first, at most 12.

    In order: one flat axis; two axes that split at a border between levels; other two-axis shapes,
    the inner axis within the fast links first (at most 6 shapes of one or two axes that split at
    no border); three and more axes that split at every border; the rest. Among equals the evenest
    comes first, then the one with the smaller inner axis.

    Args:
        topology: the machines.
        max_axes: most axes of a mesh, 1 to 6.
        num_devices: how many devices to use; all by default. One gives the mesh without axes.

    Raises:
        TopologyError: more devices than the topology has, fewer than one, or too many axes.
    """
    if not 1 <= max_axes <= len(AXIS_NAMES):
        raise TopologyError(f"meshes of {max_axes} axes asked for; 1 to {len(AXIS_NAMES)}")
    count = topology.num_devices if num_devices is None else num_devices
    if not 1 <= count <= topology.num_devices:
        raise TopologyError(
            f"{count} devices asked for; {topology.name} has {topology.num_devices}",
            hint=f"1 to {topology.num_devices} devices",
        )
    if count == 1:
        return (Mesh(axes=()),)
    borders = _borders(topology, count)
    shapes = sorted(
        (shape for shape in _shapes(count, max_axes) if _is_aligned(shape, borders)),
        key=lambda shape: _rank(shape, borders),
    )
    return tuple(_mesh(shape) for shape in _pruned(shapes, borders))


def _borders(topology: Topology, count: int) -> tuple[int, ...]:
    """Devices inside each level border that a mesh of that many devices crosses."""
    sizes = itertools.accumulate((level.num_units for level in topology.levels), lambda a, b: a * b)
    return tuple(size for size in sizes if 1 < size < count)


def _shapes(count: int, max_axes: int) -> Iterator[tuple[int, ...]]:
    """Ordered factorisations into 1 to ``max_axes`` factors of at least 2, each once."""
    yield (count,)
    if max_axes == 1:
        return
    for first in range(2, count // 2 + 1):
        if count % first == 0:
            for rest in _shapes(count // first, max_axes - 1):
                yield (first, *rest)


def _inner_sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Devices inside each axis border, from inside out, the whole left out."""
    return tuple(itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b))


def _is_aligned(shape: tuple[int, ...], borders: tuple[int, ...]) -> bool:
    return all(
        inner % border == 0 or border % inner == 0
        for inner in _inner_sizes(shape)
        for border in borders
    )


def _rank(shape: tuple[int, ...], borders: tuple[int, ...]) -> tuple[int, ...]:
    inner = _inner_sizes(shape)
    unsplit = len(set(borders) - set(inner))
    straddling = sum(size > border for size in inner for border in borders)
    spread = max(shape) // min(shape)
    return (len(shape) > 2, len(shape), unsplit, straddling, spread, *reversed(shape))


def _pruned(shapes: list[tuple[int, ...]], borders: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    few = [shape for shape in shapes if len(shape) <= 2]
    many = [shape for shape in shapes if len(shape) > 2]
    splitting = [s for s in few if set(borders) & set(_inner_sizes(s))]
    plain = [s for s in few if s not in splitting][:_MAX_UNSPLIT]
    kept = [shape for shape in few if shape in splitting or shape in plain]
    return itertools.islice(itertools.chain(kept, many), MAX_CANDIDATES)


def _mesh(shape: tuple[int, ...]) -> Mesh:
    return Mesh(
        axes=tuple(
            Axis(name=name, size=size) for name, size in zip(AXIS_NAMES, shape, strict=False)
        )
    )
