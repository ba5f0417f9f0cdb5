"""Products of vectors, matrices and tensors, all computed by `dot_general`.

Operands are promoted; `precision` and `preferred_element_type` (the dtype of the sums and of the result) are
passed on to XLA. For more than two operands, opt_einsum chooses the order in which `einsum` contracts pairs.
Read next: `didax/lax/dot.py`.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import evaluate, variables
from didax.core.errors import ArgumentError, message
from didax.core.rule_types import shown
from didax.core.value import Array
from didax.lax.dot import PrecisionLike, dot_general
from didax.numpy import ufuncs
from didax.numpy.manipulation import diagonal, moveaxis
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    broadcast,
    broadcast_shapes,
    cast,
    no_out,
    promote_dtypes,
)
from didax.numpy.reductions import canonical_axes, canonical_axis
from didax.numpy.reductions import sum as array_sum
from didax.numpy.ufunc import truth
from didax.primitives.narrow import halves_in_float32
from didax.primitives.shape import reduce_sum, reshape, transpose
from didax.primitives.slicing import concatenate, slice_axis

__all__ = [
    "cross", "dot", "einsum", "einsum_path", "inner", "kron", "matmul", "matvec", "outer", "tensordot",
    "trace", "vdot", "vecdot", "vecmat",
]  # fmt: skip

Axes = Sequence[int]


def _operands(name: str, a: Any, b: Any) -> list[Array]:
    return [as_array(name, x, i) for i, x in enumerate(promote_dtypes(name, a, b))]


def _contract(
    x: Array,
    y: Array,
    contracting: tuple[Axes, Axes],
    batch: tuple[Axes, Axes],
    precision: Any,
    element: Any,
    product: Callable[..., Any] = dot_general,
) -> Array:
    """Bind `dot_general`, or call a `product` with its arguments; booleans multiply as "and" and add as "or"."""
    numbers = ((tuple(contracting[0]), tuple(contracting[1])), (tuple(batch[0]), tuple(batch[1])))
    if x.dtype == np.bool_:
        count = dot_general(cast(x, np.dtype(np.int32)), cast(y, np.dtype(np.int32)), numbers)
        return truth(count) if element is None else cast(truth(count), dtypes.dtype(element))
    if product is not dot_general:
        return product(x, y, numbers, precision=precision, preferred_element_type=element)
    out = dot_general(x, y, numbers, precision, element)
    weak = x.weak_type and y.weak_type and element is None
    return out if out.weak_type == weak else cast(out, out.dtype, weak)


def _length_mismatch(name: str, x: Array, y: Array) -> ArgumentError:
    return ArgumentError(
        message(
            f"{name} sums over an axis of both operands, of one length.",
            f"operands: {x.aval}, {y.aval}",
            fix="Transpose or reshape one of them so that the lengths agree.",
        )
    )


@evaluated_whole
@array_function
def matmul(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None
) -> Array:
    """Return the matrix product a @ b; leading axes broadcast.

    A vector counts as a row on the left and as a column on the right.

    ValueError for scalars, TypeError where the lengths of the summed axes differ.

    >>> import didax.numpy as dnp
    >>> dnp.matmul(dnp.array([[1, 2], [3, 4]]), dnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x, y = _operands("matmul", a, b)
    if not x.ndim or not y.ndim:
        raise ValueError(
            message(
                "matmul takes vectors and matrices.",
                f"operands: {x.aval}, {y.aval}",
                fix="Use * for scalars.",
            )
        )
    summed = max(y.ndim - 2, 0)
    if x.shape[-1] != y.shape[summed]:
        raise _length_mismatch("matmul", x, y)
    if x.ndim <= 2 or y.ndim <= 2:  # without leading axes in one of them: one big product
        out = _contract(x, y, ((x.ndim - 1,), (summed,)), ((), ()), precision, preferred_element_type)
        return moveaxis(out, 0, -2) if x.ndim == 2 and y.ndim > 2 else out
    lead = broadcast_shapes("matmul", [x.shape[:-2], y.shape[:-2]])
    x, y = broadcast(x, lead + x.shape[-2:]), broadcast(y, lead + y.shape[-2:])
    axes = tuple(range(len(lead)))
    return _contract(x, y, ((x.ndim - 1,), (y.ndim - 2,)), (axes, axes), precision, preferred_element_type)


@evaluated_whole
@array_function
def dot(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None
) -> Array:
    """Return the sum over the last axis of `a` and the second to last axis of `b`; with a scalar, the product.

    >>> import didax.numpy as dnp
    >>> dnp.dot(dnp.array([1, 2]), dnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    x, y = _operands("dot", a, b)
    if not x.ndim or not y.ndim:
        out = ufuncs.multiply(x, y)
        return out if preferred_element_type is None else cast(out, dtypes.dtype(preferred_element_type))
    summed = max(y.ndim - 2, 0)
    if x.shape[-1] != y.shape[summed]:
        raise _length_mismatch("dot", x, y)
    return _contract(x, y, ((x.ndim - 1,), (summed,)), ((), ()), precision, preferred_element_type)


@evaluated_whole
@array_function
def vdot(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None
) -> Array:
    """Return the sum of conj(a) * b over all elements.

    >>> import didax.numpy as dnp
    >>> dnp.vdot(dnp.array([1j]), dnp.array([1j]))
    Array(1.+0.j, dtype=complex64)
    """
    x, y = [reshape(v, (v.size,)) for v in _operands("vdot", a, b)]
    return dot(ufuncs.conj(x), y, precision=precision, preferred_element_type=preferred_element_type)


@evaluated_whole
@array_function
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Return the sum of conj(x1) * x2 along an axis; the other axes broadcast.

    >>> import didax.numpy as dnp
    >>> dnp.vecdot(dnp.array([[1, 2], [3, 4]]), dnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x, y = [moveaxis(v, canonical_axis("vecdot", axis, v.ndim), -1) for v in _operands("vecdot", x1, x2)]
    if x.shape[-1] != y.shape[-1]:
        raise _length_mismatch("vecdot", x, y)
    shape = broadcast_shapes("vecdot", [x.shape, y.shape])
    x, y = broadcast(ufuncs.conj(x), shape), broadcast(y, shape)
    lead, last = tuple(range(len(shape) - 1)), (len(shape) - 1,)
    return _contract(x, y, (last, last), (lead, lead), precision, preferred_element_type)


@evaluated_whole
@array_function
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return matrices times vectors: the last axis of both is summed, the leading axes broadcast.

    >>> import didax.numpy as dnp
    >>> dnp.matvec(dnp.array([[1, 2], [3, 4]]), dnp.array([[1, 0], [0, 1]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    matrices, vectors = as_array("matvec", x1, "x1"), as_array("matvec", x2, "x2")
    _check_kinds("matvec", x1=(matrices, 2), x2=(vectors, 1))
    return matmul(matrices, vectors[..., None])[..., 0]


@evaluated_whole
@array_function
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return conjugated vectors times matrices: the last axis of x1 and the second to last axis of x2 are summed.

    >>> import didax.numpy as dnp
    >>> dnp.vecmat(dnp.array([1, 0]), dnp.array([[1, 2], [3, 4]]))
    Array([1, 2], dtype=int32)
    """
    vectors, matrices = as_array("vecmat", x1, "x1"), as_array("vecmat", x2, "x2")
    _check_kinds("vecmat", x1=(vectors, 1), x2=(matrices, 2))
    return matmul(ufuncs.conj(vectors)[..., None, :], matrices)[..., 0, :]


def _check_kinds(name: str, **operands: tuple[Array, int]) -> None:
    """Check that operands have as many axes as vectors, 1, or matrices, 2."""
    if all(x.ndim >= least for x, least in operands.values()):
        return
    kinds = " and ".join(["", "vectors", "matrices"][least] for _, least in operands.values())
    shown = ", ".join(f"{argument}: {x.aval}" for argument, (x, _) in operands.items())
    fix = "Add the missing axis (reshape), or use matmul, which takes vectors and matrices on both sides."
    raise ValueError(message(f"{name} takes {kinds}.", shown, fix=fix))


@evaluated_whole
@array_function
def inner(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None
) -> Array:
    """Return the sum of products over the last axis of both arrays.

    >>> import didax.numpy as dnp
    >>> dnp.inner(dnp.array([1, 2]), dnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    x, y = _operands("inner", a, b)
    if not x.ndim or not y.ndim:
        return dot(x, y, preferred_element_type=preferred_element_type)
    return tensordot(x, y, (-1, -1), precision=precision, preferred_element_type=preferred_element_type)


@evaluated_whole
@array_function
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Return the products of each element of `a` with each element of `b`, both ravelled.

    >>> import didax.numpy as dnp
    >>> dnp.outer(dnp.array([1, 2]), dnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    no_out("outer", out)
    x, y = _operands("outer", a, b)
    return ufuncs.multiply(reshape(x, (x.size, 1)), reshape(y, (1, y.size)))


@evaluated_whole
@array_function
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Return the sum of products over axes of both arrays.

    `axes` is a number n (the last n axes of `a` and the first n axes of `b`) or a pair of lists of axes.

    >>> import didax.numpy as dnp
    >>> dnp.tensordot(dnp.ones((2, 3, 4)), dnp.ones((4, 3, 5)), ([1, 2], [1, 0])).shape
    (2, 5)
    """
    x, y = _operands("tensordot", a, b)
    if hasattr(axes, "__len__") and getattr(axes, "ndim", 1):  # arrays have a length, those without axes none
        left, right = [list(part) if hasattr(part, "__len__") else [part] for part in axes]
    else:
        count = operator.index(axes)
        if count > min(x.ndim, y.ndim):
            raise TypeError(
                message(
                    "tensordot sums over axes both arrays have.",
                    f"axes: {count}, operands: {x.aval}, {y.aval}",
                    fix="Use fewer axes.",
                )
            )
        left, right = list(range(x.ndim - count, x.ndim)), list(range(count))
    left_axes, right_axes = (
        canonical_axes("tensordot", left, x.ndim),
        canonical_axes("tensordot", right, y.ndim),
    )
    if [x.shape[i] for i in left_axes] != [y.shape[i] for i in right_axes]:
        raise _length_mismatch("tensordot", x, y)
    return _contract(x, y, (left_axes, right_axes), ((), ()), precision, preferred_element_type)


@evaluated_whole
@array_function
def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike = None, out: None = None
) -> Array:
    """Return the sum along a diagonal.

    >>> import didax.numpy as dnp
    >>> dnp.trace(dnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    no_out("trace", out)
    return array_sum(diagonal(a, offset, axis1, axis2), -1, dtype)


@evaluated_whole
@array_function
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product: each element of `a` is replaced by the product of this element and `b`.

    >>> import didax.numpy as dnp
    >>> dnp.kron(dnp.array([1, 10]), dnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    x, y = _operands("kron", a, b)
    ndim = max(x.ndim, y.ndim)
    left, right = [(1,) * (ndim - v.ndim) + v.shape for v in (x, y)]
    x = reshape(x, tuple([n for length in left for n in (length, 1)]))
    y = reshape(y, tuple([n for length in right for n in (1, length)]))
    return reshape(ufuncs.multiply(x, y), tuple([m * n for m, n in zip(left, right, strict=True)]))


@evaluated_whole
@array_function
@halves_in_float32
def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """Return the cross product of three-dimensional vectors along an axis of each array; the other axes broadcast.

    A vector of two components has the third component 0. The cross product of two such vectors is the third
    component alone, without an axis for it.

    >>> import didax.numpy as dnp
    >>> dnp.cross(dnp.array([1, 0, 0]), dnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    >>> dnp.cross(dnp.array([1, 0]), dnp.array([0, 1]))
    Array(1, dtype=int32)
    """
    axes = (axisa, axisb) if axis is None else (axis, axis)
    x, y = [
        moveaxis(v, canonical_axis("cross", i, v.ndim), -1)
        for v, i in zip(_operands("cross", a, b), axes, strict=True)
    ]
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError(
            message(
                "cross multiplies vectors of two or three components.",
                f"operands: {x.aval}, {y.aval}",
                f"axes of the vectors: {axes[0]}, {axes[1]}",
                fix="Say by axis, or axisa and axisb, along which axes the vectors lie.",
            )
        )
    (x1, x2, x3), (y1, y2, y3) = _components(x), _components(y)
    third = x1 * y2 - x2 * y1
    if x3 is None and y3 is None:
        return reshape(third, third.shape[:-1])
    first = _difference(_times(x2, y3), _times(x3, y2))
    second = _difference(_times(x3, y1), _times(x1, y3))
    product = concatenate([first, second, third], third.ndim - 1)
    return moveaxis(product, -1, axisc if axis is None else axis)


def _components(x: Array) -> list[Any]:
    """Return the three components along the last axis, each of length 1; None stands for a third component of 0."""
    found = [slice_axis(x, i, i + 1, x.ndim - 1) for i in range(x.shape[-1])]
    return found if len(found) == 3 else [*found, None]


def _times(a: Any, b: Any) -> Any:
    """Return `a * b`, where None stands for zero."""
    return None if a is None or b is None else a * b


def _difference(a: Any, b: Any) -> Any:
    """Return `a - b`, where None stands for zero; not both are None."""
    if a is None:
        return -b
    return a if b is None else a - b


# --- einsum -------------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """One contraction: the positions of its operands in the list, their labels, and the labels of the result."""

    places: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str


@functools.lru_cache(maxsize=1000)
def _einsum_steps(subscripts: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> tuple[_Step, ...]:
    """Return the contractions in order; each removes its operands from the list and appends its result."""
    import opt_einsum

    # The order of contractions suits symbolic dimensions of this length; results are the same in any order.
    lengths = [[evaluate(n, dict.fromkeys(variables([n]), 100)) for n in shape] for shape in shapes]
    path: Any = opt_einsum.contract_path(
        subscripts, *lengths, shapes=True, einsum_call=True, optimize=optimize
    )
    _, contractions = path
    steps: list[_Step] = []
    for places, _, text, *_ in contractions:
        inputs, output = text.split("->")
        steps.append(_Step(tuple(places), tuple(inputs.split(",")), output))
    return tuple(steps)


@array_function
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    _dot_general: Callable[..., Any] = dot_general,
) -> Array:
    """Return the sum that Einstein's notation describes: `einsum("ij,jk->ik", a, b)` is a matrix product.

    Labels that are missing on the right are summed over.

    `optimize` chooses the order of contractions as in opt_einsum. Operands and lists of labels may also
    alternate. Products of two operands are computed by `_dot_general`, which takes the arguments of `lax.dot_general`;
    a function of the caller's is always told the dtype of the result, as `preferred_element_type`.

    >>> import didax.numpy as dnp
    >>> dnp.einsum("ij,ij->i", dnp.array([[1, 2], [3, 4]]), dnp.array([[1, 1], [2, 2]]))
    Array([ 3, 14], dtype=int32)
    """
    no_out("einsum", out)
    text, arrays, letters = _parse_einsum(subscripts, operands)
    steps = _steps_or_explain(text, arrays, letters, optimize)
    pending = [as_array("einsum", x) for x in promote_dtypes("einsum", *arrays)]
    stated = preferred_element_type
    if stated is None and _dot_general is not dot_general:
        stated = pending[0].dtype
    for step in steps:
        taken = [pending[i] for i in step.places]
        pending = [x for i, x in enumerate(pending) if i not in step.places]
        pending.append(_einsum_step(step, taken, precision, stated, _dot_general))
    (result,) = pending
    return result if preferred_element_type is None else cast(result, dtypes.dtype(preferred_element_type))


def _parse_einsum(subscripts: Any, operands: Sequence[Any]) -> tuple[str, list[Array], dict[Any, str]]:
    """The subscripts as one text, the operands, and the letters that stand for labels of the caller's."""
    if isinstance(subscripts, str):
        return subscripts.replace(" ", ""), [as_array("einsum", x, i) for i, x in enumerate(operands)], {}
    given = [subscripts, *operands]
    count = len(given) // 2
    arrays, labels = given[: 2 * count : 2], given[1 : 2 * count : 2]
    output = given[2 * count :]
    wrong = [x for x in (*labels, *output) if not isinstance(x, list | tuple)]
    if wrong or not count:
        rule = "einsum takes labels as one text, or as a list of integers after each operand."
        facts = f"arguments: {', '.join(map(shown, given))}"
        fix = "Write the labels as in 'ij,jk->ik', or as in einsum(a, [0, 1], b, [1, 2], [0, 2])."
        raise ArgumentError(message(rule, facts, fix=fix))
    letters = _letters(labels)
    for i in [i for part in output for i in part if i is not Ellipsis and i not in letters]:
        facts = (
            f"label of the result: {i!r}, labels of the operands: {', '.join(map(repr, letters)) or 'none'}"
        )
        rule, fix = "einsum takes the labels of its result from its operands.", "Change the last list."
        raise ArgumentError(message(rule, facts, fix=fix))
    texts = ["".join(["..." if i is Ellipsis else letters[i] for i in part]) for part in labels + output]
    text = "->".join([",".join(texts[:count]), *texts[count:]])
    return text, [as_array("einsum", x, 2 * i) for i, x in enumerate(arrays)], letters


def _letters(labels: Sequence[Any]) -> dict[Any, str]:
    """A letter for each label: without a list for the result, its axes are in the order of the labels."""
    from opt_einsum.parser import get_symbol

    try:
        known = sorted({i for part in labels for i in part if i is not Ellipsis})
    except TypeError:
        rule = "einsum sorts labels that are no text: they are hashable, and can be compared."
        facts = f"labels: {', '.join(map(shown, labels))}"
        raise ArgumentError(message(rule, facts, fix="Label the axes with integers.")) from None
    return {label: get_symbol(i) for i, label in enumerate(known)}


def _steps_or_explain(
    text: str, arrays: Sequence[Array], letters: dict[Any, str], optimize: Any
) -> tuple[_Step, ...]:
    chosen = "auto" if optimize is True else optimize
    chosen = tuple(chosen) if isinstance(chosen, list) else chosen
    try:
        return _einsum_steps(text, tuple([x.shape for x in arrays]), chosen)
    except (ValueError, KeyError, IndexError) as error:
        facts = [f"subscripts: {text!r}, operands: {', '.join([str(x.aval) for x in arrays])}"]
        if letters:
            facts.append(
                "letters: " + ", ".join([f"{name} for {label!r}" for label, name in letters.items()])
            )
        rule = "einsum takes a label for each axis of each operand."
        raise ValueError(message(rule, *facts, fix=f"Check the labels: {error}")) from None


def _einsum_step(step: _Step, operands: Sequence[Array], *how: Any) -> Array:
    pairs = [_diagonals(x, labels) for x, labels in zip(operands, step.inputs, strict=True)]
    while len(pairs) > 1:
        (x, left), (y, right), *rest = pairs
        others = set(step.output).union(*[labels for _, labels in rest])
        # The operand whose axes come last in the result goes last: moving axes afterwards costs a copy, and in a
        # program it makes XLA sum along strides (attention of (4, 8, 512, 64): 77 -> 60 ms; of 8 heads that share 2 of
        # keys, 256 x 64, batch 2: 11 -> 6.5). Axes of length 1 do not count.
        single = _single(x, left) | _single(y, right)
        given, turned = [
            _common_end(_labels_of_product(*order, others), step.output, single)
            for order in ((left, right), (right, left))
        ]
        if turned > given:
            x, left, y, right = y, right, x, left
        pairs = [_pair_product(x, left, y, right, others, *how), *rest]
    ((x, labels),) = pairs
    x, labels = _sum_out(x, labels, set(step.output))
    return transpose(x, tuple([labels.index(label) for label in step.output]))


def _diagonals(x: Array, labels: str) -> tuple[Array, str]:
    """Merge axes that share one label into their diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = diagonal(x, 0, i, j)
            labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + label
    return x, labels


def _sum_out(x: Array, labels: str, kept: set[str]) -> tuple[Array, str]:
    axes = tuple([i for i, label in enumerate(labels) if label not in kept])
    return reduce_sum(x, axes) if axes else x, "".join([label for label in labels if label in kept])


def _pair_product(x: Array, left: str, y: Array, right: str, kept: set[str], *how: Any) -> tuple[Array, str]:
    x, left = _sum_out(x, left, kept | set(right))
    y, right = _sum_out(y, right, kept | set(left))
    x, y = _broadcast_ones(x, left, y, right)
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in kept]
    summed = [label for label in shared if label not in kept]
    out = _contract(
        x, y,
        ([left.index(k) for k in summed], [right.index(k) for k in summed]),
        ([left.index(k) for k in batch], [right.index(k) for k in batch]),
        *how,
    )  # fmt: skip
    return out, _labels_of_product(left, right, kept)


def _labels_of_product(left: str, right: str, kept: set[str]) -> str:
    """The labels of what `_pair_product` returns."""
    batch = [label for label in left if label in right and label in kept]
    free = [x for mine, other in ((left, right), (right, left)) for x in mine if x not in other and x in kept]
    return "".join(batch + free)


def _single(x: Array, labels: str) -> set[str]:
    return {label for label, n in zip(labels, x.shape, strict=True) if n == 1}


def _common_end(labels: str, wanted: str, dropped: set[str]) -> int:
    """How many of the last labels are those of the result, without labels that do not count."""
    mine, others = [[label for label in x[::-1] if label not in dropped] for x in (labels, wanted)]
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(mine, others, strict=False))))


def _broadcast_ones(x: Array, left: str, y: Array, right: str) -> tuple[Array, Array]:
    """Broadcast axes of length 1 to the length that the label has in the other operand."""
    sizes = {label: max(n, 1) for label, n in zip(left, x.shape, strict=True)}
    for label, n in zip(right, y.shape, strict=True):
        sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    x = broadcast(x, tuple([sizes[k] if n == 1 else n for k, n in zip(left, x.shape, strict=True)]))
    return x, broadcast(y, tuple([sizes[k] if n == 1 else n for k, n in zip(right, y.shape, strict=True)]))


@array_function
def einsum_path(subscripts: str, /, *operands: ArrayLike, optimize: Any = "auto") -> Any:
    """Return the order in which `einsum` would contract, and a printable summary of its cost (from opt_einsum).

    >>> import didax.numpy as dnp
    >>> dnp.einsum_path("ij,jk->ik", dnp.ones((2, 2)), dnp.ones((2, 2)))[0]
    [(0, 1)]
    """
    import opt_einsum

    text, arrays, _ = _parse_einsum(subscripts, operands)
    return opt_einsum.contract_path(text, *[x.shape for x in arrays], shapes=True, optimize=optimize)
