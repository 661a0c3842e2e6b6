"""The explanation as one small page without scripts, for notebooks and for keeping."""

from __future__ import annotations

from html import escape

from shardwright.cluster import Topology
from shardwright.cost.estimate import Estimate
from shardwright.ir import Graph
from shardwright.report.explain import explain
from shardwright.search.result import SearchResult

_STYLE = (
    "font-family: ui-monospace, monospace; font-size: 0.85em; line-height: 1.4; "
    "white-space: pre-wrap; margin: 0.5em 0"
)


def to_html(
    graph: Graph, topology: Topology, result: SearchResult, estimate: Estimate | None
) -> str:
    """HTML of the explanation: one foldable part per section, every name escaped."""
    head, *rest = explain(graph, topology, result, estimate).split("\n\n")
    parts = [f'<pre style="{_STYLE}"><strong>{escape(head)}</strong></pre>']
    for section in rest:
        title, _, body = section.partition("\n")
        parts.append(
            f"<details open><summary>{escape(title)}</summary>"
            f'<pre style="{_STYLE}">{escape(body)}</pre></details>'
        )
    return f"<div>{''.join(parts)}</div>"
