"""Calls of LAPACK on the CPU and of cuSOLVER on NVIDIA GPUs, which jaxlib carries as custom calls for XLA.

    q, tau = lapack_call(ctx, "geqrf", [x], [x.aval, tau_aval])         @lapack_sgeqrf_ffi, d, c or z by the dtype
    v, w, info = cuda_call(ctx, "cusolver_syevd_ffi", [x], outs, lower=True)    for every dtype

Matrices go in and come out in column-major order, batch axes outermost; XLA transposes where needed. Flags are
characters (LAPACK's own letters), booleans or small integers. The LAPACK of SciPy is behind these calls, so the first
program that needs it imports SciPy (0.15 s), and none before. Read next: `didax/primitives/linalg/`, the callers.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.process import lock_for_forks, to_the_end
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value, function_type, layout_text, names

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


class Int32(int):
    """A flag of 32 bits; other integers have eight."""


Flag = str | bool | int

# Routines whose first result may be written over an operand, and the number of that.
_OVER = {"getrf": 0, "geqrf": 0, "orgqr": 0, "ungqr": 0, "potrf": 0, "trsm": 1}

_lock = lock_for_forks(threading.Lock())
_registered = False


def register_lapack() -> None:
    """Make jaxlib's LAPACK kernels known to XLA; the first call loads them."""
    global _registered
    if _registered:
        return
    with _lock:
        if _registered:
            return
        from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

        def register() -> None:
            kernels = importlib.import_module("jaxlib.cpu._lapack")
            for name, kernel in kernels.registrations().items():
                xe.register_custom_call_target(name, kernel, "Host", api_version=int(name.endswith("_ffi")))
            kernels.initialize()  # imports SciPy

        to_the_end(register)
        _registered = True


def lapack_call(
    ctx: FunctionContext, routine: str, operands: Sequence[Value], outs: Sequence[ShapedArray], **flags: Flag
) -> list[Value]:
    """Write a call of a LAPACK or BLAS routine, named without the letter of its dtype."""
    register_lapack()
    letter = _LETTERS[operands[0].aval.dtype.name]
    over = _OVER.get(routine)
    return _custom_call(ctx, f"lapack_{letter}{routine}_ffi", operands, outs, flags, over)


def cuda_call(
    ctx: FunctionContext, target: str, operands: Sequence[Value], outs: Sequence[ShapedArray], **flags: Flag
) -> list[Value]:
    """Write a call of a routine of NVIDIA's libraries, or of XLA's plugin for GPUs, by the name that the plugin has."""
    if platform() != "cuda":
        routine = target.removesuffix("_ffi").partition("_")[2]
        facts = f"platform: {platform()}, routine: {routine}, operand: {operands[0].aval}"
        fix = "Lower it for cpu or cuda."
        raise NotImplementedError(
            message("Linear algebra is written for CPUs and NVIDIA GPUs.", facts, fix=fix)
        )
    return _custom_call(ctx, target, operands, outs, flags)


def _custom_call(
    ctx: FunctionContext,
    target: str,
    operands: Sequence[Value],
    outs: Sequence[ShapedArray],
    flags: dict[str, Flag],
    over: int | None = None,
) -> list[Value]:
    # The number of axes of the matrices, batch axes included; vectors and scalars have fewer.
    rank = max([x.aval.ndim for x in operands])
    config = ", ".join([f"{name} = {_flag_text(flag)}" for name, flag in sorted(flags.items())])
    shapes = ctx.shapes_for(outs)
    layouts = [_layout(x.aval, rank) for x in operands] + [_layout(x.aval, 0) for x in shapes]
    places = list(range(len(operands), len(operands) + len(shapes)))
    shape_places = (
        f"indices_of_shape_operands = dense<{places}> : tensor<{len(places)}xi64>, " if shapes else ""
    )
    operands = [*operands, *shapes]
    return ctx.emit_many(
        f"stablehlo.custom_call @{target}({names(operands)}) {{api_version = 4 : i32, "
        f"backend_config = {{{config}}}, {shape_places}"
        f"operand_layouts = [{', '.join(layouts)}], "
        f"{'' if over is None else _alias(over, len(outs))}"
        f"result_layouts = [{', '.join([_layout(aval, rank) for aval in outs])}]}} : "
        f"{function_type(operands, outs)}",
        outs,
    )


def _alias(operand: int, num_outs: int) -> str:
    """The attribute by which the first result takes the memory of an operand; XLA copies what is still needed."""
    place = 0 if num_outs > 1 else ""
    return (
        f"output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [{place}], "
        f"operand_index = {operand}, operand_tuple_indices = []>], "
    )


def _flag_text(flag: Flag) -> str:
    if isinstance(flag, bool):
        return "true" if flag else "false"
    if isinstance(flag, Int32):
        return f"{flag} : i32"
    return f"{ord(flag) if isinstance(flag, str) else flag} : ui8"


def _layout(aval: ShapedArray, rank: int) -> str:
    """The layout of matrices by columns. Integers are vectors, of pivots or of statuses, and lie by rows."""
    order = list(range(aval.ndim))[::-1]
    if aval.ndim == rank and not dtypes.is_integer(aval.dtype):
        order[:2] = order[1::-1]
    return layout_text(order)
