"""The planned step beside the same step on one device, number by number.

Both start from the same state and take the same batch. Compare steps of plain gradient descent: the
first steps of Adam divide a gradient by its own size, and turn rounding into differences of 1e-4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from shardwright.errors import ExecuteError
from shardwright.execute.on_jax import Program
from shardwright.jax_bridge import jaxpr_as_fun

_TOLERANCES = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4}
_HALF_TOLERANCE = 3e-2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeafDifference:
    """One array of both runs.

    Attributes:
        name: the user's name, or the path in the step's result.
        step: after which step, from 1.
        difference: the largest difference, over the largest magnitude on one device; for state,
            over the step's largest update where that is larger.
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
        return max(leaves, key=lambda leaf: (not leaf.agrees, leaf.difference))

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
        tolerance: of every floating array, over its largest value; by default by element type.
        **kwargs: a call's keyword arguments.

    Raises:
        ExecuteError: the arguments are not those that the plan was made for.
    """
    start = [_to_host(leaf) for leaf in program.signature.flatten(args, kwargs)]
    return _Pair(program=program, tolerance=tolerance).run(start, steps)


_Host = np.ndarray[Any, Any]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """Typed random keys on the host."""

    implementation: Any
    words: _Host


@final
@dataclass(frozen=True, kw_only=True)
class _Pair:
    """The two runs."""

    program: Program
    tolerance: float | None

    def run(self, start: Sequence[_Host | _Key], steps: int) -> CheckResult:
        reference = jax.jit(jaxpr_as_fun(self.program.unplanned))
        ours, theirs = list(start), list(start)
        scalars, leaves = list[LeafDifference](), list[LeafDifference]()
        norms = list[tuple[float, float]]()
        for step in range(1, steps + 1):
            planned = self._planned(ours)
            single = [_to_host(leaf) for leaf in reference(*map(_to_jax, theirs))]
            leaves = self._differences(planned, single, step, self._largest_update(theirs, single))
            scalars += [leaf for leaf in leaves if not leaf.index]
            norms.append((self._feed_back(ours, planned), self._feed_back(theirs, single)))
        return CheckResult(
            steps=steps,
            scalars=tuple(scalars),
            leaves=tuple(leaf for leaf in leaves if leaf.index),
            update_norms=tuple(norms),
        )

    def _planned(self, leaves: Sequence[_Host | _Key]) -> list[_Host | _Key]:
        arrays = [_to_jax(leaf) for leaf in leaves]
        args, kwargs = jax.tree.unflatten(self.program.signature.tree, arrays)
        return [_to_host(leaf) for leaf in jax.tree.leaves(self.program(*args, **kwargs))]

    def _feed_back(self, inputs: list[_Host | _Key], outputs: Sequence[_Host | _Key]) -> float:
        """Put the new state in the old one's place; gives the norm of the change."""
        graph, total = self.program.graph, 0.0
        for before, after in graph.state_pairs:
            position = graph.inputs.index(before)
            old, new = inputs[position], outputs[graph.outputs.index(after)]
            inputs[position] = new
            if not isinstance(new, _Key) and not isinstance(old, _Key) and _is_floating(new):
                change = new.astype(np.float64) - old.astype(np.float64)
                total += float(np.sum(change * change))
        return math.sqrt(total)

    def _largest_update(
        self, inputs: Sequence[_Host | _Key], outputs: Sequence[_Host | _Key]
    ) -> float:
        """The largest change of any state on one device in one step."""
        graph, largest = self.program.graph, 0.0
        for before, after in graph.state_pairs:
            old = inputs[graph.inputs.index(before)]
            new = outputs[graph.outputs.index(after)]
            if isinstance(new, _Key) or isinstance(old, _Key) or not new.size:
                continue
            if _is_floating(new):
                change = np.abs(new.astype(np.float64) - old.astype(np.float64))
                largest = max(largest, float(np.max(change)))
        return largest if math.isfinite(largest) else 0.0

    def _differences(
        self,
        planned: Sequence[_Host | _Key],
        single: Sequence[_Host | _Key],
        step: int,
        least_scale: float,
    ) -> list[LeafDifference]:
        # Some state has no gradient but rounding (a key's bias under softmax): its own size is
        # noise, so state is never compared more finely than the largest update of the step.
        graph, names = self.program.graph, self._names()
        state = {after for _, after in graph.state_pairs}
        return [
            _difference(
                name,
                step,
                _words(ours),
                _words(theirs),
                tolerance=self.tolerance,
                least_scale=least_scale if tensor_id in state else 0.0,
            )
            for name, tensor_id, ours, theirs in zip(
                names, graph.outputs, planned, single, strict=True
            )
        ]

    def _names(self) -> list[str]:
        """The user's name of each result, or where it stands in the result."""
        graph = self.program.graph
        return [
            graph.tensor(tensor_id).name or path
            for tensor_id, path in zip(graph.outputs, self.program.output_paths, strict=True)
        ]


def _difference(
    name: str,
    step: int,
    ours: _Host,
    theirs: _Host,
    *,
    tolerance: float | None,
    least_scale: float,
) -> LeafDifference:
    if not _is_floating(theirs):
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
    scale = max(float(finite.max()) if finite.size else 0.0, least_scale)
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


def _to_host(leaf: Any) -> _Host | _Key:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        words = np.array(jax.device_get(jax.random.key_data(leaf)))
        return _Key(implementation=jax.random.key_impl(leaf), words=words)
    return np.array(jax.device_get(leaf))


def _to_jax(leaf: _Host | _Key) -> Any:
    if isinstance(leaf, _Key):
        return jax.random.wrap_key_data(jnp.asarray(leaf.words), impl=leaf.implementation)
    return leaf


def _words(leaf: _Host | _Key) -> _Host:
    return leaf.words if isinstance(leaf, _Key) else leaf


def _is_floating(array: _Host) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))
