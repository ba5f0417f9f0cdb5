"""Compilation: StableHLO text to an executable, remembered in memory and on disk.

`compile_text(text, ...)` first looks among the programs this process has compiled, then in the compilation cache on
disk (bounded, safe against concurrent writers; a bad entry is a miss), then asks XLA. `Executable` runs on device
buffers. XLA checks only number and byte size of what it is fed: callers key their programs by abstract values. Read
next: `buffers.py`, `didax/api/jit.py`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import platform
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import config, job
from didax.core.avals import ShapedArray
from didax.core.errors import DistributedError, message
from didax.core.monitoring import CACHE_HIT, CACHE_MISS, CACHE_READ, CACHE_REQUEST, Elapsed, events
from didax.core.process import after_fork, lock_for_forks, to_the_end
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.version import __version__, installed_jaxlib
from didax.xla.agreement import agree, processes_of
from didax.xla.buffers import lend, put
from didax.xla.callbacks import (
    HostCallback,
    Run,
    depth,
    dispatchers,
    others_wait,
    raised_in_jax,
    register_handler,
)
from didax.xla.client import Backend, backend, backend_of, calling_backend, forked, is_forked, xe
from didax.xla.device_text import Partition
from didax.xla.disk_store import DiskStore, store_in_force
from didax.xla.partition import layout_found, moved_shards, put_shards, xla_sharding
from didax.xla.signals import fragile, hold_signals, raise_held, release_signals

_MEMORY_MAX = 512  # programs kept in memory, the latest used: a small one takes a quarter of a megabyte
_memory: OrderedDict[Any, Any] = OrderedDict()
_compiling: dict[Any, _Compilation] = {}  # compilations that have not ended, by the same keys
_memory_lock = lock_for_forks(threading.RLock())


class Executable:
    """A compiled program on one device: `run(buffers) -> buffers`."""

    __slots__ = ("device", "handlers", "loaded", "out_avals")
    in_shardings: Sequence[NamedSharding] = ()  # on several devices: how arguments and results lie on them
    out_shardings: Sequence[NamedSharding] = ()
    is_shared = False  # whether other processes have to run it too

    def __init__(self, loaded: Any, out_avals: Sequence[ShapedArray], device: Any):
        self.loaded = loaded
        self.out_avals = tuple(out_avals)
        self.device = device
        sharding = backend_of(device).shardings[device]
        self.handlers = [_result_handler(aval.physical, sharding) for aval in out_avals]

    def run(self, buffers: list[Any]) -> list[Any]:
        """Start the program; results are device buffers, filled asynchronously."""
        return self.loaded.execute_sharded(buffers).consume_with_handlers(self.handlers, False)


class PartitionedExecutable(Executable):
    """A compiled program on several devices: arguments and results are XLA's arrays of all parts."""

    __slots__ = ("in_shardings", "out_shardings", "partition")

    def __init__(
        self,
        loaded: Any,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        partition: Partition,
    ):
        self.loaded = loaded
        self.out_avals = tuple(out_avals)
        self.device = None
        self.partition = partition
        chosen = loaded.get_parameter_shardings() or [None] * len(in_avals)
        self.in_shardings = [
            given or layout_found(partition, found, aval.ndim)
            for given, found, aval in zip(partition.arguments, chosen, in_avals, strict=True)
        ]
        # XLA has one for the empty tuple of a program without results.
        found = out_avals and (loaded.get_output_shardings() or [None] * len(out_avals))
        chosen = [
            layout_found(partition, sharding, aval.ndim)
            for sharding, aval in zip(found, out_avals, strict=True)
        ]
        stated = _as_stated(chosen, partition, [a.ndim for a in in_avals], [a.ndim for a in out_avals])
        memories = partition.memories or [None] * len(out_avals)
        self.out_shardings = [
            s if kind is None else s.with_memory_kind(kind) for s, kind in zip(stated, memories, strict=True)
        ]
        self.handlers = [
            _result_handler(aval.physical, xla_sharding(sharding))
            for aval, sharding in zip(out_avals, self.out_shardings, strict=True)
        ]

    def run(self, buffers: list[Any]) -> list[Any]:
        """Start the program; results are device buffers, filled asynchronously."""
        self.check_may_run()
        return Executable.run(self, buffers)

    def check_may_run(self) -> None:
        """RuntimeError in a callback that devices and other processes wait for: they take part in this program, too."""
        if others_wait():
            raise RuntimeError(
                message(
                    "A callback of a program of several processes runs while all of them wait for it: it cannot run "
                    "another program on several devices.",
                    f"devices: {', '.join(map(str, self.partition.devices)):.200}",
                    fix="Compute on one device in the callback, or start the program after this one.",
                )
            )


