"""Reductions: derivatives at ties and zeros, long and empty axes, `lax.reduce`, texts of errors."""

from __future__ import annotations

import functools
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.xla.text import Module
from tests.checks import assert_close, check_grads
from tests.quickly import AS_USERS

TIES = np.float32([[1, 3, 3], [2, 2, 2], [-0.0, 0.0, -1]])


@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_ties_share_the_derivative_evenly(name: str, axes: tuple[int, ...]) -> None:
    import jax

    ours = dx.jacrev(lambda x: getattr(lax, name)(x, axes))(TIES)
    assert_close(ours, jax.jacrev(lambda x: getattr(jax.lax, name)(x, axes))(TIES))


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_derivative_of_an_extremum_that_is_nan_is_nan(name: str) -> None:
    extremum = getattr(lax, f"reduce_{name}")
    x = np.float32([[1, np.nan, 3], [2, 5, 2], [np.inf, 1, -np.inf]])

    def f(x: Any) -> Any:
        return extremum(x, (1,))

    expected = {"max": [[0, 1, 0], [1, 0, 0]], "min": [[0.5, 0, 0.5], [0, 0, 1]]}[name]
    for transformed in (f, dx.jit(f)):
        reverse = dx.vjp(transformed, x)[1](np.ones(3, np.float32))[0]
        np.testing.assert_array_equal(reverse, [[np.nan] * 3, *expected])
        forward = dx.jvp(transformed, (x,), (np.ones_like(x),))[1]
        np.testing.assert_array_equal(forward, [np.nan, 1, 1])


@pytest.mark.parametrize("zeros", [(), (1,), (0, 3), (0, 1, 2)])
@pytest.mark.parametrize("n", [4, 5])
def test_derivatives_of_a_product_with_zeros(zeros: tuple[int, ...], n: int) -> None:
    import jax

    x = np.arange(2, n + 2, dtype=np.float32)
    x[list(zeros)] = 0

    def of(module: Any) -> Any:
        return lambda x: module.reduce_prod(x, (0,))

    assert_close(dx.grad(of(lax))(x), jax.grad(of(jax.lax))(x))
    assert_close(dx.hessian(of(lax))(x), jax.hessian(of(jax.lax))(x))
    assert_close(dx.jit(dx.hessian(of(lax)))(x), jax.hessian(of(jax.lax))(x))


def test_derivative_of_an_empty_product_vanishes() -> None:
    assert_close(
        dx.grad(lambda x: lax.reduce_prod(x, (0,)))(np.zeros(0, np.float32)), np.zeros(0, np.float32)
    )


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_extrema_have_the_sign_of_the_extreme_zero(evaluate: Any) -> None:
    x = np.float32([[-0.0, 0.0], [-0.0, -0.0], [0.0, 0.0]])
    largest, smallest = (evaluate(lambda x, f=f: f(x, (1,)))(x) for f in (lax.reduce_max, lax.reduce_min))
    np.testing.assert_array_equal(np.signbit(np.asarray(largest)), [False, True, False])
    np.testing.assert_array_equal(np.signbit(np.asarray(smallest)), [True, True, False])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("shape", [(64, 64), (41, 72), (41, 51), (3, 1009)])
def test_large_arrays_keep_nan(dtype: Any, shape: tuple[int, int], axes: tuple[int, ...]) -> None:
    """See Note [NaN in reduced extrema]."""
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    x[0, 0], x[2, -1], x[2, 20], x[1, 3] = np.nan, np.nan, np.inf, -np.inf
    with dx.enable_x64():
        for f, numpys in (lax.reduce_max, np.max), (lax.reduce_min, np.min):
            found = np.asarray(dx.jit(lambda x, f=f: f(x, axes))(x))
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.astype(np.float64), numpys(x.astype(np.float64), axis=axes))


