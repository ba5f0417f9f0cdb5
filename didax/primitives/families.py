"""Families of elementwise primitives: two to four lines each, every rule derived from a few facts.

    sin = unary("sin", hlo="sine", eager=np.sin, jvp=lambda t, y, x: t * cos(x))
    mul = binary("mul", hlo="multiply", eager=np.multiply, jvp=(..., ...), transpose=(..., ...))

An elementwise primitive takes operands of one dtype and one shape; a scalar (rank-0) operand stretches to
the shape of the others. It is callable: Python scalars among the operands take the dtype of the arrays. A
jvp entry maps `(t, y, *xs)`, the tangent of one operand, the result and the operands, to that operand's
share of the result's tangent. A transpose entry maps `(ct, *xs)` to that operand's cotangent, where the
operand is linear. A `lower` entry maps `(ctx, *xs)` to the result where one StableHLO operation does not
do; scalars are stretched before it is called. Parameters, if any, reach every entry as keywords.
`numpy_kinds` names the kinds of dtypes the eager rule is exact for.
Read next: `elementwise.py`, the tables written with this.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import config, dtypes
from didax.core.array_ops import Zero, array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.errors import MissingRuleError, message
from didax.core.primitive import Primitive
from didax.primitives.shape import broadcast_in_dim, reduce_sum
from didax.transforms.batching import AxisData
from didax.transforms.transpose import is_undef
from didax.xla.text import tensor_type

Jvp = Callable[..., Any] | None
_KINDS = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "floating point", "c": "complex",
          "x": "extended"}  # fmt: skip
NOT_LINEAR = "the operation is not linear"
NOT_DIFFERENTIABLE = "its result is piecewise constant: tangents vanish"


_NUMPY_NAMES = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "fmod", "pow": "power",
    "max": "maximum", "min": "minimum", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "atan2": "arctan2", "nextafter": "nextafter",
}  # fmt: skip


def _promoting(name: str) -> str:
    """The function of `didax.numpy` that does what a primitive does, after promotion."""
    return f"didax.numpy.{_NUMPY_NAMES[name]}" if name in _NUMPY_NAMES else "didax.numpy"


class Elementwise(Primitive):
    """One output element per element of equally shaped operands (scalars stretch)."""

    widens = (
        True  # floats of a byte: XLA would compute some functions of them in 16 bits, and others not at all
    )
    widens_halves = False  # floats of two bytes: XLA would round each of the steps that the function takes

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
    ):
        super().__init__(name)
        self.arity = arity
        self.hlo = hlo if "." in hlo else f"stablehlo.{hlo}"
        self.eager = eager
        self.accepts = accepts
        self.jvps = tuple(jvp)
        self.out_dtype = out_dtype
        self.physical = physical
        self.conditions = conditions
        self.transposes = tuple([rule or self._not_linear for rule in transpose or ()])
        if transpose is None:
            self.transpose = None  # type: ignore[assignment]
            self.holes = {  # type: ignore[misc]
                "transpose": NOT_LINEAR if any(jvp) else NOT_DIFFERENTIABLE
            }
        self.emit = lower or self._emit_operation
        self.numpy_kinds = accepts if numpy_kinds is None else numpy_kinds

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Callable[..., Any] | None:
        return super().eager_for(avals) if dtypes.kind_of(avals[0].dtype) in self.numpy_kinds else None

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply to arrays; Python scalars take the dtype of the arrays."""
        for x in args:
            if type(x) in PYTHON_SCALARS:
                return self.bind(*match_scalars(args), **params)
        return self.bind(*args, **params)

    def type(self, *avals: ShapedArray, **params: Any) -> ShapedArray:
        first = avals[0]
        self._check_dtypes(avals)
        shape = first.shape
        for aval in avals[1:]:
            if aval.shape != shape:
                if shape == ():
                    shape = aval.shape
                elif aval.shape != ():
                    raise self._error(
                        "takes arrays of one shape (or scalars)", avals, "Broadcast them first."
                    )
        weak = all([a.weak_type for a in avals])
        dtype = first.dtype if self.out_dtype is None else self.out_dtype(first.dtype)
        return ShapedArray(shape, dtype, weak and dtype.kind != "b")

    def _check_dtypes(self, avals: Sequence[ShapedArray]) -> None:
        dtype = avals[0].dtype
        for aval in avals[1:]:
            if aval.dtype != dtype:
                fix = f"Cast one of them (x.astype), or use {_promoting(self.name)}, which promotes."
                raise self._error("takes operands of one dtype", avals, fix)
        if dtypes.kind_of(dtype) not in self.accepts:
            kinds = ", ".join(_KINDS[k] for k in self.accepts)
            raise self._error(f"takes {kinds} operands", avals, "Cast the operands (x.astype).")

    def _error(self, rule: str, avals: Sequence[ShapedArray], fix: str) -> TypeError:
        return TypeError(message(f"{self.name} {rule}.", f"operands: {', '.join(map(str, avals))}", fix=fix))

    def lower(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        dtype = operands[0].aval.dtype
        wide = dtypes.compute_dtype(dtype) if self.widens else None
        if self.widens_halves and dtypes.is_float(dtype) and dtype.itemsize == 2:
            wide = np.dtype(np.float32)
        if wide is not None:
            return self._lower_widened(ctx, operands, wide, **params)
        return self.emit(ctx, *[ctx.fill(x, ctx.out_avals[0]) for x in operands], **params)

    def _lower_widened(self, ctx: Any, operands: Sequence[Any], wide: np.dtype[Any], **params: Any) -> Any:
        """Compute in a wider dtype, and round once."""
        out = ctx.out_avals[0]
        narrow = operands[0].aval.dtype
        operands = [ctx.convert(ctx.fill(x, out), wide) for x in operands]
        if out.dtype != narrow:  # it is bool
            return self.emit(ctx, *operands, **params)
        ctx.out_avals = (out.update(dtype=wide),)
        return ctx.convert(self.emit(ctx, *operands, **params), narrow)

    def _emit_operation(self, ctx: Any, *operands: Any) -> Any:
        out = ctx.out_avals[0]
        if self.out_dtype is None and self.hlo.startswith("stablehlo"):
            return ctx.emit(f"{self.hlo} {', '.join([x.name for x in operands])} : {operands[0].type}", out)
        ins = ", ".join([x.type for x in operands])
        ins = f"({ins})" if self.hlo.startswith("stablehlo") else ins
        return ctx.emit(
            f"{self.hlo} {', '.join([x.name for x in operands])} : {ins} -> {tensor_type(out)}", out
        )

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

    def _not_linear(self, ct: Any, *args: Any, **params: Any) -> Any:
        operands = [i for i, x in enumerate(args) if is_undef(x)]
        raise MissingRuleError(
            message(
                f"{self.name} cannot be transposed: it is not linear in each of its operands.",
                f"operands that are to be transposed: {', '.join(map(str, operands))}",
                fix="Keep it out of functions that are transposed.",
            )
        )

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, int]:
        values, dim = align_batches(axis, args, dims)
        return self.bind(*values, **params), dim


