"""What the verifier and the parser say of a damaged graph, to the letter."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from shardwright.errors import GraphError
from shardwright.ir import Graph, Op, Region, Role, Tensor, parse_graph, verify_graph

SCAN = """\
graph "g"
inputs
  %0 f32[4,8] batch "x"
  %1 f32[8] parameter "w"
literals
  %2 i32[] constant = 1
ops
  #0 %6 f32[8] output, %7 f32[4,8] output = \
scan(%1, %0) {length=4, num_carry=1, num_consts=0} at "m.py:3" {
    region "body" (%3 f32[8], %4 f32[8]) -> (%5, %5) {
      #1 %5 f32[8] = add(%3, %4)
    }
  }
outputs %6 %7
state %1->%6
"""

WHILE = """\
graph "g"
inputs
  %0 f32[8] batch "x"
literals
ops
  #0 %5 f32[8] = while(%0) {body_nconsts=0, cond_nconsts=0} {
    region "cond" (%1 f32[8]) -> (%2) {
      #1 %2 bool[] = any(%1)
    }
    region "body" (%3 f32[8]) -> (%4) {
      #2 %4 f32[8] = neg(%3)
    }
  }
outputs %5
state
"""

COND = """\
graph "g"
inputs
  %0 i32[] input "i"
  %1 f32[8] batch "x"
literals
ops
  #0 %4 f32[8] = cond(%0, %1) {
    region "branch0" (%2 f32[8]) -> (%2) {
    }
    region "branch1" (%3 f32[8]) -> (%3) {
    }
  }
outputs %4
state
"""

REMAT = """\
graph "g"
inputs
  %0 f32[8] batch "x"
literals
ops
  #0 %2 f32[8] = remat2(%0) {
    region "body" (%1 f32[8]) -> (%1) {
    }
  }
