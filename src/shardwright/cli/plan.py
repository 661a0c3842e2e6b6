"""``shardwright plan``: the best plan for a step, or what is short."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from shardwright.cli.answer import give, json_option, write_whole
from shardwright.cli.asked import Asked, asked_options
from shardwright.cli.subject import cluster_option, read_cluster, subject_options
from shardwright.cost.estimate import estimate
from shardwright.errors import UsageError
from shardwright.ir import Graph, print_graph
from shardwright.plan import save
from shardwright.report.document import document
from shardwright.report.explain import explain, explain_no_plan
from shardwright.search.find import OnMesh, Planner
from shardwright.search.remedy import smallest_changes
from shardwright.search.result import Candidate, Outcome, SearchResult
from shardwright.units import format_bytes, format_time


@click.command("plan")
@subject_options(required=True)
@cluster_option
@asked_options
@click.option("--save", "--out", "plan_file", default="", help="Write the plan to this file.")
@click.option("--save-graph", "saved_graph", default="", help="Write the graph to this file.")
@json_option
def command(
    *,
    graph: Graph,
    cluster: str,
    asked: Asked,
    plan_file: str,
    saved_graph: str,
    as_json: bool,
) -> int:
    """Find the best plan for a step on some machines; no hardware is needed.

    Name the step by --model, --step or --graph, and the machines by --cluster (by default this
    machine's devices).
    """
    if saved_graph:
        write_whole(Path(saved_graph), print_graph(graph))
    if not cluster and click.get_current_context().params["graph_file"]:
        raise UsageError("--graph needs --cluster", hint="--cluster 8xH100")
    topology = read_cluster(cluster)
    planner, question = Planner.of(graph), asked.question()
    result = planner.find(topology, question, progress(quiet=as_json))
    if result.plan is None:
        changes = smallest_changes(planner, topology, question, result)
        return give(
            explain_no_plan(result, topology, remedy=" or ".join(changes)),
            {**document(graph, topology, result, None), "remedies": changes},
            as_json=as_json,
            exit_code=exit_code(result),
        )
    if plan_file:
        save(result.plan, plan_file)
    predicted = estimate(result.plan, graph, topology)
    return give(
        explain(graph, topology, result, predicted),
        document(graph, topology, result, predicted),
        as_json=as_json,
        exit_code=exit_code(result),
    )


def exit_code(result: SearchResult) -> int:
    """The exit code of a search's answer."""
    if result.plan is None:
        return 3
    return 5 if result.outcome is Outcome.FEASIBLE else 0


def progress(*, quiet: bool) -> OnMesh | None:
    """Something that tells each mesh as it is searched, on a terminal alone."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return None

    def tell(candidate: Candidate) -> None:
        console.print(f"[bold]{candidate.mesh}[/bold]  {_found(candidate)}", highlight=False)

    return tell


def _found(candidate: Candidate) -> str:
    spent = f"[dim]{format_time(candidate.search_time_s)} of search[/dim]"
    if candidate.outcome in (Outcome.OPTIMAL, Outcome.FEASIBLE):
        return (
            f"{format_time(candidate.objective_s)} a step, "
            f"{format_bytes(candidate.peak_bytes)} a device  {spent}"
        )
    note = f": {candidate.note}" if candidate.note else ""
    return f"{candidate.outcome}{note}  {spent}"
