"""Compiled HLO text as computations and instructions, as much of it as reading back needs.

Source:
    The text is XLA's own (``HloModule::ToString``, openxla/xla, hlo/ir): one computation per block,
    one instruction per line, ``name = shape opcode(operands), attributes``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

_ITEMSIZE_BITS = {"pred": 8, "token": 0, "opaque": 0, "s4": 8, "u4": 8, "s2": 8, "u2": 8}
_LEAF = re.compile(r"([a-z]\w*)\[([0-9,<=]*)\]|(token)\b|(opaque)\b")
_BITS = re.compile(r"\d+")
_HEADER = re.compile(r"^(?!HloModule)(ENTRY )?%?([\w.\-]+) (?:.* )?\{\s*$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(
    r"(?:to_apply|calls|body|condition|true_computation|false_computation)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"(?:branch_computations|called_computations)=\{([^}]*)\}")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One line of a computation.

    Attributes:
        name: unique in the module.
        opcode: such as ``all-gather`` or ``fusion``.
        shape: text of the result's shape, layouts included.
        operands: names of what it reads; for a parameter or a constant, none.
        literal: the text between its brackets.
        attributes: the text after its brackets.
        is_root: whether it is what the computation returns.
    """

    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...]
    literal: str
    attributes: str
    is_root: bool

    @property
    def called(self) -> tuple[str, ...]:
        """Names of the computations that it runs."""
        branches = _BRANCHES.search(self.attributes)
        names = re.findall(r"%?([\w.\-]+)", branches.group(1)) if branches else []
        return (*_CALLED.findall(self.attributes), *names)


@final
@dataclass(frozen=True, kw_only=True)
class Computation:
    """One block of instructions."""

    name: str
    is_entry: bool
    instructions: tuple[Instruction, ...]

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        """The instructions by name."""
        return {item.name: item for item in self.instructions}

    @cached_property
    def users(self) -> dict[str, tuple[Instruction, ...]]:
        """For each name the instructions that read it."""
        found: dict[str, list[Instruction]] = {}
        for item in self.instructions:
            for operand in dict.fromkeys(item.operands):
                found.setdefault(operand, []).append(item)
        return {name: tuple(items) for name, items in found.items()}

    @cached_property
    def parameters(self) -> dict[int, Instruction]:
        """The parameters by position."""
        return {int(item.literal): item for item in self.instructions if item.opcode == "parameter"}


@final
@dataclass(frozen=True, kw_only=True)
class Module:
    """One compiled program."""

    computations: tuple[Computation, ...]
    num_partitions: int
    frames: dict[int, str]

    @cached_property
    def by_name(self) -> dict[str, Computation]:
        """The computations by name."""
        return {item.name: item for item in self.computations}

    @cached_property
    def callers(self) -> dict[str, tuple[tuple[Computation, Instruction], ...]]:
        """For each computation's name, who runs it."""
        found: dict[str, list[tuple[Computation, Instruction]]] = {}
        for computation in self.computations:
            for item in computation.instructions:
                for name in item.called:
                    found.setdefault(name, []).append((computation, item))
        return {name: tuple(sites) for name, sites in found.items()}


def parse_module(text: str) -> Module:
    """The computations, device count and source lines of a module's text."""
    lines = text.splitlines()
    partitions = re.search(r"num_partitions=(\d+)", lines[0] if lines else "")
    return Module(
        computations=tuple(_computations(lines)),
        num_partitions=int(partitions.group(1)) if partitions else 1,
        frames=_frames(lines),
    )


def element_bytes(shape: str) -> tuple[int, ...]:
    """Bytes of each top-level element of a shape's text; one for an array."""
    return tuple(_leaf_bytes(part) for part in _elements(shape))


def element_type(shape: str) -> str:
    """XLA's name of the element type, such as ``f32``; empty where a tuple holds several."""
    names = {name for name, *_ in _LEAF.findall(shape)}
    return names.pop() if len(names) == 1 else ""


def num_elements(shape: str) -> int:
    """How many numbers an array of that shape holds (the sum over a tuple)."""
    return sum(_count(dims) for _, dims, *_ in _LEAF.findall(shape))


def _computations(lines: list[str]) -> Iterator[Computation]:
    name, is_entry, items = "", False, list[Instruction]()
    for line in lines:
        if header := _HEADER.match(line):
            is_entry, name, items = bool(header.group(1)), header.group(2), []
        elif line.startswith("}") and name:
            yield Computation(name=name, is_entry=is_entry, instructions=tuple(items))
            name = ""
        elif name and (start := _INSTRUCTION.match(line)):
            items.append(_instruction(start, line[start.end() :]))


def _instruction(start: re.Match[str], rest: str) -> Instruction:
    shape_end = _close(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    shape, rest = rest[:shape_end], rest[shape_end:].lstrip()
    opcode, _, _ = rest.partition("(")
    close = _close(rest, len(opcode))
    inside = rest[len(opcode) + 1 : close]
    leaf = opcode in ("parameter", "constant")
    return Instruction(
        name=start.group(2),
        opcode=opcode,
        shape=shape,
        operands=() if leaf else _operands(inside),
        literal=inside,
        attributes=rest[close + 1 :],
        is_root=bool(start.group(1)),
    )


def _operands(inside: str) -> tuple[str, ...]:
    if "%" in inside:
        return tuple(_NAME.findall(inside))
    # Hand-written modules leave the percent signs out.
    return tuple(part.split()[-1] for part in _elements(f"({inside})") if part.strip())


def _close(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text)


def _elements(shape: str) -> Iterator[str]:
    if not shape.startswith("("):
        yield shape
        return
    depth, start = 0, 1
    for position, letter in enumerate(shape):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if (letter == "," and depth == 1) or (depth == 0 and position > 0):
            yield shape[start:position]
            start = position + 1
            if depth == 0:
                return


def _leaf_bytes(shape: str) -> int:
    return sum(
        _count(dims) * _itemsize_bits(dtype or token or opaque) // 8
        for dtype, dims, token, opaque in _LEAF.findall(shape)
    )


def _count(dims: str) -> int:
    product = 1
    for size in dims.split(","):
        product *= int(size.lstrip("<=")) if size else 1
    return product


def _itemsize_bits(dtype: str) -> int:
    if dtype in _ITEMSIZE_BITS:
        return _ITEMSIZE_BITS[dtype]
    digits = _BITS.search(dtype)
    return int(digits.group()) if digits else 0


def _frames(lines: list[str]) -> dict[int, str]:
    """Source lines by stack frame id, from the tables at the head of the text."""
    tables: dict[str, dict[int, str]] = {name: {} for name in _TABLES}
    table = None
    for line in lines:
        if line.strip() in tables:
            table = tables[line.strip()]
        elif table is not None and (row := re.match(r"^(\d+) (.*)$", line)):
            table[int(row.group(1))] = row.group(2)
        elif line.startswith(("%", "ENTRY")):
            break
    return {key: _frame_text(row, tables) for key, row in tables["StackFrames"].items()}


def _frame_text(row: str, tables: dict[str, dict[int, str]]) -> str:
    location = tables["FileLocations"].get(_field(row, "file_location_id"), "")
    file = tables["FileNames"].get(_field(location, "file_name_id"), "").strip('"')
    return f"{file}:{_field(location, 'line')}" if file else ""


def _field(row: str, name: str) -> int:
    match = re.search(rf"\b{name}=(\d+)", row)
    return int(match.group(1)) if match else 0
