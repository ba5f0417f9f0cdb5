"""didax.scipy.fft, signal, ndimage, interpolate, cluster and integrate, against scipy."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import jax
import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.interpolate
import scipy.ndimage
import scipy.signal

import didax as dx
import didax.numpy as dnp
from didax.core.errors import ArgumentError, ConcretizationTypeError
from didax.scipy import _windows, cluster, fft, integrate, interpolate, ndimage, signal
from tests.checks import assert_close
from tests.scipy.families import check_batches, check_derivatives, check_family

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 5))


def assert_all_close(ours: Any, theirs: Any, what: Any) -> None:
    found, wanted = dx.tree.leaves(ours), theirs if isinstance(theirs, tuple) else (theirs,)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == np.shape(y), what
        np.testing.assert_allclose(x, y, 1e-8, 1e-9, err_msg=str(what))


def test_cosine_transforms() -> None:
    with dx.enable_x64(True):
        for kind, norm in itertools.product((1, 2, 3, 4), (None, "ortho", "forward")):
            for name, n in itertools.product(("dct", "idct"), (None, 2, 4, 7)):
                ours, theirs = [getattr(lib, name)(X, kind, n, norm=norm) for lib in (fft, scipy.fft)]
                assert_all_close(ours, theirs, (name, kind, n, norm))
            assert_all_close(fft.dctn(X, kind, norm=norm), scipy.fft.dctn(X, kind, norm=norm), (kind, norm))
            ours, theirs = [lib.idctn(X, kind, s=(4,), norm=norm) for lib in (fft, scipy.fft)]
            assert_all_close(ours, theirs, (kind, norm))
        assert_all_close(fft.dct(X * 1j), scipy.fft.dct(X * 1j), "complex")
        for options in (
            {"s": 3},
            {"axes": 0},
            {"s": (2, -1)},
        ):  # a number for one axis; -1 for its own length
            assert_all_close(fft.dctn(X, **options), scipy.fft.dctn(X, **options), options)
    for name in ("dct", "idct"):  # no vectors, of some elements each
        assert getattr(fft, name)(dnp.zeros((3, 0)), axis=0).shape == (3, 0)
    small = X.astype("float32")
    check_family(fft, scipy.fft, jax.scipy.fft, {"dct": [(small,)], "idctn": [(small,)], "dctn": [(small,)]})
    assert fft.dct(np.arange(3)).dtype == np.float32
    for bad in ({"n": -1}, {"n": 2.5}):
        with pytest.raises(ArgumentError, match="dct takes a number of points"):
            fft.dct(small, **bad)
    with pytest.raises(ArgumentError, match="dctn takes each axis once"):
        fft.dctn(small, axes=(0, 0))


def test_convolutions() -> None:
    with dx.enable_x64(True):
        for (m, n), mode in itertools.product(((7, 3), (3, 7), (4, 4), (5, 1)), ("full", "same", "valid")):
            for factor in (1, 1 + 2j):
                a, b = RNG.normal(size=m), RNG.normal(size=n) * factor
                for name, method in itertools.product(("convolve", "correlate"), ("direct", "fft")):
                    ours, theirs = [getattr(lib, name)(a, b, mode, method) for lib in (signal, scipy.signal)]
                    assert_all_close(ours, theirs, (name, m, n, mode, method))
        a, b = RNG.normal(size=(5, 6)), RNG.normal(size=(3, 2))
        for (x, y), mode in itertools.product(((a, b), (b, a), (a, a[:4, :4])), ("full", "same", "valid")):
            for name, boundary in itertools.product(("convolve2d", "correlate2d"), ("fill", "wrap", "symm")):
                if boundary == "fill" or x is a:  # scipy wraps a small matrix otherwise
                    ours, theirs = [
                        getattr(lib, name)(x, y, mode, boundary, 2.0) for lib in (signal, scipy.signal)
                    ]
                    assert_all_close(ours, theirs, (name, x.shape, y.shape, mode, boundary))
            assert_all_close(signal.correlate(x, y, mode), scipy.signal.correlate(x, y, mode), mode)
        for x, y, mode in ((a, b[:1], "full"), (a[:1], b, "valid"), (b, a[:1], "valid")):  # rows broadcast
            ours, theirs = [lib.fftconvolve(x, y, mode, axes=1) for lib in (signal, scipy.signal)]
            assert_all_close(ours, theirs, ("axes", mode))
    small = np.arange(3, dtype="int32")
    for name in ("convolve", "correlate"):  # of integers and booleans: floats, as in jax
        for x in (small, small > 0):
            wanted = jax.eval_shape(getattr(jax.scipy.signal, name), x, x)
            assert getattr(signal, name)(x, x).dtype == wanted.dtype == np.float32


def test_windows_are_those_of_scipy() -> None:
    parameters = {"general_cosine": [([0.5, 0.3, 0.2],)], "general_hamming": [(0.6,)], "gaussian": [(3.0,)],
                  "general_gaussian": [(1.5, 2.0)], "kaiser": [(4.0,)], "exponential": [(), (None, 2.0), (1.0, 3.0)],
                  "tukey": [(), (0.3,), (0,), (1,)], "chebwin": [(50,), (100,)], "dpss": [(0.4,)],
                  "taylor": [(), (5, 40), (3, 30, False)]}  # fmt: skip
    for kind in _windows._FORMULAS:
        for more, length in itertools.product(parameters.get(kind, [()]), (1, 2, 7, 8)):
            window = (kind, *more) if more else kind
            wanted = scipy.signal.get_window(window, length)
            np.testing.assert_allclose(
                _windows.samples("", window, length), wanted, atol=1e-12, err_msg=f"{window}"
            )
    with pytest.raises(ValueError, match="half bandwidth of a dpss window"):
        _windows.samples("", ("dpss", 4.5), 8)
    for window in (*_windows._ALIASES, 3.0, ("dpss", 2.5)):
        wanted = scipy.signal.get_window(window, 8)
        np.testing.assert_allclose(_windows.samples("", window, 8), wanted, atol=1e-12, err_msg=f"{window}")


@pytest.mark.filterwarnings("ignore:nperseg", "ignore:.*nperseg = ")
def test_spectra() -> None:
    x, y = RNG.normal(size=(2, 2, 50))
    windows = ["hann", "bartlett", ("kaiser", 4.0)]
    averages = [{"nperseg": 16}, {"nperseg": 16, "noverlap": 4, "nfft": 20, "fs": 3.0}, {"nperseg": 64},
                {"nperseg": 15, "scaling": "spectrum", "average": "median"},
                {"nperseg": 16, "return_onesided": False, "detrend": "linear"}]  # fmt: skip
    transforms = [{"nperseg": 16}, {"nperseg": 16, "noverlap": 12, "boundary": "even"},
                  {"nperseg": 15, "boundary": "odd", "padded": False}, {"nperseg": 16, "boundary": None},
                  {"nperseg": 16, "boundary": "constant", "detrend": "constant"}]  # fmt: skip
    inverses = [{"nperseg": 16}, {"nperseg": 16, "noverlap": 12}, {"nperseg": 16, "nfft": 20}]
    trends = [{}, {"type": "constant"}, {"bp": 20}, {"bp": [10, 30]}, {"axis": 0}]
    with dx.enable_x64(True):
        for window in windows:
            for options in averages if window == "hann" else averages[:1]:
                options = {"window": window, **options}
                assert_all_close(signal.welch(x, **options), scipy.signal.welch(x, **options), options)
                assert_all_close(signal.csd(x, y, **options), scipy.signal.csd(x, y, **options), options)
        for options in transforms:
            assert_all_close(signal.stft(x, **options), scipy.signal.stft(x, **options), options)
        assert_all_close(
            signal.stft(x.T, nperseg=16, axis=0), scipy.signal.stft(x.T, nperseg=16, axis=0), "axis"
        )
        for options in inverses:
            z = scipy.signal.stft(x[0], **options)[2]
            assert_all_close(signal.istft(z, **options), scipy.signal.istft(z, **options), options)
        z = np.moveaxis(scipy.signal.stft(x, nperseg=16)[2], (-2, -1), (2, 0))
        options = {"nperseg": 16, "time_axis": 0, "freq_axis": 2}
        assert_all_close(signal.istft(z, **options)[1], scipy.signal.istft(z, **options)[1], options)
        for options in trends:
            assert_all_close(signal.detrend(x, **options), scipy.signal.detrend(x, **options), options)
    assert signal.detrend(np.zeros((2, 0))).shape == (2, 0)
    for f in (signal.detrend, signal.welch):
        with pytest.raises(ValueError, match=f"{f.__name__} takes an axis of the array"):
            f(np.zeros((2, 3)), axis=2)
    for empty in (np.zeros((2, 0)), np.zeros((0, 9))):  # of signals without elements there are no spectra
        found = [*signal.stft(empty), *signal.welch(empty, axis=0), *signal.csd(empty, np.ones((1, 9)))]
        theirs = [*scipy.signal.stft(empty), *scipy.signal.welch(empty, axis=0),
                  *scipy.signal.csd(empty, np.ones((1, 9)))]  # fmt: skip
        assert [v.shape for v in found] == [v.shape for v in theirs]
    found = dx.jit(lambda x: signal.welch(x, nperseg=16)[1])(x[0].astype("float32"))
    assert found.dtype == np.float32


def test_interpolation() -> None:
    at = RNG.uniform(-6, 9, (2, 40))
    modes = {"constant": "grid-constant", "nearest": "nearest", "mirror": "mirror", "reflect": "reflect"}
    grid = (np.array([0.0, 1, 3]), np.array([0.0, 0.5, 2, 4, 5]))
    points = RNG.uniform(-1, 6, (30, 2))
    with dx.enable_x64(True):
        for order, (mode, name) in itertools.product((0, 1), modes.items()):
            found = ndimage.map_coordinates(X, list(at), order, mode)
            assert_all_close(
                found, scipy.ndimage.map_coordinates(X, at, order=order, mode=name), (order, mode)
            )
        for method, fill in itertools.product(("linear", "nearest"), (math.nan, 7.0, None)):
            options = {"method": method, "bounds_error": False, "fill_value": fill}
            ours = interpolate.RegularGridInterpolator(grid, X, **options)(points)
            theirs = scipy.interpolate.RegularGridInterpolator(grid, X, **options)(points)
            assert_all_close(ours, theirs, options)
    wrapped = ndimage.map_coordinates(dnp.arange(4), [[-1.0, 4.0, 5.5]], 1, "wrap")
    assert_close(wrapped, np.int32([3, 0, 2]))
    ties = [np.float32([-1.5, -0.5, 0.49999997, 0.5, 1.5])]  # are rounded away from 0, as in JAX
    for mode, wanted in (
        ("constant", [0, 0, 1, 2, 4]),
        ("wrap", [2, 4, 1, 2, 4]),
        ("mirror", [4, 2, 1, 2, 4]),
    ):
        assert_close(ndimage.map_coordinates(np.int32([1, 2, 4]), ties, 0, mode), np.int32(wanted))
    for method in ("linear", "nearest"):  # one point is a list of one; NaN is at no point of the grid
        at_nan = np.array([math.nan, 1.0])
        falling = (grid[0][::-1], grid[1])
        ours = interpolate.RegularGridInterpolator(falling, X, method)(points)
        theirs = scipy.interpolate.RegularGridInterpolator(falling, X, method, bounds_error=False)(points)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        ours = interpolate.RegularGridInterpolator(grid, X, method)(at_nan)
        theirs = scipy.interpolate.RegularGridInterpolator(grid, X, method, bounds_error=False)(at_nan)
        assert ours.shape == theirs.shape == (1,)
        assert np.isnan(ours[0])
        assert np.isnan(theirs[0])
    f = interpolate.RegularGridInterpolator(grid, X, bounds_error=True)
    with pytest.raises(ArgumentError, match="RegularGridInterpolator has 2 choices of method"):
        f(points, "cubic")
    with pytest.raises(ValueError, match="Points are outside of the grid"):
        f(points)
    assert_close(dx.grad(lambda x: f(x).sum())(points[:0]), points[:0].astype("float32"))
    with pytest.raises(ConcretizationTypeError, match=r"bounds_error compares .* values."):
        dx.jit(f)(points)


def test_nearest_codes_and_integrals() -> None:
    observations, book = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))
    with dx.enable_x64(True):
        codes, distances = cluster.vq.vq(observations, book)
        assert_all_close((codes, distances), scipy.cluster.vq.vq(observations, book), "vq")
        assert codes.dtype == "int64"  # as other indices
        assert_close(integrate.trapezoid(observations, dx=0.5), np.trapezoid(observations, dx=0.5))


def test_derivatives_and_batches() -> None:
    x = RNG.normal(size=(2, 8))
    check_derivatives({
        "dct": (lambda x: fft.dct(x, 3, norm="ortho"), x), "stft": (lambda x: signal.stft(x, nperseg=4)[2], x),
        "welch": (lambda x: signal.welch(x, nperseg=4)[1], x), "fftconvolve": (signal.fftconvolve, x, x[:, :3]),
        "detrend": (signal.detrend, x),
        "map_coordinates": (lambda x, c: ndimage.map_coordinates(x, [c, c], 1), x, np.array([0.3, 0.6])),
    }, order=1)  # fmt: skip
    y = x.astype("float32")
    check_batches({
        "dct": (fft.dct, y), "welch": (lambda x: signal.welch(x, nperseg=4)[1], y), "convolve": (signal.convolve, y, y),
        "vq": (lambda x: cluster.vq.vq(x, x[:2]), y), "istft": (
            lambda x: signal.istft(signal.stft(x, nperseg=4)[2], nperseg=4)[1], y),
    })  # fmt: skip


ERRORS = [
    (lambda: fft.dct(X, 5), "dct has 4 choices of type.\n  type: 5\nUse 1, 2, 3 or 4."),
    (lambda: fft.dct(X, norm="x"), "dct has three norms"),
    (lambda: fft.dctn(X, s=(2,), axes=(0, 1)), "dctn takes as many lengths as axes"),
    (lambda: signal.convolve(X, X[0]), "convolve takes arrays of one rank"),
    (lambda: signal.convolve(X[:, :2], X[:2], "valid"), "one operand is at least as long as the other"),
    (lambda: signal.convolve(X, X, "x"), "convolve has 3 choices of mode.\n  mode: 'x'"),
    (lambda: signal.convolve2d(X[0], X[0]), "convolve2d takes two matrices"),
    (lambda: signal.stft(X, nperseg=4, noverlap=4), "stft takes overlapping segments"),
    (lambda: signal.welch(X, window="x", nperseg=4), "does not know this window"),
    (lambda: signal.stft(X, 0, nperseg=4), "frequency other than 0.\n  fs: 0"),
    (lambda: signal.welch(X, average="x"), "welch has 2 choices of average"),
    (lambda: signal.csd(X[:2], X[:3], nperseg=4), "broadcasting by csd"),
    (lambda: signal.fftconvolve(X, X[:2], axes=1), "broadcasting by fftconvolve"),
    (lambda: signal.istft(X[0]), "istft takes transforms with axes of frequency and time"),
    (lambda: signal.detrend(X, bp=9), "detrend takes breakpoints within the data"),
    (
        lambda: signal.detrend(X, bp=[[1, 2]]),
        "detrend takes breakpoints within the data.\n  bp: [[1, 2]], length",
    ),
    (lambda: signal.detrend(X, bp="a"), "detrend takes breakpoints within the data.\n  bp: 'a'"),
    (lambda: ndimage.map_coordinates(X, [X], 1), "map_coordinates takes coordinates for all axes"),
    (lambda: ndimage.map_coordinates(X, [X, X], 1, "x"), "map_coordinates has 5 choices of mode"),
    (lambda: interpolate.RegularGridInterpolator((X[0], X[0]), X), "takes the points of each axis"),
    (
        lambda: interpolate.RegularGridInterpolator((np.array([0.0, 2.0, 2.0]),), X),
        "takes points that strictly ascend or descend.\n  points[0]: [0. 2. 2.]\nSort the points",
    ),
    (lambda: interpolate.RegularGridInterpolator((np.arange(3.0),), X)(X), "takes points of 1 coordinates"),
    (lambda: ndimage.map_coordinates(X[:0], [X, X], 1), "map_coordinates takes an array with elements"),
    (
        lambda: signal.fftconvolve(X[0], X[0, :0], "same"),
        "fftconvolve of an empty array has elements in mode 'full', or in mode 'same' if only in1 is empty.\n  in1: ",
    ),
    (lambda: signal.fftconvolve(X[:0], X, "valid"), "mode: 'valid', axis: 0\nLeave the empty array out"),
    (lambda: signal.fftconvolve(X[:0], X[:0]), "mode: 'full', axis: 0"),
    (lambda: cluster.vq.vq(X, X[:, :2]), "vq takes observations and codes of one length"),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text[:25] for _, text in ERRORS])
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(ArgumentError) as found:
        call()
    assert text in str(found.value)


def test_interpolation_of_higher_order_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="order 0"):
        ndimage.map_coordinates(X, [X, X], 3)


def test_empty_arrays() -> None:
    """Convolutions with nothing are zero where they have elements; no coordinates need no elements."""
    for m, n, mode, shape in (
        ((0,), (3,), "full", (2,)),
        ((3,), (0,), "full", (2,)),
        ((0,), (3,), "same", (0,)),
        ((0, 2), (3, 0), "full", (2, 1)),
        ((2, 0), (2, 3), "same", (2, 0)),
    ):
        found = signal.fftconvolve(np.ones(m, "float32"), np.ones(n, "float32"), mode)
        assert found.dtype == "float32" and found.tolist() == np.zeros(shape).tolist()
    assert signal.fftconvolve(np.ones((0, 3)), np.ones((0, 2)), axes=1).shape == (0, 4)
    assert ndimage.map_coordinates(X[:0], [X[:0], X[:0]], 1).shape == X[:0].shape


def test_short_signals_and_wrong_axes() -> None:
    """A signal of one sample has the window of SciPy, 1, and not the formula's 0, which no power can be divided by."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all samples are used
        for run in (lambda m: m.stft(np.ones((1, 1), "float32") * 3, nperseg=4)[2],
                    lambda m: m.welch(np.ones((2, 1), "float32") * 3, nperseg=4, detrend=False)[1]):  # fmt: skip
            np.testing.assert_allclose(run(signal), run(scipy.signal), rtol=1e-5)
    with pytest.raises(ValueError, match="axis"):
        signal.fftconvolve(np.float32(1), np.float32(2), axes=0)
    assert signal.fftconvolve(np.float32(3), np.float32(2)) == 6
