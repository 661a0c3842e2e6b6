"""Instances that the tests make: random small graphs, and graphs like those of a planner.

The planner-like ones are transformer steps on a mesh of two axes. A node is a merged operator; a
strategy gives each axis to one of its factors and says how its parameters are kept. An edge costs a
reshard between two layouts, so its matrix has as many distinct rows as there are layouts, and what
cannot be resharded is forbidden.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass

import numpy as np

from shardwright.solver.graph import FORBIDDEN, FORBIDDEN_INT, StrategyGraph
from shardwright.solver.solve import solve

AXES = ((4, 200e9, 4e-6), (8, 40e9, 12e-6))
"""Size, bytes per second and latency of each mesh axis."""

FLOP_PER_S = 4e14
MEMORY_BYTES_PER_S = 2e12


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of node: which factors it has, its matrix product, and whether it holds parameters."""

    factors: str
    read: dict[str, str]
    write: dict[str, str]
    in_dim: int
    out_dim: int
    keeps: tuple[str, ...] = ("whole",)


def _kinds(width: int, hidden: int, keeps: tuple[str, ...]) -> dict[str, Kind]:
    pointwise = {"b": "b", "s": "s", "n": "n", "+": "+"}
    same = {"read": pointwise, "write": pointwise, "in_dim": width, "out_dim": width}
    return {
        "norm": Kind(factors="bs", **same),
        "add": Kind(factors="bsn+", **same),
        "attend": Kind(factors="bn", **same),
        "product": Kind(
            factors="bskn",
            read={"b": "b", "s": "s", "k": "n"},
            write={"b": "b", "s": "s", "n": "n", "k": "+"},
            in_dim=width,
            out_dim=hidden,
            keeps=keeps,
        ),
    }


def transformer_graph(
    *,
    num_layers: int,
    tightness: float | None = None,
    batch: int = 16,
    length: int = 512,
    width: int = 1024,
    keeps: tuple[str, ...] = ("whole", "zero1", "zero3"),
    has_hub: bool = False,
    has_backward: bool = False,
    seed: int = 0,
) -> StrategyGraph:
    """A planner-like graph of ten nodes per layer with skip edges.

    Args:
        num_layers: layers of ten nodes, and of nine more with a backward pass.
        tightness: None for no limit; 0 is what the best choice uses, 1 the least possible.
        batch: sequences; with ``length`` and ``width`` it sets the balance of costs.
        length: tokens of a sequence.
        width: features of a token.
        keeps: how parameters may be kept; each multiplies the strategies of products.
        has_hub: whether one node (a mask) joins every attention.
        has_backward: whether gradients flow back along the layers and read what they saved.
        seed: of the small differences between layers.
    """
    builder = _Builder(np.random.default_rng(seed), batch * length)
    kinds = _kinds(width, 4 * width, keeps)
    flow, hub = builder.add("add", kinds["add"]), None
    if has_hub:
        hub = builder.add("mask", kinds["attend"])
    layers = []
    for _ in range(num_layers):
        layers.append(_layer(builder, kinds, flow, hub))
        flow = layers[-1]["out"]
    for layer in reversed(layers) if has_backward else ():
        flow = _backward(builder, kinds, flow, layer)
    graph = builder.graph()
    return graph if tightness is None else with_limit(graph, tightness)


def _layer(builder: _Builder, kinds: dict[str, Kind], flow: int, hub: int | None) -> dict[str, int]:
    norm = builder.chain("norm", kinds["norm"], flow)
    queries = builder.chain("product", kinds["product"], norm)
    keys = builder.chain("product", kinds["product"], norm)
    attend = builder.chain("attend", kinds["attend"], queries, keys)
    if hub is not None:
        builder.join(hub, attend)
    project = builder.chain("product", kinds["product"], attend)
    middle = builder.chain("add", kinds["add"], flow, project)
    norm2 = builder.chain("norm", kinds["norm"], middle)
    up = builder.chain("product", kinds["product"], norm2)
    down = builder.chain("product", kinds["product"], up)
    out = builder.chain("add", kinds["add"], middle, down)
    return locals() | {"builder": 0, "kinds": 0}


