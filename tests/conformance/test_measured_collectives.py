"""The model against the published measurements that come with the benchmark."""

from __future__ import annotations

import pytest

from bench.fidelity.clusters import Unmapped, topology_of
from bench.fidelity.collectives import DATA, errors_of
from bench.fidelity.link_fit import predict, table
from bench.fidelity.measured import GROUP, naive_time_s, read
from shardwright.cost import collective_time_s
from shardwright.units import KIB

CLUSTERS = [
    ("8x H100-80GB SXM single node (NVLink4, NVLS)", 8, [("NVLink4", 8, 450.0)]),
    (
        "AWS 2x p4d.24xlarge (8x A100-40GB, 4x100Gb EFA per node)",
        16,
        [("NVLink3", 8, 300.0), ("EFA v1", 2, 6.25)],
    ),
    (
        "inter-node, 4 nodes, V100-16GB SXM2 (4/node, ABCI Compute Node V)",
        16,
        [("NVLink2", 4, 150.0), ("InfiniBand EDR", 4, 6.25)],
    ),
    ("3 nodes x8 A100-40GB, 4x HDR IB", 24, [("NVLink3", 8, 300.0), ("InfiniBand", 3, 12.5)]),
    ("2 nodes x 1 H100, 4 NICs", 2, [("NDR InfiniBand CX-7", 2, 50.0)]),
    ("NVIDIA L40S single node (l40s), 2 GPUs", 2, [("PCIe4 x16", 8, 31.0)]),
]


@pytest.mark.parametrize(("text", "ranks", "levels"), CLUSTERS)
def test_sentences_become_topologies(
    text: str, ranks: int, levels: list[tuple[str, int, float]]
) -> None:
    read_levels = topology_of(text, ranks).levels
    found = [(lvl.name, lvl.num_units, lvl.bandwidth_bytes_per_s / 1e9) for lvl in read_levels]
    assert found == levels


@pytest.mark.parametrize(("text", "ranks"), [("4 nodes of something", 32), ("8x H100", 12)])
def test_what_names_no_cluster_is_said(text: str, ranks: int) -> None:
    with pytest.raises(Unmapped):
        topology_of(text, ranks)


@pytest.mark.parametrize(("is_large", "bar"), [(True, 0.15), (False, 0.35)])
def test_the_median_error_is_within_the_bar(*, is_large: bool, bar: float) -> None:
    rows, unmapped = read(DATA)
    assert len(rows) > 20 * len(unmapped)
    chosen = [row for row in rows if (row.size_bytes > 64 * KIB) == is_large]
    times = predict(chosen, table())
    errors = errors_of(
        [(row.time_s, t, naive_time_s(row)) for row, t in zip(chosen, times, strict=True)]
    )
    assert errors["median"] < bar
    assert errors["median"] < errors["naive median"] / 3


def test_the_fit_sees_what_the_product_sees() -> None:
    rows, _ = read(DATA)
    assert {row.collective.axes for row in rows} == {(GROUP,)}
    times = [collective_time_s(row.collective, row.placed) for row in rows]
    assert times == predict(rows, table())
