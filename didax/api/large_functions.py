"""Composed functions of large arrays, run as one program.

    dnp.std(x)      # of a million numbers: one program, where ten operations would each read and write the array

An eager operation on a large array is a compiled program. A function of ten such operations writes nine arrays to
memory that nobody sees, and each is compiled by itself. So a call of a function that `whole_functions.py` decorates is
staged and compiled as `jit` does, if it has large arrays or a large result, and this from the first call on. Its
results are those of `jit`. What is said there about watched operations and functions that look at values holds here,
too.

    dx.grad(dnp.std)(x)      # a program of the value and one of the derivative

Under a transformation with nothing staged around it the program is called as a jitted function is, and the rule for
such calls makes programs of the derivative or of the batch.

Python numbers among the arguments are arguments of the program where the function does nothing but give them to
operations (`number_arguments.py`). With other numbers of one kind of call, few programs are compiled: a number that
changes from call to call would be compiled anew each time. Read next: `kinds_of_calls.py`, `runtime/compiled.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from didax.api.kinds_of_calls import (
    TRANSFORMATIONS,
    arrays_in,
    behind,
    called_with,
    kind_of_call,
    narrow_alike,
    traced,
)
from didax.api.numpy_functions import evaluated_jaxpr, numpy_function_p, staged_quietly, staged_whole
from didax.core import config, pytree
from didax.core import sharding as shardings
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.primitive import current_trace_var, eager_trace
from didax.core.tracing import set_current_trace
from didax.primitives.call import jit_p
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.compiled import Program
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS, on_cpu
from didax.runtime.value_checks import with_index_checks
from didax.transforms.cache import on_clear
from didax.xla.signals import fragile

P = ParamSpec("P")
R = TypeVar("R")

_KINDS_MAX = 256  # of calls of all functions, each with its compiled programs
_STATIC_MAX = 4  # programs of a kind whose numbers are not arguments
_NUMBERS_MAX = 4  # for which it is tried one by one whether they are arguments
_EQUATIONS_MAX = 128  # longer ones take long to compile, while single operations are mostly compiled already
_TOGETHER_MAX = 4096  # kinds of calls
kinds: dict[Any, _Kind] = {}
_together: dict[Any, bool] = {}  # by kind: whether its arrays are large together
on_clear(kinds.clear)
on_clear(_together.clear)


def run_as_program(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that computes arrays of arrays, without looking at their values, with a large result."""

    @functools.wraps(f)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if (shardings.in_use and config.state().mesh is not None) or (
            config.operations_were_watched and config.watches_operations()
        ):
            return f(*args, **kwargs)
        if current_trace_var.get() is not eager_trace:
            return called_in_transformation(f, args, kwargs)
        return called_as_program(f, args, kwargs)

    return run


def are_large(leaves: Sequence[Any]) -> bool:
    """Whether one of these arrays is one for XLA."""
    return any([isinstance(x, ConcreteArray | np.ndarray) and x.size > NUMPY_MAX_ELEMENTS for x in leaves])


def are_large_together(of_any: Any, f: Any, args: Any, kwargs: Any, values: Sequence[Any]) -> bool:
    """Whether a call has an operation that eager evaluation compiles, though each of its arrays is one for NumPy.

    An operation reads and writes several arrays, which may be too many numbers for NumPy together. Operations that only
    move numbers do not count: they are views. The first call of a kind tells for calls with other numbers, too.
    """
    if 3 * sum([x.size for x in values]) <= NUMPY_MAX_ELEMENTS or not on_cpu():
        return False
    found = _together.get(of_any)
    if found is None:
        if len(_together) >= _TOGETHER_MAX:
            _together.clear()
        found = _together[of_any] = _largest(f, args, kwargs) > NUMPY_MAX_ELEMENTS
    return found


def _largest(f: Any, args: Any, kwargs: Any) -> int:
    """How many numbers an operation of a call reads and writes, at most."""

    def staged(*tracers: Any) -> list[Any]:
        staged_whole.set(current_trace_var.get())
        return pytree.leaves(called_with(f, args, kwargs, tracers, (), ()))

    @fragile
    def largest() -> int:
        try:
            return max(_sizes(traced(staged, arrays_in((*args, *kwargs.values())))[0]), default=0)
        except Exception:  # the values of arrays decide what is computed
            return 0

    return staged_quietly(largest)


def numbers_of(eqn: Eqn) -> int:
    """How many numbers an operation reads and writes."""
    return sum([x.aval.size for x in (*eqn.invars, *eqn.outvars)])


def _sizes(jaxpr: Jaxpr) -> list[int]:
    found: list[int] = []
    for eqn in jaxpr.eqns:
        inner = evaluated_jaxpr(eqn)
        if inner is not None:
            found += _sizes(inner)
        elif eqn.primitive is not numpy_function_p and not eqn.primitive.moves_elements:
            found.append(numbers_of(eqn))
    return found


def take_as_written(of_any: Any) -> None:
    """From now on calls of a kind are not programs though their arrays are large together."""
    _together[of_any] = False


def called_in_transformation(f: Callable[..., R], args: Any, kwargs: Any) -> R:
    """The result of a call under a transformation.

    If nothing around the transformation is staged, a call with large arrays is a call of one program.
    """
    trace = current_trace_var.get()
    while type(trace) in TRANSFORMATIONS:
        trace = trace.parent
    if trace is not eager_trace or not are_large([behind(x) for x in arrays_in((*args, *kwargs.values()))]):
        return f(*args, **kwargs)
    return called_as_program(f, args, kwargs, False, True)


