"""Activation functions, and functions that normalise logits.

A `where` computes both branches, and a NaN in the derivative of either branch reaches the gradient. So the
operand of a branch is replaced where the branch is not taken.
"""

from __future__ import annotations

import math
from typing import Any

import didax.numpy as dnp
from didax import lax
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import check_choice
from didax.core.value import Array
from didax.numpy.promotion import beside_wide, cast, inexact, result_pair
from didax.numpy.reductions import axes_and_names
from didax.primitives.logarithmic import excess
from didax.primitives.logarithmic import log1mexp as log1mexp_of_real
from didax.primitives.narrow import bytes_in_float32, halves_in_float32
from didax.primitives.reductions import Extremum, reduce_max_finite_p, reduce_max_no_nan_p
from didax.runtime.array import sharing

Axes = int | tuple[int, ...] | None


def _inexact(x: Any) -> Array:
    """Return `x` as an array of the floating-point (or complex) dtype in which functions of real numbers compute."""
    x = dnp.asarray(x)
    return cast(x, *inexact(x.dtype, x.weak_type))


def _beside_floats(x: Any) -> Array:
    """Return `x` in the dtype that it takes in arithmetic with a Python float: integers in the default float, weak."""
    x = dnp.asarray(x)
    return cast(x, *result_pair(x, 0.0))


