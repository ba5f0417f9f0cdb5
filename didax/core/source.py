"""Where in the user's program we are: the innermost frame that does not belong to Didax.

Staged equations carry the line that made them, errors point at it, and tracebacks are cut down to the user's part.
Equations keep their lines through transformations: a function that interprets equations is declared with
`follows_equations`, and while it runs the line is that of the equation it is at (of its transpose: the same line, in
the backward pass). Walking frames is a fifth of the time of tracing, so what is passed is remembered by its code.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, NamedTuple, TypeVar

from didax.core.stack import stack_below

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TRANSFORMATIONS = {
    "grad",
    "value_and_grad",
    "jacfwd",
    "jacrev",
    "vmap",
    "shard_map",
    "checkpoint",
    "named_call",
}
_internal: dict[str, bool] = {}  # by file: code objects take long to hash
# Code of Didax that interprets no equations, by its id, which it keeps while it is in here.
_passed: dict[int, types.CodeType] = {}
_MOST_PASSED = 4096
# By name: the code, and whether it runs equations backward; None for what stages a function.
_interpreters: dict[str, tuple[types.CodeType, bool | None]] = {}
_NO_INTERPRETER = None, None


class SourceLine(NamedTuple):
    """A place in the user's program. The line is looked up when asked for: tracing records one per operation."""

    code: types.CodeType
    instruction: int
    backward: bool = False
    rule: str = ""  # the user's derivative rule that made a linear equation at this place
    scope: str = ""  # names of the blocks that it is in, "model/layer"
    is_of_call: bool = False  # it only calls a function of the library, whose program other lines may share

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
        place = f"{name_of_file(self.file)}:{self.line} ({self.function})"
        return f"{place}, in the backward pass" if self.backward else place


def name_of_file(file: str) -> str:
    """The file as its writer knows it: its path, or `In[3]` for a cell of a notebook, whose path is one of IPython's.

    >>> name_of_file("README.md")
    'README.md'
    """
    ipython: Any = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    cell = shell and shell.compile.format_code_name(file)
    return cell[1] if cell else file


def is_internal(code: types.CodeType) -> bool:
    """True when `code` was compiled from a file of the didax package (or is import or functools machinery)."""
    file = code.co_filename
    known = _internal.get(file)
    if known is None:
        known = _internal[file] = _is_ours(file)
    return known


def _is_ours(file: str) -> bool:
    return file.startswith((_PACKAGE, "<frozen")) or file.endswith("contextlib.py")


def exclude(file: str) -> None:
    """Count a file of another package as one of Didax's where lines of the user's program are looked for."""
    _internal[file] = True


# Files and folders of other packages that tracebacks leave out too. Packages may change the list.
hidden_paths: list[str] = []


def is_hidden(code: types.CodeType) -> bool:
    """Whether tracebacks leave out the frames of `code`."""
    file = code.co_filename
    return _is_ours(file) or any(
        file == path or file.startswith(path.rstrip(os.sep) + os.sep) for path in hidden_paths
    )


def follows_equations(backward: bool = False) -> Callable[[F], F]:
    """Declare a function that interprets equations, each while its local variable `eqn` holds it."""

    return lambda f: _declare(f, backward)


def stages_functions(f: F) -> F:
    """Declare a function that stages another one: a line found further out is that of a call of the staged one."""
    return _declare(f, None)


def _declare(f: F, backward: bool | None) -> F:
    name = f.__name__
    assert name not in _interpreters, (
        f"{name}: the name is taken, and the lines of one of the two would be lost"
    )
    _interpreters[name] = f.__code__, backward
    return f


def user_line() -> SourceLine | None:
    """The innermost line of the user's program: on the stack, or of the equation that is interpreted; None without."""
    frame: types.FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    passed, is_of_call, stack = _passed, False, None
    while True:
        while frame is not None and id(frame.f_code) in passed:
            frame = frame.f_back
        if frame is None:
            stack = stack_below() if stack is None else stack.below
            if stack is None:
                return None
            frame = stack.frame
            continue
        code = frame.f_code
        if not is_internal(code):
            if not _scopes and not is_of_call:
                return SourceLine(code, frame.f_lasti)
            return SourceLine(code, frame.f_lasti, scope=scope_now.get(), is_of_call=is_of_call)
        interpreter, backward = _interpreters.get(code.co_name, _NO_INTERPRETER)
        if interpreter is not code:
            if len(passed) >= _MOST_PASSED:
                passed.clear()
            passed[id(code)] = code
        elif backward is None:
            is_of_call = True
        elif (line := _line_of_equation(frame, backward)) is not None:
            return line._replace(is_of_call=True) if is_of_call else line
        frame = frame.f_back


