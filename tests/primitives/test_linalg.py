"""Factorisations: signs, degenerate and singular matrices, NaN, other platforms' lowerings, texts of errors."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.primitives.linalg import eigen, lu, qr, similarity, svd, triangular
from didax.primitives.linalg.solve import solve_p
from tests.checks import assert_close, check_grads, first

EVALUATE = pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit], ids=["eager", "jit"])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 4))
Q = np.linalg.qr(X)[0]


def with_eigenvalues(*w: float) -> np.ndarray:
    return (Q * np.array(w)) @ Q.T


def rebuilt(f: Any) -> Any:
    """f(A) by eigenvectors."""

    def of_matrix(x: Any) -> Any:
        v, w = lax.linalg.eigh(x)
        return dnp.matmul(v * f(w), v.mT)

    return of_matrix


def norm(x: Any) -> Any:
    return dnp.sqrt(dnp.sum(x * x))


# --- Values -------------------------------------------------------------------------------------------------


@pytest.mark.cpu
@EVALUATE
@pytest.mark.parametrize("name", ["eigh", "svd", "qr", "eig", "lu"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_signs_and_phases_are_those_of_jax(evaluate: Any, name: str, dtype: str) -> None:
    x = RNG.normal(size=(3, 5, 5)) + (1j * RNG.normal(size=(3, 5, 5)) if dtype == "complex64" else 0)
    x = x.astype(dtype)
    found = evaluate(getattr(lax.linalg, name))(x)
    wanted = getattr(jax.lax.linalg, name)(x)
    assert_close(tuple(found), tuple(map(np.asarray, wanted)), rtol=1e-3)


@EVALUATE
def test_what_has_no_cholesky_factor_gives_nan_alone(evaluate: Any) -> None:
    x = np.stack([np.eye(2), [[1, 2], [2, 1]], np.zeros((2, 2))]).astype("float32")
    found = np.asarray(evaluate(lax.linalg.cholesky)(x))
    np.testing.assert_array_equal(found[0], np.eye(2))
    np.testing.assert_array_equal(found[1:], np.broadcast_to([[np.nan, 0], [np.nan, np.nan]], (2, 2, 2)))


@EVALUATE
def test_complex_matrices_without_a_result_have_nan_in_both_parts(evaluate: Any) -> None:
    x = np.diag([0, 1, 2]).astype("complex64")
    for f in (lax.linalg.cholesky, dnp.linalg.inv):
        found = np.asarray(evaluate(f)(x))
        np.testing.assert_array_equal(np.isnan(found.real), np.isnan(found.imag))
        assert np.isnan(found[-1]).all()


@EVALUATE
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "f", [lax.linalg.eigh, lax.linalg.eig, lax.linalg.svd, eigen.eigvalsh, svd.singular_values]
)
def test_nan_and_infinities_spoil_their_own_matrix_only(evaluate: Any, f: Any, bad: float) -> None:
    x = np.stack([np.eye(3), np.full((3, 3), bad)]).astype("float32")
    for y in dx.tree.leaves(evaluate(f)(x)):
        assert np.isnan(np.asarray(y[1])).all()
        assert np.isfinite(np.asarray(y[0])).all()


@EVALUATE
def test_singular_values_of_infinite_matrices_are_nan(evaluate: Any) -> None:
    """LAPACK's `gesdd` does not return from the second matrix, and writes to stderr about the first."""
    x = np.stack([np.full((3, 3), np.inf), np.diag([np.inf, 1, 2]), np.eye(3)]).astype("float32")
    for f in (lax.linalg.svd, svd.singular_values):
        for y in dx.tree.leaves(evaluate(f)(x)):
            assert np.isnan(np.asarray(y[:2])).all()
            assert np.isfinite(np.asarray(y[2])).all()


