"""Rows for matrix factorisations: value against jax, derivatives of what does not depend on the choice of basis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.primitives.linalg import eigen
from tests.operations.row import COMPLEX, FLOATS, Operation

DTYPES = (*FLOATS, *COMPLEX)
WIDE = ("float64", "complex128")  # of variants
RTOL = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-10, "complex128": 1e-10}
Draw = Callable[[np.random.Generator, np.dtype[Any]], np.ndarray]


def numbers(*shape: int) -> Draw:
    def draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray:
        x = rng.normal(size=shape)
        return np.asarray(x + 1j * rng.normal(size=shape) if dtype.kind == "c" else x).astype(dtype)

    return draw


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def hermitian(*shape: int) -> Draw:
    """Hermitian matrices with eigenvalues near 1, 2, ..., and so not near each other."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray:
        q = np.linalg.qr(numbers(*shape)(rng, np.dtype("c16" if dtype.kind == "c" else "f8")))[0]
        w = np.arange(1, shape[-1] + 1) + rng.uniform(-0.2, 0.2, shape[:-1])
        return ((q * w[..., None, :]) @ adjoint(q)).astype(dtype)

    return draw


def separated(*shape: int) -> Draw:
    """Matrices with well separated singular values."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray:
        u, _, vh = np.linalg.svd(numbers(*shape)(rng, dtype), full_matrices=False)
        s = np.arange(1, min(shape[-2:]) + 1)[::-1] + rng.uniform(-0.2, 0.2, u.shape[:-2] + u.shape[-1:])
        return ((u * s[..., None, :]) @ vh).astype(dtype)

    return draw


def triangular(*shape: int) -> Draw:
    """Matrices of which both triangles are well conditioned."""
    return lambda rng, dtype: (numbers(*shape)(rng, dtype) / 4 + 2 * np.eye(shape[-1])).astype(dtype)


def row(name: str, fun: Any, reference: Any, *draws: Draw, dtypes: Any = DTYPES, **more: Any) -> Operation:
    return Operation(
        name,
        fun,
        lambda *xs: jax.tree.map(np.asarray, reference(*xs)),
        lambda rng, dtype: tuple(draw(rng, dtype) for draw in draws),
        dtypes=dtypes,
        rtol=RTOL,
        **more,
    )


def same(name: str, label: str, *draws: Draw, **options: Any) -> Operation:
    """A function of both libraries' `lax.linalg`."""
    more = {
        key: options.pop(key)
        for key in ("dtypes", "differentiable", "corners", "signed_zeros")
        if key in options
    }
    ours, theirs = getattr(lax.linalg, name), getattr(jax.lax.linalg, name)

    def as_tuple(y: Any) -> Any:
        return tuple(y) if isinstance(y, list) else y

    return row(
        label,
        lambda *xs: as_tuple(ours(*xs, **options)),
        lambda *xs: as_tuple(theirs(*xs, **options)),
        *draws,
        **more,
    )


def columns(m: Any, v: Any, k: int) -> tuple[Any, Any]:
    """What the signs or phases of the columns of `v` do not change.

    That is the sum of j v_j v_j^H over the first k columns, and the projector on the space of the others.
    """
    weights = np.arange(1, k + 1).astype(v.dtype)
    first, rest = v[..., :k], v[..., k:]
    return tuple(
        m.matmul(a, m.conj(m.swapaxes(b, -1, -2))) for a, b in ((first * weights, first), (rest, rest))
    )


def eigh_row(lower: bool) -> Operation:
    def ours(x: Any) -> Any:
        v, w = lax.linalg.eigh(x, lower=lower, symmetrize_input=False)
        return w, columns(dnp, v, 3)

    def numpys(x: Any) -> Any:
        w, v = np.linalg.eigh(x, "L" if lower else "U")
        return w, columns(np, v, 3)

    name = f"eigh of {'lower' if lower else 'upper'}"
    return row(name, ours, numpys, hermitian(2, 3, 3), dtypes=DTYPES if lower else WIDE)


def svd_row(m: int, n: int, full_matrices: bool) -> Operation:
    k = min(m, n)

    def described(lib: Any, u: Any, s: Any, vh: Any) -> Any:
        product = lib.matmul(u[..., :k] * s[..., None, :], vh[..., :k, :])
        return s, columns(lib, u, k), columns(lib, lib.conj(lib.swapaxes(vh, -1, -2)), k), product

    return row(
        f"svd {m} by {n}{', full' * full_matrices}",
        lambda x: described(dnp, *lax.linalg.svd(x, full_matrices=full_matrices)),
        lambda x: described(np, *np.linalg.svd(x, full_matrices=full_matrices)),
        separated(2, m, n),
        dtypes=DTYPES if (m, n, full_matrices) == (4, 2, False) else WIDE,
    )


