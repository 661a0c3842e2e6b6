"""Every reshard path ends in exactly its target with the right data, and never costs too much."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from shardwright.cluster import Mesh
from shardwright.sharding import CollectiveKind, Sharding
from shardwright.sharding.collective import MovedBytes
from shardwright.sharding.reshard import Reshard, reshard
from tests.conformance.blocks import (
    assert_equal_blocks,
    cut,
    gather_then_slice_bytes,
    run_path,
    scattered_sums,
)

ITEMSIZE_BYTES = 8
TWO_BY_FOUR = Mesh.of(x=2, y=4)
FOUR_BY_FOUR = Mesh.of(x=4, y=4)
CUBE = Mesh.of(x=2, y=2, z=2)


def every_sharding(rank: int, mesh: Mesh, *, unreduced: bool = False) -> list[Sharding]:
    """Axes in any order on any dim, the odd ones too; with partial sums where asked."""
    return list(dict.fromkeys(_every_sharding(rank, mesh, unreduced=unreduced)))


def _every_sharding(rank: int, mesh: Mesh, *, unreduced: bool) -> Iterator[Sharding]:
    slots = range(-2 if unreduced else -1, rank)
    for order in itertools.permutations(mesh.names):
        for chosen in itertools.product(slots, repeat=len(order)):
            dims: list[tuple[str, ...]] = [()] * rank
            for axis, slot in zip(order, chosen, strict=True):
                if slot >= 0:
                    dims[slot] = (*dims[slot], axis)
            left = {axis for axis, slot in zip(order, chosen, strict=True) if slot == -2}
            yield Sharding(dims=tuple(dims), unreduced=tuple(a for a in mesh.names if a in left))


def pairs_of(rank: int, mesh: Mesh, count: int) -> list[tuple[Sharding, Sharding]]:
    chooser = random.Random(count)
    sources = every_sharding(rank, mesh, unreduced=True)
    targets = every_sharding(rank, mesh)
    return [(chooser.choice(sources), chooser.choice(targets)) for _ in range(count)]


def path(shape: tuple[int, ...], source: Sharding, target: Sharding, mesh: Mesh) -> Reshard:
    return reshard(shape, ITEMSIZE_BYTES, source, target, mesh, MovedBytes(mesh=mesh))


def prove(shape: tuple[int, ...], source: Sharding, target: Sharding, mesh: Mesh) -> None:
    found = path(shape, source, target, mesh)
    whole = np.random.default_rng(1).integers(-99, 99, shape).astype(float)
    blocks = run_path(found.steps, found.layouts, source, scattered_sums(whole, source, mesh), mesh)
    assert_equal_blocks(blocks, cut(whole, target.dims, mesh))
    ceiling = gather_then_slice_bytes(whole.nbytes, source, target, mesh)
    assert found.price <= ceiling + 1e-9, f"{source} -> {target}"
    assert (found.layouts[-1] if found.layouts else source) == target


@pytest.mark.parametrize("mesh", [TWO_BY_FOUR, FOUR_BY_FOUR], ids=str)
def test_every_pair_of_a_matrix_ends_in_its_target(mesh: Mesh) -> None:
    sources = every_sharding(2, mesh, unreduced=True)
    for source, target in itertools.product(sources, every_sharding(2, mesh)):
        prove((16, 32), source, target, mesh)


def test_sampled_pairs_of_rank_three_end_in_their_targets() -> None:
    for source, target in pairs_of(3, CUBE, 200):
        prove((8, 8, 16), source, target, CUBE)


def test_sampled_pairs_with_narrow_dims_end_in_their_targets() -> None:
    shape, sizes = (4, 2, 8), CUBE.sizes
    for source, target in pairs_of(3, CUBE, 300):
        if source.divides(shape, sizes) and target.divides(shape, sizes):
            prove(shape, source, target, CUBE)


def test_sums_that_stay_unreduced_are_left_alone() -> None:
    source = Sharding(dims=(("x",), ()), unreduced=("y",))
    target = Sharding(dims=((), ("x",)), unreduced=("y",))
    found = path((16, 16), source, target, TWO_BY_FOUR)
    assert [step.kind for step in found.steps] == [CollectiveKind.ALL_TO_ALL]
    assert found.steps[0].axes == ("x",)


@pytest.mark.parametrize("sharding", every_sharding(2, TWO_BY_FOUR, unreduced=True), ids=str)
def test_equal_shardings_are_free(sharding: Sharding) -> None:
    assert path((16, 32), sharding, sharding, TWO_BY_FOUR) == Reshard(
        steps=(), layouts=(), price=0.0
    )


def test_no_detour_is_cheaper_than_the_path() -> None:
    shardings = every_sharding(2, TWO_BY_FOUR)
    price = {
        (a, b): path((16, 32), a, b, TWO_BY_FOUR).price
        for a, b in itertools.product(shardings, repeat=2)
    }
    for a, b, c in itertools.product(shardings, repeat=3):
        if set(b.axes) <= {*a.axes, *c.axes} and all(
            first or last or not middle
            for first, middle, last in zip(a.dims, b.dims, c.dims, strict=True)
        ):
            assert price[a, c] <= price[a, b] + price[b, c] + 1e-9, f"{a} by {b} to {c}"


KNOWN_PATHS = [
    ("replicated to cut", (None, None), ("x", "y"), ["slice", "slice"], 0),
    ("gather one", ("x", "y"), ("x", None), ["all-gather"], 1536),
    ("gather two axes at once", (("x", "y"), None), (None, None), ["all-gather"], 3584),
    ("move an axis", ("x", None), (None, "x"), ["all-to-all"], 1024),
    ("turn the order round", (("x", "y"), None), (("y", "x"), None), ["permute"], 512),
    ("narrow", ("x", None), (("x", "y"), None), ["slice"], 0),
]


@pytest.mark.parametrize(
    ("source", "target", "kinds", "moved"),
    [row[1:] for row in KNOWN_PATHS],
    ids=[row[0] for row in KNOWN_PATHS],
)
def test_known_paths(
    source: tuple[str | None, ...], target: tuple[str | None, ...], kinds: list[str], moved: int
) -> None:
    found = path((16, 32), Sharding.of(*source), Sharding.of(*target), TWO_BY_FOUR)
    assert [step.kind.value for step in found.steps] == kinds
    assert found.price == moved


def test_partial_sums_are_scattered_when_the_target_is_cut() -> None:
    source = Sharding(dims=((), ()), unreduced=("y",))
    found = path((16, 32), source, Sharding.of("y", None), TWO_BY_FOUR)
    assert [step.kind for step in found.steps] == [CollectiveKind.REDUCE_SCATTER]


def test_the_public_case_of_a_cube_on_two_by_four_moves_two_exchanges() -> None:
    """P(y, -, x) to P(-, (x, y), -), where a gather of everything moves over 14,000 bytes.

    Source:
        The involuntary full rematerialisation that XLA's partitioner warns of.
    """
    source, target = Sharding.of("y", None, "x"), Sharding.of(None, ("x", "y"), None)
    found = reshard((16, 16, 16), 4, source, target, TWO_BY_FOUR, MovedBytes(mesh=TWO_BY_FOUR))
    assert [step.kind for step in found.steps] == [CollectiveKind.ALL_TO_ALL] * 2
    assert found.price == 2560
