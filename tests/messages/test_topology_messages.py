"""Every word of the errors about machines and the meshes on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardwright.cluster import Mesh
from shardwright.cluster.candidates import candidate_meshes
from shardwright.cluster.catalogue import device, device_entry
from shardwright.cluster.hosts import hosts_topology
from shardwright.cluster.parse import topology
from shardwright.cluster.place import group_link, place
from shardwright.cluster.this_machine import describe_devices, host_cpu_topology
from shardwright.errors import TopologyError

OR_FILE = "(or state its figures in a YAML file)"


def said(call: Callable[[], object]) -> str:
    with pytest.raises(TopologyError) as caught:
        call()
    assert caught.value.exit_code == 2
    return str(caught.value)


NAMES = {
    "8xH101": (
        'no device or instance is called "H101"\n'
        f'  try    did you mean "H100" or "V100" or "DGX-H100"? {OR_FILE}'
    ),
    "2x p5.48xlarg": (
        'no device or instance is called "p5.48xlarg"\n'
        '  try    did you mean "p5.48xlarge" or "p5e.48xlarge" or "p5en.48xlarge"? ' + OR_FILE
    ),
    "TPU": (
        'no device or instance is called "TPU"\n'
        f'  try    did you mean "TPU7x" or "TPU-v4" or "TPU-v3"? {OR_FILE}'
    ),
    "": (
        'no device or instance is called ""\n'
        '  try    one of "A10-24GB", "A100", "A100-40", "A100-80", "A100-PCIe-80GB", "A100-SXM",'
        f' "A100-SXM4", "A100-SXM4-40GB" and 112 more {OR_FILE}'
    ),
    "0xH100": '"0xH100" asks for 0 devices; at least 1',
    "2x0xH100": '"2x0xH100" asks for 0 devices; at least 1',
    "cpu:0": "0 CPU devices asked for; at least 1",
    "cpu:-2": "-2 CPU devices asked for; at least 1",
    "12xH100": (
        "12 devices do not fill hosts of 8 H100-SXM5-80GB\n"
        '  where  "12xH100"\n'
        '  try    8 or 16 devices, or HOSTSxDEVICESxNAME as in "2x4xH100-SXM5-80GB"'
    ),
    "v5e-12": (
        '"v5e-12" is 12 chips; slices of TPU-v5e have a power of two, at most 256\n'
        "  try    another size, or state the grid's levels in a YAML file"
    ),
    "v4-7": (
        '"v4-7" is 3.5 chips; slices of TPU-v4 have a power of two, at most 4096\n'
        "  try    another size, or state the grid's levels in a YAML file"
    ),
    "v5e-512": (
        '"v5e-512" is 512 chips; slices of TPU-v5e have a power of two, at most 256\n'
        "  try    another size, or state the grid's levels in a YAML file"
    ),
    "3xTPU-v7x": (
        '"3xTPU-v7x" is 1.5 chips; slices of TPU-v7x have a power of two, at most 9216\n'
        "  try    another size, or state the grid's levels in a YAML file"
    ),
    "6xTPU-v4": (
        '"6xTPU-v4" is 6 chips; slices of TPU-v4 have a power of two, at most 4096\n'
        "  try    another size, or state the grid's levels in a YAML file"
    ),
    "2x v4-8": (
        "the catalogue has no bandwidth between slices of TPU-v4\n"
        '  where  "2x v4-8"\n'
        "  try    state the levels in a YAML file"
    ),
    "2x8xTPU-v5e": (
        '"2x8xTPU-v5e" counts hosts, but TPU-v5e devices stand in a torus\n'
        '  try    a slice, as in "v5e-16"'
    ),
    "nowhere/missing.yaml": (
        "cannot read the file nowhere/missing.yaml: No such file or directory"
    ),
}


@pytest.mark.parametrize(("text", "words"), NAMES.items(), ids=NAMES)
def test_names(text, words):
    assert said(lambda: topology(text)) == words


L4 = "NVIDIA L4"
CALLS = {
    "unknown device": (
        lambda: device("H10"),
        f'no device is called "H10"\n  try    did you mean "H100" or "V100" or "A100"? {OR_FILE}',
    ),
    "no link known": (
        lambda: hosts_topology("2xGH200", device_entry("GH200"), num_hosts=1, per_host=2),
        "the catalogue has no bandwidth between GH200-141GB devices in one host\n"
        "  try    state the levels in a YAML file",
    ),
    "mesh too large": (
        lambda: place(Mesh.of(dp=4, tp=4), topology("8xH100")),
        "the mesh dp=4,tp=4 needs 16 devices; 8xH100 has 8\n  try    a mesh of at most 8 devices",
    ),
    "group over an unknown axis": (
        lambda: group_link(Mesh.of(dp=2, tp=4), ("tq",), topology("8xH100")),
        'the mesh dp=2,tp=4 has no axis "tq"\n  try    did you mean "tp"?',
    ),
    "candidates for too many": (
        lambda: candidate_meshes(topology("8xH100"), num_devices=9),
        "9 devices asked for; 8xH100 has 8\n  try    1 to 8 devices",
    ),
    "candidates for none": (
        lambda: candidate_meshes(topology("8xH100"), num_devices=0),
        "0 devices asked for; 8xH100 has 8\n  try    1 to 8 devices",
    ),
    "too many axes": (
        lambda: candidate_meshes(topology("8xH100"), max_axes=7),
        "meshes of 7 axes asked for; 1 to 6",
    ),
    "no axes": (
        lambda: candidate_meshes(topology("8xH100"), max_axes=0),
        "meshes of 0 axes asked for; 1 to 6",
    ),
    "mixed devices": (
        lambda: describe_devices("gpu", [L4, L4, "NVIDIA H200"], [0, 0, 0]),
        "the devices must be of one kind; found 2 NVIDIA L4, 1 NVIDIA H200\n"
        "  try    pass devices of one kind only",
    ),
    "no devices": (
        lambda: describe_devices("gpu", [], []),
        "the devices must be of one kind; found no devices\n  try    pass devices of one kind only",
    ),
    "unequal processes": (
        lambda: describe_devices("gpu", [L4, L4, L4], [0, 0, 1]),
        "processes drive from 1 to 2 devices each; all must drive equally many",
    ),
    "unknown kind": (
        lambda: describe_devices("gpu", ["NVIDIA GeForce RTX 3090"], [0]),
        'no device is called "NVIDIA GeForce RTX 3090"\n'
        '  try    did you mean "NVIDIA GeForce RTX 4090" or "NVIDIA GB300" or "NVIDIA B300"? '
        + OR_FILE,
    ),
    "no cpu devices": (
        lambda: host_cpu_topology(0),
        "0 CPU devices asked for; at least 1",
    ),
}


@pytest.mark.parametrize(("call", "words"), CALLS.values(), ids=CALLS)
def test_calls(call, words):
    assert said(call) == words


GOOD = """\
device: H100
levels:
  - {name: NVLink4, num_units: 8, bandwidth: 450 GB/s, latency: 2 us}
