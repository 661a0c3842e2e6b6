"""Planned collectives beside measured ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from shardwright.capture import capture
from shardwright.cluster import Mesh
from shardwright.execute import MeasuredCollective, MeasuredMemory, ReadBack, compare
from shardwright.plan import PlannedCollective, Stage

MESH = Mesh.of(dp=2, tp=4, pp=1)
OVER_TP = ((0, 1, 2, 3), (4, 5, 6, 7))
OVER_DP = ((0, 4), (1, 5), (2, 6), (3, 7))
MEMORY = MeasuredMemory(argument_bytes=6, output_bytes=5, temporary_bytes=4, alias_bytes=3)


def up_and_down(w: Any, x: Any) -> Any:
    return w * 2, x @ w


CAPTURED = capture(up_and_down, np.ones((4, 6), np.float32), np.ones((2, 4), np.float32))
GRAPH = CAPTURED.graph
PRODUCT = GRAPH.ops[-1]
W = GRAPH.inputs[0]


def planned(kind: str, axes: tuple[str, ...], **changes: Any) -> PlannedCollective:
    base = PlannedCollective(
        kind=kind,
        axes=axes,
        size_bytes=4096,
        runs=1,
        tensor_id=W,
        op_id=PRODUCT.id,
        stands_for="operand 1 of dot_general",
    )
    return replace(base, **changes)


def measured(kind: str, groups: Any, **changes: Any) -> MeasuredCollective:
    base = MeasuredCollective(
        kind=kind,
        groups=groups,
        size_bytes=4096,
        runs=1,
        op_name=f"jit(step)/plan.op{PRODUCT.id}.operand1/sharding_constraint",
        source="model.py:88",
        opcode=kind,
    )
    return replace(base, **changes)


def comparison(*items: PlannedCollective | MeasuredCollective) -> Any:
    stage = Stage(
        device_ids=tuple(range(8)),
        mesh=MESH,
        ops=(),
        tensors=(),
        collectives=tuple(item for item in items if isinstance(item, PlannedCollective)),
    )
    found = tuple(item for item in items if isinstance(item, MeasuredCollective))
    return compare(stage, ReadBack(collectives=found, memory=MEMORY), GRAPH)


def test_sums_of_bytes_agree_however_they_are_split() -> None:
    result = comparison(
        planned("all-gather", ("dp",), runs=3),
        planned("all-gather", ("pp", "dp"), size_bytes=1024),
        planned("slice", ("tp",)),
        measured("all-gather", OVER_DP, size_bytes=13 * 1024),
        measured("all-reduce", OVER_TP, size_bytes=4),
    )
    assert result.agrees
    assert [(row.kind, row.axes) for row in result.rows] == [
        ("all-gather", ("dp",)),
        ("all-reduce", ("tp",)),
    ]
    assert result.planned_bytes == 13 * 1024
    assert result.measured_bytes == 13 * 1024 + 4


def test_axes_are_compared_in_mesh_order() -> None:
    whole = (tuple(range(8)),)
    assert comparison(planned("all-gather", ("tp", "dp")), measured("all-gather", whole)).agrees


def test_a_difference_names_the_tensors_behind_it() -> None:
    result = comparison(
        planned("all-gather", ("tp",)),
        measured("all-reduce", OVER_TP, op_name=f"jit(step)/plan.op{PRODUCT.id}/dot_general"),
        measured("all-reduce", OVER_TP, op_name="jit(step)/reduce_sum", size_bytes=500),
    )
    assert not result.agrees
    line = PRODUCT.source
    assert result.lines() == (
        "all-gather over tp: planned 4 KiB, measured 0 B per device and step, differs",
        "  w: planned 4 KiB, measured 0 B",
        "all-reduce over tp: planned 0 B, measured 4.49 KiB per device and step, differs",
        f"  result.1 (dot_general at {line}): planned 0 B, measured 4 KiB",
        "  reduce_sum at model.py:88: planned 0 B, measured 500 B",
    )


def test_a_tensor_held_where_it_rests_is_named() -> None:
    (row,) = comparison(measured("all-gather", OVER_DP, op_name=f"jit(f)/plan.tensor{W}")).rows
    assert row.causes == ("w: planned 0 B, measured 4 KiB",)


def test_groups_that_are_no_axes_stand_apart() -> None:
    (row,) = comparison(measured("all-gather", ((0, 1), (2, 3), (4, 5), (6, 7)))).rows
    assert row.axes == ("other groups",)


def test_a_permute_goes_by_the_axes_it_crosses() -> None:
    pairs = ((0, 1), (1, 2), (2, 3), (3, 0))
    assert comparison(planned("permute", ("tp",)), measured("permute", pairs)).agrees


def test_notes_say_what_was_counted_how() -> None:
    result = comparison(
        planned("reduce-scatter", ("dp",)),
        measured("reduce-scatter", OVER_DP, opcode="all-reduce", runs_known=False),
    )
    assert result.agrees
    assert result.notes == (
        "1 all-reduces of which each device keeps its own slice count as reduce-scatters,"
        " unless the plan reduces there and then slices",
        "1 collectives lie in loops without a known trip count and count once",
    )


def test_half_precision_that_is_written_wide_counts_as_it_was_planned() -> None:
    half = capture(up_and_down, np.ones((4, 6), jnp.bfloat16), np.ones((2, 4), jnp.bfloat16)).graph
    stage = Stage(
        device_ids=tuple(range(8)),
        mesh=MESH,
        ops=(),
        tensors=(),
        collectives=(planned("all-gather", ("dp",), size_bytes=2048, tensor_id=half.inputs[0]),),
    )
    name = f"jit(step)/plan.tensor{half.inputs[0]}"
    wide = measured("all-gather", OVER_DP, dtype="f32", op_name=name)
    result = compare(stage, ReadBack(collectives=(wide,), memory=MEMORY), half)
    assert [(row.measured_bytes, row.agrees) for row in result.rows] == [(2048, True)]
    assert result.notes == (
        "1 collectives of half-precision numbers are written in float32, as XLA does where the"
        " hardware has no half-precision arithmetic; they count half",
    )
    narrow = replace(wide, dtype="bf16", size_bytes=2048)
    assert compare(stage, ReadBack(collectives=(narrow,), memory=MEMORY), half).agrees


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter"])
def test_a_reduce_of_which_a_slice_is_kept_may_be_planned_either_way(kind: str) -> None:
    result = comparison(
        planned(kind, ("dp",)), measured("reduce-scatter", OVER_DP, opcode="all-reduce")
    )
    assert [(row.kind, row.agrees) for row in result.rows] == [(kind, True)]


def test_layers_that_are_alike_are_one() -> None:
    def step(params: Any) -> Any:
        return [{"w": layer["w"] * 2} for layer in params]

    graph = capture(step, [{"w": np.ones((4, 6), np.float32)}] * 2).graph
    first, second = graph.inputs
    (row,) = compare(
        Stage(
            device_ids=tuple(range(8)),
            mesh=MESH,
            ops=(),
            tensors=(),
            collectives=(planned("all-gather", ("dp",), tensor_id=first, runs=2),),
        ),
        ReadBack(
            collectives=(
                measured("all-gather", OVER_DP, op_name=f"jit(f)/plan.tensor{first}"),
                measured("all-gather", OVER_DP, op_name=f"jit(f)/plan.tensor{second}", runs=2),
            ),
            memory=MEMORY,
        ),
        graph,
    ).rows
    assert row.causes == ("params.*.w: planned 8 KiB, measured 12 KiB",)


def test_many_causes_are_cut_short() -> None:
    items = [
        measured("all-reduce", OVER_TP, op_name=f"jit(f)/name{i}", size_bytes=1000 + i)
        for i in range(11)
    ]
    (row,) = comparison(*items).rows
    assert len(row.causes) == 9
    assert row.causes[0].startswith("name10 at model.py:88")
    assert row.causes[-1] == "and 3 more"


def test_peak_memory_counts_donated_buffers_once() -> None:
    assert MEMORY.peak_bytes == 12
