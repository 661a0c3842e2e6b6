"""Published models as sizes of our families.

Only models that a family writes down whole are here: one whose attention, norms or experts differ
would carry the right name and the wrong graph. Shapes are published facts; the batch is the cited
training run's where one is cited, otherwise a usual one. Weights rest in float32, compute runs in
bfloat16 (Alpa's image models: float32), Adam trains, blocks are scanned and rematerialised; all
of it can be overridden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A published model.

    Attributes:
        name: as ``build`` takes it.
        family: whose config the sizes fill.
        sizes: fields of that config and of ``TrainConfig``.
        parameters_billions: as published.
        source: where the shape is published.
    """

    name: str
    family: str
    sizes: Mapping[str, Any]
    parameters_billions: float
    source: str


_GPT2 = "Radford et al. 2019, table 2; config.json of openai-community on Hugging Face"
_GPT3 = "Brown et al. 2020, table 2.1; vocabulary padded from 50257 to 51200 as Megatron does"
_MEGATRON = "Narayanan et al. 2021, Efficient Large-Scale Language Model Training, table 1"
_ALPA_GPT = "alpa-projects/alpa benchmark/alpa/suite_manual_gpt.py (Zheng et al. 2022, Alpa)"
_LLAMA2 = "Touvron et al. 2023, Llama 2; config.json of meta-llama/Llama-2-*-hf"
_LLAMA3 = "Grattafiori et al. 2024, table 3; config.json of meta-llama/Meta-Llama-3.1-*"
_LLAMA32 = "config.json of meta-llama/Llama-3.2-1B; the output matrix is the embedding"
_MISTRAL = "config.json of mistralai/Mistral-7B-v0.1; seq is within its window of 4096"
_MIXTRAL = "config.json of mistralai/Mixtral-*-v0.1; the dispatch and its capacity are our choice"
_PHI4 = "config.json of microsoft/phi-4"
_RESNET = "He et al. 2015, table 1; strides on the 3x3 convolutions as in torchvision resnet50"
_WIDE = "Zagoruyko and Komodakis 2016; torchvision wide_resnet50_2"
_ALPA = "alpa-projects/alpa benchmark/alpa/suite_wresnet.py (Zheng et al. 2022, Alpa)"

# The tables keep their columns.
# fmt: off
_GPT_COLUMNS = ("layers", "d_model", "heads", "vocab", "seq", "batch")
_GPTS = {
    "gpt2":          ((12, 768, 12, 50257, 1024, 512), 0.124, _GPT2),
    "gpt2-xl":       ((48, 1600, 25, 50257, 1024, 512), 1.558, _GPT2),
    "gpt3-2.7b":     ((32, 2560, 32, 51200, 2048, 512), 2.65, _GPT3),
    "gpt3-6.7b":     ((32, 4096, 32, 51200, 2048, 1024), 6.66, _GPT3),
    "gpt3-175b":     ((96, 12288, 96, 51200, 2048, 1536), 175.0, _GPT3),
    "megatron-1.7b": ((24, 2304, 24, 51200, 2048, 512), 1.7, _MEGATRON),
    "megatron-3.6b": ((30, 3072, 32, 51200, 2048, 512), 3.6, _MEGATRON),
    "megatron-7.5b": ((36, 4096, 32, 51200, 2048, 512), 7.5, _MEGATRON),
    "megatron-18b":  ((40, 6144, 48, 51200, 2048, 1024), 18.4, _MEGATRON),
    "megatron-39b":  ((48, 8192, 64, 51200, 2048, 1536), 39.1, _MEGATRON),
    "megatron-76b":  ((60, 10240, 80, 51200, 2048, 1792), 76.1, _MEGATRON),
    "megatron-145b": ((80, 12288, 96, 51200, 2048, 2304), 145.6, _MEGATRON),
    "megatron-310b": ((96, 16384, 128, 51200, 2048, 2160), 310.1, _MEGATRON),
    "megatron-530b": ((105, 20480, 128, 51200, 2048, 2520), 529.6, _MEGATRON),
    "megatron-1t":   ((128, 25600, 160, 51200, 2048, 3072), 1008.0, _MEGATRON),
    "alpa-gpt-350m": ((24, 1024, 16, 51200, 1024, 1024), 0.356, _ALPA_GPT),
    "alpa-gpt-1.3b": ((24, 2048, 32, 51200, 1024, 1024), 1.316, _ALPA_GPT),
    "alpa-gpt-2.6b": ((32, 2560, 32, 51200, 1024, 1024), 2.651, _ALPA_GPT),
    "alpa-gpt-6.7b": ((32, 4096, 32, 51200, 1024, 1024), 6.658, _ALPA_GPT),
    "alpa-gpt-15b":  ((48, 5120, 40, 51200, 1024, 1024), 15.4, _ALPA_GPT),
    "alpa-gpt-39b":  ((48, 8192, 64, 51200, 1024, 1024), 39.1, _ALPA_GPT),
}

