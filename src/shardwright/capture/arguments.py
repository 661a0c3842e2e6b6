"""The step's arguments as flat abstract leaves, with the names that the user gave them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np
from jax.tree_util import GetAttrKey, keystr

from shardwright.errors import CaptureError
from shardwright.jax_bridge import PyTreeDef


@final
@dataclass(frozen=True, kw_only=True)
class Leaves:
    """A flattened tree: what each leaf is called, what stands there, and the structure."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    tree: PyTreeDef


def flatten_arguments(
    step: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Leaves:
    """Abstract leaves of ``(args, kwargs)`` with dotted names; nothing is materialised.

    Raises:
        CaptureError: a leaf is not an array, a number or a ``jax.ShapeDtypeStruct``.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path((tuple(args), dict(kwargs)))
    roots = _argument_names(step, len(args))
    names = tuple(_argument_leaf_name(path, roots) for path, _ in paths)
    values = tuple(_abstract(leaf, name) for name, (_, leaf) in zip(names, paths, strict=True))
    return Leaves(names=names, values=values, tree=tree)


def flatten_result(result: Any) -> Leaves:
    """Leaves of what a step returns, named ``result...``.

    Raises:
        CaptureError: a leaf is not an array or a number.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path(result)
    names = tuple(dotted("result", path) for path, _ in paths)
    for name, (_, leaf) in zip(names, paths, strict=True):
        if not _is_array(leaf):
            raise CaptureError(
                f"the step returns {name}, which is {_described(leaf)}, not an array",
                hint="return arrays and numbers only; None stands for nothing",
            )
    return Leaves(names=names, values=tuple(leaf for _, leaf in paths), tree=tree)


def refuse_lost_changes(
    before: Sequence[Any], names: Sequence[str], after: Any, result: Leaves
) -> None:
    """Refuse a step that gives an argument's attribute a new array without returning it.

    Args:
        before: leaves of the arguments that the step was called with.
        names: one per leaf.
        after: the arguments as the step left them.
        result: what the step returned.

    Raises:
        CaptureError: an object was changed in place, and its new arrays would be lost.
    """
    known = {id(leaf) for leaf in (*before, *result.values)}
    leaves = jax.tree_util.tree_flatten_with_path(after)[0]
    lost = [
        names[position] if len(leaves) == len(names) else keystr(path)
        for position, (path, leaf) in enumerate(leaves)
        if id(leaf) not in known and any(isinstance(key, GetAttrKey) for key in path)
    ]
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise CaptureError(
            "the step changes arrays of its arguments in place and does not return them:"
            f" {', '.join(lost[:3])}{more}",
            hint="take the state apart and return it: nnx.split before, nnx.merge inside the step",
        )


def dotted(root: str, path: Sequence[Any]) -> str:
    """A pytree path as text with dots, such as ``params.layers.3.w``.

    A last attribute called ``value`` is left out: it is how flax.nnx wraps every array.
    """
    if path and path[-1] == GetAttrKey("value"):
        path = path[:-1]
    parts = [_key_text(key) for key in path]
    return ".".join([root, *[part for part in parts if part]])


def _key_text(key: Any) -> str:
    if hasattr(key, "key"):
        return str(key.key)
    return keystr((key,), simple=True, separator=".")


def _argument_names(step: Callable[..., Any], count: int) -> list[str]:
    """The name of each positional argument; ``args.k`` for those that ``*args`` collects."""
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):
        return [f"arg{position}" for position in range(count)]
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = count - len(names)
            names += [f"{parameter.name}.{position}" for position in range(rest)]
        elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    names += [f"arg{position}" for position in range(len(names), count)]
    return names[:count]


def _argument_leaf_name(path: Sequence[Any], roots: Sequence[str]) -> str:
    is_keyword = path[0].idx == 1
    root = str(path[1].key) if is_keyword else roots[path[1].idx]
    return dotted(root, path[2:])


def _abstract(leaf: Any, name: str) -> jax.ShapeDtypeStruct:
    if not _is_array(leaf):
        raise CaptureError(
            f"argument {name} is {_described(leaf)}, not an array",
            hint="bind what is no data with functools.partial(step, ...), or close over it",
        )
    if isinstance(leaf, jax.ShapeDtypeStruct):
        weak = leaf.weak_type
    else:
        leaf = jax.typeof(leaf)
        weak = leaf.weak_type if hasattr(leaf, "weak_type") else False
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=weak)


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind not in "OSUMm"
    return isinstance(
        leaf, (jax.Array, jax.ShapeDtypeStruct, np.generic, bool, int, float, complex)
    ) and not isinstance(leaf, (np.str_, np.bytes_, np.datetime64, np.timedelta64))


def _described(leaf: Any) -> str:
    if isinstance(leaf, np.ndarray):
        return f"an array of {leaf.dtype}"
    if isinstance(leaf, str):
        return f"the text {leaf!r}"
    if isinstance(leaf, functools.partial) or (callable(leaf) and hasattr(leaf, "__name__")):
        return f"the function {getattr(leaf, '__name__', 'functools.partial')}"
    return f"a {type(leaf).__name__}"
