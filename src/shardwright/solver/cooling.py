"""How walks cool, and which walks fill a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

_COOLED = 0.85
"""Share of a walk after which there is neither heat nor price."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cooling:
    """How one walk cools.

    Attributes:
        begin: share of the budget at which it begins.
        end: share at which it ends.
        hot: heat at the beginning, in units of the cost per node.
        cold: heat at the end of cooling; after that there is none.
        size: most nodes of a region.
    """

    begin: float
    end: float
    hot: float
    cold: float
    size: int

    def at(self, share: float) -> tuple[float, float]:
        """Weight of prices and heat when so much of the budget is spent."""
        done = (share - self.begin) / max(1e-12, self.end - self.begin) / _COOLED
        if done >= 1.0:
            return 0.0, 0.0
        done = max(0.0, done)
        return 1.0 - done, self.hot * (self.cold / self.hot) ** done


def _cooling(hot: float, size: int) -> Callable[[float, float], Cooling]:
    def between(begin: float, end: float) -> Cooling:
        return Cooling(begin=begin, end=end, hot=hot, cold=hot / 50.0, size=size)

    return between


_COOLINGS = (_cooling(0.1, 128), _cooling(0.3, 400), _cooling(0.03, 128), _cooling(1.0, 400))


def walks(share: float, cycle: float, num_threads: int) -> list[tuple[Cooling, ...]]:
    """Each thread's walks over the rest of the budget.

    Walks double in length, from one cycle on, and alternate between cool ones, which stay near the
    best choice, and hot ones; the second thread begins with prices.
    """
    ends = _ends(share, cycle)
    lanes = []
    for thread in range(num_threads):
        begins = [share, *ends[:-1]]
        if thread == 1:
            begins[0] += 0.7 * (ends[0] - begins[0])
        lanes.append(
            tuple(
                _COOLINGS[(thread + number) % len(_COOLINGS)](begin, end)
                for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
            )
        )
    return lanes


def _ends(share: float, cycle: float) -> list[float]:
    """Where walks end, so that they double and fill the rest of the budget."""
    rest = max(0.0, 1.0 - share)
    count = max(1, int(math.log2(rest / max(cycle, 1e-9) + 1.0)))
    total = 2.0**count - 1.0
    return [share + rest * (2.0 ** (number + 1) - 1.0) / total for number in range(count)]
