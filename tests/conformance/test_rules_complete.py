"""No rule without a proof, and no primitive of JAX without a rule or a reason."""

from __future__ import annotations

import importlib
import pkgutil

import jax._src.lax
import jax._src.lax.control_flow
import jax._src.random
import pytest
from jax._src.interpreters import batching
from jax.extend.core import Primitive, primitives

from shardwright.sharding.rules import opaque, random, registered_kinds
from shardwright.sharding.rules.registry import merge_families
from tests.conformance.test_rules import ROWS, SLOW_ROWS

REGIONS = """
    call call_hi_primitive call_hi_primitive_linearized closed_call composite cond
    custom_jvp_call custom_jvp_call_jaxpr custom_lin custom_vjp_call custom_vmap_call
    eval_jaxpr jit platform_index remat2 remat_opt scan shard_map stage while
"""
"""They run bodies: capture inlines them or keeps them as regions, whose operators have rules."""

COLLECTIVES = """
    all_gather all_gather_done all_gather_invariant all_gather_reduced all_gather_reduced_start
    all_gather_start all_to_all all_to_all_done all_to_all_start axis_index pbroadcast
    pbroadcast_done pbroadcast_start pmax pmin ppermute ppermute_done ppermute_start precv preduced
    psend psum psum_done psum_invariant psum_invariant_start psum_start pvary ragged_all_to_all
    reduce_scatter reduce_scatter_done reduce_scatter_start reduced_vary_cast_p unreduced_psum
    unreduced_psum_start unreduced_reduce_scatter unreduced_reduce_scatter_start
    vary_unreduced_cast_p
"""
"""They speak of mesh axes, so the code around them is parallel already."""

REFERENCES = """
    accum_grad_in_ref addupdate box_get box_set broadcast_to create_linear empty_ref free_ref
    freeze get log_extend log_read new_box new_log new_ref pin run_state swap unpin
"""
"""They read and write mutable references, which are no values of a graph."""

LAYOUT = "compute_on layout_constraint reshard shard_alike xla_metadata_value"
"""They say where or how values lie, which is for the plan to say."""

NOTHING_TO_CUT = """
    after_all check create_token dce_sink empty empty2 tie unreachable zeros_like
"""
"""Tokens, markers, and values that hold nothing yet or are gone before a step is traced."""

EXTENDED = "from_edtype to_edtype"
"""Views into element types that a user made."""

WITHOUT_RULE = {
    kind
    for kinds in (REGIONS, COLLECTIVES, REFERENCES, LAYOUT, NOTHING_TO_CUT, EXTENDED)
    for kind in kinds.split()
}

PROVEN = {row.kind for row in (*ROWS, *SLOW_ROWS)}


def all_primitives() -> dict[str, Primitive]:
    """The primitives of jax.lax, jax.random and the public list, by name."""
    modules = [primitives]
    for package in (jax._src.lax, jax._src.lax.control_flow, jax._src.random):
        for info in pkgutil.iter_modules(package.__path__):
            modules.append(importlib.import_module(f"{package.__name__}.{info.name}"))
    values = [value for module in modules for value in vars(module).values()]
    return {value.name: value for value in values if isinstance(value, Primitive)}


def is_elementwise(primitive: Primitive) -> bool:
    """Whether JAX itself batches the primitive as one that works element by element."""
    batcher = batching.fancy_primitive_batchers.get(primitive)
    return getattr(batcher, "func", None) in (
        batching.broadcast_batcher,
        batching.vectorized_batcher,
    )


PRIMITIVES = all_primitives()


def test_jax_has_the_primitives_that_this_file_looks_for() -> None:
    assert len(PRIMITIVES) > 200
    assert {"add", "dot_general", "mulhi", "scatter-add", "threefry2x32"} <= PRIMITIVES.keys()


def test_every_rule_has_a_row_or_is_a_recorded_fallback() -> None:
    assert set(registered_kinds()) - PROVEN - set(opaque.RULES) == set()


def test_every_row_is_of_a_registered_kind() -> None:
    assert PROVEN - set(registered_kinds()) == set()


def test_every_primitive_has_a_rule_or_a_reason_for_having_none() -> None:
    assert PRIMITIVES.keys() - set(registered_kinds()) - WITHOUT_RULE == set()


def test_no_primitive_with_a_rule_is_excused_from_having_one() -> None:
    assert WITHOUT_RULE & set(registered_kinds()) == set()


def test_every_elementwise_primitive_of_jax_has_a_rule() -> None:
    elementwise = {name for name, primitive in PRIMITIVES.items() if is_elementwise(primitive)}
    assert len(elementwise) > 80
    assert elementwise - set(registered_kinds()) - WITHOUT_RULE == set()


def test_no_two_rows_have_one_name() -> None:
    labels = [row.label for row in (*ROWS, *SLOW_ROWS)]
    assert sorted({label for label in labels if labels.count(label) > 1}) == []


def test_two_families_cannot_describe_one_kind() -> None:
    with pytest.raises(ValueError, match=r"two families of rules describe iota"):
        merge_families((random.RULES, {"iota": random.position_rule}))
