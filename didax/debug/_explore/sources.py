"""The lines of the user's program that equations come from, out of the files that they are in.

    files = files_of(functions)     each with the lines of the functions that equations come from

Files that cannot be read (a prompt, `exec`) have no text; what is known by line stays known.
"""

from __future__ import annotations

import functools
import linecache
import os
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, NamedTuple

from didax.core.source import is_internal, name_of_file

_MOST_LINES = 20_000  # of a file; what a page shows beyond is cut


class File(NamedTuple):
    """Lines of a file, by their numbers."""

    path: str
    lines: dict[int, str]
    is_known: bool  # whether the file could be read

    @property
    def name(self) -> str:
        """The path as it is written from here, where that is shorter; `In[3]` for a cell of a notebook."""
        path = name_of_file(self.path)
        try:
            return min(path, os.path.relpath(path), key=len)
        except ValueError:  # on another drive
            return path


def code_of(fun: Callable[..., Any]) -> CodeType | None:
    """The code of a function, of what it wraps, or of the method that calls it."""
    while True:
        inner = getattr(fun, "__wrapped__", None) or (
            fun.func if isinstance(fun, functools.partial) else None
        )
        if inner is None:
            break
        fun = inner
    code = getattr(fun, "__code__", None)
    if code is None:  # an object that is called
        code = getattr(vars(type(fun)).get("__call__"), "__code__", None)
    return code if isinstance(code, CodeType) and not is_internal(code) else None


def files_of(own: CodeType | None, codes: Iterable[CodeType], lines: Iterable[tuple[str, int]]) -> list[File]:
    """The files, that of the function first, with the lines of all these codes, and these single lines."""
    wanted: dict[str, set[int]] = {}
    for code in [*([own] if own else []), *[code for code in codes if code.co_name != "<module>"]]:
        wanted.setdefault(code.co_filename, set()).update(range(code.co_firstlineno, _last_line(code) + 1))
    for path, line in lines:
        wanted.setdefault(path, set()).add(line)
    return [_read(path, numbers) for path, numbers in wanted.items()]


def _read(path: str, numbers: set[int]) -> File:
    text = linecache.getlines(path)
    known = {n: text[n - 1].rstrip("\n") for n in sorted(numbers)[:_MOST_LINES] if 0 < n <= len(text)}
    return File(path, known or {n: "" for n in sorted(numbers)[:_MOST_LINES]}, bool(known))


def _last_line(code: CodeType) -> int:
    """The last line of a function, with the functions inside of it."""
    own = [end for _, end, _, _ in code.co_positions() if end is not None]
    inner = [_last_line(const) for const in code.co_consts if isinstance(const, CodeType)]
    return max([code.co_firstlineno, *own, *inner])
