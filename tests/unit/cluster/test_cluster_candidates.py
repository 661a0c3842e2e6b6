from __future__ import annotations

import math

import pytest

from shardwright.cluster import Mesh
from shardwright.cluster.candidates import MAX_CANDIDATES, candidate_meshes
from shardwright.cluster.parse import topology
from shardwright.cluster.place import place


def _shapes(meshes):
    return [tuple(axis.size for axis in mesh.axes) for mesh in meshes]


# topology, max_axes, devices, shapes in order
ROWS = [
    ("H100", 3, None, [()]),
    ("2xH100", 3, None, [(2,)]),
    ("8xH100", 3, None, [(8,), (4, 2), (2, 4), (2, 2, 2)]),
    ("8xH100", 2, None, [(8,), (4, 2), (2, 4)]),
    ("8xH100", 1, None, [(8,)]),
    ("8xH100", 3, 4, [(4,), (2, 2)]),
    ("8xH100", 3, 1, [()]),
    ("6x1xH100", 2, None, [(6,), (3, 2), (2, 3)]),
    ("2x3xH100", 2, None, [(6,), (2, 3)]),
    (
        "64xH100",
        3,
        None,
        [
            *[(64,), (8, 8), (16, 4), (32, 2), (4, 16), (2, 32)],
            *[(8, 4, 2), (8, 2, 4), (4, 2, 8), (2, 4, 8), (16, 2, 2), (4, 4, 4)],
        ],
    ),
    ("12xcpu", 2, None, [(12,), (4, 3), (3, 4), (6, 2), (2, 6)]),
    ("64xH100", 2, 12, [(12,), (3, 4), (6, 2)]),
]


@pytest.mark.parametrize(
    ("text", "max_axes", "num_devices", "shapes"),
    ROWS,
    ids=[f"{row[0]} {row[1]} {row[2]}" for row in ROWS],
)
def test_shapes_in_order(text, max_axes, num_devices, shapes):
    assert _shapes(candidate_meshes(topology(text), max_axes, num_devices)) == shapes


@pytest.mark.parametrize(
    "text", ["64xH100", "1024xH100", "v5p-128", "12x p5.48xlarge", "144xGB200", "2x v5e-256"]
)
def test_every_list_is_short_distinct_and_uses_every_device(text):
    machines = topology(text)
    shapes = _shapes(candidate_meshes(machines))
    assert 4 <= len(shapes) <= MAX_CANDIDATES
    assert len(set(shapes)) == len(shapes)
    assert shapes[0] == (machines.num_devices,)
    for shape in shapes:
        assert math.prod(shape) == machines.num_devices
        assert min(shape) >= 2
        assert len(shape) <= 3


@pytest.mark.parametrize("text", ["64xH100", "1024xH100", "12x p5.48xlarge", "144xGB200"])
def test_the_split_at_the_host_border_comes_right_after_the_flat_mesh(text):
    machines = topology(text)
    inner = machines.levels[0].num_units
    assert _shapes(candidate_meshes(machines))[1] == (machines.num_devices // inner, inner)


@pytest.mark.parametrize("text", ["64xH100", "1024xH100", "v5p-128", "144xGB200", "2x v5e-256"])
def test_no_axis_straddles_a_level_border(text):
    machines = topology(text)
    borders = [
        math.prod(level.num_units for level in machines.levels[:depth])
        for depth in range(1, len(machines.levels))
    ]
    for shape in _shapes(candidate_meshes(machines)):
        for cut in range(1, len(shape)):
            inner = math.prod(shape[cut:])
            assert all(inner % border == 0 or border % inner == 0 for border in borders)


def test_axes_are_named_by_position_and_every_candidate_can_be_placed():
    machines = topology("64xH100")
    for mesh in candidate_meshes(machines):
        assert mesh.names == ("x", "y", "z")[: len(mesh.axes)]
        assert len(place(mesh, machines).links) == len(mesh.axes)


def test_one_device_gives_the_mesh_without_axes():
    assert candidate_meshes(topology("H100")) == (Mesh(axes=()),)
