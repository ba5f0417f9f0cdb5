"""The XLA client: started on first need, on the CPU or, where the plugin is installed, on an NVIDIA GPU.

`backend()` gives the client with its devices. The option `platforms` (`DIDAX_PLATFORMS=cpu`) chooses; left empty, the
GPU is taken when its plugin is installed and finds a device. A forked child has none of XLA's threads: there
`backend()` is a `ForkedBackend`, which raises an error when something is to be computed. Read next: `compile.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, cast

from didax.core import config
from didax.core.errors import api_boundary, message
from didax.core.memory import DEVICE
from didax.core.process import after_fork, import_to_the_end, lock_for_forks, to_the_end
from didax.core.sharding import Parts, Sharding, checked_memory_kind
from didax.version import installed_jaxlib
from didax.xla import kept_memory
from didax.xla.exit import skip_teardown

xe = import_to_the_end("jaxlib._jax")
hlo = import_to_the_end("jaxlib._hlo")


class Distributed(NamedTuple):
    """What a client of several processes is made with: jaxlib's client of their service, and their collectives."""

    client: Any
    index: int
    count: int
    collectives: Any


class Backend:
    """A client with its local devices and, for each, the sharding and the device list that XLA wants with each call."""

    def __init__(self, client: Any, platform: str, processes: int = 1, c_api: Any = None):
        self.client = client
        self.c_api = c_api  # the interface of the plugin that the client is from; None on the CPU
        self.platform = platform
        self.processes = processes
        self.all_devices: list[Any] = client.devices()  # of all processes
        self.devices: list[Any] = client.local_devices()
        self.shardings = {device: SingleDeviceSharding(device) for device in self.devices}
        self.device_lists = {device: xe.DeviceList((device,)) for device in self.devices}

    @property
    def default_device(self) -> Any:
        """The device new arrays go to."""
        return self.devices[0]

    def in_memory(self, device: Any, kind: str | None) -> SingleDeviceSharding:
        """The sharding of arrays on a device, in memory of a kind; None for its own."""
        return self.shardings[device] if kind in (None, DEVICE) else sharding_of_one(device, kind)


Device = xe.Device

_REPLICATED = hlo.HloSharding.replicate()


