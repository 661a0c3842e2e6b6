"""Dense linear algebra: batch dims pass through, the dims of one matrix must be whole.

Solves with many right-hand sides, and products with a factored matrix, also pass the dim of the
columns (or rows) that do not mix.
"""

from __future__ import annotations

from functools import partial

from shardwright.sharding.factor import Combiner, OpRule
from shardwright.sharding.rules.draft import RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView


def matrix_rule(view: OpView, *, core_rank: int) -> OpRule:
    """The leading dims, which every operand and result shares, pass; all others must be whole.

    Args:
        view: the operator.
        core_rank: dims of one problem in the first operand: 2 for a matrix, 1 for a vector.
    """
    draft = RuleDraft()
    first = view.operands[0]
    batch_rank = first.rank - core_rank
    batch = [draft.passes("b", size) for size in first.shape[:batch_rank]]

    def dims_of(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return batch + [draft.whole(size) for size in shape[batch_rank:]]

    operands = [dims_of(tensor.shape) for tensor in view.operands]
    return draft.rule(operands, [dims_of(tensor.shape) for tensor in view.results])


def right_hand_side_rule(view: OpView, *, core_rank: int, default_left: bool = True) -> OpRule:
    """As ``matrix_rule``; the last operand's free dim, columns of a left-hand solve, passes too.

    Args:
        view: the operator; its last operand and its result have one shape.
        core_rank: dims of one problem in the first operand.
        default_left: the side on which the matrix stands where no attribute says it.
    """
    draft = RuleDraft()
    first, right = view.operands[0], view.operands[-1]
    batch_rank = first.rank - core_rank
    batch = [draft.passes("b", size) for size in first.shape[:batch_rank]]
    matrices = [
        batch + [draft.whole(size) for size in tensor.shape[batch_rank:]]
        for tensor in view.operands[:-1]
    ]
    side = view.attribute("left_side", view.attribute("left", default_left))
    rows, columns = right.shape[batch_rank:]
    if side:
        core = [draft.whole(rows), draft.passes("n", columns)]
    else:
        core = [draft.passes("n", rows), draft.whole(columns)]
    return draft.rule([*matrices, batch + core], [batch + core])


def symmetric_product_rule(view: OpView) -> OpRule:
    """The product of a matrix with its own transpose: the contracted dim reduces by sum.

    Where a second matrix is added to the product, each partial result would add it once more, so
    the contracted dim must be whole.
    """
    matrix, added = view.operands
    draft = RuleDraft()
    batch = [draft.passes("b", size) for size in matrix.shape[:-2]]
    first = [*batch, draft.whole(matrix.shape[-2])]
    if view.attribute("beta") == 0.0:
        first.append(draft.reduces("k", matrix.shape[-1], Combiner.SUM))
    else:
        first.append(draft.whole(matrix.shape[-1]))
    second = [*batch, *(draft.whole(size) for size in added.shape[-2:])]
    result = [*batch, *(draft.whole(size) for size in view.results[0].shape[-2:])]
    return draft.rule([first, second], [result])


_matrix = partial(matrix_rule, core_rank=2)

RULES: dict[str, RuleFunction] = {
    "cholesky": _matrix,
    "cholesky_update": _matrix,
    "eig": _matrix,
    "eigh": _matrix,
    "geqp3": _matrix,
    "geqrf": _matrix,
    "hessenberg": _matrix,
    "householder_product": _matrix,
    "lu": _matrix,
    "lu_pivots_to_permutation": partial(matrix_rule, core_rank=1),
    "ormqr": partial(right_hand_side_rule, core_rank=2),
    "qr": _matrix,
    "schur": _matrix,
    "svd": _matrix,
    "symmetric_product": symmetric_product_rule,
    "triangular_solve": partial(right_hand_side_rule, core_rank=2),
    "tridiagonal": _matrix,
    "tridiagonal_solve": partial(right_hand_side_rule, core_rank=1),
}
