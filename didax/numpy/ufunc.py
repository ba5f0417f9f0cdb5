"""`ufunc`: a NumPy function that works element by element, and the operators that are made from it.

A ufunc promotes and broadcasts its operands, and passes them to the implementation for the kind of their
dtype:

    add = ufunc("add", 2, "x + y; booleans are or-ed.", iufc=lax.add.bind, b=lax.or_.bind)

The conversions and the implementation follow from the types of the operands, so each ufunc decides once per
combination of types (its "plan") and remembers it: an eager `x + x` costs one dictionary lookup beyond the
primitive. Read next: `ufuncs.py` (the table), `array_methods.py` (which gives arrays their operators),
`ufunc_methods.py` (`reduce`, `accumulate`, `at`, `outer`).
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from didax.api.large_functions import run_as_program
from didax.api.whole_functions import evaluated_whole
from didax.core import config, dtypes
from didax.core.avals import aval_of
from didax.core.declarations import no_numbers
from didax.core.dims import broadcast_lengths, is_symbolic
from didax.core.errors import ArgumentError, api_boundary, message, strip_internal_frames
from didax.core.primitive import Primitive
from didax.core.value import Array
from didax.numpy.promotion import (
    Step,
    as_operand,
    cast,
    check_ranks,
    dtype_steps,
    inexact,
    lifted,
    not_an_array,
    result_pair,
    shape_steps,
)
from didax.primitives.elementwise import ne
from didax.runtime.array import sharing
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS
from didax.transforms.cache import on_clear

Plan = Callable[..., Any]
_PLANS_MAX = 2_000  # per ufunc
_BOOL = np.dtype(np.bool_)
_KINDS = {"b": "booleans", "i": "integers", "u": "integers", "f": "real numbers", "c": "complex numbers"}


def _signature(nin: int, names: Sequence[str]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if names else inspect.Parameter.POSITIONAL_ONLY
    shown = names or (["x"] if nin == 1 else [f"x{i + 1}" for i in range(nin)])
    return inspect.Signature([inspect.Parameter(name, kind) for name in shown])


def _public(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _new(cls: Any) -> Any:
    return object.__new__(cls)


class ufunc:
    """An elementwise function of `nin` operands; keywords map kinds of dtypes to implementations.

    `operands` says how the operands are promoted: to their common dtype ("common"), to their common inexact
    dtype ("inexact"), or each to its truth value ("truth"). `names` are those by which a call may give operands.

    >>> import didax.numpy as dnp
    >>> x = dnp.array([[1, 2], [3, 4]])
    >>> isinstance(dnp.add, dnp.ufunc), dnp.add.nin
    (True, 2)
    >>> dnp.maximum.reduce(x, axis=1)
    Array([2, 4], dtype=int32)
    >>> dnp.multiply.accumulate(x, axis=0)
    Array([[1, 2],
           [3, 8]], dtype=int32)
    >>> dnp.subtract.outer(dnp.array([1, 2]), dnp.array([0, 1, 2])).shape
    (2, 3)
    """

    nout = 1
    identity: Any = None  # the value of reductions of no elements, if any

    GIVEN_BY = "didax.numpy.ufunc_methods"
    if TYPE_CHECKING:
        reduce: Callable[..., Array]
        accumulate: Callable[..., Array]
        reduceat: Callable[..., Array]
        at: Callable[..., Array]
        outer: Callable[..., Array]

    @api_boundary
    def __init__(
        self,
        name: str,
        nin: int,
        doc: str,
        *,
        operands: str = "common",
        names: str = "",
        **implementations: Plan,
    ):
        self.__name__ = self.__qualname__ = name
        self.__module__ = "didax.numpy"
        self.__doc__ = doc
        self.nin = nin
        self.operands = operands
        whole = {kinds: _evaluated_whole(f) for kinds, f in implementations.items()}
        self.implementations = {kind: f for kinds, f in whole.items() for kind in kinds}
        self.plans: dict[Any, Plan] = {}
        on_clear(self.plans.clear)
        self.names = names.split()
        self.__signature__ = _signature(nin, self.names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to arrays and scalars, elementwise with broadcasting; `out` and `where` must be None."""
        try:
            if kwargs:
                args = self._bound(args, kwargs)
            if len(args) != self.nin:
                raise self._wrong_count(args)
            out = self.plan(args)(*args)
            return out if out is not args[0] else sharing(out)
        except Exception as error:
            strip_internal_frames(error, self, args, kwargs)
            raise

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return all operands, of which the last ones may be given by name; an error for other keywords."""
        asked = {name: x for name, x in kwargs.items() if name not in ("out", "where") or x is not None}
        for name in self.names[len(args) :]:
            if name in asked:
                args = (*args, asked.pop(name))
        if asked:
            facts = ", ".join([f"{name}={x!r:.100}" for name, x in asked.items()])
            fix = "Pass operands by position; use the result in place of out, and didax.numpy.where in that of where."
            taken = ", ".join([*self.names, "out=None"])
            known = asked.keys() <= {"out", "where"}  # keywords of NumPy's that immutable arrays cannot serve
            raise (NotImplementedError if known else TypeError)(
                message(f"{self.__name__} takes no keywords but {taken} and where=None.", facts, fix=fix)
            )
        return args

    def __reduce__(self) -> Any:
        """Pickle the function by its name, as Python functions are, where a module of the library has it."""
        for module in ("didax.numpy", "didax.scipy.special"):
            if getattr(sys.modules.get(module), self.__name__, None) is self:
                return _public, (module, self.__name__)
        return _new, (type(self),), vars(self)

    @property
    def nargs(self) -> int:
        """The number of operands, under JAX's name for it."""
        return self.nin

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def plan(self, args: Sequence[Any]) -> Plan:
        """Return the plan for arguments of these types; TypeError if the function takes no such types."""
        key = (config.state(), *[x.aval if isinstance(x, Array) else type(x) for x in args])
        found = self.plans.get(key)
        if found is None:
            found = self._make_plan(args)
            if len(self.plans) > _PLANS_MAX:
                self.plans.clear()
            self.plans[key] = found
        return found

    def _make_plan(self, args: Sequence[Any]) -> Plan:
        operands = [as_operand(x) for x in args]
        for i, (given, operand) in enumerate(zip(args, operands, strict=True)):
            if operand is None:
                raise not_an_array(self.__name__, given, i)
        if any([given is not operand for given, operand in zip(args, operands, strict=True)]):
            return self._call_converted
        apply, steps = self._steps(operands)
        plan = _with_steps(apply, steps)
        # Large operands that are converted or stretched are not written to memory.
        converted = [x for x, step in zip(operands, steps, strict=True) if step and aval_of(x).shape]
        return run_as_program(plan) if converted and _are_large_together(operands) else plan

    def _call_converted(self, *args: Any) -> Any:
        operands = [as_operand(x) for x in args]
        return self.plan(operands)(*operands)

    def _steps(self, operands: Sequence[Any]) -> tuple[Plan, list[Step | None]]:
        error = no_numbers(self.__name__, [aval_of(x) for x in operands])
        if error is not None and "x" not in self.implementations:
            raise error
        shapes = shape_steps(self.__name__, operands)
        check_ranks(self.__name__, operands)
        if self.operands == "truth":
            dtype, weak = _BOOL, False
            casts: list[Step | None] = [None if aval_of(x).dtype == _BOOL else truth for x in operands]
        else:
            dtype, weak = result_pair(*operands)
            if self.operands == "inexact":
                dtype, weak = inexact(dtype, weak)
            casts = dtype_steps(operands, dtype, weak)
        apply = self.implementations.get(dtypes.kind_of(dtype))
        if apply is None:
            raise self._wrong_kind(operands)
        return _on_operands(apply, weak), [
            _composed(cast, shape) for cast, shape in zip(casts, shapes, strict=True)
        ]

    def _wrong_kind(self, operands: Sequence[Any]) -> ArgumentError:
        kinds = list(dict.fromkeys([_KINDS[kind] for kind in self.implementations if kind in _KINDS]))
        shown = ", ".join([str(aval_of(x)) for x in operands])
        fix = "Cast first (x.astype), or use a function meant for this dtype."
        if {aval_of(x).dtype for x in operands} == {_BOOL}:
            fix = "Use logical functions (&, |, ^, ~) on booleans, or cast first (x.astype('int32'))."
        return ArgumentError(
            message(f"{self.__name__} takes {' and '.join(kinds)}.", f"operands: {shown}", fix=fix)
        )

    def _wrong_count(self, args: Sequence[Any]) -> TypeError:
        plural = "s" if self.nin > 1 else ""
        fix = f"Pass {self.nin} array{plural} by position."
        return TypeError(
            message(f"{self.__name__} takes {self.nin} operand{plural}.", f"got: {len(args)}", fix=fix)
        )


