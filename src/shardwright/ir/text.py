"""The printed form of a graph, one operator per line; ``parse.py`` reads it back unchanged.

::

    graph "train_step"
    inputs
      %0 f32[64,128] parameter "params.w"
      %1 f32[8,64] batch "batch.x"
    literals
      %2 f32[] constant = 0.5
    ops
      #0 %3 f32[8,128] = dot_general(%1, %0) {dimension_numbers=(((1,), (0,)), ((), ()))}
        in "mlp" at "model.py:88"
    outputs %5 %6
    state %0->%5

(an operator stands on one line; the example is broken to fit the page). A tensor is written where
it is defined: number, type, role unless it is an activation, the user's name, and its value if it
is a literal. Regions are indented blocks under their operator.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardwright.ir.graph import Graph, Op, Region, Role, Tensor
from shardwright.ir.literals import print_literal, quote

SHORT_DTYPES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "complex64": "c64",
    "complex128": "c128",
}
"""Short names of common element types; all others are written in full."""


def print_graph(graph: Graph) -> str:
    """The graph as text, ending with a line break; ``parse_graph`` gives back an equal graph."""
    lines = [f"graph {quote(graph.name)}", "inputs"]
    lines += ["  " + _declare(graph.tensor(row)) for row in graph.inputs]
    lines.append("literals")
    lines += ["  " + _declare(tensor) for tensor in _loose_tensors(graph)]
    lines.append("ops")
    for op in graph.ops:
        lines += _op_lines(graph, op, "  ")
    lines.append(" ".join(["outputs", *_rows(graph.outputs)]))
    lines.append(" ".join(["state", *(f"%{a}->%{b}" for a, b in graph.state_pairs)]))
    return "\n".join(lines) + "\n"


def print_op(graph: Graph, op: Op) -> str:
    """One operator as it stands in the printed graph, without its regions."""
    declared = ", ".join([_declare(graph.tensor(row)) for row in op.results])
    attributes = ", ".join([f"{name}={print_literal(value)}" for name, value in op.attributes])
    return "".join(
        [
            f"#{op.id} ",
            f"{declared} = " if declared else "",
            f"{op.kind}({', '.join(_rows(op.operands))})",
            f" {{{attributes}}}" if attributes else "",
            f" in {quote(op.scope)}" if op.scope else "",
            f" at {quote(op.source)}" if op.source else "",
        ]
    )


def _loose_tensors(graph: Graph) -> list[Tensor]:
    """Tensors that neither come in nor are written: literals."""
    defined = set(graph.inputs)
    for op in graph.walk():
        defined.update(op.results)
        for region in op.regions:
            defined.update(region.inputs)
    return [tensor for tensor in graph.tensors if tensor.id not in defined]


def _op_lines(graph: Graph, op: Op, indent: str) -> Iterator[str]:
    line = indent + print_op(graph, op)
    if not op.regions:
        yield line
        return
    yield line + " {"
    for region in op.regions:
        yield from _region_lines(graph, region, indent + "  ")
    yield indent + "}"


def _region_lines(graph: Graph, region: Region, indent: str) -> Iterator[str]:
    inputs = ", ".join([_declare(graph.tensor(row)) for row in region.inputs])
    outputs = ", ".join(_rows(region.outputs))
    yield f"{indent}region {quote(region.name)} ({inputs}) -> ({outputs}) {{"
    for op in region.ops:
        yield from _op_lines(graph, op, indent + "  ")
    yield indent + "}"


def _rows(rows: tuple[int, ...]) -> list[str]:
    return [f"%{row}" for row in rows]


def _declare(tensor: Tensor) -> str:
    dtype = SHORT_DTYPES.get(tensor.dtype, tensor.dtype)
    text = f"%{tensor.id} {dtype}[{','.join(map(str, tensor.shape))}]"
    if tensor.role is not Role.ACTIVATION:
        text += f" {tensor.role}"
    if tensor.name:
        text += f" {quote(tensor.name)}"
    if tensor.value is not None:
        text += f" = {tensor.value!r}"
    return text
