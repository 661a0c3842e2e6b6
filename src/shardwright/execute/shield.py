"""Writes along a cut dim, said so that XLA keeps to what they mean.

Two of them come out wrong when told plainly:

- A scatter of one index becomes a slice, an update and a write back. Where its operand was cut out
  of a larger array just before, XLA merges the two slices and forgets that the inner one was held
  within bounds: rows of other devices are written over. A barrier keeps the two apart.
- An update whose start lies past the end is to be moved back until it fits; its partitioned form
  drops it. The start is moved before.

Source:
    Seen on CPU. The merging of nested dynamic slices is XLA's algebraic simplifier's
    (openxla/xla, xla/hlo/transforms/simplifiers/algebraic_simplifier.cc); the start of an update:
    StableHLO specification, ``dynamic_update_slice``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from shardwright.jax_bridge import Atom, JaxprEqn, Literal, Var
from shardwright.plan import OpDecision
from shardwright.sharding import Sharding


def shielded(equation: JaxprEqn, decision: OpDecision) -> tuple[JaxprEqn, ...]:
    """The equation, and before it what a write along a cut dim needs."""
    written = decision.operands[0] if decision.operands else None
    kind = equation.primitive.name
    if written is not None and kind.startswith("scatter"):
        return _behind_barrier(equation, written)
    if written is not None and kind == "dynamic_update_slice":
        return _within_bounds(equation, written)
    return (equation,)


def _behind_barrier(equation: JaxprEqn, written: Sharding) -> tuple[JaxprEqn, ...]:
    indexed = equation.params["dimension_numbers"].scatter_dims_to_operand_dims
    operand = equation.invars[0]
    if isinstance(operand, Literal) or not any(written.dims[dim] for dim in indexed):
        return (equation,)
    barrier = _applied(jax.lax.optimization_barrier, operand, equation)
    return barrier, equation.replace(invars=[barrier.outvars[0], *equation.invars[1:]])


def _within_bounds(equation: JaxprEqn, written: Sharding) -> tuple[JaxprEqn, ...]:
    operand, update, *starts = equation.invars
    whole, part = (_aval(atom).shape for atom in (operand, update))
    moved: list[JaxprEqn] = []
    for dim, axes in enumerate(written.dims):
        if axes and whole[dim] > part[dim]:
            last = whole[dim] - part[dim]
            moved.append(_applied(partial(_clamped, last=last), starts[dim], equation))
            starts[dim] = moved[-1].outvars[0]
    return *moved, equation.replace(invars=[operand, update, *starts])


def _clamped(start: Any, *, last: int) -> Any:
    dtype = start.dtype
    return jax.lax.clamp(np.zeros((), dtype), start, np.asarray(last, dtype))


def _applied(function: Callable[[Any], Any], atom: Atom, near: JaxprEqn) -> JaxprEqn:
    """The one equation of a function of one array, applied to an atom."""
    aval = _aval(atom)
    made = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(aval.shape, aval.dtype)).jaxpr
    (equation,) = made.eqns
    invars = [atom if operand is made.invars[0] else operand for operand in equation.invars]
    result = Var(_aval(equation.outvars[0]))
    return equation.replace(invars=invars, outvars=[result], source_info=near.source_info)


def _aval(atom: Any) -> Any:
    return atom.aval
