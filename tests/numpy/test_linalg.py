"""didax.numpy.linalg agrees with jax.numpy.linalg; its derivatives agree with finite differences, corners included."""

import functools
import itertools

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from tests.checks import check_grads, first, sampled
from tests.numpy.oracle import assert_same, check

RTOL = 1e-4


def matrix(dtype="float32", shape=(3, 3), seed=0):
    """Well conditioned."""
    rng = np.random.default_rng([seed, len(shape)])
    x = rng.normal(size=shape) + 3 * np.eye(*shape[-2:])
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


def positive(dtype="float32", shape=(3, 3)):
    x = matrix(dtype, shape)
    return x @ np.conj(np.swapaxes(x, -1, -2))


# --- values: s square, b a batch of them, t tall, p positive definite, v a vector ---------------------------

ONE_MATRIX = [
    "inv(s)", "inv(b)", "det(s)", "det(b)", "slogdet(b)", "slogdet(-s, method='lu')", "pinv(t)",
    "pinv(t.mT)", "pinv(b, rtol=0.5)", "pinv(p, hermitian=True)", "cholesky(p)", "cholesky(p, upper=True)",
    "cholesky(s, symmetrize_input=False)", "svd(b, compute_uv=False)", "svdvals(t)", "eigvalsh(p)",
    "eigvalsh(s, 'U')", "eigvalsh(s, 'U', symmetrize_input=False)", "eigh(p).eigenvalues",
    "svd(p, hermitian=True)[1]", "svd(s + s.mT, hermitian=True, compute_uv=False)", "matrix_rank(b)",
    "matrix_rank(s, hermitian=True)", "matrix_rank(b, tol=3.0)", "matrix_rank(t)", "matrix_rank(v)",
    "cond(b)", "cond(s, 'fro')", "cond(s, 1)", "cond(b, np.inf)", "cond(s, -2)", "cond(t)",
    "cond(b, 'nuc')", "matrix_power(s, 0)", "matrix_power(b, 1)", "matrix_power(s, 5)",
    "matrix_power(s, -2)", "matrix_power(b, 3)", "trace(b)", "trace(t, offset=-1)", "diagonal(b, offset=1)",
    "diagonal(t)", "matrix_transpose(t)", "tensorinv(s.reshape(3, 1, 3))", "tensorinv(s, 1)",
    "tensorsolve(s, v)", "tensorsolve(s.reshape(3, 3, 1), v)",
    "tensorsolve(s.reshape(3, 1, 3), v[None], axes=(0,))", "solve(s, v)", "solve(b, v)", "solve(b, s)",
    "solve(s, b)", "solve(b, b)", "solve(s, v[:, None])", "lstsq(t, t[:, 0])", "lstsq(t, t)",
    "lstsq(t.mT, v[:2])", "lstsq(s, v, rcond=0.8)", "lstsq(s, v, rcond=-1)", "multi_dot([s, t])",
    "multi_dot([v, s, t, t.mT, v])", "multi_dot([t.mT, s, v])", "outer(v, v)", "cross(s, v)",
    "cross(b, s, axis=-2)", "vecdot(b, s)", "vecdot(t, t, axis=0)", "tensordot(b, s, axes=1)",
    "matmul(b, t)",
]  # fmt: skip
ORDERS = ["None", "'fro'", "'nuc'", "1", "-1", "2", "-2", "np.inf", "-np.inf"]
NORMS = [
    "norm(s)", "norm(b)", "norm(v)", *(f"norm(t, {p})" for p in ORDERS), *(f"norm(b, {p}, (2, 0))" for p in ORDERS),
    *(f"matrix_norm(b, ord={p}, keepdims=True)" for p in ORDERS[1:]),
    *(f"norm(b, {p}, axis=1, keepdims=True)" for p in ("None", "0", "1", "2", "3", "0.5", "-1", "-2.5", "np.inf")),
    *(f"vector_norm(b, ord={p}, axis=(0, 2))" for p in ("0", "1", "2", "1.5", "np.inf", "-np.inf")),
    "norm(s, 'f')", "matrix_norm(b, ord='f')", "cond(s, 'f')",
    "vector_norm(b)", "vector_norm(b, keepdims=True)", "norm(b, keepdims=True)", "norm(b, axis=(0, 1), keepdims=True)",
    "norm(s, axis=-1)", "norm(v[0])", "vector_norm(v[0])",
]  # fmt: skip


