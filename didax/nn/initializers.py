"""Initialisers of parameters: each is a function `init(key, shape, dtype)`.

`variance_scaling` is the general initialiser; `glorot`, `he` and `lecun` are its usual settings (`xavier` and
`kaiming` are other names of the first two). The fans of a weight are the numbers of inputs and outputs of a
unit: the lengths of the last two axes, times the lengths of the other axes (as in convolutions). `orthogonal`
is for weights that are applied repeatedly. Without a dtype the default float is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import didax.numpy as dnp
from didax import lax, random
from didax.core import dtypes
from didax.core.errors import check_choice, message
from didax.core.modules import on_access as _on_access
from didax.core.value import Array

__all__ = [
    "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
    "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _on_access(__name__)

Initializer = Callable[..., Array]
Axes = int | Sequence[int]


def zeros(key: Any, shape: Sequence[int], dtype: Any = None) -> Array:
    """Return an array of zeros.

    >>> from didax import nn, random
    >>> nn.initializers.zeros(random.key(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    return dnp.zeros(shape, dtype)


def ones(key: Any, shape: Sequence[int], dtype: Any = None) -> Array:
    """Return an array of ones.

    >>> from didax import nn, random
    >>> nn.initializers.ones(random.key(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return dnp.ones(shape, dtype)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Return an initialiser that sets every element to `value`.

    >>> from didax import nn, random
    >>> nn.initializers.constant(0.5)(random.key(0), (2,))
    Array([0.5, 0.5], dtype=float32)
    """
    return lambda key, shape, dtype=dtype: dnp.full(shape, value, dtype or dtypes.default_dtype("f"))


def uniform(scale: float = 1e-2, dtype: Any = None) -> Initializer:
    """Return an initialiser that draws from the uniform distribution on [0, scale).

    >>> from didax import nn, random
    >>> nn.initializers.uniform()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return lambda key, shape, dtype=dtype: random.uniform(key, shape, dtype) * scale


def normal(stddev: float = 1e-2, dtype: Any = None) -> Initializer:
    """Return an initialiser that draws from the normal distribution with mean 0.

    >>> from didax import nn, random
    >>> nn.initializers.normal()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return lambda key, shape, dtype=dtype: random.normal(key, shape, dtype) * stddev


def truncated_normal(
    stddev: float = 1e-2, dtype: Any = None, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Return an initialiser that draws from a truncated normal distribution.

    It is cut off at `lower` and `upper` standard deviations.

    `stddev` is the standard deviation before the cut.

    >>> from didax import nn, random
    >>> nn.initializers.truncated_normal()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return lambda key, shape, dtype=dtype: random.truncated_normal(key, lower, upper, shape, dtype) * stddev


# The standard deviation of a standard normal distribution cut off at -2 and 2.
_CUT_DEVIATION = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))

_FANS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: math.sqrt(fan_in * fan_out),
}


def _is_complex(dtype: Any) -> bool:
    return dtype is not None and dtypes.is_complex(dtypes.dtype(dtype))


# The probability that a complex normal number is within 2 of 0. The deviation is the one that JAX divides by: the root
# of the mean of |z|**2 where numbers outside count as 0, so complex weights vary 2 % more than stated, here as there.
_IN_DISK = 1 - math.exp(-4)
_DISK_DEVIATION = math.sqrt(1 - 5 * math.exp(-4))


def _truncated_normal(key: Any, shape: Sequence[int], dtype: Any, deviation: float) -> Array:
    if not _is_complex(dtype):
        return truncated_normal(deviation / _CUT_DEVIATION)(key, shape, dtype)
    return _in_the_plane(key, shape, dtype, lambda u: -dnp.log1p(-_IN_DISK * u)) * (
        deviation / _DISK_DEVIATION
    )


def _uniform(key: Any, shape: Sequence[int], dtype: Any, deviation: float) -> Array:
    if not _is_complex(dtype):
        return random.uniform(key, shape, dtype, -1.0, 1.0) * (math.sqrt(3) * deviation)
    return _in_the_plane(key, shape, dtype, lambda u: 2 * u) * deviation


def _in_the_plane(
    key: Any, shape: Sequence[int], dtype: Any, radius_squared: Callable[[Array], Array]
) -> Array:
    """Complex numbers of uniform angle; the square of the radius is a function of a uniform number."""
    for_radius, for_angle = random.split(key)
    real = dtypes.real_dtype(dtypes.dtype(dtype))
    radius = dnp.sqrt(radius_squared(random.uniform(for_radius, shape, real)))
    angle = 2 * math.pi * random.uniform(for_angle, shape, real)
    return lax.complex(radius * dnp.cos(angle), radius * dnp.sin(angle))