def called_as_program(
    f: Callable[..., R], args: Any, kwargs: Any, needs_large: bool = False, of_traced: bool = False
) -> R:
    """The result of an eager call, by one program if calls of its kind have one (and if it has large arrays)."""
    kind = None if config.state().disable_jit or not on_cpu() else kind_of_call(args, kwargs, True, of_traced)
    if kind is None:
        return f(*args, **kwargs)
    of_any, arrays, numbers = kind
    if (needs_large and not are_large(arrays)) or not narrow_alike((*args, *kwargs.values()), arrays):
        return f(*args, **kwargs)
    known = kinds.get((f, of_any))
    if known is None:
        while len(kinds) >= _KINDS_MAX:
            kinds.pop(next(iter(kinds)), None)
        known = kinds[f, of_any] = _Kind(f, args, kwargs, numbers)
    program = known.program(f, args, kwargs, numbers)
    if program is None:
        return f(*args, **kwargs)
    operands = [*arrays, *[numbers[i] for i in known.moving]]
    if not of_traced:
        outs = program.program.run(operands)
    elif _equations(program.jaxpr) > 1:  # the programs of one operation are small, and many calls have them
        # A derivative may keep an operand, and the owner of a NumPy array may write to it.
        kept = [as_concrete(x) if type(x) is np.ndarray else x for x in operands]
        outs = jit_p.bind(*program.captured, *kept, jaxpr=program.jaxpr)
    else:
        return f(*args, **kwargs)
    return outs[0] if program.tree is None else pytree.unflatten(program.tree, outs)


class _OneProgram(NamedTuple):
    """What a call comes down to."""

    jaxpr: Jaxpr
    captured: Sequence[Any]  # the values of its first inputs
    program: Program
    tree: Any  # None: the result is one array


class _Kind:
    """The programs of calls that differ in numbers only; `moving` are the positions of those that are arguments."""

    def __init__(self, f: Any, args: Any, kwargs: Any, numbers: Sequence[float]):
        every = tuple(range(len(numbers)))
        self.moving: tuple[int, ...] = ()
        self.programs: dict[Any, _OneProgram | None] = {}
        found = _staged_quietly(f, args, kwargs, numbers, every)
        if found is not None or not numbers:
            self.moving = every
        elif 1 < len(every) <= _NUMBERS_MAX:
            for i in every:
                moving = (*self.moving, i)
                if (also := _staged_quietly(f, args, kwargs, numbers, moving)) is not None:
                    self.moving, found = moving, also
        if found is not None:
            self.programs[self.static(numbers)] = found
        elif not numbers:
            self.programs[()] = None

    def static(self, numbers: Sequence[float]) -> tuple[float, ...]:
        return tuple([x for i, x in enumerate(numbers) if i not in self.moving])

    def has_program(self, numbers: Sequence[float]) -> bool:
        """Whether calls with these numbers have been one program."""
        return self.programs.get(self.static(numbers)) is not None

    def program(self, f: Any, args: Any, kwargs: Any, numbers: Sequence[float]) -> _OneProgram | None:
        """The program of a call; None where it is evaluated as it is written."""
        static = self.static(numbers)
        if static not in self.programs:
            if len(self.programs) >= _STATIC_MAX:
                return None
            self.programs[static] = _staged_quietly(f, args, kwargs, numbers, self.moving)
        return self.programs[static]


def _staged_quietly(
    f: Any, args: Any, kwargs: Any, numbers: Sequence[float], moving: tuple[int, ...]
) -> _OneProgram | None:
    with set_current_trace(eager_trace):
        return staged_quietly(lambda: _staged(f, args, kwargs, [numbers[i] for i in moving], moving))


@fragile
def _staged(
    f: Any, args: Any, kwargs: Any, numbers: Sequence[float], moving: tuple[int, ...]
) -> _OneProgram | None:
    """The program of a call in which these numbers are arguments; None where they may not be, or where it has none."""
    arrays = arrays_in((*args, *kwargs.values()))
    trees: list[Any] = []

    def staged(*tracers: Any) -> list[Any]:
        result = called_with(f, args, kwargs, tracers[: len(arrays)], moving, tracers[len(arrays) :])
        leaves, tree = pytree.flatten(result)
        trees.append(tree if len(leaves) != 1 or leaves[0] is not result else None)
        return leaves

    try:
        jaxpr, captured = traced(staged, arrays)
        if numbers:
            from didax.api.number_arguments import places  # on first need

            general, also = traced(staged, [*arrays, *numbers])
            is_narrow = any([a.dtype.itemsize < 4 and a.dtype.kind != "b" for a in general.in_avals])
            if is_narrow or places(jaxpr, captured, general, also, numbers) is None:
                return None  # a narrow number would be rounded twice
            if any([x is not y for x, y in zip(jaxpr.out_avals, general.out_avals, strict=True)]):
                return None
            jaxpr, captured = general, also
    except Exception:  # the values of arrays, or of numbers, decide what is computed
        return None
    if jaxpr.effects or not 0 < _equations(jaxpr) <= _EQUATIONS_MAX:
        return None
    if not set(jaxpr.outvars).isdisjoint(jaxpr.invars):
        return None  # an argument that is returned need not be copied
    return _OneProgram(jaxpr, captured, Program(with_index_checks(jaxpr), captured), trees[0])


def _equations(jaxpr: Jaxpr) -> int:
    return len(jaxpr.eqns) + sum([_equations(inner) for eqn in jaxpr.eqns for inner in eqn.jaxprs])