TEXTS = ONE_MATRIX + NORMS


@functools.cache
def results(library, dtype):
    """Every expression, in one compiled program: of jax, the oracle, or of Didax."""
    np_, jit = (jax.numpy, jax.jit) if library == "jax" else (dnp, dx.jit)
    everything = eval(f"lambda np, L, s, b, t, p, v: [{', '.join([f'L.{t}' for t in TEXTS])}]")
    return dict(zip(TEXTS, jit(lambda *xs: everything(np, np_.linalg, *xs))(*operands(dtype)), strict=True))


def operands(dtype):
    return matrix(dtype), matrix(dtype, (2, 3, 3)), matrix(dtype, (3, 2)), positive(dtype), matrix(dtype)[0]


@pytest.mark.parametrize(
    "text, dtype",
    [
        *sampled(itertools.product(TEXTS, ["float32"]), 2),
        *first(sampled(itertools.product(TEXTS, ["complex64"]), 2), 0),
    ],
)
def test_values(text, dtype):
    call = eval(f"lambda np, L, s, b, t, p, v: L.{text}")
    ours, theirs = call(np, dnp.linalg, *map(dnp.asarray, operands(dtype))), results("jax", dtype)[text]
    assert_same(ours, theirs, rtol=RTOL)
    if dtype == "float32":
        assert_same(results("didax", dtype)[text], theirs, rtol=RTOL)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (3, 3)])
def test_residuals_where_numpy_has_them(shape):
    x = matrix(shape=shape)
    for ours, theirs in zip(
        dnp.linalg.lstsq(x, x[:, 0], numpy_resid=True), np.linalg.lstsq(x, x[:, 0]), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=RTOL, atol=RTOL)
        assert np.shape(ours) == np.shape(theirs)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32"])
def test_integers_count_as_floats(dtype):
    x = np.round(3 * matrix()).astype(dtype) if dtype != "bool" else np.eye(3)[::-1] > 0
    wide = x.astype("float32")
    for text in (
        "norm(x)",
        "norm(x, 1)",
        "norm(x, 3, axis=0)",
        "det(x)",
        "inv(x)",
        "matrix_power(x, -1)",
        "solve(x, x[0])",
        "pinv(x)",
    ):
        ours, theirs = [eval(f"L.{text}", {"L": dnp.linalg, "x": dnp.asarray(y)}) for y in (x, wide)]
        assert ours.dtype == "float32"
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    check("np.linalg.matrix_power(x, 3)", x, jit=False)
    assert dnp.linalg.solve(x, matrix("complex64")).dtype == "complex64"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_have_norms_and_products_but_no_factors(dtype):
    x = dnp.asarray(matrix()).astype(dtype)
    wide = x.astype("float32")
    for order in (None, 1, 2, "nuc", np.inf):
        y = dnp.linalg.norm(x, order)
        assert y.dtype == dtype
        np.testing.assert_allclose(float(y), dnp.linalg.norm(wide, order), rtol=1e-2)
    refused = (
        "slogdet(x)",
        "lstsq(x, v)",
        "inv(x)",
        "matrix_power(x, -1)",
        "solve(x, v)",
        "svdvals(x)",
        "pinv(x)",
    )
    for text in refused:
        with pytest.raises(TypeError, match=r"computes in float32, .*\n  \w+: \w+\[3,3\]\nCast it first"):
            eval(f"dnp.linalg.{text}", {"dnp": dnp, "x": x, "v": x[0]})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_determinants_and_triangular_systems_are_computed_in_float32(dtype):
    """JAX computes the same ones, in the narrow dtype."""
    x = dnp.asarray(np.float32([[3, 1, 0], [2, 4, 1], [0.5, 1, 2]])).astype(dtype)
    wide, v = x.astype("float32"), x[0]
    for of in (lambda f: f, dx.jit):
        for n in (1, 2, 3):
            found, wanted = of(dnp.linalg.det)(x[:n, :n]), dnp.linalg.det(wide[:n, :n])
            assert found.dtype == dtype
            assert found == wanted.astype(dtype)
        assert of(dx.grad(lambda x: dnp.linalg.det(x).astype("float32")))(x).dtype == dtype
        for solve in (
            lambda a, b: dx.lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
            lambda a, b: dx.lax.linalg.cholesky_update(dnp.triu(a), b),
            dx.scipy.linalg.solve_triangular,
            lambda a, b: dx.scipy.linalg.cho_solve((a, True), b),
            lambda a, b: dx.scipy.linalg.lu_solve((a, dnp.array([2, 1, 2])), b, trans=1),
        ):
            found = of(solve)(x, v)
            assert found.dtype == dtype
            assert (found == solve(wide, v.astype("float32")).astype(dtype)).all()
    assert dx.scipy.linalg.solve_triangular(x, np.arange(3)).dtype == dtype
    assert dx.scipy.linalg.sqrtm(x).dtype == "complex64"
    with pytest.raises(TypeError, match="det computes in float32"):
        dnp.linalg.det(dnp.eye(4, dtype=dtype))


