"""The front door: a step for one device in, a plan or a running parallel program out.

``plan`` answers without hardware; ``parallelize`` plans at the first call and runs. Both walk the
rooms in order: capture, search, estimate, execute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import jax

from shardwright.capture.from_jax import capture, require_function
from shardwright.capture.record import Captured
from shardwright.cluster import Topology
from shardwright.cluster.parse import topology as parse_topology
from shardwright.cost.estimate import Estimate, estimate
from shardwright.errors import NoPlanError, UsageError
from shardwright.execute.check import CheckResult, check
from shardwright.execute.compare import Comparison, compare
from shardwright.execute.create import create
from shardwright.execute.devices import this_machine
from shardwright.execute.on_jax import Program, program
from shardwright.options import Options as Options
from shardwright.options import options_of
from shardwright.plan import Plan, save
from shardwright.report.explain import explain, explain_no_plan
from shardwright.report.html import to_html
from shardwright.search.find import OnMesh, find_plan
from shardwright.search.result import SearchResult


@final
@dataclass(frozen=True, kw_only=True)
class Planned:
    """A step's plan, or the reason why it has none.

    Attributes:
        captured: the step as graph and jaxpr.
        topology: the machines.
        result: the search's answer.
        estimate: predicted time and memory of the plan; None without one.
    """

    captured: Captured
    topology: Topology
    result: SearchResult
    estimate: Estimate | None

    @property
    def plan(self) -> Plan:
        """The plan.

        Raises:
            NoPlanError: there is none; the text says what is short.
        """
        if self.result.plan is None:
            raise NoPlanError(explain_no_plan(self.result, self.topology))
        return self.result.plan

    def explain(self) -> str:
        """The plan as text: what was chosen, why, how long a step takes, what a device holds."""
        return explain(self.captured.graph, self.topology, self.result, self.estimate)

    def save(self, path: str | Path) -> None:
        """Write the plan to a file, whole or not at all."""
        save(self.plan, Path(path))

    def _repr_html_(self) -> str:
        return to_html(self.captured.graph, self.topology, self.result, self.estimate)

    def __str__(self) -> str:
        return self.explain()


def plan(
    step: Callable[..., Any],
    *args: Any,
    cluster: str | Path | Topology | None = None,
    options: Options | None = None,
    on_mesh: OnMesh | None = None,
    **settings: Any,
) -> Planned:
    """The best plan for a step on some machines; nothing is computed, no hardware is needed.

    Args:
        step: the training step for one device.
        *args: its arguments; arrays or ``jax.ShapeDtypeStruct``.
        cluster: ``8xH100``, ``4x p5.48xlarge``, a YAML file; by default this machine.
        options: what to ask of the search.
        on_mesh: called after each mesh that was searched.
        **settings: fields of ``Options`` by name.

    Raises:
        CaptureError: the step cannot be captured.
        ConstraintError: constraints clash.
        TopologyError: the machines are unknown or too few.
    """
    asked = options_of(options, settings)
    topology = parse_topology(cluster) if cluster is not None else this_machine()
    captured = capture(step, *args, roles=asked.roles)
    return plan_captured(captured, topology, asked, on_mesh)


def plan_captured(
    captured: Captured, topology: Topology, options: Options, on_mesh: OnMesh | None = None
) -> Planned:
    """The same for a step that is already captured."""
    result = find_plan(captured.graph, topology, options.question(), on_mesh)
    predicted = None
    if result.plan is not None:
        predicted = estimate(result.plan, captured.graph, topology)
    return Planned(captured=captured, topology=topology, result=result, estimate=predicted)


def parallelize(
    step: Callable[..., Any] | None = None,
    *,
    cluster: str | Path | Topology | None = None,
    devices: Sequence[Any] | None = None,
    verify: bool = False,
    options: Options | None = None,
    **settings: Any,
) -> Any:
    """The step as a parallel program, planned and compiled at its first call.

    Use it as a decorator, with or without arguments. State is donated, as with
    ``jax.jit(step, donate_argnums=...)``: pass on what the last call returned.

    Args:
        step: the training step for one device.
        cluster: the machines to plan for; by default the devices that JAX sees.
        devices: the devices to run on; by default the first that JAX sees.
        verify: run the first steps beside one device too, and raise when they differ.
        options: what to ask of the search.
        **settings: fields of ``Options`` by name.
    """
    asked = options_of(options, settings)
    if step is None:
        return functools.partial(
            parallelize, cluster=cluster, devices=devices, verify=verify, options=asked
        )
    require_function(step)
    return ParallelStep(
        step=step,
        topology=None if cluster is None else parse_topology(cluster),
        devices=None if devices is None else tuple(devices),
        options=asked,
        checked_steps=2 if verify else 0,
    )


@final
class ParallelStep:
    """A step that plans itself at its first call and runs in parallel from then on."""

    def __init__(
        self,
        *,
        step: Callable[..., Any],
        topology: Topology | None,
        devices: tuple[Any, ...] | None,
        options: Options,
        checked_steps: int,
    ) -> None:
        functools.update_wrapper(self, step)
        self._step = step
        self._topology = topology
        self._devices = devices
        self._options = options
        self._checked_steps = checked_steps
        self._planned: Planned | None = None
        self._program: Program | None = None
        self._checked: CheckResult | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One step in parallel: the same results as the step on one device."""
        if self._program is None:
            self.prepare(*args, **kwargs)
        assert self._program is not None
        return self._program(*args, **kwargs)

    def prepare(self, *args: Any, **kwargs: Any) -> Planned:
        """Plan and set up for arguments like these (arrays or shapes); nothing is run.

        Raises:
            NoPlanError: nothing fits; the text says what is short.
            ExecuteError: with ``verify``, the parallel step differs from one device's.
        """
        topology = self._topology or this_machine(self._devices)
        captured = capture(self._step, *args, roles=self._options.roles, **kwargs)
        planned = plan_captured(captured, topology, self._options)
        ready = program(
            graph=captured.graph,
            jaxpr=captured.jaxpr,
            in_tree=captured.in_tree,
            out_tree=captured.out_tree,
            plan=planned.plan,
            devices=self._devices,
        )
        if self._checked_steps and _all_concrete(args, kwargs):
            self._checked = check(ready, *args, steps=self._checked_steps, **kwargs)
            self._checked.require()
        self._planned, self._program = planned, ready
        return planned

    def create(self, init: Callable[..., Any], *args: Any, argument: int = 0) -> Any:
        """What ``init(*args)`` gives, made directly in the shards of one argument of the step.

        Args:
            init: makes the state from keys and sizes.
            *args: its arguments.
            argument: which positional argument of the step the state is.

        Raises:
            UsageError: the step is not prepared yet.
        """
        return create(init, *args, shardings=self.program.input_shardings[argument])

    @property
    def planned(self) -> Planned:
        """The plan that it runs.

        Raises:
            UsageError: the step is not prepared yet.
        """
        if self._planned is None:
            raise UsageError(
                "the step has no plan yet",
                hint="call it once, or prepare(*args) with arrays or shapes",
            )
        return self._planned

    @property
    def program(self) -> Program:
        """The program that it runs.

        Raises:
            UsageError: the step is not prepared yet.
        """
        if self._program is None:
            raise UsageError(
                "the step has no program yet",
                hint="call it once, or prepare(*args) with arrays or shapes",
            )
        return self._program

    @property
    def checked(self) -> CheckResult | None:
        """What ``verify=True`` found; None when nothing was compared."""
        return self._checked

    def compare(self) -> Comparison:
        """The collectives that were planned beside those that the compiled program has."""
        planned = self.planned
        return compare(planned.plan.stages[0], self.program.read_back(), planned.captured.graph)

    def explain(self) -> str:
        """The plan as text."""
        return self.planned.explain()


def _all_concrete(args: Any, kwargs: Any) -> bool:
    leaves = jax.tree.leaves((args, kwargs))
    return not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
