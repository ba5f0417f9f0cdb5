"""didax.scipy.linalg against scipy.linalg (values) and jax (types); derivatives against finite differences."""

from __future__ import annotations

import math
from typing import Any

import jax.scipy.linalg
import numpy as np
import pytest
import scipy.linalg

import didax as dx
import didax.numpy as dnp
from didax.core.errors import ArgumentError
from didax.scipy import linalg
from tests.checks import assert_close
from tests.scipy.families import With, check_batches, check_derivatives, check_family

RNG = np.random.default_rng(0)


def numbers(*shape: int, dtype: str = "float32") -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


A, TALL, V, C = numbers(4, 4), numbers(5, 3), numbers(4), numbers(4, 4, dtype="complex64")
POSITIVE = (A @ A.T + np.eye(4)).astype("float32")
HERMITIAN = (C @ C.conj().T + np.eye(4)).astype("complex64")
INTS = np.arange(1, 5)


def test_matrices_with_a_structure() -> None:
    takes_batches = np.lib.NumpyVersion(scipy.__version__) >= "1.17.0"  # older ones ravel a matrix
    check_family(linalg, scipy.linalg, jax.scipy.linalg, {
        "toeplitz": [(V,), (C[0],), (V, TALL[0]), (INTS,), *[(TALL, TALL[:, :2])] * takes_batches],
        "hankel": [(V,), (V, TALL[0])], "circulant": [(V,), (INTS,), *[(TALL,)] * takes_batches],
        "leslie": [(V, V[1:])], "companion": [(V,), (INTS,)], "fiedler": [(V,), (INTS,)],
        "fiedler_companion": [*[(V[:k],) for k in (2, 3, 4)], (np.arange(1.0, 9).astype("float32"),)],
        "convolution_matrix": [(V, 3), *[(V, n, mode) for n in (3, 6) for mode in ("same", "valid")], (C[0], 4)],
        "hilbert": [(4,)], "invhilbert": [(4,)], "pascal": [(5,), (5, "lower"), (5, "upper")],
        "invpascal": [(5,), (5, "lower"), (5, "upper")], "helmert": [(4,), (4, True), (1,)],
        "hadamard": [(8,), (4, np.float32)], "dft": [(5,), (4, "sqrtn"), (4, "n")],
        "block_diag": [(A, V, 1), (), (INTS, A)],
    })  # fmt: skip
    assert linalg.hilbert(0).shape == linalg.fiedler_companion(np.ones(1)).shape == (0, 0)


def test_factors_and_systems() -> None:
    lu, cho = scipy.linalg.lu_factor(A), scipy.linalg.cho_factor(POSITIVE)
    b = numbers(4, 2)
    check_family(linalg, scipy.linalg, jax.scipy.linalg, {
        "cholesky": [(POSITIVE,), (HERMITIAN, True)], "lu_factor": [(A,), (C,)], "det": [(A,)], "inv": [(C,)],
        "lu": [(A,), (TALL,), (TALL.T,), (A, True), (C,)], "svd": [(A, True, False), (TALL, False, False)],
        "solve": [(A, b), (A, V), *[(POSITIVE, b, With({"assume_a": kind})) for kind in ("sym", "her", "pos")],
                  (np.tril(POSITIVE), V, With({"assume_a": "pos", "lower": True}))],
        "solve_triangular": [(A, b), (A, V, 1), *[(C, C, trans, True) for trans in ("N", "T", "C")],
                             (A, V, 0, False, True)],
        "eigh": [(POSITIVE,), (np.tril(HERMITIAN), With({"eigvals_only": True}))],
        "schur": [(A,), (A, "complex"), (C,)], "rsf2csf": [scipy.linalg.schur(A)], "qr": [(TALL,), (C,)],
        "hessenberg": [(A,), (C, With({"calc_q": True}))],
        "solve_sylvester": [(A, POSITIVE, A), (C, HERMITIAN, C), (A, numbers(2, 2), b)],
    }, jit=False)  # fmt: skip
    for trans in (0, 1, 2):
        found = linalg.lu_solve(linalg.lu_factor(C), b, trans)
        assert_close(found, scipy.linalg.lu_solve(scipy.linalg.lu_factor(C), b, trans), 1e-4, 1e-4)
    for lower in (False, True):
        assert_close(
            linalg.cho_solve(linalg.cho_factor(POSITIVE, lower), b), linalg.solve(POSITIVE, b), 1e-3, 1e-4
        )
    assert_close(linalg.lu_solve(lu, V), scipy.linalg.lu_solve(lu, V), 1e-4, 1e-4)
    assert_close(linalg.cho_solve(cho, V), scipy.linalg.cho_solve(cho, V), 1e-4, 1e-4)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_pivoted_qr(shape: tuple[int, int]) -> None:
    x = numbers(*shape)
    for mode in ("full", "r", "economic"):
        found, wanted = (f(x, mode=mode, pivoting=True) for f in (linalg.qr, scipy.linalg.qr))
        assert_close(
            found, tuple(np.asarray(y) for y in wanted[:-1]) + (wanted[-1].astype("int32"),), 1e-4, 1e-4
        )
    k = min(shape)
    for mode, c in (("right", numbers(2, shape[0])), ("left", numbers(k, 2)), ("right", numbers(shape[0]))):
        for pivoting in (False, True):
            found, wanted = (f(x, c, mode, pivoting) for f in (linalg.qr_multiply, scipy.linalg.qr_multiply))
            assert_close(found[:2], tuple(wanted[:2]), 1e-4, 1e-4)


