"""State made in its shards."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardwright.capture import capture
from shardwright.cluster import Mesh
from shardwright.execute import create
from shardwright.execute.create import lower_create
from shardwright.execute.read_back import memory_of
from tests.unit.execute.hand import S, build, hand_plan

SHAPE = (512, 256)
WHOLE_BYTES = 4 * 512 * 256


def init(key: jax.Array) -> dict[str, Any]:
    w = jax.random.normal(key, SHAPE)
    return {"w": w, "momentum": jnp.zeros_like(w), "count": jnp.int32(0)}


def step(state: Any) -> Any:
    return {**state, "w": state["w"] * 2, "count": state["count"] + 1}


def shardings() -> Any:
    captured = capture(step, jax.eval_shape(init, jax.random.key(0)))
    plan = hand_plan(captured.graph, Mesh.of(dp=8), resting={SHAPE: S("dp", None)})
    return build(captured, plan).input_shardings[0]


def test_state_is_made_where_it_lies() -> None:
    wanted = shardings()
    key = jax.device_put(jax.random.key(1), jax.devices()[0])
    state = create(init, key, shardings=wanted)
    assert state["w"].sharding == wanted["w"]
    assert state["w"].addressable_shards[0].data.shape == (64, 256)
    np.testing.assert_allclose(state["w"], init(jax.random.key(1))["w"], rtol=1e-6)


def test_no_device_ever_holds_the_whole() -> None:
    memory = memory_of(lower_create(init, jax.random.key(1), shardings=shardings()).compile())
    assert memory.output_bytes < 2.1 * WHOLE_BYTES / 8
    assert memory.temporary_bytes < WHOLE_BYTES / 2
