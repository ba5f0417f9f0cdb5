"""Distributions that `didax.random` draws, computed from `random_bits` and elementwise operations.

Each public function checks its arguments, casts and broadcasts them, and passes them to a compiled program
(`_programs.py`). The numbers are those of jax.random for the same key, shape and dtype: bits and integers
exactly, floats up to rounding. Read next: `_keys.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from didax.api.flat import narrowed_scalar
from didax.api.results import array_function
from didax.core import config, dtypes
from didax.core.avals import aval_of
from didax.core.dims import broadcast_lengths, is_symbolic
from didax.core.errors import ArgumentError, message
from didax.core.primitive import current_trace_var, eager_trace
from didax.core.tracing import Tracer
from didax.core.value import Array
from didax.primitives.convert import bitcast_convert_type_p, convert_element_type, materialize_p
from didax.primitives.dimension import number
from didax.primitives.elementwise import (
    add,
    clamp,
    complex_,
    div,
    erf,
    erf_inv,
    ge,
    gt,
    le,
    log,
    log1p,
    lt,
    max_,
    mul,
    neg,
    nextafter,
    or_,
    rem,
    shift_right_logical,
    sub,
)
from didax.primitives.fitted import ndtr, ndtri
from didax.primitives.random_bits import random_bits_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import slice_axis
from didax.random._keys import canonical_shape, child, consumed
from didax.random._programs import Draw, compiled_program, draws, exact_program
from didax.runtime.array import as_concrete
from didax.transforms.cache import on_clear

_PYTHON_SCALARS = (bool, int, float)

# --- bits -------------------------------------------------------------------------------------------------


@draws
def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return random bits as unsigned integers; `dtype` is uint8, uint16, uint32 (the default) or uint64.

    >>> from didax import random
    >>> random.bits(random.key(0), (2,), "uint8").dtype
    dtype('uint8')
    """
    kind = dtypes.default_dtype("u") if dtype is None else dtypes.dtype(dtype)
    if dtypes.kind_of(kind) != "u" or dtypes.iinfo(kind).bits < 8:
        raise _dtype_error("bits", kind, "an unsigned integer dtype of 8 bits or more")
    return Draw(_bits, consumed("bits", key), {"shape": canonical_shape("bits", shape), "dtype": kind})


@exact_program
def _bits(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return random_bits_p.bind(words, shape=shape, bit_width=8 * dtype.itemsize)


# --- floats -----------------------------------------------------------------------------------------------


@draws
def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Return floats uniformly distributed in [minval, maxval); the bounds are broadcast to `shape`.

    >>> from didax import random
    >>> random.uniform(random.key(0), (3,), minval=-1.0)
    Array([..., ..., ...], dtype=float32)
    """
    words, shape, dtype = arguments("uniform", key, shape, dtype)
    if type(minval) in _PYTHON_SCALARS and minval == 0 and type(maxval) in _PYTHON_SCALARS and maxval == 1:
        return Draw(_unit, words, {"shape": shape, "dtype": dtype})
    if not shape and config.state().as_in_jax:
        bounds = np.broadcast_shapes(aval_of(minval).shape, aval_of(maxval).shape)
        if set(bounds) == {1}:
            shape = bounds  # JAX scales its one number by the bounds, whose axes the result has
    low, high = parameters("uniform", shape, dtype, minval=minval, maxval=maxval)
    return _uniform(words, low, high, shape=shape, dtype=dtype)


@draws
def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return standard normal floats; complex numbers have variance 1, half of it in each part.

    >>> from didax import random
    >>> random.normal(random.key(0), (2, 3)).shape
    (2, 3)
    """
    words, shape, dtype = arguments("normal", key, shape, dtype, "fc")
    return Draw(_normal, words, {"shape": shape, "dtype": dtype})


@array_function
def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return standard normal floats, given that they lie between `lower` and `upper` (broadcast to `shape`).

    >>> from didax import random
    >>> random.truncated_normal(random.key(0), -2.0, 2.0, (3,)).shape
    (3,)
    """
    shape = common_shape("truncated_normal", shape, lower=lower, upper=upper)
    words, shape, dtype = arguments("truncated_normal", key, shape, dtype)
    low, high = parameters("truncated_normal", shape, dtype, lower=lower, upper=upper)
    has_middle = (
        type(lower) in _PYTHON_SCALARS and type(upper) in _PYTHON_SCALARS and lower < 2 and upper > -2
    )
    return _truncated_normal(words, low, high, shape=shape, dtype=dtype, tails=not has_middle)


@array_function
def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return exponentially distributed floats of mean 1.

    >>> from didax import random
    >>> random.exponential(random.key(0), (3,), "bfloat16").dtype
    dtype(bfloat16)
    """
    words, shape, dtype = arguments("exponential", key, shape, dtype)
    return _exponential(words, shape=shape, dtype=dtype)


@array_function
def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: Any = None) -> Any:
    """Return floats of the standard Gumbel distribution, -log(-log(u)).

    With `mode="high"` each u has twice as many bits, which makes the upper tail as fine as the lower tail; it
    is slower than "low", for which None stands.

    >>> from didax import random
    >>> random.gumbel(random.key(0), (3,)).shape
    (3,)
    """
    words, shape, dtype = arguments("gumbel", key, shape, dtype)
    return _gumbel(words, shape=shape, dtype=dtype, high=is_high("gumbel", mode))


