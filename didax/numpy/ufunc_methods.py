"""Methods of ufuncs along an axis: `reduce`, `accumulate`, `reduceat`, `at`, `outer`; and `frompyfunc`.

    dnp.maximum.accumulate(x)        dnp.subtract.outer(x, y)        dnp.frompyfunc(f, 2, 1).reduce(x)

Where the library has the operation (`add.reduce` is `sum`) the method calls it. Functions known to be
associative are applied in a tree, all other functions from left to right in a loop. The methods are attached
to the class of `ufunc.py`. Read next: `reductions.py`, `didax/lax/loops.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.api.flat import check_callable
from didax.api.inspect import eval_shape
from didax.api.results import array_function
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.given import give
from didax.core.tracing import known_value
from didax.core.value import Array
from didax.lax.loops import associative_scan, scan
from didax.numpy import reductions, ufuncs
from didax.numpy.functional import vectorize
from didax.numpy.indexing import at as indexed
from didax.numpy.indexing import getitem
from didax.numpy.joining import concatenate
from didax.numpy.manipulation import expand_dims, moveaxis, ravel, reshape
from didax.numpy.promotion import ArrayLike, DTypeLike, as_array, broadcast, cast, no_out
from didax.numpy.reductions import canonical_axes, canonical_axis
from didax.numpy.selection import take
from didax.numpy.ufunc import ufunc

__all__ = ["frompyfunc"]

_REDUCTIONS: dict[ufunc, Callable[..., Array]] = {
    ufuncs.add: reductions.sum,
    ufuncs.multiply: reductions.prod,
    ufuncs.maximum: reductions.max,
    ufuncs.minimum: reductions.min,
}
_TOTALS = {ufuncs.add: reductions.cumsum, ufuncs.multiply: reductions.cumprod}
_UPDATES = {  # methods of `x.at[...]`
    ufuncs.add: "add",
    ufuncs.subtract: "subtract",
    ufuncs.multiply: "multiply",
    ufuncs.maximum: "max",
    ufuncs.minimum: "min",
}
_IDENTITIES: dict[ufunc, Any] = {
    ufuncs.add: 0,
    ufuncs.multiply: 1,
    ufuncs.bitwise_and: -1,
    ufuncs.bitwise_or: 0,
    ufuncs.bitwise_xor: 0,
    ufuncs.gcd: 0,
    ufuncs.logaddexp: -math.inf,
    ufuncs.logaddexp2: -math.inf,
    ufuncs.logical_and: True,
    ufuncs.logical_or: False,
    ufuncs.logical_xor: False,
}
# Associative and commutative functions: every order of pairs gives the same result.
_IN_ANY_ORDER = {*_IDENTITIES, ufuncs.fmax, ufuncs.fmin, ufuncs.maximum, ufuncs.minimum}


def _check_binary(function: ufunc, method: str) -> None:
    if (function.nin, function.nout) != (2, 1):
        facts = f"{function.__name__}: operands: {function.nin}, results: {function.nout}"
        fix = "Call the function on arrays."
        raise ValueError(message(f"{method} is of functions of two operands and one result.", facts, fix=fix))


def _elements(function: ufunc, method: str, a: Any, dtype: DTypeLike) -> Array:
    """Return the array in a dtype in which results of the function can be operands again."""
    _check_binary(function, method)
    x = as_array(method, a, "a")
    x = x if dtype is None else cast(x, np.dtype(dtype))
    element = cast(as_array(method, 0), x.dtype)
    return cast(x, eval_shape(function, element, element).dtype)


def _identity(function: ufunc, dtype: np.dtype[Any]) -> Any:
    return None if function.identity is None else np.asarray(function.identity).astype(dtype)[()]


# --- along an axis ------------------------------------------------------------------------------------------


@array_function
def reduce(
    self: ufunc, a: ArrayLike, axis: Any = 0, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Apply the function between all elements along axes (the first axis by default), from the left.

    Where the function has no identity, arrays without elements need an `initial` value, and so does `where`.

    >>> import didax.numpy as dnp
    >>> dnp.logaddexp.reduce(dnp.zeros(4)).round(3)
    Array(1.386, dtype=float32)
    """
    no_out(f"{self.__name__}.reduce", out)
    given = {"axis": axis, "keepdims": keepdims, "initial": initial, "where": where}
    found = _REDUCTIONS.get(self)
    if found is not None and self in _TOTALS:
        return found(a, dtype=dtype, **given)
    if found is not None and (where is None or initial is not None):
        return found(_elements(self, "reduce", a, dtype), **given)
    x = _elements(self, "reduce", a, dtype)
    axes = canonical_axes("reduce", axis, x.ndim)
    result = _reduced(self, _merged(x, axes), initial, None if where is None else _mask(where, x, axes))
    return expand_dims(result, axes) if keepdims else result


