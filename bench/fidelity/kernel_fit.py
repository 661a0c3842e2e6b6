"""Fitting the kernel model to published steps: few parameters, each between physical bounds.

Errors are of logarithms, softened so that a row that is far off pulls little, and weighted so that
a source of three hundred rows does not outvote all others. Each parameter is held by a light spring
to what its meaning lets expect, which decides where the rows do not.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import least_squares

from shardwright.cost.kernels import KernelModel, Rates, Software, Works
from shardwright.cost.step import Schedules, StepTimes, step_times_s
from shardwright.cost.workload import Numbers

BOUNDS = {
    "matmul_share": (0.5, 1.3),
    "unmeasured_share": (0.3, 1.3),
    "narrow_share": (0.3, 1.2),
    "ramp_depth": (0.0, 2000.0),
    "attention_share": (0.1, 0.9),
    "memory_share": (0.3, 1.0),
    "unfused_share": (0.0, 1.0),
    "score_passes": (0.0, 3.0),
    "shown_activation_share": (0.0, 1.0),
    "hidden_weight_share": (0.0, 1.0),
    "network_share": (0.2, 1.0),
    "between_steps_s": (0.0, 0.1),
}
_SOFT_ERROR = 0.1

EXPECTED = KernelModel(
    matmul_share=1.0,
    unmeasured_share=0.8,
    narrow_share=0.9,
    ramp_depth=50.0,
    attention_share=0.5,
    memory_share=0.8,
    unfused_share=0.5,
    score_passes=1.0,
    shown_activation_share=0.3,
    hidden_weight_share=0.7,
    network_share=0.8,
    between_steps_s=0.01,
)
_SPRING = 1.0
"""Softened errors of a typical row that a parameter at the far bound costs."""


@final
@dataclass(frozen=True, kw_only=True)
class Rows:
    """Runs as columns, with what was measured.

    Attributes:
        sources: of each run.
        measured_s: seconds per step.
    """

    sources: tuple[str, ...]
    works: Works
    rates: Rates
    software: Software
    schedules: Schedules
    measured_s: Numbers

    def times(self, model: KernelModel) -> StepTimes:
        """What the model says of every run."""
        return step_times_s(self.works, self.rates, self.software, self.schedules, model)


def fitted(rows: Rows, start: KernelModel, kept: Sequence[bool] | None = None) -> KernelModel:
    """The model that fits the rows best, from a start; ``kept`` tells which rows count.

    Where none does it is ``EXPECTED``.
    """
    names = list(BOUNDS)
    low, high = (np.array([BOUNDS[name][side] for name in names]) for side in (0, 1))
    counts = Counter(rows.sources)
    weight = np.array([counts[source] ** -0.5 for source in rows.sources])
    if kept is not None:
        weight = weight * np.asarray(kept)
    root = np.sqrt(weight / (weight.mean() or 1.0))
    chosen = root > 0

    def model(place: Numbers) -> KernelModel:
        values = low + place * (high - low)
        return KernelModel(**dict(zip(names, values.tolist(), strict=True)))

    def errors(place: Numbers) -> Numbers:
        wrong = np.log(rows.times(model(place)).total_s / rows.measured_s) * root
        return np.concatenate([wrong[chosen], _SPRING * (place - rest)])

    def placed(given: KernelModel) -> Numbers:
        return (np.array([getattr(given, name) for name in names]) - low) / (high - low)

    rest = placed(EXPECTED)
    place = np.clip(placed(start), 0.01, 0.99)
    answer = least_squares(errors, place, bounds=(0, 1), loss="soft_l1", f_scale=_SOFT_ERROR)
    rounded = {
        field.name: float(f"{getattr(model(answer.x), field.name):.3g}")
        for field in dataclasses.fields(KernelModel)
    }
    return KernelModel(**rounded)
