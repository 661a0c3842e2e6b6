"""Reading the printed form of a graph; ``text.py`` describes and writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn, final

from shardwright.errors import GraphError
from shardwright.ir.graph import Attribute, Graph, Op, Region, Role, Tensor
from shardwright.ir.literals import NUMBER, STRING, parse_attributes, parse_number, unquote
from shardwright.ir.text import SHORT_DTYPES

_LONG_DTYPES = {short: name for name, short in SHORT_DTYPES.items()}
_TENSOR = re.compile(
    rf"%(\d+) ([\w<>]+)\[([\d,]*)\](?: ({'|'.join(Role)}))?(?: ({STRING}))?"
    rf"(?: = (True|False|{NUMBER})(?![\w(]))?"
)
_OP_ID = re.compile(r"#(\d+) ")
_KIND = re.compile(r"([^\s()\"]+)\(")
_ROWS = re.compile(r"((?:%\d+(?:, )?)*)\)")
_ATTRIBUTES = re.compile(rf" \{{((?:[^\"{{}}]|{STRING})*)\}}")
_SCOPE = re.compile(rf" in ({STRING})")
_SOURCE = re.compile(rf" at ({STRING})")
_REGION = re.compile(rf"region ({STRING}) \(")
_ROW = re.compile(r"%(\d+)")
_PAIR = re.compile(r"%(\d+)->%(\d+)$")


def parse_graph(text: str) -> Graph:
    """The graph that a text of ``print_graph`` describes.

    Raises:
        GraphError: a line cannot be read; the message names it.
    """
    return _Parser(lines=text.split("\n")).graph()


@final
@dataclass(kw_only=True)
class _Parser:
    """A cursor over lines, and the tensors declared so far."""

    lines: list[str]
    number: int = 0
    position: int = 0
    tensors: dict[int, Tensor] = field(default_factory=dict)

    def graph(self) -> Graph:
        self.advance()
        name = unquote(self.expect(re.compile(rf"graph ({STRING})$"), 'graph "NAME"')[1])
        inputs = self.section("inputs", until="literals")
        self.section("literals", until="ops")
        ops = self.ops(until="outputs")
        outputs = tuple(int(word[1:]) for word in self.words("outputs", _ROW))
        self.advance()
        pairs = tuple(_pair(word) for word in self.words("state", _PAIR))
        self.end()
        return Graph(
            name=name,
            tensors=self.table(),
            inputs=inputs,
            outputs=outputs,
            ops=ops,
            state_pairs=pairs,
        )

    # -- lines --

    @property
    def line(self) -> str:
        return self.lines[self.number - 1]

    def advance(self) -> None:
        """Go to the next line that is not empty."""
        while self.number < len(self.lines):
            self.number += 1
            self.position = len(self.line) - len(self.line.lstrip(" "))
            if self.line.strip():
                return
        self.number = len(self.lines) + 1
        raise GraphError(
            f"the graph's text ends early, after line {len(self.lines)}",
            hint="the whole output of print_graph, down to its line of state pairs",
        )

    def fail(self, expected: str) -> NoReturn:
        indent = len(self.line) - len(self.line.lstrip(" "))
        raise GraphError(
            f"line {self.number} of the graph's text cannot be read: expected {expected}",
            where=f"column {self.position - indent + 1} of: {self.line.strip()}",
        )

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.line, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def expect(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        found = self.match(pattern)
        if found is None:
            self.fail(expected)
        return found

    def eat(self, literal: str) -> bool:
        if not self.line.startswith(literal, self.position):
            return False
        self.position += len(literal)
        return True

    def require(self, literal: str) -> None:
        if not self.eat(literal):
            self.fail(f"`{literal.strip()}`")

    def end_line(self) -> None:
        if self.line[self.position :].strip():
            self.fail("the end of the line")

    def end(self) -> None:
        for number in range(self.number + 1, len(self.lines) + 1):
            if self.lines[number - 1].strip():
                self.number = number
                self.position = len(self.line) - len(self.line.lstrip(" "))
                self.fail("the end of the graph")

    # -- parts --

    def section(self, title: str, until: str) -> tuple[int, ...]:
        """The tensors declared under a title."""
        if title != self.line.strip():
            self.advance()
            if self.line.strip() != title:
                self.fail(f"`{title}`")
        rows: list[int] = []
        self.advance()
        while self.line.strip() != until:
            rows.append(self.tensor())
            self.end_line()
            self.advance()
        return tuple(rows)

    def words(self, title: str, pattern: re.Pattern[str]) -> list[str]:
        title_, *words = self.line.split()
        if title_ != title:
            self.fail(f"`{title}`")
        for word in words:
            if not pattern.fullmatch(word):
                self.fail(f"tensor numbers after `{title}`, not {word}")
        return words

    def tensor(self) -> int:
        found = self.expect(_TENSOR, "a tensor such as %3 f32[8,64]")
        number, dtype, shape, role, name, value = found.groups()
        row = int(number)
        if row in self.tensors:
            self.position = found.start()
            self.fail(f"a new tensor; %{row} is defined above")
        self.tensors[row] = Tensor(
            id=row,
            shape=tuple(int(size) for size in shape.split(",")) if shape else (),
            dtype=_LONG_DTYPES.get(dtype, dtype),
            role=Role(role) if role else Role.ACTIVATION,
            name=unquote(name) if name else "",
            value=None if value is None else parse_number(value),
        )
        return row

    def tensor_list(self) -> tuple[int, ...]:
        rows = [self.tensor()]
        while self.eat(", "):
            rows.append(self.tensor())
        return tuple(rows)

    def rows(self) -> tuple[int, ...]:
        found = self.expect(_ROWS, "tensor numbers such as %3, %4)")
        return tuple(int(row) for row in _ROW.findall(found[1]))

    def ops(self, until: str) -> tuple[Op, ...]:
        ops: list[Op] = []
        self.advance()
        while not self.line.startswith(until, self.position):
            ops.append(self.op())
            self.advance()
        return tuple(ops)

    def op(self) -> Op:
        op_id = int(self.expect(_OP_ID, "an operator such as #7")[1])
        results: tuple[int, ...] = ()
        if self.line.startswith("%", self.position):
            results = self.tensor_list()
            self.require(" = ")
        kind = self.expect(_KIND, "an operator's kind and (")[1]
        operands = self.rows()
        attributes = self.attributes()
        scope, source = self.match(_SCOPE), self.match(_SOURCE)
        return Op(
            id=op_id,
            kind=kind,
            operands=operands,
            results=results,
            attributes=attributes,
            scope=unquote(scope[1]) if scope else "",
            source=unquote(source[1]) if source else "",
            regions=self.regions(),
        )

    def attributes(self) -> tuple[tuple[str, Attribute], ...]:
        found = self.match(_ATTRIBUTES)
        if found is None:
            return ()
        try:
            return parse_attributes(found[1])
        except ValueError as error:
            self.position = found.start(1)
            self.fail(f'attributes such as {{axis=0, mode="clip"}} ({error})')

    def regions(self) -> tuple[Region, ...]:
        if not self.eat(" {"):
            self.end_line()
            return ()
        self.end_line()
        regions: list[Region] = []
        self.advance()
        while not self.eat("}"):
            regions.append(self.region())
            self.advance()
        self.end_line()
        return tuple(regions)

    def region(self) -> Region:
        name = unquote(self.expect(_REGION, 'region "NAME" (')[1])
        inputs = () if self.eat(")") else self.tensor_list()
        if inputs:
            self.require(")")
        self.require(" -> (")
        outputs = self.rows()
        self.require(" {")
        self.end_line()
        ops = self.ops(until="}")
        self.require("}")
        self.end_line()
        return Region(name=name, inputs=inputs, outputs=outputs, ops=ops)

    def table(self) -> tuple[Tensor, ...]:
        for row in range(len(self.tensors)):
            if row not in self.tensors:
                raise GraphError(
                    f"the graph's text defines {len(self.tensors)} tensors but not %{row}",
                    hint="tensors are numbered from 0 without gaps",
                )
        return tuple(self.tensors[row] for row in range(len(self.tensors)))


def _pair(word: str) -> tuple[int, int]:
    before, after = word.split("->")
    return int(before[1:]), int(after[1:])
