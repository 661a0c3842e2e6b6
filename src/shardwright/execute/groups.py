"""Device groups of collectives: the three ways XLA writes them, and the mesh axes they span."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from functools import lru_cache

from shardwright.cluster import Mesh
from shardwright.errors import ExecuteError

Groups = tuple[tuple[int, ...], ...]
"""Groups of positions in the mesh, row-major."""

_LISTED = re.compile(r"replica_groups=\{((?:\{[\d,\s]*\},?\s*)*)\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(
    r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((\[[^)]*\)|[^)]*)\))?\s*\{([^}]*)\}"
)
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?\s*)*)\}")
_BRACED = re.compile(r"\{([\d,\s]*)\}")
_SUB_AXIS = re.compile(r"^'?([^':]+)'?(?::\((\d+)\)(\d+))?$")


def parse_groups(attributes: str, num_devices: int) -> Groups:
    """The groups that a collective's attributes name; all devices in one where they name none.

    Raises:
        ExecuteError: the groups are written in a form that is not known.
    """
    if match := _IOTA.search(attributes):
        return _iota_groups(*match.groups())
    if match := _MESH.search(attributes):
        return _mesh_groups(match.group(1), match.group(2), match.group(3))
    if match := _LISTED.search(attributes):
        rows = tuple(_ints(row) for row in _BRACED.findall(match.group(1)))
        return rows or (tuple(range(num_devices)),)
    if "replica_groups=" in attributes:
        start = attributes.index("replica_groups=")
        raise ExecuteError(
            "the compiled program writes device groups in a form that is not known:"
            f" {attributes[start : start + 80]}",
            hint="a release of jax that this release was tested with",
        )
    return (tuple(range(num_devices)),)


def parse_pairs(attributes: str) -> Groups:
    """The (source, target) pairs of a permute."""
    match = _PAIRS.search(attributes)
    return tuple(_ints(row) for row in _BRACED.findall(match.group(1))) if match else ()


def axes_of_groups(groups: Groups, mesh: Mesh) -> tuple[str, ...] | None:
    """The axes that these groups span, in mesh order; None when no set of whole axes gives them."""
    return _groups_table(mesh).get(frozenset(frozenset(group) for group in groups))


def axes_of_pairs(pairs: Groups, mesh: Mesh) -> tuple[str, ...]:
    """The axes along which some pair of a permute differs."""
    moved = set[str]()
    for source, target in pairs:
        for axis, a, b in zip(
            mesh.names, _coordinates(source, mesh), _coordinates(target, mesh), strict=True
        ):
            if a != b:
                moved.add(axis)
    return tuple(name for name in mesh.names if name in moved)


@lru_cache(maxsize=64)
def _groups_table(mesh: Mesh) -> dict[frozenset[frozenset[int]], tuple[str, ...]]:
    names = [axis.name for axis in mesh.axes if axis.size > 1]
    table = {}
    for count in range(len(names) + 1):
        for chosen in itertools.combinations(names, count):
            table[frozenset(_span(chosen, mesh))] = chosen
    return table


def _span(axes: tuple[str, ...], mesh: Mesh) -> Iterator[frozenset[int]]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for position in range(mesh.num_devices):
        place = _coordinates(position, mesh)
        fixed = tuple(
            index for name, index in zip(mesh.names, place, strict=True) if name not in axes
        )
        groups.setdefault(fixed, []).append(position)
    return (frozenset(group) for group in groups.values())


def _coordinates(position: int, mesh: Mesh) -> tuple[int, ...]:
    place = []
    for axis in reversed(mesh.axes):
        position, index = divmod(position, axis.size)
        place.append(index)
    return tuple(reversed(place))


def _iota_groups(dims: str, reshape: str, transpose: str | None) -> Groups:
    num_groups, *rest = _ints(dims)
    order = _iota_order(_ints(reshape), _ints(transpose) if transpose else None)
    size = math.prod(rest)
    return tuple(tuple(order[i * size : (i + 1) * size]) for i in range(num_groups))


def _iota_order(reshape: tuple[int, ...], transpose: tuple[int, ...] | None) -> list[int]:
    """0, 1, 2, ... shaped as ``reshape``, its dims permuted, and flattened again."""
    permutation = transpose or tuple(range(len(reshape)))
    strides = [math.prod(reshape[dim + 1 :]) for dim in range(len(reshape))]
    places = itertools.product(*(range(reshape[dim]) for dim in permutation))
    return [
        sum(index * strides[dim] for index, dim in zip(place, permutation, strict=True))
        for place in places
    ]


def _mesh_groups(axes_text: str, device_text: str | None, chosen_text: str) -> Groups:
    """Groups from ``mesh['a'=2,'b'=4], device_ids=(...) {'b':(2)2}``, sub-axes included."""
    sizes = {
        name.strip().strip("'"): int(size)
        for name, _, size in (part.partition("=") for part in axes_text.split(","))
    }
    # Every axis becomes sub-axes, so that a chosen (pre-size, size) is a whole axis of its own.
    named = [_sub_axis(part, sizes) for part in chosen_text.split(",") if part.strip()]
    chosen = [piece for piece in named if piece[2] > 1]
    pieces = [piece for name, size in sizes.items() for piece in _pieces(name, size, chosen)]
    devices = _device_order(device_text, math.prod(sizes.values()))
    groups: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    places = itertools.product(*(range(size) for _, _, size in pieces))
    for device, place in zip(devices, places, strict=True):
        inside = dict(zip(pieces, place, strict=True))
        key = tuple(index for piece, index in inside.items() if piece not in chosen)
        rank = tuple(inside[piece] for piece in chosen)
        groups.setdefault(key, []).append((rank, device))
    return tuple(tuple(device for _, device in sorted(group)) for group in groups.values())


def _sub_axis(text: str, sizes: dict[str, int]) -> tuple[str, int, int]:
    match = _SUB_AXIS.match(text.strip())
    if match is None or match.group(1) not in sizes:
        raise ExecuteError(f"the compiled program groups devices by {text!r}, which is no axis")
    name, pre_size, size = match.groups()
    return (name, 1, sizes[name]) if size is None else (name, int(pre_size), int(size))


def _pieces(
    name: str, size: int, chosen: list[tuple[str, int, int]]
) -> Iterator[tuple[str, int, int]]:
    """The axis cut at every border of a chosen sub-axis, major first."""
    borders = {1, size}
    for other, pre_size, sub_size in chosen:
        if other == name:
            borders |= {pre_size, pre_size * sub_size}
    for low, high in itertools.pairwise(sorted(borders)):
        yield name, low, high // low


def _device_order(text: str | None, count: int) -> list[int]:
    if text is None:
        return list(range(count))
    if match := re.match(r"\[([\d,]+)\](?:T\(([\d,]+)\)?)?", text):
        return _iota_order(_ints(match.group(1)), _ints(match.group(2)) if match.group(2) else None)
    return list(_ints(text))


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())
