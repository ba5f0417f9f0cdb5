"""`python -m didax doctor`: what is installed, what works, how fast. Its output is what a bug report needs.

Each line is found on its own: what is broken is a line that says FAILED and why, and the others follow. The exit status
is 1 if the self-test fails, else 0. Read next: `_installation.py`, which prints what it can where `import didax` fails.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import didax as dx
import didax.numpy as dnp
from didax._installation import (
    Rows,
    environment,
    failure,
    guarded,
    machine,
    section,
    size,
    version_of,
    versions,
)
from didax.core import config
from didax.core.errors import message
from didax.xla.disk_store import cache_folder

USAGE = """\
usage: python -m didax doctor     versions, devices, caches, options, a self-test and a benchmark
"""


def main(arguments: list[str]) -> int:
    """Run what the command line names; returns the exit status."""
    sys.excepthook = sys.__excepthook__  # didax is imported: see `_installation.tell_if_import_fails`
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if arguments != ["doctor"]:
        print(USAGE, end="", file=sys.stderr)
        return 2
    return doctor()


def doctor() -> int:
    """Print the report, part by part; returns 1 if the self-test fails, else 0."""
    results: Rows = []

    def self_test() -> Rows:
        results.extend(guarded(name, test) for name, test in SELF_TEST.items())
        return results

    parts: list[tuple[str, Callable[[], Rows]]] = [
        ("versions", versions),
        ("machine", machine),
        ("environment", environment),
        ("options", options),
        ("devices", devices),
        ("supported", supported),
        ("cache of compiled programs", cache),
        ("self-test", self_test),
        ("benchmark", lambda: [guarded(name, measure) for name, measure in BENCHMARK.items()]),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the cache cannot be written to is a line of the report
        for title, rows in parts:
            try:
                text = section(title, rows())
            except Exception as error:
                text = section(title, [("(all)", failure(error))])
            print(text + "\n", flush=True)
    failed = [name for name, result in results if result != "ok"]
    print(f"The self-test FAILED: {', '.join(failed)}." if failed or not results else "The self-test passed.")
    return 1 if failed or not results else 0


# --- What is there -------------------------------------------------------------------------------------------------


def options() -> Rows:
    """The options that differ from their defaults, by whatever means, and variables that name no option."""
    default, now = config.State(), config.state()
    names = [name for name in config.NAMES if name not in config.NOT_OPTIONS]
    changed = [name for name in names if getattr(now, name) != getattr(default, name)]
    rows = [(name, repr(getattr(now, name))) for name in changed]
    known = {config.variable_of(name) for name in names} | set(_OTHER_VARIABLES)
    unknown = [name for name, _ in environment() if name.startswith("DIDAX_") and name not in known]
    rows += [(name, "WARNING: no option has this name; the variable has no effect") for name in unknown]
    return rows or [("(all)", "as they are by default")]


_OTHER_VARIABLES = (
    *("DIDAX_AS_JAX", "DIDAX_COORDINATOR_ADDRESS", "DIDAX_COORDINATOR_BIND_ADDRESS", "DIDAX_NUM_PROCESSES"),
    *("DIDAX_PROCESS_ID", "DIDAX_LOCAL_PROCESS_ID", "DIDAX_LOCAL_DEVICE_IDS", "DIDAX_KUBERNETES_ACCOUNT"),
)


def devices() -> Rows:
    """The platform and its devices."""
    return [
        guarded("platform", dx.default_backend),
        guarded("devices", lambda: "\n".join(map(_device, dx.devices()))),
        guarded("processes", lambda: str(dx.process_count())),
    ]


def _device(device: Any) -> str:
    memory = ""
    if stats := getattr(device, "memory_stats", lambda: None)() or {}:
        memory = f", {size(stats.get('bytes_in_use', 0))} of {size(stats.get('bytes_limit', 0))} in use"
    return f"{device} ({device.device_kind}{memory})"


def supported() -> Rows:
    """What depends on packages that need not be installed."""
    return [guarded("NVIDIA GPUs", _gpus), guarded("sparse derivatives", _sparse_derivatives)]


def _sparse_derivatives() -> str:
    return "yes" if importlib.util.find_spec("scipy") else "no: pip install 'didax[scipy]'"


def _gpus() -> str:
    found = [name for name in ("jax-cuda13-plugin", "jax-cuda12-plugin") if version_of(name)]
    if not found:
        return "no: pip install 'didax[gpu]'"
    if dx.default_backend() != "gpu":
        return f"no: {found[0]} is installed, but finds no GPU, or another platform was asked for"
    return "yes"


def cache() -> Rows:
    """The directory of compiled programs: is it in use, can it be written to, how full is it."""
    folder, now = cache_folder(), config.state()
    bound = "no bound" if now.compilation_cache_max_size < 0 else size(now.compilation_cache_max_size)
    return [
        (
            "in use",
            "yes" if now.enable_compilation_cache else "no: the option enable_compilation_cache is off",
        ),
        ("folder", folder),
        guarded("writable", lambda: _writable(folder)),
        guarded("holds", lambda: f"{_content(folder)}, of at most {bound}"),
    ]


def _writable(folder: str) -> str:
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return "yes"


def _content(folder: str) -> str:
    with os.scandir(folder) as scan:
        sizes = [entry.stat().st_size for entry in scan if entry.is_file()]
    return f"{len(sizes)} programs, {size(sum(sizes))}"


# --- The self-test ---------------------------------------------------------------------------------------------------


def _program(x: Any, sin: Any = dnp.sin) -> Any:
    """A loop of eight steps, with Didax's arrays or with NumPy's."""
    for _ in range(8):
        x = sin(x) * 1.25 + x * x * 0.25
    return x


def _scanned(x: Any) -> Any:
    def body(x: Any, _: Any) -> tuple[Any, None]:
        return dnp.sin(x) * 1.25 + x * x * 0.25, None

    return dx.lax.scan(body, x, None, length=8)[0]


_POINTS = np.linspace(-0.9, 0.9, 5)


def _value() -> Any:
    return _program(_POINTS, np.sin)


def _slope() -> Any:
    """The derivative by a complex step, exact to the last digits of a double. Source: Squire and Trapp (1998)."""
    return _program(_POINTS + 1e-30j, np.sin).imag / 1e-30


def _compare(compute: Callable[[Any], Any], expected: Callable[[], Any]) -> Callable[[], str]:
    """A test: both have the same numbers, up to the rounding of a float32."""

    def test() -> str:
        got, wanted = np.asarray(compute(dnp.asarray(_POINTS, dnp.float32))), expected()
        if got.shape != wanted.shape or not np.allclose(got, wanted, rtol=1e-4, atol=1e-5):
            raise ArithmeticError(message("The result is wrong.", f"got: {got}", f"expected: {wanted}"))
        return "ok"

    return test


_MATRIX = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)

SELF_TEST: dict[str, Callable[[], str]] = {
    "eager operations": _compare(_program, _value),
    "jit": _compare(lambda x: dx.jit(_program)(x), _value),
    "vmap": _compare(lambda x: dx.vmap(_program)(x), _value),
    "scan": _compare(lambda x: _scanned(x), _value),
    "jit of vmap of scan": _compare(lambda x: dx.jit(dx.vmap(_scanned))(x), _value),
    "grad": _compare(lambda x: dx.grad(lambda x: _program(x).sum())(x), _slope),
    "jvp": _compare(lambda x: dx.jvp(_program, (x,), (dnp.ones_like(x),))[1], _slope),
    "jit of vmap of grad of scan": _compare(lambda x: dx.jit(dx.vmap(dx.grad(_scanned)))(x), _slope),
    "matrix product": _compare(lambda x: dx.jit(dnp.matmul)(_MATRIX, _MATRIX.T), lambda: _MATRIX @ _MATRIX.T),
    "linear algebra": _compare(
        lambda x: dnp.linalg.solve(_MATRIX, x[:2]), lambda: np.linalg.solve(_MATRIX, _POINTS[:2])
    ),
    "callback": _compare(lambda x: dx.jit(lambda x: dx.pure_callback(np.sort, x, x))(-x), lambda: _POINTS),
}


# --- The benchmark ---------------------------------------------------------------------------------------------------


def _time(call: Callable[[], Any], calls: int = 200, repeats: int = 9) -> float:
    """Seconds of a call: the median of a few runs of many calls, after a first one that compiles."""
    dx.block_until_ready(call())

    def run() -> float:
        start = time.perf_counter()
        for _ in range(calls - 1):
            call()
        dx.block_until_ready(call())
        return (time.perf_counter() - start) / calls

    return statistics.median(run() for _ in range(repeats))


def _eager_add() -> str:
    x = dnp.ones(1000)
    return f"{_time(lambda: x + x) * 1e6:.1f} us"


def _jitted_call() -> str:
    x, f = dnp.ones(1000), dx.jit(lambda x: x * 2 + 1)
    return f"{_time(lambda: f(x)) * 1e6:.1f} us"


_numbers: Iterator[int] = itertools.count(time.time_ns() % 1_000_003)  # a program that no cache holds


def _compile() -> str:
    def once() -> float:
        number = next(_numbers)
        f = dx.jit(lambda x: _program(x) + float(number))
        start = time.perf_counter()
        f.lower(np.float32(1.0)).compile()
        return time.perf_counter() - start

    with config.override(enable_compilation_cache=False):
        once()
        return f"{statistics.median(once() for _ in range(3)) * 1e3:.0f} ms"


def _product() -> str:
    x, f = dnp.ones((1024, 1024), dnp.float32), dx.jit(dnp.matmul)
    return f"{2 * 1024**3 / _time(lambda: f(x, x), calls=2, repeats=5) / 1e9:.0f} Gflop/s"


BENCHMARK: dict[str, Callable[[], str]] = {
    "eager addition of 1,000 numbers": _eager_add,
    "call of a jitted function": _jitted_call,
    "compilation of a small program": _compile,
    "product of matrices, 1024 x 1024": _product,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
