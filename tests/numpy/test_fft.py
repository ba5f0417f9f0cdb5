"""didax.numpy.fft agrees with jax.numpy.fft, and with NumPy where jax has a limit."""

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from tests.checks import check_grads
from tests.numpy.oracle import assert_same, check, compare, sample

NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TAKES_REAL = ("rfft", "ihfft", "rfft2", "rfftn")
TOLERANCE = {"rtol": 2e-5}


def operand(name, shape, dtype="float32"):
    x = sample(dtype, shape)
    return x if name in TAKES_REAL else (x + 1j * sample(dtype, shape, seed=1)).astype("complex64")


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", NAMES)
def test_transforms_of_one_axis_are_those_of_jax(name, norm):
    for shape, n, axis in [((4,), None, -1), ((2, 5), 3, -1), ((3, 2), 6, 0), ((2, 1, 3), 1, 1)]:
        x = operand(name, shape)
        compare(
            lambda np, x, n=n, axis=axis: getattr(np.fft, name)(x, n, axis, norm),
            x,
            jit=axis == 0,
            **TOLERANCE,
        )


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "float8_e5m2", "float16", "bfloat16", "float32", "complex64"]
)
def test_dtypes(dtype):
    x = sample(dtype, (6,))
    for name in NAMES:
        if name not in TAKES_REAL:
            check(f"np.fft.{name}(x)", x, jit=False, rtol=1e-4)
        elif dtype != "complex64":  # jax has no real transform of 16 bits and fewer
            assert_same(
                getattr(dnp.fft, name)(x), getattr(jax.numpy.fft, name)(x.astype("float32")), rtol=1e-4
            )


def test_double_precision():
    x = np.random.default_rng(0).normal(size=(3, 8))
    with dx.enable_x64(True), jax.enable_x64(True):
        for text in ("np.fft.fft(x)", "np.fft.irfft(np.fft.rfft(x), 7)", "np.fft.rfft(x.astype('int32'))"):
            check(text, x, rtol=1e-10)


MANY = [
    "fftn(x)", "fftn(x, (2, 5))", "fftn(x, axes=(2, 0))", "fftn(x, (4, 2), (0, -1), 'ortho')",
    "ifftn(x, norm='forward')", "fftn(x, axes=())", "fft2(x)", "ifft2(x, (3, 3), (0, 1))", "irfftn(x)",
    "irfftn(x, (2, 3, 7))", "irfftn(x, (3, 5), (2, 0), 'ortho')", "irfft2(x)",
    "irfft2(x, axes=(1, 0), norm='forward')", "rfftn(x.real)", "rfftn(x.real, (4, 4))",
    "rfftn(x.real, (4, 2), (2, 1), 'ortho')", "rfft2(x.real, norm='forward')",
    "rfft2(x.real, (5, 2), (1, 0))", "fftshift(x)", "fftshift(x, 1)", "fftshift(x, (0, -1))",
    "ifftshift(x)", "ifftshift(x, (0,))", "ifftshift(x, np.array([0, 2]))",
]  # fmt: skip


@pytest.mark.parametrize("text", MANY)
def test_many_axes(text):
    check(f"np.fft.{text}", operand("fft", (3, 2, 4)), jit=False, **TOLERANCE)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_more_axes_than_xla_takes(name):
    """XLA transforms three at a time; the values are NumPy's for any order of five axes."""
    x = operand(name, (2, 3, 2, 3, 4))
    for axes in ((0, 1, 2, 3, 4), (4, 2, 0, 3), (3, 0, 4, 1, 2)):
        wanted = getattr(np.fft, name)(x, axes=axes, norm="ortho")
        f = lambda x, axes=axes: getattr(dnp.fft, name)(x, axes=axes, norm="ortho")
        for y in (f(x), dx.jit(f)(x)):
            assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


def test_a_length_of_minus_one_leaves_the_axis():
    x = operand("fft", (3, 4))
    assert_same(dnp.fft.fftn(x, (-1, 2)), jax.numpy.fft.fftn(x, (3, 2)), **TOLERANCE)
    assert_same(dnp.fft.irfftn(x, (2, -1)), jax.numpy.fft.irfftn(x, (2, 6)), **TOLERANCE)


