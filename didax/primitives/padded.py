"""The `padded` rules that primitives share: what is computed where axes are longer than their real length.

A rule gets the equation (`PaddedEqn`), the operands with padded shapes, and the parameters, in which sizes may be
symbolic. Its results have padded shapes; within the real lengths they are what the equation computes, and beyond them
anything. So a rule keeps what is there out of reductions, and moves elements by real lengths. A primitive states such a
rule with its others: `padded = padded.elementwise`.
Read next: `padded_windows.py`, rules for parts of arrays; `real_lengths.py`, the operations that rules are made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.dims import is_symbolic
from didax.passes.buckets import PaddedEqn

Rule = Callable[..., Any]


def elementwise(self: Any, eqn: PaddedEqn, *args: Any, **params: Any) -> Any:
    """For what computes each element from those at the same place, axis by axis: nothing gets to another place."""
    return self.bind(*args, **params)


def of_shape(self: Any, eqn: PaddedEqn, *args: Any, **params: Any) -> Any:
    """The same for primitives whose parameter `shape` is the shape of the result."""
    return self.bind(*args, **{**params, "shape": eqn.out_shape})


def bits(self: Any, eqn: PaddedEqn, x: Any, **params: Any) -> Any:
    """Elementwise, where elements of another width take or leave a last axis of a plain length."""
    shapes = eqn.avals[0].shape, eqn.out_avals[0].shape
    changed = [shape[-1] for shape in shapes if len(shape) == max(map(len, shapes))]
    if len(shapes[0]) != len(shapes[1]) and any(map(is_symbolic, changed)):
        raise eqn.refuse("changes the width of elements along them")
    return self.bind(x, **params)


def reshaped(self: Any, eqn: PaddedEqn, x: Any, *, new_sizes: Sequence[Any]) -> Any:
    """By real lengths, where the padded ones would give another order."""
    return eqn.reshape(x, eqn.avals[0].shape, eqn.out_avals[0].shape)


def reduced(identity: Callable[[Any, np.dtype[Any]], Any]) -> Rule:
    """A reduction over `axes`: what lies beyond is `identity(primitive, dtype)`."""

    def padded(self: Any, eqn: PaddedEqn, x: Any, *, axes: Sequence[int], **params: Any) -> Any:
        aval = eqn.avals[0]
        return self.bind(eqn.real(x, aval, axes, identity(self, aval.dtype)), axes=axes, **params)

    return padded


def cumulative(self: Any, eqn: PaddedEqn, x: Any, *, axis: int, reverse: bool) -> Any:
    """From the front as it is; from the back over what lies beyond as the identity, or, without one, turned around."""
    aval = eqn.avals[0]
    identity, size = self.identity(aval.dtype), aval.shape[axis]
    if not reverse or not is_symbolic(size):
        return self.bind(x, axis=axis, reverse=reverse)
    if identity is not None:
        return self.bind(eqn.real(x, aval, [axis], identity), axis=axis, reverse=True)
    return eqn.flip(self.bind(eqn.flip(x, axis, size), axis=axis, reverse=False), axis, size)


def sorted_(self: Any, eqn: PaddedEqn, *xs: Any, dimension: int, num_keys: int, **params: Any) -> Any:
    """What lies beyond has the greatest keys: as the order is stable, it comes after all others."""
    keys = [
        eqn.real(x, aval, [dimension], _last(aval.dtype))
        for x, aval in zip(xs[:num_keys], eqn.avals, strict=False)
    ]
    return self.bind(*keys, *xs[num_keys:], dimension=dimension, num_keys=num_keys, **params)


def _last(dtype: np.dtype[Any]) -> Any:
    """The last value in the order of `sort`."""
    if dtype == np.bool_:
        return True
    if dtypes.is_integer(dtype):
        return dtypes.iinfo(dtype).max
    if dtypes.is_complex(dtype):
        return complex(np.nan, np.nan)
    return np.nan if np.isnan(dtype.type(np.nan)) else float(dtypes.finfo(dtype).max)


def largest(self: Any, eqn: PaddedEqn, x: Any, *, k: int, axis: int) -> Any:
    """What lies beyond is the smallest there is, and of equal elements the first come first."""
    if is_symbolic(k):
        raise eqn.refuse("takes as many elements as Python says")
    aval = eqn.avals[0]
    return self.bind(eqn.real(x, aval, [axis], eqn.lowest(aval.dtype)), k=k, axis=axis)


def contracted(self: Any, eqn: PaddedEqn, x: Any, y: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    """Zeros on both sides, as 0 times NaN is NaN."""
    (x_axes, y_axes), _ = dimension_numbers
    x, y = eqn.real(x, eqn.avals[0], x_axes, 0), eqn.real(y, eqn.avals[1], y_axes, 0)
    return self.bind(x, y, dimension_numbers=dimension_numbers, **params)


def in_batches(count: int) -> Rule:
    """For what is computed anew along the last `count` axes, for each index of those before.

    These are zeros beyond the real lengths: libraries may run long on what is not finite.
    """

    def padded(self: Any, eqn: PaddedEqn, *args: Any, **params: Any) -> Any:
        if any(is_symbolic(n) for aval in eqn.avals for n in aval.shape[max(aval.ndim - count, 0) :]):
            raise eqn.refuse("computes with all elements along them")
        whole = [eqn.real(x, aval, range(aval.ndim), 0) for x, aval in zip(args, eqn.avals, strict=True)]
        return self.bind(*whole, **params)

    return padded


def drawn(self: Any, eqn: PaddedEqn, keys: Any, *, shape: Sequence[Any], **params: Any) -> Any:
    """Draws that depend on the key and on the number of the element: those of the real shape, one after another."""
    extended: Any = dtypes.as_extended(eqn.avals[0].dtype)
    if extended is not None and extended.impl.name != "threefry2x32" and any(map(is_symbolic, shape)):
        raise eqn.refuse("draws other numbers for another shape, but with keys of threefry2x32")
    if not any(map(is_symbolic, shape[1:])):
        return self.bind(keys, shape=eqn.shape(shape), **params)
    if eqn.avals[0].ndim > (extended is None):
        raise eqn.refuse(
            "draws for several keys at once, along an axis that is not the first one of the draw"
        )
    total, out = math.prod(shape), eqn.out_avals[0].shape
    flat = self.bind(keys, shape=(eqn.most(total),), **params)
    return eqn.reshape(flat, (total, *out[len(shape) :]), out)


def dimension(self: Any, eqn: PaddedEqn, *, size: Any, **params: Any) -> Any:
    """The real size of a symbolic one."""
    return eqn.as_number(eqn.number(size), eqn.out_avals[0])


def called(self: Any, eqn: PaddedEqn, *args: Any, jaxpr: Any, **params: Any) -> Any:
    """A call of the padded program."""
    return self.bind(*args, *eqn.numbers, jaxpr=eqn.inner(jaxpr), **params)


def along_others(self: Any, eqn: PaddedEqn, x: Any, *, fft_lengths: Sequence[Any], **params: Any) -> Any:
    """A Fourier transform along plain axes, for each index of those before."""
    if any(map(is_symbolic, eqn.avals[0].shape[eqn.avals[0].ndim - len(fft_lengths) :])):
        raise eqn.refuse("computes with all elements along them, by their number")
    return self.bind(x, fft_lengths=fft_lengths, **params)


def called_without_rules(call: Any) -> Rule:
    """A call whose rules only derivatives ask for: `call` runs the padded program."""

    def padded(self: Any, eqn: PaddedEqn, *args: Any, jaxpr: Any, **params: Any) -> Any:
        outs = call.bind(*args, *eqn.numbers, jaxpr=eqn.inner(jaxpr))
        return outs if self.multiple_results else outs[0]

    return padded


def solved(call: Any) -> Rule:
    """The program that solves, which is the only one of the equation that runs."""

    def padded(self: Any, eqn: PaddedEqn, *args: Any, jaxprs: Any, **params: Any) -> Any:
        return call.bind(*args, *eqn.numbers, jaxpr=eqn.inner(jaxprs[1]))

    return padded
