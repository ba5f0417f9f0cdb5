"""Functions of arrays that NumPy computes in one go, for eager calls with small arrays.

    @computed_by(_interpolated_by_numpy)      # the same function of NumPy values, without a detour
    def _interpolated(rows, q, *, method): ...

A function of many operations, or with a loop, is written once for all transformations and for XLA. Called eagerly with
small arrays it would run operation by operation, and a loop as a program, which has to be compiled first. A NumPy
rule gives the same result for such calls, within rounding and of the same type. It raises `Declined` for values for
which it cannot promise that, such as infinities and singular matrices. For those, for other arrays, and under every
transformation, the function is evaluated as it is written.

Where `evaluated_whole` stages a function that calls such a function, the rule is one of the operations that it
remembers, so a call costs little beside the rule. Read next: `whole_functions.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import numpy as np

from didax.core import config, pytree
from didax.core.avals import ShapedArray
from didax.core.dtypes import PYTHON_SCALARS, numpy_scalar
from didax.core.jaxpr import Eqn, Jaxpr, Literal
from didax.core.primitive import Primitive, current_trace_var, eager_trace
from didax.primitives.control_flow.linear_solve import linear_solve_p
from didax.primitives.custom.call import rules_call_p
from didax.primitives.holes import NOT_LINEAR
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS, evaluates_with_numpy, run_quietly
from didax.transforms.staging import trace_to_jaxpr
from didax.xla.signals import hold_signals, raise_held, release_signals

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_PLAIN = frozenset({type(None), bool, int, float, str})
_get_current = current_trace_var.get
# The trace of `evaluated_whole`.
staged_whole: ContextVar[Any] = ContextVar("didax_staged_whole", default=None)


class Declined(Exception):
    """Raised by a NumPy rule for values that it leaves to the function as it is written."""


def computed_by(
    rule: Callable[..., Any],
    admits: Callable[[Sequence[ShapedArray]], bool] = lambda avals: True,
    *,
    of_weak_types: bool = False,
    in_jax: bool = False,
) -> Callable[[F], F]:
    """Decorate a function of arrays, with plain keywords, that `rule` computes of NumPy values of the same dtypes.

    `admits` says which types the rule knows. Their dtypes are NumPy's own, and they are weak only where the function
    gives the same `of_weak_types`, results of strong types. `in_jax` asks the rule under `as_in_jax`, too.
    """

    def is_for(args: Sequence[Any], params: dict[str, Any]) -> bool:
        avals = [x.aval for x in args]
        return _may_ask(avals, params, of_weak_types, in_jax) and admits(avals)

    def decorate(f: F) -> F:
        @functools.wraps(f)
        def compute(*args: Any, **params: Any) -> Any:
            trace = _get_current()
            if trace is eager_trace:
                if all(map(evaluates_with_numpy, args)) and is_for(args, params):
                    values = [as_concrete(x).host_value() for x in args]
                    with suppress(Declined):
                        found = run_quietly(rule, values, params)
                        return _arrays(cast("Any", found)) if type(found) is tuple else _array(found)
            elif trace is staged_whole.get() and is_for(args, params):
                return _stage(f, rule, args, params)
            return f(*args, **params)

        return cast("F", compute)

    return decorate


def _may_ask(avals: Sequence[ShapedArray], params: dict[str, Any], of_weak_types: bool, in_jax: bool) -> bool:
    """Whether a rule may be asked: under `as_in_jax` eager and compiled digits are mostly to be the same."""
    return (
        all([a.dtype.isbuiltin == 1 and (of_weak_types or not a.weak_type) for a in avals])
        and all([a.size <= NUMPY_MAX_ELEMENTS for a in avals])
        and all([type(x) in _PLAIN for x in params.values()])
        and (in_jax or not config.state().as_in_jax)
    )


def _array(y: Any) -> ConcreteArray:
    return ConcreteArray(ShapedArray(np.shape(y), y.dtype), y)


def _arrays(ys: tuple[Any, ...]) -> tuple[ConcreteArray, ...]:
    return tuple(map(_array, ys))


def _stage(f: Any, rule: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Write a call of the function as one operation."""
    trees: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        leaves, tree = pytree.flatten(f(*xs, **params))
        trees.append(tree)
        return leaves

    jaxpr, _ = trace_to_jaxpr(flat, [x.aval for x in args])
    settings = tuple(params.items())
    outs = numpy_function_p.bind(*args, rule=rule, settings=settings, out_avals=tuple(jaxpr.out_avals))
    return pytree.unflatten(trees[0], outs)


def staged_quietly(stage: Callable[[], T]) -> T:
    """The result of a fragile function that stages a call; afterwards `staged_whole` is what it was."""
    outer = staged_whole.get()
    held = hold_signals()  # whose exceptions are not those of staging
    try:
        found = stage()
    finally:
        release_signals(held)
        staged_whole.set(outer)
    raise_held()
    return found


_ONLY_STAGED = "it stands in programs of `evaluated_whole` only, which are not transformed"


class NumpyFunction(Primitive):
    """A call of a function that has a NumPy rule, in what is evaluated as a whole."""

    multiple_results = True
    caches_types = False
    holes = {
        **dict.fromkeys(["lower", "jvp", "batch"], _ONLY_STAGED),
        "transpose": NOT_LINEAR,
    }

    def type(self, *avals: ShapedArray, rule: Any, settings: Any, out_avals: Any) -> Sequence[ShapedArray]:
        return out_avals

    def eager(self, *xs: Any, rule: Any, settings: Any, out_avals: Any) -> Sequence[Any]:
        found = rule(*xs, **dict(settings))
        return cast("tuple[Any, ...]", found) if type(found) is tuple else (found,)


numpy_function_p = NumpyFunction("numpy_function")


def value_of(x: Literal) -> Any:
    """The value of a literal, as NumPy has it."""
    if type(x.val) in PYTHON_SCALARS:
        return numpy_scalar(x.val, x.aval.dtype)
    return as_concrete(x.val).host_value()


def have_equal_bits(x: Any, y: Any) -> bool:
    """Whether arrays, or values of NumPy, have one dtype, one shape and the same bits."""
    if x is y:
        return True
    a, b = (np.asarray(as_concrete(z).host_value()) for z in (x, y))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def evaluated_jaxpr(eqn: Eqn) -> Jaxpr | None:
    """The jaxpr of an operation that eager evaluation evaluates operation by operation."""
    if eqn.primitive is rules_call_p:
        return eqn.params["jaxpr"]
    return eqn.params["jaxprs"][1] if eqn.primitive is linear_solve_p else None
