"""What the models say when a name or a size cannot be meant."""

from __future__ import annotations

import numpy as np
import pytest

from shardwright.errors import UsageError
from shardwright.models.corpus import byte_batches
from shardwright.models.registry import build

ROWS = {
    "model": (
        lambda: build("gtp"),
        'no model is named "gtp"\n  try    did you mean "gpt" or "gpt2"?',
    ),
    "field": (
        lambda: build("gpt", layer=3),
        'model "gpt" has no field "layer"\n  try    did you mean "layers"?',
    ),
    "optimizer": (
        lambda: build("mlp", optimizer="adamax"),
        'no optimizer is named "adamax"\n  try    did you mean "adam" or "adamw" or "adafactor"?',
    ),
    "dispatch": (
        lambda: build("moe-gshard", dispatch="sort"),
        'no expert dispatch is named "sort"\n  try    one of "gshard", "ragged"',
    ),
    "heads": (
        lambda: build("gpt", d_model=64, heads=5),
        "d_model 64 is not a multiple of heads 5\n  try    a value of heads that divides 64",
    ),
    "top_k": (
        lambda: build("moe-ragged", top_k=9),
        "top_k 9 is larger than experts 8\n  try    top_k of at most 8",
    ),
    "corpus": (
        lambda: byte_batches(np.zeros(8, np.uint8), batch=1, seq=8, seed=0),
        "the corpus holds 8 bytes; one window of seq 8 needs 9\n"
        "  try    a seq of at most 7, or a longer corpus",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_message(row: str) -> None:
    call, text = ROWS[row]
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == text
