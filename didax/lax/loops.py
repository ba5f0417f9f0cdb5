"""Loops inside compiled programs: `scan`, `while_loop`, `fori_loop`, `map` and `associative_scan`.

    scan(f, c, xs)             for x in xs: c, y = f(c, x)            returns c and all y, stacked
    while_loop(p, f, x)        while p(x): x = f(x)                   returns x
    fori_loop(a, b, f, x)      for i in range(a, b): x = f(i, x)      returns x

The body is traced once, whatever the number of steps, and the whole loop is one compiled operation. So the carry of a
loop must keep its structure, shapes and dtypes; only a weakly typed carry (a Python scalar to start from) takes the
type that the body returns for it. Bodies may close over arrays, traced or not.
Read next: `primitives/control_flow/scan.py` and `primitives/control_flow/while_loop.py`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from didax.api.chunks import checked_size, map_chunks, map_rows
from didax.api.flat import as_array, check_callable, flatten_arguments
from didax.api.refs import RefArguments, store
from didax.api.traced import (
    TracedFunction,
    as_type,
    converted,
    join_types,
    remembered,
    trace_function,
    trace_with_refs,
)
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import Dim, as_length, is_symbolic, max_dim
from didax.core.errors import ArgumentError, TypePromotionError, message
from didax.core.jaxpr import Jaxpr, Var, eval_jaxpr
from didax.core.masked import check_no_mask
from didax.core.ref import Ref
from didax.core.source import describe_function
from didax.core.tracing import Tracer, known_value
from didax.lax.operands import operation
from didax.primitives.control_flow.checkpointed import while_checkpointed
from didax.primitives.control_flow.common import COUNT
from didax.primitives.control_flow.layout import BodyLayout, split_at
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.control_flow.segments import for_counted, scan_in_segments, while_bounded
from didax.primitives.control_flow.unchanged import Loop, loop_over_changed
from didax.primitives.control_flow.while_loop import while_p
from didax.primitives.convert import convert_element_type
from didax.primitives.cumulative import associative_scan as prefixes
from didax.primitives.dimension import number
from didax.primitives.elementwise import add, lt, min_, sub
from didax.primitives.select import select_n
from didax.primitives.shape import broadcast_axis
from didax.primitives.slicing import concatenate, rev
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.staging import check_only_read, trace_to_jaxpr, values_of

__all__ = ["associative_scan", "fori_loop", "map", "scan", "while_loop"]

_BOOL = np.dtype(bool)
_MOST = int(np.iinfo(np.int32).max)


# --- scan and map ---------------------------------------------------------------------------------


@operation
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    checkpoint: int | Literal["sqrt"] | None = None,
) -> tuple[Any, Any]:
    """`for x in xs: carry, y = f(carry, x)` from `init`; the last carry, and the outputs stacked.

    Args:
      f: a function of the carry and one element that returns the next carry and an output (None for none).
      init: the carry to start from, a pytree of arrays.
      xs: a pytree of arrays with equal leading axes, along which the scan runs; None with a `length`.
      length: how many steps; follows from `xs` if these are given.
      reverse: run from the last element to the first; outputs stay beside their elements.
      unroll: how many steps make one step of the compiled loop; True or 0 for all.
      checkpoint: into how many segments to cut the steps, `"sqrt"` for the square root of their number. Reverse mode
        then saves the first carry of each segment and, one segment at a time, takes its steps again.

    Raises TypeError when `f` returns no pair or changes the structure, a shape or a dtype of the carry;
    ValueError when lengths contradict each other.

    >>> import numpy as np
    >>> from didax import lax
    >>> total, sums = lax.scan(lambda c, x: (c + x, c + x), 0, np.int32([1, 2, 3]))
    >>> int(total), sums.tolist()
    (6, [1, 3, 6])
    """
    check_callable("scan", f)
    if any(isinstance(x, Ref) for x in pytree.leaves(xs)):
        return _scan_over_refs(f, init, xs, length, reverse, unroll, checkpoint=checkpoint)
    rows, rows_tree, row_avals, length = _rows("scan", xs, length)
    unroll = _checked_unroll("scan", unroll, length)
    segments = _checked_segments(checkpoint, length)
    if config.state().disable_jit and length:
        return _scan_in_python(f, init, xs, length, reverse)
    start, tree, avals = _leaves("scan", "init", init)
    row = pytree.unflatten(rows_tree, row_avals)
    body = _trace_body("scan", f, "carry", tree, avals, lambda carry: (carry, row), others=True)
    args, sizes = BodyLayout.join(body.consts(), body.carry(start), rows)
    params = {"jaxpr": body.jaxpr, **sizes, "length": length, "reverse": bool(reverse), "unroll": unroll}
    outs = scan_p.bind(*args, **params) if segments is None else scan_in_segments(args, params, segments)
    last, ys = split_at([as_array(y) for y in body.results(outs)], len(start))
    return pytree.unflatten(tree, last), pytree.unflatten(body.others, ys)


def _scan_over_refs(f: Any, init: Any, xs: Any, *options: Any, checkpoint: Any) -> tuple[Any, Any]:
    """`scan` where there are Refs among the `xs`: a step is given Refs of their rows, whose new values are stacked."""
    leaves, tree = pytree.flatten(xs)
    positions = [i for i, x in enumerate(leaves) if isinstance(x, Ref)]

    def step(carry: Any, rows: list[Any]) -> tuple[Any, Any]:
        arguments = RefArguments(lambda *row: [f(carry, pytree.unflatten(tree, row))], positions)
        *new_rows, pair = arguments(*rows)
        written[:] = arguments.written
        carry, y = pair
        return carry, (new_rows, y)

    written: list[int] = []
    last, (stacked, ys) = scan(step, init, values_of(leaves), *options, checkpoint=checkpoint)
    store([leaves[i] for i in written], stacked)
    return last, ys


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


@operation
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
    size = checked_size("map", "batch_size", batch_size)
    if config.state().disable_jit and length and size is None:
        return _scan_in_python(lambda _, x: (None, f(x)), None, xs, length, False)[1]
    args_tree = pytree.structure(((pytree.unflatten(tree, row_avals),), {}))
    if size is None:
        body = trace_with_refs("map", f, args_tree, row_avals)
        outs = map_rows(body.jaxpr, body.read, values_of(body.written), rows, length)
        return pytree.unflatten(body.out_tree, store(body.written, outs))
    body = trace_function("map", f, args_tree, row_avals)
    return pytree.unflatten(body.out_tree, map_chunks(body, rows, length, size)[0])


def _rows(function: str, xs: Any, length: int | None) -> tuple[list[Any], Any, tuple[ShapedArray, ...], int]:
    """Leaves and structure of `xs`, the types of one element, and how many there are."""
    leaves, tree, avals = _leaves(function, "xs", xs)
    lengths = {aval.shape[:1] for aval in avals}
    if length is not None:
        length = _checked_length(function, length)
        lengths.add((length,))
    if len(lengths) != 1 or () in lengths:
        raise ValueError(
            message(
                f"{function} runs along the leading axes of its xs, which must have one length.",
                *([] if length is None else [f"length: {length}"]),
                *(f"{path}: {aval}" for path, aval in zip(_paths(tree, "xs"), avals, strict=True)),
                *([] if avals or length is not None else ["xs: no arrays"]),
                fix="Pass arrays, or a length."
                if not avals
                else "Close over numbers and arrays without axes."
                if () in lengths
                else "Cut or pad the arrays, or close over those that are the same at every step.",
            )
        )
    ((count,),) = lengths
    for path, aval in zip(_paths(tree, "xs"), avals, strict=True):
        if aval.layout is not None and aval.layout.spec[0]:
            rule = f"{function} runs along leading axes that are not split over explicit mesh axes."
            fix = "Lay xs out anew: didax.sharding.reshard(xs, P(None, ...)); or split a later axis."
            raise ValueError(message(rule, f"{path}: {aval}", fix=fix))
    return leaves, tree, tuple([aval.without_axis() for aval in avals]), count


def _checked_length(function: str, length: Any) -> int:
    try:
        count = as_length(length)
    except TypeError:
        count = -1
    if count < 0:
        raise ArgumentError(
            message(
                f"The length of {function} is how many steps it takes.",
                f"length: {length!r:.100} of type {type(length).__name__}",
                fix="Pass an integer that is not negative; for a traced number of steps use fori_loop.",
            )
        )
    return count


def _checked_unroll(function: str, unroll: Any, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    if (
        not hasattr(unroll, "__index__")
        or isinstance(unroll, Tracer)
        or (count := operator.index(unroll)) < 0
    ):
        raise (ValueError if isinstance(unroll, int) else TypeError)(
            message(
                f"{function} unrolls a number of steps into one.",
                f"unroll: {unroll!r:.100} of type {type(unroll).__name__}",
                fix="Pass a positive integer; 0 or True unrolls the whole loop.",
            )
        )
    return count or max(length, 1)


def _checked_segments(checkpoint: Any, length: int) -> int | None:
    """Into how many segments to cut a scan; None for not at all."""
    if checkpoint is None or (checkpoint == "sqrt" and length == 0):
        return None
    if checkpoint == "sqrt":
        return math.isqrt(length - 1) + 1
    is_count = hasattr(checkpoint, "__index__") and not isinstance(checkpoint, Tracer | bool)
    if not is_count or not 1 <= (count := operator.index(checkpoint)) <= max(length, 1):
        raise (ValueError if is_count or isinstance(checkpoint, str) else TypeError)(
            message(
                "The checkpoint of scan is the number of segments of its steps; each saves its first carry.",
                f"checkpoint: {checkpoint!r:.100} of type {type(checkpoint).__name__}",
                f"steps: {length}",
                fix="Pass an integer from 1 to the number of steps, 'sqrt' for about its square root, or None.",
            )
        )
    return count if length else None


# --- while_loop and fori_loop ---------------------------------------------------------------------


@operation
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    max_steps: int | None = None,
    checkpoints: int | None = None,
) -> Any:
    """`while cond_fun(x): x = body_fun(x)`, from `init_val`, a pytree of arrays; the last x.

    Under `vmap` the loop goes on while any element continues. Forward mode differentiates through it; reverse mode
    does with `max_steps` or `checkpoints`.

    Args:
      cond_fun: a function of x that returns a bool scalar.
      body_fun: a function of x that returns the next x.
      init_val: the x to start from.
      max_steps: the loop stops after so many steps, whatever the condition. Reverse mode then saves about the square
        root of so many x, and takes each step once more.
      checkpoints: how many x reverse mode saves, whatever the number of steps. It computes the others again: each step
        up to t times, where the binomial coefficient of checkpoints + t over t is at least the number of steps.

    Raises TypeError when `cond_fun` returns anything but a bool scalar, or `body_fun` changes the structure,
    a shape or a dtype of what it is given.

    >>> import didax as dx
    >>> from didax import lax
    >>> int(lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 1))
    128
    >>> double = lambda x: lax.while_loop(lambda x: x < 100, lambda x: 2 * x, x, max_steps=50)
    >>> float(dx.grad(double)(1.0))
    128.0
    """
    check_callable("while_loop", cond_fun)
    check_callable("while_loop", body_fun)
    steps = _checked_count("while_loop", "max_steps", max_steps, 0)
    checkpoints = _checked_count("while_loop", "checkpoints", checkpoints, 1)
    init, tree, avals = _leaves("while_loop", "init_val", init_val)
    if config.state().disable_jit and not any(isinstance(x, Tracer) for x in init):
        init_val, taken, ended = _while_in_python(cond_fun, body_fun, init_val, steps)
        if ended:
            return pytree.map(as_array, init_val)
        steps = steps if steps is None else steps - taken
        init, tree, avals = _leaves("while_loop", "init_val", init_val)
    body = _trace_body("while_loop", body_fun, "init_val", tree, avals, lambda carry: (carry,))
    cond = trace_with_refs("while_loop", cond_fun, pytree.structure(((init_val,), {})), body.carry_avals)
    _check_predicate(cond_fun, cond)
    cond_jaxpr, cond_consts = _of_whole_carry(cond, body.written)
    consts, carry = body.consts(), body.carry(init)
    loop = while_p.run if steps is None and checkpoints is None else _reversible(steps, checkpoints)
    outs = loop(cond_jaxpr, body.jaxpr, cond_consts, consts, carry)
    return pytree.unflatten(tree, [as_array(y) for y in body.results(outs)])


def _of_whole_carry(cond: TracedFunction, written: Sequence[Ref]) -> tuple[Jaxpr, list[Any]]:
    """The condition as a jaxpr of captured values, the values of Refs that the body writes to, and the carry."""
    check_only_read("while_loop as its condition", cond.captured, cond.num_written)
    if not written:
        return cond.jaxpr, cond.read
    moved = tuple(next((i for i, x in enumerate(cond.captured) if x is ref), None) for ref in written)
    consts = [x for i, x in enumerate(cond.captured) if i not in moved]
    avals = tuple(ref.type for ref in written)
    return _with_carried(cond.jaxpr, len(cond.captured), moved, avals), values_of(consts)


@cached_on_jaxpr
def _with_carried(
    jaxpr: Jaxpr, num_captured: int, moved: tuple[int | None, ...], avals: tuple[ShapedArray, ...]
) -> Jaxpr:
    """The jaxpr with captured values at `moved` after the other ones; None stands for a value that it does not read."""
    carried = [Var(aval) if i is None else jaxpr.invars[i] for i, aval in zip(moved, avals, strict=True)]
    consts = [v for i, v in enumerate(jaxpr.invars[:num_captured]) if i not in moved]
    return Jaxpr([*consts, *carried, *jaxpr.invars[num_captured:]], jaxpr.eqns, jaxpr.outvars, jaxpr.name)


def _reversible(steps: int | None, checkpoints: int | None) -> Loop:
    """What runs a while loop within these limits on steps and memory, and reverse mode through it."""
    if checkpoints is None:
        assert steps is not None
        return functools.partial(loop_over_changed, functools.partial(while_bounded, steps=steps))
    run = functools.partial(while_checkpointed, checkpoints=checkpoints, steps=steps)
    return functools.partial(loop_over_changed, run)


def _while_in_python(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], x: Any, steps: Any
) -> tuple[Any, int, bool]:
    """The carry, the steps taken, and whether the loop has ended: it has not where `vmap` maps the condition."""
    taken = 0
    while taken != steps:
        goes_on = known_value(cond_fun(x))
        if goes_on is None:
            return x, taken, False
        if not goes_on:
            break
        x = body_fun(x)
        taken += 1
    return x, taken, True


@operation
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: Any = None,
    max_steps: int | None = None,
    checkpoints: int | None = None,
) -> Any:
    """`for i in range(lower, upper): x = body_fun(i, x)`, from `init_val`, a pytree of arrays; the last x.

    With bounds that are known while tracing (Python integers) it is a `scan`, through which reverse mode
    differentiates. With traced bounds it is a `while_loop`, where reverse mode needs `max_steps` or `checkpoints`.

    Args:
      lower, upper: integers without axes and of one dtype, or floats that are whole numbers; `upper` is not reached.
      body_fun: a function of the counter and the carry that returns the next carry.
      init_val: the carry to start from.
      unroll: as of `scan`, where the bounds are known.
      max_steps, checkpoints: as of `while_loop`.

    Raises TypeError as `while_loop` does; ValueError for `unroll` with traced bounds, `max_steps` or `checkpoints`.

    >>> from didax import lax
    >>> int(lax.fori_loop(0, 5, lambda i, x: x + i, 0))
    10
    """
    check_callable("fori_loop", body_fun)
    symbolic = is_symbolic(upper - lower) if {type(lower), type(upper)} <= {int, Dim} else False
    known_length = max_dim(upper - lower, 0) if symbolic else None
    lower, upper = [number(n, COUNT.dtype) if is_symbolic(n) else n for n in (lower, upper)]
    lower, upper = _whole_bounds(lower, upper)
    counter = _counter_type(lower, upper)
    limit = _checked_count("fori_loop", "max_steps", max_steps, 0)
    checkpoints = _checked_count("fori_loop", "checkpoints", checkpoints, 1)
    steps = _known_steps(lower, upper, limit)
    length = known_length if steps is None else len(steps)
    if (limit, checkpoints) != (None, None):
        length = None
    unroll = _checked_fori_unroll(unroll, length)
    if config.state().disable_jit and steps is not None:
        return _fori_in_python(steps, body_fun, init_val)
    init, tree, avals = _leaves("fori_loop", "init_val", init_val)
    body = _trace_body("fori_loop", body_fun, "init_val", tree, avals, lambda carry: (counter, carry))
    lower, upper = _as_types((lower, upper), (counter, counter))
    consts, refs = body.consts(), len(body.written)
    carry = body.carry(init)
    carry.insert(refs, lower)
    step = _counting(body.jaxpr, len(consts) + refs, refs)
    if length is not None:
        args, sizes = BodyLayout.join(consts, carry)
        outs = scan_p.bind(*args, jaxpr=step, **sizes, length=length, reverse=False, unroll=unroll)
    elif limit is not None and checkpoints is None:
        outs = for_counted(step, _distance(lower, upper, limit), consts, carry, limit)
    else:
        if limit is not None:
            upper = add(lower, convert_element_type(_distance(lower, upper, limit), counter.dtype))
        loop = while_p.run if checkpoints is None else _reversible(None, checkpoints)
        outs = loop(_below(body.jaxpr, len(consts), refs), step, [upper], consts, carry)
    return pytree.unflatten(tree, [as_array(y) for y in body.results(outs)[1:]])


def _distance(lower: Any, upper: Any, limit: int) -> Any:
    """The number of steps from `lower` to `upper`, at most `limit`, as an int32."""
    dtype = aval_of(lower).dtype
    bits = np.dtype(f"uint{8 * dtype.itemsize}")  # where the difference of any two fits
    away = sub(convert_element_type(upper, bits), convert_element_type(lower, bits))
    away = min_(away, bits.type(min(limit, np.iinfo(bits).max)))
    return convert_element_type(select_n(lt(lower, upper), bits.type(0), away), COUNT.dtype)


def _checked_count(function: str, name: str, count: Any, least: int) -> int | None:
    """A number of steps or of checkpoints as an int."""
    if count is None:
        return None
    is_count = hasattr(count, "__index__") and not isinstance(count, Tracer | bool)
    if not is_count or not least <= operator.index(count) <= _MOST:
        raise (ValueError if is_count else TypeError)(
            message(
                f"{name} of {function} is an integer from {least} to {_MOST}, known while tracing: memory depends on "
                "it.",
                f"{name}: {count!r:.100} of type {type(count).__name__}",
                fix="Pass a Python integer, or mark the argument that it comes from as static.",
            )
        )
    return operator.index(count)


def _known_steps(lower: Any, upper: Any, limit: int | None) -> range | None:
    """The values of the counter, at most `limit` of them, where they are known."""
    start, stop = known_value(lower), known_value(upper)
    if start is None or stop is None:
        return None
    return range(int(start), max(int(start), int(stop)))[:limit]


def _checked_fori_unroll(unroll: Any, length: int | None) -> int:
    if unroll is None:
        return 1
    if length is None:
        raise ValueError(
            message(
                "fori_loop unrolls only between bounds that are known while tracing.",
                f"unroll: {unroll!r:.100}, bounds: traced, or max_steps or checkpoints given",
                fix="Pass Python integers as bounds and neither max_steps nor checkpoints, or no unroll.",
            )
        )
    return _checked_unroll("fori_loop", unroll, length)


def _fori_in_python(steps: range, body_fun: Callable[[Any, Any], Any], x: Any) -> Any:
    for i in steps:
        x = body_fun(i, x)
    return pytree.map(as_array, x)


def _whole_bounds(lower: Any, upper: Any) -> tuple[Any, Any]:
    """Two floats that are known and whole are the integers that they equal, as in JAX; other bounds are themselves."""
    start, stop = known_value(lower), known_value(upper)
    types = [t for x in (start, stop) if (t := _type_of(x)) is not None and t.shape == ()]
    if len(types) != 2 or types[0].dtype != types[1].dtype or dtypes.kind_of(types[0].dtype) != "f":
        return lower, upper
    start, stop = float(start), float(stop)  # type: ignore[arg-type] # they have types, so they are numbers
    if not (start.is_integer() and stop.is_integer()):
        # JAX takes 3.5 for 3 where it is known and for 4 where it is traced.
        raise ValueError(
            message(
                "fori_loop counts in whole steps: floats that are known while tracing must be whole numbers.",
                f"lower: {lower!r:.100}",
                f"upper: {upper!r:.100}",
                fix="Round them to integers: int(x), or math.ceil(x) to reach every number below x.",
            )
        )
    return int(start), int(stop)


def _counter_type(lower: Any, upper: Any) -> ShapedArray:
    """The type that counts from `lower` to `upper`."""
    avals = [aval for x in (lower, upper) if (aval := _type_of(x)) is not None]
    joined = join_types(avals) if len(avals) == 2 else None
    # As in JAX, traced floats count, too: libraries round a computed number of steps, and leave it a float.
    traced = known_value(lower) is None or known_value(upper) is None
    counts = joined is not None and (
        dtypes.is_integer(joined.dtype) or (traced and dtypes.kind_of(joined.dtype) == "f")
    )
    if joined is None or joined.shape != () or not counts:
        raise TypeError(
            message(
                "fori_loop counts between two integers of one dtype without axes.",
                *(f"{n}: {x!r:.100} ({_type_of(x)})" for n, x in (("lower", lower), ("upper", upper))),
                fix="Pass Python integers, or cast one bound to the dtype of the other.",
            )
        )
    for bound in (lower, upper):
        if type(bound) is int:
            # Raises where it is out of range: the counter would wrap around.
            dtypes.numpy_scalar(bound, joined.dtype)
    # As in JAX, a counter is weak where it starts from a Python number, or between bounds that are known.
    known = (
        joined.dtype == dtypes.default_dtype(int)
        and known_value(lower) is not None
        and known_value(upper) is not None
    )
    weak = known or (avals[0].weak_type and avals[0].dtype == joined.dtype)
    return joined.update(weak_type=True) if weak else joined


@cached_on_jaxpr
def _counting(jaxpr: Jaxpr, position: int, num_refs: int) -> Jaxpr:
    """The body `(consts, refs, i, carry) -> (refs, carry)` with `i + 1` between these two."""

    def step(*args: Any) -> list[Any]:
        i = args[position]
        refs, carry = split_at(eval_jaxpr(jaxpr, args), num_refs)
        return [*refs, add(i, aval_of(i).dtype.type(1)), *carry]

    return trace_to_jaxpr(step, jaxpr.in_avals, what="fori_loop")[0]


@cached_on_jaxpr
def _below(jaxpr: Jaxpr, num_consts: int, num_refs: int) -> Jaxpr:
    """The condition `(upper, refs, i, carry) -> i < upper` for a body `(consts, refs, i, carry) -> (refs, carry)`."""
    avals = jaxpr.in_avals[num_consts:]

    def below(upper: Any, *carry: Any) -> list[Any]:
        return [lt(carry[num_refs], upper)]

    return trace_to_jaxpr(below, [avals[num_refs], *avals], what="fori_loop")[0]


def _check_predicate(f: Any, cond: TracedFunction) -> None:
    avals = cond.out_avals
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


@operation
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

    outs = prefixes(combine, values, axis)
    length = avals[0].shape[axis] if avals else 0
    if is_symbolic(length) or length > 1:  # such results are joined from parts, which makes them strong
        outs = _as_types(outs, [aval.strip_weak_type() for aval in avals])
    if reverse:
        outs = [rev(y, (axis,)) for y in outs]
    return pytree.unflatten(tree, outs)


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
    """The traced body of a loop: `(captured, *arguments) -> (carry, *others)`, whose carry keeps its types.

    Values of Refs that the body writes to are carried, too, before the carry.
    """

    jaxpr: Jaxpr
    traced: TracedFunction
    carry_avals: tuple[ShapedArray, ...]
    others: Any  # the structure of its results beside the carry

    @property
    def captured(self) -> list[Any]:
        """The captured values, some of which are Refs."""
        return self.traced.captured

    @property
    def written(self) -> list[Ref]:
        """The Refs that the body writes to."""
        return self.traced.written

    def consts(self) -> list[Any]:
        """The captured values that stay the same in all steps."""
        return self.traced.read

    def carry(self, start: Sequence[Any]) -> list[Any]:
        """All that the loop carries, when its carry starts from these values."""
        avals = [*(ref.type for ref in self.written), *self.carry_avals]
        return _as_types([*values_of(self.written), *start], avals)

    def results(self, outs: Sequence[Any]) -> Sequence[Any]:
        """The results of a loop without the values of Refs, which are stored in the Refs."""
        return store(self.written, outs)


def _leaves(function: str, name: str, value: Any) -> tuple[list[Any], Any, tuple[ShapedArray, ...]]:
    """Leaves, structure and types of a pytree of arrays; TypeError that names a leaf that is no array."""
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
        for path, x in zip(_paths(tree, name), leaves, strict=True):
            check_no_mask(x, f"{path} of {function}")
        fix = "Convert them to arrays."
        if any(isinstance(x, Ref) for x in leaves):
            fix = f"{Ref.how_to_read} Functions may close over the Ref itself."
        rule = f"{function} works on arrays, scalars, and pytrees of them."
        raise TypeError(message(rule, *facts, fix=fix)) from None


def _type_of(x: Any) -> ShapedArray | None:
    try:
        return aval_of(x)
    except TypeError:
        return None


def _paths(tree: Any, root: str) -> list[str]:
    paths = pytree.flatten_with_path(pytree.unflatten(tree, range(tree.num_leaves)))[0]
    return [root + pytree.keystr(path) for path, _ in paths]


def _as_types(values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    return [as_type(x, aval) for x, aval in zip(values, avals, strict=True)]


def _trace_body(
    function: str,
    f: Callable[..., Any],
    name: str,
    tree: Any,
    avals: tuple[ShapedArray, ...],
    arguments: Callable[[Any], tuple[Any, ...]],
    others: bool = False,
) -> _Body:
    """Trace the body for a carry (`tree` of `avals`), which it returns; with `others`, in a pair with other results."""
    args = arguments(pytree.unflatten(tree, avals))
    leaves, args_tree = pytree.flatten((args, {}))
    return remembered(
        f,
        (function, "body", args_tree, tuple(leaves)),
        lambda: _settle(function, f, name, tree, avals, arguments, others),
    )


def _settle(
    function: str,
    f: Callable[..., Any],
    name: str,
    tree: Any,
    avals: tuple[ShapedArray, ...],
    arguments: Callable[[Any], tuple[Any, ...]],
    others: bool,
) -> _Body:
    """Trace the body until weak types of the carry are the types that the body returns for them.

    The other results are as weak as they are while those parts of the carry that keep their dtype are weak.
    """
    weak: list[bool] | None = None
    while True:
        leaves, args_tree = pytree.flatten((arguments(pytree.unflatten(tree, avals)), {}))
        traced = trace_with_refs(function, f, args_tree, tuple(leaves))
        out_tree, rest_tree = _pair(function, f, traced) if others else (traced.out_tree, None)
        _check_structure(function, f, name, tree, out_tree)
        out_avals = traced.out_avals
        promoted = tuple([_promoted(a, b) for a, b in zip(avals, out_avals, strict=False)])
        if weak is None and all(a.dtype == b.dtype for a, b in zip(avals, promoted, strict=True)):
            weak = [aval.weak_type for aval in out_avals[len(avals) :]]
        if promoted == avals:
            break
        avals = promoted
    _check_types(function, f, _paths(tree, name), avals, out_avals)
    refs = [ref.type for ref in traced.written]
    pairs = zip(out_avals[len(avals) :], weak or (), strict=True)
    rest = [aval.update(weak_type=True) if is_weak else aval for aval, is_weak in pairs]
    jaxpr = converted(traced.jaxpr, [*refs, *avals, *rest])
    return _Body(jaxpr, traced, avals, rest_tree)


def _promoted(before: ShapedArray, after: ShapedArray) -> ShapedArray:
    """The type that a part of the carry takes when the body returns another: where it is weak, or varies along less."""
    if not before.vma.issuperset(after.vma):
        before = before.update(vma=before.vma | after.vma)
    if not before.weak_type or before is after or before.shape != after.shape:
        return before
    try:
        dtype, _ = dtypes.join(before.dtype, True, after.dtype, after.weak_type)
    except TypePromotionError:
        return before
    return before.update(dtype=dtype, weak_type=False)


def _check_structure(function: str, f: Any, name: str, tree: Any, out_tree: Any) -> None:
    if out_tree == tree:
        return
    facts = pytree.mismatch(tree, out_tree, "what went in", "what came out", name).splitlines()
    raise TypeError(
        message(
            f"The body of {function} changed the structure of its carry.",
            *facts,
            f"body: {describe_function(f)}",
            fix="Return the containers that were passed in.",
        )
    )


def _check_types(
    function: str,
    f: Any,
    paths: Sequence[str],
    avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
) -> None:
    changed = [
        f"{path}: {before} went in, {after} came out"
        for path, before, after in zip(paths, avals, out_avals, strict=False)
        if before is not after and join_types((before, after)) is not before
    ]
    if changed:
        raise TypeError(
            message(
                f"The body of {function} changed the type of its carry.",
                *changed,
                f"body: {describe_function(f)}",
                fix="Cast or broadcast inside the body (x.astype(...)), or start from a carry of the type that "
                "comes out.",
            )
        )


def _pair(function: str, f: Any, traced: TracedFunction) -> tuple[Any, Any]:
    """The structures of carry and output in the pair that a body returned."""
    out_tree = traced.out_tree
    node = out_tree.node_data()
    if node is not None and node[0] in (tuple, list) and len(out_tree.children()) == 2:
        return tuple(out_tree.children())
    raise TypeError(
        message(
            f"The function given to {function} must return a pair: the next carry, and an output.",
            f"function: {describe_function(f)}",
            f"it returned: {pytree.unflatten(out_tree, traced.out_avals)!r:.300}",
            fix="Return (carry, y), with None as y for no output.",
        )
    )
