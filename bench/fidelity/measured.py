"""Measured collectives: rows of ``collectives.csv`` as records that the model can answer."""

from __future__ import annotations

import csv
import dataclasses
import re
from pathlib import Path

from bench.fidelity.clusters import Unmapped, topology_of
from shardwright.cluster import Mesh, PlacedMesh
from shardwright.cluster.place import place
from shardwright.sharding import Collective, CollectiveKind

GROUP = "x"
KINDS = {
    "all_reduce": CollectiveKind.ALL_REDUCE,
    "all_gather": CollectiveKind.ALL_GATHER,
    "reduce_scatter": CollectiveKind.REDUCE_SCATTER,
    "alltoall": CollectiveKind.ALL_TO_ALL,
    "all_to_all": CollectiveKind.ALL_TO_ALL,
    "sendrecv": CollectiveKind.PERMUTE,
}
_STATED_TIME = re.compile(r"(?:time_us|latency_us)=([\d.]+)")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredCollective:
    """One measurement: what ran where, and how long it took.

    Attributes:
        cluster: as the source describes it.
        source: the file or page, without what its note adds.
        collective: over the mesh's one axis.
        size_bytes: as nccl-tests counts it, of the larger side.
        placed: that axis over the machines.
        time_s: measured.
    """

    cluster: str
    source: str
    collective: Collective
    size_bytes: int
    placed: PlacedMesh
    time_s: float


def read(folder: Path) -> tuple[list[MeasuredCollective], list[tuple[str, str]]]:
    """Rows that the model can answer, and (row, why not) of all others."""
    with (folder / "collectives.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found, unmapped = [], []
    places: dict[tuple[str, int], PlacedMesh] = {}
    for row in rows:
        try:
            found.append(_measured(row, places))
        except Unmapped as reason:
            unmapped.append((f"{row['cluster']}, {row['op']}", str(reason)))
    return found, unmapped


def _measured(row: dict[str, str], places: dict[tuple[str, int], PlacedMesh]) -> MeasuredCollective:
    if row["op"] not in KINDS:
        raise Unmapped("not a collective of a communication library")
    if not row["bytes"] or not row["ranks"]:
        raise Unmapped("states no size or no number of ranks")
    size_bytes, ranks = int(float(row["bytes"])), int(row["ranks"])
    kind = KINDS[row["op"]]
    key = (row["cluster"], ranks)
    if key not in places:
        places[key] = place(Mesh.of(**{GROUP: ranks}), topology_of(*key))
    return MeasuredCollective(
        cluster=row["cluster"],
        source=source_of(row["source"]),
        collective=collective_of(kind, size_bytes, ranks),
        size_bytes=size_bytes,
        placed=places[key],
        time_s=_time_s(row, kind, size_bytes, ranks),
    )


def source_of(text: str) -> str:
    """The repository, commit and file, without a note on how it was read."""
    return text.split(" (")[0].split(" via ")[0].split(" poster")[0]


def collective_of(kind: CollectiveKind, size_bytes: int, ranks: int) -> Collective:
    """A collective of that size over the one axis of the mesh."""
    piece = size_bytes // ranks
    return Collective(
        kind=kind,
        axes=(GROUP,),
        input_bytes=piece if kind is CollectiveKind.ALL_GATHER else size_bytes,
        output_bytes=piece if kind is CollectiveKind.REDUCE_SCATTER else size_bytes,
    )


def bus_factor(kind: CollectiveKind, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests has it."""
    match kind:
        case CollectiveKind.ALL_REDUCE:
            return 2 * (ranks - 1) / ranks
        case CollectiveKind.PERMUTE:
            return 1.0
        case _:
            return (ranks - 1) / ranks


def naive_time_s(row: MeasuredCollective) -> float:
    """Bytes over published bandwidth of the slowest link, all links of a unit at once."""
    factor = bus_factor(row.collective.kind, row.placed.mesh.num_devices)
    return factor * row.size_bytes / row.placed.link(GROUP).bandwidth_bytes_per_s


def _time_s(row: dict[str, str], kind: CollectiveKind, size_bytes: int, ranks: int) -> float:
    stated = _STATED_TIME.search(row["source"])
    if stated:
        return float(stated[1]) * 1e-6
    bandwidth = float(row["busbw_GBps"] or 0) * 1e9
    if not bandwidth:
        raise Unmapped("states neither a time nor a bandwidth above its rounding")
    return bus_factor(kind, ranks) * size_bytes / bandwidth
