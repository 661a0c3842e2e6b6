"""Models by name: families at toy size, presets at their published size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, final

from shardwright.errors import UsageError, did_you_mean
from shardwright.models import gpt, llama, lstm, mlp, moe, resnet
from shardwright.models.case import StepCase
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
    return tuple(_FAMILIES)


def build(name: str, **overrides: Any) -> StepCase:
    """The training step of a named model.

    Args:
        name: a family or preset of ``names()``.
        overrides: fields of the family's config or of ``TrainConfig`` to change.

    Raises:
        UsageError: no such model, or no such field.
    """
    if name not in _FAMILIES:
        raise UsageError(f'no model is named "{name}"', hint=did_you_mean(name, names()))
    family = _FAMILIES[name]
    train_names = {field.name for field in fields(TrainConfig)}
    model = {key: value for key, value in overrides.items() if key not in train_names}
    train = {key: value for key, value in overrides.items() if key in train_names}
    config = replace(family.defaults, **model)
    return replace(family.case(config, TrainConfig(**train)), name=name)
