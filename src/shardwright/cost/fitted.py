"""The values of the kernel model, as ``bench/fidelity/steps.py`` fits them to published runs.

946 runs of 16 sources, of which each weighs as the square root of its number of rows.
"""

from __future__ import annotations

from shardwright.cost.kernels import KernelModel

FITTED = KernelModel(
    matmul_share=0.975,
    unmeasured_share=0.664,
    narrow_share=0.948,
    ramp_depth=13.2,
    attention_share=0.516,
    memory_share=0.785,
    unfused_share=0.585,
    score_passes=2.9,
    shown_activation_share=0.092,
    hidden_weight_share=0.53,
    network_share=0.749,
    between_steps_s=0.0229,
)
