"""The user's source lines: which line of which file an operator or an exception comes from."""

from __future__ import annotations

import os
import sysconfig
import traceback
import types
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, final

from shardwright.jax_bridge import frame_line, is_user_file, raw_frames

_OWN_FOLDER = str(Path(__file__).parent) + os.sep
_LIBRARY_FOLDERS = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib", "stdlib")}
)


@cache
def is_users(filename: str) -> bool:
    """Whether a file is the user's own, not an installed package's."""
    return not filename.startswith((*_LIBRARY_FOLDERS, _OWN_FOLDER, "<frozen"))


@cache
def is_outside_jax(filename: str) -> bool:
    """Whether a file is the user's or that of a package built on JAX, such as a layer library."""
    return is_user_file(filename) and not filename.startswith(_OWN_FOLDER)


def is_library_function(debug_info: Any) -> bool:
    """Whether the function that a jaxpr was traced from lies in an installed package."""
    filename = debug_info.func_filename
    return filename is not None and not is_users(filename)


@final
@dataclass(frozen=True, kw_only=True)
class SourceLines:
    """Source lines of equations, each frame looked up once."""

    lines: dict[tuple[types.CodeType, int], str] = field(default_factory=dict)

    def of(self, trace: Any) -> str:
        """The innermost line of the user's own code, such as ``model.py:88``.

        Code of installed packages speaks only when no line is the user's; empty when none is known.
        """
        codes, offsets = raw_frames(trace)
        second = -1
        for position, code in enumerate(codes):
            if is_users(code.co_filename):
                return self._line(code, offsets[position])
            if second < 0 and is_outside_jax(code.co_filename):
                second = position
        return self._line(codes[second], offsets[second]) if second >= 0 else ""

    def _line(self, code: types.CodeType, offset: int) -> str:
        key = (code, offset)
        known = self.lines.get(key)
        if known is None:
            name = Path(code.co_filename).name
            known = self.lines[key] = f"{name}:{frame_line(code, offset)}"
        return known


def line_of_exception(error: BaseException) -> str:
    """The innermost line of the user's own code that an exception passed, or an empty text."""
    frames = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    for accept in (is_users, is_outside_jax):
        for filename, line in reversed(frames):
            if accept(filename):
                return f"{Path(filename).name}:{line}"
    return ""
