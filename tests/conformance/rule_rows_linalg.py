"""Rows of the rules' proof: ragged products, Fourier transforms, linear algebra, opaque calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax.linalg import geqp3, geqrf
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.lax import linalg

from tests.conformance.rule_harness import RuleRow, complexes, floats
from tests.conformance.rule_shards_indexing import fft_shard, geqp3_shard, ragged_shard

FOREIGN = "nothing tells the rule what the code does"


def _row(function: Any, kind: str, case: str, *arguments: Any, **more: Any) -> RuleRow:
    return RuleRow(kind=kind, case=case, function=function, arguments=arguments, **more)


SIZES = np.array([3, 0, 5, 2], np.int32)
SIZES_OF_EACH = np.array([[3, 0, 5, 2], [1, 4, 1, 6], [0, 0, 12, 0], [2, 2, 2, 2]], np.int32)


def _ragged(case: str, numbers: Any, rule: str, *arguments: Any, **more: Any) -> RuleRow:
    dims = lax.RaggedDotDimensionNumbers(*numbers)
    return _row(
        lambda a, b, sizes: lax.ragged_dot_general(a, b, sizes, dims),
        "ragged_dot_general",
        case,
        *arguments,
        rule=rule,
        local=ragged_shard,
        **more,
    )


RAGGED = (
    _ragged(
        "experts",
        ((((1,), (1,)), ((), ())), (0,), (0,)),
        "m k, g k n, w -> m n",
        floats(12, 6),
        floats(4, 6, 4, seed=1),
        SIZES,
    ),
    _ragged(
        "input-gradient",
        ((((1,), (2,)), ((), ())), (0,), (0,)),
        "m k, g n k, w -> m n",
        floats(12, 4),
        floats(4, 6, 4, seed=1),
        SIZES,
    ),
    _ragged(
        "weight-gradient",
        ((((0,), (0,)), ((), ())), (0,), ()),
        "m x, m n, w -> g x n",
        floats(12, 6),
        floats(12, 4, seed=1),
        SIZES,
    ),
    _ragged(
        "batched",
        ((((2,), (2,)), ((0,), (0,))), (1,), (1,)),
        "b m k, b g k n, b w -> b m n",
        floats(4, 12, 6),
        floats(4, 4, 6, 4, seed=1),
        SIZES_OF_EACH,
    ),
    _ragged(
        "outer-rows",
        ((((2,), (1,)), ((), ())), (1,), (0,)),
        "x m k, g k n, x w -> x m n",
        floats(4, 12, 6),
        floats(4, 6, 4, seed=1),
        SIZES_OF_EACH,
    ),
    _ragged(
        "outer-sum",
        ((((0, 1), (0, 1)), ((), ())), (1,), ()),
        "k m x, k m n, k w -> g x n",
        floats(4, 12, 6),
        floats(4, 12, 4, seed=1),
        SIZES_OF_EACH,
    ),
    _ragged(
        "ragged-batch",
        ((((2,), (1,)), ((0,), (0,))), (0,), ()),
        "b x k, b k n, w -> b x n",
        floats(12, 4, 6),
        floats(12, 6, 4, seed=1),
        SIZES,
        conservative={"w": "the groups make no difference to a product over a ragged batch"},
    ),
)

SPECTRAL = (
    _row(jnp.fft.fft, "fft", "complex", complexes(4, 12), rule="b w -> b w2", local=fft_shard),
    _row(
        jnp.fft.rfft2, "fft", "real-2d", floats(4, 6, 4), rule="b w w2 -> b w3 w4", local=fft_shard
    ),
    _row(jnp.fft.irfft, "fft", "to-real", complexes(4, 4), rule="b w -> b w2", local=fft_shard),
)

MATRICES = floats(6, 4, 4) + 8 * np.eye(4, dtype=np.float32)
SYMMETRIC = MATRICES + MATRICES.transpose(0, 2, 1)
TALL = floats(6, 6, 4)
COLUMNS = floats(6, 4, 12, seed=1)
ROWS_OF = floats(6, 12, 4, seed=1)
VECTORS = floats(6, 4, seed=2)
DIAGONAL = VECTORS + 6
ADDED = floats(6, 6, 6, seed=1)


def _linalg(
    kind: str, function: Any, rule: str, *arguments: Any, case: str = "", **more: Any
) -> RuleRow:
    return _row(function, kind, case, *arguments, rule=rule, **more)


def _solve(*, left: bool) -> Any:
    return lambda a, b: linalg.triangular_solve(a, b, left_side=left, lower=True)


LINALG = (
    _linalg("cholesky", linalg.cholesky, "b w w2 -> b w3 w4", SYMMETRIC),
    _linalg(
        "triangular_solve",
        _solve(left=True),
        "b w w2, b w3 n -> b w3 n",
        MATRICES,
        COLUMNS,
        case="left",
    ),
    _linalg(
        "triangular_solve",
        _solve(left=False),
        "b w w2, b n w3 -> b n w3",
        MATRICES,
        ROWS_OF,
        case="right",
    ),
    _linalg("qr", lambda a: linalg.qr(a, full_matrices=False), "b w w2 -> b w3 w4, b w5 w6", TALL),
    _linalg(
        "qr",
        lambda a: linalg.qr(a, pivoting=True, full_matrices=False),
        "b w w2 -> b w3 w4, b w5 w6, b w7",
        TALL,
        case="pivoting",
    ),
    _linalg("geqrf", geqrf, "b w w2 -> b w3 w4, b w5", TALL),
    _linalg(
        "geqp3",
        geqp3,
        "b w w2, b w3 -> b w4 w5, b w6, b w7",
        TALL,
        np.zeros((6, 4), np.int32),
        local=geqp3_shard,
    ),
    _linalg(
        "householder_product",
        linalg.householder_product,
        "b w w2, b w3 -> b w4 w5",
        TALL,
        VECTORS,
    ),
    _linalg(
        "ormqr",
        lambda a, t, c: linalg.ormqr(a, t, c),
        "b w w2, b w3, b w4 n -> b w4 n",
        TALL,
        VECTORS,
        floats(6, 6, 12, seed=1),
    ),
    _linalg("eigh", linalg.eigh, "b w w2 -> b w3 w4, b w5", SYMMETRIC),
    _linalg("eig", linalg.eig, "b w w2 -> b w3, b w4 w5, b w6 w7", MATRICES),
    _linalg("lu", linalg.lu, "b w w2 -> b w3 w4, b w5, b w6", MATRICES),
    _linalg(
        "lu_pivots_to_permutation",
        lambda p: linalg.lu_pivots_to_permutation(p, 4),
        "b w -> b w2",
        np.array([[1, 2, 3, 3], [3, 3, 3, 3], [0, 1, 2, 3], [2, 2, 3, 3]], np.int32),
    ),
    _linalg(
        "svd",
        lambda a: linalg.svd(a, full_matrices=False),
        "b w w2 -> b w3, b w4 w5, b w6 w7",
        TALL,
    ),
    _linalg(
        "svd", lambda a: linalg.svd(a, compute_uv=False), "b w w2 -> b w3", TALL, case="values"
    ),
    _linalg("schur", linalg.schur, "b w w2 -> b w3 w4, b w5 w6", MATRICES),
    _linalg("hessenberg", linalg.hessenberg, "b w w2 -> b w3 w4, b w5", MATRICES),
    _linalg("tridiagonal", linalg.tridiagonal, "b w w2 -> b w3 w4, b w5, b w6, b w7", SYMMETRIC),
    _linalg(
        "tridiagonal_solve",
        linalg.tridiagonal_solve,
        "b w, b w2, b w3, b w4 n -> b w4 n",
        VECTORS,
        DIAGONAL,
        VECTORS,
        COLUMNS,
    ),
    _linalg(
        "symmetric_product",
        linalg.symmetric_product,
        "b w k, b w2 w3 -> b w4 w5",
        TALL,
        ADDED,
        case="alone",
    ),
    _linalg(
        "symmetric_product",
        lambda a, c: linalg.symmetric_product(a, c, beta=0.5),
        "b w w2, b w3 w4 -> b w5 w6",
        TALL,
        ADDED + ADDED.transpose(0, 2, 1),
        case="added",
    ),
    _linalg(
        "cholesky_update", linalg.cholesky_update, "w w2, w3 -> w4 w5", MATRICES[0], VECTORS[0]
    ),
)


def _double(x: Any) -> Any:
    return 2 * np.asarray(x)


def _double_kernel(read: Any, write: Any) -> None:
    write[...] = 2 * read[...]


def _opaque(kind: str, function: Any) -> RuleRow:
    excused: Mapping[str, str] = dict.fromkeys(("w", "w2"), FOREIGN)
    return _row(function, kind, "", floats(4), rule="w -> w2", opaque=True, conservative=excused)


FOUR = jax.ShapeDtypeStruct((4,), jnp.float32)

OPAQUE = (
    _opaque("pure_callback", lambda x: jax.pure_callback(_double, FOUR, x)),
    _opaque("io_callback", lambda x: io_callback(_double, FOUR, x)),
    _opaque("pallas_call", pl.pallas_call(_double_kernel, out_shape=FOUR, interpret=True)),
)

ROWS: tuple[RuleRow, ...] = (*RAGGED, *SPECTRAL, *OPAQUE)

SLOW_ROWS: tuple[RuleRow, ...] = LINALG
"""Each compiles a dozen library calls, and few training steps hold one."""