# Samplers with mean 0 and a given standard deviation.
_DRAWS: dict[str, Callable[[Any, Sequence[int], Any, float], Array]] = {
    "truncated_normal": _truncated_normal,
    "normal": lambda key, shape, dtype, deviation: normal(deviation)(key, shape, dtype),
    "uniform": _uniform,
}


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Return an initialiser with mean 0 and variance scale / fan.

    Args:
      mode: which fan: 'fan_in', 'fan_out', or the arithmetic or geometric mean of both, 'fan_avg' or 'fan_geo_avg'.
      distribution: 'truncated_normal' (cut off at two standard deviations), 'normal' or 'uniform'.
      in_axis, out_axis: the axes of inputs and outputs; the lengths of the other axes multiply both fans.
      batch_axis: axes along which weights are independent; they do not count.

    Raises ValueError for another mode or distribution, or a shape without these axes.

    >>> from didax import random
    >>> init = variance_scaling(1.0, "fan_in", "truncated_normal")
    >>> init(random.PRNGKey(0), (100, 200)).shape
    (100, 200)
    """
    check_choice("variance_scaling", "mode", mode, *_FANS)
    check_choice("variance_scaling", "distribution", distribution, *_DRAWS)

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Array:
        fan = _FANS[mode](*_fans(tuple(shape), in_axis, out_axis, batch_axis))
        return _DRAWS[distribution](key, shape, dtype, math.sqrt(scale / max(fan, 1)))

    return init


def _fans(shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    if len(shape) < 2:
        raise ValueError(
            message(
                "The fans of a weight need an axis of inputs and one of outputs.",
                f"shape: {shape}",
                fix="Use an initializer without fans (normal, zeros) for vectors and scalars.",
            )
        )
    inputs, outputs, batch = (
        math.prod(shape[axis] for axis in ((axes,) if isinstance(axes, int) else axes))
        for axes in (in_axis, out_axis, batch_axis)
    )
    receptive = math.prod(shape) / max(inputs * outputs * batch, 1)
    return inputs * receptive, outputs * receptive


def glorot_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return an initialiser: uniform, with variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010).

    >>> from didax import nn, random
    >>> nn.initializers.glorot_uniform()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return an initialiser: truncated normal, with variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010).

    >>> from didax import nn, random
    >>> nn.initializers.glorot_normal()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return an initialiser: uniform, with variance 2 / fan_in (He and others, 2015).

    >>> from didax import nn, random
    >>> nn.initializers.he_uniform()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return an initialiser: truncated normal, with variance 2 / fan_in (He and others, 2015).

    >>> from didax import nn, random
    >>> nn.initializers.he_normal()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return an initialiser: uniform, with variance 1 / fan_in (LeCun and others, 1998).

    >>> from didax import nn, random
    >>> nn.initializers.lecun_uniform()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return an initialiser: truncated normal, with variance 1 / fan_in (LeCun and others, 1998).

    >>> from didax import nn, random
    >>> nn.initializers.lecun_normal()(random.key(0), (4, 6)).shape
    (4, 6)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Return an initialiser of uniformly drawn matrices with orthonormal columns, times `scale`.

    Where a matrix has more columns than rows, its rows are orthonormal.

    The columns lie along `column_axis`; the other axes of the shape together are the rows. Raises ValueError
    for a shape with fewer than two axes.

    >>> from didax import random
    >>> w = orthogonal()(random.key(0), (4, 3))
    >>> bool(dnp.allclose(w.T @ w, dnp.eye(3), atol=1e-6))
    True
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Array:
        if len(shape) < 2:
            raise ValueError(
                message(
                    "orthogonal draws weights of two axes or more.",
                    f"shape: {tuple(shape)}",
                    fix="Use another initializer (normal, zeros) for vectors and scalars.",
                )
            )
        columns = shape[column_axis]
        rows = math.prod(shape) // max(columns, 1)
        tall = random.normal(key, (max(rows, columns), min(rows, columns)), dtype)
        q, r = dnp.linalg.qr(tall)
        q = q * dnp.sign(dnp.diag(r))  # makes the factors unique, and so the draw uniform
        matrix = q.T if columns > rows else q
        others = list(shape)
        del others[column_axis]
        return scale * dnp.moveaxis(matrix.T.reshape(columns, *others), 0, column_axis)

    return init


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Return an initialiser of windows of convolutions that are `orthogonal` in the middle and zero elsewhere.

    Shapes are (spatial..., in, out) with one to three spatial axes, and no fewer features out than in (Xiao
    and others, 2018). Raises ValueError for other shapes.

    >>> from didax import random
    >>> w = delta_orthogonal()(random.key(0), (3, 4, 4))
    >>> bool(dnp.allclose(w[1].T @ w[1], dnp.eye(4), atol=1e-6)), float(dnp.abs(w[0]).sum())
    (True, 0.0)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Array:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ValueError(
                message(
                    "delta_orthogonal draws windows (spatial..., in, out) with in <= out.",
                    f"shape: {tuple(shape)}",
                    fix="Use one to three spatial axes and as many features out as in, or another initializer.",
                )
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        middle = tuple([(n - 1) // 2 for n in shape[:-2]])
        return dnp.zeros(shape, matrix.dtype).at[middle].set(matrix)

    return init


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal
