"""The plan as text: what was chosen and why, how long a step takes, what a device holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from shardwright.cluster import Topology
from shardwright.cost.estimate import CollectiveEstimate, Estimate
from shardwright.ir import Graph, Role
from shardwright.plan import Plan
from shardwright.report.document import sharding_rows
from shardwright.search.result import Candidate, Outcome, SearchResult
from shardwright.units import format_bytes, format_time

_ROLE_TITLES = {
    Role.PARAMETER: "parameters",
    Role.OPTIMIZER_STATE: "optimizer state",
    Role.BATCH: "batch",
    Role.INPUT: "other inputs",
    Role.CONSTANT: "constants",
}
_NOTICEABLE_GAP = 1e-3
_SHOWN_CAUSES = 3


def explain(
    graph: Graph, topology: Topology, result: SearchResult, estimate: Estimate | None
) -> str:
    """The whole explanation; without a plan, what is short and what was tried."""
    if result.plan is None or estimate is None:
        return explain_no_plan(result, topology)
    plan = result.plan
    sections = (
        _headline(graph, topology, result, plan),
        _time(result, estimate),
        _memory(estimate),
        _shardings(graph, plan),
        _collectives(graph, estimate),
        _candidates(result.candidates),
        _left_out(plan),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines)


def explain_no_plan(result: SearchResult, topology: Topology, remedy: str = "") -> str:
    """Why there is no plan: what is short at which moment, or why every mesh refused.

    Args:
        result: a search's answer without a plan.
        topology: the machines.
        remedy: the smallest change that would fit, where one was found.
    """
    lines = [f"no plan for {topology.name} ({topology.num_devices} devices): {result.outcome}"]
    shortage = result.shortage
    if shortage is not None:
        lines += [
            f"  short  {format_bytes(shortage.short_bytes)} per device: the leanest choice found "
            f"needs {format_bytes(shortage.needed_bytes)}, "
            f"{format_bytes(shortage.budget_bytes)} are allowed",
            f"  when   {shortage.moment}",
            *_table(
                [("held then", "")]
                + [(name, format_bytes(size)) for name, size in shortage.largest],
                indent="  ",
            ),
        ]
    if result.detail:
        lines.append(f"  why    {result.detail}")
    if remedy:
        lines.append(f"  try    {remedy}")
    return "\n".join([*lines, "", *_candidates(result.candidates)])


def _headline(graph: Graph, topology: Topology, result: SearchResult, plan: Plan) -> Iterator[str]:
    method = plan.provenance.method
    yield f"plan of {graph.name} for {topology.name}: mesh {plan.mesh}, method {method}"
    yield f"  {result.outcome}: {_proof(result)}"
    if all(sharding.is_replicated for sharding in plan.stages[0].sharding_of.values()):
        yield "  nothing is cut: by these prices, moving data would cost more than it saves"


def _proof(result: SearchResult) -> str:
    gap = f"no plan of the searched space is faster than {format_time(result.lower_bound_s)}"
    if result.gap <= _NOTICEABLE_GAP:
        return f"{gap}, proven within {result.gap:.2%}"
    return f"{gap}; this plan may be up to {result.gap:.1%} slower than the best"


def _time(result: SearchResult, estimate: Estimate) -> Iterator[str]:
    yield f"predicted step time {format_time(estimate.step_time_s)}"
    yield f"  compute      {format_time(estimate.compute_time_s)}"
    yield f"  collectives  {format_time(estimate.collective_time_s)} (not overlapped)"
    if not math.isclose(result.objective_s, estimate.step_time_s, rel_tol=1e-6):
        yield f"  the search's own figure is {format_time(result.objective_s)}"


def _memory(estimate: Estimate) -> Iterator[str]:
    memory = estimate.memory
    share = memory.peak_bytes / memory.budget_bytes if memory.budget_bytes else math.inf
    yield (
        f"memory per device: peak {format_bytes(memory.peak_bytes)} of "
        f"{format_bytes(memory.budget_bytes)} ({share:.0%}), "
        f"of it state {format_bytes(memory.state_bytes)}"
    )
    yield f"  peak at {memory.moment}"
    yield from _table([(name, format_bytes(size)) for name, size in memory.largest], indent="  ")


def _shardings(graph: Graph, plan: Plan) -> Iterator[str]:
    rows = sharding_rows(graph, plan)
    yield "how the inputs lie (a dash is a whole dim)"
    for role, title in _ROLE_TITLES.items():
        cells = [
            (
                row.name,
                f"{row.dtype}{list(row.shape)}",
                row.sharding,
                "" if row.count == 1 else f"x{row.count}",
            )
            for row in rows
            if row.role is role
        ]
        if cells:
            yield f"  {title}"
            yield from _table(cells, indent="    ")


def _collectives(graph: Graph, estimate: Estimate) -> Iterator[str]:
    if not estimate.collectives:
        yield "no collectives: nothing moves between devices"
        return
    yield "collectives of a step, per device"
    groups: dict[tuple[str, tuple[str, ...]], list[CollectiveEstimate]] = {}
    for part in estimate.collectives:
        groups.setdefault((part.planned.kind, part.planned.axes), []).append(part)
    for (kind, axes), parts in groups.items():
        size = sum(part.planned.size_bytes * part.planned.runs for part in parts)
        runs = sum(part.planned.runs for part in parts)
        time_s = sum(part.time_s for part in parts)
        yield (
            f"  {kind} over {'+'.join(axes)}: {format_bytes(size)} in {runs} runs, "
            f"{format_time(time_s)}"
        )
        yield from (f"    {line}" for line in _causes(graph, parts))


def _causes(graph: Graph, parts: Sequence[CollectiveEstimate]) -> Iterator[str]:
    for part in parts[:_SHOWN_CAUSES]:
        label = graph.tensor(part.planned.tensor_id).label
        yield f"{format_time(part.time_s)}  {label}, {part.planned.stands_for}"
    if len(parts) > _SHOWN_CAUSES:
        rest_s = sum(part.time_s for part in parts[_SHOWN_CAUSES:])
        yield f"{format_time(rest_s)}  {len(parts) - _SHOWN_CAUSES} more"


def _candidates(candidates: Sequence[Candidate]) -> Iterator[str]:
    if not candidates:
        return
    yield "meshes compared"
    yield from _table(
        [
            (
                candidate.mesh,
                candidate.outcome.value,
                _seconds(candidate.objective_s),
                format_bytes(candidate.peak_bytes) if candidate.peak_bytes else "",
                _reason(candidate),
            )
            for candidate in candidates
        ],
        indent="  ",
    )


def _reason(candidate: Candidate) -> str:
    if candidate.outcome is Outcome.BEATEN:
        return f"cannot be faster than {_seconds(candidate.lower_bound_s)}"
    return candidate.note


def _seconds(time_s: float) -> str:
    return format_time(time_s) if math.isfinite(time_s) else ""


def _left_out(plan: Plan) -> Iterator[str]:
    if plan.fallbacks:
        yield "kept whole or guessed"
        counted = Counter((f.kind, f.source, f.reason) for f in plan.fallbacks)
        for (kind, source, reason), count in counted.items():
            times = "" if count == 1 else f" (x{count})"
            yield f"  {kind} at {source or 'an unknown line'}: {reason}{times}"
    if plan.provenance.notes:
        yield "left out of the search"
        yield from (f"  {note}" for note in plan.provenance.notes)


def _table(rows: Iterable[tuple[str, ...]], *, indent: str) -> Iterator[str]:
    """Rows in columns as wide as their widest cell."""
    cells = list(rows)
    if not cells:
        return
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"{indent}{line}".rstrip()
