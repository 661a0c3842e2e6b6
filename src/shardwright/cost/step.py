"""A whole step from the segments of one microbatch: microbatches, stages and what overlaps.

A plan of one stage says what one microbatch costs with all layers in place. A schedule deals the
layers out to stages and lets microbatches follow one another::

    step = microbatches * slowest stage + bubble + exposed gradients and weights + update + host

where the bubble is ``(stages - 1) / chunks`` times the mean stage for one forward and one backward
pass in turn. Zero-bubble schedules fill it with gradients of weights.

Source:
    Narayanan et al., "Efficient large-scale language model training on GPU clusters using
    Megatron-LM" (SC 2021), section 2.2: bubbles of 1F1B and of interleaved chunks. Qi et al., "Zero
    bubble pipeline parallelism" (ICLR 2024), sections 2.2 and 2.3: those of ZB-H1 and ZB-H2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.cost.kernels import KernelModel, Rates, Software, Works, local_times_s
from shardwright.cost.purpose import Purpose
from shardwright.cost.workload import Numbers, Segment
from shardwright.ir.columns import Flags


@final
@dataclass(frozen=True, kw_only=True)
class Schedules:
    """How each plan's microbatches go through its stages; one row for each plan.

    Attributes:
        microbatches: of one step on one device.
        stages: of the pipeline; 1 without one.
        chunks: of layers that a stage holds apart (interleaving); 1 without.
        is_even: embedding and head count as a layer each when layers are dealt out.
        fills_bubble: 0 for 1F1B, 1 where gradients of weights fill the bubble but for what the
            forward pass leaves (ZB-H1), 2 where they fill it whole (ZB-H2).
        keeps_weights_cut: weights are gathered and gradients scattered in every microbatch.
        boundary_s: seconds to hand one microbatch's activations to the next stage.
    """

    microbatches: Numbers
    stages: Numbers
    chunks: Numbers
    is_even: Flags
    fills_bubble: Numbers
    keeps_weights_cut: Flags
    boundary_s: Numbers


@final
@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Seconds of one step of each plan, and their parts.

    Attributes:
        total_s: of the step.
        compute_s: local work of the slowest stage, all microbatches.
        activation_s: activations moved within a stage, as far as they show.
        bubble_s: waiting for other stages.
        boundary_s: activations handed between stages.
        exposed_s: weights and gradients moved, as far as they show.
        update_s: the optimizer's.
    """

    total_s: Numbers
    compute_s: Numbers
    activation_s: Numbers
    bubble_s: Numbers
    boundary_s: Numbers
    exposed_s: Numbers
    update_s: Numbers


def step_times_s(
    works: Works, rates: Rates, software: Software, schedules: Schedules, model: KernelModel
) -> StepTimes:
    """Seconds of one step of each plan under its schedule."""
    local = local_times_s(works, rates, software, model)
    moved = works.collective_s.copy()
    moved[:, Purpose.ACTIVATION] /= model.network_share
    activation = _shown(software, model) * moved[:, Purpose.ACTIVATION]
    compute_s, activation_s = (
        _slowest_stage(works, part, schedules) for part in (local, activation)
    )
    busy_s = schedules.microbatches * (compute_s + activation_s)
    bubble_s = _bubble(local + activation, schedules)
    boundary_s = _boundaries(schedules)
    exposed_s = _exposed(moved, busy_s, software, schedules, model)
    update_s = local[:, Segment.UPDATE] / schedules.stages
    return StepTimes(
        total_s=busy_s + bubble_s + boundary_s + exposed_s + update_s + model.between_steps_s,
        compute_s=schedules.microbatches * compute_s,
        activation_s=schedules.microbatches * activation_s,
        bubble_s=bubble_s,
        boundary_s=boundary_s,
        exposed_s=exposed_s,
        update_s=update_s,
    )


def _shown(software: Software, model: KernelModel) -> Numbers:
    """Share of moving activations that stays in the way, by plan and segment."""
    shown = np.ones((len(software.overlaps), len(Segment)))
    shown[software.overlaps] = model.shown_activation_share
    for segment in (Segment.LAYER_BACKWARD, Segment.OUTER_BACKWARD):
        shown[software.overlaps_backward, segment] = model.shown_activation_share
    return shown


def _slowest_stage(works: Works, times: Numbers, schedules: Schedules) -> Numbers:
    """Seconds that one microbatch, both ways, keeps the busiest stage."""
    layer = times[:, [Segment.LAYER_FORWARD, Segment.LAYER_BACKWARD]].sum(axis=1) / works.layers
    outer = times[:, [Segment.OUTER_FORWARD, Segment.OUTER_BACKWARD]].sum(axis=1)
    chunk = np.ceil(works.layers / (schedules.stages * schedules.chunks))
    most = np.where(
        schedules.is_even, (works.layers + 2) / schedules.stages, chunk * schedules.chunks
    )
    last = np.where(schedules.is_even, most - 1, works.layers - most * (schedules.stages - 1))
    last = np.clip(last, 0, most)
    inner = np.where(schedules.stages > 1, most, 0) * layer
    slowest: Numbers = np.maximum(inner, last * layer + outer)
    return slowest


def _bubble(times: Numbers, schedules: Schedules) -> Numbers:
    forward = times[:, Segment.LAYER_FORWARD] + times[:, Segment.OUTER_FORWARD]
    backward = times[:, Segment.LAYER_BACKWARD] + times[:, Segment.OUTER_BACKWARD]
    mean, waits = (forward + backward) / schedules.stages, schedules.stages - 1
    # Half of the backward pass is gradients of weights, which nothing waits for.
    kept = np.select(
        [schedules.fills_bubble == 0, schedules.fills_bubble == 1],
        [np.ones_like(mean), forward / (forward + backward)],
        0.0,
    )
    filled = waits * mean * (1 - kept) / schedules.chunks
    fillers = schedules.microbatches * backward / 2 / schedules.stages
    return waits * mean / schedules.chunks - np.minimum(filled, fillers)


def _boundaries(schedules: Schedules) -> Numbers:
    """Hand-overs on the way of the first and the last microbatch; those between are hidden."""
    return 2 * (schedules.stages - 1) * schedules.boundary_s


def _exposed(
    moved: Numbers,
    busy_s: Numbers,
    software: Software,
    schedules: Schedules,
    model: KernelModel,
) -> Numbers:
    """Weights and gradients that computation does not hide.

    Where weights are kept cut they move in every microbatch, beside all of its computation; else
    gradients move once, beside the last backward pass, and new weights beside the first forward.
    """
    in_layers = [Segment.LAYER_FORWARD, Segment.LAYER_BACKWARD]
    of_stage = moved[:, :, in_layers].sum(axis=2) / schedules.stages[:, None]
    outside = moved.sum(axis=2) - moved[:, :, in_layers].sum(axis=2)
    # What the loop stacks moves once for all layers, and is dealt out to stages all the same.
    by_purpose = of_stage + outside / schedules.stages[:, None]
    each = by_purpose[:, Purpose.WEIGHT] + by_purpose[:, Purpose.GRADIENT]
    once = by_purpose[:, Purpose.STATE]
    total = np.where(schedules.keeps_weights_cut, schedules.microbatches * each, each) + once
    window = np.where(schedules.keeps_weights_cut, busy_s, busy_s / schedules.microbatches)
    hides = software.overlaps | schedules.keeps_weights_cut
    hidden = np.where(hides, model.hidden_weight_share, 0.0) * np.minimum(total, window)
    exposed: Numbers = total - hidden
    return exposed
