"""When nothing fits: the smallest changes that would, each of them tried before it is told.

A change is one thing that the user may give way on: a constraint, the recipe, the mesh, memory, or
the number of devices. Nothing is guessed from what is short; a change is named only when a plan was
found under it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

from shardwright.cluster import LinkLevel, Topology
from shardwright.cluster.candidates import candidate_meshes
from shardwright.search.find import AUTO, Planner, Question
from shardwright.search.intra import Effort, MeshChoice
from shardwright.search.masks import Refusal
from shardwright.search.result import Outcome, SearchResult
from shardwright.units import format_bytes

_MEMORY_FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0)
_MEMORY_PRECISION = 0.02
_DEVICE_FACTORS = (2, 4, 8)
_MESH_TIME_S = 5.0
# Any plan will do here, however far from the best.
_ANY_GAP = 1.0


def smallest_changes(
    planner: Planner,
    topology: Topology,
    question: Question,
    result: SearchResult,
    time_limit_s: float = 24.0,
) -> tuple[str, ...]:
    """What to change so that a plan fits, as phrases such as ``16 devices instead of 8``.

    Args:
        planner: of the graph that has no plan.
        topology: the machines.
        question: what was asked.
        result: the answer without a plan; only one that did not fit has a remedy here.
        time_limit_s: wall seconds after which no further change is tried.
    """
    if result.outcome is not Outcome.DOES_NOT_FIT:
        return ()
    effort = Effort(gap=_ANY_GAP, time_limit_s=min(_MESH_TIME_S, time_limit_s / 3))
    needed_bytes = 0 if result.shortage is None else result.shortage.needed_bytes
    phrases: list[str] = []
    for kind in (_Trial.given_way, lambda t: t.more_memory(needed_bytes), _Trial.more_devices):
        trial = _Trial(
            planner=planner,
            topology=topology,
            question=replace(question, effort=effort),
            deadline=time.monotonic() + time_limit_s / 3,
        )
        phrases += kind(trial)
    return tuple(phrases)


@final
@dataclass(frozen=True, kw_only=True)
class _Trial:
    planner: Planner
    topology: Topology
    question: Question
    deadline: float

    def given_way(self) -> Iterator[str]:
        """Dropping one thing that was asked for beyond a plan that fits."""
        asked = self.question
        if asked.constraints and self.fits(replace(asked, constraints=())):
            yield "no constraints"
        if asked.method != AUTO and self.fits(replace(asked, method=AUTO)):
            yield f'method "{AUTO}" instead of "{asked.method}"'
        if asked.meshes and not asked.constraints:
            found = self.fits(replace(asked, meshes=()))
            if found:
                yield f"the mesh {found.mesh} instead of {asked.meshes[0]}"

    def more_memory(self, needed_bytes: int) -> Iterator[str]:
        """The smallest budget per device at which a plan was found, to within 2%."""
        for factor in _MEMORY_FACTORS if needed_bytes else ():
            found = self.fits_in(int(needed_bytes * factor))
            if found:
                yield self.memory_text(self.shrunk(found.peak_bytes))
                return

    def shrunk(self, enough_bytes: int) -> int:
        """The smallest budget between what was asked and what is known to be enough."""
        short_bytes = self.asked_bytes
        while enough_bytes - short_bytes > _MEMORY_PRECISION * enough_bytes:
            middle_bytes = (enough_bytes + short_bytes) // 2
            found = self.fits_in(middle_bytes)
            if time.monotonic() > self.deadline:
                break
            if found:
                enough_bytes = found.peak_bytes
            else:
                short_bytes = middle_bytes
        return enough_bytes

    def fits_in(self, budget_bytes: int) -> _Fit | None:
        return self.fits(replace(self.question, budget_bytes=budget_bytes))

    @property
    def asked_bytes(self) -> int:
        return self.question.budget_bytes or self.topology.budget_bytes

    def memory_text(self, peak_bytes: int) -> str:
        more_bytes = peak_bytes - self.asked_bytes
        text = f"{format_bytes(peak_bytes)} per device, {format_bytes(more_bytes)} more"
        if peak_bytes <= self.topology.budget_bytes:
            return text
        reserve_bytes = self.topology.reserve_bytes
        return f"{text} (devices of {format_bytes(peak_bytes + reserve_bytes)} and more)"

    def more_devices(self) -> Iterator[str]:
        """The fewest devices of this kind, by doubling, on which a plan was found."""
        if self.question.constraints:
            return
        for factor in _DEVICE_FACTORS:
            grown = _grown(self.topology, factor)
            found = self.fits(replace(self.question, meshes=()), grown)
            if found:
                count = self.topology.num_devices
                yield f"{grown.num_devices} devices instead of {count}, mesh {found.mesh}"
                return

    def fits(self, question: Question, topology: Topology | None = None) -> _Fit | None:
        """The first plan on any mesh of the question; None when there is none in time."""
        machines = topology or self.topology
        for mesh in question.meshes or candidate_meshes(machines):
            if time.monotonic() > self.deadline:
                return None
            answer = self.planner.search_mesh(machines, mesh, question)
            if not isinstance(answer, Refusal) and answer[0].choice is not None:
                choice: MeshChoice = answer[0]
                return _Fit(mesh=str(mesh), peak_bytes=choice.peak_bytes)
        return None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    mesh: str
    peak_bytes: int


def _grown(topology: Topology, factor: int) -> Topology:
    """More units of the outermost level; only what fits is asked of it, never how fast it is."""
    if not topology.levels:
        link = LinkLevel(name="any", num_units=factor, bandwidth_bytes_per_s=1e9, latency_s=1e-5)
        return replace(topology, levels=(link,))
    *inner, outer = topology.levels
    return replace(topology, levels=(*inner, replace(outer, num_units=outer.num_units * factor)))
