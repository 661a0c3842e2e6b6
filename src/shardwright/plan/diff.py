"""What two plans of one graph do differently, as lines to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shardwright.ir import Graph
from shardwright.plan.record import OpDecision, Plan, Stage
from shardwright.sharding import Sharding
from shardwright.units import format_bytes


def diff(a: Plan, b: Plan, graph: Graph | None = None) -> tuple[str, ...]:
    """Lines that say what changes from ``a`` to ``b``; none when they decide alike.

    Provenance is left out: two searches may well find the same plan.

    Args:
        a: the plan before.
        b: the plan after.
        graph: the graph of both; with it lines speak of the user's names and source lines.
    """
    lines = [*_header(a, b)]
    for index, (before, after) in enumerate(zip(a.stages, b.stages, strict=False)):
        prefix = f"stage {index}: " if max(len(a.stages), len(b.stages)) > 1 else ""
        lines.extend(prefix + line for line in _stage(before, after, graph))
    return tuple(lines)


def _header(a: Plan, b: Plan) -> Iterator[str]:
    for name, before, after in (
        ("graph", a.graph_fingerprint, b.graph_fingerprint),
        ("cluster", a.cluster_fingerprint, b.cluster_fingerprint),
        ("stages", len(a.stages), len(b.stages)),
        ("microbatches", a.num_microbatches, b.num_microbatches),
        ("schedule", a.schedule, b.schedule),
    ):
        if before != after:
            yield f"{name}: {before} -> {after}"


def _stage(a: Stage, b: Stage, graph: Graph | None) -> Iterator[str]:
    if a.mesh != b.mesh:
        yield f"mesh: {a.mesh} -> {b.mesh}"
    if a.device_ids != b.device_ids:
        yield f"devices: {_ids(a.device_ids)} -> {_ids(b.device_ids)}"
    for tensor_id in sorted(a.sharding_of.keys() | b.sharding_of.keys()):
        before, after = a.sharding_of.get(tensor_id), b.sharding_of.get(tensor_id)
        if before != after:
            yield f"{_tensor_label(tensor_id, graph)}: {_show(before)} -> {_show(after)}"
    yield from _ops(a, b, graph)
    yield from _collectives(a, b)


def _ops(a: Stage, b: Stage, graph: Graph | None) -> Iterator[str]:
    first = {decision.op_id: decision for decision in a.ops}
    second = {decision.op_id: decision for decision in b.ops}
    for op_id in sorted(first.keys() | second.keys()):
        before, after = first.get(op_id), second.get(op_id)
        if before == after:
            continue
        label = _op_label(op_id, graph)
        if before is None or after is None:
            yield f"{label}: {'undecided' if before is None else 'decided'} -> " + (
                "undecided" if after is None else "decided"
            )
            continue
        yield from (f"{label}, {line}" for line in _op(before, after))


def _op(before: OpDecision, after: OpDecision) -> Iterator[str]:
    for side, first, second in (
        ("operand", before.operands, after.operands),
        ("result", before.results, after.results),
        ("unscattered result", before.partials, after.partials),
    ):
        for position in range(max(len(first), len(second))):
            old = first[position] if position < len(first) else None
            new = second[position] if position < len(second) else None
            if old != new:
                yield f"{side} {position}: {_show(old)} -> {_show(new)}"


def _collectives(a: Stage, b: Stage) -> Iterator[str]:
    first, second = _totals(a), _totals(b)
    for key in sorted(first.keys() | second.keys()):
        if first[key] != second[key]:
            kind, axes = key
            yield (
                f"{kind} over {'+'.join(axes)}: {format_bytes(first[key])} ->"
                f" {format_bytes(second[key])} per device and step"
            )


def _totals(stage: Stage) -> Counter[tuple[str, tuple[str, ...]]]:
    totals: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for collective in stage.collectives:
        totals[collective.kind, collective.axes] += collective.size_bytes * collective.runs
    return totals


def _ids(ids: tuple[int, ...]) -> str:
    return f"{list(ids)}" if len(ids) <= 8 else f"{len(ids)} devices from {ids[0]}"


def _show(sharding: Sharding | None) -> str:
    return "free" if sharding is None else str(sharding)


def _tensor_label(tensor_id: int, graph: Graph | None) -> str:
    if graph is None or tensor_id >= len(graph.tensors):
        return f"tensor %{tensor_id}"
    return graph.tensor(tensor_id).label


def _op_label(op_id: int, graph: Graph | None) -> str:
    if graph is None or op_id not in graph.ops_by_id:
        return f"operator {op_id}"
    op = graph.ops_by_id[op_id]
    return f"{op.kind} %{op_id}" + (f" at {op.source}" if op.source else "")