def test_a_wide_result_of_narrow_elements():
    """Squares of float16 overflow where their root does not."""
    assert float(dnp.linalg.norm(dnp.full((2,), 300, "float16"))) == 424.25
    assert dnp.linalg.norm(dnp.eye(2, dtype="bfloat16"), 2).dtype == "bfloat16"


def test_double_precision():
    x = matrix("float64", (4, 4))
    with dx.enable_x64(True), jax.enable_x64(True):
        for text in ("inv(x)", "det(x)", "norm(x, 'nuc')", "pinv(x[:2])", "cond(x)", "solve(x, x[0])"):
            ours, theirs = [eval(f"L.{text}", {"L": library.linalg, "x": x}) for library in (dnp, np)]
            np.testing.assert_allclose(ours, theirs, rtol=1e-10)
            assert ours.dtype == "float64"


EMPTY = [
    "det(e)", "tuple(np.linalg.slogdet(e))", "inv(e)", "pinv(e)", "pinv(np.ones((2, 0)))", "norm(e)",
    "norm(e, 2)", "norm(e, 'nuc')", "norm(e, np.inf)", "norm(np.ones((0, 3)), 1)", "vector_norm(e[:, :0])",
    "solve(e, np.ones((0,)))", "solve(e, np.ones((0, 2)))", "tuple(np.linalg.svd(np.ones((0, 2))))",
    "tuple(np.linalg.qr(np.ones((3, 0))))", "eigvalsh(e)", "cholesky(e)", "det(np.ones((0, 3, 3)))",
    "inv(np.ones((0, 3, 3)))", "matrix_power(e, 0)", "matrix_power(e, 2)",
    "lstsq(np.ones((0, 2)), np.ones((0, 3)))", "trace(e)", "diagonal(e)",
]  # fmt: skip


@pytest.mark.parametrize("text", EMPTY)
def test_empty_matrices(text):
    text = text if text.startswith("tuple") else f"np.linalg.{text}"
    check(text.replace("e)", "x)").replace("(e", "(x"), np.zeros((0, 0), "float32"))


def test_rank_by_relative_and_absolute_tolerance():
    """jax takes rtol for an absolute tolerance; NumPy's is relative."""
    x = np.diag([10, 1, 0.5]).astype("float32")
    for tolerance in (
        {"rtol": 0.08},
        {"rtol": 0.02},
        {"tol": 0.8},
        {"tol": 0.08},
        {"rtol": np.float32([0.08, 0.3])},
    ):
        x_ = np.stack([x, x]) if np.ndim(next(iter(tolerance.values()))) else x
        np.testing.assert_array_equal(
            dnp.linalg.matrix_rank(x_, **tolerance), np.linalg.matrix_rank(x_, **tolerance)
        )
    assert int(dnp.linalg.matrix_rank(dnp.zeros((0, 2)))) == 0


