"""Running a step some times: devices, timing, and what was measured beside what was planned."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from shardwright.api import Options, ParallelStep, Planned
from shardwright.cli.asked import Asked
from shardwright.errors import UsageError
from shardwright.execute.devices import ordered_devices
from shardwright.units import format_bytes, format_time

NOMINAL = (
    "note: virtual CPU devices share this machine's cores, and their figures are nominal: they"
    " order plans, they forecast no times"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Some steps.

    Attributes:
        metrics: of each step, its scalar results by name.
        step_times_s: wall seconds of each step, the first with compiling.
    """

    metrics: tuple[dict[str, float], ...]
    step_times_s: tuple[float, ...]

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of each step."""
        return tuple(step["loss"] for step in self.metrics)

    @property
    def median_s(self) -> float:
        """Median wall seconds of a step once compiled."""
        return statistics.median(self.step_times_s[1:] or self.step_times_s)


def devices_for(count: int, *, virtual: bool = False) -> list[Any]:
    """The first ``count`` devices, virtual CPU devices where there is no accelerator.

    Args:
        count: how many.
        virtual: use CPU devices even where there are others.

    Raises:
        UsageError: there are fewer.
    """
    if count < 1:
        raise UsageError(f"{count} devices asked for; at least 1")
    try:
        jax.config.update("jax_num_cpu_devices", count)  # type: ignore[no-untyped-call]
        if virtual:
            jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    except RuntimeError:
        pass  # The devices are already there, as many as they are.
    found = ordered_devices(jax.devices("cpu") if virtual else None)
    if len(found) < count:
        raise UsageError(
            f"{count} {found[0].platform} devices asked for; there are {len(found)}",
            hint=f"--devices {len(found)}",
        )
    return found[:count]


def options(asked: Asked) -> Options:
    """What was asked, as the front door of the library takes it."""
    return Options(
        method=asked.method,
        mesh=asked.mesh,
        constraints=dict(asked.constraints) or None,
        memory_bytes=asked.memory_bytes,
        gap=asked.gap,
        time_limit_s=asked.mesh_time_s,
        total_time_s=asked.time_s,
    )


def train(step: Callable[..., Any], state: Any, batches: Iterable[Any]) -> Trained:
    """Run a step on each batch, one after another; the state is taken over."""
    metrics, times = list[dict[str, float]](), list[float]()
    for batch in batches:
        began = time.perf_counter()
        state, found = step(state, batch)
        jax.block_until_ready((state, found))  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - began)
        metrics.append(dict(_scalars(found)))
    return Trained(metrics=tuple(metrics), step_times_s=tuple(times))


def _scalars(found: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in found.items():
        if np.ndim(value) == 0:
            yield name, float(value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Predicted beside measured.

    Attributes:
        predicted_step_s: of the plan's estimate.
        measured_step_s: median, once compiled.
        predicted_peak_bytes: of the plan's estimate, per device.
        measured_peak_bytes: what the compiled program asks for, per device.
        planned_collective_bytes: per device and step.
        measured_collective_bytes: of the compiled program's text, per device and step.
        collectives_as_planned: whether every kind over every group of axes is as planned.
        collective_lines: the two side by side, as text.
    """

    predicted_step_s: float
    measured_step_s: float
    predicted_peak_bytes: int
    measured_peak_bytes: int
    planned_collective_bytes: int
    measured_collective_bytes: int
    collectives_as_planned: bool
    collective_lines: tuple[str, ...]

    @staticmethod
    def of(step: ParallelStep, planned: Planned, trained: Trained) -> Figures:
        """The figures of a step that ran."""
        assert planned.estimate is not None
        compared = step.compare()
        return Figures(
            predicted_step_s=planned.estimate.step_time_s,
            measured_step_s=trained.median_s,
            predicted_peak_bytes=planned.estimate.memory.peak_bytes,
            measured_peak_bytes=step.program.read_back().memory.peak_bytes,
            planned_collective_bytes=compared.planned_bytes,
            measured_collective_bytes=compared.measured_bytes,
            collectives_as_planned=compared.agrees,
            collective_lines=compared.lines(),
        )

    def rows(self) -> list[tuple[str, str, str]]:
        """(what, predicted, measured) to read."""
        return [
            (
                "step time",
                format_time(self.predicted_step_s),
                f"{format_time(self.measured_step_s)} (median)",
            ),
            (
                "peak memory per device",
                format_bytes(self.predicted_peak_bytes),
                format_bytes(self.measured_peak_bytes),
            ),
            (
                "collectives per device and step",
                format_bytes(self.planned_collective_bytes),
                format_bytes(self.measured_collective_bytes),
            ),
        ]
