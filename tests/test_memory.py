"""Memory does not grow with what is no longer used: objects are counted, which no load of a machine changes."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import types
from collections import Counter, deque
from collections.abc import Callable

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.api import jit_cache
from didax.core import config
from didax.core.avals import ShapedArray, _interned
from didax.primitives.gamma import lgamma
from didax.runtime import eager, program_plans
from didax.runtime.compiled import Program


def left_behind(work: Callable[[int], None], warm: int, count: int, first: int = 0) -> Counter[str]:
    """How many objects of each type `count` steps of work leave after `warm` of them.

    Types of arrays and the keys of their table, which is never emptied, are left out.
    """

    def objects() -> Counter[str]:
        dx.clear_caches()
        gc.collect()
        kept = {id(key) for key in _interned}
        found = [x for x in gc.get_objects() if type(x) is not ShapedArray and id(x) not in kept]
        return Counter(type(x).__qualname__ for x in found)

    for i in range(first, first + warm):
        work(i)
    before = objects()
    for i in range(first + warm, first + warm + count):
        work(i)
    return objects() - before


def call(i: int) -> None:
    _step(_array)


def signature(i: int) -> None:
    dx.jit(lambda x: dnp.sin(x) * 2 + x)(np.ones(i + 1, "float32"))


def callback(i: int) -> None:
    _calling(_array)


def transformed(i: int) -> None:
    dx.grad(lambda x: (dnp.sin(x) * i).sum())(_array)
    dx.vmap(lambda x: dnp.cos(x) * i)(_array)


def staged(i: int) -> None:
    dx.make_jaxpr(dx.jit(lambda x: dnp.sin(x) * i))(_array)


_array = dnp.ones(3)
_step = dx.jit(lambda x: x * 2 + 1)
_calling = dx.jit(lambda x: dx.pure_callback(lambda x: x, x, x))
KINDS = [(call, 500, 10_000), (signature, 8, 2_000), (callback, 100, 10_000)]
KINDS += [(transformed, 100, 2_000), (staged, 50, 2_000)]


@pytest.mark.parametrize(("work", "count", "_many"), KINDS, ids=lambda x: getattr(x, "__name__", ""))
def test_what_is_no_longer_used_leaves_nothing(work: Callable[[int], None], count: int, _many: int):
    left = left_behind(work, 5, count)
    assert left.total() < max(count // 2, 40), left.most_common(5)  # other tests' garbage comes and goes


@pytest.mark.slow
@pytest.mark.parametrize(("work", "_few", "count"), KINDS, ids=lambda x: getattr(x, "__name__", ""))
def test_thousands_of_what_is_no_longer_used_leave_nothing(
    work: Callable[[int], None], _few: int, count: int
):
    left = left_behind(work, 20, count, first=30)
    assert left.total() < 200, left.most_common(5)


@pytest.mark.parametrize("watched", [False, True])
def test_programs_for_ever_new_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch, watched: bool) -> None:
    """Of a jitted function and of eager operations the older ones are forgotten, and compiled anew when asked for."""
    monkeypatch.setattr(jit_cache, "_SPECIALIZATIONS_MAX", 4)
    monkeypatch.setattr(program_plans, "_COMPILED_MAX", 4)
    monkeypatch.setattr(program_plans, "_compiled", deque())  # without the programs of other tests
    f, lengths = dx.jit(lambda x: x * 2 + 1), [*range(1, 8), 1, 2]
    for n in lengths:
        for _ in range(3):
            np.testing.assert_array_equal(f(dnp.ones(n)), np.full(n, 3))
        assert f._cache_size() <= 4
    eager.clear_plans()
    # Watched operations do not run on the calling thread.
    monkeypatch.setattr(config, "operations_were_watched", watched)
    made: list[Program] = []
    monkeypatch.setattr(program_plans, "Program", lambda *a, **k: made.append(Program(*a, **k)) or made[-1])
    for n in lengths:
        np.testing.assert_allclose(lgamma(dnp.full(n, 3.0)), np.full(n, np.log(2)), rtol=1e-6)
        assert sum(bool(program.executables()) for program in made) <= 4
    assert len(made) == 7


KEEPING = """
import resource
import didax as dx, didax.numpy as dnp

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

x, step = dnp.zeros(10**7, "float32"), dx.jit(lambda x, y: x * y + 1)  # 40 MB, which glibc never keeps by itself
for i in range(30):  # the heap grows by some blocks first
    step(x, i).block_until_ready()
before, held = faults(), resident()
for i in range(30):
    step(x, i).block_until_ready()
print((faults() - before) * resource.getpagesize())
del x
most = resident()
print(most - held)
dx.clear_caches()
print(most - resident())
"""


@pytest.mark.ci
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator can be told")
def test_memory_is_kept_on_request_and_given_back() -> None:
    """Page faults are counted: without the option each of 30 calls has those of a fresh array of 40 MB."""
    environment = os.environ | {"DIDAX_KEEP_MEMORY": str(1 << 28), "DIDAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-c", KEEPING], env=environment, capture_output=True, text=True, check=True
    )
    faulted, grown, given_back = map(int, run.stdout.split())
    assert faulted < 15 * 40_000_000 and grown < 5 * 40_000_000 and given_back > 30_000_000


def test_clear_caches_gives_free_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What programs leave between blocks that are in use stays with the process otherwise."""
    dnp.ones(2).block_until_ready()  # the backend has started
    given: list[int] = []
    library = types.SimpleNamespace(malloc_trim=given.append)
    monkeypatch.setattr("didax.xla.kept_memory.ctypes.CDLL", lambda name: library)
    dx.clear_caches()
    assert given == [0]
