"""Distributions in closed form: each is a function of uniform, normal or exponential draws.

Parameters are broadcast to the shape of the result, which is by default their common shape; each sample is a
differentiable function of the parameters. The numbers are those of jax.random for the same key, wherever
jax.random draws in the same way. Read next: `_samplers.py` (the draws that this module transforms),
`_gamma.py` (distributions without a closed form).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.api.flat import narrowed_scalar
from didax.api.results import array_function
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.core.tracing import Tracer
from didax.primitives.convert import convert_element_type, stop_gradient_p
from didax.primitives.elementwise import (
    abs_,
    add,
    div,
    exp,
    floor,
    le,
    log,
    log1p,
    lt,
    max_,
    mul,
    neg,
    pow_,
    sign,
    sqrt,
    square,
    sub,
    tan,
)
from didax.primitives.random_wald import wald_sample
from didax.primitives.select import where
from didax.primitives.shape import reduce_sum
from didax.random._keys import child
from didax.random._programs import compiled_program
from didax.random._samplers import (
    arguments,
    common_shape,
    dtype_of_counts,
    exponential_floats,
    floats_between,
    normal_floats,
    parameters,
    signs,
    unit_floats,
)


def check(name: str, parameter: str, x: Any, holds: Callable[[Any], Any], rule: str) -> None:
    """Raise ValueError where a parameter whose value is known breaks its rule; NaN is accepted."""
    if isinstance(x, Tracer) or (type(x) in (int, float) and (holds(x) or x != x)):
        return
    aval_of(x)  # TypeError for what is no number
    value = np.asarray(x)
    with np.errstate(invalid="ignore"):
        broken = ~(holds(value) | np.isnan(value)) if value.dtype.kind == "f" else ~holds(value)
    if np.any(broken):
        raise ValueError(
            message(
                f"{name} takes {parameter} {rule}.",
                f"{parameter}: {value[broken].flat[0] if value.ndim else value}",
                fix="Clip or mask it before drawing.",
            )
        )


def draw(
    name: str,
    sampler: Callable[..., Any],
    key: Any,
    shape: Any,
    dtype: Any,
    values: dict[str, Any],
    dtype_of_values: Callable[[np.dtype[Any]], np.dtype[Any]] = lambda dtype: dtype,
) -> Any:
    """Run `sampler(words, *values)` with the parameters broadcast to the shape.

    `dtype_of_values` gives the dtype of the parameters from the dtype of the result; by default they are
    equal.
    """
    words, shape, dtype = arguments(name, key, common_shape(name, shape, **values), dtype)
    found = parameters(name, shape, dtype_of_values(dtype), **values)
    return sampler(words, *found, shape=shape, dtype=dtype)


def positive(name: str, **values: Any) -> None:
    for parameter, x in values.items():
        check(name, parameter, x, lambda v: v > 0, "above 0")


# --- Without parameters -------------------------------------------------------------------------------------


@array_function
def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return floats of the standard Cauchy distribution, whose density is 1 / (pi (1 + x^2)).

    >>> from didax import random
    >>> random.cauchy(random.key(0), (3,)).shape
    (3,)
    """
    words, shape, dtype = arguments("cauchy", key, shape, dtype)
    return _cauchy(words, shape=shape, dtype=dtype)


