"""Published runs: how rows are read, what is left out and why, and which layout is theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.fidelity.layouts import (
    clock_share,
    memory_share,
    mesh_of,
    model_sizes,
    recipe_of,
    topology_of,
)
from bench.fidelity.rows import LeftOut
from tests.conformance.published_rows import read, run

LEFT_OUT = {
    "a contradiction": ({"notes": "CHECK"}, "marked CHECK: the source contradicts itself"),
    "no layers": ({"layers": ""}, "model shape not stated"),
    "no heads": ({"heads": ""}, "model shape not stated"),
    "no sequence": ({"seq": ""}, "sequence length not stated"),
    "no device": ({"device": ""}, "device not stated"),
    "no count": ({"devices": ""}, "device count not stated"),
    "no degree": ({"tp": ""}, "tensor or pipeline parallelism not stated"),
    "no microbatch": ({"micro_batch": ""}, "microbatch not stated"),
    "no batch": ({"global_batch": ""}, "global batch not stated"),
    "experts": ({"family": "moe"}, "family moe: no reference model prices it yet"),
    "no family": ({"family": ""}, "family not stated: no reference model prices it yet"),
    "offload": ({"zero_stage_or_fsdp": "zero3+opt-offload"}, "offload to the host: not modelled"),
    "odd devices": ({"devices": "7"}, "7 devices do not divide by tp 2 x pp 1 x cp 1"),
    "too many stages": (
        {"pp": "8", "tp": "1"},
        "8 stages for 4 layers",
    ),
    "too small a batch": ({"global_batch": "4"}, "a batch of 4 is less than 4 replicas of 2"),
    "a metric of its own": (
        {"metric": "mfu"},
        "metric mfu: the source's definition is not known here",
    ),
    "a context unknown": ({"notes": "FSDP + CP"}, "context parallelism not stated"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_rows_are_left_out_with_the_reason(case: str, tmp_path: Path) -> None:
    changes, reason = LEFT_OUT[case]
    answer = read(tmp_path, **changes)
    assert answer == LeftOut(id="made-0001", source="made for this test", reason=reason)


def test_what_a_row_leaves_open_is_filled(tmp_path: Path) -> None:
    found = run(tmp_path, kv_heads="", ffn="", vpp="", cp="")
    assert (found.kv_heads, found.ffn, found.vpp, found.cp) == (8, 256, 1, 1)
    assert (found.dp, found.microbatches) == (4, 2)


def test_seconds_follow_from_the_sources_own_metric(tmp_path: Path) -> None:
    tokens = run(tmp_path, metric="tokens_per_s_per_gpu", value="1000")
    assert tokens.step_time_s == pytest.approx(16 * 32 / (1000 * 8))
    paper = "Megatron-LM 2021 (Narayanan et al.) weak scaling"
    hardware = run(tmp_path, metric="tflops_per_gpu", value="0.001", source=paper)
    flops = 96 * 16 * 32 * 4 * 64**2 * (1 + 32 / (6 * 64) + 512 / (16 * 4 * 64))
    assert hardware.step_time_s == pytest.approx(flops / (1e9 * 8))


@pytest.mark.parametrize(
    ("text", "stage", "ways"),
    [
        ("", 0, 1),
        ("ddp", 0, 1),
        ("zero1 (distributed optimizer)", 1, 1),
        ("fsdp-shard_grad_op (zero2)", 2, 1),
        ("fsdp-full_shard (zero3)", 3, 4),
        ("fsdp4 x dp32", 3, 4),
        ("fsdp128", 3, 4),
        ("fsdp1 x dp64", 0, 1),
        # The second version of PyTorch's, not two ways.
        ("fsdp2-full_shard", 3, 4),
    ],
)
def test_how_state_is_cut(text: str, stage: int, ways: int, tmp_path: Path) -> None:
    found = run(tmp_path, zero_stage_or_fsdp=text)
    assert (found.zero_stage, found.fsdp) == (stage, ways)


HABITS = {
    "a flash kernel": ({"attention_kernel": "flash_attention2"}, "fuses_attention", True),
    "PyTorch's own": ({"attention_kernel": "torch"}, "fuses_attention", False),
    "a fused softmax": ({"attention_kernel": "fused"}, "fuses_attention", False),
    "since FlashAttention": ({}, "fuses_attention", True),
    "before it": ({"source": "BLOOM training logs"}, "fuses_attention", False),
    "a GPT's norms": ({"source": "PyTorch blog"}, "fuses_elementwise", True),
    "a LLaMA's": ({"source": "PyTorch blog", "family": "llama"}, "fuses_elementwise", False),
    "compiled": (
        {"source": "torchtitan", "family": "llama", "notes": "compile"},
        "fuses_elementwise",
        True,
    ),
    "Megatron's": ({"source": "Zero Bubble", "family": "llama"}, "fuses_elementwise", True),
    "a kernel of its own": (
        {"attention_kernel": "flash_attention2 + RMS kernel"},
        "fuses_elementwise",
        True,
    ),
    "a kernel without": ({"attention_kernel": "flash_attention2"}, "fuses_elementwise", False),
    "all again": ({"recompute": "full"}, "repeats_layers", True),
    "all but the last in JAX": (
        {"recompute": "full", "source": "MaxText (JAX)"},
        "repeats_layers",
        False,
    ),
    "nothing again": ({"recompute": "selective"}, "repeats_layers", False),
    "a first version": ({"attention_kernel": "flash_attentionv1"}, "attention_speed", 0.5),
    "Triton's": ({"source": "MosaicML llm-foundry"}, "attention_speed", 1 / 1.5),
    "an old one on Hopper": (
        {"source": "torchtitan", "device": "H100-80GB-SXM"},
        "attention_speed",
        0.35 / 0.75,
    ),
    "the vendor's on Hopper": ({"device": "H100-80GB-SXM"}, "attention_speed", 1.0),
    "a step at a time": ({"attention_kernel": "torch"}, "score_speed", 0.4),
    "at once": ({"attention_kernel": "fused"}, "score_speed", 1.0),
    "overlapped": ({"notes": "TP overlap on"}, "overlaps", True),
    "asynchronous": ({"notes": "Async TP"}, "overlaps", True),
    "not overlapped": ({"notes": "no overlap"}, "overlaps", False),
    "nothing said": ({}, "overlaps", False),
    "the way back": ({"source": "Zero Bubble (ICLR 2024)"}, "overlaps_backward", True),
    "not before 2022": ({"source": "Megatron-LM 2021"}, "overlaps_backward", False),
    "dealt evenly": ({"notes": "one layer less on first and last"}, "is_even", True),
    "dealt with the embedding": ({"notes": "partition transformer|embedding"}, "is_even", True),
    "dealt by layers": ({}, "is_even", False),
    "eight bits": ({"dtype": "fp8"}, "narrow", True),
    "sixteen": ({}, "narrow", False),
    "cut weights": ({"zero_stage_or_fsdp": "zero3"}, "cuts_weights", True),
    "whole weights": ({"zero_stage_or_fsdp": "zero1"}, "cuts_weights", False),
}


@pytest.mark.parametrize("case", HABITS)
def test_what_is_known_of_the_software(case: str, tmp_path: Path) -> None:
    changes, name, value = HABITS[case]
    assert getattr(run(tmp_path, **changes), name) == value


def test_torchtitan_accumulates_nothing(tmp_path: Path) -> None:
    found = run(tmp_path, source="torchtitan docs", global_batch="")
    assert (found.microbatches, found.dp, found.micro_batch) == (1, 4, 2)


def test_a_group_differs_in_layout_alone(tmp_path: Path) -> None:
    plain = run(tmp_path)
    for layout in ({"tp": "4"}, {"tp": "1", "micro_batch": "1"}, {"recompute": "full"}):
        other = run(tmp_path, **layout)
        assert other.group == plain.group
        assert other.layout != plain.layout
    for question in ({"global_batch": "32"}, {"dtype": "fp8"}, {"seq": "64"}, {"devices": "16"}):
        assert run(tmp_path, **question).group != plain.group


@pytest.mark.parametrize(
    ("changes", "recipe", "mesh"),
    [
        ({}, "data+tensor", "replica=4,tensor=2"),
        ({"zero_stage_or_fsdp": "zero1"}, "zero-2+tensor", "data=4,tensor=2"),
        ({"sequence_parallel": "true"}, "data+tensor-sp", "replica=4,tensor=2"),
        ({"tp": "1", "zero_stage_or_fsdp": "fsdp-full_shard"}, "zero-3", "data=8"),
        ({"tp": "1", "zero_stage_or_fsdp": "fsdp4 x dp2"}, "data+zero-3", "replica=2,data=4"),
        ({"cp": "2"}, "data+context+tensor", "replica=2,context=2,tensor=2"),
        ({"tp": "1", "devices": "1"}, "data", "data=1"),
    ],
)
def test_a_layout_is_a_recipe_on_a_mesh(
    changes: Mapping[str, str], recipe: str, mesh: str, tmp_path: Path
) -> None:
    found = run(tmp_path, **changes)
    assert (recipe_of(found), str(mesh_of(found))) == (recipe, mesh)


def test_sizes_of_the_model(tmp_path: Path) -> None:
    sizes = model_sizes(run(tmp_path, family="nemotron", kv_heads="1", recompute="full"))
    assert (sizes["family"], sizes["gated"], sizes["kv_heads"]) == ("llama", False, 2)
    assert (sizes["vocab"], sizes["batch"]) == (512, 8)
    assert (sizes["remat"], sizes["lean"]) == (True, False)


@pytest.mark.parametrize(
    ("device", "network_bytes_per_s"),
    [
        ("A100-80GB-SXM4 (JeanZay, 4x100Gb Omni-Path per node)", 4 * 100e9 / 8 / 8),
        ("A100-80GB (Selene, 8x200Gb/s HDR IB per node)", 25e9),
        ("H100-96GB-HBM2e (Grand Teton, 500W, 400Gb/s/GPU RDMA)", 50e9),
    ],
)
def test_the_network_that_a_run_names(
    device: str, network_bytes_per_s: float, tmp_path: Path
) -> None:
    found = run(tmp_path, device=device, devices="64", tp="8", global_batch="64")
    assert topology_of(found).levels[-1].bandwidth_bytes_per_s == pytest.approx(network_bytes_per_s)
    assert clock_share(found) == pytest.approx((5 / 7) ** (1 / 3) if "500W" in device else 1.0)


def test_memory_of_an_older_kind_is_slower(tmp_path: Path) -> None:
    shares = [
        memory_share(run(tmp_path, device=device))
        for device in ("H100-80GB-SXM", "H100-96GB-HBM2e (Grand Teton, 500W)")
    ]
    assert shares == pytest.approx([1.0, 2.4 / 3.35])
