"""`fft`: the discrete Fourier transform of the last one to three axes.

    FFT    X[k] = sum_j x[j] exp(-2 pi i j k / n)           IFFT   the inverse: conjugate exponents, over n
    RFFT   the first n // 2 + 1 of the X[k], of a real x    IRFFT  the real x whose RFFT that is

`fft_lengths` are the n: the lengths of the transformed axes on the complex or real side, whichever is longer.
All four are linear over the real numbers. FFT and IFFT are their own transposes. RFFT and IRFFT are each
other's, up to conjugation, the factor n, and a weight of 2 for each k whose conjugate IRFFT fills in.
Read next: `didax/lax/fft.py`, `didax/numpy/fft.py`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic
from didax.core.errors import message
from didax.core.jaxpr_print import register_param_type
from didax.passes.sparsity import Dependence, along_axes, selected
from didax.primitives import padded, split
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.dimension import number
from didax.primitives.elementwise import and_, conj, gt, lt, mul
from didax.primitives.select import where
from didax.primitives.shape import LinearUnary, broadcast_in_dim
from didax.transforms.batching import AxisData
from didax.transforms.elements import check_elements
from didax.xla.text import lower_parts, tensor_type
from didax.xla.written_calls import kept_apart

Lengths = tuple[int, ...]


@register_param_type
class FftType(enum.IntEnum):
    """Which Fourier transform: complex (FFT, IFFT) or between real and half of the complex numbers.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.fft(np.float32([1, 0, 0, 0]), FftType.RFFT, (4,)).real
    Array([1., 1., 1.], dtype=float32)
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_TAKES = {"f": "float32 or float64", "c": "complex64 or complex128"}


