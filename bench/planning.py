"""How long a plan takes, phase by phase, and whether depth matters.

A GPT-3-175B train step on 64 H100, traced on shapes; then the same model unrolled to several depths
on one mesh, whose search must not grow with depth and whose layers must all be decided alike.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from typing import Any

from bench.table import finish, parser, show
from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh, Topology
from shardwright.cluster.parse import topology
from shardwright.models.registry import build
from shardwright.plan import Plan
from shardwright.search.find import Planner, Question
from shardwright.search.intra import Effort
from shardwright.search.result import SearchResult
from shardwright.units import GIB, format_bytes, format_time

_LAYERED = "blocks."


def main() -> None:
    flags = parser(__doc__ or "")
    flags.add_argument("--model", default="gpt3-175b")
    flags.add_argument("--cluster", default="64xH100")
    flags.add_argument("--batch", type=int, default=64)
    flags.add_argument("--depths", type=int, nargs="*", default=[4, 24, 96])
    flags.add_argument("--search-time", type=float, default=40.0)
    flags.add_argument("--gap", type=float, default=1e-3)
    args = flags.parse_args()
    machines = topology(args.cluster)
    figures: dict[str, Any] = {"whole": whole(args, machines)}
    if not args.quick:
        figures["depths"] = list(depths(args, machines))
        show(
            "depth, unrolled", tuple(figures["depths"][0]), [d.values() for d in figures["depths"]]
        )
    figures["peak_rss_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    finish(figures, args.json)


def whole(args: Any, machines: Topology) -> dict[str, Any]:
    began = time.monotonic()
    case = build(args.model, batch=args.batch)
    captured = capture(case.step, case.abstract_state(), case.abstract_batch())
    traced = time.monotonic()
    planner = Planner.of(captured.graph)
    folded = time.monotonic()
    question = Question(
        effort=Effort(gap=args.gap, time_limit_s=20.0, total_time_s=args.search_time)
    )
    result = planner.find(
        machines, question, on_mesh=lambda c: print(c.mesh, c.outcome, flush=True)
    )
    ended = time.monotonic()
    show(
        f"{args.model} on {args.cluster}",
        ("mesh", "outcome", "step", "bound", "peak", "search", "note"),
        [
            (
                c.mesh,
                c.outcome,
                format_time(c.objective_s),
                format_time(c.lower_bound_s),
                format_bytes(c.peak_bytes),
                format_time(c.search_time_s),
                c.note,
            )
            for c in result.candidates
        ],
    )
    return {
        "capture_s": traced - began,
        "fold_s": folded - traced,
        "search_s": ended - folded,
        "total_s": ended - began,
        "outcome": result.outcome.value,
        "objective_s": result.objective_s,
        "gap": result.gap,
        "mesh": str(result.plan.mesh) if result.plan else "",
    }


def depths(args: Any, machines: Topology) -> Iterator[dict[str, Any]]:
    """The same layers, more or fewer; the budget never binds, so that the work is alike."""
    for layers in args.depths:
        case = build(args.model, batch=args.batch, layers=layers, scan=False)
        began = time.monotonic()
        captured = capture(case.step, case.abstract_state(), case.abstract_batch())
        traced = time.monotonic()
        planner = Planner.of(captured.graph)
        folded = time.monotonic()
        mesh = Mesh.of(x=machines.num_devices // 8, y=8)
        question = Question(meshes=(mesh,), effort=Effort(gap=args.gap), budget_bytes=1 << 50)
        result: SearchResult = planner.find(machines, question)
        ended = time.monotonic()
        assert result.plan is not None
        search_s = sum(candidate.search_time_s for candidate in result.candidates)
        yield {
            "layers": layers,
            "equations": len(list(captured.graph.walk())),
            "folded": len(planner.folded.ops),
            "capture_s": round(traced - began, 2),
            "fold_s": round(folded - traced, 2),
            "search_s": round(search_s, 2),
            "write_s": round(ended - folded - search_s, 2),
            "distinct_layers": len(layer_decisions(result.plan, captured.graph)),
        }


def layer_decisions(plan: Plan, graph: Any) -> set[tuple[Any, ...]]:
    """The distinct ways in which the parameters of one layer are cut."""
    cuts: dict[str, list[tuple[str, str]]] = {}
    for tensor_id in graph.inputs:
        name = graph.tensor(tensor_id).name
        head, _, tail = name.partition(_LAYERED)
        number, _, rest = tail.partition(".")
        if tail and "params" in head:
            cuts.setdefault(number, []).append((rest, str(plan.stages[0].sharding_of[tensor_id])))
    return {tuple(sorted(layer)) for layer in cuts.values()}


if __name__ == "__main__":
    main()
