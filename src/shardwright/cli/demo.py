"""``shardwright demo``: a tiny GPT on real text, on 8 virtual devices beside one.

Training is plain gradient descent with momentum, which does not amplify rounding as Adam does. Its
momentum starts at zero, so that after the first step it is the gradient itself: comparing the state
after one step compares every gradient.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, final

import click
import jax

from shardwright.api import Options, ParallelStep, Planned, parallelize
from shardwright.cli.answer import give, json_option, table
from shardwright.cli.training import NOMINAL, Figures, Trained, devices_for, train
from shardwright.cluster.candidates import candidate_meshes
from shardwright.execute.check import CheckResult, LeafDifference, check
from shardwright.models.case import Batch
from shardwright.models.corpus import BYTE_VOCAB, byte_batches, stdlib_bytes
from shardwright.models.registry import build
from shardwright.search.find import Planner, Question
from shardwright.search.intra import Effort
from shardwright.search.recipes import recipe_names
from shardwright.search.result import SearchResult
from shardwright.units import format_bytes, format_time

NUM_DEVICES = 8
SIZES: dict[str, Any] = {
    "layers": 2,
    "d_model": 64,
    "heads": 8,
    "ffn": 256,
    "vocab": BYTE_VOCAB,
    "seq": 32,
    "batch": 16,
    "scan": True,
    "optimizer": "momentum",
    "learning_rate": 0.1,
    "grad_norm": True,
}
CORPUS_BYTES = 400_000
METRIC_TOLERANCE = 1e-5
"""Relative, of the loss and gradient norm of every step."""
STATE_TOLERANCE = 1e-4
"""Of every array of the state after one step, over its largest value."""
NO_GRADIENT = ".attention.bk"
"""Softmax ignores what is added to all scores alike: a key's bias has no gradient but rounding."""
GAP = 1e-2
SEARCH_TIME_S = 10.0
RECIPE_TIME_S = 5.0


@final
@dataclass(frozen=True, kw_only=True)
class Demo:
    """All that the demo found.

    Attributes:
        planned: the plan that ran.
        figures: predicted beside measured.
        parallel: the parallel run.
        single: the same steps on one device.
        checked: state after one step, beside one device's.
        recipes: what each recipe would have given.
    """

    planned: Planned
    figures: Figures
    parallel: Trained
    single: Trained
    checked: CheckResult
    recipes: dict[str, SearchResult]

    @property
    def is_parallel(self) -> bool:
        """Whether the plan really cuts the work: some operand of some operator is cut."""
        stage = self.planned.plan.stages[0]
        cut = (
            sharding is not None and sharding.axes for op in stage.ops for sharding in op.operands
        )
        return stage.mesh.num_devices == NUM_DEVICES and any(cut)

    @property
    def metrics_difference(self) -> float:
        """The largest relative difference of a loss or gradient norm in any step."""
        pairs = zip(self.parallel.metrics, self.single.metrics, strict=True)
        return max(
            _difference(ours[name], theirs[name]) for ours, theirs in pairs for name in theirs
        )

    @property
    def compared(self) -> tuple[LeafDifference, ...]:
        """The arrays that one device itself makes alike from starts a rounding step apart."""
        return tuple(leaf for leaf in self.checked.leaves if leaf.tolerance <= STATE_TOLERANCE)

    @property
    def noise(self) -> tuple[str, ...]:
        """Arrays that are zero but for rounding, which no two programs make alike."""
        return tuple(leaf.name for leaf in self.checked.leaves if leaf not in self.compared)

    @property
    def gradients(self) -> int:
        """How many gradients were compared, as momentum after the first step."""
        return sum(".trace." in leaf.name for leaf in self.compared)

    @property
    def state_difference(self) -> float:
        """The largest difference of any array of the state, over its largest value."""
        return max((leaf.difference for leaf in self.compared), default=math.inf)

    @property
    def is_verified(self) -> bool:
        """Whether losses, gradients and updated state were compared and are equal."""
        return (
            self.is_parallel
            and self.metrics_difference <= METRIC_TOLERANCE
            and self.gradients > 0
            and all(NO_GRADIENT in name for name in self.noise)
            and self.state_difference <= STATE_TOLERANCE
            and self.checked.agrees
        )


@click.command("demo")
@click.option("--steps", default=20, show_default=True, help="How many to train.")
@json_option
def command(*, steps: int, as_json: bool) -> int:
    """Train a tiny byte-level GPT on the Python standard library's sources.

    It runs on 8 virtual CPU devices with a plan that was found automatically, and beside them on
    one device. Exit code 1 says that they did not agree.
    """
    found = run_demo(max(steps, 2))
    return give(
        "\n\n".join(_text(found)),
        _document(found),
        as_json=as_json,
        exit_code=0 if found.is_verified else 1,
    )


