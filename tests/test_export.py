"""Exported programs: the same values and derivatives, also in another process; damaged bytes are refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import export

W = np.arange(9.0, dtype="float32").reshape(3, 3) / 9
P = {"x": np.arange(1.0, 4.0, dtype="float32") / 3}


def f(p: Any, n: Any, *, scale: Any = 1.0) -> Any:
    spread = dnp.eye(3) + dnp.outer(p["x"], p["x"])
    return {"y": (dnp.sinh(p["x"]) @ W + dnp.linalg.cholesky(spread)) * scale, "n": [n + 1, None]}


def gradient(of: Callable[..., Any]) -> Callable[[Any], Any]:
    return dx.grad(lambda p: (of(p, 3, scale=2.0)["y"] ** 2).sum())


def saved(vjp_order: int = 2) -> bytes:
    return bytes(
        export.export(dx.jit(f))(P, dx.ShapeDtypeStruct((), "int32"), scale=2.0).serialize(vjp_order)
    )


def test_values_and_derivatives_to_the_saved_order() -> None:
    loaded = export.deserialize(saved())
    assert loaded.fun_name == "f"
    assert [str(a) for a in loaded.in_avals] == ["float32[3]", "int32[]", "float32[]"]
    assert "cholesky" in loaded.mlir_module() or "potrf" in loaded.mlir_module()
    want, found = f(P, 3, scale=2.0), loaded.call(P, 3, scale=2.0)
    assert dx.tree.structure(found) == dx.tree.structure(want)
    np.testing.assert_allclose(found["y"], want["y"], rtol=1e-6)
    assert int(found["n"][0]) == 4
    second = lambda of: dx.grad(lambda p: (gradient(of)(p)["x"] ** 2).sum())
    both = dx.jit(
        lambda p: [gradient(loaded.call)(p), second(loaded.call)(p), loaded.call(p, 1, scale=1.0)["y"] * 2]
    )
    first, twice, inside = both(P)
    np.testing.assert_allclose(first["x"], gradient(f)(P)["x"], rtol=1e-4)
    np.testing.assert_allclose(twice["x"], second(f)(P)["x"], rtol=1e-3)
    np.testing.assert_allclose(inside, f(P, 1)["y"] * 2, rtol=1e-5)
    plain = export.deserialize(saved(0))
    assert not plain.has_vjp()
    with pytest.raises(Exception, match="exported program has no Python"):
        gradient(plain.call)(P)


def test_another_process_needs_nothing_of_the_function(tmp_path: Path) -> None:
    path = tmp_path / "f.bin"
    path.write_bytes(saved(1))
    np.save(tmp_path / "want.npy", np.stack([np.diag(f(P, 3, scale=2.0)["y"]), gradient(f)(P)["x"]]))
    program = """
import sys, numpy as np, didax as dx
from pathlib import Path
f = dx.export.deserialize(Path(sys.argv[1], "f.bin").read_bytes())
p = {"x": np.arange(1.0, 4.0, dtype="float32") / 3}
g = dx.grad(lambda p: (f.call(p, 3, scale=2.0)["y"] ** 2).sum())(p)["x"]
found = [np.diag(f.call(p, 3, scale=2.0)["y"]), g]
np.testing.assert_allclose(found, np.load(Path(sys.argv[1], "want.npy")), rtol=1e-4)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)


DATA = saved(0)
key = dx.random.key(0)
ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "other bytes": (
        lambda: export.deserialize(b"PK\x03\x04 something"),
        ValueError,
        "are no exported program",
    ),
    "too new": (
        lambda: export.deserialize(DATA[:12] + b"\xff\x00" + DATA[14:]),
        ValueError,
        "newer.*\n  format: 255",
    ),
    "too old": (lambda: export.deserialize(DATA[:12] + b"\x00\x00" + DATA[14:]), ValueError, "older"),
    "cut": (lambda: export.deserialize(DATA[:-5]), ValueError, "is damaged"),
    "changed": (lambda: export.deserialize(DATA[:-5] + b"xxxxx"), ValueError, "is damaged"),
    "not jitted": (lambda: export.export(f), TypeError, r"export\(jit\(f\)\)"),
    "callback": (
        lambda: export.export(dx.jit(lambda x: dx.pure_callback(np.sin, x, x)))(W),
        ValueError,
        "calls Python",
    ),
    "key": (lambda: export.export(dx.jit(lambda k: k))(key), ValueError, "key_data"),
    "types": (
        lambda: export.deserialize(DATA).call(P, 3.5, scale=2.0),
        TypeError,
        r"exported for: float32\[3\], int32",
    ),
    "no vjp": (lambda: export.deserialize(DATA).vjp(), ValueError, "larger vjp_order"),
    "batch": (
        lambda: dx.vmap(lambda n: export.deserialize(DATA).call(P, n, scale=2.0))(np.arange(2)),
        Exception,
        "no Python",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, part = ERRORS[name]
    with pytest.raises(error, match=part):
        call()
