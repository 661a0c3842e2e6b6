"""A published run as a plan: the reference model captured, its layout as a recipe, priced.

The model is the reference model of its family with the run's sizes, one microbatch of it, in
bfloat16 with float32 master weights. The layout is a recipe of parts, one for each mesh axis, on a
mesh of the devices that hold one stage. So a run goes the way of every other plan; there is no
formula for transformers here.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import re
from pathlib import Path
from typing import Any

from bench.fidelity.rows import Run
from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh, Topology
from shardwright.cluster.catalogue import DeviceEntry, device_entry
from shardwright.cluster.hosts import hosts_topology
from shardwright.ir import Graph
from shardwright.models.registry import build
from shardwright.plan.record import Plan
from shardwright.search.find import Planner, Question
from shardwright.search.intra import Effort

_DATA_PARTS = ("data", "zero-2", "zero-2", "zero-3")
"""By ZeRO stage; stage 1 scatters gradients, as the distributed optimizers of the tables do."""
_NO_LIMIT_BYTES = 1 << 60
_SECONDS_A_PLAN = 20.0
_VOCAB_MULTIPLE = 128
_USUAL_POWER_W = 700
_STANDS_FOR = {"A100-80GB-SXM": "A100-SXM4-80GB", "H100-96GB-HBM2e": "H100-SXM5-80GB"}


def planned(run: Run, cache: Path | None = None) -> tuple[Plan, Graph] | str:
    """The plan of one microbatch of a run and its graph, or why there is none."""
    sizes, recipe, mesh = model_sizes(run), recipe_of(run), mesh_of(run)
    name = hashlib.sha256(repr((sorted(sizes.items()), recipe, mesh)).encode()).hexdigest()[:24]
    kept = None if cache is None else cache / f"{name}.pickle"
    if kept is not None and kept.exists():
        found: tuple[Plan, Graph] | str = pickle.loads(kept.read_bytes())
        return found
    answer = _plan(sizes, recipe, mesh, topology_of(run))
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(answer))
    return answer


def _plan(
    sizes: dict[str, Any], recipe: str, mesh: Mesh, topology: Topology
) -> tuple[Plan, Graph] | str:
    sizes = dict(sizes)
    case = build(sizes.pop("family"), **sizes)
    graph = capture(case.step, case.abstract_state(), case.abstract_batch()).graph
    question = Question(
        method=recipe,
        meshes=(mesh,),
        budget_bytes=_NO_LIMIT_BYTES,
        effort=Effort(time_limit_s=_SECONDS_A_PLAN),
    )
    result = Planner.of(graph).find(topology, question)
    return result.detail if result.plan is None else (result.plan, graph)


def model_sizes(run: Run) -> dict[str, Any]:
    """The reference model of a run: its family and every size."""
    sizes: dict[str, Any] = {
        "family": "gpt" if run.family == "gpt" else "llama",
        "layers": run.layers,
        "d_model": run.hidden,
        "heads": run.heads,
        "ffn": run.ffn,
        "vocab": _padded(run.vocab, _VOCAB_MULTIPLE * run.tp),
        "seq": run.seq,
        "batch": run.micro_batch * run.dp,
        "optimizer": "adam",
        "param_dtype": "bfloat16",
        "compute_dtype": "bfloat16",
        "master_weights": True,
        "scan": True,
        "fused": True,
        "remat": run.recompute == "full",
        "lean": run.recompute != "full",
        "remat_attention": run.recompute == "selective",
    }
    if run.family != "gpt":
        sizes["head_dim"] = run.hidden // run.heads
        sizes["gated"] = run.family != "nemotron"
        # Fewer key heads than ways: each way keeps a copy, as Megatron does.
        copies = run.tp if run.kv_heads % run.tp and run.heads % run.tp == 0 else run.kv_heads
        sizes["kv_heads"] = copies
    return sizes


def recipe_of(run: Run) -> str:
    """The recipe of a run's layout, a part for each axis of its mesh."""
    return "+".join(part for part, size in _parts(run) if size > 1) or "data"


def mesh_of(run: Run) -> Mesh:
    """The mesh of one stage: data outermost, tensor innermost, as every framework lays them."""
    names = {"data": "replica", "context": "context", "tensor": "tensor", "tensor-sp": "tensor"}
    sizes = {names.get(part, "data"): size for part, size in _parts(run) if size > 1}
    return Mesh.of(**(sizes or {"data": 1}))


def _parts(run: Run) -> tuple[tuple[str, int], ...]:
    tensor = "tensor-sp" if run.sequence_parallel else "tensor"
    inner = (("context", run.cp), (tensor, run.tp))
    if run.zero_stage == 3:
        return (("data", run.dp // run.fsdp), ("zero-3", run.fsdp), *inner)
    return ((_DATA_PARTS[run.zero_stage], run.dp), *inner)


def topology_of(run: Run) -> Topology:
    """The devices of one stage of a run, in its hosts, on its network."""
    entry, count = device_of(run), run.devices // run.pp
    per_host = math.gcd(count, run.devices_per_node)
    return hosts_topology(
        f"{count}x{entry.device.name}",
        entry,
        num_hosts=count // per_host,
        per_host=per_host,
        network=(entry.network, _network_bytes_per_s(run, entry)),
    )


def device_of(run: Run) -> DeviceEntry:
    """The device of the catalogue that a run names; what stands in brackets is its host's."""
    name = re.split(r"[ (]", run.device)[0]
    return device_entry(_STANDS_FOR.get(name, name))


def clock_share(run: Run) -> float:
    """Of the device's usual clock, where a run names a lower power limit than its 700 W.

    Power grows with the cube of the clock, since voltage follows it. Source: NVIDIA H100 datasheet
    for the usual limit.
    """
    limit = re.search(r"(\d+)W", run.device)
    return (int(limit[1]) / _USUAL_POWER_W) ** (1 / 3) if limit else 1.0


def memory_share(run: Run) -> float:
    """Of the device's usual memory bandwidth, where a run names HBM2e in place of HBM3.

    Six stacks of 400 GB/s, as the H100 with HBM2e of the catalogue has five, against 3.35 TB/s.
    """
    return 2.4 / 3.35 if "HBM2e" in run.device else 1.0


def _network_bytes_per_s(run: Run, entry: DeviceEntry) -> float:
    """What a run says of its network, per device and one way; else the device's usual."""
    text = f"{run.device} {run.notes}"
    if found := re.search(r"(\d+)x(\d+)Gb(?:/s)? ", text):
        return int(found[1]) * int(found[2]) * 1e9 / 8 / run.devices_per_node
    if found := re.search(r"(\d+)Gb/s(?:/GPU| per GPU)", text):
        return int(found[1]) * 1e9 / 8
    if found := re.search(r"(\d+) Gbps/node", text):
        return int(found[1]) * 1e9 / 8 / run.devices_per_node
    return entry.network_bandwidth_bytes_per_s


def _padded(size: int, multiple: int) -> int:
    return math.ceil(size / multiple) * multiple