@Sharding.register
class SingleDeviceSharding(xe.SingleDeviceSharding):
    """An array on one device, in its memory or in one of the host's. ValueError for a memory that it does not have.

    >>> import didax as dx, didax.numpy as dnp
    >>> place = dx.sharding.SingleDeviceSharding(dx.devices()[0])
    >>> dx.device_put(dnp.ones(2), place).sharding == place
    True
    """

    memory_kind: str = DEVICE

    @api_boundary
    def __init__(self, device: Any, *, memory_kind: str | None = None):
        kind = checked_memory_kind(memory_kind, (device,))
        if kind is None:
            super().__init__(device)
        else:
            super().__init__(device, memory_kind=kind)
            self.memory_kind = kind

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """The same layout in memory of another kind: 'device', or one that `device.addressable_memories()` names."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return _REPLICATED  # asked for with every transfer

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return {self._device}

    @property
    def devices(self) -> tuple[Any]:
        """The device."""
        return (self._device,)

    _addressable_device_assignment = devices  # JAX's name: orbax-checkpoint asks for it

    def parts(self, ndim: int) -> Parts:
        """The one device holds the one part of each axis."""
        return (1,) * ndim, ((0,) * ndim,)

    addressable_devices = device_set
    num_devices = 1

    def __copy__(self) -> SingleDeviceSharding:
        return self

    def __deepcopy__(self, memo: Any) -> SingleDeviceSharding:
        return self

    def __reduce__(self) -> Any:
        rule = "A sharding is bound to a device of this process."
        raise TypeError(
            message(rule, f"sharding: {self!r}", fix="Pickle the position of its device instead.")
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SingleDeviceSharding)
            and other._device is self._device
            and other.memory_kind == self.memory_kind
        )

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device, self.memory_kind))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """The device, and the part of an array of this shape that it holds: all."""
        return {self._device: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether the other sharding, too, puts an array with `ndim` axes on this device alone, in the same memory."""
        return other.device_set == self.device_set and other.memory_kind == self.memory_kind

    @property
    def is_fully_replicated(self) -> bool:
        """Every device holds the whole array."""
        return True

    @property
    def is_fully_addressable(self) -> bool:
        """Every device belongs to this process."""
        return True

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the part each device holds."""
        return global_shape

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"


@functools.cache
def sharding_of_one(device: Any, kind: str | None) -> SingleDeviceSharding:
    """The sharding of arrays on a device of any client, in memory of a kind; None for its own."""
    return SingleDeviceSharding(device, memory_kind=kind)


class ForkedBackend:
    """The backend in a child that was forked after XLA had started: it knows its platform, and can run nothing."""

    def __init__(self, platform: str):
        self.platform = platform
        self.parent = os.getppid()

    def __getattr__(self, name: str) -> Any:
        raise forked(self)


def forked(backend: Any) -> RuntimeError:
    """The error for a forked child that needs XLA."""
    return RuntimeError(
        message(
            "A forked process cannot use the XLA of its parent, whose threads are not there.",
            f"process {os.getpid()} was forked from process {backend.parent}, where XLA had started "
            f"on {backend.platform!r}",
            fix="Start processes with multiprocessing.get_context('spawn') or 'forkserver', or fork before the first "
            "array is made (docs/processes.md).",
        )
    )


_lock = lock_for_forks(threading.Lock())
_started: Backend | None = None


def backend() -> Backend:
    """The process's backend; the first call starts it."""
    global _started
    if _started is None:
        with _lock:
            if _started is None:
                state = config.state()
                platforms, num_cpu_devices = state.platforms, state.num_cpu_devices
                _started = to_the_end(lambda: _start(platforms, num_cpu_devices))
    return _started


def start_among(distributed: Distributed, local_device_ids: Sequence[int] | None) -> None:
    """Start the backend as one of several processes; the others do so at the same time."""
    global _started
    with _lock:
        state = config.state()
        _started = _start(state.platforms, state.num_cpu_devices, distributed, local_device_ids)


def is_started() -> bool:
    """Whether there is a backend."""
    return _started is not None


def is_forked() -> bool:
    """Whether this process was forked from one in which XLA had started."""
    return isinstance(_started, ForkedBackend)


def _after_fork() -> None:
    global _started
    if _started is not None:
        _parents.append(_started)
        _started = cast("Backend", ForkedBackend(_started.platform))
        skip_teardown()  # its destructor would wait for threads that the child does not have


_parents: list[Backend] = []  # kept alive for the same reason
after_fork(_after_fork)


@functools.cache
def calling_backend(depth: int, count: int = 1) -> Backend:
    """Where programs that call Python run on the CPU: on the calling thread, at once.

    A callback waits for programs that it starts itself. Such programs run on another client (those with callbacks one
    `depth` deeper), so that they need no thread that waits.
    """
    given: dict[str, Any] = {} if count == 1 else {"num_devices": count}
    return to_the_end(lambda: Backend(xe.get_tfrt_cpu_client(asynchronous=False, **given), "cpu"))


_immediate: Backend | None = None


def immediate_backend() -> Backend:
    """Where eager operations on a few numbers run on the CPU: on the calling thread, at once.

    It never runs programs that call Python, so no thread of it ever waits for a program that would need it.
    """
    global _immediate
    if _immediate is None:
        with _lock:
            if _immediate is None:
                _immediate = calling_backend(-1)
    return _immediate


def backend_of(device: Any) -> Backend:
    """The backend that a device belongs to: the process's, or the one for operations on a few numbers."""
    started = backend()
    return started if device in started.shardings else immediate_backend()


