"""One annealed walk through choices that fit: where it stands and how it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from shardwright.solver.anneal import improve
from shardwright.solver.arrays import Flat, Floats, Ints
from shardwright.solver.cooling import Cooling
from shardwright.solver.messages import Wiring, cost_of, priced, slack_of
from shardwright.solver.region import Mates, Region, make_region
from shardwright.solver.slack import Slack, slack_tree

_LARGEST_REGION = 4096


@final
@dataclass(kw_only=True)
class Walker:
    """A walk; one thread at a time moves it."""

    flat: Flat
    wiring: Wiring
    mates: Mates
    random: NDArray[np.uint64]
    unit: float
    cooling: Cooling = field(init=False)
    choice: Ints = field(init=False)
    cost: float = np.inf
    price: Floats = field(init=False)
    region: Region = field(init=False)
    tree: Slack = field(init=False)

    def __post_init__(self) -> None:
        most = min(_LARGEST_REGION, len(self.flat.nodes.first) - 1)
        self.region = make_region(self.flat, self.wiring, most)

    def restart(self, choice: Ints, prices: Floats, cooling: Cooling) -> None:
        """Begin again from a choice, at new prices."""
        self.choice, self.cooling = choice.copy(), cooling
        self.cost = float(cost_of(self.flat, self.choice))
        self.tree = slack_tree(slack_of(self.flat, self.choice))
        self.price = np.zeros(len(self.flat.nodes.cost))
        priced(self.flat, prices, self.price)

    def take_prices(self, prices: Floats) -> None:
        """Go on at other prices."""
        priced(self.flat, prices, self.price)

    def walk(self, share: float, work: int) -> None:
        """Walk for so much work, as warm as the share of the budget says."""
        weight, heat = self.cooling.at(share)
        self._improve(weight, heat * self.unit, work)
        self.cost = float(cost_of(self.flat, self.choice))

    def _improve(self, weight: float, heat: float, work: int) -> Any:
        size = min(self.cooling.size, len(self.region.nodes))
        return improve(
            self.flat,
            self.wiring,
            self.mates,
            self.region,
            self.tree,
            self.choice,
            self.price,
            weight,
            heat,
            size,
            self.random,
            work,
        )