@EVALUATE
def test_a_nan_on_the_diagonal_is_in_all_eigenvalues(evaluate: Any) -> None:
    """LAPACK gives 0, 0 and 3 for the second matrix where no vectors are asked for."""
    x = np.stack([np.diag([1.0, 2, 3]), np.diag([np.nan, 2, 3]), np.eye(3)]).astype("float32")
    x[0, 0, 2] = np.nan  # in the triangle that is not read
    w = np.asarray(evaluate(lambda x: eigen.eigvalsh(x, True))(x))
    assert_close(w[[0, 2]], np.float32([[1, 2, 3], [1, 1, 1]]))
    assert np.isnan(w[1]).all()
    assert np.isnan(evaluate(lambda x: dnp.linalg.pinv(x, hermitian=True))(x[1:, :1, :1])[0]).all()


@EVALUATE
def test_lu_of_singular_matrices_is_right(evaluate: Any) -> None:
    x = np.float32([[1, 2, 3], [2, 4, 6], [1, 1, 1]])
    factors, _, permutation = evaluate(lax.linalg.lu)(x)
    low, up = np.tril(factors, -1) + np.eye(3, dtype="float32"), np.triu(factors)
    assert_close(low @ up, x[np.asarray(permutation)])
    assert float(up[2, 2]) == 0


@EVALUATE
def test_only_the_named_triangle_is_read(evaluate: Any) -> None:
    x = with_eigenvalues(1, 2, 3, 4).astype("float32")
    spoilt = np.where(np.tri(4, dtype=bool), x, np.nan).astype("float32")
    assert_close(
        evaluate(lambda x: lax.linalg.cholesky(x, symmetrize_input=False))(spoilt), np.linalg.cholesky(x)
    )
    for lower, given in ((True, spoilt), (False, spoilt.T)):
        w = evaluate(lambda x, lower=lower: lax.linalg.eigh(x, lower=lower, symmetrize_input=False)[1])(given)
        assert_close(w, np.float32([1, 2, 3, 4]))
    solved = evaluate(lambda a: lax.linalg.triangular_solve(a, np.eye(4, dtype="float32"), lower=True))(
        spoilt
    )
    assert_close(solved, np.linalg.inv(np.tril(x)), rtol=1e-4)


@EVALUATE
def test_a_singular_tridiagonal_matrix_gives_nan_alone(evaluate: Any) -> None:
    d, none = np.float32([[0, 0, 0], [2, 2, 2]]), np.zeros((2, 3), "float32")
    found = np.asarray(evaluate(lax.linalg.tridiagonal_solve)(none, d, none, np.ones((2, 3, 1), "float32")))
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], np.full((3, 1), 0.5))


def test_what_stands_outside_of_a_tridiagonal_matrix_has_no_derivative() -> None:
    diagonal = dnp.array([5.0, 4.0, np.nan])
    out = dx.grad(
        lambda dl, du: lax.linalg.tridiagonal_solve(dl, diagonal, du, dnp.ones((3, 1))).sum(), (0, 1)
    )
    dl_bar, du_bar = out(dnp.ones(3), dnp.ones(3))
    assert np.isnan(dl_bar).tolist() == [False, True, True] and np.isnan(du_bar).tolist() == [
        True,
        True,
        False,
    ]


def test_a_subset_of_values_with_their_vectors() -> None:
    x = with_eigenvalues(1, 2, 3, 4).astype("float32")
    v, w = lax.linalg.eigh(x, subset_by_index=(1, 3))
    assert_close(w, np.float32([2, 3]))
    assert_close(dnp.matmul(x, v), v * w, rtol=1e-4)
    u, s, vh = lax.linalg.svd(x, full_matrices=False, subset_by_index=(0, 2))
    assert_close(s, np.float32([4, 3]))
    assert_close(dnp.matmul(x, vh.mT), u * s, rtol=1e-4)
    assert_close(lax.linalg.svd(x, compute_uv=False, subset_by_index=(3, 4)), np.float32([1]), rtol=1e-4)


