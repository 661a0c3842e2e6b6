"""A value of a parsed JSON document that knows where it stands, so that damage can be named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, final

from shardwright.errors import PlanError, did_you_mean


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value and its place.

    Attributes:
        value: what the JSON holds there.
        path: such as ``stages[0].ops[17]``; empty for the whole document.
        file: the file's name, for errors; may be empty.
    """

    value: object
    path: str = ""
    file: str = ""

    def damaged(self, what: str) -> NoReturn:
        """Raise a ``PlanError`` that says ``what`` is wrong with this value."""
        name = self.path or "the document"
        raise PlanError(
            f"the plan is damaged: {name} {what}",
            where=f"{self.file}, key {name}" if self.file else f"key {name}",
            hint="plan again, or restore the file from a copy",
        )

    def members(self, *names: str) -> tuple[Field, ...]:
        """The values under exactly these names; the object may hold no other."""
        if not isinstance(self.value, dict):
            self.damaged(f"is {_show(self.value)}, not an object with {', '.join(names)}")
        for key in self.value:
            if key not in names:
                self.damaged(f'has an unknown key "{key}"; {did_you_mean(key, names)}')
        for name in names:
            if name not in self.value:
                self.damaged(f'lacks the key "{name}"')
        prefix = f"{self.path}." if self.path else ""
        return tuple(
            Field(value=self.value[name], path=f"{prefix}{name}", file=self.file) for name in names
        )

    def items(self) -> Iterator[Field]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            self.damaged(f"is {_show(self.value)}, not a list")
        for index, value in enumerate(self.value):
            yield Field(value=value, path=f"{self.path}[{index}]", file=self.file)

    def pair(self) -> tuple[Field, Field]:
        """The elements of a list of two."""
        elements = tuple(self.items())
        if len(elements) != 2:
            self.damaged(f"has {len(elements)} elements, not 2")
        return elements[0], elements[1]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.damaged(f"is {_show(self.value)}, not text")
        return self.value

    def whole(self, *, below: int | None = None) -> int:
        """A whole number from 0 on, less than ``below`` where that is given."""
        value = self.integer()
        if value < 0 or (below is not None and value >= below):
            bound = "0 or more" if below is None else f"from 0 to {below - 1}"
            self.damaged(f"is {value}; it must be {bound}")
        return value

    def integer(self) -> int:
        """A whole number of either sign; -1 stands for none."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.damaged(f"is {_show(self.value)}, not a whole number")
        return self.value

    def number(self) -> float:
        """A number."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            self.damaged(f"is {_show(self.value)}, not a number")
        return float(self.value)

    def texts(self) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(item.text() for item in self.items())


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
