"""Reading compiled text back: sizes, trip counts, asynchronous pairs, own slices, names."""

from __future__ import annotations

import pytest

from shardwright.execute.hlo import element_bytes, num_elements, parse_module
from shardwright.execute.loops import runs_of
from shardwright.execute.read_back import MeasuredCollective, parse_collectives

HEAD = "HloModule jit_step, is_scheduled=true, num_partitions=8\n"
ADD = """
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""


def entry(*lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"{HEAD}{ADD}\nENTRY %main (p: f32[16]) -> f32[16] {{\n{body}\n}}\n"


def only(text: str) -> MeasuredCollective:
    (found,) = parse_collectives(text)
    return found


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ("f32[16,64]{1,0}", (4096,)),
        ("f32[]", (4,)),
        ("bf16[8,128]{1,0:T(8,128)(2,1)}", (2048,)),
        ("pred[3]", (3,)),
        ("s4[6]{0:E(4)}", (6,)),
        ("c64[2]", (16,)),
        ("f8e4m3fn[10]", (10,)),
        ("f32[<=8,2]", (64,)),
        ("token[]", (0,)),
        ("(f32[2]{0}, /*index=1*/bf16[4]{0})", (8, 8)),
        ("((f32[2], f32[2]), (f32[16], f32[8]), u32[])", (16, 96, 4)),
    ],
)
def test_bytes_of_a_shape(shape: str, sizes: tuple[int, ...]) -> None:
    assert element_bytes(shape) == sizes


def test_elements_of_a_shape() -> None:
    assert num_elements("f32[16,64]{1,0}") == 1024
    assert num_elements("(f32[2], s32[])") == 3


SIZES = [
    pytest.param(
        "%r = f32[16,64]{1,0} all-gather(%p), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}},"
        " dimensions={0}, use_global_device_ids=true",
        ("all-gather", 4096, 4),
        id="a gather by its result",
    ),
    pytest.param(
        "%r = f32[4,64]{1,0} reduce-scatter(%p), replica_groups=[2,4]<=[8], dimensions={0},"
        " to_apply=%add",
        ("reduce-scatter", 4096, 4),
        id="a scatter by its input",
    ),
    pytest.param(
        "%r = f32[16] all-reduce(%p), replica_groups={}, to_apply=%add",
        ("all-reduce", 64, 8),
        id="a reduce by its result",
    ),
    pytest.param(
        "%r = (f32[2,1]{1,0}, f32[2,1]{1,0}) all-to-all(%p, %p),"
        " replica_groups={{0,1},{2,3},{4,5},{6,7}}",
        ("all-to-all", 16, 2),
        id="an exchange in pieces is one",
    ),
    pytest.param(
        "%r = f32[16] collective-permute(%p), source_target_pairs={{0,1},{1,0}}",
        ("permute", 64, 2),
        id="a permute",
    ),
]


@pytest.mark.parametrize(("line", "expected"), SIZES)
def test_each_kind_has_its_size(line: str, expected: tuple[str, int, int]) -> None:
    found = only(entry("%p = f32[16] parameter(0)", line))
    assert (found.kind, found.size_bytes, len(found.groups[0])) == expected
    assert found.runs == 1


def test_asynchronous_halves_count_once_by_what_they_give() -> None:
    found = parse_collectives(
        entry(
            "%p = f32[32,1024]{1,0} parameter(0)",
            "%s = ((f32[32,1024]{1,0}, f32[128,256]{1,0}), (f32[256,1024]{1,0},"
            " f32[1024,256]{1,0})) all-gather-start(%p, %p), channel_id=1,"
            " replica_groups=mesh['axis_0'=8,'axis_1'=1] {'axis_0'}, dimensions={0}",
            "%d = (f32[256,1024]{1,0}, f32[1024,256]{1,0}) all-gather-done(%s)",
            "%n = f32[] all-reduce-start(%p), replica_groups=[1,8]<=[8], to_apply=%add",
            "ROOT %m = f32[] all-reduce-done(%n)",
        )
    )
    assert [(c.kind, c.size_bytes) for c in found] == [
        ("all-gather", 4 * 256 * 1024),
        ("all-gather", 4 * 256 * 1024),
        ("all-reduce", 4),
    ]


def test_a_wrapped_asynchronous_collective_is_found_in_its_computation() -> None:
    text = f"""{HEAD}{ADD}
%wrapped (q: f32[16]) -> f32[2] {{
  %q = f32[16] parameter(0)
  ROOT %rs = f32[2] reduce-scatter(%q), replica_groups=[1,8]<=[8], dimensions={{0}}, to_apply=%add
}}