def unit_floats(words: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return floats in [0, 1)."""
    info = dtypes.finfo(dtype)
    width = 8 if info.nmant < 8 else info.bits  # as many bits as the mantissa needs
    return floats_of_bits(random_bits_p.bind(words, shape=shape, bit_width=width), dtype)


def floats_of_bits(bits: Any, dtype: np.dtype[Any]) -> Any:
    """Return floats in [0, 1): floats in [1, 2) with mantissas of random bits, minus 1."""
    info = dtypes.finfo(dtype)
    word = np.dtype(f"uint{info.bits}")
    drawn = convert_element_type(bits, word)
    mantissa = shift_right_logical.bind(drawn, word.type(8 * aval_of(bits).dtype.itemsize - info.nmant))
    one = dtype.type(1)
    floats = bitcast_convert_type_p.bind(or_.bind(mantissa, one.view(word)), new_dtype=dtype)
    return sub.bind(floats, one)


def floats_between(words: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return floats in [low, high)."""
    return _between(unit_floats(words, shape, dtype), low, high)


def _between(floats: Any, low: Any, high: Any) -> Any:
    return max_.bind(low, add.bind(mul.bind(floats, sub.bind(high, low)), low))


@exact_program
def _unit(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return unit_floats(words, shape, dtype)


@compiled_program
def _uniform(words: Any, low: Any, high: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return floats_between(words, low, high, shape, dtype)


@compiled_program
def _normal(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return normal_numbers(words, shape, dtype)


def normal_numbers(words: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return standard normal floats, or complex numbers."""
    if not dtypes.is_complex(dtype):
        return normal_floats(words, shape, dtype)
    part = dtypes.real_dtype(dtype)
    parts = [div.bind(normal_floats(child(words, i), shape, part), part.type(math.sqrt(2))) for i in range(2)]
    return complex_.bind(*parts)


_SHORT, _MANY = 64, 32


def in_a_row(floats: Callable[..., Any]) -> Callable[..., Any]:
    """Draw an array whose last axis is short as a row of numbers in memory, which then has the shape.

    XLA makes a loop along the last axis, and unrolls it where it is short; then none of its steps is a vector
    instruction. Normal numbers of shape (100000, 3) took ten times as long as 300,000 of them.
    """

    @functools.wraps(floats)
    def draw(words: Any, shape: tuple[int, ...], dtype: np.dtype[Any], *options: Any) -> Any:
        x = floats(words, shape, dtype, *options)
        is_short = len(shape) > 1 and not is_symbolic(math.prod(shape)) and shape[-1] < _SHORT
        return written(x) if is_short else x

    return draw


def written(x: Any) -> Any:
    """An array that is in memory before operations read it, unless it has few elements.

    Otherwise XLA computes it inside of the loops that read it, along their axes. An argmax of 20 Gumbel numbers took
    five times as long so, and an argmax of three numbers in a scan over 64 draws took three times as long.
    """
    size = aval_of(x).size
    return x if is_symbolic(size) or size < _MANY else materialize_p.bind(x)[0]


@in_a_row
def normal_floats(words: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return standard normal floats: the inverse of the distribution function at uniform floats in (-1, 1)."""
    one = dtype.type(1)
    uniforms = floats_between(words, np.nextafter(-one, dtype.type(0)), one, shape, dtype)
    return mul.bind(dtype.type(math.sqrt(2)), erf_inv.bind(uniforms))


@compiled_program
def _truncated_normal(
    words: Any, low: Any, high: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any], tails: bool
) -> Any:
    """By the inverse of erf; with `tails`, where the bounds are both above 2 or below -2, by the smaller share.

    There erf is near 1 or -1, and takes few values: ten in float32 beyond 5. In exact arithmetic both ways agree.
    """
    root = dtype.type(math.sqrt(2))
    floats = unit_floats(words, shape, dtype)
    uniforms = _between(floats, erf.bind(div.bind(low, root)), erf.bind(div.bind(high, root)))
    numbers = mul.bind(root, erf_inv.bind(uniforms))
    if tails:
        above, below = ge.bind(low, dtype.type(2)), le.bind(high, dtype.type(-2))
        first, last = [ndtr(where(above, neg.bind(x), x)) for x in (low, high)]
        share = add.bind(first, mul.bind(floats, sub.bind(last, first)))
        at = ndtri(where(or_.bind(above, below), share, scalar_like(0.5, dtype)))
        numbers = where(above, neg.bind(at), where(below, at, numbers))
    inside = nextafter(low, high), nextafter(high, low)  # rounding must not reach the bounds
    return clamp.bind(inside[0], numbers, inside[1])


@compiled_program
def _exponential(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return exponential_floats(words, shape, dtype)


@in_a_row
def exponential_floats(words: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return -log(1 - u)."""
    return neg.bind(log1p.bind(neg.bind(unit_floats(words, shape, dtype))))


@compiled_program
def _gumbel(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any], high: bool) -> Any:
    return gumbel_floats(words, shape, dtype, high)


@in_a_row
def gumbel_floats(words: Any, shape: tuple[int, ...], dtype: np.dtype[Any], high: bool = False) -> Any:
    """Return -log(-log(u)) for u in (0, 1), or with `high` -log(-log(1 - u)) for a u of twice as many bits."""
    info, one = dtypes.finfo(dtype), dtype.type(1)
    tiny = dtype.type(info.tiny)
    if not high:
        return neg.bind(log.bind(neg.bind(log.bind(floats_between(words, tiny, one, shape, dtype)))))
    coarse, fine = _halves(floats_between(words, tiny, one, (2, *shape), dtype))
    finer = add.bind(coarse, mul.bind(fine, dtype.type(2.0**-info.nmant)))
    floats = where(lt.bind(coarse, dtype.type(0.5)), finer, coarse)  # from 0.5 on it might round to 1
    return neg.bind(log.bind(neg.bind(log1p.bind(neg.bind(floats)))))


def _halves(pair: Any) -> list[Any]:
    shape = aval_of(pair).shape[1:]
    return [reshape(slice_axis(pair, i, i + 1, 0), shape) for i in range(2)]


# --- booleans and integers --------------------------------------------------------------------------------


@array_function
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: Any = "low") -> Any:
    """Return True with probability `p`, which is broadcast to `shape` (by default the shape of `p`).

    With `mode="high"` numbers of twice as many bits are compared with p, so that probabilities near 0 are
    exact, too; it is slower than "low".

    >>> from didax import random
    >>> random.bernoulli(random.key(0), 0.3, (3,)).dtype
    dtype('bool')
    """
    p = narrowed_scalar(p)
    aval = aval_of(p)
    if not dtypes.is_float(aval.dtype):
        raise TypeError(
            message(
                "bernoulli takes a probability as a float.",
                f"p: {aval}",
                fix="Write 1.0 for 1, or cast it (p.astype).",
            )
        )
    if isinstance(p, float | np.generic | np.ndarray) and not np.all(
        (0 <= np.asarray(p)) & (np.asarray(p) <= 1)
    ):
        raise ValueError(
            message("A probability lies between 0 and 1.", f"p: {p}", fix="Clip or normalise it.")
        )
    words, shape, dtype = arguments("bernoulli", key, aval.shape if shape is None else shape, aval.dtype)
    (p,) = parameters("bernoulli", shape, dtype, p=p)
    return _bernoulli(words, p, shape=shape, dtype=dtype, high=is_high("bernoulli", mode))


@array_function
def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Return -1 or 1, with equal probability.

    >>> from didax import random
    >>> random.rademacher(random.key(0), (3,)).dtype
    dtype('int32')
    """
    dtype = dtypes.default_dtype("i") if dtype is None else dtypes.dtype(dtype)
    if dtypes.kind_of(dtype) not in "iufc":
        raise _dtype_error("rademacher", dtype, "numbers")
    return _rademacher(consumed("rademacher", key), shape=canonical_shape("rademacher", shape), dtype=dtype)


@array_function
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Return integers uniformly distributed in [minval, maxval), which are broadcast to `shape`.

    Bounds that are floats lose their fractions, as in a cast. A `maxval` above the largest integer of `dtype`
    includes this integer. Where no integer lies between the bounds, known bounds raise ValueError, if an
    integer is drawn, and traced bounds give `minval`.

    >>> from didax import random
    >>> int(random.randint(random.key(0), (), 5, 6))
    5
    """
    words = consumed("randint", key)
    shape = canonical_shape("randint", shape)
    dtype = dtypes.default_dtype("i") if dtype is None else dtypes.dtype(dtype)
    if not dtypes.is_integer(dtype) or dtypes.iinfo(dtype).bits < 8:
        raise _dtype_error("randint", dtype, "an integer dtype of 8 bits or more")
    if type(minval) is int and type(maxval) is int and minval < maxval:
        return _randint(words, *_bounds(minval, maxval, dtype), shape=shape, dtype=dtype)
    minval, maxval = _integer_bound("minval", minval), _integer_bound("maxval", maxval)
    if 0 not in shape:
        _check_interval(minval, maxval)
    low, high, beyond = _limited(minval, maxval, dtype)
    low, high = parameters("randint", shape, low.dtype, minval=low, maxval=high)
    return _randint(words, low, high, _broadcast(beyond, shape), shape=shape, dtype=dtype)


@functools.lru_cache(256)
def _bounds(minval: int, maxval: int, dtype: np.dtype[Any]) -> list[Any]:
    """The bounds as arrays, whose buffers are made once, also where only one of the bounds comes again."""
    return list(map(_kept_bound, _limited(minval, maxval, dtype)))


_kept_bound = functools.lru_cache(256, typed=True)(as_concrete)
on_clear(_bounds.cache_clear)
on_clear(_kept_bound.cache_clear)


def _limited(minval: Any, maxval: Any, dtype: np.dtype[Any]) -> tuple[Any, Any, Any]:
    """The bounds in the dtype of the computation, and whether its largest integer is included."""
    info, narrow = dtypes.iinfo(dtype), dtype.itemsize < 4
    inner = np.dtype(np.int32) if narrow else dtype  # 8 or 16 bits would favour some integers
    low, _ = _clipped(minval, info.min, info.max, inner)
    high, beyond = _clipped(maxval, info.min, info.max + narrow, inner)
    return low, high, np.bool_(False) if narrow else beyond


@exact_program
def _bernoulli(words: Any, p: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any], high: bool) -> Any:
    if not high:
        return lt.bind(unit_floats(words, shape, dtype), p)
    coarse, fine = _halves(unit_floats(words, (2, *shape), dtype))
    return lt.bind(mul.bind(fine, dtype.type(2.0 ** -dtypes.finfo(dtype).nmant)), sub.bind(p, coarse))


@exact_program
def _rademacher(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return signs(words, shape, dtype)


def signs(words: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return -1 or 1, with equal probability."""
    half = dtypes.default_dtype("f").type(0.5)
    heads = lt.bind(unit_floats(words, shape, half.dtype), half)
    return sub.bind(mul.bind(dtype.type(2), convert_element_type(heads, dtype)), dtype.type(1))


@exact_program
def _randint(
    words: Any, low: Any, high: Any, beyond: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    return convert_element_type(integers_between(words, low, high, beyond, shape), dtype)


def integers_between(words: Any, low: Any, high: Any, beyond: Any, shape: tuple[int, ...]) -> Any:
    """Return integers in [low, high), including the largest integer where `beyond` holds.

    Each integer takes two words, an upper and a lower one, which together are reduced modulo the span: this
    is nearly unbiased for spans of any size.
    """
    dtype = aval_of(low).dtype
    width = 8 * dtype.itemsize
    unsigned = np.dtype(f"uint{width}")
    one = unsigned.type(1)
    span = convert_element_type(sub.bind(high, low), unsigned)
    # A span of 0 stands for all integers: the remainder by 0 is the number itself.
    span = where(le.bind(high, low), one, where(beyond, add.bind(span, one), span))
    upper, lower = (random_bits_p.bind(child(words, i), shape=shape, bit_width=width) for i in range(2))
    half = rem.bind(unsigned.type(1 << (width // 2)), span)
    weight = rem.bind(mul.bind(half, half), span)  # 2 ** width modulo span
    offset = add.bind(mul.bind(_remainder(upper, span), weight), _remainder(lower, span))
    return add.bind(low, convert_element_type(_remainder(offset, span), dtype))


def _remainder(x: Any, span: Any) -> Any:
    """Return `x` modulo the span, or `x` where the span is 0.

    For words of 32 bits this is Barrett's reduction, by multiplication: processors have no vector division,
    and with scalar divisions XLA's loop, which contains the generator, takes four times as long.
    """
    wide, word = np.dtype(np.uint64), aval_of(x).dtype
    if word.itemsize == wide.itemsize:
        return rem.bind(x, span)
    x, span = convert_element_type(x, wide), convert_element_type(span, wide)
    inverse = div.bind(wide.type(1 << 32), span)
    quotient = shift_right_logical.bind(mul.bind(x, inverse), wide.type(32))  # exact, or one too small
    found = sub.bind(x, mul.bind(quotient, span))
    return convert_element_type(where(ge.bind(found, span), sub.bind(found, span), found), word)


# --- arguments --------------------------------------------------------------------------------------------


def common_shape(name: str, shape: Any, **values: Any) -> Any:
    """Return the given shape, or else the common shape of the parameters."""
    if shape is not None:
        return shape
    found = broadcast_lengths([aval_of(x).shape for x in values.values()])
    if found is None:
        raise ValueError(
            message(
                f"The parameters of {name} are broadcast together.",
                ", ".join(f"{parameter}: {aval_of(x)}" for parameter, x in values.items()),
                fix="Give them shapes that agree, or axes of length 1.",
            )
        )
    return found


def arguments(name: str, key: Any, shape: Any, dtype: Any, kinds: str = "f") -> tuple[Any, Any, Any]:
    """Return the words of the key, and the shape and dtype of the result, all checked."""
    words, shape = consumed(name, key), canonical_shape(name, shape)
    found = dtypes.default_dtype("f") if dtype is None else dtypes.dtype(dtype)
    _check_dtype(name, found, kinds)
    return words, shape, found


def dtype_of_counts(name: str, dtype: Any, default: Literal["i", "f"]) -> np.dtype[Any]:
    """The dtype of a result that holds counts: integers or floats, checked; `default` is the kind of the default."""
    found = dtypes.default_dtype(default) if dtype is None else dtypes.dtype(dtype)
    if dtypes.kind_of(found) not in "iuf":
        raise _dtype_error(name, found, "an integer or a floating-point dtype")
    return found


@functools.lru_cache  # remembers only what passes
def _check_dtype(name: str, dtype: np.dtype[Any], kinds: str) -> None:
    if dtypes.kind_of(dtype) not in kinds or dtypes.finfo(dtype).bits < 8:
        raise _dtype_error(
            name, dtype, "a floating-point dtype" if kinds == "f" else "a floating-point or complex dtype"
        )


def is_high(name: str, mode: Any) -> bool:
    """Whether the `mode` of the function `name` is "high"; None stands for "low"."""
    if mode not in (None, "low", "high"):
        raise ValueError(
            message(
                f"The mode of {name} says how finely it draws.",
                f"mode: {mode!r}",
                fix='Use "low", or "high" for tails of twice as many bits.',
            )
        )
    return mode == "high"


def _dtype_error(name: str, dtype: np.dtype[Any], wanted: str) -> ArgumentError:
    return ArgumentError(
        message(
            f"{name} draws {wanted}.", f"dtype: {dtype.name}", fix="Draw one of these, then cast (x.astype)."
        )
    )


def parameters(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], **values: Any) -> list[Any]:
    """Return parameters of a distribution in its dtype, broadcast to its shape; scalars stay scalars."""
    found: list[Any] = []
    traced = current_trace_var.get() is not eager_trace
    for parameter, x in values.items():
        if type(x) in _PYTHON_SCALARS and not traced:
            found.append(_scalar(x, x == 0 and math.copysign(1.0, x) < 0, dtype))
            continue
        aval = aval_of(x)
        if dtypes.is_complex(aval.dtype) and not dtypes.is_complex(dtype):
            rule = f"{name} takes real numbers as parameters: a cast would drop the imaginary part."
            raise ArgumentError(message(rule, f"{parameter}: {aval}", fix="Take its real part (x.real)."))
        fits = len(aval.shape) <= len(shape) and all(
            n in (1, m) for n, m in zip(aval.shape[::-1], shape[::-1], strict=False)
        )
        if not fits:
            raise ArgumentError(
                message(
                    f"The parameters of {name} are broadcast to the shape of the result.",
                    f"{parameter}: {aval}, shape: {shape}",
                    fix="Pass a larger shape, or a parameter whose axes have length 1 or that of the result.",
                )
            )
        x = scalar_like(x, dtype) if type(x) in _PYTHON_SCALARS else convert_element_type(x, dtype)
        # An array keeps its dtype in what follows; a NumPy scalar might be narrowed.
        found.append(_broadcast(x if isinstance(x, Array) else as_concrete(x), shape))
    return found


@functools.lru_cache(256, typed=True)
def _scalar(x: bool | int | float, is_negative_zero: bool, dtype: np.dtype[Any]) -> Any:
    """A Python scalar as an array, whose buffer is made once; negative zeros equal zeros, so the key says which."""
    return as_concrete(scalar_like(x, dtype))


on_clear(_scalar.cache_clear)


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    ndim = aval_of(x).ndim
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - ndim, len(shape)))) if ndim else x


def _integer_bound(name: str, bound: Any) -> Any:
    """Return a bound of randint; a float bound loses its fraction, as in a cast."""
    if is_symbolic(bound):
        return number(bound, dtypes.default_dtype("i"))
    dtype = aval_of(bound).dtype
    if dtypes.is_integer(dtype):
        return bound
    if not dtypes.is_float(dtype) or (isinstance(bound, float) and not np.isfinite(bound)):
        raise ArgumentError(
            message(
                "randint takes numbers as bounds, without an imaginary part.",
                f"{name}: {bound!r}",
                fix="Round and cast it (int(x), x.astype).",
            )
        )
    return int(bound) if isinstance(bound, float) else convert_element_type(bound, np.dtype(np.int32))


def _check_interval(minval: Any, maxval: Any) -> None:
    """Raise ValueError where bounds whose values are known leave no integer to draw."""
    if isinstance(minval, Tracer) or isinstance(maxval, Tracer):
        return
    low, high = np.broadcast_arrays(_exact(minval), _exact(maxval))
    if np.any(empty := low >= high):
        raise ValueError(
            message(
                "randint draws from minval up to, but not including, maxval: minval is to be less than maxval.",
                f"minval: {low[empty][0]}, maxval: {high[empty][0]}",
                fix="Raise maxval, or draw only where there is something to draw from.",
            )
        )


def _exact(bound: Any) -> np.ndarray[Any, Any]:
    """Return an integer of any size, or integers, for comparison with integers of any dtype."""
    return np.asarray(bound, object)


def _clipped(bound: Any, least: int, most: int, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return a bound of randint limited to [least, most] and cast, and whether it was above `most`."""
    if isinstance(bound, int | np.integer):
        number = int(bound)
        return dtype.type(min(max(number, least), most)), np.bool_(number > most)
    own = aval_of(bound).dtype
    least, most = max(least, int(dtypes.iinfo(own).min)), min(most, int(dtypes.iinfo(own).max))
    clipped = clamp.bind(own.type(least), bound, own.type(most))
    return convert_element_type(clipped, dtype), gt.bind(bound, own.type(most))
