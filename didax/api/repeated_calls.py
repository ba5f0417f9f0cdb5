"""The hot paths of `jit`: calls of a jitted function with arguments like those of an earlier call.

The first call of a signature stages and compiles (`JitFunction.call_by_signature`). It leaves a record of what a call
of this kind comes down to: the executable, and how its results are made into arrays. `RepeatedCalls.__call__` looks for
such a record by the types of the arguments and runs it; whatever is not that simple, and whatever fails here, goes the
long way, which explains. Read next: `jit_cache.py` (the records), `jit.py` (the long way).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

from didax.api.flat import flatten_arguments
from didax.api.jit_cache import JitCache, OneArrayCall, RepeatedCall
from didax.api.specialization import Specialization
from didax.api.static import StaticArguments
from didax.core import config
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import strip_internal_frames
from didax.core.exact import exact_key
from didax.core.primitive import current_trace_var, eager_trace
from didax.core.sharding import NamedSharding
from didax.core.source import user_line
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.runtime import donation
from didax.runtime.array import ConcreteArray, PlacedArray, argument_buffer, constant_buffer, with_keys
from didax.runtime.partitioned import buffers_for, results_of
from didax.runtime.sharded import ShardedArray
from didax.transforms.named_axes import axis_env

P = ParamSpec("P")
R = TypeVar("R")

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


class RepeatedCalls(Generic[P, R]):
    """A jitted function as it is called: by what it remembers of earlier calls, where that applies."""

    __slots__ = ("__dict__", "__weakref__", "_buckets", "_cache", "_one_array_calls")
    _buckets: Any  # a BucketCalls, where jit got bucket=
    _cache: JitCache
    _one_array_calls: dict[Any, OneArrayCall]  # that of the cache
    _has_static: bool
    _static: StaticArguments

    def call_by_signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for any arguments."""
        raise NotImplementedError

    def clear_cache(self) -> None:
        """Forget every program of this function."""
        self._cache.clear()

    def _cache_size(self) -> int:
        """How many programs the function has; JAX's programs ask."""
        padded = [len(trace.programs) for traces in self._cache.traces.values() for trace in traces]
        return len(self._cache.specializations) + sum(padded)

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, x=_ABSENT, /, *rest, **kwargs):
            eager = _get_current() is eager_trace
            if eager and type(x) is ConcreteArray and not rest and not kwargs:
                call = self._one_array_calls.get(x.aval)
                if call is not None and call.state is (
                    config.global_state if _get_overlay() is None else config.state()
                ):
                    try:
                        # See Note [The hottest path]
                        buffer = x._buffer
                        outs = call.loaded.execute_sharded(
                            [x.device_buffer() if buffer is None else buffer]
                        ).consume_with_handlers(call.handlers, False)
                        y = _new_object(ConcreteArray)
                        y.aval = call.aval
                        y._value = None
                        y._buffer = outs[0]
                        y.committed = x.committed
                        return y
                    except Exception:
                        pass
            elif eager and type(x) is ShardedArray and not rest and not kwargs:
                call = self._one_array_calls.get((x.aval, x.sharding))
                if call is not None and call.state is (
                    config.global_state if _get_overlay() is None else config.state()
                ):
                    try:
                        buffer = x._buffer
                        if not buffer.is_deleted():  # XLA would read memory that is gone
                            outs = call.loaded.execute_sharded([buffer]).consume_with_handlers(
                                call.handlers, False
                            )
                            y = _new_object(ShardedArray)
                            y.aval = call.aval
                            y._value = None
                            y._buffer = outs[0]
                            y.committed = True
                            y.sharding = call.sharding
                            return y
                    except Exception:
                        pass
            try:
                args = () if x is _ABSENT else (x, *rest)
                if eager:
                    result = self._repeat(args, kwargs)
                    if result is not _ABSENT:
                        return result
                return self.call_by_signature(args, kwargs)
            except Exception as error:
                strip_internal_frames(error)
                raise

    def _repeat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for arguments like those of an earlier call; `_ABSENT` for others, and where the run fails.

        A failed run is repeated the long way, so only runs whose effect is their result are tried here: callbacks into
        the user's Python, and reports of random keys, happen once.
        """
        try:
            # See Note [The hottest path]: `_kind_of_call` for arrays and nothing else, written out
            key: Any = tuple([x.aval for x in args if type(x) is ConcreteArray])
            leaves: Sequence[Any] = args
            if self._has_static and (plain := _kind_with_static(args, kwargs)) in self._cache.repeated_calls:
                key, leaves = plain, (*args, *kwargs.values()) if kwargs else args
            elif kwargs or self._has_static or len(key) < len(args):
                static: Any = ()
                if self._has_static:
                    args, kwargs, static = self._static.split(args, kwargs)
                key, leaves = _kind_of_call(args, kwargs, static)
            call = self._cache.repeated_calls[key]
            if call.state is not (config.global_state if _get_overlay() is None else config.state()):
                return _ABSENT
            if call.order is not None:
                leaves = [leaves[i] for i in call.order]
            if call.layouts is not None:
                return _repeat_on_devices(call, leaves, call.layouts)
            committed = False
            buffers = call.captured.copy()
            used = leaves if call.kept is None else [leaves[i] for i in call.kept]
            if call.donated is not None:
                donation.detach(used, call.donated)
            for x in used:
                if type(x) is ConcreteArray:
                    buffer = x._buffer  # pyright: ignore[reportPrivateUsage]
                    buffers.append(x.device_buffer() if buffer is None else buffer)
                    if x.committed:
                        committed = True
                else:
                    buffers.append(constant_buffer(x) if call.donated is None else argument_buffer(x))
            outs = call.loaded.execute_sharded(buffers).consume_with_handlers(call.handlers, False)
            if call.donated is not None:
                donation.forget(used, call.donated, False)
        except Exception:
            return _ABSENT
        avals = call.executable.out_avals
        if call.key_flow is None and call.specialization.single:
            y = _new_object(ConcreteArray)
            y.aval = avals[0]
            y._value = None  # pyright: ignore[reportPrivateUsage]
            y._buffer = outs[0]  # pyright: ignore[reportPrivateUsage]
            y.committed = committed
            return y
        arrays: list[Any] = []
        # without `__init__`, which takes a fifth of a microsecond
        for aval, buffer in zip(avals, outs, strict=True):
            y = _new_object(ConcreteArray)
            y.aval = aval
            y._value = None  # pyright: ignore[reportPrivateUsage]
            y._buffer = buffer  # pyright: ignore[reportPrivateUsage]
            y.committed = committed
            arrays.append(y)
        if call.key_flow is not None:
            keys = call.key_flow.note(leaves, user_line())
            arrays = arrays if keys is None else list(map(with_keys, arrays, keys))
        return call.specialization.result(arrays)

    def one_array_call(self, aval: ShapedArray) -> OneArrayCall | None:
        """What repeats a call with one array of this type for one result; None where there was no such call."""
        return self._one_array_calls.get(aval)

    # Note [What a program was staged under]
    # A program depends on the options and the named axes that were in force: `specializations` is keyed by both. The
    # hot path compares only the options, so a call is remembered for it where no axis has a name. Eager evaluation does
    # not imply that: a callback or a custom rule runs inside of `vmap`. And where the function, or another thread,
    # changes the options while it is staged, the program serves this call and is not kept.

    def _remember_call(
        self,
        specialization: Specialization,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        static: tuple[Any, ...],
        leaves: Sequence[Any],
        avals: tuple[Any, ...],
        state: config.State,
        given: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> None:
        """Let calls like this one take a hot path from now on, where nothing but the run is left to do.

        `args` and `kwargs` are those `given` that are not static.
        """
        program = specialization.program
        # See Note [What a program was staged under]
        if (
            program is None
            or specialization.refs is not None
            or axis_env.get()
            or config.state() is not state
        ):
            return
        if (ready := program.ready_to_run(leaves)) is None:
            return
        executable, captured, kept, layouts = ready
        key_flow = program.key_flow if key_reuse_is_on() else None
        donated = program.donated if True in program.donated else None
        plain = key_flow is None and not captured and kept is None and donated is None
        if len(args) == 1 and not kwargs and plain and specialization.single and not self._has_static:
            (x,), of_one = args, (executable.loaded, executable.handlers, executable.out_avals[0], state)
            if type(x) is ConcreteArray and layouts is None:
                self._cache.one_array_calls[avals[0]] = OneArrayCall(*of_one)
                return
            # With other processes, which have to start the program too, there is more to do.
            if type(x) is ShardedArray and layouts == [x.sharding] and not executable.is_shared:
                call = OneArrayCall(*of_one, executable.out_shardings[0])
                self._cache.one_array_calls[x.aval, x.sharding] = call
                return
        key = _kind_with_static(*given) if static and all(type(x) is ConcreteArray for x in leaves) else None
        if key is not None:
            order = _order_of_data(*given, static)
        else:
            key, _ = _kind_of_call(args, kwargs, static)
            by_name = bool(kwargs) and type(key[0]) is tuple and list(kwargs) != sorted(kwargs)
            order = _order_of_names(len(args), kwargs) if by_name else None
        runs = executable.loaded, executable.handlers, captured, order, donated
        call = RepeatedCall(executable, specialization, state, *runs, kept, key_flow, layouts)
        self._cache.repeated_calls[exact_key(key)] = call


def _kind_of_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...]
) -> tuple[Any, Sequence[Any]]:
    """A key that calls share which one program serves, and the arguments without their containers."""
    leaves: Sequence[Any] = (*args, *kwargs.values()) if kwargs else args
    avals = tuple([x.aval for x in leaves if type(x) is ConcreteArray])
    if len(avals) < len(leaves):
        avals = tuple([(x.aval, x.sharding) for x in leaves if type(x) is ShardedArray])
        if len(avals) < len(leaves):
            kinds = tuple(
                [x.aval if type(x) is ConcreteArray else aval_of(x) for x in leaves if type(x) in _LEAVES]
            )
            avals = kinds if len(kinds) == len(leaves) else avals
    if len(avals) == len(leaves):  # no containers
        return ((avals, tuple(kwargs), static) if kwargs or static else avals), leaves
    leaves, tree = flatten_arguments(args, kwargs)
    return (tree, tuple([x.aval if type(x) is ConcreteArray else _kind(x) for x in leaves]), static), leaves


_LEAVES = frozenset([ConcreteArray, np.ndarray, bool, int, float, complex])


def _kind_with_static(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """A key of a call whose arguments are arrays and plain values, as they stand; None for any other."""
    kinds: list[Any] = [len(args), *kwargs] if kwargs else []
    for x in (*args, *kwargs.values()) if kwargs else args:
        if type(x) is ConcreteArray:
            kinds.append(x.aval)
        elif type(x) in _PLAIN:
            kinds += (type(x), x)  # 1 and True are not the same
        else:
            return None
    return tuple(kinds)


_PLAIN = frozenset([bool, int, str, type(None)])


def _order_of_names(count: int, kwargs: dict[str, Any]) -> list[int]:
    """Where the arguments of a call stand, in the order of the program's: keywords are sorted there."""
    names = list(kwargs)
    return [*range(count), *(count + names.index(name) for name in sorted(names))]


