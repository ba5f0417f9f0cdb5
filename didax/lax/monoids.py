"""The arguments of `reduce` and `reduce_window`: operands, initial values, and a computation of two elements.

`reduction_of` checks that the arguments go together, converts the initial values to the dtypes of the
operands, and finds the primitive that the computation applies, if it applies exactly one. Read next:
`reductions.py`, `windows.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax import tree
from didax.api.vmap import vmap
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.errors import (
    ArgumentError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    message,
)
from didax.core.primitive import Primitive
from didax.core.tracing import constant_value
from didax.primitives import elementwise as el
from didax.primitives.convert import convert_element_type
from didax.primitives.shape import reshape
from didax.transforms.staging import trace_to_jaxpr

COMMUTATIVE = {el.add, el.mul, el.max_, el.min_, el.and_, el.or_, el.xor}
Combine = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


class Reduction(NamedTuple):
    """Operands of one shape, an initial scalar of the dtype of each, and a function that combines two elements.

    `combine` takes two lists of arrays, all of one shape, and combines them element by element. `monoid` is
    the primitive that does the same, if there is one.
    """

    operands: list[Any]
    inits: list[Any]
    combine: Combine
    monoid: Primitive | None
    structure: Any


def reduction_of(
    name: str, operands: Any, init_values: Any, computation: Callable[[Any, Any], Any]
) -> Reduction:
    """Return the checked arguments of `reduce` or `reduce_window`."""
    leaves, structure = tree.flatten(operands)
    init_leaves, init_structure = tree.flatten(init_values)
    avals = [aval_of(x) for x in leaves]
    _check_init_values(name, avals, init_leaves)
    if structure != init_structure:
        facts = f"operands: {structure}, init values: {init_structure}"
        fix = "Give a scalar for each operand, in the same structure."
        raise TypeError(
            message(f"The operands and init values of {name} have one structure.", facts, fix=fix)
        )
    inits = [_initial(name, x, aval) for x, aval in zip(init_leaves, avals, strict=True)]

    def on_scalars(*args: Any) -> list[Any]:
        pair = (tree.unflatten(structure, part) for part in (args[: len(avals)], args[len(avals) :]))
        found, out_structure = tree.flatten(computation(*pair))
        return _checked_results(name, avals, structure, found, out_structure)

    monoid = _monoid_of(name, on_scalars, [aval.dtype for aval in avals])

    def combine(xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        if monoid is not None:
            return [monoid.bind(xs[0], ys[0])]
        shape = aval_of(xs[0]).shape
        flat = [reshape(x, (math.prod(shape),)) for x in (*xs, *ys)]
        return [reshape(y, shape) for y in vmap(on_scalars)(*flat)]

    return Reduction(leaves, inits, combine, monoid, structure)


def is_identity(init: Any, identity: Any) -> bool:
    """Whether this is a constant equal to the identity: leaving it out then changes no value and no derivative."""
    value = constant_value(init)
    return value is not None and bool(np.asarray(value) == identity)


def _monoid_of(name: str, on_scalars: Callable[..., Any], found: Sequence[np.dtype[Any]]) -> Primitive | None:
    """Return the binary primitive that a computation applies to two scalars, if it does nothing else."""
    scalars = [ShapedArray((), dtype) for dtype in found]
    try:
        jaxpr, captured = trace_to_jaxpr(on_scalars, [*scalars, *scalars], what=name)
    except (TracerBoolConversionError, TracerIntegerConversionError) as error:
        rule = f"The computation of {name} makes one element of two, by operations on arrays."
        fix = "Pass didax.lax.max, .min, .add or .mul, or a function of two scalars that uses such."
        facts = (f"elements: {', '.join(map(str, scalars))}", f"it raised: {type(error).__name__}")
        raise TypeError(message(rule, *facts, fix=fix)) from error
    if len(found) != 1 or captured or len(jaxpr.eqns) != 1:
        return None
    eqn = jaxpr.eqns[0]
    operands = set(eqn.invars) if eqn.primitive in COMMUTATIVE else list(eqn.invars)
    applied = operands == type(operands)(jaxpr.invars) and list(jaxpr.outvars) == list(eqn.outvars)
    return eqn.primitive if applied and not eqn.params else None


def _check_init_values(name: str, avals: Sequence[ShapedArray], inits: Sequence[Any]) -> None:
    facts = [
        f"operands: {', '.join(map(str, avals))}",
        f"init_values: {', '.join(map(_text, inits))}",
    ]
    if not avals or any(a.shape != avals[0].shape for a in avals) or len(inits) != len(avals):
        fix = "Broadcast the operands first, and give one init value each."
        raise TypeError(message(f"{name} takes arrays of one shape and a scalar for each.", *facts, fix=fix))
    if any(np.ndim(x) for x in inits):
        fix = "Combine arrays with the result instead."
        raise ArgumentError(message(f"The init values of {name} are scalars.", *facts, fix=fix))


def _checked_results(
    name: str, avals: Sequence[ShapedArray], structure: Any, found: Sequence[Any], out_structure: Any
) -> list[Any]:
    """Return the results in the dtypes of the elements. Their containers may differ: a tuple for a list, as in JAX."""
    outs = [aval_of(y) for y in found]
    fits = len(outs) == len(avals) and all(
        y.shape == () and (y.dtype == x.dtype or _is_cast(y, x.dtype))
        for x, y in zip(avals, outs, strict=True)
    )
    if fits:
        return [
            y if out.dtype == x.dtype else convert_element_type(y, x.dtype)
            for x, y, out in zip(avals, found, outs, strict=True)
        ]
    wanted = ", ".join(str(x.update(shape=())) for x in avals)
    facts = f"elements: {wanted}, in {structure}", f"results: {', '.join(map(str, outs))}, in {out_structure}"
    fix = "Return scalars of these dtypes, in this structure (y.astype)."
    raise TypeError(message(f"The computation of {name} returns what it takes two of.", *facts, fix=fix))


# --- Initial values -----------------------------------------------------------------------------------------


def _initial(name: str, x: Any, operand: ShapedArray) -> Any:
    """Return an initial value in the dtype of its operand; numbers and weak types are converted, if they fit."""
    dtype = operand.dtype
    if (type(x) not in PYTHON_SCALARS or operand.weak_type) and aval_of(x).dtype == dtype:
        return x
    value = constant_value(x)
    if value is None:
        if _is_cast(aval_of(x), dtype):
            return convert_element_type(x, dtype)
        raise _wrong_dtype(name, x, operand)
    found = _as_constant(value, dtype)
    if found is None:
        raise _wrong_dtype(name, x, operand)
    return found


_KINDS = "biufc"


def _is_cast(aval: ShapedArray, dtype: np.dtype[Any]) -> bool:
    """Whether a weak type loses nothing but digits in a dtype."""
    rank, most = (dtypes.KIND_RANKS[dtypes.kind_of(d)] for d in (aval.dtype, dtype))
    return aval.weak_type and dtypes.kind_of(dtype) in _KINDS and rank <= most


def _as_constant(value: Any, dtype: np.dtype[Any]) -> Any | None:
    """Return a constant in another dtype, with infinities as the ends of its range; None where it does not fit."""
    is_number = isinstance(value, tuple(PYTHON_SCALARS))
    rounds = is_number or aval_of(value).weak_type
    number = value if is_number else _element(value)
    kind = dtypes.kind_of(dtype)
    if kind not in _KINDS or (np.iscomplexobj(number) and kind != "c"):
        return None
    if kind in "biu":
        return _as_integer(number, dtype)
    with np.errstate(over="ignore"):
        found = dtype.type(number)
    return found if rounds or found == number or number != number else None


def _element(value: Any) -> Any:
    return np.asarray(value)[()]


def _as_integer(number: Any, dtype: np.dtype[Any]) -> Any | None:
    exact = float(number) if dtypes.is_float(aval_of(number).dtype) else int(number)
    limited = dtypes.saturated(exact, dtype)
    return dtype.type(limited) if limited == exact or exact in (-math.inf, math.inf) else None


def _text(x: Any) -> str:
    return repr(x) if type(x) in PYTHON_SCALARS else str(aval_of(x))


def _wrong_dtype(name: str, x: Any, operand: ShapedArray) -> TypeError:
    rule = f"The init values of {name} are numbers that the dtypes of its operands hold."
    fix = "Cast the init value or the operand (x.astype)."
    return TypeError(message(rule, f"operand: {operand}, init value: {_text(x)}", fix=fix))
