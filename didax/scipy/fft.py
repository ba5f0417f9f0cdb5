"""Discrete cosine transforms of types 1 to 4, with the names and arguments of `jax.scipy.fft`.

    type 1   y[k] = x[0] + (-1)^k x[N-1] + 2 sum x[n] cos(pi k n / (N - 1)), 0 < n < N - 1
    type 2   y[k] = 2 sum x[n] cos(pi k (2n + 1) / 2N)
    type 3   y[k] = x[0] + 2 sum x[n] cos(pi n (2k + 1) / 2N), 0 < n
    type 4   y[k] = 2 sum x[n] cos(pi (2n + 1) (2k + 1) / 4N)

Types 1 and 4 are the real part of a Fourier transform of twice the length, with factors before and after it; types 2
and 3 are a transform of N real numbers (Note [Cosine transforms of real arrays]). The `norm` "backward" leaves them as
they are, "forward" divides by 2N (2N - 2 for type 1), and "ortho" makes them orthogonal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import as_length
from didax.core.errors import ArgumentError, ConcretizationTypeError, check_choice, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike, as_array, cast, inexact
from didax.numpy.reductions import canonical_axes

__all__ = ["dct", "dctn", "idct", "idctn"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_OTHER_NORM = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


@evaluated_whole
@array_function
def dct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the cosine transform along an axis, which is first cut or padded with zeros to the length `n`.

    >>> import didax.numpy as dnp
    >>> from didax.scipy import fft
    >>> fft.dct(dnp.array([1.0, 1.0]))
    Array([4., 0.], dtype=float32)
    """
    return _transform("dct", x, type, n, axis, norm)


@evaluated_whole
@array_function
def idct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse of `dct` of the same type and norm.

    >>> import didax.numpy as dnp
    >>> from didax.scipy import fft
    >>> fft.idct(dnp.array([4.0, 0.0]))
    Array([1., 1.], dtype=float32)
    """
    _check("idct", type, norm)
    return _transform("idct", x, _INVERSE[type], n, axis, _OTHER_NORM[norm])


@evaluated_whole
@array_function
def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the cosine transform along several axes, by default all (or the last `len(s)`), cut or padded to `s`.

    >>> import didax.numpy as dnp
    >>> from didax.scipy import fft
    >>> fft.dctn(dnp.ones((2, 2)))[0, 0]
    Array(16., dtype=float32)
    """
    return _transform_axes("dctn", dct, x, type, s, axes, norm)