# --- factorisations: the factors multiply to the matrix -----------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_factors(dtype, shape):
    x = dnp.asarray(matrix(dtype, shape))
    adjoint = lambda y: dnp.conj(dnp.matrix_transpose(y))
    for full in (True, False):
        u, s, vh = dnp.linalg.svd(x, full_matrices=full)
        k = s.shape[-1]
        np.testing.assert_allclose(
            (u[..., :k] * s[..., None, :].astype(dtype)) @ vh[..., :k, :], x, rtol=RTOL, atol=RTOL
        )
        q, r = dnp.linalg.qr(x, "complete" if full else "reduced")
        np.testing.assert_allclose(q @ r, x, rtol=RTOL, atol=RTOL)
        np.testing.assert_allclose(
            adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (adjoint(q) @ q).shape), atol=1e-5
        )
    np.testing.assert_array_equal(dnp.linalg.qr(x, "r"), r)
    for ours, theirs in zip(dnp.linalg.qr(x, "raw"), np.linalg.qr(x, "raw"), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=RTOL, atol=RTOL)
    assert isinstance(dnp.linalg.svd(x), dnp.linalg.SVDResult)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_eigenvectors(dtype):
    s, p = dnp.asarray(matrix(dtype, (2, 3, 3))), dnp.asarray(positive(dtype))
    w, v = dnp.linalg.eig(s)
    np.testing.assert_allclose(s @ v, v * w[..., None, :], rtol=RTOL, atol=1e-3)
    np.testing.assert_allclose(dnp.sort(dnp.linalg.eigvals(s)), dnp.sort(w), rtol=RTOL)
    w, v = dnp.linalg.eigh(p)
    np.testing.assert_allclose(p @ v, v * w.astype(dtype), rtol=RTOL, atol=1e-3)
    u, s, vh = dnp.linalg.svd(-p, hermitian=True)
    np.testing.assert_allclose((u * s.astype(dtype)) @ vh, -p, rtol=RTOL, atol=1e-3)


def test_hermitian_svd_of_a_singular_matrix_has_orthonormal_columns():
    u, s, _ = dnp.linalg.svd(dnp.diag(dnp.array([0.0, -2.0, 1.0])), hermitian=True)
    np.testing.assert_array_equal(s, [2, 1, 0])
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-6)


def test_some_singular_values():
    x = dnp.asarray(matrix(shape=(4, 3)))
    some, every = [dnp.linalg.svd(x, full_matrices=False, subset_by_index=i) for i in ((0, 2), None)]
    np.testing.assert_allclose(some.S, every.S[:2], rtol=1e-6)
    assert (some.U.shape, some.Vh.shape) == ((4, 2), (2, 3))


def test_results_are_pytrees():
    q, s = dx.jit(lambda x: (dnp.linalg.qr(x), dnp.linalg.slogdet(x)))(matrix())
    assert isinstance(q, dnp.linalg.QRResult) and isinstance(s, dnp.linalg.SlogdetResult)
    batched = dx.vmap(dnp.linalg.eigh)(positive(shape=(2, 3, 3)))
    assert batched.eigenvalues.shape == (2, 3) and batched.eigenvectors.shape == (2, 3, 3)


# --- derivatives --------------------------------------------------------------------------------------------

