"""Initialisers of parameters: functions `init(key, shape, dtype)`.

`variance_scaling` is the general one; `glorot`, `he` and `lecun` are its usual settings. The fans of a weight are the
numbers of inputs and outputs a unit is connected to: the last two axes, times the others (as for convolutions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import didax.numpy as dnp
from didax import random
from didax.core.errors import message
from didax.core.value import Array

Initializer = Callable[..., Array]


def zeros(key: Any, shape: Sequence[int], dtype: Any = dnp.float32) -> Array:
    """All zeros."""
    return dnp.zeros(shape, dtype)


def ones(key: Any, shape: Sequence[int], dtype: Any = dnp.float32) -> Array:
    """All ones."""
    return dnp.ones(shape, dtype)


def constant(value: Any, dtype: Any = dnp.float32) -> Initializer:
    """Every element is `value`."""
    return lambda key, shape, dtype=dtype: dnp.full(shape, value, dtype)


def uniform(scale: float = 1e-2, dtype: Any = dnp.float32) -> Initializer:
    """Uniform on [0, scale)."""
    return lambda key, shape, dtype=dtype: random.uniform(key, shape, dtype) * scale


def normal(stddev: float = 1e-2, dtype: Any = dnp.float32) -> Initializer:
    """Normal with mean 0."""
    return lambda key, shape, dtype=dtype: random.normal(key, shape, dtype) * stddev


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: int = -2,
    out_axis: int = -1,
    dtype: Any = dnp.float32,
) -> Initializer:
    """Mean 0 and variance scale / fan.

    Args:
      mode: 'fan_in', 'fan_out', or 'fan_avg' for their mean.
      distribution: 'normal' or 'uniform'.
      in_axis, out_axis: the axes of inputs and outputs; the others multiply both fans.

    Raises ValueError for another mode or distribution, or a shape without these axes.

    >>> from didax import random
    >>> init = variance_scaling(1.0, "fan_in", "normal")
    >>> init(random.PRNGKey(0), (100, 200)).shape
    (100, 200)
    """
    if mode not in ("fan_in", "fan_out", "fan_avg") or distribution not in ("normal", "uniform"):
        raise ValueError(
            message(
                "variance_scaling knows three modes and two distributions.",
                f"mode: {mode!r}, distribution: {distribution!r}",
                fix="Use 'fan_in', 'fan_out' or 'fan_avg', and 'normal' or 'uniform'.",
            )
        )

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Array:
        fan_in, fan_out = _fans(tuple(shape), in_axis, out_axis)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
        deviation = math.sqrt(scale / max(fan, 1))
        if distribution == "normal":
            return random.normal(key, shape, dtype) * deviation
        return random.uniform(key, shape, dtype, -1.0, 1.0) * (math.sqrt(3) * deviation)

    return init


def _fans(shape: tuple[int, ...], in_axis: int, out_axis: int) -> tuple[float, float]:
    if len(shape) < 2:
        raise ValueError(
            message(
                "The fans of a weight need an axis of inputs and one of outputs.",
                f"shape: {shape}",
                fix="Use an initializer without fans (normal, zeros) for vectors and scalars.",
            )
        )
    inputs, outputs = shape[in_axis], shape[out_axis]
    receptive = math.prod(shape) / max(inputs * outputs, 1)
    return inputs * receptive, outputs * receptive


def glorot_uniform(**axes: Any) -> Initializer:
    """Uniform, variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""
    return variance_scaling(1.0, "fan_avg", "uniform", **axes)


def glorot_normal(**axes: Any) -> Initializer:
    """Normal, variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""
    return variance_scaling(1.0, "fan_avg", "normal", **axes)


def he_uniform(**axes: Any) -> Initializer:
    """Uniform, variance 2 / fan_in (He and others, 2015)."""
    return variance_scaling(2.0, "fan_in", "uniform", **axes)


def he_normal(**axes: Any) -> Initializer:
    """Normal, variance 2 / fan_in (He and others, 2015)."""
    return variance_scaling(2.0, "fan_in", "normal", **axes)


def lecun_uniform(**axes: Any) -> Initializer:
    """Uniform, variance 1 / fan_in (LeCun and others, 1998)."""
    return variance_scaling(1.0, "fan_in", "uniform", **axes)


def lecun_normal(**axes: Any) -> Initializer:
    """Normal, variance 1 / fan_in (LeCun and others, 1998)."""
    return variance_scaling(1.0, "fan_in", "normal", **axes)
