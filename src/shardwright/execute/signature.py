"""What a program takes: its arguments' structure, shapes, element types and places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from shardwright.errors import ExecuteError
from shardwright.ir import Graph, Tensor
from shardwright.jax_bridge import PyTreeDef

_STATE_HINT = "the state that the last step returned; a step takes its state's memory over"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The flattened arguments of one program.

    Attributes:
        tree: structure of (args, kwargs).
        tensors: one per leaf.
        shardings: where each leaf lies.
        donated: positions of the leaves whose memory the step takes over.
    """

    tree: PyTreeDef
    tensors: tuple[Tensor, ...]
    shardings: tuple[NamedSharding, ...]
    donated: frozenset[int]

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call's arguments.

        Raises:
            ExecuteError: they are of another structure than the plan was made for.
        """
        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self.tree:
            raise ExecuteError(
                f"the arguments have another structure than the plan was made for:"
                f" {len(leaves)} arrays in {_short(tree)},"
                f" against {len(self.tensors)} in {_short(self.tree)}",
                hint="arguments like those that were captured, or a new plan",
            )
        return leaves

    def check(self, leaves: Sequence[Any]) -> None:
        """Check shapes and element types, one per leaf.

        Raises:
            ExecuteError: one differs from what the plan was made for.
        """
        for tensor, leaf in zip(self.tensors, leaves, strict=True):
            shape = tuple(jnp.shape(leaf))
            dtype = str(leaf.dtype if isinstance(leaf, jax.Array) else jnp.result_type(leaf))
            if shape != tensor.shape or dtype != tensor.dtype:
                raise ExecuteError(
                    f"{tensor.label} is {dtype}{list(shape)}; the plan was made for"
                    f" {tensor.dtype}{list(tensor.shape)}",
                    hint="arguments like those that were captured, or a new plan",
                )

    def place(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves where the plan wants them; those that lie there already are passed on.

        A donated leaf that has to move is copied, so the caller's array stays whole; so is one that
        shares its memory with another leaf, since the same memory cannot be taken twice.

        Raises:
            ExecuteError: a leaf is gone, because an earlier step took its memory.
        """
        given, taken = set[int](), set[int]()
        placed = []
        for position, leaf in enumerate(leaves):
            self._check_alive(position, leaf)
            leaf = self._moved(position, leaf)
            address = int(leaf.addressable_data(0).unsafe_buffer_pointer())
            donated = position in self.donated
            if address in (given if donated else taken):
                leaf = _copied(leaf, self.shardings[position])
                address = int(leaf.addressable_data(0).unsafe_buffer_pointer())
            given.add(address)
            if donated:
                taken.add(address)
            placed.append(leaf)
        return placed

    def _moved(self, position: int, leaf: Any) -> Any:
        wanted = self.shardings[position]
        if isinstance(leaf, jax.Array) and leaf.sharding.is_equivalent_to(wanted, leaf.ndim):
            return leaf
        return (_copied if position in self.donated else jax.device_put)(leaf, wanted)

    def _check_alive(self, position: int, leaf: Any) -> None:
        if isinstance(leaf, jax.Array) and leaf.is_deleted():
            raise ExecuteError(
                f"{self.tensors[position].label} is gone: an earlier step took its memory over",
                hint=_STATE_HINT,
            )


def signature_of(
    graph: Graph, tree: PyTreeDef, shardings: Sequence[NamedSharding], *, donate: bool
) -> Signature:
    """The signature of a step's arguments; closed-over constants are no part of it."""
    count = tree.num_leaves
    returned = frozenset(graph.outputs)
    state = {before for before, _ in graph.state_pairs if before not in returned}
    return Signature(
        tree=tree,
        tensors=tuple(graph.tensor(tensor_id) for tensor_id in graph.inputs[:count]),
        shardings=tuple(shardings[:count]),
        donated=frozenset(
            position
            for position, tensor_id in enumerate(graph.inputs[:count])
            if donate and tensor_id in state
        ),
    )


def _copied(leaf: Any, sharding: NamedSharding) -> jax.Array:
    """The leaf there, in memory of its own."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        # Typed keys are moved without regard to aliasing, so their words are copied first.
        words = jnp.array(jax.random.key_data(leaf), copy=True)
        leaf = jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
        return jax.device_put(leaf, sharding)
    return jax.device_put(leaf, sharding, may_alias=False)


def _short(tree: PyTreeDef) -> str:
    text = str(tree).removeprefix("PyTreeDef(").removesuffix(")")
    return text if len(text) <= 120 else text[:117] + "..."
