"""Every word of the errors about plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardwright.errors import PlanError
from shardwright.plan import OpDecision, Plan, load, save, to_json, verify_plan
from shardwright.sharding import Sharding
from tests.unit.plan.samples import (
    GRAPH,
    PLAN,
    STAGE,
    TOPOLOGY,
    S,
    with_op,
    with_resting,
    with_stage,
)

AGAIN = "plan again for this step; a saved plan fits one graph only"


def said(call: Callable[[], object]) -> str:
    with pytest.raises(PlanError) as caught:
        call()
    assert caught.value.exit_code == 2
    return str(caught.value)


VERIFY = {
    "another graph": (
        replace(PLAN, graph_fingerprint="0123456789abcdef"),
        "the plan is stale: it was made for graph 0123456789abcdef, this step is graph"
        f" {GRAPH.fingerprint}\n"
        "  where  the graph of step differs: its operators, shapes, types or roles\n"
        f"  try    {AGAIN}",
    ),
    "another cluster": (
        replace(PLAN, cluster_fingerprint="0123456789abcdef", cluster_name="two hosts"),
        'the plan is stale: it was made for cluster 0123456789abcdef ("two hosts"), this is'
        f' cluster {TOPOLOGY.fingerprint} ("one host")\n'
        "  where  the cluster differs: its devices, links or reserve\n"
        "  try    plan again for this cluster",
    ),
    "too few devices": (
        with_stage(device_ids=(0, 1, 2)),
        "a stage lists 3 devices; its mesh dp=2,tp=4 holds 8\n  try    plan again",
    ),
    "a device twice": (
        with_stage(device_ids=(0, 1, 2, 3, 4, 5, 5, 5)),
        "a stage names device 5 more than once\n  try    plan again",
    ),
    "tensors twice": (
        with_stage(tensors=STAGE.tensors * 2),
        "a stage names tensor 0 more than once, and 2 others\n  try    plan again",
    ),
    "a device too many": (
        with_stage(device_ids=(0, 1, 2, 3, 4, 5, 6, 11)),
        "a stage uses device 11; one host has 8 devices, numbered from 0\n"
        "  try    plan again for this cluster",
    ),
    "an unknown operator": (
        with_op(OpDecision(op_id=7, operands=(), results=())),
        "the plan decides operator 7; the graph step has 2 operators and none of that number\n"
        f"  try    {AGAIN}",
    ),
    "an operand too few": (
        with_op(OpDecision(op_id=0, operands=(None,), results=(None,))),
        "the plan decides 1 operands of dot_general %0; it has 2\n"
        "  where  model.py:88, captured as mlp\n"
        f"  try    {AGAIN}",
    ),
    "an unknown tensor": (
        with_stage(tensors=(replace(STAGE.tensors[0], tensor_id=12),)),
        "the plan decides tensor 12; the graph step has 4 tensors, numbered from 0\n"
        f"  try    {AGAIN}",
    ),
    "another rank": (
        with_op(OpDecision(op_id=0, operands=(S("dp"), None), results=(None,))),
        "[dp] describes 1 dims; x as operand 0 of dot_general has 2\n"
        "  where  model.py:88, captured as mlp\n"
        "  try    plan again",
    ),
    "an unknown axis": (
        with_op(OpDecision(op_id=1, operands=(S("dpp", None),), results=(None,))),
        '[dpp, -] of params.w as operand 0 of neg names the axis "dpp"; the mesh is dp=2,tp=4\n'
        "  where  model.py:90\n"
        '  try    did you mean "dp"?',
    ),
    "an axis twice": (
        with_resting(2, S("dp", "dp")),
        '[dp, dp] of %2 as its resting place names the axis "dp" 2 times; an axis cuts a tensor'
        " once\n  try    plan again",
    ),
    "an unknown axis of a collective": (
        with_stage(collectives=(replace(STAGE.collectives[0], axes=("ep",)),)),
        'a planned all-gather spans the axis "ep"; the mesh is dp=2,tp=4\n'
        "  where  the result\n"
        '  try    did you mean "tp" or "dp"?',
    ),
    "an unknown axis of a route": (
        with_stage(routes=(replace(STAGE.routes[0], via=(S("ep", None),)),)),
        '[ep, -] of a float32[8, 16] on its way as a reshard names the axis "ep"; the mesh is'
        ' dp=2,tp=4\n  try    did you mean "tp" or "dp"?',
    ),
    "a partial input": (
        with_resting(1, Sharding(dims=((), ()), unreduced=("tp",))),
        "the input x rests unreduced: [-, -] unreduced tp\n  try    plan again",
    ),
    "an uneven input": (
        with_resting(1, S(("dp", "tp"), None)),
        "dim 0 of the input x has size 6; dp+tp cuts it in 8, which does not divide it\n"
        "  try    leave that dim whole, or pad it to a multiple",
    ),
    "state that moves": (
        with_resting(3, S("dp", None)),
        "the state params.w enters as [-, tp] and leaves as [dp, -]; a step must return its state"
        " as it took it\n  try    plan again",
    ),
}


@pytest.mark.parametrize("case", VERIFY)
def test_a_plan_that_does_not_fit(case: str) -> None:
    plan, text = VERIFY[case]
    assert said(lambda: verify_plan(plan, GRAPH, TOPOLOGY)) == text


RESTORE = "plan again, or restore the file from a copy"
TEXT = to_json(PLAN)


def line_of(part: str) -> int:
    return TEXT[: TEXT.index(part)].count("\n") + 1


DAMAGE = {
    "cut short": (
        TEXT[: TEXT.index('"tensors"') + 20],
        "the plan is damaged: Expecting value at line {last} of {last}, column 8"
        " (the file ends there)",
        ":{last}",
    ),
    "not JSON": (
        TEXT.replace('"schedule": "none"', '"schedule": none'),
        "the plan is damaged: Expecting value at line {schedule} of {total}, column 14"
        " (more text follows)",
        ":{schedule}",
    ),
    "too deep": (
        "[" * 100_000,
        "the plan is damaged: its brackets nest too deep",
        "",
    ),
    "another key": (
        TEXT.replace('"schedule"', '"scheduler"'),
        'the plan is damaged: the document has an unknown key "scheduler"; did you mean "schedule"'
        ' or "schema_version"?',
        ", key the document",
    ),
    "a missing key": (
        TEXT.replace(' "schedule": "none",\n', ""),
        'the plan is damaged: the document lacks the key "schedule"',
        ", key the document",
    ),
    "another type": (
        TEXT.replace('"num_microbatches": 1', '"num_microbatches": "one"'),
        "the plan is damaged: num_microbatches is 'one', not a whole number",
        ", key num_microbatches",
    ),
    "a row out of its table": (
        TEXT.replace("    [1,1]\n   ],", "    [1,9]\n   ],"),
        "the plan is damaged: stages[0].ops[1][1] is 9; it must be from 0 to 1",
        ", key stages[0].ops[1][1]",
    ),
    "a negative number": (
        TEXT.replace('"num_microbatches": 1', '"num_microbatches": -1'),
        "the plan is damaged: num_microbatches is -1; it must be 0 or more",
        ", key num_microbatches",
    ),
    "a short row": (
        TEXT.replace('[1,"neg","model.py:90"', '["neg","model.py:90"'),
        "the plan is damaged: fallbacks[0] has 3 elements, not 4",
        ", key fallbacks[0]",
    ),
    "a short decision": (
        TEXT.replace("[[null],[1],[]]", "[[null],[1]]"),
        "the plan is damaged: stages[0].decisions[1] has 2 elements, not 3",
        ", key stages[0].decisions[1]",
    ),
    "a short route": (
        TEXT.replace('[8,16],"float32"', '"float32"'),
        "the plan is damaged: stages[0].routes[0] has 4 elements, not 5",
        ", key stages[0].routes[0]",
    ),
    "not a list": (
        TEXT.replace('"device_ids": [0,1,2,3,4,5,6,7]', '"device_ids": 8'),
        "the plan is damaged: stages[0].device_ids is 8, not a list",
        ", key stages[0].device_ids",
    ),
    "a broken mesh": (
        TEXT.replace('["tp",4]', '["tp",0]'),
        'the plan is damaged: stages[0].mesh is no mesh: mesh axis "tp" has size 0; sizes start'
        " at 1",
        ", key stages[0].mesh",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_names_the_damage(case: str, tmp_path: Path) -> None:
    text, what, where = DAMAGE[case]
    assert text != TEXT
    path = tmp_path / "plan.json"
    path.write_text(text)
    numbers = {
        "last": text.count("\n") + 1,
        "schedule": line_of('"schedule"'),
        "total": TEXT.count("\n") + 1,
    }
    expected = f"{what}\n  where  {path}{where}\n  try    {RESTORE}".format(**numbers)
    assert said(lambda: load(path)) == expected


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"{\xff}")
    assert said(lambda: load(path)) == (
        f"the plan is damaged: byte 1 is not UTF-8 text\n  where  {path}\n  try    {RESTORE}"
    )


def test_a_file_that_is_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"name": "another"}')
    assert said(lambda: load(path)) == (
        'not a plan: there is no "format": "shardwright-plan" at its top\n'
        f"  where  {path}\n"
        "  try    `shardwright plan --out FILE` writes one"
    )


def test_a_file_of_another_schema(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(TEXT.replace('"schema_version": 1', '"schema_version": 2'))
    assert said(lambda: load(path)) == (
        "the plan has schema version 2; this release reads 1\n"
        f"  where  {path}\n"
        "  try    plan again, or use the release that wrote it"
    )


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert said(lambda: load(path)) == (
        "the plan cannot be read: No such file or directory\n"
        f"  where  {path}\n"
        "  try    `shardwright plan --out FILE` writes one"
    )


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none" / "plan.json"

    def write() -> Plan | None:
        return save(PLAN, path)

    assert said(write) == (
        "the plan cannot be written: No such file or directory\n"
        f"  where  {path}\n"
        "  try    a folder that exists and may be written"
    )
