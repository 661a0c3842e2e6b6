"""Capture: a training step written as a plain JAX function becomes a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from shardwright.capture.arguments import flatten_arguments
from shardwright.capture.build import build_graph
from shardwright.capture.normalise import normalise
from shardwright.capture.record import Captured
from shardwright.capture.roles import give_roles
from shardwright.capture.trace import trace_step
from shardwright.errors import CaptureError
from shardwright.ir import Role, verify_graph


def require_function(step: Any) -> None:
    """Nothing, where ``step`` can be called.

    Raises:
        CaptureError: it cannot.
    """
    if not callable(step):
        raise CaptureError(
            f"the step is a {type(step).__name__}, not a function",
            hint="the function itself first, then its arguments",
        )


def capture(
    step: Callable[..., Any],
    *args: Any,
    roles: Mapping[str, Role | str] | None = None,
    **kwargs: Any,
) -> Captured:
    """The step as a graph and as a normalised jaxpr.

    The step is traced on abstract values, so arguments may be arrays, numbers or
    ``jax.ShapeDtypeStruct``; nothing is computed and no memory is taken.

    Args:
        step: any function on pytrees, compiled with ``jax.jit`` or not.
        *args: its positional arguments.
        roles: roles by pattern of input names, such as ``{"params*": "parameter"}``; they overrule
            what capture finds out by itself.
        **kwargs: its keyword arguments.

    Raises:
        CaptureError: ``step`` is no function, a leaf is no array, shapes depend on data, the step
            fails, or a pattern of ``roles`` matches no input.
    """
    require_function(step)
    arguments = flatten_arguments(step, args, kwargs)
    traced = trace_step(step, arguments)
    jaxpr = normalise(traced.jaxpr)
    graph = build_graph(jaxpr, step_name(step))
    graph = give_roles(graph, arguments, traced.result, roles or {})
    verify_graph(graph)
    return Captured(
        graph=graph,
        jaxpr=jaxpr,
        in_tree=arguments.tree,
        out_tree=traced.result.tree,
        in_names=arguments.names,
        out_names=traced.result.names,
    )


def step_name(step: Callable[..., Any]) -> str:
    """What the user calls the step; ``step`` when it has no name."""
    while isinstance(step, functools.partial):
        step = step.func
    name = getattr(step, "__name__", "")
    return name if name and name != "<lambda>" else "step"
