"""Signals: convolutions, correlations, and spectra by short Fourier transforms, as `jax.scipy.signal`.

    convolve, correlate, fftconvolve, convolve2d, correlate2d    of arrays of any rank; of matrices with a boundary
    stft, istft      transforms of windowed segments, and the signal from them
    welch, csd       the average power of segments by frequency, of one signal or between two
    detrend          data less their mean or a line

Of the m + n - 1 elements of a full convolution of lengths m and n, the mode "same" keeps m at the centre, and "valid"
those for which one operand lies inside the other. Segments have the length `nperseg` and overlap by `noverlap`; SciPy's
documentation of the functions defines the scalings.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import didax.numpy as dnp
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import ArgumentError, check_choice, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.lax.convolution import conv_general_dilated
from didax.numpy.promotion import ArrayLike, as_array, broadcast_shapes, promote_dtypes
from didax.numpy.reductions import canonical_axes
from didax.scipy import _windows

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


# --- Convolutions -------------------------------------------------------------------------------------------


def _pair(name: str, in1: Any, in2: Any) -> tuple[Array, Array]:
    x, y = _of_one_rank(name, in1, in2)
    if not x.size or not y.size:
        fix = "Leave the empty array out."
        raise ArgumentError(
            message(f"{name} takes arrays with elements.", f"in1: {x.aval}, in2: {y.aval}", fix=fix)
        )
    return x, y


def _of_one_rank(name: str, in1: Any, in2: Any) -> tuple[Array, Array]:
    x, y = [dnp.asarray(v) for v in promote_dtypes(name, in1, in2, to_inexact=True)]
    if x.ndim != y.ndim:
        fix = "Give the smaller one axes of length 1."
        raise ArgumentError(
            message(f"{name} takes arrays of one rank.", f"in1: {x.aval}, in2: {y.aval}", fix=fix)
        )
    return x, y


def _kept(mode: str, m: int, n: int) -> tuple[int, int]:
    """Where the result begins in the full convolution, and how long it is."""
    if mode == "full":
        return 0, m + n - 1
    return ((n - 1) // 2, m) if mode == "same" else (min(m, n) - 1, abs(m - n) + 1)


def _check_valid(name: str, x: Any, y: Any, mode: str, along: Sequence[int] | None = None) -> None:
    """ArgumentError unless, in mode 'valid', one operand lies within the other, `along` some axes or along all."""
    check_choice(name, "mode", mode, "full", "same", "valid")
    pairs = [(x.shape[a], y.shape[a]) for a in (range(x.ndim) if along is None else along)]
    if mode == "valid" and any(m < n for m, n in pairs) and any(m > n for m, n in pairs):
        fix = "Use mode='same' or 'full'."
        rule = f"In mode 'valid' of {name} one operand is at least as long as the other along every axis."
        raise ArgumentError(message(rule, f"in1: {x.aval}, in2: {y.aval}", fix=fix))


def _check_empty(name: str, x: Any, y: Any, mode: str, along: Sequence[int]) -> None:
    """ArgumentError where the mode asks for more elements than the convolution with an empty array has."""
    for axis in along:
        m, n = x.shape[axis], y.shape[axis]
        start, length = _kept(mode, m, n)
        if not 0 <= start <= start + length <= m + n - 1:
            rule = f"{name} of an empty array has elements in mode 'full', or in mode 'same' if only in1 is empty."
            facts = f"in1: {x.aval}, in2: {y.aval}, mode: {mode!r}, axis: {axis}"
            raise ArgumentError(message(rule, facts, fix="Leave the empty array out, or change the mode."))


def _flipped(y: Any) -> Any:
    return dnp.conj(dnp.flip(y)) if dtypes.is_complex(y.dtype) else dnp.flip(y)


def _convolved(name: str, x: Array, y: Array, mode: str, precision: Any) -> Array:
    """The convolution, padded so that only the wanted elements are computed."""
    _check_valid(name, x, y, mode)
    padding = []
    for m, n in zip(x.shape, y.shape, strict=True):
        start, length = _kept(mode, m, n)
        padding.append((n - 1 - start, start + length - m))
    if not x.ndim:
        return x * y
    out = conv_general_dilated(
        x[None, None], dnp.flip(y)[None, None], (1,) * x.ndim, padding, precision=precision
    )
    return out[0, 0]


@evaluated_whole
@array_function
def convolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """Return the convolution of two arrays of one rank, by sums ("direct", "auto") or Fourier transforms ("fft").

    >>> from didax.scipy import signal
    >>> signal.convolve(dnp.array([1, 2, 3]), dnp.array([1, 1]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    check_choice("convolve", "method", method, "auto", "direct", "fft")
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    x, y = _pair("convolve", in1, in2)
    return _convolved("convolve", x, y, mode, precision)


@evaluated_whole
@array_function
def correlate(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """Return the correlation of two arrays of one rank: the convolution with the conjugate of the second, reversed.

    >>> from didax.scipy import signal
    >>> signal.correlate(dnp.array([1, 2, 3]), dnp.array([0, 1]), mode="valid")
    Array([2., 3.], dtype=float32)
    """
    x, y = _pair("correlate", in1, in2)
    return convolve(x, _flipped(y), mode, method, precision)


_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


@evaluated_whole
@array_function
def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
    precision: Any = None,
) -> Array:
    """Return the convolution of two matrices; beyond its ends the first is `fillvalue`, wrapped ("wrap") or mirrored.

    The `boundary` "symm" repeats the last element. It does not matter in mode "valid".

    >>> from didax.scipy import signal
    >>> signal.convolve2d(dnp.ones((2, 2), int), dnp.ones((2, 2), int), boundary="wrap", mode="same")
    Array([[4., 4.],
           [4., 4.]], dtype=float32)
    """
    x, y = _matrices("convolve2d", in1, in2)
    return _convolved_2d("convolve2d", x, y, mode, boundary, fillvalue, precision)


@evaluated_whole
@array_function
def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
    precision: Any = None,
) -> Array:
    """Return the correlation of two matrices, with the boundaries of `convolve2d`.

    >>> from didax.scipy import signal
    >>> signal.correlate2d(dnp.array([[1, 2, 3]]), dnp.array([[0, 1]]), mode="valid")
    Array([[2., 3.]], dtype=float32)
    """
    x, y = _matrices("correlate2d", in1, in2)
    _check_valid("correlate2d", x, y, mode)
    if mode == "same":  # SciPy's centre is that of the second operand as it is given
        return _correlated_same(x, y, boundary, fillvalue, precision)
    if mode == "valid" and any(m < n for m, n in zip(x.shape, y.shape, strict=True)):
        return _flipped(_convolved_2d("correlate2d", y, _flipped(x), mode, boundary, fillvalue, precision))
    return _convolved_2d("correlate2d", x, _flipped(y), mode, boundary, fillvalue, precision)


def _matrices(name: str, in1: Any, in2: Any) -> tuple[Array, Array]:
    x, y = _pair(name, in1, in2)
    if x.ndim != 2:
        fix = "Use convolve or correlate for arrays of another rank."
        raise ArgumentError(message(f"{name} takes two matrices.", f"in1: {x.aval}, in2: {y.aval}", fix=fix))
    return x, y


def _convolved_2d(name: str, x: Any, y: Any, mode: str, boundary: str, fill: Any, precision: Any) -> Array:
    _check_valid(name, x, y, mode)
    if mode == "valid":
        return _convolved(name, x, y, mode, precision)
    kept = [_kept(mode, m, n) for m, n in zip(x.shape, y.shape, strict=True)]
    whole = _convolved(name, _bounded(name, x, y, boundary, fill), y, "valid", precision)
    (top, rows), (left, columns) = kept
    return whole[top : top + rows, left : left + columns]


def _bounded(name: str, x: Any, y: Any, boundary: str, fill: Any) -> Any:
    """The first operand, continued so far that a valid convolution of it is a full one."""
    check_choice(name, "boundary", boundary, *_BOUNDARIES)
    width = [(n - 1, n - 1) for n in y.shape]
    if boundary == "fill":
        return dnp.pad(x, width, constant_values=dnp.asarray(fill).astype(x.dtype))
    return dnp.pad(x, width, _BOUNDARIES[boundary])


def _correlated_same(x: Any, y: Any, boundary: str, fill: Any, precision: Any) -> Any:
    whole = _convolved(
        "correlate2d", _bounded("correlate2d", x, y, boundary, fill), _flipped(y), "valid", precision
    )
    starts = [n // 2 for n in y.shape]
    return whole[starts[0] : starts[0] + x.shape[0], starts[1] : starts[1] + x.shape[1]]


@evaluated_whole
@array_function
def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """Return the convolution by Fourier transforms, along `axes` or all; along others the arrays broadcast.

    >>> from didax.scipy import signal
    >>> dnp.round(signal.fftconvolve(dnp.array([1.0, 2.0, 3.0]), dnp.array([1.0, 1.0])))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    x, y = [dnp.asarray(v) for v in promote_dtypes("fftconvolve", in1, in2, to_inexact=True)]
    x, y = _of_one_rank("fftconvolve", x.astype(x.dtype), y.astype(y.dtype))
    along = sorted(set(canonical_axes("fftconvolve", axes, x.ndim)))
    _check_valid("fftconvolve", x, y, mode, along)
    broadcast_shapes(
        "fftconvolve", [tuple(n for a, n in enumerate(v.shape) if a not in along) for v in (x, y)]
    )
    lengths = [x.shape[a] + y.shape[a] - 1 for a in along]
    if 0 in (*x.shape, *y.shape):
        _check_empty("fftconvolve", x, y, mode, along)
    real = not dtypes.is_complex(x.dtype)
    forward, backward = (dnp.fft.rfftn, dnp.fft.irfftn) if real else (dnp.fft.fftn, dnp.fft.ifftn)
    wide = [v.astype(dnp.promote_types(v.dtype, "float32")) for v in (x, y)]
    if along:
        out = backward(forward(wide[0], lengths, along) * forward(wide[1], lengths, along), lengths, along)
    else:
        out = wide[0] * wide[1]
    index: list[Any] = [slice(None)] * x.ndim
    for axis in along:
        start, length = _kept(mode, x.shape[axis], y.shape[axis])
        index[axis] = slice(start, start + length)
    return out[tuple(index)].astype(x.dtype)


# --- Segments -----------------------------------------------------------------------------------------------


def _segments(
    name: str, window: Any, nperseg: Any, noverlap: Any, nfft: Any, length: int
) -> tuple[Any, int, int, int]:
    """The window, the length of segments, the step from one to the next, and the length of transforms."""
    if isinstance(window, str | tuple | float):
        size = 256 if nperseg is None else int(nperseg)
        if size > length:
            warnings.warn(
                f"{name}: nperseg = {size} is more than the {length} samples; all of them are used.",
                stacklevel=4,
            )
            size = length
        if size < 1:
            raise ArgumentError(
                message(f"{name} needs segments.", f"nperseg: {nperseg}", fix="Use at least 1.")
            )
        values: Any = _windows.samples(name, window, size)
    else:
        values = dnp.asarray(window)
        size = values.shape[0] if values.ndim == 1 else -1
        if size < 1 or size > length or (nperseg is not None and nperseg != size):
            facts = f"window: {values.aval}, nperseg: {nperseg}, samples: {length}"
            fix = "Pass a vector of nperseg samples, no more than the signal has."
            raise ArgumentError(message(f"{name} takes a window of the length of segments.", facts, fix=fix))
    overlap = size // 2 if noverlap is None else int(noverlap)
    transform = size if nfft is None else int(nfft)
    if not 0 <= overlap < size or transform < size:
        facts = f"nperseg: {size}, noverlap: {noverlap}, nfft: {nfft}"
        fix = "Choose 0 <= noverlap < nperseg <= nfft."
        raise ArgumentError(
            message(f"{name} takes overlapping segments that fit a transform.", facts, fix=fix)
        )
    return values, size, size - overlap, transform


def _extended(name: str, x: Any, boundary: Any, width: int) -> Any:
    """The signal continued beyond both ends."""
    check_choice(name, "boundary", boundary, None, "zeros", "constant", "even", "odd")
    if boundary is None or not width:
        return x
    if boundary in ("zeros", "constant"):
        mode = {"mode": "constant"} if boundary == "zeros" else {"mode": "edge"}
        return dnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(width, width)], **mode)
    left, right = dnp.flip(x[..., 1 : width + 1], -1), dnp.flip(x[..., -width - 1 : -1], -1)
    if boundary == "odd":
        left, right = 2 * x[..., :1] - left, 2 * x[..., -1:] - right
    return dnp.concatenate([left, x, right], -1)


def _with_zeros(x: Any, count: int) -> Any:
    """The signal with so many zeros after it."""
    return dnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count)])


def _framed(x: Any, size: int, step: int) -> Any:
    """The segments of the last axis, one in each row."""
    count = (x.shape[-1] - size) // step + 1
    return x[..., np.arange(count)[:, None] * step + np.arange(size)]


def _trend_remover(kind: Any) -> Callable[[Any], Any]:
    if callable(kind):
        return kind
    if not kind:
        return lambda x: x
    return lambda x: detrend(x, type=kind)


def _spectrum(
    name: str, x: Any, y: Any, axis: int, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any,
    trend: Any, onesided: bool, scaling: str, boundary: Any, padded: bool, power: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Frequencies, times, and transforms of segments (`power`: products of two of them) with axes (..., f, t)."""
    check_choice(name, "scaling", scaling, "density", "spectrum", "psd")
    if isinstance(fs, (int, float)) and fs == 0:
        raise ArgumentError(
            message(
                f"{name} takes a sampling frequency other than 0.",
                f"fs: {fs}",
                fix="Pass samples per unit of time.",
            )
        )
    signals = [_samples_last(name, v, axis) for v in ([x] if y is None else [x, y])]
    length = max(v.shape[-1] for v in signals)
    signals = [_with_zeros(v, length - v.shape[-1]) for v in signals]
    values, size, step, transform = _segments(name, window, nperseg, noverlap, nfft, length)
    signals = [_extended(name, v, boundary, size // 2) for v in signals]
    if padded:
        more = -(signals[0].shape[-1] - size) % step % size
        signals = [_with_zeros(v, more) for v in signals]
    dtype = dnp.promote_types(signals[0].dtype, "float32")
    real = dtypes.real_dtype(dtype)
    w = dnp.asarray(values).astype(dtype if dtypes.is_complex(dnp.asarray(values).dtype) else real)
    if onesided and any(dtypes.is_complex(v.dtype) for v in [*signals, w]):
        warnings.warn(
            f"{name}: a complex signal has no one-sided spectrum; return_onesided=False is used.",
            stacklevel=4,
        )
        onesided = False
    remove = _trend_remover(trend)
    fourier = dnp.fft.rfft if onesided else dnp.fft.fft
    found = [fourier(remove(_framed(v.astype(dtype), size, step)) * w, n=transform) for v in signals]
    scale = 1 / (fs * (abs(w) ** 2).sum()) if scaling in ("density", "psd") else 1 / w.sum() ** 2
    if power:
        result = dnp.conj(found[0]) * found[-1] * scale.astype(found[0].dtype)
        if onesided:
            twice = np.ones(result.shape[-1])
            twice[1 : None if transform % 2 else -1] = 2
            result = result * twice.astype(real)
        result = result.real if y is None else result
    else:
        result = found[0] * dnp.sqrt(scale).astype(found[0].dtype)
    frequencies = (dnp.fft.rfftfreq if onesided else dnp.fft.fftfreq)(transform, 1 / fs, dtype=real)
    count = result.shape[-2]
    times = np.arange(count) * step + (size / 2 if boundary is None else 0.0)  # the middle of each segment
    return frequencies, dnp.asarray(times, real) / fs, dnp.swapaxes(result, -1, -2)


def _nothing(shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array, Array]:
    """Frequencies, times and transforms of a signal without elements: empty arrays of its shape, as in SciPy."""
    wide = dnp.promote_types(dtype, "float32")
    real = dnp.zeros(shape, dtypes.real_dtype(wide))
    return real, real, dnp.zeros(shape, dtypes.complex_dtype(wide))


def _shape_of_none(name: str, signals: Sequence[Array], axis: int) -> tuple[int, ...]:
    """The shape that signals broadcast to where one has no elements: along `axis` the shorter one counts."""
    moved = [_samples_last(name, v, axis).shape for v in signals]
    batch = broadcast_shapes(name, [shape[:-1] for shape in moved])
    place = axis % (len(batch) + 1)
    return (*batch[:place], min(shape[-1] for shape in moved), *batch[place:])


def _signal(name: str, x: Any) -> Array:
    value = dnp.asarray(promote_dtypes(name, x, to_inexact=True)[0])
    if not value.ndim:
        fix = "Pass an array with an axis of samples."
        raise ArgumentError(message(f"{name} takes signals.", f"operand: {value.aval}", fix=fix))
    return value.astype(value.dtype)


def _samples_last(name: str, x: Array, axis: int) -> Array:
    (place,) = canonical_axes(name, axis, x.ndim)
    return dnp.moveaxis(x, place, -1)


@array_function
def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Return `(f, t, Z)`: frequencies, times, and Fourier transforms of windowed segments of a signal.

    The axis of samples becomes one of frequencies, and the times are the last axis. The signal is continued by half a
    segment at both ends (`boundary`: "zeros", "constant", "even", "odd" or None) and `padded` with zeros to whole
    segments.

    >>> from didax.scipy import signal
    >>> f, t, z = signal.stft(dnp.ones(8), nperseg=4)
    >>> f.shape, t.shape, z.shape
    ((3,), (5,), (3, 5))
    """
    value = _signal("stft", x)
    (place,) = canonical_axes("stft", axis, value.ndim)
    if not value.size:
        return _nothing(value.shape, value.dtype)
    f, t, z = _spectrum("stft", value, None, axis, fs, window, nperseg, noverlap, nfft, detrend, return_onesided,
                        "spectrum", boundary, padded, power=False)  # fmt: skip
    return f, t, dnp.moveaxis(z, -2, place)


@array_function
def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Return frequencies and the cross power of two signals: the "mean" or "median" over segments of conj(X) Y.

    The `scaling` is "density" (power per frequency) or "spectrum" (power). Without y it is that of x, as `welch`.

    >>> from didax.scipy import signal
    >>> f, p = signal.csd(dnp.ones(8), dnp.ones(8), nperseg=4, detrend=False)
    >>> f.shape, p.shape
    ((3,), (3,))
    """
    return _mean_power("csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
                       average)  # fmt: skip


@array_function
def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Return frequencies and the power of a signal, by Welch's average over segments; the arguments are those of `csd`.

    >>> from didax.scipy import signal
    >>> f, p = signal.welch(dnp.sin(dnp.arange(64.0)), nperseg=16)
    >>> int(dnp.argmax(p))
    3
    """
    return _mean_power("welch", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
                       average)  # fmt: skip


def _mean_power(
    name: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, trend: Any,
    onesided: bool, scaling: str, axis: int, average: str,
) -> tuple[Array, Array]:  # fmt: skip
    """Frequencies, and the power of a signal or of two, averaged over segments."""
    check_choice(name, "average", average, "mean", "median")
    first = _signal(name, x)
    second = None
    if y is not None:
        first, second = [dnp.asarray(v) for v in promote_dtypes(name, first, _signal(name, y))]
    signals = [first] if second is None else [first, second]
    if not all(v.size for v in signals):
        f, _, p = _nothing(_shape_of_none(name, signals, axis), first.dtype)
        return f, p.real if second is None else p
    broadcast_shapes(name, [_samples_last(name, v, axis).shape[:-1] for v in signals])
    f, _, p = _spectrum(name, first, second, axis, fs, window, nperseg, noverlap, nfft, trend, onesided,
                        scaling, None, False, power=True)  # fmt: skip
    place = axis % p[..., 0].ndim
    return f, dnp.moveaxis(_averaged(p, average), -1, place)


def _averaged(p: Any, average: str) -> Any:
    """The mean or median over the last axis; a median is divided by its bias for exponentially distributed numbers."""
    count = p.shape[-1]
    if count == 1 or average == "mean":
        return p.mean(-1)
    bias = 1 + sum(1 / (2 * k + 1) - 1 / (2 * k) for k in range(1, (count - 1) // 2 + 1))
    if not dtypes.is_complex(p.dtype):
        return dnp.median(p, -1) / bias
    return (dnp.median(p.real, -1) + 1j * dnp.median(p.imag, -1)) / bias


@array_function
def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Return `(t, x)`: times and the signal whose `stft`, with the same arguments, is nearest to `Zxx`.

    >>> from didax.scipy import signal
    >>> x = dnp.arange(8.0)
    >>> bool(dnp.allclose(signal.istft(signal.stft(x, nperseg=4)[2])[1], x, atol=1e-5))
    True
    """
    z = as_array("istft", Zxx, "Zxx")
    if z.ndim < 2 or time_axis % z.ndim == freq_axis % z.ndim:
        facts = f"Zxx: {z.aval}, time_axis: {time_axis}, freq_axis: {freq_axis}"
        fix = "Pass what stft gives."
        raise ArgumentError(
            message("istft takes transforms with axes of frequency and time.", facts, fix=fix)
        )
    z = dnp.moveaxis(z.astype(dnp.promote_types(z.dtype, "complex64")), (time_axis, freq_axis), (-2, -1))
    bins = z.shape[-1]
    transform = (2 * (bins - 1) if input_onesided else bins) if nfft is None else int(nfft)
    size = transform if nperseg is None else int(nperseg)
    values, size, step, transform = _segments("istft", window, size, noverlap, transform, size)
    real = dtypes.real_dtype(z.dtype)
    w = dnp.asarray(values).astype(real)
    pieces = (dnp.fft.irfft if input_onesided else dnp.fft.ifft)(z, n=transform)[..., :size] * (w * w.sum())
    x = _overlapped(pieces, step)
    weight = _overlapped(dnp.broadcast_to(w * w, pieces.shape[-2:]), step)
    keep = slice(size // 2, x.shape[-1] - size // 2) if boundary else slice(None)
    x, weight = x[..., keep], weight[keep]
    x = x / dnp.where(weight > 1e-10, weight, 1).astype(x.dtype)
    t = dnp.arange(x.shape[-1]).astype(real) / fs
    place = min(time_axis % z.ndim, freq_axis % z.ndim)
    return t, dnp.moveaxis(x, -1, min(place, x.ndim - 1))


def _overlapped(pieces: Any, step: int) -> Any:
    """The sum of segments, each begun `step` after the one before."""
    count, size = pieces.shape[-2:]
    at = np.arange(count)[:, None] * step + np.arange(size)
    out = dnp.zeros((*pieces.shape[:-2], (count - 1) * step + size), pieces.dtype)
    return out.at[..., at].add(pieces)


@evaluated_whole
@array_function
def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] = 0,
    overwrite_data: Any = None,
) -> Array:
    """Return the data less its mean ("constant"), or less the line that fits best ("linear"), between breakpoints `bp`.

    >>> from didax.scipy import signal
    >>> dnp.round(signal.detrend(dnp.array([1.0, 2.0, 3.0])), 3) + 0.0
    Array([0., 0., 0.], dtype=float32)
    """
    check_choice("detrend", "type", type, "constant", "linear")
    x = _samples_last("detrend", _signal("detrend", data), axis)
    if type == "constant":
        return dnp.moveaxis(x - x.mean(-1, keepdims=True), -1, axis)
    n = x.shape[-1]
    if not n:
        return dnp.moveaxis(x, -1, axis)
    points = np.atleast_1d(np.asarray(bp))
    if points.ndim > 1 or points.dtype.kind not in "iu" or not all(0 <= i <= n for i in points):
        fix = f"Choose integers from 0 to {n}."
        raise ArgumentError(
            message("detrend takes breakpoints within the data.", f"bp: {bp!r:.100}, length: {n}", fix=fix)
        )
    ends = sorted({0, n, *points.tolist()})
    parts = [_without_line(x[..., low:high]) for low, high in itertools.pairwise(ends)]
    return dnp.moveaxis(dnp.concatenate(parts, -1), -1, axis)


def _without_line(x: Any) -> Any:
    n = x.shape[-1]
    t = np.arange(n) - (n - 1) / 2
    square = float((t**2).sum()) or 1.0
    line = dnp.asarray(t / math.sqrt(square), dtypes.real_dtype(x.dtype))
    return x - x.mean(-1, keepdims=True) - (x * line).sum(-1, keepdims=True) * line