_LLAMA_COLUMNS = (
    "layers", "d_model", "heads", "kv_heads", "ffn", "vocab", "seq", "batch", "rope_theta", "tied",
)
_LLAMAS = {
    "llama2-7b":     ((32, 4096, 32, 32, 11008, 32000, 4096, 1024, 1e4, False), 6.738, _LLAMA2),
    "llama2-13b":    ((40, 5120, 40, 40, 13824, 32000, 4096, 1024, 1e4, False), 13.016, _LLAMA2),
    "llama2-70b":    ((80, 8192, 64, 8, 28672, 32000, 4096, 1024, 1e4, False), 68.977, _LLAMA2),
    "llama3.1-8b":   ((32, 4096, 32, 8, 14336, 128256, 8192, 512, 5e5, False), 8.03, _LLAMA3),
    "llama3.1-70b":  ((80, 8192, 64, 8, 28672, 128256, 8192, 512, 5e5, False), 70.554, _LLAMA3),
    "llama3.1-405b": ((126, 16384, 128, 8, 53248, 128256, 8192, 2048, 5e5, False), 405.85, _LLAMA3),
    "llama3.2-1b":   ((16, 2048, 32, 8, 8192, 128256, 8192, 512, 5e5, True), 1.236, _LLAMA32),
    "mistral-7b":    ((32, 4096, 32, 8, 14336, 32000, 4096, 1024, 1e4, False), 7.242, _MISTRAL),
    "phi-4":         ((40, 5120, 40, 10, 17920, 100352, 4096, 1024, 2.5e5, False), 14.66, _PHI4),
}

_MOE_COLUMNS = (
    "layers", "d_model", "heads", "kv_heads", "experts", "ffn", "vocab", "seq", "batch",
    "rope_theta",
)
_MOES = {
    "mixtral-8x7b":  ((32, 4096, 32, 8, 8, 14336, 32000, 4096, 1024, 1e6), 46.703, _MIXTRAL),
    "mixtral-8x22b": ((56, 6144, 48, 8, 8, 16384, 32000, 4096, 1024, 1e6), 140.621, _MIXTRAL),
}

_RESNET_COLUMNS = (
    "stages", "width", "width_factor", "window_factor", "classes", "batch", "compute_dtype",
)
_RESNETS = {
    "resnet-50":         (((3, 4, 6, 3), 64, 1, 1, 1000, 256, "bfloat16"), 0.025557, _RESNET),
    "wide-resnet-50-2":  (((3, 4, 6, 3), 64, 2, 1, 1000, 256, "bfloat16"), 0.068883, _WIDE),
    "alpa-wresnet-250m": (((3, 4, 6, 3), 160, 1, 2, 1024, 1536, "float32"), 0.25, _ALPA),
    "alpa-wresnet-1b":   (((3, 4, 6, 3), 320, 1, 2, 1024, 1536, "float32"), 1.0, _ALPA),
    "alpa-wresnet-4b":   (((3, 4, 6, 3), 640, 1, 2, 1024, 1536, "float32"), 4.0, _ALPA),
    "alpa-wresnet-6.8b": (((3, 4, 6, 3), 320, 1, 16, 1024, 1520, "float32"), 6.8, _ALPA),
    "alpa-wresnet-13b":  (((3, 4, 23, 3), 320, 1, 16, 1024, 1520, "float32"), 13.0, _ALPA),
}
# fmt: on

_TRAINING = {"optimizer": "adam", "compute_dtype": "bfloat16"}
_BLOCKS = {"scan": True, "remat": True}


def _with_ffn(sizes: Mapping[str, Any]) -> dict[str, Any]:
    return {**_TRAINING, **_BLOCKS, **sizes, "ffn": 4 * sizes["d_model"]}


def _with_head_dim(sizes: Mapping[str, Any]) -> dict[str, Any]:
    return {**_TRAINING, **_BLOCKS, **sizes, "head_dim": sizes["d_model"] // sizes["heads"]}


def _of_images(sizes: Mapping[str, Any]) -> dict[str, Any]:
    return {**_TRAINING, **sizes, "bottleneck": True, "large_stem": True, "image": 224}


_TABLES = (
    ("gpt", _GPT_COLUMNS, _GPTS, _with_ffn),
    ("llama", _LLAMA_COLUMNS, _LLAMAS, _with_head_dim),
    ("moe-gshard", _MOE_COLUMNS, _MOES, _with_head_dim),
    ("resnet", _RESNET_COLUMNS, _RESNETS, _of_images),
)

PRESETS = {
    name: Preset(
        name=name,
        family=family,
        sizes=complete(dict(zip(columns, row, strict=True))),
        parameters_billions=billions,
        source=source,
    )
    for family, columns, table, complete in _TABLES
    for name, (row, billions, source) in table.items()
}
