"""Loops of small steps, compiled as one function instead of a list of kernels.

XLA on the CPU runs a loop as a list of kernels, each of which costs 0.1 microseconds and more to start, unless all of
its state is under 1,024 bytes: then the loop is one function, in which values stay in registers. This pass decides by
what the steps of a loop do. `one_function_p` calls a jaxpr that is one loop, with the mark by which XLA knows such
functions. Measured on one core, as fractions of the time without this pass: gradients of scans with 16 and 60 scalars
0.06; a Kalman filter's gradient 0.04; a recurrent net of 32 units 0.3 (gradient) and 0.6; edit distance 0.6. Large
steps lose (64 x 64 cells of the game of life 1.15; a product of a vector with 512 x 512 weights 1.65): kernels may use
all cores, and their code is better for long rows.

The rule: no step computes more than `MAX_ELEMENTS` of anything, and all of it is what XLA can write into one function:
not a sort, a scatter, an FFT, a call of LAPACK, nor a product of matrices that it hands to a library. A product of a
few rows is written as products of vectors (`rows.py`). Read next: `driver.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.passes.loops.notes import Note, note
from didax.passes.loops.rewrite import num_bytes
from didax.passes.loops.rows import becomes_sum, by_rows, has_few_rows, product_of, products_by_rows
from didax.passes.physical import physical_jaxpr
from didax.primitives.call import Jit, jit_p
from didax.primitives.control_flow.cond import cond_p
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.control_flow.while_loop import while_p
from didax.primitives.convert import (
    bitcast_convert_type_p,
    convert_element_type_p,
    copy_p,
    iota_p,
    reduce_precision_p,
    stop_gradient_p,
)
from didax.primitives.cumulative import Cumulative
from didax.primitives.dot import dot_general_p
from didax.primitives.elementwise import add, not_
from didax.primitives.families import Elementwise
from didax.primitives.gather import gather_p
from didax.primitives.random_bits import random_bits_p, random_fold_in_p, random_split_p
from didax.primitives.reductions import ArgExtremum, Reduction
from didax.primitives.select import select_n_p
from didax.primitives.shape import broadcast_in_dim_p, reduce_sum_p, reshape_p, transpose_p
from didax.primitives.slicing import (
    concatenate_p,
    dynamic_slice_p,
    dynamic_update_slice_p,
    pad_p,
    rev_p,
    slice_,
    slice_p,
)
from didax.primitives.threefry_cipher import threefry2x32_p
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed
from didax.xla.lowering import call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value, names, types

RULE = "one function"
MIN_STATE = 512  # bytes; XLA by itself compiles a loop of a smaller state as one function
MAX_ELEMENTS = 1024  # of anything a step computes
MAX_BITS = 256  # random words, each of which is a hundred operations
MAX_EQNS = 2000  # compile time grows faster than the function
MAX_ARRAYS = 250  # that the loop reads and returns; with 600 the loop compiles in 10 s instead of 1 s
MAX_PRODUCT = 1 << 14  # multiplications in a product with a vector, or of a few rows
MAX_CHAINED = 1 << 11  # the same for products of many rows, one of which is computed from another
_FLOATS = (np.float32, np.float64)
_RARE = ("float16",)

_BITS = {random_bits_p, random_fold_in_p, random_split_p, threefry2x32_p}
_HOLDERS = (scan_p, while_p, cond_p, jit_p)
_ANY_SIZE = (dynamic_update_slice_p,)  # it updates its operand in place
_ALLOWED = {
    bitcast_convert_type_p, broadcast_in_dim_p, concatenate_p, convert_element_type_p, copy_p, dynamic_slice_p,
    dynamic_update_slice_p, gather_p, iota_p, pad_p, reduce_precision_p, reduce_sum_p, reshape_p, rev_p, select_n_p,
    slice_p, stop_gradient_p, transpose_p, *_BITS,
}  # fmt: skip
_ALLOWED_FAMILIES = (Elementwise, Reduction, ArgExtremum, Cumulative)


class OneFunction(Jit):
    """`one_function_p.bind(*args, jaxpr=jaxpr)`: the jaxpr as one function, with all that would be kernels."""

    kind = "loop compiled as one function"
    evaluate = None  # it is made when a program is compiled; alone it is a program of one operation

    def lower(self, ctx: FunctionContext, *args: Value, jaxpr: Jaxpr) -> list[Value]:
        hidden = ctx.emit_many(
            f"stablehlo.optimization_barrier {names(args)} : {types(args)}", [x.aval for x in args]
        )
        return call(ctx, _reading_all(jaxpr), hidden, one_kernel=True)[: len(jaxpr.outvars)]


@cached_on_jaxpr
def _reading_all(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr that also returns a value computed from each of its inputs.

    XLA (jaxlib 0.10 and 0.11) ends the process when such a function does not read one of its arguments, once XLA has
    simplified the function. A constant argument would be simplified away, so arguments are hidden behind a barrier.
    """

    def run(*args: Any) -> list[Any]:
        return [*eval_jaxpr(jaxpr, args), *map(_changed_element, args)]

    return trace_closed(run, jaxpr.in_avals, what="lowering", name=jaxpr.name)