def test_empty_batches():
    for name in NAMES:
        check(f"np.fft.{name}(x)", operand(name, (0, 3)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [6, 5])
def test_derivatives(name, n):
    x = operand(name, (2, 4)).astype("float64" if name in TAKES_REAL else "complex128")
    with dx.enable_x64(True):
        f = lambda x: getattr(dnp.fft, name)(x, n, norm="ortho")
        check_grads(lambda x: abs(f(x)) ** 2, (x,), order=2)


def test_derivatives_over_many_axes():
    x = np.random.default_rng(0).normal(size=(2, 3, 2, 3))
    with dx.enable_x64(True):
        check_grads(lambda x: abs(dnp.fft.rfftn(x)) ** 2, (x,), order=1)
        check_grads(lambda x: dnp.fft.irfftn(x + 1j * x**2) ** 2, (x,), order=1)


@pytest.mark.parametrize("name", NAMES)
def test_batched_compiled_and_differentiated(name):
    x = sample("float32", (3, 2, 4))
    lift = (lambda x: x) if name in TAKES_REAL else (lambda x: x + 1j * x**2)
    f = lambda np, x: (abs(getattr(np.fft, name)(lift(x), axis=0)) ** 2).sum()
    ours = dx.jit(dx.vmap(dx.grad(lambda x: f(dnp, x)), 1))(x)
    theirs = jax.vmap(jax.grad(lambda x: f(jax.numpy, x)), 1)(x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_frequencies():
    for n in range(1, 8):
        for name in ("fftfreq", "rfftfreq"):
            check(f"np.fft.{name}({n})")
            check(f"np.fft.{name}({n}, 0.25, dtype='float16')", jit=False)
            check(f"np.fft.{name}({n}, x)", np.float32(0.3), jit=False)
    assert dnp.fft.fftfreq(0).shape == (0,)
    assert dnp.fft.fftfreq(3, device=dx.devices()[0]).device == dx.devices()[0]
    with dx.enable_x64(True):
        y = dnp.fft.fftfreq(5, 0.1)
        assert y.dtype == "float64"
        np.testing.assert_allclose(y, np.fft.fftfreq(5, 0.1), rtol=1e-15)


def test_frequencies_of_a_differentiated_spacing():
    slope = dx.jit(dx.grad(lambda d: dnp.fft.fftfreq(4, d)[1]))(0.5)
    np.testing.assert_allclose(slope, -1.0, rtol=1e-6)


ERRORS = [
    (lambda x: dnp.fft.fft(x, norm="other"), ValueError, r"norm: 'other'\nUse 'backward'"),
    (lambda x: dnp.fft.fft(x, axis=2), np.exceptions.AxisError, "fft takes an axis of the array"),
    (lambda x: dnp.fft.fft(dnp.float32(1)), np.exceptions.AxisError, "without axes"),
    (lambda x: dnp.fft.fft(x, axis=(0,)), TypeError, "fft takes axes as integers"),
    (lambda x: dnp.fft.fft(x, n=2.0), TypeError, r"whole numbers of points\.\n  n: 2\.0\nPass an int"),
    (lambda x: dnp.fft.fft(x, n=0), ValueError, r"at least one point\.\n  a: complex64\[2,3\], axis: 1, points: 0"),
    (lambda x: dnp.fft.fft(x[:, :0]), ValueError, r"a: complex64\[2,0\], axis: 1, points: 0\nPass an array"),
    (lambda x: dnp.fft.irfft(x[:, :1]), ValueError, r"irfft transforms at least one point"),
    (lambda x: dnp.fft.rfft(x * 1j), TypeError, r"rfft takes real numbers\.\n  a: complex64\[2,3\]\nUse fft"),
    (lambda x: dnp.fft.fftn(x, (2,), (0, 1)), ValueError, r"s: \(2,\), axes: \(0, 1\)\nGive s and axes"),
    (lambda x: dnp.fft.fftn(x, (2, 2, 2)), np.exceptions.AxisError, "axis: -3, array of 2 axes"),
    (lambda x: dnp.fft.fftn(x, axes=(0, 0)), ValueError, "takes each axis once"),
    (lambda x: dnp.fft.rfftn(x, axes=()), ValueError, "a length for each axis, and an axis"),
    (lambda x: dnp.fft.fft2(x, axes=(0,)), ValueError, r"axes: \(0,\)\nUse fftn"),
    (lambda x: dnp.fft.fft([1, 2]), TypeError, "fft takes arrays and scalars"),
    (lambda x: dnp.fft.fftfreq(-1), ValueError, r"n: -1\nPass an int of at least 0"),
    (lambda x: dnp.fft.fftfreq(4, dtype=int), ValueError, r"d: float32\[\], dtype: int32\nPass a real"),
    (lambda x: dnp.fft.rfftfreq(4, dnp.ones(2)), ValueError, r"rfftfreq gives real frequencies for one spacing"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(dnp.ones((2, 3)))