@pytest.mark.parametrize("length", [40, 51, 64])
def test_rows_keep_nan_wherever_it_is(length: int) -> None:
    x = np.where(np.eye(length, dtype=bool), np.float32(np.nan), np.float32(-0.0))
    x = np.concatenate([x, -x, np.full((1, length), np.inf, np.float32)])
    for f in (lax.reduce_max, lax.reduce_min):
        found = np.isnan(np.asarray(dx.jit(lambda x, f=f: f(x, (1,)))(x)))
        np.testing.assert_array_equal(found, [True] * 2 * length + [False])


def test_rows_longer_than_a_cache_keep_nan() -> None:
    """They are cut into blocks of lanes; the second length has no such blocks."""
    for n in (1 << 18, (1 << 18) + 3):
        largest = dx.jit(lambda x: (lax.reduce_max(x, (0,)), lax.argmax(x, 0, np.int32)))
        x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
        assert [y.item() for y in largest(x)] == [x.max(), x.argmax()]
        for i in (0, 12345, n - 1):
            y = x.copy()
            y[i] = np.nan
            found, where = largest(y)
            assert np.isnan(found) and int(where) == i


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_extrema_of_integers_and_where_they_are(dtype: Any) -> None:
    """Searched in lanes and blocks where the axis is long; the first of equal ones is found."""
    with dx.enable_x64():
        for shape in ((3, 1024), (2, 41), (300, 4), (1 << 18, 1)):
            x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)

            def f(x: Any) -> Any:
                searches = [(lax.argmax(x, i, np.int32), lax.argmin(x, i, np.int32)) for i in (0, 1)]
                return searches, [
                    (lax.reduce_max(x, axes), lax.reduce_min(x, axes)) for axes in ((0,), (1,), (0, 1))
                ]

            searches, extrema = dx.jit(f)(x)
            for i, (first, last) in enumerate(searches):
                np.testing.assert_array_equal(first, x.argmax(i))
                np.testing.assert_array_equal(last, x.argmin(i))
            for axes, (high, low) in zip((0, 1, (0, 1)), extrema, strict=True):
                np.testing.assert_array_equal(high, x.max(axis=axes))
                np.testing.assert_array_equal(low, x.min(axis=axes))


