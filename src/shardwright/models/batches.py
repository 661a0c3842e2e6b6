"""Synthetic batches that can be learned: the same seed gives the same numbers."""

from __future__ import annotations

import jax
import numpy as np

from shardwright.models.case import Batch, BatchSource

KEY_SHAPE = (2,)  # key data of jax's default generator (threefry)


def language_source(*, batch: int, seq: int, vocab: int, with_key: bool = False) -> BatchSource:
    """Batches of ``tokens`` and ``targets``, [batch, seq] int32 each.

    Each token decides the next, so that a model can learn the text whatever its context length.

    Args:
        batch: sequences.
        seq: tokens of one sequence.
        vocab: tokens are in [0, vocab).
        with_key: adds ``key``, the raw data of a random key, for dropout.
    """

    def make(seed: int) -> Batch:
        rng = np.random.default_rng(seed)
        text = np.empty((batch, seq + 1), np.int64)
        text[:, 0] = rng.integers(vocab, size=batch)
        for position in range(seq):
            text[:, position + 1] = (5 * text[:, position] + 3) % vocab
        entries = {
            "tokens": text[:, :-1].astype(np.int32),
            "targets": text[:, 1:].astype(np.int32),
        }
        return entries | (_key_data(rng) if with_key else {})

    tokens = jax.ShapeDtypeStruct((batch, seq), np.int32)
    shapes = {"tokens": tokens, "targets": tokens}
    if with_key:
        shapes["key"] = jax.ShapeDtypeStruct(KEY_SHAPE, np.uint32)
    return BatchSource(shapes=shapes, make=make)


def image_source(*, batch: int, image: int, channels: int, classes: int) -> BatchSource:
    """Batches of ``images`` [batch, image, image, channels] and ``labels`` [batch].

    A picture's brightness tells its class.
    """
    shape = (batch, image, image, channels)

    def make(seed: int) -> Batch:
        rng = np.random.default_rng(seed)
        labels = rng.integers(classes, size=batch)
        brightness = (2.0 * labels / classes - 1.0)[:, None, None, None]
        images = rng.standard_normal(shape) * 0.5 + brightness
        return {"images": images.astype(np.float32), "labels": labels.astype(np.int32)}

    shapes = {
        "images": jax.ShapeDtypeStruct(shape, np.float32),
        "labels": jax.ShapeDtypeStruct((batch,), np.int32),
    }
    return BatchSource(shapes=shapes, make=make)


def regression_source(*, batch: int, inputs: int, outputs: int) -> BatchSource:
    """Batches of ``x`` [batch, inputs] and ``y`` [batch, outputs], a fixed linear map of ``x``."""

    def make(seed: int) -> Batch:
        teacher = np.random.default_rng(0).standard_normal((inputs, outputs)) / np.sqrt(inputs)
        x = np.random.default_rng(seed).standard_normal((batch, inputs))
        return {"x": x.astype(np.float32), "y": (x @ teacher).astype(np.float32)}

    shapes = {
        "x": jax.ShapeDtypeStruct((batch, inputs), np.float32),
        "y": jax.ShapeDtypeStruct((batch, outputs), np.float32),
    }
    return BatchSource(shapes=shapes, make=make)


def _key_data(rng: np.random.Generator) -> Batch:
    return {"key": rng.integers(2**32, size=KEY_SHAPE, dtype=np.uint32)}
