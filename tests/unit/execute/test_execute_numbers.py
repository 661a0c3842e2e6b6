"""Hand-written plans: the numbers of one device, and exactly the collectives that were meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from shardwright.cluster import Mesh
from shardwright.execute import Program, check
from shardwright.execute.groups import axes_of_groups
from shardwright.execute.hlo import parse_module
from shardwright.plan import Plan
from tests.unit.execute.hand import (
    BATCH,
    HIDDEN,
    LAYERS,
    WIDTH,
    build,
    captured_flat,
    captured_scan,
    data_parallel,
    flat_args,
    fully_sharded,
    hand_plan,
    megatron,
    scan_args,
)

WEIGHT = 4 * WIDTH * HIDDEN
ACTIVATION = 4 * BATCH * WIDTH
LOSS = 4


def collectives(program: Program) -> dict[tuple[str, tuple[str, ...]], int]:
    """Bytes per device and step by kind and axes."""
    mesh = program.placement.stage.mesh
    totals: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for item in program.read_back().collectives:
        totals[item.kind, axes_of_groups(item.groups, mesh) or ("?",)] += item.step_bytes
    return dict(totals)


FLAT = [
    pytest.param(
        data_parallel,
        Mesh.of(dp=8),
        {("all-reduce", ("dp",)): 2 * (LAYERS - 1) * WEIGHT + LOSS},
        id="data parallel",
    ),
    pytest.param(
        megatron,
        Mesh.of(dp=2, tp=4),
        {
            # Forward every layer; backward all but the first, whose input has no gradient.
            ("all-reduce", ("tp",)): (2 * (LAYERS - 1) - 1) * ACTIVATION // 2,
            ("all-reduce", ("dp",)): 2 * (LAYERS - 1) * WEIGHT // 4 + LOSS,
        },
        id="tensor parallel",
    ),
    pytest.param(
        fully_sharded,
        Mesh.of(dp=8),
        {
            # Gathered once for forward and backward, since no loop lies between.
            ("all-gather", ("dp",)): 2 * (LAYERS - 1) * WEIGHT,
            ("reduce-scatter", ("dp",)): 2 * (LAYERS - 1) * WEIGHT,
            ("all-reduce", ("dp",)): LOSS,
        },
        id="fully sharded",
    ),
]

SCANNED = [
    pytest.param(
        fully_sharded,
        Mesh.of(dp=8),
        {
            # Gathered in the forward loop and again in the backward one.
            ("all-gather", ("dp",)): 4 * LAYERS * WEIGHT,
            ("reduce-scatter", ("dp",)): 2 * LAYERS * WEIGHT,
            ("all-reduce", ("dp",)): LOSS,
        },
        id="fully sharded",
    ),
    pytest.param(
        megatron,
        Mesh.of(dp=2, tp=4),
        {
            ("all-reduce", ("tp",)): 2 * LAYERS * ACTIVATION // 2,
            ("all-reduce", ("dp",)): 2 * LAYERS * WEIGHT // 4 + LOSS,
        },
        id="tensor parallel",
    ),
]


@pytest.mark.parametrize(("recipe", "mesh", "expected"), FLAT)
def test_a_plan_gives_one_devices_numbers_and_its_own_collectives(
    recipe: Callable[..., Plan], mesh: Mesh, expected: dict[Any, int]
) -> None:
    captured = captured_flat()
    program = build(captured, recipe(captured.graph, mesh))
    result = check(program, *flat_args(), steps=3, tolerance=1e-5)
    result.require()
    assert collectives(program) == expected
    (name,) = {leaf.name for leaf in result.scalars}
    assert name == "result.1"


@pytest.mark.slow
@pytest.mark.parametrize("remat", [False, True], ids=["kept", "remat"])
@pytest.mark.parametrize(("recipe", "mesh", "expected"), SCANNED)
def test_a_plan_holds_inside_loops(
    recipe: Callable[..., Plan], mesh: Mesh, expected: dict[Any, int], *, remat: bool
) -> None:
    captured = captured_scan(remat=remat)
    program = build(captured, recipe(captured.graph, mesh))
    check(program, *scan_args(), steps=3, tolerance=1e-5).require()
    assert collectives(program) == expected
    shapes = {
        item.shape.partition("{")[0]
        for computation in parse_module(program.compiled.as_text()).computations
        for item in computation.instructions
    }
    whole_stacks = {f"f32[{LAYERS},{WIDTH},{HIDDEN}]", f"f32[{LAYERS},{HIDDEN},{WIDTH}]"}
    assert not shapes & whole_stacks


def test_one_device_needs_no_constraints() -> None:
    captured = captured_flat()
    program = build(captured, hand_plan(captured.graph, Mesh(axes=())))
    check(program, *flat_args(), steps=1, tolerance=1e-6).require()
    assert not program.read_back().collectives
    assert program.mesh.size == 1