def test_eigenvalues_of_two_matrices_and_of_tridiagonal_ones() -> None:
    other = (A.T @ A + 2 * np.eye(4)).astype("float32")
    for kind in (1, 2, 3):
        w, v = linalg.eigh(POSITIVE, other, type=kind)
        assert_close(w, scipy.linalg.eigh(POSITIVE, other, type=kind, eigvals_only=True), 1e-3, 1e-3)
        left, right = {1: (POSITIVE @ v, other @ v * w), 2: (POSITIVE @ (other @ v), v * w),
                       3: (other @ (POSITIVE @ v), v * w)}[kind]  # fmt: skip
        assert_close(left, right, 1e-3, 2e-3)
    assert_close(
        linalg.eigh(POSITIVE, eigvals=(1, 2), eigvals_only=True), np.linalg.eigvalsh(POSITIVE)[1:3], 1e-5
    )
    w, v = linalg.eigh_tridiagonal(V, V[1:])
    assert_close(w, scipy.linalg.eigh_tridiagonal(V, V[1:])[0], 1e-5, 1e-5)
    dense = np.diag(V) + np.diag(V[1:], 1) + np.diag(V[1:], -1)
    assert_close(dense @ v, v * w, 1e-4, 1e-5)
    chosen = linalg.eigh_tridiagonal(V, V[1:], eigvals_only=True, select="i", select_range=(1, 2))
    assert_close(chosen, w[1:3], 1e-6)
    assert linalg.eigh_tridiagonal(V[:0], V[:0])[1].shape == (0, 0)


def test_functions_of_matrices() -> None:
    nilpotent = np.float32([[0, 1], [0, 0]])
    check_family(linalg, scipy.linalg, jax.scipy.linalg, {
        "expm": [(A,), (C,), (10 * A,), (A / 100,), (np.stack([A, 30 * A]),), (np.eye(2, dtype=int),),
                 (np.zeros((0, 0), "float32"),), (np.zeros((2, 2), "float32"),)],
        "expm_frechet": [(A, POSITIVE), (A, A, With({"compute_expm": False}))],
    }, jit=False)  # fmt: skip
    check_family(linalg, scipy.linalg, jax.scipy.linalg, {"expm": [(A,)], "sqrtm": [(A,)]})
    check_family(linalg, scipy.linalg, None, {"sqrtm": [(POSITIVE,), (A,), (C,)]})
    assert_close(linalg.sqrtm(np.zeros((2, 2), "float32")), np.zeros((2, 2), "complex64"))
    assert_close(linalg.expm(np.triu(A), upper_triangular=True), linalg.expm(np.triu(A)), 1e-5, 1e-5)
    assert dnp.isnan(linalg.expm(1e4 * A, max_squarings=3)).all()
    for of in (lambda f: f, dx.jit):  # JAX has numbers up to the same norm, 3.93 * 2 ** 3
        grows = of(lambda x: linalg.expm(x, max_squarings=2))
        np.testing.assert_allclose(grows(np.float32([[31.0]])), np.exp([[31.0]]), rtol=1e-5)
        assert dnp.isnan(grows(np.float32([[32.0]]))).all()
    assert dnp.isnan(linalg.sqrtm(nilpotent)).all()
    empty = np.zeros((2, 0, 0), "float32")
    assert_close(
        linalg.solve_sylvester(A, POSITIVE, A, method="eigen"),
        linalg.solve_sylvester(A, POSITIVE, A),
        1e-4,
        1e-4,
    )
    assert linalg.sqrtm(empty).shape == linalg.solve_sylvester(empty, empty, empty).shape == (2, 0, 0)
    for f, wanted in ((dnp.exp, scipy.linalg.expm(A)), (dnp.sin, scipy.linalg.sinm(A))):
        assert_close(linalg.funm(A, f), wanted.astype("complex64"), 1e-3, 1e-3)
    value, error = linalg.funm(np.eye(2, dtype="float32"), dnp.exp, disp=False)
    assert_close(value, math.e * np.eye(2, dtype="complex64"), 1e-6)
    assert error < 1e-6
    assert dnp.isnan(linalg.funm(nilpotent, dnp.exp)).any()
    for seed, w in ((0, [1.0, 1.0, 2.0, 3.0]), (1, [0.0, 0.0, 1.0, 1.0]), (2, [2.0, 2.0, 2.0, 0.5])):
        turned = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
        x = (turned * w @ turned.T).astype("float32")  # of eigenvalues that are equal up to rounding
        for function in (linalg.funm, dx.jit(linalg.funm, static_argnums=1)):
            np.testing.assert_allclose(function(x, dnp.exp), turned * np.exp(w) @ turned.T, 1e-5, 4e-5)