@contextlib.contextmanager
def _threads_beside(count: int) -> Generator[None]:
    """In this block a client starts with threads for what callbacks compute while `count` devices wait for them.

    Programs of several processes run on the one client that exchanges with the others, even those that call Python. The
    client takes the number of its threads from the environment only.
    """
    before = os.environ.get("PJRT_NPROC")
    stated = before or os.environ.get("NPROC") or ""
    cores = int(stated) if stated.isdecimal() else os.cpu_count() or 1
    os.environ["PJRT_NPROC"] = str(max(cores, count) + count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PJRT_NPROC"]
        else:
            os.environ["PJRT_NPROC"] = before


def _start(
    platforms: str,
    num_cpu_devices: int,
    distributed: Distributed | None = None,
    local_device_ids: Sequence[int] | None = None,
) -> Backend:
    processes = 1 if distributed is None else distributed.count
    kept_memory.keep(config.state().keep_memory)
    if "jax" not in sys.modules:  # which shares the setting
        xe.set_tracebacks_enabled(False)  # one with every result takes 0.3 us, on a deep stack 2 us
    wanted = [p.strip() for p in platforms.split(",") if p.strip()] or [_CUDA_IF_ANY, "cpu"]
    for platform in wanted:
        if platform == "cpu":
            return Backend(_cpu_client(num_cpu_devices, distributed), "cpu", processes)
        if platform in (_CUDA_IF_ANY, "cuda", "gpu"):
            found = _cuda_client_if_any(platforms, platform == _CUDA_IF_ANY, distributed, local_device_ids)
            if found is not None:
                client, c_api = found
                return Backend(client, "cuda", processes, c_api)
        else:
            raise RuntimeError(
                message(
                    "Unknown platform.",
                    f"platforms: {platforms!r} (the option, which the environment variable DIDAX_PLATFORMS sets)",
                    fix="Use 'cpu', 'cuda', or both separated by a comma, first choice first.",
                )
            )
    raise RuntimeError(message("No platform is available.", f"platforms: {platforms!r}", fix="Add 'cpu'."))


_CUDA_IF_ANY = "cuda?"  # the first choice where nobody chose: a GPU that cannot be used is not an error


def _cpu_client(num_devices: int, distributed: Distributed | None) -> Any:
    given: dict[str, Any] = {"num_devices": num_devices} if num_devices > 0 else {}
    if distributed is None:
        return xe.get_tfrt_cpu_client(asynchronous=True, **given)
    client, index, count, collectives = distributed
    given |= {"distributed_client": client, "node_id": index, "num_nodes": count, "collectives": collectives}
    with _threads_beside(given.get("num_devices", 1)):
        return xe.get_tfrt_cpu_client(asynchronous=True, **given)


def _cuda_client_if_any(
    platforms: str,
    is_optional: bool,
    distributed: Distributed | None,
    local_device_ids: Sequence[int] | None,
) -> tuple[Any, Any] | None:
    """What `_cuda_client` returns; None if it `is_optional` and does not start, with a warning if there is a GPU."""
    if _cuda_plugin() is not None:
        try:
            return _cuda_client(distributed, local_device_ids)
        except Exception as error:
            if not is_optional:
                raise
            _warn_of_idle_gpu(f"XLA's plugin for it did not start: {error}", "`python -m didax doctor`")
    elif is_optional:
        _warn_of_idle_gpu("XLA's plugin for it is not installed", "pip install 'didax[gpu]'")
    else:
        raise RuntimeError(
            message(
                "The NVIDIA GPU platform was asked for, but its plugin is not installed.",
                f"platforms: {platforms!r}",
                fix="pip install 'didax[gpu]', or set DIDAX_PLATFORMS=cpu.",
            )
        )
    return None


def _warn_of_idle_gpu(reason: str, remedy: str) -> None:
    """Warn that arrays lie on the CPU, where the machine has an NVIDIA GPU that nobody decided to leave out."""
    if os.path.exists(_NVIDIA_DEVICE):
        fix = f"{remedy}, or set DIDAX_PLATFORMS=cpu where the CPU is meant."
        rule = "This machine has an NVIDIA GPU, which is not used: arrays lie on the CPU."
        warnings.warn(message(rule, reason, fix=fix), RuntimeWarning, stacklevel=2)


_NVIDIA_DEVICE = "/dev/nvidia0"  # where the driver shows the first GPU
_PLUGINS = ("xla_cuda13", "xla_cuda12")


@functools.cache
def _cuda_plugin() -> tuple[str, str] | None:
    """Name and folder of the installed CUDA plugin (its __init__, which imports jax, is not run)."""
    if importlib.util.find_spec("jax_plugins") is None:
        return None
    for name in _PLUGINS:
        spec = importlib.util.find_spec(f"jax_plugins.{name}")
        if spec is not None and spec.submodule_search_locations:
            return name, next(iter(spec.submodule_search_locations))
    return None


_CUDA_LIBRARIES = (
    *("cudart", "nvrtc", "cublas", "cublasLt", "cupti", "cusparse", "cusolver", "cufft"),
    *("nccl", "nvshmem_host", "cudnn"),
)


def _preload_cuda_libraries() -> None:
    """Load NVIDIA's libraries from their wheels, so that the plugin finds them."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for folder, _, files in os.walk(root):
            for file in sorted(files):
                if any(file.startswith(f"lib{name}.so") for name in _CUDA_LIBRARIES):
                    with contextlib.suppress(OSError):  # the system's own copy may serve
                        ctypes.cdll.LoadLibrary(os.path.join(folder, file))


def _cuda_client(distributed: Distributed | None, local_device_ids: Sequence[int] | None) -> tuple[Any, Any]:
    """A client on the GPUs, and the interface of its plugin, by which handlers are made known."""
    from jaxlib import xla_client

    found = _cuda_plugin()
    assert found is not None
    name, folder = found
    _check_plugin_version(name)
    _preload_cuda_libraries()
    c_api = xe.load_pjrt_plugin("cuda", os.path.join(folder, "xla_cuda_plugin.so"), None)
    if not xe.pjrt_plugin_initialized("cuda"):
        xe.initialize_pjrt_plugin("cuda")
    _register_cuda_kernels(c_api, name.replace("xla_", "jax_") + "_plugin")
    # Profiles contain the kernels of the GPU, which only the plugin can measure.
    import_to_the_end("jaxlib._profiler").register_plugin_profiler(c_api)
    options = dict(xla_client.generate_pjrt_gpu_plugin_options())
    if distributed is not None:
        options |= {"node_id": distributed.index, "num_nodes": distributed.count}
    if local_device_ids is not None:
        options["visible_devices"] = list(local_device_ids)
    service = None if distributed is None else distributed.client
    return xe.get_c_api_client("cuda", options, service, None, False, True), c_api


def _check_plugin_version(name: str) -> None:
    """The plugin and jaxlib are built together: other pairs crash or misread each other's structures."""
    import importlib.metadata  # 15 ms, for GPUs only

    package = name.replace("xla_", "jax-").replace("_", "-") + "-plugin"
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        plugin = importlib.metadata.version(package)
        if plugin != installed_jaxlib():
            raise RuntimeError(
                message(
                    "The GPU plugin must have the version of jaxlib.",
                    f"jaxlib: {installed_jaxlib()}, {package}: {plugin}",
                    fix=f"pip install '{package}[with-cuda]=={installed_jaxlib()}'",
                )
            )


def _register_cuda_kernels(c_api: Any, package: str) -> None:
    """Register the plugin's FFI kernels (solvers, callbacks) with XLA."""
    extension = importlib.import_module(f"{package}.cuda_plugin_extension")
    for name, value in extension.ffi_types().items():
        extension.register_custom_type(c_api, name, value)
    kernels = dict(extension.ffi_handlers())
    for module in ("_solver", "_linalg", "_prng", "_hybrid", "_sparse", "_rnn"):
        kernels |= importlib.import_module(f"{package}.{module}").registrations()
    for name, value in kernels.items():
        extension.register_custom_call_target(c_api, name, value, "CUDA", 1, 0)
