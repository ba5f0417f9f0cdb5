"""Choosing a computation by a value: `cond` and `switch`.

    cond(pred, f, g, x)          = f(x) if pred else g(x)
    switch(index, (f0, f1), x)   = (f0, f1)[index](x)

Unlike Python's `if` they work on traced values. All branches are traced, whichever is taken, so they must
return the same structure, shapes and dtypes; only the one taken runs. They may close over
arrays, traced or not.
Read next: `didax/primitives/control_flow/cond.py`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from didax.api.flat import flatten_arguments, leaf_avals
from didax.api.refs import closing_over_refs, other_leaves, store
from didax.api.results import identities
from didax.api.traced import (
    TracedFunction,
    captured_values,
    converted,
    join_types,
    trace_with_refs,
    with_captured,
)
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr
from didax.core.ref import Ref
from didax.core.source import describe_function
from didax.core.tracing import Tracer, known_value
from didax.lax.operands import operation
from didax.primitives.control_flow.cond import cond_p
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import clamp, ne
from didax.primitives.select import select_n
from didax.runtime.array import as_concrete, sharing
from didax.transforms.staging import values_of
from didax.xla.platforms import platform

__all__ = ["cond", "platform_dependent", "switch"]

_NOT_GIVEN: Any = object()


@operation
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> Any:
    """`true_fun(*operands)` where `pred` holds, else `false_fun(*operands)`; only the function chosen runs.

    Args:
      pred: a bool or number (zero is False) without axes, traced or not. Under `vmap` it may be batched: then
        both functions run on the batch, and each element gets its result.
      true_fun, false_fun: functions with results of one structure and of equal shapes and dtypes
        (Python scalars take the dtype of the other function's result).
      operands: arguments for either function, pytrees of arrays.
      operand: a single operand, by keyword.

    In an older form each function has an operand of its own: `cond(pred, true_operand, true_fun, false_operand,
    false_fun)`.

    Raises TypeError when `pred` is not a scalar, or the results of the functions differ in structure or type.

    >>> from didax import lax
    >>> float(lax.cond(True, lambda x: x + 1, lambda x: x * 2, 5.0))
    6.0
    """
    if len(operands) == 2 and not callable(true_fun) and callable(false_fun) and callable(operands[1]):
        return _cond_of_two_operands(pred, true_fun, false_fun, *operands)
    operands = _all_operands("cond", operands, operand)
    names, functions = ("false_fun", "true_fun"), (false_fun, true_fun)
    _check_branches("cond", names, functions)
    number = _scalar("cond", "pred", pred, "biuf", "a bool or a real number")
    value = known_value(pred)
    if value is None:
        holds = pred if number.dtype == np.bool_ else ne(pred, 0)
        index = select_n(holds, np.int32(0), np.int32(1))
    else:
        index = np.int32(bool(value))
    return _choose("cond", names, index, functions, operands)


def _cond_of_two_operands(
    pred: Any, true_operand: Any, true_fun: Any, false_operand: Any, false_fun: Any
) -> Any:
    """`cond` in the form in which each function has an operand of its own."""
    return cond(pred, lambda x, _: true_fun(x), lambda _, y: false_fun(y), true_operand, false_operand)


@operation
def switch(
    index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _NOT_GIVEN
) -> Any:
    """`branches[index](*operands)`; only the function chosen runs. An index out of range chooses the nearest branch.

    Args:
      index: an integer without axes, traced or not; under `vmap` it may be batched, as in `cond`.
      branches: functions with results as in `cond`.
      operands: arguments for every function, pytrees of arrays.
      operand: a single operand, by keyword.

    Raises TypeError when `index` is not an integer scalar or the results of the functions differ in structure
    or type; ValueError when there is no branch.

    >>> from didax import lax
    >>> branches = [lambda x: x, lambda x: -x, lambda x: x * x]
    >>> [float(lax.switch(i, branches, 3.0)) for i in range(4)]
    [3.0, -3.0, 9.0, 9.0]
    """
    operands = _all_operands("switch", operands, operand)
    branches = _checked_sequence(branches)
    names = tuple(f"branches[{i}]" for i in range(len(branches)))
    _check_branches("switch", names, branches)
    aval = _scalar("switch", "index", index, "iu", "an integer")
    value = None if is_symbolic(index) else known_value(index)
    last = len(branches) - 1
    if value is not None:
        index = np.int32(min(max(int(value), 0), last))
    elif last:
        last = min(last, dtypes.iinfo(aval.dtype).max)  # every value of a narrow index may be in range
        index = convert_element_type(
            clamp(aval.dtype.type(0), index, aval.dtype.type(last)), np.dtype(np.int32)
        )
    else:
        index = np.int32(0)
    return _choose("switch", names, index, branches, operands)


def _choose(
    function: str,
    names: Sequence[str],
    index: Any,
    functions: Sequence[Callable[..., Any]],
    operands: tuple[Any, ...],
) -> Any:
    """Run `functions[index]`, or stage the choice when the index is traced."""
    if config.state().disable_jit and not isinstance(index, Tracer):
        return functions[int(index)](*operands)
    leaves, tree = flatten_arguments(operands, {})
    if any(isinstance(x, Ref) for x in leaves):
        functions = [closing_over_refs(f, leaves, tree) for f in functions]
        return _choose(function, names, index, functions, tuple(other_leaves(leaves)))
    avals = tuple(leaf_avals(function, functions[0], operands, {}))
    # cond traces its true branch first: in the order in which a program writes them.
    turn = -1 if function == "cond" else 1
    # By map, which takes no frame of Python's stack: branches may be nested deeply.
    traced = map(trace_with_refs, repeat(function), functions[::turn], repeat(tree), repeat(avals))
    traced = list(traced)[::turn]
    _check_results(function, names, functions, traced)
    captured, positions = captured_values(traced)
    values = values_of(captured)
    written = [own[len(own) - t.num_written :] for t, own in zip(traced, positions, strict=True)]
    updated = tuple(sorted({i for own in written for i in own}))
    jaxprs, types = tuple(t.jaxpr for t in traced), tuple(aval_of(x) for x in values)
    branches = _joined(jaxprs, positions, types, tuple(written), updated)
    outs = cond_p.bind(index, *values, *leaves, branches=branches)
    outs = store([captured[i] for i in updated], outs)
    given = identities([*values, *leaves])
    outs = [sharing(y) if id(y) in given else y if hasattr(y, "aval") else as_concrete(y) for y in outs]
    return pytree.unflatten(traced[0].out_tree, outs)


# --- Joining --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def _joined(
    jaxprs: tuple[Jaxpr, ...],
    positions: tuple[tuple[int, ...], ...],
    captured: tuple[ShapedArray, ...],
    written: tuple[tuple[int, ...], ...],
    updated: tuple[int, ...],
) -> tuple[Jaxpr, ...]:
    """Branches with equal inputs, all captured values first, and equal results, new values of Refs first.

    `written` are the positions of the captured values that each branch has new values of, `updated` all of these.
    """
    results = [j.out_avals[len(own) :] for j, own in zip(jaxprs, written, strict=True)]
    out_avals = [join_types(column) for column in zip(*results, strict=True)]
    branches: list[Jaxpr] = []
    for jaxpr, own, wrote in zip(jaxprs, positions, written, strict=True):
        same = converted(jaxpr, [*jaxpr.out_avals[: len(wrote)], *out_avals])
        branches.append(_with_updates(with_captured(same, own, captured), wrote, updated))
    return tuple(branches)


def _with_updates(jaxpr: Jaxpr, wrote: tuple[int, ...], updated: tuple[int, ...]) -> Jaxpr:
    """The jaxpr with the values at `updated` as leading outputs: new ones of those it wrote to, of others the old."""
    if wrote == updated:
        return jaxpr
    new = dict(zip(wrote, jaxpr.outvars, strict=False))
    leading = [new.get(i, jaxpr.invars[i]) for i in updated]
    return Jaxpr(jaxpr.invars, jaxpr.eqns, [*leading, *jaxpr.outvars[len(wrote) :]], jaxpr.name)


# --- Checks ---------------------------------------------------------------------------------------


def _all_operands(function: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _NOT_GIVEN:
        return operands
    if operands:
        raise TypeError(
            message(
                f"{function} takes operands by position or one by keyword, not both.",
                f"{len(operands)} by position, and operand={operand!r:.100}",
                fix="Pass all of them by position.",
            )
        )
    return (operand,)


def _scalar(function: str, name: str, x: Any, kinds: str, wanted: str) -> ShapedArray:
    """Type of `x`; TypeError unless it is a scalar of one of the kinds."""
    try:
        aval = aval_of(x)
    except TypeError:
        found = f"{x!r:.100} of type {type(x).__name__}"
    else:
        if aval.shape == () and dtypes.kind_of(aval.dtype) in kinds:
            return aval
        found = str(aval)
    raise TypeError(
        message(
            f"{function} chooses by {wanted} without axes.",
            f"{name}: {found}",
            fix="To choose element by element use didax.numpy.where, or map the function with vmap.",
        )
    )


def _checked_sequence(branches: Any) -> tuple[Any, ...]:
    if not isinstance(branches, Sequence):
        raise TypeError(
            message(
                "switch takes its branches as a sequence of functions.",
                f"branches: {branches!r:.100} of type {type(branches).__name__}",
                fix="Write switch(index, [f, g], *operands).",
            )
        )
    if not branches:
        raise ValueError(
            message(
                "switch needs at least one branch.",
                f"branches: {branches!r}",
                fix="Pass the functions to choose from.",
            )
        )
    return tuple(branches)


def _check_branches(function: str, names: Sequence[str], functions: Sequence[Any]) -> None:
    for name, f in zip(names, functions, strict=True):
        if not callable(f):
            raise TypeError(
                message(
                    f"The branches of {function} are functions.",
                    f"{name}: {f!r:.100} of type {type(f).__name__}",
                    fix="For a branch that is a value write `lambda *_: value`.",
                )
            )


def _check_results(
    function: str, names: Sequence[str], functions: Sequence[Any], traced: Sequence[TracedFunction]
) -> None:
    """TypeError unless all branches return the same structure of arrays, of types that can be joined.

    Later branches are named first, so that `cond` speaks of true_fun before false_fun.
    """
    types = [t.out_avals for t in traced]
    if all(t.out_tree == traced[0].out_tree for t in traced) and all(x == types[0] for x in types):
        return
    for j, i in itertools.combinations(reversed(range(len(traced))), 2):
        if traced[i].out_tree != traced[j].out_tree:
            facts = pytree.mismatch(traced[j].out_tree, traced[i].out_tree, names[j], names[i]).splitlines()
            rule, fix = "structures", "Return the same containers from every branch."
        elif facts := _differing_leaves(traced[0].out_tree, types[j], types[i], names[j], names[i]):
            rule, fix = "shapes and dtypes", "Cast (x.astype) or broadcast the results of one branch."
        else:
            continue
        where = [f"{names[k]}: {describe_function(functions[k])}" for k in (j, i)]
        raise TypeError(
            message(f"The branches of {function} must return equal {rule}.", *facts, *where, fix=fix)
        )


def _differing_leaves(
    tree: Any, one: Sequence[ShapedArray], two: Sequence[ShapedArray], name1: str, name2: str
) -> list[str]:
    paths = [path for path, _ in pytree.flatten_with_path(pytree.unflatten(tree, list(range(len(one)))))[0]]
    return [
        f"out{pytree.keystr(path)} is {a} in {name1}, {b} in {name2}"
        for path, a, b in zip(paths, one, two, strict=True)
        if join_types((a, b)) is None
    ]


@operation
def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """The result of the function for the platform in use ('cpu', or 'gpu' and 'cuda'), or else of the default one.

    A process computes on one platform, so only that function is traced; a program that is lowered for other platforms
    is traced for each. NotImplementedError where there is neither a function for the platform nor a default.

    >>> from didax import lax
    >>> lax.platform_dependent(2.0, tpu=lambda x: x, default=lambda x: x + 1)
    3.0
    """
    names = ("cuda", "gpu") if platform() == "cuda" else (platform(),)
    chosen = next((per_platform[name] for name in names if name in per_platform), default)
    if chosen is None:
        facts = f"platform: {names[0]}, functions for: {', '.join(per_platform) or 'none'}"
        fix = "Pass a function for it, or a default."
        raise NotImplementedError(
            message("platform_dependent has no function for the platform.", facts, fix=fix)
        )
    return chosen(*args)
