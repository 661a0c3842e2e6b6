"""Plans read back from their JSON text, with a precise word for every kind of damage."""

from __future__ import annotations

import json
from collections.abc import Iterable

from shardwright.cluster import Axis, Mesh
from shardwright.errors import PlanError, ShardwrightError
from shardwright.plan.field import Field
from shardwright.plan.record import (
    SCHEMA_VERSION,
    Fallback,
    OpDecision,
    Plan,
    PlannedCollective,
    Provenance,
    Route,
    Stage,
    TensorDecision,
)
from shardwright.sharding import Sharding

FORMAT = "shardwright-plan"
"""The mark at the top of every plan file."""

_Choices = tuple[Sharding | None, ...]
_Pattern = tuple[_Choices, _Choices, _Choices]


def from_json(text: str, *, file: str = "") -> Plan:
    """The plan that ``text`` holds.

    Args:
        text: what ``to_json`` wrote.
        file: its file's name, for errors.

    Raises:
        PlanError: the text is not JSON, of another schema, or lacks or misstates something.
    """
    document = _parse(text, file)
    _check_version(document)
    names = (
        "format schema_version graph_fingerprint cluster_fingerprint cluster_name"
        " num_microbatches schedule provenance fallbacks stages"
    )
    _, version, graph, cluster, name, microbatches, schedule, provenance, fallbacks, stages = (
        document.members(*names.split())
    )
    plan = Plan(
        graph_fingerprint=graph.text(),
        cluster_fingerprint=cluster.text(),
        cluster_name=name.text(),
        stages=tuple(_stage(stage) for stage in stages.items()),
        num_microbatches=microbatches.whole(),
        schedule=schedule.text(),
        fallbacks=tuple(_fallback(item) for item in fallbacks.items()),
        provenance=_provenance(provenance),
        schema_version=version.whole(),
    )
    if not plan.stages:
        stages.damaged("is empty; a plan has at least one stage")
    return plan


def _parse(text: str, file: str) -> Field:
    try:
        return Field(value=json.loads(text), file=file)
    except json.JSONDecodeError as error:
        last = text.count("\n") + 1
        ends = "the file ends there" if error.pos >= len(text.rstrip()) else "more text follows"
        raise PlanError(
            f"the plan is damaged: {error.msg} at line {error.lineno} of {last},"
            f" column {error.colno} ({ends})",
            where=f"{file or 'plan text'}:{error.lineno}",
            hint="plan again, or restore the file from a copy",
        ) from error
    except RecursionError as error:
        raise PlanError(
            "the plan is damaged: its brackets nest too deep",
            where=file or "plan text",
            hint="plan again, or restore the file from a copy",
        ) from error


def _check_version(document: Field) -> None:
    if not isinstance(document.value, dict) or document.value.get("format") != FORMAT:
        raise PlanError(
            f'not a plan: there is no "format": "{FORMAT}" at its top',
            where=document.file or "plan text",
            hint="`shardwright plan --out FILE` writes one",
        )
    version = document.value.get("schema_version")
    if version != SCHEMA_VERSION:
        raise PlanError(
            f"the plan has schema version {version!r}; this release reads {SCHEMA_VERSION}",
            where=document.file or "plan text",
            hint="plan again, or use the release that wrote it",
        )


def _stage(field: Field) -> Stage:
    names = "device_ids mesh shardings decisions ops tensors collectives routes"
    devices, mesh, shardings_field, decisions, ops, tensors, collectives, routes = field.members(
        *names.split()
    )
    shardings = tuple(_sharding(item) for item in shardings_field.items())
    patterns = tuple(_pattern(item, shardings) for item in decisions.items())
    return Stage(
        device_ids=tuple(item.whole() for item in devices.items()),
        mesh=_mesh(mesh),
        ops=tuple(_op(item, patterns) for item in ops.items()),
        tensors=tuple(_tensor(item, shardings) for item in tensors.items()),
        collectives=tuple(_collective(item) for item in collectives.items()),
        routes=tuple(_route(item, shardings) for item in routes.items()),
    )


def _mesh(field: Field) -> Mesh:
    pairs = [item.pair() for item in field.items()]
    axes = tuple(Axis(name=name.text(), size=size.whole()) for name, size in pairs)
    try:
        return Mesh(axes=axes)
    except ShardwrightError as error:
        field.damaged(f"is no mesh: {error.what}")


def _sharding(field: Field) -> Sharding:
    dims, unreduced = field.pair()
    return Sharding(dims=tuple(dim.texts() for dim in dims.items()), unreduced=unreduced.texts())


def _pattern(field: Field, shardings: tuple[Sharding, ...]) -> _Pattern:
    parts = [_choices(part.items(), shardings) for part in field.items()]
    if len(parts) != 3:
        field.damaged(f"has {len(parts)} elements, not 3")
    return parts[0], parts[1], parts[2]


def _choices(items: Iterable[Field], shardings: tuple[Sharding, ...]) -> _Choices:
    return tuple(
        None if item.value is None else shardings[item.whole(below=len(shardings))]
        for item in items
    )


def _op(field: Field, patterns: tuple[_Pattern, ...]) -> OpDecision:
    op_id, row = field.pair()
    operands, results, partials = patterns[row.whole(below=len(patterns))]
    return OpDecision(op_id=op_id.whole(), operands=operands, results=results, partials=partials)


def _tensor(field: Field, shardings: tuple[Sharding, ...]) -> TensorDecision:
    tensor_id, row = field.pair()
    sharding = shardings[row.whole(below=len(shardings))]
    return TensorDecision(tensor_id=tensor_id.whole(), sharding=sharding)


def _collective(field: Field) -> PlannedCollective:
    items = tuple(field.items())
    if len(items) != 7:
        field.damaged(f"has {len(items)} elements, not 7")
    kind, axes, size, runs, tensor_id, op_id, stands_for = items
    return PlannedCollective(
        kind=kind.text(),
        axes=axes.texts(),
        size_bytes=size.whole(),
        runs=runs.whole(),
        tensor_id=tensor_id.integer(),
        op_id=op_id.integer(),
        stands_for=stands_for.text(),
    )


def _route(field: Field, shardings: tuple[Sharding, ...]) -> Route:
    items = tuple(field.items())
    if len(items) != 5:
        field.damaged(f"has {len(items)} elements, not 5")
    shape, dtype, source, target, via = items
    count = len(shardings)
    return Route(
        shape=tuple(size.whole() for size in shape.items()),
        dtype=dtype.text(),
        source=shardings[source.whole(below=count)],
        target=shardings[target.whole(below=count)],
        via=tuple(shardings[item.whole(below=count)] for item in via.items()),
    )


def _fallback(field: Field) -> Fallback:
    items = tuple(field.items())
    if len(items) != 4:
        field.damaged(f"has {len(items)} elements, not 4")
    op_id, kind, source, reason = items
    return Fallback(
        op_id=op_id.integer(), kind=kind.text(), source=source.text(), reason=reason.text()
    )


def _provenance(field: Field) -> Provenance:
    names = ("method", "options", "objective_s", "lower_bound_s", "gap", "termination", "notes")
    method, options, objective, bound, gap, termination, notes = field.members(*names)
    pairs = [item.pair() for item in options.items()]
    return Provenance(
        method=method.text(),
        options=tuple((name.text(), value.text()) for name, value in pairs),
        objective_s=objective.number(),
        lower_bound_s=bound.number(),
        gap=gap.number(),
        termination=termination.text(),
        notes=notes.texts(),
    )
