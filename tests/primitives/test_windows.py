"""Reductions over windows: ties, pooling, init values, texts of errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import didax as dx
from didax import lax
from didax.lax.windows import reduce_window
from tests.checks import assert_close

POOL: tuple[Any, ...] = ((1, 3, 3, 1), (1, 2, 2, 1), "SAME")


@pytest.mark.parametrize("operation, init", [("max", -np.inf), ("min", np.inf)])
def test_gradient_goes_to_the_first_extreme_element(operation: str, init: float) -> None:
    import jax

    x = np.random.default_rng(0).integers(0, 3, (2, 7, 6, 2)).astype(np.float32)
    weight = np.random.default_rng(1).normal(size=(2, 4, 3, 2)).astype(np.float32)

    def pooled(module: Any, window: Any) -> Any:
        return lambda x: (window(x, np.float32(init), getattr(module, operation), *POOL) * weight).sum()

    ours = dx.grad(pooled(lax, reduce_window))
    wanted = jax.grad(pooled(jax.lax, jax.lax.reduce_window))(x)
    assert_close(ours(x), wanted)
    assert_close(dx.jit(ours)(x), wanted)


def test_init_value_of_an_extremum_takes_part() -> None:
    x = np.float32([-3, 1, -2, -5])
    assert_close(reduce_window(x, 0.0, lax.max, (2,), (2,), "VALID"), np.float32([1, 0]))
    out = dx.jit(lambda init: reduce_window(x, init, lax.max, (2,), (2,), [(1, 1)]))(np.float32(-2.5))
    assert_close(out, np.float32([-2.5, 1, -2.5]))


@pytest.mark.parametrize("operation, init", [("max", -np.inf), ("min", np.inf)])
def test_large_arrays_keep_nan(operation: str, init: float) -> None:
    """See Note [NaN in reduced extrema] of primitives/reductions.py."""
    x = np.zeros((256, 256), np.float32)
    x[40, 50] = np.nan
    out = dx.jit(lambda x: reduce_window(x, init, getattr(lax, operation), (2, 2), (2, 2), "VALID"))(x)
    assert np.argwhere(np.isnan(np.asarray(out))).tolist() == [[20, 25]]


def test_narrow_floats_are_summed_in_float32() -> None:
    ones = lax.convert_element_type(np.ones(300), "bfloat16")
    out = reduce_window(ones, 0, lax.add, (300,), (1,), "VALID")
    assert float(out[0]) == 300


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: reduce_window(x, 0.0, lax.mul, (2, 2), (1, 1), "VALID"), NotImplementedError,
         "Windows are reduced by lax.add with init value 0, by lax.max or by lax.min.\n"
         "  computation: mul, init_value: 0.0\n"
         "Slice the operand once for each element of the window and combine the slices."),
        (lambda x: reduce_window(x, 1.0, lax.add, (2, 2), (1, 1), "VALID"), NotImplementedError,
         "computation: add, init_value: 1.0"),
        (lambda x: reduce_window(x, 0.0, lax.add, (2,), (1,), [(0, 0)]), ValueError,
         "reduce_window_sum takes one entry per axis of its operand."),
        (lambda x: reduce_window(x, 0.0, lax.add, (2, 2), (0, 1), "VALID"), ValueError,
         "Windows have positive sizes, strides and dilations.\n  operand: float32[4,3]\n"
         "  window_dimensions: (2, 2)\n  window_strides: (0, 1)"),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call(np.zeros((4, 3), np.float32))
