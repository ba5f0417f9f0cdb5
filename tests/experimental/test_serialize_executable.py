"""Compiled programs as bytes: they are loaded as they were, here and in another process, and bad bytes are refused."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import config
from didax.experimental.serialize_executable import deserialize_and_load, serialize
from didax.runtime import program_files

X = np.arange(6, dtype="float32").reshape(2, 3)


class Pair(NamedTuple):
    a: Any
    b: Any


def saved(f: Any, *args: Any, **kwargs: Any) -> tuple[bytes, Any, Any]:
    return serialize(f.lower(*args, **kwargs).compile())


def loaded(*data: Any) -> Any:
    dx.clear_caches()
    return deserialize_and_load(*data)


def numbers(x: Any) -> Any:
    is_key = dx.dtypes.issubdtype(dx.typeof(x).dtype, dx.dtypes.prng_key)
    return np.asarray(dx.random.key_data(x) if is_key else x)


WEIGHTS, KEY = dnp.linspace(0.0, 1.0, 12).reshape(3, 4), dx.random.key(3)
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "captured arrays, weak types": (lambda x: (x @ WEIGHTS, 3.0, dnp.arange(3)), (X,), {}),
    "containers, unused arguments": (
        lambda d, *, n, unused: {"y": Pair(d["x"] + n, None)},
        ({"x": X},),
        {"n": 3, "unused": X},
    ),
    "LAPACK": (lambda x: dnp.linalg.cholesky(x @ x.T + dnp.eye(2)), (X,), {}),
    "keys": (lambda k: (dx.random.clone(k), dx.random.bits(dx.random.fold_in(KEY, 1), (3,))), (KEY,), {}),
    "dtypes": (lambda x: (x.astype("bfloat16"), x > 2, x * 1j, x.astype("int4")), (X,), {}),
    "float0": (dx.grad(lambda i: dnp.float32(2) * i, allow_int=True), (3,), {}),
    "a loop": (lambda x: lax.fori_loop(0, 10, lambda i, c: dnp.sin(c) + i, x), (1.5,), {}),
    "no results": (lambda x: None, (X,), {}),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_loaded_program_is_the_one_that_was_saved(case: str) -> None:
    f, args, kwargs = PROGRAMS[case]
    compiled = dx.jit(f).lower(*args, **kwargs).compile()
    data = serialize(compiled)
    again = loaded(*data)
    with config.override(debug_key_reuse="off"):
        want, got = compiled(*args, **kwargs), again(*args, **kwargs)
    assert dx.tree.structure(got) == dx.tree.structure(want)
    for x, y in zip(dx.tree.leaves(want), dx.tree.leaves(got), strict=True):
        assert dx.typeof(x) == dx.typeof(y) and getattr(x, "committed", 0) == getattr(y, "committed", 0)
        np.testing.assert_array_equal(numbers(x), numbers(y))
    for name in ("in_avals", "out_avals", "args_info", "out_info", "input_shardings", "output_shardings"):
        assert getattr(again, name) == getattr(compiled, name), name
    assert repr(again) == repr(compiled) and again.collectives() == []
    assert again.as_text().startswith("HloModule") and again.cost_analysis() == compiled.cost_analysis()
    assert serialize(again) == data  # one that was loaded is saved as it was


def test_nothing_is_traced_or_compiled(tmp_path: Path) -> None:
    """Neither to save a program that the cache on disk has, nor to load one; without a cache it is compiled again."""
    events: list[str] = []
    dx.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    try:
        with config.override(compilation_cache_dir=str(tmp_path), enable_compilation_cache=True):
            data = saved(dx.jit(lambda x: x * 5 + 1), X)
            events.clear()
            assert float(loaded(*data)(X)[1, 2]) == 26.0
        assert not [name for name in events if "compile" in name or "trac" in name]
    finally:
        dx.monitoring.clear_event_listeners()
    with config.override(enable_compilation_cache=False):
        data = saved(dx.jit(lambda x: x * 5 + 2), X)
        assert float(loaded(*data)(X)[1, 2]) == 27.0
    with config.override(compilation_cache_dir=str(tmp_path), enable_compilation_cache=True):
        # Read from the cache, and so without its kernels when XLA writes it: the bytes are those of the cache.
        dx.clear_caches()
        assert float(loaded(*saved(dx.jit(lambda x: x * 5 + 1), X))(X)[1, 2]) == 26.0


def test_donated_arguments_are_donated() -> None:
    data = saved(dx.jit(lambda x, y: (x + 1, y * 2), donate_argnums=0), X, X)
    f = loaded(*data)
    x, y = dnp.array(X), dnp.array(X)
    same = x.copy()
    f(x, y)
    assert f.donate_argnums == (0,) and x.is_deleted() and not y.is_deleted() and float(same[1, 2]) == 5
    with pytest.raises(RuntimeError, match="A donated or deleted array was passed"):
        f(x, y)
    with dx.debug_nans(True):
        loaded(*data)(y, y)
        with pytest.raises(dx.errors.NaNError, match="A compiled program made NaN"):
            loaded(*saved(dx.jit(lambda x: dnp.log(x - 1), donate_argnums=0), X))(dnp.array(X))


def test_arguments_have_the_types_that_it_was_compiled_for() -> None:
    f = loaded(*saved(dx.jit(lambda x: x + 1), X))
    with pytest.raises(
        TypeError, match=r"exactly the types it was compiled for.\n  compiled for: float32\[2,3\]"
    ):
        f(X[0])
    with pytest.raises(TypeError, match="takes no traced arrays"):
        dx.grad(lambda x: f(x).sum())(X)


def test_what_bytes_cannot_say_is_refused() -> None:
    ref = dx.new_ref(dnp.ones(3))

    def calls(x: Any) -> Any:
        dx.debug.print("{x}", x=x)
        return x

    for f, rule in (
        (calls, "A program that calls Python back is not saved"),
        (lambda x: x + ref[...].sum(), "A program that reads or writes Refs is not saved"),
    ):
        with pytest.raises(ValueError, match=rule):
            saved(dx.jit(f), X)
    with pytest.raises(ValueError, match="reads or writes Refs"):
        saved(dx.jit(lambda r: r[...] * 2), ref)
    with pytest.raises(TypeError, match=r"serialize takes a compiled program.\n  got: Lowered"):
        serialize(dx.jit(lambda x: x).lower(X))  # pyright: ignore[reportArgumentType]


def test_bytes_that_are_damaged_or_foreign_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data, *trees = saved(dx.jit(lambda x: x @ WEIGHTS), X)
    for i in range(56, len(data), 97):
        changed = bytearray(data)
        changed[i] ^= 1
        with pytest.raises(ValueError, match="The saved program is damaged"):
            deserialize_and_load(bytes(changed), *trees)
    for short in (data[:-1], data[:60], data + b"x"):
        with pytest.raises(ValueError, match="The saved program is damaged"):
            deserialize_and_load(short, *trees)
    for other in (b"", data[:20], pickle.dumps(1), b"x" * 100):
        with pytest.raises(ValueError, match="not a compiled program that Didax has saved"):
            deserialize_and_load(other, *trees)
    with pytest.raises(ValueError, match="format: 2, read: 1"):
        deserialize_and_load(data[:8] + struct.pack("<I", 2) + data[12:], *trees)
    with pytest.raises(TypeError, match="A saved program is bytes"):
        deserialize_and_load("text", *trees)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"in_tree: PyTreeDef.*with 2 arrays; the program has 1"):
        deserialize_and_load(data, dx.tree.structure(((X, X), {})), trees[1])
    with pytest.raises(ValueError, match="of 1; execution_devices: 0"):
        deserialize_and_load(data, *trees, execution_devices=[])
    with pytest.raises(ValueError, match="A process has one backend"):
        deserialize_and_load(data, *trees, backend="tpu")
    monkeypatch.setattr(program_files, "installed_jaxlib", lambda: (0, 99))
    monkeypatch.setattr(program_files, "platform", lambda: "cuda")
    with pytest.raises(ValueError, match="runs with the jaxlib that compiled it") as told:
        deserialize_and_load(data, *trees)
    assert "platform: saved with cpu, here cuda" in str(told.value) and "didax.export" in str(told.value)


def test_a_device_may_be_asked_for() -> None:
    data = saved(dx.jit(lambda x: x + 1), X)
    here = dx.devices()[0]
    again = deserialize_and_load(*data, backend=here.client, execution_devices=[here])
    assert again(X).committed and again(X).devices() == {here}


@pytest.mark.ci
def test_another_process_runs_it(tmp_path: Path) -> None:
    f = dx.jit(lambda x: {"y": Pair(dnp.linalg.qr(x @ WEIGHTS)[1], 1.0)})
    (tmp_path / "program").write_bytes(pickle.dumps(saved(f, X)))
    program = (
        "import pickle, sys; import numpy as np\n"
        "from tests.experimental.test_serialize_executable import X, deserialize_and_load\n"
        "out = deserialize_and_load(*pickle.load(open(sys.argv[1], 'rb')))(X)\n"
        "sys.stdout.buffer.write(np.asarray(out['y'].a).tobytes())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "program")]
    found = np.frombuffer(subprocess.run(command, check=True, capture_output=True).stdout, "float32")
    np.testing.assert_array_equal(found, np.asarray(f(X)["y"].a).ravel())
