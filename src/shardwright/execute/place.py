"""A plan's mesh on real devices, and its shardings as JAX's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from shardwright.errors import ExecuteError
from shardwright.execute.devices import ordered_devices
from shardwright.ir import Tensor
from shardwright.plan import Plan, Stage
from shardwright.sharding import Sharding


@final
@dataclass(frozen=True, kw_only=True)
class Placement:
    """One stage of a plan on real devices."""

    stage: Stage
    mesh: jax.sharding.Mesh

    @cached_property
    def _shardings(self) -> dict[Sharding, NamedSharding]:
        return {}

    def named(self, sharding: Sharding) -> NamedSharding:
        """The sharding as JAX's; equal shardings give the same object."""
        found = self._shardings.get(sharding)
        if found is None:
            found = NamedSharding(self.mesh, partition_spec(sharding))
            self._shardings[sharding] = found
        return found

    def resting(self, tensor: Tensor) -> NamedSharding:
        """Where an input or output lies; replicated where the plan does not say."""
        whole = Sharding.replicated(tensor.rank)
        return self.named(self.stage.sharding_of.get(tensor.id, whole))


def partition_spec(sharding: Sharding) -> PartitionSpec:
    """The dims of a sharding as JAX's spec."""
    entries = [axes[0] if len(axes) == 1 else axes or None for axes in sharding.dims]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def place(plan: Plan, devices: Sequence[Any] | None = None) -> Placement:
    """The plan's mesh over ``devices``, by default all that JAX sees, processes in order.

    Raises:
        ExecuteError: the plan has a pipeline or microbatches, or there are too few devices.
    """
    stage = _only_stage(plan)
    found = ordered_devices(devices)
    needed = max(stage.device_ids, default=0) + 1
    if len(found) < needed:
        raise ExecuteError(
            f"the plan needs {needed} devices; there are {len(found)}",
            where=f"mesh {stage.mesh} of the plan for {plan.cluster_name}",
            hint=f"plan for {len(found)} devices, or run where there are {needed};"
            ' jax.config.update("jax_num_cpu_devices", n) gives virtual ones on CPU',
        )
    grid = np.empty(len(stage.device_ids), dtype=object)
    grid[:] = [found[position] for position in stage.device_ids]
    names = stage.mesh.names
    shape = tuple(axis.size for axis in stage.mesh.axes)
    mesh = jax.sharding.Mesh(grid.reshape(shape), names, axis_types=(AxisType.Auto,) * len(names))
    return Placement(stage=stage, mesh=mesh)


def _only_stage(plan: Plan) -> Stage:
    if len(plan.stages) != 1:
        raise ExecuteError(
            f"the plan has {len(plan.stages)} pipeline stages; this engine runs 1",
            hint="a plan without a pipeline",
        )
    if plan.num_microbatches != 1:
        raise ExecuteError(
            f"the plan has {plan.num_microbatches} microbatches; this engine runs 1",
            hint="a plan without microbatches",
        )
    return plan.stages[0]
