"""Sorting: stability, zeros and NaN of both signs, extreme integers, gradients at ties, texts of errors."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.checks import assert_close

EVALUATE = pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
# More than 256 elements are packed with their positions; fewer are compared.
COPIES = pytest.mark.parametrize("copies", [1, 100])
SPECIAL = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-45, -1e-45]


@EVALUATE
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
def test_zeros_keep_their_order_and_signs(evaluate: Any, dtype: Any) -> None:
    import jax

    x = np.random.default_rng(0).choice(SPECIAL[:8], (3, 200)).astype(dtype)
    with dx.enable_x64(), jax.enable_x64(True):
        found, wanted = np.asarray(evaluate(lax.sort)(x)), np.asarray(jax.lax.sort(x))
    assert_close(found, wanted, rtol=0, atol=0)
    np.testing.assert_array_equal(np.signbit(found)[found == 0], np.signbit(wanted)[wanted == 0])


@EVALUATE
@COPIES
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64", "bool"])
def test_values_that_follow_extreme_keys(evaluate: Any, copies: int, dtype: str) -> None:
    with dx.enable_x64():
        low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        keys = np.tile(np.array([high, low, 1, low, 0, high, 1], dtype), copies)
        _, order = evaluate(lambda k: lax.sort_key_val(k, np.arange(len(k))))(keys)
    assert np.asarray(order).tolist() == np.argsort(keys, kind="stable").tolist()


@EVALUATE
@COPIES
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
def test_denormals_are_in_order(evaluate: Any, copies: int, dtype: Any) -> None:
    """XLA compares them as if they were zero; JAX leaves them in the order they came in."""
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    x = np.tile(np.array([0.0, 2 * tiny, -tiny, 3 * tiny, -0.0, tiny], dtype), copies)
    places = np.arange(len(x))
    wanted = np.argsort(np.tile([0, 2, -1, 3, 0, 1], copies), kind="stable")
    with dx.enable_x64():
        alone = evaluate(lax.sort)(x)
        keys, order = evaluate(lambda x: lax.sort_key_val(x, places))(x)
        by_two = evaluate(lambda x: lax.sort((x, x, places), num_keys=2))(x)
    assert np.asarray(order).tolist() == np.asarray(by_two[2]).tolist() == wanted.tolist()
    assert np.asarray(alone).tobytes() == np.asarray(keys).tobytes() == x[wanted].tobytes()


def test_tangents_follow_their_elements_at_ties() -> None:
    x, t = np.float32([2, 1, 2, 1]), np.float32([1, 2, 3, 4])
    assert_close(dx.jvp(lax.sort, (x,), (t,))[1], np.float32([2, 4, 1, 3]))
    assert_close(dx.vjp(lax.sort, x)[1](t)[0], np.float32([3, 1, 4, 2]))


def test_values_that_follow_are_linear() -> None:
    """Their tangent moves with them; the keys need none."""
    keys, x, t = np.int32([3, 1, 2]), np.float32([1, 2, 3]), np.float32([10, 20, 30])
    assert_close(dx.jvp(lambda x: lax.sort_key_val(keys, x)[1], (x,), (t,))[1], np.float32([20, 30, 10]))


def test_positions_are_not_gathered() -> None:
    """The positions in the order of the keys are that order."""
    x, positions = np.float32([3, 1, 2]), np.int32([0, 1, 2])
    program = dx.jit(lambda x: lax.sort_key_val(x, lax.iota("int32", len(x)))[1])
    for copies, gathers in ((1, 0), (100, 1)):  # a short key moves with its positions, a long one is gathered
        assert program.lower(np.tile(x, copies)).as_text().count('"stablehlo.gather"(') == gathers
    rows = dx.jit(lambda x: lax.sort([x, lax.broadcasted_iota("int32", (3, 3), 0)], num_keys=1)[1])
    np.testing.assert_array_equal(rows(np.stack([x] * 3)), np.stack([positions] * 3).T)


def test_sort_gives_back_what_it_was_given() -> None:
    x = np.float32([2, 1])
    assert isinstance(lax.sort([x, x]), tuple)
    assert lax.sort(x).shape == (2,)


@EVALUATE
def test_top_k_orders_from_above(evaluate: Any) -> None:
    import jax

    x = np.random.default_rng(0).choice(SPECIAL, (2, 30)).astype(np.float32)
    for axis in (0, 1):
        found = evaluate(lambda x, axis=axis: lax.top_k(x, x.shape[axis], axis=axis))(x)
        for a, b in zip(found, jax.lax.top_k(x, x.shape[axis], axis=axis), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_gradient_of_top_k() -> None:
    x = np.float32([[3, 1, 2], [5, 5, 4]])
    gradient = dx.grad(lambda x: lax.reduce_sum(lax.top_k(x, 2)[0] * np.float32([1, 10]), (0, 1)))(x)
    assert_close(gradient, np.float32([[1, 0, 10], [1, 10, 0]]))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: lax.sort((x, x[0])), TypeError,
         "sort takes arrays of one shape.\n  operands: float32[2,3], float32[3], dimension: 1, num_keys: 1\n"
         "Broadcast them first."),
        (lambda x: lax.sort(x, 2), ValueError,
         "sort runs along one axis, by at least one of its operands.\n"
         "  operands: float32[2,3], dimension: 2, num_keys: 1\ndimension is below 2, num_keys from 1 to 1."),
        (lambda x: lax.sort((x,), num_keys=2), ValueError, "num_keys from 1 to 1."),
        (lambda x: lax.top_k(x, 4), ValueError,
         "top_k takes at most as many elements as the axis has.\n  operand: float32[2,3], k: 4, axis: 1\n"
         "Choose k from 0 to 3."),
        (lambda x: lax.top_k(x.astype(np.complex64), 1), TypeError, "top_k orders real numbers."),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0)])
def test_derivatives_of_empty_arrays(shape, axis):
    """No window of one element fits into an axis without any."""
    x = dnp.zeros(shape)
    functions = [lambda x: dnp.sort(x, axis), lambda x: lax.sort((x, x), dimension=axis, num_keys=1)[1]]
    functions += [lambda x: lax.top_k(x, 0)[0], lambda x: lax.top_k(x, x.shape[1])[0]]
    for f in functions:
        assert dx.grad(lambda x, f=f: f(x).sum())(x).shape == shape
        assert dx.jit(lambda x, f=f: dx.jvp(f, (x,), (x,))[1])(x).shape == f(x).shape


@pytest.mark.cpu
def test_numpy_sorts_large_arrays() -> None:
    """As XLA sorts: NaN last, zeros and elements of equal keys in the order they had, denormals in order."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 60, 300))
    for value in (0.0, -0.0, np.nan, np.inf, 1e-40, -3e-40, 2e-40):
        x[rng.random(x.shape) < 0.05] = value
    floats, halves, words = (
        x.astype("float32"),
        x.astype("float16"),
        rng.integers(0, 2**32, x.shape, "uint32"),
    )
    small = words.astype("int8")

    @dx.jit
    def program(floats: Any, halves: Any, words: Any, small: Any) -> Any:
        return (
            lax.sort(floats, dimension=1),
            dx.vmap(lambda x: lax.sort(x, dimension=0))(halves),
            lax.scan(lambda c, x: (c, lax.sort(x.ravel())), 0, dnp.tile(words, (1, 2, 1)))[1],
            lax.sort((small, floats), dimension=1, num_keys=1),
        )

    text = program.lower(floats, halves, words, small).as_text()
    assert text.count("call @didax_python_callback") == 3 + 1 and "stablehlo.sort" not in text
    rows, columns, flat, (keys, values) = program(floats, halves, words, small)
    assert_same(np.sort(floats, 1, kind="stable"), rows)
    assert_same(np.sort(halves, 1, kind="stable"), columns)
    assert_same(np.sort(np.tile(words, (1, 2, 1)).reshape(2, -1), 1), flat)
    order = np.argsort(small, 1, kind="stable")
    assert_same(np.take_along_axis(small, order, 1), keys)
    assert_same(np.take_along_axis(floats, order, 1), values)


