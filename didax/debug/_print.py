"""`debug.print`: a print that runs where the program computes its values."""

from __future__ import annotations

import string
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from didax.api.callbacks import check_two_calls, debug_callback
from didax.core.errors import api_boundary, message


@api_boundary
def print(fmt: str | None = None, *args: Any, ordered: bool = False, **kwargs: Any) -> Any:
    """Print `fmt.format(*args, **kwargs)` when the program computes the values: in compiled code, loops, gradients.

    Args:
      fmt: a format string. An f-string would be formatted while tracing.
      ordered: accepted for compatibility; prints always keep the order of the program.

    Under differentiation primal values are printed, under vmap each element. Without arguments
    (`print(ordered=True)`) it returns a function that takes the format string and the values. Raises
    ValueError at once for arguments that the format string does not use, and the error of `str.format` for
    arguments that are missing.

    >>> import didax as dx
    >>> @dx.jit
    ... def f(x):
    ...     dx.debug.print("x is {x}, twice that {:.1f}", 2 * x, x=x)
    ...     return x
    >>> _ = f(1.5)
    x is 1.5, twice that 3.0
    """
    if fmt is None:
        check_two_calls("debug.print", args, kwargs)
        return lambda fmt, *args, **kwargs: print(fmt, *args, ordered=ordered, **kwargs)
    if not isinstance(fmt, str):
        fix = 'Write debug.print("{}", x).'
        raise TypeError(message("debug.print takes a format string first.", f"got: {fmt!r:.100}", fix=fix))
    _Checker().format(fmt, *args, **kwargs)
    debug_callback(_Printer(fmt), *args, ordered=ordered, **kwargs)
    return None


class _Printer:
    """Prints one format string, with the print options that NumPy had when the printer was made."""

    def __init__(self, fmt: str):
        self.__name__ = f"debug.print({fmt!r})"
        self._fmt = fmt
        self._options = np.get_printoptions()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        with np.printoptions(**self._options):
            text = self._fmt.format(*args, **kwargs)
        sys.stdout.write(text + "\n")


class _Checker(string.Formatter):
    """Finds arguments that a format string lacks or does not use; it formats no values, which are not known yet."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> str:
        return ""

    def check_unused_args(
        self, used_args: set[int | str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        unused = [f"argument {i}" for i in range(len(args)) if i not in used_args]
        unused += [name for name in kwargs if name not in used_args]
        if unused:
            raise ValueError(
                message(
                    "debug.print formats every value it is given.",
                    f"not in the format string: {', '.join(unused)}",
                    fix='Name them in it: debug.print("x is {x}", x=x); an f-string has lost its braces.',
                )
            )
