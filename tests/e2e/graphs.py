"""A graph written by hand, for tests that must load no framework."""

from __future__ import annotations

from shardwright.ir import Graph, parse_graph

TINY = """graph "tiny"
inputs
  %0 f32[64,32] parameter "params.w"
  %1 f32[16,64] batch "batch.x"
literals
ops
  #0 %2 f32[16,32] = dot_general(%1, %0) {dimension_numbers=(((1,), (0,)), ((), ()))}
outputs %2
state
"""


def tiny_graph() -> Graph:
    """One product of a batch and a weight."""
    return parse_graph(TINY)