def _line_of_equation(frame: types.FrameType, backward: bool) -> SourceLine | None:
    eqn = frame.f_locals.get("eqn")
    line: SourceLine | None = None if eqn is None else eqn.source
    if line is not None and _scopes:
        line = line._replace(scope=_within(scope_now.get(), line.scope))
    if backward and line is not None:  # `_replace` would take longer
        return SourceLine(line.code, line.instruction, True, line.rule, line.scope, line.is_of_call)
    return line


def _within(outer: str, scope: str) -> str:
    """The names of both, once where an equation is interpreted in the block that it was made in."""
    if not outer or scope == outer or scope.startswith(f"{outer}/"):
        return scope
    return f"{outer}/{scope}" if scope else outer


# The names of the blocks that the program is in. They are looked at once there has been one, so that programs without
# names do not pay for them.
scope_now: ContextVar[str] = ContextVar("didax_scope", default="")
_scopes: list[bool] = []


def enter_scope(name: str) -> Token[str]:
    """Begin a block of that name; `scope_now.reset` of the result ends it."""
    if not _scopes:
        _scopes.append(True)
    outer = scope_now.get()
    return scope_now.set(f"{outer}/{name}" if outer else name)


def in_blocks_of_equation(run: Callable[[], T]) -> T:
    """Run a rule of the user's for an equation: what it computes is in the named blocks of the call that it is for."""
    if not _scopes or (line := user_line()) is None:
        return run()
    token = scope_now.set(line.scope)
    try:
        return run()
    finally:
        scope_now.reset(token)


def describe_function(f: object) -> str:
    """`name (file:line)` of a Python function, for error messages; its repr where it has no code.

    >>> describe_function(len)
    'len'
    """
    name = function_name(f)
    while (inner := getattr(f, "__wrapped__", f)) is not f:
        f = inner
    code = getattr(f, "__code__", None)
    return f"{name} ({name_of_file(code.co_filename)}:{code.co_firstlineno})" if code is not None else name


def function_name(f: object) -> str:
    """The name of a function, within the names of the transformations that were applied to it.

    A transformation returns a Python function, whose code has a qualified name such as `grad.<locals>.gradient`. So
    nothing has to be kept for this: no attribute, which `functools.wraps` would hand to other functions.

    >>> import didax as dx
    >>> def loss(w):
    ...     return w * w
    >>> function_name(dx.grad(dx.vmap(loss)))
    'grad(vmap(loss))'
    """
    makers: list[str] = []
    while (inner := getattr(f, "__wrapped__", f)) is not f:
        code: types.CodeType | None = getattr(f, "__code__", None)
        if code is not None and code.co_filename.startswith(_PACKAGE):
            maker = code.co_qualname.partition(".<locals>")[0].lstrip("_")
            makers += [maker] if maker in _TRANSFORMATIONS else []
        f = inner
    name = name_of(f) or type(f).__name__
    return functools.reduce(lambda name, maker: f"{maker}({name})", reversed(makers), name)


def name_of(f: Any) -> str:
    """The name of a function, or of the function inside a partial; "" for an object whose name is no string."""
    while isinstance(f, functools.partial):
        f = f.func
    name = getattr(f, "__name__", "")
    return name if isinstance(name, str) else ""


_OF_FUNCTIONS = {"__name__": str, "__qualname__": str, "__annotations__": dict, "__type_params__": tuple}


def to_copy(fun: Any) -> list[str]:
    """The attributes that `functools.update_wrapper` may copy: an object may have some that no function can take."""
    return [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if isinstance(getattr(fun, name, None), _OF_FUNCTIONS.get(name, object))
    ]


def wraps(fun: Callable[..., Any]) -> Callable[[F], F]:
    """`functools.wraps` for every callable."""
    named: Any = functools.wraps(fun, to_copy(fun))
    return named
