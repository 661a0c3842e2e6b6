"""Predicted against measured step time of published runs, per source and over all.

Each source is also left out of the fit in turn and judged by what the others teach. Beside the
model stands the naive one: a single utilisation for each device, the pipeline's bubble, and one
more forward pass where all is computed again.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from bench.fidelity.kernel_fit import Rows, fitted
from bench.fidelity.layouts import clock_share, device_of, memory_share, planned, topology_of
from bench.fidelity.rows import LeftOut, Run, read_runs
from bench.table import finish, parser, show
from shardwright.cluster.figures import DEFAULT_MATMUL_EFFICIENCY
from shardwright.cost.compute import peak_flops_per_s
from shardwright.cost.fitted import FITTED
from shardwright.cost.kernels import KernelModel, Rates, Software, Works
from shardwright.cost.step import Schedules
from shardwright.cost.workload import Numbers, workload_of

_FILLS = {"ZB-1p": 1.0, "ZB-2p": 2.0}
_LEAST_LAYOUTS = 4
_DATA = Path(__file__).parent / "data"


def rows_of(runs: Sequence[Run], cache: Path | None) -> tuple[list[Run], Rows, list[LeftOut]]:
    """Every run that has a plan, as columns; the others with the reason."""
    works, kept, left = [], [], []
    for run in runs:
        answer = planned(run, cache)
        if isinstance(answer, str):
            left.append(LeftOut(id=run.id, source=run.source, reason=answer))
            continue
        plan, graph = answer
        works.append(workload_of(plan, graph, topology_of(run)))
        kept.append(run)
    rows = Rows(
        sources=tuple(run.source for run in kept),
        works=Works.of(works),
        rates=_rates(kept),
        software=Software(
            fuses_attention=np.array([run.fuses_attention for run in kept]),
            fuses_elementwise=np.array([run.fuses_elementwise for run in kept]),
            overlaps=np.array([run.overlaps for run in kept]),
            overlaps_backward=np.array([run.overlaps_backward for run in kept]),
            repeats_layers=np.array([run.repeats_layers for run in kept]),
            attention_speed=np.array([run.attention_speed for run in kept]),
            score_speed=np.array([run.score_speed for run in kept]),
        ),
        schedules=_schedules(kept),
        measured_s=np.array([run.step_time_s for run in kept]),
    )
    return kept, rows, left


def _rates(runs: Sequence[Run]) -> Rates:
    devices = [device_of(run).device for run in runs]
    clock = np.array([clock_share(run) for run in runs])
    peak = clock * [peak_flops_per_s(device, "bfloat16") for device in devices]
    narrow = clock * [peak_flops_per_s(device, "float8_e4m3fn") for device in devices]
    memory = np.array([device.memory_bandwidth_bytes_per_s for device in devices])
    return Rates(
        product_flops_per_s=peak * [device.matmul_efficiency for device in devices],
        is_measured=np.array([d.matmul_efficiency != DEFAULT_MATMUL_EFFICIENCY for d in devices]),
        narrow_flops_per_s=np.array(
            [
                device.matmul_efficiency * rate * run.narrow
                for device, rate, run in zip(devices, narrow, runs, strict=True)
            ]
        ),
        peak_flops_per_s=peak,
        bandwidth_bytes_per_s=memory * [memory_share(run) for run in runs],
        launch_s=np.array([d.launch_s for d in devices]),
    )


def _schedules(runs: Sequence[Run]) -> Schedules:
    return Schedules(
        microbatches=np.array([float(run.microbatches) for run in runs]),
        stages=np.array([float(run.pp) for run in runs]),
        chunks=np.array([float(run.vpp) for run in runs]),
        is_even=np.array([run.is_even for run in runs]),
        fills_bubble=np.array([_FILLS.get(run.schedule, 0.0) for run in runs]),
        keeps_weights_cut=np.array([run.cuts_weights for run in runs]),
        boundary_s=np.array([_boundary_s(run) for run in runs]),
    )


def _boundary_s(run: Run) -> float:
    """Seconds to send one microbatch's activations over the link between two stages."""
    if run.pp == 1:
        return 0.0
    held = run.micro_batch * run.seq // run.cp * run.hidden * 2
    if run.sequence_parallel:
        held //= run.tp
    whole = dataclasses.replace(run, pp=1)
    level = topology_of(whole).levels[-1]
    return held / level.bandwidth_bytes_per_s + level.latency_s


def errors(predicted: Numbers, measured: Numbers) -> Numbers:
    """Relative errors, without sign."""
    return np.abs(predicted / measured - 1)


def summary(wrong: Numbers) -> tuple[float, float]:
    """(median, 90th percentile) in per cent."""
    return 100 * float(np.median(wrong)), 100 * float(np.quantile(wrong, 0.9))


def left_out_times(rows: Rows, start: KernelModel) -> Numbers:
    """Seconds of every run, by a model fitted without the run's source."""
    sources = np.array([_family_of(source) for source in rows.sources])
    predicted = np.zeros(len(sources))
    for source in dict.fromkeys(sources.tolist()):
        model = fitted(rows, start, kept=(sources != source).tolist())
        mine = sources == source
        predicted[mine] = rows.times(model).total_s[mine]
    return predicted


