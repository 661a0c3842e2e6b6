"""Small models, captured once, for every test of the search."""

from __future__ import annotations

from functools import cache
from typing import Any

from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.cluster.place import place
from shardwright.ir import Graph
from shardwright.models.registry import build
from shardwright.search.build import build_space
from shardwright.search.find import Planner
from shardwright.search.space import Space

SMALL = {"d_model": 32, "layers": 2}

SUBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("mlp", {"optimizer": "adam"}),
    "gpt": ("gpt", {**SMALL, "optimizer": "adam"}),
    "gpt-scan-remat": ("gpt", {**SMALL, "scan": True, "remat": True}),
    "llama-scan": ("llama", {**SMALL, "scan": True, "optimizer": "adam"}),
    "resnet": ("resnet", {}),
    "lstm": ("lstm", {"optimizer": "adafactor"}),
    "moe-gshard": ("moe-gshard", {**SMALL, "scan": True}),
    "moe-ragged": ("moe-ragged", {**SMALL, "scan": True}),
}

MESHES = (Mesh.of(x=8), Mesh.of(x=2, y=4))


@cache
def graph_of(name: str, layers: int = 0) -> Graph:
    family, sizes = SUBJECTS[name]
    case = build(family, **{**sizes, **({"layers": layers} if layers else {})})
    return capture(case.step, case.abstract_state(), case.abstract_batch()).graph


@cache
def planner_of(name: str, layers: int = 0) -> Planner:
    return Planner.of(graph_of(name, layers))


@cache
def space_of(name: str, mesh: Mesh, cluster: str = "8xH100") -> Space:
    planner = planner_of(name)
    placed = place(mesh, topology(cluster))
    return build_space(planner.folded, planner.lead, planner.storage, placed)
