"""A training step for one device with all that is needed to run, trace or plan it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

State = dict[str, Any]
Batch = dict[str, Any]
Metrics = dict[str, jax.Array]
Params = dict[str, Any]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSource:
    """Where batches come from.

    Attributes:
        shapes: shape and dtype of each entry of a batch.
        make: a seed in, a numpy batch of these shapes out; the same seed gives the same batch.
    """

    shapes: Mapping[str, jax.ShapeDtypeStruct]
    make: Callable[[int], Batch]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StepCase:
    """One training step as a plain function for one device.

    Attributes:
        name: what the report calls it.
        step: (state, batch) in, (state, metrics) out; the state holds ``params``, ``opt_state``
            and, where a model has running statistics, ``stats``; metrics hold ``loss``.
        init_state: a key in, the first state out; may be traced.
        batches: where batches come from.
    """

    name: str
    step: Callable[[State, Batch], tuple[State, Metrics]]
    init_state: Callable[[jax.Array], State]
    batches: BatchSource

    def make_batch(self, seed: int) -> Batch:
        """A numpy batch; the same seed gives the same batch."""
        return self.batches.make(seed)

    def abstract_state(self) -> State:
        """Shapes and dtypes of the state; nothing is allocated, whatever the model's size."""
        return jax.eval_shape(self.init_state, jax.random.key(0))

    def abstract_batch(self) -> Batch:
        """Shapes and dtypes of a batch; nothing is allocated."""
        return dict(self.batches.shapes)

    def parameter_count(self) -> int:
        """Number of trained scalars, counted on shapes."""
        leaves = jax.tree.leaves(self.abstract_state()["params"])
        return sum(int(np.prod(leaf.shape, dtype=np.int64)) for leaf in leaves)
