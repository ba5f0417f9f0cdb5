"""Blocks of a program, and functions, with a name in the compiled program.

`options.py` has the context managers that set options. Read next: `core/compile_time.py`, another kind of block.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from didax.core.errors import api_boundary, message
from didax.core.source import enter_scope, name_of, scope_now, wraps

F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def named_scope(name: str) -> Generator[None]:
    """A block, or as a decorator a function, whose operations have this name in compiled programs, before their own.

    Profiles and dumps show it, and `jit(f).lower(x).as_text(debug_info=True)`. Blocks within blocks are named
    "outer/inner"; derivatives of an operation have its names.

    >>> import didax as dx
    >>> @dx.jit
    ... def loss(x):
    ...     with dx.named_scope("error"):
    ...         return (x - 1.0) ** 2
    >>> "loss/error/" in loss.lower(3.0).as_text(debug_info=True)
    True
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        rule = "The name of a block is a string."
        raise TypeError(
            message(rule, f"name: {name!r:.100} of type {type(name).__name__}", fix="Pass a string.")
        )
    token = enter_scope(name)
    try:
        yield
    finally:
        scope_now.reset(token)


def named_call(fun: F, *, name: str | None = None) -> F:
    """The function, whose operations have its name, or that given; see `named_scope`.

    >>> import didax as dx
    >>> dx.named_call(abs, name="magnitude")(-2)
    2
    """
    scope = (name_of(fun) or type(fun).__name__) if name is None else name

    @wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(scope):
            return fun(*args, **kwargs)

    return api_boundary(named)  # type: ignore[return-value]
