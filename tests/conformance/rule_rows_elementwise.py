"""Rows of the rules' proof: operators that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.random import philox2x32, philox4x32, threefry4x32
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import primitives

from tests.conformance.rule_harness import RuleRow, bools, complexes, floats, ints, keys, words

Function = Callable[..., Any]

POSITIVE = floats(12, low=0.1, high=0.9)
REAL = floats(12)
OTHER = floats(12, low=0.5, high=2.0, seed=1)
WHOLE = ints(12, low=-50, high=50)
COUNT = ints(12, low=0, high=8, seed=1)


def unary(kind: str, argument: Any = REAL, function: Function | None = None) -> RuleRow:
    """A row with one operand; the function is lax's of the same name where none is given."""
    return RuleRow(
        kind=kind, function=function or getattr(lax, kind), arguments=(argument,), rule="i -> i"
    )


def binary(
    kind: str, left: Any = REAL, right: Any = OTHER, function: Function | None = None
) -> RuleRow:
    """A row with two operands."""
    return RuleRow(
        kind=kind,
        function=function or getattr(lax, kind),
        arguments=(left, right),
        rule="i, i -> i",
    )


ONE_OPERAND = (
    unary("abs"),
    unary("acos", POSITIVE),
    unary("acosh", OTHER + 1),
    unary("asin", POSITIVE),
    unary("asinh"),
    unary("atan"),
    unary("atanh", POSITIVE),
    unary("bessel_i0e"),
    unary("bessel_i1e"),
    unary("cbrt"),
    unary("ceil"),
    unary("clz", WHOLE),
    unary("conj", complexes(12)),
    unary("convert_element_type", WHOLE, lambda x: lax.convert_element_type(x, jnp.float32)),
    unary("copy", REAL, jnp.copy),
    unary("cos"),
    unary("cosh"),
    unary("digamma", OTHER),
    unary("erf"),
    unary("erf_inv", POSITIVE),
    unary("erfc"),
    unary("exp"),
    unary("exp2"),
    unary("expm1"),
    unary("floor"),
    unary("imag", complexes(12)),
    unary("integer_pow", REAL, lambda x: lax.integer_pow(x, 3)),
    unary("is_finite"),
    unary("lgamma", OTHER),
    unary("log", POSITIVE),
    unary("log1p", POSITIVE),
    unary("logistic"),
    unary("name", REAL, lambda x: checkpoint_name(x, "kept")),
    unary("neg"),
    unary("not", WHOLE, lax.bitwise_not),
    unary("population_count", WHOLE),
    unary("random_clone", keys(12), jax.random.clone),
    unary("random_seed", WHOLE, jax.vmap(jax.random.key)),
    unary("real", complexes(12)),
    unary("reduce_precision", REAL, lambda x: lax.reduce_precision(x, 5, 3)),
    unary("round"),
    unary("rsqrt", POSITIVE),
    unary("sign"),
    unary("sin"),
    unary("sinh"),
    unary("sqrt", POSITIVE),
    unary("square"),
    unary("stop_gradient", REAL, lambda x: lax.stop_gradient(x)),
    unary("tan"),
    unary("tanh"),
)

