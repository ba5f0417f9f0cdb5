"""`debug.print` and `debug.log`: text that is written where the program computes its values.

Both check the format string while the call is traced, so a mistake in it is an error at the user's line, and then bind
a debug callback, which formats the values when the program runs, in the order of the program. Read next:
`didax/debug/__init__.py` (`callback`), `primitives/callback.py`.
"""

from __future__ import annotations

import functools
import logging
import string
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from didax.api.callbacks import check_two_calls, debug_callback
from didax.core.errors import FormatKeyError, api_boundary, message


@api_boundary
def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print `fmt.format(*args, **kwargs)` when the program computes the values: in compiled code, loops, gradients.

    Args:
      fmt: a format string. An f-string would be formatted while tracing.
      ordered: accepted for compatibility; prints always keep the order of the program.
      partitioned: must be False: whole arrays are printed.
      skip_format_check: leave it to the call that prints to find out whether the format string uses all arguments.

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
    return _when_computed(_Printer, ordered, partitioned, skip_format_check, fmt, args, kwargs)


def _when_computed(
    kind: type[_Printer],
    ordered: bool,
    partitioned: bool,
    skip_format_check: bool,
    fmt: Any,
    args: Any,
    kwargs: dict[str, Any],
) -> Any:
    """`debug.print` or `debug.log`; without a format string, the function that takes it and has these options."""
    if fmt is None:
        check_two_calls(kind.name, args, kwargs)
        again = functools.partial(_when_computed, kind, ordered, partitioned, skip_format_check)
        return api_boundary(lambda fmt, *args, **kwargs: again(fmt, args, kwargs))
    if partitioned:
        fix = "Leave partitioned out, or print within shard_map."
        raise NotImplementedError(message(f"{kind.name} shows whole arrays.", "partitioned: True", fix=fix))
    if not isinstance(fmt, str):
        fix = f'Write {kind.name}("{{}}", x).'
        raise TypeError(message(f"{kind.name} takes a format string first.", f"got: {fmt!r:.100}", fix=fix))
    if not skip_format_check:
        _Checker(kind.name).format(fmt, *args, **kwargs)
        if "Traced<" in fmt:  # the text of a tracer
            rule = f"{kind.name} formats values when the program runs. An f-string formats tracers, before it runs."
            fix = f'Leave the f out and pass the values: {kind.name}("x is {{x}}", x=x).'
            raise ValueError(message(rule, f"format string: {fmt!r:.200}", fix=fix))
    debug_callback(kind(fmt), *args, ordered=ordered, **kwargs)
    return None


@api_boundary
def log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """As `debug.print`, into the log of Python's `logging`: a line of the level INFO of the logger "didax.debug".

    >>> import didax as dx
    >>> dx.debug.log("x is {}", 3)  # shown where the program asks for that level
    """
    return _when_computed(_Logger, ordered, partitioned, skip_format_check, fmt, args, kwargs)


class _Printer:
    """Prints one format string, with the print options that NumPy had when the printer was made."""

    name = "debug.print"

    def __init__(self, fmt: str):
        self.__name__ = f"{self.name}({fmt!r})"
        self._fmt = fmt
        self._options = np.get_printoptions()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        with np.printoptions(**self._options):
            text = self._fmt.format(*args, **kwargs)
        self.show(text)

    def show(self, text: str) -> None:
        """Print the line."""
        sys.stdout.write(text + "\n")


class _Logger(_Printer):
    """The same, into the log."""

    name = "debug.log"

    def show(self, text: str) -> None:
        logging.getLogger("didax.debug").info("%s", text)


class _Checker(string.Formatter):
    """Finds arguments that a format string lacks or does not use; it formats no values, which are not known yet."""

    def __init__(self, caller: str):
        self._caller = caller

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if isinstance(key, int) and key >= len(args):
            rule = f"{self._caller} needs a value for each pair of braces."
            fix = "Pass it after the format string; {{}} shows braces as text."
            raise IndexError(message(rule, f"place: {{{key}}}, values: {len(args)}", fix=fix))
        if isinstance(key, str) and key not in kwargs:
            rule = f"{self._caller} needs a value for each name in braces."
            facts = f"place: {{{key}}}, names given: {', '.join(kwargs) or 'none'}"
            fix = f'Pass it: {self._caller}("{{{key}}}", {key}=...); {{{{}}}} shows braces as text.'
            raise FormatKeyError(message(rule, facts, fix=fix))
        return super().get_value(key, args, kwargs)

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
                    f"{self._caller} formats every value it is given.",
                    f"not in the format string: {', '.join(unused)}",
                    fix=f'Name them in it: {self._caller}("x is {{x}}", x=x); an f-string has lost its braces.',
                )
            )
