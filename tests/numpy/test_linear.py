"""Products agree with jax.numpy over ranks, dtypes and einsum's notation."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from tests.numpy.oracle import check, compare, sample

SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((0, 3), (3, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_shapes(left, right):
    x, y = sample("float32", left), sample("float32", right)
    compare(lambda np, x, y: np.matmul(x, y), x, y, jit=False)
    compare(lambda np, x, y: x @ y, x, y)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float16", "bfloat16", "complex64"])
def test_matmul_dtypes(dtype):
    x = sample(dtype, (2, 2))
    for text in ("x @ x", "np.dot(x, x[0])", "x @ np.ones((2, 2))", "np.outer(x[0], x[0])"):
        check(text, x, jit=False, rtol=2e-2)


def test_products_of_weak_operands_are_weak():
    x = dnp.asarray(2.0)[None]
    assert (x @ x).weak_type and not (x @ dnp.ones(1)).weak_type


EXPRESSIONS = [
    "np.dot(z, y)", "np.inner(x, z[0])", "np.inner(x, 2.0)", "np.dot(x, 2)", "np.vdot(x, z[0])",
    "np.vdot(x * 1j, z[1])", "np.vecdot(x, z)", "np.vecdot(x * 1j, x, axis=0)", "np.outer(x, y)",
    "np.tensordot(x, y, 1)", "np.tensordot(z, x, ((1, 2), (0, 1)))", "np.tensordot(x, x)",
    "np.tensordot(x, y, 0)", "np.tensordot(x, y, (1, 0))", "np.trace(x)", "np.trace(z, 1, 1, 2)",
    "np.kron(x, y)", "np.kron(x[0], y)", "np.cross(x, z[0])", "np.matvec(z, y[:, 0])",
    "np.vecmat(x[:, 0], z)", "np.einsum('ij,jk', x, y)", "np.einsum('ij,jk->ki', x, y)",
    "np.einsum('ij->', x)", "np.einsum('ij->ji', x)", "np.einsum('ij', x)", "np.einsum('bij,jk->bik', z, y)",
    "np.einsum('...ij,jk->...ik', z, y)", "np.einsum('ij,ij->i', x, x)", "np.einsum('i,j->ij', x[0], y[0])",
    "np.einsum('ij,jk,bil->bkl', x, y, z)", "np.einsum('ii', x[:, :2])", "np.einsum('ii->i', x[:, :2])",
    "np.einsum('iij->j', z[:2, :2])", "np.einsum('ij,kl->', x, y)", "np.einsum('bij,bij->b', z, z)",
    "np.einsum('ij,ik->jk', x, x[:1])", "np.einsum(x, [0, 1], y, [1, 2], [0, 2])",
    "np.einsum('ij, jk -> ik', x, y)", "np.einsum('bij,ij->bj', z, x)",
    "np.einsum('ij,jk', x, y, precision='highest')", "np.einsum('i->', x[0])",
    "np.dot(x, y, precision='highest')",
]  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_products_are_those_of_jax(text):
    check(text, sample("float32", (2, 3)), sample("float32", (3, 4)), sample("float32", (5, 2, 3)), jit=False)


def test_a_stated_dtype_of_a_product_is_honoured():
    """JAX narrows it to 32 bits."""
    x = dnp.ones((2, 2))
    assert dnp.matmul(x, x, preferred_element_type="float64").dtype == np.float64


def test_products_with_scalars_take_the_dtype_asked_for():
    for product in (dnp.inner, dnp.dot, lambda x, y, **how: dnp.tensordot(x, y, 0, **how)):
        assert product(dnp.ones(2), 3, preferred_element_type="float16").dtype == np.float16


@pytest.mark.parametrize("groups", [1, 3])
def test_the_operand_whose_axes_come_last_goes_last(groups):
    """As in attention, whose logits are read along keys: then XLA moves none of them."""
    q, k = np.zeros((2, 5, 4, groups, 8), "float32"), np.zeros((2, 6, 4, 8), "float32")
    jaxpr = dx.make_jaxpr(lambda q, k: dnp.einsum("btkgh,bskh->bkgts", q, k))(q, k)
    (product,) = [e for e in jaxpr.eqns if e.primitive.name == "dot_general"]
    assert product.outvars[0].aval.shape == (2, 4, 5, groups, 6)


def test_einsum_compiled_differentiated_and_batched():
    x, y = sample("float32", (5, 2, 3)), sample("float32", (3, 4))
    f = lambda np: lambda x, y: np.einsum("bij,jk->bk", x, y).sum() ** 2
    for ours, theirs in zip(dx.grad(f(dnp), (0, 1))(x, y), jax.grad(f(jnp), (0, 1))(x, y), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    batched = dx.jit(dx.vmap(lambda a: dnp.einsum("ij,jk->ik", a, dnp.asarray(y))))(x)
    np.testing.assert_allclose(batched, x @ y, rtol=1e-4)


def test_a_product_of_many_matrices_is_ordered_well():
    shapes = [(2, 50), (50, 50), (50, 50), (50, 1)]
    matrices = [sample("float32", shape, seed=i) for i, shape in enumerate(shapes)]
    jaxpr = str(dx.make_jaxpr(lambda *ms: dnp.einsum("ab,bc,cd,de", *ms))(*matrices))
    assert "f32[50,50] = dot_general" not in jaxpr
    check_value = dnp.einsum("ab,bc,cd,de", *matrices)
    np.testing.assert_allclose(check_value, np.linalg.multi_dot(matrices), rtol=1e-3, atol=0.5)


ERRORS = [
    (
        lambda: dnp.matmul(dnp.zeros(2), 1.0),
        ValueError,
        r"vectors and matrices\.\n  operands: float32\[2\], float32\[\]\nUse \*",
    ),
    (
        lambda: dnp.zeros((2, 3)) @ dnp.zeros((2, 3)),
        TypeError,
        r"of one length\.\n  operands: float32\[2,3\], float32\[2,3\]\nTranspose",
    ),
    (lambda: dnp.tensordot(dnp.zeros(2), dnp.zeros(2), 2), TypeError, r"axes: 2, operands"),
    (
        lambda: dnp.einsum("ij", dnp.zeros(2)),
        ValueError,
        r"subscripts: 'ij', operands: float32\[2\]\nCheck the labels",
    ),
    (lambda: dnp.einsum("ij,jk", dnp.zeros((2, 3)), dnp.zeros((2, 3))), ValueError, "Check the labels"),
    (
        lambda: dnp.cross(dnp.zeros(4), dnp.zeros(3)),
        ValueError,
        r"two or three components\.\n  operands: float32\[4\]",
    ),
    (lambda: dnp.cross(dnp.zeros((2, 4)), dnp.zeros((2, 4))), ValueError, "axes of the vectors: -1, -1"),
    (
        lambda: dnp.linalg.cross(dnp.zeros(3), dnp.zeros(2)),
        ValueError,
        r"x2: float32\[2\], axis: -1\nnumpy.cross",
    ),
    (
        lambda: dnp.matvec(dnp.zeros(3), dnp.zeros(3)),
        ValueError,
        r"takes matrices and vectors\.\n  x1: float32\[3\], x2: float32\[3\]\nAdd the missing axis",
    ),
    (
        lambda: dnp.vecmat(dnp.zeros((2, 3)), dnp.zeros(3)),
        ValueError,
        r"vectors and matrices\.\n  x1: float32\[2,3\]",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_vmap_of_matmul_over_every_placement():
    x, y = sample("float32", (2, 3, 3)), sample("float32", (2, 3, 3))
    for i, j in itertools.product((0, 1, None), repeat=2):
        if i is None and j is None:
            continue
        a, b = (
            (x if i == 0 else x.transpose(1, 0, 2) if i == 1 else x[0]),
            (y if j == 0 else y.transpose(1, 0, 2) if j == 1 else y[0]),
        )
        ours = dx.vmap(dnp.matmul, in_axes=(i, j))(a, b)
        np.testing.assert_allclose(ours, jax.vmap(jnp.matmul, in_axes=(i, j))(a, b), rtol=1e-4, atol=1e-5)


CROSS = [
    ((2,), (2,), {}), ((3,), (2,), {}), ((2,), (3,), {}), ((4, 2), (4, 2), {}), ((2, 4), (2, 4), {"axis": 0}),
    ((2, 4), (4, 2), {"axisa": 0, "axisb": 1}), ((3, 4), (4, 2), {"axisa": 0, "axisb": 1, "axisc": 0}),
    ((4, 1, 3), (5, 2), {}), ((4, 1, 2), (5, 2), {}), ((2, 4), (2, 4), {"axisa": 0, "axisb": 0, "axisc": 1}),
    ((3, 4), (3, 4), {"axis": 0, "axisc": -1}), ((0, 2), (0, 2), {}), ((0, 3), (0, 2), {}),
    ((1, 2, 4), (3, 4), {"axis": -2}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Support for 2-dimensional vectors in jnp.cross")  # of jax 0.11
@pytest.mark.parametrize(("a", "b", "how"), CROSS)
def test_cross_products_of_plane_vectors(a, b, how):
    random = np.random.default_rng(0)
    x, y = random.normal(size=a).astype("f4"), random.normal(size=b).astype("f4")

    def cross(x, y):
        return dnp.cross(x, y, **how)

    wanted = jnp.cross(x, y, **how)
    for found in (cross(x, y), dx.jit(cross)(x, y)):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    weights = random.normal(size=wanted.shape).astype("f4")
    gradient = dx.grad(lambda x, y: (cross(x, y) * weights).sum(), (0, 1))(x, y)
    oracle = jax.grad(lambda x, y: (jnp.cross(x, y, **how) * weights).sum(), (0, 1))(x, y)
    for g, o in zip(gradient, oracle, strict=True):
        np.testing.assert_allclose(g, o, rtol=1e-5, atol=1e-6)
    pairs = np.stack([x, 2 * x])
    np.testing.assert_allclose(
        dx.vmap(cross, (0, None))(pairs, y), np.stack([wanted, 2 * wanted]), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(dx.jvp(cross, (x, y), (x, y))[1], 2 * wanted, rtol=1e-5, atol=1e-6)


def test_cross_products_promote_and_leave_out_the_missing_component():
    assert dnp.cross(np.int8([1, 2]), np.int16([3, 4, 5])).dtype == np.int16
    np.testing.assert_array_equal(dnp.cross(np.uint8([1, 2]), np.uint8([3, 4])), np.uint8(254))
    np.testing.assert_array_equal(
        dnp.cross(np.float32([1.0, 2.0]), np.float32([np.inf, 3.0, 4.0])), [8.0, -4.0, -np.inf]
    )


@pytest.mark.parametrize(
    "subscripts", ["bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd", "ij,jk->ik", "ij,kj->ik", "bik,bjk->bji"]
)
def test_a_product_of_two_operands_moves_no_axes_afterwards(subscripts: str) -> None:
    inputs = subscripts.split("->")[0].split(",")
    x, y = [dnp.ones([2 + "bhqdkij".index(label) for label in labels]) for labels in inputs]
    jaxpr = dx.make_jaxpr(lambda x, y: dnp.einsum(subscripts, x, y))(x, y)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["dot_general"]
