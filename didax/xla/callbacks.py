"""Calls from compiled programs back into Python: how XLA makes such a call.

    with Run([HostCallback(f, in_avals, out_avals, name), ...]) as run:
        ...                                          # execute the program, with `run.number` as its first argument

A program with callbacks takes the number of the run as its first argument and passes it to each call, which finds the
`Run` by this number. The run knows the callbacks of the program and the context of the thread that started it (options,
depth), and keeps the exception that a callback raises, so that the user meets the exception as it was raised.
On the CPU the call is a handler of XLA's foreign function interface, written with ctypes against its C structures, and
callbacks see XLA's own memory. On a GPU it is the handler of jaxlib's plugin, which copies the arrays.
Read next: `lowering.py` (`call_python` writes the calls), `compile.py` (`CallingExecutable`),
`didax/primitives/callback.py` (the primitives).
"""

from __future__ import annotations

import contextvars
import ctypes
import gc
import itertools
import math
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import CheckError, message
from didax.core.masked import check_no_mask
from didax.core.process import after_fork, lock_for_forks
from didax.xla.signals import fragile, raise_held, sound

T = TypeVar("T")
# A function that lets the other processes of a run know that a callback has failed here.
Tell = Callable[[BaseException], None]

CPU_TARGET = "didax_python_callback"
GPU_TARGET = "xla_ffi_python_gpu_callback"
# Bytes: smaller arguments are copied and may be kept; larger ones are views during the call.
_COPIED = 1 << 18
_NARROW = {
    "int2": np.int8,
    "int4": np.int8,
    "uint2": np.uint8,
    "uint4": np.uint8,
    "float4_e2m1fn": np.float32,
}


