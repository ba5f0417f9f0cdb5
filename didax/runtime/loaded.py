"""`LoadedProgram`: a compiled program that was read from bytes, in place of one that is compiled here.

It has the types of its arguments and results but no operations, so it is loaded for each device that it runs on, and
never lowered. Read next: `program_files.py`; `compiled.py`, for how programs run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from didax.core import config
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.passes.nans import look_at_program
from didax.primitives.loaded import loaded_p
from didax.runtime.array import ConcreteArray
from didax.runtime.compiled import Program, label_results
from didax.runtime.program_files import ProgramFile, read_partition, read_type, write_partition, write_type
from didax.xla.device_text import Partition
from didax.xla.inspection import Listener
from didax.xla.lapack import register_lapack

if TYPE_CHECKING:
    from didax.xla.compile import Executable, Serialized


def facts_of(
    program: Program, where: Partition | None, fun_name: str, in_avals: Sequence[Any]
) -> ProgramFile:
    """What a file says of a program for this partition, or for any device; `in_avals` are all arguments' types."""
    found = program.serialized(where)
    kept = range(program.num_arguments) if program.kept is None else program.kept
    facts = {
        "name": fun_name,
        "flags": found.flags,
        "lapack": found.calls_lapack,
        "kept": list(kept),
        "donated": [kept[i] for i, donated in enumerate(program.donated) if donated],
        "arguments": [write_type(aval) for aval in in_avals],
        "results": [write_type(aval) for aval in program.jaxpr.out_avals],
        "partition": None if where is None else write_partition(where),
        "devices": [] if where is None else [device.id for device in where.devices],
    }
    return ProgramFile(facts, [(x.aval, x.host_value()) for x in program.captured_values], found.data)


class LoadedProgram(Program):
    """A program whose executable was read from a file; `devices` are those it runs on, None for any one device."""

    __slots__ = ("_file", "_home", "_stated", "in_avals", "saved")
    is_loaded = True

    def __init__(self, file: ProgramFile, saved: bytes, devices: Sequence[Any] | None):
        facts, kept = file.facts, file.facts["kept"]
        self.in_avals = [read_type(x) for x in facts["arguments"]]
        out_avals = tuple(map(read_type, facts["results"]))
        invars = [Var(aval) for aval, _ in file.constants] + [Var(self.in_avals[i]) for i in kept]
        results = list(map(Var, out_avals))
        calls = [Eqn(loaded_p, invars, {"results": out_avals}, results)]
        constants = [ConcreteArray(aval, array) for aval, array in file.constants]
        super().__init__(
            Jaxpr(invars, calls, results, facts["name"]), constants, keep_unused=True, is_operation=True
        )
        self.num_arguments = len(self.in_avals)
        self.kept = None if len(kept) == self.num_arguments else kept
        self.donated = tuple([i in facts["donated"] for i in kept])
        self.saved, self._file = saved, file
        self._stated = facts["partition"] and read_partition(facts["partition"], devices or ())
        self._home = devices[0] if devices and self._stated is None else None

    def _partition(self, args: Sequence[Any]) -> Partition | None:
        return self._stated

    def _device(self, args: Sequence[Any]) -> Any:
        found = super()._device(args)
        if self._home is None or self._stated is not None:
            return found
        if found not in (None, self._home):
            rule = "A program that was loaded for a device takes arguments that lie there, or nowhere in particular."
            facts = f"program: {self.jaxpr.name}, on {self._home}; arguments on {found}"
            raise ValueError(message(rule, facts, fix="Move them with didax.device_put."))
        return self._home

    def _run(self, args: Sequence[Any]) -> list[Any]:
        if not config.state().inspects_values:
            return super()._run(args)
        # The arguments are inspected after the run, so copies of them are donated.
        outs = super()._run([x.copy() if isinstance(x, ConcreteArray) else x for x in args])
        look_at_program(self.jaxpr, [*self._constants, *self._used(args)], outs, repeatable=False)
        return outs

    def _may_be_evaluated(self) -> bool:
        return False

    def serialized(self, where: Any) -> Serialized:
        """The executable as it was saved."""
        from didax.xla.compile import Serialized  # loads jaxlib: on first need

        facts = self._file.facts
        return Serialized(self._file.executable, [tuple(flag) for flag in facts["flags"]], facts["lapack"])

    def _compile(self, where: Any, listener: Listener, anew: bool = False) -> Executable:
        """Load the executable for a device, or for the devices of the partition."""
        from didax.xla.client import backend
        from didax.xla.compile import Executable, PartitionedExecutable, load_serialized

        partition = where if isinstance(where, Partition) else None
        devices = partition.devices if partition else (where or self._home or backend().default_device,)
        saved = self.serialized(where)
        if saved.calls_lapack:
            register_lapack()
        try:
            loaded = load_serialized(saved, devices, partition is not None)
        except RuntimeError as error:
            rule = "XLA does not load the saved program."
            facts = (
                f"program: {self.jaxpr.name}, devices: {', '.join(map(str, devices)):.200}",
                str(error)[:300],
            )
            fix = "Register the functions of yours that it calls (didax.ffi), or save it again."
            raise ValueError(message(rule, *facts, fix=fix)) from error
        in_avals, out_avals = self.jaxpr.in_avals, self.jaxpr.out_avals
        if partition is None:
            return Executable(loaded, out_avals, devices[0])
        executable = PartitionedExecutable(loaded, in_avals, out_avals, partition)
        label_results(executable, out_avals, partition)
        return executable