@evaluated_whole
@array_function
def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the inverse of `dctn` of the same type and norm.

    >>> import didax.numpy as dnp
    >>> from didax.scipy import fft
    >>> fft.idctn(fft.dctn(dnp.ones((2, 2))))[0, 0]
    Array(1., dtype=float32)
    """
    return _transform_axes("idctn", idct, x, type, s, axes, norm)


def _check(name: str, kind: Any, norm: Any) -> None:
    check_choice(name, "type", kind, *_INVERSE)
    if norm not in _OTHER_NORM:
        fix = "Use 'backward' (or None), 'ortho' or 'forward'."
        raise ArgumentError(message(f"{name} has three norms.", f"norm: {norm!r}", fix=fix))


def _transform_axes(name: str, one: Any, x: Any, kind: int, s: Any, axes: Any, norm: Any) -> Array:
    value = as_array(name, x)
    lengths = s if s is None or isinstance(s, Sequence) else [s]
    if axes is None and lengths is not None:
        axes = tuple(range(-len(lengths), 0))
    along = canonical_axes(name, axes, value.ndim)
    lengths = [None] * len(along) if lengths is None else lengths
    if len(lengths) != len(along):
        fix = "Pass a length for each axis."
        raise ArgumentError(
            message(f"{name} takes as many lengths as axes.", f"s: {s}, axes: {axes}", fix=fix)
        )
    for axis, length in zip(along, lengths, strict=True):
        value = one(value, kind, None if length == -1 else length, axis, norm)
    return value


def _transform(name: str, x: Any, kind: int, length: int | None, axis: int, norm: str | None) -> Array:
    _check(name, kind, norm)
    value = as_array(name, x)
    value = cast(value, dtypes.at_least_single(inexact(value.dtype, False)[0]))
    (along,) = canonical_axes(name, axis, value.ndim)
    value = _of_length(name, dnp.moveaxis(value, along, -1), length)
    n = value.shape[-1]
    if n < (2 if kind == 1 else 1):
        fix = "Pass a longer array, or n."
        raise ArgumentError(
            message(f"{name} of type {kind} needs {2 if kind == 1 else 1} elements.", f"length: {n}", fix=fix)
        )
    if dtypes.is_complex(value.dtype):
        out = _real_transform(value.real, kind, norm) + 1j * _real_transform(value.imag, kind, norm)
    else:
        out = _real_transform(value, kind, norm)
    return dnp.moveaxis(out, -1, along)


def _of_length(name: str, x: Any, length: Any) -> Any:
    if length is None:
        return x
    try:
        n = as_length(length)
    except ConcretizationTypeError:
        raise
    except TypeError:
        n = -1
    if n < 0:
        fix = "Pass an integer of at least 1, or None for the length of the axis."
        raise ArgumentError(message(f"{name} takes a number of points.", f"n: {length!r:.100}", fix=fix))
    if n <= x.shape[-1]:
        return x[..., :n]
    return dnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1])])


def _real_transform(x: Any, kind: int, norm: str | None) -> Any:
    n = x.shape[-1]
    if kind == 2:
        return _type_2(x, n, norm)
    if kind == 3:
        return _type_3(x, n, norm)
    at, period = np.arange(n), 2 * (n - 1 if kind == 1 else n)
    before, after = np.full(n, 2.0, complex), np.ones(n, complex)
    if kind == 1:
        before[[0, -1]] = 1
    else:
        before *= np.exp(-1j * np.pi * at / period)
        after *= np.exp(-1j * np.pi * (at + 0.5) / period)
    after *= _scale(period, norm)
    if norm == "ortho" and kind == 1:
        before[[0, -1]] *= math.sqrt(2)
        after[[0, -1]] /= math.sqrt(2)
    spectrum = dnp.fft.fft(x * _numbers(before, x), n=period)[..., :n]
    return (spectrum * _numbers(after, x)).real


def _scale(period: int, norm: str | None) -> float:
    return {"forward": 1 / period, "ortho": 1 / math.sqrt(period)}.get(norm or "", 1.0)


def _numbers(values: np.ndarray[Any, Any], x: Any) -> Any:
    dtype = dtypes.complex_dtype(x.dtype)
    return dnp.asarray(values.astype(dtype), dtype)


# Note [Cosine transforms of real arrays]
# Put the elements at even positions first, and those at odd positions after them, from the last to the first. With V
# the Fourier transform of that, the sum of 2 x[j] cos(pi k (2j + 1) / 2n) is the real part of
# y[k] = 2 exp(-i pi k / 2n) V[k], and y[n - k] = -i conj(y[k]): half of V, which `rfft` computes, gives all of it, with
# a quarter of the arithmetic of a transform of 2n complex numbers. Type 3 goes the same way back (Makhoul, 1980).


def _type_2(x: Any, n: int, norm: str | None) -> Any:
    turns = 2 * _scale(2 * n, norm) * np.exp(-0.5j * np.pi * np.arange(n // 2 + 1) / n)
    if norm == "ortho":
        turns[0] /= math.sqrt(2)
    ordered = dnp.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], -1)
    y = dnp.fft.rfft(ordered) * _numbers(turns, x)
    return dnp.concatenate([y.real, -y.imag[..., 1 : (n + 1) // 2][..., ::-1]], -1)


def _type_3(x: Any, n: int, norm: str | None) -> Any:
    half = n // 2 + 1
    turns = n * _scale(2 * n, norm) * np.exp(0.5j * np.pi * np.arange(half) / n)
    if norm == "ortho":
        turns[0] *= math.sqrt(2)
    mirrored = dnp.concatenate([dnp.zeros_like(x[..., :1]), x[..., n - half + 1 :][..., ::-1]], -1)
    ordered = dnp.fft.irfft(lax.complex(x[..., :half], -mirrored) * _numbers(turns, x), n)
    even, odd = ordered[..., : (n + 1) // 2], ordered[..., (n + 1) // 2 :][..., ::-1]
    odd = dnp.pad(odd, [(0, 0)] * (x.ndim - 1) + [(0, n % 2)])
    return dnp.stack([even, odd], -1).reshape(*x.shape[:-1], 2 * even.shape[-1])[..., :n]