class Fft(LinearUnary):
    """The transform `fft_type` of the last `len(fft_lengths)` axes, of one to three."""

    materializes_operands = True
    sharding = split.resized  # XLA gathers the axes that are transformed, and splits them again
    padded = padded.along_others

    def type(self, x: ShapedArray, *, fft_type: FftType, fft_lengths: Lengths) -> ShapedArray:
        kind = "f" if fft_type is FftType.RFFT else "c"
        if dtypes.kind_of(x.dtype) != kind or x.dtype.itemsize < 4:
            raise _error(f"{fft_type.name} takes {_TAKES[kind]}", x, fft_lengths, "Cast it (x.astype).")
        if not 1 <= len(fft_lengths) <= 3 or not all(n >= 1 for n in fft_lengths):
            raise _error(
                "fft transforms one to three axes, none of them empty", x, fft_lengths,
                "Transform further axes after the first three; leave empty axes as they are.",
            )  # fmt: skip
        half = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
        expected = half if fft_type is FftType.IRFFT else fft_lengths
        if x.ndim < len(expected) or x.shape[x.ndim - len(expected) :] != expected:
            raise _error(f"{fft_type.name} of these lengths takes last axes of {expected}", x, fft_lengths,
                         "Pad or slice the operand, or choose other lengths.")  # fmt: skip
        out = half if fft_type is FftType.RFFT else fft_lengths
        dtype = {"f": dtypes.complex_dtype, "c": dtypes.real_dtype}[kind](x.dtype)
        changes = fft_type in (FftType.RFFT, FftType.IRFFT)
        shape = (*x.shape[: x.ndim - len(out)], *out)
        return ShapedArray(shape, dtype if changes else x.dtype)

    def eager(self, x: Any, *, fft_type: FftType, fft_lengths: Lengths) -> Any:
        name = fft_type.name.lower()  # NumPy loads np.fft when it is first named
        if len(fft_lengths) == 1:  # the function of several axes takes 3 microseconds to find that it is one
            return getattr(np.fft, name)(x, fft_lengths[0])
        return getattr(np.fft, f"{name}n")(x, fft_lengths, tuple(range(-len(fft_lengths), 0)))

    def lower(self, ctx: Any, x: Any, *, fft_type: FftType, fft_lengths: Lengths) -> Any:
        (out,) = ctx.out_avals
        if out.size == 0:  # a batch axis of length 0: there is nothing to transform
            return ctx.constant(0, out)
        if fft_type in (FftType.FFT, FftType.IFFT) and len(fft_lengths) == 1 and _has_quarters(ctx, out):
            write = lambda inner, x: [_lower_by_quarters(inner, x, fft_type)]
            return kept_apart(ctx, "fft", [x], write)[0]
        y = _lower_fft(ctx, x, fft_type, fft_lengths, out)
        # XLA's transform on the CPU fails if it has to write a matrix by columns, as LAPACK reads matrices.
        is_pinned = out.ndim > 1 and ctx.module.on_cpu and not ctx.module.alone
        return ctx.by_rows(y) if is_pinned else y

    def transpose(self, ct: Any, x: Any, *, fft_type: FftType, fft_lengths: Lengths) -> list[Any]:
        scale = math.prod(fft_lengths)
        if fft_type is FftType.RFFT:
            weighted = _scaled(conj(ct), 1.0, 0.5, fft_lengths[-1])
            back = self.bind(weighted, fft_type=FftType.IRFFT, fft_lengths=fft_lengths)
            return [mul(back, number(scale, aval_of(back).dtype))]
        if fft_type is FftType.IRFFT:
            back = self.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
            return [_scaled(conj(back), 1.0 / scale, 2.0 / scale, fft_lengths[-1])]
        return [self.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]

    def sparsity(self, operands: Sequence[Dependence], *, fft_type: FftType, fft_lengths: Lengths) -> Any:
        """All elements along the axes: a phase that vanishes for real numbers does not for imaginary ones."""
        (x,) = operands
        batch = x.aval.shape[: x.aval.ndim - len(fft_lengths)]
        of_batch = along_axes(x, range(len(batch), x.aval.ndim))
        numbers = np.arange(math.prod(batch)).reshape(*batch, *[1] * len(fft_lengths))
        out = self.type(x.aval, fft_type=fft_type, fft_lengths=fft_lengths)
        return selected(
            Dependence(x.aval.update(shape=batch), rows=of_batch), np.broadcast_to(numbers, out.shape)
        )

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, fft_type: FftType, fft_lengths: Lengths
    ) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        check_elements(self, args, dims, {"fft_type": fft_type, "fft_lengths": fft_lengths})
        if dim >= aval_of(x).ndim - len(fft_lengths):
            x, dim = array_ops.move_axis(x, dim, 0), 0
        return self.bind(x, fft_type=fft_type, fft_lengths=fft_lengths), dim


def _lower_fft(ctx: Any, x: Any, fft_type: FftType, lengths: Lengths, out: ShapedArray) -> Any:
    text = f"stablehlo.fft {x}, type = {fft_type.name}, length = {list(lengths)}"
    return ctx.emit(f"{text} : ({x.type}) -> {tensor_type(out)}", out)


# Note [Long transforms]
# XLA's library transforms many rows that fit into a cache fast, and a row that does not fit slowly. So a long row is
# cut into quarters x_0, ..., x_3 of q elements: with w = exp(-2 pi i / n) and k = 4 m + r,
#
#     X[4 m + r] = sum_j exp(-2 pi i j m / q) w^(j r) y_r[j]     y_r[j] = sum_s exp(-2 pi i r s / 4) x_s[j]
#
# which is a step along memory, four transforms of q elements, and a transpose. The powers of w are products of two
# short tables. Processor milliseconds of complex64, one loaded core of an AMD EPYC, the library -> quarters, SciPy:
# 2^17 2.3 -> 0.84, 1.9; 2^18 4.7 -> 2.3, 3.2; 2^19 10 -> 5.0, 7.0; 2^20 21 -> 11.5, 16; 400,000 7.4 -> 5.6, 4.2.
# Arrays of more than 8 MB get fresh pages, whose cost outweighs the gain; tables of odd lengths are not vectorized.
_LONG = 1 << 16  # elements of a row that the library is given
_LARGE = 8 << 20  # bytes