def _are_large_together(operands: Sequence[Any]) -> bool:
    """Whether the shape to which operands are stretched is that of a large array."""
    size = math.prod(broadcast_lengths([aval_of(x).shape for x in operands]) or ())
    return not is_symbolic(size) and size > NUMPY_MAX_ELEMENTS


def _evaluated_whole(implementation: Any) -> Any:
    if isinstance(implementation, Primitive) or implementation is identity:
        return implementation
    return evaluated_whole(implementation)


def _on_operands(implementation: Any, weak: bool) -> Plan:
    """Return the implementation as a plan: a primitive takes operands as they are, a Python function takes arrays.

    The result of a Python function is cast to the weak or strong type that the plan promises.
    """
    if isinstance(implementation, Primitive):
        return implementation.bind

    def apply(*operands: Any) -> Array:
        out = implementation(*[lifted(x) for x in operands])
        return cast(out, out.dtype) if out.weak_type and not weak else out

    return apply


def truth(x: Any) -> Any:
    """Whether each element is nonzero."""
    if not isinstance(x, Array | np.generic):
        return bool(x)
    return x if x.dtype == _BOOL else ne(x, 0)


def _composed(first: Step | None, second: Step | None) -> Step | None:
    if first is None or second is None:
        return first or second
    return lambda x: second(first(x))