def qr_row(m: int, n: int, full_matrices: bool) -> Operation:
    k = min(m, n)

    def described(lib: Any, q: Any, r: Any) -> Any:
        return q[..., :k], r, columns(lib, q, k)[1]

    return row(
        f"qr {m} by {n}{', full' * full_matrices}",
        lambda x: described(dnp, *lax.linalg.qr(x, full_matrices=full_matrices)),
        lambda x: described(np, *np.linalg.qr(x, "complete" if full_matrices else "reduced")),
        numbers(2, m, n),
        dtypes=DTYPES if m == n else WIDE,
    )


def eig_row() -> Operation:
    def described(lib: Any, w: Any, left: Any, right: Any) -> Any:
        return w, columns(lib, left, 3), columns(lib, right, 3)

    return row(
        "eig",
        lambda x: described(dnp, *lax.linalg.eig(x)),
        lambda x: described(np, *map(np.asarray, jax.lax.linalg.eig(x))),
        numbers(2, 3, 3),
    )


def pivoted_qr_row(m: int, n: int) -> Operation:
    k = min(m, n)

    def described(lib: Any, q: Any, r: Any, order: Any) -> Any:
        return q[..., :k], r, order, columns(lib, q, k)[1]

    return row(
        f"pivoted qr {m} by {n}",
        lambda x: described(dnp, *lax.linalg.qr(x, pivoting=True)),
        lambda x: described(np, *map(np.asarray, jax.lax.linalg.qr(x, pivoting=True))),
        numbers(2, m, n),
        dtypes=DTYPES if m == n else WIDE,
        signed_reference=False,
    )


def form_row(name: str, draw: Draw, **options: Any) -> Operation:
    """A form under unitary similarity, as LAPACK gives it."""
    empty_batch = {"corners": lambda dtype: [(np.zeros((0, 2, 2), dtype),)]}
    return same(name, name, draw, differentiable=False, dtypes=DTYPES, **empty_batch, **options)


def ormqr_row(left: bool, transpose: bool) -> Operation:
    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[np.ndarray, ...]:
        factors, taus = np.linalg.qr(numbers(2, 4, 3)(rng, dtype), "raw")
        a = np.ascontiguousarray(np.swapaxes(factors, -1, -2)).astype(dtype)
        return a, taus.astype(dtype), numbers(2, *((4, 2) if left else (2, 4)))(rng, dtype)

    def whole(a: Any, taus: Any, c: Any) -> Any:
        square = np.concatenate([a, np.zeros((2, 4, 1), a.dtype)], -1)
        q = np.asarray(jax.lax.linalg.householder_product(square, taus))
        q = adjoint(q) if transpose else q
        return q @ c if left else c @ q

    return Operation(
        f"ormqr {left} {transpose}",
        lambda *xs: lax.linalg.ormqr(*xs, left=left, transpose=transpose),
        whole,
        args,
        DTYPES if left else WIDE,
        differentiable=False,
        rtol=RTOL,
    )


def solve_row(shape: tuple[int, ...], *flags: str) -> Operation:
    options: dict[str, Any] = dict.fromkeys(flags, True) | {"dtypes": WIDE if flags else DTYPES}
    label = " ".join(["triangular_solve", str(len(shape)), *flags])
    return same("triangular_solve", label, triangular(*shape[:-2], 3, 3), numbers(*shape), **options)


def householder_row(m: int, n: int) -> Operation:
    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
        factors, taus = np.linalg.qr(numbers(2, m, n)(rng, dtype), "raw")
        return np.ascontiguousarray(np.swapaxes(factors, -1, -2)).astype(dtype), taus.astype(dtype)

    return Operation(
        f"householder_product {m} by {n}",
        lax.linalg.householder_product,
        lambda a, taus: np.asarray(jax.lax.linalg.householder_product(a, taus)),
        args,
        DTYPES,
        differentiable=False,
        rtol=RTOL,
    )


def upper(*shape: int) -> Draw:
    return lambda rng, dtype: np.triu(triangular(*shape)(rng, dtype))


