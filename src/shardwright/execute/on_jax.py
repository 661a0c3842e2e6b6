"""A plan as a running JAX program.

The step's jaxpr, with the plan's constraints in it, is compiled under the plan's input and output
shardings; XLA's partitioner does the rest. Arguments that already lie as planned go straight to the
compiled program; others are placed first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import jax

from shardwright.execute.dispatch import entry
from shardwright.execute.inject import inject
from shardwright.execute.place import Placement, place
from shardwright.execute.read_back import ReadBack, read_back
from shardwright.execute.signature import Signature, signature_of
from shardwright.ir import Graph
from shardwright.jax_bridge import ClosedJaxpr, PyTreeDef
from shardwright.plan import Plan, verify_plan


def program(
    *,
    graph: Graph,
    jaxpr: ClosedJaxpr,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    plan: Plan,
    devices: Sequence[Any] | None = None,
    donate: bool = True,
) -> Program:
    """The plan as a callable that takes and gives what the step does.

    Args:
        graph: the captured step.
        jaxpr: the same step; equation k of every nested jaxpr is operator k of that region.
        in_tree: structure of (args, kwargs).
        out_tree: structure of the result.
        plan: made for ``graph``.
        devices: the first ones are used; by default all that JAX sees.
        donate: the step takes over the memory of the state that it replaces.

    Raises:
        PlanError: the plan is not one for this graph.
        ExecuteError: there are too few devices, or the plan needs another engine.
    """
    verify_plan(plan, graph)
    placement = place(plan, devices)
    inputs = [placement.resting(graph.tensor(tensor_id)) for tensor_id in graph.inputs]
    return Program(
        graph=graph,
        placement=placement,
        signature=signature_of(graph, in_tree, inputs, donate=donate),
        jaxpr=inject(_constants_as_inputs(jaxpr), graph, placement),
        unplanned=jaxpr,
        constants=tuple(
            zip(jaxpr.consts, inputs[in_tree.num_leaves :], strict=True),
        ),
        out_tree=out_tree,
    )


@final
class Program:
    """A planned step, compiled at its first call.

    Call it as the step itself, with numpy or JAX arrays in any layout. The state that a step
    replaces is donated: pass on what the last call returned.

    Attributes:
        graph: the step.
        placement: the plan's stage on devices.
        signature: what it takes.
        jaxpr: the step with the plan's constraints, constants as its last inputs.
        unplanned: the step as it was captured.
    """

    def __init__(
        self,
        *,
        graph: Graph,
        placement: Placement,
        signature: Signature,
        jaxpr: ClosedJaxpr,
        unplanned: ClosedJaxpr,
        constants: tuple[tuple[Any, jax.sharding.NamedSharding], ...],
        out_tree: PyTreeDef,
    ) -> None:
        self.graph = graph
        self.placement = placement
        self.signature = signature
        self.jaxpr = jaxpr
        self.unplanned = unplanned
        self._out_tree = out_tree
        self._unplaced = constants
        self._constants: tuple[Any, ...] | None = None
        self._entry = entry(
            name=graph.name,
            jaxpr=jaxpr,
            signature=signature,
            constants=[sharding for _, sharding in constants],
            outputs=self.output_shardings,
            out_tree=out_tree,
        )
        self._may_crash = placement.mesh.size > 1
        self._straight: Any = None
        self._compiled: jax.stages.Compiled | None = None
        self._read_back: ReadBack | None = None

    @property
    def mesh(self) -> jax.sharding.Mesh:
        """The devices that it runs on."""
        return self.placement.mesh

    @property
    def input_shardings(self) -> tuple[Any, ...]:
        """Where each positional argument lies, as a pytree of ``NamedSharding`` for each."""
        args, _ = jax.tree.unflatten(self.signature.tree, self.signature.shardings)
        return tuple(args)

    @property
    def output_shardings(self) -> Any:
        """Where the result lies, as a pytree of ``NamedSharding``."""
        outputs = [self.placement.resting(self.graph.tensor(i)) for i in self.graph.outputs]
        return jax.tree.unflatten(self._out_tree, outputs)

    @property
    def output_paths(self) -> tuple[str, ...]:
        """Where each flat result stands in the result, such as ``result.1.loss``."""
        leaves = jax.tree_util.tree_leaves_with_path({"result": self.output_shardings})
        return tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One step.

        Raises:
            ExecuteError: the arguments are not those that the plan was made for, or a donated
                array is used again.
        """
        if self._straight is not None and not kwargs and self._is_safe(args):
            try:
                return self._straight(self._constants, *args)
            except (ValueError, TypeError):
                pass  # An argument lies elsewhere, is gone or is another: place, or say which.
        return self._place_and_run(args, kwargs)

    def lower(self) -> jax.stages.Lowered:
        """The step lowered for the plan's devices; nothing runs and nothing is allocated."""
        avals = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.jaxpr.in_avals]
        count = len(self.signature.tensors)
        return self._entry.jitted.lower(tuple(avals[count:]), *self._entry.arguments(avals[:count]))

    @property
    def compiled(self) -> jax.stages.Compiled:
        """The compiled step: the one that calls run."""
        if self._compiled is None:
            self._compiled = self.lower().compile()
        return self._compiled

    def read_back(self) -> ReadBack:
        """What XLA made of the plan: its collectives and memory."""
        if self._read_back is None:
            self._read_back = read_back(self.compiled)
        return self._read_back

    def place(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The positional arguments, laid out as the plan wants them."""
        leaves = self.signature.flatten(args, kwargs)
        placed, _ = jax.tree.unflatten(self.signature.tree, self.signature.place(leaves))
        return tuple(placed)

    def _is_safe(self, args: tuple[Any, ...]) -> bool:
        # XLA answers a donated array that is gone or given twice with a clean error on one device,
        # but takes the process down on several virtual ones: it must not get there.
        return not self._may_crash or self._entry.is_safe(args)

    def _place_and_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves = self.signature.flatten(args, kwargs)
        self.signature.check(leaves)
        if self._constants is None:
            self._constants = tuple(jax.device_put(*pair) for pair in self._unplaced)
        arguments = self._entry.arguments(self.signature.place(leaves))
        results = self.compiled(self._constants, *arguments)
        # From here on only the caller can bring two arrays of one memory together.
        if self._entry.donated_args is not None:
            self._straight = self.compiled
        return results


def _constants_as_inputs(jaxpr: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with its constants as its last inputs, so that a plan can cut them too."""
    inner = jaxpr.jaxpr
    lifted = inner.replace(constvars=[], invars=[*inner.invars, *inner.constvars])
    return ClosedJaxpr(lifted, [])
