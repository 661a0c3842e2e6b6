"""What operators and collectives of captured steps are for: phases, scores, purposes."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from shardwright.capture.from_jax import capture
from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.cost.attention import score_tensors
from shardwright.cost.phases import Phase, phases_of
from shardwright.cost.purpose import Purpose, purposes_of
from shardwright.ir import Graph, Role
from shardwright.ir.flat import FlatGraph, flatten
from shardwright.models.registry import build
from shardwright.plan.record import PlannedCollective
from shardwright.search.find import Planner, Question

GPT = {"layers": 2, "d_model": 32, "heads": 8, "ffn": 64, "vocab": 48, "seq": 12, "batch": 16}


@cache
def graph_of(family: str, **sizes: Any) -> Graph:
    case = build(family, **sizes)
    return capture(case.step, case.abstract_state(), case.abstract_batch()).graph


def products(flat: FlatGraph) -> Counter[Phase]:
    """How often a step runs a contraction in each phase."""
    counts: Counter[Phase] = Counter()
    for flat_op, phase in zip(flat.ops, phases_of(flat), strict=True):
        if flat_op.op.kind in ("dot_general", "conv_general_dilated"):
            counts[Phase(phase)] += flat_op.runs
    return counts


@pytest.mark.parametrize(
    ("family", "sizes", "forward", "backward"),
    [
        # A layer's four projections, two inner products and two of the feed-forward; the head.
        ("gpt", {**GPT}, 2 * 8 + 1, 2 * (2 * 8 + 1)),
        ("gpt", {**GPT, "scan": True, "optimizer": "adam"}, 2 * 8 + 1, 2 * (2 * 8 + 1)),
        ("gpt", {**GPT, "fused": True, "scan": True}, 2 * 6 + 1, 2 * (2 * 6 + 1)),
        ("gpt", {**GPT, "lean": True, "scan": True}, 2 * 8 + 1, 2 * (2 * 8 + 1)),
        # All of a layer but its last product is computed again.
        ("gpt", {**GPT, "remat": True, "scan": True}, 2 * 8 + 1, 2 * (2 * 8 + 1) + 2 * 7),
        # The product of queries and keys is.
        ("gpt", {**GPT, "remat_attention": True, "scan": True}, 17, 34 + 2),
        ("gpt", {**GPT, "grad_norm": True, "clip_norm": 1.0}, 2 * 8 + 1, 2 * (2 * 8 + 1)),
        ("llama", {**GPT, "kv_heads": 4, "head_dim": 4, "scan": True}, 2 * 9 + 1, 2 * 19),
        # The first layer's input is data: nobody asks for its gradient.
        ("mlp", {}, 2, 3),
        # The stem, five convolutions of two blocks, and the head; images are data too.
        ("resnet", {}, 7, 13),
    ],
    ids=[
        *("unrolled", "scan", "fused", "lean", "remat", "attention", "grad norm", "llama", "mlp"),
        "resnet",
    ],
)
def test_products_are_forward_once_and_backward_twice(
    family: str, sizes: dict[str, Any], forward: int, backward: int
) -> None:
    found = products(flatten(graph_of(family, **sizes)))
    assert found == {Phase.FORWARD: forward, Phase.BACKWARD: backward}


@pytest.mark.parametrize("choice", [{}, {"master_weights": True}])
def test_the_update_is_what_optimizer_state_leads_to(choice: dict[str, bool]) -> None:
    graph = graph_of("gpt", **GPT, optimizer="adam", scan=True, **choice)
    flat = flatten(graph)
    phases = phases_of(flat)
    moments = {i for i in graph.inputs if graph.tensor(i).role is Role.OPTIMIZER_STATE}
    for flat_op, phase in zip(flat.ops, phases, strict=True):
        if not moments.isdisjoint(flat_op.op.operands):
            assert phase == Phase.UPDATE
    state = {after for _, after in graph.state_pairs}
    writers = {i: p for f, p in zip(flat.ops, phases, strict=True) for i in f.op.results}
    assert {writers[i] for i in state if graph.tensor(i).rank} == {Phase.UPDATE}


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("mlp", {}),
        ("gpt", {**GPT, "scan": True}),
        ("gpt", {**GPT, "clip_norm": 1.0, "grad_norm": True}),
        ("resnet", {}),
    ],
    ids=["mlp", "scan", "clipped", "resnet"],
)
def test_an_update_without_state_makes_the_new_parameters(
    family: str, sizes: dict[str, Any]
) -> None:
    graph = graph_of(family, **sizes)
    flat = flatten(graph)
    phases = phases_of(flat)
    writers = {i: p for f, p in zip(flat.ops, phases, strict=True) for i in f.op.results}
    parameters = [a for b, a in graph.state_pairs if graph.tensor(b).role is Role.PARAMETER]
    assert parameters
    assert {writers[i] for i in parameters} == {Phase.UPDATE}
    kinds = {f.op.kind for f, p in zip(flat.ops, phases, strict=True) if p == Phase.UPDATE}
    assert kinds.isdisjoint({"dot_general", "conv_general_dilated", "reduce_sum", "scatter-add"})


def test_the_norm_of_gradients_is_no_loss() -> None:
    """It is a result beside the loss, and leads back to all of the step."""
    graph = graph_of("gpt", **GPT, grad_norm=True)
    flat = flatten(graph)
    roots = [f.op.results[0] for f in flat.ops if f.op.kind == "sqrt"]
    assert roots[-1] in graph.outputs
    writers = {i: p for f, p in zip(flat.ops, phases_of(flat), strict=True) for i in f.op.results}
    assert writers[roots[-1]] == Phase.BACKWARD


def test_a_function_without_a_gradient_is_all_forward() -> None:
    graph = capture(lambda w, x: jnp.sum(jnp.tanh(x @ w)), jnp.ones((8, 8)), jnp.ones((8, 8))).graph
    assert set(phases_of(flatten(graph)).tolist()) == {Phase.FORWARD}


@pytest.mark.parametrize(
    ("family", "sizes", "queries_and_keys"),
    [
        ("gpt", GPT, (12, 12)),
        ("gpt", {**GPT, "scan": True, "remat": True}, (12, 12)),
        ("gpt", {**GPT, "scan": True, "remat_attention": True}, (12, 12)),
        ("llama", {**GPT, "kv_heads": 4, "head_dim": 4, "scan": True, "lean": True}, (12, 12)),
    ],
)
def test_scores_are_what_has_queries_and_keys(
    family: str, sizes: dict[str, Any], queries_and_keys: tuple[int, int]
) -> None:
    flat = flatten(graph_of(family, **sizes))
    scores = score_tensors(flat)
    inner = 0
    for tensor in flat.graph.tensors:
        per_sample = [size for size in tensor.shape if size == queries_and_keys[0]]
        has_both = len(per_sample) == 2 and tensor.num_elements >= 16 * 8 * 12 * 12
        if scores[tensor.id]:
            assert has_both, tensor
        inner += bool(scores[tensor.id])
        if has_both and tensor.dtype != "bool":
            assert scores[tensor.id], tensor
    assert inner > 10


@pytest.mark.parametrize("family", ["mlp", "resnet", "lstm"])
def test_steps_without_attention_have_no_scores(family: str) -> None:
    assert not score_tensors(flatten(graph_of(family))).any()


def test_products_of_experts_are_no_scores() -> None:
    """One batch dim, and a result larger than both operands: rows of each expert, widened."""

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(jnp.einsum("erd,edf->erf", x, w)))

    graph = capture(loss, jnp.ones((4, 32, 8)), jnp.ones((4, 8, 32))).graph
    assert not score_tensors(flatten(graph)).any()


@cache
def moved(recipe: str, mesh: Mesh) -> dict[tuple[Purpose, str], int]:
    """Bytes of a plan's collectives above 1 KiB, by purpose and kind."""
    graph = graph_of("gpt", **GPT, optimizer="adam", scan=True, fused=True)
    plan = Planner.of(graph).find(topology("8xH100"), Question(method=recipe, meshes=(mesh,))).plan
    assert plan is not None
    (stage,) = plan.stages
    counts: Counter[tuple[Purpose, str]] = Counter()
    for planned, purpose in zip(
        stage.collectives, purposes_of(flatten(graph), stage.collectives), strict=True
    ):
        if planned.size_bytes > 1024:
            counts[purpose, planned.kind] += planned.size_bytes * planned.runs
    return dict(counts)


