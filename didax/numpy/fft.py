"""`didax.numpy.fft`: discrete Fourier transforms along any axes, with the names and arguments of `numpy.fft`.

    y = dnp.fft.rfft(x)                 half of the spectrum of a real signal
    x = dnp.fft.irfft(y, n=len(x))      and back

float32 and narrower dtypes give complex64, float64 gives complex128, and integers count as default floats.
`n` and `s` are the transformed lengths; each axis is padded with zeros or cut to its length. `norm` says
which direction divides by the number of points: "backward" the inverse (the default), "forward" the forward
transform, and with "ortho" both directions divide by the square root of this number. An axis without elements
has no transform: ValueError, as in NumPy. Read next: `didax/primitives/fft.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import as_length
from didax.core.errors import ArgumentError, ConcretizationTypeError, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.lax import FftType
from didax.lax import fft as lax_fft
from didax.numpy import creation, ufuncs
from didax.numpy.manipulation import listed, moveaxis, roll
from didax.numpy.promotion import ArrayLike, DTypeLike, as_array, cast, inexact
from didax.numpy.reductions import canonical_axes, canonical_axis
from didax.primitives.slicing import pad

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

Axes = tuple[int, ...]
_AT_ONCE = 3  # the number of axes that XLA transforms together
_REAL = (FftType.RFFT, FftType.IRFFT)
_INVERSE = (FftType.IFFT, FftType.IRFFT)
_OTHER_NORM = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


# --- the transform of some axes -----------------------------------------------------------------------------


def _transform(name: str, kind: FftType, x: Array, lengths: dict[int, int], norm: Any) -> Array:
    """Return the normalised transform along axes, in their order, each padded or cut to its length."""
    last = next(reversed(lengths), None)
    for axis, n in lengths.items():
        x = _padded_or_cut(x, axis, n // 2 + 1 if kind is FftType.IRFFT and axis == last else n)
    scale = _scale(name, kind, math.prod(lengths.values()), norm)
    for part, axes in _parts(kind, tuple(lengths)):
        ends = tuple(range(-len(axes), 0))
        x = lax_fft(moveaxis(x, axes, ends), part, tuple([lengths[i] for i in axes]))
        x = moveaxis(x, ends, axes)
    return x if scale is None else x * scale


def _parts(kind: FftType, axes: Axes) -> list[tuple[FftType, Axes]]:
    """Split the axes into groups for XLA; the real transform takes the last group, first or (inverse) last."""
    groups = [axes[max(end - _AT_ONCE, 0) : end] for end in range(len(axes), 0, -_AT_ONCE)]
    if kind not in _REAL:
        return [(kind, group) for group in groups]
    if kind is FftType.RFFT:
        return [(kind, groups[0]), *[(FftType.FFT, group) for group in groups[1:]]]
    return [*[(FftType.IFFT, group) for group in groups[1:]], (kind, groups[0])]


def _padded_or_cut(x: Array, axis: int, length: int) -> Array:
    more = length - x.shape[axis]
    return pad(x, x.dtype.type(0), tuple([(0, more if i == axis else 0, 0) for i in range(x.ndim)]))


def _scale(name: str, kind: FftType, points: int, norm: Any) -> Any:
    """Return the factor for XLA's result, None for none; XLA's inverse transforms divide by the number of points."""
    if norm not in _OTHER_NORM:
        raise ValueError(
            message(
                f"{name} normalises in one of three ways.",
                f"norm: {norm!r}",
                fix="Use 'backward', 'ortho' or 'forward'.",
            )
        )
    power = {"ortho": 0.5, "forward": 1.0}.get(norm)
    if power is None:
        return None
    return points**power if kind in _INVERSE else points**-power


def _operand(name: str, kind: FftType, a: Any) -> Array:
    """Return `a` in the dtype of the transform: at least float32 or complex64."""
    x = as_array(name, a, "a")
    dtype = dtypes.complex_dtype(inexact(x.dtype, x.weak_type)[0])
    if kind is not FftType.RFFT:
        return cast(x, dtype)
    if dtypes.is_complex(x.dtype):
        raise ArgumentError(
            message(f"{name} takes real numbers.", f"a: {x.aval}", fix="Use fft, or the real part (a.real).")
        )
    return cast(x, dtypes.real_dtype(dtype))


def _integer(name: str, n: Any, argument: str) -> int:
    try:
        return as_length(n)
    except TypeError as error:
        if isinstance(error, ConcretizationTypeError):
            raise
        raise TypeError(
            message(f"{name} takes whole numbers of points.", f"{argument}: {n!r:.100}", fix="Pass an int.")
        ) from None


def _points(name: str, n: int | None, x: Array, axis: int, half: bool) -> int:
    """Return the number of points along an axis: `n`, or the length of the axis.

    With `half` the axis holds half of a spectrum: n // 2 + 1 elements for n points.
    """
    have = x.shape[axis]
    points = n if n is not None else 2 * (have - 1) if half else have
    if not points >= 1:
        facts = f"a: {x.aval}, axis: {axis}, points: {points}"
        fix = "Pass an array with elements, or say how many points to pad it to."
        raise ValueError(message(f"{name} transforms at least one point.", facts, fix=fix))
    return points


def _along_one_axis(name: str, kind: FftType, a: Any, n: Any, axis: Any, norm: Any) -> Array:
    x = _operand(name, kind, a)
    i = canonical_axis(name, axis, x.ndim)
    n = None if n is None else _integer(name, n, "n")
    return _transform(name, kind, x, {i: _points(name, n, x, i, kind is FftType.IRFFT)}, norm)


def _along_several_axes(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: Any) -> Array:
    x = _operand(name, kind, a)
    lengths = None if s is None else [_integer(name, n, "s") for n in s]
    if axes is None:
        axes = range(x.ndim) if lengths is None else range(-len(lengths), 0)
    found = canonical_axes(name, tuple(axes), x.ndim)
    if lengths is None:
        lengths = [-1] * len(found)
    if len(lengths) != len(found) or (kind in _REAL and not found):
        rule = f"{name} takes a length for each axis" + (", and an axis." if kind in _REAL else ".")
        facts = f"a: {x.aval}, s: {s}, axes: {tuple(axes)}"
        raise ValueError(message(rule, facts, fix="Give s and axes as many entries each."))
    points = {
        i: _points(name, None if n == -1 else n, x, i, kind is FftType.IRFFT and i == found[-1])
        for n, i in zip(lengths, found, strict=True)
    }
    return _transform(name, kind, x, points, norm)


def _along_two_axes(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: Any) -> Array:
    if not hasattr(axes, "__len__") or len(axes) != 2:
        error = ValueError if hasattr(axes, "__len__") else TypeError
        fix = f"Use {name[:-1]}n for any number; leave axes out for the last two."
        raise error(message(f"{name} transforms two axes.", f"axes: {axes}", fix=fix))
    return _along_several_axes(name, kind, a, s, axes, norm)


# --- one axis -----------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the discrete Fourier transform along an axis: `sum(a[j] * exp(-2j * pi * j * k / n))` for each k.

    >>> import didax.numpy as dnp
    >>> dnp.fft.fft(dnp.array([1.0, 2, 3, 4]))
    Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return _along_one_axis("fft", FftType.FFT, a, n, axis, norm)


@evaluated_whole
@array_function
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse of `fft` along an axis.

    >>> import didax.numpy as dnp
    >>> dnp.fft.ifft(dnp.array([4, 0, 0, 0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _along_one_axis("ifft", FftType.IFFT, a, n, axis, norm)


@evaluated_whole
@array_function
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the first n // 2 + 1 results of `fft` of real numbers; the others are complex conjugates of these.

    >>> import didax.numpy as dnp
    >>> dnp.fft.rfft(dnp.array([1.0, 2, 3, 4]))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _along_one_axis("rfft", FftType.RFFT, a, n, axis, norm)


@evaluated_whole
@array_function
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse of `rfft`: n real numbers, by default 2 * (m - 1) numbers from m complex ones.

    >>> import didax.numpy as dnp
    >>> dnp.fft.irfft(dnp.array([10, -2 + 2j, -2]))
    Array([1., 2., 3., 4.], dtype=float32)
    """
    return _along_one_axis("irfft", FftType.IRFFT, a, n, axis, norm)


