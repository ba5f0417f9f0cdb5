"""How elementwise primitives are compiled: scalars are stretched, narrow floats computed in a wider dtype.

Read next: `families.py`, which gives a primitive its other rules; `xla/text.py` for `ctx`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.primitive import Primitive
from didax.passes.sparsity import Dependence, stretched, union
from didax.xla.text import tensor_type


class ElementwiseLowering(Primitive):
    """The lowering of an elementwise primitive: one StableHLO operation, or what its `emit` writes."""

    # Floats of one byte are computed in a wider dtype: XLA computes some functions of them in 16 bits, some not at all.
    widens = True
    # Floats of two bytes, too, where XLA would round each of the steps that the function takes.
    widens_halves = False
    hlo: str
    out_dtype: Callable[[np.dtype[Any]], np.dtype[Any]] | None
    emit: Callable[..., Any]
    jvps: tuple[Any, ...]

    def lower(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        dtype = operands[0].aval.dtype
        wide = dtypes.compute_dtype(dtype) if self.widens else None
        if self.widens_halves and dtypes.is_float(dtype) and dtype.itemsize == 2:
            wide = np.dtype(np.float32)
        if wide is not None:
            return self._lower_widened(ctx, operands, wide, **params)
        return self.emit(ctx, *[ctx.fill(x, ctx.out_avals[0]) for x in operands], **params)

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> Any:
        """Element by element, of the operands that it has a derivative by."""
        shape = max([x.aval.shape for x in operands], key=len)
        return union(
            [stretched(x, shape) for x, rule in zip(operands, self.jvps, strict=True) if rule is not None]
        )

    def _lower_widened(self, ctx: Any, operands: Sequence[Any], wide: np.dtype[Any], **params: Any) -> Any:
        """Compute in a wider dtype, and round once."""
        out = ctx.out_avals[0]
        narrow = operands[0].aval.dtype
        operands = [ctx.convert(ctx.fill(x, out), wide) for x in operands]
        if out.dtype != narrow:  # it is bool
            return self.emit(ctx, *operands, **params)
        ctx.out_avals = (out.update(dtype=wide),)
        found = self.emit(ctx, *operands, **params)
        if narrow != dtypes.supported_dtype(narrow):
            found = ctx.barrier(found)  # otherwise XLA computes in the narrow dtype, or in float32 for it
        return ctx.convert(found, narrow)

    def _emit_operation(self, ctx: Any, *operands: Any) -> Any:
        out = ctx.out_avals[0]
        if self.out_dtype is None and self.hlo.startswith("stablehlo"):
            return ctx.emit(f"{self.hlo} {', '.join([x.name for x in operands])} : {operands[0].type}", out)
        ins = ", ".join([x.type for x in operands])
        ins = f"({ins})" if self.hlo.startswith("stablehlo") else ins
        return ctx.emit(
            f"{self.hlo} {', '.join([x.name for x in operands])} : {ins} -> {tensor_type(out)}", out
        )
