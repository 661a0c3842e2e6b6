"""Tables of runs that the tests make, and how they read them back."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from bench.fidelity.rows import LeftOut, Run, read_runs

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
