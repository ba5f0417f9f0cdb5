"""Changing the dtype; operations that are the identity on values: copy, stop_gradient, optimization_barrier; iota.

A conversion between inexact dtypes is linear: its tangent is converted alike, and its cotangent is converted back. From
complex to real it keeps the real part; to bool it asks whether a number is not zero. Floats become integers by
truncation: out of range they saturate, and NaN becomes 0.
Read next: `elementwise/`; `didax/lax/convert.py` for the public face.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.declarations import no_numbers
from didax.core.errors import ArgumentError, message
from didax.core.jaxpr import Eqn
from didax.core.primitive import Primitive
from didax.passes.memories import Memories, Placing, Where, as_they_lie
from didax.passes.sparsity import Dependence
from didax.primitives import padded, split
from didax.primitives.numpy_rules import convert, saturation
from didax.primitives.shape import LinearUnary, move_axis
from didax.transforms.batching import AxisData
from didax.transforms.transpose import is_undef
from didax.xla.lowering import materialized_as_vectors
from didax.xla.text import names, types

_E8M0 = dtypes.dtype("float8_e8m0fnu")
_NO_OPERANDS = "it has no operands"


class ConvertElementType(Primitive):
    """The same values in another dtype, as well as it can hold them."""

    linear = True
    sharding = split.kept
    padded = padded.elementwise

    def type(self, x: ShapedArray, *, new_dtype: np.dtype[Any], weak_type: bool) -> ShapedArray:
        out = x.update(dtype=new_dtype, weak_type=weak_type)
        if (error := no_numbers(self.name, (x, out))) is not None:
            raise error
        return out

    def eager(self, x: Any, *, new_dtype: np.dtype[Any], weak_type: bool) -> Any:
        return convert(x, new_dtype)

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Any:
        return self.eager  # the rule holds for packed integers, too

    def eager_text(
        self,
        source: Any,
        names: Sequence[str],
        avals: Sequence[ShapedArray],
        *,
        new_dtype: np.dtype[Any],
        weak_type: bool,
    ) -> str | None:
        kinds = avals[0].dtype.kind + new_dtype.kind
        if kinds[0] not in "biuf" or kinds[1] not in "biufc":
            return None
        if kinds in ("fi", "fu"):
            return f"{source.given(saturation(new_dtype))}({names[0]})"
        return f"{names[0]}.astype({source.given(new_dtype)})"

    def lower(self, ctx: Any, x: Any, *, new_dtype: np.dtype[Any], weak_type: bool) -> Any:
        if new_dtype == np.bool_ and x.aval.dtype != np.bool_:
            return ctx.compare("NE", x, ctx.constant(0, x.aval))
        if dtypes.is_complex(x.aval.dtype) and not dtypes.is_complex(new_dtype):
            x = ctx.op("real", [x], x.aval.update(dtype=dtypes.real_dtype(x.aval.dtype)))
        if dtypes.is_integer(new_dtype) and (wide := dtypes.compute_dtype(x.aval.dtype)) is not None:
            # XLA compares with the limits of integers, which narrow floats cannot hold.
            x = ctx.convert(x, wide)
        if new_dtype == _E8M0 and x.aval.dtype != _E8M0:
            x = ctx.barrier(x)  # XLA drops the signs of constants
        if not ctx.module.on_cpu and dtypes.is_sub_byte(new_dtype):
            # XLA's kernels for GPUs take numbers of 2 bits for numbers of 4 where they write such, and XLA merges two
            # conversions, by way of bytes, into one.
            x = ctx.barrier(ctx.convert(x, np.dtype(np.int8)) if dtypes.is_sub_byte(x.aval.dtype) else x)
        out = ctx.convert(x, new_dtype)
        if x.aval.dtype == np.bool_ and out is not x:
            ctx.masks[out.name] = x
        return out

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> Any:
        return operands[0].rows

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x, **params)
        if type(t) is Zero or not dtypes.is_inexact(params["new_dtype"]):
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(t, **params)

    def transpose(self, ct: Any, x: Any, *, new_dtype: np.dtype[Any], weak_type: bool) -> list[Any]:
        return [convert_element_type(ct, x.aval.dtype, x.aval.weak_type)]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        return self.bind(args[0], **params), dims[0]

    def memories(self, eqn: Eqn, place: Placing, operands: Memories) -> Where:
        if eqn.invars[0].aval.dtype == eqn.params["new_dtype"]:  # only the type changes
            return as_they_lie(eqn, place, operands)
        return eqn.params, (None,), (None,)


class BitcastConvertType(Primitive):
    """The same bits read as another dtype; a narrower one adds a last axis of parts, a wider one takes it."""

    holes = {"transpose": "bits have no tangents"}
    sharding = split.with_last_axes
    padded = padded.bits

    def type(self, x: ShapedArray, *, new_dtype: np.dtype[Any]) -> ShapedArray:
        old, new = _bits(x, x.dtype), _bits(x, new_dtype)
        if old >= new:
            return ShapedArray(x.shape if old == new else (*x.shape, old // new), new_dtype)
        if x.shape[-1:] != (new // old,):
            raise ArgumentError(
                message(
                    f"A {new_dtype.name} is read from the {new // old} {x.dtype.name} of the last axis.",
                    f"operand: {x}",
                    fix=f"Reshape the operand so that its last axis has length {new // old}.",
                )
            )
        return ShapedArray(x.shape[:-1], new_dtype)

    def eager(self, x: Any, *, new_dtype: np.dtype[Any]) -> Any:
        old, new = x.dtype.itemsize, new_dtype.itemsize
        if old == new and x.dtype.isbuiltin == 1:
            return x.view(new_dtype)
        if old < new:
            return np.ascontiguousarray(x).view(new_dtype)[..., 0]
        parts = np.ascontiguousarray(np.asarray(x)[..., None]).view(new_dtype)
        return parts[..., 0] if old == new else parts

    def eager_text(self, source: Any, names: Any, avals: Any, *, new_dtype: np.dtype[Any]) -> str | None:
        plain = avals[0].dtype.isbuiltin == 1 and avals[0].dtype.itemsize == new_dtype.itemsize
        return f"{names[0]}.view({source.given(new_dtype)})" if plain else None

    def lower(self, ctx: Any, x: Any, *, new_dtype: np.dtype[Any]) -> Any:
        return ctx.op("bitcast_convert", [x], ctx.out_avals[0])

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        return out, Zero(aval_of(out).tangent())

    def batch(self, axis: AxisData, args: Any, dims: Any, *, new_dtype: np.dtype[Any]) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        if dim == aval_of(x).ndim - 1 and dim:
            x, dim = move_axis(x, dim, 0), 0
        return self.bind(x, new_dtype=new_dtype), dim


def _bits(x: ShapedArray, dtype: np.dtype[Any]) -> int:
    kind = dtypes.kind_of(dtype)
    bits = dtypes.iinfo(dtype).bits if kind in "iu" else dtypes.finfo(dtype).bits if kind == "f" else 0
    if bits % 8 or not bits:
        raise TypeError(
            message(
                "Only the bits of integers and floats of whole bytes can be read as another dtype.",
                f"operand: {x}, dtype: {dtype.name}",
                fix="Convert the values (convert_element_type), or take the parts of complex numbers first.",
            )
        )
    return bits


class ReducePrecision(LinearUnary):
    """Values rounded to a floating-point format with fewer bits, in their own dtype."""

    sharding = split.kept
    padded = padded.elementwise

    def type(self, x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
        if not dtypes.is_float(x.dtype) or exponent_bits < 1 or mantissa_bits < 0:
            raise TypeError(
                message(
                    "reduce_precision rounds floats to at least one bit of exponent and none of mantissa.",
                    f"operand: {x}, exponent_bits: {exponent_bits}, mantissa_bits: {mantissa_bits}",
                    fix="Cast the operand to a float dtype; count bits as in float16: 5 and 10.",
                )
            )
        return x

    def lower(self, ctx: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
        text = f"stablehlo.reduce_precision {x}, format = e{exponent_bits}m{mantissa_bits} : {x.type}"
        return ctx.emit(text, x.aval)

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> Any:
        return operands[0].rows

    def transpose(self, ct: Any, x: Any, **params: Any) -> list[Any]:
        return [self.bind(ct, **params)]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        return self.bind(args[0], **params), dims[0]


class Copy(LinearUnary):
    """The same array in memory of its own."""

    moves_elements = True
    sharding = split.kept
    padded = padded.elementwise

    def type(self, x: ShapedArray) -> ShapedArray:
        return x

    def eager(self, x: Any) -> Any:
        return np.array(x)

    def lower(self, ctx: Any, x: Any) -> Any:
        return x

    def transpose(self, ct: Any, x: Any) -> list[Any]:
        return [ct]

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, int]:
        return self.bind(args[0]), dims[0]

    memories = staticmethod(as_they_lie)


class StopGradient(Primitive):
    """The same array, whose tangent vanishes to every order."""

    moves_elements = True

    holes = {"transpose": "its tangent vanishes"}
    sharding = split.kept
    padded = padded.elementwise

    def type(self, x: ShapedArray) -> ShapedArray:
        return x

    def eager(self, x: Any) -> Any:
        return x

    def eager_text(self, source: Any, names: Sequence[str], avals: Sequence[ShapedArray]) -> str:
        return names[0]

    def lower(self, ctx: Any, x: Any) -> Any:
        return x

    def sparsity(self, operands: Sequence[Dependence]) -> Any:
        return None

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self.bind(*primals)
        return out, Zero(aval_of(out).tangent())

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, int]:
        return self.bind(args[0]), dims[0]


class OptimizationBarrier(Primitive):
    """Its operands, all computed before any result is used: XLA moves and merges nothing across it."""

    linear = True
    moves_elements = True
    multiple_results = True
    sharding = split.each_kept
    padded = padded.elementwise

    def type(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return avals

    def eager(self, *xs: Any) -> list[Any]:
        return list(xs)

    def lower(self, ctx: Any, *xs: Any) -> list[Any]:
        return (
            ctx.emit_many(f"stablehlo.optimization_barrier {names(xs)} : {types(xs)}", [x.aval for x in xs])
            if xs
            else []
        )

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        return self.bind(*primals), self._on_nonzero(tangents)

    def transpose(self, cts: Sequence[Any], *args: Any) -> list[Any]:
        return [ct if is_undef(x) else None for x, ct in zip(args, self._on_nonzero(cts), strict=True)]

    def _on_nonzero(self, xs: Sequence[Any]) -> list[Any]:
        """Symbolic zeros stay; the others pass a barrier of their own."""
        passed = iter(self.bind(*[x for x in xs if type(x) is not Zero]))
        return [x if type(x) is Zero else next(passed) for x in xs]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[list[Any], list[int | None]]:
        return self.bind(*args), list(dims)


# Note [Comparing with what was computed]
# XLA computes x again in each of the loops that read x, and may round it differently in each: a product and a sum are
# one operation here and two there. So in a compiled program `x == max(x)` may hold for no element. A rule that compares
# a result with its operand reads both from a copy of the operand in memory. An argument of the program is one already.


class Materialize(OptimizationBarrier):
    """Its operands, computed once and written to memory. See Note [Comparing with what was computed]."""

    def lower(self, ctx: Any, *xs: Any) -> list[Any]:
        if ctx.module.devices is not None:  # a call would gather what lies on several devices
            return super().lower(ctx, *xs)
        computed = [x for x in xs if x.name not in ctx.stored]
        written = iter(materialized_as_vectors(ctx, computed))
        return [x if x.name in ctx.stored else next(written) for x in xs]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        return self.bind(*primals), list(tangents)


class Iota(Primitive):
    """0, 1, 2, ... along one axis of a shape, the same along the others."""

    holes = {"jvp": _NO_OPERANDS, "transpose": _NO_OPERANDS, "batch": _NO_OPERANDS}
    padded = padded.of_shape

    def type(self, *, dtype: np.dtype[Any], shape: tuple[int, ...], dimension: int) -> ShapedArray:
        if (
            dtypes.kind_of(dtype) not in "iufc"
            or not 0 <= dimension < len(shape)
            or any(n < 0 for n in shape)
        ):
            raise ArgumentError(
                message(
                    "iota counts in a numeric dtype along one axis of a shape.",
                    f"dtype: {dtypes.dtype_name(dtype)}, shape: {shape}, dimension: {dimension}",
                    fix="Choose an integer, floating-point or complex dtype and an axis of the shape.",
                )
            )
        if dtype == np.int32:
            dtypes.check_counts(dtype, shape[dimension])
        return ShapedArray(shape, dtype)

    def eager(self, *, dtype: np.dtype[Any], shape: tuple[int, ...], dimension: int) -> Any:
        lengths = [-1 if i == dimension else 1 for i in range(len(shape))]
        counts = np.arange(shape[dimension]).astype(dtype).reshape(lengths)
        if counts.shape == shape:
            return counts
        out = np.empty(shape, dtype)
        out[...] = counts
        return out

    def lower(self, ctx: Any, *, dtype: np.dtype[Any], shape: tuple[int, ...], dimension: int) -> Any:
        return ctx.iota(ctx.out_avals[0], dimension)


convert_element_type_p = ConvertElementType("convert_element_type")
bitcast_convert_type_p = BitcastConvertType("bitcast_convert_type")
reduce_precision_p = ReducePrecision("reduce_precision")
copy_p = Copy("copy")
stop_gradient_p = StopGradient("stop_gradient")
optimization_barrier_p = OptimizationBarrier("optimization_barrier")
materialize_p = Materialize("materialize")
iota_p = Iota("iota")


def convert_element_type(x: Any, dtype: np.dtype[Any], weak_type: bool = False) -> Any:
    """`x` in another dtype; itself where that is its type already."""
    aval = aval_of(x)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


def iota(dtype: np.dtype[Any], shape: tuple[int, ...], dimension: int) -> Any:
    """0, 1, 2, ... along one axis of a shape."""
    return iota_p.bind(dtype=dtype, shape=shape, dimension=dimension)


def computed_once(*xs: Any) -> list[Any]:
    """The same values, computed once: a comparison with a result gets the very numbers that the result was made of."""
    inexact = [x for x in xs if dtypes.is_inexact(aval_of(x).dtype) and aval_of(x).ndim]
    found = iter(materialize_p.bind(*inexact) if inexact else [])
    return [next(found) if any(x is y for y in inexact) else x for x in xs]
