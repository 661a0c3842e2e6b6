"""Tolerant matching of machine names: words count, their order, case and separators do not."""

from __future__ import annotations

import re
from collections.abc import Sequence

_VENDOR_WORDS = frozenset({"nvidia", "amd", "instinct", "tesla", "geforce", "google", "tpu"})
_BOARD_WORDS = frozenset({"sxm", "pcie", "hbm", "nvl"})


def words(name: str) -> frozenset[str]:
    """The telling words of a name: ``NVIDIA H100-SXM5-80GB`` -> ``{h100, sxm, 80}``."""
    parts = (part for part in re.split(r"[^a-z0-9.]+", name.lower()) if part)
    return frozenset(_plain(part) for part in parts if part not in _VENDOR_WORDS)


def best_match(name: str, named: Sequence[tuple[str, ...]], *, whole: bool = False) -> int | None:
    """Position of the entry that ``name`` means: all words of one of its names, else a part.

    Args:
        name: what someone wrote.
        named: for each entry its names.
        whole: accept only all the words of one name.
    """
    asked = words(name)
    for index, names in enumerate(named):
        if asked and any(words(known) == asked for known in names):
            return index
    if whole or not any(_tells_a_model(word) for word in asked):
        return None
    for index, names in enumerate(named):
        if asked <= frozenset().union(*(words(known) for known in names)):
            return index
    return None


def _plain(word: str) -> str:
    """``sxm5`` -> ``sxm`` and ``80gb`` -> ``80``: writers differ in these."""
    bare = re.sub(r"^(sxm|hbm)\d+e?$", r"\1", word)
    return re.sub(r"^(\d+)gb$", r"\1", bare)


def _tells_a_model(word: str) -> bool:
    return not word.isdigit() and word not in _BOARD_WORDS