def _with_steps(apply: Plan, steps: Sequence[Step | None]) -> Plan:
    if not any(steps):
        return apply
    if len(steps) == 2:
        first, second = [step or identity for step in steps]
        return lambda x, y: apply(first(x), second(y))
    return lambda *args: apply(*[x if step is None else step(x) for x, step in zip(args, steps, strict=True)])


def identity(x: Any) -> Any:
    """The operand itself."""
    return x


_CONTAINERS = (list, tuple, set, dict)


def to_other(x: Array, other: Any, name: str = "") -> bool:
    """Whether an operator of `x` leaves to the other value, which is no operand, what is computed.

    Not to Python's containers, which would compare as unequal: the function refuses them. But `[0] * n` repeats a list.
    """
    repeats = name in ("__mul__", "__rmul__") and not x.ndim and dtypes.is_integer(x.dtype)
    return type(other) not in _CONTAINERS or (repeats and type(other) in (list, tuple))


def binary_operator(function: ufunc, name: str) -> Callable[[Any, Any], Any]:
    """Make the array method `name` (`__add__`): it returns `function(self, other)`.

    NotImplemented where `other` is no operand and may know what to do.
    """
    plans, state, plan = function.plans, config.state, function.plan

    def operator(self: Any, other: Any) -> Any:
        try:
            found = plans.get((state(), self.aval, other.aval if isinstance(other, Array) else type(other)))
            if found is None:
                if as_operand(other) is None and to_other(self, other, name):
                    return NotImplemented
                found = plan((self, other))
            return found(self, other)
        except Exception as error:
            strip_internal_frames(error)
            raise

    return _named(operator, name, function)


def reflected_operator(function: ufunc, name: str) -> Callable[[Any, Any], Any]:
    """Make the array method `name` (`__radd__`): it returns `function(other, self)`.

    NotImplemented where `other` is no operand and may know what to do.
    """

    def operator(self: Any, other: Any) -> Any:
        try:
            if as_operand(other) is None and to_other(self, other, name):
                return NotImplemented
            return function.plan((other, self))(other, self)
        except Exception as error:
            strip_internal_frames(error)
            raise

    return _named(operator, name, function)


def unary_operator(function: ufunc, name: str) -> Callable[[Any], Any]:
    """Make the array method `name` (`__neg__`): it returns `function(self)`."""

    def operator(self: Any) -> Any:
        try:
            out = function.plan((self,))(self)
            return out if out is not self else sharing(out)
        except Exception as error:
            strip_internal_frames(error)
            raise

    return _named(operator, name, function)


def _named(operator: Any, name: str, function: ufunc) -> Any:
    operator.__name__, operator.__qualname__ = name, f"Array.{name}"
    operator.__doc__ = function.__doc__
    return operator
