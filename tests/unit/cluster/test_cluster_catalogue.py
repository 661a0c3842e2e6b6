from __future__ import annotations

import pytest

from shardwright.cluster.catalogue import (
    device,
    device_entries,
    devices,
    find_device,
    find_instance,
    instances,
    slice_shapes,
)
from shardwright.cluster.figures import PEAK_DTYPES, reserve_bytes
from shardwright.cluster.latency import DEFAULT_LATENCY_S, latency_s
from shardwright.cluster.table import all_rows, rows_of_kind
from shardwright.units import GIB

TEXT_COLUMNS = {
    *("row_kind", "name", "aliases", "device", "mem_note", "intra_link", "intra_topology"),
    *("inter_link", "confidence", "notes", "source"),
}
NUMBER_COLUMNS = [column for column in all_rows()[0].cells if column not in TEXT_COLUMNS]


@pytest.mark.parametrize("row", all_rows(), ids=lambda row: row.name)
def test_every_row_has_a_source_a_confidence_and_numbers_that_parse(row):
    assert row.text("source")
    assert row.text("confidence") in ("high", "medium")
    for column in NUMBER_COLUMNS:
        number = row.number(column)
        assert number is None or number >= 0, column


def test_no_row_has_more_cells_than_the_header():
    assert all(set(row.cells) == set(all_rows()[0].cells) for row in all_rows())
    assert all(None not in row.cells.values() for row in all_rows())


def test_the_table_holds_every_kind_of_row():
    kinds = {kind: len(rows_of_kind(kind)) for kind in ("device", "instance", "tpu_slice")}
    assert kinds == {"device": 34, "instance": 29, "tpu_slice": 10}
    assert sum(kinds.values()) == len(all_rows())


@pytest.mark.parametrize("kind", ["device", "instance", "tpu_slice"])
def test_names_and_aliases_are_unique_within_a_kind(kind):
    names = [name for row in rows_of_kind(kind) for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        (alias, entry.device.name)
        for entry in device_entries()
        for alias in (entry.device.name, *entry.aliases)
    ],
)
def test_every_name_and_alias_of_a_device_resolves_to_it(alias, name):
    assert device(alias).name == name
    assert device(alias.lower()).name == name


@pytest.mark.parametrize(
    ("alias", "name"),
    [(alias, item.name) for item in instances() for alias in (item.name, *item.aliases)],
)
def test_every_name_and_alias_of_an_instance_resolves_to_it(alias, name):
    found = find_instance(alias.upper())
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("item", instances(), ids=lambda item: item.name)
def test_every_instance_holds_known_devices_on_a_known_network(item):
    assert device(item.device_name).name == item.device_name
    assert item.devices_per_host >= 1
    assert item.network_bandwidth_bytes_per_s > 1e9
    assert item.source
    assert item.confidence


@pytest.mark.parametrize("one", devices(), ids=lambda one: one.name)
def test_every_device_can_be_planned_for(one):
    peaks = dict(one.peak_flops_per_s)
    assert set(peaks) <= set(PEAK_DTYPES)
    assert peaks["float32"] > 1e12
    assert one.memory_bytes > 8 * GIB
    assert one.memory_bandwidth_bytes_per_s > 1e11
    assert 0.4 < one.matmul_efficiency < 0.8
    assert reserve_bytes(one) < one.memory_bytes / 8


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("H100-SXM5-80GB", "bfloat16", 989),
        ("H100-SXM5-80GB", "float32", 494.5),  # tf32
        ("H100-SXM5-80GB", "float8_e4m3fn", 1979),
        ("A100-SXM4-80GB", "float32", 156),
        ("A100-SXM4-80GB", "int8", 624),
        ("A100-SXM4-80GB", "float8_e4m3fn", None),
        ("V100-SXM2-32GB", "bfloat16", None),
        ("V100-SXM2-32GB", "float16", 125),
        ("V100-SXM2-32GB", "float32", 15.7),  # no tf32
        ("RTX-PRO-6000-96GB", "float32", 233.9),  # half of bfloat16
        ("MI250X", "bfloat16", 191.5),  # of one of its two dies
        ("TPU-v5e", "float32", 197),  # one bfloat16 pass
        ("TPU-v3", "bfloat16", 61.5),  # of one of its two cores
        ("TPU-v4", "bfloat16", 275),  # a JAX device is the chip
        ("TPU-v7x", "bfloat16", 1153.5),
    ],
)
def test_peaks_are_those_of_one_jax_device(name, dtype, tflops):
    peak = dict(device(name).peak_flops_per_s).get(dtype)
    assert peak == (None if tflops is None else pytest.approx(tflops * 1e12))


