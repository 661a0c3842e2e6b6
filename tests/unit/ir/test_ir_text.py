"""The printed form of a graph: readable, and read back as the same graph."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.ir import (
    Attribute,
    Graph,
    Op,
    Region,
    Role,
    Tensor,
    parse_graph,
    print_graph,
    print_op,
    verify_graph,
)

SCAN_GRAPH = Graph(
    name="train_step",
    tensors=(
        Tensor(id=0, shape=(4, 8, 8), dtype="float32", role=Role.PARAMETER, name="params.w"),
        Tensor(id=1, shape=(2, 8), dtype="bfloat16", role=Role.BATCH, name="batch.x"),
        Tensor(id=2, shape=(8, 8), dtype="float32", role=Role.ACTIVATION),
        Tensor(id=3, shape=(2, 8), dtype="bfloat16", role=Role.ACTIVATION),
        Tensor(id=4, shape=(2, 8), dtype="bfloat16", role=Role.ACTIVATION),
        Tensor(id=5, shape=(), dtype="float32", role=Role.CONSTANT, value=math.inf),
        Tensor(id=6, shape=(2, 8), dtype="bfloat16", role=Role.OUTPUT, name="result.1"),
        Tensor(id=7, shape=(4, 8, 8), dtype="float32", role=Role.OUTPUT, name="params.w"),
        Tensor(id=8, shape=(), dtype="key<fry>", role=Role.INPUT, name="key"),
    ),
    inputs=(0, 1, 8),
    outputs=(7, 6),
    ops=(
        Op(
            id=0,
            kind="scan",
            operands=(1, 0),
            results=(6,),
            attributes=(
                ("length", 4),
                ("num_carry", 1),
                ("num_consts", 0),
                ("reverse", False),
            ),
            regions=(
                Region(
                    name="body",
                    inputs=(3, 2),
                    outputs=(4,),
                    ops=(
                        Op(
                            id=1,
                            kind="dot_general",
                            operands=(3, 2),
                            results=(4,),
                            attributes=(("dimension_numbers", (((1,), (0,)), ((), ()))),),
                            scope="layers/mlp",
                            source="model.py:88",
                        ),
                    ),
                ),
            ),
            source="model.py:80",
        ),
        Op(id=2, kind="scatter-add", operands=(0, 5), results=(7,)),
        Op(id=3, kind="debug_print", operands=(6,), results=()),
    ),
    state_pairs=((0, 7),),
)

SCAN_TEXT = """\
graph "train_step"
inputs
  %0 f32[4,8,8] parameter "params.w"
  %1 bf16[2,8] batch "batch.x"
  %8 key<fry>[] input "key"
literals
  %5 f32[] constant = inf
ops
  #0 %6 bf16[2,8] output "result.1" = scan(%1, %0) \
{length=4, num_carry=1, num_consts=0, reverse=False} at "model.py:80" {
    region "body" (%3 bf16[2,8], %2 f32[8,8]) -> (%4) {
      #1 %4 bf16[2,8] = dot_general(%3, %2) \
{dimension_numbers=(((1,), (0,)), ((), ()))} in "layers/mlp" at "model.py:88"
    }
  }
  #2 %7 f32[4,8,8] output "params.w" = scatter-add(%0, %5)
  #3 debug_print(%6)
outputs %7 %6
state %0->%7
"""


def test_a_graph_reads_like_a_program() -> None:
    verify_graph(SCAN_GRAPH)
    assert print_graph(SCAN_GRAPH) == SCAN_TEXT


def test_text_reads_back_as_the_same_graph() -> None:
    assert parse_graph(SCAN_TEXT) == SCAN_GRAPH


def test_blank_lines_and_indents_do_not_matter() -> None:
    loose = "\n\n".join(line.strip() for line in SCAN_TEXT.splitlines())
    assert parse_graph(loose) == SCAN_GRAPH


def test_the_empty_graph() -> None:
    graph = Graph(name="", tensors=(), inputs=(), outputs=(), ops=())
    assert parse_graph(print_graph(graph)) == graph


def test_one_operator_prints_without_its_regions() -> None:
    assert print_op(SCAN_GRAPH, SCAN_GRAPH.ops[2]) == "#3 debug_print(%6)"
    assert "\n" not in print_op(SCAN_GRAPH, SCAN_GRAPH.ops[0])


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.just(math.nan),
)
ATTRIBUTES: st.SearchStrategy[Attribute] = st.recursive(
    st.one_of(st.none(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
ATTRIBUTE_NAMES = st.from_regex(r"[a-z_][a-z0-9_.\-]{0,9}", fullmatch=True)


@st.composite
def graphs(draw: Any) -> Graph:
    """Small graphs with one region, odd names, and any literals."""
    value = draw(NUMBERS)
    shape = tuple(draw(st.lists(st.integers(0, 10**12), max_size=3)))
    attributes = draw(st.dictionaries(ATTRIBUTE_NAMES, ATTRIBUTES, max_size=4))
    tensors = [
        Tensor(id=0, shape=shape, dtype=draw(DTYPES), role=Role.BATCH, name=draw(TEXTS)),
        Tensor(id=1, shape=(), dtype="float32", role=Role.CONSTANT, value=value, name=draw(TEXTS)),
        Tensor(id=2, shape=shape, dtype=draw(DTYPES), role=draw(ROLES), name=draw(TEXTS)),
        Tensor(id=3, shape=shape, dtype=draw(DTYPES), role=draw(ROLES), name=draw(TEXTS)),
    ]
    inner = Op(
        id=draw(st.integers(0, 5)),
        kind="pad",
        operands=(1, 1),
        results=(),
        attributes=tuple(sorted(attributes.items())),
        scope=draw(TEXTS),
        source=draw(TEXTS),
    )
    region = Region(name=draw(TEXTS), inputs=(2,), outputs=(2, 1), ops=(inner,) * draw(COUNTS))
    outer = Op(
        id=7,
        kind="custom.call-2",
        operands=(0,),
        results=(3,),
        attributes=inner.attributes,
        regions=(region,),
        scope=draw(TEXTS),
    )
    return Graph(name=draw(TEXTS), tensors=tuple(tensors), inputs=(0,), outputs=(3,), ops=(outer,))


DTYPES = st.sampled_from(["float32", "bool", "key<fry>", "float8_e4m3fn", "complex64", "uint4"])
ROLES = st.sampled_from(list(Role))
COUNTS = st.integers(0, 2)


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_any_graph_survives_its_text(graph: Graph) -> None:
    assert parse_graph(print_graph(graph)) == graph


@pytest.mark.parametrize("value", [0.0, -0.0, 1, True, 1.0, math.inf, -math.inf, 1e-300, 2**70])
def test_values_keep_their_type_and_sign(value: float) -> None:
    tensor = Tensor(id=0, shape=(), dtype="float32", role=Role.CONSTANT, value=value)
    graph = Graph(name="g", tensors=(tensor,), inputs=(), outputs=(0,), ops=())
    back = parse_graph(print_graph(graph)).tensors[0].value
    assert repr(back) == repr(value)


def test_lines_and_names_are_no_part_of_the_fingerprint() -> None:
    renamed = dataclasses.replace(
        SCAN_GRAPH, tensors=tuple(dataclasses.replace(t, name="") for t in SCAN_GRAPH.tensors)
    )
    assert renamed.fingerprint == SCAN_GRAPH.fingerprint
    assert parse_graph(SCAN_TEXT).fingerprint == SCAN_GRAPH.fingerprint
