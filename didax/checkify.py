"""Checks as data: a checkified function returns, beside its results, whether a check in it failed.

    err, y = checkify.checkify(f, errors=checkify.all_checks)(x)
    err.throw()

The checks are those of `debug.check` (`checkify.check` is the same function), and, chosen by `errors`, checks
of every operation for NaN, indices out of range and division by zero. The function runs to its end after a
failure, except that a failure ends a `while_loop`; the first failure is reported. The function may be
compiled, mapped and differentiated. Read next: `didax/passes/checkify.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from didax.api.flat import (
    FlatFunction,
    argument_names,
    as_array,
    check_callable,
    flatten_arguments,
    leaf_avals,
)
from didax.api.vmap import vmap
from didax.core import pytree
from didax.core.avals import aval_of
from didax.core.errors import (
    CheckError,
    DivisionByZeroError,
    NaNError,
    OutOfBoundsError,
    api_boundary,
    message,
)
from didax.core.jaxpr import eval_jaxpr
from didax.core.modules import on_access
from didax.core.tracing import Tracer
from didax.debug._check import bind_check, check
from didax.passes.checkify import Report, Site, add_checks, checkify_jaxpr
from didax.primitives.check import ERRORS, check_p, failure, failure_text
from didax.primitives.elementwise import and_, eq, not_
from didax.transforms.staging import trace_to_jaxpr

__all__ = [
    "CheckError",
    "DivisionByZeroError",
    "Error",
    "ErrorCategory",
    "JaxRuntimeError",
    "NaNError",
    "OutOfBoundsError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

P = ParamSpec("P")
R = TypeVar("R")
ErrorCategory = type[CheckError]
Errors = frozenset[ErrorCategory]
JaxRuntimeError = CheckError
"""The error that `Error.throw` raises, under JAX's name for it."""

user_checks: Errors = frozenset([CheckError])
"""The checks that the function makes itself."""
nan_checks: Errors = frozenset([NaNError])
"""The check that no operation makes a NaN."""
index_checks: Errors = frozenset([OutOfBoundsError])
"""The check that every index is in range, whatever its `mode`."""
div_checks: Errors = frozenset([DivisionByZeroError])
"""The check that no divisor is zero."""
float_checks: Errors = nan_checks | div_checks
automatic_checks: Errors = float_checks | index_checks
all_checks: Errors = automatic_checks | user_checks


class Error:
    """The failure of a checkified function, if any; a pytree, so transformations carry it like any result.

    >>> import didax as dx
    >>> def f(x):
    ...     dx.checkify.check(x > 0, "{x} is not positive", x=x)
    ...     return x
    >>> error, _ = dx.checkify.checkify(f)(-1.0)
    >>> print(error.get())
    -1.0 is not positive
      checked at ...
    """

    __slots__ = ("_arrays", "_sites")

    def __init__(self, arrays: tuple[Any, ...] = (), sites: tuple[Site, ...] = ()):
        self._arrays = arrays
        self._sites = sites

    def get(self) -> str | None:
        """Return the text of the first failure, None without one; for a mapped function, a line per failed element."""
        texts = [f"at mapped index {at}: {text}" if at else text for at, text in self._texts()]
        return "\n".join(texts) or None

    @api_boundary
    def throw(self) -> None:
        """Raise the first failure as the error of its kind (a CheckError); do nothing where no check failed."""
        if (error := self.get_exception()) is not None:
            raise error

    def get_exception(self) -> CheckError | None:
        """Return the error that `throw` raises, None where no check failed."""
        for at, site, values in self._failures():
            error = failure(values, **_site_params(site))
            return type(error)(self.get()) if at else error
        return None

    def __repr__(self) -> str:
        traced = any(isinstance(x, Tracer) for x in self._arrays)
        return f"Error({'traced' if traced else self.get()})"

    def report(self) -> Report | None:
        """The arrays that hold the failures; None where nothing was checked."""
        if not self._sites:
            return None
        failed, first, *values = self._arrays
        return Report(failed, first, tuple(values), self._sites)

    def _texts(self) -> Iterator[tuple[str, str]]:
        for at, site, values in self._failures():
            yield at, failure_text(values, **_site_params(site))

    def _failures(self) -> Iterator[tuple[str, Site, list[Any]]]:
        """Yield position among mapped elements ('' where nothing is mapped), check and values of each failure."""
        if not self._sites:
            return
        failed, first, *values = map(np.asarray, self._arrays)
        for index in np.argwhere(failed):
            at = tuple(index)
            number = int(first[at])
            start = sum(len(site.avals) for site in self._sites[:number])
            site = self._sites[number]
            yield (
                ", ".join(map(str, at)),
                site,
                [x[at] for x in values[start : start + len(site.avals)]],
            )