@pytest.mark.cpu
def test_counts_read_booleans_as_bytes() -> None:
    """A long row of booleans is added in bytes, of which a block is full before 256 of them."""
    for shape in ((4096,), (3, 1000), (64, 50, 10), (3, 17), (0, 512), (10007,)):
        x = np.random.default_rng(0).random(shape).astype(np.float32)

        def counts(x: Any) -> Any:
            some, all_ = x > 0.5, x >= 0
            axes = range(-1, x.ndim)
            return [
                dnp.sum(y, axis=None if i < 0 else i, dtype=d)
                for y in (some, all_)
                for i in axes
                for d in kinds
            ]

        kinds = ("int32", "uint8", "float32")
        program = dx.jit(counts)
        expected = [
            y.sum(axis=None if i < 0 else i, dtype=d)
            for y in (x > 0.5, x >= 0)
            for i in range(-1, x.ndim)
            for d in kinds
        ]
        for ours, theirs in zip(program(x), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    text = dx.jit(lambda x: (x > 0).sum()).lower(np.zeros(4096, np.float32)).as_text()
    assert "tensor<16x16x16xui8>" in text and text.count("stablehlo.reduce") == 2


@pytest.mark.cpu
def test_weighted_sums_of_arrays_are_sums_of_rows() -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 4, 32, 33), (4, 4)))
    for f, rows in [
        (lambda x: (x * w[:, :, None, None]).sum((0, 1)), 16),
        (lambda x: (dnp.reshape(w[0], (4, 1, 1, 1)) * x).sum(0), 4),
        (lambda x: (x * w[0][:, None, None]).sum(0), None),  # the numbers are not of the axis that is summed
        (lambda x: (x * w[:, :, None, None]).sum(0), None),
    ]:
        program = dx.jit(f)
        is_matrix = f"tensor<{rows}x{x.size // (rows or 1)}xf32>" in program.lower(x).as_text()
        assert is_matrix == (rows is not None)
        np.testing.assert_allclose(program(x), f(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [(1,), (0, 2), (1, 2), (0, 1, 2)])
def test_extrema_of_long_rows(axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal((5, 6, 45)).astype(np.float32)
    assert_close(dx.jit(lambda x: lax.reduce_max(x, axes))(x), x.max(axis=axes))
    assert_close(dx.jit(lambda x: lax.reduce_min(x, axes))(x), x.min(axis=axes))
    empty = dx.jit(lambda x: lax.reduce_max(x, axes))(np.zeros((0, 6, 45), np.float32))
    assert_close(empty, np.full(empty.shape, -np.inf, np.float32))


@pytest.mark.cpu
def test_rows_are_dealt_out_to_lanes_that_divide_them() -> None:
    for row, lanes in ((96, 32), (100, 25), (1050, 25), (45, 15)):
        text = dx.jit(lambda x: lax.reduce_max(x, (1,))).lower(np.zeros((7, row), np.float32)).as_text()
        assert f"tensor<7x{row // lanes}x{lanes}xf32>" in text and "stablehlo.slice" not in text
    assert (
        "stablehlo.slice"
        in dx.jit(lambda x: lax.reduce_max(x, (1,))).lower(np.zeros((7, 101), "f")).as_text()
    )


@pytest.mark.cpu
@pytest.mark.parametrize(("shape", "axes", "blocks"), [
    ((17, 1000), (1,), "17x5x25x8"), ((3, 2048), (1,), "3x2x32x32"),
    ((1000, 20), (0,), "40x25x20"), ((2, 320, 30), (1,), "2x40x8x30"), ((1024, 16), (0,), "64x16x16"),
])  # fmt: skip
def test_extrema_of_computed_values_are_taken_in_blocks(shape: Any, axes: Any, blocks: str) -> None:
    """XLA computes the values within the loop over a block, and writes none of them to memory."""
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    x[0, 0], x[0, 3], x[-1, -2], x[1, 5] = np.nan, np.inf, -np.inf, -0.0
    for f, numpys in (lax.reduce_max, np.max), (lax.reduce_min, np.min):
        program = dx.jit(lambda x, f=f: f(lax.abs(x) * 2, axes))
        assert f"tensor<{blocks}xf32>" in program.lower(x).as_text()
        np.testing.assert_array_equal(program(x), numpys(abs(x) * 2, axis=axes))
        assert program.lower(x).compile().memory_analysis().temp_size_in_bytes < x.nbytes


@pytest.mark.cpu
def test_blocks_and_lanes_are_reduced_together() -> None:
    """XLA would reduce an axis of more than 32 elements in two steps more, each a kernel to compile."""
    compiled = dx.jit(lambda x: x.max(-1)).lower(np.zeros((7, 1000), np.float32)).compile(AS_USERS)
    assert compiled.as_text().count(" fusion(") <= 2 and "reduce-window" not in compiled.as_text()


def test_the_extreme_zero_of_a_long_row_has_its_sign() -> None:
    x = -np.zeros((40, 40), np.float32)
    x[np.arange(39), np.arange(39)] = 0.0
    largest = np.asarray(dx.jit(lambda x: lax.reduce_max(x, (1,)))(x))
    smallest = np.asarray(dx.jit(lambda x: lax.reduce_min(x, (1,)))(-x))
    np.testing.assert_array_equal(np.signbit(largest), [False] * 39 + [True])
    np.testing.assert_array_equal(np.signbit(smallest), [True] * 39 + [False])


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_arguments_of_extrema_are_the_first(evaluate: Any) -> None:
    inf, nan = np.inf, np.nan
    x = np.float32([[1, nan, 9, nan], [2, 2, 1, 1], [-inf] * 4, [-0.0, 0.0, -0.0, 0.0], [inf] * 4])
    assert np.asarray(evaluate(lambda x: lax.argmax(x, 1, np.int8))(x)).tolist() == [1, 0, 0, 0, 0]
    assert np.asarray(evaluate(lambda x: lax.argmin(x, 1, np.int8))(x)).tolist() == [1, 2, 0, 0, 0]


LONG_AXES = [((4096,), 0), ((3, 5000), 1), ((4100, 2, 2), 0), ((2, 4104, 3), 1), ((4099,), 0)]


@pytest.mark.parametrize("shape, axis", LONG_AXES)
@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf])
def test_arguments_of_extrema_along_long_axes(shape: tuple[int, ...], axis: int, special: Any) -> None:
    """Searched in blocks, and (the prime length) not; ties and NaN lie in several blocks."""
    rng = np.random.default_rng(0)
    x = rng.integers(-50, 50, shape).astype(np.float32)
    if special is not None:
        x[rng.random(shape) < 0.001] = special
    assert_close(dx.jit(lambda x: lax.argmax(x, axis, np.int32))(x), np.argmax(x, axis).astype(np.int32))
    assert_close(dx.jit(lambda x: lax.argmin(x, axis, np.int32))(x), np.argmin(x, axis).astype(np.int32))


