"""The search itself: every candidate mesh, the best choice on each, and the best of those."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from shardwright.cluster import Mesh, Topology
from shardwright.cluster.candidates import candidate_meshes
from shardwright.cluster.place import place
from shardwright.cost.storage import Storage, storage_of
from shardwright.ir import Graph
from shardwright.plan.record import Plan, Provenance
from shardwright.search.assemble import assemble
from shardwright.search.build import build_space
from shardwright.search.constraints import Constraint, constraint_masks
from shardwright.search.fold import FoldedGraph, fold
from shardwright.search.intra import Effort, MeshChoice, solve_mesh
from shardwright.search.labels import Labels, find_labels
from shardwright.search.lead import Lead, find_lead
from shardwright.search.masks import Mask, Refusal, everything
from shardwright.search.memory import MemoryView
from shardwright.search.recipes import canonical_recipe, recipe_masks
from shardwright.search.result import Candidate, Outcome, SearchResult
from shardwright.search.space import Space

AUTO = "auto"

_MOST_NOTES = 16

OnMesh = Callable[[Candidate], None]
"""Called after each mesh with what was found on it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the search.

    Attributes:
        method: ``auto`` or a recipe's name.
        meshes: meshes to try; empty for the candidates of the topology.
        constraints: shardings that the user fixes.
        budget_bytes: per device; 0 for the topology's own.
        effort: how hard to search.
    """

    method: str = AUTO
    meshes: tuple[Mesh, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    budget_bytes: int = 0
    effort: Effort = field(default_factory=Effort)

    def until(self, deadline: float) -> Question:
        """The same question with no more time for a mesh than the whole search has left."""
        left_s = max(deadline - time.monotonic(), 1.0)
        limit_s = min(self.effort.time_limit_s, left_s)
        return replace(self, effort=replace(self.effort, time_limit_s=limit_s))


def find_plan(
    graph: Graph, topology: Topology, question: Question, on_mesh: OnMesh | None = None
) -> SearchResult:
    """The best plan for a graph on some machines, or the reason why there is none.

    Raises:
        ConstraintError: a constraint names an unknown tensor or axis, or contradicts another.
        UsageError: the method is unknown.
    """
    return Planner.of(graph).find(topology, question, on_mesh)


@final
@dataclass(frozen=True, kw_only=True)
class Planner:
    """A graph prepared once for any number of searches."""

    folded: FoldedGraph
    lead: Lead
    labels: Labels
    storage: Storage

    @staticmethod
    def of(graph: Graph) -> Planner:
        """Fold a graph, and find who decides, what dims mean and what reaches memory."""
        folded = fold(graph)
        lead = find_lead(folded)
        return Planner(
            folded=folded,
            lead=lead,
            labels=find_labels(folded, lead),
            storage=storage_of(folded.flat),
        )

    def find(
        self, topology: Topology, question: Question, on_mesh: OnMesh | None = None
    ) -> SearchResult:
        """The best plan over the question's meshes."""
        if question.method != AUTO:
            canonical_recipe(question.method)
        meshes = question.meshes or candidate_meshes(topology)
        best: tuple[MeshChoice, Space, MemoryView] | None = None
        tried: list[tuple[Candidate, MeshChoice | None]] = []
        deadline = time.monotonic() + question.effort.total_time_s
        for mesh in meshes:
            began = time.monotonic()
            if best is not None and began > deadline:
                tried.append((_without_plan(mesh, Outcome.NOT_SEARCHED, "out of time", 0.0), None))
                continue
            beat_s = math.inf if best is None else best[0].objective_s
            answer = self.search_mesh(topology, mesh, question.until(deadline), beat_s)
            spent_s = time.monotonic() - began
            if isinstance(answer, Refusal):
                note = answer.reason
                tried.append((_without_plan(mesh, Outcome.REFUSED, note, spent_s), None))
            elif _is_cut_off(answer[0], beat_s, deadline):
                note = "out of time before its end"
                tried.append((_without_plan(mesh, Outcome.NOT_SEARCHED, note, spent_s), None))
            else:
                choice, space, memory = answer
                tried.append((_candidate(mesh, choice, spent_s), choice))
                if choice.choice is not None and (
                    best is None or choice.objective_s < best[0].objective_s
                ):
                    best = (choice, space, memory)
            if on_mesh is not None:
                on_mesh(tried[-1][0])
        return _conclude(question, best, tried)

    def search_mesh(
        self, topology: Topology, mesh: Mesh, question: Question, beat_s: float = math.inf
    ) -> tuple[MeshChoice, Space, MemoryView] | Refusal:
        """The best choice on one mesh, unless its bound shows that it cannot beat ``beat_s``."""
        space = build_space(self.folded, self.lead, self.storage, place(mesh, topology))
        masks = self.masks(space, question)
        if isinstance(masks, Refusal):
            return masks
        memory = MemoryView.of(space, self.storage)
        budget = question.budget_bytes or topology.budget_bytes
        choice = solve_mesh(space, memory, masks, budget, question.effort, beat_s=beat_s)
        return choice, space, memory

    def masks(self, space: Space, question: Question) -> list[Mask] | Refusal:
        """What the method and the user's constraints leave of a space."""
        masks: list[Mask] | Refusal = everything(space.sizes)
        if question.method != AUTO and space.placed.mesh.axes:
            masks = recipe_masks(question.method, space, self.labels)
        if isinstance(masks, Refusal):
            return masks
        return constraint_masks(space, masks, question.constraints)


