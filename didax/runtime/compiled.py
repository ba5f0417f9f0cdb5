"""Running jaxprs as compiled programs on concrete arrays; the eager end of `jit`.

A `Program` is a jaxpr with the values of its leading (captured) inputs, compiled on first use for each device it runs
on. `run_jaxpr` keeps one program per jaxpr, for as long as the jaxpr lives; `jit_p` evaluates with it.
A program runs on the device its arguments or captured values were placed on by the user, and so are its results then.
Read next: `xla/lowering.py`, `xla/compile.py`; `api/jit.py` for the wrapper users call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, compress, repeat
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from didax.core import config
from didax.core import sharding as shardings
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import infer
from didax.core.source import SourceLine, user_line
from didax.passes.checkify import add_checks
from didax.passes.key_reuse import Keys, Summary, holds_keys, summarise
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.passes.loops import optimize_loops
from didax.passes.nans import look_at_program
from didax.passes.simplify import dce_jaxpr
from didax.primitives.call import jit_p
from didax.primitives.shard_map import shard_map_p
from didax.runtime.array import ConcreteArray, argument_buffer, as_concrete, keys_of, on_device, with_keys
from didax.runtime.partitioned import buffers_for, partition_of, results_of
from didax.xla.lowering import lower_module

if TYPE_CHECKING:
    from didax.xla.callbacks import HostCallback
    from didax.xla.compile import Executable
    from didax.xla.partition import Partition


class Program:
    """A jaxpr ready to run on concrete arrays."""

    __slots__ = (
        "_cheap",
        "_constants",
        "_executables",
        "_placed",
        "_replaced",
        "calls_python",
        "donated",
        "jaxpr",
        "kept",
        "key_flow",
        "options",
    )

    def __init__(
        self,
        jaxpr: Jaxpr,
        constants: Sequence[Any] = (),
        donated: Sequence[bool] = (),
        options: Any = None,
        cheap: bool = False,
        keep_unused: bool = False,
        replaced: Sequence[int] = (),
    ):
        if config.state().inspects_values:  # it may have to run again, so it keeps its arguments
            donated, replaced = (), ()
        self.key_flow = KeyFlow(jaxpr, constants) if any(map(holds_keys, jaxpr.in_avals)) else None
        used = (True,) * len(jaxpr.invars)
        if not keep_unused:
            jaxpr, used = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars))
        needs = used[len(constants) :]
        constants = list(compress(constants, used))
        # Donated inputs whose places certain outputs take: the i-th output that of the i-th of `replaced`.
        place = {i: n for n, i in enumerate(compress(range(len(used)), used))}
        self._replaced = {place[i]: out for out, i in enumerate(replaced) if i in place}
        self.jaxpr = jaxpr
        self.donated = tuple(compress(donated, needs))  # per argument that is needed
        self.kept = None if all(needs) else [i for i, needed in enumerate(needs) if needed]
        self.options = options
        self._cheap = cheap  # compiled with the settings for one operation on small arrays
        self._constants = [as_concrete(x) for x in constants]
        self._placed = [x for x in self._constants if x.committed]
        self._executables: dict[Any, Executable] = {}
        self.calls_python = False  # known when it is compiled

    def partition_for(self, args: Sequence[Any]) -> Partition | None:
        """Where the program runs on several devices, for all of these arguments or types of them; None for one."""
        args = args if self.kept is None else [args[i] for i in self.kept]
        return partition_of(self.jaxpr, [*self._constants, *args]) if shardings.in_use else None

    def uses(self, i: int) -> bool:
        """Whether the program is handed argument number i."""
        return self.kept is None or i in self.kept

    def prepare(self, args: Sequence[Any]) -> None:
        """Compile for the device of these arguments where that is not done; afterwards `calls_python` is known."""
        if not self._executables:
            self.executable(common_device([*self._placed, *args]))

    def text(self, callbacks: list[HostCallback] | None = None, partition: Partition | None = None) -> str:
        """The StableHLO module; what it calls back into is added to `callbacks`."""
        donated = (False,) * len(self._constants) + self.donated if any(self.donated) else ()
        # The partitioner looks into no function that XLA is told to leave alone.
        jaxpr, outline = (optimize_loops(self.jaxpr)[0], True) if partition is None else (self.jaxpr, False)
        name = _module_name(jaxpr.name)
        return lower_module(jaxpr, donated, name, outline, self._replaced, callbacks, partition)

    def executable(self, where: Any = None) -> Executable:
        """The compiled program for a device or a partition, compiled on first use."""
        found = self._executables.get(where)
        if found is None:
            try:
                found = self._compile(where)
            except Exception:
                if config.state().check or optimize_loops(self.jaxpr)[0] is self.jaxpr:
                    raise
                with config.override(optimize_loops="off"):  # this XLA takes no such loop
                    found = self._compile(where)
            self._executables[where] = found
        return found

    def _compile(self, where: Any) -> Executable:
        from didax.xla.compile import compile_text  # loads jaxlib: on first need
        from didax.xla.partition import Partition

        callbacks: list[HostCallback] = []
        partition = where if isinstance(where, Partition) else None
        text = self.text(callbacks, partition)
        self.calls_python = bool(callbacks)
        device = None if partition else where
        types = self.jaxpr.in_avals, self.jaxpr.out_avals
        return compile_text(text, *types, device, self._cheap, self.options, callbacks, partition)

    def run(self, args: Sequence[Any]) -> list[ConcreteArray]:
        """Results for concrete arguments, of which the program is handed those that results depend on."""
        flow = self.key_flow
        if flow is None or not key_reuse_is_on():
            return self._run(args)
        keys = flow.note(args, user_line())
        outs = self._run(args)
        return outs if keys is None else list(map(with_keys, outs, keys))

    def _run(self, args: Sequence[Any]) -> list[ConcreteArray]:
        if self.kept is not None:
            args = [args[i] for i in self.kept]
        device = common_device([*self._placed, *args] if self._placed else args)
        partition = partition_of(self.jaxpr, [*self._constants, *args]) if shardings.in_use else None
        where = partition or device
        executable = self._executables.get(where) or self.executable(where)
        try:
            if True in self.donated:
                _detach(args, self.donated)
            if partition is not None:
                buffers = buffers_for(executable, [*self._constants, *args])
            else:
                buffers = argument_buffers(args, device)
                if self._constants:
                    buffers = [x.device_buffer(device) for x in self._constants] + buffers
            outs = executable.run(buffers)
        except Exception as error:
            if (explained := _explain(error, args, self.donated)) is error:
                raise
            raise explained from None
        if True in self.donated:
            _forget(args, self.donated, self.calls_python)
        if partition is not None:
            results = results_of(executable, outs)
        else:
            kind = (
                ConcreteArray
                if device is None or not outs
                else type(on_device(executable.out_avals[0], outs[0]))
            )
            placed = repeat(device is not None)
            results = list(map(kind, executable.out_avals, repeat(None), outs, placed))
        if config.values_were_inspected and config.state().inspects_values:
            look_at_program(self.jaxpr, [*self._constants, *args], results)
        return results

    def direct(self) -> tuple[Executable, list[Any], list[int] | None] | None:
        """The executable, the captured buffers and `kept`, for programs without donation: all a run needs.

        Where there are several devices a program looks at its arguments first, so there is none; nor is there one for
        programs with effects, or whose results are looked at. What a run does to random keys is left to the caller
        (`key_flow`).
        """
        from didax.xla.client import backend

        executable = self._executables.get(None)
        if executable is None or True in self.donated or len(backend().devices) > 1 or self.calls_python:
            return None
        if config.state().inspects_values:
            return None
        captured = [x.device_buffer() for x in self._constants]
        return executable, captured, self.kept


class KeyFlow:
    """What a program does to the random keys among its captured values and arguments."""

    __slots__ = ("_constants", "_jaxpr", "_summary", "_used_up")

    def __init__(self, jaxpr: Jaxpr, constants: Sequence[Any]):
        # Before dead code is removed. A copy: programs keep no reference to the jaxpr they are remembered with.
        self._jaxpr = Jaxpr(jaxpr.invars, jaxpr.eqns, jaxpr.outvars, jaxpr.name)
        self._constants = [keys_of(x) for x in constants]
        self._summary: Summary | None = None
        self._used_up: list[tuple[int, list[str | int]]] | None = None

    def note(self, args: Sequence[Any], line: SourceLine | None) -> list[Keys | None] | None:
        """Mark the keys that a run uses; returns those of its results, None where all of them are new."""
        if self._summary is None:
            self._summary = summarise(self._jaxpr)
            self._used_up = None if any(self._constants) else self._summary.whole_uses()
        if self._used_up is None or line is None:
            return self._summary.apply([*self._constants, *map(keys_of, args)], line)
        for i, purposes in self._used_up:
            if (keys := keys_of(args[i - len(self._constants)])) is not None:
                for purpose in purposes:
                    keys.use(purpose, line)
        return None


def argument_buffers(args: Sequence[Any], device: Any = None) -> list[Any]:
    """Device buffers for the arguments of a program."""
    if device is not None:
        return [argument_buffer(x, device) for x in args]
    return [
        buffer if type(x) is ConcreteArray and (buffer := x._buffer) is not None else argument_buffer(x)
        for x in args
    ]


def _module_name(name: str) -> str:
    return "jit_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name or "program")


def _explain(error: Exception, args: Sequence[Any], donated: Sequence[bool]) -> Exception:
    """PJRT's complaint about a donated or deleted buffer in our words; any other error as it is."""
    if "same call" in str(error) or "same buffer twice" in str(error):
        for gift, (i, x), (j, y) in _pairs(args, donated):
            if (
                gift
                and isinstance(x, ConcreteArray)
                and isinstance(y, ConcreteArray)
                and x._buffer is not None
                and x._buffer is y._buffer
            ):
                return RuntimeError(
                    message(
                        "A donated array was passed to a compiled function twice.",
                        f"arrays {i} and {j}: {x.aval}",
                        fix="Pass a copy in one place (x.copy()), or do not donate it.",
                    )
                )
    for i, x in enumerate(args):
        if isinstance(x, ConcreteArray) and x._buffer is not None and x._buffer.is_deleted():
            return RuntimeError(
                message(
                    "A donated or deleted array was passed to a compiled function.",
                    f"array {i}: {x.aval}",
                    fix="Use the result of the call it was donated to, or do not donate it.",
                )
            )
    return error


