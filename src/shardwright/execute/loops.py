"""How often each computation of a compiled program runs in one step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

from shardwright.execute.hlo import Instruction, Module

_TRIPS = re.compile(r'known_trip_count"?:\s*\{\s*"?n"?:\s*"?(\d+)')
_CONDITION = re.compile(r"condition=%?([\w.\-]+)")
_COUNTER = re.compile(r"^[su]\d+\[\]")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Times per step, and whether every loop around has a trip count in the text."""

    times: int
    known: bool


def runs_of(module: Module) -> dict[str, Runs]:
    """For each computation's name how often a step runs it; branches count as if always taken."""
    found: dict[str, Runs] = {}
    for computation in module.computations:
        _visit(module, computation.name, found)
    return found


def _visit(module: Module, name: str, found: dict[str, Runs]) -> Runs:
    if name in found:
        return found[name]
    times = 1 if module.by_name[name].is_entry else 0
    known = True
    for caller, site in module.callers.get(name, ()):
        # The halves of an asynchronous call name the same computation: only its start runs it.
        if site.opcode.endswith(("-done", "-update")):
            continue
        outer = _visit(module, caller.name, found)
        trips = trip_count(module, site) if site.opcode == "while" else 1
        times += outer.times * (1 if trips is None else trips)
        known = known and outer.known and trips is not None
    found[name] = Runs(times=times, known=known)
    return found[name]


def trip_count(module: Module, loop: Instruction) -> int | None:
    """How often a ``while`` runs its body, where the text tells."""
    if match := _TRIPS.search(loop.attributes):
        return int(match.group(1))
    condition = _CONDITION.search(loop.attributes)
    block = module.by_name.get(condition.group(1)) if condition else None
    bounds = [
        int(item.literal)
        for item in (block.instructions if block else ())
        if item.opcode == "constant" and _COUNTER.match(item.shape) and item.literal.isdigit()
    ]
    # A counted loop compares its counter, from zero by one, with the one constant there.
    return bounds[0] if len(bounds) == 1 else None
