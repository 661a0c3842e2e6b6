"""How a program is called: places, donation, constants, keywords, and what it compiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardwright.capture import capture
from shardwright.cluster import Mesh
from shardwright.errors import ExecuteError
from shardwright.execute import Program
from shardwright.sharding import Sharding
from tests.unit.execute.hand import build, hand_plan

MESH = Mesh.of(dp=2, tp=4)
RESTING = {(16, 8): Sharding.of("dp", "tp"), (8, 8): Sharding.of("dp", None)}


def tiny_step(state: Any, x: jax.Array) -> Any:
    total = (x @ state["w"].T).sum()
    return {"w": state["w"] * 0.5, "v": state["v"] + total}, total


def state() -> dict[str, Any]:
    return {
        "w": np.arange(128, dtype=np.float32).reshape(16, 8),
        "v": np.ones((16, 8), np.float32),
    }


BATCH = np.ones((8, 8), np.float32)


@pytest.fixture(scope="module")
def tiny() -> Program:
    captured = capture(tiny_step, state(), BATCH)
    return build(captured, hand_plan(captured.graph, MESH, resting=RESTING))


def expected(steps: int) -> tuple[dict[str, Any], float]:
    current, total = state(), 0.0
    for _ in range(steps):
        total = float((BATCH @ current["w"].T).sum())
        current = {"w": current["w"] * 0.5, "v": current["v"] + total}
    return current, total


def on(where: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.device_put(leaf, where), state())


LAYOUTS = {
    "numpy": lambda _: (state(), BATCH),
    "uncommitted": lambda _: jax.tree.map(jnp.asarray, (state(), BATCH)),
    "one device": lambda _: (on(jax.devices()[3]), jax.device_put(BATCH, jax.devices()[1])),
    "as planned": lambda tiny: tiny.place(state(), BATCH),
    "otherwise cut": lambda tiny: (
        on(jax.NamedSharding(tiny.mesh, jax.P("tp"))),
        jax.device_put(BATCH, jax.NamedSharding(tiny.mesh, jax.P(None, "dp"))),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arguments_may_lie_anywhere(tiny: Program, layout: str) -> None:
    first, second = LAYOUTS[layout](tiny), LAYOUTS[layout](tiny)
    result, total = tiny(*first)
    assert result["w"].sharding.is_equivalent_to(tiny.input_shardings[0]["w"], 2)
    assert float(total) == expected(1)[1]
    result, total = tiny(result, second[1])
    assert float(total) == expected(2)[1]
    np.testing.assert_array_equal(result["v"], expected(2)[0]["v"])


def test_shardings_are_pytrees_like_the_steps_own(tiny: Program) -> None:
    assert tiny.input_shardings[0]["w"].spec == jax.P("dp", "tp")
    assert tiny.input_shardings[1].spec == jax.P("dp")
    out_state, out_total = tiny.output_shardings
    assert out_state == tiny.input_shardings[0]
    assert out_total.spec == jax.P()
    assert tiny.output_paths == ("result.0.v", "result.0.w", "result.1")


def test_state_is_donated(tiny: Program) -> None:
    placed, batch = tiny.place(state(), BATCH)
    tiny(placed, batch)
    assert placed["w"].is_deleted() and placed["v"].is_deleted()
    assert not batch.is_deleted()


def test_an_array_that_has_to_move_stays_whole(tiny: Program) -> None:
    mine = jax.tree.map(lambda leaf: jax.device_put(leaf, jax.devices()[0]), state())
    tiny(mine, BATCH)
    np.testing.assert_array_equal(mine["w"], state()["w"])


def test_one_array_given_twice_is_copied(tiny: Program) -> None:
    placed, batch = tiny.place(state(), BATCH)
    result, _ = tiny({"w": placed["w"], "v": placed["w"]}, batch)
    np.testing.assert_array_equal(result["v"], state()["w"] + expected(1)[1])
    again, _ = tiny({"w": result["v"], "v": result["v"]}, batch)
    np.testing.assert_allclose(again["w"], (state()["w"] + expected(1)[1]) / 2)


def test_state_may_stand_in_for_another_argument() -> None:
    def step(w: Any, target: Any) -> Any:
        return w * 2 - target

    captured = capture(step, state()["w"], state()["w"])
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    assert program.signature.donated == {0}
    w = program(state()["w"], state()["w"])
    for _ in range(2):
        w = program(w, w)
    np.testing.assert_array_equal(w, state()["w"])


def test_one_batch_given_twice_is_passed_on() -> None:
    def step(w: Any, x: Any, y: Any) -> Any:
        return w + (x * y).sum()

    captured = capture(step, state()["w"], BATCH, BATCH)
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    w, batch, same = program.place(state()["w"], *[jnp.asarray(BATCH)] * 2)
    x, y = program.signature.place([w, batch, batch])[1:]
    assert x is y and same is not w
    np.testing.assert_array_equal(program(w, x, y), state()["w"] + 64)


def test_two_views_of_one_memory_are_copied(tiny: Program) -> None:
    captured = capture(tiny_step, state(), BATCH)
    fresh = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    placed, batch = tiny.place(state(), BATCH)
    view = jax.make_array_from_single_device_arrays(
        (16, 8), placed["w"].sharding, [shard.data for shard in placed["w"].addressable_shards]
    )
    assert view is not placed["w"]
    result, _ = fresh({"w": placed["w"], "v": view}, batch)
    np.testing.assert_array_equal(result["v"], state()["w"] + expected(1)[1])


def test_a_state_used_again_is_refused_not_crashed(tiny: Program) -> None:
    placed, batch = tiny.place(state(), BATCH)
    tiny(placed, batch)
    with pytest.raises(ExecuteError, match=r"state\.v is gone: an earlier step took its memory"):
        tiny(placed, batch)


def test_without_donation_a_state_may_be_used_again() -> None:
    captured = capture(tiny_step, state(), BATCH)
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING), donate=False)
    placed, batch = program.place(state(), BATCH)
    totals = {float(program(placed, batch)[1]) for _ in range(2)}
    assert totals == {expected(1)[1]}


@contextmanager
def counting_compiles() -> Iterator[list[str]]:
    events: list[str] = []

    def listen(name: str, seconds: float, **_: Any) -> None:
        del seconds
        if name.endswith("backend_compile_duration"):
            events.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield events
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_a_program_compiles_once_whatever_it_is_called_with() -> None:
    captured = capture(tiny_step, state(), BATCH)
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    placed = jax.device_put(BATCH, program.input_shardings[1])
    with counting_compiles() as events:
        assert program.compiled is program.compiled
        result, _ = program(state(), BATCH)
        result, _ = program(result, BATCH)
        program(result, placed)
        program.read_back()
    assert len(events) == 1


def test_a_state_mixed_with_other_arguments_is_donated_leaf_by_leaf() -> None:
    def step(bundle: Any, scale: Any) -> Any:
        return {"w": bundle["w"] * bundle["rate"] * scale}

    bundle = {"w": state()["w"], "rate": np.float32(0.5)}
    captured = capture(step, bundle, np.float32(2.0))
    assert len(captured.graph.state_pairs) == 1
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    (placed, scale) = program.place(bundle, np.float32(2.0))
    result = program(placed, scale)
    assert placed["w"].is_deleted() and not placed["rate"].is_deleted()
    np.testing.assert_array_equal(result["w"], state()["w"])


def test_keywords_are_taken() -> None:
    def step(w: jax.Array, *, scale: jax.Array) -> jax.Array:
        return w * scale

    captured = capture(step, state()["w"], scale=np.float32(3.0))
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    for _ in range(2):
        result = program(state()["w"], scale=np.float32(3.0))
    np.testing.assert_array_equal(result, state()["w"] * 3)


def test_closed_over_arrays_are_cut_as_planned() -> None:
    table = np.arange(128, dtype=np.float32).reshape(16, 8)

    def step(w: jax.Array) -> jax.Array:
        return w + jnp.asarray(table)

    captured = capture(step, state()["v"])
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    result = program(program(state()["v"]))
    np.testing.assert_array_equal(result, state()["v"] + 2 * table)
    held = program.read_back().memory
    assert held.argument_bytes == 2 * table.nbytes // 8


def test_random_keys_pass_through() -> None:
    def step(state: Any) -> Any:
        key, use = jax.random.split(state["key"])
        return {"key": key, "w": state["w"] + jax.random.normal(use, (16, 8))}

    start = {"key": jax.random.key(7), "w": state()["w"]}
    captured = capture(step, start)
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    planned, single = start, start
    for _ in range(2):
        planned, single = program(planned), step(single)
    np.testing.assert_allclose(planned["w"], single["w"], rtol=1e-6, atol=1e-6)
    assert (jax.random.key_data(planned["key"]) == jax.random.key_data(single["key"])).all()


def test_state_that_comes_back_as_it_was_is_not_donated() -> None:
    def step(state: Any) -> Any:
        return {"w": state["w"] + 1, "v": state["v"]}

    captured = capture(step, state())
    program = build(captured, hand_plan(captured.graph, MESH, resting=RESTING))
    (placed,) = program.place(state())
    result = program(placed)
    assert not placed["v"].is_deleted()
    np.testing.assert_array_equal(program(result)["v"], state()["v"])


def test_the_first_devices_are_used() -> None:
    captured = capture(tiny_step, state(), BATCH)
    plan = hand_plan(captured.graph, Mesh.of(dp=2), resting={(8, 8): Sharding.of("dp", None)})
    assert list(build(captured, plan).mesh.devices.flat) == jax.devices()[:2]
    chosen = jax.devices()[4:]
    assert list(build(captured, plan, devices=chosen).mesh.devices.flat) == chosen[:2]
