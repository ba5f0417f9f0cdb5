"""Where numbers belong in a sorted vector: the search behind `searchsorted`, `digitize`, `isin` and `histogram`.

Each of the values walks from the beginning of the vector in strides that halve: it takes a stride if the last element
that the stride passes over sorts before it. Real numbers are compared as integers in the order of `sort`, where NaN is
the greatest, -0.0 is equal to 0.0, and denormal numbers differ from 0, which XLA's comparisons of floats do not see.
Milliseconds of processor time (an AMD EPYC with other load, jaxlib 0.10.2), compared with a search that moves two
bounds and compares floats:

    vector, values           bounds   strides
    10,000, 1,000,000        305      20
    100, 1,000,000           26       8.2
    1,000,000, 10,000        8.3      4.6

Read next: `selection.py`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from didax.api.numpy_functions import computed_by
from didax.core import dtypes
from didax.core.dims import is_symbolic, longest
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.indexing import at
from didax.numpy.promotion import broadcast, cast
from didax.primitives import elementwise as el
from didax.primitives.convert import bitcast_convert_type_p, materialize_p, stop_gradient_p
from didax.primitives.dimension import number
from didax.primitives.slicing import concatenate

_MANY = 1024  # values: then all keys are written to memory, not computed at each stride
_INT32 = np.dtype(np.int32)
_FLOAT32 = np.dtype(np.float32)


def _by_numpy(x: Any, values: Any, *, side: Literal["left", "right"]) -> Any:
    return np.asarray(np.searchsorted(x, values, side), dtypes.position_dtype(len(x) + 1))


@computed_by(_by_numpy, of_weak_types=True)
def insertion_points(x: Array, values: Array, *, side: Literal["left", "right"]) -> Array:
    """The position of each value in the sorted vector: before elements equal to it ("left") or after them ("right")."""
    length = x.shape[0]
    strides = [1 << i for i in reversed(range(longest(length).bit_length()))]
    # A search that meets fewer elements than the vector has leaves the vector as it is. Otherwise, the vector is padded
    # with the greatest key.
    count = 1 << 30 if is_symbolic(values.size) else max(1, values.size)
    are_many = _MANY <= count < 1 << 30
    is_long = dtypes.is_complex(x.dtype) or longest(length) > min(count * len(strides), 1 << 30)
    if not dtypes.is_complex(x.dtype):
        values = _in_order(values)
        if strides and are_many:
            # Each stride reads the keys of the values, and without this would compute them again.
            (values,) = materialize_p.bind(values)
    if strides and not is_long:
        x = _in_order(x)
        rest = broadcast(x.dtype.type(np.iinfo(x.dtype).max), (2 * strides[0] - 1 - length,))
        x = concatenate([x, rest], 0)
        if are_many:
            # The gathers would join and turn what they read, one element at a time.
            (x,) = materialize_p.bind(x)
    kind = dtypes.position_dtype(length + 1)
    found = broadcast(kind.type(0), values.shape)
    for stride in strides:
        room = number(length - stride, kind)
        last = el.add(el.min_(found, room) if is_long else found, stride - 1)
        met = at(x)[last].get(mode="promise_in_bounds", wrap_negative_indices=False)
        passes = _is_passed(met, values, side, is_long)
        if is_long:
            passes = el.and_(passes, el.le(found, room))
        found = el.add(found, ufuncs.where(passes, kind.type(stride), kind.type(0)))
    return ufuncs.minimum(found, number(length, kind))


def _is_passed(met: Array, values: Array, side: str, as_numbers: bool) -> Any:
    """Whether an element comes before the value; `as_numbers`: the element is not a key yet."""
    if dtypes.is_complex(met.dtype):
        return _sorts_before(met, values) if side == "left" else el.not_(_sorts_before(values, met))
    met = _in_order(met) if as_numbers else met
    return el.lt(met, values) if side == "left" else el.le(met, values)


def _in_order(x: Array) -> Array:
    """Integers in the order in which `sort` puts the real numbers `x`."""
    if not dtypes.is_float(x.dtype):
        return cast(x, _INT32) if x.dtype.itemsize < _INT32.itemsize else x
    x = stop_gradient_p.bind(x if x.dtype.itemsize >= _FLOAT32.itemsize else cast(x, _FLOAT32))
    bits = bitcast_convert_type_p.bind(x, new_dtype=np.dtype(f"int{8 * x.dtype.itemsize}"))
    greatest = np.iinfo(bits.dtype).max
    magnitude = el.and_(bits, greatest)
    key = ufuncs.where(el.lt(bits, 0), el.neg(magnitude), magnitude)
    return ufuncs.where(ufuncs.isnan(x), greatest, key)


def _sorts_before(x: Array, y: Array) -> Any:
    """Whether one complex number comes before another: first by the real part, NaN last."""
    return el.or_(ufuncs.less(x, y), el.and_(ufuncs.isnan(y), el.not_(ufuncs.isnan(x))))
