"""`debug.breakpoint`: a prompt in the middle of a program, with the values of the local variables.

The frames of the user's program are recorded while the function is traced. When the program reaches this
point, the traced arrays of the frames have values, and a prompt like pdb's shows them. The prompt cannot step
through the code, because the Python code has already run. Read next: `didax/api/callbacks.py`, which delivers
the values.
"""

from __future__ import annotations

import bdb
import cmd
import linecache
import pprint
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

from didax.api.callbacks import debug_callback
from didax.core import pytree, source
from didax.core.errors import api_boundary
from didax.core.tracing import Tracer

_CONTEXT = 5  # lines shown around the current line


@api_boundary
def breakpoint(
    *,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
) -> None:
    """Stop the program here and open a prompt, which evaluates expressions with the values of the local variables.

    Under jit, in loops and in gradients the program stops when it computes the values, under vmap once for
    each element. `p x`, or just `x`, prints a value; `help` lists the other commands; `c` continues, `q` ends
    the program with bdb.BdbQuit.

    Args:
      filter_frames: leave out Didax's own frames.
      num_frames: the number of frames that can be shown, from the innermost outward; None for all.
      ordered: keep the order of the program among ordered breakpoints and prints.
      stdin, stdout: where commands are read and answers are written.

    >>> import didax as dx, io, sys
    >>> @dx.jit
    ... def f(x):
    ...     y = x * 2
    ...     dx.debug.breakpoint(stdin=io.StringIO("y + 1"), stdout=sys.stdout)
    ...     return y
    >>> _ = f(3.0)  # doctest: +ELLIPSIS
    Stopped at ...
    (didax) 7.0
    ...
    """
    frames = list(_frames(filter_frames))[:num_frames]
    slots: list[Any] = []
    recorded = [_record(frame, slots) for frame in frames]

    def stop(*values: Any) -> None:
        _Prompt([frame.with_values(values) for frame in recorded], stdin, stdout).cmdloop()

    debug_callback(stop, *slots, ordered=ordered)


class _Slot(NamedTuple):
    """The position of a traced array among the values that the program computes."""

    index: int


class _Frame(NamedTuple):
    """A frame of the user's program, with a `_Slot` in the place of each traced array."""

    file: str
    line: int
    function: str
    variables: Mapping[str, Any]
    outer: Mapping[str, Any]

    def with_values(self, values: tuple[Any, ...]) -> _Frame:
        """Return the frame with the arrays that the program computed."""

        def filled(x: Any) -> Any:
            return values[x.index] if isinstance(x, _Slot) else x

        found = {k: pytree.map(filled, v, is_leaf=_is_leaf) for k, v in self.variables.items()}
        return self._replace(variables=found)

    def place(self) -> str:
        """The place of the frame: `file:line (function)`."""
        return f"{source.name_of_file(self.file)}:{self.line} ({self.function})"

    def text(self, around: int) -> str:
        """Return the lines around the current line."""
        numbers = range(max(1, self.line - around), self.line + around + 1)
        lines = [(n, linecache.getline(self.file, n)) for n in numbers]
        return "".join(f"{'->' if n == self.line else '  '} {n:4} {line}" for n, line in lines if line)


def _frames(filter_frames: bool) -> Iterator[types.FrameType]:
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    outward: types.FrameType | None = frame
    while outward is not None:
        if not (filter_frames and source.is_internal(outward.f_code)):
            yield outward
        outward = outward.f_back


def _record(frame: types.FrameType, slots: list[Any]) -> _Frame:
    code = frame.f_code
    variables = {name: _recorded(value, slots) for name, value in frame.f_locals.items()}
    if frame.f_locals is frame.f_globals:  # a module has no local variables
        variables = {}
    return _Frame(code.co_filename, frame.f_lineno, code.co_qualname, variables, frame.f_globals)


def _recorded(value: Any, slots: list[Any]) -> Any:
    """Return a local variable with slots in the place of its traced arrays."""

    def slot(x: Any) -> Any:
        if not isinstance(x, Tracer) or x.owner.ended:
            return x
        slots.append(x)
        return _Slot(len(slots) - 1)

    try:
        if not any(isinstance(x, Tracer) for x in pytree.leaves(value, _is_leaf)):
            return value
        return pytree.map(slot, value, is_leaf=_is_leaf)
    except Exception:  # a container that cannot be flattened is shown as it is
        return value


def _is_leaf(x: Any) -> bool:
    return isinstance(x, _Slot) or not pytree.is_node(type(x))


class _Prompt(cmd.Cmd):
    """Reads commands until one of them continues; any other line is an expression."""

    prompt = "(didax) "

    def __init__(self, frames: list[_Frame], stdin: IO[str] | None, stdout: IO[str] | None):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames = frames
        self.at = 0
        self.intro = (
            f"Stopped at {self.frame.place()}\n{self.frame.text(1)}".rstrip() if frames else "Stopped."
        )

    @property
    def frame(self) -> _Frame:
        return self.frames[self.at]

    def say(self, text: str) -> None:
        """Write a line."""
        self.stdout.write(f"{text}\n")

    def default(self, line: str) -> bool | None:
        if line == "EOF":
            self.say("")
            return True
        self._show(line, str)
        return None

    def emptyline(self) -> bool:
        return False

    def _show(self, expression: str, form: Any) -> None:
        try:
            variables = dict(self.frame.variables)
            value = eval(expression, {**self.frame.outer, **variables})  # the purpose of a prompt
        except Exception as error:
            self.say("".join(traceback.format_exception_only(error)).rstrip())
        else:
            self.say(form(value))

    def do_p(self, expression: str) -> None:
        """p EXPRESSION: print its value."""
        self._show(expression, str)

    def do_pp(self, expression: str) -> None:
        """pp EXPRESSION: pretty-print its value."""
        self._show(expression, pprint.pformat)

    def do_locals(self, _: str) -> None:
        """locals: print the local variables."""
        for name, value in self.frame.variables.items():
            self.say(f"{name} = {value!r}")

    def do_list(self, _: str) -> None:
        """l(ist): show the lines around the current one."""
        self.say(self.frame.text(_CONTEXT).rstrip())

    def do_where(self, _: str) -> None:
        """w(here), bt: show the frames, the innermost last."""
        for i, frame in reversed(list(enumerate(self.frames))):
            self.say(f"{'>' if i == self.at else ' '} {frame.place()}")

    def do_up(self, _: str) -> None:
        """u(p): go to the frame that called this one."""
        self._go(self.at + 1)

    def do_down(self, _: str) -> None:
        """d(own): go to the frame that this one called."""
        self._go(self.at - 1)

    def _go(self, at: int) -> None:
        if 0 <= at < len(self.frames):
            self.at = at
            self.say(self.frame.place())
        else:
            self.say("There is no frame beyond.")

    def do_continue(self, _: str) -> bool:
        """c(ontinue): go on with the program."""
        return True

    def do_quit(self, _: str) -> None:
        """q(uit): end the program."""
        raise bdb.BdbQuit("ended at a breakpoint")

    do_l, do_w, do_bt, do_u, do_d = do_list, do_where, do_where, do_up, do_down
    do_c, do_cont, do_q, do_exit = do_continue, do_continue, do_quit, do_quit