def _family_of(source: str) -> str:
    """Releases of one benchmark, and tables of one paper or project, count as one source."""
    for family in ("NVIDIA dgxc-benchmarking", "Korthikanti", "BigScience"):
        if source.startswith(family):
            return family
    return source


def naive_times(runs: Sequence[Run], rows: Rows) -> Numbers:
    """Seconds by one utilisation for each kind of device."""
    flops = np.bincount(
        rows.works.owner,
        rows.works.products.runs * rows.works.products.flops,
        minlength=len(runs),
    )
    schedules = rows.schedules
    passes = schedules.microbatches + (schedules.stages - 1) / schedules.chunks
    ideal = flops / schedules.stages * passes / rows.rates.peak_flops_per_s
    kinds = np.array([device_of(run).device.name for run in runs])
    share = np.ones(len(runs))
    for kind in dict.fromkeys(kinds.tolist()):
        mine = kinds == kind
        share[mine] = np.median((ideal / rows.measured_s)[mine])
    return ideal / share


def ranking(runs: Sequence[Run], predicted: Numbers) -> dict[str, float]:
    """How well layouts of one question are ordered: rank correlation and regret, in per cent.

    Without a question of enough layouts there is nothing to tell but that.
    """
    groups: defaultdict[Any, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, run in enumerate(runs):
        groups[run.group][run.layout].append(number)
    weights, ranks, first, third = [], [], [], []
    measured = np.array([run.step_time_s for run in runs])
    for layouts in groups.values():
        if len(layouts) < _LEAST_LAYOUTS:
            continue
        times = np.array([measured[rows].mean() for rows in layouts.values()])
        guesses = np.array([predicted[rows].mean() for rows in layouts.values()])
        order = np.argsort(guesses, kind="stable")
        weights.append(len(layouts))
        is_flat = np.ptp(guesses) == 0 or np.ptp(times) == 0
        ranks.append(0.0 if is_flat else float(spearmanr(guesses, times).statistic))
        first.append(times[order[0]] / times.min() - 1)
        third.append(times[order[:3]].min() / times.min() - 1)
    if not weights:
        return {"groups": 0}
    return {
        "groups": len(weights),
        "spearman": float(np.average(ranks, weights=weights)),
        "regret_percent": 100 * float(np.mean(first)),
        "regret_of_three_percent": 100 * float(np.mean(third)),
    }


def main() -> None:
    """Print the tables and the figures; ``--quick`` leaves no source out."""
    flags = parser(__doc__)
    flags.add_argument("--folder", type=Path, default=_DATA, help="holds throughput.csv")
    flags.add_argument("--cache", type=Path, default=None, help="keep plans in this folder")
    flags.add_argument("--fit", action="store_true", help="fit anew instead of taking FITTED")
    args = flags.parse_args()
    answers = list(read_runs(args.folder / "throughput.csv"))
    runs, rows, without = rows_of([a for a in answers if isinstance(a, Run)], args.cache)
    left = [answer for answer in answers if isinstance(answer, LeftOut)] + without
    model = fitted(rows, FITTED) if args.fit else FITTED
    predicted = rows.times(model).total_s
    times = {"fitted": predicted, "naive": naive_times(runs, rows)}
    if not args.quick:
        times["left_out"] = left_out_times(rows, model)
    show("Fitted", ("parameter", "value"), list(dataclasses.asdict(model).items()))
    show("Left out", ("reason", "rows"), Counter(item.reason for item in left).most_common())
    figures = _report(runs, rows, times)
    finish(figures | {"model": dataclasses.asdict(model), "rows_left_out": len(left)}, args.json)


def _report(runs: Sequence[Run], rows: Rows, times: Mapping[str, Numbers]) -> dict[str, Any]:
    """Errors by source shown, and those over all returned; ``times`` by what predicted them."""
    measured, sources = rows.measured_s, np.array(rows.sources)
    judged = "left_out" if "left_out" in times else "fitted"
    table, medians = [], []
    for source, count in Counter(rows.sources).most_common():
        mine = sources == source
        parts = [summary(errors(predicted[mine], measured[mine])) for predicted in times.values()]
        medians.append(parts[list(times).index(judged)][0])
        bias = float(np.median(times["fitted"][mine] / measured[mine]))
        table.append((source[:48], count, f"{bias:.2f}", *(f"{m:.1f} / {p:.1f}" for m, p in parts)))
    show("Step time, error %: median / p90", ("source", "rows", "bias", *times), table)
    figures: dict[str, Any] = {"rows": len(runs), "median_of_sources": float(np.median(medians))}
    for name, predicted in times.items():
        median, ninetieth = summary(errors(predicted, measured))
        figures[name] = {"median_percent": median, "p90_percent": ninetieth}
        figures[name] |= ranking(runs, predicted)
    return figures


if __name__ == "__main__":
    main()
