"""`debug.progress`: a loop that shows from within the compiled program how far it is.

The loop's body counts its steps and, at every so many, calls the bar on the host by a debug callback, so the bar moves
while the program runs, under every transformation. The calls under `vmap` would be one for each element; a batching
rule makes them one, of the element that has come farthest. Their effect is of a kind of its own (`REPORT`), for which
loops over a batch stay loops over the whole batch. Read next: `docs/windows.md`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import shutil
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from didax import lax
from didax.api.callbacks import report
from didax.api.custom import custom_vmap
from didax.core import pytree
from didax.core.avals import aval_of
from didax.core.dims import is_count
from didax.core.errors import ArgumentError, api_boundary, message, without_idle
from didax.core.tracing import known_value
from didax.numpy import arange, int32, maximum

P = ParamSpec("P")
R = TypeVar("R")


@api_boundary
def progress(
    loop: Callable[P, R], *, title: str | None = None, every: int | None = None, enabled: bool | None = None
) -> Callable[P, R]:
    """Return `loop` with a progress bar on stderr: `lax.scan`, `lax.fori_loop` or `lax.while_loop`.

    Args:
      loop: one of these three, or a `functools.partial` of one. The result takes the same arguments.
      title: what stands before the bar; by default the name of the loop.
      every: how many steps are from one report to the next. By default a hundredth of the steps, and 100 steps of
        a `while_loop`, the end of which is not known.
      enabled: whether there is a bar. By default there is one where stderr is a terminal or a notebook's cell
        while the program is traced. Without it the program is that of the plain loop.

    The bar works in eager code, under jit, vmap (one bar for all elements), grad (it shows the forward pass) and
    inside of other loops with bars, which share its line. Each step then takes up to a microsecond more, and a report,
    which calls Python, some ten; steps of a loop with a bar are not merged with each other, so loops of very small
    steps become slower. Raises TypeError for another loop, ValueError for `every`
    below 1.

    >>> import didax as dx
    >>> scan = dx.debug.progress(dx.lax.scan, title="sum", enabled=False)
    >>> float(scan(lambda c, x: (c + x, None), 0.0, dx.numpy.arange(4.0))[0])
    6.0
    """
    base, args, kwargs = _unwrapped(loop)
    count = _checked_every(every)
    if enabled is False:
        return loop
    with_bar = _WITH_BAR[base]
    bars = _Bars(base.__name__ if title is None else str(title))

    @functools.wraps(base)
    def shown(*rest: Any, **named: Any) -> Any:
        if enabled is None and not _is_watched():
            return loop(*rest, **named)
        try:
            bound = _signature(base).bind(
                *args, *rest, **{**kwargs, **without_idle(inspect.unwrap(base), named)}
            )
        except TypeError:  # the loop itself says what is missing
            return loop(*rest, **named)
        return with_bar(base, bound, _Reports(bars.within(_enclosing.get()), count))

    return shown  # pyright: ignore[reportReturnType]


def _unwrapped(loop: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The function of `lax`, with the arguments that partials of it hold."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    base = loop
    while isinstance(base, functools.partial):
        args, kwargs = (*base.args, *args), {**base.keywords, **kwargs}
        base = base.func
    if base not in _WITH_BAR:
        rule = "debug.progress takes one of lax.scan, lax.fori_loop and lax.while_loop."
        fix = "Write debug.progress(lax.scan)(f, init, xs); a map is a scan without a carry."
        raise TypeError(message(rule, f"loop: {loop!r:.100}", fix=fix))
    return base, args, kwargs


def _checked_every(every: Any) -> int | None:
    if every is None:
        return None
    if not is_count(every):
        rule = "every of debug.progress is how many steps are from one report to the next."
        raise ArgumentError(
            message(rule, f"every: {every!r:.100}", fix="Pass an integer, 1 or more, or leave it out.")
        )
    return operator.index(every)


@functools.cache
def _signature(base: Any) -> inspect.Signature:
    return inspect.signature(base)


def _is_watched() -> bool:
    """Whether stderr is a terminal, or the output of a notebook's cell, which a line is written over in likewise."""
    if type(sys.stderr).__module__ == "ipykernel.iostream":
        return True
    with contextlib.suppress(AttributeError, ValueError):  # there is no stderr, or it is closed
        return sys.stderr.isatty()
    return False


