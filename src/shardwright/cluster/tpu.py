"""TPU slices: how their names count, which grid of chips they are, and the rings of its torus.

How ``N`` counts: chips for v5e and v6e; TensorCores, two a chip, for v3, v4 and v5p; JAX devices,
two a chip, for tpu7x. A JAX device is a chip for v4 to v6e and one of a chip's two cores for v3
and v7x.

Each side of the grid is a link level. Around a side that wraps, a device sends both ways at once,
so the ring has two links' bandwidth; a side that does not wrap is a line and has one link's.
Sides wrap when they are a whole pod's on the flat generations (32 on v3, 16 on v5e and v6e), and
when every side is a multiple of 4 on the cubic ones (v4, v5p, v7x).

**Source**: Google Cloud TPU documentation, pages v4, v5e, v5p, v6e, tpu7x; jax-ml/scaling-book,
``tpus.md``, section "TPU Networking" and its table of link bandwidths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

from shardwright.cluster.catalogue import DeviceEntry, device_entry, slice_shapes
from shardwright.cluster.figures import reserve_bytes
from shardwright.cluster.latency import latency_s
from shardwright.cluster.topology import LinkLevel, Topology
from shardwright.errors import TopologyError

_SLICE = re.compile(r"^(?:tpu[- ]?)?(v3|v4|v5e|v5litepod|v5p|v6e|v7x|7x)-(\d+)$", re.IGNORECASE)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How one TPU generation counts and is wired.

    Attributes:
        device_name: catalogue name.
        named_per_chip: what the ``N`` of a slice name counts, per chip.
        devices_per_chip: JAX devices per chip.
        num_sides: 2 for a flat grid, 3 for a cube.
        max_chips: of one slice.
    """

    device_name: str
    named_per_chip: int
    devices_per_chip: int
    num_sides: int
    max_chips: int


def _generation(
    device_name: str, *, named: int, devices: int, sides: int, max_chips: int
) -> Generation:
    return Generation(
        device_name=device_name,
        named_per_chip=named,
        devices_per_chip=devices,
        num_sides=sides,
        max_chips=max_chips,
    )


_GENERATIONS = {
    "v3": _generation("TPU-v3", named=2, devices=2, sides=2, max_chips=1024),
    "v4": _generation("TPU-v4", named=2, devices=1, sides=3, max_chips=4096),
    "v5e": _generation("TPU-v5e", named=1, devices=1, sides=2, max_chips=256),
    "v5p": _generation("TPU-v5p", named=2, devices=1, sides=3, max_chips=6144),
    "v6e": _generation("TPU-v6e", named=1, devices=1, sides=2, max_chips=256),
    "tpu7x": _generation("TPU-v7x", named=2, devices=2, sides=3, max_chips=9216),
}
_SPELLINGS = {"v5litepod": "v5e", "v7x": "tpu7x", "7x": "tpu7x"}


def slice_named(text: str, name: str, *, num_slices: int) -> Topology | None:
    """The slices that a name such as ``v5p-128`` means; ``None`` for names of another form.

    Args:
        text: what the user wrote, kept as the topology's name.
        name: of one slice.
        num_slices: slices of it, joined by the data centre's network.

    Raises:
        TopologyError: no slice of that size exists.
    """
    match = _SLICE.match(name.strip())
    if match is None:
        return None
    word = match[1].lower()
    key = _SPELLINGS.get(word, word)
    generation = _GENERATIONS[key]
    chips, rest = divmod(int(match[2]), generation.named_per_chip)
    if rest or not 1 <= chips <= generation.max_chips:
        raise _no_such_slice(text, int(match[2]) / generation.named_per_chip, generation)
    shape = slice_shapes().get(f"{key}-{match[2]}") or _shape(text, chips, generation)
    return _topology(text, generation, shape, num_slices)


def slice_of_devices(text: str, entry: DeviceEntry, num_devices: int) -> Topology:
    """One slice with that many JAX devices.

    Raises:
        TopologyError: no slice of that size exists.
    """
    generation = next(g for g in _GENERATIONS.values() if g.device_name == entry.device.name)
    if num_devices == 1:
        return _topology(text, generation, (), 1, devices_per_chip=1)
    chips, rest = divmod(num_devices, generation.devices_per_chip)
    if rest or not 1 <= chips <= generation.max_chips:
        raise _no_such_slice(text, num_devices / generation.devices_per_chip, generation)
    return _topology(text, generation, _shape(text, chips, generation), 1)


def _shape(text: str, chips: int, generation: Generation) -> tuple[int, ...]:
    """The most even grid whose sides are powers of two, smallest side last."""
    exponent = chips.bit_length() - 1
    if chips != 2**exponent:
        raise _no_such_slice(text, chips, generation)
    low, more = divmod(exponent, generation.num_sides)
    return tuple(2 ** (low + (side < more)) for side in range(generation.num_sides))


def _topology(
    text: str,
    generation: Generation,
    shape: tuple[int, ...],
    num_slices: int,
    devices_per_chip: int | None = None,
) -> Topology:
    entry = device_entry(generation.device_name)
    per_chip = devices_per_chip or generation.devices_per_chip
    levels = (
        *_chip_level(entry, per_chip),
        *(_ring(entry, generation, size, shape) for size in reversed(shape) if size > 1),
        *_network_level(entry, num_slices, text),
    )
    return Topology(
        name=text,
        device=entry.device,
        levels=levels,
        reserve_bytes=reserve_bytes(entry.device),
    )


def _chip_level(entry: DeviceEntry, per_chip: int) -> tuple[LinkLevel, ...]:
    """Two cores of one chip exchange through its memory, at half the memory's rate each."""
    if per_chip == 1:
        return ()
    name = "die to die"
    bandwidth = entry.device.memory_bandwidth_bytes_per_s / 2
    return (_level(name, per_chip, bandwidth),)


def _ring(
    entry: DeviceEntry, generation: Generation, size: int, shape: tuple[int, ...]
) -> LinkLevel:
    link = entry.peer_bandwidth_bytes_per_s / generation.devices_per_chip
    ways = 2 if _wraps(size, shape, generation) else 1
    return _level("ICI", size, ways * link, is_torus=True)


def _wraps(size: int, shape: tuple[int, ...], generation: Generation) -> bool:
    if generation.num_sides == 2:
        return size**2 == generation.max_chips
    return all(side % 4 == 0 for side in shape)


def _network_level(entry: DeviceEntry, num_slices: int, text: str) -> tuple[LinkLevel, ...]:
    if num_slices == 1:
        return ()
    if entry.network != "DCN":
        raise TopologyError(
            f"the catalogue has no bandwidth between slices of {entry.device.name}",
            where=f'"{text}"',
            hint="state the levels in a YAML file",
        )
    return (_level(entry.network, num_slices, entry.network_bandwidth_bytes_per_s),)


def _level(
    name: str, num_units: int, bandwidth_bytes_per_s: float, *, is_torus: bool = False
) -> LinkLevel:
    return LinkLevel(
        name=name,
        num_units=num_units,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        latency_s=latency_s(name),
        is_torus=is_torus,
    )


def _no_such_slice(text: str, chips: float, generation: Generation) -> TopologyError:
    return TopologyError(
        f'"{text}" is {chips:g} chips; slices of {generation.device_name} have a power of two, '
        f"at most {generation.max_chips}",
        hint="another size, or state the grid's levels in a YAML file",
    )
