"""Every sharding of one tensor shape on a mesh, and the cheapest way between any two of them.

A search asks for thousands of reshards of a few shapes. The shardings of a shape are few (some
hundreds on three axes), so all their moves are priced once and all shortest paths found together.

Source:
    Dijkstra, "A note on two problems in connexion with graphs" (1959), run from every state; the
    moves are those of ``moves.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from shardwright.cluster import Mesh
from shardwright.sharding.collective import Collective
from shardwright.sharding.moves import Board, State
from shardwright.sharding.reshard import Reshard
from shardwright.sharding.spec import Sharding

_STEP = 1e-13
"""Added to every move, so that of equal prices the path of fewest steps wins."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Atlas:
    """All shortest reshards of one shape.

    Attributes:
        index: number of each sharding.
        prices: cheapest price from each sharding (row) to each other (column).
        before: on that path, the sharding before the last.
        moves: the single move between neighbouring shardings.
    """

    index: dict[Sharding, int]
    prices: NDArray[np.float64]
    before: NDArray[np.int32]
    moves: dict[tuple[int, int], Collective] = field(repr=False)

    @staticmethod
    def of(
        shape: tuple[int, ...],
        itemsize_bytes: int,
        mesh: Mesh,
        price: Callable[[Collective], float],
    ) -> Atlas:
        """The atlas of a shape; its number of shardings grows with axes and dims, not sizes."""
        board = Board(
            shape=shape,
            whole_bytes=math.prod(shape) * itemsize_bytes,
            axes=tuple((axis.name, axis.size) for axis in mesh.axes),
            dims=tuple(range(len(shape))),
            kept=(),
        )
        index, moves = _explore(board, (((),) * len(shape), ()), price)
        weights = {pair: price(move) + _STEP for pair, move in moves.items()}
        rows, columns = (np.array([pair[k] for pair in weights], dtype=np.int64) for k in (0, 1))
        graph = csr_array(
            (np.fromiter(weights.values(), dtype=np.float64), (rows, columns)),
            shape=(len(index), len(index)),
        )
        prices, before = dijkstra(graph, return_predecessors=True)
        prices[prices < len(index) * _STEP] = 0.0
        return Atlas(
            index={Sharding(dims=state[0]): number for state, number in index.items()},
            prices=prices,
            before=before,
            moves=moves,
        )

    def matrix(
        self, sources: Sequence[Sharding], targets: Sequence[Sharding]
    ) -> NDArray[np.float64]:
        """Prices from each of ``sources`` (rows) to each of ``targets``."""
        rows = [self.index[sharding] for sharding in sources]
        columns = [self.index[sharding] for sharding in targets]
        return self.prices[np.ix_(rows, columns)]

    def path(self, source: Sharding, target: Sharding) -> Reshard:
        """The collectives of the cheapest path, in running order."""
        start, here = self.index[source], self.index[target]
        names = {number: sharding for sharding, number in self.index.items()}
        steps: list[Collective] = []
        layouts: list[Sharding] = []
        while here != start:
            earlier = int(self.before[start, here])
            steps.append(self.moves[earlier, here])
            layouts.append(names[here])
            here = earlier
        return Reshard(
            steps=tuple(steps[::-1]),
            layouts=tuple(layouts[::-1]),
            price=float(self.prices[start, self.index[target]]),
        )


def _explore(
    board: Board, start: State, price: Callable[[Collective], float]
) -> tuple[dict[State, int], dict[tuple[int, int], Collective]]:
    """Every state that can be reached, and the cheapest move between each two neighbours."""
    index = {start: 0}
    waiting = [start]
    moves: dict[tuple[int, int], Collective] = {}
    while waiting:
        state = waiting.pop()
        for move, after in board.moves(state):
            if after not in index:
                index[after] = len(index)
                waiting.append(after)
            pair = (index[state], index[after])
            known = moves.get(pair)
            if known is None or price(move) < price(known):
                moves[pair] = move
    return index, moves
