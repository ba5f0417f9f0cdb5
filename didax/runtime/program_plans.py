"""Plans that evaluate an operation as a compiled program: operations without a NumPy rule, and those on large arrays.

On a few numbers, such a program runs at once, from NumPy values to NumPy values. XLA's client hands a program of more
than about a thousand arithmetic operations to another thread, and waiting for that takes four times as long as the
program itself. So operations on a few numbers are compiled for a client that runs on the calling thread
(`immediate_backend`), and their operands are written into buffers of earlier calls, as those of jitted functions are
(Note [Staged arguments] in `api/call_code.py`). Read next: `eager.py`, which decides what is evaluated so.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core import config
from didax.core.avals import ShapedArray
from didax.core.primitive import Primitive
from didax.runtime.array import ConcreteArray, as_concrete
from didax.runtime.compiled import Program, application_jaxpr
from didax.runtime.numpy_plans import Plan, on_cpu

_AT_ONCE_MAX = 1 << 12  # elements of operands and results together
_COMPILED_MAX = 2048  # programs of operations that are kept compiled: a small one takes a fifth of a megabyte
_compiled: deque[weakref.ref[Program]] = deque()  # the oldest first


def program_plan(
    primitive: Primitive,
    avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
    cheap: bool,
) -> Plan:
    """A plan that runs the compiled primitive."""
    program = Program(application_jaxpr(primitive, avals, out_avals, params), cheap=cheap, is_operation=True)
    at_once = _at_once(program) if cheap and _are_few(avals, out_avals) and on_cpu() else None
    run = at_once or _as_any_program(program)

    def plan(args: tuple[Any, ...]) -> Any:
        outs = run([as_concrete(x) for x in args])
        return outs if primitive.multiple_results else outs[0]

    return plan


Run = Callable[[list[ConcreteArray]], list[ConcreteArray]]


def _as_any_program(program: Program) -> Run:
    def run(args: list[ConcreteArray]) -> list[ConcreteArray]:
        if not program.is_compiled_for():
            _executable(program)
        return program.run(args)

    return run


def _executable(program: Program, device: Any = None) -> Any:
    """The compiled program; arrays of ever new shapes make very many, so beyond a number the oldest is forgotten."""
    if not program.is_compiled_for(device):
        _compiled.append(weakref.ref(program))
        while len(_compiled) > _COMPILED_MAX:
            if (oldest := _compiled.popleft()()) is not None:
                oldest.forget_compiled()
    return program.executable(device)


def _are_few(avals: tuple[ShapedArray, ...], out_avals: tuple[ShapedArray, ...]) -> bool:
    from didax.xla.buffers import is_staged

    numbers = sum([a.size for a in (*avals, *out_avals)])
    return numbers <= _AT_ONCE_MAX and all([a.physical is a and is_staged(a) for a in (*avals, *out_avals)])


def _at_once(program: Program) -> Run | None:
    """A function that runs the program on the calling thread; None for a program that calls Python."""
    from didax.xla.buffers import put, reader, with_memory_of
    from didax.xla.client import immediate_backend

    client = immediate_backend()
    device = client.default_device
    executable = _executable(program, device)
    if program.calls_python:
        return None
    avals, out_avals, kept = program.jaxpr.in_avals, executable.out_avals, program.kept
    readers = list(map(reader, out_avals))
    del executable  # so that it is freed when the program forgets it
    as_any_program = _as_any_program(program)
    idle: list[tuple[list[Any], list[Any]]] = []  # buffers and their memory, which no run uses now

    def run(args: list[ConcreteArray]) -> list[ConcreteArray]:
        if config.operations_were_watched or config.default_device_was_set:
            return as_any_program(args)
        if kept is not None:
            args = [args[i] for i in kept]
        values = [x.host_value() if (v := x._value) is None else v for x in args]  # pyright: ignore[reportPrivateUsage]
        try:
            buffers, memory = idle.pop()
        except IndexError:
            given = zip(values, avals, strict=True)
            buffers = [put(np.asarray(v, a.dtype), a, client, device, copy=True) for v, a in given]
            memory = list(with_memory_of(avals, buffers)[1::2])
        else:
            for place, v in zip(memory, values, strict=True):
                place[...] = v
        outs = _executable(program, device).run(buffers)
        results = [read(y) for read, y in zip(readers, outs, strict=True)]
        idle.append((buffers, memory))  # the program has ended: its results are here
        return list(map(ConcreteArray, out_avals, results))

    return run
