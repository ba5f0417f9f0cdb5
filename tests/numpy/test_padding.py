"""`pad`: every mode, on every dtype that has it, gives what jax.numpy gives."""

from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from tests.checks import check_grads
from tests.numpy.oracle import check, compare, sample

STATISTICS = ("maximum", "mean", "median", "minimum")


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "bfloat16"])
@pytest.mark.parametrize("mode", STATISTICS)
def test_statistics_of_the_ends(mode: str, dtype: str) -> None:
    x = sample(dtype, (2, 3))
    check(f"np.pad(x, 2, mode={mode!r})", x)
    check(f"np.pad(x, ((1, 2), (3, 1)), mode={mode!r}, stat_length=((1, 2), (2, 9)))", x)
    check(f"np.pad(x, (0, 3), mode={mode!r}, stat_length=2)", x)


@pytest.mark.parametrize("dtype", ["int32", "float32", "bfloat16", "complex64"])
def test_ramps(dtype: str) -> None:
    x = sample(dtype, (2, 3))
    check("np.pad(x, 2, mode='linear_ramp')", x)
    check("np.pad(x, ((0, 4), (3, 1)), mode='linear_ramp', end_values=((1, 2), (7, -3)))", x)


def test_ramps_of_integers_are_those_of_numpy_when_compiled() -> None:
    x = np.array([[2, -7, 8], [5, 0, -3]], np.int32)
    for widths in (((3, 5), (6, 7)), ((7, 1), (5, 3))):
        ramp = dx.jit(lambda x, widths=widths: dnp.pad(x, widths, mode="linear_ramp", end_values=-5))
        np.testing.assert_array_equal(ramp(x), np.pad(x, widths, mode="linear_ramp", end_values=-5))


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_odd_reflection(mode: str, length: int) -> None:
    x = sample("float32", (length,))
    for widths in ((0, 0), (1, 2), (7, 9), (30, 1)):
        check(f"np.pad(x, {widths}, mode={mode!r}, reflect_type='odd')", x, rtol=1e-4)
    check("np.pad(x, 7, mode='reflect', reflect_type='odd')", np.arange(3, dtype=np.uint8))  # wraps around


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "symmetric"])
def test_repeated_elements_of_any_width_are_those_of_numpy(mode: str) -> None:
    for length in (1, 2, 3, 5):
        x = np.arange(2 * length, dtype=np.float32).reshape(length, 2)
        for widths in ((0, 1), (1, 0), (2, 1), (5, 3), (1, 12)):
            padded = dnp.pad(x, (widths, (0, 0)), mode=mode)
            np.testing.assert_array_equal(padded, np.pad(x, (widths, (0, 0)), mode=mode))


def test_functions_get_each_vector_padded_with_zeros() -> None:
    def fill(vector: Any, widths: Any, axis: int, kwargs: Any) -> Any:
        return vector.at[: widths[0]].set(kwargs.get("value", 10.0) + axis)

    x = sample("float32", (2, 3))
    compare(lambda np, x: np.pad(x, ((1, 2), (3, 1)), fill), x)
    compare(lambda np, x: np.pad(x, 1, fill, value=3.0), x)


def test_empty_axes_and_scalars() -> None:
    check("np.pad(x, 1, mode='mean')", np.zeros(0, np.float32))
    check("np.pad(x, 1, mode='mean')", np.float32(3))


@pytest.mark.parametrize("mode", [*STATISTICS, "linear_ramp", "reflect", "wrap"])
def test_derivatives(mode: str) -> None:
    x = dnp.asarray(np.float32([0.3, -1.2, 2.0, 0.9]))
    check_grads(lambda x: dnp.pad(x, 2, mode=mode), (x,))


@pytest.mark.parametrize("widths", [{0: (1, 2)}, {-1: 3}, {0: 1, 1: (0, 2)}, {}])
def test_a_dictionary_of_axes(widths: dict[int, Any]) -> None:
    x = sample("float32", (2, 3))
    np.testing.assert_array_equal(dnp.pad(x, widths, mode="edge"), np.pad(x, widths, mode="edge"))


def test_padded_weak_arrays_are_weak() -> None:
    for mode in (*STATISTICS, "linear_ramp", "edge", "reflect"):
        assert dnp.pad(dnp.stack([0.5, 1.5]), 1, mode=mode).weak_type


def test_one_constant_is_padded_at_once() -> None:
    def count(**options: Any) -> int:
        return str(dx.make_jaxpr(lambda x: dnp.pad(x, 1, **options))(np.ones((2, 2)))).count("= pad[")

    assert [count(), count(constant_values=3.0), count(constant_values=(0, 1))] == [1, 1, 4]


def test_padding_is_mapped() -> None:
    x = dnp.asarray(sample("float32", (3, 4)))
    mapped = dx.vmap(lambda row: dnp.pad(row, 2, mode="reflect", reflect_type="odd"))(x)
    np.testing.assert_array_equal(mapped, dnp.pad(x, ((0, 0), (2, 2)), mode="reflect", reflect_type="odd"))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: dnp.pad(x, -1), ValueError, "pad makes arrays longer"),
        (lambda x: dnp.pad(x, 1, mode="other"), NotImplementedError, "no such mode.\n  mode: 'other'"),
        (lambda x: dnp.pad(x, 1, mode="edge", stat_length=1), ValueError, "options: stat_length\nIt takes none"),
        (lambda x: dnp.pad(x, 1, value=1), ValueError, "options: value\nIt takes constant_values"),
        (lambda x: dnp.pad(x, 1, mode="mean", stat_length=0), ValueError, "stat_length: 0"),
        (lambda x: dnp.pad(x, 1, mode="reflect", reflect_type="x"), ValueError, "reflect_type: 'x'"),
        (lambda x: dnp.pad(x[:0], 1, mode="edge"), ValueError, r"float32\[0\], axis: 0"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(dnp.ones(3))
