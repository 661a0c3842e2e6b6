"""What the front door says of values that no search could take, to the letter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright
from shardwright.errors import ShardwrightError
from shardwright.options import Options

ROWS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a method that is no text": (
        {"method": None},
        'method is None; "auto" or a recipe by name is wanted',
    ),
    "a list for a mesh": (
        {"mesh": [2, 4]},
        "mesh is [2, 4]; axis sizes by name are wanted\n"
        '  try    mesh={"dp": 2, "tp": 4}, or "dp=2,tp=4"',
    ),
    "half a device": (
        {"mesh": {"dp": 2.5}},
        "mesh is {'dp': 2.5}; axis sizes by name are wanted\n"
        '  try    mesh={"dp": 2, "tp": 4}, or "dp=2,tp=4"',
    ),
    "a text that is no mesh": (
        {"mesh": "x8"},
        '"x8" in mesh "x8" is not a new axis and its size\n'
        "  try    name=size pairs with commas between, as in dp=2,tp=4",
    ),
    "a gap below zero": (
        {"gap": -1},
        "gap is -1; a share such as 0.001, at least 0, is wanted",
    ),
    "a gap in words": (
        {"gap": "small"},
        "gap is 'small'; a share such as 0.001, at least 0, is wanted",
    ),
    "no time": (
        {"time_limit_s": 0},
        "time_limit_s is 0; a number of seconds above 0 is wanted",
    ),
    "time that runs back": (
        {"total_time_s": -5.0},
        "total_time_s is -5.0; a number of seconds above 0 is wanted",
    ),
    "memory below zero": (
        {"memory_bytes": -5},
        "memory_bytes is -5; a whole number of bytes, 0 for the cluster's own, is wanted",
    ),
    "memory in words": (
        {"memory_bytes": "1GiB"},
        "memory_bytes is '1GiB'; a whole number of bytes, 0 for the cluster's own, is wanted",
    ),
    "a list of constraints": (
        {"mesh": "x=8", "constraints": ["w"]},
        "constraints is ['w']; a dict of dims by input name is wanted",
    ),
    "a number for an axis": (
        {"mesh": "x=8", "constraints": {"*w": (3, None)}},
        "constraint '*w' is (3, None); one entry per dim is wanted\n"
        '  try    an axis, a tuple of axes, or None for a whole dim, as in ("dp", None)',
    ),
    "a list of roles": (
        {"roles": ["w"]},
        "roles is ['w']; a dict of roles by input name is wanted",
    ),
    "a number for a cluster": (
        {"cluster": 8},
        "cluster is 8; a name, a file or a Topology is wanted\n"
        '  try    "8xH100", "4x p5.48xlarge", "v5e-16", "cpu:8" or "cluster.yaml"',
    ),
}


def step(w: jax.Array, x: jax.Array) -> jax.Array:
    return w - 0.1 * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)


@pytest.mark.parametrize("row", ROWS)
def test_plan_refuses(row: str) -> None:
    asked, text = ROWS[row]
    square = jax.ShapeDtypeStruct((8, 8), "float32")
    with pytest.raises(ShardwrightError) as caught:
        shardwright.plan(step, square, square, **{"cluster": "8xH100", **asked})
    assert str(caught.value) == text


@pytest.mark.parametrize("row", ROWS)
def test_parallelize_refuses_before_the_first_call(row: str) -> None:
    asked, text = ROWS[row]
    if "mesh" in asked:
        with pytest.raises(ShardwrightError) as caught:
            Options(**asked).question()
    else:
        with pytest.raises(ShardwrightError) as caught:
            shardwright.parallelize(step, **asked)
    assert str(caught.value) == text


def test_parallelize_refuses_what_is_no_function() -> None:
    with pytest.raises(ShardwrightError) as caught:
        shardwright.parallelize(3)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "the step is a int, not a function\n  try    the function itself first, then its arguments"
    )


@pytest.mark.parametrize(
    ("devices", "what"),
    [((), "devices is empty"), (("cpu",), "devices holds 'cpu', which is no device")],
)
def test_devices_must_be_devices(devices: tuple[Any, ...], what: str) -> None:
    square = jnp.ones((8, 8))
    with pytest.raises(ShardwrightError) as caught:
        shardwright.parallelize(step, devices=devices)(square, square)
    assert str(caught.value) == f"{what}\n  try    jax.devices(), or some of them"


def test_a_mesh_may_be_written_as_on_the_command_line() -> None:
    square = jax.ShapeDtypeStruct((8, 8), "float32")
    planned = shardwright.plan(step, square, square, cluster="8xH100", mesh="dp=2,tp=4")
    assert str(planned.plan.mesh) == "dp=2,tp=4"