init_error = Error()
"""The error of a function in which no check failed."""


pytree.register_node(
    Error, lambda e: (e._arrays, e._sites), lambda sites, arrays: Error(tuple(arrays), sites)
)  # pyright: ignore[reportPrivateUsage]


def _site_params(site: Site) -> dict[str, Any]:
    return {"kind": site.kind, "message": site.message, "names": site.names, "line": site.line}


@api_boundary
def checkify(f: Callable[P, R], errors: Errors = user_checks) -> Callable[P, tuple[Error, R]]:
    """Return a function that returns an `Error` and the result of `f`; `errors` chooses what is checked.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax import checkify
    >>> def f(x, i):
    ...     checkify.check(i >= 0, "index {i} is negative", i=i)
    ...     return dnp.sin(x[i])
    >>> x = dnp.arange(3.0)
    >>> err, y = dx.jit(checkify.checkify(f))(x, -1)
    >>> print(err.get())
    index -1 is negative
      checked at ...
    >>> err, y = dx.jit(checkify.checkify(f, errors=checkify.all_checks))(x, 5)
    >>> err.throw()
    Traceback (most recent call last):
    didax.core.errors.OutOfBoundsError: out-of-bounds indexing for array of shape (3,): index 5 is out of bounds...
    ...
    """
    check_callable("checkify", f)
    kinds = _kinds(errors)

    @api_boundary
    def checkified(*args: P.args, **kwargs: P.kwargs) -> tuple[Error, R]:
        leaf_avals("checkify", f, args, kwargs)
        leaves, tree = flatten_arguments(args, kwargs)
        flat = FlatFunction(f, tree, "checkify")
        avals = [aval_of(x) for x in leaves]
        names = argument_names(f, args, kwargs)
        jaxpr, consts = trace_to_jaxpr(flat, avals, function=f, what="checkify", arg_names=names)
        if automatic := kinds - {"check"}:
            jaxpr = add_checks(jaxpr, automatic, for_report=True)
        new = checkify_jaxpr(jaxpr, kinds)
        outs, report = new.split(eval_jaxpr(new.jaxpr, [*consts, *leaves]))
        error = Error() if report is None else Error(tuple(report.arrays()), report.sites)
        return error, pytree.unflatten(flat.out_tree, [as_array(x) for x in outs])

    return checkified


def _kinds(errors: Any) -> frozenset[str]:
    by_error = {error: kind for kind, error in ERRORS.items()}
    wrong = [e for e in errors if e not in by_error]
    if wrong:
        raise ValueError(
            message(
                "checkify takes a set of kinds of errors.",
                f"errors: {', '.join(map(repr, wrong))}",
                fix="Use user_checks, nan_checks, index_checks, div_checks, float_checks, automatic_checks or "
                "all_checks of didax.checkify, or a union (|) of these.",
            )
        )
    return frozenset(by_error[e] for e in errors)


@api_boundary
def debug_check(pred: Any, msg: str, *values: Any, **named: Any) -> None:
    """Check like `check`, but only where checkify turns the check into data; elsewhere do nothing.

    >>> def f(x):
    ...     debug_check(x > 0, "not positive: {}", x)
    ...     return x
    >>> f(-1.0), checkify(f)(-1.0)[0].get() is None
    (-1.0, False)
    """
    bind_check(pred, msg, values, named, debug=True)


@api_boundary
def check_error(error: Error) -> None:
    """Check that an `Error` holds no failure: raise the failure, or pass it on to an enclosing checkify.

    >>> import didax as dx
    >>> from didax import checkify
    >>> err, _ = checkify.checkify(lambda x: checkify.check(x > 0, "not positive"))(-1.0)
    >>> checkify.check_error(err)
    Traceback (most recent call last):
    didax.core.errors.CheckError: not positive
      checked at ...
    """
    if not isinstance(error, Error):
        fact = f"got: {error!r:.100} of type {type(error).__name__}"
        raise TypeError(
            message("check_error takes an Error.", fact, fix="Pass the first result of checkify.")
        )
    report = error.report()
    if report is None:
        return
    if aval_of(report.failed).ndim:
        vmap(check_error)(error)
        return
    start = 0
    for number, site in enumerate(report.sites):
        this = and_(report.failed, eq(report.first, np.int32(number)))
        values = report.values[start : start + len(site.avals)]
        start += len(site.avals)
        check_p.bind(not_(this), *values, **_site_params(site), debug=False)