# --- The loops, with reports in their bodies --------------------------------------------------------------------------


class _Reports:
    """The reports of one loop: `started` before it, `step` in its body, `ended` after it."""

    def __init__(self, bar: _Bar, every: int | None):
        self._bar = bar
        self._every = every

    def started(self, total: Any) -> None:
        _call_once(self._bar.start, 0, total)

    def step(self, done: Any, total: Any) -> None:
        """Report that `done` steps are done, if it is time to."""
        every = self._every
        if every is None:
            known = None if total is None else known_value(total)
            every = _A_WHILE if total is None else maximum(1, total // _PARTS)
            every = every if known is None else max(1, int(known) // _PARTS)
        _call_once(self._bar.move, done, total, every)

    def ended(self, done: Any, total: Any) -> None:
        _call_once(self._bar.end, done, total)

    @contextlib.contextmanager
    def body(self) -> Iterator[None]:
        """The body of the loop is traced here: bars of loops in it stand beside this one."""
        token = _enclosing.set(self._bar)
        try:
            yield
        finally:
            _enclosing.reset(token)


_PARTS = 100
_A_WHILE = 100


def _call_once(callback: Callable[..., None], done: Any, total: Any, every: Any = None) -> None:
    """Call back with how many steps are done and how many there are, where `done` is a multiple of `every`."""

    def call(done: Any, total: Any, every: Any) -> None:
        if every is None:
            return report(callback, done, total)
        return lax.cond(done % every == 0, lambda: report(callback, done, total), lambda: None)

    once = custom_vmap(call)

    @once.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[None, None]:  # pyright: ignore[reportUnusedFunction]
        farthest = [
            pytree.map(lambda x, batched: x.max(axis=0, initial=0) if batched else x, x, batched)
            for x, batched in zip(args, in_batched, strict=True)
        ]
        once(*farthest)
        return None, None

    once(done, total, every)


def _scan(scan: Any, bound: inspect.BoundArguments, reports: _Reports) -> Any:
    given = bound.arguments
    f, xs, length = given["f"], given.get("xs"), given.get("length")
    leaves = pytree.leaves(xs)
    with contextlib.suppress(AttributeError, IndexError, TypeError):  # which the loop itself complains about
        total = operator.index(leaves[0].shape[0] if length is None else length)
        if callable(f) and total > 0 and all([x.shape[0] == total for x in leaves]):
            steps = arange(1, total + 1, dtype=int32)
            given["xs"] = (xs, steps[::-1] if given.get("reverse") else steps)
            given["f"] = _with_report(f, reports, lambda carry, pair: (pair[1], total, (carry, pair[0])))
            reports.started(total)
            result = scan(*bound.args, **bound.kwargs)
            reports.ended(total, total)
            return result
    return scan(*bound.args, **bound.kwargs)


def _fori_loop(fori_loop: Any, bound: inspect.BoundArguments, reports: _Reports) -> Any:
    given = bound.arguments
    lower, upper, body = given["lower"], given["upper"], given["body_fun"]
    if not callable(body):
        return fori_loop(*bound.args, **bound.kwargs)
    total = _difference(lower, upper)
    given["body_fun"] = _with_report(body, reports, lambda i, x: (_difference(lower, i) + 1, total, (i, x)))
    reports.started(total)
    result = fori_loop(*bound.args, **bound.kwargs)
    reports.ended(total, total)
    return result


def _difference(lower: Any, upper: Any) -> Any:
    """How many steps are from one value of the counter to another: a Python integer where both are known."""
    first, last = known_value(lower), known_value(upper)
    if first is not None and last is not None:
        return max(0, int(last) - int(first))
    wide = [
        x if aval_of(x).dtype.itemsize >= 4 else lax.convert_element_type(x, int32) for x in (lower, upper)
    ]
    return maximum(0, wide[1] - wide[0])


def _while_loop(while_loop: Any, bound: inspect.BoundArguments, reports: _Reports) -> Any:
    given = bound.arguments
    condition, body = given["cond_fun"], given["body_fun"]
    if not callable(condition) or not callable(body):
        return while_loop(*bound.args, **bound.kwargs)

    @functools.wraps(body)
    def counted(pair: Any) -> Any:
        x, done = pair
        with reports.body():
            x = body(x)
        reports.step(done + 1, None)
        return x, done + 1

    given["cond_fun"] = functools.wraps(condition)(lambda pair: condition(pair[0]))
    given["body_fun"], given["init_val"] = counted, (given["init_val"], int32(0))
    reports.started(None)
    result, done = while_loop(*bound.args, **bound.kwargs)
    reports.ended(done, None)
    return result


def _with_report(f: Any, reports: _Reports, split: Callable[..., Any]) -> Any:
    """The body `f` with a report; `split` finds the steps done, the total, and what `f` is given."""

    @functools.wraps(f)
    def body(*args: Any) -> Any:
        done, total, own = split(*args)
        with reports.body():
            result = f(*own)
        reports.step(done, total)
        return result

    return body


_WITH_BAR: dict[Any, Callable[[Any, inspect.BoundArguments, _Reports], Any]] = {
    lax.scan: _scan,
    lax.fori_loop: _fori_loop,
    lax.while_loop: _while_loop,
}


# --- What is drawn --------------------------------------------------------------------------------


class _Bars:
    """The bars of one function that `progress` made: one for each loop around it, and one that stands alone.

    A loop that is traced again gets the same bar, and so is the same program.
    """

    def __init__(self, title: str):
        self._title = title
        self._alone = _Bar(title, None)

    def within(self, parent: _Bar | None) -> _Bar:
        if parent is None:
            return self._alone
        return parent.inside.setdefault(self, _Bar(self._title, parent))


class _Bar:
    """A bar on the line of stderr; the bars of the loops around it stand before it."""

    def __init__(self, title: str, parent: _Bar | None):
        self._title = title
        self._began = time.monotonic()
        self._drawn = 0.0
        self._parent = parent
        self.inside: weakref.WeakKeyDictionary[_Bars, _Bar] = weakref.WeakKeyDictionary()
        self.text = title
        # One object each, as programs with the same callbacks are the same program.
        self.start, self.move, self.end = self._start, self._move, self._end

    def _start(self, done: Any, total: Any) -> None:
        self._began = time.monotonic()
        self._draw(0, total)

    def _move(self, done: Any, total: Any) -> None:
        if time.monotonic() - self._drawn >= _BETWEEN:
            self._draw(int(done), total)

    def _end(self, done: Any, total: Any) -> None:
        self._draw(int(done), total, end="\n" if self._parent is None else "")

    def _draw(self, done: int, total: Any, end: str = "") -> None:
        self._drawn = time.monotonic()
        self.text = described(
            self._title, done, None if total is None else int(total), self._drawn - self._began
        )
        _write(" | ".join(self._texts()), end)

    def _texts(self) -> list[str]:
        above = [] if self._parent is None else self._parent._texts()
        return [*above, self.text]


def described(title: str, done: int, total: int | None, seconds: float) -> str:
    """A bar as text.

    >>> described("train", 250, 1000, 3.0)
    'train [#####...............] 250/1,000, 3 s, 9 s left'
    >>> described("search", 1200, None, 75.0)
    'search 1,200 steps, 1:15 min, 16 steps/s'
    """
    if total is None:
        rate = f", {done / seconds:,.0f} steps/s" if done and seconds >= 1 else ""
        return f"{title} {done:,} steps, {_duration(seconds)}{rate}"
    full = _WIDTH if total <= 0 else _WIDTH * min(done, total) // total
    left = f", {_duration(seconds * (total - done) / done)} left" if 0 < done < total else ""
    return f"{title} [{'#' * full}{'.' * (_WIDTH - full)}] {done:,}/{total:,}, {_duration(seconds)}{left}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def _write(text: str, end: str) -> None:
    """Write over the line; what cannot be written is no reason to end a program."""
    global _width
    with _lock, contextlib.suppress(AttributeError, OSError, ValueError):
        text = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + text.ljust(_width) + end)
        sys.stderr.flush()
        _width = 0 if end else len(text)


_WIDTH = 20
_BETWEEN = 0.1  # seconds
_lock = threading.Lock()
_width = 0  # of what is written on the line
_enclosing: ContextVar[_Bar | None] = ContextVar("didax_progress", default=None)
