"""Running a Python function after the traces of the values that it closed over have ended.

A user's derivative rule is a Python function. It runs when its transformation needs it: possibly after the
function that it was written in has returned, when the tracers that it closed over are out of date. A `ClosureTrace`
hands every operation on to its parent, and replaces each such tracer by the value that it has in this run. A tracer
without a replacement belongs to a differentiation that knows nothing of the function's rules. Its derivative would be
lost, so it is refused.
Read next: `didax/primitives/custom/rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np

from didax.core.avals import aval_of
from didax.core.errors import UnexpectedTracerError, message
from didax.core.primitive import Primitive, Trace, eager_trace
from didax.core.rule_types import check_kind
from didax.core.tracing import Tracer, current_trace, leaked, set_current_trace
from didax.core.value import Array
from didax.transforms.jet import JetTracer
from didax.transforms.jvp import JVPTracer
from didax.transforms.linearize import LinearizeTracer

Replace = Callable[[Any], Any]  # from a tracer to the value to use now; None: there is none


class ClosureTrace(Trace):
    """Replaces the values that a function closed over: tracers by `replace`, and arrays by `constant`, if given."""

    __slots__ = ("_constants", "constant", "replace")
    transformation = "a function with rules of its own"

    def __init__(
        self, parent: Trace, function: Any, replace: Replace | None = None, constant: Replace | None = None
    ):
        super().__init__(parent, function)
        self.replace = replace
        self.constant = constant
        self._constants: dict[int, tuple[Any, Any]] = {}  # id of an array -> the array, its replacement

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if primitive.replace_captured is not None and not (self.replace is self.constant is None):
            found = primitive.replace_captured(self, **params)
            params = check_kind(primitive, "replace_captured", found, dict, "a dict of parameters")
        return self.parent.process(primitive, tuple([self.current(x) for x in args]), params)

    def current(self, x: Any) -> Any:
        """The value that stands for `x` in this run."""
        if isinstance(x, Tracer):
            if self.replace is not None and (new := self.replace(x)) is not None:
                return new
            self._check_in_scope(x)
            return x
        if self.constant is None or not _is_array(x):
            return x
        if id(x) not in self._constants:
            with set_current_trace(self.parent):
                self._constants[id(x)] = x, self.constant(x)
        return self._constants[id(x)][1]

    def replacement(self, tracer: Array) -> Any | None:
        new = self.replace(tracer) if self.replace is not None else None
        return super().replacement(tracer) if new is None else new

    def _check_in_scope(self, x: Tracer) -> None:
        trace: Trace = self.parent
        while trace is not x.owner:
            if trace is eager_trace:
                raise closed_over(self.function, x) if is_differentiated(x) else leaked(x)
            if type(trace) is ClosureTrace and trace.replace is not None and trace.replace(x) is not None:
                return
            trace = trace.parent


def run_closure(
    name: str,
    f: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    replace: Replace | None = None,
    constant: Replace | None = None,
) -> list[Any]:
    """`f(*args)` under the current trace, with the values that `f` closed over replaced; errors call `f` by `name`."""
    parent = current_trace()
    if parent is not eager_trace or not (replace is constant is None):
        trace = ClosureTrace(parent, name, replace, constant)
        with set_current_trace(trace):
            return [trace.current(y) for y in f(*args)]
    try:
        return list(f(*args))
    except UnexpectedTracerError as error:
        if is_differentiated(error.tracer):
            raise closed_over(name, error.tracer) from None
        raise


def is_differentiated(x: Any) -> TypeGuard[Tracer]:
    """True for a tracer that carries derivatives."""
    return isinstance(x, JVPTracer | LinearizeTracer | JetTracer)


def _is_array(x: Any) -> bool:
    """True for an array, which a program takes as an input; scalars are written into the program."""
    return isinstance(x, Array | np.ndarray) and aval_of(x).physical.ndim > 0


def closed_over(name: str, x: Tracer) -> UnexpectedTracerError:
    """The error for a value whose derivative would be lost."""
    error = UnexpectedTracerError(
        message(
            "A function with derivative rules of its own closed over a value that is being differentiated: its rules "
            "give derivatives with respect to its arguments only.",
            f"function: {name}",
            f"value: {x.aval}, traced by {x.owner.describe()}",
            fix="Pass the value as an argument of the function (and of its rules), or close over "
            "lax.stop_gradient(value) where no derivative is wanted.",
        )
    )
    error.tracer = x
    return error