def _has_quarters(ctx: Any, x: ShapedArray) -> bool:
    if not ctx.module.on_one_cpu or is_symbolic(x.size) or x.size * x.dtype.itemsize > _LARGE:
        return False
    return x.shape[-1] > _LONG and _is_cut(x.shape[-1])


def _is_cut(n: int) -> bool:
    """Whether quarters, and quarters of quarters, come down to rows for the library."""
    return n <= _LONG or (n % 4 == 0 and _table_length(n // 4) > 1 and _is_cut(n // 4))


def _table_length(n: int) -> int:
    """The greatest multiple of 8 up to the square root of `n` that divides it, or 1."""
    return next((d for d in range(math.isqrt(n) // 8 * 8, 0, -8) if n % d == 0), 1)


def _lower_by_quarters(ctx: Any, x: Any, fft_type: FftType) -> Any:
    """The transform of the last axis. See Note [Long transforms]."""
    *batch, n = x.aval.shape
    axis, q = len(batch), n // 4
    low = _table_length(q)
    cut = ctx.reshape(x, (*batch, 4, q // low, low))
    a, b, c, d = [ctx.slice_axis(cut, i, i + 1, axis) for i in range(4)]
    plus = lambda x, y: ctx.op("add", [x, y])
    minus = lambda x, y: ctx.op("subtract", [x, y])
    even, odd, even_difference = plus(a, c), plus(b, d), minus(a, c)
    re, im = lower_parts(ctx, minus(b, d))
    turned = [im, ctx.op("negate", [re])] if fft_type is FftType.FFT else [ctx.op("negate", [im]), re]
    odd_difference = ctx.op("complex", turned, even.aval)
    parts = [
        plus(even, odd),
        plus(even_difference, odd_difference),
        minus(even, odd),
        minus(even_difference, odd_difference),
    ]
    rows = ctx.op("multiply", [ctx.concatenate(parts, axis), _twiddles(ctx, cut.aval, fft_type)])
    rows = ctx.reshape(rows, (*batch, 4, q))
    if _has_quarters(ctx, rows.aval):
        rows = _lower_by_quarters(ctx, rows, fft_type)
    else:
        rows = _lower_fft(ctx, rows, fft_type, (q,), rows.aval)
    return ctx.reshape(ctx.transpose(rows, [*range(axis), axis + 1, axis]), x.aval.shape)


def _twiddles(ctx: Any, x: ShapedArray, fft_type: FftType) -> Any:
    """w^(j r) at [..., r, j]; for the inverse its conjugate over 4."""
    *batch, _, high, low = x.shape
    n = 4 * high * low
    sign, scale = (-1, 1.0) if fft_type is FftType.FFT else (1, 0.25)

    def table(j: Any, factor: float, axis: int) -> Any:
        angles = np.outer(np.arange(4), j) % n * (sign * 2 * np.pi / n)
        values = (factor * np.exp(1j * angles)).astype(x.dtype)
        constant = ctx.constant(values, x.update(shape=values.shape))
        return ctx.broadcast(constant, x, [len(batch), len(batch) + axis])

    return ctx.op("multiply", [table(np.arange(high) * low, scale, 1), table(np.arange(low), 1.0, 2)])


def _error(rule: str, x: ShapedArray, lengths: Lengths, fix: str) -> TypeError:
    return TypeError(message(f"{rule}.", f"operand: {x}, fft_lengths: {lengths}", fix=fix))


def _scaled(x: Any, unpaired: Any, paired: Any, length: Any) -> Any:
    """`x` times `unpaired` where the frequency k is its own conjugate (0 and n / 2), and times `paired` elsewhere."""
    aval = aval_of(x)
    dtype = dtypes.real_dtype(aval.dtype)
    k = iota(np.dtype(np.int32), aval.shape[-1:], 0)
    has_partner = and_(gt(k, 0), lt(mul(k, 2), number(length, np.dtype(np.int32))))
    weight = where(has_partner, *[convert_element_type(x, dtype) for x in (paired, unpaired)])
    weight = broadcast_in_dim(convert_element_type(weight, aval.dtype), aval.shape, (aval.ndim - 1,))
    return mul(x, weight)


fft_p = Fft("fft")