@evaluated_whole
def relu(x: Any) -> Array:
    """Return max(x, 0), with derivative 0 at 0.

    >>> from didax import nn
    >>> nn.relu(dnp.array([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    x = dnp.asarray(x)
    return dnp.where(x <= 0, dnp.zeros_like(x), x)


@evaluated_whole
def relu6(x: Any) -> Array:
    """Return min(max(x, 0), 6).

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.relu6(dnp.array([-2.0, 2.0, 8.0]))
    Array([0., 2., 6.], dtype=float32)
    """
    x = _beside_floats(x)
    return dnp.where(x >= 6, dnp.full_like(x, 6), relu(x))


def sigmoid(x: Any) -> Array:
    """Return 1 / (1 + exp(-x)).

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.sigmoid(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([0.119, 0.5  , 0.881], dtype=float32)
    """
    return lax.logistic(_inexact(x))


def tanh(x: Any) -> Array:
    """Return the hyperbolic tangent.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.tanh(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-0.964,  0.   ,  0.964], dtype=float32)
    """
    return dnp.tanh(x)


@evaluated_whole
@bytes_in_float32
def softplus(x: Any) -> Array:
    """Return log(1 + exp(x)).

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.softplus(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([0.127, 0.693, 2.127], dtype=float32)
    """
    return dnp.logaddexp(_inexact(x), 0.0)


@evaluated_whole
@bytes_in_float32
def sparse_plus(x: Any) -> Array:
    """Return 0 below -1, x above 1, and (x + 1)^2 / 4 between.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.sparse_plus(dnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = _beside_floats(x)
    return dnp.where(x <= -1.0, 0.0, dnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@evaluated_whole
@bytes_in_float32
def sparse_sigmoid(x: Any) -> Array:
    """Return the derivative of `sparse_plus`: 0 below -1, 1 above 1, and (x + 1) / 2 between.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.sparse_sigmoid(dnp.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return dnp.clip((_beside_floats(x) + 1.0) / 2.0, 0.0, 1.0)


@evaluated_whole
@halves_in_float32
def squareplus(x: Any, b: Any = 4) -> Array:
    """Return (x + sqrt(x^2 + b)) / 2, a smooth relu (Barron, 2021); `b` >= 0 is the width of its bend.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.squareplus(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([0.414, 1.   , 2.414], dtype=float32)
    """
    x = _inexact(x)
    if dnp.iscomplexobj(x):
        return (x + dnp.sqrt(x * x + b)) / 2
    root = dnp.hypot(x, dnp.sqrt(b))
    positive = x >= 0
    tail = b / dnp.where(positive, 2, 2 * (root - x))  # the sum would cancel
    return dnp.where(positive, (x + root) / 2, tail)


def identity(x: Any) -> Array:
    """Return x, as an array.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.identity(dnp.array([-2.0, 0.0, 2.0]))
    Array([-2.,  0.,  2.], dtype=float32)
    """
    return sharing(dnp.asarray(x))


@evaluated_whole
@bytes_in_float32
def soft_sign(x: Any) -> Array:
    """Return x / (1 + |x|).

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.soft_sign(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-0.667,  0.   ,  0.667], dtype=float32)
    """
    x = _inexact(x)
    return x / (dnp.abs(x) + 1)


@evaluated_whole
@bytes_in_float32
def silu(x: Any) -> Array:
    """Return x * sigmoid(x), also called swish.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.silu(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-0.238,  0.   ,  1.762], dtype=float32)
    """
    x = _inexact(x)
    return x * sigmoid(x)


swish = silu


@evaluated_whole
@bytes_in_float32
def log_sigmoid(x: Any) -> Array:
    """Return log(sigmoid(x)).

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.log_sigmoid(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-2.127, -0.693, -0.127], dtype=float32)
    """
    return -softplus(-_inexact(x))


@evaluated_whole
@bytes_in_float32
def mish(x: Any) -> Array:
    """Return x * tanh(softplus(x)).

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.mish(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-0.253,  0.   ,  1.944], dtype=float32)
    """
    x = _inexact(x)
    if dnp.iscomplexobj(x):
        return x * dnp.tanh(softplus(x))
    # With t = exp(-|x|) the tangent is a quotient of sums of positive terms. Not abs, whose derivative is 0 at 0.
    is_above = x >= 0
    t = dnp.exp(dnp.where(is_above, -x, x))
    part = dnp.where(is_above, 1 + 2 * t, t * (2 + t))
    return x * (part / (part + dnp.where(is_above, 2 * t * t, 2)))


@evaluated_whole
@bytes_in_float32
def elu(x: Any, alpha: Any = 1.0) -> Array:
    """Return x above 0, and alpha * (exp(x) - 1) below.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.elu(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-0.865,  0.   ,  2.   ], dtype=float32)
    """
    x = _beside_floats(x)
    return dnp.where(x > 0, x, alpha * dnp.expm1(dnp.where(x > 0, 0.0, x)))


@evaluated_whole
@bytes_in_float32
def celu(x: Any, alpha: Any = 1.0) -> Array:
    """Return x above 0, and alpha * (exp(x / alpha) - 1) below.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.celu(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-0.865,  0.   ,  2.   ], dtype=float32)
    """
    x = _beside_floats(x)
    return dnp.where(x > 0, x, alpha * dnp.expm1(dnp.where(x > 0, 0.0, x) / alpha))


@evaluated_whole
@bytes_in_float32
def selu(x: Any) -> Array:
    """Return the scaled elu of self-normalising networks (Klambauer and others, 2017).

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.selu(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-1.52 ,  0.   ,  2.101], dtype=float32)
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@evaluated_whole
@bytes_in_float32
def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Array:
    """Return x above 0, and negative_slope * x below.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.leaky_relu(dnp.array([-2.0, 0.0, 2.0]))
    Array([-0.02,  0.  ,  2.  ], dtype=float32)
    """
    x = _beside_floats(x)
    return dnp.where(x >= 0, x, negative_slope * x)


