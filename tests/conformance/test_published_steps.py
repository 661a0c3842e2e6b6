"""Published steps: fits that find the model that made the rows, errors, ranks, and the bench."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.fidelity.kernel_fit import EXPECTED, Rows, fitted
from bench.fidelity.layouts import topology_of
from bench.fidelity.rows import Run, read_runs
from bench.fidelity.steps import (
    errors,
    left_out_times,
    naive_times,
    ranking,
    rows_of,
    summary,
)
from shardwright.cost.fitted import FITTED
from tests.conformance.published_rows import run, table

ROOT = Path(__file__).parents[2]
LAYOUTS = (
    {"tp": "1", "zero_stage_or_fsdp": "zero1"},
    {"tp": "2", "zero_stage_or_fsdp": "zero1"},
    {"tp": "4", "zero_stage_or_fsdp": "zero1", "recompute": "full"},
    {"tp": "1", "zero_stage_or_fsdp": "fsdp-full_shard"},
    {"tp": "2", "pp": "2", "attention_kernel": "torch"},
    {"tp": "2", "device": "V100-32GB"},
    {"tp": "1", "dtype": "fp8", "device": "H100-80GB-SXM", "notes": "overlap"},
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Run], Rows]:
    """Every layout four times, so that the springs of the fit pull little."""
    folder = tmp_path_factory.mktemp("made")
    path = table(folder, *({**change, "id": f"made-{n}"} for n, change in enumerate(LAYOUTS)))
    runs = [answer for answer in read_runs(path) if isinstance(answer, Run)]
    kept, rows, left = rows_of(runs * 4, folder / "plans")
    assert (len(kept), left) == (4 * len(LAYOUTS), [])
    return kept, rows


def test_a_fit_finds_the_model_that_made_the_rows(made: tuple[list[Run], Rows]) -> None:
    kept, rows = made
    truth = dataclasses.replace(EXPECTED, matmul_share=0.8, between_steps_s=0.004)
    rows = dataclasses.replace(rows, measured_s=rows.times(truth).total_s)
    found = fitted(rows, EXPECTED)
    assert errors(rows.times(EXPECTED).total_s, rows.measured_s).max() > 0.5
    assert errors(rows.times(found).total_s, rows.measured_s).max() < 0.03
    assert found.between_steps_s == pytest.approx(truth.between_steps_s, rel=0.05)
    assert (naive_times(kept, rows) > 0).all()


def test_a_fit_recovers_the_shares_that_rows_depend_on(made: tuple[list[Run], Rows]) -> None:
    """Of rows whose time is arithmetic, in sums so deep that filling pipelines costs nothing."""
    _, rows = made
    products = rows.works.products
    products = dataclasses.replace(products, flops=1e6 * products.flops, depth=1e6 * products.depth)
    rows = dataclasses.replace(rows, works=dataclasses.replace(rows.works, products=products))
    truth = dataclasses.replace(EXPECTED, matmul_share=0.7, unmeasured_share=0.5)
    rows = dataclasses.replace(rows, measured_s=rows.times(truth).total_s)
    found = fitted(rows, EXPECTED)
    assert found.matmul_share == pytest.approx(truth.matmul_share, rel=0.05)
    assert found.unmeasured_share == pytest.approx(truth.unmeasured_share, rel=0.05)


def test_rows_that_are_not_kept_do_not_count(made: tuple[list[Run], Rows]) -> None:
    _, rows = made
    truth = rows.times(EXPECTED).total_s
    is_kept = np.arange(len(truth)) % 2 == 0
    rows = dataclasses.replace(rows, measured_s=np.where(is_kept, truth, 100 * truth))
    found = fitted(rows, EXPECTED, kept=is_kept.tolist())
    assert rows.times(found).total_s == pytest.approx(truth, rel=1e-2)


def test_a_small_source_is_heard_beside_a_large_one(made: tuple[list[Run], Rows]) -> None:
    """A quarter of the rows disagrees; as a source of its own it pulls the fit nearer."""
    _, rows = made
    truth = rows.times(EXPECTED).total_s
    is_few = np.arange(len(truth)) % 4 == 0
    rows = dataclasses.replace(rows, measured_s=np.where(is_few, 1.3 * truth, truth))
    own = tuple("few" if one else "many" for one in is_few)
    apart, alike = (
        rows.times(fitted(dataclasses.replace(rows, sources=sources), EXPECTED)).total_s
        for sources in (own, ("all",) * len(truth))
    )
    assert np.median((apart / alike)[is_few]) > 1.01


def test_a_source_without_others_is_judged_by_what_is_expected(tmp_path: Path) -> None:
    _, rows, _ = rows_of([run(tmp_path, tp="1", devices="1")], tmp_path / "plans")
    assert left_out_times(rows, FITTED) == pytest.approx(rows.times(EXPECTED).total_s)


def test_tables_of_one_paper_are_left_out_together(made: tuple[list[Run], Rows]) -> None:
    """So that no row of theirs, however wrong, can tell of another."""
    _, rows = made
    truth = rows.times(EXPECTED).total_s
    is_paper = np.arange(len(truth)) % 2 == 0
    sources = [f"Korthikanti {n % 4}" if one else "another" for n, one in enumerate(is_paper)]
    measured = np.where(is_paper, 30 * truth, truth)
    rows = dataclasses.replace(rows, sources=tuple(sources), measured_s=measured)
    blind = left_out_times(rows, FITTED)
    assert blind[is_paper] == pytest.approx(truth[is_paper], rel=0.02)
    assert (blind[~is_paper] > 1.5 * truth[~is_paper]).all()


def test_schedules_of_a_pipeline(tmp_path: Path) -> None:
    """Two stages of a node each: activations of one microbatch over the network between them."""
    changes = {"devices": "16", "pp": "2", "vpp": "2", "device": "A100-80GB (25Gb/s per GPU)"}
    runs = [
        run(tmp_path, **changes, schedule=name, sequence_parallel=cut)
        for name, cut in (("1F1B", "false"), ("ZB-1p", "true"), ("ZB-2p", "false"))
    ]
    _, rows, left = rows_of(runs, tmp_path / "plans")
    assert left == []
    assert rows.schedules.fills_bubble.tolist() == [0, 1, 2]
    assert rows.schedules.microbatches.tolist() == [2] * 3
    assert (rows.schedules.stages.tolist(), rows.schedules.chunks.tolist()) == ([2] * 3, [2] * 3)
    level = topology_of(dataclasses.replace(runs[0], pp=1)).levels[-1]
    assert level.bandwidth_bytes_per_s == pytest.approx(25e9 / 8)
    moved = [2 * 32 * 64 * 2, 2 * 32 * 64 * 2 / 2, 2 * 32 * 64 * 2]
    assert rows.schedules.boundary_s == pytest.approx(
        [size / level.bandwidth_bytes_per_s + level.latency_s for size in moved]
    )


def test_the_naive_model_takes_one_share_for_each_device(made: tuple[list[Run], Rows]) -> None:
    """Rows that reach the same share of the peak on each kind of device are met exactly."""
    kept, rows = made
    flops = np.bincount(rows.works.owner, rows.works.products.runs * rows.works.products.flops)
    schedules = rows.schedules
    passes = schedules.microbatches + (schedules.stages - 1) / schedules.chunks
    ideal = flops / schedules.stages * passes / rows.rates.peak_flops_per_s
    shares = {"A100-80GB": 0.3, "V100-32GB": 0.2, "H100-80GB-SXM": 0.4}
    reached = np.array([shares[one.device] for one in kept])
    rows = dataclasses.replace(rows, measured_s=ideal / reached)
    assert naive_times(kept, rows) == pytest.approx(rows.measured_s)


def test_ranking_by_hand(tmp_path: Path) -> None:
    seconds = (1.0, 2.0, 3.0, 4.0)
    runs = [
        run(tmp_path, tp=str(tp), value=str(value))
        for tp, value in zip((1, 2, 4, 8), seconds, strict=True)
    ]
    same = ranking(runs, np.array(seconds))
    assert same == {
        "groups": 1,
        "spearman": pytest.approx(1.0),
        "regret_percent": 0.0,
        "regret_of_three_percent": 0.0,
    }
    turned = ranking(runs, np.array(seconds)[::-1])
    assert turned["spearman"] == pytest.approx(-1.0)
    assert turned["regret_percent"] == pytest.approx(300.0)
    assert turned["regret_of_three_percent"] == pytest.approx(100.0)
    assert ranking(runs, np.ones(4))["spearman"] == 0.0
    assert ranking(runs[:3], np.ones(3)) == {"groups": 0}


def test_a_summary_is_in_per_cent() -> None:
    assert summary(np.arange(11) / 100) == pytest.approx((5.0, 9.0))


@pytest.mark.slow
def test_the_bench_ends_with_its_figures(tmp_path: Path) -> None:
    table(tmp_path, *({**change, "id": f"made-{n}"} for n, change in enumerate(LAYOUTS)))
    done = subprocess.run(
        [sys.executable, "-m", "bench.fidelity.steps", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["rows"] == len(LAYOUTS)
    assert set(figures["fitted"]) >= {"median_percent", "p90_percent", "spearman"}
