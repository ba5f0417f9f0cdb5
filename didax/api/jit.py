"""`jit`: stage a function once per signature, compile it, run the compiled program from then on.

A call flattens its arguments and looks up (structure, types, static values, options) among the programs it has; the
hot path is that lookup and the run. Under another transformation the call stays a call: a `jit_p` equation with the
staged jaxpr. Read next: `didax/compiled.py` (running), `primitives/call.py` (transforming), `stages.py` (trace, lower,
compile).
"""

from __future__ import annotations

import functools
import inspect
import logging
import types
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload
from weakref import WeakKeyDictionary, WeakSet

from didax.api.flat import (
    FlatFunction,
    argument_names,
    check_callable,
    flatten_arguments,
    leaf_avals,
    positional_names,
)
from didax.api.stages import Lowered, Traced
from didax.array import ConcreteArray, as_concrete, with_keys
from didax.compiled import KeyFlow, Program, argument_buffers
from didax.core import config, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import (
    KeyReuseError,
    KeyReuseWarning,
    api_boundary,
    message,
    strip_internal_frames,
)
from didax.core.jaxpr import Jaxpr
from didax.core.source import describe_function, user_line
from didax.core.tracing import Tracer, current_trace_var, eager_trace
from didax.primitives.call import jit_p
from didax.transforms.batching import axis_env
from didax.transforms.key_reuse import is_on as key_reuse_is_on
from didax.transforms.key_reuse import summarise
from didax.transforms.staging import trace_to_jaxpr

P = ParamSpec("P")
R = TypeVar("R")
logger = logging.getLogger("didax")


class Staged:
    """A function staged for one signature: its jaxpr, captured values, result structure, and compiled program."""

    __slots__ = ("consts", "jaxpr", "out_tree", "program", "single")

    def __init__(
        self,
        jaxpr: Jaxpr,
        consts: list[Any],
        out_tree: Any,
        donated: Sequence[bool],
        options: Any,
        keep_unused: bool,
    ):
        self.jaxpr = jaxpr
        self.consts = [x if isinstance(x, Tracer) else as_concrete(x) for x in consts]
        self.out_tree = out_tree
        self.single = out_tree == pytree.structure(0)
        self.program = (
            None
            if self.captures_tracers
            else Program(jaxpr, self.consts, donated, options, keep_unused=keep_unused)
        )

    @property
    def captures_tracers(self) -> bool:
        """True when the function closed over values of an enclosing transformation: valid for this call only."""
        return any(isinstance(x, Tracer) for x in self.consts)

    def result(self, outs: Sequence[Any]) -> Any:
        """Results in the function's own structure."""
        return outs[0] if self.single else pytree.unflatten(self.out_tree, outs)


class Ready(NamedTuple):
    """All that a call of a known signature needs: the hot path of jit."""

    execute: Any
    handlers: Any
    avals: Any  # of all results, or of the only one
    staged: Staged | None  # None: the result is a single array
    state: config.State
    captured: list[Any]
    kept: list[int] | None  # the arguments that results depend on; None: all
    key_flow: KeyFlow | None  # what it does to random keys; None where it gets none


