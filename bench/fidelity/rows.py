"""Published training runs as rows: model, machines, layout, and seconds per step.

The table is ``throughput.csv``: one measured run a line, with its source. A row that does not state
its whole layout, or whose metric cannot be turned into seconds by the source's own definition, is
left out with the reason. What a row leaves open and its kind makes plain is filled: data
parallelism from the device count, the feed-forward of a plain GPT, padding of the vocabulary.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

FAMILIES = {"gpt": "gpt", "llama": "llama", "nemotron": "nemotron", "sft": "llama"}
_DEFAULT_VOCAB = 51200
_OPEN_KERNELS = ("torch", "fused")
_BEFORE_FUSED_ATTENTION = (
    *("Megatron-LM 2020", "Megatron-LM 2021", "Megatron-LM Jan-2021", "Korthikanti"),
    *("BLOOM", "BigScience", "OneFlow", "LiBai"),
)
"""Runs of before June 2022, when FlashAttention came out."""
_MEGATRON_SINCE_2022 = (
    *("Korthikanti", "Megatron-LM examples", "Megatron-LM functional", "NVIDIA dgxc"),
    "Zero Bubble",
)
_PLAIN_PYTORCH = ("MosaicML", "torchtitan", "PyTorch")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured run; names are those of the table's columns."""

    id: str
    source: str
    model: str
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq: int
    device: str
    devices: int
    devices_per_node: int
    tp: int
    pp: int
    vpp: int
    dp: int
    cp: int
    fsdp: int
    zero_stage: int
    micro_batch: int
    microbatches: int
    schedule: str
    recompute: str
    sequence_parallel: bool
    dtype: str
    attention_kernel: str
    notes: str
    step_time_s: float

    @property
    def fuses_attention(self) -> bool:
        """Whether its attention kernel keeps scores out of memory, by its column or its date."""
        if self.attention_kernel:
            return self.attention_kernel not in _OPEN_KERNELS
        return not self.source.startswith(_BEFORE_FUSED_ATTENTION)

    @property
    def fuses_elementwise(self) -> bool:
        """Whether elementwise chains are one kernel each.

        Compilers do so (JAX, torch.compile by the notes), and Megatron's and NeMo's own kernels.
        PyTorch has one kernel each for a GPT's layer norm and GELU, but computes RMS norms, rotary
        positions and gates step by step. Where the kernels' column is filled it tells of the norms.
        """
        if self.attention_kernel:
            return "RMS kernel" in self.attention_kernel
        if self.family == "gpt" or "compile" in self.notes:
            return True
        return not self.source.startswith(_PLAIN_PYTORCH)

    @property
    def repeats_layers(self) -> bool:
        """Whether layers are computed again by a framework that drops none of it (not JAX)."""
        return self.recompute == "full" and "JAX" not in self.source

    @property
    def attention_speed(self) -> float:
        """Of its kernel, over FlashAttention-2 on an A100, in shares of the peak.

        The first version is half as fast, Triton's (llm-foundry's ``attn_impl``) two thirds. On
        Hopper the second reaches 35 % of the peak where the third reaches 75 %; NVIDIA's own
        kernels (cuDNN, Transformer Engine) are written for each generation.

        Source: Dao, "FlashAttention-2" (2023), abstract and section 4.1; Shah et al.,
        "FlashAttention-3" (2024), abstract.
        """
        version = 0.5 if "flash_attentionv1" in self.attention_kernel else 1.0
        if self.source.startswith("MosaicML"):
            version = 1 / 1.5
        is_foreign = self.device.startswith("H") and self.source.startswith(_PLAIN_PYTORCH)
        return version * (0.35 / 0.75 if is_foreign else 1.0)

    @property
    def score_speed(self) -> float:
        """Of its softmax, over one fused kernel: PyTorch's own scales, masks and casts apart."""
        return 0.4 if self.attention_kernel == "torch" else 1.0

    @property
    def overlaps(self) -> bool:
        """Whether the notes say that collectives run beside computation."""
        notes = self.notes.lower()
        return any(word in notes for word in ("overlap", "async")) and "no overlap" not in notes

    @property
    def overlaps_backward(self) -> bool:
        """Whether tensor parallelism's backward collectives run beside gradients of weights.

        Megatron-LM's default since 2022 (``--no-async-tensor-model-parallel-allreduce`` turns it
        off).
        """
        return self.source.startswith(_MEGATRON_SINCE_2022)

    @property
    def is_even(self) -> bool:
        """Whether the notes say that embedding and head count as layers when dealt to stages."""
        return "transformer|embedding" in self.notes or "one layer less" in self.notes

    @property
    def narrow(self) -> bool:
        """Whether layers' products run in eight bits."""
        return "fp8" in self.dtype

    @property
    def cuts_weights(self) -> bool:
        """Whether parameters rest in pieces."""
        return self.zero_stage == 3

    @property
    def layout(self) -> tuple[object, ...]:
        """What one run of a group of comparable runs may differ in."""
        return (
            *(self.tp, self.pp, self.vpp, self.cp, self.fsdp, self.zero_stage, self.micro_batch),
            *(self.schedule, self.recompute, self.sequence_parallel),
        )

    @property
    def group(self) -> tuple[object, ...]:
        """What runs have in common that differ in their layout alone."""
        batch = self.micro_batch * self.microbatches * self.dp
        return (
            *(self.source, self.layers, self.hidden, self.heads, self.ffn, self.vocab, self.seq),
            *(self.device, self.devices, batch, self.dtype, self.attention_kernel),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A row that cannot be judged, and why."""

    id: str
    source: str
    reason: str


def read_runs(path: Path) -> Iterator[Run | LeftOut]:
    """Every row of a table of runs, in its order."""
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            answer = _run(row)
            if isinstance(answer, str):
                answer = LeftOut(id=row["id"], source=row["source"], reason=answer)
            yield answer


def _run(row: dict[str, str]) -> Run | str:
    reason = _unusable(row)
    if reason:
        return reason
    layers, heads = _whole(row, "layers"), _whole(row, "heads")
    tp, pp, cp = _whole(row, "tp"), _whole(row, "pp"), _whole(row, "cp") or 1
    devices = _whole(row, "devices")
    if devices % (tp * pp * cp):
        return f"{devices} devices do not divide by tp {tp} x pp {pp} x cp {cp}"
    if pp > layers:
        return f"{pp} stages for {layers} layers"
    dp, micro_batch = devices // (tp * pp * cp), _whole(row, "micro_batch")
    batch = _number(row, "global_batch") or _batch_of_one(row, micro_batch * dp)
    if not batch:
        return "global batch not stated"
    if batch < micro_batch * dp:
        return f"a batch of {batch:g} is less than {dp} replicas of {micro_batch}"
    seconds = _seconds(row, batch)
    if isinstance(seconds, str):
        return seconds
    stage, fsdp = _sharding(row["zero_stage_or_fsdp"].lower(), dp)
    return Run(
        id=row["id"],
        source=row["source"],
        model=row["model"],
        family=FAMILIES[row["family"]],
        layers=layers,
        hidden=_whole(row, "hidden"),
        heads=heads,
        kv_heads=_whole(row, "kv_heads") or heads,
        ffn=_whole(row, "ffn") or 4 * _whole(row, "hidden"),
        vocab=_whole(row, "vocab") or _DEFAULT_VOCAB,
        seq=_whole(row, "seq"),
        device=row["device"],
        devices=devices,
        devices_per_node=_whole(row, "devices_per_node") or 8,
        tp=tp,
        pp=pp,
        vpp=_whole(row, "vpp") or 1,
        dp=dp,
        cp=cp,
        fsdp=fsdp,
        zero_stage=stage,
        micro_batch=micro_batch,
        microbatches=math.ceil(batch / (micro_batch * dp) - 1e-9),
        schedule=row["schedule"],
        recompute=row["recompute"],
        sequence_parallel=row["sequence_parallel"] == "true",
        dtype=row["dtype"],
        attention_kernel=row["attention_kernel"],
        notes=row["notes"],
        step_time_s=seconds,
    )


_NEEDED = (
    ("layers", "model shape"),
    ("hidden", "model shape"),
    ("heads", "model shape"),
    ("seq", "sequence length"),
    ("device", "device"),
    ("devices", "device count"),
    ("tp", "tensor or pipeline parallelism"),
    ("pp", "tensor or pipeline parallelism"),
    ("micro_batch", "microbatch"),
)


def _unusable(row: dict[str, str]) -> str:
    if "CHECK" in row["notes"]:
        return "marked CHECK: the source contradicts itself"
    for column, what in _NEEDED:
        if not row[column]:
            return f"{what} not stated"
    if row["family"] not in FAMILIES:
        return f"family {row['family'] or 'not stated'}: no reference model prices it yet"
    if not row["cp"] and ("CP" in row["notes"] or "4D" in row["notes"]):
        return "context parallelism not stated"
    if "offload" in row["zero_stage_or_fsdp"]:
        return "offload to the host: not modelled"
    return ""


def _seconds(row: dict[str, str], batch: float) -> float | str:
    value, devices = float(row["value"]), _whole(row, "devices")
    match row["metric"]:
        case "step_time_s":
            return value
        case "tokens_per_s_per_gpu":
            return batch * _whole(row, "seq") / (value * devices)
        case "tflops_per_gpu" if row["source"].startswith("Megatron-LM 2021"):
            return _narayanan_flops(row, batch) / (value * 1e12 * devices)
    return f"metric {row['metric']}: the source's definition is not known here"


def _narayanan_flops(row: dict[str, str], batch: float) -> float:
    """Hardware FLOPs of a step. Source: Narayanan et al. (SC 2021), equation 3."""
    layers, hidden, seq = (_whole(row, name) for name in ("layers", "hidden", "seq"))
    vocab = _whole(row, "vocab") or _DEFAULT_VOCAB
    inner = 1 + seq / (6 * hidden) + vocab / (16 * layers * hidden)
    return 96 * batch * seq * layers * hidden**2 * inner


def _sharding(text: str, dp: int) -> tuple[int, int]:
    """(ZeRO stage, ways that weights are cut) of a column such as ``fsdp128`` or ``zero1``."""
    ways = re.match(r"fsdp(\d+)", text)
    if ways and int(ways[1]) > 2:
        return 3, min(dp, int(ways[1]))
    if "zero3" in text or "full_shard" in text or text.startswith(("fsdp+dp", "fsdp optim")):
        return 3, dp
    for stage in (2, 1):
        if f"zero{stage}" in text:
            return stage, 1
    return 0, 1


def _batch_of_one(row: dict[str, str], samples: int) -> float:
    """The tables of torchtitan state the local batch and accumulate nothing."""
    return float(samples) if row["source"].startswith("torchtitan") else 0.0


def _number(row: dict[str, str], column: str) -> float:
    return float(row[column]) if row[column] else 0.0


def _whole(row: dict[str, str], column: str) -> int:
    return max(int(_number(row, column)), 1) if _number(row, column) > 0 else 0
