"""Whether a device keeps only its own slice of a value that a collective gave to all.

XLA on CPU never writes a reduce-scatter: it reduces the whole on every device and each device then
cuts out its own part. What moves and what is kept is a reduce-scatter's, so it counts as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from shardwright.execute.hlo import Computation, Instruction, Module, num_elements

_CALLS = frozenset({"fusion", "call"})
_KEEPS_ELEMENTS = frozenset(
    {"bitcast", "bitcast-convert", "convert", "copy", "reshape", "transpose", "negate", "abs"}
    | {"add", "subtract", "multiply", "divide", "maximum", "minimum", "select", "sqrt", "rsqrt"}
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    module: Module
    wanted: int
    """How many elements a device's own slice has."""


def keeps_own_slice(
    module: Module, computation: Computation, value: Instruction, group_size: int
) -> bool:
    """Whether every use of ``value`` takes one part in ``group_size``, where the device says.

    Elementwise operators on the way to the slice are looked through.
    """
    elements = num_elements(value.shape)
    if group_size < 2 or elements % group_size:
        return False
    search = _Search(module=module, wanted=elements // group_size)
    return _only_sliced(search, computation, value)


def _only_sliced(search: _Search, computation: Computation, value: Instruction) -> bool:
    users = computation.users.get(value.name, ())
    if value.is_root:
        sites = search.module.callers.get(computation.name, ())
        inlined = bool(sites) and all(site.opcode in _CALLS for _, site in sites)
        if not inlined or not all(_only_sliced(search, *site) for site in sites):
            return False
    elif not users:
        return False
    return all(_use_is_slice(search, computation, value, user) for user in users)


def _use_is_slice(
    search: _Search, computation: Computation, value: Instruction, user: Instruction
) -> bool:
    if user.opcode == "dynamic-slice":
        sliced = user.operands[0] == value.name and num_elements(user.shape) == search.wanted
        offsets = user.operands[1:]
        return sliced and any(_of_device(search.module, computation, o, set()) for o in offsets)
    if user.opcode in _CALLS and user.called:
        inner = search.module.by_name[user.called[0]]
        positions = [i for i, name in enumerate(user.operands) if name == value.name]
        return all(_only_sliced(search, inner, inner.parameters[i]) for i in positions)
    if user.opcode in _KEEPS_ELEMENTS and num_elements(user.shape) == num_elements(value.shape):
        return _only_sliced(search, computation, user)
    return False


def _of_device(module: Module, computation: Computation, name: str, seen: set[str]) -> bool:
    """Whether a value is computed from the device's own number."""
    item = computation.by_name.get(name)
    if item is None or name in seen:
        return False
    seen.add(name)
    if item.opcode in ("partition-id", "replica-id"):
        return True
    if item.opcode == "parameter":
        sites = module.callers.get(computation.name, ())
        return any(
            _of_device(module, outer, site.operands[int(item.literal)], seen)
            for outer, site in sites
            if site.opcode in _CALLS
        )
    if item.opcode == "get-tuple-element" and _is_loop_state(module, computation, item):
        return _enters_with_device(module, computation, item, seen)
    return any(_of_device(module, computation, operand, seen) for operand in item.operands)


def _is_loop_state(module: Module, computation: Computation, item: Instruction) -> bool:
    source = computation.by_name.get(item.operands[0])
    sites = module.callers.get(computation.name, ())
    return (
        source is not None
        and source.opcode == "parameter"
        and any(site.opcode == "while" for _, site in sites)
    )


def _enters_with_device(
    module: Module, computation: Computation, item: Instruction, seen: set[str]
) -> bool:
    """Whether that element of a loop's state came from the device's number when the loop began."""
    position = int(item.attributes.rpartition("index=")[2].split(",")[0])
    for outer, site in module.callers[computation.name]:
        start = outer.by_name.get(site.operands[0]) if site.opcode == "while" else None
        if (
            start is not None
            and start.opcode == "tuple"
            and _of_device(module, outer, start.operands[position], seen)
        ):
            return True
    return False
