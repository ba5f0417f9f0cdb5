"""Which elements of the results of a program depend on which elements of its inputs: the pattern of its Jacobian.

    dependence(jaxpr, inputs)    for each result a sparse matrix: a row per element of it, a column per element of x

A value in the program is a `Dependence`: its type, its number where that follows from constants (indices often do), and
the `rows` of its elements. A primitive states by its `sparsity` rule how rows of operands become rows of results.
Without a rule, one that only moves elements is run on the numbers of elements, and of any other every element of the
result depends on all elements of the operands. So a pattern may have more entries than a Jacobian, never fewer.
Read next: `didax/experimental/sparse_derivatives.py`, what uses the pattern; `didax/primitives/families.py` for a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.primitive import Primitive, eager_trace, require
from didax.core.tracing import set_current_trace
from didax.transforms.named_axes import AxisData
from didax.transforms.rewriting import interpret

Rows = Any  # a scipy.sparse.csr_array of bools, or None where nothing depends on the inputs
_MAX_KNOWN = 1 << 22  # elements of a constant that is computed to follow indices


class Dependence(NamedTuple):
    """What is known of a value: its type, its number or None, and the row of each of its elements or None."""

    aval: ShapedArray
    value: Any = None
    rows: Rows = None


def independent(x: Any) -> Dependence:
    """A constant."""
    return Dependence(aval_of(x), x)


def dependence(jaxpr: Jaxpr, inputs: Sequence[Dependence]) -> list[Dependence]:
    """What is known of the results."""
    return interpret(jaxpr, inputs, _results, lambda x: independent(x.val))


def _results(eqn: Eqn, operands: Sequence[Dependence]) -> list[Dependence]:
    primitive, avals = eqn.primitive, [v.aval for v in eqn.outvars]
    if all(x.rows is None for x in operands):
        known = all(x.value is not None for x in operands) and not eqn.effects
        if not known or any(aval.size > _MAX_KNOWN for aval in avals):
            return list(map(Dependence, avals))
        with set_current_trace(eager_trace):
            outs = primitive.bind(*[x.value for x in operands], **eqn.params)
        return list(map(independent, outs if primitive.multiple_results else [outs]))
    if primitive.sparsity is not None:
        found = primitive.sparsity(operands, **eqn.params)
        return (
            list(found)
            if primitive.multiple_results
            else [Dependence(avals[0], rows=_differentiable(avals[0], found))]
        )
    rows = _derived(primitive, operands, eqn.params, avals)
    return [Dependence(aval, rows=_differentiable(aval, r)) for aval, r in zip(avals, rows, strict=True)]


def _derived(
    primitive: Primitive,
    operands: Sequence[Dependence],
    params: dict[str, Any],
    avals: Sequence[ShapedArray],
) -> list[Rows]:
    """Rows for the results of a primitive without a rule."""
    if primitive.moves_elements and all(
        dtypes.is_inexact(x.aval.dtype) or x.value is not None for x in operands
    ):
        return moved(primitive, operands, params)
    return [everything(operands, aval.size) for aval in avals]


def _differentiable(aval: ShapedArray, rows: Rows) -> Rows:
    """No rows for integers and booleans, whose derivatives vanish."""
    return rows if dtypes.is_inexact(aval.dtype) else None


# --- Rows of results from rows of operands ----------------------------------------------------------


def selected(x: Dependence, elements: np.ndarray[Any, Any]) -> Rows:
    """Rows for a result whose elements are these elements of `x`; a number out of range stands for a constant."""
    if x.rows is None:
        return None
    flat = np.asarray(elements, np.int64).ravel()
    inside = np.flatnonzero((flat >= 0) & (flat < x.aval.size))
    return _incidence(inside, flat[inside], (flat.size, x.aval.size)) @ x.rows


def grouped(x: Dependence, groups: np.ndarray[Any, Any], size: int) -> Rows:
    """Rows for a result of `size` elements, for each element of `x` the one that it contributes to; -1 for none."""
    if x.rows is None:
        return None
    flat = np.broadcast_to(groups, x.aval.shape).ravel()
    inside = np.flatnonzero(flat >= 0)
    return _incidence(flat[inside], inside, (size, x.aval.size)) @ x.rows


def stretched(x: Dependence, shape: tuple[int, ...]) -> Rows:
    """Rows for an elementwise result of that shape."""
    return x.rows if x.rows is None or x.aval.shape == shape else selected(x, np.zeros(shape, np.int64))


def along_axes(x: Dependence, axes: Sequence[int], keepdims: bool = False) -> Rows:
    """Rows for a result that combines all elements along these axes; with `keepdims` in the shape of `x`."""
    lengths = [1 if i in axes else n for i, n in enumerate(x.aval.shape)]
    groups = np.arange(math.prod(lengths)).reshape(lengths)
    found = grouped(x, groups, groups.size)
    spread = Dependence(x.aval.update(shape=tuple(lengths)), rows=found)
    return selected(spread, np.broadcast_to(groups, x.aval.shape)) if keepdims else found


def through(pattern: Any, x: Dependence) -> Rows:
    """Rows by the pattern of a matrix that multiplies the elements of `x`."""
    from scipy.sparse import csr_array

    return None if x.rows is None else csr_array(np.asarray(pattern) != 0) @ x.rows


def union(rows: Sequence[Rows]) -> Rows:
    """Rows of elements that depend on all that any of these depends on."""
    found = [r for r in rows if r is not None]
    return sum(found[1:], found[0]) if found else None


def everything(operands: Sequence[Dependence], size: int) -> Rows:
    """Rows for elements of which each depends on all elements of all operands."""
    row = union([grouped(x, np.zeros((), np.int64), 1) for x in operands])
    return None if row is None else _incidence(np.arange(size), np.zeros(size, np.int64), (size, 1)) @ row


def moved(primitive: Primitive, operands: Sequence[Dependence], params: dict[str, Any]) -> list[Rows]:
    """Rows for the results of a primitive that only moves elements, from where it puts their numbers."""
    starts = np.cumsum([0, *(x.aval.size for x in operands)])
    numbers = [
        np.arange(start, start + x.aval.size, dtype=np.int32).reshape(x.aval.shape)
        if dtypes.is_inexact(x.aval.dtype)
        else x.value
        for start, x in zip(starts[:-1].tolist(), operands, strict=True)
    ]
    with set_current_trace(eager_trace):
        outs = primitive.bind(*numbers, **params)
    places = list(zip(operands, starts[:-1].tolist(), strict=True))
    return [
        union([selected(x, elements - start) for x, start in places])
        for elements in map(np.asarray, outs if primitive.multiple_results else [outs])
    ]


def by_basis(
    primitive: Primitive,
    operands: Sequence[Dependence],
    params: dict[str, Any],
    aval: ShapedArray,
    otherwise: Callable[[], Rows] | None = None,
) -> Rows:
    """Rows for sums of products, linear in the one operand that depends on the inputs: images of unit vectors.

    Each element of an image is a sum of elements of the other operands, so none vanishes by cancelling. `otherwise` is
    for operands that are not known, and for large ones; without it every result depends on all.
    """
    moving = [i for i, x in enumerate(operands) if x.rows is not None]
    x = operands[moving[0]]
    known = all(y.value is not None for i, y in enumerate(operands) if i not in moving)
    if len(moving) > 1 or not known or x.aval.size * aval.size > _MAX_KNOWN:
        return everything(operands, aval.size) if otherwise is None else otherwise()
    args = [y.value if y.value is None else _ones(y) for y in operands]
    args[moving[0]] = np.eye(x.aval.size, dtype=x.aval.dtype).reshape(x.aval.size, *x.aval.shape)
    dims = [0 if i in moving else None for i in range(len(args))]
    with set_current_trace(eager_trace):
        images, dim = require(primitive, "batch")(AxisData(None, x.aval.size), args, dims, **params)
    return through(np.moveaxis(np.asarray(images), dim, 0).reshape(x.aval.size, aval.size).T, x)


def _ones(x: Dependence) -> Any:
    """A constant with ones for its numbers, zeros aside: products with it do not cancel."""
    return (np.asarray(x.value) != 0).astype(x.aval.dtype) if dtypes.is_inexact(x.aval.dtype) else x.value


def _incidence(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(rows), bool), (rows, columns)), shape)


# --- Programs within programs -------------------------------------------------------------------------


def either(runs: Sequence[Sequence[Dependence]]) -> list[Dependence]:
    """The results of several programs, of which any one may run."""
    return [Dependence(xs[0].aval, rows=union([x.rows for x in xs])) for xs in zip(*runs, strict=True)]


def settled(
    step: Callable[[list[Dependence]], Sequence[Dependence]], carry: Sequence[Dependence]
) -> list[Dependence]:
    """The carry of a loop after any number of steps."""
    found = [Dependence(x.aval, rows=x.rows) for x in carry]
    while True:
        grown = either([found, step(found)])
        if all(
            (x.rows is None) == (y.rows is None) and _count(x) == _count(y)
            for x, y in zip(found, grown, strict=True)
        ):
            return grown
        found = grown


def _count(x: Dependence) -> int:
    return 0 if x.rows is None else x.rows.nnz


def step_row(x: Dependence, i: int) -> Dependence:
    """The i-th row of a value with a leading axis."""
    aval = x.aval.update(shape=x.aval.shape[1:])
    rows = None if x.rows is None else x.rows[i * aval.size : (i + 1) * aval.size]
    return Dependence(aval, None if x.value is None else np.asarray(x.value)[i], rows)


def stack(values: Sequence[Dependence], aval: ShapedArray, columns: int) -> Dependence:
    """Values of one type along a new leading axis."""
    from scipy.sparse import csr_array, vstack

    if all(x.rows is None for x in values):
        return Dependence(aval)
    empty = csr_array((values[0].aval.size, columns), dtype=bool)
    return Dependence(aval, rows=csr_array(vstack([empty if x.rows is None else x.rows for x in values])))


def columns_of(operands: Sequence[Dependence]) -> int:
    """The number of elements of the inputs."""
    return next(x.rows.shape[1] for x in operands if x.rows is not None)