TWO_OPERANDS = (
    binary("add"),
    binary("add_any", REAL, OTHER, primitives.add_jaxvals_p.bind),
    binary("and", WHOLE, COUNT, lax.bitwise_and),
    binary("atan2"),
    binary("complex"),
    binary("div"),
    binary("eq", WHOLE, COUNT),
    binary("eq_to", REAL, OTHER, primitives.eq_to_p.bind),
    binary("ge"),
    binary("gt"),
    binary("le"),
    binary("le_to", REAL, OTHER, primitives.le_to_p.bind),
    binary("lt"),
    binary("lt_to", REAL, OTHER, primitives.lt_to_p.bind),
    binary("max"),
    binary("min"),
    binary("mul"),
    binary("mulhi", words(12), words(12, seed=1)),
    binary("ne", WHOLE, COUNT),
    binary("nextafter"),
    binary("or", WHOLE, COUNT, lax.bitwise_or),
    binary("polygamma", COUNT.astype("float32") + 1, OTHER),
    binary("pow", OTHER, REAL),
    binary("random_fold_in", keys(12), WHOLE, jax.vmap(jax.random.fold_in)),
    binary("rem"),
    binary("shift_left", WHOLE, COUNT),
    binary("shift_right_arithmetic", WHOLE, COUNT),
    binary("shift_right_logical", WHOLE, COUNT),
    binary("sub"),
    binary("xor", WHOLE, COUNT, lax.bitwise_xor),
    binary("zeta", OTHER + 1, OTHER),
)

MORE_OPERANDS = (
    RuleRow(
        kind="clamp",
        function=lax.clamp,
        arguments=(REAL - 1, REAL, REAL + 1),
        rule="i, i, i -> i",
    ),
    RuleRow(
        kind="clamp",
        case="scalar-bounds",
        function=lambda x: lax.clamp(-1.0, x, 1.0),
        arguments=(REAL,),
        rule="(), i, () -> i",
    ),
    RuleRow(
        kind="select_n",
        function=lax.select_n,
        arguments=(bools(12), REAL, OTHER),
        rule="i, i, i -> i",
    ),
    RuleRow(
        kind="select_n",
        case="scalar-predicate",
        function=lax.select_n,
        arguments=(bools(), floats(6, 4), floats(6, 4, seed=1)),
        rule="(), i j, i j -> i j",
    ),
    *(
        RuleRow(
            kind=primitive.name,
            function=primitive.bind,
            arguments=tuple(words(12, seed=seed) for seed in range(arity)),
            rule=f"{', '.join('i' * arity)} -> {', '.join('i' * results)}",
        )
        for primitive, arity, results in (
            (primitives.threefry2x32_p, 4, 2),
            (threefry4x32.threefry4x32_p, 8, 4),
            (philox2x32.philox2x32_p, 3, 2),
            (philox4x32.philox4x32_p, 6, 4),
        )
    ),
)

BROADCAST = (
    RuleRow(kind="exp", case="two-dims", function=lax.exp, arguments=(floats(6, 4),)),
    RuleRow(
        kind="add",
        case="scalar-literal",
        function=lambda x: lax.add(x, 2.0),
        arguments=(floats(6, 4),),
        rule="i j, () -> i j",
    ),
    RuleRow(
        kind="mul",
        case="dims-of-size-1",
        function=lax.mul,
        arguments=(floats(6, 1, 4), floats(6, 12, 1, seed=1)),
        rule="i 1 k, i j 1 -> i j k",
    ),
    RuleRow(
        kind="mul",
        case="nothing-to-cut",
        function=lax.mul,
        arguments=(floats(1, 1), floats(1, 1, seed=1)),
        rule="1 1, 1 1 -> 1 1",
    ),
    RuleRow(
        kind="random_fold_in",
        case="one-number",
        function=jax.vmap(lambda key: jax.random.fold_in(key, 7)),
        arguments=(keys(12),),
        rule="i, () -> i",
    ),
)

ROWS: tuple[RuleRow, ...] = (*ONE_OPERAND, *TWO_OPERANDS, *MORE_OPERANDS, *BROADCAST)

SLOW_ROWS: tuple[RuleRow, ...] = (
    binary("igamma", OTHER, POSITIVE),
    binary("igamma_grad_a", OTHER, POSITIVE),
    binary("igammac", OTHER, POSITIVE),
    RuleRow(
        kind="regularized_incomplete_beta",
        function=lax.betainc,
        arguments=(OTHER, OTHER, POSITIVE),
        rule="i, i, i -> i",
    ),
)
"""Series and continued fractions, which compile for a second each."""
