"""How well the model of collectives predicts runs of nccl-tests that others published.

Every row of ``collectives.csv`` whose cluster the catalogue knows is predicted and compared, beside
the naive model (bytes over published bandwidth). Each source is then left out in turn: the kinds of
link inside its hosts are fitted again without it, and it is predicted from those. Efficiencies of
networks, latencies and the figures that all kinds share are not fitted again.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.fidelity.link_fit import FAMILIES, fit_kind, inner_kind, predict, table
from bench.fidelity.measured import MeasuredCollective, naive_time_s, read
from bench.table import finish, parser, show
from shardwright.units import KIB

DATA = Path(__file__).parent / "data"
SMALL_BYTES = 64 * KIB
COLUMNS = ("rows", "median", "p90", "bias", "naive median")


def main() -> None:
    flags = parser(__doc__ or "")
    flags.add_argument("--folder", type=Path, default=DATA, help="holds collectives.csv")
    args = flags.parse_args()
    rows, unmapped = read(args.folder)
    report_unmapped(unmapped)
    predicted = predict(rows, table())
    figures: dict[str, Any] = {"mapped": len(rows), "unmapped": len(unmapped)}
    for title, key in (("source", _source), ("op", _op), ("link", inner_kind), ("all", _whole)):
        figures[title] = report(title, rows, predicted, key)
    if not args.quick:
        again = left_out(rows)
        for title, key in (("source", _source), ("link", inner_kind), ("all", _whole)):
            figures[f"{title}, left out"] = report(f"{title}, left out", rows, again, key)
    finish(figures, args.json)


def report(
    title: str,
    rows: Sequence[MeasuredCollective],
    predicted: Sequence[float],
    key: Callable[[MeasuredCollective], str],
) -> dict[str, Any]:
    """Errors by what ``key`` says of a row, above and up to 64 KiB, shown and returned."""
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for row, time_s in zip(rows, predicted, strict=True):
        side = "above 64 KiB" if row.size_bytes > SMALL_BYTES else "up to 64 KiB"
        triple = (row.time_s, time_s, naive_time_s(row))
        groups.setdefault(f"{key(row)}, {side}", []).append(triple)
    errors = {name: errors_of(triples) for name, triples in sorted(groups.items())}
    show(
        f"{title}: error of time", (title, *COLUMNS), [(n, *e.values()) for n, e in errors.items()]
    )
    return errors


def errors_of(triples: Sequence[tuple[float, float, float]]) -> dict[str, float]:
    """Relative errors of (measured, predicted, naive) times; bias is the median with its sign."""
    signed = [predicted / measured - 1 for measured, predicted, _ in triples]
    naive = [abs(naive / measured - 1) for measured, _, naive in triples]
    sizes = sorted(map(abs, signed))
    figures = (
        statistics.median(sizes),
        sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        statistics.median(signed),
        statistics.median(naive),
    )
    return dict(zip(COLUMNS, (len(triples), *(round(f, 3) for f in figures)), strict=True))


def left_out(rows: Sequence[MeasuredCollective]) -> list[float]:
    """Seconds of each row from figures that were fitted without any row of its source."""
    fitted = {kind for family in FAMILIES for kind in family}
    times: dict[int, float] = {}
    for source in dict.fromkeys(row.source for row in rows):
        out = [(i, row) for i, row in enumerate(rows) if row.source == source]
        rest = [row for row in rows if row.source != source]
        profiles = table()
        for kind in {inner_kind(row) for _, row in out} & fitted:
            profiles = dict(fit_kind(rest, kind, profiles))
        again = predict([row for _, row in out], profiles)
        times.update(zip((i for i, _ in out), again, strict=True))
    return [times[i] for i in range(len(rows))]


def report_unmapped(unmapped: Sequence[tuple[str, str]]) -> None:
    """Rows that were not compared, and why."""
    counts = Counter(unmapped)
    show("not compared", ("row", "why", "rows"), [(*key, n) for key, n in counts.items()])


def _whole(_: MeasuredCollective) -> str:
    return "all"


def _op(row: MeasuredCollective) -> str:
    return row.collective.kind.value


def _source(row: MeasuredCollective) -> str:
    return row.source


if __name__ == "__main__":
    main()