@pytest.mark.cpu
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_long_vectors_of_booleans_are_not_compared(share: float) -> None:
    n = 5000
    marks = np.random.default_rng(0).random(n) < share
    program = dx.jit(
        lambda marks, x: (*lax.sort((marks, x), num_keys=1), dnp.nonzero(marks, size=n, fill_value=n)[0])
    )
    x = np.arange(n, dtype=np.float32)
    text = program.lower(marks, x).as_text()
    assert "stablehlo.sort" not in text and "python_callback" not in text
    keys, values, places = program(marks, x)
    order = np.argsort(marks, kind="stable")
    assert_same(marks[order], keys)
    assert_same(x[order], values)
    found = np.flatnonzero(marks)
    assert_same(np.append(found, np.full(n - len(found), n)).astype(np.int32), places)


def test_unique_sorts_with_places_only_if_asked() -> None:
    """Elements are sorted alone for their values and counts; with the places of each for the other results."""
    x = np.float32([2, -0.0, np.nan, 0.0, 2, np.nan])
    for options, operands in (
        ((), 1),
        (("return_counts",), 1),
        (("return_index",), 2),
        (("return_inverse",), 2),
    ):
        chosen = dict.fromkeys(options, True)
        jaxpr = dx.make_jaxpr(lambda x, chosen=chosen: dnp.unique(x, size=3, **chosen))(x).jaxpr
        first = next(eqn for eqn in jaxpr.eqns if eqn.primitive.name == "sort")
        assert len(first.invars) == operands
        found = dnp.unique(x, **chosen)
        expected = np.unique(x, **chosen)
        pairs = zip(found, expected, strict=True) if chosen else [(found, expected)]
        for a, b in pairs:
            np.testing.assert_array_equal(np.asarray(a), b)


def test_exported_programs_sort_alone() -> None:
    x = np.arange(1 << 15, dtype=np.int32)[::-1]
    exported = dx.export.export(dx.jit(lambda x: lax.sort(x)))(x)
    assert "custom_call" not in exported.mlir_module()
    assert_same(np.sort(x), dx.jit(exported.call)(x))


def assert_same(expected: Any, found: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), expected)
    if expected.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])
