"""Composed functions of small arrays, evaluated as a whole.

    nn.softmax(x)        # the first three calls for a kind of arguments: ten operations, one after the other
    nn.softmax(x)        # from then on: the NumPy rules of the ten, on bare NumPy values

An eager operation takes a microsecond or two more than NumPy takes: arguments are checked, the current trace and the
plan are looked up, an array is made of the result. `evaluated_whole` lets a library function pay that once. What a call
comes down to is staged, and the NumPy rules of its operations are remembered by the types of the arrays and the values
of the other arguments, except numbers that the operations take as they are. The same rules run on the same values in
the same order, so the results are those of single operations bit by bit, which the third call verifies. Calls under a
transformation, with arguments that are neither arrays nor plain values, and calls whose operations someone watches are
evaluated as they are written; those with large arrays are programs (`large_functions.py`).

A function that looks at the values of its arrays, in order to choose or to refuse, is not decorated: a remembered call
does not look. Read next: `number_arguments.py`, numbers that change from call to call; `numpy_functions.py`, what NumPy
computes in one go; `runtime/numpy_plans.py`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from didax.api.kinds_of_calls import arrays_in, called_with, kind_of_call, narrow_alike, traced
from didax.api.large_functions import (
    are_large,
    are_large_together,
    called_as_program,
    called_in_transformation,
    kinds,
    numbers_of,
    take_as_written,
)
from didax.api.numpy_functions import (
    Declined,
    evaluated_jaxpr,
    have_equal_bits,
    numpy_function_p,
    staged_quietly,
    staged_whole,
    value_of,
)
from didax.core import config, pytree
from didax.core import sharding as shardings
from didax.core.avals import ShapedArray
from didax.core.errors import strip_internal_frames
from didax.core.jaxpr import Eqn, Jaxpr, Literal
from didax.core.primitive import application_key, current_trace_var, eager_trace
from didax.passes.physical import is_physical
from didax.primitives.call import jit_p
from didax.primitives.control_flow.common import LoopPrimitive
from didax.primitives.numpy_rules import count_nonzero, of_constants
from didax.primitives.select import select_n_p
from didax.primitives.shape import broadcast_in_dim_p
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS, on_cpu, run_quietly
from didax.transforms.cache import on_clear
from didax.xla.signals import fragile

P = ParamSpec("P")
R = TypeVar("R")

_KINDS_MAX = 4096  # of calls of all functions; one takes some 20 kB
_FIRST_CALLS = 3  # of one kind: staging takes as long as some twenty calls
_NUMBERS_MAX = 4  # among the arguments of a call, for which it is tried one by one whether they are arguments
_CONSTANT_MAX = 1024  # elements of a result that is the same for all calls of a kind
_AS_WRITTEN = object()  # what is remembered of calls that stay as they are written
_LARGE = object()  # what is remembered of calls with a large result
_RESULTS = re.compile(r"y\d+_\d+")
_get_current = current_trace_var.get
_remembered: dict[Any, Any] = {}  # by kind of call: how many there were, then what they are
on_clear(_remembered.clear)


def evaluated_whole(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate a library function that computes arrays of arrays, and never looks at their values."""

    @functools.wraps(f)
    def evaluate(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if (shardings.in_use and config.state().mesh is not None) or (
                config.operations_were_watched and config.watches_operations()
            ):
                return f(*args, **kwargs)
            if _get_current() is not eager_trace:
                return called_in_transformation(f, args, kwargs)
            if (kind := kind_of_call(args, kwargs)) is None:
                return called_as_program(f, args, kwargs, True)
            of_any, values, numbers = kind
            key = of_any = f, of_any
            if numbers:
                key = *of_any, *numbers
            whole = _remembered.get(key, 0)
            of_others, moving = of_any, None
            if numbers and type(whole) is not _Whole:
                general = _remembered.get(of_any)
                if type(general) is _Moving:
                    moving = general
                    of_others = _of_others(of_any, numbers, moving)
                    general = _remembered.get(of_others)
                if type(general) is _Whole:
                    whole = general
                    values += numbers if moving is None else [numbers[i] for i in moving]
                elif general is _LARGE:
                    whole = general
            if type(whole) is _Whole:
                try:
                    return whole.run(values)
                except Declined:
                    return f(*args, **kwargs)
            if whole is _LARGE:
                return called_as_program(f, args, kwargs)
            if whole == 0 and are_large_together(of_any, f, args, kwargs, values):
                result = called_as_program(f, args, kwargs)
                if _is_program(key, of_any, numbers):
                    return result
                take_as_written(of_any)
            else:
                result = f(*args, **kwargs)
                if whole == 0 and are_large(pytree.leaves(result)):
                    _remembered[key] = _LARGE
                    result = called_as_program(f, args, kwargs)
                    _is_program(key, of_any, numbers)
                    return result
            if numbers and whole == 0:  # the program that has the number is faster, if it comes again
                _count(f, of_others, args, kwargs, values, numbers, moving, result)
            _count(f, key, args, kwargs, values, (), _Moving(), result)
            return result
        except Exception as error:
            strip_internal_frames(error, f, args, kwargs)
            raise

    return evaluate


def _count(
    f: Any,
    key: Any,
    args: Any,
    kwargs: Any,
    values: list[Any],
    numbers: Sequence[float],
    moving: _Moving | None,
    result: Any,
) -> None:
    """Count a call of a kind, and from the third one on remember what such calls come down to, with other numbers.

    `moving` has the positions of the numbers that may be others; it is None where they are still to be found.
    """
    whole = _remembered.get(key, 0)
    if type(whole) is not int:  # as it is written, or another thread was here
        return
    if len(_remembered) >= _KINDS_MAX:
        _forget()
    _remembered[key] = whole + 1
    if whole + 1 < _FIRST_CALLS:
        return
    every = tuple(range(len(numbers)))
    found = _whole_of(f, args, kwargs, values, numbers, every if moving is None else moving, result)
    if found is None and moving is None and 1 < len(every) <= _NUMBERS_MAX:
        moving = _Moving()
        for i in every:
            also = _whole_of(f, args, kwargs, values, numbers, (*moving, i), result)
            if also is not None:
                moving, found = _Moving((*moving, i)), also
        if moving:
            _remembered[key] = moving
            key = _of_others(key, numbers, moving)
    _remembered[key] = found or _AS_WRITTEN


def _is_program(key: Any, of_any: Any, numbers: Sequence[float]) -> bool:
    """Whether a call has been one program. It is remembered as such, with other numbers where they may be others."""
    known = kinds.get(of_any)
    if known is None or not known.has_program(numbers):
        return False
    _remembered[key] = _LARGE
    if len(known.moving) == len(numbers):
        _remembered[of_any] = _LARGE
    return True


def _of_others(of_any: tuple[Any, ...], numbers: Sequence[float], moving: _Moving) -> tuple[Any, ...]:
    """The key of calls in which the numbers in these positions may be others."""
    return of_any, *[x for i, x in enumerate(numbers) if i not in moving]


def _forget() -> None:
    """Forget kinds that did not come again, such as numbers that are others in each call; all if those are few."""
    for key, whole in list(_remembered.items()):
        if type(whole) is int:
            _remembered.pop(key, None)
    if len(_remembered) > _KINDS_MAX // 2:
        _remembered.clear()


class _Moving(tuple[int, ...]):
    """Which of the numbers of a call may be others, where some may not."""


class _Whole(NamedTuple):
    """What calls of one kind come down to: a function of the values of the arrays, and the type of its result."""

    compute: Callable[..., list[Any]]
    avals: list[ShapedArray]
    tree: Any  # None: the result is one array
    runs_programs: bool  # whether some of the operations are compiled programs

    def run(self, values: list[Any]) -> Any:
        """The result of a call."""
        if self.runs_programs:  # which see the options of this context
            with np.errstate(all="ignore"):
                found = self.compute(*values)
        else:
            found = run_quietly(self.compute, values, {})
        if self.tree is None:
            return ConcreteArray(self.avals[0], found[0])
        return pytree.unflatten(self.tree, list(map(ConcreteArray, self.avals, found)))


def _whole_of(
    f: Any,
    args: Any,
    kwargs: dict[str, Any],
    values: list[Any],
    numbers: Sequence[float],
    moving: tuple[int, ...],
    result: Any,
) -> _Whole | None:
    """What a call like this one, with this result, comes down to; None where it is evaluated as it is written.

    The values are those of the arrays; the numbers in the positions `moving`, if any, are arguments, too.
    """
    numbers = [numbers[i] for i in moving]
    leaves, tree = pytree.flatten(result)
    if not on_cpu() or not all([type(y) is ConcreteArray for y in leaves]):
        return None
    given = (*args, *kwargs.values())
    arrays = arrays_in(given)
    if not narrow_alike(given, arrays, leaves):
        return None
    result_tree = None if type(result) is ConcreteArray else tree
    if not arrays and not numbers:
        return _constant(leaves, result_tree)

    def staged(*tracers: Any) -> list[Any]:
        staged_whole.set(_get_current())
        return pytree.leaves(
            called_with(f, args, kwargs, tracers[: len(arrays)], moving, tracers[len(arrays) :])
        )

    whole = staged_quietly(lambda: _staged(staged, arrays, numbers, result_tree))
    if whole is None:
        return None
    try:
        again = pytree.leaves(whole.run([*values, *numbers]))
    except Declined:
        return None
    return whole if all(map(_are_equal, again, leaves)) else None


@fragile
def _staged(function: Any, arrays: Sequence[Any], numbers: Sequence[float], tree: Any) -> _Whole | None:
    try:
        jaxpr, captured = traced(function, arrays)
        if not numbers:
            return _of_jaxpr(jaxpr, captured, tree)
        from didax.api.number_arguments import places  # on first need

        found = places(jaxpr, captured, *traced(function, [*arrays, *numbers]), numbers)
        return None if found is None else _of_jaxpr(jaxpr, captured, tree, found, len(numbers))
    except Exception:  # the values of arrays, or of numbers, decide what is computed
        return None


def by_numpy(
    function: Callable[..., list[Any]], avals: Sequence[ShapedArray]
) -> Callable[..., list[Any]] | None:
    """A function of NumPy values of these types, by the NumPy rules of its operations; None where one has none."""
    jaxpr, captured = traced(function, avals)
    whole = _of_jaxpr(jaxpr, captured, None)
    return None if whole is None or whole.runs_programs else whole.compute


def _constant(leaves: list[ConcreteArray], tree: Any) -> _Whole | None:
    """What calls without arrays come down to: copies of small results, since results may be donated."""
    avals = [y.aval for y in leaves]
    if sum(a.size for a in avals) > _CONSTANT_MAX or not is_physical(tuple(avals)):
        return None
    kept = [y.host_value().copy() for y in leaves]
    return _Whole(lambda: [y.copy() for y in kept], avals, tree, False)


def _of_jaxpr(
    jaxpr: Jaxpr, captured: Sequence[Any], tree: Any, places: dict[int, int] | None = None, numbers: int = 0
) -> _Whole | None:
    """The operations of a jaxpr as a Python function; None where one of them is not NumPy's, or none gives a result.

    An operation of constants is evaluated here, and what occurs twice is computed once. The function takes so many
    numbers after the arrays, which stand in these places: by id of a literal, which number it is.
    """
    arguments = jaxpr.invars[len(captured) :]
    source = _Source(len(arguments), places or {})
    names: dict[Any, str] = {x: f"x{i}" for i, x in enumerate(arguments)}
    names |= {
        x: source.literal(as_concrete(y).host_value()) for x, y in zip(jaxpr.invars, captured, strict=False)
    }
    if not _write(source, jaxpr, names):
        return None
    outs: list[str] = []
    for x in jaxpr.outvars:
        name = names.get(x)
        if name is None or (name.startswith("c") and x.aval.size > _CONSTANT_MAX):
            return None
        outs.append(source.of_its_own(name, outs))
    compute = source.function(len(arguments) + numbers, outs)
    return _Whole(compute, list(jaxpr.out_avals), tree, source.runs_programs)


def _write(source: _Source, jaxpr: Jaxpr, names: dict[Any, str]) -> bool:
    """Write the operations of a jaxpr, whose inputs have names; False where one of them is to be called as written."""
    for eqn in jaxpr.eqns:
        names |= {x: source.written(x) for x in eqn.invars if type(x) is Literal}
        operands = [names[x] for x in eqn.invars]
        inner = evaluated_jaxpr(eqn)
        if inner is not None:  # its operations are evaluated one by one, without a program
            inner_names = dict(zip(inner.invars, operands, strict=True))
            if not _write(source, inner, inner_names):
                return False
            inner_names |= {x: source.written(x) for x in inner.outvars if type(x) is Literal}
            results = [inner_names[x] for x in inner.outvars]
        else:
            rule = _numpy_rule(eqn)
            if rule is None:
                rule = _program_rule(eqn)
                source.runs_programs = True
            if rule is None:
                return False
            results = source.call(rule, operands, eqn)
        names |= zip(eqn.outvars, results, strict=True)
    return True


class _Source:
    """The text of a function, line by line: `y7 = r7(x0, c1, axes=c2)`.

    A line takes a third of the time of a loop that looks up the rule, its operands and its parameters.
    """

    def __init__(self, arrays: int, places: dict[int, int]):
        self.arrays = arrays
        self.places = places  # by id of a literal: which number of the call it is
        self.scope: dict[str, Any] = {}  # what the function refers to, by name
        self.lines: list[str] = []
        self.known: dict[Any, list[str]] = {}  # the results of operations, by rule, operands and parameters
        self.narrow: dict[str, str] = {}  # the operands of broadcasts, with axes of length 1, by results
        # By result: the condition, its size if it has axes, and the cases of False and True.
        self.choices: dict[str, tuple[str, str, str, str]] = {}
        self.rules: dict[str, Any] = {}  # by result: what computes it
        self.runs_programs = False

    def given(self, value: Any) -> str:
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def written(self, x: Literal) -> str:
        """The name of a literal, or of the number of the call that stands in its place."""
        if (number := self.places.get(id(x))) is None:
            return self.literal(value_of(x))
        key = number, x.aval.dtype
        if key not in self.known:
            made = f"{self.given(x.aval.dtype.type)}(x{self.arrays + number})"
            self.known[key] = [self.line(made)]
        return self.known[key][0]

    def literal(self, value: Any) -> str:
        key = value.dtype, value.shape, value.tobytes()
        if key not in self.known:
            # NumPy takes an array faster than a scalar of its own.
            self.known[key] = [self.given(np.asarray(value))]
        return self.known[key][0]

    def at_full_shape(self, name: str, shape: tuple[int, ...]) -> str:
        """The name of a scalar constant as an array of a shape; another name as it is."""
        if not name.startswith("c") or not shape or self.scope[name].ndim:
            return name
        key = name, shape
        if key not in self.known:
            self.known[key] = [self.given(np.full(shape, self.scope[name]))]
        return self.known[key][0]

    def call(self, rule: Callable[..., Any], operands: list[str], eqn: Eqn) -> list[str]:
        """The names of the results of an operation."""
        primitive, avals = eqn.primitive, [x.aval for x in eqn.invars]
        key = (*operands, application_key(primitive, tuple(avals), eqn.params))
        if (results := self.known.get(key)) is not None:
            return results
        constants = [self.scope[name] if name[0] == "c" else None for name in operands]
        if all([x is not None for x in constants]):
            found = run_quietly(rule, constants, eqn.params)
            results = list(map(self.literal, found if primitive.multiple_results else [found]))
        else:
            rule, text = of_constants(rule, constants), None
            given = operands
            if type(rule) is np.ufunc or primitive is select_n_p:
                operands = self.before_broadcast(operands, avals, eqn.outvars[0].aval.shape)
            if primitive.eager_text is not None:
                text = primitive.eager_text(self, operands, avals, **eqn.params)
            if text is None and rule in _OPERATORS and all([_is_number(x) for x in avals]):
                text = _OPERATORS[rule].format(*map(self.as_scalar, operands))
            if text is None:
                params = [f"{name}={self.given(value)}" for name, value in eqn.params.items()]
                text = f"{self.given(rule)}({', '.join([*operands, *params])})"
            results = [f"y{len(self.lines)}_{i}" for i in range(len(eqn.outvars))]
            comma = "," if primitive.multiple_results else ""
            self.lines.append(f"{', '.join(results)}{comma} = {text}")
            self.rules[results[0]] = rule
            if primitive is select_n_p and len(operands) == 3 and avals[0].dtype == np.bool_:
                self.may_choose(results[0], eqn.outvars[0].aval.shape, avals, given, operands)
            if primitive is broadcast_in_dim_p:
                self.narrow[results[0]] = self.narrowed(operands[0], avals[0], **eqn.params)
        self.known[key] = results
        return results

    def as_scalar(self, name: str) -> str:
        """The name of a number; of a constant as one of NumPy's scalars, whose operators are its fastest."""
        return self.given(self.scope[name][()]) if name.startswith("c") else name

    def may_choose(
        self,
        result: str,
        shape: tuple[int, ...],
        avals: Sequence[ShapedArray],
        given: list[str],
        operands: list[str],
    ) -> None:
        """Remember a choice between cases that have the shape of the result. See Note [Cases that are not needed]."""
        cases: list[str] = []
        for name, narrow, aval in zip(given[1:], operands[1:], avals[1:], strict=True):
            if name.startswith("c"):
                cases.append(f"{self.at_full_shape(name, shape)}.copy()")
            elif name == narrow and aval.shape == shape:
                cases.append(name)
        if len(cases) == 2 and 0 not in shape:  # of no elements, a condition holds for all and for none
            if avals[0].shape == ():
                size = ""
            else:
                size = str(avals[0].size) if given[0] == operands[0] else f"{operands[0]}.size"
            self.choices[result] = operands[0], size, cases[0], cases[1]

    def line(self, text: str) -> str:
        """The name of the value of an expression."""
        if text not in self.known:
            self.known[text] = [f"y{len(self.lines)}_0"]
            self.lines.append(f"y{len(self.lines)}_0 = {text}")
        return self.known[text][0]

    def narrowed(
        self, name: str, aval: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
    ) -> str:
        """The name of what NumPy broadcasts by itself to the result of `broadcast_in_dim`."""
        lengths = [1] * len(shape)
        for n, axis in zip(aval.shape, broadcast_dimensions, strict=True):
            lengths[axis] = n
        if tuple(lengths[len(shape) - aval.ndim :]) == aval.shape:
            return name
        return self.line(f"{name}.reshape({lengths})")

    def before_broadcast(
        self, operands: list[str], avals: Sequence[ShapedArray], shape: tuple[int, ...]
    ) -> list[str]:
        """The operands without their broadcasts, where another one gives the result its shape."""
        is_full = [
            name not in self.narrow and x.shape == shape for name, x in zip(operands, avals, strict=True)
        ]
        return [self.narrow.get(name, name) for name in operands] if any(is_full) else operands

    def of_its_own(self, name: str, outs: Sequence[str]) -> str:
        """The name of a result: of a copy for each call of a constant, of an argument and of a result before it."""
        if name.startswith("y") and name not in outs:
            return name
        self.lines.append(f"y{len(self.lines)}_0 = {name}.copy()")
        return self.lines[-1].split(" ", 1)[0]

    def function(self, arguments: int, outs: list[str]) -> Callable[..., list[Any]]:
        """The function that returns the list of these results."""
        head = f"def compute({', '.join([f'x{i}' for i in range(arguments)])}):"
        lines = _Block(self, outs).written((), "    ")
        exec("\n".join([head, *lines, f"    return [{', '.join(outs)}]"]), self.scope)
        return self.scope["compute"]


# Note [Cases that are not needed]
# Many choices are there for rare values: NaN, zeros, ends of a range. Where a condition holds for all elements or for
# none, the other case is not needed, nor is what only this case is computed from. A count of the elements takes a tenth
# of a choice. So the lines that only one case of a choice needs are written into a branch:
#
#     n = count_nonzero(y3)
#     if n != 8: y4 = ...           # the case of False
#     if n: y5 = ...                # the case of True
#     y6 = where(y3, y5, y4) if 0 < n < 8 else y5 if n else y4
#
# The bits are the same, because elements of `where` are those of its cases.

_Path = tuple[tuple[str, bool], ...]  # the cases of choices that a line stands in
_NESTED_MAX = 20
# Conditions that tend to hold for all elements or for none.
_RARE = frozenset({np.equal, np.not_equal, np.invert, np.bitwise_and, np.bitwise_or})


class _Block:
    """The lines that some results need, each in the case of a choice that alone needs it."""

    def __init__(self, source: _Source, outs: Sequence[str]):
        self.source = source
        self.lines: dict[_Path, list[str]] = {}
        paths: dict[str, _Path] = dict.fromkeys(outs, ())
        for line in reversed(source.lines):
            results, text = line.split(" = ", 1)
            names = _RESULTS.findall(results)
            used = [paths[name] for name in names if name in paths]
            if not used:  # a broadcast, or an operation of constants
                continue
            path = functools.reduce(_common, used)
            self.lines.setdefault(path, []).append(line)
            choice = self.choice(names[0], path)
            if choice is None:
                places = [(name, path) for name in _RESULTS.findall(text)]
            else:
                condition, _, off, on = choice
                places = [
                    (condition, path),
                    (off, (*path, (names[0], False))),
                    (on, (*path, (names[0], True))),
                ]
            for name, place in places:
                paths[name] = _common(paths[name], place) if name in paths else place

    def choice(self, result: str, path: _Path) -> tuple[str, str, str, str] | None:
        """The condition and the cases of a choice in this place; None where it is written as any operation."""
        return self.source.choices.get(result) if len(path) < _NESTED_MAX else None

    def written(self, path: _Path, indent: str) -> list[str]:
        """The lines in one case, those of choices in it included."""
        found: list[str] = []
        for line in reversed(self.lines.get(path, [])):
            result, text = line.split(" = ", 1)
            found += [indent + x for x in self.chosen(result, text, path)] or [indent + line]
        return found

    def chosen(self, result: str, text: str, path: _Path) -> list[str]:
        """The lines of a choice that computes only the cases it needs; none where it is written as any operation."""
        if (choice := self.choice(result, path)) is None:
            return []
        condition, size, off, on = choice
        cases = [self.written((*path, (result, case)), "    ") for case in (False, True)]
        n = f"n{result}"
        if not size:  # one number
            lines, tests = [], (f"if not {condition}:", f"if {condition}:")
            last = f"{result} = {on} if {condition} else {off}"
        elif any(cases) or self.source.rules.get(condition) in _RARE:
            lines = [f"{n} = {self.source.given(count_nonzero)}({condition})"]
            tests = f"if {n} != {size}:", f"if {n}:"
            last = f"{result} = {off} if not {n} else {on} if {n} == {size} else {text}"
        else:
            return []
        for test, case in zip(tests, cases, strict=True):
            lines += [test, *case] if case else []
        return [*lines, last]


def _common(x: _Path, y: _Path) -> _Path:
    """The cases in which both lines stand."""
    n = next((i for i, (a, b) in enumerate(zip(x, y, strict=False)) if a != b), min(len(x), len(y)))
    return x[:n]


# Operators of numbers take a fifth of the time of NumPy's functions, and have the same bits; of two NaNs the result may
# be the other one, which only its sign tells.
_OPERATORS: dict[Any, str] = {
    np.add: "{} + {}", np.subtract: "{} - {}", np.multiply: "{} * {}", np.negative: "-{}", np.less: "{} < {}",
    np.less_equal: "{} <= {}", np.greater: "{} > {}", np.greater_equal: "{} >= {}", np.equal: "{} == {}",
    np.not_equal: "{} != {}", np.bitwise_and: "{} & {}", np.bitwise_or: "{} | {}",
    np.divide: "{} / {}", np.invert: "~{}",
}  # fmt: skip
_OF_OPERATORS = frozenset({np.dtype(kind) for kind in (np.bool_, np.int32, np.int64, np.float32, np.float64)})


def _is_number(aval: ShapedArray) -> bool:
    return aval.shape == () and aval.dtype in _OF_OPERATORS


def _numpy_rule(eqn: Eqn) -> Callable[..., Any] | None:
    """The rule by which an eager operation on these types is evaluated, if it is one of NumPy."""
    primitive = eqn.primitive
    avals = tuple([x.aval for x in eqn.invars])
    out_avals = [v.aval for v in eqn.outvars]
    if primitive is numpy_function_p:
        return primitive.eager
    small = numbers_of(eqn) <= NUMPY_MAX_ELEMENTS
    if primitive.evaluate is not None or eqn.effects or not small or not is_physical((*avals, *out_avals)):
        return None
    return primitive.eager_for(avals)


def _program_rule(eqn: Eqn) -> Callable[..., Any] | None:
    """A rule on NumPy values that runs a program: of a loop, of `jit`, or of an operation without a NumPy rule."""
    primitive, avals = eqn.primitive, [x.aval for x in eqn.invars]
    is_program = isinstance(primitive, LoopPrimitive) or primitive is jit_p
    if (primitive.evaluate is not None and not is_program) or eqn.effects:
        return None
    if not is_physical((*avals, *[v.aval for v in eqn.outvars])):
        return None

    def run(*values: Any, **params: Any) -> Any:
        outs = primitive.bind(*map(ConcreteArray, avals, values), **params)
        if primitive.multiple_results:
            return [as_concrete(y).host_value() for y in outs]
        return as_concrete(outs).host_value()

    return run


def _are_equal(x: ConcreteArray, y: ConcreteArray) -> bool:
    """Whether arrays have one type and, bit by bit, one value."""
    return x.aval is y.aval and have_equal_bits(x, y)