def test_polar_factors() -> None:
    for x in (A, TALL, TALL.T, C):
        for side in ("right", "left"):
            for method in ("qdwh", "svd"):
                found = linalg.polar(x, side, method=method)
                assert_close(
                    found, tuple(scipy.linalg.polar(x, side)), 1e-4, 2e-5, f"{x.shape} {side} {method}"
                )


def test_polar_factors_of_a_part_of_a_matrix() -> None:
    """Its size may be traced, and what lies beside the part is not read."""
    x = np.float32(TALL)
    rows, columns = x.shape
    padded = np.full((rows + 2, columns + 1), np.nan, "float32")
    padded[:rows, :columns] = x
    want = dx.lax.linalg.qdwh(x)[:2]
    of_part = lambda sizes: dx.lax.linalg.qdwh(padded, dynamic_shape=sizes)
    for u, h, _, converged in (of_part((rows, columns)), dx.jit(of_part)((rows, columns))):
        assert converged and not u[rows:].any() and not u[:, columns:].any() and not h[columns:].any()
        assert_close((u[:rows, :columns], h[:columns, :columns]), want, 1e-5, 1e-5)


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.ci)])
def test_derivatives(order: int) -> None:
    x, tall = numbers(3, 3, dtype="float64"), numbers(4, 2, dtype="float64")
    x, spd = x + 3 * np.eye(3), x @ x.T + np.eye(3)
    check_derivatives({
        "expm": (linalg.expm, x / 3), "sqrtm": (lambda x: linalg.sqrtm(x).real, spd),
        "sylvester": (linalg.solve_sylvester, x, spd, numbers(3, 3, dtype="float64")),
        "polar": (linalg.polar, tall), "left polar": (lambda x: linalg.polar(x, "left", method="svd"), tall),
    }, order)  # fmt: skip
    # where singular values are equal, the derivatives of singular vectors have no limit and these have one
    check_derivatives({"polar of the identity": (linalg.polar, np.eye(2))}, order)
    y = numbers(2, 2, dtype="float64")
    check_derivatives({
        "toeplitz": (linalg.toeplitz, y), "companion": (linalg.companion, y + 3), "cho_solve": (
            lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), spd, tall[:3]),
        "lu_solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 1), x, tall[:3]),
        "pivoted qr": (lambda a: linalg.qr(a, mode="r", pivoting=True)[0], x),
    }, order=1)  # fmt: skip


