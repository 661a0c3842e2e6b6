"""Every model, every method, every mesh: the parallel step against one device, number by number.

Steps of plain gradient descent from one start, on virtual CPU devices: the whole state after one
step (so every gradient), then the loss of every further step and the norm of its update (the
gradient's, times the learning rate). A combination that makes no sense is listed with the reason.

State is compared after one step because training amplifies rounding, on one device as on many: what
starts as 1e-7 of a weight may be 1e-5 of it ten steps later.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import jax

from bench.table import finish, parser, show
from shardwright.capture.from_jax import capture
from shardwright.capture.record import Captured
from shardwright.cluster import Mesh, Topology
from shardwright.cluster.parse import topology as parse_topology
from shardwright.execute.check import CheckResult, check
from shardwright.execute.on_jax import program
from shardwright.models.case import StepCase
from shardwright.models.registry import build
from shardwright.search.find import Planner, Question
from shardwright.search.intra import Effort
from shardwright.search.recipes import recipe_names
from tests.zoo import cases as zoo

TOLERANCE = 1e-5
MESHES = ("x=2", "x=4", "x=8", "x=2,y=4", "x=2,y=2,z=2")
_SMALL = {"d_model": 32, "layers": 2, "optimizer": "sgd", "learning_rate": 1e-2}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("gpt", _SMALL),
    "gpt-scan": ("gpt", {**_SMALL, "scan": True}),
    "gpt-remat": ("gpt", {**_SMALL, "remat": True}),
    "gpt-scan-remat": ("gpt", {**_SMALL, "scan": True, "remat": True}),
    "gpt-dropout": ("gpt", {**_SMALL, "scan": True, "dropout": 0.1}),
    "llama": ("llama", {**_SMALL, "scan": True}),
    # Small steps: a large one amplifies rounding until an activation crosses the kink of its relu,
    # on one device as on many.
    "resnet": ("resnet", {"optimizer": "sgd", "learning_rate": 1e-3}),
    "lstm": ("lstm", {"optimizer": "sgd"}),
    "moe-gshard": ("moe-gshard", {**_SMALL, "scan": True}),
    "moe-ragged": ("moe-ragged", {**_SMALL, "scan": True}),
    "mlp": ("mlp", {"optimizer": "sgd"}),
    **{name: (name, {"optimizer": "sgd"}) for name in zoo.ZOO},
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One combination.

    Attributes:
        verdict: ``equal``, ``differs``, or why it was not run.
        worst: name of the array that differs most.
        difference: of that array after one step, over its largest value.
        loss_difference: the largest relative difference of any scalar result in any step.
    """

    model: str
    method: str
    mesh: str
    verdict: str
    worst: str = ""
    difference: float = 0.0
    loss_difference: float = 0.0
    time_s: float = 0.0


def case_of(name: str) -> StepCase:
    family, sizes = MODELS[name]
    return zoo.build(family, **sizes) if family in zoo.ZOO else build(family, **sizes)


def mesh_of(text: str) -> Mesh:
    return Mesh.of(**{k: int(v) for k, v in (part.split("=") for part in text.split(","))})


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One model, captured and prepared."""

    name: str
    case: StepCase
    captured: Captured
    planner: Planner
    state: Any

    @staticmethod
    def of(name: str) -> Subject:
        """A model by name, captured on shapes, with a concrete start."""
        case = case_of(name)
        captured = capture(case.step, case.abstract_state(), case.abstract_batch())
        state = jax.jit(case.init_state)(jax.random.key(0))
        return Subject(
            name=name,
            case=case,
            captured=captured,
            planner=Planner.of(captured.graph),
            state=state,
        )

    def row(self, method: str, mesh: str, topology: Topology, steps: int) -> Row:
        """One combination, planned, run and compared."""
        began = time.monotonic()
        question = Question(method=method, meshes=(mesh_of(mesh),), effort=Effort(gap=1e-2))
        result = self.planner.find(topology, question)
        if result.plan is None:
            verdict = f"{result.outcome}: {result.detail}"
            return Row(model=self.name, method=method, mesh=mesh, verdict=verdict)
        ready = program(
            graph=self.captured.graph,
            jaxpr=self.captured.jaxpr,
            in_tree=self.captured.in_tree,
            out_tree=self.captured.out_tree,
            plan=result.plan,
        )
        batch = self.case.make_batch(0)
        first = check(ready, self.state, batch, steps=1, tolerance=TOLERANCE)
        whole = check(ready, self.state, batch, steps=steps, tolerance=TOLERANCE)
        losses_agree = all(scalar.agrees for scalar in whole.scalars)
        agrees = _state_agrees(first) and losses_agree and _norms_agree(whole)
        return Row(
            model=self.name,
            method=method,
            mesh=mesh,
            verdict="equal" if agrees else "differs",
            worst=first.worst.name,
            difference=first.worst.difference,
            loss_difference=max((s.difference for s in whole.scalars), default=0.0),
            time_s=time.monotonic() - began,
        )


def _state_agrees(found: CheckResult) -> bool:
    """Whether every array does, measured by its own size or by the step's whole update.

    A key's bias under softmax has no gradient but rounding; its own size is noise.
    """
    update = found.update_norms[-1][1]
    return all(
        leaf.agrees or abs(leaf.planned - leaf.reference) <= TOLERANCE * update
        for leaf in (*found.scalars, *found.leaves)
    )


def _norms_agree(found: CheckResult) -> bool:
    return all(
        abs(ours - theirs) <= TOLERANCE * max(abs(theirs), 1e-12)
        for ours, theirs in found.update_norms
    )


def rows_of(args: argparse.Namespace) -> Iterator[Row]:
    for name in args.models or MODELS:
        subject = Subject.of(name)
        for mesh in args.meshes or MESHES:
            topology = parse_topology(f"cpu:{mesh_of(mesh).num_devices}")
            for method in args.methods or ("auto", *recipe_names()):
                row = subject.row(method, mesh, topology, args.steps)
                print(f"{row.model:18} {row.method:16} {row.mesh:12} {row.verdict}", flush=True)
                yield row


def main() -> None:
    flags = parser(__doc__ or "")
    flags.add_argument("--models", nargs="*", choices=sorted(MODELS))
    flags.add_argument("--methods", nargs="*")
    flags.add_argument("--meshes", nargs="*")
    flags.add_argument("--steps", type=int, default=10)
    flags.add_argument("--cache", default="", help="folder of XLA's compilation cache")
    args = flags.parse_args()
    if args.quick:
        args.models = args.models or ["mlp", "gpt-scan"]
        args.meshes = args.meshes or ["x=2,y=4"]
    jax.config.update("jax_num_cpu_devices", 8)
    if args.cache:
        jax.config.update("jax_compilation_cache_dir", args.cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    rows = list(rows_of(args))
    show(
        "parallel against one device",
        ("model", "method", "mesh", "verdict", "worst array", "after 1 step", "losses"),
        [
            (
                r.model,
                r.method,
                r.mesh,
                r.verdict,
                r.worst,
                f"{r.difference:.1e}",
                f"{r.loss_difference:.1e}",
            )
            for r in rows
        ],
    )
    verdicts = Counter(row.verdict.partition(":")[0] for row in rows)
    finish({"verdicts": dict(verdicts), "rows": [asdict(row) for row in rows]}, args.json)


if __name__ == "__main__":
    main()