SMOOTH = [
    "inv(s)", "det(s)", "slogdet(s).logabsdet", "solve(s, v)", "solve(s, t)", "pinv(t)", "pinv(t.mT)",
    "lstsq(t, v)[0]", "lstsq(t, v)[1]", "cholesky(p(s))", "eigvalsh(p(s))", "svdvals(t)", "norm(t)",
    "norm(t, 'nuc')", "norm(t, 2)", "norm(t, -2)", "norm(v, 3)", "norm(v, 1.5)", "cond(s)",
    "cond(s, 'fro')", "matrix_power(s, 3)", "matrix_power(s, -1)", "multi_dot([v, s, t])",
    "tensorinv(s, 1)", "tensorsolve(s, v)", "qr(t).R", "abs(L.eigvals(s)).sum()", "cross(s, v)",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("text", SMOOTH)
def test_derivatives(text, dtype):
    prefix = "" if text.startswith("abs") else "L."
    f = eval(f"lambda s, t, v: {prefix}{text}", {"L": dnp.linalg, "p": lambda x: x @ x.mT.conj()})
    with dx.enable_x64(True):
        args = [
            dnp.asarray(x) for x in (matrix(dtype), matrix(dtype, (3, 2), seed=1), matrix(dtype, seed=2)[0])
        ]
        check_grads(
            f,
            args,
            order=2 if dtype == "float64" and text[:3] in ("inv", "det", "slo", "sol", "pin", "nor") else 1,
        )


@pytest.mark.parametrize(
    "text",
    ["det(x)", "inv(x).sum()", "solve(x, x[0]).sum()", "slogdet(x)[1]", "norm(x, 'nuc')", "pinv(x).sum()"],
)
def test_gradients_under_vmap_and_jit(text):
    x = matrix(shape=(2, 4, 4))
    gradient = lambda np, grad, vmap: vmap(grad(eval(f"lambda x: L.{text}", {"L": np.linalg})))
    wanted = gradient(jax.numpy, jax.grad, jax.vmap)(x)
    for ours in (gradient(dnp, dx.grad, dx.vmap), dx.jit(gradient(dnp, dx.grad, dx.vmap))):
        np.testing.assert_allclose(ours(x), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_gradient_of_det_at_singular_matrices(n):
    """It is the matrix of cofactors, here by their definition; all of them vanish two ranks down."""
    x = np.random.default_rng(0).normal(size=(n, n)).astype("float32")
    x[-1] = x[: n - 1].sum(0)
    minors = [
        [np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) * (-1) ** (i + j) for j in range(n)]
        for i in range(n)
    ]
    for grad in (dx.grad(dnp.linalg.det), dx.jit(dx.grad(dnp.linalg.det)), dx.jacfwd(dnp.linalg.det)):
        np.testing.assert_allclose(grad(x), minors, rtol=1e-3, atol=1e-4)
        if n > 2:
            np.testing.assert_allclose(grad(np.ones((n, n), "float32")), 0, atol=1e-6)


def test_second_derivative_of_det_at_zero():
    """det(a) of two rows is a quadratic form, of five rows it vanishes to fifth order."""
    with dx.enable_x64(True):
        hessian = dx.hessian(dnp.linalg.det)
        np.testing.assert_array_equal(
            hessian(np.zeros((2, 2))).reshape(4, 4), np.fliplr(np.diag([1, -1, -1, 1]))
        )
        np.testing.assert_array_equal(hessian(np.zeros((5, 5))), 0)
        rank_1 = np.outer(
            np.cos(np.arange(6) + 2), np.sin(1 + np.arange(6) * 2)
        )  # its pivots vanish to rounding
        second = dx.grad(lambda x: dx.grad(dnp.linalg.det)(x).sum())(rank_1)
        np.testing.assert_allclose(second, np.zeros((6, 6)), atol=1e-12)


def test_derivatives_where_singular_values_coincide():
    """The factors have no derivative there, but what is made of them has."""
    with dx.enable_x64(True):
        x = dnp.eye(4, 3)
        for f in (
            dnp.linalg.pinv,
            lambda x: dnp.linalg.norm(x, "nuc"),
            lambda x: dnp.linalg.lstsq(x, dnp.arange(4.0))[0],
        ):
            check_grads(f, (x,), order=2 if f is dnp.linalg.pinv else 1)
        y = dnp.asarray(np.diag([1.0, 2, 3]) + 0.5)
        weights = np.arange(9.0).reshape(3, 3)
        hessian = dx.hessian(lambda x: (dnp.linalg.pinv(x, hermitian=True) * weights).sum())(y).reshape(9, 9)
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)


def test_gradients_of_norms_at_zero():
    zero = dnp.zeros((3, 2))
    orders = (None, "fro", "nuc", 1, np.inf)
    norms = [lambda x, p=p: dnp.linalg.norm(x, p) for p in orders]
    norms += [lambda x, p=p: dnp.linalg.vector_norm(x, ord=p) for p in (1, 1.5, 2, 3, np.inf)]
    for f in norms:
        assert np.isfinite(dx.grad(f)(zero)).all() and np.isfinite(dx.jit(dx.grad(f))(zero)).all()
    np.testing.assert_array_equal(dx.grad(dnp.linalg.norm)(zero), 0)
    np.testing.assert_array_equal(
        dx.hessian(lambda x: dnp.linalg.norm(x) ** 2)(dnp.ones(1)), 2 * dnp.ones((1, 1))
    )


def test_singular_matrices_give_nan_or_infinity():
    x = dnp.array([[1.0, 2], [2, 4]])
    for f in (lambda f: f, dx.jit):
        assert np.isnan(f(dnp.linalg.inv)(x)).all() and np.isnan(f(dnp.linalg.solve)(x, dnp.ones(2))).all()
        assert float(f(dnp.linalg.cond)(dnp.zeros((2, 2)))) == np.inf
        assert [float(y) for y in f(dnp.linalg.slogdet)(x)] == [0, -np.inf]
        assert np.isnan(f(dnp.linalg.slogdet)(x + np.nan)).all()
        assert np.isnan(f(dnp.linalg.cholesky)(-x)).any()
    one_of_two = dnp.linalg.inv(dnp.stack([x, dnp.eye(2)]))
    assert np.isnan(one_of_two[0]).all() and np.array_equal(one_of_two[1], np.eye(2))
    assert np.isnan(dnp.linalg.cond(dnp.full((2, 2), np.nan)))
    for p in (None, 1):  # no matrices have no numbers, as in NumPy
        assert dnp.linalg.cond(dnp.zeros((0, 2, 2)), p).shape == (0,)