def test_batches() -> None:
    xs = numbers(3, 3, 3)
    positive = (xs @ xs.transpose(0, 2, 1) + np.eye(3)).astype("float32")
    check_batches({
        "expm": (linalg.expm, xs), "sqrtm": (linalg.sqrtm, positive), "polar": (linalg.polar, xs), "schur": (
            linalg.schur, xs), "sylvester": (linalg.solve_sylvester, xs, positive, xs),
        "rsf2csf": (lambda x: linalg.rsf2csf(*linalg.schur(x)), xs), "funm": (lambda x: linalg.funm(x, dnp.exp), xs),
        "lu_solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), xs, xs), "toeplitz": (linalg.toeplitz, xs),
        "hessenberg": (lambda x: linalg.hessenberg(x, calc_q=True), xs), "eigh": (linalg.eigh, positive, xs @ xs),
    } | {"eigh": (lambda a, b: linalg.eigh(a, b, eigvals_only=True), positive, positive)})  # fmt: skip


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (lambda: linalg.expm(V), ArgumentError, "expm takes matrices: the last two axes of an array.\n  a: float32[4]"),
    (lambda: linalg.solve(A, A, assume_a="banded"), ArgumentError,
     "solve has 4 choices of assume_a.\n  assume_a: 'banded'\nUse 'gen', 'sym', 'her' or 'pos'."),
    (lambda: linalg.solve_triangular(np.stack([A, A]), numbers(2, 4)), ArgumentError,
     "solve_triangular takes a right-hand side with as many rows as the matrix: a vector, or matrices.\n"
     "  matrix: float32[2,4,4], b: float32[2,4]\n"
     "Pass b of shape (n,) or (..., n, k); give batched vectors an axis (b[..., None])."),
    (lambda: linalg.lu_solve(linalg.lu_factor(A), V, 3), ArgumentError, "lu_solve takes three values of trans."),
    (lambda: linalg.solve_sylvester(A, A, V), ArgumentError, "solve_sylvester takes a C with the rows of A and the"),
    (lambda: linalg.qr(A, mode="x"), ArgumentError,
     "qr has 3 choices of mode.\n  mode: 'x'\nUse 'full', 'r' or 'economic'."),
    (lambda: linalg.qr_multiply(A, TALL), ArgumentError, "qr_multiply takes a matrix that fits q."),
    (lambda: linalg.eigh(A, type=2), ArgumentError, "eigh of one matrix solves a v = w v."),
    (lambda: linalg.eigh(A, eigvals=(0, 4)), ArgumentError, "eigvals of eigh is a range of positions."),
    (lambda: linalg.eigh_tridiagonal(V, V), ArgumentError, "eigh_tridiagonal takes a diagonal and one that is"),
    (lambda: linalg.funm(np.stack([A, A]), dnp.exp), ArgumentError, "funm takes one matrix."),
    (lambda: linalg.hadamard(3), ArgumentError, "hadamard takes a power of 2.\n  n: 3\nUse 1, 2, 4, 8, ..."),
    (lambda: linalg.hilbert(-1), ArgumentError, "hilbert takes a size, an integer of at least 0.\n  n: -1"),
    (lambda: linalg.dft(2, "x"), ArgumentError, "dft has three scales."),
    (lambda: linalg.leslie(V, V), ArgumentError, "leslie takes two rates or more, and one survival rate less."),
    (lambda: dx.grad(lambda x: linalg.schur(x)[0].sum())(A), NotImplementedError, "the form is not unique"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[text[:25] for _, _, text in ERRORS])
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as found:
        call()
    assert text in str(found.value)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("svd", "A"), ("qr", "A"), ("eigh", "A"), ("eigh_tridiagonal", "vu"), ("rsf2csf", "AA"), ("polar", "A"),
        ("expm_frechet", "AA"), ("cholesky", "A"), ("cho_factor", "A"), ("lu_factor", "A"), ("lu", "A"),
        ("solve_triangular", "Av"), ("solve_sylvester", "AAA"),
    ],
)  # fmt: skip
def test_lists_are_taken_where_jax_takes_them(name: str, args: str) -> None:
    values: dict[str, Any] = {"A": [[4.0, 1.0], [1.0, 3.0]], "v": [1.0, 2.0], "u": [1.0]}
    f = getattr(linalg, name)
    lists = [values[a] for a in args]
    found, wanted = f(*lists), f(*[dnp.array(x) for x in lists])
    dx.tree.map(lambda x, y: assert_close(x, np.asarray(y)), found, wanted)


def test_a_factor_and_a_right_hand_side_may_be_lists() -> None:
    assert_close(linalg.cho_solve(([[2.0]], False), b=[8.0]), np.float32([2]))


def test_factors_of_a_matrix_whose_last_pivot_vanishes_have_derivatives() -> None:
    with dx.enable_x64():
        rng = np.random.default_rng(0)
        x, t = rng.normal(size=(2, 3, 3))
        x[2] = 2 * x[0]
        factors = lambda x: linalg.lu(x)[1:]
        differences = [
            (p - q) / 2e-5 for p, q in zip(factors(x + 1e-5 * t), factors(x - 1e-5 * t), strict=True)
        ]
        tangents = dx.jvp(factors, (x,), (t,))[1]
        for found, want in zip(tangents, differences, strict=True):
            np.testing.assert_allclose(found, want, atol=1e-8)
        (back,) = dx.vjp(factors, x)[1](factors(x))
        forward = sum((y * y_dot).sum() for y, y_dot in zip(factors(x), tangents, strict=True))
        np.testing.assert_allclose((back * t).sum(), forward)
