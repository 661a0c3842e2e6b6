"""``shardwright explain``: a saved plan, priced again and told."""

from __future__ import annotations

import click

from shardwright.cli.answer import give, json_option
from shardwright.cli.subject import cluster_option, subject_options
from shardwright.cluster.parse import topology as parse_topology
from shardwright.cost.estimate import estimate
from shardwright.ir import Graph
from shardwright.plan import Plan, load, verify_plan
from shardwright.report.document import document
from shardwright.report.explain import explain
from shardwright.search.result import Outcome, SearchResult


@click.command("explain")
@click.argument("plan_file")
@subject_options(required=True)
@cluster_option
@json_option
def command(*, plan_file: str, graph: Graph, cluster: str, as_json: bool) -> int:
    """Say what the plan in PLAN_FILE does, how long a step takes and what a device holds.

    Name the plan's step by --model, --step or --graph. The machines are those that the plan names,
    unless --cluster says so in another way.
    """
    plan = load(plan_file)
    topology = parse_topology(cluster or plan.cluster_name)
    verify_plan(plan, graph, topology)
    predicted = estimate(plan, graph, topology)
    found = _as_found(plan)
    return give(
        explain(graph, topology, found, predicted),
        document(graph, topology, found, predicted),
        as_json=as_json,
    )


def _as_found(plan: Plan) -> SearchResult:
    """The plan as the answer of the search that its provenance tells of."""
    provenance = plan.provenance
    is_proven = provenance.termination == Outcome.OPTIMAL.value
    return SearchResult(
        plan=plan,
        outcome=Outcome.OPTIMAL if is_proven else Outcome.FEASIBLE,
        objective_s=provenance.objective_s,
        lower_bound_s=provenance.lower_bound_s,
        gap=provenance.gap,
        candidates=(),
    )