def _as_stated(
    found: Sequence[NamedSharding], partition: Partition, in_ndims: Sequence[int], out_ndims: Sequence[int]
) -> list[NamedSharding]:
    """The layouts of results as the user wrote them: as the program states them, or as it states one of an argument."""
    laid_out = zip(partition.arguments, in_ndims, strict=True)
    arguments = [(s.on_device, n) for s, n in laid_out if s is not None]
    results = [None if s is None else s.on_device for s in partition.results or (None,) * len(out_ndims)]

    def worded(sharding: NamedSharding, stated: NamedSharding | None, ndim: int) -> NamedSharding:
        words = [stated, *[s for s, n in arguments if n == ndim]]
        return next((s for s in words if s is not None and s.is_equivalent_to(sharding, ndim)), sharding)

    return list(map(worded, found, results, out_ndims))


class CallingPartitionedExecutable(PartitionedExecutable):
    """A compiled program on several devices of the CPU that calls Python, on a client of its own."""

    __slots__ = ("_callbacks", "_in_avals", "_load", "_places")

    def __init__(
        self,
        load: Callable[[Backend, tuple[Any, ...]], Any],
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        partition: Partition,
        callbacks: Sequence[HostCallback],
    ):
        self._load = load
        self._callbacks = callbacks
        self._in_avals = in_avals
        self._places: dict[Backend, tuple[tuple[Any, ...], Any]] = {}
        self.partition = partition
        number = NamedSharding(partition.mesh, PartitionSpec())
        given = Partition(partition.mesh, (number, *partition.arguments), memories=partition.memories)
        _, loaded = self._place(calling_backend(0, len(partition.devices)))
        super().__init__(loaded, [_INT64, *in_avals], out_avals, given)
        self.in_shardings = self.in_shardings[1:]

    def _place(self, client: Backend) -> tuple[tuple[Any, ...], Any]:
        """The devices of a client, one for each of the partition, and the program loaded there."""
        found = self._places.get(client)
        if found is None:
            devices = tuple(client.client.devices())
            found = self._places[client] = devices, self._load(client, devices)
        return found

    def run(self, buffers: list[Any]) -> list[Any]:
        """Run the program; results are device buffers, which are there."""
        client = calling_backend(depth(), len(self.partition.devices))
        self._place(client)  # compiles here, where it can be interrupted
        held = hold_signals()
        try:
            return self._run(client, buffers)
        finally:
            release_signals(held)
            raise_held()

    def _run(self, client: Backend, buffers: list[Any]) -> list[Any]:
        devices, loaded = self._place(client)
        twins = dict(zip(self.partition.devices, devices, strict=True))
        moved = [
            moved_shards(x, aval, s, backend(), _on_twins(s, twins))
            for x, aval, s in zip(buffers, self._in_avals, self.in_shardings, strict=True)
        ]
        whole = _on_twins(NamedSharding(self.partition.mesh, PartitionSpec()), twins)

        def put_number(number: int) -> Any:
            return put_shards([np.array(number)] * len(devices), _INT64, whole)

        results = _executed(loaded, Run(self._callbacks, len(devices)), put_number, moved)
        there = [_on_twins(s, twins) for s in self.out_shardings]
        handlers = [
            _result_handler(aval.physical, xla_sharding(s))
            for aval, s in zip(self.out_avals, there, strict=True)
        ]
        outs = results.consume_with_handlers(handlers, False)
        return [
            moved_shards(y, aval, s, client, home)
            for y, aval, s, home in zip(outs, self.out_avals, there, self.out_shardings, strict=True)
        ]


def _on_twins(sharding: NamedSharding, twins: dict[Any, Any]) -> NamedSharding:
    """The sharding on other devices, each of which stands for one."""
    mesh = sharding.concrete_mesh
    devices = np.array([twins[device] for device in mesh.devices.flat], object)
    return sharding.update(mesh=mesh.update(devices=devices.reshape(mesh.devices.shape)))


