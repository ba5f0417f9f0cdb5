"""`jit`: stage a function once per signature, compile it, run the compiled program from then on.

A call flattens its arguments and looks up (structure, types, static values, options) among the programs it has; the
hot path is that lookup and the run. Under another transformation the call stays a call: a `jit_p` equation with the
staged jaxpr.
Read next: `runtime/compiled.py` (running), `primitives/call.py` (transforming), `stages.py` (trace, lower, compile).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import sys
import threading
import types
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload
from weakref import WeakKeyDictionary, WeakSet

from didax.api.flat import (
    FlatFunction,
    argument_names,
    check_callable,
    flatten_arguments,
    positional_names,
)
from didax.api.refs import RefArguments, borrowed, check_not_captured, leaf_types, store
from didax.api.stages import Lowered, Traced
from didax.api.static import StaticArguments, as_names, as_numbers, check_arguments_exist, with_gaps
from didax.core import config, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, strip_internal_frames
from didax.core.primitive import current_trace_var, eager_trace
from didax.core.process import after_fork, lock_for_forks
from didax.core.ref import Ref, RefType, ref_type
from didax.core.source import describe_function, user_line
from didax.core.tracing import Tracer
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.passes.key_reuse import summarise
from didax.primitives.call import jit_p
from didax.runtime.array import ConcreteArray, argument_buffer, as_concrete, with_keys
from didax.runtime.compiled import KeyFlow, Program, with_checks
from didax.transforms.batching import axis_env
from didax.transforms.staging import StagedProgram, stage_program, values_of

if TYPE_CHECKING:
    from didax.xla.compile import Executable

P = ParamSpec("P")
R = TypeVar("R")
logger = logging.getLogger("didax")


class Staged:
    """A function staged for one signature: its jaxpr, captured values, result structure, and compiled program."""

    __slots__ = ("consts", "has_refs", "jaxpr", "out_tree", "program", "single", "written")

    def __init__(
        self,
        staged: StagedProgram,
        arguments: RefArguments,
        out_tree: Any,
        donated: Sequence[bool],
        options: Any,
        keep_unused: bool,
    ):
        self.jaxpr = staged.jaxpr
        self.consts = [x if isinstance(x, Tracer | Ref) else as_concrete(x) for x in staged.captured]
        self.out_tree = out_tree
        self.single = out_tree == pytree.structure(0)
        count = len(self.consts)
        refs = [i for i, x in enumerate(self.consts) if isinstance(x, Ref)]
        refs += [count + i for i in arguments.positions]
        self.has_refs = bool(refs)
        # Among all inputs, those that belong to Refs written to: their new values are the leading outputs.
        self.written = (*range(count - staged.num_written, count), *(count + i for i in arguments.written))
        if refs:
            gifts = [*[False] * count, *(donated or [False] * (len(self.jaxpr.invars) - count))]
            donated = [i in self.written if i in refs else gift for i, gift in enumerate(gifts)][
                self._fixed :
            ]
        self.program = (
            None
            if self.captures_tracers
            else Program(
                with_checks(self.jaxpr),
                self.consts[: self._fixed],
                donated,
                options,
                keep_unused=keep_unused,
                replaced=self.written,
            )
        )

    @property
    def _fixed(self) -> int:
        """How many of the captured values stay the same: Refs come last, and their values are arguments."""
        return sum(not isinstance(x, Ref) for x in self.consts)

    @property
    def captures_tracers(self) -> bool:
        """True when the function closed over values of an enclosing transformation: valid for this call only."""
        return any(not x.is_eager if isinstance(x, Ref) else isinstance(x, Tracer) for x in self.consts)

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Results for concrete arguments."""
        assert self.program is not None
        if not self.has_refs:
            return self.program.run(leaves)
        operands = [*self.consts, *leaves]
        replaced = [i for i in self.written if self.program.uses(i - self._fixed)]
        self.program.prepare([x.location().cell.value if isinstance(x, Ref) else x for x in operands])
        # Python that the program calls may want the Refs, from another thread: it waits for nobody, nor do they for it.
        alone = not self.program.calls_python
        with borrowed(operands, replaced, alone) as (values, cells):
            outs = self.program.run(values[self._fixed :])
            if not alone:
                outs = [y.block_until_ready() for y in outs]  # raises what that Python raised
            for i, y in zip(self.written, outs, strict=False):
                cast("Ref", operands[i]).store(cells[i], y, shared=False)
        return outs[len(self.written) :]

    def bind(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Results under the current trace, where the call stays one equation."""
        operands: list[Any] = [*self.consts, *leaves]
        refs = [operands[i] for i in self.written]
        return store(refs, jit_p.bind(*values_of(operands), jaxpr=self.jaxpr))

    def result(self, outs: Sequence[Any]) -> Any:
        """Results in the function's own structure."""
        return outs[0] if self.single else pytree.unflatten(self.out_tree, outs)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """All that a call with one array for one array needs: the hottest path of jit."""

    loaded: Any
    handlers: Any
    aval: ShapedArray
    state: config.State


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """All that any other call of a known signature needs: the hot path of jit."""

    executable: Executable
    staged: Staged
    state: config.State
    captured: list[Any]
    kept: list[int] | None  # the arguments that results depend on; None: all
    key_flow: KeyFlow | None  # what it does to random keys; None where it gets none


# Note [The hottest path]
# XLA runs a small program in 5 us, and JAX adds 1 us in C++. So what `__call__` does for one array comes down to few
# bytecodes: what is read every time is a slot; context variables are asked by bound methods made once, as Python 3.11
# would make one each time for `imported_name.get()`; XLA's functions are called as methods of their objects; the result
# is made without its `__init__`. A plain function instead of an object with `__call__` would save 0.2 us more, but
# `functools.wraps` would copy its `lower` and `trace` to functions that compute something else.

_ABSENT: Any = object()
_new_object = object.__new__
_get_current = current_trace_var.get
_get_overlay = config.overlay_var.get


class _Signature:
    """The signature of the function within, for `inspect`; classes have none, so that theirs is found as ever."""

    def __get__(self, instance: Any, owner: Any = None) -> inspect.Signature:
        if instance is None:
            raise AttributeError("__signature__")
        try:
            return inspect.signature(instance.__wrapped__)
        except (TypeError, ValueError):  # written in C
            raise AttributeError("__signature__") from None


class JitFunction(Generic[P, R]):
    """A function that runs compiled; made by `jit`."""

    __slots__ = ("__dict__", "__weakref__", "_direct", "_programs")
    __signature__ = _Signature()
    _direct: dict[ShapedArray, Direct]  # the programs' own
    _programs: Programs

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
        self._static = StaticArguments("jit", fun, static_argnums, static_argnames)
        self._has_static = bool(self._static)
        self._donate_argnums = frozenset(donate_argnums)
        self._donate_argnames = frozenset(donate_argnames)
        self._options = compiler_options
        self._keep_unused = keep_unused
        programs = _programs_of(fun, (self._static.numbers, self._static.names,
                                               self._donate_argnums, self._donate_argnames, keep_unused,
                                               repr(sorted((compiler_options or {}).items()))))  # fmt: skip
        self._programs, self._direct = programs, programs.direct

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, x=_ABSENT, /, *rest, **kwargs):
            # Signatures seen before. Anything else, and what XLA refuses, goes the long way, which explains.
            eager = _get_current() is eager_trace
            if eager and type(x) is ConcreteArray and not rest and not kwargs:
                direct = self._direct.get(x.aval)
                if direct is not None and direct.state is (
                    config.global_state if _get_overlay() is None else config.state()
                ):
                    try:
                        # See Note [The hottest path]
                        buffer = x._buffer
                        outs = direct.loaded.execute_sharded(
                            [x.device_buffer() if buffer is None else buffer]
                        ).consume_with_handlers(direct.handlers, False)
                        y = _new_object(ConcreteArray)
                        y.aval = direct.aval
                        y._value = None
                        y._buffer = outs[0]
                        y.committed = x.committed
                        return y
                    except Exception:
                        pass
            try:
                args = () if x is _ABSENT else (x, *rest)
                if eager and not self._has_static:
                    result = self._run_ready(args, kwargs)
                    if result is not _ABSENT:
                        return result
                return self._call(args, kwargs)
            except Exception as error:
                strip_internal_frames(error)
                raise

    def _run_ready(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Results for a signature seen before; `_ABSENT` for any other, and where the run fails.

        Only what has no effect but the run's is tried: Python of the user's, and reports of keys, come once.
        """
        leaves: Sequence[Any] = args
        tree: Any = None
        key: Any = tuple([x.aval for x in args if type(x) is ConcreteArray])
        if kwargs or len(key) < len(args):
            leaves, tree = flatten_arguments(args, kwargs)
        try:
            if tree is not None:
                key = tree, tuple([x.aval if type(x) is ConcreteArray else aval_of(x) for x in leaves])
            entry = self._programs.ready[key]
            if entry.state is not config.state():
                return _ABSENT
            committed = False
            buffers = entry.captured.copy()
            for x in leaves if entry.kept is None else [leaves[i] for i in entry.kept]:
                if type(x) is ConcreteArray:
                    buffer = x._buffer  # pyright: ignore[reportPrivateUsage]
                    buffers.append(x.device_buffer() if buffer is None else buffer)
                    committed = committed or x.committed
                elif isinstance(x, ConcreteArray):  # it lies on several devices
                    return _ABSENT
                else:
                    buffers.append(argument_buffer(x))
            outs = entry.executable.run(buffers)
        except Exception:
            return _ABSENT
        avals = entry.executable.out_avals
        if entry.key_flow is None and entry.staged.single:
            return ConcreteArray(avals[0], None, outs[0], committed)
        arrays = map(ConcreteArray, avals, repeat(None), outs, repeat(committed))
        if entry.key_flow is not None:
            keys = entry.key_flow.note(leaves, user_line())
            arrays = arrays if keys is None else map(with_keys, arrays, keys)
        return entry.staged.result(list(arrays))

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        static: tuple[Any, ...] = ()
        dynamic: tuple[Any, ...] = args
        named: dict[str, Any] = kwargs
        if self._has_static:
            dynamic, named, static = self._static.split(args, kwargs)
        leaves, tree = flatten_arguments(dynamic, named)
        try:
            avals = tuple([aval_of(x) for x in leaves])
        except TypeError:  # names the argument, unless Refs explain it
            avals = self._signature(dynamic, named, static)
        state = config.state()
        if state.disable_jit:
            return self._fun(*args, **kwargs)
        eager = current_trace_var.get() is eager_trace
        staged = self._programs.staged.get((tree, state, avals, static, ())) if eager else None
        if staged is None:
            staged = self.stage(dynamic, named, static, tree, avals, state)
        if staged.has_refs:
            check_not_captured("jit", self._fun, staged.consts, leaves)
        if not eager or staged.program is None:
            return staged.result(staged.bind(leaves))
        outs = staged.run(leaves)
        # See Note [What a program was staged under]
        if not self._has_static and not staged.has_refs and not axis_env.get() and config.state() is state:
            plain = not kwargs and all(type(x) is ConcreteArray for x in args)
            self._make_ready(staged, state, avals if plain else (tree, avals), plain and len(args) == 1)
        return staged.result(outs)

    def direct_for(self, aval: ShapedArray) -> Direct | None:
        """All that is left of a call with one array of this type for one result; None where there is more."""
        return self._direct.get(aval)

    def _make_ready(self, staged: Staged, state: config.State, key: tuple[Any, ...], one_array: bool) -> None:
        """Let calls of this signature take the hot path from now on, where nothing but the run is left to do."""
        entry = staged.program.direct() if staged.program is not None else None
        if entry is not None:
            executable, captured, kept = entry
            key_flow = staged.program.key_flow if staged.program is not None and key_reuse_is_on() else None
            if one_array and staged.single and key_flow is None and not captured and kept is None:
                found = Direct(executable.loaded, executable.handlers, executable.out_avals[0], state)
                self._programs.direct[key[0]] = found
            else:
                self._programs.ready[key] = Ready(executable, staged, state, captured, kept, key_flow)

    # Note [What a program was staged under]
    # A program depends on the options and the named axes that were in force: `staged` is keyed by both. The hot path
    # compares only the options, so a program is made ready for it where no axis has a name; eager evaluation does not
    # imply that, as a callback or a custom rule runs inside of `vmap`. And where the function, or another thread,
    # changes the options while it is staged, the program serves this call and is not kept.

    def stage(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        static: Any,
        tree: Any,
        avals: Any,
        state: config.State,
    ) -> Staged:
        """The staged function for a signature under these options, from the cache or by tracing."""
        key = (tree, state, avals, static, tuple(axis_env.get().items()))
        staged = self._programs.staged.get(key)
        if staged is None:
            args = with_gaps(args, static)
            if state.explain_cache_misses:
                logger.warning(self._explain_miss(key, args, kwargs))
            flat = FlatFunction(self._static.filled(static), tree, "jit")
            refs = [i for i, aval in enumerate(avals) if isinstance(aval, RefType)]
            arguments = RefArguments(flat, refs)
            program = stage_program(
                arguments if refs else flat,
                [aval.aval if isinstance(aval, RefType) else aval for aval in avals],
                function=self._fun,
                arg_names=argument_names(self._fun, args, kwargs),
            )
            if key_reuse_is_on():
                summarise(program.jaxpr)  # which reports the keys that the function itself uses twice
            donated = self._donated(args, kwargs)
            staged = Staged(program, arguments, flat.out_tree, donated, self._options, self._keep_unused)
            if not staged.captures_tracers and config.state() is state:
                self._programs.staged[key] = staged
        return staged

    def _explain_miss(self, key: tuple[Any, ...], args: Any, kwargs: Any) -> str:
        head = f"{describe_function(self._fun)} is traced"
        earlier = list(self._programs.staged)  # at once: other threads add to it
        if not earlier:
            return f"{head}: this is its first call."
        tree, state, avals, static, axes = min(earlier, key=lambda old: _distance(old, key))
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
            were, are = ({name: axis.size for name, axis in found} for found in (axes, key[4]))
            reasons.append(f"mapped axes were {were}, now are {are}")
        return "\n  ".join([f"{head} again:", *reasons])

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

    def __reduce__(self) -> Any:
        """Copied and pickled as the function and how it is jitted, without programs; by name where that finds it."""
        name: str = getattr(self, "__qualname__", "")
        if _named(getattr(self, "__module__", None), name) is self:
            return name
        numbers, names = self._static.numbers, self._static.names
        donated = self._donate_argnums, self._donate_argnames
        how = (numbers, names, *donated, self._options, self._keep_unused)
        return type(self), (self._fun, *how), vars(self)

    def _staged_for(self, args: Any, kwargs: Any) -> tuple[Staged, Any, list[Any]]:
        dynamic, named, static = self._static.split(args, kwargs) if self._has_static else (args, kwargs, ())
        leaves, tree = pytree.flatten((dynamic, named))
        avals = self._signature(dynamic, named, static)
        return self.stage(dynamic, named, static, tree, avals, config.state()), tree, leaves

    def _signature(self, args: Any, kwargs: Any, static: Any) -> tuple[ShapedArray | RefType, ...]:
        """Types of the leaves; errors name the argument that has none."""
        avals, refs = leaf_types("jit", self._fun, with_gaps(args, static), kwargs)
        return tuple([ref_type(aval) if i in refs else aval for i, aval in enumerate(avals)])

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced:
        """Stage for these arguments (arrays or `ShapeDtypeStruct`s) without running: `.jaxpr`, `.lower()`."""
        staged, tree, leaves = self._staged_for(args, kwargs)
        # Partials and callable objects have no name.
        name = getattr(self, "__name__", type(self._fun).__name__)
        consts = values_of(staged.consts)
        hidden = len(staged.written)
        return Traced(
            name, staged.jaxpr, consts, tree, staged.out_tree, staged.program, staged.run, hidden, leaves
        )

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stage and lower for these arguments: `.as_text()`, `.compile()`."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Shapes and dtypes of the results, without computing them."""
        return self.trace(*args, **kwargs).out_info

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """What compilation for these arguments does to each loop, and why not more."""
        return self.trace(*args, **kwargs).explain()

    def clear_cache(self) -> None:
        """Forget every program of this function."""
        self._programs.clear()


def _named(module: Any, name: str) -> Any:
    """What a module holds by that name, dots included; None where it holds nothing."""
    return functools.reduce(lambda x, part: getattr(x, part, None), name.split("."), sys.modules.get(module))


def _distance(old: tuple[Any, ...], new: tuple[Any, ...]) -> int:
    if old[0] != new[0]:
        return 1_000_000
    changed = sum(a is not b for a, b in zip(old[2], new[2], strict=True))
    return changed + sum(a != b for a, b in zip(old[3], new[3], strict=False)) + (old[1] is not new[1])


def _weak(aval: ShapedArray | RefType) -> str:
    return " (weak type)" if isinstance(aval, ShapedArray) and aval.weak_type else ""


class Programs:
    """What is known of one function jitted in one way: programs by signature, and the ready ones of the hot path."""

    __slots__ = ("__weakref__", "direct", "ready", "staged")

    def __init__(self) -> None:
        self.staged: dict[Any, Staged] = {}
        self.ready: dict[
            Any, Ready
        ] = {}  # by the types of arguments that are arrays; else with their structure
        self.direct: dict[ShapedArray, Direct] = {}  # by the type of the only argument
        with _all_programs_lock:
            _all_programs.add(self)

    def clear(self) -> None:
        """Forget every program."""
        self.staged.clear()
        self.ready.clear()
        self.direct.clear()


_all_programs: WeakSet[Programs] = WeakSet()
_all_programs_lock = lock_for_forks(threading.RLock())  # reentrant: a garbage collection may run anything
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


def _leave_hot_path() -> None:
    for programs in list(_all_programs):
        programs.ready.clear()
        programs.direct.clear()


after_fork(_leave_hot_path)  # which does not ask whether XLA is there: see `didax/xla/client.py`


def clear_functions() -> None:
    """Forget the programs of every jitted function."""
    with _all_programs_lock:
        found = list(_all_programs)
    for programs in found:
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
    static = as_numbers(static_argnums), as_names(static_argnames)
    donated = as_numbers(donate_argnums), as_names(donate_argnames)
    for option, (numbers, names) in (("static", static), ("donate", donated)):
        if numbers or names:
            check_arguments_exist("jit", fun, option, numbers, names)
    return JitFunction(fun, *static, *donated, compiler_options, keep_unused)