def test_cut_weights_are_gathered_and_their_gradients_scattered() -> None:
    kinds = set(moved("zero-3", Mesh.of(x=8)))
    assert kinds <= {
        (Purpose.WEIGHT, "all-gather"),
        (Purpose.GRADIENT, "reduce-scatter"),
        (Purpose.GRADIENT, "all-reduce"),
        (Purpose.GRADIENT, "all-to-all"),
    }
    assert {(Purpose.WEIGHT, "all-gather"), (Purpose.GRADIENT, "reduce-scatter")} <= kinds


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("family", ["mlp", "resnet"])
def test_each_parameter_has_a_gradient_whatever_the_optimizer(family: str, optimizer: str) -> None:
    graph = graph_of(family, optimizer=optimizer)
    found = Planner.of(graph).find(
        topology("8xH100"), Question(method="data", meshes=(Mesh.of(x=8),))
    )
    assert found.plan is not None
    (stage,) = found.plan.stages
    purposes = purposes_of(flatten(graph), stage.collectives)
    parameters = [i for i in graph.inputs if graph.tensor(i).role is Role.PARAMETER]
    assert Counter(purposes)[Purpose.GRADIENT] == len(parameters) - (family == "resnet")
    assert set(purposes) == {Purpose.GRADIENT, Purpose.ACTIVATION}


