"""From a loss to a whole training step: gradient, optimizer, new state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import optax

from shardwright.errors import UsageError, did_you_mean
from shardwright.models.case import Batch, BatchSource, Metrics, Params, State, StepCase

# Rates at which the tiny models learn within a few steps.
_LEARNING_RATES = {"sgd": 0.1, "momentum": 0.03, "adam": 1e-2, "adamw": 1e-2, "adafactor": 1e-2}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How a model is trained.

    Attributes:
        optimizer: ``sgd``, ``momentum``, ``adam``, ``adamw`` or ``adafactor``.
        learning_rate: ``None`` takes the optimizer's usual one.
        clip_norm: gradients are scaled down to this global norm; ``None`` leaves them.
        grad_norm: the metrics tell the global norm of the gradients.
        master_weights: the optimizer keeps float32 weights of its own, and those of the model are
            their rounding, so that narrow weights still learn by small steps.

    **Source**: master weights are those of Micikevicius et al. 2018, Mixed Precision Training,
    section 3.1.
    """

    optimizer: str = "sgd"
    learning_rate: float | None = None
    clip_norm: float | None = None
    grad_norm: bool = False
    master_weights: bool = False

    def __post_init__(self) -> None:
        """Refuse an optimizer that does not exist."""
        if self.optimizer not in _LEARNING_RATES:
            raise UsageError(
                f'no optimizer is named "{self.optimizer}"',
                hint=did_you_mean(self.optimizer, _LEARNING_RATES),
            )

    def transformation(self) -> optax.GradientTransformation:
        """The optax optimizer."""
        update = self._update()
        if self.clip_norm is None:
            return update
        return optax.chain(optax.clip_by_global_norm(self.clip_norm), update)

    def initial(self, params: Params) -> State:
        """The first state of these parameters."""
        if not self.master_weights:
            return {"params": params, "opt_state": self.transformation().init(params)}
        master = _wide(params)
        opt_state = {"master": master, "inner": self.transformation().init(master)}
        return {"params": params, "opt_state": opt_state}

    def updated(self, state: State, gradients: Any) -> State:
        """The state after one update."""
        optimizer = self.transformation()
        if not self.master_weights:
            updates, opt_state = optimizer.update(gradients, state["opt_state"], state["params"])
            params = optax.apply_updates(state["params"], updates)
            return {"params": params, "opt_state": opt_state}
        master, inner = state["opt_state"]["master"], state["opt_state"]["inner"]
        updates, inner = optimizer.update(_wide(gradients), inner, master)
        master = optax.apply_updates(master, updates)
        params = jax.tree.map(lambda new, old: new.astype(old.dtype), master, state["params"])
        return {"params": params, "opt_state": {"master": master, "inner": inner}}

    def _update(self) -> optax.GradientTransformation:
        rate = self.learning_rate
        rate = _LEARNING_RATES[self.optimizer] if rate is None else rate
        if self.optimizer == "momentum":
            return optax.sgd(rate, momentum=0.9)
        make: Callable[[float], optax.GradientTransformation] = getattr(optax, self.optimizer)
        return make(rate)


def step_case(
    *,
    name: str,
    init: Callable[[jax.Array], Params],
    loss: Callable[[Params, Batch], jax.Array],
    batches: BatchSource,
    train: TrainConfig,
) -> StepCase:
    """A training step of a model without running statistics.

    Args:
        name: of the case.
        init: a key in, parameters out.
        loss: (parameters, batch) in, a scalar out.
        batches: where batches come from.
        train: optimizer and metrics.
    """

    def init_state(key: jax.Array) -> State:
        return train.initial(init(key))

    def step(state: State, batch: Batch) -> tuple[State, Metrics]:
        value, gradients = jax.value_and_grad(loss)(state["params"], batch)
        new_state = train.updated(state, gradients)
        return new_state, _metrics(train, value, gradients)

    return StepCase(name=name, step=step, init_state=init_state, batches=batches)


def stats_step_case(
    *,
    name: str,
    init: Callable[[jax.Array], tuple[Params, Params]],
    loss: Callable[[Params, Params, Batch], tuple[jax.Array, Params]],
    batches: BatchSource,
    train: TrainConfig,
) -> StepCase:
    """A training step of a model with running statistics, such as batch norm's.

    Args:
        name: of the case.
        init: a key in, parameters and statistics out.
        loss: (parameters, statistics, batch) in, a scalar and new statistics out.
        batches: where batches come from.
        train: optimizer and metrics.
    """

    def init_state(key: jax.Array) -> State:
        params, stats = init(key)
        return train.initial(params) | {"stats": stats}

    def step(state: State, batch: Batch) -> tuple[State, Metrics]:
        differentiate = jax.value_and_grad(loss, has_aux=True)
        (value, stats), gradients = differentiate(state["params"], state["stats"], batch)
        new_state = train.updated(state, gradients) | {"stats": stats}
        return new_state, _metrics(train, value, gradients)

    return StepCase(name=name, step=step, init_state=init_state, batches=batches)


def _wide(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)


def _metrics(train: TrainConfig, loss: jax.Array, gradients: Any) -> Metrics:
    metrics: Metrics = {"loss": loss}
    if train.grad_norm:
        metrics["grad_norm"] = _norm(gradients)
    return metrics


def _norm(tree: Any) -> jax.Array:
    """Euclidean length of all leaves together, a float32 scalar."""
    squares = [jnp.sum(jnp.square(leaf.astype(jnp.float32))) for leaf in jax.tree.leaves(tree)]
    return jnp.sqrt(sum(squares[1:], start=squares[0]))
