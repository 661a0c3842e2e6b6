"""Tracing a step on abstract values, with JAX's complaints put into the user's terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax

from shardwright.capture.arguments import Leaves, flatten_result, refuse_lost_changes
from shardwright.capture.source import line_of_exception
from shardwright.errors import CaptureError, ShardwrightError
from shardwright.jax_bridge import ClosedJaxpr

_DATA_DEPENDENT: tuple[tuple[type[Exception], str, str], ...] = (
    (
        jax.errors.TracerBoolConversionError,
        "the step branches on data: it asks whether an array is true while only shapes are known",
        "jnp.where to choose values, jax.lax.cond to choose what runs;"
        " functools.partial(step, train=True) to keep an option a Python value",
    ),
    (
        jax.errors.TracerIntegerConversionError,
        "the step uses data as a Python index or size while only shapes are known",
        "x[i] on a JAX array to index; functools.partial(step, n=8) to keep a size a Python number",
    ),
    (
        jax.errors.TracerArrayConversionError,
        "the step hands a traced array to NumPy, which needs its values",
        "the function of the same name in jax.numpy",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "the step selects by a mask, so a shape depends on data",
        "jnp.where(mask, x, 0) to keep the shape, or jnp.nonzero(mask, size=n)",
    ),
    (
        jax.errors.ConcretizationTypeError,
        "the step needs the value of an array while only shapes are known",
        "Python numbers for sizes, size= where jax.numpy offers it, jax.lax.cond for branches",
    ),
)


_STATIC_ARGUMENT = "Non-hashable static arguments"
"""How JAX's message begins when a traced array meets ``static_argnums``."""


@final
@dataclass(frozen=True, kw_only=True)
class Traced:
    """A traced step: its jaxpr and the flattened result."""

    jaxpr: ClosedJaxpr
    result: Leaves


def trace_step(step: Callable[..., Any], arguments: Leaves) -> Traced:
    """The jaxpr of ``step`` on flat abstract leaves; no array is made.

    Raises:
        CaptureError: shapes depend on data, the step itself fails, or it returns no arrays.
    """
    results: list[Leaves] = []

    def flat_step(*leaves: Any) -> tuple[Any, ...]:
        args, kwargs = jax.tree.unflatten(arguments.tree, leaves)
        result = flatten_result(step(*args, **kwargs))
        refuse_lost_changes(leaves, arguments.names, (args, kwargs), result)
        results.append(result)
        return result.values

    try:
        traced = jax.jit(flat_step).trace(*arguments.values)
    except ShardwrightError:
        raise
    except Exception as error:
        raise _translate(error) from error
    return Traced(jaxpr=traced.jaxpr, result=results[-1])


def _translate(error: Exception) -> CaptureError:
    where = line_of_exception(error)
    for kind, what, hint in _DATA_DEPENDENT:
        if isinstance(error, kind):
            return CaptureError(what, where=where, hint=hint)
    if isinstance(error, ValueError) and str(error).startswith(_STATIC_ARGUMENT):
        return CaptureError(
            "the step takes a static argument (jax.jit's static_argnums), but was given an array",
            where=where,
            hint="bind it before: capture(functools.partial(step, train=True), ...)",
        )
    text = str(error).strip().splitlines()
    first = f": {text[0]}" if text else ""
    return CaptureError(
        f"the step raised {type(error).__name__} while it was traced{first}",
        where=where,
        hint="the same call without capture, or jax.eval_shape(step, ...), shows the whole error",
    )
