"""The cheapest way from one sharding of a tensor to another, as a path of collectives.

A state is a sharding; a move is one collective (``moves.py``). The path is a shortest path, so an
edge of the strategy graph is never priced by a full gather when a cheaper way exists.

Source:
    Dijkstra, "A note on two problems in connexion with graphs" (1959), over the moves of
    "Memory-efficient array redistribution through portable collective communication" (Rink et al.,
    2021), which also shows that a gather of everything is never needed.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

from shardwright.cluster import Mesh
from shardwright.errors import ShardingError
from shardwright.sharding.collective import Collective
from shardwright.sharding.moves import Board, Move, State
from shardwright.sharding.spec import Sharding

Price = Callable[[Collective], float]
"""What one collective costs, in any unit that adds up; never negative."""

_Entry = tuple[float, int, int, State, State, Move | None]
"""Price and steps so far, a running number, the state, where it was reached from and how."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reshard:
    """A path of collectives.

    Attributes:
        steps: in running order; empty when nothing has to be done.
        layouts: how the tensor lies after each step; the last is the target.
        price: the sum over the steps, in the unit of the price that was asked for.
    """

    steps: tuple[Collective, ...]
    layouts: tuple[Sharding, ...]
    price: float


def reshard(
    shape: tuple[int, ...],
    itemsize_bytes: int,
    source: Sharding,
    target: Sharding,
    mesh: Mesh,
    price: Price,
) -> Reshard:
    """The cheapest path from ``source`` to ``target``; of equal prices the one of fewest steps.

    Answers are remembered by value, so ``price`` must be hashable: a function, or a frozen object
    with ``__call__``.

    Args:
        shape: of the whole tensor.
        itemsize_bytes: of one element.
        source: how it lies; may be unreduced.
        target: how it shall lie; unreduced at most over axes of ``source.unreduced``.
        mesh: gives the axis sizes.
        price: of one collective.

    Raises:
        ShardingError: a dim does not divide, or ranks differ, or the target asks for partial sums
            that the source does not have.
    """
    if source == target:
        return _NOTHING
    return _reshard(shape, itemsize_bytes, source, target, mesh, price)


_NOTHING = Reshard(steps=(), layouts=(), price=0.0)


@lru_cache(maxsize=1 << 18)
def _reshard(
    shape: tuple[int, ...],
    itemsize_bytes: int,
    source: Sharding,
    target: Sharding,
    mesh: Mesh,
    price: Price,
) -> Reshard:
    _check(shape, source, target, mesh)
    board = Board.between(source, target, shape, itemsize_bytes, mesh)
    return _search(board, board.state(source), price).path_to(board.state(target), target)


@lru_cache(maxsize=512)
def _search(board: Board, start: State, price: Price) -> _Search:
    return _Search(_priced_moves(board, price), start)


@lru_cache(maxsize=512)
def _priced_moves(board: Board, price: Price) -> _PricedMoves:
    return _PricedMoves(board, price)


@final
class _PricedMoves:
    """Moves with their prices, shared by all searches of one tensor's shape."""

    def __init__(self, board: Board, price: Price) -> None:
        self._board = board
        self._price = price
        self._known: dict[State, list[tuple[float, Move]]] = {}

    def of(self, state: State) -> list[tuple[float, Move]]:
        """Every move from the state, with its price."""
        moves = self._known.get(state)
        if moves is None:
            moves = [(self._price(move[0]), move) for move in self._board.moves(state)]
            self._known[state] = moves
        return moves


@final
class _Search:
    """Shortest paths from one layout, grown only as far as the farthest target asked for.

    States are settled in one fixed order, so an answer does not depend on what was asked before.
    """

    def __init__(self, moves: _PricedMoves, start: State) -> None:
        self._moves = moves
        self._count = itertools.count(1)
        self._settled: dict[State, tuple[float, State, Move | None]] = {}
        first: _Entry = (0.0, 0, 0, start, start, None)
        self._queue: list[_Entry] = [first]

    def path_to(self, goal: State, target: Sharding) -> Reshard:
        """The cheapest path; gathering everything makes sure that there is one."""
        while goal not in self._settled:
            self._settle_next()
        steps: list[Collective] = []
        layouts: list[Sharding] = []
        state = goal
        while (move := self._settled[state][2]) is not None:
            steps.append(move[0])
            layouts.append(Sharding(dims=state[0], unreduced=state[1]) if layouts else target)
            state = self._settled[state][1]
        return Reshard(
            steps=tuple(steps[::-1]), layouts=tuple(layouts[::-1]), price=self._settled[goal][0]
        )

    def _settle_next(self) -> None:
        spent, steps, _, state, before, move = heapq.heappop(self._queue)
        if state in self._settled:
            return
        self._settled[state] = (spent, before, move)
        for cost, onward in self._moves.of(state):
            if onward[1] not in self._settled:
                entry = (spent + cost, steps + 1, next(self._count), onward[1], state, onward)
                heapq.heappush(self._queue, entry)


def _check(shape: tuple[int, ...], source: Sharding, target: Sharding, mesh: Mesh) -> None:
    for word, sharding in (("source", source), ("target", target)):
        if sharding.rank != len(shape):
            raise ShardingError(
                f"the {word} {sharding} of a reshard has {sharding.rank} dims, "
                f"the tensor has {len(shape)}"
            )
        names = (*sharding.axes, *sharding.unreduced)
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ShardingError(f'the {word} {sharding} of a reshard uses axis "{twice[0]}" twice')
        _check_even(shape, word, sharding, mesh)
    extra = [axis for axis in target.unreduced if axis not in source.unreduced]
    if extra:
        raise ShardingError(
            f'the target {target} is unreduced over "{extra[0]}", the source {source} is not',
            hint="only an operator makes partial sums; ask for a finished target",
        )


def _check_even(shape: tuple[int, ...], word: str, sharding: Sharding, mesh: Mesh) -> None:
    for dim, (size, axes) in enumerate(zip(shape, sharding.dims, strict=True)):
        ways = mesh.size_of(axes)
        if size % ways:
            raise ShardingError(
                f"dim {dim} of the {word} {sharding} has size {size}; "
                f"mesh axes {'+'.join(axes)} of size {ways} do not divide it",
                hint="reshards move equal pieces only; leave that dim whole",
            )
