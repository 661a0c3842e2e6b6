"""Prices of made-up work, by hand: one product a pass, one activation a pass, one new weight."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from shardwright.cost.kernels import KernelModel, Rates, Software, Works, local_times_s
from shardwright.cost.purpose import Purpose
from shardwright.cost.step import Schedules, StepTimes, step_times_s
from shardwright.cost.workload import Products, Segment, Traffic, Workload

MODEL = KernelModel(
    matmul_share=0.8,
    unmeasured_share=0.5,
    narrow_share=0.9,
    ramp_depth=100.0,
    attention_share=0.4,
    memory_share=0.5,
    unfused_share=0.25,
    score_passes=3.0,
    shown_activation_share=0.2,
    hidden_weight_share=0.6,
    network_share=0.5,
    between_steps_s=0.01,
)
RATES = Rates(
    product_flops_per_s=np.array([1000.0]),
    is_measured=np.array([True]),
    narrow_flops_per_s=np.array([0.0]),
    peak_flops_per_s=np.array([1250.0]),
    bandwidth_bytes_per_s=np.array([200.0]),
    launch_s=np.array([0.001]),
)
NO, YES = np.array([False]), np.array([True])
SOFTWARE = Software(
    fuses_attention=NO,
    fuses_elementwise=YES,
    overlaps=NO,
    overlaps_backward=NO,
    repeats_layers=NO,
    attention_speed=np.array([2.0]),
    score_speed=np.array([0.5]),
)


def table(size: int, **cells: float) -> np.ndarray[Any, Any]:
    """A row of zeros but for the named segments."""
    row = np.zeros(size)
    for name, value in cells.items():
        row[Segment[name]] = value
    return row


def works(*, score_bytes: float = 0.0, **traffic: np.ndarray[Any, Any]) -> Works:
    """A forward product of 2000 operations, a backward one of 4000, each run ten times."""
    nothing = np.zeros(len(Segment))
    columns = dict.fromkeys(("fused_bytes", "eager_bytes", "score_bytes"), nothing)
    collective_s = np.zeros((len(Purpose), len(Segment)))
    collective_s[Purpose.ACTIVATION] = table(5, LAYER_FORWARD=3.0, LAYER_BACKWARD=5.0)
    collective_s[Purpose.STATE] = table(5, UPDATE=7.0)
    products = Products(
        segment=np.array([Segment.LAYER_FORWARD, Segment.LAYER_BACKWARD]),
        runs=np.array([10.0, 10.0]),
        flops=np.array([2000.0, 4000.0]),
        size_bytes=np.array([20.0, 40.0]),
        tile_share=np.array([0.5, 0.5]),
        depth=np.array([300.0, 300.0]),
        score_bytes=np.full(2, score_bytes),
    )
    return Works.of(
        [
            Workload(
                layers=1,
                products=products,
                traffic=Traffic(num_kernels=nothing, **{**columns, **traffic}),
                collective_s=collective_s,
                head_dim=64,
            )
        ]
    )


def local(
    given: Works, *, rates: Rates = RATES, model: KernelModel = MODEL, **habits: Any
) -> dict[Segment, float]:
    software = dataclasses.replace(SOFTWARE, **habits)
    return dict(zip(Segment, local_times_s(given, rates, software, model)[0], strict=True))


def test_a_product_takes_its_arithmetic_and_a_start() -> None:
    found = local(works())
    reached = 1000 * 0.8 * 0.5 / (1 + 100 / 300)
    assert found[Segment.LAYER_FORWARD] == pytest.approx(10 * (2000 / reached + 0.001))
    assert found[Segment.LAYER_BACKWARD] == pytest.approx(10 * (4000 / reached + 0.001))


def test_or_its_bytes_where_they_take_longer() -> None:
    slow = dataclasses.replace(RATES, bandwidth_bytes_per_s=np.array([0.1]))
    found = local(works(), rates=slow)
    assert found[Segment.LAYER_FORWARD] == pytest.approx(10 * (20 / (0.1 * 0.5) + 0.001))


def test_a_rate_that_nobody_measured_is_reached_in_part() -> None:
    unknown = dataclasses.replace(RATES, is_measured=NO, launch_s=np.array([0.0]))
    known = dataclasses.replace(unknown, is_measured=YES)
    ratio = local(works(), rates=unknown)[Segment.LAYER_FORWARD]
    assert ratio / local(works(), rates=known)[Segment.LAYER_FORWARD] == pytest.approx(0.8 / 0.5)


def test_eight_bits_pay_for_narrowing() -> None:
    narrow = dataclasses.replace(RATES, narrow_flops_per_s=np.array([3000.0]))
    reached = 3000 * 0.8 * 0.9 * 0.5 / (1 + 100 / 300)
    once = 2000 / reached + 0.001 + 0.75 * 20 / (200 * 0.5)
    assert local(works(), rates=narrow)[Segment.LAYER_FORWARD] == pytest.approx(10 * once)


def test_a_layer_repeated_whole_takes_its_forward_pass_once_more() -> None:
    once, again = (local(works(), repeats_layers=flag) for flag in (NO, YES))
    assert again[Segment.LAYER_FORWARD] == once[Segment.LAYER_FORWARD]
    assert again[Segment.LAYER_BACKWARD] == pytest.approx(3 * once[Segment.LAYER_FORWARD])


def test_fused_attention_skips_half_and_repeats_a_product_on_its_way_back() -> None:
    found = local(works(score_bytes=8.0), fuses_attention=YES)
    rate = 1250 * 0.4 * 2.0
    assert found[Segment.LAYER_FORWARD] == pytest.approx(0.5 * 20000 / rate)
    assert found[Segment.LAYER_BACKWARD] == pytest.approx(0.5 * (40000 + 20000 / 2) / rate)


def test_open_attention_writes_its_scores() -> None:
    scores = table(5, LAYER_FORWARD=80.0)
    bare, written = (
        local(dataclasses.replace(works(score_bytes=8.0), score_bytes=moved[None]))
        for moved in (0 * scores, scores)
    )
    passes = 3.0 * 80 / (200 * 0.5 * 0.5)
    reached = 1000 * 0.8 * 0.5 / (1 + 100 / 300)
    assert bare[Segment.LAYER_FORWARD] == pytest.approx(10 * (2000 / reached + 0.001))
    assert written[Segment.LAYER_FORWARD] == pytest.approx(bare[Segment.LAYER_FORWARD] + passes)


@pytest.mark.parametrize(("fuses", "bytes_moved"), [(YES, 100.0), (NO, 100 + 0.25 * 300)])
def test_elementwise_bytes_by_what_software_fuses(
    fuses: np.ndarray[Any, Any], bytes_moved: float
) -> None:
    segments = {"OUTER_FORWARD": 1.0, "UPDATE": 1.0}
    fused = table(5, **dict.fromkeys(segments, 100.0))
    eager = table(5, **dict.fromkeys(segments, 400.0))
    found = local(works(fused_bytes=fused, eager_bytes=eager), fuses_elementwise=fuses)
    assert found[Segment.OUTER_FORWARD] == pytest.approx(bytes_moved / (200 * 0.5))
    # Optimizers are one kernel everywhere.
    assert found[Segment.UPDATE] == pytest.approx(100 / (200 * 0.5))


def test_chains_are_started() -> None:
    started = dataclasses.replace(works(), num_kernels=table(5, OUTER_BACKWARD=30.0)[None])
    assert local(started)[Segment.OUTER_BACKWARD] == pytest.approx(30 * 0.001)


def step(*, microbatches: float = 4.0, stages: float = 1.0, **habits: Any) -> StepTimes:
    schedules = Schedules(
        microbatches=np.array([microbatches]),
        stages=np.array([stages]),
        chunks=np.array([1.0]),
        is_even=NO,
        fills_bubble=np.array([0.0]),
        keeps_weights_cut=NO,
        boundary_s=np.array([0.0]),
    )
    software = dataclasses.replace(SOFTWARE, **habits)
    return step_times_s(works(), RATES, software, schedules, MODEL)


@pytest.mark.parametrize(
    ("habits", "shown_s"),
    [
        ({}, 3 + 5),
        ({"overlaps_backward": YES}, 3 + 0.2 * 5),
        ({"overlaps": YES}, 0.2 * (3 + 5)),
        ({"overlaps": YES, "overlaps_backward": YES}, 0.2 * (3 + 5)),
    ],
    ids=["nothing", "the way back", "both ways", "both said"],
)
def test_activations_that_show(habits: dict[str, Any], shown_s: float) -> None:
    """On links of which a step gets half."""
    assert step(**habits).activation_s[0] == pytest.approx(4 * shown_s / 0.5)


@pytest.mark.parametrize("microbatches", [1.0, 4.0])
@pytest.mark.parametrize("stages", [1.0, 2.0])
def test_new_weights_are_gathered_once_a_step(microbatches: float, stages: float) -> None:
    found = step(microbatches=microbatches, stages=stages)
    assert found.exposed_s[0] == pytest.approx(7 / stages)
    overlapped = step(microbatches=microbatches, stages=stages, overlaps=YES)
    assert overlapped.exposed_s[0] == pytest.approx((1 - 0.6) * 7 / stages)
