"""Which of XLA's options a program is compiled with, where its user chooses none.

LLVM writes a loop of few steps out as that many copies of its body, and then spends most of its time compiling the
copies. A program whose arrays are all small takes microseconds either way, so its loops stay loops: it compiles in
0.45 to 0.8 of the time, and runs about as fast. Large arrays keep the copies, which some of the library's own
lowerings rely on (the maximum of 10,000,000 elements takes 2.6 times as long without); arithmetic, moves and sums
of numbers do not, so their arrays may be larger. Loops that are compiled as one function keep the copies, too,
because their steps are repeated many times; where products with vectors are most of a step, it is faster without.
So do loops without products whose steps reduce arrays, other than by sums along rows: LLVM vectorizes across the
results of a reduction that it writes out. Programs that work on many short rows need the copies: where the loop
along a row is written out, LLVM vectorizes along another axis. They are compiled at LLVM's level 2, which makes
fewer copies of long bodies. So are programs of large arrays that gather rows of some 64 elements, each of which
level 3 copies one element at a time. Rows that are joined or padded, as by the rolls of a stencil, need the copies,
too.

In a program of elementwise operations XLA makes a kernel for each value that is read in several places, which computes
again what the value depends on. A gradient has hundreds of such values, because its backward half reads the forward
half. With fusions of several results XLA makes one kernel of the whole program, which compiles in 0.15 to 0.4 of the
time.
docs/design/compiling.md has the measurements.
Read next: `xla/compile.py`.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from didax.core.dtypes import is_float, is_integer, is_sub_byte
from didax.core.jaxpr import Eqn, Jaxpr
from didax.passes.loops.one_function import is_small, one_function_p
from didax.passes.loops.rewrite import num_bytes
from didax.passes.loops.rows import product_of
from didax.passes.outline import crossing_bytes, last_uses
from didax.primitives.call import jit_p
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.control_flow.while_loop import while_p
from didax.primitives.convert import convert_element_type_p, iota_p
from didax.primitives.convolution import conv_general_dilated_p
from didax.primitives.dot import dot_general_p, free_axes
from didax.primitives.families import Elementwise
from didax.primitives.gather import gather_p, scatter_add_p, scatter_max_p, scatter_min_p, scatter_mul_p
from didax.primitives.random_bits import random_bits_p
from didax.primitives.reductions import Reduction
from didax.primitives.select import select_n_p
from didax.primitives.shape import broadcast_in_dim_p, reduce_sum_p, transpose_p
from didax.primitives.slicing import concatenate_p, pad_p
from didax.transforms.cache import cached_on_jaxpr
from didax.xla.platforms import platform

SMALL = 4096  # elements
PLAIN = 32768  # elements, for what gains nothing by copies of the bodies of loops
STENCIL = 1024  # elements that a step of a loop without products joins or pads
REDUCED = 256  # elements that a step of a loop without products reduces
PRODUCTS = 256  # multiplications in the products of a step: with as many, a loop of one function gains, too
SHORT = 8  # elements: a row with fewer is short, less than a vector
MANY = 256  # elements: short rows with as many together take microseconds
SHARE = 10  # a program works on short rows if one in so many of its equations does
ROWS = range(33, 80)  # lengths of rows that LLVM copies by one instruction for each element
FEWER_COPIES = {"xla_backend_optimization_level": 2}
ONE_KERNEL = 1024  # elements: over longer arrays several short kernels may run faster than a long one
WAITING = 8  # values that are computed and still to be read
_LOOPS = (scan_p, while_p)
# Of limit `PLAIN` at any rate: the loops that bring the axes of large arrays into order need the copies.
_TURNING = (transpose_p, conv_general_dilated_p)
_SCATTERS = (scatter_add_p, scatter_max_p, scatter_min_p, scatter_mul_p)
_PLAIN = (conv_general_dilated_p, convert_element_type_p, iota_p, random_bits_p, *_SCATTERS)


def options_for(jaxpr: Jaxpr) -> dict[str, Any]:
    """XLA's options, by name, for a program that runs on one device; `jaxpr` is the program as it is lowered."""
    if platform() != "cpu":
        return {}
    fusions = {"xla_cpu_use_multi_output_fusion": True} if _gains_as_one_kernel(jaxpr) else {}
    return _of_loops(jaxpr) | fusions


def _of_loops(jaxpr: Jaxpr) -> dict[str, Any]:
    """The options by which LLVM writes out fewer loops."""
    if not _has_small_arrays(jaxpr, PLAIN):
        return FEWER_COPIES if _copies_rows(jaxpr) and _has_small_arrays(jaxpr, sys.maxsize) else {}
    short, computing = _short_rows(jaxpr)
    return FEWER_COPIES if short * SHARE > computing else {"xla_cpu_disable_loop_unrolling": True}


