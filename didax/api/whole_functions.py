"""Composed functions of small arrays, evaluated as a whole.

    nn.softmax(x)        # the first three calls for a kind of arguments: ten operations, one after the other
    nn.softmax(x)        # from then on: the NumPy rules of the ten, on bare NumPy values

An eager operation takes a microsecond or two beside what NumPy takes: arguments are checked, the current trace and the
plan are looked up, an array is made of the result. `evaluated_whole` lets a library function pay that once. What a call
comes down to is staged, and the NumPy rules of its operations are remembered by the types of the arrays and the values
of the other arguments. The same rules run on the same values in the same order, so the results are those of single
operations bit by bit, which the third call verifies. Calls under a transformation, with large arrays, with arguments
that are neither arrays nor plain values, and calls whose operations someone watches are evaluated as they are written.

A function that looks at the values of its arrays, in order to choose or to refuse, is not decorated: a remembered call
does not look. Read next: `runtime/numpy_plans.py`, the single operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from didax.core import config, pytree
from didax.core import sharding as shardings
from didax.core.avals import ShapedArray
from didax.core.dtypes import PYTHON_SCALARS, numpy_scalar
from didax.core.errors import strip_internal_frames
from didax.core.exact import exact
from didax.core.jaxpr import Eqn, Jaxpr, Literal
from didax.core.primitive import current_trace_var, eager_trace
from didax.passes.physical import is_physical
from didax.passes.simplify import dce_jaxpr
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS, on_cpu, run_quietly
from didax.transforms.cache import on_clear
from didax.transforms.staging import trace_to_jaxpr

P = ParamSpec("P")
R = TypeVar("R")

_KINDS_MAX = 4096
_FIRST_CALLS = 3  # of one kind: staging takes as long as some twenty calls
_PLAIN = frozenset({type(None), bool, int, str, type})
_AS_WRITTEN = object()  # what is remembered of calls that stay as they are written
_get_current = current_trace_var.get


def evaluated_whole(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate a library function that computes arrays of arrays, and never looks at their values."""
    remembered: dict[Any, Any] = {}  # by kind of call: how many there were, then a `_Whole` or `_AS_WRITTEN`
    on_clear(remembered.clear)

    @functools.wraps(f)
    def evaluate(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if (
                _get_current() is not eager_trace
                or (shardings.in_use and config.state().mesh is not None)
                or (kind := _kind_of_call(args, kwargs)) is None
                or (config.operations_were_watched and config.watches_operations())
            ):
                return f(*args, **kwargs)
            key, values = kind
            whole = remembered.get(key, 0)
            if type(whole) is _Whole:
                return whole.run(values)
            result = f(*args, **kwargs)
            if whole is not _AS_WRITTEN:
                if len(remembered) >= _KINDS_MAX:
                    remembered.clear()
                remembered[key] = whole + 1
                if whole + 1 >= _FIRST_CALLS:
                    remembered[key] = _whole_of(f, args, kwargs, values, result) or _AS_WRITTEN
            return result
        except Exception as error:
            strip_internal_frames(error)
            raise

    return evaluate


def _kind_of_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], list[Any]] | None:
    """A key that calls share which come down to the same, and the values of the arrays; None for other arguments."""
    key: list[Any] = [config.state(), *kwargs]
    values: list[Any] = []
    for x in (*args, *kwargs.values()) if kwargs else args:
        kind = cast("type[Any]", type(x))
        if kind is ConcreteArray:
            if x.committed or x.aval.size > NUMPY_MAX_ELEMENTS:
                return None
            key.append(x.aval)
            value = x._value  # pyright: ignore[reportPrivateUsage]
            values.append(x.host_value() if value is None else value)
        elif kind in _PLAIN:
            key += (kind, x)
        elif kind is float or kind is complex:
            key += (kind, exact(x))
        elif kind is tuple and all([type(i) is int for i in cast("tuple[Any, ...]", x)]):
            key += (kind, x)
        else:
            return None
    return tuple(key), values


class _Step(NamedTuple):
    """An operation: its NumPy rule, the places of its operands among all values, its parameters."""

    rule: Callable[..., Any]
    operands: tuple[int, ...]
    params: dict[str, Any]
    is_list: bool  # whether the rule gives a list of results


