"""Where a step comes from: a reference model, the user's own factory, or a saved graph.

Only the first two need a framework, and load it when they are asked for.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shardwright.cluster import Topology
from shardwright.cluster.parse import topology as parse_topology
from shardwright.errors import ShardwrightError, UsageError
from shardwright.ir import Graph, parse_graph

if TYPE_CHECKING:
    from shardwright.models.case import StepCase

cluster_option = click.option(
    "--cluster", default="", help="The machines: 8xH100, '4x p5.48xlarge', cpu:8, a YAML file."
)
model_option = click.option("--model", default="", help="A reference model, such as gpt.")
set_option = click.option(
    "--set", "settings", multiple=True, help="A field of the model, as in layers=4. Repeatable."
)
_OPTIONS = (
    model_option,
    set_option,
    click.option(
        "--step",
        default="",
        help="package.module:factory; factory() returns the step and a tuple of its arguments.",
    ),
    click.option("--graph", "graph_file", default="", help="A file that --save-graph wrote."),
)


def subject_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options that name a step; it takes the graph as ``graph``.

    Args:
        required: whether a step must be named; otherwise ``graph`` may be None.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_graph(
            *, model: str, settings: tuple[str, ...], step: str, graph_file: str, **rest: Any
        ) -> Any:
            named = sum(map(bool, (model, step, graph_file)))
            if named > 1 or (required and not named):
                raise UsageError(
                    f"{named} steps are named; {'exactly' if required else 'at most'} 1 is needed",
                    hint="--model NAME, --step package.module:factory or --graph FILE",
                )
            if settings and not model:
                raise UsageError("--set changes a --model, and none is named")
            graph = _graph(model, settings, step, graph_file) if named else None
            return command(graph=graph, **rest)

        wrapped: Callable[..., Any] = with_graph
        for option in reversed(_OPTIONS):
            wrapped = option(wrapped)
        return wrapped

    return decorate


def _graph(model: str, settings: tuple[str, ...], step: str, graph_file: str) -> Graph:
    if graph_file:
        return read_graph(Path(graph_file))
    from shardwright.capture.from_jax import capture

    if step:
        function, args = call_factory(step)
        return capture(function, *args).graph
    case = build_case(model, settings)
    return capture(case.step, case.abstract_state(), case.abstract_batch()).graph


def read_graph(path: Path) -> Graph:
    """The graph in a file.

    Raises:
        UsageError: it cannot be read.
        GraphError: it is no graph.
    """
    try:
        return parse_graph(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the graph cannot be read: {error.strerror}",
            where=str(path),
            hint="`shardwright plan --save-graph FILE` writes one",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the graph is damaged: byte {error.start} is not UTF-8 text", where=str(path)
        ) from error


def build_case(model: str, settings: tuple[str, ...]) -> StepCase:
    """The reference model of that name, with its fields changed.

    Raises:
        UsageError: no such model, no such field, or a value that a field cannot take.
    """
    from shardwright.models.registry import build

    overrides = dict(map(_setting, settings))
    try:
        case = build(model, **overrides)
        case.abstract_state()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f'model "{model}" cannot be built with {", ".join(settings)}: {error}',
            hint="values of the same type as the field's own",
        ) from error
    return case


def call_factory(text: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step and its arguments that ``package.module:factory`` gives.

    Raises:
        UsageError: the module or factory does not exist or fails, or gives something else.
    """
    factory = _load(text)
    try:
        answer = factory()
    except ShardwrightError:
        raise
    except Exception as error:
        raise UsageError(
            f"{text} failed: {type(error).__name__}: {error}", where=_last_line(error)
        ) from error
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], tuple)):
        raise UsageError(
            f"{text} gave {_kind(answer)}; it must give the step and a tuple of its arguments",
            hint="def factory(): return step, (state, batch)",
        )
    return answer


def _load(text: str) -> Callable[..., Any]:
    module_name, colon, name = text.partition(":")
    if not colon or not module_name or not name:
        raise UsageError(f'"{text}" does not name a factory', hint="--step package.module:factory")
    if os.getcwd() not in sys.path:  # noqa: PTH109
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"module {module_name} cannot be imported: {type(error).__name__}: {error}",
            where=_last_line(error),
            hint="run where the module can be found, or set PYTHONPATH",
        ) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        found = "nothing" if factory is None else _kind(factory)
        raise UsageError(
            f"{text} is {found}, not a function",
            hint="a function without arguments that gives the step and a tuple of its arguments",
        )
    return factory  # type: ignore[no-any-return]


def read_cluster(text: str) -> Topology:
    """The machines that a text names; without one, those that the framework sees."""
    if text:
        return parse_topology(text)
    from shardwright.execute.devices import this_machine

    return this_machine()


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = (piece.strip() for piece in text.partition("="))
    if not equals or not name.isidentifier():
        raise UsageError(f'"{text}" is not a setting', hint="--set layers=4")
    words = {"true": True, "false": False, "none": None}
    if value.lower() in words:
        return name, words[value.lower()]
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"a {type(value).__name__}"


def _last_line(error: BaseException) -> str:
    """The user's line where an error was raised, as ``file.py:12``; empty when none was reached."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = (str(Path(__file__).parent), str(Path(importlib.__file__).parent), "<frozen")
    users = [frame for frame in frames if not frame[0].startswith(ours)]
    return f"{Path(users[-1][0]).name}:{users[-1][1]}" if users else ""
