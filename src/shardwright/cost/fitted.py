"""The values of the kernel model, as ``bench/fidelity/steps.py`` fits them to published runs.

946 runs of 16 sources, of which each weighs as the square root of its number of rows.
"""

from __future__ import annotations

from shardwright.cost.kernels import KernelModel

FITTED = KernelModel(
    matmul_share=0.969,
    unmeasured_share=0.67,
    narrow_share=0.921,
    ramp_depth=0.0,
    attention_share=0.521,
    memory_share=0.785,
    unfused_share=0.556,
    score_passes=2.93,
    shown_activation_share=0.0301,
    hidden_weight_share=0.4,
    network_share=0.592,
    between_steps_s=0.0283,
)
