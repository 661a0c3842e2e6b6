"""A covering sample of ``bench.equality``: every model, recipe and kind of mesh at least once."""

from __future__ import annotations

from functools import cache

import pytest

from bench.equality import MESHES, MODELS, Subject, mesh_of
from shardwright.cluster.parse import topology
from shardwright.search.recipes import recipe_names

QUICK = (
    ("mlp", "zero-3", "x=8"),
    ("mlp", "megatron", "x=2,y=4"),
    ("mlp", "hsdp", "x=2,y=2,z=2"),
)
SLOW = (
    ("gpt", "auto", "x=2,y=4"),
    ("gpt-scan", "megatron-sp", "x=2,y=4"),
    ("gpt-remat", "zero-2", "x=4"),
    ("gpt-scan-remat", "zero-3", "x=8"),
    ("gpt-dropout", "data-parallel", "x=2"),
    ("llama", "megatron", "x=8"),
    ("resnet", "zero-1", "x=2,y=4"),
    ("lstm", "auto", "x=4"),
    ("moe-gshard", "expert-parallel", "x=2,y=4"),
    ("moe-ragged", "expert-parallel", "x=4"),
    ("linen-gpt", "zero-3", "x=2,y=4"),
    ("linen-resnet", "data-parallel", "x=8"),
    ("linen-lstm", "megatron", "x=2"),
    ("nnx-transformer", "hsdp", "x=2,y=4"),
    ("equinox-transformer", "auto", "x=2,y=4"),
)


@cache
def subject(model: str) -> Subject:
    return Subject.of(model)


@pytest.mark.parametrize(
    ("model", "method", "mesh"),
    [*QUICK, *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW)],
)
def test_parallel_equals_one_device(model: str, method: str, mesh: str) -> None:
    machines = topology(f"cpu:{mesh_of(mesh).num_devices}")
    row = subject(model).row(method, mesh, machines, steps=3)
    assert row.verdict == "equal", row


def test_the_sample_covers_every_model_recipe_and_mesh() -> None:
    rows = (*QUICK, *SLOW)
    assert {model for model, _, _ in rows} == set(MODELS)
    assert {method for _, method, _ in rows} == {"auto", *recipe_names()}
    assert {mesh for _, _, mesh in rows} == set(MESHES)
