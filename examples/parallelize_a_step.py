"""Train a small network in parallel: a step for one device, and a decorator that does the rest.

Runs anywhere: without accelerators on eight virtual CPU devices.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import shardwright

Params = dict[str, jax.Array]
optimizer = optax.sgd(0.1)


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ params["up"] + params["bias"])
    return jnp.mean((hidden @ params["down"] - y) ** 2)


@shardwright.parallelize(mesh={"dp": 2, "tp": 4}, method="megatron", verify=True)
def step(params: Params, opt_state: Any, x: jax.Array, y: jax.Array) -> tuple[Params, Any, Any]:
    value, grads = jax.value_and_grad(loss)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, value


def init(key: jax.Array) -> Params:
    up, down = jax.random.split(key)
    return {
        "up": jax.random.normal(up, (16, 64)) / 4,
        "bias": jnp.zeros(64),
        "down": jax.random.normal(down, (64, 8)) / 8,
    }


def main() -> None:
    jax.config.update("jax_num_cpu_devices", 8)
    params = init(jax.random.key(0))
    opt_state = optimizer.init(params)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 16)).astype(np.float32)
    y = np.sin(x[:, :8])
    for number in range(5):
        params, opt_state, value = step(params, opt_state, x, y)
        print(f"step {number}  loss {float(value):.4f}  weights {params['up'].sharding.spec}")
    print(step.explain())


if __name__ == "__main__":
    main()