# Reduced in steps, from 32,768 elements on: rows of (blocks, rows, lanes), leading axes, several axes; lengths that
# cannot be cut, and arrays that are too small.
STEPS = [
    ((33000,), (0,)),
    ((40, 1000), (1,)),
    ((1000, 40), (0,)),
    ((20, 20, 100), (0, 2)),
    ((20, 20, 100), (0, 1)),
]
WHOLE = [((32771,), (0,)), ((8, 4096 - 1), (0, 1)), ((2, 20000), (0,)), ((0, 40000), (0,))]


@pytest.mark.cpu
def test_all_and_any_of_large_arrays() -> None:
    rng = np.random.default_rng(0)
    cases = [(rng.random(shape) > density, axes) for shape, axes in STEPS + WHOLE for density in (0, 1e-4, 1)]
    ints = rng.integers(0, 1 << 30, (40, 1000), np.int32)

    def program(xs: list[Any], ints: Any) -> Any:
        both = [(x.all(axes), x.any(axes)) for x, (_, axes) in zip(xs, cases, strict=True)]
        return both, lax.reduce_xor(ints, (1,)), dx.vmap(lambda x: x.all(1))(xs[3].reshape(2, 20, 1000))

    compiled = dx.jit(program)
    found, xors, mapped = compiled([x for x, _ in cases], ints)
    for (x, axes), (all_, any_) in zip(cases, found, strict=True):
        np.testing.assert_array_equal(all_, x.all(axes))
        np.testing.assert_array_equal(any_, x.any(axes))
    np.testing.assert_array_equal(xors, np.bitwise_xor.reduce(ints, 1))
    np.testing.assert_array_equal(mapped, cases[3][0].reshape(2, 20, 1000).all(2))
    for (shape, axes), count in [*((case, 2) for case in STEPS), *((case, 1) for case in WHOLE[:3])]:
        text = dx.jit(lambda x, axes=axes: x.all(axes)).lower(np.zeros(shape, bool)).as_text()
        assert text.count("stablehlo.reduce(") == count, (shape, axes)
    # What is reduced may be computed in the loop, which LLVM does not vectorize where it is long.
    text = dx.jit(dx.numpy.allclose).lower(*[np.zeros(40_000, "float32")] * 2).as_text()
    assert "tensor<5x4x2000xi1>" in text


