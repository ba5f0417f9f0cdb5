"""Functions of `lax` composed of others: values and dtypes of jax.lax, eagerly and compiled."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.checks import check_grads
from tests.numpy.oracle import assert_same, sample

X = sample("float32", (2, 3))
IMAGES = ("NHWC", "HWIO", "NHWC")


def check(call: Callable[..., Any], *args: np.ndarray[Any, Any]) -> None:
    """`call(lax, *arrays)` gives the same for the two of them, and the same under jit."""
    wanted = call(jax.lax, *map(jnp.asarray, args))
    ours = [dnp.asarray(x) for x in args]
    assert_same(call(lax, *ours), wanted, rtol=1e-4, weak=False)
    assert_same(dx.jit(lambda *xs: call(lax, *xs))(*ours), wanted, rtol=1e-4, weak=False)


def test_stacking_and_tiling() -> None:
    for axis in (0, 1, -1):
        check(lambda lax, x: lax.stack([x, x], axis), X)
        check(lambda lax, x: lax.unstack(x, axis), X)
    check(lambda lax, x: lax.tile(x, (3, 2)), X)
    check(lambda lax, x: lax.tile(x, (0, 2)), X)
    check(lambda lax, x: lax.broadcast_like(x[:1], x), X)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_upper_halves_of_products(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.frombuffer(np.random.default_rng(0).bytes(20 * limits.bits // 8), dtype).copy()
    x[:3] = limits.min, limits.max, limits.max
    y = np.roll(x, 1)
    wanted = [int(a) * int(b) >> limits.bits for a, b in zip(x, y, strict=True)]
    a, b = dnp.asarray(x, dtype=dtype), dnp.asarray(y, dtype=dtype)
    for function in (lax.mulhi, dx.jit(lax.mulhi)):
        np.testing.assert_array_equal(function(a, b), np.array(wanted, dtype))


def test_upper_halves_of_products_of_python_integers_are_weak() -> None:
    for x64 in (False, True):
        with dx.enable_x64(x64):
            assert dx.typeof(lax.mulhi(3, 4)) == dx.typeof(lax.mul(3, 4))


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_bits_read_as_the_dtype_that_they_have_are_strong_and_have_no_derivative(evaluate: Any) -> None:
    read = evaluate(lambda x: lax.bitcast_convert_type(x, "float32"))
    assert not read(2.0).weak_type
    assert dx.grad(read)(2.0) == 0  # as in jax
    for dtype in ("bool", "complex64", "int4"):
        x = dnp.array([0, 1], dtype)
        np.testing.assert_array_equal(lax.bitcast_convert_type(x, dtype), x)


def test_products_in_another_dtype() -> None:
    x = np.int8([100, -100])
    check(lambda lax, x: lax.mul(x, x, out_dtype="int32"), x)


def test_approximate_extremes_are_exact() -> None:
    for x in (np.float32([np.nan, 1, 3, 1]), np.float32([0, -0.0, 1, np.inf]), X):
        check(lambda lax, x: tuple(lax.approx_max_k(x, 2)), x)
        if jax.__version_info__ < (0, 11) or not np.isnan(x).any():  # later ones pass over NaN
            check(lambda lax, x: tuple(lax.approx_min_k(x, 2)), x)
    check(lambda lax, x: tuple(lax.approx_min_k(x, 1, reduction_dimension=0)), X)
    np.testing.assert_array_equal(
        dx.grad(lambda x: lax.approx_min_k(x, 2)[0].sum())(dnp.array([3.0, 1, 2])), [0, 1, 1]
    )


@pytest.mark.parametrize("sizes", [[1, 0, 2], [2, 2, 0], [0, 0, 0]])
def test_ragged_products(sizes: list[int]) -> None:
    lhs, rhs = sample("float32", (4, 2)), sample("float32", (3, 2, 5))
    check(lambda lax, a, b, n: lax.ragged_dot(a, b, n), lhs, rhs, np.int32(sizes))


def test_ragged_products_are_differentiated_and_mapped() -> None:
    lhs, rhs = dnp.asarray(sample("float32", (4, 2))), dnp.asarray(sample("float32", (3, 2, 5)))
    check_grads(lambda a, b: lax.ragged_dot(a, b, np.int32([1, 2, 0])), (lhs, rhs), order=1)
    sizes = dnp.array([[1, 1, 1], [4, 0, 0]])
    mapped = dx.vmap(lambda n: lax.ragged_dot(lhs, rhs, n))(sizes)
    np.testing.assert_allclose(mapped[1], lhs @ rhs[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("lhs", "rhs", "sizes", "dots", "ragged", "groups"),
    [
        ((5, 3), (3, 4, 2), (2, 2), (((1,), (0,)), ((), ())), 0, [2]),
        ((3, 5, 2), (2, 2, 3, 4), ((2, 2), (1, 3)), (((0,), (2,)), ((2,), (0,))), 1, [1]),
        ((2, 5, 3), (3, 2, 4, 5), ((1, 1), (2, 0)), (((2, 1), (0, 3)), ((0,), (1,))), 2, []),
        ((2, 5, 3), (2, 3, 4), (1, 1), (((2,), (1,)), ((0,), (0,))), 0, []),
    ],
)
def test_general_ragged_products(lhs: Any, rhs: Any, sizes: Any, dots: Any, ragged: int, groups: Any) -> None:
    """The ragged axis is one of rows, of rows beside a batch, one that is summed over, and a batch axis."""
    x, y, n = sample("float32", lhs), sample("float32", rhs), np.int32(sizes)
    check(
        lambda lax, x, y, n: lax.ragged_dot_general(
            x, y, n, lax.RaggedDotDimensionNumbers(dots, [ragged], groups)
        ),
        x,
        y,
        n,
    )
    numbers = lax.RaggedDotDimensionNumbers(dots, [ragged], groups)
    assert numbers == lax.RaggedDotDimensionNumbers(dots, (ragged,), tuple(groups))
    with pytest.raises(TypeError, match="rhs of ragged_dot_general has one group dimension, as long as"):
        lax.ragged_dot_general(x, y, n, lax.RaggedDotDimensionNumbers(dots, [ragged], [*groups, 0]))
    with pytest.raises(TypeError, match="counts rows with integers"):
        lax.ragged_dot_general(x, y, n.astype("float32"), numbers)


def test_nan_stays_in_its_group_of_a_ragged_product() -> None:
    lhs, rhs = dnp.ones((4, 2)).at[0].set(dnp.nan), dnp.ones((3, 2, 5))
    out, pull = dx.vjp(lambda a, b: lax.ragged_dot(a, b, np.int32([1, 2, 0])), lhs, rhs.at[2].set(dnp.inf))
    assert np.isnan(out).any(1).tolist() == [True, False, False, False]
    # The last row is in no group.
    lhs_bar, rhs_bar = pull(dnp.ones((4, 5)).at[0].set(dnp.nan).at[3].set(dnp.nan))
    assert np.isnan(lhs_bar).any(1).tolist() == [True, False, False, False]
    assert np.isnan(rhs_bar).any((1, 2)).tolist() == [True, False, False]
    assert lax.ragged_dot(dnp.ones((2, 1), bool), dnp.ones((1, 1, 1), bool), np.int32([1])).tolist() == [
        [1],
        [0],
    ]


def test_patches_and_local_convolutions() -> None:
    x = sample("float32", (2, 5, 6, 3))
    check(
        lambda lax, x: lax.conv_general_dilated_patches(x, (2, 3), (1, 2), "SAME", dimension_numbers=IMAGES),
        x,
    )
    check(
        lambda lax, x: lax.conv_general_dilated_patches(x, (2, 1), (1, 1), [(1, 0), (2, 1)], (2, 1), (1, 2)),
        x,
    )
    windows = sample("float32", (4, 4, 2 * 3 * 3, 7))
    check(
        lambda lax, x, w: lax.conv_general_dilated_local(
            x, w, (1, 1), "VALID", (2, 3), dimension_numbers=IMAGES
        ),
        x, windows,
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 2), (0, 0)]])
def test_shapes_of_convolutions_and_windows(padding: Any) -> None:
    for name in ("conv_general_shape_tuple", "conv_transpose_shape_tuple"):
        args = ((4, 5, 5, 2), (2, 2, 2, 3), (1, 2), padding, IMAGES)
        assert getattr(lax, name)(*args) == tuple(getattr(jax.lax, name)(*args))
    args = ((4, 2, 5, 5), (4, 2, 2, 2), (2, 1), padding, 2)
    assert lax.conv_shape_tuple(*args) == tuple(jax.lax.conv_shape_tuple(*args))
    windows = ((2, 2), (2, 1), padding)
    wanted = lax.reduce_window(np.ones((5, 6), "float32"), 0.0, lax.add, *windows).shape
    assert lax.reduce_window_shape_tuple((5, 6), *windows) == wanted
    assert lax.reduce_window_shape_tuple((2, 0), (5, 1), (1, 1), "VALID", (1, 3)) == (0, 0)
    assert lax.reduce_window_shape_tuple((-1, 4), (1, 2), (1, 2), "SAME") == (-1, 2)


def test_random_bits() -> None:
    key = np.uint32([1, 2, 3, 4])
    check(lambda lax, key: lax.rng_bit_generator(key, (3,), "uint8"), key)
    check(
        lambda lax, key: lax.rng_bit_generator(key, (3,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)[1], key
    )


def test_dtypes_and_platforms() -> None:
    for x in (1.0, np.float64(1), np.ones(3), "int8", int, True):
        assert lax.dtype(x) == jax.lax.dtype(x)
    platform = dx.default_backend()
    assert lax.platform_dependent(1.0, **{platform: lambda x: x + 1}, default=lambda x: x) == 2.0
    assert lax.platform_dependent(1.0, tpu=lambda x: x + 1, default=lambda x: x) == 1.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: lax.stack([]), ValueError, "shapes: none"),
        (lambda: lax.stack([1.0, X]), ValueError, r"shapes: \(\), \(2, 3\)"),
        (lambda: lax.tile(X, (1,)), TypeError, r"operand: float32\[2,3\], reps: \(1,\)"),
        (lambda: lax.unstack(1.0), ValueError, "axis: 0, axes: 0"),
        (lambda: lax.broadcast_like(X, 1.0), ValueError, r"arr: \(2, 3\), like_arr: \(\)"),
        (lambda: lax.mulhi(1.0, 2.0), TypeError, "integers of one dtype"),
        (lambda: lax.approx_max_k(dnp.arange(3), 2), ValueError, r"operand: int32\[3\]"),
        (lambda: lax.approx_max_k(X, 4), ValueError, r"approx_max_k gives at most(?s:.*)k: 4(?s:.*)from 0 to 3"),
        (lambda: lax.approx_min_k(X, 1, 2), ValueError, r"approx_min_k takes one of(?s:.*)reduction_dimension: 2"),
        (lambda: lax.approx_max_k(X, 1, recall_target=2), ValueError, r"recall_target in \(0, 1\]"),
        (lambda: lax.ragged_dot(X, X, X), TypeError, r"lhs \(m, k\), rhs \(g, k, n\)"),
        (lambda: lax.platform_dependent(1.0, tpu=abs), NotImplementedError, "functions for: tpu"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_clamp_of_truth_values() -> None:
    x = np.array([True, False])
    for low, high, want in [(False, True, x), (True, True, [True, True]), (False, False, [False, False])]:
        y = dx.jit(lax.clamp)(low, x, high)
        assert y.dtype == bool and y.tolist() == lax.clamp(low, x, high).tolist() == list(want)
