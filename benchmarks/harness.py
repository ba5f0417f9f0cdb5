"""Timing libraries beside each other, on a machine that others use too.

A `Case` names what is timed and has one builder per library; a builder returns a `Sampler`, which measures
once each time it is called. `measure` takes samples of all libraries in turn, so that a change in the
machine's load meets all of them, and reports the median of each and the median of the ratios of neighbours.

    repeated(call)           many calls in a row, as many as fill a few milliseconds
    prepared(prepare, call)  one call on a fresh value: what is traced or lowered twice comes from a cache
    process(code)            a new interpreter, from its start to the end of `code`

Read next: `cases/` (what is timed), `__main__.py` (the table).
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BATCH_SECONDS = 0.004


@dataclass
class Sampler:
    """`sample()` measures once, in seconds; `result` is what the measured code computes, to be compared."""

    sample: Callable[[], float]
    result: Any = None


@dataclass(frozen=True)
class Case:
    """Something to time. `budget` bounds Didax's figure over JAX's or, when `absolute`, the figure itself."""

    name: str
    title: str
    sides: Mapping[str, Callable[[], Sampler]]
    budget: float
    absolute: bool = False
    unit: str = "s"  # "s" for seconds, "x" for a plain quotient
    samples: int = 5  # at least so many of each library


ABSENT = (ImportError, AttributeError, NotImplementedError)


@dataclass
class Row:
    """What was measured of a case: medians by library, the ratio to JAX, and what went wrong."""

    case: Case
    medians: dict[str, float] = field(default_factory=dict)
    ratio: float | None = None
    problems: dict[str, Exception] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`ok`, `over`, `n/a: ...` where Didax or JAX lacks a feature, `failed: ...` where it has a fault."""
        found = self.medians.get("didax") if self.case.absolute else self.ratio
        if found is not None:
            return "ok" if round(found, 2) <= self.case.budget else "over"  # as the table shows it
        mark = "n/a" if all(isinstance(error, ABSENT) for error in self.problems.values()) else "failed"
        return (
            f"{mark}: {'; '.join(f'{library}: {_brief(error)}' for library, error in self.problems.items())}"
        )


def _brief(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def repeated(call: Callable[[], Any]) -> Sampler:
    """Time per call, over batches of calls; waits for the last result of a batch."""
    result = wait(call())
    count = 1
    while (seconds := _batch(call, count)) < BATCH_SECONDS:
        count = max(2 * count, int(0.8 * count * BATCH_SECONDS / seconds))
    return Sampler(lambda: _batch(call, count) / count, result)


def _batch(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count - 1):
        call()
    wait(call())
    return time.perf_counter() - start


def prepared(prepare: Callable[[], Any], call: Callable[[Any], Any], per: int = 1) -> Sampler:
    """Processor time of `call(prepare())` without the preparation, divided by `per`.

    For work on one thread that takes long enough to be interrupted: other processes do not count.
    """

    def sample() -> float:
        value = prepare()
        start = time.process_time()
        call(value)
        return (time.process_time() - start) / per

    sample()
    return Sampler(sample)


def process(
    code: str, whole: bool = True, warm_up: bool = True, clock: str = "monotonic", **environment: str
) -> Sampler:
    """Time of `code` in a new interpreter, with the interpreter's own start if `whole`, after one untimed run.

    The code may set `_t` anew by the same clock, where what is before it is not to be timed. The clock "process_time"
    is that of the processor, of all threads.

    Compiled bytecode is kept between the runs, as in any installation.
    """
    command = [
        sys.executable,
        "-c",
        f"import time; _t = time.{clock}()\n{code}\nprint(_t, time.{clock}())",
    ]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""} | environment

    def sample() -> float:
        start = time.monotonic()
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1]
            raise ImportError(reason) if reason.startswith(_ABSENT_NAMES) else RuntimeError(reason)
        begun, ended = map(float, done.stdout.split()[-2:])
        return ended - (start if whole else begun)

    if warm_up:
        sample()
    return Sampler(sample)


_ABSENT_NAMES = ("ModuleNotFoundError", *(error.__name__ for error in ABSENT))


def wait(x: Any) -> Any:
    """Wait until every array in (nested tuples, lists and dicts) `x` is computed; returns `x`."""
    if isinstance(x, dict):
        wait(list(x.values()))
    elif isinstance(x, tuple | list):
        for item in x:
            wait(item)
    elif hasattr(x, "block_until_ready"):
        x.block_until_ready()
    return x


def measure(case: Case, libraries: Sequence[str], seconds: float) -> Row:
    """Samples of all libraries in turn for about `seconds`, at least as many of each as the case asks for."""
    row = Row(case)
    samplers = _build(case, libraries, row)
    if "didax" not in samplers:
        return row
    gc.collect()
    gc.freeze()  # neither library shall pay for collecting the other's modules
    samples: dict[str, list[float]] = {library: [] for library in samplers}
    order = list(samplers)
    end = time.perf_counter() + seconds
    while len(samples["didax"]) < case.samples or time.perf_counter() < end:
        for library in order:
            samples[library].append(samplers[library].sample())
        order.reverse()
    gc.unfreeze()
    row.medians = {library: statistics.median(times) for library, times in samples.items()}
    if "jax" in samples:
        row.ratio = statistics.median(a / b for a, b in zip(samples["didax"], samples["jax"], strict=True))
    return row


def _build(case: Case, libraries: Sequence[str], row: Row) -> dict[str, Sampler]:
    """Samplers of the libraries that can run the case and agree on its result."""
    samplers: dict[str, Sampler] = {}
    reference: Any = None
    for library in reversed([library for library in libraries if library in case.sides]):
        try:
            sampler = case.sides[library]()
            if sampler.result is not None and reference is not None:
                _check_agreement(case.name, sampler.result, reference)
            reference = sampler.result if reference is None else reference
            samplers[library] = sampler
        except Exception as error:  # one case must not take the table with it
            row.problems[library] = error
    return samplers


def _check_agreement(name: str, x: Any, y: Any) -> None:
    """AssertionError unless both libraries computed the same."""
    for a, b in zip(_leaves(x), _leaves(y), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-3, atol=2e-3, err_msg=name)


def _leaves(x: Any) -> Iterable[Any]:
    if isinstance(x, tuple | list):
        return [leaf for item in x for leaf in _leaves(item)]
    return [x]
