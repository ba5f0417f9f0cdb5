"""`check_p`: raise, unless a condition holds.

    check_p(pred, x, ...; message="x is {x}")      raises CheckError("x is ...") where pred is False

It has no results and the effect `check`, so it is kept wherever it stands. Batched, it fails if any element fails, and
shows the values of the first that does; differentiated, it looks at the primal values; `checkify` turns it into data.
A compiled program calls back into Python only where the condition does not hold.
One of four files on checks, the one with the primitive. Read next: `passes/checkify.py` (checks as data);
`didax/debug/_check.py` and `didax/checkify.py`, what users call.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import config
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.effects import Effects
from didax.core.errors import CheckError, DivisionByZeroError, NaNError, OutOfBoundsError, message
from didax.core.primitive import Primitive
from didax.core.source import user_line
from didax.passes.checkify import CHECK, Condition, Kinds, Report, Site
from didax.primitives import split
from didax.primitives.convert import stop_gradient_p
from didax.primitives.elementwise import eq, not_
from didax.primitives.reductions import argmin_p, reduce_and_p
from didax.primitives.shape import reshape
from didax.primitives.slicing import dynamic_slice_p
from didax.transforms.batching import AxisData
from didax.xla.callbacks import HostCallback
from didax.xla.lowering import call_python
from didax.xla.text import FunctionContext, Value

ERRORS: dict[str, type[CheckError]] = {
    "check": CheckError,
    "index": OutOfBoundsError,
    "nan": NaNError,
    "division": DivisionByZeroError,
}
_BOOL = np.dtype(bool)
_INT32 = np.dtype(np.int32)


class Check(Primitive):
    """`check_p.bind(pred, *values, kind=, message=, names=, line=, debug=)`: the values fill the message by name.

    With `debug` it checks only where checkify turned it into data. Names that are numbers are positions.
    """

    multiple_results = True
    holes = {"transpose": "it has no results"}
    sharding = split.no_results

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset([CHECK])

    def type(self, pred: ShapedArray, *values: ShapedArray, **params: Any) -> list[ShapedArray]:
        if pred.shape != () or pred.dtype != _BOOL:
            rule = "The condition of a check is a bool scalar."
            raise TypeError(message(rule, f"condition: {pred}", fix="Compare, and reduce it with all()."))
        return []

    def evaluate(self, pred: Any, *values: Any, debug: bool, **site: Any) -> list[Any]:
        if not debug and not bool(pred):
            raise failure([np.asarray(x) for x in values], **site)
        return []

    def lower(
        self, ctx: FunctionContext, pred: Value, *values: Value, debug: bool, **site: Any
    ) -> list[Value]:
        if debug:
            return []
        avals = [x.aval for x in values]
        callback = HostCallback(functools.partial(_fail, **site), avals, [], "check", everywhere=True)
        failing = ctx.region()
        call_python(failing, callback, values, side_effect=True)
        holds = ctx.convert(pred, _INT32)
        ctx.emit_many(
            f'"stablehlo.case"({holds}) ({failing.body([])}, {{ stablehlo.return }}) : ({holds.type}) -> ()',
            [],
        )
        return []

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        return self.bind(*primals, **params), []

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        if axis.size == 0:
            return [], []
        rows = [
            x if dim is None else array_ops.move_axis(x, dim, 0) for x, dim in zip(args, dims, strict=True)
        ]
        pred, *values = rows
        first = np.int32(0)
        if dims[0] is not None:
            first = argmin_p.bind(pred, axes=(0,), index_dtype=_INT32)
            pred = reduce_and_p.bind(pred, axes=(0,))
        values = [x if dim is None else row(x, first) for x, dim in zip(values, dims[1:], strict=True)]
        return self.bind(pred, *values, **params), []

    def checkify(
        self, kinds: Kinds, pred: Any, *values: Any, kind: str, message: str, names: tuple[str, ...],
        line: str, debug: bool,
    ) -> tuple[list[Any], Report | None]:  # fmt: skip
        if kind not in kinds:
            return [], None
        shown = tuple([stop_gradient_p.bind(x) for x in values])
        site = Site(kind, message, names, tuple([aval_of(x) for x in values]), line)
        return [], Report(not_(pred), np.int32(0), shown, (site,))

    def run_jaxprs(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        return []


check_p = Check("check")


def failure(values: Sequence[Any], *, kind: str, message: str, names: Sequence[str], line: str) -> CheckError:
    """The error of a check that failed with these values; all errors are of one class under `as_in_jax`."""
    error = CheckError if config.state().as_in_jax else ERRORS[kind]
    return error(failure_text(values, kind=kind, message=message, names=names, line=line))


def _fail(*values: Any, **site: Any) -> list[Any]:
    raise failure(values, **site)


def failure_text(values: Sequence[Any], *, kind: str, message: str, names: Sequence[str], line: str) -> str:
    """The check's message with the values in it, then the line of the check; under `as_in_jax` JAX's text."""
    text = _filled(values, message, names)
    if config.state().as_in_jax:
        return f"{text} (`check` failed)" if kind == "check" else text.split("\n")[0]
    return f"{text}\n  checked at {line}" if line else text


def _filled(values: Sequence[Any], template: str, names: Sequence[str]) -> str:
    named = {name: x for name, x in zip(names, values, strict=True) if not name.isdigit()}
    given = [x for name, x in zip(names, values, strict=True) if name.isdigit()]
    try:
        return template.format(*given, **named)
    except Exception:  # a format that does not suit the values must not hide that the check failed
        return f"{template} ({', '.join(f'{name} = {x}' for name, x in zip(names, values, strict=True))})"


def row(x: Any, i: Any) -> Any:
    """`x[i]`."""
    shape = aval_of(x).shape
    starts = [i, *[np.int32(0)] * (len(shape) - 1)]
    return reshape(dynamic_slice_p.bind(x, *starts, slice_sizes=(1, *shape[1:])), shape[1:])


def check_condition(condition: Condition) -> None:
    """Check that a condition holds at every element; values are those of the first where it does not."""
    kind, holds, text, values = condition
    shape = aval_of(holds).shape
    if 0 in shape:
        return
    if shape:
        size = aval_of(holds).size
        flat = reshape(holds, (size,))
        if values:
            first = argmin_p.bind(flat, axes=(0,), index_dtype=_INT32)
            values = {name: row(reshape(x, (size,)), first) for name, x in values.items()}
        holds = reduce_and_p.bind(flat, axes=(0,))
    line = str(user_line() or "")
    names = tuple(values)
    check_p.bind(holds, *values.values(), kind=kind, message=text, names=names, line=line, debug=False)


def no_nan(x: Any) -> Any:
    """Whether each element is a number."""
    return eq(x, x)
