"""`takes_lists` decorates functions of SciPy that take nested lists of numbers as arrays, where others refuse them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import didax.numpy as dnp

P = ParamSpec("P")
R = TypeVar("R")


def takes_lists(count: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function whose first `count` arguments may be lists.

    >>> takes_lists(1)(lambda x: x.shape)([[1.0, 2.0]])
    (1, 2)
    """

    def decorated(f: Callable[P, R]) -> Callable[P, R]:
        call = cast("Callable[..., R]", f)
        names = list(inspect.signature(f).parameters)[:count]

        @functools.wraps(f)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            arrays = [of_list(x) if i < count else x for i, x in enumerate(args)]
            named = {name: of_list(x) if name in names else x for name, x in kwargs.items()}
            return call(*arrays, **named)

        return called

    return decorated


def of_list(x: Any) -> Any:
    """A list as an array, anything else as it is."""
    return dnp.asarray(x) if isinstance(x, list) else x