def _gains_as_one_kernel(jaxpr: Jaxpr) -> bool:
    """Whether its operations are elementwise, on small arrays of one shape and scalars, and many values wait.

    Next to other operations, except for sums of all elements, XLA's fusions of several results are not safe: where
    arrays of several shapes are reshaped into one another, they can end the process.
    """
    shapes = _shapes(jaxpr)
    if shapes is None or len(shapes) > 1:
        return False
    lengths = next(iter(shapes), ())
    few = all([type(n) is int for n in lengths]) and math.prod(lengths) <= ONE_KERNEL
    return few and _most_waiting(jaxpr) >= WAITING


@cached_on_jaxpr
def _shapes(jaxpr: Jaxpr) -> set[tuple[Any, ...]] | None:
    """The shapes of the arrays that are computed and read; None if an operation is not elementwise."""
    shapes: set[tuple[Any, ...]] = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive is jit_p:
            inner = _shapes(eqn.params["jaxpr"])
            if inner is None:
                return None
            shapes |= inner
        elif not _is_elementwise(eqn):
            return None
        shapes.update([x.aval.physical.shape for x in (*eqn.invars, *eqn.outvars)])
    return shapes - {()}


def _is_elementwise(eqn: Eqn) -> bool:
    """Whether each number of the results is computed from one number of each operand, or from all of them.

    XLA's fusions of several results do not support numbers of 4 bits; floats of one byte are left out with them.
    """
    dtypes = [x.aval.dtype for x in (*eqn.invars, *eqn.outvars)]
    if any([is_sub_byte(dtype) or (dtype.itemsize == 1 and is_float(dtype)) for dtype in dtypes]):
        return False
    if eqn.primitive is broadcast_in_dim_p:
        return eqn.invars[0].aval.shape == ()
    if eqn.primitive is reduce_sum_p:
        return eqn.outvars[0].aval.shape == ()
    return isinstance(eqn.primitive, Elementwise) or eqn.primitive in (select_n_p, convert_element_type_p)


@cached_on_jaxpr
def _most_waiting(jaxpr: Jaxpr) -> int:
    """How many values of the largest size are computed and still to be read, at the point where that is the most."""
    largest = max([1, *[num_bytes(v.aval) for eqn in jaxpr.eqns for v in eqn.outvars]])
    waiting = max(crossing_bytes(jaxpr, last_uses(jaxpr))) // largest
    return max([waiting, *[_most_waiting(inner) for eqn in jaxpr.eqns for inner in eqn.jaxprs]])


@cached_on_jaxpr
def _has_small_arrays(jaxpr: Jaxpr, plain: int) -> bool:
    """Whether all arrays have at most `SMALL` elements, or at most `plain` where copies gain nothing."""
    return all([_is_of_small_arrays(eqn, plain) for eqn in jaxpr.eqns])


def _is_of_small_arrays(eqn: Eqn, plain: int) -> bool:
    """Whether the loops that XLA writes for an equation go over small arrays only.

    Products of matrices and convolutions are computed by a library, which takes the axes in one order only: loops of
    XLA's bring them into that order.
    """
    is_one_function = eqn.primitive is one_function_p or (eqn.primitive in _LOOPS and is_small(eqn))
    multiplications = sum(map(_multiplications, eqn.jaxprs))
    if is_one_function and multiplications < PRODUCTS:
        return False
    if eqn.primitive in _LOOPS and not multiplications and any(map(_counts_on_copies, eqn.jaxprs)):
        return False
    if inner := eqn.jaxprs:
        return all([_has_small_arrays(jaxpr, plain) for jaxpr in inner])
    if eqn.primitive is dot_general_p:
        return all([_is_at_most(SMALL, x) for x in _moved_operands(eqn)])
    if eqn.primitive.materializes_operands and eqn.primitive is not conv_general_dilated_p:
        return True
    read = () if eqn.primitive.moves_elements else eqn.invars  # a slice reads no more than it returns
    limit = plain if _is_plain(eqn) else SMALL
    if eqn.primitive in _TURNING:
        limit = PLAIN
    return all([_is_at_most(limit, x) for x in (*read, *eqn.outvars)])


@cached_on_jaxpr
def _counts_on_copies(jaxpr: Jaxpr) -> bool:
    """Whether the steps of a loop are faster with copies of bodies: they reduce arrays, or elements read neighbours."""
    return any(
        [_is_stencil(eqn) or _reduces(eqn) or any(map(_counts_on_copies, eqn.jaxprs)) for eqn in jaxpr.eqns]
    )