class HostCallback:
    """A Python function on NumPy arrays, with the types of its arguments and results.

    `function(*arrays)` returns a sequence of arrays or scalars, which are checked; `name` names it in errors. With
    `everywhere` every process of a job calls it where one of them would do.
    """

    __slots__ = ("everywhere", "function", "in_avals", "name", "out_avals", "wire_in", "wire_out")

    def __init__(
        self,
        function: Callable[..., Sequence[Any]],
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        name: str,
        everywhere: bool = False,
    ):
        self.function = function
        self.everywhere = everywhere
        self.in_avals = tuple(in_avals)
        self.out_avals = tuple(out_avals)
        self.name = name
        self.wire_in = [_wire(aval) for aval in in_avals]
        self.wire_out = [_wire(aval) for aval in out_avals]

    def same_as(self, other: HostCallback) -> bool:
        """Whether the two are equal, so that a program needs only one of them."""
        return (
            self.function == other.function
            and self.in_avals == other.in_avals
            and self.out_avals == other.out_avals
        )

    def __call__(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Results, in the types that the program expects, for read-only arrays as the program gives them."""
        args = [
            x if wire is aval.dtype else _unpacked(x, aval)
            for x, aval, wire in zip(arrays, self.in_avals, self.wire_in, strict=True)
        ]
        outs = checked_results(self.name, self.function(*args), self.out_avals)
        return [y.astype(wire, copy=False) for y, wire in zip(outs, self.wire_out, strict=True)]


def _wire(aval: ShapedArray) -> np.dtype[Any]:
    """The dtype in which an array is passed; dtypes narrower than a byte are passed as wider ones."""
    if aval.dtype == dtypes.float0:
        return np.dtype(bool)
    narrow = _NARROW.get(aval.dtype.name)
    return aval.dtype if narrow is None else np.dtype(narrow)


def _unpacked(x: np.ndarray[Any, Any], aval: ShapedArray) -> np.ndarray[Any, Any]:
    x = np.zeros(aval.shape, dtypes.float0) if aval.dtype == dtypes.float0 else x.astype(aval.dtype)
    x.flags.writeable = False
    return x


def raised_in_jax(error: BaseException) -> BaseException:
    """What JAX raises for an exception of a callback: its text within a JaxRuntimeError.

    Exits and interrupts stay. So do failed checks, which JAX refuses in a program that is not checkified.
    """
    if isinstance(error, CheckError):
        error.add_note("`check` failed in a program that was not transformed by `checkify`.")
    if isinstance(error, CheckError) or not isinstance(error, Exception):
        return error
    from didax.xla.client import xe

    lines = traceback.format_exception(error)
    wrapped = xe.JaxRuntimeError(f"INTERNAL: CpuCallback error calling callback: {''.join(lines)}")
    wrapped.__cause__ = error
    return wrapped


def checked_results(
    name: str, results: Sequence[Any], avals: Sequence[ShapedArray]
) -> list[np.ndarray[Any, Any]]:
    """The results of a callback as arrays of the declared types; TypeError or ValueError if the types differ.

    Python scalars take the declared dtype. NumPy's 64-bit numbers also fit a declaration of the default width. Where
    nothing is declared, what is returned is dropped: `update` of a progress bar returns whether it has drawn.
    """
    if not avals:
        return []
    if len(results) != len(avals):
        raise ValueError(
            message(
                f"The callback of {name} must return what result_shape_dtypes says.",
                f"declared: {', '.join(map(str, avals)) or 'nothing'}; returned: {len(results)} values",
                fix="Return one array for each leaf of result_shape_dtypes, or correct that.",
            )
        )
    return [_checked(name, i, y, aval) for i, (y, aval) in enumerate(zip(results, avals, strict=True))]


def _checked(name: str, i: int, result: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    check_no_mask(result, f"result {i} of the callback of {name}")
    array = np.asarray(result)
    fits = array.dtype == aval.dtype or (
        array.dtype.kind in "iufc" and dtypes.narrowed(array.dtype) == aval.dtype
    )
    # A Python scalar has no dtype of its own.
    if (kind := dtypes.PYTHON_SCALARS.get(type(result))) is not None:
        fits = dtypes.KIND_RANKS[kind] <= dtypes.KIND_RANKS[dtypes.kind_of(aval.dtype)]
    if array.shape != aval.shape or not fits:
        raise TypeError(
            message(
                f"The callback of {name} must return arrays of the types that result_shape_dtypes says.",
                f"result {i}: {array.dtype.name}[{','.join(map(str, array.shape))}], declared: {aval}",
                fix="Convert the result (numpy.asarray(y, dtype)), or declare what the callback returns.",
            )
        )
    return array.astype(aval.dtype, order="C", copy=False)


# --- Runs -----------------------------------------------------------------------------------------

_enclosing: contextvars.ContextVar[tuple[Run, ...]] = contextvars.ContextVar("didax_runs", default=())
_runs: dict[int, Run] = {}  # runs that have not ended, by number
_ended = lock_for_forks(threading.Condition())
# Numbers of runs that have ended. They are used again, because each executable keeps buffers with its numbers.
_free: list[int] = []
_numbers = itertools.count()


after_fork(_runs.clear)  # the runs of the parent continue in the parent


def depth() -> int:
    """How many callbacks are running around this code, one inside the other."""
    return len(_enclosing.get())


enclosing_runs = _enclosing.get  # the runs whose callbacks this code is in


def others_wait() -> bool:
    """Whether this code is in a callback of a program that other processes run, too."""
    runs = _enclosing.get()
    return bool(runs) and any(run.tell_others is not None for run in runs)


def wait_for_runs() -> None:
    """Wait for the runs with callbacks that other threads have begun before this call.

    In a callback it returns at once: two callbacks that wait for each other's runs would never end.
    """
    if depth():
        return
    with _ended:
        begun = set(_runs.values())
        _ended.wait_for(lambda: begun.isdisjoint(_runs.values()))


class Caller(NamedTuple):
    """A device that comes to a call which several devices come to, each with the same values."""

    device: int
    first: int  # of those that come
    here: int  # how many of these this process has
    calls: int  # whether this process has the first


class _Made:
    """A call that several devices come to, made by one of them."""

    __slots__ = ("done", "results", "taken")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.results: list[np.ndarray[Any, Any]] | None = None
        self.taken = 0


def _nothing(callback: HostCallback) -> list[np.ndarray[Any, Any]]:
    """Results of a call that nobody makes, or that has failed."""
    return [np.zeros(a.shape, w) for a, w in zip(callback.out_avals, callback.wire_out, strict=True)]


class Run:
    """One run of a program with callbacks: a context manager in which the program runs."""

    __slots__ = ("_context", "_made", "_turns", "callbacks", "error", "num_devices", "number", "tell_others")

    def __init__(
        self, callbacks: Sequence[HostCallback], num_devices: int = 1, tell_others: Tell | None = None
    ):
        self.callbacks = callbacks
        self.num_devices = num_devices  # of this process
        self.tell_others = tell_others
        self._turns: dict[tuple[int, int], int] = {}
        self._made: dict[tuple[int, int, int], _Made] = {}
        self.error: BaseException | None = None
        self.number = -1
        self._context = contextvars.copy_context()

    def __enter__(self) -> Run:
        with _ended:
            self.number = _free.pop() if _free else next(_numbers)
            _runs[self.number] = self
        return self

    def __exit__(self, *exc: object) -> None:
        with _ended:
            del _runs[self.number]
            _free.append(self.number)
            _ended.notify_all()

    def call(self, index: int, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Call a callback, in the context of the thread that started the run."""
        if self.error is not None:
            raise RuntimeError("a callback of this run has failed before")  # the user sees `self.error`
        return self._context.copy().run(self._call, index, arrays)

    def call_once(self, index: int, arrays: Sequence[Any], caller: Caller) -> list[np.ndarray[Any, Any]]:
        """The results of a call that several devices come to, and that one of them makes; the others wait for it.

        The devices do the same in the same order, so the n-th time that each of them comes to a callback is one call.
        """
        if not (caller.calls or self.callbacks[index].everywhere):
            return _nothing(self.callbacks[index])
        with _ended:
            turn = self._turns[index, caller.device] = self._turns.get((index, caller.device), -1) + 1
            key = index, caller.first, turn
            made = self._made.get(key)
            first = made is None
            if made is None:
                made = self._made[key] = _Made()
        if first:
            try:
                made.results = self.call(index, arrays)
            except BaseException as error:
                self.keep(error)
            made.done.set()
        made.done.wait()
        with _ended:
            made.taken += 1
            if made.taken == caller.here:
                del self._made[key]
        if made.results is None:
            raise RuntimeError("a callback of this run has failed before")  # the user sees `self.error`
        return made.results

    def keep(self, error: BaseException) -> None:
        """Remember the first exception, which the run will raise."""
        if self.error is None:
            self.error = error
            if self.tell_others is not None:
                self.tell_others(error)

    def around(self, work: Callable[[], T]) -> T:
        """`work()`, which calls the callbacks of this run itself: a program that is evaluated, not compiled."""
        token = _enclosing.set((*_enclosing.get(), self))
        try:
            return work()
        finally:
            _enclosing.reset(token)

    def _call(self, index: int, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        _enclosing.set((*_enclosing.get(), self))
        return self.callbacks[index](arrays)


def dispatchers(count: int) -> list[Callable[..., Any]]:
    """Functions for jaxlib's own callbacks (on GPUs); each finds the run by its number."""
    return [_dispatcher(index) for index in range(count)]


def _dispatcher(index: int) -> Callable[..., Any]:
    def dispatch(number: Any, *arrays: Any) -> tuple[Any, ...]:
        run = _runs[int(number)]
        tokens = [x for x in arrays if x is None]
        for x in arrays[len(tokens) :]:
            x.flags.writeable = False
        try:
            return (*tokens, *run.call(index, arrays[len(tokens) :]))
        except BaseException as error:
            run.keep(error)
            raise

    return dispatch


# --- The handler of XLA's foreign function interface (CPU) ----------------------------------------
# The structures of xla/ffi/api/c_api.h, each up to the last field that is read. New versions add fields at their ends.


class _Extension(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p))


# The first fields of most structures.
_HEAD = (("size", ctypes.c_size_t), ("extension", ctypes.c_void_p))


class _Version(ctypes.Structure):
    _fields_ = (*_HEAD, ("major", ctypes.c_int), ("minor", ctypes.c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("version", _Version), ("traits", ctypes.c_uint32))


class _MetadataExtension(ctypes.Structure):
    _fields_ = (("base", _Extension), ("metadata", ctypes.POINTER(_Metadata)))


class _Buffer(ctypes.Structure):
    _fields_ = (*_HEAD, ("dtype", ctypes.c_int), ("data", ctypes.c_void_p))


class _Buffers(ctypes.Structure):
    _fields_ = (
        *_HEAD,
        ("count", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("items", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    )


class _Attributes(ctypes.Structure):
    _fields_ = (
        *_HEAD,
        ("count", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("items", ctypes.POINTER(ctypes.c_void_p)),
    )


class _Scalar(ctypes.Structure):
    _fields_ = (("dtype", ctypes.c_int), ("value", ctypes.POINTER(ctypes.c_uint64)))


class _ErrorArguments(ctypes.Structure):
    _fields_ = (*_HEAD, ("message", ctypes.c_char_p), ("code", ctypes.c_int))


class _Api(ctypes.Structure):
    _fields_ = (
        *_HEAD,
        ("version", _Version),
        ("internal", ctypes.c_void_p),
        ("create_error", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_ErrorArguments))),
    )


class _CallFrame(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.POINTER(_Extension)),
        ("api", ctypes.POINTER(_Api)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("args", _Buffers),
        ("rets", _Buffers),
        ("attributes", _Attributes),
    )


_VERSION = (0, 1)  # of the interface whose structures are above
_METADATA = 1
_TOKEN = 17
_INTERNAL = 13


@fragile
def _handle(pointer: Any) -> int | None:
    """The function that XLA calls. It returns None, or the address of an error."""
    frame = pointer.contents
    if frame.extension and frame.extension.contents.type == _METADATA:
        extension = ctypes.cast(frame.extension, ctypes.POINTER(_MetadataExtension)).contents
        version = extension.metadata.contents.version
        version.major, version.minor = _VERSION
        extension.metadata.contents.traits = 0
        return None
    try:
        _answer(frame)
    except BaseException as error:
        text = f"a Python callback raised {type(error).__name__}".encode()
        arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, text, _INTERNAL)
        return frame.api.contents.create_error(ctypes.byref(arguments))
    return None


def _answer(frame: _CallFrame) -> None:
    """Find the run and its callback, call the callback, and write its results where XLA wants them.

    The run keeps every exception, so a signal handler may raise an exception only inside `_call`.
    """
    number, *pointers = [frame.args.items[i].contents for i in range(frame.args.count)]
    run = _runs[ctypes.cast(number.data, ctypes.POINTER(ctypes.c_int64))[0]]
    scalar = ctypes.cast(frame.attributes.items[0], ctypes.POINTER(_Scalar)).contents
    index = scalar.value[0]
    caller: Caller | None = None
    if frame.attributes.count > 1:  # several devices come to this call
        caller = Caller(
            *ctypes.cast(pointers.pop(0).data, ctypes.POINTER(ctypes.c_uint32))[: len(Caller._fields)]
        )
    tokens = len(pointers) - len(run.callbacks[index].in_avals)
    results = [frame.rets.items[i].contents.data for i in range(tokens, frame.rets.count)]
    try:
        _call(run, index, [p.data for p in pointers[tokens:]], results, caller)
    except BaseException as error:
        run.keep(error)
        if run.tell_others is None and run.num_devices == (1 if caller is None else caller.here):
            raise
        # The other devices may wait for this one, so the program goes on to its end; nobody sees its results.
        _write(_nothing(run.callbacks[index]), results)


@sound
def _call(
    run: Run, index: int, operands: Sequence[int | None], results: Sequence[int], caller: Caller | None
) -> None:
    """Call a callback on the memory at the addresses `operands`, and write its results to the addresses `results`."""
    raise_held()
    callback = run.callbacks[index]
    shapes = [aval.shape for aval in callback.in_avals]
    inputs = list(map(_argument, operands, shapes, callback.wire_in))
    owners = [owner for _, owner in inputs if owner is not None]
    arrays = [x for x, _ in inputs]
    del inputs
    try:
        outs = run.call(index, arrays) if caller is None else run.call_once(index, arrays, caller)
    except BaseException as error:
        if owners:  # so that no debugger reads memory that XLA has used again since
            traceback.clear_frames(error.__traceback__)
        raise
    _write(outs, results)
    del arrays, outs
    if owners:
        _check_released(callback, owners)


def _write(arrays: Sequence[np.ndarray[Any, Any]], addresses: Sequence[int]) -> None:
    for x, address in zip(arrays, addresses, strict=True):
        ctypes.memmove(address, x.ctypes.data, x.nbytes)


Owner = weakref.ReferenceType["np.ndarray[Any, Any]"]


def _argument(
    address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[np.ndarray[Any, Any], Owner | None]:
    """A read-only array of the memory at an address; for a view, also a reference that dies with the last user."""
    size = math.prod(shape) * dtype.itemsize
    if size <= _COPIED:
        content = ctypes.string_at(address, size) if address and size else b""
        return np.frombuffer(content, np.uint8).view(dtype).reshape(shape), None
    assert address is not None
    memory = np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), np.uint8)
    memory.flags.writeable = False
    return memory.view(dtype).reshape(shape), weakref.ref(memory)


def _check_released(callback: HostCallback, owners: Sequence[Owner]) -> None:
    """RuntimeError where a callback has kept an array whose memory is XLA's again."""
    from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

    # The first frees arrays from which XLA has copied, the second frees arrays in cycles of garbage.
    for collect in (xe.collect_garbage, gc.collect):
        if any(owner() is not None for owner in owners):
            collect()
    if any(owner() is not None for owner in owners):
        raise RuntimeError(
            message(
                f"The callback of {callback.name} kept an argument of more than {_COPIED >> 10} KiB: it is a view of "
                "memory that is used again as soon as the callback returns.",
                f"arguments: {', '.join(map(str, callback.in_avals))}",
                fix="Keep a copy (x.copy()).",
            )
        )


def capsule_of(address: Any, name: bytes | None) -> Any:
    """A capsule of Python's around the address of a C function."""
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype = ctypes.py_object
    new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new_capsule(address, name, None)


_handler_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_CallFrame))
_handler = _handler_type(_handle)  # lives as long as the process: XLA keeps its address
_registered = False
_lock = lock_for_forks(threading.Lock())


def register_handler() -> None:
    """Make the handler known to XLA."""
    global _registered
    with _lock:
        if not _registered:
            from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

            capsule = capsule_of(ctypes.cast(_handler, ctypes.c_void_p), b"xla._CUSTOM_CALL_TARGET")
            xe.register_custom_call_target(CPU_TARGET, capsule, "Host", api_version=1)
            _registered = True
