"""One mapping of a YAML file, read key by key, so that each complaint names its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, final

import yaml

from shardwright.cluster import quantities
from shardwright.errors import TopologyError, did_you_mean
from shardwright.units import parse_bytes

Value = TypeVar("Value")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One mapping of a file.

    Attributes:
        path: of the file.
        label: where in the file, such as ``levels[0]``; empty at the top.
        line: where the mapping starts.
        nodes: by key.
    """

    path: Path
    label: str
    line: int
    nodes: dict[str, yaml.Node]

    def where(self, key: str) -> str:
        """``file:line, key`` of one key, or of the section when the key is missing."""
        line = _line(self.nodes[key]) if key in self.nodes else self.line
        return f"{self.path}:{line}, {self._full(key)}"

    def allow(self, known: tuple[str, ...]) -> None:
        """Refuse keys outside ``known``."""
        for key, node in self.nodes.items():
            if key not in known:
                where = f"{self.path}:{_line(node)}"
                raise TopologyError(
                    f'unknown key "{self._full(key)}"', where=where, hint=did_you_mean(key, known)
                )

    def text(self, key: str, *, default: str | None = None) -> str:
        """The text of a key."""
        if key not in self.nodes and default is not None:
            return default
        return self._scalar(key, "a text")

    def count(self, key: str) -> int:
        """A whole number, at least 1."""
        return self._read(key, quantities.whole, "a whole number, at least 1")

    def share(self, key: str, *, default: float) -> float:
        """A number in (0, 1]."""
        return self._read(key, quantities.share, "a number above 0, at most 1", default)

    def memory_bytes(self, key: str) -> int:
        """Bytes, more than none, as in ``64 GiB``."""
        return self._read(key, quantities.memory_bytes, "bytes such as 64 GiB")

    def reserve_bytes(self, key: str, *, default: int) -> int:
        """Bytes, perhaps none, as in ``4 GiB``."""
        return self._read(key, parse_bytes, "bytes such as 4 GiB", default)

    def bytes_per_s(self, key: str, *, default: float | None = None) -> float:
        """Bytes per second, as in ``450 GB/s``."""
        return self._read(key, quantities.bytes_per_s, "a rate such as 450 GB/s", default)

    def seconds(self, key: str, *, default: float | None = None) -> float:
        """Seconds, as in ``2 us``."""
        return self._read(key, quantities.seconds, "a time such as 2 us", default)

    def flag(self, key: str) -> bool:
        """True or false; false when missing."""
        return self._read(key, quantities.flag, "true or false", default=False)

    def rates(self, key: str, known: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        """FLOP per second by element type, as in ``{bfloat16: 400 TFLOP/s}``."""
        section = self.section_or_none(key)
        if section is None:
            raise self._bad(key, "a mapping such as {bfloat16: 400 TFLOP/s}")
        section.allow(known)
        wanted = "a rate such as 400 TFLOP/s"
        return tuple(
            (dtype, section._read(dtype, quantities.flops, wanted)) for dtype in section.nodes
        )

    def section_or_none(self, key: str) -> Section | None:
        """The mapping under a key; ``None`` when something else is there."""
        node = self._node(key)
        if not isinstance(node, yaml.MappingNode):
            return None
        return _section(self.path, self._full(key), node)

    def sections(self, key: str) -> tuple[Section, ...]:
        """The mappings of a list."""
        node = self._node(key)
        if not isinstance(node, yaml.SequenceNode):
            raise self._bad(key, "a list of mappings")
        return tuple(self._item(key, index, item) for index, item in enumerate(node.value))

    def _item(self, key: str, index: int, node: yaml.Node) -> Section:
        label = f"{self._full(key)}[{index}]"
        if not isinstance(node, yaml.MappingNode):
            raise _not_what_is_wanted(self.path, label, node, "a mapping")
        return _section(self.path, label, node)

    def _read(
        self,
        key: str,
        parse: Callable[[str], Value],
        wanted: str,
        default: Value | None = None,
    ) -> Value:
        if key not in self.nodes and default is not None:
            return default
        try:
            return parse(self._scalar(key, wanted))
        except ValueError:
            raise self._bad(key, wanted) from None

    def _scalar(self, key: str, wanted: str) -> str:
        node = self._node(key)
        if not isinstance(node, yaml.ScalarNode):
            raise self._bad(key, wanted)
        return str(node.value)

    def _node(self, key: str) -> yaml.Node:
        if key not in self.nodes:
            raise TopologyError(
                f'the key "{self._full(key)}" is missing', where=f"{self.path}:{self.line}"
            )
        return self.nodes[key]

    def _bad(self, key: str, wanted: str) -> TopologyError:
        return _not_what_is_wanted(self.path, self._full(key), self.nodes[key], wanted)

    def _full(self, key: str) -> str:
        return f"{self.label}.{key}" if self.label else key


def open_section(path: Path) -> Section:
    """The top mapping of a file.

    Raises:
        TopologyError: no such file, not YAML, or no mapping at its top.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise TopologyError(f"cannot read the file {path}: {reason}") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "unreadable characters"
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise TopologyError(f"the file is not YAML: {problem}", where=where) from None
    if not isinstance(node, yaml.MappingNode):
        raise TopologyError("the file holds no mapping of keys", where=str(path))
    return _section(path, "", node)


def _section(path: Path, label: str, node: yaml.MappingNode) -> Section:
    nodes: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise TopologyError("a key is no plain text", where=f"{path}:{_line(key)}")
        if key.value in nodes:
            raise TopologyError(f'the key "{key.value}" stands twice', where=f"{path}:{_line(key)}")
        nodes[str(key.value)] = value
    return Section(path=path, label=label, line=_line(node), nodes=nodes)


def _not_what_is_wanted(path: Path, label: str, node: yaml.Node, wanted: str) -> TopologyError:
    kind = "list" if isinstance(node, yaml.SequenceNode) else "mapping"
    given = f'"{node.value}"' if isinstance(node, yaml.ScalarNode) else f"a {kind}"
    return TopologyError(f'"{label}" is {given}, not {wanted}', where=f"{path}:{_line(node)}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