def _order_of_data(args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...]) -> list[int]:
    """Where the arguments that are not static stand in a call, in the order of the program's."""
    left_out = {where for where, _, _ in static}
    names = list(kwargs)
    data = [i for i in range(len(args)) if i not in left_out]
    return [*data, *(len(args) + names.index(name) for name in sorted(names) if name not in left_out)]


def _kind(x: Any) -> Any:
    """What calls must agree in to be the same program: the type of an argument, and how it lies on several devices."""
    if type(x) is ShardedArray:
        return x.aval, x.sharding
    if type(x) is PlacedArray:
        return x.aval, x.device, x.committed
    return aval_of(x)


def _repeat_on_devices(call: RepeatedCall, leaves: Sequence[Any], layouts: Sequence[NamedSharding]) -> Any:
    """The result of a call on several devices; `_ABSENT` for arguments that were put elsewhere."""
    if any([type(x) is not ShardedArray and getattr(x, "committed", False) for x in leaves]):
        return _ABSENT
    used = leaves if call.kept is None else [leaves[i] for i in call.kept]
    arrays = results_of(call.executable, call.executable.run(call.captured + buffers_for(layouts, used)))
    if call.key_flow is not None:
        keys = call.key_flow.note(leaves, user_line())
        arrays = arrays if keys is None else list(map(with_keys, arrays, keys))
    return call.specialization.result(arrays)
