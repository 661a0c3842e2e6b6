"""A step run several times with its state fed back, and what it gave, on the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from shardwright.ir import Graph

Array = np.ndarray[Any, Any]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Typed random keys on the host."""

    implementation: Any
    words: Array


Leaf = Array | Key


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What a run gave.

    Attributes:
        results: per step, the flat results; arrays of all but the last step are dropped.
        update_norms: per step, the norm of the change of all floating state.
    """

    results: tuple[tuple[Array | None, ...], ...]
    update_norms: tuple[float, ...]


def run_trail(
    call: Callable[[Sequence[Any]], Sequence[Any]],
    graph: Graph,
    start: Sequence[Leaf],
    steps: int,
) -> Trail:
    """Run a step from ``start``; ``call`` takes and gives flat arrays."""
    leaves, results, norms = list(start), list[tuple[Array | None, ...]](), list[float]()
    for step in range(1, steps + 1):
        outputs = [to_host(leaf) for leaf in call([to_jax(leaf) for leaf in leaves])]
        words = [leaf.words if isinstance(leaf, Key) else leaf for leaf in outputs]
        results.append(tuple(w if step == steps or not w.ndim else None for w in words))
        norms.append(_feed_back(graph, leaves, outputs))
    return Trail(results=tuple(results), update_norms=tuple(norms))


def jostled(start: Sequence[Leaf], seed: int) -> list[Leaf]:
    """The leaves with every floating number moved by one rounding step, up or down at random."""
    draw = np.random.default_rng(seed)

    def jostle(leaf: Leaf) -> Leaf:
        if isinstance(leaf, Key) or not is_floating(leaf):
            return leaf
        side = draw.choice([-1.0, 1.0], leaf.shape)
        step = float(jnp.finfo(leaf.dtype).eps)
        return np.asarray(leaf * (1 + step * side), dtype=leaf.dtype)

    return [jostle(leaf) for leaf in start]


def to_host(leaf: Any) -> Leaf:
    """A leaf copied to the host."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        words = np.array(jax.device_get(jax.random.key_data(leaf)))
        return Key(implementation=jax.random.key_impl(leaf), words=words)
    return np.array(jax.device_get(leaf))


def to_jax(leaf: Leaf) -> Any:
    """A leaf as a step takes it."""
    if isinstance(leaf, Key):
        return jax.random.wrap_key_data(jnp.asarray(leaf.words), impl=leaf.implementation)
    return leaf


def is_floating(array: Array) -> bool:
    """Whether its numbers are rounded."""
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


def _feed_back(graph: Graph, inputs: list[Leaf], outputs: Sequence[Leaf]) -> float:
    """Put the new state in the old one's place; gives the norm of the change."""
    total = 0.0
    for before, after in graph.state_pairs:
        position = graph.inputs.index(before)
        old, new = inputs[position], outputs[graph.outputs.index(after)]
        inputs[position] = new
        if not isinstance(new, Key) and not isinstance(old, Key) and is_floating(new):
            change = np.abs(new.astype(_wide(new)) - old.astype(_wide(new)))
            total += float(np.sum(change * change))
    return math.sqrt(total)


def _wide(array: Array) -> type[np.complex128] | type[np.float64]:
    return np.complex128 if np.iscomplexobj(array) else np.float64
