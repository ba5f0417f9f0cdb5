"""Activation functions and the normalisations of logits.

Written so that no branch a `where` does not take can send NaN into a gradient: arguments are made safe first.
"""

from __future__ import annotations

import math
from typing import Any

import didax.numpy as dnp
from didax import lax
from didax.core.dtypes import default_dtype
from didax.core.value import Array

Axes = int | tuple[int, ...] | None


def _inexact(x: Any) -> Array:
    """`x` as an array of floating-point (or complex) dtype."""
    x = dnp.asarray(x)
    return x if dnp.issubdtype(x.dtype, dnp.inexact) else x.astype(default_dtype("f"))


def relu(x: Any) -> Array:
    """max(x, 0), with derivative 0 at 0.

    >>> from didax import nn
    >>> nn.relu(dnp.array([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    x = dnp.asarray(x)
    return dnp.where(x <= 0, dnp.zeros_like(x), x)


def relu6(x: Any) -> Array:
    """min(max(x, 0), 6)."""
    x = _inexact(x)
    return dnp.where(x >= 6, dnp.full_like(x, 6), relu(x))


def sigmoid(x: Any) -> Array:
    """1 / (1 + exp(-x))."""
    return lax.logistic(_inexact(x))


def tanh(x: Any) -> Array:
    """The hyperbolic tangent."""
    return dnp.tanh(x)


def softplus(x: Any) -> Array:
    """log(1 + exp(x))."""
    return dnp.logaddexp(_inexact(x), 0.0)


def sparse_plus(x: Any) -> Array:
    """0 below -1, x above 1, and (x + 1)^2 / 4 between."""
    x = _inexact(x)
    return dnp.where(x <= -1.0, 0.0, dnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


def soft_sign(x: Any) -> Array:
    """x / (1 + |x|)."""
    x = _inexact(x)
    return x / (dnp.abs(x) + 1)


def silu(x: Any) -> Array:
    """x * sigmoid(x), also called swish."""
    x = _inexact(x)
    return x * sigmoid(x)


swish = silu


def log_sigmoid(x: Any) -> Array:
    """log(sigmoid(x))."""
    return -softplus(-_inexact(x))


def mish(x: Any) -> Array:
    """x * tanh(softplus(x))."""
    x = _inexact(x)
    return x * dnp.tanh(softplus(x))


def elu(x: Any, alpha: Any = 1.0) -> Array:
    """x above 0, alpha * (exp(x) - 1) below."""
    x = _inexact(x)
    return dnp.where(x > 0, x, alpha * dnp.expm1(dnp.where(x > 0, 0.0, x)))


def celu(x: Any, alpha: Any = 1.0) -> Array:
    """x above 0, alpha * (exp(x / alpha) - 1) below."""
    x = _inexact(x)
    return dnp.where(x > 0, x, alpha * dnp.expm1(dnp.where(x > 0, 0.0, x) / alpha))


def selu(x: Any) -> Array:
    """The scaled elu of self-normalising networks (Klambauer and others, 2017)."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Array:
    """x above 0, negative_slope * x below."""
    x = _inexact(x)
    return dnp.where(x >= 0, x, negative_slope * x)


def gelu(x: Any, approximate: bool = True) -> Array:
    """x times the normal distribution function at x (Hendrycks and Gimpel, 2016), by default its tanh approximation."""
    x = _inexact(x)
    if approximate:
        return x * (0.5 * (1.0 + dnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return 0.5 * x * lax.erfc(-x / math.sqrt(2))


def glu(x: Any, axis: int = -1) -> Array:
    """The first half of an axis times the sigmoid of the second half; the axis must be even."""
    a, b = dnp.split(dnp.asarray(x), 2, axis)
    return a * sigmoid(b)


def hard_tanh(x: Any) -> Array:
    """x cut to [-1, 1]."""
    x = _inexact(x)
    return dnp.where(x > 1, 1.0, dnp.where(x < -1, -1.0, x))


def hard_sigmoid(x: Any) -> Array:
    """relu6(x + 3) / 6."""
    return relu6(_inexact(x) + 3.0) / 6.0


def hard_silu(x: Any) -> Array:
    """x * hard_sigmoid(x)."""
    x = _inexact(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def logsumexp(a: Any, axis: Axes = None, b: Any = None, keepdims: bool = False, where: Any = None) -> Array:
    """log(sum(b * exp(a))) over an axis, without overflow; -inf where every term vanishes.

    >>> from didax import nn
    >>> float(nn.logsumexp(dnp.array([1000.0, 1000.0])))
    1000.693...
    """
    a = _inexact(a)
    if where is not None:
        a = dnp.where(where, a, -dnp.inf)
    if b is not None:
        b = dnp.asarray(b)
        a = dnp.where(b != 0, a, -dnp.inf)
    top = dnp.max(a, axis=axis, keepdims=True, initial=-dnp.inf)
    top = lax.stop_gradient(dnp.where(dnp.isfinite(top), top, 0.0).astype(a.dtype))
    terms = dnp.exp(a - top)
    total = dnp.sum(terms if b is None else b * terms, axis=axis, keepdims=keepdims)
    return dnp.log(total) + (top if keepdims else dnp.reshape(top, total.shape))


def log_softmax(x: Any, axis: Axes = -1, where: Any = None) -> Array:
    """log(softmax(x)), without overflow; elements where `where` is false are -inf."""
    x = _inexact(x)
    if where is not None:
        x = dnp.where(where, x, -dnp.inf)
    shifted = x - lax.stop_gradient(_finite_max(x, axis))
    return shifted - dnp.log(dnp.sum(dnp.exp(shifted), axis=axis, keepdims=True))


def softmax(x: Any, axis: Axes = -1, where: Any = None) -> Array:
    """exp(x) normalised to sum 1 over an axis, without overflow; elements where `where` is false are 0.

    >>> from didax import nn
    >>> nn.softmax(dnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    x = _inexact(x)
    if where is not None:
        x = dnp.where(where, x, -dnp.inf)
    terms = dnp.exp(x - lax.stop_gradient(_finite_max(x, axis)))
    return terms / dnp.sum(terms, axis=axis, keepdims=True)


def _finite_max(x: Array, axis: Axes) -> Array:
    top = dnp.max(x, axis=axis, keepdims=True, initial=-dnp.inf)
    return dnp.where(top == -dnp.inf, 0.0, top).astype(x.dtype)


def standardize(
    x: Any, axis: Axes = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), mean and variance over `axis` unless given."""
    x = _inexact(x)
    if mean is None:
        mean = dnp.mean(x, axis=axis, keepdims=True)
    if variance is None:
        variance = dnp.mean(dnp.square(x - mean), axis=axis, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + epsilon)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """Unit vectors along a new axis: 1 at the position each integer names, all 0 where it is out of range.

    >>> from didax import nn
    >>> nn.one_hot(dnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    x = dnp.expand_dims(dnp.asarray(x), axis)
    axis = axis % x.ndim
    classes = dnp.arange(num_classes, dtype=x.dtype).reshape(
        [num_classes if i == axis else 1 for i in range(x.ndim)]
    )
    return (x == classes).astype(default_dtype("f") if dtype is None else dtype)