@pytest.mark.parametrize(
    ("name", "gib"), [("MI250X", 64), ("TPU-v3", 16), ("TPU-v7x", 96), ("TPU-v5p", 95)]
)
def test_memory_is_that_of_one_jax_device(name, gib):
    assert device(name).memory_bytes == gib * GIB


@pytest.mark.parametrize(
    ("name", "efficiency"),
    [("H100-SXM5-80GB", 0.643), ("A100-SXM4-80GB", 0.695), ("V100-SXM2-32GB", 0.65)],
)
def test_achievable_share_is_four_fifths_of_the_measured_peak(name, efficiency):
    assert device(name).matmul_efficiency == efficiency


@pytest.mark.parametrize(
    ("name", "per_host", "network", "gbs"),
    [
        ("H100", 8, "NDR InfiniBand CX-7", 50),
        ("A100", 8, "HDR InfiniBand", 25),
        ("H200", 8, "EFA v2", 50),
        ("MI300X", 8, "NDR InfiniBand", 50),
        ("GB200", 4, "RoCE CX-7", 50),
        ("Trainium2", 16, "EFA v3", 25),
        ("GH200", 1, "Ethernet (assumed)", 12.5),
        ("L40S", 8, "Ethernet (assumed)", 12.5),
        ("TPU-v5p", 8, "DCN", 6.25),
    ],
)
def test_a_device_alone_takes_the_host_and_network_of_its_usual_instance(
    name, per_host, network, gbs
):
    entry = find_device(name)
    assert entry is not None
    assert (entry.devices_per_host, entry.network) == (per_host, network)
    assert entry.network_bandwidth_bytes_per_s == pytest.approx(gbs * 1e9)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100", "H100-SXM5-80GB"),
        ("h100-80gb", "H100-SXM5-80GB"),
        ("H100-80GB-SXM", "H100-SXM5-80GB"),
        ("SXM H100", "H100-SXM5-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("h100 pcie", "H100-PCIe-80GB"),
        ("H100 NVL", "H100-NVL-94GB"),
        ("A100", "A100-SXM4-80GB"),
        ("A100 40GB", "A100-SXM4-40GB"),
        ("A100-PCIe", "A100-PCIe-80GB"),
        ("V100", "V100-SXM2-32GB"),
        ("A10", "A10-24GB"),
        ("a10g", "A10G-24GB"),
        ("4090", None),
        ("RTX 4090", "RTX-4090-24GB"),
        ("Instinct MI300X", "MI300X"),
        ("TPU v5 lite", "TPU-v5e"),
        ("TPU v5", "TPU-v5p"),
        ("tpu v6e", "TPU-v6e"),
        ("Trillium", "TPU-v6e"),
        ("TPU", None),
        ("SXM", None),
        ("80GB", None),
        ("", None),
        ("H100 A100", None),
    ],
)
def test_a_tolerant_name_means_one_device(text, name):
    found = find_device(text)
    assert (found and found.device.name) == name


def test_slice_shapes_are_grids_of_the_stated_chips():
    assert slice_shapes()["v5p-128"] == (4, 4, 4)
    assert slice_shapes()["v5e-16"] == (4, 4)


@pytest.mark.parametrize("row", rows_of_kind("tpu_slice"), ids=lambda row: row.name)
def test_the_notes_of_a_slice_state_as_many_chips_as_its_grid(row):
    chips = 1
    for side in slice_shapes()[row.name]:
        chips *= side
    assert row.text("notes").startswith(f"{chips} chips")


@pytest.mark.parametrize(
    ("link", "time_us"),
    [
        ("NVLink4", 1.0),
        ("PCIe4 x16", 1.3),
        ("ICI", 1.0),
        ("NDR InfiniBand CX-7", 5.0),
        ("RoCE CX-7", 5.0),
        ("EFA v2", 75.0),
        ("EFA v4", 35.0),
        ("GPUDirect-TCPXO", 20.0),
        ("100 Gbps ENA/EFA", 75.0),
        ("carrier pigeon", 20.0),
    ],
)
def test_latency_follows_the_kind_of_link(link, time_us):
    assert latency_s(link) == pytest.approx(time_us * 1e-6)


def test_every_link_of_the_catalogue_has_a_latency_of_its_own_kind():
    names = {entry.link for entry in device_entries() if entry.link_bandwidth_bytes_per_s}
    names |= {item.network for item in instances()}
    unknown = {name for name in names if latency_s(name) == DEFAULT_LATENCY_S}
    assert unknown == {
        "100 Gbps VPC",
        "GPUDirect-TCPX",
        "GPUDirect-TCPXO",
    }