def _check_may_call(callbacks: Sequence[HostCallback]) -> None:
    if backend().platform != "cpu":
        raise NotImplementedError(
            message(
                "A program on several devices that are no CPUs cannot call back into Python.",
                f"callbacks: {', '.join(callback.name for callback in callbacks)}",
                fix="Leave them out, or run the program on arrays that lie on one device.",
            )
        )


class SharedExecutable(PartitionedExecutable):
    """A compiled program on devices of several processes, each of which runs it."""

    __slots__ = ()
    is_shared = True

    def run(self, buffers: list[Any]) -> list[Any]:
        """Start the program here; the other processes of the job start it too."""
        self.check_may_run()
        return self._run_in_job(lambda: Executable.run(self, buffers))

    def _run_in_job(self, work: Callable[[], list[Any]]) -> list[Any]:
        processes, in_turn = processes_of(self.partition.devices), backend().platform == "cpu"
        return job.in_force().run(work, processes, in_turn)


class SharedCallingExecutable(SharedExecutable):
    """A compiled program on devices of several processes that calls Python.

    In a `shard_map` each process calls for its own devices. A call on whole values is made by the process of the first
    device, and the others get its results. Where a callback fails, the program goes on with other numbers in place of
    its results, and every process whose results may depend on these numbers raises an error.
    """

    __slots__ = ("_callbacks",)

    def __init__(
        self,
        loaded: Any,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        partition: Partition,
        callbacks: Sequence[HostCallback],
    ):
        number = NamedSharding(partition.mesh, PartitionSpec())
        given = Partition(partition.mesh, (number, *partition.arguments), memories=partition.memories)
        super().__init__(loaded, [_INT64, *in_avals], out_avals, given)
        self.in_shardings = self.in_shardings[1:]
        self._callbacks = callbacks

    def run(self, buffers: list[Any]) -> list[Any]:
        """Run the program; results are device buffers, which are there."""
        self.check_may_run()
        now, devices = job.in_force(), self.partition.devices
        processes = processes_of(devices)
        failures = now.meeting("callbacks that fail", processes)

        def tell(error: BaseException) -> None:
            now.tell(f"{failures}/{now.index}", f"{type(error).__name__}: {error}".encode())

        here = sum(device.process_index == now.index for device in devices)
        run = Run(self._callbacks, here, tell)

        def put_number(number: int) -> Any:
            whole = NamedSharding(self.partition.mesh, PartitionSpec())
            return put_shards([np.array(number)] * here, _INT64, whole)

        def work() -> list[Any]:
            return _executed(self.loaded, run, put_number, buffers).consume_with_handlers(
                self.handlers, False
            )

        outs = self._run_in_job(work)
        for process, text in now.told_under(failures).items():
            raise DistributedError(
                message(
                    "What a program computes is known if its callbacks return in all processes.",
                    f"a callback failed in process {process}: {text.decode()}",
                    f"this is process {now.index}",
                    fix="Look at what that process printed.",
                )
            )
        return outs


def _refuse(self: Executable, buffers: list[Any]) -> list[Any]:
    raise forked(backend())


def _result_handler(aval: ShapedArray, sharding: Any) -> Any:
    try:
        return xe.array_result_handler(aval, sharding, True, True)  # jaxlib 0.10
    except TypeError:
        return xe.array_result_handler(aval, sharding, True)


