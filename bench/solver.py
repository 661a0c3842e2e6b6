"""The solver on the public benchmark of intra-operator parallelism, against the best known costs.

Every run is a process of its own, timed from its start to its end, so interpreter, reading and
preprocessing count; compiled kernels come from the cache, which one small run fills beforehand. The
answer is judged by code that shares nothing with the solver.

The instances are published at github.com/google/iopddl (benchmarks); ``best_known.json`` beside
them maps each letter to an object with ``best_known``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.contest_judge import cost_of, read_problem
from bench.table import finish, parser, show

PREFIX = "asplos-2025-iopddl-"
RESULTS = Path(__file__).parent / "results"
COLUMNS = ("instance", "limit_s", "wall_s", "ratio", "gap", "cost", "bound", "rss_gib", "judged")


def main() -> None:
    flags = parser(__doc__ or "")
    flags.add_argument("--folder", type=Path, required=True, help="folder of the instances")
    flags.add_argument("--instances", nargs="*", default=list("ABCGKMNQSTV"))
    flags.add_argument("--times", nargs="*", type=float, default=[10.0, 60.0])
    flags.add_argument("--threads", type=int, default=2)
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument(
        "--results", type=Path, default=RESULTS, help="folder for costs below the best known"
    )
    args = flags.parse_args()
    instances = ["B", "G"] if args.quick else args.instances
    known = _known(args.folder)
    warm_up()
    rows = [
        run(args.folder, name, limit_s, args.threads, args.seed, known)
        for limit_s in args.times
        for name in instances
    ]
    show("solver", COLUMNS, [[row[column] for column in COLUMNS] for row in rows])
    for row in rows:
        keep(args.results, row)
    means = {str(limit): _mean(rows, limit) for limit in args.times}
    worst = {str(limit): _worst(rows, limit) for limit in args.times}
    for row in rows:
        del row["choice"]
    finish({"rows": rows, "geometric_mean": means, "worst": worst}, args.json)


def _known(folder: Path) -> dict[str, Any]:
    path = folder / "best_known.json"
    if not path.exists():
        sys.exit(f"there is no {path}: the instances are published at github.com/google/iopddl")
    known: dict[str, Any] = json.loads(path.read_text())
    return known


def warm_up() -> None:
    """Solve a made-up problem that meets every kernel, so that none is compiled while timed."""
    from bench.solver_cases import hard_case
    from shardwright.solver import solve, to_contest_json

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warm.json"
        graph = hard_case()
        solve(graph, time_limit_s=600.0, work_limit=60_000_000)
        to_contest_json(graph, path)
        _solve(path, 5.0, 2, 0)


def run(
    folder: Path, name: str, limit_s: float, threads: int, seed: int, known: dict[str, Any]
) -> dict[str, Any]:
    """One instance under one limit: what was answered, judged."""
    path = folder / f"{PREFIX}{name}.json.gz"
    answer, wall_s, rss_gib = _solve(path, limit_s, threads, seed)
    problem = read_problem(path)
    cost, judged = _judge(problem, answer)
    best = known[name]["best_known"]
    told = "no cost" if cost is None else f"{cost / best:.6f} of the best known"
    print(f"{name} {limit_s:g} s: {told}, {wall_s:.2f} s in all, {judged}", file=sys.stderr)
    return {
        "instance": name,
        "limit_s": limit_s,
        "wall_s": round(wall_s, 2),
        "ratio": None if cost is None else round(cost / best, 6),
        "gap": None if cost is None else round(1 - answer["lower_bound"] / cost, 6),
        "cost": cost,
        "best_known": best,
        "bound": answer["lower_bound"],
        "is_bound_valid": answer["lower_bound"] <= min(best, cost or best) * (1 + 1e-9),
        "rss_gib": round(rss_gib, 2),
        "judged": judged,
        "choice": answer["choice"],
        "threads": threads,
        "seed": seed,
    }


def _judge(problem: dict[str, Any], answer: dict[str, Any]) -> tuple[int | None, str]:
    """The exact cost, and what is to be said of the answer; no cost where it is not one."""
    if answer["choice"] is None:
        return None, answer["termination"]
    try:
        cost = cost_of(problem, answer["choice"])
    except ValueError as error:
        return None, f"wrong: {error}"
    return cost, "sound" if cost == answer["cost"] else f"wrong: it claims {answer['cost']}"


def _solve(
    path: Path, limit_s: float, threads: int, seed: int
) -> tuple[dict[str, Any], float, float]:
    words = ["solve", str(path), "--time", str(limit_s), "--threads", str(threads)]
    command = [sys.executable, "-m", "shardwright", *words, "--seed", str(seed), "--json"]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - began
    code = process.returncode = os.waitstatus_to_exitcode(status)
    if code not in (0, 3) or not said:
        sys.exit(f"{path.name}: the solver ended with status {code}: {said.decode().strip()}")
    answer: dict[str, Any] = json.loads(said.splitlines()[-1])
    return answer, wall_s, used.ru_maxrss / 2**20


def _mean(rows: list[dict[str, Any]], limit_s: float) -> float | None:
    ratios = [row["ratio"] for row in rows if row["limit_s"] == limit_s]
    if None in ratios or not ratios:
        return None
    return round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 6)


def _worst(rows: list[dict[str, Any]], limit_s: float) -> float | None:
    ratios = [row["ratio"] for row in rows if row["limit_s"] == limit_s]
    return None if None in ratios or not ratios else max(ratios)


def keep(folder: Path, row: dict[str, Any]) -> None:
    """Write a cost that is below the best known, with what it takes to find and check it."""
    if row["cost"] is None or row["cost"] >= row["best_known"]:
        return
    path = folder / f"iopddl-{row['instance']}.json"
    if path.exists() and json.loads(path.read_text())["cost"] <= row["cost"]:
        return
    folder.mkdir(parents=True, exist_ok=True)
    choice = json.dumps(row["choice"])
    kept = {key: row[key] for key in ("cost", "best_known", "limit_s", "threads", "seed")}
    kept |= {"instance": f"{PREFIX}{row['instance']}", "lower_bound": row["bound"]}
    kept |= {"choice_sha256": hashlib.sha256(choice.encode()).hexdigest()}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
