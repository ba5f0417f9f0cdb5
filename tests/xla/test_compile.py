"""The compilation cache: in memory, on disk, between processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import config
from didax.primitives.elementwise import mul, sin
from didax.xla import compile as xla_compile
from didax.xla import disk_store
from didax.xla.client import backend
from didax.xla.disk_store import DiskStore


def test_a_stored_program_is_read_back_whole(tmp_path: Path):
    store = DiskStore(tmp_path, 1 << 20)
    store.write("a", b"program")
    assert store.read("a") == b"program"
    assert store.read("b") is None


def test_a_corrupt_entry_is_a_miss(tmp_path: Path):
    store = DiskStore(tmp_path, 1 << 20)
    store.write("a", b"program")
    path = tmp_path / "a"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert store.read("a") is None
    path.write_bytes(b"")
    assert store.read("a") is None


def test_an_entry_is_a_miss_wherever_it_is_cut_or_changed_and_under_another_name(tmp_path: Path):
    store = DiskStore(tmp_path, 1 << 20)
    store.write("a", b"program")
    path = tmp_path / "a"
    whole = path.read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i])
        assert store.read("a") is None
        for bit in range(8):
            path.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << bit]) + whole[i + 1 :])
            assert store.read("a") is None
    path.write_bytes(whole)
    assert store.read("a") == b"program"
    path.rename(tmp_path / "b")
    assert store.read("b") is None


def test_entries_that_changed_places_are_compiled_anew(tmp_path: Path):
    f, g = (lambda x: mul(sin(x), 13.0)), (lambda x: mul(sin(x), 17.0))
    with config.override(compilation_cache_dir=str(tmp_path)):
        expected = float(dx.jit(f)(0.5)), float(dx.jit(g)(0.5))
        one, two = tmp_path.iterdir()
        one.rename(tmp_path / "aside")
        two.rename(one)
        (tmp_path / "aside").rename(two)
        dx.clear_caches()
        assert (float(dx.jit(f)(0.5)), float(dx.jit(g)(0.5))) == expected


def test_readers_meet_writers_and_removers(tmp_path: Path):
    store = DiskStore(tmp_path, 1 << 20)
    bodies = [bytes([i]) * 5000 for i in range(4)]

    def work(i: int) -> None:
        for _ in range(50):
            store.write("a", bodies[i])
            found.append(store.read("a"))
            (tmp_path / "a").unlink(missing_ok=True)

    found: list[bytes | None] = []
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 200 and {*found} <= {None, *bodies}


def test_the_directory_stays_under_its_bound_and_keeps_what_was_used_last(tmp_path: Path):
    store = DiskStore(tmp_path, 3 * 132)
    for i, name in enumerate("abc"):
        store.write(name, bytes(100))
        os.utime(tmp_path / name, (i, i))
    assert store.read("a") is not None  # used: now the newest
    store.write("d", bytes(100))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "c", "d"]


def test_the_entries_are_counted_only_when_the_bound_may_be_near(tmp_path: Path, monkeypatch):
    counts = []
    trim = DiskStore._trim
    monkeypatch.setattr(DiskStore, "_trim", lambda self: counts.append(1) or trim(self))
    store = DiskStore(tmp_path, 10_000)
    for i in range(120):
        store.write(str(i), bytes(100))
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 10_000
    assert len(counts) < 100
    far = DiskStore(tmp_path / "far", 1 << 30)
    counts.clear()
    for i in range(50):
        far.write(str(i), bytes(100))
    assert len(counts) == 1


def test_concurrent_writers_leave_whole_entries(tmp_path: Path):
    store = DiskStore(tmp_path, 1 << 20)
    threads = [threading.Thread(target=store.write, args=("a", bytes([i]) * 10_000)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    found = store.read("a")
    assert found is not None and len(set(found)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_unwritable_directory_is_done_without():
    with config.override(compilation_cache_dir="/proc/nowhere"):
        dx.clear_caches()
        disk_store._open_store.cache_clear()
        with pytest.warns(UserWarning, match="cannot be kept") as warned:
            assert float(dx.jit(lambda x: sin(x))(0.5)) == pytest.approx(np.sin(0.5))
        assert float(dx.jit(lambda x: sin(x) * 2)(0.5)) == pytest.approx(2 * np.sin(0.5))  # and is told once
    assert "compilation_cache_dir (DIDAX_COMPILATION_CACHE_DIR): '/proc/nowhere': " in str(warned[0].message)


def test_a_directory_that_disappears_loses_no_result(tmp_path: Path):
    folder = tmp_path / "programs"
    with config.override(compilation_cache_dir=str(folder)):
        dx.clear_caches()
        assert float(dx.jit(lambda x: sin(x) * 31)(0.0)) == 0.0
        shutil.rmtree(folder)
        assert float(dx.jit(lambda x: sin(x) * 41)(0.0)) == 0.0
        folder.write_text("a file")
        assert float(dx.jit(lambda x: sin(x) * 61)(0.0)) == 0.0


def test_a_corrupt_file_in_the_cache_is_compiled_anew(tmp_path: Path):
    with config.override(compilation_cache_dir=str(tmp_path)):
        f = lambda x: mul(sin(x), 3.0)
        expected = float(dx.jit(f)(0.5))
        (entry,) = tmp_path.iterdir()
        entry.write_bytes(b"x" * 100)
        dx.clear_caches()
        assert float(dx.jit(f)(0.5)) == expected


PROGRAM = """
import didax as dx, numpy as np
from didax.primitives.elementwise import sin, mul
from didax.xla import client
compiled = []
started = client.backend()
class Counting:
    def __getattr__(self, name):
        if name == "compile_and_load":
            compiled.append(name)
        return getattr(started_client, name)