class JitFunction(Generic[P, R]):
    """A function that runs compiled; made by `jit`."""

    def __init__(
        self,
        fun: Callable[P, R],
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
        donate_argnums: Sequence[int],
        donate_argnames: Sequence[str],
        compiler_options: dict[str, Any] | None,
        keep_unused: bool,
    ):
        functools.update_wrapper(self, fun, updated=())
        # Its own attributes, of which none may hide a method of ours.
        attributes: dict[str, Any] = getattr(fun, "__dict__", {})
        vars(self).update(
            {k: v for k, v in attributes.items() if not hasattr(JitFunction, k) and k != "__wrapped__"}
        )
        self._fun = fun
        self._static_argnums = tuple(static_argnums)
        self._static_argnames = frozenset(static_argnames)
        self._has_static = bool(static_argnums or static_argnames)
        self._donate_argnums = frozenset(donate_argnums)
        self._donate_argnames = frozenset(donate_argnames)
        self._options = compiler_options
        self._keep_unused = keep_unused
        self._programs = _programs_of(fun, (self._static_argnums, self._static_argnames,
                                               self._donate_argnums, self._donate_argnames, keep_unused,
                                               repr(sorted((compiler_options or {}).items()))))  # fmt: skip

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if current_trace_var.get() is eager_trace and not self._has_static:
            # The hot path: a signature seen before. Anything else, and any error, goes the long way, which explains.
            try:
                if len(args) == 1 and type(x := args[0]) is ConcreteArray and not kwargs:
                    leaves = args
                    entry = self._programs.ready.get(x.aval)
                    buffers = [x.device_buffer() if (buffer := x._buffer) is None else buffer]  # pyright: ignore[reportPrivateUsage]
                else:
                    leaves, tree = pytree.flatten((args, kwargs))
                    key = tree, tuple([x.aval if type(x) is ConcreteArray else aval_of(x) for x in leaves])
                    entry = self._programs.ready.get(key)
                    needed = leaves
                    if entry is not None and entry.kept is not None:
                        needed = [leaves[i] for i in entry.kept]
                    buffers = argument_buffers(needed) if entry is not None else []
                if entry is not None and entry.state is config.state():
                    execute, handlers, avals, staged, _, captured, _, key_flow = entry
                    outs = execute(captured + buffers if captured else buffers).consume_with_handlers(
                        handlers, False
                    )
                    if staged is None:
                        return ConcreteArray(avals, None, outs[0])  # pyright: ignore[reportReturnType]
                    arrays = map(ConcreteArray, avals, repeat(None), outs)
                    if key_flow is not None:
                        keys = key_flow.note(leaves, user_line())
                        return staged.result(list(arrays if keys is None else map(with_keys, arrays, keys)))
                    return pytree.unflatten(staged.out_tree, arrays)
            except (KeyReuseError, KeyReuseWarning) as error:
                strip_internal_frames(error)
                raise
            except Exception:
                pass
        try:
            return self._call(args, kwargs)
        except Exception as error:
            strip_internal_frames(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        static: tuple[Any, ...] = ()
        dynamic: tuple[Any, ...] = args
        named: dict[str, Any] = kwargs
        if self._has_static:
            dynamic, named, static = self._split_static(args, kwargs)
        leaves, tree = flatten_arguments(dynamic, named)
        try:
            avals = tuple([aval_of(x) for x in leaves])
        except TypeError:
            leaf_avals("jit", self._fun, _with_gaps(dynamic, static), named)  # raises, naming the argument
            raise
        state = config.state()
        if state.disable_jit:
            return self._fun(*args, **kwargs)
        eager = current_trace_var.get() is eager_trace
        staged = self._programs.staged.get((tree, state, avals, static, ())) if eager else None
        if staged is None:
            staged = self.stage(dynamic, named, static, tree, avals)
        if not eager or staged.program is None:
            return staged.result(jit_p.bind(*staged.consts, *leaves, jaxpr=staged.jaxpr))
        outs = staged.program.run(leaves)
        if not self._has_static:
            plain = len(args) == 1 and not kwargs and type(args[0]) is ConcreteArray
            if plain and staged.program.kept is not None:
                return staged.result(outs)  # a function of nothing: not worth a look on the hot path
            self._make_ready(staged, state, avals[0] if plain else (tree, avals))
        return staged.result(outs)

    def ready_for(self, aval: ShapedArray) -> Ready | None:
        """All that is left of a call with one array of this type for one result; None where there is more."""
        entry = self._programs.ready.get(aval)
        return entry if entry is not None and entry.staged is None and not entry.captured else None

    def _make_ready(self, staged: Staged, state: config.State, key: Any) -> None:
        """Let calls of this signature take the hot path from now on, where nothing but the run is left to do."""
        entry = staged.program.direct() if staged.program is not None else None
        if entry is not None:
            execute, handlers, avals, captured, kept = entry
            key_flow = staged.program.key_flow if staged.program is not None and key_reuse_is_on() else None
            self._programs.ready[key] = (
                Ready(execute, handlers, avals[0], None, state, captured, kept, None)
                if staged.single and key_flow is None
                else Ready(execute, handlers, avals, staged, state, captured, kept, key_flow)
            )

    def stage(
        self, args: Sequence[Any], kwargs: dict[str, Any], static: Any, tree: Any, avals: Any
    ) -> Staged:
        """The staged function for a signature, from the cache or by tracing."""
        key = (tree, config.state(), avals, static, tuple(axis_env.get().items()))
        staged = self._programs.staged.get(key)
        if staged is None:
            args = _with_gaps(args, static)
            if config.state().explain_cache_misses:
                logger.warning(self._explain_miss(key, args, kwargs))
            flat = FlatFunction(self._with_static(static), tree, "jit")
            jaxpr, consts = trace_to_jaxpr(
                flat, avals, function=self._fun, arg_names=argument_names(self._fun, args, kwargs)
            )
            if key_reuse_is_on():
                summarise(jaxpr)  # which reports the keys that the function itself uses twice
            donated = self._donated(args, kwargs)
            staged = Staged(jaxpr, consts, flat.out_tree, donated, self._options, self._keep_unused)
            if not staged.captures_tracers:
                self._programs.staged[key] = staged
        return staged

    def _explain_miss(self, key: tuple[Any, ...], args: Any, kwargs: Any) -> str:
        head = f"{describe_function(self._fun)} is traced"
        if not self._programs.staged:
            return f"{head}: this is its first call."
        tree, state, avals, static, axes = min(self._programs.staged, key=lambda old: _distance(old, key))
        names = argument_names(self._fun, args, kwargs)
        if tree != key[0]:
            return f"{head}: the structure of its arguments changed.\n  before: {tree}\n  now: {key[0]}"
        reasons = [
            f"{name} was {old}{_weak(old)}, now is {new}{_weak(new)}"
            for name, old, new in zip(names, avals, key[2], strict=True)
            if old is not new
        ]
        if static != key[3]:
            reasons.append(f"static arguments were {static}, now are {key[3]}")
        if state is not key[1]:
            reasons.append("options changed")
        if axes != key[4]:
            reasons.append(f"mapped axes were {dict(axes)}, now are {dict(key[4])}")
        return "\n  ".join([f"{head} again:", *reasons])

    def _split_static(self, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any], tuple[Any, ...]]:
        """Positional and keyword arguments that are data, and a key for those that are static."""
        count = len(args)
        numbers = self._static_argnums if args else ()
        positions = {i % count if -count <= i < 0 else i for i in numbers}
        names = positional_names(self._fun, count)
        positions |= {i for i, name in enumerate(names) if name in self._static_argnames}
        static: list[tuple[int | str, Any]] = [(i, args[i]) for i in sorted(positions) if i < count]
        static += [
            (name, kwargs[name])
            for name in sorted(kwargs)
            if name in self._static_argnames or self._is_static_position(name)
        ]
        for where, value in static:
            self._check_hashable(names[where] if isinstance(where, int) else where, value)
        dynamic = tuple(x for i, x in enumerate(args) if i not in positions)
        taken = {where for where, _ in static}
        key: tuple[Any, ...] = tuple((where, type(value), value) for where, value in static)
        return dynamic, {k: v for k, v in kwargs.items() if k not in taken}, key

    def _is_static_position(self, name: str) -> bool:
        if not self._static_argnums:
            return False
        names = positional_names(self._fun, max(self._static_argnums) + 1)
        return any(0 <= i < len(names) and names[i] == name for i in self._static_argnums)

    def _check_hashable(self, name: str, value: Any) -> None:
        try:
            hash(value)
        except TypeError:
            fix = "Pass a hashable value (a tuple instead of a list), or do not mark the argument static."
            if hasattr(value, "dtype"):
                fix = "Arrays are data: do not mark the argument static."
            raise TypeError(
                message(
                    "Static arguments of jit must be hashable: they are part of the compilation cache's key.",
                    f"argument {name}: {value!r:.100} of type {type(value).__name__}",
                    fix=fix,
                )
            ) from None

    def _with_static(self, static: tuple[Any, ...]) -> Callable[..., Any]:
        """The function with its static arguments put back in their places."""
        if not static:
            return self._fun
        fixed = sorted((where, value) for where, _, value in static if isinstance(where, int))
        named = {where: value for where, _, value in static if not isinstance(where, int)}

        fun: Callable[..., Any] = self._fun

        def with_static(*args: Any, **kwargs: Any) -> Any:
            full = list(args)
            for position, value in fixed:
                full.insert(position, value)
            return fun(*full, **kwargs, **named)

        return with_static

    def _donated(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[bool]:
        """Which leaves are donated."""
        if not (self._donate_argnums or self._donate_argnames):
            return []
        names = positional_names(self._fun, len(args))
        count = len(args)
        numbers = {i + count if i < 0 else i for i in self._donate_argnums}
        donated: list[bool] = []
        for i, arg in enumerate(args):
            gift = i in numbers or names[i] in self._donate_argnames
            donated += [gift] * len(pytree.leaves(arg))
        for name in sorted(kwargs):
            donated += [name in self._donate_argnames] * len(pytree.leaves(kwargs[name]))
        return donated

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {describe_function(self._fun)}>"

    def _staged_for(self, args: Any, kwargs: Any) -> tuple[Staged, Any, tuple[ShapedArray, ...]]:
        dynamic, named, static = self._split_static(args, kwargs) if self._has_static else (args, kwargs, ())
        _, tree = pytree.flatten((dynamic, named))
        avals = tuple(leaf_avals("jit", self._fun, _with_gaps(dynamic, static), named))
        return self.stage(dynamic, named, static, tree, avals), tree, avals

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced:
        """Stage for these arguments (arrays or `ShapeDtypeStruct`s) without running: `.jaxpr`, `.lower()`."""
        staged, tree, _ = self._staged_for(args, kwargs)
        # Partials and callable objects have no name.
        name = getattr(self, "__name__", type(self._fun).__name__)
        return Traced(name, staged.jaxpr, staged.consts, tree, staged.out_tree, staged.program)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stage and lower for these arguments: `.as_text()`, `.compile()`."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Shapes and dtypes of the results, without computing them."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget every program of this function."""
        self._programs.clear()


def _with_gaps(args: Sequence[Any], static: Sequence[tuple[Any, Any, Any]]) -> Sequence[Any]:
    """Positional arguments with None, which has no leaves, in the places of static ones: each at its own position."""
    if not static:
        return args
    full = list(args)
    for position in sorted(where for where, _, _ in static if isinstance(where, int)):
        full.insert(position, None)
    return full


def _distance(old: tuple[Any, ...], new: tuple[Any, ...]) -> int:
    if old[0] != new[0]:
        return 1_000_000
    changed = sum(a is not b for a, b in zip(old[2], new[2], strict=True))
    return changed + sum(a != b for a, b in zip(old[3], new[3], strict=False)) + (old[1] is not new[1])


def _weak(aval: ShapedArray) -> str:
    return " (weak type)" if aval.weak_type else ""


class Programs:
    """What is known of one function jitted in one way: programs by signature, and the ready ones of the hot path."""

    __slots__ = ("__weakref__", "ready", "staged")

    def __init__(self) -> None:
        self.staged: dict[Any, Staged] = {}
        self.ready: dict[Any, Ready] = {}
        _all_programs.add(self)

    def clear(self) -> None:
        """Forget every program."""
        self.staged.clear()
        self.ready.clear()


_all_programs: WeakSet[Programs] = WeakSet()
# Jitting one function twice in the same way shares the work, and dropping the function drops its programs.
_functions: WeakKeyDictionary[Any, dict[Any, Programs]] = WeakKeyDictionary()


def _programs_of(fun: Any, how: Any) -> Programs:
    try:
        ways = _functions.setdefault(fun, {})
    except TypeError:  # not hashable or not weakly referable: this wrapper keeps its own
        return Programs()
    found = ways.get(how)
    if found is None:
        found = ways[how] = Programs()
    return found


def clear_functions() -> None:
    """Forget the programs of every jitted function."""
    for programs in list(_all_programs):
        programs.clear()


@overload
def jit(
    fun: Callable[P, R],
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    compiler_options: dict[str, Any] | None = None,
    inline: bool = False,
    keep_unused: bool = False,
) -> JitFunction[P, R]: ...
@overload
def jit(
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    compiler_options: dict[str, Any] | None = None,
    inline: bool = False,
    keep_unused: bool = False,
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
@api_boundary
def jit(
    fun: Any = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    compiler_options: dict[str, Any] | None = None,
    inline: bool = False,
    keep_unused: bool = False,
) -> Any:
    """Compile `fun` with XLA: traced once per signature of its arguments, then run as a compiled program.

    Args:
      fun: function over arrays and pytrees of them; its side effects happen while tracing only.
      static_argnums, static_argnames: arguments that are not data but part of the program: hashable, and a new value
        means a new trace.
      donate_argnums, donate_argnames: arguments whose memory may be reused for results; they are gone afterwards.
      compiler_options: XLA debug options by name.
      inline: accepted for compatibility; calls are never inlined.
      keep_unused: hand the program also the arguments that no result depends on; by default they are left out.

    Without `fun` (`jit(static_argnums=1)`) it returns a decorator.

    >>> import didax as dx
    >>> f = dx.jit(lambda x: x * 2 + 1)
    >>> float(f(3.0))
    7.0
    """
    if fun is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            compiler_options=compiler_options,
            inline=inline,
            keep_unused=keep_unused,
        )
    check_callable("jit", fun)
    static = _ints(static_argnums), _strings(static_argnames)
    donated = _ints(donate_argnums), _strings(donate_argnames)
    for option, (numbers, names) in (("static", static), ("donate", donated)):
        if numbers or names:
            _check_arguments_exist(fun, option, numbers, names)
    return JitFunction(fun, *static, *donated, compiler_options, keep_unused)


def _check_arguments_exist(fun: Any, option: str, numbers: Sequence[int], names: Sequence[str]) -> None:
    """ValueError for a number or a name that no argument of the function has."""
    try:
        parameters = inspect.signature(fun).parameters
    except (TypeError, ValueError):  # written in C: nothing is known
        return
    kinds = [p.kind for p in parameters.values()]
    count = sum(
        kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds
    )
    wrong: list[Any] = []
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        wrong += [i for i in numbers if not -count <= i < count]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        wrong += [name for name in names if name not in parameters]
    if wrong:
        raise ValueError(
            message(
                f"{option}_argnums and {option}_argnames of jit must name arguments of the function.",
                f"not arguments: {', '.join(map(repr, wrong))}",
                f"function: {describe_function(fun)}, arguments: {', '.join(parameters) or 'none'}",
                fix="Number positional arguments from 0, or use their names.",
            )
        )


def _ints(x: int | Sequence[int] | None) -> tuple[int, ...]:
    return () if x is None else (x,) if isinstance(x, int) else tuple(x)


def _strings(x: str | Iterable[str] | None) -> tuple[str, ...]:
    return () if x is None else (x,) if isinstance(x, str) else tuple(x)
