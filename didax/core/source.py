"""Where in the user's program we are: the innermost frame that does not belong to Didax.

Staged equations carry the line that made them, errors point at it, and tracebacks are cut down to the user's part.
Walking frames is on the hot path of tracing, so the answer "is this code object ours?" is remembered per code object.
"""

from __future__ import annotations

import os
import sys
import types
from typing import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_internal: dict[str, bool] = {}  # by file: code objects take long to hash


class SourceLine(NamedTuple):
    """A place in the user's program. The line is looked up when asked for: tracing records one per operation."""

    code: types.CodeType
    instruction: int

    @property
    def file(self) -> str:
        """The file's path."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line's number."""
        for start, stop, line in self.code.co_lines():
            if start <= self.instruction < stop and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def function(self) -> str:
        """The function's qualified name."""
        return self.code.co_qualname

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


def is_internal(code: types.CodeType) -> bool:
    """True when `code` was compiled from a file of the didax package (or is import or functools machinery)."""
    file = code.co_filename
    known = _internal.get(file)
    if known is None:
        known = file.startswith((_PACKAGE, "<frozen")) or file.endswith("contextlib.py")
        _internal[file] = known
    return known


def user_line() -> SourceLine | None:
    """The innermost line of the user's program, or None when there is none on the stack."""
    frame: types.FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    internal = _internal
    while frame is not None:
        code = frame.f_code
        known = internal.get(code.co_filename)
        if known is False or (known is None and not is_internal(code)):
            return SourceLine(code, frame.f_lasti)
        frame = frame.f_back
    return None


def describe_function(f: object) -> str:
    """`name (file:line)` of a Python function, for error messages; its repr where it has no code.

    >>> describe_function(len)
    'len'
    """
    f = getattr(f, "__wrapped__", f)
    code = getattr(f, "__code__", None)
    name = getattr(f, "__name__", None) or type(f).__name__
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name
