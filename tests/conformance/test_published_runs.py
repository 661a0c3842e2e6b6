"""Published runs: how rows are read, what is left out and why, and how well a fit finds itself."""

from __future__ import annotations

import csv
import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from bench.fidelity.layouts import clock_share, mesh_of, model_sizes, recipe_of, topology_of
from bench.fidelity.regress import EXPECTED, Rows, fitted
from bench.fidelity.rows import LeftOut, Run, read_runs
from bench.fidelity.steps import (
    errors,
    left_out_times,
    naive_times,
    ranking,
    rows_of,
    summary,
)
from shardwright.cost.fitted import FITTED

ROOT = Path(__file__).parents[2]
ROW = {
    "id": "made-0001",
    "source": "made for this test",
    "model": "a small GPT",
    "family": "gpt",
    "layers": "4",
    "hidden": "64",
    "heads": "8",
    "vocab": "512",
    "seq": "32",
    "device": "A100-80GB",
    "devices": "8",
    "devices_per_node": "8",
    "tp": "2",
    "pp": "1",
    "dp": "4",
    "micro_batch": "2",
    "global_batch": "16",
    "recompute": "none",
    "dtype": "bf16",
    "metric": "step_time_s",
    "value": "0.05",
}
COLUMNS = (
    *ROW,
    *("kv_heads", "ffn", "experts", "top_k", "vpp", "cp", "ep", "zero_stage_or_fsdp", "schedule"),
    *("sequence_parallel", "notes", "attention_kernel"),
)


def table(folder: Path, *rows: Mapping[str, str]) -> Path:
    path = folder / "throughput.csv"
    with path.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows({**ROW, **row} for row in rows)
    return path


def read(folder: Path, **changes: str) -> Run | LeftOut:
    (answer,) = read_runs(table(folder, changes))
    return answer


def run(folder: Path, **changes: str) -> Run:
    answer = read(folder, **changes)
    assert isinstance(answer, Run), answer
    return answer


