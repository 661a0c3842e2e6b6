"""Every run that a row's proof needs, in one compiled program.

A shard's own code (``local``) is called twice: first to learn what it binds, then, when all of that
has run in one program, to go on with the results. Compiling dominates the proof's time, and this
compiles each row once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import numpy as np
from jax.extend.core import JaxprEqn

from tests.conformance.rule_trace import Shard, Traced, as_tuple, bind, to_device, to_host

Outcome = tuple[np.ndarray, ...] | Exception
"""The results of a run, or why there are none."""


@final
@dataclass(frozen=True, kw_only=True)
class Call:
    """One application of a row's primitive: host operands, and parameters that differ."""

    operands: tuple[np.ndarray, ...]
    changed: dict[str, Any]

    @property
    def signature(self) -> str:
        """Equal for calls that one compiled operator serves."""
        types = [(operand.shape, operand.dtype) for operand in self.operands]
        return f"{types} {sorted(self.changed.items())}"


@final
class _BindingError(Exception):
    """Stops a shard's own code at the moment when it binds."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call


def run_shards(
    traced: Traced, shards: Sequence[tuple[Shard, tuple[np.ndarray, ...]]]
) -> tuple[tuple[np.ndarray, ...], list[Outcome]]:
    """The results of the whole run, and each shard's outcome."""
    local = traced.row.local or Shard.bind
    learned = [_learn(local, shard, operands) for shard, operands in shards]
    calls = [Call(operands=traced.operands, changed={})]
    calls += [call for call in learned if call is not None]
    whole, *answers = _run_calls(traced, calls)
    if isinstance(whole, Exception):
        raise whole
    following = iter(answers)
    return whole, [
        _finish(local, shard, operands, None if call is None else next(following))
        for (shard, operands), call in zip(shards, learned, strict=True)
    ]


def _learn(
    local: Callable[..., Any], shard: Shard, operands: tuple[np.ndarray, ...]
) -> Call | None:
    """What the shard's code binds first; None if it fails before, or binds nothing."""

    def stop(operands: Any, changed: dict[str, Any]) -> Any:
        raise _BindingError(Call(operands=tuple(map(to_host, operands)), changed=changed))

    try:
        local(replace(shard, binder=stop), *map(to_device, operands))
    except _BindingError as binding:
        return binding.call
    except Exception:
        return None
    return None


def _finish(
    local: Callable[..., Any],
    shard: Shard,
    operands: tuple[np.ndarray, ...],
    answer: Outcome | None,
) -> Outcome:
    """The outcome of the shard's code, given what it bound."""
    answers = [] if answer is None else [answer]

    def reply(operands: Any, changed: dict[str, Any]) -> Any:
        outcome = answers.pop() if answers else _run_alone(shard.traced, operands, changed)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome[0] if len(outcome) == 1 else outcome

    try:
        made = local(replace(shard, binder=reply), *map(to_device, operands))
    except Exception as error:
        return error
    return tuple(map(to_host, as_tuple(made)))


def _run_calls(traced: Traced, calls: list[Call]) -> list[Outcome]:
    groups: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        groups.setdefault(call.signature, []).append(place)
    try:
        return _run_groups(traced.eqn, calls, list(groups.values()))
    except Exception:
        # One call that does not compile must not take the others with it.
        return [_run_alone(traced, call.operands, call.changed) for call in calls]


def _run_groups(eqn: JaxprEqn | None, calls: list[Call], groups: list[list[int]]) -> list[Outcome]:
    assert eqn is not None
    errors: dict[int, Exception] = {}

    def program(operands: list[list[Any]]) -> list[tuple[Any, ...]]:
        results: list[tuple[Any, ...]] = []
        for group, arrays in zip(groups, operands, strict=True):
            try:
                results.append(as_tuple(bind(eqn, arrays, **calls[group[0]].changed)))
            except Exception as error:
                errors.update(dict.fromkeys(group, error))
                results.append(())
        return results

    compiled = jax.jit(program)
    outcomes: dict[int, Outcome] = {}
    for turn in range(max(map(len, groups))):
        places = [group[min(turn, len(group) - 1)] for group in groups]
        made = compiled([list(map(to_device, calls[place].operands)) for place in places])
        for place, results in zip(places, made, strict=True):
            outcomes[place] = tuple(map(to_host, results))
    return [errors.get(place, outcomes[place]) for place in range(len(calls))]


def _run_alone(traced: Traced, operands: Any, changed: dict[str, Any]) -> Outcome:
    try:
        if traced.eqn is None:
            made = traced.row.function(*map(to_host, operands))
        else:
            made = bind(traced.eqn, operands, **changed)
    except Exception as error:
        return error
    return tuple(map(to_host, as_tuple(made)))