started_client = started.client
started.client = Counting()
print(dx.jit(lambda x: mul(sin(x), 2.0))(np.arange(3, dtype="float32")), len(compiled))
"""


@pytest.mark.ci
def test_a_second_process_compiles_nothing(tmp_path: Path):
    environment = {
        **os.environ,
        "DIDAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "DIDAX_ENABLE_COMPILATION_CACHE": "1",
    }
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    values = [run.stdout.rsplit(maxsplit=1) for run in runs]
    assert values[0][0] == values[1][0]
    assert [count for _, count in values] == ["1", "0"]
    assert runs[0].stderr == ""


def test_equal_programs_share_one_executable():
    x = np.arange(3, dtype="float32")
    f = lambda x: mul(sin(x), 5.0)
    g = lambda x: mul(sin(x), 5.0)
    dx.clear_caches()
    one, two = dx.jit(f).lower(x).compile(), dx.jit(g).lower(x).compile()
    assert one._executable.loaded is two._executable.loaded


def test_the_memory_cache_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(xla_compile, "_MEMORY_MAX", 2)
    dx.clear_caches()
    for n in range(1, 5):
        dx.jit(lambda x: sin(x))(np.zeros(n, "float32"))
    assert len(xla_compile._memory) <= 2


SMALL = (lambda x: sin(x) * x, (512,))


@pytest.mark.cpu
@pytest.mark.skipif(
    not version("jaxlib").startswith("0.10."), reason="later versions have one kind of kernels"
)
@pytest.mark.parametrize(
    "f, shape, is_small",
    [
        (*SMALL, True),
        (SMALL[0], (513,), False),
        (lambda x: x @ x @ x, (8, 8), True),
        (lambda x: x @ x @ x @ x, (8, 8), False),
        (lambda x: lax.fori_loop(0, 9, lambda i, x: sin(x), x), (8,), False),
        (lambda x: x[x.astype(int)], (8,), True),
        (lambda x: dnp.interp(x, x, x), (16,), False),
        (lambda x: x.astype("float8_e8m0fnu").astype("float32"), (8,), False),
    ],
)
def test_small_programs_are_compiled_without_the_newer_kernels(f: Any, shape: Any, is_small: bool) -> None:
    text = dx.jit(f).lower(dnp.ones(shape)).as_text()
    flags = xla_compile._flags(backend(), text, {"xla_cpu_use_fusion_emitters": True}, partitioned=False)
    without, asked = ("xla_cpu_use_fusion_emitters", False), ("xla_cpu_use_fusion_emitters", True)
    assert flags == [without, asked] if is_small else flags == [asked]  # XLA takes the last one
    with config.override(as_in_jax=True):
        assert xla_compile._flags(backend(), text, None, partitioned=False) == []
