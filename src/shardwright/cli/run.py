"""``shardwright run``: a reference model, planned and run, with what was measured."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import click
import jax

from shardwright.api import parallelize
from shardwright.cli.answer import give, json_option, table
from shardwright.cli.asked import Asked, asked_options
from shardwright.cli.subject import build_case, model_option, set_option
from shardwright.cli.training import NOMINAL, Figures, Trained, devices_for, options, train
from shardwright.errors import UsageError
from shardwright.execute.check import CheckResult, check


@click.command("run")
@model_option
@set_option
@click.option("--devices", "count", default=8, show_default=True, help="How many to run on.")
@click.option("--steps", default=10, show_default=True, help="How many to run.")
@click.option("--verify", is_flag=True, help="Compare two steps with one device first.")
@asked_options
@json_option
def command(
    *,
    model: str,
    settings: tuple[str, ...],
    count: int,
    steps: int,
    verify: bool,
    asked: Asked,
    as_json: bool,
) -> int:
    """Plan a reference model, run it, and set what was measured beside what was planned.

    It runs on this machine's accelerators; where there are none, on virtual CPU devices.
    """
    if not model or steps < 1:
        raise UsageError(
            "no model is named" if not model else f"{steps} steps asked for; at least 1",
            hint="--model gpt --steps 10",
        )
    devices = devices_for(count)
    case = build_case(model, settings)
    step = parallelize(case.step, devices=devices, options=options(asked))
    planned = step.prepare(case.abstract_state(), case.abstract_batch())
    state = step.create(case.init_state, jax.random.key(0))
    checked = check(step.program, state, case.make_batch(0), steps=2) if verify else None
    trained = train(step, state, map(case.make_batch, itertools.islice(itertools.count(), steps)))
    figures = Figures.of(step, planned, trained)
    is_virtual = devices[0].platform == "cpu"
    return give(
        "\n\n".join([planned.explain(), _text(figures, trained, checked, is_virtual=is_virtual)]),
        {
            "mesh": planned.plan.mesh.sizes,
            "gap": planned.result.gap,
            "losses": trained.losses,
            "verified": None if checked is None else checked.agrees,
            **asdict(figures),
        },
        as_json=as_json,
        exit_code=1 if checked is not None and not checked.agrees else 0,
    )


def _text(
    figures: Figures, trained: Trained, checked: CheckResult | None, *, is_virtual: bool
) -> str:
    parts = [
        table(("", "predicted", "measured"), figures.rows()),
        "\n".join(figures.collective_lines),
        f"loss {trained.losses[0]:.5f} -> {trained.losses[-1]:.5f} in {len(trained.losses)} steps",
    ]
    if checked is not None:
        parts.append(verdict(checked))
    if is_virtual:
        parts.append(NOMINAL)
    return "\n\n".join(part for part in parts if part)


def verdict(checked: CheckResult) -> str:
    """A line on a comparison with one device."""
    worst = checked.worst
    found = f"{worst.difference:.1e} of its largest value, {worst.tolerance:.0e} allowed"
    if not checked.agrees:
        return f"DIFFERS from one device: {worst.name} after step {worst.step} by {found}"
    arrays = f"{len(checked.leaves)} arrays after {checked.steps} steps"
    return f"equal to one device: {arrays}, the worst of them {worst.name} by {found}"