class _Whole(NamedTuple):
    """What calls of one kind come down to: operations in their order, on the values of the arrays and constants."""

    constants: list[Any]
    steps: list[_Step]
    outs: list[int]  # the places of the results
    avals: list[ShapedArray]
    tree: Any  # None: the result is one array

    def run(self, values: list[Any]) -> Any:
        """The result of a call."""
        found = run_quietly(self._compute, [values], {})
        arrays = [ConcreteArray(aval, found[i]) for aval, i in zip(self.avals, self.outs, strict=True)]
        return arrays[0] if self.tree is None else pytree.unflatten(self.tree, arrays)

    def _compute(self, values: list[Any]) -> list[Any]:
        found = [*self.constants, *values]
        for rule, operands, params, is_list in self.steps:
            y = rule(*[found[i] for i in operands], **params)
            if is_list:
                found += y
            else:
                found.append(y)
        return found


def _whole_of(f: Any, args: Any, kwargs: dict[str, Any], values: list[Any], result: Any) -> _Whole | None:
    """What a call like this one, with this result, comes down to; None where it is evaluated as it is written."""
    leaves, tree = pytree.flatten(result)
    if not on_cpu() or not all([type(y) is ConcreteArray for y in leaves]):
        return None
    arrays = [x for x in (*args, *kwargs.values()) if type(x) is ConcreteArray]

    def staged(*tracers: Any) -> list[Any]:
        given = iter(tracers)
        return pytree.leaves(
            f(
                *[next(given) if type(x) is ConcreteArray else x for x in args],
                **{name: next(given) if type(x) is ConcreteArray else x for name, x in kwargs.items()},
            )
        )

    try:
        jaxpr, captured = trace_to_jaxpr(staged, [x.aval for x in arrays])
        jaxpr, _ = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars), keep_inputs=True)
        whole = _of_jaxpr(jaxpr, captured, None if type(result) is ConcreteArray else tree)
    except Exception:  # the values of arrays decide what is computed
        return None
    if whole is None:
        return None
    again = pytree.leaves(whole.run(values))
    return whole if all(map(_are_equal, again, leaves)) else None


def _of_jaxpr(jaxpr: Jaxpr, captured: Sequence[Any], tree: Any) -> _Whole | None:
    """The operations of a jaxpr as steps; None where one of them is not NumPy's, or a result is no operation's."""
    literals = {x: None for eqn in jaxpr.eqns for x in eqn.invars if type(x) is Literal}
    constants = [_value_of(x) for x in literals] + [as_concrete(x).host_value() for x in captured]
    places: dict[Any, int] = {x: i for i, x in enumerate([*literals, *jaxpr.invars])}
    given = len(places)
    steps: list[_Step] = []
    for eqn in jaxpr.eqns:
        rule = _numpy_rule(eqn)
        if rule is None:
            return None
        operands = tuple([places[x] for x in eqn.invars])
        steps.append(_Step(rule, operands, eqn.params, eqn.primitive.multiple_results))
        for v in eqn.outvars:
            places[v] = len(places)
    outs = [places.get(x, 0) for x in jaxpr.outvars]
    if len(set(outs)) < len(outs) or any(i < given for i in outs):
        return None
    return _Whole(constants, steps, outs, list(jaxpr.out_avals), tree)


def _value_of(x: Literal) -> Any:
    if type(x.val) in PYTHON_SCALARS:
        return numpy_scalar(x.val, x.aval.dtype)
    return as_concrete(x.val).host_value()


def _numpy_rule(eqn: Eqn) -> Callable[..., Any] | None:
    """The rule by which an eager operation on these types is evaluated, if it is one of NumPy."""
    primitive = eqn.primitive
    avals = tuple([x.aval for x in eqn.invars])
    out_avals = [v.aval for v in eqn.outvars]
    small = sum(a.size for a in (*avals, *out_avals)) <= NUMPY_MAX_ELEMENTS
    if primitive.evaluate is not None or eqn.effects or not small or not is_physical((*avals, *out_avals)):
        return None
    return primitive.eager_for(avals)


def _are_equal(x: ConcreteArray, y: ConcreteArray) -> bool:
    """Whether arrays have one type and, bit by bit, one value."""
    bits = [np.asarray(a.host_value()).tobytes() for a in (x, y)]
    return x.aval is y.aval and bits[0] == bits[1]