@evaluated_whole
@array_function
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the n real values of the transform of a Hermitian-symmetric signal, given by its first half.

    >>> import didax.numpy as dnp
    >>> dnp.fft.hfft(dnp.array([1.0, 2, 3]))
    Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    return _along_one_axis("hfft", FftType.IRFFT, ufuncs.conj(a), n, axis, _OTHER_NORM.get(norm, norm))


@evaluated_whole
@array_function
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse of `hfft`: the first half of a Hermitian-symmetric signal.

    >>> import didax.numpy as dnp
    >>> dnp.fft.ihfft(dnp.array([8.0, -2, 0, -2])).real
    Array([1., 2., 3.], dtype=float32)
    """
    return ufuncs.conj(_along_one_axis("ihfft", FftType.RFFT, a, n, axis, _OTHER_NORM.get(norm, norm)))


# --- two axes, and any number -------------------------------------------------------------------------------


@evaluated_whole
@array_function
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Return `fft` along two axes.

    >>> import didax.numpy as dnp
    >>> dnp.fft.fft2(dnp.ones((2, 2))).real
    Array([[4., 0.],
           [0., 0.]], dtype=float32)
    """
    return _along_two_axes("fft2", FftType.FFT, a, s, axes, norm)


@evaluated_whole
@array_function
def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Return the inverse of `fft2`.

    >>> import didax.numpy as dnp
    >>> dnp.fft.ifft2(dnp.array([[4, 0], [0, 0]])).real
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _along_two_axes("ifft2", FftType.IFFT, a, s, axes, norm)


