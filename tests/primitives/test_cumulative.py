"""Cumulative reductions: derivatives at ties, zeros and infinities, long axes, accuracy, texts of errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, nn
from tests.checks import assert_close, first

NAMES = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]


@pytest.mark.parametrize("name", ["cummax", "cummin", "cumprod", "cumlogsumexp"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", first([7, 1, 2, 3, 6], 2))
def test_derivatives_at_ties_and_zeros(name: str, reverse: bool, n: int) -> None:
    import jax

    x = np.float32([1, 1, 2, 0, 2, 2, 0])[:n]
    ours = dx.jacrev(lambda x: getattr(lax, name)(x, reverse=reverse))(x)
    assert_close(ours, jax.jacrev(lambda x: getattr(jax.lax, name)(x, reverse=reverse))(x))


def test_second_derivatives_of_a_product_with_zeros() -> None:
    import jax

    x = np.float32([2, 0, 3, 0, 5])
    ours = dx.hessian(lambda x: lax.cumprod(x)[-2])(x)
    assert_close(ours, jax.hessian(lambda x: jax.lax.cumprod(x)[-2])(x))


def test_second_derivatives_of_cumlogsumexp_at_ties() -> None:
    """The Hessian of log-sum-exp is diag(p) - p p', with p the softmax."""
    hessian = dx.hessian(lambda x: lax.cumlogsumexp(x)[1])(np.float32([1, 1]))
    assert_close(hessian, np.float32([[0.25, -0.25], [-0.25, 0.25]]))


def test_cumlogsumexp_ignores_minus_infinity() -> None:
    """JAX's derivative is NaN here."""
    x = np.float32([-np.inf, -np.inf, 1, 2])
    gradient = dx.grad(lambda x: lax.reduce_sum(lax.cumlogsumexp(x)[2:], (0,)))(x)
    assert_close(gradient, np.float32([0, 0, 1 + 1 / (1 + np.e), np.e / (1 + np.e)]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "shape, axis", [((2047,), 0), ((2, 2049), 1), ((2081, 3), 0), ((65601,), 0), ((0, 3), 0)]
)
def test_long_axes(name: str, reverse: bool, shape: tuple[int, ...], axis: int) -> None:
    """Blocks, blocks of blocks, and lengths around multiples of a block."""
    x = 1 + np.random.default_rng(0).normal(size=shape) / 1000
    with dx.enable_x64():
        compiled = dx.jit(lambda x: getattr(lax, name)(x, axis, reverse))(x)
    ufunc = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}
    along = np.flip(x, axis) if reverse else x
    expected = ufunc.get(name, np.logaddexp).accumulate(along, axis=axis)
    assert_close(compiled, np.flip(expected, axis) if reverse else expected, rtol=1e-10)


def test_infinities_and_signs_of_zero_pass_blocks() -> None:
    x = np.full(5000, -0.0, np.float32)
    assert np.signbit(np.asarray(dx.jit(lax.cumsum)(x))).all()
    x = np.ones(5000, np.float32)
    x[4000] = np.inf
    assert_close(dx.jit(lax.cumsum)(x)[3999:4002], np.float32([4000, np.inf, np.inf]))
    z = x.astype(np.complex64)
    assert np.isfinite(np.asarray(dx.jit(lax.cumprod)(z))[:4000]).all()


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_narrow_floats_are_accumulated_in_float32(evaluate: Any) -> None:
    """In bfloat16 itself 256 + 1 is 256."""
    ones = lax.convert_element_type(np.ones(1000), "bfloat16")
    assert float(evaluate(lax.cumsum)(ones)[-1]) == 1000


def test_sums_of_many_numbers_are_accurate() -> None:
    """One after the other, 0.1 added a million times in float32 gives 100958."""
    total = dx.jit(lax.cumsum)(np.full(1_000_000, 0.1, np.float32))[-1]
    assert abs(float(total) - 100_000) < 1


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: lax.cumsum(np.zeros((2, 3), np.float32), 2), ValueError,
         "cumsum runs along an axis of its operand.\n"
         "  operand: float32[2,3], axis: 2\nName an axis from 0 to 1."),
        (lambda: lax.cumprod(np.float32(1)), ValueError, "A scalar has no axes: reshape it to (1,)."),
        (lambda: lax.cumlogsumexp(np.arange(3, dtype=np.int32)), TypeError,
         "cumlogsumexp cannot accumulate this dtype.\n  operand: int32[3]\nCast it first."),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "x", [[1, np.inf, 2], [np.inf, 1, np.inf, np.inf], [-np.inf] * 3, [-np.inf, np.inf, 0]]
)
def test_cumlogsumexp_at_infinities_has_the_derivatives_of_logsumexp(x: Any, reverse: bool) -> None:
    x = np.float32(x)
    prefixes = [slice(i, None) if reverse else slice(0, i + 1) for i in range(len(x))]
    for jacobian in (dx.jacfwd, dx.jacrev):
        wanted = jacobian(lambda x: dnp.stack([nn.logsumexp(x[part]) for part in prefixes]))(x)
        ours = jacobian(lambda x: lax.cumlogsumexp(x, reverse=reverse))
        assert_close(ours(x), wanted)
        assert_close(dx.jit(ours)(x), wanted)


@pytest.mark.cpu
@pytest.mark.parametrize("reverse", [False, True])
def test_long_rows_are_scanned_in_one_kernel(reverse: bool) -> None:
    """Blocks that fill a vector, rows of such blocks, rests, and what spreads: infinities, NaN, signs of zeros."""
    rng = np.random.default_rng(0)
    vector, rows, ends, zeros = (
        rng.standard_normal(1003),
        rng.standard_normal((3, 264)),
        np.ones(300),
        np.zeros(300),
    )
    ends[[50, 200]], zeros[:] = (np.inf, np.nan), -0.0
    odd = rng.standard_normal((2, 275))  # blocks of 55, which fill no vector
    xs = [x.astype(np.float32) for x in (vector, rows, odd, ends, zeros)] + [
        rng.integers(0, 2**31, (2, 300), np.uint32)
    ]
    functions = [
        (lax.cumsum, np.cumsum),
        (lax.cummax, np.maximum.accumulate),
        (lax.cummin, np.minimum.accumulate),
    ]
    program = dx.jit(lambda xs: [[f(x, axis=x.ndim - 1, reverse=reverse) for f, _ in functions] for x in xs])
    assert "xla_cpu_small_call" in program.lower(xs).as_text()
    for x, outs in zip(xs, program(xs), strict=True):
        for (_, f), found in zip(functions, outs, strict=True):
            exact = x.astype(float) if x.dtype == np.float32 else x
            wanted = np.flip(f(np.flip(exact, -1), axis=-1), -1) if reverse else f(exact, axis=-1)
            assert_close(np.asarray(found), wanted.astype(x.dtype), rtol=1e-6, atol=1e-5)
            assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_errors_of_long_sums_do_not_grow() -> None:
    x = np.float32(0.1) + np.zeros(1 << 17, np.float32)
    exact = np.cumsum(x.astype(float))
    assert np.abs(np.asarray(dx.jit(lax.cumsum)(x)) / exact - 1).max() < 4e-7
