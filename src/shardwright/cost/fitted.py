"""The values of the kernel model, as ``bench/fidelity/steps.py`` fits them to published runs.

946 runs of 16 sources, of which each weighs as the square root of its number of rows.
"""

from __future__ import annotations

from shardwright.cost.kernels import KernelModel

FITTED = KernelModel(
    matmul_share=0.979,
    unmeasured_share=0.672,
    narrow_share=0.927,
    ramp_depth=0.0,
    attention_share=0.519,
    memory_share=0.777,
    unfused_share=0.564,
    score_passes=2.86,
    shown_activation_share=0.058,
    hidden_weight_share=0.383,
    network_share=0.614,
    between_steps_s=0.0252,
)