def _backward(builder: _Builder, kinds: dict[str, Kind], flow: int, saved: dict[str, int]) -> int:
    plain = dataclasses.replace(kinds["product"], keeps=("whole",))
    down = builder.chain("product", plain, flow, saved["up"], saved["down"])
    up = builder.chain("product", plain, down, saved["norm2"], saved["up"])
    norm = builder.chain("norm", kinds["norm"], up, saved["middle"])
    middle = builder.chain("add", kinds["add"], flow, norm)
    project = builder.chain("product", plain, middle, saved["attend"], saved["project"])
    attend = builder.chain("attend", kinds["attend"], project, saved["queries"], saved["keys"])
    queries = builder.chain("product", plain, attend, saved["norm"], saved["queries"])
    keys = builder.chain("product", plain, attend, saved["norm"], saved["keys"])
    return builder.chain("add", kinds["add"], middle, queries, keys)


class _Builder:
    def __init__(self, rng: np.random.Generator, tokens: int) -> None:
        self.rng, self.tokens = rng, tokens
        self.costs: list[np.ndarray] = []
        self.usages: list[np.ndarray] = []
        self.reads: list[list[tuple[str, ...]]] = []
        self.writes: list[list[tuple[str, ...]]] = []
        self.dims: list[int] = []
        self.kept: list[bool] = []
        self.edges: list[tuple[int, int]] = []

    def add(self, name: str, kind: Kind) -> int:
        jitter = 1.0 + 0.2 * self.rng.random()
        lost = self.rng.random() < 0.25  # heads or blocks that the wider axis does not divide
        rows = [
            (given, keep)
            for given in itertools.product(kind.factors + "-", repeat=len(AXES))
            for keep in kind.keeps
            if not (lost and given[1] == "n")
            and not (keep != "whole" and all(g in "kn" for g in given))
        ]
        priced = [_price(name, kind, given, keep, self.tokens, jitter) for given, keep in rows]
        self.costs.append(np.array([cost for cost, _ in priced]))
        self.usages.append(np.array([int(usage) for _, usage in priced]))
        self.reads.append([tuple(kind.read.get(g, "-") for g in given) for given, _ in rows])
        self.writes.append([tuple(kind.write.get(g, "-") for g in given) for given, _ in rows])
        self.dims.append(kind.out_dim)
        self.kept.append(len(kind.keeps) > 1)
        return len(self.costs) - 1

    def chain(self, name: str, kind: Kind, *sources: int) -> int:
        node = self.add(name, kind)
        for source in sources:
            self.join(source, node)
        return node

    def join(self, source: int, node: int) -> None:
        self.edges.append((source, node))

    def graph(self) -> StrategyGraph:
        count = len(self.costs)
        return StrategyGraph(
            node_costs=tuple(self.costs),
            usages=tuple(self.usages),
            intervals=tuple(
                (0, 2 * count) if self.kept[node] else self._life(node, count, 8)
                for node in range(count)
            ),
            edges=tuple(self.edges),
            edge_costs=tuple(self._matrix(u, v) for u, v in self.edges),
        )

    def _life(self, node: int, count: int, phases: int) -> tuple[int, int]:
        phase = node * phases // count
        width = max(1, count // phases)
        return (phase * width, (phase + 2) * width)

    def _matrix(self, u: int, v: int) -> np.ndarray:
        size_bytes = 2.0 * self.tokens * self.dims[u]
        prices = {
            (a, b): _reshard(a, b, size_bytes)
            for a in set(self.writes[u])
            for b in set(self.reads[v])
        }
        return np.array([[prices[a, b] for b in self.reads[v]] for a in self.writes[u]])


def _price(
    name: str, kind: Kind, given: tuple[str, ...], keep: str, tokens: int, jitter: float
) -> tuple[float, float]:
    """Seconds and bytes of one strategy."""
    parts = math.prod(size for (size, _, _), g in zip(AXES, given, strict=True) if g not in "-+")
    cut = math.prod(size for (size, _, _), g in zip(AXES, given, strict=True) if g in "kn")
    activation = 2.0 * tokens * kind.out_dim / parts
    if name != "product":
        return jitter * 3 * activation / MEMORY_BYTES_PER_S, activation
    weights = kind.in_dim * kind.out_dim / cut
    cost = jitter * 6.0 * tokens * kind.in_dim * kind.out_dim / parts / FLOP_PER_S
    usage = 16.0 * weights + activation
    for (size, rate, latency), g in zip(AXES, given, strict=True):
        if g in "kn":
            continue
        if keep != "whole":
            usage -= (
                {"zero1": 12.0, "zero2": 14.0, "zero3": 16.0}[keep]
                * weights
                * (1 - 1 / size)
                / len(AXES)
            )
        sums = {"whole": 2.0, "zero1": 2.0, "zero2": 2.5, "zero3": 3.0}[keep] if g in "bs" else 0.0
        if keep == "zero3":
            cost += 2 * latency
        cost += sums * 2 * weights * (1 - 1 / size) / rate + (latency if sums else 0.0)
    return cost, usage


def _reshard(a: tuple[str, ...], b: tuple[str, ...], size_bytes: float) -> float:
    """Seconds from one layout to another, axis by axis; infinite where it cannot be."""
    total, left = 0.0, size_bytes
    for (size, _, _), held in zip(AXES, a, strict=True):
        left /= size if held not in "-+" else 1
    for (size, rate, latency), held, want in zip(AXES, a, b, strict=True):
        if held == want or (held == "-" and want != "+"):
            continue
        if want == "+":
            return FORBIDDEN
        share = {"+": 2.0 if want == "-" else 1.0}.get(
            held, size - 1.0 if want == "-" else 1 / size
        )
        total += share * left * (1 - 1 / size) / rate + latency
    return total


def with_limit(graph: StrategyGraph, tightness: float) -> StrategyGraph:
    """The graph with a limit between what its best choice uses (0) and the least possible (1)."""
    best = solve(graph, gap=1e-3).choice
    assert best is not None
    most = graph.peak_usage(best)[0]
    least = graph.peak_usage([int(np.argmin(usages)) for usages in graph.usages])[0]
    limit = int(least + (1 - tightness) * max(0, most - least))
    return dataclasses.replace(graph, usage_limit=limit)


def random_graph(
    rng: np.random.Generator,
    *,
    most_nodes: int = 6,
    most_strategies: int = 4,
    is_integral: bool | None = None,
) -> StrategyGraph:
    """A small graph of any shape: parallel edges, loops, empty lives, forbidden and ties."""
    num_nodes = int(rng.integers(1, most_nodes + 1))
    sizes = rng.integers(1, most_strategies + 1, num_nodes)
    integral = bool(rng.random() < 0.5) if is_integral is None else is_integral
    largest = int(rng.choice([2, 5, 100]))
    forbidden = float(rng.choice([0.0, 0.1, 0.4]))

    def costs(shape: tuple[int, ...]) -> np.ndarray:
        values = rng.integers(0, largest, shape)
        mask = rng.random(shape) < forbidden
        if integral:
            return np.where(mask, FORBIDDEN_INT, values)
        return np.where(mask, FORBIDDEN, values * rng.choice([1.0, 0.1, 1e-3]))

    pairs = [tuple(map(int, rng.integers(0, num_nodes, 2))) for _ in range(rng.integers(0, 9))]
    has_loops = rng.random() < 0.1
    edges = tuple((u, v) for u, v in pairs if u != v or has_loops)
    starts, lengths = rng.integers(-3, 6, num_nodes), rng.integers(-1, 5, num_nodes)
    return StrategyGraph(
        node_costs=tuple(costs((size,)) for size in sizes),
        usages=tuple(rng.integers(0, int(rng.choice([1, 3, 10])), size) for size in sizes),
        intervals=tuple(
            (int(lo), int(lo + length)) for lo, length in zip(starts, lengths, strict=True)
        ),
        edges=edges,
        edge_costs=tuple(costs((sizes[u], sizes[v])) for u, v in edges),
        usage_limit=None if rng.random() < 0.3 else int(rng.integers(0, 4 * num_nodes)),
    )