@compiled_program
def _cauchy(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    u = floats_between(words, dtype.type(dtypes.finfo(dtype).eps), dtype.type(1), shape, dtype)
    return tan(mul(sub(u, 0.5), math.pi))


@array_function
def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return floats of the standard Laplace distribution, whose density is exp(-|x|) / 2.

    >>> from didax import random
    >>> random.laplace(random.key(0), (3,)).shape
    (3,)
    """
    words, shape, dtype = arguments("laplace", key, shape, dtype)
    return _laplace(words, shape=shape, dtype=dtype)


@compiled_program
def _laplace(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    one = dtype.type(1)
    u = floats_between(words, dtypes.finfo(dtype).epsneg.astype(dtype) - one, one, shape, dtype)
    return mul(sign(u), log1p(neg(abs_(u))))


@array_function
def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return floats of the standard logistic distribution, whose distribution function is 1 / (1 + exp(-x)).

    >>> from didax import random
    >>> random.logistic(random.key(0), (3,)).shape
    (3,)
    """
    words, shape, dtype = arguments("logistic", key, shape, dtype)
    return _logistic(words, shape=shape, dtype=dtype)


@compiled_program
def _logistic(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    tiny = dtype.type(dtypes.finfo(dtype).tiny)
    u = floats_between(words, tiny, dtype.type(1), shape, dtype)
    return log(div(u, sub(1, u)))


@array_function
def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return floats of the Maxwell distribution: lengths of standard normal vectors in three dimensions.

    >>> from didax import random
    >>> bool((random.maxwell(random.key(0), (3,)) > 0).all())
    True
    """
    words, shape, dtype = arguments("maxwell", key, shape, dtype)
    return _maxwell(words, shape=shape, dtype=dtype)


@compiled_program
def _maxwell(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return maxwell_floats(words, shape, dtype)


def maxwell_floats(words: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return lengths of standard normal vectors in three dimensions."""
    return sqrt(reduce_sum(square(normal_floats(words, (*shape, 3), dtype)), (len(shape),)))


# --- With parameters ----------------------------------------------------------------------------------------


@array_function
def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return loc + scale * s * m, where m is drawn from the Maxwell distribution and s is -1 or 1.

    >>> from didax import random
    >>> random.double_sided_maxwell(random.key(0), 0.0, 2.0, (3,)).shape
    (3,)
    """
    positive("double_sided_maxwell", scale=scale)
    values = {"loc": loc, "scale": scale}
    return draw("double_sided_maxwell", _double_sided_maxwell, key, shape or None, dtype, values)


@compiled_program
def _double_sided_maxwell(
    words: Any, loc: Any, scale: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    lengths = mul(maxwell_floats(child(words, 0), shape, dtype), signs(child(words, 1), shape, dtype))
    return add(mul(lengths, scale), loc)


@array_function
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Any:
    """Return exp(sigma * x), where x is standard normal.

    >>> from didax import random
    >>> random.lognormal(random.key(0), 0.5, (3,)).shape
    (3,)
    """
    return draw("lognormal", _lognormal, key, shape, dtype, {"sigma": sigma})


@compiled_program
def _lognormal(words: Any, sigma: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return exp(mul(normal_floats(words, shape, dtype), sigma))


@array_function
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return floats of the Pareto distribution on [1, inf), whose density is b / x^(b + 1).

    >>> from didax import random
    >>> bool((random.pareto(random.key(0), 2.0, (3,)) >= 1).all())
    True
    """
    positive("pareto", b=b)
    return draw("pareto", _pareto, key, shape, dtype, {"b": b})


@compiled_program
def _pareto(words: Any, b: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return exp(div(exponential_floats(words, shape, dtype), b))


@array_function
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return lengths of normal vectors in two dimensions with standard deviation `scale`.

    >>> from didax import random
    >>> random.rayleigh(random.key(0), 2.0, (3,)).shape
    (3,)
    """
    check("rayleigh", "scale", scale, lambda v: v >= 0, "of at least 0")
    return draw("rayleigh", _rayleigh, key, shape, dtype, {"scale": scale})


@compiled_program
def _rayleigh(words: Any, scale: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    tiny = dtype.type(dtypes.finfo(dtype).tiny)  # log(0) would draw infinity
    u = max_(unit_floats(words, shape, dtype), tiny)
    return mul(sqrt(mul(log(u), -2)), scale)


@array_function
def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return scale * e^(1 / concentration), where e is drawn from the exponential distribution.

    >>> from didax import random
    >>> random.weibull_min(random.key(0), 1.0, 2.0, (3,)).shape
    (3,)
    """
    values = {"scale": scale, "concentration": concentration}
    check("weibull_min", "scale", scale, lambda v: v >= 0, "of at least 0")
    positive("weibull_min", concentration=concentration)
    return draw("weibull_min", _weibull_min, key, shape or None, dtype, values)


@compiled_program
def _weibull_min(
    words: Any, scale: Any, concentration: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    return mul(pow_(exponential_floats(words, shape, dtype), div(1, concentration)), scale)


@array_function
def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return floats in [left, right] whose density rises linearly up to `mode`, and falls linearly from there.

    >>> from didax import random
    >>> random.triangular(random.key(0), 0.0, 1.0, 3.0, (3,)).shape
    (3,)
    """
    shape = common_shape("triangular", shape, left=left, mode=mode, right=right)
    words, shape, dtype = arguments("triangular", key, shape, dtype)
    values = parameters("triangular", shape, dtype, left=left, mode=mode, right=right)
    if not any(isinstance(x, Tracer) for x in values):
        low, middle, high = map(np.asarray, values)
        ordered = (low <= middle) & (middle <= high)
        check("triangular", "bounds", ordered, lambda ordered: ordered, "in order: left <= mode <= right")
    return _triangular(words, *values, shape=shape, dtype=dtype)


@compiled_program
def _triangular(
    words: Any, left: Any, mode: Any, right: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    u = unit_floats(words, shape, dtype)
    width, rise, fall = sub(right, left), sub(mode, left), sub(right, mode)
    rising = add(left, sqrt(mul(mul(u, width), rise)))
    falling = sub(right, sqrt(mul(mul(sub(1, u), width), fall)))
    return where(lt(mul(u, width), rise), rising, falling)


@array_function
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return floats of the Wald (inverse Gaussian) distribution with scale 1 (Michael, Schucany and Haas, 1976).

    >>> from didax import random
    >>> random.wald(random.key(0), 2.0, (3,)).shape
    (3,)
    """
    positive("wald", mean=mean)
    return draw("wald", _wald, key, shape, dtype, {"mean": mean})


@compiled_program
def _wald(words: Any, mean: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Take one of the two roots of the equation whose right-hand side is a squared normal number."""
    given, mean = mean, stop_gradient_p.bind(mean)
    v = square(normal_floats(child(words, 0), shape, dtype))
    z = unit_floats(child(words, 1), shape, dtype)
    mv = mul(mean, v)
    # mean (1 + (mv - sqrt(4 mv + mv^2)) / 2), written so that its terms do not cancel for large mv
    small = div(mul(mean, 2), add(add(mv, 2), sqrt(mul(mv, add(mv, 4)))))
    x = where(le(z, div(mean, add(mean, small))), small, div(square(mean), small))
    return wald_sample(x, given)


@array_function
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return the number of trials up to the first success, each with success probability `p`: integers from 1.

    >>> from didax import random
    >>> random.geometric(random.key(0), 0.5, (3,)).dtype
    dtype('int32')
    """
    check("geometric", "p", p, lambda v: (v > 0) & (v <= 1), "in (0, 1]")
    p, out = narrowed_scalar(p), dtype_of_counts("geometric", dtype, "i")
    float_dtype = np.dtype(np.float64 if aval_of(p).dtype == np.float64 else np.float32)
    words, shape, _ = arguments("geometric", key, common_shape("geometric", shape, p=p), float_dtype)
    (p,) = parameters("geometric", shape, float_dtype, p=p)
    return _geometric(words, p, shape=shape, dtype=out)


@compiled_program
def _geometric(words: Any, p: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    float_dtype = aval_of(p).dtype
    u = max_(unit_floats(words, shape, float_dtype), float_dtype.type(dtypes.finfo(float_dtype).tiny))
    failures = floor(div(log(u), log1p(neg(p))))
    return convert_element_type(add(failures, 1), dtype)