"""
INLINE = """\
levels: []
device: {name: X, peaks: {bfloat16: 4e14}, memory: 64 GiB, memory_bandwidth: 2 TB/s}
"""

# damaged file -> the words, FILE standing for its path
FILES = {
    "not yaml": (
        "device: [\n",
        "the file is not YAML: expected the node content, but found '<stream end>'\n"
        "  where  FILE:2",
    ),
    "unprintable": ("a: \x01\n", "the file is not YAML: unreadable characters\n  where  FILE"),
    "two documents": (
        GOOD + "---\nb: 2\n",
        "the file is not YAML: but found another document\n  where  FILE:4",
    ),
    "a list": ("- a\n", "the file holds no mapping of keys\n  where  FILE"),
    "empty": ("", "the file holds no mapping of keys\n  where  FILE"),
    "unknown key": (
        GOOD + "levls: 3\n",
        'unknown key "levls"\n  where  FILE:4\n  try    did you mean "levels"?',
    ),
    "unknown key of a level": (
        GOOD.replace("bandwidth", "bandwith"),
        'unknown key "levels[0].bandwith"\n  where  FILE:3\n'
        '  try    did you mean "bandwidth" or "peer_bandwidth"?',
    ),
    "key twice": (
        GOOD + "device: A100\n",
        'the key "device" stands twice\n  where  FILE:4',
    ),
    "odd key": (GOOD + "? [a, b]\n: 3\n", "a key is no plain text\n  where  FILE:4"),
    "key missing": ("device: H100\n", 'the key "levels" is missing\n  where  FILE:1'),
    "key of a level missing": (
        GOOD.replace(", latency: 2 us", ""),
        'the key "levels[0].latency" is missing\n  where  FILE:3',
    ),
    "rate": (
        GOOD.replace("450 GB/s", "fast"),
        '"levels[0].bandwidth" is "fast", not a rate such as 450 GB/s\n  where  FILE:3',
    ),
    "time": (
        GOOD.replace("2 us", "soon"),
        '"levels[0].latency" is "soon", not a time such as 2 us\n  where  FILE:3',
    ),
    "count": (
        GOOD.replace("8,", "0,"),
        '"levels[0].num_units" is "0", not a whole number, at least 1\n  where  FILE:3',
    ),
    "levels no list": (
        "device: H100\nlevels: 8\n",
        '"levels" is "8", not a list of mappings\n  where  FILE:2',
    ),
    "level no mapping": (
        "device: H100\nlevels: [8]\n",
        '"levels[0]" is "8", not a mapping\n  where  FILE:2',
    ),
    "unknown device": (
        GOOD.replace("H100", "H101"),
        'no device is called "H101"\n  where  FILE:1, device\n'
        f'  try    did you mean "H100" or "V100" or "A100"? {OR_FILE}',
    ),
    "device no text": (
        "levels: []\ndevice: [a]\n",
        '"device" is a list, not a text\n  where  FILE:2',
    ),
    "reserve": (
        GOOD + "reserve: much\n",
        '"reserve" is "much", not bytes such as 4 GiB\n  where  FILE:4',
    ),
    "reserve too large": (
        GOOD + "reserve: 90 GiB\n",
        "the reserve of 90 GiB leaves nothing of 80 GiB\n  where  FILE:4, reserve",
    ),
    "flag": (
        GOOD + "shared_compute: maybe\n",
        '"shared_compute" is "maybe", not true or false\n  where  FILE:4',
    ),
    "element type": (
        INLINE.replace("bfloat16", "bf16"),
        'unknown key "device.peaks.bf16"\n  where  FILE:2\n'
        '  try    did you mean "bfloat16" or "float16"?',
    ),
    "peaks no mapping": (
        INLINE.replace("{bfloat16: 4e14}", "4e14"),
        '"device.peaks" is "4e14", not a mapping such as {bfloat16: 400 TFLOP/s}\n  where  FILE:2',
    ),
    "peak": (
        INLINE.replace("4e14", "lots"),
        '"device.peaks.bfloat16" is "lots", not a rate such as 400 TFLOP/s\n  where  FILE:2',
    ),
    "memory": (
        INLINE.replace("64 GiB", "none"),
        '"device.memory" is "none", not bytes such as 64 GiB\n  where  FILE:2',
    ),
    "share": (
        INLINE.replace("2 TB/s}", "2 TB/s, matmul_efficiency: 2}"),
        '"device.matmul_efficiency" is "2", not a number above 0, at most 1\n  where  FILE:2',
    ),
}


@pytest.mark.parametrize(("content", "words"), FILES.values(), ids=FILES)
def test_files(tmp_path, content, words):
    path = tmp_path / "lab.yaml"
    path.write_text(content)
    assert said(lambda: topology(path)) == words.replace("FILE", str(path))


@pytest.mark.parametrize("content", [GOOD, INLINE])
def test_the_undamaged_files_read(tmp_path, content):
    path = tmp_path / "lab.yaml"
    path.write_text(content)
    assert topology(path).num_devices in (1, 8)


def test_a_file_of_other_bytes(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert said(lambda: topology(path)) == f"cannot read the file {path}: it is not UTF-8 text"


def test_a_folder(tmp_path: Path):
    assert said(lambda: topology(tmp_path)) == f"cannot read the file {tmp_path}: Is a directory"