def _merged(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the array with the axes merged into one axis, which is the first."""
    rest = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    return reshape(moveaxis(x, axes, tuple(range(len(axes)))), (math.prod([x.shape[i] for i in axes]), *rest))


def _mask(where: Any, x: Array, axes: tuple[int, ...]) -> Array:
    return _merged(broadcast(cast(as_array("reduce", where, "where"), np.dtype(np.bool_)), x.shape), axes)


def _reduced(function: ufunc, rows: Array, initial: Any, mask: Array | None) -> Array:
    identity = _identity(function, rows.dtype)
    start = identity if initial is None else cast(as_array("reduce", initial, "initial"), rows.dtype)
    if start is None and (mask is not None or not rows.shape[0]):
        rule = f"{function.__name__} has no identity, which a reduction of no elements is."
        raise ValueError(message(rule, f"a: {rows.aval}", fix="Pass initial, the value to start from."))
    if function in _IN_ANY_ORDER and identity is not None:
        rows = rows if mask is None else ufuncs.where(mask, rows, identity)
        total = (
            _in_pairs(function, rows)
            if rows.shape[0]
            else broadcast(as_array("reduce", identity), rows.shape[1:])
        )
        return total if initial is None else function(start, total)
    if start is None:
        return scan(lambda total, row: (function(total, row), None), rows[0], rows[1:])[0]
    mask = broadcast(np.bool_(True), (rows.shape[0],) + (1,) * (rows.ndim - 1)) if mask is None else mask
    return scan(
        lambda total, row: (ufuncs.where(row[1], function(total, row[0]), total), None),
        broadcast(start, rows.shape[1:]), (rows, mask),
    )[0]  # fmt: skip


def _in_pairs(function: ufunc, rows: Array) -> Array:
    while (length := rows.shape[0]) > 1:
        half = length // 2
        rows = concatenate([function(rows[:half], rows[half : 2 * half]), rows[2 * half :]])
    return rows[0]


@array_function
def accumulate(self: ufunc, a: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None) -> Array:
    """Return the results of `reduce` over the elements up to each element along an axis.

    >>> import didax.numpy as dnp
    >>> dnp.maximum.accumulate(dnp.array([1, 3, 2]))
    Array([1, 3, 3], dtype=int32)
    """
    no_out(f"{self.__name__}.accumulate", out)
    if self in _TOTALS:
        return _TOTALS[self](a, axis, dtype)
    x = _elements(self, "accumulate", a, dtype)
    dimension = canonical_axis("accumulate", axis, x.ndim)
    if self in _IN_ANY_ORDER or not x.shape[dimension]:
        return associative_scan(self, x, axis=dimension)
    rows = moveaxis(x, dimension, 0)

    def step(total: Array, row: Array) -> tuple[Array, Array]:
        total = self(total, row)
        return total, total

    _, totals = scan(step, rows[0], rows[1:])
    return moveaxis(concatenate([rows[:1], totals]), 0, dimension)


@array_function
def reduceat(
    self: ufunc, a: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None
) -> Array:
    """Apply `reduce` to parts along an axis: from each index up to the next.

    Where the next index is not larger, the part is one element.

    >>> import didax.numpy as dnp
    >>> dnp.add.reduceat(dnp.arange(8), dnp.array([0, 4, 1, 5]))
    Array([ 6,  4, 10, 18], dtype=int32)
    """
    no_out(f"{self.__name__}.reduceat", out)
    x = _elements(self, "reduceat", a, dtype)
    dimension = canonical_axis("reduceat", axis, x.ndim)
    rows, starts = moveaxis(x, dimension, 0), _starts(indices, x.shape[dimension])
    stops = concatenate([starts[1:], cast(as_array("reduceat", rows.shape[0]), starts.dtype)[None]])
    columns = (starts.shape[0],) + (1,) * (rows.ndim - 1)

    def step(totals: Array, row: Any) -> tuple[Array, None]:
        number, element = row
        is_inside = ufuncs.logical_and(number > starts, number < stops)
        return ufuncs.where(reshape(is_inside, columns), self(totals, element), totals), None

    numbers = cast(as_array("reduceat", np.arange(rows.shape[0])), starts.dtype)
    totals, _ = scan(step, take(rows, starts, 0), (numbers, rows))
    return moveaxis(totals, 0, dimension)


def _starts(indices: Any, length: int) -> Array:
    starts = as_array("reduceat", indices, "indices")
    if starts.ndim != 1 or starts.dtype.kind not in "iu" or not starts.shape[0]:
        fix = "Pass where each part starts."
        raise ValueError(message("reduceat takes a vector of positions.", f"indices: {starts.aval}", fix=fix))
    known = known_value(starts)
    if known is not None and not 0 <= np.min(np.asarray(known)) <= np.max(np.asarray(known)) < length:
        fact = f"indices: {np.asarray(known)}, axis of length {length}"
        raise IndexError(
            message("reduceat takes positions within the axis.", fact, fix="Check the positions.")
        )
    return cast(starts, np.dtype(np.int32))


# --- at positions, and of all pairs -------------------------------------------------------------------------


@api_boundary
def at(self: ufunc, a: ArrayLike, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Array:
    """Return the array with the function applied to the elements at `indices` (and `b`), repeatedly where one repeats.

    Arrays are immutable: the result is a new array, and `inplace=False` confirms this.

    >>> import didax.numpy as dnp
    >>> dnp.add.at(dnp.zeros(3), dnp.array([0, 0, 2]), 1.0, inplace=False)
    Array([2., 0., 1.], dtype=float32)
    """
    if inplace:
        fix = "Pass inplace=False, and use the result."
        rule = f"{self.__name__}.at cannot write into an array: arrays are immutable."
        raise NotImplementedError(message(rule, "inplace: True", fix=fix))
    if (b is None) != (self.nin == 1) or self.nin > 2 or self.nout != 1:
        fix = "Pass b, the second operand, to functions of two, and only to these."
        facts = f"operands: {self.nin}, results: {self.nout}, b: {'none' if b is None else 'given'}"
        raise TypeError(message(f"{self.__name__}.at takes an operand more for each index.", facts, fix=fix))
    x = as_array("at", a, "a")
    if self in _UPDATES:
        return getattr(indexed(x)[indices], _UPDATES[self])(b)
    return _one_by_one(self, x, indices, b)


def _one_by_one(function: ufunc, x: Array, indices: Any, b: Any) -> Array:
    numbers = reshape(as_array("at", np.arange(x.size, dtype=np.int32)), x.shape)
    places = getitem(numbers, indices)
    operands = () if b is None else (ravel(broadcast(as_array("at", b, "b"), places.shape)),)

    def step(flat: Array, row: tuple[Array, ...]) -> tuple[Array, None]:
        place, *rest = row
        return indexed(flat)[place].set(cast(function(getitem(flat, place), *rest), x.dtype)), None

    flat, _ = scan(step, ravel(x), (ravel(places), *operands))
    return reshape(flat, x.shape)


@api_boundary
def outer(self: ufunc, A: ArrayLike, B: ArrayLike, /) -> Array:
    """Return the function of every element of `A` with every element of `B`; the axes of `A` come first.

    >>> import didax.numpy as dnp
    >>> dnp.multiply.outer(dnp.array([1, 2]), dnp.array([3, 4, 5]))
    Array([[ 3,  4,  5],
           [ 6,  8, 10]], dtype=int32)
    """
    _check_binary(self, "outer")
    x, y = as_array("outer", A, "A"), as_array("outer", B, "B")
    return self(reshape(x, x.shape + (1,) * y.ndim), y)


for _method in (reduce, accumulate, reduceat, at, outer):
    give(ufunc, _method.__name__, __name__)(_method)
for _function, _value in _IDENTITIES.items():
    _function.identity = _value


# --- Python functions ---------------------------------------------------------------------------------------


class frompyfunc(ufunc):
    """Make a ufunc of a function of `nin` scalars that returns `nout` scalars.

    It applies the function element by element to arrays, which broadcast.

    It has the methods of the library's ufuncs. `identity` is the value of a reduction of no elements.

    >>> import didax.numpy as dnp
    >>> horner = dnp.frompyfunc(lambda total, digit: 10 * total + digit, 2, 1)
    >>> horner.reduce(dnp.array([1, 2, 3]))
    Array(123, dtype=int32)
    """

    def __init__(self, func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None):
        check_callable("frompyfunc", func)
        for name, count in ("nin", nin), ("nout", nout):
            if not isinstance(count, int | np.integer) or count < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
                rule = "frompyfunc takes the numbers of a function's arguments and results, at least one of each."
                raise ArgumentError(message(rule, f"{name}: {count!r:.100}", fix="Pass ints from 1 on."))
        super().__init__(getattr(func, "__name__", "function"), nin, func.__doc__ or "")
        self.nout, self.identity = nout, identity
        self._vectorized = vectorize(func)

    @api_boundary
    def __call__(self, *args: Any) -> Any:
        """Apply the function to arrays and scalars, elementwise with broadcasting."""
        if len(args) != self.nin:
            raise self._wrong_count(args)
        return self._vectorized(*args)
