"""What each input is for: parameter, optimizer state, batch, or plain input."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence

from shardwright.capture.arguments import Leaves
from shardwright.capture.dataflow import feeds_contraction, feeds_outputs
from shardwright.capture.pairing import pair_state
from shardwright.errors import CaptureError, did_you_mean
from shardwright.ir import Graph, Op, Role, Tensor
from shardwright.ir.dtypes import is_floating
from shardwright.ir.graph import STATE_ROLES

_PARAMETER_ARGUMENT = re.compile(r"param|weight|model|variables", re.IGNORECASE)
_INPUT_ROLES = frozenset(Role) - {Role.ACTIVATION, Role.OUTPUT}


def give_roles(
    graph: Graph, arguments: Leaves, result: Leaves, wanted: Mapping[str, Role | str]
) -> Graph:
    """The graph with names, roles and state pairs.

    A state tensor is an input that the step returns anew. It is a *parameter* when it is floating,
    a loss or metric depends on it, and it reaches a product, convolution or lookup; else it is
    *optimizer state* (moments, counters, running statistics, keys). An input that is not returned
    is *batch* when it has dims, else plain *input*; a whole argument that is called after
    parameters (frozen weights, a model to evaluate) is parameter all the same.

    Args:
        graph: as built, without names.
        arguments: names and structure of the leading inputs.
        result: names and structure of the outputs.
        wanted: the user's roles by pattern.

    Raises:
        CaptureError: a pattern matches no input, or a role is unknown.
    """
    overrides = _overrides(arguments.names, wanted)
    pairs = tuple(
        (graph.inputs[i], graph.outputs[o])
        for i, o in pair_state(graph, arguments, result)
        if overrides.get(arguments.names[i], Role.PARAMETER) in STATE_ROLES
    )
    named = _with_names(graph, arguments.names, result.names, dict(pairs))
    paired = dataclasses.replace(named, state_pairs=pairs)
    return _with_roles(paired, arguments.names, overrides)


def _overrides(names: Sequence[str], wanted: Mapping[str, Role | str]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for pattern, text in wanted.items():
        matched = fnmatch.filter(names, pattern)
        if not matched:
            raise CaptureError(
                f'roles: the pattern "{pattern}" matches no input of the step',
                hint=did_you_mean(pattern, names),
            )
        roles.update(dict.fromkeys(matched, _role(text)))
    return roles


def _role(text: Role | str) -> Role:
    allowed = {role.value for role in _INPUT_ROLES}
    if str(text) not in allowed:
        raise CaptureError(
            f'roles: "{text}" is not a role of an input', hint=did_you_mean(str(text), allowed)
        )
    return Role(str(text))


def _with_names(
    graph: Graph, in_names: Sequence[str], out_names: Sequence[str], pairs: Mapping[int, int]
) -> Graph:
    names = dict(zip(graph.outputs, out_names, strict=True))
    own = dict(zip(graph.inputs, in_names, strict=False))
    names |= {output: own[state] for state, output in pairs.items()}
    names |= own
    return _replace(graph, ((row, {"name": name}) for row, name in names.items()))


def _with_roles(graph: Graph, in_names: Sequence[str], overrides: Mapping[str, Role]) -> Graph:
    inputs = set(graph.inputs)
    roles = {
        row: Role.OUTPUT
        for row in graph.outputs
        if row not in inputs and graph.tensor(row).value is None
    }
    roles |= dict(zip(graph.inputs, _input_roles(graph, in_names), strict=False))
    for row, name in zip(graph.inputs, in_names, strict=False):
        roles[row] = overrides.get(name, roles[row])
    return _replace(graph, ((row, {"role": role}) for row, role in roles.items()))


def _input_roles(graph: Graph, in_names: Sequence[str]) -> list[Role]:
    state = {state for state, _ in graph.state_pairs}
    trained = _trained(graph)
    roles: list[Role] = []
    for row, name in zip(graph.inputs, in_names, strict=False):
        tensor = graph.tensor(row)
        if row in state:
            roles.append(Role.PARAMETER if row in trained else Role.OPTIMIZER_STATE)
        else:
            roles.append(_unpaired_role(tensor, name, graph))
    return roles


def _trained(graph: Graph) -> set[int]:
    """Floating inputs that the loss depends on and that take part in products or lookups."""
    replaced = {output for _, output in graph.state_pairs}
    metrics = [row for row in graph.outputs if row not in replaced]
    products = feeds_contraction(graph)
    floating = {row for row in graph.inputs if is_floating(graph.tensor(row).dtype)}
    if not metrics:
        return floating & products
    seen = feeds_outputs(graph, metrics, once=_training_loops(graph)) & floating
    return seen & products if products else seen


def _training_loops(graph: Graph) -> frozenset[int]:
    """Scans that run whole steps: they carry state in and its next value out.

    In one step the loss depends on the parameters, not on the moments; over several steps it
    depends on both, so only one trip may count.
    """
    pairs = set(graph.state_pairs)
    return frozenset(
        op.id
        for op in graph.ops
        if op.kind == "scan"
        and not pairs.isdisjoint(zip(_carried_in(op), op.results, strict=False))
    )


def _carried_in(op: Op) -> tuple[int, ...]:
    consts, carries = op.attribute("num_consts"), op.attribute("num_carry")
    if not isinstance(consts, int) or not isinstance(carries, int):
        return ()
    return op.operands[consts : consts + carries]


def _unpaired_role(tensor: Tensor, name: str, graph: Graph) -> Role:
    if tensor.rank == 0 or tensor.dtype.startswith("key<") or _is_raw_key(tensor, graph):
        return Role.INPUT
    if is_floating(tensor.dtype) and _PARAMETER_ARGUMENT.search(name.split(".")[0]):
        return Role.PARAMETER
    return Role.BATCH


def _is_raw_key(tensor: Tensor, graph: Graph) -> bool:
    """Whether unsigned words are wrapped into a random key, directly or slice by slice."""
    if tensor.dtype != "uint32" or tensor.shape[-1] not in (2, 4):
        return False
    known = {tensor.id}
    for op in graph.walk():
        if known.isdisjoint(op.operands):
            continue
        if op.kind in ("random_wrap", "random_unwrap", "threefry2x32"):
            return True
        if op.kind in ("slice", "squeeze", "reshape", "dynamic_slice", "gather"):
            known.update(op.results)
    return False


def _replace(graph: Graph, changes: Iterable[tuple[int, dict[str, object]]]) -> Graph:
    tensors = list(graph.tensors)
    for row, change in changes:
        tensors[row] = dataclasses.replace(tensors[row], **change)  # type: ignore[arg-type]
    return dataclasses.replace(graph, tensors=tuple(tensors))