# --- errors -------------------------------------------------------------------------------------------------

L = dnp.linalg
ERRORS = [
    (lambda: L.det(dnp.ones((2, 3))), ValueError, r"det takes square matrices\.\n  a: float32\[2,3\]"),
    (lambda: L.inv(dnp.ones(3)), TypeError, r"inv takes matrices.*\n  a: float32\[3\]"),
    (lambda: L.solve(dnp.eye(3), dnp.ones((2, 3))), ValueError, r"a: float32\[3,3\]\n  b: float32\[2,3\]\nMake"),
    (lambda: L.solve(dnp.eye(3), 1.0), ValueError, r"b: float32\[\]"),
    (lambda: L.eigh(dnp.eye(2), "x"), ValueError, r"eigh reads one triangle\.\n  UPLO: 'x'"),
    (lambda: L.qr(dnp.eye(2), "full"), ValueError, r"mode: 'full'"),
    (lambda: L.svd(dnp.eye(2), subset_by_index=(0, 1)), ValueError, "reduced factors"),
    (lambda: L.slogdet(dnp.eye(2), method="svd"), ValueError, r"method: 'svd'"),
    (lambda: L.norm(dnp.ones((2, 2, 2)), 2), ValueError, r"x: float32\[2,2,2\], axis: None, ord: 2\nName"),
    (lambda: L.norm(dnp.eye(2), "nope"), ValueError, r"norm of matrices has no such order\.\n  ord: 'nope'"),
    (lambda: L.norm(dnp.eye(2), 3), ValueError, r"ord: 3\.0\nUse 'fro'"),
    (lambda: L.norm(dnp.ones(2), "fro"), ValueError, r"norm of vectors has no such order\.\n.*\nUse a number"),
    (lambda: L.vector_norm(dnp.ones(2), ord="inf"), ValueError, r"numpy\.inf"),
    (lambda: L.matrix_norm(dnp.ones(2)), ValueError, "takes matrices"),
    (lambda: L.norm(dnp.zeros(0), -np.inf), ValueError, "float32"),
    (lambda: L.cond(dnp.zeros((0, 0))), ValueError, "with elements"),
    (lambda: L.vecdot(dnp.ones((2, 3)), dnp.ones(2)), ValueError, "vecdot sums over an axis of both"),
    (lambda: L.cond(dnp.ones((2, 3)), 1), ValueError, r"cond takes square matrices\.\n  x: float32\[2,3\]"),
    (lambda: L.matrix_rank(dnp.eye(2), 0.1, tol=0.1), ValueError, r"rtol=0\.1, tol=0\.1\nPass rtol or tol"),
    (lambda: L.pinv(dnp.eye(2), 0.1, rcond=0.1), ValueError, r"Pass rtol or rcond"),
    (lambda: L.pinv(dnp.ones((2, 2, 2)), dnp.ones(3)), ValueError, r"shapes: \(3,\), \(2,\)"),
    (lambda: L.matrix_power(dnp.eye(2), 0.5), TypeError, r"n: 0\.5\nPass an int"),
    (lambda: L.matrix_power(dnp.ones((2, 3)), 2), ValueError, "square matrices"),
    (lambda: L.multi_dot([dnp.eye(2)]), ValueError, r"arrays: float32\[2,2\]\nUse matmul"),
    (lambda: L.multi_dot([]), ValueError, "arrays: none"),
    (lambda: L.outer(dnp.eye(2), dnp.ones(2)), ValueError, r"x1: float32\[2,2\], x2: float32\[2\]"),
    (lambda: L.lstsq(dnp.ones((2, 2, 2)), dnp.ones((2, 2))), ValueError, "Use vmap"),
    (lambda: L.tensorinv(dnp.ones((2, 3)), 1), ValueError, r"a: float32\[2,3\], ind: 1"),
    (lambda: L.tensorsolve(dnp.ones((2, 3)), dnp.ones(2)), ValueError, r"a: float32\[2,3\]\n  b: float32\[2\]"),
    (lambda: L.diagonal(dnp.ones(2)), ValueError, r"x: float32\[2\]\nGive it two axes"),
    (lambda: L.det([[1.0]]), TypeError, "det takes arrays and scalars"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
