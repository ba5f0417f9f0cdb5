"""The results of library functions: arrays of their own, whatever becomes of the arguments.

    y = x.ravel()        # x has one axis: these are its contents as they are
    step(x)              # to which x is donated
    y + 1                # y has them still

Some functions return an argument as it is, where there is nothing to do. `array_function` makes them return a new array
then, which shares the memory (Note [Arrays that share a buffer] in `runtime/array.py`). It does not decorate functions
that promise no array of their own, like `asarray` and `device_put`, nor transformations of functions that return their
argument.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast

from didax.api.explicit import split_result
from didax.core import pytree
from didax.core.errors import asks_for_split, strip_internal_frames, without_idle
from didax.runtime.array import ConcreteArray, sharing

P = ParamSpec("P")
R = TypeVar("R")


def array_function(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function that computes arrays: an `api_boundary` whose results are never its arguments."""

    call = cast("Callable[..., R]", f)

    @functools.wraps(f)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if kwargs and asks_for_split(f, kwargs):
                return split_result(bounded, args, kwargs)
            out = call(*args, **without_idle(f, kwargs)) if kwargs else call(*args)
            return own_result(out, args, kwargs)
        except Exception as error:
            strip_internal_frames(error, f, args, kwargs)
            raise

    return bounded


_NESTED = frozenset({list, tuple})


def own_result(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function called with these arguments; a new array where the result is one of them."""
    for x in args:
        if x is out:
            return sharing(out)
    if kwargs:
        for x in kwargs.values():
            if x is out:
                return sharing(out)
    if type(out) in _NESTED or (args and type(args[0]) in _NESTED):
        return _own_results(out, (args, kwargs))
    return out


def _own_results(out: Any, arguments: Any) -> Any:
    """A function's results, new arrays in the place of those that are among its arguments."""
    if type(out) not in _NESTED and not isinstance(out, ConcreteArray):
        return out
    given = identities(pytree.leaves(arguments))
    if not given:
        return out

    def own(y: Any) -> Any:
        return sharing(y) if id(y) in given else y

    return pytree.map(own, out)


def identities(xs: Iterable[Any]) -> frozenset[int]:
    """The ids of the concrete arrays among some values. An id is of use only as long as its array lives."""
    return frozenset([id(x) for x in xs if isinstance(x, ConcreteArray)])