ENTRY %main (p: f32[16]) -> f32[2] {{
  %p = f32[16] parameter(0)
  %start = ((f32[16]), f32[2], s32[]) async-start(%p), calls=%wrapped
  %update = ((f32[16]), f32[2], s32[]) async-update(%start), calls=%wrapped
  ROOT %done = f32[2] async-done(%update), calls=%wrapped
}}
"""
    found = only(text)
    assert (found.kind, found.size_bytes, found.runs) == ("reduce-scatter", 64, 1)


def loops(outer: str, inner: str, condition_constant: str = "") -> str:
    """A collective in a loop in a loop."""
    return f"""{HEAD}{ADD}
%inner_body (i: (s32[], f32[16])) -> (s32[], f32[16]) {{
  %i = (s32[], f32[16]) parameter(0)
  %x = f32[16] get-tuple-element(%i), index=1
  %r = f32[16] all-reduce(%x), replica_groups={{}}, to_apply=%add
  ROOT %t = (s32[], f32[16]) tuple(%i, %r)
}}

%condition (c: (s32[], f32[16])) -> pred[] {{
  %c = (s32[], f32[16]) parameter(0)
  %k = s32[] get-tuple-element(%c), index=0
  {condition_constant}
  ROOT %less = pred[] compare(%k, %k), direction=LT
}}

%outer_body (o: (s32[], f32[16])) -> (s32[], f32[16]) {{
  %o = (s32[], f32[16]) parameter(0)
  ROOT %w = (s32[], f32[16]) while(%o), condition=%condition, body=%inner_body{inner}
}}

ENTRY %main (p: (s32[], f32[16])) -> (s32[], f32[16]) {{
  %p = (s32[], f32[16]) parameter(0)
  ROOT %v = (s32[], f32[16]) while(%p), condition=%condition, body=%outer_body{outer}
}}
"""


def counted(times: int) -> str:
    return f', backend_config={{"known_trip_count":{{"n":"{times}"}}}}'


@pytest.mark.parametrize(
    ("outer", "inner", "constant", "runs", "known"),
    [
        (counted(3), counted(5), "", 15, True),
        (counted(3), "", "%n = s32[] constant(7)", 21, True),
        (counted(3), "", "", 3, False),
        ("", "", "", 1, False),
    ],
    ids=["counted", "from the condition", "inner unknown", "all unknown"],
)
def test_loops_multiply(outer: str, inner: str, constant: str, runs: int, *, known: bool) -> None:
    found = only(loops(outer, inner, constant))
    assert (found.runs, found.runs_known) == (runs, known)


def test_two_calls_of_one_computation_add() -> None:
    text = f"""{HEAD}{ADD}
%shared (q: f32[16]) -> f32[16] {{
  %q = f32[16] parameter(0)
  ROOT %r = f32[16] all-reduce(%q), replica_groups={{}}, to_apply=%add
}}

%never (q: f32[16]) -> f32[16] {{
  %n = f32[16] parameter(0)
  ROOT %z = f32[16] all-reduce(%n), replica_groups={{}}, to_apply=%add
}}

ENTRY %main (p: f32[16], k: s32[]) -> f32[16] {{
  %p = f32[16] parameter(0)
  %k = s32[] parameter(1)
  %a = f32[16] call(%p), to_apply=%shared
  ROOT %b = f32[16] conditional(%k, %a, %a), branch_computations={{%shared, %shared}}
}}
"""
    assert only(text).runs == 3
    assert runs_of(parse_module(text))["never"].times == 0


def sliced(
    *body: str, uses: tuple[str, ...] = ("%own = f32[2] fusion(%r, %id), calls=%cut",)
) -> str:
    """An all-reduce and what is cut from it in a fusion."""
    cut = "\n".join(f"  {line}" for line in body)
    lines = "\n".join(f"  {line}" for line in uses)
    return f"""{HEAD}{ADD}
%cut (v: f32[16], n: u32[]) -> f32[2] {{
  %v = f32[16] parameter(0)
  %n = u32[] parameter(1)
{cut}
}}