def unary(
    name: str, *, hlo: str = "", eager: Any = None, accepts: str = "fc", jvp: Jvp = None, **more: Any
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
    jvp: tuple[Jvp, Jvp] = (None, None),
    transpose: tuple[Jvp, Jvp] | None = None,
    **more: Any,
) -> Elementwise:
    """An elementwise primitive of two operands."""
    return Elementwise(
        name, 2, hlo=hlo or name, eager=eager, accepts=accepts, jvp=jvp, transpose=transpose, **more
    )


def match_scalars(args: Sequence[Any]) -> list[Any]:
    """Give Python scalars the dtype of the arrays beside them; they stay Python's where that is the default.

    Among themselves they take the widest of their types, as Python's arithmetic does.
    """
    for x in args:
        if type(x) not in PYTHON_SCALARS:
            dtype = aval_of(x).dtype
            return [scalar_like(y, dtype) if type(y) in PYTHON_SCALARS else y for y in args]
    widest = max(map(type, args), key=lambda t: dtypes.KIND_RANKS[PYTHON_SCALARS[t]], default=bool)
    return [widest(x) for x in args]


def scalar_like(x: Any, dtype: np.dtype[Any]) -> Any:
    """A Python scalar as a scalar of `dtype`: a Python one still (weak) where that is a default dtype."""
    key = type(x), dtype, config.state().enable_x64
    make = _scalar_makers.get(key)
    if make is None:
        make = _scalar_makers[key] = _scalar_maker(x, dtype)
    return make(x)


# By type of the scalar, dtype of the array and enable_x64. The dtypes are few.
_scalar_makers: dict[tuple[type[Any], np.dtype[Any], bool], Callable[[Any], Any]] = {}


def _scalar_maker(x: Any, dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    kind = dtypes.kind_of(dtype)
    if kind == "x":
        return functools.partial(dtypes.numpy_scalar, dtype=dtype)  # which raises
    if dtypes.KIND_RANKS[PYTHON_SCALARS[type(x)]] > dtypes.KIND_RANKS[kind]:
        raise TypeError(
            message(
                f"A Python {type(x).__name__} does not fit an array of {dtypes.dtype_name(dtype)}.",
                f"scalar: {x!r}",
                fix="Cast the array first (x.astype), or use didax.numpy, which promotes.",
            )
        )
    if (python_type := dtypes.python_type(dtype)) is not None:
        return python_type
    return np.errstate(all="ignore")(lambda x: dtypes.numpy_scalar(x, dtype))


def stretch(x: Any, like: Any) -> Any:
    """A scalar broadcast to the shape of `like`; arrays pass through."""
    shape = aval_of(like).shape
    if aval_of(x).shape == shape:
        return x
    return broadcast_in_dim(x, shape, ())


def unstretch(ct: Any, aval: ShapedArray) -> Any:
    """The transpose of `stretch`: the sum over everything for an operand that was a scalar."""
    if aval_of(ct).shape == aval.shape:
        return ct
    return reduce_sum(ct, tuple(range(aval_of(ct).ndim)))


def align_batches(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Bring batched elementwise operands to one shape with the batch axis at one place.

    Scalars that are not batched stay scalars; batched scalars beside arrays gain axes.
    """
    avals = [aval_of(x) for x in args]
    shapes = {a.shape for a, d in zip(avals, dims, strict=True) if d is not None}
    first = next(d for d in dims if d is not None)
    if len(shapes) == 1 and all(
        d == first or (d is None and a.shape == ()) for a, d in zip(avals, dims, strict=True)
    ):
        return list(args), first
    ranks = [a.ndim - (d is not None) for a, d in zip(avals, dims, strict=True)]
    inner = next(_without(a.shape, d) for a, d, r in zip(avals, dims, ranks, strict=True) if r == max(ranks))
    full = (axis.size, *inner)

    def align(x: Any, aval: ShapedArray, dim: int | None, rank: int) -> Any:
        if dim is None:
            return x if rank == 0 else broadcast_in_dim(x, full, tuple(range(1, len(full))))
        if rank == 0 and inner:
            return broadcast_in_dim(x, full, (0,))
        return x if dim == 0 else array_ops.move_axis(x, dim, 0)

    return [align(*item) for item in zip(args, avals, dims, ranks, strict=True)], 0


def _without(shape: tuple[int, ...], dim: int | None) -> tuple[int, ...]:
    return shape if dim is None else shape[:dim] + shape[dim + 1 :]
