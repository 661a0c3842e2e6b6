"""What a part of the search may begin from: prices, cuts and choices of the part it came from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.solver.memory_rows import CutName
from shardwright.solver.multipliers import Priced, Start, plane_of
from shardwright.solver.problem import Labels, Problem

_MOST_CHOICES = 30


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inheritance:
    """Prices by time, cuts by name, the box, and choices by label: all survive a reduction."""

    prices: dict[int, float]
    cuts: tuple[tuple[CutName, float], ...]
    radius: float
    choices: tuple[Labels, ...]


def inheritance(problem: Problem, priced: Priced) -> Inheritance:
    """What the parts of a problem may begin from, once it is priced."""
    return Inheritance(
        prices=dict(zip(problem.times, priced.end.prices.tolist(), strict=True)),
        cuts=priced.end.cuts,
        radius=priced.end.radius,
        choices=tuple(problem.chosen(plane.places) for plane in priced.end.planes[-_MOST_CHOICES:]),
    )


def start_of(problem: Problem, parent: Inheritance) -> Start:
    """The start of a part: choices that it no longer allows are left out."""
    places = [problem.placed(labels) for labels in parent.choices]
    planes = [plane_of(problem, at) for at in places if at is not None]
    return Start(
        prices=np.array([parent.prices.get(moment, 0.0) for moment in problem.times]),
        cuts=parent.cuts,
        radius=parent.radius,
        planes=tuple(plane for plane in planes if plane.cost < math.inf),
    )
