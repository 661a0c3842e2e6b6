"""Plans as JSON text and files; what ``to_json`` writes, ``parse.from_json`` reads back equal.

A plan may decide 40,000 operators, nearly all of them like another. So each stage holds one table
of distinct shardings and one of distinct operator decisions, and the operators are (id, row) pairs.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Hashable
from pathlib import Path
from typing import Generic, TypeVar, final

from shardwright.errors import PlanError
from shardwright.plan.parse import FORMAT, from_json
from shardwright.plan.record import Plan, Provenance, Stage
from shardwright.sharding import Sharding

_ROW_LISTS = frozenset(
    {"shardings", "decisions", "ops", "tensors", "collectives", "routes", "fallbacks"}
)

_Row = TypeVar("_Row", bound=Hashable)
_Choices = tuple[int | None, ...]
_Pattern = tuple[_Choices, _Choices, _Choices]


def to_json(plan: Plan) -> str:
    """The plan as JSON text, one decision a line; equal plans give equal text."""
    document = {
        "format": FORMAT,
        "schema_version": plan.schema_version,
        "graph_fingerprint": plan.graph_fingerprint,
        "cluster_fingerprint": plan.cluster_fingerprint,
        "cluster_name": plan.cluster_name,
        "num_microbatches": plan.num_microbatches,
        "schedule": plan.schedule,
        "provenance": _provenance_object(plan.provenance),
        "fallbacks": [[f.op_id, f.kind, f.source, f.reason] for f in plan.fallbacks],
        "stages": [_stage_object(stage) for stage in plan.stages],
    }
    return _layout(document, indent=0) + "\n"


def save(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the plan to ``path`` whole or not at all.

    Raises:
        PlanError: the file cannot be written.
    """
    target = Path(path)
    try:
        _replace_file(target, to_json(plan))
    except OSError as error:
        raise PlanError(
            f"the plan cannot be written: {error.strerror}",
            where=str(target),
            hint="a folder that exists and may be written",
        ) from error


def load(path: str | os.PathLike[str]) -> Plan:
    """The plan saved at ``path``.

    Raises:
        PlanError: the file is missing, damaged or of another schema.
    """
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(
            f"the plan cannot be read: {error.strerror}",
            where=str(source),
            hint="`shardwright plan --out FILE` writes one",
        ) from error
    except UnicodeDecodeError as error:
        raise PlanError(
            f"the plan is damaged: byte {error.start} is not UTF-8 text",
            where=str(source),
            hint="plan again, or restore the file from a copy",
        ) from error
    return from_json(text, file=str(source))


def _replace_file(target: Path, text: str) -> None:
    # A rename within one folder is atomic, so a reader sees the old plan or the new one.
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


@final
class _Table(Generic[_Row]):
    """Distinct rows in order of first use."""

    def __init__(self) -> None:
        self._index: dict[_Row, int] = {}

    def row(self, value: _Row) -> int:
        return self._index.setdefault(value, len(self._index))

    @property
    def rows(self) -> list[_Row]:
        return list(self._index)


def _stage_object(stage: Stage) -> dict[str, object]:
    shardings: _Table[Sharding] = _Table()
    patterns: _Table[_Pattern] = _Table()

    def indices(choices: tuple[Sharding | None, ...]) -> _Choices:
        return tuple(None if choice is None else shardings.row(choice) for choice in choices)

    ops = [
        [
            op.op_id,
            patterns.row((indices(op.operands), indices(op.results), indices(op.partials))),
        ]
        for op in stage.ops
    ]
    tensors = [[decision.tensor_id, shardings.row(decision.sharding)] for decision in stage.tensors]
    routes = [
        [r.shape, r.dtype, *(shardings.row(end) for end in (r.source, r.target)), indices(r.via)]
        for r in stage.routes
    ]
    return {
        "device_ids": list(stage.device_ids),
        "mesh": [[axis.name, axis.size] for axis in stage.mesh.axes],
        "shardings": [[row.dims, row.unreduced] for row in shardings.rows],
        "decisions": patterns.rows,
        "ops": ops,
        "tensors": tensors,
        "collectives": [
            [c.kind, c.axes, c.size_bytes, c.runs, c.tensor_id, c.op_id, c.stands_for]
            for c in stage.collectives
        ],
        "routes": routes,
    }


def _provenance_object(provenance: Provenance) -> dict[str, object]:
    return {
        "method": provenance.method,
        "options": [list(pair) for pair in provenance.options],
        "objective_s": provenance.objective_s,
        "lower_bound_s": provenance.lower_bound_s,
        "gap": provenance.gap,
        "termination": provenance.termination,
        "notes": list(provenance.notes),
    }


def _layout(value: object, *, indent: int) -> str:
    """JSON with one line for each decision, so that a text diff of two plans reads well."""
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [
            f"{pad}{json.dumps(key)}: {_member(key, item, indent)}" for key, item in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"
    return json.dumps(value, separators=(",", ":"))


def _member(key: str, value: object, indent: int) -> str:
    pad = " " * (indent + 2)
    rows = key in _ROW_LISTS or key == "stages"
    if isinstance(value, list) and value and rows:
        lines = [pad + _layout(item, indent=indent + 2) for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{' ' * (indent + 1)}]"
    return _layout(value, indent=indent + 1)