ENTRY %main (p: f32[16]) -> f32[2] {{
  %p = f32[16] parameter(0)
  %id = u32[] partition-id()
  %r = f32[16] all-reduce(%p), replica_groups={{}}, to_apply=%add
{lines}
}}
"""


OFFSET = ("%two = u32[] constant(2)", "%at = u32[] multiply(%n, %two)")
CUT = "ROOT %c = f32[2] dynamic-slice(%v, %at), dynamic_slice_sizes={2}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (sliced(*OFFSET, CUT), "reduce-scatter"),
        (
            sliced(*OFFSET, "%w = f32[16] negate(%v)", CUT.replace("%v", "%w")),
            "reduce-scatter",
        ),
        (sliced(*OFFSET, CUT.replace("f32[2]", "f32[4]")), "all-reduce"),
        (sliced("%at = u32[] constant(0)", CUT), "all-reduce"),
        (sliced("ROOT %c = f32[] reduce(%v, %n), to_apply=%add"), "all-reduce"),
        (
            sliced(
                *OFFSET,
                CUT,
                uses=(
                    "%own = f32[2] fusion(%r, %id), calls=%cut",
                    "ROOT %all = (f32[2], f32[16]) tuple(%own, %r)",
                ),
            ),
            "all-reduce",
        ),
    ],
    ids=[
        "its own part",
        "after an elementwise operator",
        "more than its part",
        "the same part everywhere",
        "all of it",
        "its part and all of it",
    ],
)
def test_a_reduce_of_which_each_device_keeps_its_part_is_a_scatter(text: str, kind: str) -> None:
    found = only(text)
    assert (found.kind, found.opcode, found.size_bytes) == (kind, "all-reduce", 64)


def test_a_combined_reduce_is_judged_tensor_by_tensor() -> None:
    text = sliced(
        *OFFSET,
        CUT,
        uses=(
            "%both = (f32[16], f32[]) all-reduce(%p, %p), replica_groups={}, to_apply=%add",
            "%first = f32[16] get-tuple-element(%both), index=0,"
            ' metadata={op_name="jit(step)/plan.op7/dot_general" stack_frame_id=1}',
            "%second = f32[] get-tuple-element(%both), index=1",
            "%own = f32[2] fusion(%first, %id), calls=%cut",
        ),
    )
    found = [c for c in parse_collectives(text) if c.opcode == "all-reduce"][1:]
    assert [(c.kind, c.size_bytes) for c in found] == [("reduce-scatter", 64), ("all-reduce", 4)]
    assert found[0].op_name == "jit(step)/plan.op7/dot_general"


def test_an_offset_may_enter_a_loop_from_outside() -> None:
    text = f"""{HEAD}{ADD}
%body (s: (f32[16], u32[], f32[2])) -> (f32[16], u32[], f32[2]) {{
  %s = (f32[16], u32[], f32[2]) parameter(0)
  %x = f32[16] get-tuple-element(%s), index=0
  %at = u32[] get-tuple-element(%s), index=1
  %r = f32[16] all-reduce(%x), replica_groups={{}}, to_apply=%add
  %own = f32[2] dynamic-slice(%r, %at), dynamic_slice_sizes={{2}}
  ROOT %t = (f32[16], u32[], f32[2]) tuple(%x, %at, %own)
}}

%condition (c: (f32[16], u32[], f32[2])) -> pred[] {{
  %c = (f32[16], u32[], f32[2]) parameter(0)
  ROOT %go = pred[] constant(true)
}}

ENTRY %main (p: f32[16], y: f32[2]) -> (f32[16], u32[], f32[2]) {{
  %p = f32[16] parameter(0)
  %y = f32[2] parameter(1)
  %id = u32[] SOURCE
  %start = (f32[16], u32[], f32[2]) tuple(%p, %id, %y)
  ROOT %w = (f32[16], u32[], f32[2]) while(%start), condition=%condition, body=%body
}}
"""
    assert only(text.replace("SOURCE", "partition-id()")).kind == "reduce-scatter"
    assert only(text.replace("SOURCE", "constant(4)")).kind == "all-reduce"


TABLES = """
FileNames
1 "/home/user/model.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=88 end_line=88 column=3 end_column=3}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

"""


@pytest.mark.parametrize(
    ("metadata", "source"),
    [
        ('{op_name="jit(f)/dot_general" stack_frame_id=1}', "model.py:88"),
        ('{op_name="jit(f)/dot_general" source_file="/a/b.py" source_line=7}', "b.py:7"),
        ('{op_name="jit(f)/dot_general"}', ""),
    ],
)
def test_names_and_lines_are_the_users(metadata: str, source: str) -> None:
    text = entry(
        "%p = f32[16] parameter(0)",
        f"%r = f32[16] all-reduce(%p), replica_groups={{}}, to_apply=%add, metadata={metadata}",
    ).replace(ADD, TABLES + ADD)
    found = only(text)
    assert (found.op_name, found.source) == ("jit(f)/dot_general", source)


def test_a_collective_without_a_name_goes_by_its_makers() -> None:
    text = entry(
        "%p = f32[16] parameter(0)",
        '%dot = f32[16] negate(%p), metadata={op_name="jit(step)/plan.op3/neg"}',
        "%s = ((f32[16]), f32[2]) reduce-scatter-start(%dot), replica_groups=[1,8]<=[8],"
        " dimensions={0}, to_apply=%add",
        "ROOT %d = f32[2] reduce-scatter-done(%s)",
    )
    assert only(text).op_name == "jit(step)/plan.op3/neg"


def test_text_without_percent_signs_is_read_too() -> None:
    text = """HloModule m, num_partitions=4

add {
  lhs = f32[] parameter(0)
  rhs = f32[] parameter(1)
  ROOT add = f32[] add(lhs, rhs)
}

ENTRY main {
  input = f32[128,32]{0,1} parameter(0)
  ROOT r = f32[128,32]{0,1} all-reduce(f32[128,32]{0,1} input), replica_groups={}, to_apply=add
}
"""
    found = only(text)
    assert (found.size_bytes, len(found.groups[0])) == (16384, 4)