def dense_tridiagonal(dl: Any, d: Any, du: Any) -> np.ndarray:
    matrices = np.zeros((*d.shape, d.shape[-1]), d.dtype)
    for i in range(d.shape[-1]):
        matrices[..., i, i] = d[..., i]
        if i:
            matrices[..., i, i - 1], matrices[..., i - 1, i] = dl[..., i], du[..., i - 1]
    return matrices


def updated_factor(r: Any, w: Any) -> Any:
    return adjoint(np.linalg.cholesky(adjoint(r) @ r + w[..., None] * w.conj()[..., None, :]))


def positive_or_not(dtype: np.dtype[Any]) -> list[tuple[np.ndarray]]:
    """Matrices without a Cholesky factor beside one that has one, and empty ones."""
    return [
        (np.stack([np.eye(2), -np.eye(2), np.ones((2, 2)) - 2 * np.eye(2)]).astype(dtype),),
        (np.zeros((0, 0), dtype),),
        (np.zeros((0, 2, 2), dtype),),
    ]


def empty(*shapes: tuple[int, ...]) -> Callable[[np.dtype[Any]], list[tuple[np.ndarray]]]:
    return lambda dtype: [(np.zeros(shape, dtype),) for shape in shapes]


ROWS = [
    same("cholesky", "cholesky", hermitian(2, 3, 3), corners=positive_or_not),
    same("cholesky", "cholesky of one triangle", hermitian(3, 3), symmetrize_input=False, dtypes=WIDE),
    solve_row((2, 3)),
    solve_row((2, 3, 2), "left_side"),
    solve_row((2, 3, 2), "left_side", "lower", "transpose_a"),
    solve_row((3, 3), "left_side", "lower", "conjugate_a", "unit_diagonal"),
    solve_row((2, 2, 3), "lower", "transpose_a", "conjugate_a"),
    solve_row((2, 3), "transpose_a", "unit_diagonal"),
    row(
        "cholesky_update",
        lax.linalg.cholesky_update,
        updated_factor,
        upper(3, 3),
        numbers(3),
        dtypes=WIDE,
        signed_reference=False,
    ),  # zeros below the diagonal have no sign to keep
    row(
        "tridiagonal_solve",
        lax.linalg.tridiagonal_solve,
        lambda dl, d, du, b: np.linalg.solve(dense_tridiagonal(dl, d, du), b),
        numbers(2, 4),
        lambda rng, dtype: (np.full((2, 4), 4) + rng.normal(size=(2, 4))).astype(dtype),
        numbers(2, 4),
        numbers(2, 4, 3),
        dtypes=WIDE,
    ),
    same("lu", "lu", numbers(2, 3, 3), corners=empty((0, 2), (3, 0), (0, 2, 2))),
    same("lu", "lu of tall", numbers(4, 2), dtypes=WIDE),
    same("lu", "lu of wide", numbers(2, 4), dtypes=WIDE),
    Operation(
        "lu_pivots_to_permutation",
        lambda x: lax.linalg.lu_pivots_to_permutation(x, 5),
        lambda x: np.asarray(jax.lax.linalg.lu_pivots_to_permutation(x, 5)),
        lambda rng, dtype: (rng.integers(0, 5, (2, 3, 4)).astype(dtype),),
        ("int32",),
        corners=lambda dtype: [(np.zeros(shape, dtype),) for shape in ((0,), (0, 2), (2, 0))],
    ),
    *[qr_row(*how) for how in ((3, 3, True), (4, 2, True), (4, 2, False), (2, 3, False))],
    *[pivoted_qr_row(*shape) for shape in ((3, 3), (4, 2))],
    householder_row(4, 3),
    *[ormqr_row(left, transpose) for left, transpose in ((True, False), (True, True), (False, True))],
    form_row("schur", numbers(2, 3, 3)),
    form_row("hessenberg", numbers(2, 4, 4)),
    form_row("tridiagonal", hermitian(2, 4, 4)),
    eigh_row(lower=True),
    eigh_row(lower=False),
    row("eigvalsh", eigen.eigvalsh, np.linalg.eigvalsh, hermitian(2, 3, 3), corners=empty((0, 0), (0, 2, 2))),
    eig_row(),
    *[svd_row(*how) for how in ((4, 2, True), (4, 2, False), (2, 3, False))],
    same(
        "svd",
        "singular values",
        separated(2, 3, 4),
        compute_uv=False,
        corners=empty((0, 2), (3, 0), (0, 2, 2)),
    ),
]
