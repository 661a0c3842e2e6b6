"""The rules that a plan obeys on its graph and machines, checked at every door it enters by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn, final

from shardwright.cluster import Mesh, Topology
from shardwright.errors import PlanError, did_you_mean
from shardwright.ir import Graph, Op, Role, Tensor
from shardwright.plan.record import OpDecision, Plan, Stage
from shardwright.sharding import Sharding

_AGAIN = "plan again for this step; a saved plan fits one graph only"


def verify_plan(plan: Plan, graph: Graph, topology: Topology | None = None) -> None:
    """Check that ``plan`` is one for ``graph``, and for ``topology`` where that is given.

    Raises:
        PlanError: it was made for another graph or cluster, names an operator, tensor, axis or
            device that does not exist, or cuts a tensor in a way that cannot be.
    """
    _check_fingerprints(plan, graph, topology)
    for stage in plan.stages:
        _check_devices(stage, topology)
        _check_unique("operator", (decision.op_id for decision in stage.ops))
        _check_unique("tensor", (decision.tensor_id for decision in stage.tensors))
        checker = _Checker(graph=graph, mesh=stage.mesh)
        for op in stage.ops:
            checker.check_op(op)
        for tensor in stage.tensors:
            checker.check_tensor_id(tensor.tensor_id)
            checker.check(tensor.sharding, graph.tensor(tensor.tensor_id), "its resting place")
        checker.check_collectives(stage)
        checker.check_routes(stage)
        checker.check_boundary(stage)
        checker.check_state(stage)


def _check_fingerprints(plan: Plan, graph: Graph, topology: Topology | None) -> None:
    if plan.graph_fingerprint != graph.fingerprint:
        raise PlanError(
            f"the plan is stale: it was made for graph {plan.graph_fingerprint},"
            f" this step is graph {graph.fingerprint}",
            where=f"the graph of {graph.name} differs: its operators, shapes, types or roles",
            hint=_AGAIN,
        )
    if topology is not None and plan.cluster_fingerprint != topology.fingerprint:
        raise PlanError(
            f"the plan is stale: it was made for cluster {plan.cluster_fingerprint}"
            f' ("{plan.cluster_name}"), this is cluster {topology.fingerprint} ("{topology.name}")',
            where="the cluster differs: its devices, links or reserve",
            hint="plan again for this cluster",
        )


def _check_devices(stage: Stage, topology: Topology | None) -> None:
    ids = stage.device_ids
    if len(ids) != stage.mesh.num_devices:
        raise PlanError(
            f"a stage lists {len(ids)} devices; its mesh {stage.mesh} holds"
            f" {stage.mesh.num_devices}",
            hint="plan again",
        )
    _check_unique("device", ids)
    if topology is not None and max(ids) >= topology.num_devices:
        raise PlanError(
            f"a stage uses device {max(ids)}; {topology.name} has {topology.num_devices} devices,"
            " numbered from 0",
            hint="plan again for this cluster",
        )


def _check_unique(noun: str, ids: Iterable[int]) -> None:
    twice = [item for item, count in Counter(ids).items() if count > 1]
    if twice:
        raise PlanError(
            f"a stage names {noun} {twice[0]} more than once"
            + (f", and {len(twice) - 1} others" if len(twice) > 1 else ""),
            hint="plan again",
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Checker:
    """The rules for shardings on one mesh."""

    graph: Graph
    mesh: Mesh

    def check_op(self, decision: OpDecision) -> None:
        op = self.graph.ops_by_id.get(decision.op_id)
        if op is None:
            raise PlanError(
                f"the plan decides operator {decision.op_id}; the graph {self.graph.name} has"
                f" {len(self.graph.ops_by_id)} operators and none of that number",
                hint=_AGAIN,
            )
        for side, ids, shardings in (
            ("operand", op.operands, decision.operands),
            ("result", op.results, decision.results),
            ("result", op.results, decision.partials or decision.results),
        ):
            if len(ids) != len(shardings):
                raise PlanError(
                    f"the plan decides {len(shardings)} {side}s of {op.kind} %{op.id}; it has"
                    f" {len(ids)}",
                    where=_place(op),
                    hint=_AGAIN,
                )
            for position, (tensor_id, sharding) in enumerate(zip(ids, shardings, strict=True)):
                if sharding is not None:
                    tensor = self.graph.tensor(tensor_id)
                    self.check(sharding, tensor, f"{side} {position} of {op.kind}", _place(op))

    def check_tensor_id(self, tensor_id: int) -> None:
        if not 0 <= tensor_id < len(self.graph.tensors):
            raise PlanError(
                f"the plan decides tensor {tensor_id}; the graph {self.graph.name} has"
                f" {len(self.graph.tensors)} tensors, numbered from 0",
                hint=_AGAIN,
            )

    def check(self, sharding: Sharding, tensor: Tensor, use: str, where: str = "") -> None:
        if sharding.rank != tensor.rank:
            self._refuse(
                f"{sharding} describes {sharding.rank} dims; {tensor.label} as {use} has"
                f" {tensor.rank}",
                where,
            )
        for axis in (*sharding.axes, *sharding.unreduced):
            if axis not in self.mesh.sizes:
                self._refuse(
                    f'{sharding} of {tensor.label} as {use} names the axis "{axis}"; the mesh is'
                    f" {self.mesh}",
                    where,
                    did_you_mean(axis, self.mesh.sizes),
                )
        for axis, count in Counter((*sharding.axes, *sharding.unreduced)).items():
            if count > 1:
                self._refuse(
                    f'{sharding} of {tensor.label} as {use} names the axis "{axis}" {count} times;'
                    " an axis cuts a tensor once",
                    where,
                )

    def check_collectives(self, stage: Stage) -> None:
        for collective in stage.collectives:
            for axis in collective.axes:
                if axis not in self.mesh.sizes:
                    self._refuse(
                        f'a planned {collective.kind} spans the axis "{axis}"; the mesh is'
                        f" {self.mesh}",
                        collective.stands_for,
                        did_you_mean(axis, self.mesh.sizes),
                    )
            if collective.tensor_id >= 0:
                self.check_tensor_id(collective.tensor_id)

    def check_routes(self, stage: Stage) -> None:
        for route in stage.routes:
            name = f"a {route.dtype}{list(route.shape)} on its way"
            tensor = Tensor(
                id=-1, shape=route.shape, dtype=route.dtype, role=Role.ACTIVATION, name=name
            )
            for layout in (route.source, *route.via, route.target):
                self.check(layout, tensor, "a reshard")

    def check_boundary(self, stage: Stage) -> None:
        for tensor, sharding, side in self._boundary(stage):
            if sharding.unreduced:
                self._refuse(f"the {side} {tensor.label} rests unreduced: {sharding}", "")
            for dim, axes in enumerate(sharding.dims):
                parts = self.mesh.size_of(axes)
                if tensor.shape[dim] % parts:
                    self._refuse(
                        f"dim {dim} of the {side} {tensor.label} has size {tensor.shape[dim]};"
                        f" {'+'.join(axes)} cuts it in {parts}, which does not divide it",
                        "",
                        "leave that dim whole, or pad it to a multiple",
                    )

    def _boundary(self, stage: Stage) -> Iterator[tuple[Tensor, Sharding, str]]:
        for side, ids in (("input", self.graph.inputs), ("output", self.graph.outputs)):
            for tensor_id in ids:
                if tensor_id in stage.sharding_of:
                    yield self.graph.tensor(tensor_id), stage.sharding_of[tensor_id], side

    def check_state(self, stage: Stage) -> None:
        for before, after in self.graph.state_pairs:
            tensor = self.graph.tensor(before)
            whole = Sharding.replicated(tensor.rank)
            first = stage.sharding_of.get(before, whole)
            second = stage.sharding_of.get(after, whole)
            if first != second:
                self._refuse(
                    f"the state {tensor.label} enters as {first} and leaves as {second}; a step"
                    " must return its state as it took it",
                    "",
                )

    def _refuse(self, what: str, where: str, hint: str = "") -> NoReturn:
        raise PlanError(what, where=where, hint=hint or "plan again")


def _place(op: Op) -> str:
    return ", captured as ".join(part for part in (op.source, op.scope) if part)
