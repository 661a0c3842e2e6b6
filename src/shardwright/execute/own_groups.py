"""A grouped convolution on one device's part: its own groups, its own sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardwright.cluster import Mesh
from shardwright.sharding import Sharding


def local_groups(
    params: Mapping[str, Any], shardings: Sequence[Sharding], mesh: Mesh
) -> dict[str, Any] | None:
    """The parameters of one device's part of a grouped convolution.

    Args:
        params: those of the whole.
        shardings: of input, kernel and result.
        mesh: what the dims are cut by.

    Returns:
        None where it has no groups, where a window is cut, or where parts hold no whole groups.
    """
    name = "batch_group_count" if params["batch_group_count"] > 1 else "feature_group_count"
    groups, numbers = params[name], params["dimension_numbers"]
    specs = (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec)
    batch, inputs, *windows = (shardings[0].dims[dim] for dim in specs[0])
    outer, inner, *kernel_windows = (shardings[1].dims[dim] for dim in specs[1])
    kept, _, *result_windows = (shardings[2].dims[dim] for dim in specs[2])
    if groups == 1 or any((*windows, *kernel_windows, *result_windows)):
        return None
    grouped, below = (batch, kept) if name == "batch_group_count" else (inputs, inner)
    by = tuple(axis for axis in grouped if axis not in below)
    ways = mesh.size_of(by)
    held_apart = any(axis not in by for axis in (*grouped, *outer))
    if groups % ways or (held_apart and ways < groups):
        return None
    return {**params, name: groups // ways}
