"""What capture hands on: the step as a graph, and the jaxpr that the graph was read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from shardwright.ir import Graph
from shardwright.jax_bridge import ClosedJaxpr, PyTreeDef


@final
@dataclass(frozen=True, kw_only=True)
class Captured:
    """A step, written down twice: for planning and for running.

    Attributes:
        graph: the step, free of any framework.
        jaxpr: the same step, normalised; equation k of each jaxpr, nested ones too, is operator k
            of the same region. Its consts follow the arguments' leaves in ``graph.inputs``.
        in_tree: structure of ``(args, kwargs)``; its leaves are the jaxpr's inputs, in order.
        out_tree: structure of the step's result; its leaves are the jaxpr's outputs, in order.
        in_names: one dotted path per leaf of the arguments, such as ``params.layers.3.w``.
        out_names: one dotted path per leaf of the result, such as ``result.0.layers.3.w``.
    """

    graph: Graph
    jaxpr: ClosedJaxpr
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    in_names: tuple[str, ...]
    out_names: tuple[str, ...]
