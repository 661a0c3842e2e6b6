"""A plan's JSON form: it reads back equal, stays small, and is written whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.cluster import Axis, Mesh
from shardwright.errors import PlanError
from shardwright.plan import (
    Fallback,
    OpDecision,
    Plan,
    PlannedCollective,
    Provenance,
    Route,
    Stage,
    TensorDecision,
    from_json,
    load,
    save,
    to_json,
)
from shardwright.sharding import Sharding
from tests.unit.plan.samples import PLAN, STAGE

names = st.text(max_size=6)
ids = st.integers(0, 10**6)
seconds = st.floats(allow_nan=False, width=64)
axes = st.lists(names, max_size=3, unique=True).map(tuple)
shardings = st.builds(Sharding, dims=st.lists(axes, max_size=3).map(tuple), unreduced=axes)
choices = st.lists(st.none() | shardings, max_size=3).map(tuple)


def tuples(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=4).map(tuple)


meshes = st.builds(
    Mesh,
    axes=st.lists(
        st.builds(Axis, name=names, size=st.integers(1, 9)), max_size=3, unique_by=lambda a: a.name
    ).map(tuple),
)
stages = st.builds(
    Stage,
    device_ids=tuples(ids),
    mesh=meshes,
    ops=tuples(
        st.builds(OpDecision, op_id=ids, operands=choices, results=choices, partials=choices)
    ),
    tensors=tuples(st.builds(TensorDecision, tensor_id=ids, sharding=shardings)),
    collectives=tuples(
        st.builds(
            PlannedCollective,
            kind=names,
            axes=axes,
            size_bytes=ids,
            runs=ids,
            tensor_id=st.integers(-1, 99),
            op_id=st.integers(-1, 99),
            stands_for=names,
        )
    ),
    routes=tuples(
        st.builds(
            Route,
            shape=tuples(ids),
            dtype=names,
            source=shardings,
            target=shardings,
            via=tuples(shardings),
        )
    ),
)
plans = st.builds(
    Plan,
    graph_fingerprint=names,
    cluster_fingerprint=names,
    cluster_name=names,
    stages=st.lists(stages, min_size=1, max_size=3).map(tuple),
    num_microbatches=ids,
    schedule=names,
    fallbacks=tuples(st.builds(Fallback, op_id=ids, kind=names, source=names, reason=names)),
    provenance=st.builds(
        Provenance,
        method=names,
        options=tuples(st.tuples(names, names)),
        objective_s=seconds,
        lower_bound_s=seconds,
        gap=seconds,
        termination=names,
        notes=tuples(names),
    ),
    schema_version=st.just(1),
)


@settings(deadline=None, max_examples=40)
@given(plans)
def test_what_is_written_reads_back_equal(plan: Plan) -> None:
    text = to_json(plan)
    assert from_json(text) == plan
    assert to_json(from_json(text)) == text


def test_a_plan_survives_a_file(tmp_path: Path) -> None:
    save(PLAN, tmp_path / "plan.json")
    assert load(tmp_path / "plan.json") == PLAN
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_of_many_operators_is_small() -> None:
    ops = tuple(replace(STAGE.ops[i % 2], op_id=i) for i in range(40_000))
    tensors = tuple(
        TensorDecision(tensor_id=i, sharding=Sharding.of(None, "tp")) for i in range(10_000)
    )
    plan = replace(PLAN, stages=(replace(STAGE, ops=ops, tensors=tensors),))
    text = to_json(plan)
    assert len(text) < 2**20
    assert from_json(text) == plan


def test_one_decision_takes_one_line() -> None:
    before, after = (
        to_json(PLAN).splitlines(),
        to_json(replace(PLAN, stages=(replace(STAGE, tensors=STAGE.tensors[:2]),))).splitlines(),
    )
    # The dropped line, and the comma before it.
    assert len(before) == len(after) + 1
    assert len(set(before) - set(after)) == 2


def test_a_failed_write_leaves_the_old_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "plan.json"
    save(PLAN, target)

    def full(handle: int) -> None:
        del handle
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PlanError, match="cannot be written: No space left on device"):
        save(replace(PLAN, cluster_name="another"), target)
    monkeypatch.undo()
    assert load(target) == PLAN
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_every_truncation_is_refused() -> None:
    text = to_json(PLAN)
    for end in range(0, len(text.rstrip()), 7):
        with pytest.raises(PlanError):
            from_json(text[:end])


def test_every_missing_key_is_refused() -> None:
    document = json.loads(to_json(PLAN))
    for holder in (document, document["stages"][0], document["provenance"]):
        for key in list(holder):
            value = holder.pop(key)
            with pytest.raises(PlanError):
                from_json(json.dumps(document))
            holder[key] = value
    assert from_json(json.dumps(document)) == PLAN
