"""Loops inside compiled programs: `scan`, `while_loop`, `fori_loop`, `map` and `associative_scan`.

    scan(f, c, xs)             for x in xs: c, y = f(c, x)            returns c and all y, stacked
    while_loop(p, f, x)        while p(x): x = f(x)                   returns x
    fori_loop(a, b, f, x)      for i in range(a, b): x = f(i, x)      returns x

The body is traced once, whatever the number of steps, and the whole loop is one compiled operation. So what a
loop carries must keep its structure, shapes and dtypes; only a weakly typed carry (a Python scalar to start
from) takes the type that the body makes of it. Bodies may close over arrays, traced or not.
Read next: `didax/primitives/control_flow/scan.py` and `while_loop.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.api.flat import as_array, check_callable, flatten_arguments
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import TypePromotionError, api_boundary, message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.source import describe_function
from didax.core.tracing import Tracer, known_value
from didax.lax.traced import TracedFunction, converted, join_types, remembered, trace_function
from didax.primitives.control_flow.common import split_at
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.control_flow.while_loop import while_p
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add, lt
from didax.primitives.shape import broadcast_axis, reshape
from didax.primitives.slicing import concatenate, rev, slice_axis
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.staging import trace_to_jaxpr

__all__ = ["associative_scan", "fori_loop", "map", "scan", "while_loop"]

_BOOL = np.dtype(bool)


# --- scan and map ---------------------------------------------------------------------------------


@api_boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """`for x in xs: carry, y = f(carry, x)` from `init`; the last carry, and the outputs stacked.

    Args:
      f: a function of the carry and one element that returns the next carry and an output (None for none).
      init: the carry to start from, a pytree of arrays.
      xs: a pytree of arrays with equal leading axes, along which the scan runs; None with a `length`.
      length: how many steps; follows from `xs` if these are given.
      reverse: run from the last element to the first; outputs stay beside their elements.
      unroll: how many steps make one step of the compiled loop; True for all.

    Raises TypeError when `f` returns no pair or changes the structure, a shape or a dtype of the carry;
    ValueError when lengths contradict each other.

    >>> import numpy as np
    >>> from didax import lax
    >>> total, sums = lax.scan(lambda c, x: (c + x, c + x), 0, np.int32([1, 2, 3]))
    >>> int(total), sums.tolist()
    (6, [1, 3, 6])
    """
    check_callable("scan", f)
    rows, rows_tree, row_avals, length = _rows("scan", xs, length)
    unroll = _checked_unroll("scan", unroll, length)
    if config.state().disable_jit and length:
        return _scan_in_python(f, init, xs, length, reverse)
    start, tree, avals = _leaves("scan", "init", init)
    row = pytree.unflatten(rows_tree, row_avals)
    body = _trace_body("scan", f, "carry", tree, avals, lambda carry: (carry, row), others=True)
    outs = scan_p.bind(
        *body.captured,
        *_as_types(start, body.carry_avals),
        *rows,
        jaxpr=body.jaxpr,
        length=length,
        reverse=bool(reverse),
        num_consts=len(body.captured),
        num_carry=len(start),
        unroll=unroll,
    )
    last, ys = split_at([as_array(y) for y in outs], len(start))
    return pytree.unflatten(tree, last), pytree.unflatten(body.others, ys)


def _scan_in_python(f: Any, carry: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    outputs: list[Any] = []
    xs = pytree.map(as_array, xs)
    for i in range(length)[:: -1 if reverse else 1]:
        carry, y = f(carry, pytree.map(lambda x, i=i: x[i], xs))
        outputs.append(y)
    ys = pytree.map(lambda *column: _stack(column), *outputs[:: -1 if reverse else 1])
    return pytree.map(as_array, carry), ys


def _stack(rows: Sequence[Any]) -> Any:
    return concatenate([broadcast_axis(as_array(y), 1, 0) for y in rows], 0)


@api_boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` of each element along the leading axis of `xs`, one after another; the results stacked.

    With a `batch_size`, so many elements at a time, by vmap: between a loop and `vmap(f)` in speed and memory.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.map(lambda x: x * x, np.int32([1, 2, 3])).tolist()
    [1, 4, 9]
    """
    check_callable("map", f)
    rows, tree, row_avals, length = _rows("map", xs, None)
    size = _checked_batch_size(batch_size)
    if config.state().disable_jit and length and size is None:
        return _scan_in_python(lambda _, x: (None, f(x)), None, xs, length, False)[1]
    args_tree = pytree.structure(((pytree.unflatten(tree, row_avals),), {}))
    body = trace_function("map", f, args_tree, row_avals)
    if size is None:
        return pytree.unflatten(body.out_tree, _map_rows(body.jaxpr, body.captured, rows, length))
    whole = length - length % size
    parts = [_map_batches(body, [slice_axis(x, 0, whole, 0) for x in rows], whole // size, size)]
    if whole < length:
        rest = [slice_axis(x, whole, length, 0) for x in rows]
        parts.append(_map_batches(body, rest, 1, length - whole))
    joined = [concatenate(ys, 0) for ys in zip(*parts, strict=True)]
    return pytree.unflatten(body.out_tree, joined)


def _map_rows(jaxpr: Jaxpr, captured: Sequence[Any], rows: Sequence[Any], length: int) -> list[Any]:
    how = {"length": length, "reverse": False, "unroll": 1}
    outs = scan_p.bind(*captured, *rows, jaxpr=jaxpr, num_consts=len(captured), num_carry=0, **how)
    return [as_array(y) for y in outs]


def _map_batches(body: TracedFunction, rows: Sequence[Any], count: int, size: int) -> list[Any]:
    """Results for `count` batches of `size` rows."""
    dims = (None,) * len(body.captured) + (0,) * len(rows)
    batched, _ = batch_jaxpr(body.jaxpr, AxisData(None, size), dims, (True,) * len(body.jaxpr.outvars))
    batches = [reshape(x, (count, size, *aval_of(x).shape[1:])) for x in rows]
    outs = _map_rows(batched, body.captured, batches, count)
    return [reshape(y, (count * size, *y.shape[2:])) for y in outs]


def _rows(what: str, xs: Any, length: int | None) -> tuple[list[Any], Any, tuple[ShapedArray, ...], int]:
    """Leaves and structure of `xs`, the types of one element, and how many there are."""
    leaves, tree, avals = _leaves(what, "xs", xs)
    lengths = {aval.shape[:1] for aval in avals}
    if length is not None:
        length = _checked_length(what, length)
        lengths.add((length,))
    if len(lengths) != 1 or () in lengths:
        raise ValueError(
            message(
                f"{what} runs along the leading axes of its xs, which must have one length.",
                *([] if length is None else [f"length: {length}"]),
                *(f"{path}: {aval}" for path, aval in zip(_paths(tree, "xs"), avals, strict=True)),
                *([] if avals or length is not None else ["xs: no arrays"]),
                fix="Cut or pad the arrays, or close over those that are the same at every step."
                if avals
                else "Pass arrays, or a length.",
            )
        )
    ((count,),) = lengths
    return leaves, tree, tuple([aval.update(shape=aval.shape[1:]) for aval in avals]), count


def _checked_length(what: str, length: Any) -> int:
    try:
        count = operator.index(length)
    except TypeError:
        count = -1
    if count < 0:
        raise (TypeError if count == -1 and not hasattr(length, "__index__") else ValueError)(
            message(
                f"The length of {what} is how many steps it takes.",
                f"length: {length!r:.100} of type {type(length).__name__}",
                fix="Pass an integer that is not negative; for a traced number of steps use fori_loop.",
            )
        )
    return count


def _checked_unroll(what: str, unroll: Any, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    if (
        not hasattr(unroll, "__index__")
        or isinstance(unroll, Tracer)
        or (count := operator.index(unroll)) < 1
    ):
        raise (ValueError if isinstance(unroll, int) else TypeError)(
            message(
                f"{what} unrolls a number of steps into one.",
                f"unroll: {unroll!r:.100} of type {type(unroll).__name__}",
                fix="Pass a positive integer, or True to unroll the whole loop.",
            )
        )
    return count


def _checked_batch_size(batch_size: Any) -> int | None:
    if batch_size is None:
        return None
    if not hasattr(batch_size, "__index__") or (size := operator.index(batch_size)) < 1:
        raise (ValueError if isinstance(batch_size, int) else TypeError)(
            message(
                "The batch_size of map is how many elements are mapped at a time.",
                f"batch_size: {batch_size!r:.100} of type {type(batch_size).__name__}",
                fix="Pass a positive integer, or None.",
            )
        )
    return size


# --- while_loop and fori_loop ---------------------------------------------------------------------


@api_boundary
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """`while cond_fun(x): x = body_fun(x)`, from `init_val`, a pytree of arrays; the last x.

    Under `vmap` the loop goes on while any element continues. Forward mode differentiates through it, reverse
    mode does not: use `scan`, or `fori_loop` with static bounds.

    Raises TypeError when `cond_fun` returns anything but a bool scalar, or `body_fun` changes the structure,
    a shape or a dtype of what it is given.

    >>> from didax import lax
    >>> int(lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 1))
    128
    """
    check_callable("while_loop", cond_fun)
    check_callable("while_loop", body_fun)
    init, tree, avals = _leaves("while_loop", "init_val", init_val)
    if config.state().disable_jit and not any(isinstance(x, Tracer) for x in init):
        return _while_in_python(cond_fun, body_fun, init_val)
    body = _trace_body("while_loop", body_fun, "init_val", tree, avals, lambda carry: (carry,))
    cond = trace_function("while_loop", cond_fun, pytree.structure(((init_val,), {})), body.carry_avals)
    _check_predicate(cond_fun, cond)
    outs = while_p.bind(
        *cond.captured,
        *body.captured,
        *_as_types(init, body.carry_avals),
        cond_jaxpr=cond.jaxpr,
        body_jaxpr=body.jaxpr,
        cond_nconsts=len(cond.captured),
        body_nconsts=len(body.captured),
    )
    return pytree.unflatten(tree, [as_array(y) for y in outs])


def _while_in_python(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], x: Any) -> Any:
    while cond_fun(x):
        x = body_fun(x)
    return pytree.map(as_array, x)


@api_boundary
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: Any = None
) -> Any:
    """`for i in range(lower, upper): x = body_fun(i, x)`, from `init_val`, a pytree of arrays; the last x.

    With bounds known while tracing (Python integers) it is a `scan`, which reverse mode differentiates; with
    traced bounds a `while_loop`, which it does not.

    Args:
      lower, upper: integers without axes and of one dtype; `upper` is not reached.
      body_fun: a function of the counter and the carry that returns the next carry.
      init_val: the carry to start from.
      unroll: as of `scan`, where the bounds are known.

    Raises TypeError as `while_loop` does; ValueError for `unroll` with traced bounds.

    >>> from didax import lax
    >>> int(lax.fori_loop(0, 5, lambda i, x: x + i, 0))
    10
    """
    check_callable("fori_loop", body_fun)
    counter = _counter_type(lower, upper)
    steps = _known_steps(lower, upper)
    length = None if steps is None else len(steps)
    unroll = _checked_fori_unroll(unroll, length)
    if config.state().disable_jit and steps is not None:
        return _fori_in_python(steps, body_fun, init_val)
    init, tree, avals = _leaves("fori_loop", "init_val", init_val)
    body = _trace_body("fori_loop", body_fun, "init_val", tree, avals, lambda carry: (counter, carry))
    lower, upper = _as_types((lower, upper), (counter, counter))
    consts = len(body.captured)
    carry = [lower, *_as_types(init, body.carry_avals)]
    step = _counting(body.jaxpr, consts)
    if length is not None:
        how = {"length": length, "reverse": False, "unroll": unroll}
        outs = scan_p.bind(*body.captured, *carry, jaxpr=step, num_consts=consts, num_carry=len(carry), **how)
    else:
        jaxprs = {"cond_jaxpr": _below(body.jaxpr, consts), "body_jaxpr": step}
        outs = while_p.bind(upper, *body.captured, *carry, **jaxprs, cond_nconsts=1, body_nconsts=consts)
    return pytree.unflatten(tree, [as_array(y) for y in outs[1:]])


def _known_steps(lower: Any, upper: Any) -> range | None:
    """The values of the counter, where they are known."""
    start, stop = known_value(lower), known_value(upper)
    return None if start is None or stop is None else range(int(start), max(int(start), int(stop)))


def _checked_fori_unroll(unroll: Any, length: int | None) -> int:
    if unroll is None:
        return 1
    if length is None:
        raise ValueError(
            message(
                "fori_loop unrolls only between bounds that are known while tracing.",
                f"unroll: {unroll!r:.100}, bounds: traced",
                fix="Pass Python integers as bounds, or no unroll.",
            )
        )
    return _checked_unroll("fori_loop", unroll, length)


def _fori_in_python(steps: range, body_fun: Callable[[Any, Any], Any], x: Any) -> Any:
    for i in steps:
        x = body_fun(i, x)
    return pytree.map(as_array, x)


def _counter_type(lower: Any, upper: Any) -> ShapedArray:
    """The integer type that counts from `lower` to `upper`."""
    avals = [aval for x in (lower, upper) if (aval := _type_of(x)) is not None]
    joined = join_types(avals) if len(avals) == 2 else None
    if joined is None or joined.shape != () or not dtypes.is_integer(joined.dtype):
        raise TypeError(
            message(
                "fori_loop counts between two integers of one dtype without axes.",
                *(f"{n}: {x!r:.100} ({_type_of(x)})" for n, x in (("lower", lower), ("upper", upper))),
                fix="Pass Python integers, or cast one bound to the dtype of the other.",
            )
        )
    return joined


@cached_on_jaxpr
def _counting(jaxpr: Jaxpr, num_consts: int) -> Jaxpr:
    """The body `(consts, i, carry) -> carry` with `i + 1` as its first output."""

    def step(*args: Any) -> list[Any]:
        i = args[num_consts]
        return [add(i, aval_of(i).dtype.type(1)), *eval_jaxpr(jaxpr, args)]

    return trace_to_jaxpr(step, jaxpr.in_avals, what="fori_loop")[0]


@cached_on_jaxpr
def _below(jaxpr: Jaxpr, num_consts: int) -> Jaxpr:
    """The condition `(upper, i, carry) -> i < upper` for a body `(consts, i, carry) -> carry`."""
    avals = jaxpr.in_avals[num_consts:]
    return trace_to_jaxpr(lambda upper, i, *_: [lt(i, upper)], [avals[0], *avals], what="fori_loop")[0]


def _check_predicate(f: Any, cond: TracedFunction) -> None:
    avals = cond.jaxpr.out_avals
    if cond.out_tree != pytree.structure(0) or avals[0].shape != () or avals[0].dtype != _BOOL:
        found = str(avals[0]) if cond.out_tree == pytree.structure(0) else str(cond.out_tree)
        raise TypeError(
            message(
                "The condition of while_loop must return a bool scalar.",
                f"cond_fun: {describe_function(f)}",
                f"it returned: {found}",
                fix="Reduce it with didax.numpy.any or all, or compare with a number.",
            )
        )


# --- associative_scan -----------------------------------------------------------------------------


@api_boundary
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """The running combination of elements along an axis by an associative `fn`, in a logarithmic number of steps.

    `fn` combines two batches of elements, pytrees of arrays in the structure of `elems`, along `axis`; result i
    combines elements 0 to i, with `reverse` elements i to the last.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.associative_scan(lax.mul, np.int32([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    check_callable("associative_scan", fn)
    leaves, tree, avals = _leaves("associative_scan", "elems", elems)
    axis = _scanned_axis(tree, avals, axis)
    values = [as_array(x) for x in leaves]
    if reverse:
        values = [rev(x, (axis,)) for x in values]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        out = fn(pytree.unflatten(tree, a), pytree.unflatten(tree, b))
        out_leaves, out_tree = pytree.flatten(out)
        _check_combined(fn, tree, out_tree, a, out_leaves)
        return [as_array(y) for y in out_leaves]

    outs = _running(combine, values, axis)
    if reverse:
        outs = [rev(y, (axis,)) for y in outs]
    return pytree.unflatten(tree, outs)


def _running(combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any], axis: int) -> list[Any]:
    """Pairs of neighbours are combined and run over alone; what lies between follows from theirs."""
    n = xs[0].shape[axis] if xs else 0
    if n < 2:
        return xs
    odd = _running(combine, combine(_every_second(xs, 0, n - 1, axis), _every_second(xs, 1, n, axis)), axis)
    first = [slice_axis(x, 0, 1, axis) for x in xs]
    if n == 2:
        return [concatenate(pair, axis) for pair in zip(first, odd, strict=True)]
    before = [slice_axis(y, 0, (n - 1) // 2, axis) for y in odd]
    between = combine(before, _every_second(xs, 2, n, axis))
    even = [concatenate(pair, axis) for pair in zip(first, between, strict=True)]
    return [_interleave(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _every_second(xs: Sequence[Any], start: int, stop: int, axis: int) -> list[Any]:
    return [slice_axis(x, start, stop, axis, 2) for x in xs]


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """`even[0], odd[0], even[1], ...`; there may be one more of the even ones."""
    n = odd.shape[axis]
    pairs = [broadcast_axis(x, 1, axis + 1) for x in (slice_axis(even, 0, n, axis), odd)]
    joined = reshape(concatenate(pairs, axis + 1), (*odd.shape[:axis], 2 * n, *odd.shape[axis + 1 :]))
    return concatenate([joined, slice_axis(even, n, even.shape[axis], axis)], axis)


def _scanned_axis(tree: Any, avals: Sequence[ShapedArray], axis: Any) -> int:
    """The axis, counted from the front; the leaves must have one length along it."""
    axis = operator.index(axis)
    ranks = {aval.ndim for aval in avals}
    fits = all(-aval.ndim <= axis < aval.ndim for aval in avals)
    if not fits or len({aval.shape[axis] for aval in avals}) > 1 or (axis < 0 and len(ranks) > 1):
        raise ValueError(
            message(
                "associative_scan runs along an axis that all leaves of elems have, at one length.",
                f"axis: {axis}",
                *(f"{path}: {aval}" for path, aval in zip(_paths(tree, "elems"), avals, strict=True)),
                fix="Move, cut or pad the axes; with leaves of different ranks count the axis from the front.",
            )
        )
    return axis % max(ranks, default=1)


def _check_combined(fn: Any, tree: Any, out_tree: Any, given: Sequence[Any], outs: Sequence[Any]) -> None:
    facts: list[str] = []
    if out_tree != tree:
        facts = pytree.mismatch(tree, out_tree, "elems", "the result", "out").splitlines()
    else:
        pairs = zip(_paths(tree, "elems"), given, outs, strict=True)
        facts = [
            f"{path}: {x.aval} was given, {_type_of(y)} returned"
            for path, x, y in pairs
            if (found := _type_of(y)) is None or found.strip_weak_type() != x.aval.strip_weak_type()
        ]
    if facts:
        raise TypeError(
            message(
                "The function of associative_scan must return elements of the type it is given.",
                *facts,
                f"function: {describe_function(fn)}",
                fix="Cast or broadcast the elements before the scan, or the results in the function.",
            )
        )


# --- Bodies ---------------------------------------------------------------------------------------


class _Body(NamedTuple):
    """The traced body of a loop: `(captured, *arguments) -> (carry, *others)`, the carry of one type throughout."""

    jaxpr: Jaxpr
    captured: list[Any]
    carry_avals: tuple[ShapedArray, ...]
    others: Any  # structure of what it returns beside the carry


def _leaves(what: str, name: str, value: Any) -> tuple[list[Any], Any, tuple[ShapedArray, ...]]:
    """Leaves, structure and types of a pytree of arrays; TypeError naming the leaf that is none."""
    leaves, tree = pytree.flatten(value)
    leaves, _ = flatten_arguments(leaves, {})
    try:
        return leaves, tree, tuple([aval_of(x) for x in leaves])
    except TypeError:
        facts = [
            f"{path}: {x!r:.100} of type {type(x).__name__}"
            for path, x in zip(_paths(tree, name), leaves, strict=True)
            if _type_of(x) is None
        ]
        raise TypeError(
            message(
                f"{what} works on arrays, scalars, and pytrees of them.",
                *facts,
                fix="Convert them to arrays.",
            )
        ) from None


def _type_of(x: Any) -> ShapedArray | None:
    try:
        return aval_of(x)
    except TypeError:
        return None


def _paths(tree: Any, root: str) -> list[str]:
    paths = pytree.flatten_with_path(pytree.unflatten(tree, range(tree.num_leaves)))[0]
    return [root + pytree.keystr(path) for path, _ in paths]


def _as_types(values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    return [
        x if aval_of(x) is aval else convert_element_type(x, aval.dtype, aval.weak_type)
        for x, aval in zip(values, avals, strict=True)
    ]


def _trace_body(
    what: str,
    f: Callable[..., Any],
    name: str,
    tree: Any,
    avals: tuple[ShapedArray, ...],
    arguments: Callable[[Any], tuple[Any, ...]],
    others: bool = False,
) -> _Body:
    """Trace the body for what it carries (`tree` of `avals`), which it returns; with `others`, first of a pair."""
    args = arguments(pytree.unflatten(tree, avals))
    leaves, args_tree = pytree.flatten((args, {}))
    return remembered(
        f,
        (what, "body", args_tree, tuple(leaves)),
        lambda: _settle(what, f, name, tree, avals, arguments, others),
    )


def _settle(
    what: str,
    f: Callable[..., Any],
    name: str,
    tree: Any,
    avals: tuple[ShapedArray, ...],
    arguments: Callable[[Any], tuple[Any, ...]],
    others: bool,
) -> _Body:
    """Trace the body until weak types of the carry have become what the body makes of them."""
    while True:
        leaves, args_tree = pytree.flatten((arguments(pytree.unflatten(tree, avals)), {}))
        traced = trace_function(what, f, args_tree, tuple(leaves))
        out_tree, rest_tree = _pair(what, f, traced.out_tree) if others else (traced.out_tree, None)
        _check_structure(what, f, name, tree, out_tree)
        out_avals = traced.jaxpr.out_avals
        promoted = tuple([_promoted(a, b) for a, b in zip(avals, out_avals, strict=False)])
        if promoted == avals:
            break
        avals = promoted
    _check_types(what, f, _paths(tree, name), avals, out_avals)
    jaxpr = converted(traced.jaxpr, [*avals, *out_avals[len(avals) :]])
    return _Body(jaxpr, traced.captured, avals, rest_tree)


def _promoted(before: ShapedArray, after: ShapedArray) -> ShapedArray:
    """The type a weakly typed part of the carry takes when the body returns another."""
    if not before.weak_type or before is after or before.shape != after.shape:
        return before
    try:
        dtype, _ = dtypes.join(before.dtype, True, after.dtype, after.weak_type)
    except TypePromotionError:
        return before
    return before.update(dtype=dtype, weak_type=False)


def _check_structure(what: str, f: Any, name: str, tree: Any, out_tree: Any) -> None:
    if out_tree == tree:
        return
    facts = pytree.mismatch(tree, out_tree, "what went in", "what came out", name).splitlines()
    raise TypeError(
        message(
            f"The body of {what} changed the structure of its carry.",
            *facts,
            f"body: {describe_function(f)}",
            fix="Return the containers that were passed in.",
        )
    )


def _check_types(
    what: str, f: Any, paths: Sequence[str], avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
) -> None:
    changed = [
        f"{path}: {before} went in, {after} came out"
        for path, before, after in zip(paths, avals, out_avals, strict=False)
        if before is not after and join_types((before, after)) is not before
    ]
    if changed:
        raise TypeError(
            message(
                f"The body of {what} changed the type of its carry.",
                *changed,
                f"body: {describe_function(f)}",
                fix="Cast or broadcast inside the body (x.astype(...)), or start from a carry of the type that "
                "comes out.",
            )
        )


def _pair(what: str, f: Any, out_tree: Any) -> tuple[Any, Any]:
    """The structures of carry and output in the pair that a body returned."""
    node = out_tree.node_data()
    if node is not None and node[0] in (tuple, list) and len(out_tree.children()) == 2:
        return tuple(out_tree.children())
    raise TypeError(
        message(
            f"The function given to {what} must return a pair: the next carry, and an output.",
            f"function: {describe_function(f)}",
            f"it returned: {out_tree}",
            fix="Return (carry, y), with None as y for no output.",
        )
    )
