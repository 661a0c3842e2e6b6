"""Literals in the printed form of a graph: numbers, strings and nested tuples, both ways."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache

from shardwright.ir.graph import Attribute

STRING = r'"(?:[^"\\]|\\.)*"'
"""A quoted text."""

NUMBER = r"-?(?:inf|nan|\d[\d.]*(?:e[+-]?\d+)?)"
"""An integer or a float, as ``repr`` writes it."""

_TOKEN = re.compile(rf"\s*(?:({STRING})|({NUMBER})|(None|True|False)|([(),]))")
_NAME = re.compile(r"\s*([^\s=,]+)=")
_CLOSING = re.compile(r"\s*\)")
_WORDS: dict[str, bool | None] = {"None": None, "True": True, "False": False}


def quote(text: str) -> str:
    """A text in double quotes, on one line."""
    return json.dumps(text, ensure_ascii=False)


def unquote(text: str) -> str:
    """The text that ``quote`` wrote."""
    return str(json.loads(text, strict=False))


def print_literal(value: Attribute) -> str:
    """A literal as Python would write it, with strings in double quotes."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, tuple):
        inner = ", ".join([print_literal(item) for item in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def parse_number(text: str) -> bool | int | float:
    """The number that ``repr`` wrote; every NaN is the same object, so that records compare."""
    if text in ("True", "False"):
        return text == "True"
    if text == "nan":
        return math.nan
    return float(text) if any(mark in text for mark in ".en") else int(text)


@lru_cache(maxsize=4096)
def parse_attributes(text: str) -> tuple[tuple[str, Attribute], ...]:
    """The pairs that stand in braces after an operator, such as ``axis=0, mode="clip"``.

    Raises:
        ValueError: the text is something else.
    """
    pairs: list[tuple[str, Attribute]] = []
    position = 0
    while position < len(text):
        name = _NAME.match(text, position)
        if name is None:
            raise ValueError("a name is missing")
        value, position = _value(text, name.end())
        pairs.append((name[1], value))
        if position < len(text) and text[position] != ",":
            raise ValueError("a comma is missing")
        position += 1
    return tuple(pairs)


def _value(text: str, position: int) -> tuple[Attribute, int]:
    found = _TOKEN.match(text, position)
    if found is None:
        raise ValueError("a value is missing")
    string, number, word, mark = found.groups()
    if string is not None:
        return unquote(string), found.end()
    if number is not None:
        return parse_number(number), found.end()
    if word is not None:
        return _WORDS[word], found.end()
    if mark != "(":
        raise ValueError("a value is missing")
    return _tuple(text, found.end())


def _tuple(text: str, position: int) -> tuple[tuple[Attribute, ...], int]:
    items: list[Attribute] = []
    while True:
        closing = _CLOSING.match(text, position)
        if closing is not None:
            return tuple(items), closing.end()
        item, position = _value(text, position)
        items.append(item)
        if position < len(text) and text[position] == ",":
            position += 1
        elif not _CLOSING.match(text, position):
            raise ValueError("a comma is missing")
