"""Derivatives of functions that bring a vmap rule and no derivative: the rule is differentiated beside the function.

    Pushed       (x, x_dot) -> (f(x), df(x) x_dot)      batched by the jvp of the vmap rule
    Transposed   (known x, ct_y) -> ct_x              batched by the transpose of the vmap rule

So all orders of vmap and differentiation use the rule. Read next: `call.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from didax.core import dtypes
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.primitives.custom.rules import Rules, Values
from didax.primitives.shape import reduce_sum
from didax.transforms.batching import batched_aval, move_batch_axis
from didax.transforms.jvp import jvp_flat
from didax.transforms.staging import trace_to_jaxpr
from didax.transforms.transpose import backward_jaxpr

_VMAP = {"vmap": "a derived rule"}


class Pushed(Rules):
    """The jvp of a function: from primals and the tangents of marked primals to results and tangents of results."""

    __slots__ = ("_inner", "_marks")

    def __init__(self, inner: Rules, marks: Sequence[bool]):
        super().__init__(inner.name, _VMAP)
        self._inner = inner
        self._marks = tuple(marks)

    def run(self, *args: Any) -> list[Any]:
        n = len(self._marks)
        return _push(self._inner.run, args[:n], self._tangents(args))

    def _tangents(self, args: Values) -> list[Any]:
        given = iter(args[len(self._marks) :])
        return [
            next(given) if m else Zero(aval_of(x).tangent()) for x, m in zip(args, self._marks, strict=False)
        ]

    def vmap(self, size: int, args: Values, batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        n = len(self._marks)
        given = iter(batched[n:])
        either = [b or (m and next(given)) for b, m in zip(batched, self._marks, strict=False)]
        rows = [*either, *compress(either, self._marks)]
        args = [
            move_batch_axis(x, None, 0, size) if row and not b else x
            for x, b, row in zip(args, batched, rows, strict=True)
        ]
        flags: list[bool] = []

        def rule(*xs: Any) -> list[Any]:
            outs, found = self._inner.vmap(size, xs, either)
            flags[:] = found
            return outs

        outs = _push(rule, args[:n], self._tangents(args))
        moving = [dtypes.is_inexact(aval_of(y).dtype) for y in outs[: len(flags)]]
        return outs, [*flags, *compress(flags, moving)]


def _push(f: Callable[..., list[Any]], primals: Values, tangents: Values) -> list[Any]:
    outs, dots = jvp_flat(f, primals, tangents)
    moving = [t for y, t in zip(outs, dots, strict=True) if dtypes.is_inexact(aval_of(y).dtype)]
    return [*outs, *map(instantiate, moving)]


class Transposed(Rules):
    """The transpose of a function: takes its known arguments, then the nonzero cotangents of its results."""

    __slots__ = ("_avals", "_inner", "_linear", "_nonzero")

    def __init__(
        self, inner: Rules, avals: Sequence[ShapedArray], linear: Sequence[bool], nonzero: Sequence[bool]
    ):
        super().__init__(inner.name, _VMAP)
        self._inner = inner
        self._avals = tuple(avals)
        self._linear = tuple(linear)
        self._nonzero = tuple(nonzero)

    def run(self, *args: Any) -> list[Any]:
        return self._transpose(self._inner.run, self._avals, args, lambda cts: cts)

    def _transpose(
        self,
        f: Callable[..., list[Any]],
        avals: Sequence[ShapedArray],
        args: Values,
        prepared: Callable[[list[Any]], list[Any]],
    ) -> list[Any]:
        jaxpr, captured = trace_to_jaxpr(f, avals, what="transpose")
        num_known = self._linear.count(False)
        given = iter(prepared(list(args[num_known:])))
        cts = [
            next(given) if nz else Zero(v.aval) for v, nz in zip(jaxpr.outvars, self._nonzero, strict=True)
        ]
        linear = [*[False] * len(captured), *self._linear]
        ct_xs = backward_jaxpr(jaxpr, linear, [*captured, *args[:num_known]], cts)
        return [instantiate(ct_x) for ct_x in ct_xs]

    def vmap(self, size: int, args: Values, batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
        """The rule transposed, with every linear argument batched."""
        known = iter(batched)
        in_batched = [lin or next(known) for lin in self._linear]
        avals = [
            batched_aval(a, 0 if b else None, size) for a, b in zip(self._avals, in_batched, strict=True)
        ]
        flags: list[bool] = []

        def rule(*xs: Any) -> list[Any]:
            outs, found = self._inner.vmap(size, xs, in_batched)
            flags[:] = found
            return outs

        def prepared(cts: list[Any]) -> list[Any]:
            marks = compress(flags, self._nonzero)
            have = batched[self._linear.count(False) :]
            return [_as_result(ct, b, out, size) for ct, b, out in zip(cts, have, marks, strict=True)]

        ct_xs = self._transpose(rule, avals, args, prepared)
        return ct_xs, [True] * len(ct_xs)


def _as_result(ct: Any, batched: bool, out_batched: bool, size: int) -> Any:
    """A cotangent with the batch axis of its result; a result without a batch axis gets the sum over the batch."""
    if out_batched:
        return ct if batched else move_batch_axis(ct, None, 0, size)
    return reduce_sum(ct if batched else move_batch_axis(ct, None, 0, size), (0,))
