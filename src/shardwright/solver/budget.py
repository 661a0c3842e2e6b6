"""What a search may spend: seconds and, where the answer must not depend on a clock, work."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import final

from shardwright.solver.solution import Limit


@final
@dataclass(kw_only=True)
class Budget:
    """How much may be spent, in seconds and, where asked, in work."""

    deadline: float
    time_limit_s: float
    work_limit: int | None = None
    work: int = 0
    is_interrupted: bool = False

    @property
    def share(self) -> float:
        """What share of the budget is spent."""
        if self.work_limit is not None:
            return self.work / max(1, self.work_limit)
        return 1.0 - self.left_s / max(1e-9, self.time_limit_s)

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return self.deadline - time.monotonic()

    @property
    def limit(self) -> Limit:
        """The limit that is reached, or none."""
        if self.is_interrupted:
            return Limit.INTERRUPT
        if self.work_limit is not None and self.work >= self.work_limit:
            return Limit.WORK
        return Limit.TIME if self.left_s <= 0.0 else Limit.NONE
