"""Plan a large model for machines that you do not have: nothing is computed or allocated."""

from __future__ import annotations

import shardwright
from shardwright.models.registry import build


def main() -> None:
    case = build("gpt2-xl", batch=64)
    planned = shardwright.plan(
        case.step,
        case.abstract_state(),
        case.abstract_batch(),
        cluster="8xH100",
        mesh={"dp": 2, "tp": 4},
        method="megatron-sp",
    )
    print(planned)
    estimate = planned.estimate
    assert estimate is not None
    print(f"{estimate.step_time_s:.3f} s, {estimate.memory.peak_bytes / 2**30:.1f} GiB per device")


if __name__ == "__main__":
    main()
