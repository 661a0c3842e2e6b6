"""``shardwright diff``: what two plans do differently."""

from __future__ import annotations

import click

from shardwright.cli.answer import give, json_option
from shardwright.cli.subject import subject_options
from shardwright.ir import Graph
from shardwright.plan import diff, load, verify_plan


@click.command("diff")
@click.argument("before")
@click.argument("after")
@subject_options(required=False)
@json_option
def command(*, before: str, after: str, graph: Graph | None, as_json: bool) -> int:
    """Say what changes from the plan in BEFORE to the plan in AFTER.

    With the plans' step, by --model, --step or --graph, tensors and operators are told by the
    user's names instead of numbers.
    """
    plans = load(before), load(after)
    if graph is not None:
        for plan in plans:
            verify_plan(plan, graph)
    lines = diff(*plans, graph)
    return give(
        "\n".join(lines) or "the plans decide alike",
        {"equal": not lines, "lines": lines},
        as_json=as_json,
    )