PASSES = [((4000, 40), 1), ((500, 100), 0), ((40, 1009), 1), ((40000,), 0), ((10, 33, 100), 1)]
PAIRS = [((8000, 16), 1), ((300000,), 0), ((40, 100), 1)]


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_arguments_of_extrema_of_large_arrays(dtype: str) -> None:
    """Searched in two passes and not: ties, NaN, infinities, zeros of both signs, extreme integers."""
    rng = np.random.default_rng(0)
    xs = []
    for shape, axis in PASSES + PAIRS:
        x = rng.integers(0, 50, shape).astype(dtype)
        if np.dtype(dtype).kind == "f":
            x -= 25
            x[rng.random(shape) < 0.3] = -0.0
            for special in (np.nan, np.inf, -np.inf):
                x[rng.random(shape) < 0.0003] = special
            if x.ndim > 1:
                np.moveaxis(x, axis, 0)[:, 0] = -np.inf
                np.moveaxis(x, axis, 0)[:, 1] = np.inf
        else:
            limits = np.iinfo(dtype)
            x[rng.random(shape) < 0.0003] = limits.min
            x[rng.random(shape) < 0.0003] = limits.max
        xs.append(x)

    def program(xs: list[Any]) -> Any:
        return [
            (lax.argmax(x, axis, np.int32), lax.argmin(x, axis, np.int8 if x.shape[axis] < 128 else np.int64))
            for x, (_, axis) in zip(xs, PASSES + PAIRS, strict=True)
        ]

    for x, (_, axis), (largest, least) in zip(xs, PASSES + PAIRS, dx.jit(program)(xs), strict=True):
        np.testing.assert_array_equal(largest, x.argmax(axis))
        np.testing.assert_array_equal(least, x.argmin(axis))
        assert least.dtype == (np.int8 if x.shape[axis] < 128 else np.int64)


@pytest.mark.cpu
def test_pairs_in_loops_are_compared_in_few_steps() -> None:
    """A loop on the CPU goes along the axis, so that the earlier of equal values, or of two NaNs, is the first one."""
    floats, integers = [0.0, -0.0, 1.0, 1.0, np.nan, np.inf, -np.inf], [0, 3, 3, -(2**31), 2**31 - 1]
    for values, dtype, compared in (floats, np.float32, 3), (integers, np.int32, 1):
        xs = np.stack(np.meshgrid(*[values] * 4)).reshape(4, -1).astype(dtype)
        for found, direct in (lax.argmax, np.argmax), (lax.argmin, np.argmin):
            searched = functools.partial(found, axis=0, index_dtype=np.int32)
            assert dx.jit(searched).lower(xs).as_text().count("stablehlo.compare") == compared
            first, last = dx.jit(lambda xs, f=searched: dx.lax.map(f, xs))(np.stack([xs, xs[::-1]]))
            np.testing.assert_array_equal(first, direct(xs, 0))
            np.testing.assert_array_equal(last, direct(xs[::-1], 0))


@pytest.mark.cpu
def test_passes_over_computed_values_see_the_same_numbers() -> None:
    x = np.random.default_rng(0).standard_normal((1000, 100)).astype(np.float32)
    f = lambda x: lax.argmax(dnp.exp(x) * x * 1.0001 + x * 3.3, 1, np.int32)
    found = np.asarray(dx.jit(f)(x))
    assert (found == np.argmax(np.exp(x) * x * np.float32(1.0001) + x * np.float32(3.3), 1)).mean() > 0.99
    assert dx.jit(lambda x: lax.argmax(x, 1, np.int32))(np.zeros((0, 5000), np.float32)).shape == (0,)
    for (shape, axis), count in [*((case, 1) for case in PASSES), *((case, 0) for case in PAIRS)]:
        text = (
            dx.jit(lambda x, axis=axis: lax.argmax(x, axis, np.int32))
            .lower(np.zeros(shape, np.float32))
            .as_text()
        )
        assert text.count("call @argmax") == count, (shape, axis)


# --- lax.reduce
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "computation, init, primitive",
    [
        (lax.add, 0, "reduce_sum"),
        (lax.mul, 1, "reduce_prod"),
        (lambda x, y: lax.max(y, x), -np.inf, "reduce_max"),
    ],
)
def test_reduce_recognises_monoids(computation: Any, init: Any, primitive: str) -> None:
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    jaxpr = dx.make_jaxpr(lambda x: lax.reduce(x, init, computation, (1,)))(x)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == [primitive]


def test_reduce_starts_from_the_init_value() -> None:
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    assert_close(lax.reduce(x, 10.0, lax.add, (1,)), np.float32([16, 25]))
    assert_close(
        dx.jit(lambda init: lax.reduce(x, init, lax.max, (0,)))(np.float32(4.5)), np.float32([4.5, 5, 6])
    )