# --- Derivatives --------------------------------------------------------------------------------------------

DEGENERATE = [with_eigenvalues(2, 2, 2, 2), np.eye(4), with_eigenvalues(1, 1, 3, 3), np.diag([1.0, 5, 5, 1])]


@pytest.mark.parametrize("x", DEGENERATE)
def test_spectral_functions_have_gradients_where_eigenvalues_coincide(x64: None, x: np.ndarray) -> None:
    """The gradient of the trace of f(A) is f'(A), of the norm A / |A|."""
    trace = dx.grad(lambda x: dnp.trace(rebuilt(dnp.exp)(x)))(x)
    w, v = np.linalg.eigh(x)
    assert_close(trace, (v * np.exp(w)) @ v.T, rtol=1e-9)
    assert_close(dx.grad(lambda x: norm(rebuilt(lambda w: w)(x)))(x), x / np.linalg.norm(x), rtol=1e-9)


@pytest.mark.parametrize("x", [*DEGENERATE, np.diag([2.0, 2, 0, 0]), np.ones((4, 4))])
def test_norms_by_singular_values_have_gradients_where_they_coincide_or_vanish(
    x64: None, x: np.ndarray
) -> None:
    """The gradient of the nuclear norm is U V^H, of the Frobenius norm A / |A|."""

    def frobenius(x: Any) -> Any:
        u, s, vh = lax.linalg.svd(x, full_matrices=False)
        return norm(dnp.matmul(u * s, vh))

    u, _, vh = lax.linalg.svd(x)
    nuclear = dx.grad(lambda x: dnp.sum(lax.linalg.svd(x, compute_uv=False)))(x)
    assert_close(nuclear, dnp.matmul(u, vh), rtol=1e-9)
    assert_close(dx.grad(frobenius)(x), x / np.linalg.norm(x), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaps_that_rounding_makes_count_as_none(dtype: str) -> None:
    """Equal eigenvalues come out of LAPACK a few units of the last place apart."""
    with dx.enable_x64(dtype == "float64"):
        q = np.linalg.qr(RNG.normal(size=(100, 3, 3)))[0]
        xs = ((q * RNG.integers(1, 3, (100, 1, 3))) @ q.mT).astype(dtype)
        found = dx.vmap(dx.grad(lambda x: dnp.trace(rebuilt(dnp.exp)(x))))(xs)
    w, v = np.linalg.eigh(xs)
    assert_close(found, (v * np.exp(w)[:, None, :]) @ v.mT, rtol=1e-5 if dtype == "float32" else 1e-13)


def test_the_projector_on_a_group_of_equal_eigenvalues_has_a_derivative(x64: None) -> None:
    x = with_eigenvalues(1, 1, 3, 3)

    def projector(x: Any) -> Any:
        v = lax.linalg.eigh(x)[0][:, :2]
        return dnp.matmul(v, v.mT)

    check_grads(projector, (x,), order=1)


def test_vectors_of_complex_matrices_keep_their_length(x64: None) -> None:
    x, t = X + 1j * X.T, X.T - 2j * X
    (_, left, right), (_, left_dot, right_dot) = dx.jvp(lambda x: tuple(lax.linalg.eig(x)), (x,), (t,))
    for v, v_dot in ((left, left_dot), (right, right_dot)):
        assert_close(dnp.sum(dnp.conj(v) * v_dot, 0), np.zeros(4, complex), atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.linalg.cholesky(x, symmetrize_input=False),
        lambda x: lax.linalg.eigh(x, symmetrize_input=False)[1] ** 2,
        lambda x: lax.linalg.triangular_solve(x, np.float32([1, 2, 3, 4]), lower=True),
    ],
    ids=["cholesky", "eigh", "triangular_solve"],
)
def test_only_the_triangle_that_is_read_has_a_gradient(f: Any) -> None:
    gradient = np.asarray(dx.grad(lambda x: dnp.sum(f(x)))(with_eigenvalues(1, 2, 3, 4).astype("float32")))
    assert np.all(gradient[np.tri(4, dtype=bool)])
    assert not np.any(np.triu(gradient, 1))