def _is_cut_off(choice: MeshChoice, beat_s: float, deadline: float) -> bool:
    """Whether a mesh's search ended for want of time, with nothing that counts."""
    if choice.is_proven:
        return False
    if choice.choice is None:
        return choice.shortage is None
    return time.monotonic() > deadline and choice.objective_s >= beat_s


def _candidate(mesh: Mesh, choice: MeshChoice, spent_s: float) -> Candidate:
    if choice.choice is None:
        outcome = Outcome.BEATEN if choice.is_beaten else Outcome.DOES_NOT_FIT
    else:
        outcome = Outcome.OPTIMAL if choice.is_proven else Outcome.FEASIBLE
    return Candidate(
        mesh=str(mesh),
        objective_s=choice.objective_s,
        lower_bound_s=choice.lower_bound_s,
        peak_bytes=choice.peak_bytes,
        search_time_s=spent_s,
        outcome=outcome,
    )


def _without_plan(mesh: Mesh, outcome: Outcome, note: str, spent_s: float) -> Candidate:
    return Candidate(
        mesh=str(mesh),
        objective_s=math.inf,
        lower_bound_s=math.inf,
        peak_bytes=0,
        search_time_s=spent_s,
        outcome=outcome,
        note=note,
    )


def _conclude(
    question: Question,
    best: tuple[MeshChoice, Space, MemoryView] | None,
    tried: Sequence[tuple[Candidate, MeshChoice | None]],
) -> SearchResult:
    candidates = tuple(sorted((c for c, _ in tried), key=lambda c: c.objective_s))
    if best is None:
        return _no_plan(candidates, [choice for _, choice in tried if choice is not None])
    choice, space, memory = best
    # A mesh that was searched without proof may hide a better plan: its bound counts too.
    bound = min(
        choice.lower_bound_s,
        *(c.lower_bound_s for c in candidates),
    )
    assert choice.choice is not None
    gap = max(0.0, choice.objective_s - bound) / choice.objective_s if choice.objective_s else 0.0
    outcome = Outcome.OPTIMAL if gap <= question.effort.gap * 1.0001 else Outcome.FEASIBLE
    provenance = Provenance(
        method=question.method,
        options=(("mesh", str(space.placed.mesh)), ("gap", f"{question.effort.gap:g}")),
        objective_s=choice.objective_s,
        lower_bound_s=bound,
        gap=gap,
        termination=outcome.value,
        notes=(*_not_searched(candidates), *_left_out(space)),
    )
    plan: Plan = assemble(space, memory, choice.choice, provenance)
    return SearchResult(
        plan=plan,
        outcome=outcome,
        objective_s=choice.objective_s,
        lower_bound_s=bound,
        gap=gap,
        candidates=candidates,
    )


def _not_searched(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    left = [c.mesh for c in candidates if c.outcome is Outcome.NOT_SEARCHED]
    if not left:
        return ()
    return (f"{len(left)} meshes were not searched to the end for want of time: {'; '.join(left)}",)


def _left_out(space: Space) -> tuple[str, ...]:
    """What does not divide first, since a user can change it; scattering variants last."""
    ordered = sorted(space.pruned, key=lambda pruned: not pruned.reason.startswith("factor"))
    return tuple(f"{pruned.reason} ({pruned.count} choices)" for pruned in ordered[:_MOST_NOTES])


def _no_plan(candidates: tuple[Candidate, ...], choices: Sequence[MeshChoice]) -> SearchResult:
    shortages = [choice.shortage for choice in choices if choice.shortage is not None]
    shortage = min(shortages, key=lambda s: s.needed_bytes) if shortages else None
    cut_off = any(candidate.outcome is Outcome.NOT_SEARCHED for candidate in candidates)
    outcome = (
        Outcome.DOES_NOT_FIT if choices else Outcome.NOT_SEARCHED if cut_off else Outcome.REFUSED
    )
    notes = [candidate.note for candidate in candidates if candidate.note]
    return SearchResult(
        plan=None,
        outcome=outcome,
        objective_s=math.inf,
        lower_bound_s=math.inf,
        gap=math.inf,
        candidates=candidates,
        shortage=shortage,
        detail=notes[0] if notes else "",
    )
