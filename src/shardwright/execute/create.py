"""State made where it will lie, so that no device ever holds the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from shardwright.errors import ExecuteError


def create(init: Callable[..., Any], *args: Any, shardings: Any) -> Any:
    """What ``init(*args)`` gives, each leaf made directly in its shards.

    Args:
        init: makes the state, parameters and optimizer alike, from keys and sizes.
        *args: arrays, such as a random key; every device gets them whole.
        shardings: pytree of ``NamedSharding`` like the result, such as a program's
            ``input_shardings[0]``.

    Raises:
        ExecuteError: ``init`` gives a state of another structure or shape than planned.
    """
    compiled = lower_create(init, *args, shardings=shardings).compile()
    return compiled(*_on_mesh(args, shardings))


def lower_create(init: Callable[..., Any], *args: Any, shardings: Any) -> jax.stages.Lowered:
    """The creation of a state, lowered but not run."""
    wanted: Any = jax.tree.structure(shardings)
    state = jax.eval_shape(init, *args)
    given: Any = jax.tree.structure(state)
    if given != wanted:
        raise ExecuteError(
            f"the state has another structure than the plan was made for:"
            f" {given.num_leaves} arrays against {wanted.num_leaves}",
            hint="the function that made the captured state, or a new plan",
        )
    for (path, leaf), sharding in zip(
        jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(shardings), strict=True
    ):
        try:
            sharding.shard_shape(leaf.shape)
        except ValueError as error:
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ExecuteError(
                f"{name} of shape {list(leaf.shape)} cannot be cut as {sharding.spec}: {error}",
                hint="the function that made the captured state, or a new plan",
            ) from error
    jitted = jax.jit(init, out_shardings=shardings)
    return jitted.lower(*_on_mesh(args, shardings))


def _on_mesh(args: tuple[Any, ...], shardings: Any) -> tuple[Any, ...]:
    """The arguments whole on every device; one committed to a single device would not go in."""
    leaves = jax.tree.leaves(shardings)
    if not leaves:
        return args
    return tuple(jax.device_put(args, NamedSharding(leaves[0].mesh, PartitionSpec())))
