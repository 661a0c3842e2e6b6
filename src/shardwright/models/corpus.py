"""A text that every machine with Python has: the standard library's own source, byte by byte."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardwright.errors import UsageError
from shardwright.models.case import Batch

BYTE_VOCAB = 256


def stdlib_bytes(limit_bytes: int) -> npt.NDArray[np.uint8]:
    """The first ``limit_bytes`` bytes of the standard library's top modules, by name.

    One Python release always gives the same bytes; fewer come back where it holds fewer.
    """
    chunks: list[bytes] = []
    missing = limit_bytes
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        if missing <= 0:
            break
        chunks.append(path.read_bytes()[:missing])
        missing -= len(chunks[-1])
    return np.frombuffer(b"".join(chunks), np.uint8)


def byte_batches(
    corpus: npt.NDArray[np.uint8], *, batch: int, seq: int, seed: int
) -> Iterator[Batch]:
    """Endless batches of windows of the corpus, ``tokens`` and ``targets`` [batch, seq] int32.

    Args:
        corpus: bytes; a model of ``vocab`` 256 can read them.
        batch: windows of one batch.
        seq: bytes that the model reads of one window.
        seed: the same seed gives the same batches.

    Raises:
        UsageError: the corpus is shorter than one window.
    """
    starts = corpus.size - seq
    if starts < 1:
        raise UsageError(
            f"the corpus holds {corpus.size} bytes; one window of seq {seq} needs {seq + 1}",
            hint=f"a seq of at most {max(corpus.size - 1, 0)}, or a longer corpus",
        )
    return _windows(corpus, starts=starts, batch=batch, seq=seq, seed=seed)


def _windows(
    corpus: npt.NDArray[np.uint8], *, starts: int, batch: int, seq: int, seed: int
) -> Iterator[Batch]:
    rng = np.random.default_rng(seed)
    while True:
        first = rng.integers(starts, size=batch)
        windows = corpus[first[:, None] + np.arange(seq + 1)].astype(np.int32)
        yield {"tokens": windows[:, :-1], "targets": windows[:, 1:]}
