"""dot_general beyond the table of operations: which axes it moves, and what it refuses."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import config, dtypes
from didax.lax.dot import canonicalize_precision
from didax.xla.text import Module
from tests.checks import first

X = np.arange(6, dtype="float32").reshape(2, 3)
Y = np.arange(12, dtype="float32").reshape(3, 4)
MATMUL = (((1,), (0,)), ((), ()))


def primitives(fun, *args):
    """Names of the primitives a function is staged to."""
    return [eqn.primitive.name for eqn in dx.make_jaxpr(fun)(*args).eqns]


@pytest.mark.parametrize(
    "axes, out_axis", [((0, 0), 0), ((2, 1), 0), ((0, None), 0), ((1, None), 1), ((None, 2), 2)]
)
def test_a_batch_moves_no_axis(axes, out_axis):
    """A batched product is one dot_general, wherever the batch axes are."""
    args = [x if axis is None else np.stack([x] * 5, axis) for x, axis in zip((X, Y), axes, strict=True)]
    assert primitives(dx.vmap(lax.dot, axes, out_axis), *args) == ["dot_general"]
    assert np.array_equal(np.asarray(dx.vmap(lax.dot, axes)(*args))[3], X @ Y)


@pytest.mark.cpu
def test_rows_of_several_axes_are_a_matrix_for_xla():
    """XLA would move the summed axis of the right operand before the others, in each call."""
    draw = np.random.default_rng(0).standard_normal
    for x_shape, y_shape, numbers, wanted in (
        ((5,), (2, 3, 5), (((0,), (2,)), ((), ())), "a,bca->bc"),
        ((4, 5), (2, 3, 5), (((1,), (2,)), ((), ())), "da,bca->dbc"),
        ((4, 7, 5), (7, 2, 3, 5), (((2,), (3,)), ((1,), (0,))), "dna,nbca->ndbc"),
    ):
        x, y = draw(x_shape).astype("float32"), draw(y_shape).astype("float32")
        product = dx.jit(lambda x, y, numbers=numbers: lax.dot_general(x, y, numbers))
        (line,) = [line for line in product.lower(x, y).as_text().splitlines() if "dot_general" in line]
        operand = line.rsplit("(", 1)[1].split(",")[1].split(")")[0]
        assert operand.count("x") == len(numbers[1][0]) + 2, line
        np.testing.assert_allclose(product(x, y), np.einsum(wanted, x, y), rtol=1e-5)


def test_the_cotangents_of_a_matrix_product_move_no_axis():
    """x_bar = ct y^T and y_bar = x^T ct are each one dot_general."""

    def cotangents(x, y, ct):
        return dx.vjp(lax.dot, x, y)[1](ct)

    assert sorted(set(primitives(cotangents, X, Y, X @ Y))) == ["dot_general"]


def test_sums_of_narrow_floats_are_wide_when_eager():
    """bfloat16 counts to 256 only; the sum of 512 ones is right all the same."""
    ones = np.ones(512, "bfloat16")
    assert float(lax.dot(ones, ones)) == float(dx.jit(lax.dot)(ones, ones)) == 512


@pytest.mark.parametrize(
    "left, right, wanted",
    [
        ("float8_e4m3fn", "float8_e5m2", "float8_e5m2"),
        ("float16", "bfloat16", "bfloat16"),
        ("int32", "float8_e4m3fn", "float8_e4m3fn"),
        ("int4", "uint8", "uint8"),
        ("uint8", "int8", "int8"),
        ("complex64", "float32", "complex64"),
    ],
)
def test_operands_of_two_dtypes_give_the_one_of_greater_range(left, right, wanted):
    """They are multiplied in a dtype that holds both; cotangents have the dtypes of their operands."""
    x, y = np.array([[1.0, 2, 3]]).astype(left), np.array([[4.0], [5], [6]]).astype(right)
    for product in (lax.dot, dx.jit(lax.dot)):
        out = product(x, y)
        assert out.dtype == product(y.T, x.T).dtype == np.zeros(0, wanted).dtype
        assert out.astype("complex64")[0, 0] == np.array(32).astype(wanted).astype("complex64")
    if "f" in left + right and "int" not in left + right:
        cts = dx.vjp(lax.dot, x, y)[1](dnp.ones((1, 1), wanted))
        assert [ct.dtype for ct in cts] == [x.dtype, y.dtype]
    wide = lax.dot(x, y, preferred_element_type="complex64" if "complex" in left else "float32")
    assert wide == 32


def test_precision_is_a_parameter_of_the_equation():
    """Names, pairs and the option default_matmul_precision reach the program."""
    pair = dx.make_jaxpr(lambda x, y: lax.dot(x, y, precision=("high", lax.Precision.HIGHEST)))(X, Y)
    assert "Precision.HIGH, Precision.HIGHEST" in str(pair)
    with config.override(default_matmul_precision="highest"):
        assert "Precision.HIGHEST" in str(dx.make_jaxpr(lambda x, y: lax.dot(x, y))(X, Y))
    assert "precision=None" in str(dx.make_jaxpr(lambda x, y: lax.dot(x, y))(X, Y))


ERRORS = {
    "lengths": (
        lambda: lax.dot_general(X, X, MATMUL),
        TypeError,
        r"contracting axes.*\n  lhs: float32\[2,3\].*\(3,\)\n  rhs.*\(2,\)\n",
    ),
    "counts": (
        lambda: lax.dot_general(X, Y, (((0, 1), (0,)), ((), ()))),
        TypeError,
        "as many contracting axes of lhs as of rhs",
    ),
    "axis": (
        lambda: lax.dot_general(X, Y, (((5,), (0,)), ((), ()))),
        TypeError,
        r"distinct axes.*\n  lhs: .*\(5,\).*\nName axes from 0 to 1",
    ),
    "twice": (
        lambda: lax.dot_general(X, Y, (((1,), (0,)), ((1,), (0,)))),
        TypeError,
        "either contracting or batch",
    ),
    "dtypes": (
        lambda: lax.dot(X.astype("float8_e5m2"), Y.astype("float8_e5m2fnuz")),
        TypeError,
        r"greater range.\n  lhs: float8_e5m2, rhs: float8_e5m2fnuz\nCast",
    ),
    "narrower": (
        lambda: lax.dot(X.astype("int32"), Y.astype("int32"), preferred_element_type="int8"),
        TypeError,
        "preferred_element_type: int8",
    ),
    "complex": (
        lambda: lax.dot(X, Y, preferred_element_type="complex64"),
        TypeError,
        "preferred_element_type: complex64",
    ),
    "dot": (
        lambda: lax.dot(X, X),
        ValueError,
        r"dot takes vectors and matrices.*\n  lhs: float32\[2,3\], rhs: float32\[2,3\]\n",
    ),
    "batch_matmul": (lambda: lax.batch_matmul(X[None], Y), ValueError, "two stacks of matrices"),
    "precision": (
        lambda: lax.dot(X, Y, precision="exact"),
        ValueError,
        "precision: 'exact'\nUse one of 'default'",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_misuse_is_explained(case):
    """Errors name the operands, their axes and the way out."""
    call, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        call()


def test_algorithms_stand_for_precisions() -> None:
    x = np.ones((2, 2), "float32")
    for preset, precision in (
        ("BF16_BF16_F32", "DEFAULT"),
        ("TF32_TF32_F32", "HIGH"),
        ("F32_F32_F32", "HIGHEST"),
    ):
        with dx.default_matmul_precision(preset):
            by_option = str(dx.make_jaxpr(lax.dot)(x, x))
        given = getattr(lax.DotAlgorithmPreset, preset)
        by_argument = str(dx.make_jaxpr(lambda x, p=given: lax.dot(x, x, precision=p))(x))
        assert str(dx.make_jaxpr(lambda x, p=preset: lax.dot(x, x, precision=p))(x)) == by_argument
        if precision != "DEFAULT":
            assert f"{precision}" in by_option
            assert f"{precision}" in by_argument
    for given in set(lax.DotAlgorithmPreset) - {lax.DotAlgorithmPreset.DEFAULT}:
        with dx.default_matmul_precision(given.name):
            by_option = canonicalize_precision(None) or (lax.Precision.DEFAULT,) * 2
        assert by_option == canonicalize_precision(given), given


def test_a_numpy_array_of_64_bits_beside_an_array_of_32() -> None:
    for dtype in ("float64", "int64"):
        x = np.arange(3).astype(dtype)
        for found in (lax.dot(x, dnp.asarray(x)), dx.jit(lambda y, x=x: lax.dot(y, x))(x)):
            assert (int(found), found.dtype.itemsize) == (5, 4)
    assert float(lax.dot_general(2.0, 3.0, (((), ()), ((), ())))) == 6.0


def test_presets_say_what_they_are_meant_for_as_those_of_jax() -> None:
    kinds = ["float16", "bfloat16", "float32", "float64"]
    for theirs in jax.lax.DotAlgorithmPreset:
        ours = lax.DotAlgorithmPreset[theirs.name]
        assert (repr(ours), str(ours)) == (repr(theirs), str(theirs))
        for name in ("accumulation_type", "supported_lhs_types", "supported_rhs_types"):
            assert getattr(ours, name) == getattr(theirs, name), (theirs, name)
        for x, y in itertools.product(kinds, kinds):
            assert ours.supported_output_types(x, y) == theirs.supported_output_types(x, y), (theirs, x, y)


@pytest.mark.parametrize("dtype", first(["float32", "float16", "bfloat16", "complex64"]))
def test_every_preset_multiplies(dtype: str) -> None:
    x, y = np.asarray([[[1, 2], [3, 4]], [[1, 0], [2, 1]]], dtypes.dtype(dtype))
    for preset in lax.DotAlgorithmPreset:

        def product(x: Any, y: Any, p: Any = preset) -> Any:
            return lax.dot(x, y, precision=p)

        slope = dx.grad(lambda x, y, f=product: f(x, y).real.sum())(x, y)
        for found, wanted in (
            (product(x, y), x @ y),
            (dx.vmap(product, (None, 0))(x, np.stack([y, y.T])), np.stack([x @ y, x @ y.T])),
            (slope, np.ones((2, 2)) @ y.T),
        ):
            assert found.dtype == x.dtype
            assert np.array_equal(np.asarray(found, "complex64"), wanted.astype("complex64")), preset


def test_dot_algorithms_stand_for_precisions() -> None:
    x = np.ones((2, 2), "float32")
    for dtype, count, precision in (
        ("float32", 1, "HIGHEST"),
        ("bfloat16", 3, "HIGHEST"),
        ("bfloat16", 9, "HIGHEST"),
    ):
        algorithm = lax.DotAlgorithm(dtype, dtype, "float32", num_primitive_operations=count)
        text = str(dx.make_jaxpr(lambda x, a=algorithm: lax.dot(x, x, precision=a))(x))
        assert precision in text
        assert algorithm.precision() is getattr(lax.Precision, precision)
    assert lax.DotAlgorithm("float16", "float16", "float32").precision() is lax.Precision.DEFAULT
    with pytest.raises(ValueError, match="rounds operands to floats, in 1, 3, 6 or 9 products"):
        lax.dot(x, x, precision=lax.DotAlgorithm("int8", "int8", "int32"))


@pytest.mark.parametrize("dtype", first(["float32", "float16", "complex64"]))
def test_an_algorithm_of_float64_computes_in_float64(dtype: str) -> None:
    """By argument and by option, with the derivatives: (1 + h) (1 - h) - 1 is -h * h, which float32 rounds to 0."""
    h = 2.0**-13 if dtype != "float16" else 2.0**-10
    x, y = np.asarray([1 + h, 1], dtype), np.asarray([1 - h, -1], dtype)
    algorithms = lax.DotAlgorithmPreset.F64_F64_F64, lax.DotAlgorithm("float32", "float32", "float64")
    products = [lambda x, y, p=p: dnp.dot(x, y, precision=p) for p in (*algorithms, "F64_F64_F64")]

    def by_option(x: Any, y: Any) -> Any:
        with dx.default_matmul_precision("F64_F64_F64"):
            return x @ y

    for product in (*products, by_option):
        for found in (product(x, dnp.asarray(y)), dx.jit(product)(x, y)):
            assert found.dtype == dtype and found == -h * h
        slopes = dx.grad(lambda x, y, f=product: f(x, y).real, argnums=(0, 1))(x, y)
        assert (
            [s.dtype for s in slopes] == [dtype, dtype] and (slopes[0] == y).all() and (slopes[1] == x).all()
        )
    wide = lax.dot(x, y, precision=algorithms[0], preferred_element_type="complex128")
    assert wide.dtype == "complex128" and wide == -h * h


@pytest.mark.cpu
def test_large_products_of_matrices_are_written_for_the_cpu() -> None:
    """Gram matrices in blocks; matrices that are summed down long rows of powers of two are transposed first."""
    rng = np.random.default_rng(0)
    x, y = [rng.standard_normal(shape).astype(np.float32) for shape in ((301, 258), (256, 512))]
    z = rng.standard_normal((256, 70)).astype(np.float32)
    # The function, how many products it is written as, and whether an operand is transposed first.
    functions = [
        (lambda x, y, z: x.T @ x, 4, False),
        (lambda x, y, z: y @ y.T, 4, False),
        (lambda x, y, z: (x + 1).T @ x, 1, False),
        (lambda x, y, z: y.T @ z, 1, True),
        (lambda x, y, z: dx.grad(lambda w: (y @ w).sum())(dnp.ones((512, 64))), 1, True),
        (lambda x, y, z: z @ z.T, 1, False),  # little is summed
        (lambda x, y, z: dx.vmap(lambda y: y.T @ y)(dnp.stack([y, y])), 1, False),
    ]
    found = dx.jit(lambda *args: [f(*args) for f, *_ in functions])(x, y, z)
    x64, y64, z64 = [a.astype(np.float64) for a in (x, y, z)]
    expected = [
        x64.T @ x64, y64 @ y64.T, (x64 + 1).T @ x64, y64.T @ z64, np.repeat(y64.sum(0)[:, None], 64, 1),
        z64 @ z64.T, np.stack([y64.T @ y64] * 2),
    ]  # fmt: skip
    for ours, theirs, (f, products, transposed) in zip(found, expected, functions, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-4)
        text = dx.jit(f).lower(x, y, z).as_text()
        assert text.count("stablehlo.dot_general") == products
        assert ("optimization_barrier" in text) == transposed


@pytest.mark.cpu
def test_gradients_of_weights_by_batches_are_of_transposed_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's library takes products of short sums only along rows; small, long, or other ones are left as they are."""

    def gradient(x: np.ndarray, w: np.ndarray) -> str:
        return dx.jit(dx.grad(lambda w, x: dnp.tanh(x @ w).sum())).lower(w, x).as_text()

    x, w = np.ones((64, 256), np.float32), np.ones((256, 64), np.float32)
    assert gradient(x, w).count("optimization_barrier") == 1
    for batch, dtype in (64, np.float16), (63, np.float32), (256, np.float32):
        assert "optimization_barrier" not in gradient(np.ones((batch, 256), dtype), w.astype(dtype))
    assert "optimization_barrier" not in gradient(x, w[:, :63])
    z, v = np.random.default_rng(0).standard_normal((2, 64, 256)).astype(np.float32)
    z[3, 5] = np.nan
    found = np.asarray(dx.jit(lambda z, v: z.T @ v)(z, v))
    np.testing.assert_allclose(found, z.T @ v, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(Module, "on_cpu", False)
    assert "optimization_barrier" not in gradient(x, w)


@pytest.mark.cpu
def test_large_cotangents_are_on_the_left_of_what_they_are_summed_with() -> None:
    """XLA moves the summed axis of the left operand to the end, and that of the right one to the front."""

    def products(outputs: int) -> str:
        x, w = np.ones((16, 8), np.float32), np.ones((8, outputs), np.float32)
        return dx.jit(dx.jacrev(lambda w: dnp.tanh(x @ w).sum(0))).lower(w).as_text()

    assert "contracting_dims = [1] x [0] : (tensor<128x16x128xf32>, tensor<16x8xf32>)" in products(
        128
    ).replace(", precision = [DEFAULT, DEFAULT]", "")
    assert "(tensor<16x8xf32>, tensor<64x16x64xf32>)" in products(64)
    x, y = np.arange(48.0, dtype=np.float32).reshape(16, 3), np.ones((128, 16, 128), np.float32)
    y[5, :, 7] = np.arange(16)
    found = dx.jit(lambda x, y: dx.lax.dot_general(x, y, (((0,), (1,)), ((), ()))))(x, y)
    np.testing.assert_array_equal(found, np.einsum("km,bkn->mbn", x, y))


@pytest.mark.parametrize(("rows", "contract"), [(8, "[1, 2] x [2, 0]"), (2, "[2, 1] x [0, 2]")])
def test_summed_axes_are_in_the_order_of_the_larger_operand(rows: int, contract: str) -> None:
    x, y = np.arange(rows * 12.0).reshape(rows, 3, 4), np.arange(60.0).reshape(4, 5, 3)
    f = dx.jit(lambda x, y: dnp.einsum("bki,ijk->bj", x, y))
    assert f"contracting_dims = {contract}" in f.lower(x, y).as_text()
    np.testing.assert_allclose(f(x, y), np.einsum("bki,ijk->bj", x, y), rtol=1e-6)


def test_precisions_have_the_names_and_texts_of_jax() -> None:
    for name in (
        "default",
        "fastest",
        "bfloat16",
        "high",
        "tensorfloat32",
        "bfloat16_3x",
        "highest",
        "float32",
        None,
    ):
        ours, theirs = lax.Precision(name), jax.lax.Precision(name)
        assert (str(ours), repr(ours), f"{ours}") == (str(theirs), repr(theirs), f"{theirs}")
    with pytest.raises(ValueError, match="'exact' is not a valid Precision"):
        lax.Precision("exact")


SMALL_PRODUCTS = [
    ("bij,bjk->bik", (20, 4, 4), (20, 4, 4)),
    ("ikb,kbj->bij", (3, 5, 20), (5, 20, 2)),
    ("bij,bj->bi", (20, 4, 4), (20, 4)),
    ("abki,abjk->abij", (4, 5, 8, 3), (4, 5, 2, 8)),
]


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", first(["float32", "complex64", "int32", "float64"]))
def test_many_small_products(dtype):
    """They are sums of products of elements, and what NumPy computes."""
    rng = np.random.default_rng(0)
    with dx.enable_x64(dtype == "float64"):
        for text, *shapes in SMALL_PRODUCTS:
            x, y = [(rng.integers(-9, 9, shape) + 0.5).astype(dtype) for shape in shapes]
            product = dx.jit(lambda x, y, text=text: dnp.einsum(text, x, y))
            np.testing.assert_allclose(product(x, y), np.einsum(text, x, y), rtol=1e-6)
            assert "stablehlo.dot_general" not in product.lower(x, y).as_text()
    few = dx.jit(lambda x, y: x @ y).lower(np.zeros((4, 4, 4), "float32"), np.zeros((4, 4, 4), "float32"))
    assert "stablehlo.dot_general" in few.as_text()


def test_small_products_of_zeros_and_nans():
    """A sum of -0.0 is 0.0, as in NumPy; a NaN stays in its row."""
    x = np.full((16, 2, 2), -0.0, "float32")
    y = np.ones((16, 2, 2), "float32")
    x[3, 1] = np.nan
    found = np.asarray(dx.jit(lambda x, y: x @ y)(x, y))
    np.testing.assert_array_equal(found, x @ y)
    assert not np.signbit(np.nan_to_num(found)).any()


@pytest.mark.cpu
def test_a_batch_of_products_of_vectors_with_themselves_is_no_gram_matrix():
    x = np.random.RandomState(0).randn(260, 270).astype("float32")
    want = (x.astype("float64") ** 2).sum(1)
    np.testing.assert_allclose(dx.vmap(dx.jit(lambda v: lax.dot(v, v)))(x), want, 1e-5)
