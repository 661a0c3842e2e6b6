"""What XLA really does: the collectives and memory of a compiled program, from its own text.

Sizes are bytes per device of one run: of the result, or of the input for a reduce-scatter; the same
convention as a plan's, so the two compare. Loop bodies count by their trip counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from shardwright.errors import ExecuteError
from shardwright.execute.groups import Groups, parse_groups, parse_pairs
from shardwright.execute.hlo import (
    Computation,
    Instruction,
    Module,
    element_bytes,
    element_type,
    parse_module,
)
from shardwright.execute.loops import Runs, runs_of
from shardwright.execute.own_slice import keeps_own_slice
from shardwright.sharding import CollectiveKind

_KINDS: dict[str, str] = {
    "all-gather": CollectiveKind.ALL_GATHER.value,
    "all-reduce": CollectiveKind.ALL_REDUCE.value,
    "reduce-scatter": CollectiveKind.REDUCE_SCATTER.value,
    "all-to-all": CollectiveKind.ALL_TO_ALL.value,
    "ragged-all-to-all": CollectiveKind.ALL_TO_ALL.value,
    "collective-permute": CollectiveKind.PERMUTE.value,
    "collective-broadcast": "broadcast",
}
_COMBINED = frozenset({"all-gather", "all-reduce", "reduce-scatter"})
"""Collectives whose tuple results are separate tensors that XLA sends together."""
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_FILE = re.compile(r'source_file="([^"]*)"(?:\s+source_line=(\d+))?')
_FRAME = re.compile(r"stack_frame_id=(\d+)")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCollective:
    """One collective of a compiled program, or one tensor of a combined one.

    Attributes:
        kind: a ``CollectiveKind`` value; an all-reduce of which each device keeps only its own
            slice counts as a reduce-scatter.
        groups: positions in the mesh that talk to each other; (source, target) pairs of a permute.
        size_bytes: per device and run, of the result (of a reduce-scatter, the input).
        runs: times per step.
        op_name: JAX's name of the operator, name stack included.
        source: the user's line, such as ``model.py:88``; may be empty.
        opcode: how the text writes it.
        dtype: XLA's name of the element type that moves, such as ``f32``; empty where mixed.
        runs_known: False when a loop around it has no trip count in the text and counts as one.
    """

    kind: str
    groups: Groups
    size_bytes: int
    runs: int
    op_name: str
    source: str
    opcode: str
    dtype: str = ""
    runs_known: bool = True

    @property
    def step_bytes(self) -> int:
        """Bytes per device and step."""
        return self.size_bytes * self.runs


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMemory:
    """Bytes per device that a compiled program asks for."""

    argument_bytes: int
    output_bytes: int
    temporary_bytes: int
    alias_bytes: int

    @property
    def peak_bytes(self) -> int:
        """Arguments, outputs and temporaries; donated buffers counted once."""
        return self.argument_bytes + self.output_bytes + self.temporary_bytes - self.alias_bytes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """What one compiled program does."""

    collectives: tuple[MeasuredCollective, ...]
    memory: MeasuredMemory


def read_back(compiled: Any) -> ReadBack:
    """The collectives and memory of a ``jax.stages.Compiled``.

    Raises:
        ExecuteError: the backend gives no text for its programs.
    """
    text = compiled.as_text()
    if text is None:
        raise ExecuteError(
            "the compiled program has no text to read back",
            hint="a backend of XLA (CPU, GPU, TPU)",
        )
    return ReadBack(collectives=parse_collectives(text), memory=memory_of(compiled))


def memory_of(compiled: Any) -> MeasuredMemory:
    """Bytes per device of a compiled program; XLA's own peak is wrong on CPU and left aside."""
    stats = compiled.memory_analysis()
    return MeasuredMemory(
        argument_bytes=stats.argument_size_in_bytes,
        output_bytes=stats.output_size_in_bytes,
        temporary_bytes=stats.temp_size_in_bytes,
        alias_bytes=stats.alias_size_in_bytes,
    )


def parse_collectives(text: str) -> tuple[MeasuredCollective, ...]:
    """The collectives that a compiled module's text runs."""
    module = parse_module(text)
    runs = runs_of(module)
    return tuple(
        collective
        for computation in module.computations
        if runs[computation.name].times
        for item in computation.instructions
        if item.opcode.removesuffix("-start") in _KINDS
        for collective in _measured(module, computation, item, runs[computation.name])
    )


def _measured(
    module: Module, computation: Computation, item: Instruction, runs: Runs
) -> Iterator[MeasuredCollective]:
    opcode = item.opcode.removesuffix("-start")
    groups = (
        parse_pairs(item.attributes)
        if opcode == "collective-permute"
        else parse_groups(item.attributes, module.num_partitions)
    )
    for index, (value, size_bytes) in enumerate(_tensors(computation, item, opcode)):
        kind = _KINDS[opcode]
        if opcode == "all-reduce" and keeps_own_slice(module, computation, value, len(groups[0])):
            kind = CollectiveKind.REDUCE_SCATTER.value
        named = _named(computation, item, value, index)
        yield MeasuredCollective(
            kind=kind,
            groups=groups,
            size_bytes=size_bytes * (len(groups[0]) if opcode == "reduce-scatter" else 1),
            runs=runs.times,
            op_name=_first(_OP_NAME, named.attributes),
            source=_source(module, named.attributes),
            opcode=opcode,
            dtype=element_type(value.shape),
            runs_known=runs.known,
        )


def _tensors(
    computation: Computation, item: Instruction, opcode: str
) -> Iterator[tuple[Instruction, int]]:
    """Each tensor that a collective gives, as the instruction that holds it and its bytes."""
    held = _finished(computation, item)
    sizes = element_bytes(held.shape)
    if opcode not in _COMBINED:
        yield held, sum(sizes)
    elif not held.shape.startswith("("):
        yield held, sizes[0]
    else:
        elements = {
            user.attributes.rpartition("index=")[2].split(",")[0]: user
            for user in computation.users.get(held.name, ())
            if user.opcode == "get-tuple-element"
        }
        for index, size_bytes in enumerate(sizes):
            yield elements.get(str(index), held), size_bytes


def _finished(computation: Computation, item: Instruction) -> Instruction:
    """The instruction whose result is the collective's: its ``-done`` half where it has one."""
    if item.opcode.endswith("-start"):
        for user in computation.users.get(item.name, ()):
            if user.opcode.endswith("-done"):
                return user
    return item


def _named(
    computation: Computation, item: Instruction, value: Instruction, index: int
) -> Instruction:
    """Whose metadata speaks for one tensor: its own, the collective's, or its maker's."""
    maker = computation.by_name.get(item.operands[index]) if index < len(item.operands) else None
    for candidate in (value, item, maker):
        if candidate is not None and _OP_NAME.search(candidate.attributes):
            return candidate
    return item


def _source(module: Module, attributes: str) -> str:
    if match := _FILE.search(attributes):
        file, line = match.groups()
    else:
        frame = _first(_FRAME, attributes)
        file, _, line = module.frames.get(int(frame or 0), "").rpartition(":")
    return f"{file.rpartition('/')[2]}:{line}" if file else ""


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""
