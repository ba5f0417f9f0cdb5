"""Families of elementwise primitives: two to four lines each, every rule derived from a few facts.

    sin = unary("sin", hlo="sine", eager=np.sin, jvp=lambda t, y, x: t * cos(x))
    mul = binary("mul", hlo="multiply", eager=np.multiply, jvp=(..., ...), transpose=(..., ...))

An elementwise primitive takes operands of one dtype and one shape; a scalar (rank-0) operand stretches to the shape of
the others. It is callable: Python scalars among the operands take the dtype of the arrays, and axes of length 1 are
stretched. A jvp entry maps `(t, y, *xs)`, the tangent of one operand, the result and the operands, to that operand's
share of the result's tangent. A transpose entry maps `(ct, *xs)` to that operand's cotangent, where the operand is
linear. A `lower` entry maps `(ctx, *xs)` to the result where one StableHLO operation does not do; scalars are
stretched before it is called. Parameters, if any, reach every entry as keywords. `numpy_kinds` names the kinds of
dtypes the eager rule is exact for. A primitive with all transposes is linear in all operands together, unless it has a
`taylor` rule.
Read next: `elementwise/`, the tables written with this.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero, array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS
from didax.primitives import padded, split
from didax.primitives.elementwise_lowering import ElementwiseLowering
from didax.primitives.elementwise_operands import UNSTATED, check_dtypes, declared, not_linear, operand_error
from didax.primitives.numpy_rules import of_kind
from didax.primitives.scalars import match_scalars
from didax.primitives.stretching import align_batches, stretch, stretch_axes, unstretch
from didax.transforms.batching import AxisData
from didax.transforms.transpose import is_undef

Jvp = Callable[..., Any] | None


class Elementwise(ElementwiseLowering):
    """One output element per element of equally shaped operands (scalars stretch)."""

    sharding = split.elementwise
    padded = padded.elementwise

    def __init__(
        self,
        name: str,
        arity: int,
        *,
        hlo: str,
        eager: Callable[..., Any] | None,
        accepts: str,
        jvp: Sequence[Jvp],
        transpose: Sequence[Jvp] | None = None,
        out_dtype: Callable[[np.dtype[Any]], np.dtype[Any]] | None = None,
        lower: Callable[..., Any] | None = None,
        numpy_kinds: str | None = None,
        physical: Callable[..., Any] | None = None,
        conditions: Callable[..., Any] | None = None,
        taylor: Callable[..., Any] | None = None,
    ):
        self.jvps, self.holes = declared(name, arity, accepts, jvp, transpose, out_dtype)  # type: ignore[misc]
        super().__init__(name)
        self.arity = arity
        self.hlo = hlo if "." in hlo else f"stablehlo.{hlo}"
        self.eager = eager
        self.accepts = accepts
        self.out_dtype = out_dtype
        self.physical = physical
        self.conditions = conditions
        self.taylor = taylor
        self.linear = taylor is None and transpose is not None and None not in transpose
        self.transposes = tuple([rule or functools.partial(not_linear, name) for rule in transpose or ()])
        for rule in self.holes:
            setattr(self, rule, None)
        self.emit = lower or self._emit_operation
        self.numpy_kinds = accepts if numpy_kinds is None else numpy_kinds

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Callable[..., Any] | None:
        rule = super().eager_for(avals) if dtypes.kind_of(avals[0].dtype) in self.numpy_kinds else None
        return None if rule is None else of_kind(rule, avals[0].dtype)

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply to arrays; Python scalars take the dtype of the arrays, axes of length 1 the length of the others'."""
        for x in args:
            if type(x) in PYTHON_SCALARS:
                args = tuple(match_scalars(args))
                break
        try:
            return self.bind(*args, **params)
        except TypeError as error:  # looked into only now: operands mostly have one shape, and calls are hot
            return self.bind(*stretch_axes(args, error), **params)

    def type(self, *avals: ShapedArray, **params: Any) -> ShapedArray:
        first = avals[0]
        check_dtypes(self.name, self.accepts, avals)
        shape = first.shape
        for aval in avals[1:]:
            if aval.shape != shape:
                if shape == ():
                    shape = aval.shape
                elif aval.shape != ():
                    raise operand_error(
                        self.name, "takes arrays of one shape (or scalars)", avals, "Broadcast them first."
                    )
        weak = all([a.weak_type for a in avals])
        dtype = first.dtype if self.out_dtype is None else self.out_dtype(first.dtype)
        return ShapedArray(shape, dtype, weak and dtype.kind != "b")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        total: Any = None
        for rule, t in zip(self.jvps, tangents):  # noqa: B905, the arity is fixed, and this is hot
            if rule is None or type(t) is Zero:
                continue
            share = stretch(rule(t, out, *primals, **params), out)
            total = share if total is None else array_ops.add(total, share)
        return out, Zero(aval_of(out).tangent()) if total is None else total

    def transpose(self, ct: Any, *args: Any, **params: Any) -> list[Any]:
        return [
            unstretch(rule(ct, *args, **params), x.aval) if is_undef(x) else None
            for rule, x in zip(self.transposes, args)  # noqa: B905, the arity is fixed, and this is hot
        ]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, int]:
        values, dim = align_batches(axis, args, dims)
        return self.bind(*values, **params), dim


def unary(
    name: str, *, hlo: str = "", eager: Any = None, accepts: str = "fc", jvp: Jvp = UNSTATED, **more: Any
) -> Elementwise:
    """An elementwise primitive of one operand; `hlo` is its StableHLO name (chlo names with the dialect)."""
    transpose = more.pop("transpose", None)
    return Elementwise(
        name,
        1,
        hlo=hlo or name,
        eager=eager,
        accepts=accepts,
        jvp=(jvp,),
        transpose=None if transpose is None else (transpose,),
        **more,
    )


def binary(
    name: str,
    *,
    hlo: str = "",
    eager: Any = None,
    accepts: str = "iufc",
    jvp: tuple[Jvp, Jvp] = (UNSTATED, UNSTATED),
    transpose: tuple[Jvp, Jvp] | None = None,
    **more: Any,
) -> Elementwise:
    """An elementwise primitive of two operands."""
    return Elementwise(
        name, 2, hlo=hlo or name, eager=eager, accepts=accepts, jvp=jvp, transpose=transpose, **more
    )
