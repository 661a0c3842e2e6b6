"""What a command gives back: text to read and, when asked, one JSON object as the last line."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from shardwright.errors import UsageError

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object as the last line of stdout."
)


def give(text: str, document: Mapping[str, Any], *, as_json: bool, exit_code: int = 0) -> int:
    """Print an answer; gives the exit code back."""
    click.echo(text.rstrip("\n"))
    if as_json:
        click.echo(json_line({**document, "exit_code": exit_code}))
    return exit_code


def json_line(document: Mapping[str, Any]) -> str:
    """One line of JSON; numbers that JSON does not know become null."""
    return json.dumps(_plain(document), allow_nan=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Text in aligned columns, the first column on the left, numbers on the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    right = [_is_numeric(column) for column in zip(*cells, strict=True)] or [False] * len(columns)
    lines = [columns, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        _replace(path, text)
    except OSError as error:
        raise UsageError(
            f"the file cannot be written: {error.strerror}",
            where=str(path),
            hint="a folder that exists and may be written",
        ) from error


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _is_numeric(cells: Sequence[str]) -> bool:
    return all(cell[:1].isdigit() or cell[:1] in ("-", "+") for cell in cells)