def run_demo(steps: int) -> Demo:
    """Plan, train on many devices and on one, compare, and price the recipes."""
    devices = devices_for(NUM_DEVICES, virtual=True)
    case = build("gpt", **SIZES)
    _say("planning")
    asked = Options(gap=GAP, total_time_s=SEARCH_TIME_S)
    step: ParallelStep = parallelize(case.step, devices=devices, options=asked)
    planned = step.prepare(case.abstract_state(), case.abstract_batch())
    _say(f"training on {NUM_DEVICES} devices with mesh {planned.plan.mesh}")
    parallel = train(step, step.create(case.init_state, jax.random.key(0)), _batches(steps))
    _say("training on one device")
    first = jax.jit(case.init_state)(jax.random.key(0))
    _say("comparing gradients and state")
    checked = check(step.program, first, next(_batches(1)), steps=1)
    single = train(jax.jit(case.step, donate_argnums=0), first, _batches(steps))
    _say("pricing the recipes")
    return Demo(
        planned=planned,
        figures=Figures.of(step, planned, parallel),
        parallel=parallel,
        single=single,
        checked=checked,
        recipes=price_recipes(planned),
    )


def price_recipes(planned: Planned) -> dict[str, SearchResult]:
    """What each recipe gives at its best on meshes of one or two axes."""
    planner = Planner.of(planned.captured.graph)
    effort = Effort(gap=GAP, time_limit_s=RECIPE_TIME_S, total_time_s=RECIPE_TIME_S)
    meshes = candidate_meshes(planned.topology, max_axes=2)
    return {
        name: planner.find(planned.topology, Question(method=name, meshes=meshes, effort=effort))
        for name in recipe_names()
    }


def _batches(steps: int) -> Iterator[Batch]:
    corpus = stdlib_bytes(CORPUS_BYTES)
    batches = byte_batches(corpus, batch=SIZES["batch"], seq=SIZES["seq"], seed=0)
    return itertools.islice(batches, steps)


def _difference(ours: float, theirs: float) -> float:
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return math.inf
    return abs(ours - theirs) / max(abs(theirs), 1e-30)


def _say(text: str) -> None:
    click.echo(f"... {text}", err=True)


def _text(found: Demo) -> Iterator[str]:
    yield found.planned.explain()
    yield table(("", "predicted", "measured"), found.figures.rows())
    yield "\n".join(found.figures.collective_lines)
    yield _loss_table(found)
    yield _comparison(found)
    yield _recipe_table(found)
    yield NOMINAL
    if found.is_verified:
        yield f"verified: {NUM_DEVICES} devices train exactly as one does, up to rounding"
    else:
        yield f"NOT VERIFIED: {_reason(found)}"


def _loss_table(found: Demo) -> str:
    rows = [
        (step, f"{ours:.6f}", f"{theirs:.6f}", f"{_difference(ours, theirs):.1e}")
        for step, (ours, theirs) in enumerate(
            zip(found.parallel.losses, found.single.losses, strict=True), start=1
        )
    ]
    return table(("step", f"loss on {NUM_DEVICES} devices", "on one device", "difference"), rows)


def _comparison(found: Demo) -> str:
    lines = [
        f"losses and gradient norms of {len(found.single.losses)} steps: largest relative"
        f" difference {found.metrics_difference:.1e} ({METRIC_TOLERANCE:.0e} allowed)",
        f"gradients and updated state after a step: {len(found.compared)} arrays,"
        f" {found.gradients} of them gradients; largest difference {found.state_difference:.1e}"
        f" of an array's largest value ({STATE_TOLERANCE:.0e} allowed)",
    ]
    if found.noise:
        lines.append(f"zero but for rounding, so not compared: {', '.join(found.noise)}")
    return "\n".join(lines)


def _recipe_table(found: Demo) -> str:
    results = {"auto": found.planned.result, **found.recipes}
    rows = [(name, *_recipe_row(result)) for name, result in results.items()]
    return table(("method", "step time", "peak memory", "mesh", ""), rows)


def _recipe_row(result: SearchResult) -> tuple[str, str, str, str]:
    if result.plan is None:
        return "-", "-", "-", f"{result.outcome}: {result.detail}"
    best = result.candidates[0]
    return (
        format_time(result.objective_s),
        format_bytes(best.peak_bytes),
        best.mesh,
        "" if result.gap < 5e-4 else f"gap {result.gap:.1%}",
    )


def _reason(found: Demo) -> str:
    if not found.is_parallel:
        return "the plan cuts nothing"
    if found.metrics_difference > METRIC_TOLERANCE:
        return f"losses or gradient norms differ by {found.metrics_difference:.1e}"
    return "gradients or updated state differ, or were not compared"


def _document(found: Demo) -> dict[str, Any]:
    return {
        "verified": found.is_verified,
        "mesh": found.planned.plan.mesh.sizes,
        "gap": found.planned.result.gap,
        **asdict(found.figures),
        "losses": found.parallel.losses,
        "one_device_losses": found.single.losses,
        "one_device_step_s": found.single.median_s,
        "largest_metric_difference": found.metrics_difference,
        "largest_state_difference": found.state_difference,
        "gradients_compared": found.gradients,
        "arrays_compared": len(found.compared),
        "zero_but_for_rounding": found.noise,
        "recipes": {name: _recipe_document(result) for name, result in found.recipes.items()},
        "figures_are_nominal": True,
    }


def _recipe_document(result: SearchResult) -> dict[str, Any]:
    if result.plan is None:
        return {"outcome": result.outcome.value, "reason": result.detail}
    best = result.candidates[0]
    return {
        "outcome": result.outcome.value,
        "objective_s": result.objective_s,
        "peak_bytes": best.peak_bytes,
        "mesh": best.mesh,
        "gap": result.gap,
    }
