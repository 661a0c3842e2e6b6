"""The zoo by name; a framework is imported only when one of its animals is built."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shardwright.models.case import StepCase

_MODULES = {
    "linen-gpt": "tests.zoo.linen_gpt",
    "linen-resnet": "tests.zoo.linen_resnet",
    "linen-lstm": "tests.zoo.linen_lstm",
    "nnx-transformer": "tests.zoo.nnx_transformer",
    "equinox-transformer": "tests.zoo.equinox_transformer",
}

ZOO = tuple(_MODULES)


def build(name: str, **sizes: Any) -> StepCase:
    """The training step of one animal; ``optimizer`` and its sizes may be given."""
    return import_module(_MODULES[name]).case(name=name, **sizes)
