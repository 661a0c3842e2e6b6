"""How fast real kernels are, beside what a device could do: the fitted part of the cost model.

Every number of ``KernelModel`` is a share or a time with a meaning of its own, one value for all
devices, sources and layouts. The values of ``FITTED`` come from ``bench/fidelity/steps.py``, which
fits them to published runs; ``docs/cost-model.md`` holds the table of errors.

Prices are columns: one row for each product, one for each plan, so that a thousand plans cost
hardly more than one.

Source:
    Williams, Waterman and Patterson, "Roofline" (2009) for the bound by arithmetic or memory; Dao,
    "FlashAttention-2" (2023), section 4 for the operations of a fused attention kernel (half of
    them skipped by a causal mask, scores computed again in its backward pass).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from shardwright.cost.workload import Numbers, Products, Segment, Workload
from shardwright.ir.columns import Flags, Ints

CAUSAL_SHARE = 0.5
"""Of attention's products: a causal mask lets a fused kernel skip the other half."""
_NARROWING_PASSES = 0.75
"""Over sixteen-bit operands and results: each is read wide and written narrow once more."""
_ALIGNMENT = 8
"""Features of a head that a kernel loads at once; others take the slow path."""
_UNALIGNED_SLOWDOWN = 4.0
"""Two-byte loads in place of the widest: what BLOOM's trials with heads of 108 and 150 show."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModel:
    """What kernels reach.

    Attributes:
        matmul_share: of a device's usual rate of large products (``Device.matmul_efficiency``).
        unmeasured_share: of the rate taken for devices whose products nobody measured.
        narrow_share: of the share of the peak that wide products reach, for eight-bit ones.
        ramp_depth: steps of a sum that a tile of a product loses to filling its pipeline and to
            writing its result.
        attention_share: of the peak, for fused attention kernels.
        memory_share: of the memory bandwidth.
        unfused_share: of elementwise traffic that fusion could save, what software that is not
            compiled as a whole still moves.
        score_passes: over attention's scores, where attention is not fused, beside each write and
            read that the graph needs.
        shown_activation_share: of the time that activations move, what stays in the way where the
            software overlaps it with products.
        hidden_weight_share: of the time that weights and gradients move, what can go on beside
            computation where the software overlaps it.
        network_share: of the priced bandwidth that a whole step gets out of its links.
        between_steps_s: on the host, from one step to the next.
    """

    matmul_share: float
    unmeasured_share: float
    narrow_share: float
    ramp_depth: float
    attention_share: float
    memory_share: float
    unfused_share: float
    score_passes: float
    shown_activation_share: float
    hidden_weight_share: float
    network_share: float
    between_steps_s: float


@final
@dataclass(frozen=True, kw_only=True)
class Rates:
    """What the devices of each plan could do; one row for each plan.

    Attributes:
        product_flops_per_s: usual rate of large products in the plan's own element type.
        is_measured: whether that rate rests on a measurement.
        narrow_flops_per_s: the same in eight bits for layers' products; 0 where they run wider.
        peak_flops_per_s: of the plan's own element type.
        bandwidth_bytes_per_s: of memory.
        launch_s: between the end of one kernel and the start of the next.
    """

    product_flops_per_s: Numbers
    is_measured: Flags
    narrow_flops_per_s: Numbers
    peak_flops_per_s: Numbers
    bandwidth_bytes_per_s: Numbers
    launch_s: Numbers


@final
@dataclass(frozen=True, kw_only=True)
class Software:
    """What is known of the software that runs each plan; one row for each plan.

    Attributes:
        fuses_attention: scores stay out of memory.
        fuses_elementwise: chains of elementwise operators are fused as the graph allows.
        overlaps: collectives run beside computation.
        overlaps_backward: those of activations do in the backward pass, beside the products that
            make gradients of weights.
        repeats_layers: a layer that is computed again is computed whole, its last product too,
            which nobody reads.
        attention_speed: of its fused attention kernel, over that of the second FlashAttention.
        score_speed: of its softmax over scores, over that of one fused kernel.
    """

    fuses_attention: Flags
    repeats_layers: Flags
    attention_speed: Numbers
    score_speed: Numbers
    fuses_elementwise: Flags
    overlaps: Flags
    overlaps_backward: Flags


@final
@dataclass(frozen=True, kw_only=True)
class Works:
    """Many workloads as columns.

    Attributes:
        owner: of each product, the row of its plan.
        products: of all plans, one after another.
        fused_bytes, eager_bytes, score_bytes, num_kernels: by plan and segment.
        collective_s: by plan, purpose and segment.
        layers: of each plan.
        head_dim: of each plan.
    """

    owner: Ints
    products: Products
    fused_bytes: Numbers
    eager_bytes: Numbers
    score_bytes: Numbers
    num_kernels: Numbers
    collective_s: Numbers
    layers: Numbers
    head_dim: Ints

    @staticmethod
    def of(workloads: list[Workload]) -> Works:
        """The workloads in their order."""

        def column(name: str) -> Numbers:
            return np.concatenate([getattr(work.products, name) for work in workloads])

        def table(name: str) -> Numbers:
            return np.array([getattr(work.traffic, name) for work in workloads])

        sizes = [len(work.products.runs) for work in workloads]
        return Works(
            owner=np.repeat(np.arange(len(workloads)), sizes),
            products=Products(
                segment=column("segment").astype(np.int64),
                runs=column("runs"),
                flops=column("flops"),
                size_bytes=column("size_bytes"),
                tile_share=column("tile_share"),
                depth=column("depth"),
                score_bytes=column("score_bytes"),
            ),
            fused_bytes=table("fused_bytes"),
            eager_bytes=table("eager_bytes"),
            score_bytes=table("score_bytes"),
            num_kernels=table("num_kernels"),
            collective_s=np.array([work.collective_s for work in workloads]),
            layers=np.array([float(work.layers) for work in workloads]),
            head_dim=np.array([work.head_dim for work in workloads]),
        )


def local_times_s(works: Works, rates: Rates, software: Software, model: KernelModel) -> Numbers:
    """Seconds of local work of one run of each graph, by plan and segment."""
    bandwidth = rates.bandwidth_bytes_per_s * model.memory_share
    total = _products_s(works, rates, software, bandwidth, model)
    total += _attention_s(works, rates, software, bandwidth, model)
    unfused = np.where(software.fuses_elementwise, 0.0, model.unfused_share)[:, None]
    moved = works.fused_bytes + unfused * (works.eager_bytes - works.fused_bytes)
    moved[:, Segment.UPDATE] = works.fused_bytes[:, Segment.UPDATE]
    return total + moved / bandwidth[:, None] + rates.launch_s[:, None] * works.num_kernels


def _products_s(
    works: Works, rates: Rates, software: Software, bandwidth: Numbers, model: KernelModel
) -> Numbers:
    """Products outside of attention; those of layers in eight bits where the plan has them so."""
    products, owner = works.products, works.owner
    narrow = rates.narrow_flops_per_s[owner] * (model.matmul_share * model.narrow_share)
    in_layer = products.segment <= Segment.LAYER_BACKWARD
    is_narrow = in_layer & (narrow > 0)
    rate = np.where(is_narrow, narrow, _wide_rate(rates, model)[owner])
    moving_s = products.size_bytes / bandwidth[owner]
    working_s = products.flops / (rate * _reached(products, model))
    once = np.maximum(working_s, moving_s) + rates.launch_s[owner]
    once += np.where(is_narrow, _NARROWING_PASSES * moving_s, 0.0)
    total = _by_segment(works, np.where(products.is_attention, 0.0, products.runs * once))
    forward, backward = total[:, Segment.LAYER_FORWARD], total[:, Segment.LAYER_BACKWARD]
    whole = np.maximum(backward, 3 * forward)
    total[:, Segment.LAYER_BACKWARD] = np.where(software.repeats_layers, whole, backward)
    return total


def _wide_rate(rates: Rates, model: KernelModel) -> Numbers:
    shares = np.where(rates.is_measured, model.matmul_share, model.unmeasured_share)
    return rates.product_flops_per_s * shares


def _reached(products: Products, model: KernelModel) -> Numbers:
    """Share of the rate of large products that the sizes of these allow."""
    return products.tile_share / (1 + model.ramp_depth / products.depth)


def _attention_s(
    works: Works, rates: Rates, software: Software, bandwidth: Numbers, model: KernelModel
) -> Numbers:
    slow = np.where(works.head_dim % _ALIGNMENT, _UNALIGNED_SLOWDOWN, 1.0)
    fused = _fused_attention_s(works, rates, model) / software.attention_speed[:, None]
    open_s = _open_attention_s(works, rates, software, bandwidth, model)
    return slow[:, None] * np.where(software.fuses_attention[:, None], fused, open_s)


def _fused_attention_s(works: Works, rates: Rates, model: KernelModel) -> Numbers:
    products = works.products
    flops = _by_segment(works, np.where(products.is_attention, products.runs * products.flops, 0.0))
    # Of the two products of the forward pass the backward kernel repeats one.
    flops[:, Segment.LAYER_BACKWARD] += flops[:, Segment.LAYER_FORWARD] / 2
    return CAUSAL_SHARE * flops / (rates.peak_flops_per_s * model.attention_share)[:, None]


def _open_attention_s(
    works: Works, rates: Rates, software: Software, bandwidth: Numbers, model: KernelModel
) -> Numbers:
    products, owner = works.products, works.owner
    rate = _wide_rate(rates, model)[owner] * _reached(products, model)
    once = np.maximum(products.flops / rate, products.size_bytes / bandwidth[owner])
    once += rates.launch_s[owner]
    total = _by_segment(works, np.where(products.is_attention, products.runs * once, 0.0))
    softmax_s = works.score_bytes / (bandwidth * software.score_speed)[:, None]
    return total + model.score_passes * softmax_s


def _by_segment(works: Works, values: Numbers) -> Numbers:
    """Sums of a column of products by plan and segment."""
    cells = works.owner * len(Segment) + works.products.segment
    count = len(works.layers) * len(Segment)
    sums = np.bincount(cells, values, minlength=count).astype(np.float64)
    return sums.reshape(-1, len(Segment))
