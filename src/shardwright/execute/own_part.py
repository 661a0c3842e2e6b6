"""Operators that each device runs on its own part, because XLA would not.

XLA's partitioner cuts some operators only when every device of the mesh holds another part: cut by
one axis and copied over another, a transform, a choice of the largest, a solver or a grouped
convolution is gathered first; and the gradient of a grouped convolution's kernel, its batch cut,
comes out wrong. Each device makes its part of these without the others, or a part of a sum, so they
are written as manual regions.

Source:
    "No support for partial replicate yet" in XLA's partitioner of custom calls
    (openxla/xla, xla/service/spmd/custom_call_handler.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from shardwright.execute.own_groups import local_groups
from shardwright.execute.place import Placement, partition_spec
from shardwright.jax_bridge import JaxprEqn
from shardwright.plan import OpDecision
from shardwright.sharding import Sharding

_SAME_ON_PARTS = frozenset({"fft", "ormqr", "top_k", "triangular_solve", "tridiagonal_solve"})
"""Operators whose parameters do not speak of the dims that may be cut."""


def on_parts(equation: JaxprEqn, decision: OpDecision, placement: Placement) -> JaxprEqn | None:
    """The equation as a manual region; None where XLA runs it well or something has to move.

    Sums over a cut dim are finished in the region, by an all-reduce.
    """
    unscattered = decision.partials or (None,) * len(decision.results)
    ends = zip(unscattered, decision.results, strict=True)
    operands = [sharding for sharding in decision.operands if sharding is not None]
    results = [r for r in (whole or final for whole, final in ends) if r is not None]
    if len(operands) != len(equation.invars) or len(results) != len(equation.outvars):
        return None
    cut = {axis for sharding in operands for axis in sharding.axes}
    summed = tuple(sorted(cut.difference(*(sharding.axes for sharding in results))))
    params = _local_params(equation, operands, results, placement)
    if params is None or not cut or any(cut != {*r.axes, *summed} for r in results):
        return None
    if any(r.unreduced for r in results) or (summed and equation.primitive.name in _SAME_ON_PARTS):
        return None

    def run(*parts: Any) -> tuple[Any, ...]:
        made = equation.primitive.bind(*parts, **equation.primitive.get_bind_params(params))
        made = tuple(made) if equation.primitive.multiple_results else (made,)
        return tuple(jax.lax.psum(part, summed) for part in made) if summed else made

    mapped = jax.shard_map(
        run,
        mesh=placement.mesh,
        in_specs=tuple(partition_spec(sharding) for sharding in operands),
        out_specs=tuple(partition_spec(sharding) for sharding in results),
        check_vma=False,
    )
    avals: list[Any] = [atom.aval for atom in equation.invars]
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    (region,) = jax.make_jaxpr(mapped)(*shapes).jaxpr.eqns
    return region.replace(
        invars=equation.invars, outvars=equation.outvars, source_info=equation.source_info
    )


def _local_params(
    equation: JaxprEqn,
    operands: Sequence[Sharding],
    results: Sequence[Sharding],
    placement: Placement,
) -> dict[str, Any] | None:
    """The parameters with which one device runs its part."""
    kind, params = equation.primitive.name, equation.params
    if kind in _SAME_ON_PARTS:
        return dict(params)
    if kind != "conv_general_dilated":
        return None
    return local_groups(params, (*operands, *results), placement.stage.mesh)
