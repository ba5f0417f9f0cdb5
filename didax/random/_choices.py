"""Functions that draw from a set: permutations, choices with and without replacement, categories given by logits.

Read next: `_samplers.py`, whose distributions these use.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import aval_of, is_array_like
from didax.core.dims import broadcast_lengths, is_symbolic, min_dim
from didax.core.errors import PositionError, message
from didax.core.tracing import Tracer
from didax.lax.loops import scan
from didax.numpy.bisection import insertion_points
from didax.numpy.promotion import promote_dtypes
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.cumulative import cumsum_p
from didax.primitives.dimension import number
from didax.primitives.elementwise import add, log, mul, sub
from didax.primitives.gather import gather_p
from didax.primitives.random_bits import random_bits_p
from didax.primitives.reductions import argmax_p
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import slice_axis
from didax.primitives.sort import sort_p, top_k_p
from didax.primitives.window_positions import GatherDimensionNumbers, GatherScatterMode
from didax.random._keys import aval_named, canonical_shape, child, consumed
from didax.random._programs import compiled_program, exact_program
from didax.random._samplers import arguments, gumbel_floats, is_high, randint, unit_floats, written


@array_function
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """Return the elements of `x` along `axis` (or the integers 0 to x - 1) in random order.

    Slices of an array stay together; with `independent` each vector along the axis gets its own order.

    >>> from didax import random
    >>> sorted(np.asarray(random.permutation(random.key(0), 4)).tolist())
    [0, 1, 2, 3]
    """
    words = consumed("permutation", key)
    if is_symbolic(x):
        return _shuffled_range(words, shape=(x,), dtype=dtypes.default_dtype("i"))
    aval = aval_named("permutation", "x", x)
    if aval.ndim == 0:
        if not dtypes.is_integer(aval.dtype) or isinstance(x, Tracer):
            raise TypeError(
                message(
                    "permutation takes an array with an axis to permute, or a static integer.",
                    f"x: {aval}{', traced' if isinstance(x, Tracer) else ''}",
                    fix="Pass an array of at least one axis, or an int that is known while tracing.",
                )
            )
        n = canonical_shape("permutation", int(x))
        return _shuffled_range(words, shape=n, dtype=dtypes.default_dtype("i"))
    axis = _axis("permutation", axis, aval.ndim)
    if independent or aval.ndim == 1:
        return _shuffled(words, x, shape=aval.shape, axis=axis)
    if aval.shape[axis] == 0:
        return slice_axis(x, 0, 0, axis)
    order = _shuffled_range(words, shape=(aval.shape[axis],), dtype=dtypes.default_dtype("i"))
    return _take(x, order, axis)


@array_function
def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: Any = None,
) -> Any:
    """Return elements of `a` along `axis` (or of 0 to a - 1), drawn uniformly or with probabilities `p`.

    The axes of `shape` replace the axis. Without replacement, more draws than elements raise ValueError; if there are
    probabilities, these draws take Gumbel noise, with the `mode` of `gumbel`.

    >>> from didax import random
    >>> random.choice(random.key(0), np.arange(10.0), (2, 3), replace=False).shape
    (2, 3)
    """
    words, shape = consumed("choice", key), canonical_shape("choice", shape)
    if not is_array_like(a) and not is_symbolic(a):
        rule = "choice draws from an array, or from the integers below a number."
        fix = "Convert it with didax.numpy.asarray; where it holds no numbers, draw positions: choice(key, len(a))."
        raise TypeError(message(rule, f"a: {a!r:.100} of type {type(a).__name__}", fix=fix))
    aval = aval_of(number(a, dtypes.default_dtype("i")) if is_symbolic(a) else a)
    axis = _axis("choice", axis, aval.ndim) if aval.ndim else 0
    n, size = aval.shape[axis] if aval.ndim else a if is_symbolic(a) else int(a), math.prod(shape)
    if (n <= 0 and size) or not (replace or n >= size):
        raise ValueError(
            message(
                "Without replacement choice draws at most all elements; it draws none from an empty axis.",
                f"a: {aval if aval.ndim else a}, elements: {n}, shape: {shape}, replace: {replace}",
                fix="Draw fewer, or with replace=True from at least one.",
            )
        )
    high = is_high("choice", mode)
    if p is None and not replace:
        order = permutation(key, a, axis) if aval.ndim else permutation(key, n)
        drawn = slice_axis(order, 0, size, axis)
        return reshape(drawn, (*aval.shape[:axis], *shape, *aval.shape[axis + 1 :]))
    if p is not None:
        p = _probabilities(p, n)
    if p is None or n <= 0:
        indices = randint(key, shape, 0, n)
    else:
        indices = (
            _draw_with_replacement(words, p, shape=shape)
            if replace
            else _draw_without_replacement(words, p, shape=shape, high=high)
        )
    return _take(a, indices, axis) if aval.ndim else indices


@array_function
def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: Any = None,
) -> Any:
    """Return positions along `axis`, drawn with probabilities proportional to exp(logits).

    `shape` ends in the shape of the logits without the axis, which is also its default; leading axes are
    further draws, which are distinct with `replace=False`. With replacement axes of length 1 may become longer: these
    are further draws, too. `mode` is the `mode` of `gumbel`.

    >>> from didax import random
    >>> random.categorical(random.key(0), np.zeros((3, 4), "float32"), shape=(5, 3)).shape
    (5, 3)
    """
    aval = aval_named("categorical", "logits", logits)
    axis = _axis("categorical", axis, aval.ndim)
    batch = aval.shape[:axis] + aval.shape[axis + 1 :]
    words, shape, _ = arguments("categorical", key, batch if shape is None else shape, aval.dtype)
    extra = len(shape) - len(batch)
    own = shape[extra:] if extra >= 0 else ()
    if len(own) < len(batch) or own != (broadcast_lengths([own, batch]) if replace else batch):
        raise ValueError(
            message(
                "The shape of categorical ends in the shape of the logits without the axis drawn from, or with "
                "replacement in one that this broadcasts to.",
                f"logits: {aval}, axis: {axis}, shape: {shape}",
                fix=f"Pass a shape that ends in {batch}.",
            )
        )
    dtype, high = dtypes.default_dtype("i"), is_high("categorical", mode)
    if replace:
        shape = (*shape[: extra + axis], aval.shape[axis], *own[axis:])
        return _categorical(words, logits, shape=shape, dtype=dtype, axis=axis + extra, high=high)
    if not aval.shape[axis] >= math.prod(shape[:extra]):
        raise ValueError(
            message(
                "Without replacement categorical draws each position at most once.",
                f"logits: {aval}, axis: {axis}, shape: {shape}, draws: {math.prod(shape[:extra])}",
                fix=f"Draw at most {aval.shape[axis]}, or with replace=True.",
            )
        )
    return _categories_without_replacement(words, logits, shape=shape, dtype=dtype, axis=axis, high=high)


@exact_program
def _shuffled_range(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return shuffle(words, iota(dtype, shape, 0), 0)


@exact_program
def _shuffled(words: Any, x: Any, *, shape: tuple[int, ...], axis: int) -> Any:
    return shuffle(words, x, axis)


def shuffle(words: Any, x: Any, axis: int) -> Any:
    """Sort `x` along the axis by random 32-bit keys, often enough to make ties of keys harmless."""
    shape, size = aval_of(x).shape, aval_of(x).size

    def once(state: tuple[Any, Any], _: Any) -> tuple[Any, None]:
        words, x = state
        words, used = child(words, 0), child(words, 1)
        # As parts of wide numbers they cost twice.
        keys = written(random_bits_p.bind(used, shape=shape, bit_width=32))
        return (words, sort_p.bind(keys, x, dimension=axis, is_stable=True, num_keys=1)[1]), None

    if is_symbolic(size):
        return scan(once, (words, x), length=_symbolic_rounds(size))[0][1]
    for _ in range(math.ceil(3 * math.log(max(1, size)) / math.log(0xFFFFFFFF))):
        (words, x), _none = once((words, x), None)
    return x


def _symbolic_rounds(size: Any) -> Any:
    """How often `shuffle` sorts: once more above each power of the cube root of the number of keys."""
    ends = [int(0xFFFFFFFF ** (i / 3)) for i in range(6)]  # more elements than 2**53 no machine holds
    return sum([min_dim(size // (end + 1), 1) for end in ends])


@compiled_program
def _draw_with_replacement(words: Any, p: Any, *, shape: tuple[int, ...]) -> Any:
    """Return positions in the cumulative distribution, of uniform numbers in (0, 1]."""
    total = cumsum_p.bind(p, axis=0, reverse=False)
    n, dtype = aval_of(p).shape[0], aval_of(p).dtype
    uniforms = sub.bind(dtype.type(1), unit_floats(words, shape, dtype))
    last = reshape(slice_axis(total, n - 1, n, 0), ())
    found = insertion_points(total, written(mul.bind(uniforms, last)), side="left")
    return convert_element_type(found, dtypes.default_dtype("i"))


@compiled_program
def _draw_without_replacement(words: Any, p: Any, *, shape: tuple[int, ...], high: bool) -> Any:
    """Draw without replacement: take the positions of the largest log(p) + Gumbel noise."""
    aval = aval_of(p)
    noisy = add.bind(gumbel_floats(words, aval.shape, aval.dtype, high), log.bind(p))
    _, indices = top_k_p.bind(noisy, k=math.prod(shape), axis=0)
    return convert_element_type(reshape(indices, shape), dtypes.default_dtype("i"))


@compiled_program
def _categorical(
    words: Any, logits: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any], axis: int, high: bool
) -> Any:
    aval = aval_of(logits)
    wide = broadcast_in_dim(logits, shape, tuple(range(len(shape) - aval.ndim, len(shape))))
    noisy = add.bind(written(gumbel_floats(words, shape, aval.dtype, high)), wide)
    return argmax_p.bind(noisy, axes=(axis,), index_dtype=dtype)


@compiled_program
def _categories_without_replacement(
    words: Any, logits: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any], axis: int, high: bool
) -> Any:
    """Draw without replacement: take the positions of the largest logits + Gumbel noise."""
    aval = aval_of(logits)
    noisy = add.bind(gumbel_floats(words, aval.shape, aval.dtype, high), logits)
    count = math.prod(shape[: len(shape) - aval.ndim + 1])
    _, indices = top_k_p.bind(array_ops.move_axis(noisy, axis, 0), k=count, axis=0)
    return convert_element_type(reshape(indices, shape), dtype)


@evaluated_whole
def _take(x: Any, indices: Any, axis: int) -> Any:
    """Return slices of `x` along the axis at `indices`, which are clipped; the axes of `indices` replace the axis."""
    shape, found = aval_of(x).shape, aval_of(indices)
    offsets = [i if i < axis else i + found.ndim - 1 for i in range(len(shape)) if i != axis]
    return gather_p.bind(
        x,
        reshape(indices, (*found.shape, 1)),
        dimension_numbers=GatherDimensionNumbers(tuple(offsets), (axis,), (axis,)),
        slice_sizes=tuple(1 if i == axis else n for i, n in enumerate(shape)),
        mode=GatherScatterMode.CLIP,
        fill_value=None,
        indices_are_sorted=False,
        unique_indices=False,
    )


def _axis(name: str, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise PositionError(
            message(
                f"{name} takes an axis of its array.",
                f"axis: {axis}, axes: {ndim}",
                fix=f"Choose one from {-ndim} to {ndim - 1}."
                if ndim
                else "Pass an array with at least one axis.",
            )
        )
    return axis % ndim


def _probabilities(p: Any, n: int) -> Any:
    """The weights of the elements as floats; integers and booleans count as such."""
    aval = aval_named("choice", "p", p)
    if aval.shape != (n,) or dtypes.is_complex(aval.dtype):
        raise ValueError(
            message(
                "The probabilities of choice are real numbers, one for each element.",
                f"p: {aval}, elements: {n}",
                fix=f"Pass a float array of shape ({n},).",
            )
        )
    return p if dtypes.is_float(aval.dtype) else promote_dtypes("choice", p, to_inexact=True)[0]
