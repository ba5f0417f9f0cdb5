"""Blocks of a program with a property of their own: evaluated at once, or named.

`options.py` has the context managers that set options. Read next: `transforms/compile_time.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from didax.core.tracing import current_trace, set_current_trace
from didax.transforms.compile_time import CompileTimeTrace

F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def ensure_compile_time_eval() -> Generator[None]:
    """Inside the block, what depends on no traced value is computed at once, also while a function is traced.

    So it may decide what the program is: Python sees its values.

    >>> import didax as dx, didax.numpy as dnp
    >>> @dx.jit
    ... def f(x):
    ...     with dx.ensure_compile_time_eval():
    ...         steps = int(dnp.ceil(dnp.log2(dnp.float32(x.size))))
    ...     return x * steps
    >>> f(dnp.ones(5))
    Array([3., 3., 3., 3., 3.], dtype=float32)
    """
    with set_current_trace(CompileTimeTrace(current_trace())) as trace:
        try:
            yield
        finally:
            trace.ended = True


@contextlib.contextmanager
def named_scope(name: str) -> Generator[None]:
    """A block, or as a decorator a function, with a name for its reader; compiled programs hold no names.

    >>> import didax as dx
    >>> with dx.named_scope("loss"):
    ...     loss = (3.0 - 1.0) ** 2
    """
    yield


def named_call(fun: F, *, name: str | None = None) -> F:
    """The function, which is known by a name; see `named_scope`.

    >>> import didax as dx
    >>> dx.named_call(abs, name="magnitude")(-2)
    2
    """
    return fun
