"""The planned step beside one device: agreement is found, and so is disagreement."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardwright.capture import capture
from shardwright.cluster import Mesh
from shardwright.errors import ExecuteError
from shardwright.execute import Program, check
from shardwright.execute.check import _difference
from tests.unit.execute.hand import S, build, hand_plan

MESH = Mesh.of(dp=8)
START = {"w": np.arange(16, dtype=np.float32).reshape(8, 2), "count": np.int32(0)}
RESTING = {(8, 2): S("dp", None)}


def step(state: Any, rate: Any) -> Any:
    loss = (state["w"] ** 2).sum()
    return {"w": state["w"] - rate * 2 * state["w"], "count": state["count"] + 1}, {"loss": loss}


@pytest.fixture(scope="module")
def program() -> Program:
    captured = capture(step, START, np.float32(0.1))
    return build(captured, hand_plan(captured.graph, MESH, resting=RESTING))


def test_agreement_is_told_with_every_figure(program: Program) -> None:
    result = check(program, START, np.float32(0.1), steps=2)
    assert result.agrees
    result.require()
    assert [(leaf.name, leaf.step) for leaf in result.scalars if "loss" in leaf.name] == [
        ("result.1.loss", 1),
        ("result.1.loss", 2),
    ]
    assert {leaf.name for leaf in result.leaves} == {"state.w"}
    # Of the state only w is a real number, and its change is the rate times its gradient.
    norm = 0.2 * math.sqrt(sum(i * i for i in range(16)))
    for (planned, single), factor in zip(result.update_norms, (1, 0.8), strict=True):
        assert planned == pytest.approx(norm * factor, rel=1e-6)
        assert single == pytest.approx(norm * factor, rel=1e-6)


def test_the_callers_arrays_stay_whole(program: Program) -> None:
    placed = program.place(START, np.float32(0.1))
    check(program, *placed)
    assert not placed[0]["w"].is_deleted()


def test_a_wrong_program_is_found() -> None:
    captured = capture(step, START, np.float32(0.1))
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    # The reference of another step: as if the planned program computed something else.
    other = capture(lambda s, r: step({**s, "w": s["w"] + 0.5}, r), START, np.float32(0.1))
    program.unplanned = other.jaxpr
    result = check(program, START, np.float32(0.1))
    assert not result.agrees
    assert not result.worst.agrees
    with pytest.raises(ExecuteError, match=r"result\.1\.loss differs from one device's"):
        result.require()


def normalised(state: Any, x: Any) -> Any:
    """A step that divides sums of rounding errors by their own size, as Adam's first step does."""
    noise = (x * 3).sum(0) - 3 * x.sum(0)
    return {"w": state["w"] - noise / (jnp.abs(noise) + 1e-12)}, (x * x).sum()


def test_what_rounding_alone_decides_is_no_disagreement() -> None:
    x = np.random.default_rng(0).normal(size=(256, 64)).astype(np.float32)
    start = {"w": np.zeros(64, np.float32)}
    captured = capture(normalised, start, x)
    program = build(captured, hand_plan(captured.graph, MESH, resting={x.shape: S("dp", None)}))
    # The sums differ in their last digits, so some quotients differ wholly.
    assert not check(program, start, x, tolerance=1e-4).agrees
    lenient = check(program, start, x)
    assert lenient.agrees
    (w,), (total,) = lenient.leaves, lenient.scalars
    assert w.difference > 1 < w.tolerance
    assert total.difference < total.tolerance == pytest.approx(1e-4)
    # What is well defined stays checked.
    program.unplanned = capture(lambda s, x: normalised(s, x * 1.01), start, x).jaxpr
    assert not check(program, start, x).agrees


def test_keys_in_the_state_are_fed_back() -> None:
    def noisy(state: Any) -> Any:
        key, use = jax.random.split(state["key"])
        return {"key": key, "w": state["w"] + jax.random.normal(use, (8, 2))}

    start = {"key": jax.random.key(3), "w": START["w"]}
    captured = capture(noisy, start)
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    check(program, start, steps=2).require()


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), 0.0),
        (np.float32([1, 2.5]), np.float32([1, 2]), 0.25),
        (np.float32([0, 0]), np.float32([0, 0]), 0.0),
        (np.float32([1, 0]), np.float32([0, 0]), math.inf),
        (np.float32([np.nan, 2]), np.float32([np.nan, 2]), 0.0),
        (np.float32([np.nan, 2]), np.float32([1, 2]), math.inf),
        (np.float32([np.inf, 2]), np.float32([np.inf, 2]), 0.0),
        (np.int32([4]), np.int32([5]), 0.2),
        (np.float32([]), np.float32([]), 0.0),
        (np.complex64([1j]), np.complex64([2j]), 0.5),
    ],
)
def test_the_measure_of_a_difference(ours: Any, theirs: Any, difference: float) -> None:
    assert _difference("x", 1, ours, theirs, None).difference == difference


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 3e-2), ("int32", 0.0), ("bool", 0.0)]
)
def test_tolerance_goes_by_element_type(dtype: str, tolerance: float) -> None:
    array = np.ones(2, jnp.dtype(dtype))
    assert _difference("x", 1, array, array, None).tolerance == tolerance
