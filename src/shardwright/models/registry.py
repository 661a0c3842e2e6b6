"""Models by name: families at toy size, presets at their published size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, final

from shardwright.errors import UsageError, did_you_mean
from shardwright.models import gpt, llama, lstm, mlp, moe, resnet
from shardwright.models.case import StepCase
from shardwright.models.presets import PRESETS
from shardwright.models.train import TrainConfig


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    defaults: Any
    case: Callable[[Any, TrainConfig], StepCase]


_FAMILIES = {
    "gpt": _Family(defaults=gpt.GptConfig(), case=gpt.case),
    "llama": _Family(defaults=llama.LlamaConfig(), case=llama.case),
    "lstm": _Family(defaults=lstm.LstmConfig(), case=lstm.case),
    "mlp": _Family(defaults=mlp.MlpConfig(), case=mlp.case),
    "moe-gshard": _Family(defaults=moe.MoeConfig(dispatch="gshard"), case=moe.case),
    "moe-ragged": _Family(defaults=moe.MoeConfig(dispatch="ragged"), case=moe.case),
    "resnet": _Family(defaults=resnet.ResnetConfig(), case=resnet.case),
}


def names() -> tuple[str, ...]:
    """All names that ``build`` knows: families first, then presets."""
    return (*_FAMILIES, *PRESETS)


def build(name: str, **overrides: Any) -> StepCase:
    """The training step of a named model.

    Args:
        name: a family (toy sizes) or a preset (published sizes) of ``names()``.
        overrides: fields of the family's config or of ``TrainConfig`` to change, such as
            ``layers=4`` or ``optimizer="adam"``.

    Raises:
        UsageError: no such model, or no such field.
    """
    if name not in names():
        raise UsageError(f'no model is named "{name}"', hint=did_you_mean(name, names()))
    preset = PRESETS.get(name)
    family = _FAMILIES[preset.family if preset else name]
    chosen = {**(preset.sizes if preset else {}), **overrides}
    train_fields = _field_names(TrainConfig)
    _check_fields(name, overrides, known=train_fields | _field_names(family.defaults))
    model = {field: value for field, value in chosen.items() if field not in train_fields}
    train = {field: value for field, value in chosen.items() if field in train_fields}
    case = family.case(replace(family.defaults, **model), TrainConfig(**train))
    return replace(case, name=name)


def _field_names(record: Any) -> set[str]:
    return {field.name for field in fields(record)}


def _check_fields(name: str, overrides: Mapping[str, Any], *, known: set[str]) -> None:
    for field in overrides:
        if field not in known:
            raise UsageError(
                f'model "{name}" has no field "{field}"', hint=did_you_mean(field, known)
            )