class CallingExecutable(Executable):
    """A compiled program that calls Python. `run` returns when the program has ended, and raises what a callback
    raised.

    On the CPU the program borrows the memory of its arguments, on a client of its own (`calling_backend`). On a GPU it
    may have a partition for this one device, which says in which memories arguments and results lie.
    """

    __slots__ = (
        "_callbacks",
        "_load",
        "_memories",
        "_numbers",
        "_places",
        "in_shardings",
        "out_shardings",
        "partition",
    )

    def __init__(
        self,
        load: Callable[[Backend, tuple[Any, ...]], Any],
        out_avals: Sequence[ShapedArray],
        device: Any,
        callbacks: Sequence[HostCallback],
        partition: Partition | None = None,
    ):
        self._load = load
        self._callbacks = callbacks
        self._places: dict[Backend, tuple[Any, Any, list[Any]]] = {}
        self._memories: Sequence[str | None] = (partition and partition.memories) or [None] * len(out_avals)
        self.in_shardings = self.out_shardings = ()
        self.partition = partition
        if partition is not None:
            whole = NamedSharding(partition.mesh, PartitionSpec())
            self.in_shardings = [sharding or whole for sharding in partition.arguments]
            self.out_shardings = [whole.update(memory_kind=kind) for kind in self._memories]
        self._numbers: dict[tuple[Backend, int], Any] = {}  # the numbers of runs, as device buffers
        self.out_avals = tuple(out_avals)
        self.device = device

    @property
    def loaded(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The program as XLA holds it."""
        return self._place(self._client())[1]

    def _client(self) -> Backend:
        return calling_backend(depth()) if backend().platform == "cpu" else backend()

    def _place(self, client: Backend) -> tuple[Any, Any, list[Any]]:
        """The device of a client, the program loaded there, and handlers of its results."""
        found = self._places.get(client)
        if found is None:
            device = self.device if client is backend() else client.default_device
            laid = zip(self.out_avals, self._memories, strict=True)
            handlers = [_result_handler(a.physical, client.in_memory(device, kind)) for a, kind in laid]
            found = self._places[client] = device, self._load(client, (device,)), handlers
        return found

    def run(self, buffers: list[Any]) -> list[Any]:
        """Run the program; results are device buffers."""
        client = self._client()
        if client is backend():
            return self._call(client, buffers)
        device, _, _ = self._place(client)
        outs = self._call(client, [lend(x, client, device) for x in buffers])
        return [lend(y, backend(), self.device) for y in outs]

    def _call(self, client: Backend, buffers: list[Any]) -> list[Any]:
        self._place(client)  # compiles here, where it can be interrupted
        try:
            return self._call_held(client, buffers)
        finally:
            raise_held()

    @fragile
    def _call_held(self, client: Backend, buffers: list[Any]) -> list[Any]:
        held = hold_signals()
        try:
            return self._call_to_the_end(client, buffers)
        finally:
            release_signals(held)

    def _call_to_the_end(self, client: Backend, buffers: list[Any]) -> list[Any]:
        device, loaded, handlers = self._place(client)

        def put_number(number: int) -> Any:
            found = self._numbers.get((client, number))
            if found is None:
                found = self._numbers[client, number] = put(np.array(number), _INT64, client, device)
            return found

        results = _executed(loaded, Run(self._callbacks), put_number, buffers)
        return results.consume_with_handlers(handlers, False)


def _executed(loaded: Any, run: Run, put_number: Callable[[int], Any], buffers: list[Any]) -> Any:
    """What a program that calls Python returns when it has ended; raises what a callback raised.

    `put_number` makes the first argument, the number of the run, by which callbacks find the run.
    """
    with run:
        number = put_number(run.number)
        try:
            results = loaded.execute_sharded([number, *buffers], with_tokens=True)
            results.consume_token().block_until_ready()
        except xe.JaxRuntimeError:
            if run.error is None:
                raise
            results = None
    if run.error is not None:
        error, run.error = run.error, None  # the error's traceback refers to the run
        raise (raised_in_jax(error) if config.state().as_in_jax else error)
    return results


_INT64 = ShapedArray((), np.dtype(np.int64))


def _after_fork() -> None:
    if is_forked():
        _compiling.clear()
        Executable.run = CallingExecutable.run = _refuse  # replaced once, so that calls need not test for it


after_fork(_after_fork)


def compile_text(
    text: str,
    out_avals: Sequence[ShapedArray],
    device: Any = None,
    cheap: bool = False,
    options: Any = None,
    callbacks: Sequence[HostCallback] = (),
    partition: Partition | None = None,
    in_avals: Sequence[ShapedArray] = (),
    located: Callable[[], str] | None = None,
    anew: bool = False,
) -> Executable:
    """Compile a module for one device, or for those of a `partition`; then `in_avals` are the types of the arguments.

    A module that calls Python comes with its `callbacks`.

    `cheap` takes settings that compile three times as fast, for one operation on small arrays; on large arrays the
    compiled code is several times slower. `options` are XLA's options by name. `located` writes the same module with
    names and lines of its operations. Only a module that XLA compiles needs them, as a program is remembered by what it
    computes, so `located` is called only then. With `anew` XLA compiles the module even if it is remembered.
    """
    started = backend() if device is None else backend_of(device)
    device = started.default_device if device is None else device
    flags = _flags(started, text, options, partition is not None, cheap)
    store = None if cheap or anew else store_in_force()

    def load(started: Backend, devices: tuple[Any, ...]) -> Any:
        def make() -> Any:
            return _compile(
                started, text, devices, flags, store, len(callbacks), partition is not None, located
            )

        # The key leaves the callbacks out, which belong to a `Run`: programs that differ in them only are one.
        return to_the_end(make) if anew else _remembered((text, devices, tuple(flags)), make)

    if partition is not None:
        processes = processes_of(partition.devices)
        shared = len(processes) > 1
        if shared:
            agree(job.in_force(), f"{text}\noptions: {flags}", processes)
        if callbacks and started.platform != "cpu" and partition.is_one_device:
            return CallingExecutable(load, out_avals, partition.devices[0], callbacks, partition)
        if callbacks:
            _check_may_call(callbacks)
            if shared:
                loaded = load(started, partition.devices)
                return SharedCallingExecutable(loaded, in_avals, out_avals, partition, callbacks)
            return CallingPartitionedExecutable(load, in_avals, out_avals, partition, callbacks)
        kind = SharedExecutable if shared else PartitionedExecutable
        return kind(load(started, partition.devices), in_avals, out_avals, partition)
    if callbacks:
        return CallingExecutable(load, out_avals, device, callbacks)
    return Executable(load(started, (device,)), out_avals, device)


def _flags(
    started: Backend, text: str, options: Any, partitioned: bool, cheap: bool = False
) -> list[tuple[str, Any]]:
    chosen: tuple[tuple[str, Any], ...] = ()
    if started.platform == "cpu" and partitioned:
        chosen = _partition_flags()
    elif started.platform == "cpu" and _NOT_CHEAP not in text:
        chosen = _cheap_flags() if cheap else _small_flags(text)
    return [*chosen, *sorted((options or {}).items())]


# Note [Small programs]
# jaxlib 0.10 can make kernels without MLIR, whose passes cost 10 ms and more for each distinct kernel. A program of
# small arrays then compiles in six tenths of the time, and a call takes as long as with MLIR. On large arrays some
# kernels are slower, as are products of matrices. What one kernel reads at several places, it computes for each of
# them. Loops repeat what a kernel loses, and MLIR compiles the equal kernels of a long program once. So programs that
# have one of these keep MLIR. docs/design/compiling.md has the figures.
_SMALL_SIZE = 512  # elements of the largest array
_SMALL_TEXT = 1 << 16
_KEEP_EMITTERS = {"while": 0, "dot_general": 2, "gather": 4, "concatenate": 8}  # how many of them are few
_SHAPES = re.compile(r"tensor<(\d+(?:x\d+)*)x")


def _is_small(text: str) -> bool:
    """Whether the program is compiled in less time, and runs as fast, without XLA's newer emitters."""
    if len(text) > _SMALL_TEXT or any(
        text.count(f"stablehlo.{name}") > few for name, few in _KEEP_EMITTERS.items()
    ):
        return False
    sizes = (math.prod(map(int, shape.split("x"))) for shape in set(_SHAPES.findall(text)))
    return max(sizes, default=1) <= _SMALL_SIZE and not config.state().as_in_jax


class Serialized(NamedTuple):
    """A compiled program as bytes, the flags that it is loaded with, and whether it calls LAPACK."""

    data: bytes
    flags: list[tuple[str, Any]]
    calls_lapack: bool


def serialized_text(
    text: str, device: Any, options: Any, partition: Partition | None, located: Callable[[], str]
) -> Serialized:
    """The compiled program of a module as bytes.

    Only a program that XLA has compiled in this process can be written: one that was read from bytes lacks its kernels
    when it is written again. So the bytes are those on disk, or those of a program that is compiled now.
    """
    started = backend()
    devices = partition.devices if partition else (device or started.default_device,)
    flags = _flags(started, text, options, partition is not None)
    store = store_in_force()
    found = store and store.read(_fingerprint(text, devices, flags))
    if not found:
        what = started, text, devices, flags, None, 0, partition is not None, located
        found = to_the_end(lambda: _compile(*what).serialize())
    return Serialized(found, flags, "@lapack_" in text)


def load_serialized(program: Serialized, devices: tuple[Any, ...], partitioned: bool) -> Any:
    """XLA's executable of a program that `serialized_text` wrote, on these devices; raises what XLA raises."""
    client, options = backend().client, _options(devices, program.flags, partitioned)
    return to_the_end(lambda: client.deserialize_executable(program.data, xe.DeviceList(devices), options))


class _Compilation:
    """A program that one thread compiles and others may wait for."""

    __slots__ = ("ended", "loaded", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.ended = threading.Event()
        self.loaded: Any = None


# With the cheap settings XLA converts this dtype to float64 by way of float32, where its least number is denormal and
# becomes 0.
_NOT_CHEAP = "f8E8M0FNU>"


def _remembered(key: Any, make: Callable[[], Any]) -> Any:
    """The program of that key: from memory, from a thread that compiles it now, or a new one."""
    with _memory_lock:
        if (loaded := _memory.get(key)) is not None:
            _memory.move_to_end(key)
            return loaded
    return to_the_end(lambda: _made(key, make))


def _made(key: Any, make: Callable[[], Any]) -> Any:
    with _memory_lock:
        other = _compiling.get(key)
        mine = _compiling[key] = other or _Compilation()
    if other is not None:
        # A finaliser may run in the middle of a compilation of its own thread.
        if other.thread != threading.get_ident():
            other.ended.wait()
        # Where the other thread has failed, this one compiles itself, and raises an error of its own.
        return make() if other.loaded is None else other.loaded
    try:
        loaded = mine.loaded = make()
        with _memory_lock:
            _memory[key] = loaded
            if len(_memory) > _MEMORY_MAX:
                _memory.popitem(last=False)
        return loaded
    finally:
        with _memory_lock:
            del _compiling[key]
        mine.ended.set()


def _cheap_flags() -> tuple[tuple[str, Any], ...]:
    """Settings for programs of one operation: 28 -> 8 ms to compile with jaxlib 0.10, run time equal on small arrays.

    LLVM's level 0 would take a sixth less, but without the newer emitters its code is wrong:
    `betainc(0.429, 0.073, 0.073)` was NaN.
    """
    return (("xla_backend_optimization_level", 1), *_no_emitters())


def _small_flags(text: str) -> tuple[tuple[str, Any], ...]:
    """Settings for a whole program: see Note [Small programs]."""
    return flags if (flags := _no_emitters()) and _is_small(text) else ()


@functools.cache
def _no_emitters() -> tuple[tuple[str, Any], ...]:
    """The setting for kernels without MLIR; later versions than 0.10 have no others, and refuse its name."""
    return (("xla_cpu_use_fusion_emitters", False),) if str(installed_jaxlib()).startswith("0.10.") else ()


@functools.cache
def _partition_flags() -> tuple[tuple[str, Any], ...]:
    """Settings for programs on several devices: without the library that loses NaN. See Note [NaN in extrema]."""
    flag = ("xla_cpu_experimental_ynn_fusion_type", "")
    return (flag,) if _is_known(flag) else ()


_NOTHING = "module @nothing { func.func public @main() { return } }"


def _is_known(flag: tuple[str, Any]) -> bool:
    options = xe.CompileOptions()
    options.env_option_overrides = [flag]
    started = backend()
    devices = started.device_lists[started.default_device]
    try:
        to_the_end(lambda: started.client.compile_and_load(_NOTHING, devices, options))
    except xe.JaxRuntimeError:
        return False
    return True


def _compile(
    started: Backend,
    text: str,
    devices: tuple[Any, ...],
    flags: Sequence[tuple[str, Any]],
    store: DiskStore | None,
    num_callbacks: int,
    partitioned: bool,
    located: Callable[[], str] | None,
) -> Any:
    """Compile, or load from `store`. Cheap programs have no store: each would be a file."""
    given: dict[str, Any] = {}
    if num_callbacks and started.platform == "cpu":
        register_handler()
    elif num_callbacks:  # jaxlib's own handlers run only if they are given the functions
        given = {"host_callbacks": dispatchers(num_callbacks)}
    options = _options(devices, flags, partitioned)
    device_list = xe.DeviceList(devices)
    if store is None and not given:
        return started.client.compile_and_load(located() if located else text, device_list, options)
    name = _fingerprint(text, devices, flags)
    saved = None
    if store is not None:
        events.record(CACHE_REQUEST)
        with Elapsed(CACHE_READ):
            saved = store.read(name)
    if saved is not None:
        with contextlib.suppress(Exception):  # a corrupt or foreign entry counts as a miss
            loaded = started.client.deserialize_executable(saved, device_list, options, **given)
            events.record(CACHE_HIT)
            return loaded
    if store is not None:
        events.record(CACHE_MISS)
    loaded = started.client.compile_and_load(located() if located else text, device_list, options)
    if given:
        saved = loaded.serialize()
        loaded = started.client.deserialize_executable(saved, device_list, options, **given)
    if store is not None:
        with contextlib.suppress(Exception):  # some programs cannot be serialized
            store.write(name, saved or loaded.serialize())
    return loaded


def _options(devices: tuple[Any, ...], flags: Sequence[tuple[str, Any]], partitioned: bool) -> Any:
    options = xe.CompileOptions()
    assignment = xe.DeviceAssignment.create(np.array([[device.id for device in devices]], np.int32))
    options.device_assignment = assignment
    if named := [flag for flag in flags if flag[0] not in _BACKEND_OPTIONS | _BUILD_OPTIONS]:
        options.env_option_overrides = named
    for name, value in flags:
        if name in _BUILD_OPTIONS:
            setattr(options.executable_build_options, name, value)
    if partitioned:
        options.num_partitions = len(devices)
        build = options.executable_build_options
        build.num_partitions = len(devices)
        build.device_assignment = assignment
        build.use_spmd_partitioning = build.use_shardy_partitioner = True
        build.allow_spmd_sharding_propagation_to_parameters = [True]
        build.allow_spmd_sharding_propagation_to_output = [True]
    switched_on = [name for name, value in flags if name in _BACKEND_OPTIONS and value]
    return _with_backend_options(options, switched_on) if switched_on else options


# Options of a compilation that are not among XLA's flags. jaxlib 0.11 has no efforts: there XLA refuses their names.
_BUILD_OPTIONS = frozenset(
    name
    for name in (
        "exec_time_optimization_effort",
        "memory_fitting_effort",
        "optimization_level",
        "memory_fitting_level",
    )
    if hasattr(xe.ExecutableBuildOptions, name)
)

# Options of XLA's CPU backend that are not fields of its `DebugOptions`, but keys of a map there, which jaxlib gives no
# way to set. So the map is appended to the serialized options: a protocol buffer merges a message that comes twice.
_BACKEND_OPTIONS = frozenset({"xla_cpu_disable_loop_unrolling", "xla_cpu_use_multi_output_fusion"})
_EXTRA_OPTIONS = 500  # the number of the map in `DebugOptions`


def _with_backend_options(options: Any, names: Sequence[str]) -> Any:
    debug = b"".join([_field(_EXTRA_OPTIONS, _field(1, name.encode()) + _field(2, b"")) for name in names])
    build = _field(3, debug)  # `CompileOptions.executable_build_options.debug_options`
    if not hasattr(xe.CompileOptions, "ParseFromString"):
        return options  # the options only save time
    return xe.CompileOptions.ParseFromString(options.SerializeAsString() + _field(3, build))


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer: its number and kind (2: bytes), the length, the content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups: list[int] = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def clear_memory() -> None:
    """Forget every program compiled in this process."""
    with _memory_lock:
        _memory.clear()


@functools.cache
def processor() -> str:
    """The CPU's kind and features, which compiled programs make use of."""
    features = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        features = next((line for line in f if line.startswith(("flags", "Features"))), "")
    features = features or platform.processor()  # slower: it starts a process
    return f"{platform.machine()}|{features}"


@functools.cache
def _machine() -> str:
    """What an executable depends on besides its text: versions and the CPU's features."""
    parts = [__version__, str(installed_jaxlib()), processor()]
    return "|".join([*parts, os.environ.get("XLA_FLAGS", "")])


def _fingerprint(text: str, devices: tuple[Any, ...], flags: Sequence[tuple[str, Any]]) -> str:
    kind = str(getattr(devices[0], "device_kind", devices[0]))
    numbers = ",".join([str(device.id) for device in devices])
    content = "\0".join([_machine(), kind, numbers, repr(list(flags)), text])
    return hashlib.sha256(content.encode()).hexdigest()