outputs %2
state
"""

BROKEN = [
    (
        SCAN,
        "add(%3, %4)",
        "add(%3, %0)",
        "x is used outside the region that it belongs to\n"
        "  where  add #1\n"
        "  try    pass it in as an operand; it is defined by the inputs",
    ),
    (
        SCAN,
        "scan(%1, %0)",
        "scan(%1, %7)",
        "%7 is used before it is defined\n  where  scan #0 at m.py:3",
    ),
    (
        SCAN,
        "outputs %6 %7",
        "outputs %6 %17",
        "tensor %17 is not among the 8 of the table\n  where  the outputs",
    ),
    (
        SCAN,
        "#1 %5",
        "#0 %5",
        "operator id #0 occurs twice\n  where  add #0",
    ),
    (
        SCAN,
        "num_carry=1",
        "num_carry=one",
        "line 8 of the graph's text cannot be read:"
        ' expected attributes such as {axis=0, mode="clip"} (a value is missing)\n'
        "  where  column 57 of: #0 %6 f32[8] output, %7 f32[4,8] output ="
        ' scan(%1, %0) {length=4, num_carry=one, num_consts=0} at "m.py:3" {',
    ),
    (
        SCAN,
        "num_carry=1",
        "num_carry=None",
        "attribute num_carry of scan is None, not a count\n  where  scan #0 at m.py:3",
    ),
    (
        SCAN,
        "length=4",
        "length=5",
        "scan runs 5 times over a stack of shape (4, 8)\n  where  scan #0 at m.py:3",
    ),
    (
        SCAN,
        "(%3 f32[8], %4 f32[8])",
        "(%3 f32[8], %4 bf16[8])",
        "input 1 of the region is bfloat16[8], not float32[8]\n"
        "  where  region body of scan #0 at m.py:3",
    ),
    (
        SCAN,
        "-> (%5, %5)",
        "-> (%5)",
        "the region has 1 outputs for 2\n  where  region body of scan #0 at m.py:3",
    ),
    (
        SCAN,
        "state %1->%6",
        "state %1->%7",
        "state w is float32[8] but its next value is float32[4, 8]\n  where  state pair %1 -> %7",
    ),
    (
        SCAN,
        "state %1->%6",
        "state %3->%6",
        "a state pair leads from an input to an output, but %3 is no input\n"
        "  where  state pair %3 -> %6",
    ),
    (
        SCAN,
        "state %1->%6",
        "state %1->%5",
        "a state pair leads from an input to an output, but %5 is no output\n"
        "  where  state pair %1 -> %5",
    ),
    (
        SCAN,
        "state %1->%6",
        "state %1->%6 %1->%6",
        "input %1 is replaced by two outputs\n  where  state pair %1 -> %6",
    ),
    (
        SCAN,
        "parameter",
        "batch",
        "state w has role batch\n  where  state pair %1 -> %6",
    ),
    (
        SCAN,
        "i32[] constant = 1",
        "i32[] constant",
        "%2 is never defined: no input, no result, no literal\n  where  row 2 of the tensor table",
    ),
    (
        SCAN,
        "i32[] constant = 1",
        "i32[3] constant = 1",
        "%2 has the value 1 but is no scalar constant: shape (3,), role constant\n"
        "  where  row 2 of the tensor table",
    ),
    (
        SCAN,
        "%1 f32[8]",
        "%1 float23[8]",
        "'float23' is not a known element type\n"
        '  try    did you mean "float32" or "float0" or "float64"?',
    ),
    (
        WHILE,
        "%2 bool[]",
        "%2 bool[8]",
        "output 0 of the region is bool[8], not bool[]\n  where  region cond of while #0",
    ),
    (
        WHILE,
        "%4 f32[8]",
        "%4 f32[9]",
        "output 0 of the region is float32[9], not float32[8]\n  where  region body of while #0",
    ),
    (
        COND,
        "%0 i32[]",
        "%0 i32[1]",
        "the first operand of cond is not a scalar index\n  where  cond #0",
    ),
    (
        COND,
        "(%3 f32[8])",
        "(%3 f32[7])",
        "input 0 of the region is float32[7], not float32[8]\n  where  region branch1 of cond #0",
    ),
    (
        REMAT.replace('    region "body" (%1 f32[8]) -> (%1) {\n    }\n', ""),
        "%2 f32[8]",
        "%1 f32[8]",
        "remat2 has 0 regions, not 1\n  where  remat2 #0",
    ),
    (
        REMAT,
        "-> (%1) {\n    }\n",
        '-> (%1) {\n    }\n    region "more" () -> () {\n    }\n',
        "remat2 has 2 regions, not 1\n  where  remat2 #0",
    ),
]


@pytest.mark.parametrize("text", [SCAN, WHILE, COND, REMAT])
def test_the_whole_graphs_are_sound(text: str) -> None:
    verify_graph(parse_graph(text))


@pytest.mark.parametrize(("text", "old", "new", "message"), BROKEN)
def test_a_broken_rule_is_named(text: str, old: str, new: str, message: str) -> None:
    assert text.count(old) >= 1
    with pytest.raises(GraphError) as raised:
        verify_graph(parse_graph(text.replace(old, new, 1)))
    assert str(raised.value) == message


def _graph(**changes: Any) -> Graph:
    tensor = Tensor(id=0, shape=(2,), dtype="float32", role=Role.BATCH, name="x")
    whole = Graph(name="g", tensors=(tensor,), inputs=(0,), outputs=(0,), ops=())
    return dataclasses.replace(whole, **changes)


def test_rows_and_shapes() -> None:
    tensor = _graph().tensors[0]
    with pytest.raises(GraphError) as raised:
        verify_graph(_graph(tensors=(dataclasses.replace(tensor, id=3),)))
    assert str(raised.value) == "tensor %3 stands in row 0\n  where  row 0 of the tensor table"
    with pytest.raises(GraphError) as raised:
        verify_graph(_graph(tensors=(dataclasses.replace(tensor, shape=(-1,)),)))
    assert str(raised.value) == (
        "x has a negative size: shape (-1,)\n  where  row 0 of the tensor table"
    )


def test_one_definition_only() -> None:
    region = Region(name="body", inputs=(0,), outputs=(), ops=())
    op = Op(id=0, kind="call", operands=(), results=(), regions=(region,), source="m.py:1")
    with pytest.raises(GraphError) as raised:
        verify_graph(_graph(ops=(op,)))
    assert str(raised.value) == (
        "tensor %0 is defined twice: by the inputs and by region body of call #0 at m.py:1\n"
        "  where  region body of call #0 at m.py:1"
    )


UNREADABLE = [
    ("", "the graph's text ends early, after line 1", ""),
    ('graph "g"\ninputs\n', "the graph's text ends early, after line 3", ""),
    (
        "grph",
        'line 1 of the graph\'s text cannot be read: expected graph "NAME"',
        "column 1 of: grph",
    ),
    (
        SCAN.replace("literals", "literal"),
        "line 5 of the graph's text cannot be read: expected a tensor such as %3 f32[8,64]",
        "column 1 of: literal",
    ),
    (
        SCAN.replace("%0 f32[4,8] batch", "%0 f32[4,8] bath"),
        "line 3 of the graph's text cannot be read: expected the end of the line",
        'column 12 of: %0 f32[4,8] bath "x"',
    ),
    (
        SCAN.replace("%1 f32[8]", "%0 f32[8]"),
        "line 4 of the graph's text cannot be read: expected a new tensor; %0 is defined above",
        'column 1 of: %0 f32[8] parameter "w"',
    ),
    (
        SCAN.replace("add(%3, %4)", "add(%3, x)"),
        "line 10 of the graph's text cannot be read: expected tensor numbers such as %3, %4)",
        "column 20 of: #1 %5 f32[8] = add(%3, x)",
    ),
    (
        SCAN.replace("#1 %5", "1 %5"),
        "line 10 of the graph's text cannot be read: expected an operator such as #7",
        "column 1 of: 1 %5 f32[8] = add(%3, %4)",
    ),
    (
        SCAN.replace("length=4", "length"),
        "line 8 of the graph's text cannot be read:"
        ' expected attributes such as {axis=0, mode="clip"} (a name is missing)',
        "column 57",
    ),
    (
        SCAN.replace("%1->%6", "%1=%6"),
        "line 14 of the graph's text cannot be read:"
        " expected tensor numbers after `state`, not %1=%6",
        "column 1 of: state %1=%6",
    ),
    (
        SCAN + "more",
        "line 15 of the graph's text cannot be read: expected the end of the graph",
        "column 1 of: more",
    ),
    (
        SCAN.replace("%2 i32[]", "%9 i32[]"),
        "the graph's text defines 8 tensors but not %2",
        "",
    ),
]


@pytest.mark.parametrize(("text", "what", "where"), UNREADABLE)
def test_an_unreadable_line_is_named(text: str, what: str, where: str) -> None:
    with pytest.raises(GraphError) as raised:
        parse_graph(text)
    assert raised.value.what == what
    assert raised.value.where.startswith(where)
