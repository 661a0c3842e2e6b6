"""A whole step: work counted by hand, and the laws of putting segments together."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.cost.fitted import FITTED
from shardwright.cost.kernels import KernelModel, Rates, Software, Works, local_times_s
from shardwright.cost.purpose import Purpose
from shardwright.cost.step import Schedules, StepTimes, step_times_s
from shardwright.cost.workload import Segment, Workload, workload_of
from shardwright.search.find import Planner, Question
from tests.unit.cost.test_cost_passes import GPT, graph_of

TOKENS, D_MODEL, FFN, VOCAB, LAYERS = 16 * 12, 32, 64, 48, 2
LAYER_FLOPS = 2 * TOKENS * (4 * D_MODEL**2 + 2 * D_MODEL * FFN)
ATTENTION_FLOPS = 2 * 2 * 16 * 12 * 12 * D_MODEL
HEAD_FLOPS = 2 * TOKENS * D_MODEL * VOCAB


@cache
def work_of(recipe: str = "data", ways: int = 1, **sizes: Any) -> Workload:
    graph = graph_of("gpt", **{**GPT, "optimizer": "adam", "scan": True, "fused": True, **sizes})
    machines = topology("8xH100")
    mesh = Mesh.of(x=ways) if ways > 1 else Mesh(axes=())
    plan = Planner.of(graph).find(machines, Question(method=recipe, meshes=(mesh,))).plan
    assert plan is not None
    return workload_of(plan, graph, machines)


def flops(work: Workload, segment: Segment, *, attention: bool) -> float:
    products = work.products
    counted = (products.segment == segment) & (products.is_attention == attention)
    return float((products.runs * products.flops)[counted].sum())


@pytest.mark.parametrize(
    ("recipe", "ways"), [("data", 1), ("data", 4), ("tensor", 4), ("zero-3", 8)]
)
def test_arithmetic_by_hand(recipe: str, ways: int) -> None:
    work = work_of(recipe, ways)
    assert work.layers == LAYERS
    assert work.head_dim == D_MODEL // 8
    for segment, share in ((Segment.LAYER_FORWARD, 1), (Segment.LAYER_BACKWARD, 2)):
        assert flops(work, segment, attention=False) == share * LAYERS * LAYER_FLOPS / ways
        assert flops(work, segment, attention=True) == share * LAYERS * ATTENTION_FLOPS / ways
    assert flops(work, Segment.UPDATE, attention=False) == 0


def test_the_head_lies_outside_of_the_layers() -> None:
    work = work_of("data", 4)
    assert flops(work, Segment.OUTER_FORWARD, attention=False) == HEAD_FLOPS / 4
    assert flops(work, Segment.OUTER_BACKWARD, attention=False) == 2 * HEAD_FLOPS / 4


def test_all_is_computed_again_but_a_layers_last_product() -> None:
    last = 2 * TOKENS * D_MODEL * FFN
    again = flops(work_of(remat=True), Segment.LAYER_BACKWARD, attention=False)
    assert again == LAYERS * (3 * LAYER_FLOPS - last)


def test_scores_are_bytes_of_their_own() -> None:
    work = work_of()
    in_layer = work.products.segment == Segment.LAYER_FORWARD
    scores = work.products.score_bytes[in_layer & work.products.is_attention]
    assert scores.tolist() == [16 * 8 * 12 * 12 * 4] * 2
    assert work.traffic.score_bytes[Segment.LAYER_FORWARD] > 0
    assert work.traffic.score_bytes[Segment.UPDATE] == 0
    assert (work.traffic.eager_bytes >= work.traffic.fused_bytes).all()


def test_weights_move_in_layers_and_state_at_the_update() -> None:
    cut = work_of("zero-3", 8).collective_s
    assert cut[Purpose.WEIGHT, Segment.LAYER_FORWARD] > 0
    assert cut[Purpose.GRADIENT, Segment.LAYER_BACKWARD] > 0
    assert cut[Purpose.STATE].sum() == 0
    assert work_of("zero-1", 8).collective_s[Purpose.STATE].sum() > 0
    assert work_of().collective_s.sum() == 0


WORKS = Works.of([work_of(), work_of("tensor", 4), work_of("zero-3", 8)])
COUNT = 3


def every(value: float) -> np.ndarray[Any, Any]:
    return np.full(COUNT, value)


RATES = Rates(
    product_flops_per_s=every(6e14),
    is_measured=np.ones(COUNT, np.bool_),
    narrow_flops_per_s=every(0.0),
    peak_flops_per_s=every(1e15),
    bandwidth_bytes_per_s=every(3e12),
    launch_s=every(5e-6),
)
NO, YES = np.zeros(COUNT, np.bool_), np.ones(COUNT, np.bool_)
SOFTWARE = Software(
    fuses_attention=YES,
    fuses_elementwise=NO,
    overlaps=NO,
    overlaps_backward=NO,
    repeats_layers=NO,
    attention_speed=every(1.0),
    score_speed=every(1.0),
)
SCHEDULES = Schedules(
    microbatches=every(8.0),
    stages=every(2.0),
    chunks=every(1.0),
    is_even=NO,
    fills_bubble=every(0.0),
    keeps_weights_cut=np.array([False, False, True]),
    boundary_s=every(1e-5),
)


def times(
    *,
    model: KernelModel = FITTED,
    rates: Rates = RATES,
    software: Software = SOFTWARE,
    **changes: Any,
) -> StepTimes:
    return step_times_s(WORKS, rates, software, dataclasses.replace(SCHEDULES, **changes), model)


def heavier(factor: float) -> Works:
    """The same works with more arithmetic, so that products are bound by it."""
    flops = factor * WORKS.products.flops
    return dataclasses.replace(WORKS, products=dataclasses.replace(WORKS.products, flops=flops))


def test_a_step_is_the_sum_of_its_parts() -> None:
    found = times()
    parts = sum(
        getattr(found, field.name) for field in dataclasses.fields(found) if field.name != "total_s"
    )
    assert found.total_s == pytest.approx(parts + FITTED.between_steps_s)
    assert np.isfinite(found.total_s).all()
    assert (found.total_s > 0).all()


def test_a_pipeline_by_hand() -> None:
    """Two layers on two stages: one layer each, and the head on the last."""
    local = local_times_s(WORKS, RATES, SOFTWARE, FITTED)[0]
    layer = (local[Segment.LAYER_FORWARD] + local[Segment.LAYER_BACKWARD]) / 2
    head = local[Segment.OUTER_FORWARD] + local[Segment.OUTER_BACKWARD]
    found = times()
    assert found.compute_s[0] == pytest.approx(8 * (layer + head))
    assert found.bubble_s[0] == pytest.approx((2 * layer + head) / 2)
    assert found.boundary_s[0] == pytest.approx(2 * 1e-5)
    assert found.update_s[0] == pytest.approx(local[Segment.UPDATE] / 2)


def test_embedding_and_head_count_as_layers_where_they_are_dealt_out_so() -> None:
    """Two layers and two such on two stages: the last holds the head and one layer."""
    local = local_times_s(WORKS, RATES, SOFTWARE, FITTED)[0]
    layer = (local[Segment.LAYER_FORWARD] + local[Segment.LAYER_BACKWARD]) / 2
    head = local[Segment.OUTER_FORWARD] + local[Segment.OUTER_BACKWARD]
    assert times(is_even=YES).compute_s[0] == pytest.approx(8 * max(2 * layer, layer + head))


@pytest.mark.parametrize(("kind", "left"), [(0.0, 1.0), (1.0, None), (2.0, 0.0)])
def test_what_fills_a_bubble_by_hand(kind: float, left: float | None) -> None:
    """Eight microbatches hold gradients of weights enough to fill it as far as the schedule can."""
    local = local_times_s(WORKS, RATES, SOFTWARE, FITTED)[0]
    forward = local[Segment.LAYER_FORWARD] + local[Segment.OUTER_FORWARD]
    backward = local[Segment.LAYER_BACKWARD] + local[Segment.OUTER_BACKWARD]
    waits = (forward + backward) / 2
    share = forward / (forward + backward) if left is None else left
    assert times(fills_bubble=every(kind)).bubble_s[0] == pytest.approx(share * waits, abs=1e-12)


def test_a_single_microbatch_fills_no_more_of_the_bubble_than_it_has() -> None:
    local = local_times_s(WORKS, RATES, SOFTWARE, FITTED)[0]
    both = sum(local[: Segment.UPDATE])
    backward = local[Segment.LAYER_BACKWARD] + local[Segment.OUTER_BACKWARD]
    found = times(fills_bubble=every(2.0), microbatches=every(1.0))
    assert found.bubble_s[0] == pytest.approx(both / 2 - backward / 2 / 2)


def test_weights_that_are_kept_cut_move_in_every_microbatch() -> None:
    moved = WORKS.collective_s[2, [Purpose.WEIGHT, Purpose.GRADIENT]].sum()
    for microbatches in (1.0, 8.0):
        found = times(microbatches=every(microbatches), stages=every(1.0))
        busy = found.compute_s[2] + found.activation_s[2]
        whole = microbatches * moved
        hidden = FITTED.hidden_weight_share * min(whole, busy)
        assert found.exposed_s[2] == pytest.approx(whole - hidden)


def test_gradients_move_once_where_weights_are_whole() -> None:
    kept = np.array([False] * COUNT)
    for stages in (1.0, 2.0):
        found = times(stages=every(stages), keeps_weights_cut=kept)
        moved = WORKS.collective_s[:, [Purpose.WEIGHT, Purpose.GRADIENT, Purpose.STATE]]
        assert found.exposed_s == pytest.approx(moved.sum(axis=(1, 2)) / stages)


def test_one_stage_waits_for_nobody() -> None:
    alone = times(stages=every(1.0))
    assert alone.bubble_s.tolist() == [0.0] * COUNT
    assert alone.boundary_s.tolist() == [0.0] * COUNT


SLOWER = {
    "more microbatches": {"microbatches": every(16.0)},
    "a slower hand-over": {"boundary_s": every(1e-3)},
}
FASTER = {
    "two chunks": {"chunks": every(2.0)},
    "a bubble filled in part": {"fills_bubble": every(1.0)},
    "a bubble filled": {"fills_bubble": every(2.0)},
}


@pytest.mark.parametrize("change", SLOWER)
def test_slower_by_schedule(change: str) -> None:
    assert (times(**SLOWER[change]).total_s > times().total_s).all()


@pytest.mark.parametrize("change", FASTER)
def test_no_slower_by_schedule(change: str) -> None:
    """Four layers on two stages, so that two chunks of each divide them."""
    works = dataclasses.replace(WORKS, layers=every(4.0))
    before, after = (
        step_times_s(works, RATES, SOFTWARE, dataclasses.replace(SCHEDULES, **changes), FITTED)
        for changes in ({}, FASTER[change])
    )
    assert (after.bubble_s < before.bubble_s).all()
    assert (after.total_s < before.total_s).all()


def test_chunks_that_do_not_divide_the_layers_leave_one_stage_more_of_them() -> None:
    """Five layers on two stages: three and two; in chunks of two each: four and one."""
    works = dataclasses.replace(WORKS, layers=every(5.0))
    local = local_times_s(works, RATES, SOFTWARE, FITTED)[0]
    layer = (local[Segment.LAYER_FORWARD] + local[Segment.LAYER_BACKWARD]) / 5
    head = local[Segment.OUTER_FORWARD] + local[Segment.OUTER_BACKWARD]
    for chunks, most in ((1.0, 3), (2.0, 4)):
        schedules = dataclasses.replace(SCHEDULES, chunks=every(chunks))
        found = step_times_s(works, RATES, SOFTWARE, schedules, FITTED).compute_s[0]
        assert found == pytest.approx(8 * max(most * layer, (5 - most) * layer + head))


def test_a_bubble_that_is_filled_whole_is_the_smaller_one() -> None:
    part, whole = (times(fills_bubble=every(kind)).bubble_s for kind in (1.0, 2.0))
    assert (whole <= part).all()
    assert (part > 0).all()


@pytest.mark.parametrize(
    "column", ["product_flops_per_s", "peak_flops_per_s", "bandwidth_bytes_per_s"]
)
def test_a_faster_device_is_never_slower(column: str) -> None:
    faster = dataclasses.replace(RATES, **{column: 2 * getattr(RATES, column)})
    assert (times(rates=faster).total_s <= times().total_s).all()


@pytest.mark.parametrize("narrow_flops_per_s", [0.0, 1.2e15])
@pytest.mark.parametrize(
    ("column", "factor"), [("narrow_flops_per_s", 2.0), ("launch_s", 0.5), ("is_measured", 1.0)]
)
def test_nor_with_eight_bits_or_quicker_starts(
    narrow_flops_per_s: float, column: str, factor: float
) -> None:
    large = heavier(1e6)
    rates = dataclasses.replace(RATES, narrow_flops_per_s=every(narrow_flops_per_s), is_measured=NO)
    better = YES if column == "is_measured" else factor * getattr(rates, column)
    faster = dataclasses.replace(rates, **{column: better})
    before, after = (
        step_times_s(large, each, SOFTWARE, SCHEDULES, FITTED).total_s for each in (rates, faster)
    )
    assert (after <= before).all()
    is_felt = column != "narrow_flops_per_s" or narrow_flops_per_s > 0
    assert (after < before).all() == is_felt


@pytest.mark.parametrize(
    ("speed", "fuses"), [("attention_speed", YES), ("score_speed", NO)], ids=["fused", "stored"]
)
def test_a_faster_attention_kernel_is_faster(speed: str, fuses: np.ndarray[Any, Any]) -> None:
    usual = dataclasses.replace(SOFTWARE, fuses_attention=fuses)
    better = dataclasses.replace(usual, **{speed: every(2.0)})
    assert (times(software=better).total_s < times(software=usual).total_s).all()


@pytest.mark.parametrize(
    ("parameter", "factor"),
    [("unmeasured_share", 1.2), ("narrow_share", 1.2), ("ramp_depth", 0.5)],
)
def test_a_better_share_of_large_products_is_faster(parameter: str, factor: float) -> None:
    narrow = every(1.2e15 if parameter == "narrow_share" else 0.0)
    measured = NO if parameter == "unmeasured_share" else YES
    rates = dataclasses.replace(RATES, narrow_flops_per_s=narrow, is_measured=measured)
    usual = dataclasses.replace(FITTED, ramp_depth=100.0)
    better = dataclasses.replace(usual, **{parameter: factor * getattr(usual, parameter)})
    before, after = (
        step_times_s(heavier(1e6), rates, SOFTWARE, SCHEDULES, model).total_s
        for model in (usual, better)
    )
    assert (after < before).all()


@pytest.mark.parametrize("habit", ["fuses_elementwise", "overlaps", "overlaps_backward"])
def test_better_software_is_never_slower(habit: str) -> None:
    better = dataclasses.replace(SOFTWARE, **{habit: YES})
    assert (times(software=better).total_s <= times().total_s).all()


def test_layers_repeated_whole_take_longer() -> None:
    repeated = dataclasses.replace(SOFTWARE, repeats_layers=YES)
    assert (times(software=repeated).total_s >= times().total_s).all()


@pytest.mark.parametrize(
    ("parameter", "factor"),
    [
        ("matmul_share", 1.2),
        ("attention_share", 1.2),
        ("memory_share", 1.2),
        ("unfused_share", 0.5),
        ("score_passes", 0.5),
        ("shown_activation_share", 0.5),
        ("hidden_weight_share", 1.2),
        ("network_share", 1.2),
        ("between_steps_s", 0.5),
    ],
)
@pytest.mark.parametrize("fuses", [NO, YES], ids=["scores stored", "scores fused"])
def test_a_better_share_is_never_slower(
    parameter: str, factor: float, fuses: np.ndarray[Any, Any]
) -> None:
    software = dataclasses.replace(SOFTWARE, fuses_attention=fuses, overlaps=YES)
    better = dataclasses.replace(FITTED, **{parameter: factor * getattr(FITTED, parameter)})
    before, after = times(software=software), times(software=software, model=better)
    assert (after.total_s <= before.total_s * (1 + 1e-12)).all()


def test_eight_bits_are_faster_where_products_are_large() -> None:
    large = heavier(1e6)
    narrow = dataclasses.replace(RATES, narrow_flops_per_s=every(1.2e15))
    wide_s, narrow_s = (
        step_times_s(large, rates, SOFTWARE, SCHEDULES, FITTED).compute_s
        for rates in (RATES, narrow)
    )
    assert (narrow_s < wide_s).all()


def test_heads_that_fit_no_load_take_the_slow_path() -> None:
    odd = dataclasses.replace(WORKS, head_dim=np.array([108, 108, 108]))
    even = dataclasses.replace(WORKS, head_dim=np.array([128, 128, 128]))
    slow, usual = (
        step_times_s(works, RATES, SOFTWARE, SCHEDULES, FITTED).compute_s for works in (odd, even)
    )
    assert (slow > usual).all()