@evaluated_whole
@array_function
def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Return the transform along two axes: `rfft` along the last one, `fft` along the other.

    >>> import didax.numpy as dnp
    >>> dnp.fft.rfft2(dnp.ones((4, 4))).shape
    (4, 3)
    """
    return _along_two_axes("rfft2", FftType.RFFT, a, s, axes, norm)


@evaluated_whole
@array_function
def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Return the inverse of `rfft2`; `s` gives the lengths of the result.

    >>> import didax.numpy as dnp
    >>> dnp.fft.irfft2(dnp.fft.rfft2(dnp.ones((4, 5))), s=(4, 5)).shape
    (4, 5)
    """
    return _along_two_axes("irfft2", FftType.IRFFT, a, s, axes, norm)


@evaluated_whole
@array_function
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return `fft` along several axes: by default all axes, or the last `len(s)`.

    Where `s` is -1 the axis keeps its length.

    >>> import didax.numpy as dnp
    >>> dnp.fft.fftn(dnp.ones((2, 2, 2)))[0, 0, 0]
    Array(8.+0.j, dtype=complex64)
    """
    return _along_several_axes("fftn", FftType.FFT, a, s, axes, norm)


@evaluated_whole
@array_function
def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the inverse of `fftn`.

    >>> import didax.numpy as dnp
    >>> dnp.fft.ifftn(dnp.ones((2, 2, 2)))[0, 0, 0]
    Array(1.+0.j, dtype=complex64)
    """
    return _along_several_axes("ifftn", FftType.IFFT, a, s, axes, norm)


@evaluated_whole
@array_function
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the transform along several axes: `rfft` along the last one, `fft` along the others.

    >>> import didax.numpy as dnp
    >>> dnp.fft.rfftn(dnp.ones((2, 4, 4))).shape
    (2, 4, 3)
    """
    return _along_several_axes("rfftn", FftType.RFFT, a, s, axes, norm)


@evaluated_whole
@array_function
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the inverse of `rfftn`; `s` gives the lengths of the result.

    >>> import didax.numpy as dnp
    >>> dnp.fft.irfftn(dnp.ones((2, 4, 3))).shape
    (2, 4, 4)
    """
    return _along_several_axes("irfftn", FftType.IRFFT, a, s, axes, norm)


# --- frequencies --------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """Return the frequency of each result of `fft` of n points, for points at a distance of `d`.

    >>> import didax.numpy as dnp
    >>> dnp.fft.fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    count = _point_count("fftfreq", n)
    k = creation.arange(count)
    return _frequencies("fftfreq", ufuncs.where(2 * k < count, k, k - count), count, d, dtype, device)


@evaluated_whole
@array_function
def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """Return the frequency of each result of `rfft` of n points, for points at a distance of `d`.

    >>> import didax.numpy as dnp
    >>> dnp.fft.rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    count = _point_count("rfftfreq", n)
    return _frequencies("rfftfreq", creation.arange(count // 2 + 1), count, d, dtype, device)


def _point_count(name: str, n: Any) -> int:
    if isinstance(n, list | tuple) or getattr(n, "ndim", 0):
        rule = f"{name} takes a number of points."
        raise ValueError(message(rule, f"n: {n!r:.100}", fix="Pass an int."))
    if isinstance(n, float) or (isinstance(n, int) and n < 0):
        rule = f"{name} takes a number of points."
        raise ArgumentError(message(rule, f"n: {n!r}", fix="Pass an int of at least 0."))
    return creation.canonical_shape(name, n)[0]


def _frequencies(name: str, k: Array, count: int, d: Any, dtype: Any, device: Any) -> Array:
    spacing = creation.asarray(*creation.all_digits(name, dtype, d))
    stated = dtypes.default_dtype("f") if dtype is None else dtypes.dtype(dtype)
    if spacing.ndim or dtypes.is_complex(spacing.dtype) or not dtypes.is_float(stated):
        facts = f"d: {spacing.aval}, dtype: {dtypes.dtype_name(stated)}"
        fix = "Pass a real number for d, and a floating dtype."
        raise ValueError(message(f"{name} gives real frequencies for one spacing.", facts, fix=fix))
    return creation.placed(cast(k, stated) / cast(spacing * count, stated), device)


def _shift(name: str, x: Any, axes: Any, first: bool) -> Array:
    """Roll the axes so that the first element comes to the middle, or with `first` the middle element to the front."""
    value = as_array(name, x)
    # An axis that is named twice is rolled twice.
    found = tuple(
        [canonical_axis(name, i, value.ndim) for i in listed(range(value.ndim) if axes is None else axes)]
    )
    lengths = [value.shape[i] for i in found]
    return roll(value, tuple([-(n // 2) if first else n // 2 for n in lengths]), found)


@evaluated_whole
@array_function
def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Roll the axes (all by default) so that frequencies rise, with zero in the middle.

    >>> import didax.numpy as dnp
    >>> dnp.fft.fftshift(dnp.fft.fftfreq(4))
    Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shift("fftshift", x, axes, first=False)


@evaluated_whole
@array_function
def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Return the inverse of `fftshift`.

    >>> import didax.numpy as dnp
    >>> dnp.fft.ifftshift(dnp.array([-2, -1, 0, 1]))
    Array([ 0,  1, -2, -1], dtype=int32)
    """
    return _shift("ifftshift", x, axes, first=True)
