"""Calls of jitted functions as generated code: one Python function for each kind of call.

XLA runs a small program in the time of a hundred bytecodes. So what a call with arguments like those of an earlier one
has to do is written out for these arguments: compare each with what it was, gather the buffers, run, make arrays of the
results. For `f(x, y)` of two arrays, the code is

    def call(a0, rest, kwargs):
        try:
            if kwargs or len(rest) != 1: return ABSENT
            a1, = rest
            if not (type(a1) is A and a1.aval is C11): return ABSENT
            if (config.global_state if get_overlay() is None else config.state()) is not STATE: return ABSENT
        except CANNOT_TELL: return ABSENT
        try:
            b0 = a0._buffer
            if b0 is None: b0 = a0.device_buffer()
            ...
            y0, = LOADED.execute_sharded([b0, b1]).consume_with_handlers(HANDLERS, False)
        except Exception as error:
            explain(error, [a0, a1])
            raise
        committed = a0.committed or a1.committed
        r0 = new(A)
        ...
        return r0

`RepeatedCalls` has compared the first argument where it is an array. Names in capital letters are constants of the
code, which is compiled once for all calls that are written in the same way. For many arguments or
results, a line for each would take longer to compile than it saves, so loops are written instead.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np

from didax.api.flat import narrowed_scalar
from didax.api.jit_cache import ABSENT, RepeatedCall
from didax.api.specialization import Results
from didax.core import config, pytree
from didax.core.avals import aval_of
from didax.core.exact import exact, exact_structure, has_hashable_fields, is_compared_by_fields
from didax.core.source import user_line
from didax.runtime import donation
from didax.runtime.array import (
    ConcreteArray,
    HostArray,
    PlacedArray,
    argument_buffer,
    constant_buffer,
    copying,
    is_staged,
    scalar_buffers,
    with_keys,
    with_memory_of,
)
from didax.runtime.compiled import Program
from didax.runtime.key_flow import KeyFlow
from didax.runtime.partitioned import buffers_for
from didax.runtime.sharded import ShardedArray

__all__ = ["call_code", "kind_of"]

_FEW = 16
_SCALARS = frozenset([bool, int, float])
_NUMPY_SCALARS = frozenset([np.dtype(code).type for code in "?bhilqBHILQefdFD"])
_LEAVES = frozenset(
    [ConcreteArray, ShardedArray, PlacedArray, HostArray, np.ndarray, *_SCALARS, *_NUMPY_SCALARS]
)
_BY_IDENTITY = (types.FunctionType, types.BuiltinFunctionType, type, enum.Enum, np.dtype, types.NoneType)
# What is raised where an argument has no type, cannot be hashed, or is no pytree: the long way says what is wrong. Any
# other exception is one of the user's, who must get it: a handler of a signal may raise anywhere.
_CANNOT_TELL = (TypeError, ValueError, SystemError)
_FILE = os.path.join(os.path.dirname(__file__), "<call of a jitted function>")  # no frame of the user's


def kind_of(x: Any) -> Any:
    """What calls must agree in to be of one kind: the class and type of an argument, and where it was placed."""
    kind: Any = type(x)  # pyright: ignore[reportUnknownVariableType]
    if kind is ConcreteArray:
        return x.aval
    if kind is ShardedArray:
        return x.aval, x.sharding
    if kind is PlacedArray:
        return x.aval, x.device, x.committed
    if kind is HostArray:
        return x.aval, x.sharding
    return kind, aval_of(x)


def call_code(
    call: RepeatedCall,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static: Iterable[Any],
    leaves: list[Any],
) -> Callable[..., Any]:
    """`code(first, rest, kwargs)`, the result of a call like this one, or `ABSENT` for another call.

    `static` are the places and the names of the arguments that are no data.
    """
    writer = _Writer(call, leaves)
    writer.write_match(args, kwargs, frozenset(static))
    writer.write_run()
    writer.write_results()
    return writer.function()


class _Writer:
    def __init__(self, call: RepeatedCall, leaves: list[Any]):
        assert call.specialization.program is not None
        self._call = call
        self._program = call.specialization.program
        self._given = leaves
        self._kept = range(len(leaves)) if call.kept is None else call.kept
        self._match: list[str] = []
        self._tests: list[str] = []
        self._run: list[str] = []
        self._after: list[str] = []
        self._all_plain = all(type(x) is ConcreteArray for x in leaves)
        layouts = call.layouts
        self._is_alone = call.is_alone
        # On several devices, where nothing has to be moved and no other process takes part:
        self._lies_right = layouts is not None and all(
            type(leaves[i]) is ShardedArray and leaves[i].sharding == layout
            for i, layout in zip(self._kept, layouts, strict=True)
        )
        self._is_few = len(leaves) <= _FEW
        self._is_written_out = self._is_few and (
            layouts is None or (self._lies_right and not call.executable.is_shared)
        )
        self._globals: dict[str, Any] = {
            "A": ConcreteArray, "ABSENT": ABSENT, "CANNOT_TELL": _CANNOT_TELL, "new": object.__new__, "config": config,
            "get_overlay": config.overlay_var.get, "STATE": call.state, "CAPTURED": call.captured,
            "LOADED": call.executable.loaded, "HANDLERS": call.executable.handlers,
            # not the record, which has the code: a cycle would keep captured values until a garbage collection
            "explain": functools.partial(_explain, self._program),
        }  # fmt: skip

    def _name(self, value: Any) -> str:
        """The name of a constant of the code."""
        name = f"C{len(self._globals)}"
        self._globals[name] = value
        return name

    def _test(self) -> None:
        if self._tests:
            self._match.append(f"if not ({' and '.join(self._tests)}): return ABSENT")
            self._tests = []

    # --- are the arguments like those of the earlier call? ---------------------------------------------

    def write_match(self, args: tuple[Any, ...], kwargs: dict[str, Any], static: frozenset[Any]) -> None:
        """Compare the arguments, and give each leaf of those that are data a name."""
        count = max(len(args) - 1, 0)
        named_test = f"len(kwargs) != {len(kwargs)}" if kwargs else "kwargs"
        self._match.append(
            f"if {named_test} or {f'len(rest) != {count}' if count else 'rest'}: return ABSENT"
        )
        if not args:
            self._tests.append("a0 is ABSENT")
        given: list[tuple[Any, str, Any]] = [(i, f"a{i}", x) for i, x in enumerate(args)]
        if count:
            self._match.append(f"{', '.join([name for _, name, _ in given[1:]])}, = rest")
        named = [(name, f"k{i}", kwargs[name]) for i, name in enumerate(sorted(kwargs))]
        # ABSENT is of another type than what was given.
        self._match += [f"{k} = kwargs.get({name!r}, ABSENT)" for name, k, _ in named]
        for where, name, x in (*given, *named):
            if where in static:
                self._compare(name, x)
        self._test()  # before the other arguments are flattened: a static one is not
        data = [(name, x) for where, name, x in (*given, *named) if where not in static]
        if self._is_few:
            self._leaves = self._names_of_leaves(data)
            for name, x in zip(self._leaves, self._given, strict=True):
                self._compare_leaf(name, x)
            self._list = f"[{', '.join(self._leaves)}]"
        else:
            self._compare_many(data)
            self._list = "leaves"
        self._test()
        state = "config.global_state if get_overlay() is None else config.state()"
        self._match.append(f"if ({state}) is not STATE: return ABSENT")

    def _flatten(self, names: Sequence[str], values: Sequence[Any]) -> None:
        tree = pytree.structure(values[0] if len(values) == 1 else tuple(values))
        given = names[0] if len(names) == 1 else f"({', '.join(names)})"
        self._globals["flatten"] = pytree.default_registry.flatten
        self._match.append(f"leaves, tree = flatten({given}, None)")
        self._match.append(f"if not tree == {self._name(exact_structure(tree))}: return ABSENT")

    def _names_of_leaves(self, data: list[tuple[str, Any]]) -> list[str]:
        """The names of the leaves of named arguments, in order; containers are taken apart, in one call of C++."""
        trees = [(name, x) for name, x in data if type(x) not in _LEAVES]
        if not trees:
            return [name for name, _ in data]
        names, values = zip(*trees, strict=True)
        self._flatten(names, values)
        parts = {name: [f"{name}_{i}" for i in range(len(pytree.leaves(x)))] for name, x in trees}
        if any(parts.values()):
            self._match.append(f"{', '.join([leaf for part in parts.values() for leaf in part])}, = leaves")
        return [leaf for name, _ in data for leaf in parts.get(name, [name])]

    def _compare_leaf(self, name: str, x: Any) -> None:
        kind: Any = type(x)  # pyright: ignore[reportUnknownVariableType]
        if kind is ConcreteArray:
            if name != "a0":
                self._tests.append(f"type({name}) is A and {name}.aval is {self._name(x.aval)}")
            if self._call.layouts is not None and not self._is_alone:
                self._tests.append(f"not {name}.committed")
        elif kind is ShardedArray:
            self._globals["ShardedArray"] = ShardedArray
            aval, sharding = self._name(x.aval), self._name(x.sharding)
            lies = f"({name}.sharding is {sharding} or {name}.sharding == {sharding})"
            self._tests.append(f"type({name}) is ShardedArray and {name}.aval is {aval} and {lies}")
        elif kind in _SCALARS:
            self._tests.append(f"type({name}) is {kind.__name__}")
        elif self._is_bare(x):
            self._globals["ndarray"] = np.ndarray
            same = f"{name}.dtype == {self._name(x.dtype)} and {name}.shape == {self._name(x.shape)}"
            self._tests.append(f"type({name}) is ndarray and {same}")
        elif kind in _NUMPY_SCALARS and self._is_written_out:
            self._tests.append(f"type({name}) in {self._name(_narrowed_to(x.dtype))}")
        else:
            self._globals.update(kind_of=kind_of, narrowed=narrowed_scalar)
            self._match.append(f"{name} = narrowed({name})")
            self._tests.append(f"kind_of({name}) == {self._name(kind_of(x))}")

    def _is_bare(self, x: Any) -> bool:
        """Whether it is an array of NumPy's own numbers."""
        return type(x) is np.ndarray and x.dtype.isbuiltin == 1

    def _is_copied(self, x: Any) -> bool:
        """Whether XLA makes its copy of a NumPy array as it stands."""
        return self._is_bare(x) and x.dtype == aval_of(x).dtype

    def _compare_many(self, data: list[tuple[str, Any]]) -> None:
        self._flatten([name for name, _ in data], [x for _, x in data])
        kinds = self._name(list(map(kind_of, self._given)))
        if self._all_plain:
            self._tests.append(f"[x.aval for x in leaves if type(x) is A] == {kinds}")
        else:
            self._globals.update(kind_of=kind_of, narrowed=narrowed_scalar)
            self._match.append("leaves = [x if type(x) is A else narrowed(x) for x in leaves]")
            self._tests.append(f"[x.aval if type(x) is A else kind_of(x) for x in leaves] == {kinds}")
        if self._call.layouts is not None:
            self._tests.append("not any([x.committed for x in leaves if type(x) is A])")

    def _compare(self, text: str, x: Any) -> None:
        """Compare a static value by type and bits, as `exact` does, and its parts in the same way."""
        kind: Any = cast(Any, type(x))
        value: Any = x  # whose type is not narrowed by the tests
        if kind is bool or issubclass(kind, _BY_IDENTITY):
            self._tests.append(f"{text} is {self._name(x)}")
        elif kind in (int, str, bytes) or (kind is float and x == x and x != 0):
            self._tests.append(f"type({text}) is {kind.__name__} and {text} == {self._name(x)}")
        elif kind is tuple:
            self._tests.append(f"type({text}) is tuple and len({text}) == {len(value)}")
            for i, part in enumerate(value):
                self._compare(f"{text}[{i}]", part)
        elif is_compared_by_fields(kind) and has_hashable_fields(value):
            self._tests.append(f"type({text}) is {self._name(kind)}")
            for field in dataclasses.fields(value):
                if field.compare:
                    self._compare(f"{text}.{field.name}", getattr(x, field.name))
        else:
            self._globals.update(exact=exact)
            # The hash, too: an object that was changed is still equal to itself.
            same = self._name(exact(x)), self._name(hash(exact(x)))
            self._tests.append(f"type({text}) is {self._name(kind)} and hash(exact({text})) == {same[1]}")
            self._tests.append(f"exact({text}) == {same[0]}")

    # --- the run ---------------------------------------------------------------------------------------

    def write_run(self) -> None:
        """Run the program with the buffers of the arguments that its results depend on."""
        outs = [f"y{i}" for i in range(len(self._call.executable.out_avals))]
        self._has_few_results = len(outs) <= _FEW
        if self._is_written_out:
            taken, buffers = self._write_buffers()
            run = f"LOADED.execute_sharded([{', '.join(buffers)}]).consume_with_handlers(HANDLERS, False)"
        else:
            taken, run = self._write_many_buffers()
        self._run.append(f"{', '.join(outs)}, = {run}" if outs and self._has_few_results else f"outs = {run}")
        self._run += taken

    def _write_buffers(self) -> tuple[list[str], list[str]]:
        """What is to do after the run for donated arrays, and the names of the buffers."""
        call = self._call
        donated = call.donated or (False,) * len(self._kept)
        taken: list[str] = []
        staged: list[tuple[str, str, Any]] = []
        buffers = ["*CAPTURED"] if call.captured else []
        if call.layouts is not None:
            from didax.xla.callbacks import enclosing_runs

            # In a callback that other processes wait for, the long way may refuse to run.
            self._match.append(f"if {self._name(enclosing_runs)}(): return ABSENT")
        for place, (i, is_donated) in enumerate(zip(self._kept, donated, strict=True)):
            name, b, x = self._leaves[i], f"b{place}", self._given[i]
            buffers.append(b)
            if type(x) is ShardedArray:  # XLA would read memory that is gone
                self._run += [f"{b} = {name}._buffer", f"if {b}.is_deleted(): {name}.device_buffer()"]
                continue
            if is_donated and isinstance(x, ConcreteArray):
                shared = f"getattr({name}, '_sharers', None) is not None"
                self._run.append(f"if {shared}: {name}.own_buffer()")
                taken.append(f"if {name}._buffer.is_deleted(): {name}.forget_donated()")
            if type(x) is ConcreteArray:
                self._run += [f"{b} = {name}._buffer", f"if {b} is None: {b} = {name}.device_buffer()"]
            elif not is_donated and self._may_stage(x):
                staged.append((name, b, x))
            else:
                self._run += self._copied(name, b, x)
        if staged:
            taken.append(self._write_staged(staged))
        return taken, buffers

    # Note [Staged arguments]
    # jaxlib's way to make a buffer of a NumPy array takes as long as running a small program. So a call writes a small
    # array into the buffer that an earlier call made, whose memory it knows. The buffer is taken from a list while the
    # program runs, where no other thread and no inner call finds it, and goes back if the program has ended by the time
    # its results are here, as small programs have. Otherwise it is left to XLA, and the next call makes a new one.

    def _may_stage(self, x: Any) -> bool:
        return (
            (self._is_bare(x) or type(x) in _NUMPY_SCALARS)
            and is_staged(x)
            and self._call.layouts is None
            and not self._program.calls_python
            and self._has_few_results
            and bool(self._call.executable.out_avals)
        )

    def _write_staged(self, staged: list[tuple[str, str, Any]]) -> str:
        """Write arrays of NumPy into buffers of earlier calls, or make buffers; how these are kept for later calls."""
        idle: list[Any] = []
        with_memory = functools.partial(with_memory_of, [aval_of(x) for _, _, x in staged])
        self._globals.update(take=idle.pop, keep=idle.append, with_memory=with_memory, copyto=np.copyto)
        pairs = ", ".join([f"{b}, v{b}" for _, b, _ in staged])
        copies = [line for one in staged for line in self._copied(*one)]
        self._run += [f"try: {pairs} = take()", "except IndexError:", *[f"    {line}" for line in copies]]
        first = f"v{staged[0][1]}"
        # `copyto` wraps integers that are narrowed; of scalars an assignment would refuse them
        writes = [
            f"v{b}[...] = {name}" if self._is_bare(x) else f"copyto(v{b}, {name}, 'unsafe')"
            for name, b, x in staged
        ]
        self._run += [f"    {first} = None", "else:", *[f"    {line}" for line in writes]]
        made = f"with_memory([{', '.join([b for _, b, _ in staged])}])"
        return f"if y0.is_ready(): keep({made} if {first} is None else ({pairs}))"

    def _copied(self, name: str, b: str, x: Any) -> list[str]:
        """A buffer with the contents of a host value, or of an array that lies elsewhere."""
        if self._is_copied(x):
            put, aval, sharding, devices, semantics = map(self._name, copying(x))
            return [f"{b} = {put}({aval}, {sharding}, [{name}], {devices}, True, False, {semantics}, True)"]
        if type(x) in _SCALARS and self._call.donated is None:
            self._globals.update(scalar_buffers=scalar_buffers, buffer_of=constant_buffer)
            key = f"({self._name(aval_of(x))}, {name})"
            return [f"{b} = scalar_buffers.get({key})", f"if {b} is None: {b} = buffer_of({name})"]
        self._globals["buffer_of"] = constant_buffer if self._call.donated is None else argument_buffer
        if type(x) in _NUMPY_SCALARS:
            self._globals["narrowed"] = narrowed_scalar
            name = f"narrowed({name})"
        return [f"{b} = buffer_of({name})"]

    def _write_many_buffers(self) -> tuple[list[str], str]:
        """What is to do after the run for donated arrays, and the run."""
        call, used = self._call, self._list
        if call.kept is not None:
            used = f"[leaves[i] for i in {self._name(call.kept)}]"
        self._run += [f"leaves = {self._list}"] * self._is_few + [f"used = {used}"]
        taken: list[str] = []
        if call.donated is not None:
            self._globals.update(detach=donation.detach, forget=donation.forget, DONATED=call.donated)
            self._run.append("detach(used, DONATED)")
            taken = ["forget(used, DONATED, False)"]
        if call.layouts is not None:
            self._globals["buffers_for"] = buffers_for
            buffers = f"buffers_for({self._name(call.layouts)}, used)"
            return taken, f"{self._name(call.executable)}.run(CAPTURED + {buffers})"
        if self._all_plain:
            buffers = "[x.device_buffer() if (b := x._buffer) is None else b for x in used]"
        else:
            self._globals["buffer_of"] = constant_buffer if call.donated is None else argument_buffer
            buffers = "[*map(buffer_of, used)]"
        run = f"LOADED.execute_sharded(CAPTURED + {buffers}).consume_with_handlers(HANDLERS, False)"
        return taken, run

    # --- the results -----------------------------------------------------------------------------------

    def write_results(self) -> None:
        """Make arrays of the results, without `__init__`, which takes a fifth of a microsecond."""
        call, executable, specialization = self._call, self._call.executable, self._call.specialization
        avals, lies = executable.out_avals, call.layouts is not None and not self._is_alone
        if lies:
            committed, kind = "True", self._name(ShardedArray)
        elif self._is_alone or self._program.captures_placed:
            committed, kind = "True", "A"
        elif self._is_few:
            arrays = [self._leaves[i] for i in self._kept if isinstance(self._given[i], ConcreteArray)]
            committed, kind = " or ".join([f"{x}.committed" for x in arrays]) or "False", "A"
        else:
            arrays = "" if self._all_plain else " if isinstance(x, A)"
            committed, kind = f"any([x.committed for x in used{arrays}])", "A"
        self._after.append(f"committed = {committed}")

        def fill(i: Any, aval: str, sharding: str) -> list[str]:
            slots = [f"aval = {aval}", "_value = None", f"_buffer = y{i}", "committed = committed"]
            slots += [f"sharding = {sharding}"] * lies
            return [f"r{i}.{slot}" for slot in slots]

        shardings = executable.out_shardings if lies else [None] * len(avals)
        kinds = [kind] * len(avals)
        if self._is_alone:
            host = self._name(HostArray)
            kinds = [kind if sharding.kind is None else host for sharding in executable.out_shardings]
        if self._has_few_results:
            for i, (aval, sharding) in enumerate(zip(avals, shardings, strict=True)):
                self._after.append(f"r{i} = new({kinds[i]})")
                self._after += fill(i, self._name(aval), self._name(sharding) if lies else "")
            results = f"({''.join([f'r{i}, ' for i in range(len(avals))])})"
        else:
            classes = self._name([self._globals[kind] for kind in kinds])
            each = f"zip(results, {self._name(avals)}, outs, {self._name(shardings)})"
            self._after += [f"results = [*map(new, {classes})]", f"for r, aval, y, sharding in {each}:"]
            self._after += [f"    {line}" for line in fill("", "aval", "sharding")]
            results = "results"
        if call.key_flow is not None:
            self._globals["noted"] = functools.partial(_noted, call.key_flow, specialization)
            self._after.append(f"return noted({self._list}, {results})")
        elif specialization.single:
            self._after.append("return r0")
        elif specialization.is_tuple:
            self._after.append(f"return {results}" if self._has_few_results else "return tuple(results)")
        else:
            self._globals["unflatten"] = specialization.out_tree.unflatten
            self._after.append(f"return unflatten({results})")

    def function(self) -> Callable[..., Any]:
        """The code as a function."""
        lines = ["def call(a0, rest, kwargs):", "    try:", *[f"        {line}" for line in self._match]]
        lines += ["    except CANNOT_TELL: return ABSENT", "    try:", *[f"        {x}" for x in self._run]]
        lines += ["    except Exception as error:", f"        explain(error, {self._list})", "        raise"]
        exec(_compiled("\n".join([*lines, *[f"    {line}" for line in self._after], ""])), self._globals)
        return self._globals.pop("call")


def _narrowed_to(dtype: np.dtype[Any]) -> frozenset[type]:
    """The classes of NumPy scalars that are taken for scalars of this dtype, with the options in force."""
    return frozenset([kind for kind in _NUMPY_SCALARS if narrowed_scalar(kind(0)).dtype == dtype])


@functools.lru_cache(256)
def _compiled(source: str) -> types.CodeType:
    return compile(source, _FILE, "exec")


def _explain(program: Program, error: Exception, leaves: Sequence[Any]) -> None:
    """Raise in our words what XLA says of buffers that were donated or deleted; nothing is run a second time."""
    if (explained := program.explained(error, leaves)) is not error:
        raise explained from None


def _noted(key_flow: KeyFlow, specialization: Results, leaves: Sequence[Any], results: Sequence[Any]) -> Any:
    """The result of a call, once it is noted what the run has done to random keys."""
    keys = key_flow.note(leaves, user_line())
    return specialization.result(list(results if keys is None else map(with_keys, results, keys)))
