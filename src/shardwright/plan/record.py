"""The plan: the complete decision for one training step, as pure data.

How it was found stands in its provenance; how long it takes stands beside it, in an ``Estimate``;
how it runs is the executor's business. A plan saved by one process is priced, drawn or run by
another, and its JSON form reads back to an equal plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

from shardwright.cluster import Mesh
from shardwright.sharding import Sharding

SCHEMA_VERSION = 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpDecision:
    """How one operator runs: the sharding of each operand at its use and of each result.

    ``None`` leaves that operand or result to follow its neighbours (scalars, keys, cheap sources).

    Attributes:
        op_id: the operator.
        operands: one entry for each.
        results: one entry for each.
        partials: how results whose sums are scattered would lie if they were not, else None; empty
            where there is none. A partitioner that is told the end alone may find a dearer way.
    """

    op_id: int
    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]
    partials: tuple[Sharding | None, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorDecision:
    """Where one tensor rests: an input, an output, or a value carried into or out of a region."""

    tensor_id: int
    sharding: Sharding


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCollective:
    """A collective that the plan expects.

    Attributes:
        kind: a ``CollectiveKind`` value.
        axes: mesh axes that its groups span.
        size_bytes: output bytes per device of one run (for a reduce-scatter, input bytes).
        runs: how often a step runs it (trip counts of loops around it).
        tensor_id: the tensor that moves.
        op_id: the operator that asks for it.
        stands_for: why it is there, such as ``operand 1 of dot_general``.
    """

    kind: str
    axes: tuple[str, ...]
    size_bytes: int
    runs: int
    tensor_id: int
    op_id: int
    stands_for: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A reshard of several steps, and how a tensor lies between them.

    A partitioner that is told the two ends only may gather everything on the way.

    Attributes:
        shape: of the tensors that take it.
        dtype: their element type.
        source: how they lie.
        target: how they shall lie.
        via: how they lie after each step but the last.
    """

    shape: tuple[int, ...]
    dtype: str
    source: Sharding
    target: Sharding
    via: tuple[Sharding, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Something that the planner could not do as it would have liked; always shown."""

    op_id: int
    kind: str
    source: str
    reason: str


@final
@dataclass(frozen=True, kw_only=True)
class Stage:
    """One pipeline stage (a plan without a pipeline has one): devices, mesh and decisions."""

    device_ids: tuple[int, ...]
    mesh: Mesh
    ops: tuple[OpDecision, ...]
    tensors: tuple[TensorDecision, ...]
    collectives: tuple[PlannedCollective, ...] = ()
    routes: tuple[Route, ...] = ()

    @cached_property
    def sharding_of(self) -> dict[int, Sharding]:
        """Shardings of the decided tensors by id."""
        return {decision.tensor_id: decision.sharding for decision in self.tensors}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How a plan was found.

    Attributes:
        method: ``auto`` or a recipe's name.
        options: (name, text) pairs of what was asked.
        objective_s: the search's objective, seconds per step.
        lower_bound_s: no plan of the searched space is better than this.
        gap: (objective - bound) / objective.
        termination: why the search stopped.
        notes: what the user should know, such as dims left whole and why.
    """

    method: str
    options: tuple[tuple[str, str], ...] = ()
    objective_s: float = 0.0
    lower_bound_s: float = 0.0
    gap: float = 0.0
    termination: str = ""
    notes: tuple[str, ...] = ()


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """What runs where, for one graph on one cluster.

    Attributes:
        graph_fingerprint: digest of the graph that it was made for.
        cluster_fingerprint: digest of the machines that it was made for.
        cluster_name: what the user called them.
        stages: in pipeline order; one without a pipeline.
        num_microbatches: 1 without micro-batching.
        schedule: name of the pipeline schedule; ``none`` for one stage.
        fallbacks: operators kept whole and other concessions.
        provenance: how it was found.
        schema_version: of this record.
    """

    graph_fingerprint: str
    cluster_fingerprint: str
    cluster_name: str
    stages: tuple[Stage, ...]
    num_microbatches: int = 1
    schedule: str = "none"
    fallbacks: tuple[Fallback, ...] = ()
    provenance: Provenance
    schema_version: int = SCHEMA_VERSION

    @property
    def mesh(self) -> Mesh:
        """The mesh of the first stage."""
        return self.stages[0].mesh
