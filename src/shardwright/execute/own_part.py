"""Operators that each device runs on its own part, because XLA would gather them whole.

XLA's partitioner cuts some operators only when every device of the mesh holds another part: cut by
one axis and copied over another, a transform, a choice of the largest, a solver or a grouped
convolution is gathered first. No datum has to move for them, so they are written as manual regions.

Source:
    "No support for partial replicate yet" in XLA's partitioner of custom calls
    (openxla/xla, xla/service/spmd/custom_call_handler.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from shardwright.execute.place import Placement, partition_spec
from shardwright.jax_bridge import JaxprEqn
from shardwright.plan import OpDecision
from shardwright.sharding import Sharding

_SAME_ON_PARTS = frozenset({"fft", "ormqr", "top_k", "triangular_solve", "tridiagonal_solve"})
"""Operators whose parameters do not speak of the dims that may be cut."""


def on_parts(equation: JaxprEqn, decision: OpDecision, placement: Placement) -> JaxprEqn | None:
    """The equation as a manual region; None where XLA runs it well or something has to move."""
    operands = [sharding for sharding in decision.operands if sharding is not None]
    results = [sharding for sharding in decision.results if sharding is not None]
    if len(operands) != len(equation.invars) or len(results) != len(equation.outvars):
        return None
    params = _local_params(equation, operands, placement)
    if params is None or not _stays_apart(operands, results):
        return None

    def run(*parts: Any) -> tuple[Any, ...]:
        made = equation.primitive.bind(*parts, **equation.primitive.get_bind_params(params))
        return tuple(made) if equation.primitive.multiple_results else (made,)

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
    equation: JaxprEqn, operands: Sequence[Sharding], placement: Placement
) -> dict[str, Any] | None:
    """The parameters with which one device runs its part."""
    kind, params = equation.primitive.name, equation.params
    if kind in _SAME_ON_PARTS:
        return dict(params)
    if kind != "conv_general_dilated" or params["batch_group_count"] != 1:
        return None
    feature_dim = params["dimension_numbers"].lhs_spec[1]
    ways = placement.stage.mesh.size_of(operands[0].dims[feature_dim])
    groups = params["feature_group_count"]
    if groups == 1 or groups % ways:
        return None
    return {**params, "feature_group_count": groups // ways}


def _stays_apart(operands: Sequence[Sharding], results: Sequence[Sharding]) -> bool:
    """Whether each device makes its part of every result from its parts of the operands."""
    cut = {axis for sharding in operands for axis in sharding.axes}
    return bool(cut) and all(set(r.axes) == cut and not r.unreduced for r in results)
