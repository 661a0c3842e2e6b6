"""``shardwright check``: whether a saved plan is one for a step."""

from __future__ import annotations

import click

from shardwright.cli.answer import give, json_option
from shardwright.cli.subject import cluster_option, subject_options
from shardwright.cluster.parse import topology as parse_topology
from shardwright.ir import Graph
from shardwright.plan import load, verify_plan


@click.command("check")
@click.argument("plan_file")
@subject_options(required=True)
@cluster_option
@json_option
def command(*, plan_file: str, graph: Graph, cluster: str, as_json: bool) -> int:
    """Check that the plan in PLAN_FILE is whole, and one for a step.

    Name the step by --model, --step or --graph. With --cluster, the plan must be one for these
    machines too. A plan that is damaged, stale or of another step ends with exit code 2.
    """
    plan = load(plan_file)
    verify_plan(plan, graph, parse_topology(cluster) if cluster else None)
    return give(
        f"{plan_file} is a plan for {graph.name}: mesh {plan.mesh} of {plan.cluster_name}, "
        f"found by {plan.provenance.method}",
        {
            "valid": True,
            "graph_fingerprint": plan.graph_fingerprint,
            "cluster": plan.cluster_name,
            "mesh": plan.mesh.sizes,
        },
        as_json=as_json,
    )