@EVALUATE
def test_derivatives_of_batches_and_batches_of_derivatives(evaluate: Any, x64: None) -> None:
    xs = np.stack([with_eigenvalues(1, 2, 3, 4), with_eigenvalues(2, 3, 5, 9)])

    def log_determinant(x: Any) -> Any:
        return 2 * dnp.sum(dnp.log(dnp.diagonal(lax.linalg.cholesky(x), axis1=-2, axis2=-1)))

    wanted = np.linalg.inv(xs)
    assert_close(evaluate(dx.vmap(dx.grad(log_determinant)))(xs), wanted, rtol=1e-9)
    assert_close(evaluate(dx.grad(log_determinant))(xs), wanted, rtol=1e-9)
    assert_close(evaluate(dx.grad(lambda xs: dnp.sum(dx.vmap(log_determinant)(xs))))(xs), wanted, rtol=1e-9)


@pytest.mark.parametrize("left_side", [True, False])
def test_one_matrix_and_a_batch_of_right_hand_sides_is_one_system(left_side: bool) -> None:
    a, bs = np.tril(X).astype("float32"), RNG.normal(size=(3, 4, 5)).astype("float32")
    bs = bs if left_side else bs.swapaxes(1, 2)

    def solve(b: Any) -> Any:
        return lax.linalg.triangular_solve(a, b, left_side=left_side, lower=True)

    for dim in (0, 1, 2):
        b = np.moveaxis(bs, 0, dim)
        assert_close(dx.vmap(solve, dim)(b), dnp.stack([solve(b) for b in bs]), rtol=1e-4)
        systems = [
            e
            for e in dx.make_jaxpr(dx.vmap(solve, dim))(b).jaxpr.eqns
            if e.primitive.name == "triangular_solve"
        ]
        assert [e.invars[0].aval.shape for e in systems] == [(4, 4)]


# --- Lowering -----------------------------------------------------------------------------------------------