def _pairs(args: Sequence[Any], donated: Sequence[bool]) -> Iterator[tuple[bool, Any, Any]]:
    """Pairs of numbered arguments, with whether one of them is donated."""
    gifts = [*donated, *[False] * (len(args) - len(donated))]
    for (i, x), (j, y) in combinations(enumerate(args), 2):
        yield gifts[i] or gifts[j], (i, x), (j, y)


def _detach(args: Sequence[Any], donated: Sequence[bool]) -> None:
    """Leave the buffers of donated arrays to those that share them. See Note [Arrays that share a buffer]."""
    for x in compress(args, donated):
        if isinstance(x, ConcreteArray):
            x.own_buffer()


def _forget(args: Sequence[Any], donated: Sequence[bool], delete: bool) -> None:
    """Let go of donated buffers, which the program has taken; of those that were only lent to it with `delete`."""
    for x, gift in zip(args, donated, strict=True):
        if gift and delete and isinstance(x, ConcreteArray) and x._buffer is not None:
            x._buffer.delete()
        if gift and isinstance(x, ConcreteArray) and x._buffer is not None and x._buffer.is_deleted():
            x.forget_donated()


def common_device(args: Sequence[Any]) -> Any:
    """The device, or devices, that committed arrays are on; None (the default device) where the user placed none."""
    place: Any = None
    for x in args:
        if isinstance(x, ConcreteArray) and x.committed and x.place != place:
            if place is not None:
                raise ValueError(
                    message(
                        "The arguments of a compiled function must be on the same devices.",
                        f"devices: {place}, {x.place}",
                        fix="Move them with didax.device_put.",
                    )
                )
            place = x.place
    return place


