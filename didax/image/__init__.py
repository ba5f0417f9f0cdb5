"""Images in other sizes: `resize` and `scale_and_translate`, with the names and arguments of `jax.image`.

Each axis is resampled by a matrix of weights. Element i of the result is at the position x = (i + 1/2 - translation) /
scale - 1/2 of the image; it is the sum of k(x - j) image[j] over all j, divided by the sum of the weights. The kernel k
is that of the method. Where the image becomes smaller, `antialias` widens it by 1 / scale, so that all elements count.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import didax.numpy as dnp
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import as_length, is_symbolic, max_dim, may_exceed
from didax.core.errors import ArgumentError, ConcretizationTypeError, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike, as_array, inexact
from didax.numpy.reductions import canonical_axes
from didax.primitives.dot import Precision
from didax.primitives.narrow import bytes_in_float32

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


class ResizeMethod(enum.Enum):
    """How an image is continued between its elements; `from_string` knows the names.

    >>> import didax.numpy as dnp
    >>> resize(dnp.array([1.0, 2.0]), (4,), ResizeMethod.NEAREST)
    Array([1., 1., 2., 2.], dtype=float32)
    >>> ResizeMethod.from_string("bilinear")
    <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    """The nearest element."""
    LINEAR = 1
    """Linear between neighbours ("linear", "bilinear", "trilinear", "triangle")."""
    LANCZOS3 = 2
    """Lanczos' kernel of radius 3."""
    LANCZOS5 = 3
    """Lanczos' kernel of radius 5."""
    CUBIC = 4
    """Keys' cubic kernel ("cubic", "bicubic", "tricubic")."""
    CUBIC_PYTORCH = 5
    """As PyTorch: with antialias CUBIC; without it Keys' kernel with a = -0.75, and edges that are continued."""
    AREA = 6
    """The average over the area that an element of the result covers ("area")."""

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """Return the method of this name; ArgumentError if there is none."""
        if s not in _NAMES:
            fix = f"Use one of {', '.join(map(repr, _NAMES))}."
            raise ArgumentError(message("No method of resizing has this name.", f"method: {s!r}", fix=fix))
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(["linear", "bilinear", "trilinear", "triangle"], ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(["cubic", "bicubic", "tricubic"], ResizeMethod.CUBIC),
    **dict.fromkeys(["cubic-pytorch", "bicubic-pytorch"], ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def _triangle(x: Any) -> Any:
    return dnp.maximum(0, 1 - abs(x))


def _lanczos(radius: int) -> Callable[[Any], Any]:
    return lambda x: dnp.where(abs(x) < radius, dnp.sinc(x) * dnp.sinc(x / radius), 0)


def _keys(a: float) -> Callable[[Any], Any]:
    """The cubic convolution kernel (R. Keys, 1981)."""

    def kernel(x: Any) -> Any:
        x = abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return dnp.where(x <= 1, near, dnp.where(x < 2, far, 0))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
    ResizeMethod.CUBIC: _keys(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _keys(-0.75),
}


def _method(method: Any) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def _image(name: str, image: Any, shape: Any) -> tuple[Array, tuple[int, ...]]:
    """The image and the shape of the result."""
    x = as_array(name, image, "image")
    try:
        lengths = tuple([as_length(n) for n in shape])
    except ConcretizationTypeError:
        raise
    except TypeError:
        lengths = (-1,)
    if len(lengths) != x.ndim or any(n < 0 for n in lengths):
        fix = "Pass a length for each axis, an integer of at least 0."
        facts = f"image: {x.aval}, shape: {shape!r:.100}"
        raise ArgumentError(message(f"{name} takes the whole shape of the result.", facts, fix=fix))
    return x.astype(x.dtype), lengths


def _real(x: Array) -> Array:
    return x.astype(inexact(x.dtype, x.weak_type)[0])


@evaluated_whole
@array_function
def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """Return an image of this shape, in which the position x of the axes `spatial_dims` is at `x * scale +
    translation`.

    `scale` and `translation` have a number for each of these axes, may be traced, and have derivatives. What comes from
    outside of the image is 0. The method "nearest" is not offered here.

    >>> from didax import image
    >>> image.scale_and_translate(dnp.arange(4.0), (4,), (0,), dnp.ones(1), dnp.ones(1), "linear")
    Array([0., 0., 1., 2.], dtype=float32)
    """
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        fix = "Use 'linear', 'cubic', 'lanczos3' or 'lanczos5'; resize knows 'nearest'."
        raise ArgumentError(message("scale_and_translate needs a kernel.", f"method: {method!r}", fix=fix))
    x, lengths = _image("scale_and_translate", image, shape)
    x = _real(x)
    if x.dtype.itemsize == 1:
        wide = x.astype(dtypes.at_least_single(x.dtype))
        rest = shape, spatial_dims, scale, translation, method, antialias, precision
        return scale_and_translate(wide, *rest).astype(x.dtype)
    scales, offsets = [
        as_array("scale_and_translate", v, n) for v, n in ((scale, "scale"), (translation, "translation"))
    ]
    axes = canonical_axes("scale_and_translate", tuple(spatial_dims), x.ndim)
    count = len(axes)
    if scales.shape != (count,) or offsets.shape != (count,):
        facts = f"spatial_dims: {tuple(spatial_dims)}, scale: {scales.aval}, translation: {offsets.aval}"
        fix = "Pass vectors of one length."
        raise ArgumentError(
            message("scale_and_translate takes a scale and a translation for each axis.", facts, fix=fix)
        )
    for i, axis in enumerate(axes):
        x = _resampled(x, axis, lengths[axis], scales[i], offsets[i], chosen, antialias, precision)
    return x


@evaluated_whole
@array_function
@bytes_in_float32
def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """Return the image in another size: axes whose length changes are resampled by a `ResizeMethod` or its name.

    >>> from didax import image
    >>> image.resize(dnp.array([0.0, 2.0]), (4,), "linear")
    Array([0. , 0.5, 1.5, 2. ], dtype=float32)
    """
    chosen = _method(method)
    x, lengths = _image("resize", image, shape)
    x = x if chosen is ResizeMethod.NEAREST else _real(x)
    for axis, (old, new) in enumerate(zip(x.shape, lengths, strict=True)):
        if old == new:
            continue
        if chosen is ResizeMethod.NEAREST and not old:
            fix = "Leave the empty image out."
            raise ArgumentError(
                message("No element of an empty axis is nearest.", f"image: {x.aval}", fix=fix)
            )
        if chosen is ResizeMethod.NEAREST:
            x = dnp.take(x, _nearest(old, new), axis=axis)
        else:
            one = dnp.asarray(new / max(old, 1), dtypes.at_least_single(dtypes.real_dtype(x.dtype)))
            x = _resampled(x, axis, new, one, dnp.zeros_like(one), chosen, antialias, precision)
    return x


def _nearest(old: int, new: int) -> Any:
    """The pixel that is nearest to each of the new ones; NumPy's array where both lengths are known."""
    xp = dnp if is_symbolic(old) or is_symbolic(new) else np
    centres = (xp.arange(new, dtype="float64") + 0.5) * old / max_dim(new, 1)
    return xp.floor(centres).clip(0, max_dim(old - 1, 0)).astype(np.int32)


def _resampled(
    x: Any,
    axis: int,
    length: int,
    scale: Any,
    offset: Any,
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Any:
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    dtype = dnp.promote_types(dtypes.real_dtype(x.dtype), "float32")
    inverse = 1 / scale.astype(dtype)
    # Where in the image each element of the result begins.
    begin = (dnp.arange(length, dtype=dtype) - offset.astype(dtype)) * inverse
    old, at = x.shape[axis], begin + 0.5 * inverse - 0.5
    if method is ResizeMethod.AREA:
        weights = _areas(old, begin, begin + inverse)
    else:
        margin = 2 if method is ResizeMethod.CUBIC_PYTORCH else 0
        width = dnp.maximum(inverse, 1) if antialias else dnp.ones_like(inverse)
        weights = _kernel_weights(old, at, width, _KERNELS[method], margin)
        x = (
            dnp.pad(x, [(margin, margin) if i == axis else (0, 0) for i in range(x.ndim)], "edge")
            if margin
            else x
        )
    weights = dnp.where((at >= -0.5) & (at <= old - 0.5), weights, 0)  # what is outside of the image is 0
    weights = weights.astype(x.dtype)
    # Weights on the left leave the axes behind `axis` where they are: better unless these are few.
    after = x.shape[axis + 1 :]
    if axis + 1 == x.ndim or (axis and not may_exceed(math.prod(after), 7)):
        return dnp.moveaxis(dnp.tensordot(x, weights, (axis, 0), precision=precision), -1, axis)
    return dnp.moveaxis(dnp.tensordot(weights, x, (0, axis), precision=precision), 0, axis)


def _kernel_weights(old: int, at: Any, width: Any, kernel: Any, margin: int) -> Any:
    """The shares of old elements, some of them beyond the ends, in the new ones at positions `at`."""
    weights = kernel((at - dnp.arange(-margin, old + margin, dtype=at.dtype)[:, None]) / width)
    total = weights.sum(0, keepdims=True)
    usable = abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return dnp.where(usable, weights / dnp.where(usable, total, 1), 0)


def _areas(old: int, begin: Any, end: Any) -> Any:
    """The shares of old elements in the intervals of new ones."""
    left = dnp.arange(old, dtype=begin.dtype)[:, None]
    overlap = dnp.maximum(0, dnp.minimum(end, left + 1) - dnp.maximum(begin, left))
    total = overlap.sum(0, keepdims=True)
    return overlap / dnp.where(total == 0, 1, total)
