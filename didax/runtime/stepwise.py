"""Evaluating a program operation by operation, as eager evaluation does, without compiling it.

    outs = evaluate(jaxpr, args, Budget(seconds))

Small arrays are computed by NumPy, other operations by programs of one operation; branches and loops run in Python,
by the `run_jaxprs` rules of the primitives that hold jaxprs. What is known of an equation from types alone is worked
out once for each jaxpr. `cost_of` estimates what such an evaluation takes, and what compiling takes instead.
Read next: `background.py`, which decides between the two; `eager.py`, the plans of single operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from didax.core.avals import ShapedArray
from didax.core.dtypes import PYTHON_SCALARS, numpy_scalar
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.primitive import application_key, require
from didax.core.rule_types import check_list
from didax.core.source import follows_equations
from didax.passes.outline import last_uses
from didax.passes.physical import physical_jaxpr
from didax.passes.simplify import simplify_jaxpr
from didax.primitives.callback import CallPython
from didax.primitives.control_flow.common import Unbounded
from didax.runtime.array import ConcreteArray, as_concrete, join_sharers, sharing
from didax.runtime.eager import has_plan, plan_of
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS, Plan
from didax.transforms.cache import cached_on_jaxpr
from didax.xla.callbacks import Run

# Measured on a core of 2024, in seconds. They decide what is waited for, never what is computed.
_OPERATION = 3e-6  # an operation that NumPy evaluates, besides its elements
_PROGRAM = 12e-6  # an operation that is a program of its own
_ELEMENT = 1e-9
_FLOP = 1e-10  # of a product of matrices
_COMPILE_SMALL, _COMPILE_LARGE = 8e-3, 25e-3  # a program of one operation
_COMPILE, _COMPILE_EQUATION = 15e-3, 1e-3  # any other program: each, and for each of its equations


class TooLong(Exception):
    """The evaluation took longer than was granted."""


class Budget:
    """The seconds, by estimate, that an evaluation may still take; `spend` raises `TooLong` beyond them."""

    __slots__ = ("left",)

    def __init__(self, seconds: float):
        self.left = seconds

    def spend(self, seconds: float) -> None:
        self.left -= seconds
        if self.left < 0:
            raise TooLong


class Cost(NamedTuple):
    """An estimate of the seconds that a program takes, and the parts of it that are known."""

    evaluating: float  # once, operation by operation, where every operation has its plan
    own: float  # the same without the jaxprs inside
    compiling: float
    # The operations that are programs of their own, by `application_key`, with whether their arrays are large.
    plans: frozenset[tuple[Any, bool]]
    unbounded: bool  # a loop in it may take any time
    calls_python: bool
    largest: int  # elements of its largest array
    elements: int  # of all arrays that it computes, without the jaxprs inside

    def of_missing_plans(self) -> float:
        """Seconds for the programs of single operations that are not compiled yet."""
        return sum(
            _COMPILE_LARGE if large else _COMPILE_SMALL for key, large in self.plans if not has_plan(key)
        )


@cached_on_jaxpr
def cost_of(jaxpr: Jaxpr) -> Cost:
    """The cost of a jaxpr, which holds no random keys."""
    own = inside = 0.0
    equations, elements = len(jaxpr.eqns), 0
    plans = set[Any]()
    unbounded, calls_python, largest = False, bool(jaxpr.effects), 0
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        results = read = 0
        for x in eqn.outvars:
            size = x.aval.size
            results += size
            if size > largest:
                largest = size
        for x in eqn.invars:
            size = x.aval.size
            read += size
            if size > largest:
                largest = size
        elements += results
        if primitive.run_jaxprs is not None and (inner := [cost_of(x) for x in eqn.jaxprs]):
            unbounded = unbounded or isinstance(primitive, Unbounded) or any(cost.unbounded for cost in inner)
            calls_python = calls_python or any(cost.calls_python for cost in inner)
            largest = max(largest, *[cost.largest for cost in inner])
            seconds = sum([cost.evaluating for cost in inner]) + _PROGRAM * (len(eqn.outvars) + 1)
            inside += seconds * eqn.params.get("length", 1)
            equations += sum([round((cost.compiling - _COMPILE) / _COMPILE_EQUATION) for cost in inner])
            plans = plans.union(*[cost.plans for cost in inner])
            continue
        own += (read + results) * _ELEMENT + _OPERATION
        if primitive.materializes_operands:
            own += 2 * math.sqrt(math.prod([x.aval.size for x in (*eqn.invars, *eqn.outvars)])) * _FLOP
        if primitive.evaluate is not None:
            calls_python = calls_python or isinstance(primitive, CallPython)
            continue
        large = read + results > NUMPY_MAX_ELEMENTS
        if large or primitive.eager is None:
            avals = tuple([x.aval for x in eqn.invars])
            plans.add((application_key(primitive, avals, eqn.params), large))
            own += _PROGRAM
    compiling = _COMPILE + _COMPILE_EQUATION * equations
    return Cost(inside + own, own, compiling, frozenset(plans), unbounded, calls_python, largest, elements)


class _Known:
    """What is worked out about a jaxpr once, for all of its evaluations."""

    __slots__ = ("cost", "done_with", "eqns", "invars", "literals", "outvars", "plans")

    def __init__(self, jaxpr: Jaxpr):
        self.cost = cost_of(jaxpr)
        if self.cost.calls_python:  # merge equal calls of Python, and drop those whose results nobody needs
            jaxpr = simplify_jaxpr(jaxpr)
        self.invars, self.eqns, self.outvars = jaxpr.invars, jaxpr.eqns, jaxpr.outvars
        self.plans: list[Plan | None] = [None] * len(jaxpr.eqns)
        self.literals: dict[Literal, ConcreteArray] = {}
        # For each equation the values that no later one reads; None where all values may be kept to the end.
        self.done_with = None if self.cost.elements < _KEPT_ELEMENTS else _done_with(jaxpr)

    def literal(self, x: Literal) -> ConcreteArray:
        """The value of a literal."""
        found = self.literals.get(x)
        if found is None:
            is_plain = type(x.val) in PYTHON_SCALARS
            value = numpy_scalar(x.val, x.aval.dtype) if is_plain else as_concrete(x.val).host_value()
            found = self.literals[x] = ConcreteArray(x.aval, value)
        return found


_known = cached_on_jaxpr(_Known)
_KEPT_ELEMENTS = 1 << 22


def _done_with(jaxpr: Jaxpr) -> list[list[Var]]:
    unread: dict[Atom, int] = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
    found: list[list[Var]] = [[] for _ in jaxpr.eqns]
    for x, i in (unread | last_uses(jaxpr)).items():
        if type(x) is Var and i < len(found):
            found[i].append(x)
    return found


def evaluate(jaxpr: Jaxpr, args: Sequence[Any], budget: Budget) -> list[ConcreteArray]:
    """Results of a jaxpr on concrete arrays, as new arrays; raises `TooLong` where it exceeds the budget."""
    words = [_as_words(x) for x in args]
    jaxpr_on_words = physical_jaxpr(jaxpr)
    if cost_of(jaxpr_on_words).calls_python:
        with Run([]) as run:  # `effects_barrier` waits for its end
            outs = run.around(lambda: _run_equations(jaxpr_on_words, words, budget))
    else:
        outs = _run_equations(jaxpr_on_words, words, budget)
    # An array that is returned twice, or that came in, must not be the same object: one of the two may be donated.
    seen = {id(x) for x in args}
    results: list[ConcreteArray] = []
    for y, aval in zip(outs, jaxpr.out_avals, strict=True):
        y = sharing(y) if id(y) in seen else y
        seen.add(id(y))
        results.append(retyped(y, aval))
    return results


def _as_words(x: Any) -> Any:
    return retyped(x, x.aval.physical) if isinstance(x, ConcreteArray) else as_concrete(x)


def retyped(x: ConcreteArray, aval: ShapedArray) -> ConcreteArray:
    """The array with another type for the same contents: weak or not, words or keys."""
    if x.aval is aval:
        return x
    y = ConcreteArray(aval, x._value, x._buffer, x.committed)  # pyright: ignore[reportPrivateUsage]
    if x._buffer is not None:  # pyright: ignore[reportPrivateUsage]
        join_sharers(x, y)
    return y


@follows_equations()
def _run_equations(jaxpr: Jaxpr, args: Sequence[Any], budget: Budget) -> list[Any]:
    known = _known(jaxpr)
    budget.spend(known.cost.own)
    plans, literal = known.plans, known.literal
    env: dict[Var, ConcreteArray] = {v: _typed(x, v.aval) for v, x in zip(known.invars, args, strict=True)}
    for k, eqn in enumerate(known.eqns):
        operands = tuple([env[x] if type(x) is Var else literal(x) for x in eqn.invars])
        plan = plans[k]
        if plan is not None:
            out = plan(operands)
        elif eqn.primitive.run_jaxprs is not None and eqn.jaxprs:
            out = _run_jaxprs(eqn, operands, budget)
        elif eqn.primitive.evaluate is not None:
            out = eqn.primitive.bind(*operands, **eqn.params)
        else:
            now, plans[k] = plan_of(eqn.primitive, tuple([x.aval for x in operands]), eqn.params)
            out = now(operands)
        if eqn.primitive.multiple_results:
            for v, y in zip(eqn.outvars, out, strict=True):
                env[v] = _typed(y, v.aval)
        else:
            v = eqn.outvars[0]
            env[v] = out if type(out) is ConcreteArray and out.aval is v.aval else _typed(out, v.aval)
        if known.done_with is not None:
            for v in known.done_with[k]:
                del env[v]
    return [env[x] if type(x) is Var else literal(x) for x in known.outvars]


def _typed(x: Any, aval: ShapedArray) -> ConcreteArray:
    return x if type(x) is ConcreteArray and x.aval is aval else retyped(as_concrete(x), aval)


def _run_jaxprs(eqn: Eqn, operands: Sequence[Any], budget: Budget) -> list[Any]:
    def run(jaxpr: Jaxpr, args: Sequence[Any], place: str) -> list[Any]:
        return _run_equations(jaxpr, args, budget)

    outs = require(eqn.primitive, "run_jaxprs")(run, *operands, **eqn.params)
    check_list(eqn.primitive, "run_jaxprs", outs, len(eqn.outvars))
    return outs
