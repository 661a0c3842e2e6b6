"""Prices of memory: a price for each byte at each moment, raised where the choice does not fit.

Memory leaves the constraints and enters the costs; for any prices the least cost and price
together, less what the limits are worth, is a lower bound. Prices move along a smoothed subgradient
(bytes over the limit), by steps as long as the distance to the best known cost allows. Only the
worst moment of each stretch of time gets a new price: moments side by side see the same nodes, and
moved together they would all be short-sighted steps in one direction.

Source: Polyak, "Minimization of unsmooth functionals", 1969; deflected by Camerini, Fratta and
Maffioli, "On improving relaxation methods by modified gradient techniques", 1975.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardwright.solver.arrays import Flat, Floats, Ints
from shardwright.solver.jit import compiled
from shardwright.solver.messages import Wiring, cost_of, priced, slack_of, sweep

_WINDOWS = 64
_KEEP = 0.7
_PATIENCE = 10.0
_LEAST_STEP = 1e-3
_RESTART = 0.5


class Dual(NamedTuple):
    """Where the prices stand; all arrays change in place.

    ``numbers`` are the best bound, the cost of the best choice that was met and fits, the factor of
    the step, the sweeps since the bound last rose, all sweeps, the bound when the steps were last
    made long again, and whether that did not help.
    """

    prices: Floats
    best_prices: Floats
    direction: Floats
    messages: Floats
    choice: Ints
    best_choice: Ints
    numbers: Floats

    @property
    def bound(self) -> float:
        """The best lower bound."""
        return float(self.numbers[0])

    @property
    def cost(self) -> float:
        """Cost of the best choice that fits; infinite before there is one."""
        return float(self.numbers[1])

    @property
    def is_stale(self) -> bool:
        """Whether a whole cycle of ever shorter steps hardly moved the bound."""
        return bool(self.numbers[6] > 0.0)


def new_dual(flat: Flat, wiring: Wiring) -> Dual:
    """All prices zero."""
    num_nodes, num_moments = len(flat.nodes.first) - 1, len(flat.limits)
    return Dual(
        np.zeros(num_moments),
        np.zeros(num_moments),
        np.zeros(num_moments),
        np.zeros(wiring.size),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.int64),
        np.array([-np.inf, np.inf, 1.0, 0.0, 0.0, -np.inf, 0.0]),
    )


@compiled
def ascend(flat: Flat, wiring: Wiring, dual: Dual, sweeps: int, ahead: float) -> None:
    """Move the prices for so many sweeps.

    Steps aim at the best known cost, or at the share ``ahead`` above the bound where that is less.
    """
    numbers, prices = dual.numbers, dual.prices
    price, over = np.empty(len(flat.nodes.cost)), np.empty(len(flat.nodes.cost))
    for _ in range(sweeps):
        given = priced(flat, prices, price)
        forwards = 1 - 2 * (int(numbers[4]) % 2)
        numbers[4] += 1.0
        bound = sweep(flat, wiring, price, dual.messages, dual.choice, over, forwards) - given
        slack = slack_of(flat, dual.choice)
        _remember(flat, dual, slack)
        if bound > numbers[0]:
            if bound > numbers[0] + 1e-5 * abs(bound):
                numbers[3] = 0.0
            numbers[0] = bound
            dual.best_prices[:] = prices
        numbers[3] += 1.0
        if numbers[3] > _PATIENCE:
            numbers[2] *= 0.7
            numbers[3] = 0.0
        if numbers[2] < _LEAST_STEP:
            numbers[6] = 0.0 if numbers[0] > numbers[5] + 1e-4 * abs(numbers[0]) else 1.0
            numbers[5] = numbers[0]
            numbers[2] = _RESTART
            prices[:] = dual.best_prices
        norm = _turn(prices, dual.direction, slack)
        target = min(numbers[1], numbers[0] + ahead * abs(numbers[0]))
        if norm > 0.0:
            step = numbers[2] * max(0.0, target - bound) / norm
            for t in range(len(prices)):
                prices[t] = max(0.0, prices[t] + step * dual.direction[t])


@compiled
def _remember(flat: Flat, dual: Dual, slack: Ints) -> None:
    """Keep the sweep's choice if it fits and is the cheapest so far."""
    for t in range(len(slack)):
        if slack[t] < 0:
            return
    cost = cost_of(flat, dual.choice)
    if cost < dual.numbers[1]:
        dual.numbers[1] = cost
        dual.best_choice[:] = dual.choice


@compiled
def _turn(prices: Floats, direction: Floats, slack: Ints) -> float:
    """Turn the direction towards what the slack asks for; its squared length."""
    count = len(prices)
    window = max(1, count // _WINDOWS)
    norm = 0.0
    for begin in range(0, count, window):
        end = min(begin + window, count)
        peak = begin
        for t in range(begin, end):
            if slack[t] < slack[peak]:
                peak = t
        for t in range(begin, end):
            if prices[t] <= 0.0 and t != peak:
                direction[t] = 0.0
                continue
            d = _KEEP * direction[t] - slack[t]
            direction[t] = 0.0 if prices[t] <= 0.0 and d < 0.0 else d
            norm += direction[t] * direction[t]
    return norm


@compiled
def seek(flat: Flat, wiring: Wiring, dual: Dual, sweeps: int) -> None:
    """Raise prices wherever the choice does not fit, faster and faster, until one fits."""
    prices, messages = dual.best_prices.copy(), dual.messages.copy()
    price, over = np.empty(len(flat.nodes.cost)), np.empty(len(flat.nodes.cost))
    count, total = 0, 0.0
    for t in range(len(prices)):
        if prices[t] > 0.0:
            count += 1
            total += prices[t]
    size = 1.0
    for t in range(len(flat.limits)):
        size = max(size, float(flat.limits[t]))
    usual = total / count if count else abs(dual.numbers[0]) / size + 1e-300
    for turn in range(sweeps):
        priced(flat, prices, price)
        sweep(flat, wiring, price, messages, dual.choice, over, 1 - 2 * (turn % 2))
        slack = slack_of(flat, dual.choice)
        before = dual.numbers[1]
        _remember(flat, dual, slack)
        if dual.numbers[1] < before:
            return
        for t in range(len(prices)):
            if slack[t] < 0:
                prices[t] = prices[t] * 1.2 + usual * 0.02 * 1.1**turn


@compiled
def bounds_of(flat: Flat, wiring: Wiring, dual: Dual) -> Floats:
    """For each strategy a bound on the cost of all choices with it, at the best prices.

    Source: Kolmogorov (2006), section 4: after a sweep there, what a node hears on the way back are
    the least costs of the chains through it.
    """
    price, over = np.empty(len(flat.nodes.cost)), np.empty(len(flat.nodes.cost))
    given = priced(flat, dual.best_prices, price)
    messages, choice = dual.messages.copy(), dual.choice.copy()
    bound = sweep(flat, wiring, price, messages, choice, over, 1) - given
    sweep(flat, wiring, price, messages, choice, over, -1)
    return over + bound
