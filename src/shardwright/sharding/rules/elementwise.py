"""Rules of operators that work element by element: every dim passes through.

An operand may be a scalar beside full shapes, and a dim of size 1 beside a longer one.
"""

from __future__ import annotations

from shardwright.ir import Tensor
from shardwright.sharding.factor import OpRule, TensorFactors
from shardwright.sharding.rules.draft import RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView

_UNARY = """
    abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil clz conj
    convert_element_type copy cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor imag
    integer_pow is_finite lgamma log log1p logistic name neg not population_count real
    reduce_precision round rsqrt sign sin sinh sqrt square stop_gradient tan tanh
"""

_NARY = """
    add add_any and atan2 clamp complex div eq eq_to ge gt igamma igamma_grad_a igammac le
    le_to lt lt_to max min mul mulhi ne nextafter or polygamma pow
    regularized_incomplete_beta rem select_n shift_left shift_right_arithmetic
    shift_right_logical sub xor zeta
"""


def elementwise_rule(view: OpView) -> OpRule:
    """The rule ``i j, i j -> i j`` of as many operands and results as there are."""
    draft = RuleDraft()
    shape = view.results[0].shape
    dims = draft.all_pass(shape)
    return draft.rule(
        [broadcast_dims(operand, shape, dims) for operand in view.operands],
        [dims for _ in view.results],
    )


def broadcast_dims(operand: Tensor, shape: tuple[int, ...], dims: TensorFactors) -> TensorFactors:
    """The factors of ``operand`` broadcast to ``shape``: none for a scalar or where it has 1."""
    if operand.shape == shape:
        return dims
    return tuple(
        factors if size == full else ()
        for size, full, factors in zip(operand.shape, shape, dims, strict=False)
    )


RULES: dict[str, RuleFunction] = dict.fromkeys([*_UNARY.split(), *_NARY.split()], elementwise_rule)
