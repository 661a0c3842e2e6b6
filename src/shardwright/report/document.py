"""A plan, its search and its estimate as one JSON-able document of the facts that text prints."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from shardwright.cluster import Topology
from shardwright.cost.estimate import Estimate
from shardwright.ir import Graph, Role
from shardwright.plan import Plan
from shardwright.search.result import SearchResult

DOCUMENT_VERSION = 1

_LAYER = re.compile(r"(?<=[._\[])\d+(?=[._\]])|(?<=[._\[])\d+$")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingRow:
    """Inputs of one role, type and cut whose names differ in layer numbers only.

    Attributes:
        role: what they are for.
        name: with ``*`` where the numbers stand.
        dtype: of each.
        shape: of each.
        sharding: of each, as text.
        count: how many there are.
    """

    role: Role
    name: str
    dtype: str
    shape: tuple[int, ...]
    sharding: str
    count: int


def sharding_rows(graph: Graph, plan: Plan) -> tuple[ShardingRow, ...]:
    """How every input of the step lies, repeated layers folded into one row."""
    counts: dict[tuple[Role, str, str, tuple[int, ...], str], int] = {}
    for tensor_id in graph.inputs:
        tensor = graph.tensor(tensor_id)
        sharding = str(plan.stages[0].sharding_of[tensor_id])
        name = _LAYER.sub("*", tensor.label)
        key = (tensor.role, name, tensor.dtype, tensor.shape, sharding)
        counts[key] = counts.get(key, 0) + 1
    return tuple(
        ShardingRow(role=key[0], name=key[1], dtype=key[2], shape=key[3], sharding=key[4], count=n)
        for key, n in counts.items()
    )


def document(
    graph: Graph, topology: Topology, result: SearchResult, estimate: Estimate | None
) -> dict[str, Any]:
    """Everything that the report knows; infinite numbers become None.

    Args:
        graph: the captured step.
        topology: the machines.
        result: the search's answer.
        estimate: predicted figures of the plan; None without one.
    """
    found: dict[str, Any] = {
        "document_version": DOCUMENT_VERSION,
        "step": graph.name,
        "cluster": topology.name,
        "num_devices": topology.num_devices,
        "outcome": result.outcome.value,
        "objective_s": _finite(result.objective_s),
        "lower_bound_s": _finite(result.lower_bound_s),
        "gap": _finite(result.gap),
        "detail": result.detail,
        "candidates": [_candidate(vars_of(c)) for c in result.candidates],
        "shortage": None if result.shortage is None else vars_of(result.shortage),
    }
    if result.plan is not None and estimate is not None:
        found.update(_planned(graph, result.plan, estimate))
    return found


def vars_of(record: Any) -> dict[str, Any]:
    """The fields of a frozen record by name."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def _planned(graph: Graph, plan: Plan, estimate: Estimate) -> dict[str, Any]:
    return {
        "method": plan.provenance.method,
        "mesh": plan.mesh.sizes,
        "step_time_s": estimate.step_time_s,
        "compute_time_s": estimate.compute_time_s,
        "collective_time_s": estimate.collective_time_s,
        "peak_bytes": estimate.memory.peak_bytes,
        "budget_bytes": estimate.memory.budget_bytes,
        "state_bytes": estimate.memory.state_bytes,
        "peak_moment": estimate.memory.moment,
        "largest": [list(pair) for pair in estimate.memory.largest],
        "shardings": {
            graph.tensor(i).label: str(plan.stages[0].sharding_of[i]) for i in graph.inputs
        },
        "collectives": [
            {**vars_of(part.planned), "time_s": part.time_s} for part in estimate.collectives
        ],
        "notes": list(plan.provenance.notes),
        "fallbacks": [vars_of(fallback) for fallback in plan.fallbacks],
    }


def _candidate(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _finite(value) if isinstance(value, float) else value
        for name, value in fields.items()
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