LEFT_OUT = {
    "a contradiction": ({"notes": "CHECK"}, "marked CHECK: the source contradicts itself"),
    "no layers": ({"layers": ""}, "model shape not stated"),
    "no heads": ({"heads": ""}, "model shape not stated"),
    "no sequence": ({"seq": ""}, "sequence length not stated"),
    "no device": ({"device": ""}, "device not stated"),
    "no count": ({"devices": ""}, "device count not stated"),
    "no degree": ({"tp": ""}, "tensor or pipeline parallelism not stated"),
    "no microbatch": ({"micro_batch": ""}, "microbatch not stated"),
    "no batch": ({"global_batch": ""}, "global batch not stated"),
    "experts": ({"family": "moe"}, "family moe: no reference model prices it yet"),
    "no family": ({"family": ""}, "family not stated: no reference model prices it yet"),
    "offload": ({"zero_stage_or_fsdp": "zero3+opt-offload"}, "offload to the host: not modelled"),
    "odd devices": ({"devices": "7"}, "7 devices do not divide by tp 2 x pp 1 x cp 1"),
    "too many stages": (
        {"pp": "8", "tp": "1"},
        "8 stages for 4 layers",
    ),
    "too small a batch": ({"global_batch": "4"}, "a batch of 4 is less than 4 replicas of 2"),
    "a metric of its own": (
        {"metric": "mfu"},
        "metric mfu: the source's definition is not known here",
    ),
    "a context unknown": ({"notes": "FSDP + CP"}, "context parallelism not stated"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_rows_are_left_out_with_the_reason(case: str, tmp_path: Path) -> None:
    changes, reason = LEFT_OUT[case]
    answer = read(tmp_path, **changes)
    assert answer == LeftOut(id="made-0001", source="made for this test", reason=reason)


def test_what_a_row_leaves_open_is_filled(tmp_path: Path) -> None:
    found = run(tmp_path, kv_heads="", ffn="", vpp="", cp="")
    assert (found.kv_heads, found.ffn, found.vpp, found.cp) == (8, 256, 1, 1)
    assert (found.dp, found.microbatches) == (4, 2)


def test_seconds_follow_from_the_sources_own_metric(tmp_path: Path) -> None:
    tokens = run(tmp_path, metric="tokens_per_s_per_gpu", value="1000")
    assert tokens.step_time_s == pytest.approx(16 * 32 / (1000 * 8))
    paper = "Megatron-LM 2021 (Narayanan et al.) weak scaling"
    hardware = run(tmp_path, metric="tflops_per_gpu", value="0.001", source=paper)
    flops = 96 * 16 * 32 * 4 * 64**2 * (1 + 32 / (6 * 64) + 512 / (16 * 4 * 64))
    assert hardware.step_time_s == pytest.approx(flops / (1e9 * 8))


@pytest.mark.parametrize(
    ("text", "stage", "ways"),
    [
        ("", 0, 1),
        ("ddp", 0, 1),
        ("zero1 (distributed optimizer)", 1, 1),
        ("fsdp-shard_grad_op (zero2)", 2, 1),
        ("fsdp-full_shard (zero3)", 3, 4),
        ("fsdp4 x dp32", 3, 4),
        ("fsdp128", 3, 4),
        ("fsdp1 x dp64", 0, 1),
    ],
)
def test_how_state_is_cut(text: str, stage: int, ways: int, tmp_path: Path) -> None:
    found = run(tmp_path, zero_stage_or_fsdp=text)
    assert (found.zero_stage, found.fsdp) == (stage, ways)


@pytest.mark.parametrize(
    ("changes", "recipe", "mesh"),
    [
        ({}, "data+tensor", "replica=4,tensor=2"),
        ({"zero_stage_or_fsdp": "zero1"}, "zero-2+tensor", "data=4,tensor=2"),
        ({"sequence_parallel": "true"}, "data+tensor-sp", "replica=4,tensor=2"),
        ({"tp": "1", "zero_stage_or_fsdp": "fsdp-full_shard"}, "zero-3", "data=8"),
        ({"tp": "1", "zero_stage_or_fsdp": "fsdp4 x dp2"}, "data+zero-3", "replica=2,data=4"),
        ({"cp": "2"}, "data+context+tensor", "replica=2,context=2,tensor=2"),
        ({"tp": "1", "devices": "1"}, "data", "data=1"),
    ],
)
def test_a_layout_is_a_recipe_on_a_mesh(
    changes: Mapping[str, str], recipe: str, mesh: str, tmp_path: Path
) -> None:
    found = run(tmp_path, **changes)
    assert (recipe_of(found), str(mesh_of(found))) == (recipe, mesh)


def test_sizes_of_the_model(tmp_path: Path) -> None:
    sizes = model_sizes(run(tmp_path, family="nemotron", kv_heads="1", recompute="full"))
    assert (sizes["family"], sizes["gated"], sizes["kv_heads"]) == ("llama", False, 2)
    assert (sizes["vocab"], sizes["batch"]) == (512, 8)
    assert (sizes["remat"], sizes["lean"]) == (True, False)


@pytest.mark.parametrize(
    ("device", "network_bytes_per_s"),
    [
        ("A100-80GB-SXM4 (JeanZay, 4x100Gb Omni-Path per node)", 4 * 100e9 / 8 / 8),
        ("A100-80GB (Selene, 8x200Gb/s HDR IB per node)", 25e9),
        ("H100-96GB-HBM2e (Grand Teton, 500W, 400Gb/s/GPU RDMA)", 50e9),
    ],
)
def test_the_network_that_a_run_names(
    device: str, network_bytes_per_s: float, tmp_path: Path
) -> None:
    found = run(tmp_path, device=device, devices="64", tp="8", global_batch="64")
    assert topology_of(found).levels[-1].bandwidth_bytes_per_s == pytest.approx(network_bytes_per_s)
    assert clock_share(found) == pytest.approx((5 / 7) ** (1 / 3) if "500W" in device else 1.0)


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


def test_a_source_without_others_is_judged_by_what_is_expected(tmp_path: Path) -> None:
    _, rows, _ = rows_of([run(tmp_path, tp="1", devices="1")], tmp_path / "plans")
    assert left_out_times(rows, FITTED) == pytest.approx(rows.times(EXPECTED).total_s)


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
