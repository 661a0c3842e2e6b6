"""The planned step beside the same step on one device, number by number.

Both start from the same state and take the same batch. What rounding alone does to a number is not
held against a plan: where one differs by more than its element type allows, one device runs twice
more from starts that are moved by one rounding step, and ten times what that changes is allowed. So
the first steps of Adam, which divide a gradient by its own size, or a gradient that is zero but for
rounding, raise no false alarm, while every number that is well defined stays checked.

Source:
    The random perturbation is the usual way to measure how a computation answers to rounding:
    Higham, Accuracy and Stability of Numerical Algorithms (2nd ed., SIAM 2002), chapter 26.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import numpy as np

from shardwright.errors import ExecuteError
from shardwright.execute.on_jax import Program
from shardwright.execute.trail import Array, Leaf, Trail, is_floating, jostled, run_trail, to_host
from shardwright.jax_bridge import jaxpr_as_fun

_TOLERANCES = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4}
_HALF_TOLERANCE = 3e-2
_JOSTLES = 2
_ROUNDINGS = 10.0
"""How much more than one rounding step of the inputs may do to a number, sums being reordered."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeafDifference:
    """One array of both runs.

    Attributes:
        name: the user's name, or the path in the step's result.
        step: after which step, from 1.
        difference: the largest difference, over the largest magnitude on one device.
        tolerance: what is allowed of that.
        index: where the largest difference is.
        planned: the planned program's number there.
        reference: one device's number there.
    """

    name: str
    step: int
    difference: float
    tolerance: float
    index: tuple[int, ...]
    planned: float
    reference: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is allowed."""
        return self.difference <= self.tolerance


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """A planned program beside one device.

    Attributes:
        steps: how many were run.
        scalars: every scalar of every step's result, the loss among them.
        leaves: every array of the last step's result.
        update_norms: per step the norm of the change of all state, (planned, one device); under
            plain gradient descent it is the gradient's norm times the learning rate.
    """

    steps: int
    scalars: tuple[LeafDifference, ...]
    leaves: tuple[LeafDifference, ...]
    update_norms: tuple[tuple[float, float], ...]

    @property
    def agrees(self) -> bool:
        """Whether every number does."""
        return all(leaf.agrees for leaf in (*self.scalars, *self.leaves))

    @property
    def worst(self) -> LeafDifference:
        """The array with the largest difference for its tolerance."""
        leaves = (*self.scalars, *self.leaves)
        return max(leaves, key=lambda leaf: leaf.difference / max(leaf.tolerance, 1e-30))

    def require(self) -> None:
        """Do nothing when both agree.

        Raises:
            ExecuteError: they differ; the text names the first array that does.
        """
        for leaf in (*self.scalars, *self.leaves):
            if not leaf.agrees:
                raise ExecuteError(
                    f"{leaf.name} differs from one device's by {leaf.difference:.2g} of its"
                    f" largest value; {leaf.tolerance:.2g} is allowed",
                    where=f"after step {leaf.step}, at {list(leaf.index)}:"
                    f" {leaf.planned:.6g} against {leaf.reference:.6g}",
                    hint="a larger tolerance if the step amplifies rounding, or report the plan",
                )


def check(
    program: Program,
    *args: Any,
    steps: int = 1,
    tolerance: float | None = None,
    **kwargs: Any,
) -> CheckResult:
    """The planned program's numbers beside one device's, from the same start.

    Args:
        program: the planned step.
        *args: a call's arguments, read but not taken over; state is fed back between steps.
        steps: how many to run.
        tolerance: of every floating array, over its largest value; by default by element type, and
            what rounding alone does to it where that is more.
        **kwargs: a call's keyword arguments.

    Raises:
        ExecuteError: the arguments are not those that the plan was made for.
    """
    start = [to_host(leaf) for leaf in program.signature.flatten(args, kwargs)]
    return _Pair(program=program, tolerance=tolerance).run(start, steps)


@final
@dataclass(frozen=True, kw_only=True)
class _Pair:
    """The two runs."""

    program: Program
    tolerance: float | None

    def run(self, start: Sequence[Leaf], steps: int) -> CheckResult:
        graph = self.program.graph
        reference = jax.jit(jaxpr_as_fun(self.program.unplanned))
        planned = run_trail(self.call, graph, start, steps)
        single = run_trail(lambda leaves: reference(*leaves), graph, start, steps)
        found = self.differences(planned, single)
        if self.tolerance is None and not all(leaf.agrees for leaf in found):
            for seed in range(_JOSTLES):
                moved = jostled(start, seed)
                again = run_trail(lambda leaves: reference(*leaves), graph, moved, steps)
                found = _allowing(found, self.differences(again, single))
        return CheckResult(
            steps=steps,
            scalars=tuple(leaf for leaf in found if not leaf.index),
            leaves=tuple(leaf for leaf in found if leaf.index),
            update_norms=tuple(zip(planned.update_norms, single.update_norms, strict=True)),
        )

    def call(self, leaves: Sequence[Any]) -> list[Any]:
        args, kwargs = jax.tree.unflatten(self.program.signature.tree, leaves)
        return jax.tree.leaves(self.program(*args, **kwargs))

    def differences(self, planned: Trail, single: Trail) -> list[LeafDifference]:
        return [
            _difference(name, step, ours, theirs, self.tolerance)
            for step, both in enumerate(zip(planned.results, single.results, strict=True), 1)
            for name, ours, theirs in zip(self.names(), *both, strict=True)
            if ours is not None and theirs is not None
        ]

    def names(self) -> list[str]:
        """The user's name of each result, or where it stands in the result."""
        graph = self.program.graph
        return [
            graph.tensor(tensor_id).name or path
            for tensor_id, path in zip(graph.outputs, self.program.output_paths, strict=True)
        ]


def _allowing(found: list[LeafDifference], noise: list[LeafDifference]) -> list[LeafDifference]:
    """The differences, each allowed what rounding alone does to it."""
    return [
        replace(leaf, tolerance=max(leaf.tolerance, _ROUNDINGS * moved.difference))
        for leaf, moved in zip(found, noise, strict=True)
    ]


def _difference(
    name: str, step: int, ours: Array, theirs: Array, tolerance: float | None
) -> LeafDifference:
    if not is_floating(theirs):
        tolerance = 0.0
    elif tolerance is None:
        tolerance = _TOLERANCES.get(str(theirs.dtype), _HALF_TOLERANCE)
    wide = np.complex128 if np.iscomplexobj(theirs) else np.float64
    a, b = ours.astype(wide), theirs.astype(wide)
    with np.errstate(invalid="ignore"):  # Infinity less infinity.
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    apart = np.where(np.isnan(apart), np.inf, apart)
    index = np.unravel_index(int(np.argmax(apart)), apart.shape) if apart.size else ()
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    largest = float(apart[index]) if apart.size else 0.0
    return LeafDifference(
        name=name,
        step=step,
        difference=0.0 if largest == 0 else largest / scale if scale else math.inf,
        tolerance=tolerance,
        index=tuple(int(i) for i in index),
        planned=float(np.real(a[index])) if apart.size else 0.0,
        reference=float(np.real(b[index])) if apart.size else 0.0,
    )
