"""Compiled programs as bytes, for processes that are not to compile: `jax.experimental.serialize_executable`.

    data, in_tree, out_tree = serialize(jit(f).lower(x).compile())      here
    deserialize_and_load(data, in_tree, out_tree)(x)                    there: nothing is traced, lowered or compiled

The bytes are the machine's own: they run with the same jaxlib, on the same kind of device and processor. `didax.export`
saves programs that other versions and machines compile. Read next: `runtime/loaded.py`, `runtime/program_files.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from didax.api.stages import Compiled, Traced
from didax.core import pytree
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.modules import on_access
from didax.primitives.loaded import loaded_p
from didax.runtime.loaded import LoadedProgram, facts_of
from didax.runtime.program_files import read_program, write_program

__all__ = ["deserialize_and_load", "serialize"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """The compiled program as bytes, with the arrays that it captured; and the structures of arguments and results.

    The structures are apart because only you know how to save your containers (pickle does, if their classes are
    registered where it loads them). ValueError for a program that calls Python back or has Refs, NotImplementedError
    for one of several processes.

    >>> import didax as dx
    >>> data, in_tree, out_tree = serialize(dx.jit(lambda x: x * x).lower(2.0).compile())
    >>> float(deserialize_and_load(data, in_tree, out_tree)(3.0))
    9.0
    """
    if not isinstance(compiled, Compiled):  # pyright: ignore[reportUnnecessaryIsInstance]
        rule, fix = "serialize takes a compiled program.", "Pass jit(f).lower(x).compile()."
        raise TypeError(message(rule, f"got: {type(compiled).__name__}", fix=fix))
    traced, program, partition = compiled.parts
    if isinstance(program, LoadedProgram):
        return program.saved, compiled.in_tree, compiled.out_tree
    _check(compiled.fun_name, traced, program.calls_python, program.executable(partition).is_shared)
    in_avals = pytree.leaves(compiled.in_avals)
    from didax.xla.client import backend  # loads jaxlib: on first need

    device = partition.devices[0] if partition else backend().default_device
    data = write_program(facts_of(program, partition, compiled.fun_name, in_avals), device)
    return data, compiled.in_tree, compiled.out_tree


def _check(name: str, traced: Traced, calls_python: bool, is_shared: bool) -> None:
    """Raise for a program that cannot be written as bytes."""
    facts = f"function: {name}"
    if calls_python:
        rule = "A program that calls Python back is not saved: its functions are those of this process."
        raise ValueError(message(rule, facts, fix="Take the callbacks out: return what they are to see."))
    if traced.takes_refs:
        rule = "A program that reads or writes Refs is not saved: these are objects of this process."
        raise ValueError(message(rule, facts, fix="Pass their values (ref[...]), and return the new ones."))
    if is_shared:
        rule = "A program of several processes is not saved: each of them holds a part."
        raise NotImplementedError(message(rule, facts, fix="Save programs of the devices of one process."))


@api_boundary
def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Sequence[Any] | None = None,
) -> Compiled:
    """The program that `serialize` saved, to be called with arguments of its types; never load bytes from strangers.

    It runs on the devices of the same numbers as those that it was compiled for, or on `execution_devices`; a program
    of one device runs where its arguments are. ValueError for bytes that are damaged, or of another version of jaxlib,
    platform, kind of device or processor; for structures that do not fit them; and where devices are missing.

    >>> import didax as dx
    >>> saved = serialize(dx.jit(lambda x: x + 1).lower(2.0).compile())
    >>> float(deserialize_and_load(*saved, execution_devices=dx.devices()[:1])(3.0))
    4.0
    """
    from didax.xla.client import backend as started  # loads jaxlib: on first need

    here = started()
    if backend not in (None, here.client, here.platform, here.client.platform):
        rule = "A process has one backend."
        facts = f"backend: {backend!r:.100}", f"there is: {here.platform}"
        raise ValueError(message(rule, *facts, fix="Leave backend out, or set DIDAX_PLATFORMS."))
    asked = None if execution_devices is None else tuple(execution_devices)
    file = read_program(serialized, (asked or here.devices)[0])
    facts = file.facts
    devices = _devices(facts["name"], facts["devices"], here.devices, asked)
    program = LoadedProgram(file, bytes(serialized), devices)
    for what, tree, types in ("in_tree", in_tree, program.in_avals), ("out_tree", out_tree, facts["results"]):
        if tree.num_leaves != len(types):
            rule = "The structures of a saved program are those that serialize returned with it."
            fix = "Pass them."
            found = f"{what}: {tree}, with {tree.num_leaves} arrays; the program has {len(types)}"
            raise ValueError(message(rule, f"program: {facts['name']}", found, fix=fix))
    donated = [i in facts["donated"] for i in range(len(program.in_avals))]
    invars, outvars = list(map(Var, program.in_avals)), list(map(Var, program.jaxpr.out_avals))
    whole = Jaxpr(
        invars, [Eqn(loaded_p, invars, {"results": tuple(v.aval for v in outvars)}, outvars)], outvars
    )
    run = lambda leaves, program: program.run(leaves)
    traced = Traced(facts["name"], whole, (), in_tree, out_tree, program, run, 0, program.in_avals, donated)
    return Compiled(traced, program, program.partition_for(program.in_avals))


def _devices(
    name: str, numbers: Sequence[int], present: Sequence[Any], asked: Sequence[Any] | None
) -> Sequence[Any] | None:
    """The devices of a program that was compiled for those of these numbers; None for any one device."""
    rule = "A saved program runs on as many devices as it was compiled for."
    if asked is not None and len(asked) != max(len(numbers), 1):
        facts = f"program: {name}, of {len(numbers) or 1}; execution_devices: {len(asked)}"
        raise ValueError(message(rule, facts, fix="Pass as many devices."))
    if asked is not None:
        return asked
    by_number = {device.id: device for device in present}
    if missing := [i for i in numbers if i not in by_number]:
        facts = (
            f"program: {name}, of devices {list(numbers)}",
            f"there is none of number {missing[0]}, but {len(present)} in all",
        )
        fix = "Start the process with as many devices (num_cpu_devices for CPUs), or pass execution_devices."
        raise ValueError(message(rule, *facts, fix=fix))
    return [by_number[i] for i in numbers] or None