_programs: WeakKeyDictionary[Jaxpr, Program] = WeakKeyDictionary()
_INDICES = frozenset(["index"])


def with_checks(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with the checks that the options in force ask for, in what is about to be compiled."""
    if config.state().error_checking_behavior_oob == "raise":
        return add_checks(jaxpr, _INDICES)
    return jaxpr


def run_jaxpr(*args: Any, jaxpr: Jaxpr) -> list[ConcreteArray]:
    """Run a jaxpr, compiled, on concrete arguments."""
    jaxpr = with_checks(jaxpr)
    program = _programs.get(jaxpr)
    if program is None:
        program = _programs[jaxpr] = Program(jaxpr)  # which keeps no reference to its own key
    return program.run(args)


def clear_programs() -> None:
    """Forget every compiled jaxpr."""
    _programs.clear()


jit_p.evaluate = run_jaxpr


def _run_shard_map(*args: Any, **params: Any) -> list[ConcreteArray]:
    invars = [Var(aval_of(x)) for x in args]
    outvars = [Var(aval) for aval in infer(shard_map_p, tuple([v.aval for v in invars]), params)]
    return Program(Jaxpr(invars, [Eqn(shard_map_p, invars, params, outvars)], outvars, "shard_map")).run(args)


shard_map_p.evaluate = _run_shard_map