def test_statistics_of_the_forward_pass_are_no_gradients() -> None:
    graph = graph_of("resnet", optimizer="adam")
    flat = flatten(graph)
    phases = phases_of(flat)
    forward = [
        i
        for flat_op, phase in zip(flat.ops, phases, strict=True)
        if phase == Phase.FORWARD
        for i in flat_op.op.results
    ]
    read = {
        i
        for flat_op, phase in zip(flat.ops, phases, strict=True)
        if phase == Phase.UPDATE
        for i in flat_op.op.operands
    }
    means = [i for i in forward if i in read and graph.tensor(i).rank]
    assert len(means) == 12  # a mean and a variance of each of six convolutions
    moves = [
        PlannedCollective(
            kind="all-reduce",
            axes=("x",),
            size_bytes=64,
            runs=1,
            tensor_id=i,
            op_id=0,
            stands_for="a test",
        )
        for i in means
    ]
    assert set(purposes_of(flat, moves)) == {Purpose.ACTIVATION}


def test_cut_moments_gather_the_new_weights() -> None:
    kinds = set(moved("zero-1", Mesh.of(x=8)))
    assert {purpose for purpose, _ in kinds} == {Purpose.GRADIENT, Purpose.STATE}
    assert (Purpose.STATE, "all-gather") in kinds


def test_tensor_parallelism_moves_activations() -> None:
    """And the embedding, which is smaller here than what it embeds."""
    kinds = moved("tensor", Mesh.of(x=4))
    assert set(kinds) == {(Purpose.ACTIVATION, "all-reduce"), (Purpose.WEIGHT, "all-gather")}
    assert kinds[Purpose.ACTIVATION, "all-reduce"] == 2 * 4 * 16 * 12 * 32 * 4


def test_two_axes_have_two_purposes() -> None:
    both = {purpose for purpose, _ in moved("data+tensor", Mesh.of(x=2, y=4))}
    assert both == {Purpose.ACTIVATION, Purpose.GRADIENT, Purpose.WEIGHT}


def test_cut_moments_beside_tensor_parallelism_have_all_four() -> None:
    both = {purpose for purpose, _ in moved("zero-1+tensor", Mesh.of(x=2, y=4))}
    assert both == set(Purpose)
