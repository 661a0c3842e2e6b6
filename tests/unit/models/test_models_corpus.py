"""The byte corpus: the same bytes and windows each time."""

from __future__ import annotations

import sysconfig
from itertools import islice
from pathlib import Path

import numpy as np

from shardwright.models.corpus import byte_batches, stdlib_bytes


def test_the_corpus_is_the_librarys_own_source() -> None:
    corpus = stdlib_bytes(50_000)
    assert corpus.size == 50_000
    assert corpus.dtype == np.uint8
    assert np.array_equal(corpus, stdlib_bytes(50_000))
    assert np.array_equal(corpus[:1000], stdlib_bytes(1000))
    first = min(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    assert corpus.tobytes().startswith(first.read_bytes()[:1000])


def test_windows_repeat_by_seed_and_shift_by_one() -> None:
    corpus = np.arange(200, dtype=np.uint8)
    ours, again, other = (
        list(islice(byte_batches(corpus, batch=4, seq=8, seed=seed), 3)) for seed in (0, 0, 1)
    )
    for batch, same in zip(ours, again, strict=True):
        assert batch["tokens"].shape == (4, 8)
        assert np.array_equal(batch["targets"], batch["tokens"] + 1)
        assert np.array_equal(batch["tokens"], same["tokens"])
    assert not np.array_equal(ours[0]["tokens"], ours[1]["tokens"])
    assert not np.array_equal(ours[0]["tokens"], other[0]["tokens"])


def test_the_shortest_corpus_has_one_window() -> None:
    batch = next(byte_batches(np.arange(9, dtype=np.uint8), batch=2, seq=8, seed=0))
    assert np.array_equal(batch["targets"][:, -1], [8, 8])
