"""An equation's parameters as plain literals, so that a graph needs no framework to be read."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Iterable, Mapping, Set
from typing import Any

import jax
import numpy as np

from shardwright.ir import Attribute
from shardwright.jax_bridge import ClosedJaxpr, Jaxpr, is_extended_dtype

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|0x[0-9a-fA-F]{6,}")
_SHARDING_PARAMETER = re.compile(r"(^|_)shardings?$")
_DROPPED = frozenset(
    {
        "call_jaxpr",
        "jvp_jaxpr_fun",
        "update_consts",
        "computation",
        "consts",
        "jaxpr_thunk",
        "fwd_jaxpr_thunk",
    }
)
_COMBINERS = frozenset({"add", "max", "min", "mul", "and", "or"})
_COMBINED = frozenset({"reduce", "reduce_window"})


def attributes_of(kind: str, params: Mapping[str, Any]) -> tuple[tuple[str, Attribute], ...]:
    """Sorted (name, literal) pairs of an equation's parameters.

    Bodies are left out (they are regions), and so are shardings that nobody set. Records are
    flattened with dotted names, enumerations and element types go by their names.
    """
    pairs: dict[str, Attribute] = {}
    for name, value in params.items():
        if name in _DROPPED or _holds_body(value):
            continue
        if value is None and _SHARDING_PARAMETER.search(name):
            continue
        _flatten(name, value, pairs)
    if kind in _COMBINED:
        pairs["combiner"] = _combiner(params)
    return tuple(sorted(pairs.items()))


def _holds_body(value: Any) -> bool:
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return True
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], (Jaxpr, ClosedJaxpr))


def _flatten(name: str, value: Any, pairs: dict[str, Attribute]) -> None:
    fields = _fields(value)
    if fields is None:
        pairs[name] = literal(value)
        return
    for field, inner in fields:
        _flatten(f"{name}.{field}", inner, pairs)


def _fields(value: Any) -> Iterable[tuple[str, Any]] | None:
    """Name and value of each field of a record, or None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(field, getattr(value, field)) for field in value._fields]
    if isinstance(value, jax.sharding.NamedSharding):
        return [("mesh", value.mesh), ("spec", value.spec)]
    if dataclasses.is_dataclass(value) and not callable(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def literal(value: Any) -> Attribute:
    """The plain literal that stands for ``value``: itself, a tuple, a name or a stable text."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else float(value)  # one NaN, so that records compare
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (tuple, list)):
        return tuple(literal(item) for item in value)
    if isinstance(value, np.dtype) or is_extended_dtype(value):
        return dtype_name(value)
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, jax.sharding.PartitionSpec):
        return tuple(literal(entry) for entry in value)
    if isinstance(value, (jax.sharding.Mesh, jax.sharding.AbstractMesh)):
        return tuple(value.shape.items())
    return _rare_literal(value)


def _rare_literal(value: Any) -> Attribute:
    if isinstance(value, int):  # bool and int subclasses that are no enumerations
        return int(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value).name
    if isinstance(value, Mapping):
        return tuple(sorted(((str(k), literal(v)) for k, v in value.items()), key=str))
    if isinstance(value, Set):
        return tuple(sorted((literal(item) for item in value), key=str))
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return _ADDRESS.sub("", str(value))


def dtype_name(dtype: Any) -> str:
    """An element type by name, such as ``bfloat16`` or ``key<fry>``."""
    return "float0" if dtype == jax.dtypes.float0 else str(dtype.name)


def _combiner(params: Mapping[str, Any]) -> str:
    """What a generic reduction combines with, or an empty text for more than one operator."""
    body = params.get("jaxpr")
    jaxpr = body.jaxpr if isinstance(body, ClosedJaxpr) else body
    if jaxpr is None or len(jaxpr.eqns) != 1:
        return ""
    (eqn,) = jaxpr.eqns
    if list(jaxpr.outvars) != list(eqn.outvars) or list(eqn.invars) != list(jaxpr.invars):
        return ""
    return eqn.primitive.name if eqn.primitive.name in _COMBINERS else ""