def test_reduce_by_any_associative_operation_of_several_operands(x64: None) -> None:
    """Composition of the affine functions x -> a x + b, which does not commute."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2, 7, 3))

    def compose(f: Any, g: Any) -> Any:
        return lax.mul(g[0], f[0]), lax.add(lax.mul(g[0], f[1]), g[1])

    def reduced(a: Any, b: Any) -> Any:
        return lax.reduce((a, b), (np.float64(1), np.float64(0)), compose, (0, 2))

    slopes, offsets = np.ones(7), np.zeros(7)
    for i in range(2):
        for j in range(3):
            slopes, offsets = a[i, :, j] * slopes, a[i, :, j] * offsets + b[i, :, j]
    with dx.enable_x64():
        assert_close(reduced(a, b), (slopes, offsets))
        assert_close(dx.jit(reduced)(a, b), (slopes, offsets))
    check_grads(reduced, (a, b))


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_reduce_is_differentiated_by_an_init_value_that_is_the_identity(name: str) -> None:
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    init = np.float32({"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}[name])

    def summed(init: Any) -> Any:
        return lax.reduce(x, init, getattr(lax, name), (1,)).sum()

    wanted = np.float32({"add": 2, "mul": 126}.get(name, 0))
    assert_close(dx.grad(summed)(init), wanted)
    assert_close(dx.jit(dx.grad(summed))(init), wanted)
    assert_close(dx.jvp(summed, (init,), (np.float32(1),))[1], wanted)


def test_reduce_over_no_axes_is_the_operand() -> None:
    x = np.float32([1, 2])
    for computation in (lax.mul, lambda x, y: x * y + 0):
        assert_close(lax.reduce(x, 3.0, computation, ()), x)
        assert_close(dx.vmap(lambda x, f=computation: lax.reduce(x, 3.0, f, ()))(x), x)
    assert isinstance(lax.reduce(x, 3.0, lax.mul, ()), dx.Array)


def test_reduce_takes_constants_of_other_dtypes() -> None:
    assert_close(lax.reduce(np.int8([1, 2]), -np.inf, lax.max, (0,)), np.int8(2))
    assert_close(lax.reduce(np.int8([]), -np.inf, lax.max, (0,)), np.int8(-128))
    assert_close(lax.reduce(np.int32([1, 2]), dnp.float32(4.0), lax.add, (0,)), np.int32(7))
    half = dx.jit(lambda x, init: lax.reduce(x, init, lax.add, (0,)))(np.float16([1, 2]), 0.5)
    assert_close(half, np.float16(3.5))


@pytest.mark.parametrize("computation", [lax.add, lax.mul, lambda x, y: x + y + 1])
def test_reduce_keeps_a_weak_type(computation: Any) -> None:
    x = lax.broadcast(1.0, (3,))
    assert lax.reduce(x, 3.0, computation, (0,)).weak_type
    assert dx.jit(lambda x: lax.reduce(x, 3.0, computation, (0,)))(x).weak_type
    assert not lax.reduce(x, np.float32(3), computation, (0,)).weak_type


@pytest.mark.parametrize("init", [1.5, 300, -1, 1j, np.nan, np.float32(0.5)])
def test_reduce_refuses_an_init_value_that_the_dtype_cannot_hold(init: Any) -> None:
    text = "The init values of reduce are numbers that the dtypes of its operands hold.\n  operand: uint8[2]"
    with pytest.raises(TypeError, match=re.escape(text)):
        lax.reduce(np.uint8([1, 2]), init, lax.max, (0,))


def test_reduce_over_nothing_is_the_init_value() -> None:
    out = lax.reduce(np.zeros((0, 2), np.float32), 3.0, lambda x, y: lax.sqrt(lax.mul(x, y)), (0,))
    assert_close(out, np.float32([3, 3]))


def test_compiled_derivatives_find_the_elements_that_attain_the_extremum():
    """XLA computes an operand once for the extremum and once more, rounded otherwise, for what is compared with it."""
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    t = np.ones_like(x)

    def terms(x: Any) -> Any:
        return dnp.abs(dnp.exp(x) * x + dnp.sin(x) * 0.3)

    def extrema(x: Any) -> Any:
        rows = np.array([0, 1, 2])
        return terms(x).max(0), dnp.full((3, 4), -9.0).at[rows].max(terms(x) - 3), dnp.maximum(terms(x), 1.0)

    def pushed(x: Any) -> Any:
        return dx.linearize(extrema, x)[1](t)

    expected = dx.jvp(extrema, (x,), (t,))[1]
    several = dx.jit(dx.vmap(pushed, in_axes=1, out_axes=1))(np.stack([x, x], 1))
    for found in (dx.jit(pushed)(x), [several[0][:, 0], several[1][:, 0], several[2][:, 0]]):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_arguments_are_compared_where_they_lie():
    for f, calls in ((lambda x: x.max(), 0), (lambda x: dnp.exp(x).max(), 1)):
        text = dx.jit(dx.grad(f)).lower(np.ones((8, 8), np.float32)).as_text()
        assert text.count("call @materialized") == calls


# --- errors
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: lax.reduce_max(x, (2,)), TypeError,
         "reduce_max takes distinct axes of its operand.\n  operand: float32[2,3], axes: (2,)\n"
         "Name axes from 0 to 1, each at most once."),
        (lambda x: lax.reduce_and(x, (0,)), TypeError,
         "reduce_and cannot reduce this dtype.\n  operand: float32[2,3]\nCast it first (x.astype)."),
        (lambda x: lax.argmax(x, 0, np.float32), TypeError,
         "argmax returns integers.\n  index_dtype: float32\nChoose an integer dtype such as int32."),
        (lambda x: lax.argmin(np.zeros((0, 3), np.float32), 0, np.int32), ValueError,
         "argmin searches one axis that is not empty.\n  operand: float32[0,3], axes: (0,)\n"
         "Name one axis with at least one element."),
        (lambda x: lax.reduce(x, 0.0, lax.add, (0, 0)), ValueError,
         "reduce takes distinct axes of its operands.\n  operands: float32[2,3]\n"
         "  dimensions: (0, 0)\nName each axis once, not from the end."),
        (lambda x: lax.reduce((x, x[0]), (0.0, 0.0), lax.add, (0,)), TypeError,
         "reduce takes arrays of one shape and a scalar for each.\n  operands: float32[2,3], float32[3]\n"
         "  init_values: 0.0, 0.0\nBroadcast the operands first, and give one init value each."),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call(np.zeros((2, 3), np.float32))


@pytest.mark.cpu
def test_accelerators_get_plain_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written for the CPU's compiler alone: lanes, blocks, bytes, roundings, calls of NumPy, polynomials."""
    x = np.ones(1 << 16, np.float32)

    def program(x: Any) -> Any:
        sums = (x > 0).sum(), x.reshape(2048, 32).max(0)
        return x.max(), x.argmin(), *sums, dnp.maximum(x, 2 * x), dnp.sort(x.astype(int)), dnp.sin(x)

    here = dx.jit(program).lower(x).as_text()
    monkeypatch.setattr(Module, "on_cpu", False)
    there = dx.jit(lambda x: program(x)).lower(x).as_text()
    for only_here in ("reduce_precision", "ui8", "custom_call", "round_nearest_even"):
        assert only_here in here and only_here not in there, only_here
    assert there.count("stablehlo.reduce(") == 4 and "stablehlo.sort" in there and "stablehlo.sine" in there


@pytest.mark.cpu
def test_extrema_of_rows_of_integers_are_in_one_loop() -> None:
    """In blocks of lanes, which are faster for floats, LLVM finds no vector instructions."""
    for dtype, count in [("float32", "1000x5x25x8"), ("int32", "1000x125x8"), ("uint8", "1000x1000")]:
        x = np.random.default_rng(0).integers(0, 100, (1000, 1000)).astype(dtype)
        largest = dx.jit(lambda x: x.max(1))
        np.testing.assert_array_equal(largest(x), x.max(1))
        reduced = [line for line in largest.lower(x).as_text().splitlines() if "stablehlo.reduce(" in line]
        assert f"(tensor<{count}x" in reduced[0], dtype