@evaluated_whole
@bytes_in_float32
def gelu(x: Any, approximate: bool = True) -> Array:
    """Return x times the normal distribution function at x (Hendrycks and Gimpel, 2016).

    By default the distribution function is approximated with a tanh.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.gelu(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-0.045,  0.   ,  1.955], dtype=float32)
    """
    x = _inexact(x)
    if x.dtype == dnp.float16:  # whose third powers overflow beyond 40
        return cast(gelu(cast(x, dtypes.at_least_single(x.dtype)), approximate), x.dtype)
    if approximate:
        return x * (0.5 * (1.0 + dnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return 0.5 * x * lax.erfc(-x / math.sqrt(2))


@evaluated_whole
@bytes_in_float32
def glu(x: Any, axis: int = -1) -> Array:
    """Return the first half of an axis times the sigmoid of the second half; the axis has an even length.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.glu(dnp.array([1.0, 2.0, 0.0, 0.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    a, b = dnp.split(dnp.asarray(x), 2, axis)
    return a * sigmoid(b)


@evaluated_whole
def hard_tanh(x: Any) -> Array:
    """Return x limited to [-1, 1].

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.hard_tanh(dnp.array([-2.0, 0.0, 2.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    x = _inexact(x)
    return dnp.where(x > 1, 1.0, dnp.where(x < -1, -1.0, x))


@evaluated_whole
@bytes_in_float32
def hard_sigmoid(x: Any) -> Array:
    """Return relu6(x + 3) / 6.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.hard_sigmoid(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([0.167, 0.5  , 0.833], dtype=float32)
    """
    return relu6(_beside_floats(x) + 3.0) / 6.0


@evaluated_whole
@bytes_in_float32
def hard_silu(x: Any) -> Array:
    """Return x * hard_sigmoid(x).

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.hard_silu(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-0.333,  0.   ,  1.667], dtype=float32)
    """
    x = _beside_floats(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@evaluated_whole
@bytes_in_float32
def logsumexp(
    a: Any,
    axis: Axes = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """Return log(sum(b * exp(a))) over an axis, without overflow; -inf where every term vanishes.

    With `return_sign` return the pair (logarithm of the absolute value of the sum, sign of the sum), so that
    the sum may be negative.

    >>> from didax import nn
    >>> float(nn.logsumexp(dnp.array([1000.0, 1000.0])))
    1000.693...
    """
    if b is not None:
        a, b = map(dnp.asarray, beside_wide(a, b))
        a = cast(a, *inexact(*result_pair(a, b)))
    a = _only(where, _inexact(a), -dnp.inf)
    if b is not None:
        a, b = dnp.broadcast_arrays(dnp.where(b != 0, a, -dnp.inf), b)
    top = lax.stop_gradient(_largest("logsumexp", a.real, axis))
    if dnp.iscomplexobj(a) or (b is not None and dnp.iscomplexobj(b)):  # infinite terms may cancel
        top = dnp.where(dnp.isfinite(top), top, 0.0)
    elif b is not None:  # so may those whose signs differ
        negative = dnp.any((a == top) & (b < 0), axis=axis, keepdims=True)
        top = dnp.where(dnp.isfinite(top) | ~negative, top, 0.0)
    top = top.astype(a.dtype)
    terms = dnp.exp(a - top if dnp.iscomplexobj(a) else excess(a, dnp.broadcast_to(top, a.shape)))
    total = dnp.sum(terms if b is None else b * terms, axis=axis, keepdims=keepdims)
    shift = top if keepdims else dnp.reshape(top, total.shape)
    if not return_sign:
        return dnp.log(total) + shift
    # Where all terms vanish the sum is 0, whatever they were scaled by.
    sign = dnp.where(shift.real == -dnp.inf, 0, dnp.sign(total))
    return dnp.log(dnp.abs(total)) + shift.real, sign


@evaluated_whole
@halves_in_float32  # the terms may cancel
def logmeanexp(x: Any, axis: Axes = None, where: Any = None, keepdims: bool = False) -> Array:
    """Return log(mean(exp(x))) over an axis, without overflow: the mean of the elements where `where` is true.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.logmeanexp(dnp.array([0.0, 0.0]))
    Array(0., dtype=float32)
    """
    x = _inexact(x)
    counted = dnp.broadcast_to(True if where is None else where, x.shape)
    count = dnp.sum(counted, axis=axis, keepdims=keepdims)
    return logsumexp(x, axis=axis, where=where, keepdims=keepdims) - dnp.log(count).astype(x.dtype)


@evaluated_whole
@bytes_in_float32
def log1mexp(x: Any) -> Array:
    """Return log(1 - exp(-x)) for x > 0, precise near 0 and for large x.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.log1mexp(dnp.array([1e-4, 1.0])).round(3)
    Array([-9.21 , -0.459], dtype=float32)
    """
    x = _inexact(x)
    return dnp.log(-dnp.expm1(-x)) if dnp.iscomplexobj(x) else log1mexp_of_real(x)


@evaluated_whole
@bytes_in_float32
def log_softmax(x: Any, axis: Axes = -1, where: Any = None) -> Array:
    """Return log(softmax(x)), without overflow; elements where `where` is false are -inf.

    >>> import didax.numpy as dnp
    >>> from didax import nn
    >>> nn.log_softmax(dnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([-4.143, -2.143, -0.143], dtype=float32)
    """
    x = _only(where, _inexact(x), -dnp.inf)
    shifted = x - lax.stop_gradient(_finite_max("log_softmax", x, axis))
    return _only(where, shifted - dnp.log(_total(dnp.exp(shifted), axis, where)), -dnp.inf)


@evaluated_whole
@bytes_in_float32
def softmax(x: Any, axis: Axes = -1, where: Any = None) -> Array:
    """Return exp(x) normalised to sum 1 over an axis, without overflow; elements where `where` is false are 0.

    >>> from didax import nn
    >>> nn.softmax(dnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    x = _only(where, _inexact(x), -dnp.inf)
    terms = dnp.exp(x - lax.stop_gradient(_finite_max("softmax", x, axis)))
    total = _total(terms, axis, where)
    # One quotient for each sum: XLA computes the shares so in any case, but not their derivatives.
    shares = terms / total if terms.dtype.itemsize < 4 else terms * (1 / total)
    return _only(where, shares, 0.0)


def _only(where: Any, x: Array, otherwise: float) -> Array:
    """Return `x`, and a constant where `where` is false: neither a NaN nor a derivative of `x` gets through there."""
    return x if where is None else dnp.where(where, x, otherwise)


def _total(terms: Array, axis: Axes, where: Any) -> Array:
    """The sum; 1 where `where` leaves nothing, so that nothing is divided by 0."""
    total = dnp.sum(terms, axis=axis, keepdims=True)
    if where is None:
        return total
    some = dnp.any(dnp.broadcast_to(where, terms.shape), axis=axis, keepdims=True)
    return dnp.where(some, total, 1)


def _finite_max(name: str, x: Array, axis: Axes) -> Array:
    if not axes_and_names(name, axis, x.ndim)[1] and not dtypes.is_complex(x.dtype):
        return _largest(name, x, axis, reduce_max_finite_p)
    # The greatest in lexicographic order, as in JAX: it decides the branch of logarithms.
    top = dnp.max(x, axis=axis, keepdims=True, initial=-dnp.inf)
    return dnp.where(dnp.isfinite(top), top, 0.0)


def _largest(name: str, x: Array, axis: Axes, maximum: Extremum = reduce_max_no_nan_p) -> Array:
    """Return the largest elements, with the reduced axes kept at length 1; any value where there is NaN."""
    axes, names = axes_and_names(name, axis, x.ndim)
    largest = lax.expand_dims(maximum.bind(x, axes=axes), axes) if axes else x
    return lax.pmax(largest, names) if names else largest


@evaluated_whole
@halves_in_float32
def standardize(
    x: Any,
    axis: Axes = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "stable",
) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon).

    The mean and variance are those over `axis`, of the elements where `where` is true, unless they are given.

    The `algorithm` for the variance is "stable", the mean of (x - mean)², or "fast", the mean of x² minus
    mean², which loses digits where the mean is large.

    >>> from didax import nn
    >>> nn.standardize(dnp.array([1.0, 3.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    check_choice("standardize", "algorithm", algorithm, "stable", "fast")
    x = _inexact(x)
    if mean is None:
        mean = dnp.mean(x, axis=axis, keepdims=True, where=where)
    if variance is None and algorithm == "fast":
        squares = dnp.mean(dnp.square(x), axis=axis, keepdims=True, where=where)
        variance = dnp.maximum(squares - dnp.square(mean), 0)
    elif variance is None:
        variance = dnp.mean(dnp.square(x - mean), axis=axis, keepdims=True, where=where)
    return (x - mean) * lax.rsqrt(variance + epsilon)


@evaluated_whole
def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """Return unit vectors along a new axis: 1 at the position each integer names, only 0 where it is out of range.

    >>> from didax import nn
    >>> nn.one_hot(dnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    x = _able_to_count(dnp.expand_dims(dnp.asarray(x), axis))
    axis = axis % x.ndim
    classes = dnp.arange(num_classes, dtype=x.dtype).reshape(
        [num_classes if i == axis else 1 for i in range(x.ndim)]
    )
    return (x == classes).astype(dtypes.default_dtype("f") if dtype is None else dtype)


def _able_to_count(x: Array) -> Array:
    """Return `x` in a dtype that tells all classes apart: 300 of them have no numbers of their own in uint8."""
    if dtypes.is_inexact(x.dtype):
        return cast(x, dtypes.at_least_single(x.dtype))
    return x if x.dtype.itemsize >= 4 else cast(x, dtypes.default_dtype("i"))
