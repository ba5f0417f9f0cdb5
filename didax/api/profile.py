"""`profile`: where the time of a call goes, by the user's lines and named scopes.

The function is called a first time, which traces and compiles, and then again and again under XLA's profiler, which
tells when each instruction of the compiled programs ran. Operations that are evaluated eagerly are marked in the
profile, with their lines.
Read next: `profile_analysis.py` (from there to lines), `profile_report.py` (tables, pictures, files).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any

from didax.api.devices import block_until_ready
from didax.api.flat import check_callable
from didax.api.jit import JitFunction
from didax.api.profile_analysis import CALL, EAGER, Analysis, Span, union
from didax.api.profile_report import FirstCall, Profile
from didax.core import config, monitoring, pytree
from didax.core.dims import is_count
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.primitive import Primitive
from didax.core.source import function_name, user_line
from didax.passes.key_reuse import holds_keys
from didax.primitives.keys import random_clone_p
from didax.runtime.array import ConcreteArray
from didax.xla.profiling import WAIT, TraceMe, measure

_ENOUGH = 0.3  # seconds of calls
_MOST, _FEWEST = 100, 3  # calls


@api_boundary
def profile(fun: Callable[..., Any], *args: Any, runs: int | None = None, **kwargs: Any) -> Profile:
    """Call `fun(*args, **kwargs)`, and return where the time of a call goes: by line, by named scope, by operation.

    Args:
      fun: a function, called as it is: pass `jit(f)` to profile the compiled program of f. Operations that `fun`
        evaluates eagerly are measured one by one, each until its result is there.
      runs: how many calls are measured, after a first one, which traces and compiles. By default as many as fit into
        0.3 seconds, at least 3. With `runs=0` the first call is the only one, and is what is measured: for functions
        that must not be called twice.

    The result prints as tables, and shows itself in notebooks with a flame picture; `lines`, `scopes`, `operations`
    and `times` are for programs, `flame()` is the picture, and `save(path)` writes it, or a trace for Perfetto.

    Where XLA fuses operations of several lines, their time is shared in proportion to their arithmetic; where several
    operations run at once, they share the time. Arrays that a jitted `fun` donates are copied before each call. Raises
    RuntimeError while another profile runs, and ValueError for `runs` below 0.

    >>> import didax as dx, didax.numpy as dnp
    >>> found = dx.profile(dx.jit(lambda x: dnp.tanh(x @ x)), dnp.ones((64, 64)), runs=2)
    >>> found.runs, len(found.lines), {operation.name for operation in found.operations} >= {"dot_general"}
    (2, 1, True)
    """
    check_callable("profile", fun)
    if runs is not None and not is_count(runs, least=0):
        rule = "runs of profile is how many calls are measured."
        raise ArgumentError(message(rule, f"runs: {runs!r}", fix="Pass 0 or more, or leave it out."))
    call = _Calls(fun, args, kwargs)
    first = None if runs == 0 else _first_call(call)
    spans: list[Span] = []
    with _listening(spans), _marking(), measure() as found:
        count = _call_often(call, runs)
    return Analysis(found[0], spans).profile(function_name(fun), count, first)


class _Calls:
    """A function with its arguments, called as often as one likes."""

    def __init__(self, fun: Callable[..., Any], args: Any, kwargs: Any):
        self._fun, self._arguments = fun, (args, kwargs)
        self._copies = isinstance(fun, JitFunction) and bool(fun._donated)  # pyright: ignore[reportPrivateUsage]

    def __call__(self) -> None:
        args, kwargs = pytree.map(self._for_a_call, self._arguments)
        block_until_ready((args, kwargs))
        with TraceMe(CALL):
            results = self._fun(*args, **kwargs)
            with TraceMe(WAIT):
                block_until_ready(results)

    def _for_a_call(self, x: Any) -> Any:
        if not isinstance(x, ConcreteArray):
            return x
        if holds_keys(x.aval):
            return random_clone_p.bind(x)  # that every call uses the same key is meant
        return x.copy() if self._copies else x


def _call_often(call: _Calls, runs: int | None) -> int:
    """Call as often as asked for, at least once, and say how often that was."""
    started, count = time.perf_counter(), 0
    while True:
        call()
        count += 1
        spent = time.perf_counter() - started
        if count >= (_MOST if runs is None else runs):
            return count
        if runs is None and ((spent > _ENOUGH and count >= _FEWEST) or spent > 10 * _ENOUGH):
            return count


_KINDS = {
    monitoring.TRACED: "tracing",
    monitoring.LOWERED: "lowering",
    monitoring.COMPILED: "compiling",
}


@contextlib.contextmanager
def _listening(spans: list[Span]) -> Generator[None]:
    """A block in which tracing, lowering and compiling are noted."""

    def listen(event: str, start: float, end: float, **details: Any) -> None:
        if event in _KINDS:
            spans.append(Span(_KINDS[event], start, end, str(details.get("fun_name", ""))))

    monitoring.spans.register(listen)
    try:
        yield
    finally:
        monitoring.spans.unregister(listen)


def _first_call(call: _Calls) -> FirstCall:
    spans: list[Span] = []
    with _listening(spans):
        started = time.perf_counter()
        call()
        seconds = time.perf_counter() - started
    taken = [union([(s.start, s.end) for s in spans if s.kind == kind]) for kind in _KINDS.values()]
    return FirstCall(seconds, *taken)


@contextlib.contextmanager
def _marking() -> Generator[None]:
    """A block in which eager operations are marked in the profile, by their lines."""

    def mark(primitive: Primitive) -> Any:
        line = user_line()
        if line is None:
            return TraceMe(EAGER, operation=primitive.name)
        place = {"file": line.file, "line": line.line, "function": line.function, "scope": line.scope}
        return TraceMe(EAGER, operation=primitive.name, backward=int(line.backward), **place)

    config.mark_operations(mark)
    try:
        yield
    finally:
        config.mark_operations(None)