def test_what_xla_does_by_itself_agrees_with_lapack(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowerings of cholesky and triangular_solve for other platforms are XLA's own, so the CPU has them too."""
    x = (with_eigenvalues(1, 2, 3, 4) + 1j * (X - X.T) / 20).astype("complex64")

    def both(x: Any) -> Any:
        f = lax.linalg.cholesky(x)
        options = [{"transpose_a": t, "conjugate_a": c} for t in (False, True) for c in (False, True)]
        return f, [lax.linalg.triangular_solve(f, x, lower=True, **how) for how in options]

    wanted = both(x)
    monkeypatch.setattr(triangular, "platform", lambda: "other")
    assert_close(dx.jit(both)(x), wanted, rtol=1e-3)


@pytest.mark.cpu
def test_the_gpu_gets_calls_of_its_solvers() -> None:
    square = np.eye(3, dtype="float32")

    def lowered(name: str) -> str:
        return dx.jit(getattr(lax.linalg, name)).trace(square).lower(lowering_platforms=("cuda",)).as_text()

    wanted = {"lu": ["getrf"], "qr": ["geqrf", "orgqr"], "eigh": ["syevd"], "svd": ["gesvdj"]}
    for name, routines in wanted.items():
        assert re.findall(r"@cusolver_(\w+)_ffi", lowered(name)) == routines
    for name in ("eig", "schur", "hessenberg"):
        text = rf"{name} is computed on the host, (?s:.*)platform: cuda(?s:.*)Lower it for cpu"
        with pytest.raises(NotImplementedError, match=text):
            lowered(name)


@pytest.mark.ci
def test_scipy_is_loaded_by_the_first_compiled_factorisation_only() -> None:
    program = """
import sys, numpy as np
from didax import lax
lax.linalg.cholesky(np.eye(2, dtype="float32")), lax.linalg.svd(np.eye(2, dtype="float32"), compute_uv=False)
print("scipy" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == ["False"]


def test_the_hermitian_part_of_integers_and_products_of_halves_are_those_of_jax() -> None:
    x = np.eye(2, dtype="int8")
    np.testing.assert_array_equal(lax.linalg.cholesky(x), np.eye(2, dtype="float32"))
    with dx.enable_x64(True):
        assert lax.linalg.cholesky(x).dtype == lax.linalg.eigh(x)[1].dtype == "float32"
        assert lax.linalg.cholesky(x.astype("int64")).dtype == "float64"
    with pytest.raises(TypeError, match="cholesky computes in float32"):
        lax.linalg.cholesky(np.eye(2, dtype="int8"), symmetrize_input=False)
    for dtype in ("float16", "bfloat16"):
        a = np.arange(6).reshape(2, 3).astype(dtype)
        found = lax.linalg.symmetric_product(a, np.eye(2).astype(dtype), beta=2.0)
        assert found.dtype == dtype and found.tolist() == [[7.0, 14.0], [14.0, 52.0]]


# --- Errors -------------------------------------------------------------------------------------------------

SQUARE, VECTOR = np.eye(3, dtype="float32"), np.ones(3, "float32")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *itertools.product(("lu", "qr", "svd", "eig"), (ml_dtypes.bfloat16, np.float16, np.int32, bool)),
        *itertools.product(("cholesky", "eigh"), (ml_dtypes.bfloat16, np.float16)),
    ],
)
def test_other_dtypes_are_refused(name: str, dtype: Any) -> None:
    text = f"{name} computes in float32, float64, complex64 or complex128.\n  operand: {np.dtype(dtype).name}[3,3]\n"
    with pytest.raises(TypeError, match=re.escape(text)):
        getattr(lax.linalg, name)(np.eye(3).astype(dtype))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: lax.linalg.cholesky(SQUARE[:2]), ValueError,
         "cholesky takes square matrices.\n  operand: float32[2,3]\nPass an array whose last two axes have one"),
        (lambda: lax.linalg.svd(VECTOR), TypeError,
         "svd takes matrices: the last two axes of an array.\n  operand: float32[3]\nGive it two axes or more"),
        (lambda: lax.linalg.triangular_solve(SQUARE, SQUARE[:2], left_side=True), ValueError,
         "triangular_solve needs matrices that fit.\n  a: float32[3,3]\n  b: float32[2,3]\n  left_side: True\n"
         "Give b as many rows as a has, or change left_side."),
        (lambda: lax.linalg.triangular_solve(SQUARE, SQUARE[None]), TypeError,
         "a and b of triangular_solve have equal batch axes."),
        (lambda: lax.linalg.triangular_solve(SQUARE, SQUARE.astype("complex64")), TypeError,
         "triangular_solve takes arrays of one dtype."),
        (lambda: lax.linalg.lu_pivots_to_permutation(VECTOR, 3), TypeError, "Pivots are vectors of int32."),
        (lambda: lax.linalg.lu_pivots_to_permutation(np.zeros(3, "int32"), 2), ValueError,
         "A permutation is at least as long as its pivots.\n  pivots: int32[3], permutation_size: 2"),
        (lambda: lax.linalg.householder_product(SQUARE[:2], VECTOR), ValueError,
         "householder_product takes vectors as columns"),
        (lambda: dx.grad(lambda a: dnp.sum(lax.linalg.householder_product(a, VECTOR)))(SQUARE), NotImplementedError,
         "it is a part of qr, which is differentiated as a whole"),
        (lambda: lax.linalg.cholesky_update(SQUARE, VECTOR[:2]), ValueError,
         "cholesky_update takes a vector of the dtype and length of the factor's columns.\n"
         "  r_matrix: float32[3,3], w_vector: float32[2]"),
        (lambda: lax.linalg.tridiagonal_solve(VECTOR, VECTOR, VECTOR, SQUARE[:2]), TypeError,
         "tridiagonal_solve takes three diagonals of the dtype of b, as long as b has rows.\n"
         "  dl: float32[3], d: float32[3], du: float32[3], b: float32[2,3]"),
        (lambda: lax.linalg.svd(SQUARE, algorithm=lax.linalg.SvdAlgorithm.POLAR), NotImplementedError,
         "svd does not have this algorithm here.\n  algorithm: SvdAlgorithm.POLAR, platform: cpu, which has"),
        (lambda: lax.linalg.eigh(SQUARE, subset_by_index=(1, 4)), ValueError,
         "subset_by_index of eigh is a range of positions.\n  subset_by_index: (1, 4), number of values: 3"),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()


@pytest.mark.cpu
def test_factorisations_take_the_memory_of_operands_that_nobody_needs() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 5)).astype(np.float32)
    a = x @ x.mT + np.eye(5, dtype=np.float32)

    @dx.jit
    def rests(a: Any) -> Any:
        lower, (q, r) = lax.linalg.cholesky(a), lax.linalg.qr(a)
        half = lax.linalg.triangular_solve(lower, a, left_side=True, lower=True)
        return lower @ lower.mT - a, q @ r - a, lower @ half - a, dnp.linalg.det(a) * dnp.linalg.det(x) - 1

    assert rests.lower(a).as_text().count("output_operand_aliases") == 5
    *zeros, det = rests(a)
    for zero in zeros:
        assert np.abs(zero).max() < 1e-4
    assert_close(det, np.linalg.det(a) * np.linalg.det(x) - 1, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", first(["complex128", "float64"]))
def test_columns_of_a_complete_q_turn_among_themselves_as_the_reflections_do(dtype):
    """Derivatives by central differences; a matrix that needs no reflection, where Q jumps, has finite ones."""
    x, direction, weights = np.random.default_rng(0).normal(size=(3, 4, 4)).astype(dtype) * np.dtype(
        dtype
    ).type(1 + (0.5j if "c" in dtype else 0))
    x, direction, h = x[:, :2], direction[:, :2], 1e-6
    with dx.enable_x64(True):
        f = dx.jit(lambda x: dnp.real(lax.linalg.qr(x, full_matrices=True)[0] * weights).sum())
        wanted = (f(x + h * direction) - f(x - h * direction)) / (2 * h)
        np.testing.assert_allclose(dx.jvp(f, (x,), (direction,))[1], wanted, rtol=1e-6)
        np.testing.assert_allclose(np.sum(dx.grad(f)(x) * direction).real, wanted, rtol=1e-6)
        assert np.isfinite(dx.grad(f)(np.eye(4, 2, dtype=dtype))).all()


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_small_matrices_are_factored_eagerly_with_the_bits_of_the_compiled_program(dtype: str):
    x = RNG.normal(size=(3, 4, 3)) + (1j * RNG.normal(size=(3, 4, 3)) if dtype == "complex64" else 0)
    x[2, 0, 0] = np.nan

    def factors(x: Any) -> Any:
        square = x[:, :3]
        return [
            *svd.svd(x), *svd.svd(x.mT, full_matrices=False), *qr.qr(x), *qr.qr_pivoting(x, False), *lu.lu(x),
            *qr.geqrf(x), qr.householder_product(x, x[:, 0]), *eigen.eigh(square), *eigen.eigh(square, False),
            *similarity.hessenberg(square), *similarity.schur(square),
            triangular.triangular_solve(square, x, lower=True, conjugate_a=True),
            triangular.triangular_solve(square, x, transpose_a=True, conjugate_a=True, unit_diagonal=True),
        ]  # fmt: skip

    x = dnp.asarray(x.astype(dtype))
    for got, want in zip(factors(x), dx.jit(factors)(x), strict=True):
        assert got.aval is want.aval
        np.testing.assert_array_equal(got, want)
    # LAPACK's `gesdd` may not return for such a matrix.
    infinite = dnp.asarray(np.full((4, 4), np.inf, dtype))
    assert all([np.isnan(y).all() for y in svd.svd(infinite)])


@EVALUATE
def test_the_derivative_of_a_cholesky_factor_is_a_triangle(evaluate: Any) -> None:
    """Also where there is no factor, which NaN tells, and with zeros of one sign."""
    for x in (np.ones((3, 3), np.float32), with_eigenvalues(1, 2, 3, 4).astype("float32")):
        _, tangent = evaluate(lambda x: dx.jvp(lax.linalg.cholesky, (x,), (-x,)))(x)
        above = np.asarray(tangent)[np.triu_indices(len(x), 1)]
        assert above.tobytes() == np.zeros_like(above).tobytes()


@pytest.mark.cpu
@pytest.mark.parametrize("n, m", [(4, 4), (3, 1)])
def test_many_small_systems_are_solved_side_by_side(n: int, m: int) -> None:
    """By partial pivoting: small residuals at any condition; NaN for singular matrices alone."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 50, n, n)), rng.standard_normal((3, 50, n, m)).astype(np.float32)
    a[0] *= 10.0 ** rng.uniform(-6, 6, (50, n, 1))  # rows of all sizes
    a[1] = a[1, :, :, :1] + 1e-3 * a[1]  # nearly singular
    a[2, 0], a[2, 1, 0, 0], a[2, 2, :, 1], a[2, 3, 0, 0] = np.eye(n)[::-1], 0, 0, np.nan
    a[2, 4, 0] = a[2, 4, -1]
    a = a.astype(np.float32)
    program = dx.jit(lambda a, b: solve_p.bind(a, b))
    assert "place" in program.lower(a, b).as_text()
    x = np.asarray(program(a, b))
    assert np.isnan(x[2, 2:4]).all()
    # A pivot of equal rows is 0, unless the compiler rounds the steps of the two rows differently.
    assert np.isnan(x[2, 4]).all() or np.abs(x[2, 4]).max() > 1e5
    assert not np.isnan(np.delete(x.reshape(150, -1), [102, 103, 104], 0)).any()
    exact, size = a.astype(float), lambda y: np.abs(y).max((-2, -1))
    residual = size(exact @ x.astype(float) - b) / (size(exact) * size(x) + size(b))
    assert np.nanmax(residual) < 5e-7
    few = np.asarray(dx.jit(solve_p.bind)(a[2, :2], b[2, :2]))  # by LAPACK
    np.testing.assert_allclose(x[2, :2], few, rtol=1e-5, atol=1e-6)


@pytest.mark.cpu
def test_determinants_of_many_small_matrices_are_products_of_pivots() -> None:
    a = np.random.default_rng(0).standard_normal((128, 5, 5)).astype(np.float32)
    a[0], a[1, :, 2], a[2, 1], a[3, 0, 0], a[4] = 0, 0, a[2, 4], np.nan, np.eye(5)[[1, 0, 2, 4, 3]]
    a[5] = np.eye(5)[[1, 0, 2, 3, 4]]
    program = dx.jit(lambda a: (dnp.linalg.det(a), *dnp.linalg.slogdet(a)))
    assert "place" in program.lower(a).as_text()
    det, sign, logarithm = map(np.asarray, program(a))
    assert (det[[0, 1, 2, 4, 5]] == [0, 0, 0, 1, -1]).all() and np.isnan(det[3])
    assert (sign[[0, 1, 2, 4, 5]] == [0, 0, 0, 1, -1]).all() and np.isnan(sign[3])
    assert (logarithm[:3] == -np.inf).all() and np.isnan(logarithm[3])
    exact = np.linalg.det(a[4:].astype(float))
    np.testing.assert_allclose(det[4:], exact, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sign[4:] * np.exp(logarithm[4:]), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.cpu
def test_some_small_systems_are_one_kernel_and_many_are_several() -> None:
    """XLA compiles one kernel in half of the time, but refuses it where it has work for several threads."""
    a = np.random.default_rng(0).standard_normal((1000, 8, 8)).astype(np.float32)
    program = dx.jit(lambda a: dnp.linalg.slogdet(a)[1])
    marked = ["small_call" in program.lower(x).as_text() for x in (a[:128], a[:256], a)]
    assert marked == [True, True, False]
    np.testing.assert_allclose(program(a)[:128], program(a[:128]), rtol=1e-4, atol=1e-4)
    inverses = lambda *shape: dx.jit(dnp.linalg.inv).lower(np.ones(shape, np.float32)).as_text()
    assert ["small_call" in inverses(n, 4, 4) for n in (1024, 1025)] == [True, False]


@pytest.mark.cpu
def test_derivatives_of_many_small_systems() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((130, 2, k)).astype(np.float32) + 3 * np.eye(2, k, dtype="f") for k in (2, 1))
    loss = lambda a, b: (dnp.linalg.solve(a, b) ** 2).sum()
    many = dx.jit(dx.grad(loss, argnums=(0, 1)))(a, b)
    few = dx.grad(loss, argnums=(0, 1))(a[:3], b[:3])
    for x, y in zip(many, few, strict=True):
        np.testing.assert_allclose(x[:3], y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left_side", [True, False])
@pytest.mark.parametrize("dim", [0, 1, 3])
def test_batches_of_right_hand_sides_do_not_repeat_the_matrices(dim, left_side):
    rng = np.random.default_rng(0)
    a = np.tril(rng.standard_normal((4, 3, 3), np.float32)) + 3 * np.eye(3, dtype=np.float32)
    b = rng.standard_normal((5, 4, 3, 2) if left_side else (5, 4, 2, 3), np.float32)
    solvers = [lambda b: lax.linalg.triangular_solve(a, b, left_side=left_side, lower=True)]
    if left_side:
        solvers.append(lambda b: dnp.linalg.solve(a, b))
    for solve in solvers:
        solved = dx.vmap(solve, dim, dim)
        given = np.moveaxis(b, 0, dim)
        wanted = np.moveaxis(np.stack([solve(x) for x in b]), 0, dim)
        np.testing.assert_allclose(solved(given), wanted, rtol=1e-5, atol=1e-6)
        sizes = [x.aval.size for eqn in dx.make_jaxpr(solved)(given).jaxpr.eqns for x in eqn.invars]
        assert max(sizes) == b.size


@pytest.mark.parametrize("dtype", first(["float32", "complex64"]))
def test_determinants_of_one_and_two_rows_call_no_library(dtype):
    for n in (1, 2):
        x = np.random.default_rng(n).standard_normal((20, n, n)).astype(dtype)
        x[0], x[1, 0], x[2, :, 0], x[3] = 0, 0, 0, 1
        x[4] *= np.float32(1e25)
        x[5, -1, 0] = np.nan
        found = dx.jit(dnp.linalg.slogdet)(dnp.asarray(x))
        others = np.delete(x, 5, 0).astype("complex128" if dtype[0] == "c" else "float64")
        for y, z in zip(found, np.linalg.slogdet(others), strict=True):
            np.testing.assert_allclose(np.delete(y, 5, 0), z, 1e-4, 1e-4)
        assert np.isnan(found.logabsdet[5]) and found.sign.dtype == x.dtype
        assert "custom_call" not in dx.jit(dnp.linalg.slogdet).lower(x[0]).as_text()
    slopes = dx.jit(dx.grad(lambda a: dnp.linalg.slogdet(a).logabsdet))(x[10])
    np.testing.assert_allclose(slopes, np.linalg.inv(x[10]).T, 1e-3)
