"""What the planned step costs over a hand-written ``jax.jit`` with the same shardings.

Both run the same equations under the same input and output shardings, and both are called in turn,
round by round and each first in every second round, so that the machine's mood meets both alike;
the figure is the ratio of medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax

from bench.table import finish, parser, show
from shardwright.api import parallelize
from shardwright.jax_bridge import jaxpr_as_fun
from shardwright.models.registry import build

CASES: dict[str, dict[str, Any]] = {
    "mlp": {},
    "gpt": {"layers": 2, "d_model": 64, "optimizer": "adam"},
    "moe-gshard": {"layers": 1, "d_model": 32},
}


def main() -> None:
    flags = parser(__doc__ or "")
    flags.add_argument("--rounds", type=int, default=60)
    args = flags.parse_args()
    jax.config.update("jax_num_cpu_devices", 8)
    names = ["mlp"] if args.quick else list(CASES)
    rows = [measure(name, args.rounds) for name in names]
    show("overhead of the planned step", tuple(rows[0]), [row.values() for row in rows])
    finish({"rows": rows, "worst_ratio": max(row["ratio"] for row in rows)}, args.json)


def measure(name: str, rounds: int) -> dict[str, Any]:
    case = build(name, **CASES[name])
    batch = case.make_batch(0)
    step = parallelize(case.step, method="data-parallel", mesh={"dp": 8})
    step.prepare(case.abstract_state(), case.abstract_batch())
    ours = step.create(case.init_state, jax.random.key(0))
    theirs = step.create(case.init_state, jax.random.key(0))
    program = step.program
    by_hand = jax.jit(
        _unflattened(jaxpr_as_fun(program.jaxpr), program),
        in_shardings=program.input_shardings,
        out_shardings=program.output_shardings,
        donate_argnums=0,
    )
    placed = jax.device_put(batch, program.input_shardings[1])
    planned_s: list[float] = []
    by_hand_s: list[float] = []
    for turn in range(rounds):
        if turn % 2:
            ours, spent = _timed(step, ours, placed)
            planned_s.append(spent)
        theirs, spent = _timed(by_hand, theirs, placed)
        by_hand_s.append(spent)
        if not turn % 2:
            ours, spent = _timed(step, ours, placed)
            planned_s.append(spent)
    skip = rounds // 4
    planned, plain = (statistics.median(times[skip:]) for times in (planned_s, by_hand_s))
    return {
        "model": name,
        "planned_ms": round(planned * 1e3, 3),
        "by_hand_ms": round(plain * 1e3, 3),
        "ratio": round(planned / plain, 4),
    }


def _unflattened(flat: Callable[..., Any], program: Any) -> Callable[..., Any]:
    """The step's equations as a function of (state, batch), as a user would have written it."""
    out_tree = jax.tree.structure(program.output_shardings)

    def step(state: Any, batch: Any) -> Any:
        return jax.tree.unflatten(out_tree, flat(*jax.tree.leaves((state, batch))))

    return step


def _timed(step: Callable[..., Any], state: Any, batch: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    state, metrics = step(state, batch)
    jax.block_until_ready((state, metrics))
    return state, time.perf_counter() - began


if __name__ == "__main__":
    main()
