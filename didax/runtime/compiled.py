"""Running jaxprs as compiled programs on concrete arrays; the eager end of `jit`.

A `Program` is a jaxpr with the values of its leading (captured) inputs, compiled on first use for each device it runs
on. It runs on the device that the user placed an argument or a captured value on, and its results stay there; otherwise
it runs on the default device. `run_jaxpr`, by which `jit_p` is evaluated, keeps one program per jaxpr, as long as the
jaxpr lives.
Read next: `xla/lowering.py`, `xla/compile.py`; `api/jit.py` for the wrapper users call; `donation.py`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from didax.core import config
from didax.core import sharding as shardings
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import float0
from didax.core.errors import RuleError, message
from didax.core.given import give, given_by
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.monitoring import COMPILED, LOWERED, Elapsed
from didax.core.primitive import Primitive, infer
from didax.core.primitive_names import is_of_library
from didax.core.rule_types import refused_text
from didax.core.sharding import NamedSharding
from didax.core.source import user_line
from didax.passes.key_reuse import holds_keys
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.passes.loops import optimize_loops
from didax.passes.nans import look_at_program
from didax.passes.simplify import dce_jaxpr
from didax.primitives.call import jit_p
from didax.primitives.shard_map import shard_map_p
from didax.runtime import donation
from didax.runtime.array import (
    ConcreteArray,
    argument_buffer,
    as_concrete,
    chosen_device,
    on_device,
    with_keys,
)
from didax.runtime.explicit import labelled, without_types
from didax.runtime.key_flow import KeyFlow
from didax.runtime.partitioned import Asked, buffers_for, partition_of, results_of
from didax.runtime.value_checks import check_may_run, with_index_checks
from didax.runtime.xla_options import options_for
from didax.xla.device_text import Partition
from didax.xla.inspection import Listener
from didax.xla.lowering import lower_module
from didax.xla.platforms import platform

if TYPE_CHECKING:
    from didax.xla.callbacks import HostCallback
    from didax.xla.compile import Executable, Serialized


T = TypeVar("T")


class ReadyToRun(NamedTuple):
    """What a run of a program needs besides its arguments."""

    executable: Executable
    captured: list[Any]  # the buffers of the captured values
    kept: list[int] | None  # the arguments that results depend on; None: all
    layouts: Sequence[NamedSharding] | None  # how the kept arguments lie on several devices; None: on one


class Program:
    """A jaxpr ready to run on concrete arrays.

    Args:
      constants: values of the leading inputs; the arguments of a run are those of the other inputs.
      donated: for each argument, whether the results may take its memory.
      options: XLA's options by name.
      cheap: compile quickly, with the settings for one operation on small arrays.
      keep_unused: hand the compiled program also the inputs that no result depends on.
      replaced: positions among all inputs; output number i takes the place in memory of input number replaced[i].
      in_background: calls do not wait until it is compiled (`background.py`); None: as the option says.
      asked: for each argument, how it has to lie on devices; None leaves it where it is.
      asked_results: how the last results lie, as the function's equations say too; for callers who inspect the program.
      names: what errors call the arguments; without them they are numbered.
      is_operation: it is one eager operation, whose caller checks the results where options ask for it.
    """

    __slots__ = (
        "__weakref__",
        "_asked",
        "_cheap",
        "_constants",
        "_executables",
        "_float0",
        "_in_background",
        "_is_operation",
        "_placed",
        "_replaced",
        "asked_results",
        "calls_python",
        "donated",
        "jaxpr",
        "kept",
        "key_flow",
        "names",
        "num_arguments",
        "options",
        "uncompiled",
    )
    is_loaded = False  # from bytes, without a jaxpr that could be lowered: see loaded.py
    run_uncompiled = given_by("didax.runtime.background")
    may_call_python = given_by("didax.runtime.background")

    def __init__(
        self,
        jaxpr: Jaxpr,
        constants: Sequence[Any] = (),
        donated: Sequence[bool] = (),
        options: Any = None,
        cheap: bool = False,
        keep_unused: bool = False,
        replaced: Sequence[int] = (),
        in_background: bool | None = None,
        asked: Sequence[Asked | None] = (),
        asked_results: Sequence[NamedSharding | None] = (),
        names: Sequence[str] = (),
        is_operation: bool = False,
    ):
        if config.state().inspects_values:
            # The search for a NaN runs the program again, on the same arguments.
            donated, replaced = (), ()
        self.key_flow = KeyFlow(jaxpr, constants) if any(map(holds_keys, jaxpr.in_avals)) else None
        used = (True,) * len(jaxpr.invars)
        if not keep_unused:
            jaxpr, used = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars))
        needs = used[len(constants) :]
        self.num_arguments = len(needs)
        constants = list(compress(constants, used))
        new_position = {i: n for n, i in enumerate(compress(range(len(used)), used))}
        # For each replaced input that the program uses, by its position: the output that takes its place in memory.
        self._replaced = {new_position[i]: out for out, i in enumerate(replaced) if i in new_position}
        self.jaxpr = jaxpr
        self.donated = tuple(compress(donated, needs))  # for each argument that is used
        self.names = tuple(compress(names, needs))  # what errors call them
        # None: all are used.
        self.kept = None if all(needs) else [i for i, needed in enumerate(needs) if needed]
        self.options = options
        self._asked = list(compress(asked, needs))
        self.asked_results = asked_results
        self._cheap = cheap
        self._constants = [as_concrete(x) for x in constants]
        self._placed = [x for x in self._constants if x.committed]
        self._executables: dict[Any, Executable] = {}
        # Results of float0 have no contents: they are NumPy arrays here, as they are where derivatives run eagerly.
        self._float0 = [i for i, aval in enumerate(jaxpr.out_avals) if aval.dtype == float0]
        self.calls_python = False  # whether it calls back into Python: set when it is compiled
        self._in_background = in_background
        self._is_operation = is_operation
        self.uncompiled: Any = None  # what `background.py` knows about it

    def with_options(self, options: dict[str, Any]) -> Program:
        """The same program, to be compiled with more options of XLA."""
        other = self._not_compiled()
        other.options = {**(self.options or {}), **options}
        return other

    def of_equal_jaxpr(self, jaxpr: Jaxpr) -> Program:
        """The same program for a jaxpr that differs from its own in the source lines of its equations only."""
        other = self._not_compiled()
        whole = with_index_checks(jaxpr)
        live, _ = dce_jaxpr(whole, (True,) * len(whole.outvars))
        other.jaxpr = live if len(live.invars) == len(self.jaxpr.invars) else whole
        return other

    def _not_compiled(self) -> Program:
        """A copy for which nothing has been compiled yet."""
        other = copy.copy(self)
        other._executables, other.uncompiled = {}, None
        return other

    def partition_for(self, args: Sequence[Any]) -> Partition | None:
        """Where the program runs on several devices, for all of these arguments or types of them; None for one."""
        return self._partition(self._used(args))

    def _partition(self, args: Sequence[Any]) -> Partition | None:
        if not shardings.in_use:
            return None
        return partition_of(self.jaxpr, self._constants, args, self._asked)

    def device_of(self, args: Sequence[Any]) -> Any:
        """The device that these arguments were placed on, or else the captured values; None where none was."""
        return self._device(self._used(args))

    def _device(self, args: Sequence[Any]) -> Any:
        device = common_device(args)
        return common_device(self._placed) if device is None and self._placed else device

    def _used(self, args: Sequence[Any]) -> Sequence[Any]:
        return args if self.kept is None else [args[i] for i in self.kept]

    def uses(self, i: int) -> bool:
        """Whether a result depends on argument number i, so that the compiled program gets it."""
        return self.kept is None or i in self.kept

    @property
    def donated_inputs(self) -> tuple[bool, ...]:
        """For each input of the jaxpr, whether the results may take its memory."""
        return (False,) * len(self._constants) + self.donated if True in self.donated else ()

    def prepare(self, args: Sequence[Any]) -> None:
        """Compile for the devices of these arguments, where `calls_python` could be wrong otherwise."""
        if not self._executables and (not self._may_be_evaluated() or self.may_call_python()):
            args = self._used(args)
            self.executable(self._partition(args) or self._device(args))

    def _may_be_evaluated(self) -> bool:
        """Whether calls may be evaluated as long as the program is not compiled."""
        state = config.state()
        asked = state.compile_in_background if self._in_background is None else self._in_background
        return asked and not self._cheap and not state.inspects_values

    def text(
        self,
        callbacks: list[HostCallback] | None = None,
        partition: Partition | None = None,
        located: bool = False,
        listener: Listener | None = None,
        platform: str | None = None,
    ) -> str:
        """The StableHLO module; the Python functions that it calls back are added to `callbacks`.

        With `located` the text says where operations come from. With a `listener` it asks XLA how it splits the values
        that the program inspects. A text for another `platform` than the process's refers to nothing of this process.
        """
        with config.override(lowering_platform=platform):
            return self._text(callbacks, partition, located, listener)

    def _text(
        self,
        callbacks: list[HostCallback] | None,
        partition: Partition | None,
        located: bool,
        listener: Listener | None,
    ) -> str:
        # The partitioner does not look into functions that XLA is told not to inline, and a GPU takes twice the time
        # for a program that is cut into them (docs/design/gpus.md).
        on_one = partition is None or partition.is_one_device
        outline = on_one and platform() == "cpu"
        jaxpr = optimize_loops(self.jaxpr)[0] if on_one else self.jaxpr
        if partition is not None and partition.meshes:
            jaxpr = without_types(jaxpr, partition.meshes)
        return lower_module(
            jaxpr,
            self.donated_inputs,
            self.module_name,
            outline,
            self._replaced,
            callbacks,
            partition,
            located,
            listener,
            alone=config.state().lowering_platform is not None,
        )

    def executable(self, where: Any = None) -> Executable:
        """The compiled program for a device or a partition, compiled on first use."""
        found = self._executables.get(where)
        if found is None:

            def compiled() -> tuple[Executable, Listener]:
                listener = Listener()
                return self._compile(where, listener), listener

            found, listener = self._as_xla_takes_it(compiled)
            listener.tell(where if isinstance(where, Partition) else None, found)
            self._executables[where] = found
        return found

    def _as_xla_takes_it(self, compiled: Callable[[], T]) -> T:
        """What `compiled` returns; without optimised loops if this version of XLA does not take those."""
        try:
            return compiled()
        except RuntimeError:  # XLA's class of errors; what a signal's handler raises passes
            if config.state().check or optimize_loops(self.jaxpr)[0] is self.jaxpr:
                raise
            with config.override(optimize_loops="off"):
                return compiled()

    def serialized(self, where: Any) -> Serialized:
        """The compiled program for a device or a partition as bytes."""
        from didax.xla.compile import serialized_text  # loads jaxlib: on first need

        partition = where if isinstance(where, Partition) else None
        located = functools.partial(self.text, None, partition, True)

        def written() -> Serialized:
            text, options = self.text(None, partition), self._xla_options(partition)
            return serialized_text(text, None if partition else where, options, partition, located)

        return self._as_xla_takes_it(written)

    @property
    def module_name(self) -> str:
        """The name of the module that XLA compiles."""
        return _module_name(self.jaxpr.name)

    def is_compiled_for(self, where: Any = None) -> bool:
        """Whether a run there need not compile."""
        return where in self._executables

    def forget_compiled(self) -> None:
        """Compile it anew when it runs again."""
        self._executables = {}

    def executables(self) -> dict[Any, Executable]:
        """Its compiled programs, by device or partition."""
        return dict(self._executables)

    def compiled_anew(self, where: Any) -> Executable:
        """The program, compiled now and not taken from a cache, so that its lines are those of the present source."""
        return self._compile(where, Listener(), anew=True)

    def _compile(self, where: Any, listener: Listener, anew: bool = False) -> Executable:
        from didax.xla.compile import compile_text  # loads jaxlib: on first need

        if True in self.donated and not (self.uncompiled is not None and self.uncompiled.has_warned):
            self.warn_of_unusable_donations()
        callbacks: list[HostCallback] = []
        partition = where if isinstance(where, Partition) else None
        name = self.jaxpr.name
        with Elapsed(LOWERED, fun_name=name):
            text = self.text(callbacks, partition, listener=listener)
        self.calls_python = bool(callbacks)
        device = None if partition else where
        in_avals, out_avals = self.jaxpr.in_avals, self.jaxpr.out_avals
        located = functools.partial(self.text, None, partition, True, listener)
        asks = partition is not None and bool(listener)
        try:
            with Elapsed(COMPILED, fun_name=name):
                executable = compile_text(
                    text,
                    out_avals,
                    device,
                    self._cheap,
                    self._xla_options(partition),
                    callbacks,
                    partition,
                    in_avals,
                    (lambda: listener.addressed(located())) if asks else None if self._cheap else located,
                    anew or asks,
                )
        except RuntimeError as error:
            # An error of the library's own, as in a forked process, says what is wrong.
            if type(error) is RuntimeError:
                raise
            if (explained := _wrong_text(self.jaxpr, error)) is None:
                raise
            raise explained from error
        if partition is not None:
            label_results(executable, out_avals, partition)
        return executable

    def _xla_options(self, partition: Partition | None) -> dict[str, Any] | None:
        """XLA's options by name: those of its loops, and the user's."""
        if self._cheap or not (partition is None or partition.is_one_device):
            return self.options
        return {**options_for(optimize_loops(self.jaxpr)[0]), **(self.options or {})}

    @property
    def captured_values(self) -> list[ConcreteArray]:
        """The values of the first inputs of the jaxpr."""
        return list(self._constants)

    @property
    def num_captured(self) -> int:
        """How many of the jaxpr's inputs, the first ones, are captured values."""
        return len(self._constants)

    def warn_of_unusable_donations(self) -> None:
        """Warn of donated arguments whose memory no result can take."""
        donation.warn_of_unusable(self.jaxpr, len(self._constants), self.donated, self._replaced)

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Results for concrete arguments: all of them, including those that no result depends on."""
        flow = self.key_flow
        if flow is None or not key_reuse_is_on():
            return self._run(args)
        keys = flow.note(args, user_line())
        outs = self._run(args)
        return outs if keys is None else list(map(with_keys, outs, keys))

    def _run(self, args: Sequence[Any]) -> list[Any]:
        if config.operations_were_watched:
            check_may_run(self.jaxpr.name or "a program")
        args = self._used(args)
        device = self._device(args)
        committed = device is not None
        if config.default_device_was_set and device is None:
            device = chosen_device()
        partition = self._partition(args)
        where = partition or device
        executable = self._executables.get(where)
        if executable is None:
            if where is None and self._may_be_evaluated():
                outs = self.run_uncompiled([*self._constants, *args])
                if outs is not None:
                    return self._with_float0(outs)
            executable = self.executable(where)
        try:
            if True in self.donated:
                donation.detach(args, self.donated)
                if partition is not None:
                    donation.refuse_twice(args, self.donated, self._constants, self.names)
            if partition is not None:
                buffers = buffers_for(executable.in_shardings, [*self._constants, *args])
            else:
                buffers = argument_buffers(args, device)
                if self._constants:
                    buffers = [x.device_buffer(device) for x in self._constants] + buffers
            outs = executable.run(buffers)
        except Exception as error:
            explained = donation.explain(error, args, self.donated, self._constants, self.names)
            if explained is error:
                raise
            raise explained from None
        if True in self.donated:
            # A program that calls Python is compiled without donation (`xla/lowering.py`): it only reads the buffers.
            donation.forget(args, self.donated, self.calls_python)
        results: list[Any]
        if partition is not None:
            results = list(results_of(executable, outs))
        else:
            placed = device is not None and outs
            kind = type(on_device(executable.out_avals[0], outs[0])) if placed else ConcreteArray
            results = list(map(kind, executable.out_avals, repeat(None), outs, repeat(committed)))
        if config.operations_were_watched and config.state().inspects_values and not self._is_operation:
            look_at_program(self.jaxpr, [*self._constants, *args], results)
        return self._with_float0(results)

    @property
    def captures_placed(self) -> bool:
        """Whether a captured value was placed on its device by the user, and so are the results."""
        return bool(self._placed)

    def explained(self, error: Exception, args: Sequence[Any]) -> Exception:
        """What to raise for an error of a run with these arguments, all of which are given."""
        return donation.explain(error, self._used(args), self.donated, self._constants, self.names)

    def _with_float0(self, results: list[Any]) -> list[Any]:
        for i in self._float0:
            results[i] = np.zeros(results[i].shape, float0)
        return results

    def ready_to_run(self, args: Sequence[Any]) -> ReadyToRun | None:
        """All that a run needs besides arguments like these, with which the program has run.

        None where a run does more: where arguments on several devices are donated, where the program calls Python,
        where its results are checked, where one of them is of float0, or where it runs on one device other than the
        default one. What a run does to random keys, and to donated arguments on one device, is left to the caller.
        """
        from didax.xla.client import backend

        if self._float0 or config.state().inspects_values:
            return None
        partition, args = self.partition_for(args), self._used(args)
        device = self._device(args) or chosen_device()
        executable = self._executables.get(partition or device)
        # In this order: a thread that compiles sets `calls_python` first.
        if executable is None or self.calls_python:
            return None
        if partition is None:
            # Calls are of one kind whether arrays on the default device were placed there or not.
            on_default = device in (None, backend().default_device) and chosen_device() is None
            captured = [x.device_buffer() for x in self._constants]
            return ReadyToRun(executable, captured, self.kept, None) if on_default else None
        alone = partition.is_one_device
        if partition.devices[0] is not backend().default_device if alone else True in self.donated:
            return None
        n = len(self._constants)
        captured = buffers_for(executable.in_shardings[:n], self._constants)
        return ReadyToRun(executable, captured, self.kept, executable.in_shardings[n:])


def label_results(executable: Executable, out_avals: Sequence[ShapedArray], partition: Partition) -> None:
    """Describe how results lie by the shardings of their types, where meshes have explicit axes."""
    if partition.meshes:
        found = zip(executable.out_shardings, out_avals, strict=True)
        stated = partition.results or [None] * len(out_avals)
        executable.out_shardings = [
            labelled(s, aval, partition.meshes, said) for (s, aval), said in zip(found, stated, strict=True)
        ]


def _wrong_text(jaxpr: Jaxpr, error: RuntimeError) -> RuleError | None:
    """The error of the first operation whose lowering XLA refuses on its own, too; None if there is no such operation.

    The library's own operations are tried where checks are on, as in its tests.
    """
    from didax.xla.compile import compile_text

    for eqn in jaxpr.eqns:
        for inner in eqn.jaxprs:
            if (found := _wrong_text(inner, error)) is not None:
                return found
        if eqn.jaxprs or (is_of_library(eqn.primitive) and not config.state().check):
            continue
        invars = [Var(x.aval) for x in eqn.invars]
        text = lower_module(Jaxpr(invars, [eqn.replace(invars=invars)], eqn.outvars))
        try:
            compile_text(text, [v.aval for v in eqn.outvars], cheap=True)
        except RuntimeError as alone:
            return refused_text(eqn.primitive, [x.aval for x in eqn.invars], text, str(alone))
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


def application_jaxpr(
    primitive: Primitive,
    avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
) -> Jaxpr:
    """The jaxpr of one application of a primitive."""
    invars, outvars = [Var(aval) for aval in avals], [Var(aval) for aval in out_avals]
    return Jaxpr(invars, [Eqn(primitive, invars, params, outvars)], outvars, primitive.name)


def common_device(args: Sequence[Any]) -> Any:
    """The device, or devices, that committed arrays are on; None (the default device) where the user placed none."""
    place: Any = None
    for x in args:
        if isinstance(x, ConcreteArray) and x.committed and x.place != place:
            if place is not None:
                placed = [y for y in args if isinstance(y, ConcreteArray) and y.committed]
                first = next(y for y in placed if y.place == place)
                raise ValueError(
                    message(
                        "The arguments of a compiled function must be on the same devices.",
                        f"devices: {place}, {x.place}",
                        f"arrays there: {first.aval}, {x.aval}",
                        fix="Move them with didax.device_put.",
                    )
                )
            place = x.place
    return place


_programs: WeakKeyDictionary[Jaxpr, Program] = WeakKeyDictionary()


@give(jit_p, "evaluate")
def run_jaxpr(*args: Any, jaxpr: Jaxpr) -> list[Any]:
    """Run a jaxpr, compiled, on concrete arguments."""
    jaxpr = with_index_checks(jaxpr)
    program = _programs.get(jaxpr)
    if program is None:
        # The program refers to a copy of the jaxpr, never to the jaxpr itself: a key of a weak dictionary must be free.
        program = _programs[jaxpr] = Program(jaxpr)
    return program.run(args)


def programs_of_jaxprs() -> list[Program]:
    """The programs that are kept for jaxprs."""
    return list(_programs.values())


def clear_programs() -> None:
    """Forget every compiled jaxpr."""
    _programs.clear()


@give(shard_map_p, "evaluate")
def run_shard_map(*args: Any, **params: Any) -> list[Any]:
    """Run a `shard_map` on concrete arguments, as a program of its own."""
    avals = tuple([aval_of(x) for x in args])
    return Program(application_jaxpr(shard_map_p, avals, infer(shard_map_p, avals, params), params)).run(args)
