"""What every benchmark ends with: its table on the screen and its figures as one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def parser(description: str) -> argparse.ArgumentParser:
    """The flags that all benchmarks share."""
    flags = argparse.ArgumentParser(description=description)
    flags.add_argument("--quick", action="store_true", help="a small part of the whole")
    flags.add_argument("--json", type=Path, default=None, help="also write the figures here")
    return flags


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print one table, as wide as it needs to be."""
    table = Table(title=title)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console(width=160).print(table)


def finish(figures: Mapping[str, Any], path: Path | None) -> None:
    """Print the figures as the last line, and write them to a file, whole or not at all."""
    line = json.dumps(figures, sort_keys=True)
    if path is not None:
        part = path.with_suffix(path.suffix + ".part")
        part.write_text(line + "\n")
        os.replace(part, path)  # noqa: PTH105
    print(line)