def _is_stencil(eqn: Eqn) -> bool:
    """Whether it joins, pads or filters rows of many elements, as steps do in which elements read their neighbours."""
    return (_extends_rows(eqn) or _filters(eqn)) and not _is_at_most(STENCIL - 1, eqn.outvars[0])


def _reduces(eqn: Eqn) -> bool:
    """Whether it is a reduction of many elements in which LLVM finds vectors if it may write the loop out.

    In a sum along rows it does not: the sums of a row are one after the other.
    """
    if eqn.primitive is reduce_sum_p:
        (x,) = eqn.invars
        along_rows = x.aval.ndim - 1 in eqn.params["axes"] and not is_integer(x.aval.dtype)
    elif isinstance(eqn.primitive, Reduction):
        along_rows = False
    else:
        return False
    return not along_rows and not _is_at_most(REDUCED - 1, eqn.invars[0])


def _filters(eqn: Eqn) -> bool:
    """Whether it is a convolution of one feature, which is a sum of shifted images."""
    if eqn.primitive is not conv_general_dilated_p:
        return False
    window = eqn.invars[1].aval.shape
    out_features, in_features, *_ = eqn.params["dimension_numbers"].rhs_spec
    return window[out_features] == window[in_features] == 1


def _extends_rows(eqn: Eqn) -> bool:
    """Whether elements are joined or padded along the last axis, so that a loop along it has a branch.

    LLVM takes the branch out of the loop where it may write the loop out.
    """
    if eqn.primitive is concatenate_p:
        return eqn.params["dimension"] == eqn.outvars[0].aval.ndim - 1
    return eqn.primitive is pad_p


@cached_on_jaxpr
def _copies_rows(jaxpr: Jaxpr) -> bool:
    """Whether it gathers many rows of a length in `ROWS`."""
    for eqn in jaxpr.eqns:
        if eqn.primitive is gather_p:
            (x,) = eqn.outvars
            along = eqn.params["dimension_numbers"].offset_dims
            if x.aval.ndim - 1 in along and x.aval.shape[-1] in ROWS and not _is_at_most(PLAIN, x):
                return True
        elif any(map(_copies_rows, eqn.jaxprs)):
            return True
    return False


@cached_on_jaxpr
def _multiplications(jaxpr: Jaxpr) -> int:
    """How many multiplications the products of a jaxpr take, without what loops repeat."""
    own = [product_of(eqn).size for eqn in jaxpr.eqns if eqn.primitive is dot_general_p]
    return sum(own) + sum([_multiplications(inner) for eqn in jaxpr.eqns for inner in eqn.jaxprs])


def _is_at_most(limit: int, x: Any) -> bool:
    """Whether `x` has at most so many elements; not where its size has names, as inside a padded call."""
    size = x.aval.physical.size
    return type(size) is int and size <= limit


@cached_on_jaxpr
def _short_rows(jaxpr: Jaxpr) -> tuple[int, int]:
    """How many equations compute something of many short rows, and how many compute something."""
    computing = [eqn for eqn in jaxpr.eqns if not (eqn.primitive.moves_elements or eqn.jaxprs)]
    short = sum([any(map(_has_many_short_rows, eqn.invars)) for eqn in computing])
    inner = [_short_rows(inner) for eqn in jaxpr.eqns for inner in eqn.jaxprs]
    return short + sum([n for n, _ in inner]), len(computing) + sum([n for _, n in inner])


def _has_many_short_rows(x: Any) -> bool:
    *rest, row = [n for n in x.aval.physical.shape if n != 1] or [1]
    return row < SHORT and row * math.prod(rest) >= MANY


def _moved_operands(eqn: Eqn) -> list[Any]:
    """The operands of a product whose axes are neither in the order batch, free, summed nor batch, summed, free."""
    contract, batch = eqn.params["dimension_numbers"]
    found: list[Any] = []
    for x, summed, leading in zip(eqn.invars, contract, batch, strict=True):
        free = free_axes(x.aval.ndim, summed, leading)
        if tuple(range(x.aval.ndim)) not in ((*leading, *free, *summed), (*leading, *summed, *free)):
            found.append(x)
    return found


def _is_plain(eqn: Eqn) -> bool:
    """Whether the loops of an equation are as fast where LLVM leaves them as they are.

    The loops of sums of integers (counts), and those of padded and joined rows, are not.
    """
    primitive = eqn.primitive
    if primitive is reduce_sum_p:
        return not is_integer(eqn.invars[0].aval.dtype)
    moves = primitive.moves_elements and not _extends_rows(eqn)
    return moves or isinstance(primitive, Elementwise) or primitive in _PLAIN