def _changed_element(x: Any) -> Any:
    aval = aval_of(x)
    first = slice_(x, (0,) * aval.ndim, (1,) * aval.ndim) if aval.size > 1 else x
    return not_(first) if aval.dtype == np.bool_ else add(first, first)


one_function_p = OneFunction("one_function")


def as_one_function(eqn: Eqn, original: Eqn) -> tuple[Eqn | None, list[Note]]:
    """A call of the loop as one function, or None where that does not pay; and a note on the `original` loop."""
    stacked = eqn.outvars[eqn.params.get("num_carry", len(eqn.outvars)) :]
    state = sum(num_bytes(x.aval) for x in (*eqn.invars, *stacked))
    if state < MIN_STATE:
        return None, [note(original, RULE, False, f"XLA does so by itself: its state has {state:,} bytes")]
    why = _obstacle_of_loop(eqn)
    if why is not None:
        return None, [note(original, RULE, False, why)]
    invars = [Var(x.aval) for x in eqn.invars]
    outvars = [Var(v.aval) for v in eqn.outvars]
    loop = eqn.map_jaxprs(by_rows).replace(invars=invars, outvars=outvars)
    jaxpr = Jaxpr(invars, [loop], outvars, "loop")
    whole = eqn.replace(primitive=one_function_p, params={"jaxpr": jaxpr})
    return whole, [note(original, RULE, True, "its steps are small")]


def is_small(eqn: Eqn) -> bool:
    """Whether a loop is one function, marked or not."""
    return _obstacle_of_loop(eqn) is None


def _obstacle_of_loop(eqn: Eqn) -> str | None:
    if platform() != "cpu":
        return "kernels are no slower on this platform"
    if eqn.effects:
        return "it has effects"
    if not eqn.invars:
        return "it has no inputs"  # the barrier has nothing to hide
    if any(x.aval.physical.size == 0 for x in (*eqn.invars, *eqn.outvars)):
        return "it has empty arrays"
    arrays = len(eqn.invars) + len(eqn.outvars)
    if arrays > MAX_ARRAYS:
        return f"it reads and returns {arrays:,} arrays: compiling it would take long"
    jaxprs = eqn.jaxprs
    size = sum(map(_count, jaxprs))
    if size > MAX_EQNS:
        return f"its body has {size:,} equations: compiling it would take long"
    return _first_obstacle(jaxprs) or _obstacle_in_products(jaxprs)


def _count(jaxpr: Jaxpr) -> int:
    return sum(1 + sum(map(_count, eqn.jaxprs)) for eqn in jaxpr.eqns)


def _first_obstacle(jaxprs: Sequence[Jaxpr]) -> str | None:
    for jaxpr in jaxprs:
        for eqn in physical_jaxpr(jaxpr).eqns:
            if eqn.primitive in _HOLDERS:
                why = _first_obstacle(eqn.jaxprs)
            elif (why := _obstacle(eqn)) is not None and eqn.source is not None:
                why = f"{why} ({eqn.source})"
            if why is not None:
                return why
    return None


def _obstacle(eqn: Eqn) -> str | None:
    """Why the equation may not be a part of a function with its loop."""
    primitive = eqn.primitive
    if primitive is dot_general_p:
        return _obstacle_of_product(eqn)
    if primitive not in _ALLOWED and not isinstance(primitive, _ALLOWED_FAMILIES):
        return f"{primitive} is a kernel of its own"
    most = MAX_BITS if primitive in _BITS else MAX_ELEMENTS
    for x in eqn.outvars:
        if x.aval.dtype.kind not in "biufc" or x.aval.dtype.name in _RARE:
            return f"numbers of {x.aval.dtype} are rare"
    for x in () if primitive in _ANY_SIZE else (*eqn.outvars, *_all_read(eqn)):
        if x.aval.size > most:
            return (
                f"a step computes {primitive} of {x.aval}: kernels are better at more than {most:,} elements"
            )
    return None


def _all_read(eqn: Eqn) -> Sequence[Any]:
    """The operands of which every element is read."""
    reductions = isinstance(eqn.primitive, Reduction | ArgExtremum) or eqn.primitive is reduce_sum_p
    return eqn.invars if reductions else ()


def _obstacle_of_product(eqn: Eqn) -> str | None:
    product = product_of(eqn)
    names = f"a product of {eqn.invars[0].aval} and {eqn.invars[1].aval}"
    if becomes_sum(eqn):
        return None
    if product.batched or not all(x.aval.dtype in _FLOATS for x in eqn.invars):
        return f"{names} is a kernel of its own"
    if product.size > MAX_PRODUCT:
        return f"{names} is large"
    return f"{names} is left to a library" if product.in_library and not has_few_rows(eqn) else None


def _obstacle_in_products(jaxprs: Sequence[Jaxpr]) -> str | None:
    """Why products of many rows do not pay: one is computed from another, and not all are small."""
    sizes = [(size, chained) for jaxpr in jaxprs for size, chained in products_by_rows(jaxpr)]
    if any(chained for _, chained in sizes) and max(size for size, _ in sizes) > MAX_CHAINED:
        return "products of matrices are computed from others"
    return None
