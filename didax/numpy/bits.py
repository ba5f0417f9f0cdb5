"""Bits of integers: packed into bytes and unpacked.

Read next: `ufuncs.py` (`bitwise_and`, `left_shift`, `bitwise_count`).
"""

from __future__ import annotations

import operator

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import check_choice, message
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.creation import arange
from didax.numpy.manipulation import flip, moveaxis, ravel, reshape
from didax.numpy.padding import pad
from didax.numpy.promotion import ArrayLike, as_array, cast
from didax.numpy.reductions import canonical_axis
from didax.numpy.reductions import sum as array_sum
from didax.numpy.ufunc import truth
from didax.primitives.slicing import slice_axis

__all__ = ["packbits", "unpackbits"]

_BYTE = np.dtype(np.uint8)


def _weights(name: str, bitorder: str) -> Array:
    """Return the place values of the bits of a byte, in the order in which the bits are read."""
    check_choice(name, "bitorder", bitorder, "big", "little")
    places = arange(8, dtype="uint8")
    return flip(places) if bitorder == "big" else places


@evaluated_whole
@array_function
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack the truth values of each eight elements into one byte, along an axis (of the ravelled array by default).

    Zeros fill up the last byte.

    >>> import didax.numpy as dnp
    >>> dnp.packbits(dnp.array([1, 0, 1, 0, 0, 0, 0, 0, 1]))
    Array([160, 128], dtype=uint8)
    """
    places = _weights("packbits", bitorder)
    x = as_array("packbits", a, "a")
    if dtypes.is_inexact(x.dtype):
        raise TypeError(
            message("packbits takes booleans and integers.", f"a: {x.aval}", fix="Compare first (a > 0).")
        )
    if axis is None:
        x, axis = ravel(x), 0
    dimension = canonical_axis("packbits", axis, x.ndim)
    bits = moveaxis(truth(x).astype(_BYTE), dimension, -1)
    count = (bits.shape[-1] + 7) // 8
    bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, 8 * count - bits.shape[-1])])
    groups = reshape(bits, (*bits.shape[:-1], count, 8))
    return moveaxis(array_sum(ufuncs.left_shift(groups, places), axis=-1, dtype=_BYTE), -1, dimension)


@evaluated_whole
@array_function
def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Unpack each byte into its eight bits, along an axis (of the ravelled array by default), and keep `count` bits.

    A negative `count` leaves out this number of bits at the end; where there are fewer bits than `count`,
    zeros follow. TypeError for dtypes other than uint8.

    >>> import didax.numpy as dnp
    >>> dnp.unpackbits(dnp.array([160], "uint8"), count=4)
    Array([1, 0, 1, 0], dtype=uint8)
    """
    places = _weights("unpackbits", bitorder)
    x = as_array("unpackbits", a, "a")
    if x.dtype != _BYTE:
        raise TypeError(message("unpackbits takes bytes.", f"a: {x.aval}", fix="Use dtype uint8."))
    if axis is None:
        x, axis = ravel(x), 0
    dimension = canonical_axis("unpackbits", axis, x.ndim)
    x = moveaxis(x, dimension, -1)
    masks = ufuncs.left_shift(np.uint8(1), places)  # not shifts of x: processors shift no vectors of bytes
    bits = cast(ufuncs.not_equal(ufuncs.bitwise_and(x[..., None], masks), np.uint8(0)), _BYTE)
    bits = reshape(bits, (*x.shape[:-1], x.shape[-1] * 8))
    if count is not None:
        length = bits.shape[-1]
        wanted = operator.index(count)
        wanted = wanted if wanted >= 0 else max(length + wanted, 0)
        bits = slice_axis(bits, 0, min(wanted, length), bits.ndim - 1)
        bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, max(wanted - length, 0))])
    return moveaxis(bits, -1, dimension)
