"""The Fourier transform primitive: empty batches, batching at every axis, and what it refuses."""

import jax
import numpy as np
import pytest

import didax as dx
from didax import lax


@pytest.mark.parametrize("kind", list(lax.FftType))
def test_a_batch_of_none(kind):
    x = np.zeros((0, 3), "float32" if kind is lax.FftType.RFFT else "complex64")
    lengths = (4,) if kind is lax.FftType.IRFFT else (3,)
    wanted = jax.lax.fft(x, kind.name, lengths)
    for y in (lax.fft(x, kind, lengths), dx.jit(lambda x: lax.fft(x, kind, lengths))(x)):
        assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_vmap_of_any_axis(axis):
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    batch = np.stack([x, 2 * x], axis)
    rfft = lambda x: lax.fft(x, "rfft", (3, 4))
    for f in (dx.vmap(rfft, axis), dx.jit(dx.vmap(rfft, axis))):
        np.testing.assert_allclose(f(batch), np.fft.rfft2(np.stack([x, 2 * x])), rtol=1e-5, atol=1e-5)


def test_real_operands_become_complex():
    x = np.float32([1, 2, 3])
    np.testing.assert_allclose(lax.fft(x, lax.FftType.FFT, (3,)), np.fft.fft(x), rtol=1e-6)


def test_transposed_and_reversed_operands():
    """Whatever layout XLA gives the operand, the compiled transform sees the last axis."""
    x = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    f = dx.jit(lambda x: lax.fft(lax.rev(lax.transpose(x, (1, 0)), (0,)), "rfft", (4,)))
    np.testing.assert_allclose(f(x), np.fft.rfft(x.T[::-1]), rtol=1e-5, atol=1e-5)


def test_lapack_before_and_after_transforms():
    """LAPACK reads and writes matrices by columns, in which XLA's transforms on the CPU fail."""

    def determinants(np, x):
        inverse = np.linalg.inv(x)
        complex_ones = [
            np.fft.fft(inverse), np.fft.ifft2(inverse), np.fft.fft(inverse.T).T, np.fft.rfft(inverse.real)[:, :2]
        ]  # fmt: skip
        real_ones = [np.fft.irfft(inverse, 4), np.fft.irfft2(np.stack([x, inverse]), (4, 4))[1]]
        return [np.linalg.det(y[: y.shape[1]]) for y in (*complex_ones, *real_ones)]

    x = np.random.default_rng(0).normal(size=(2, 4, 4)).astype("float32")
    x = x[0] + 1j * x[1]
    for y, wanted in zip(dx.jit(lambda x: determinants(dx.numpy, x))(x), determinants(np, x), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-5)


@pytest.mark.parametrize("n", [1 << 17, 400_000])  # one step of quarters, and two
def test_long_rows(n):
    """Long rows are transformed by quarters; both directions, with a batch, are what NumPy computes in float64."""
    parts = np.random.default_rng(0).normal(size=(2, n))
    x = (parts[0] + 1j * parts[1])[None]
    compiled = dx.jit(lambda x: (dx.numpy.fft.fft(x), dx.numpy.fft.ifft(x)))
    assert dx.jit(dx.numpy.fft.fft).lower(x.astype("complex64")).as_text().count("stablehlo.concatenate") >= 1
    for y, wanted in zip(compiled(x.astype("complex64")), (np.fft.fft(x), np.fft.ifft(x)), strict=True):
        assert np.linalg.norm(y - wanted) < 3e-7 * np.linalg.norm(wanted)


def test_rows_without_quarters():
    """A length that 4 does not divide, or an array beyond the limit of memory, is left to the library."""
    for shape in [(1, (1 << 17) + 2), (16, 1 << 17)]:
        x = dx.ShapeDtypeStruct(shape, "complex64")
        assert "stablehlo.concatenate" not in dx.jit(dx.numpy.fft.fft).lower(x).as_text()


ERRORS = [
    ("int32", (4,), "fft", (4,), TypeError, r"FFT takes complex64 or complex128\.\n  operand: int32\[4\]"),
    ("complex64", (4,), "rfft", (4,), TypeError, r"RFFT takes float32 or float64\.\n  operand: complex64\[4\]"),
    ("float16", (4,), "rfft", (4,), TypeError, r"operand: float16\[4\], fft_lengths: \(4,\)\nCast it"),
    ("complex64", (4,), "fft", (5,), TypeError, r"last axes of \(5,\)\.\n  operand: complex64\[4\]"),
    ("complex64", (4,), "irfft", (4,), TypeError, r"IRFFT of these lengths takes last axes of \(3,\)"),
    ("complex64", (0,), "fft", (0,), TypeError, r"one to three axes, none of them empty"),
    ("complex64", (1, 1, 1, 1), "fft", (1, 1, 1, 1), TypeError, r"Transform further axes after the first three"),
    ("complex64", (4,), "dct", (4,), ValueError, r"fft_type: 'dct'\nUse one of lax.FftType"),
    ("complex64", (4,), 0, (4,), ValueError, r"fft_type: 0\n"),
]  # fmt: skip


def test_transforms_of_no_axes():
    x = np.arange(3, dtype="complex64")
    np.testing.assert_array_equal(lax.fft(x, "fft", ()), x)
    assert lax.fft(x.real, "ifft", ()).dtype == x.dtype


@pytest.mark.parametrize(("dtype", "shape", "kind", "lengths", "error", "text"), ERRORS)
def test_errors(dtype, shape, kind, lengths, error, text):
    with pytest.raises(error, match=text):
        lax.fft(np.zeros(shape, dtype), kind, lengths)
