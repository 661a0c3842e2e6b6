"""The compiled entry of a step: which arguments jit sees, and which of them it may take over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
from jax.sharding import NamedSharding

from shardwright.execute.signature import Signature
from shardwright.jax_bridge import ClosedJaxpr, PyTreeDef, jaxpr_as_fun


@final
@dataclass(frozen=True, kw_only=True)
class Entry:
    """A jitted step.

    Attributes:
        jitted: takes the constants, then what ``arguments`` gives.
        donated_args: positions of the arguments that the step takes over whole; None when that
            does not go by whole arguments, so that leaves must be sorted at each call.
    """

    jitted: Any
    signature: Signature
    donated_args: tuple[int, ...] | None

    def arguments(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The leaves of a call in the grouping that ``jitted`` takes."""
        if self.donated_args is not None:
            args, _ = jax.tree.unflatten(self.signature.tree, leaves)
            return tuple(args)
        return _sorted_leaves(self.signature, leaves)

    def is_safe(self, args: tuple[Any, ...]) -> bool:
        """Whether no array is gone, and none given twice: a donated one may be given only once."""
        leaves = jax.tree_util.tree_leaves(args)
        if len(set(map(id, leaves))) != len(leaves):
            return False
        try:
            return True not in [leaf.is_deleted() for leaf in leaves]
        except AttributeError:  # A numpy array among them.
            held = [leaf for leaf in leaves if hasattr(leaf, "is_deleted")]
            return True not in [leaf.is_deleted() for leaf in held]


def entry(
    *,
    name: str,
    jaxpr: ClosedJaxpr,
    signature: Signature,
    constants: Sequence[NamedSharding],
    outputs: Any,
    out_tree: PyTreeDef,
) -> Entry:
    """The entry of a step.

    Args:
        name: what profiles call it.
        jaxpr: leaves, then constants in; flat results out.
        signature: of the leaves.
        constants: where each constant lies.
        outputs: pytree of where each result lies.
        out_tree: its structure.
    """
    flat = jaxpr_as_fun(jaxpr)
    donated_args = _whole_donated_args(signature)

    def by_argument(constants: tuple[Any, ...], *args: Any) -> Any:
        leaves = signature.flatten(args, {})
        signature.check(leaves)
        return jax.tree.unflatten(out_tree, flat(*leaves, *constants))

    def by_leaf(constants: tuple[Any, ...], donated: Sequence[Any], kept: Sequence[Any]) -> Any:
        donated_leaves, kept_leaves = iter(donated), iter(kept)
        leaves = [
            next(donated_leaves if position in signature.donated else kept_leaves)
            for position in range(len(signature.tensors))
        ]
        signature.check(leaves)
        return jax.tree.unflatten(out_tree, flat(*leaves, *constants))

    function: Callable[..., Any] = by_leaf
    groups: Sequence[Any] = _sorted_leaves(signature, signature.shardings)
    taken: tuple[int, ...] = (1,)
    if donated_args is not None:
        function, taken = by_argument, tuple(position + 1 for position in donated_args)
        groups, _ = jax.tree.unflatten(signature.tree, signature.shardings)
    function.__name__ = function.__qualname__ = name
    jitted = jax.jit(
        function,
        in_shardings=(tuple(constants), *groups),
        out_shardings=outputs,
        donate_argnums=taken,
    )
    return Entry(jitted=jitted, signature=signature, donated_args=donated_args)


def _sorted_leaves(signature: Signature, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    donated = [leaf for i, leaf in enumerate(leaves) if i in signature.donated]
    kept = [leaf for i, leaf in enumerate(leaves) if i not in signature.donated]
    return donated, kept


def _whole_donated_args(signature: Signature) -> tuple[int, ...] | None:
    """Arguments all of whose leaves are donated, if no other leaf is and there are no keywords."""
    positions = jax.tree.unflatten(signature.tree, range(len(signature.tensors)))
    args, kwargs = positions
    if kwargs:
        return None
    leaves = [jax.tree.leaves(arg) for arg in args]
    whole = tuple(
        i for i, of_arg in enumerate(leaves) if of_arg and signature.donated.issuperset(of_arg)
    )
    covered = {position for i in whole for position in leaves[i]}
    return whole if covered == signature.donated else None
