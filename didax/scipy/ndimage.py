"""Arrays as samples of functions of several variables: `map_coordinates`.

Between samples the function is linear along each axis (order 1), or that of the nearest sample (order 0).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import didax.numpy as dnp
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import ArgumentError, check_choice, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.lax.elementwise import round as round_to_nearest
from didax.numpy.promotion import ArrayLike, as_array
from didax.scipy._lists import of_list

__all__ = ["map_coordinates"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


def _reflected(i: Any, n: int) -> Any:
    """... 1 0 | 0 1 ... n-1 | n-1 ..."""
    j = i % (2 * n)
    return dnp.where(j < n, j, 2 * n - 1 - j)


def _mirrored(i: Any, n: int) -> Any:
    """... 2 1 | 0 1 ... n-1 | n-2 ..."""
    period = max(2 * (n - 1), 1)
    j = i % period
    return dnp.where(j < n, j, period - j)


_MODES: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda i, n: dnp.clip(i, 0, n - 1),
    "nearest": lambda i, n: dnp.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": _mirrored,
    "reflect": _reflected,
}


@evaluated_whole
@array_function
def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """Return the values of an array at positions between its elements, one array of coordinates for each axis.

    `order` is 0 (nearest) or 1 (linear). Beyond the ends the `mode` is "constant" (`cval`), "nearest", "wrap" (from the
    first element again), "mirror" or "reflect" (without or with the last element repeated). Integers are rounded.

    >>> from didax.scipy import ndimage
    >>> ndimage.map_coordinates(dnp.array([1.0, 2.0, 4.0]), [dnp.array([0.5, 1.5])], order=1)
    Array([1.5, 3. ], dtype=float32)
    """
    x = as_array("map_coordinates", input, "input")
    at = [as_array("map_coordinates", of_list(c), f"coordinates[{i}]") for i, c in enumerate(coordinates)]
    if len(at) != x.ndim:
        fix = "Pass one array of coordinates for each axis."
        facts = f"input: {x.aval}, number of coordinates: {len(at)}"
        raise ArgumentError(message("map_coordinates takes coordinates for all axes.", facts, fix=fix))
    check_choice("map_coordinates", "mode", mode, *_MODES)
    if order not in (0, 1):
        rule = "map_coordinates interpolates by order 0 (nearest) or 1 (linear)."
        raise NotImplementedError(message(rule, f"order: {order!r}", fix="Use order=1."))
    places = dnp.broadcast_arrays(*at)
    if 0 in x.shape:
        if places[0].size:
            fix = "Leave the empty array out."
            rule = "map_coordinates takes an array with elements where it has coordinates."
            raise ArgumentError(message(rule, f"input: {x.aval}, coordinates: {places[0].aval}", fix=fix))
        return dnp.zeros(places[0].shape, x.dtype)
    axes = [_nodes(c, n, order, mode) for c, n in zip(places, x.shape, strict=True)]
    fill = dnp.asarray(cval)
    total: Any = 0
    for corner in itertools.product(*axes):
        indices, valid, weights = zip(*corner, strict=True) if corner else ((), (), ())
        value = x[tuple(indices)] if indices else x
        if mode == "constant":
            inside: Any = True
            for v in valid:
                inside = inside & v
            value = dnp.where(inside, value, fill.astype(x.dtype))
        for weight in weights:
            value = weight * value
        total = total + value
    return dnp.round(total).astype(x.dtype) if dtypes.is_integer(x.dtype) else total.astype(x.dtype)


def _nodes(c: Any, n: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """The neighbours of coordinates along an axis: their positions, which of them are in the array, their weights."""
    if not dtypes.is_inexact(c.dtype):
        c = c.astype(dtypes.default_dtype("f"))
    if order == 0:
        found = [(round_to_nearest(c), dnp.ones_like(c))]  # ties away from 0, as in JAX
    else:
        lower = dnp.floor(c)
        share = c - lower
        found = [(lower, 1 - share), (lower + 1, share)]
    nodes = []
    for position, weight in found:
        i = position.astype("int32")
        nodes.append((_MODES[mode](i, n), (i >= 0) & (i < n), weight))
    return nodes
