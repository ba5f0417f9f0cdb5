"""Exported programs: the same values and derivatives, also in another process and of jax's files.

Those of `tests/exported/` were written by jax 0.10.2, from the functions that the tests of them compare with.
Programs of symbolic shapes are in `test_symbolic_shapes.py`.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import export
from didax.core.dtypes import ALL_DTYPES
from didax.export import _file
from didax.extend.dtypes import ExtendedDtype, register_extended

W = np.arange(9.0, dtype="float32").reshape(3, 3) / 9
MESH = dx.NamedSharding(
    dx.make_mesh((1,), ("a",), axis_types=(dx.sharding.AxisType.Auto,)), dx.sharding.PartitionSpec("a")
)
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
    with pytest.raises(ValueError, match="saved without its vjp"):
        gradient(plain.call)(P)


@pytest.mark.ci
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


@pytest.mark.ci
def test_another_process_finds_the_densities_of_a_program_of_symbolic_shapes(tmp_path: Path) -> None:
    """Their operation is in a module that no process loads before it is asked for."""
    n = export.symbolic_shape("n")
    density = dx.jit(lambda x, scale: dx.scipy.stats.norm.pdf(x, 0, scale))
    types = dx.ShapeDtypeStruct(n, "float32"), dx.ShapeDtypeStruct((), "float32")
    (tmp_path / "f.bin").write_bytes(export.export(density)(*types).serialize(vjp_order=1))
    program = """
import sys, numpy as np, didax as dx
from pathlib import Path
f = dx.export.deserialize(Path(sys.argv[1], "f.bin").read_bytes())
x = np.ones(3, "float32")
np.testing.assert_allclose(f.call(x, np.float32(2)), 0.1760327, rtol=1e-6)
np.testing.assert_allclose(dx.grad(lambda s: f.call(x, s)[0])(np.float32(2)), -0.0660122, rtol=1e-5)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)


HERE = Path(__file__).parent / "exported"


def plain(p: Any, n: Any, *, scale: Any = 1.0) -> Any:
    return {"y": dnp.sinh(p["x"]) * scale, "n": [n + 1, None]}


@pytest.mark.cpu
def test_files_of_jax() -> None:
    loaded = export.deserialize((HERE / "jax.bin").read_bytes())
    assert (loaded.fun_name, loaded.platforms, loaded.nr_devices) == ("f", ("cpu",), 1)
    assert loaded.vjp().module_kept_var_idx == (0, 2, 4)  # jax drops the arguments that it does not use
    assert str(loaded.vjp()) == (
        "Exported(fun_vjp_jax: float32[3], int32[], float32[], float0[], float32[3]"
        " -> float32[3], float0[], float32[])"
    )
    second = lambda of: dx.grad(lambda p: (gradient(of)(p)["x"] ** 2).sum())
    both = dx.jit(lambda p: (loaded.call(p, 3, scale=2.0), gradient(loaded.call)(p), second(loaded.call)(p)))
    found, first, twice = both(P)
    want = plain(P, 3, scale=2.0)
    assert dx.tree.structure(found) == dx.tree.structure(want)
    np.testing.assert_allclose(found["y"], want["y"], rtol=1e-6)
    np.testing.assert_allclose(first["x"], gradient(plain)(P)["x"], rtol=1e-5)
    np.testing.assert_allclose(twice["x"], second(plain)(P)["x"], rtol=1e-4)
    again = export.deserialize(loaded.serialize(vjp_order=2))
    assert again.mlir_module() == loaded.mlir_module()
    assert again.vjp().vjp().in_avals == loaded.vjp().vjp().in_avals


def test_files_of_jax_for_any_shape_and_two_platforms() -> None:
    loaded = export.deserialize((HERE / "jax_symbolic.bin").read_bytes())
    assert str(loaded) == "Exported(<lambda>: float32[b,n], float32[2*b,n] -> float32[n], float32[b,b])"
    assert loaded.platforms == ("cpu", "cuda")
    x, y = np.arange(6, dtype="float32").reshape(2, 3), np.ones((4, 3), "float32")
    outs, pull = dx.vjp(loaded.call, x, y)
    np.testing.assert_allclose(outs[0], (x.sum(0) + 4) * np.arange(3))
    np.testing.assert_allclose(outs[1], x @ x.T)
    np.testing.assert_allclose(pull((dnp.ones(3), dnp.zeros((2, 2))))[1], [[0, 1, 2]] * 4)
    with pytest.raises(ValueError, match=r"2\*b is 4 with b = 2, n = 3, and 3 in the argument"):
        loaded.call(x, y[:3])


@pytest.mark.cpu
@pytest.mark.usefixtures("x64")
def test_files_of_jax_for_two_platforms_with_64_bit_numbers() -> None:
    loaded = export.deserialize((HERE / "jax_two_platforms.bin").read_bytes())
    assert loaded.platforms == ("cuda", "cpu")
    x = np.arange(3.0)
    np.testing.assert_allclose(loaded.call(x), np.sin(x))
    np.testing.assert_allclose(dx.grad(lambda x: loaded.call(x).sum())(x), np.cos(x))


@pytest.mark.cpu
def test_files_of_jax_for_any_shape_with_complex_results_and_factors() -> None:
    loaded = export.deserialize((HERE / "jax_symbolic_factor.bin").read_bytes())
    for count in (1, 4):
        x = np.cos(np.arange(3.0 * count, dtype="float32")).reshape(count, 3)
        spectrum, factor = dx.jit(loaded.call)(x)
        np.testing.assert_allclose(spectrum, np.fft.fft(x), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(factor, np.linalg.cholesky(x.T @ x + 5 * np.eye(3)), rtol=1e-5)


@pytest.mark.cpu
def test_files_of_jax_that_lay_arrays_out_on_one_device() -> None:
    """Two modules in one program, each with a mesh of its own."""
    loaded = export.deserialize((HERE / "jax_one_device.bin").read_bytes())
    x, w = np.arange(8, dtype="float32").reshape(4, 2) / 9, W[:2]
    of = lambda x, w: dnp.tanh((x * x).sum() * x @ w)
    slope = lambda f: dx.jit(dx.value_and_grad(lambda x: f(x).sum()))(x)
    own = export.export(dx.jit(lambda x: of(x, w), in_shardings=MESH))(x)
    wanted = slope(lambda x: of(x, w))
    for f in (lambda x: loaded.call(x, w)[0], export.deserialize(own.serialize(vjp_order=1)).call):
        np.testing.assert_allclose(slope(f)[0], wanted[0], rtol=1e-5)
        np.testing.assert_allclose(slope(f)[1], wanted[1], rtol=1e-4, atol=1e-6)


@pytest.mark.cpu
def test_jax_reads_the_files(tmp_path: Path) -> None:
    pytest.importorskip("flatbuffers")  # which jax.export needs
    import jax
    from jax import export as jax_export

    loaded = jax_export.deserialize(bytearray(saved(2)))
    np.testing.assert_allclose(loaded.call(P, 3, scale=2.0)["y"], f(P, 3, scale=2.0)["y"], rtol=1e-6)
    of_jax = lambda of: jax.grad(lambda p: (of(p, 3, scale=2.0)["y"] ** 2).sum())
    np.testing.assert_allclose(of_jax(loaded.call)(P)["x"], gradient(f)(P)["x"], rtol=1e-4)
    second = jax.grad(lambda p: (of_jax(loaded.call)(p)["x"] ** 2).sum())(P)
    want = dx.grad(lambda p: (gradient(f)(p)["x"] ** 2).sum())(P)
    np.testing.assert_allclose(second["x"], want["x"], rtol=1e-3)
    anywhere = dx.ShapeDtypeStruct(export.symbolic_shape("b, 2"), "float32")  # and see test_open_modules.py
    loaded = jax_export.deserialize(export.export(dx.jit(lambda x: dnp.cumsum(x, 0)))(anywhere).serialize())
    assert loaded.call(np.ones((3, 2), "float32")).tolist() == [[1, 1], [2, 2], [3, 3]]


class Pair(NamedTuple):
    a: Any
    b: Any


export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")


@dx.tree_util.register_pytree_node_class
class Scaled:
    def __init__(self, x: Any, unit: str):
        self.x, self.unit = x, unit

    def tree_flatten(self) -> Any:
        return (self.x,), self.unit

    @classmethod
    def tree_unflatten(cls, unit: str, children: Any) -> Scaled:
        return cls(*children, unit)


export.register_pytree_node_serialization(
    Scaled,
    serialized_name="tests.Scaled",
    serialize_auxdata=str.encode,
    deserialize_auxdata=bytes.decode,
)


def test_containers_of_registered_classes() -> None:
    g = dx.jit(lambda p: Pair(OrderedDict(z=p.a["k"].x + 1), (p.b, {})))
    args = Pair({"k": Scaled(np.float32(1), "mm")}, [np.int32(2)])
    loaded = export.deserialize(export.export(g)(args).serialize())
    found = loaded.call(args)
    assert type(found) is Pair
    assert type(found.a) is OrderedDict
    assert float(found.a["z"]) == 2
    assert loaded.out_tree == dx.tree.structure(found)
    with pytest.raises(ValueError, match="takes arguments of the types"):
        loaded.call(Pair({"k": Scaled(np.float32(1), "cm")}, [np.int32(2)]))


def test_every_dtype_and_an_empty_program_pass_through_the_file() -> None:
    dtypes = [dt for dt in ALL_DTYPES if dt.name not in ("int2", "uint2", "float4_e2m1fn")]
    one = export.export(dx.jit(lambda xs: xs))([dx.ShapeDtypeStruct((2, 0), dt) for dt in dtypes])
    loaded = export.deserialize(one.serialize())
    assert [x.dtype for x in loaded.in_avals] == dtypes
    empty = export.deserialize(export.export(dx.jit(lambda: ()))().serialize())
    assert empty.call() == ()


def changed(**fields: Any) -> bytes:
    """The file with other values in its table."""
    program = export.export(dx.jit(lambda x: x + 1))(np.float32(1))
    return bytes(_file.write_file({**program._table(0), **fields}))


def call(**fields: Any) -> Callable[[], Any]:
    return lambda: export.deserialize(changed(**fields)).call(np.float32(1))


class Colour(dx.dtypes.extended):
    """Elements that are no numbers."""


DATA = saved(0)
RGB = register_extended(ExtendedDtype("rgb_of_exports", Colour, np.dtype("uint8"), (3,)))
ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "other bytes": (
        lambda: export.deserialize(b"PK\x03\x04 something"),
        ValueError,
        "are no exported program",
    ),
    "too new": (
        lambda: export.deserialize(DATA[:8] + struct.pack("<I", 255) + DATA[12:]),
        ValueError,
        "newer.*\n  format: 255",
    ),
    "too old": (lambda: export.deserialize(b"DIDAX-EXPORT" + DATA), ValueError, "older"),
    "older header": (lambda: export.deserialize(DATA[:8] + bytes(4) + DATA[12:]), ValueError, "older"),
    "new table": (lambda: export.deserialize(changed(version=99)), ValueError, "newer.*\n  version: 99"),
    "new convention": (
        lambda: export.deserialize(changed(convention=11)),
        ValueError,
        "newer.*\n  convention: 11, read: 9 to 10",
    ),
    "old convention": (lambda: export.deserialize(changed(convention=6)), ValueError, "older"),
    "cut": (lambda: export.deserialize(DATA[:-5]), ValueError, "is damaged"),
    "another table": (
        lambda: export.deserialize(struct.pack("<I", 4) + DATA[4:]),
        ValueError,
        "is damaged",
    ),
    "changed": (lambda: export.deserialize(DATA[:-5] + b"xxxxx"), ValueError, "is damaged"),
    "empty": (lambda: export.deserialize(b""), ValueError, "are no exported program"),
    "platform": (
        call(platforms=["tpu"]),
        ValueError,
        f"exported for: tpu, this process: {dx.default_backend()}",
    ),
    "devices": (call(devices=999), ValueError, "more than this process has.\n  exported for: 999 devices"),
    "module": (call(module=b"MLIR"), ValueError, "StableHLO module.*cannot be read.*\n  bytes: 4"),
    "effects": (call(unordered_effects=[{"name": "IO"}]), ValueError, "has effects.*\n  effects: IO"),
    "kept": (lambda: export.deserialize(changed(kept=[3])), ValueError, "damaged.\n  argument 3 of 1"),
    "tree": (lambda: export.deserialize(changed(out_tree={"kind": 9})), ValueError, "container of kind 9"),
    "unknown dtype": (
        lambda: export.deserialize(changed(types=[{"kind": 0, "dtype": 99}] * 2)),
        ValueError,
        "does not take.*\n.*dtype: number 99",
    ),
    "unknown class": (
        lambda: export.deserialize(changed(out_tree={"kind": 5, "custom": "Its"})),
        ValueError,
        "not registered for reading.*\n  serialized_name: 'Its'",
    ),
    "int keys": (
        lambda: export.export(dx.jit(lambda x: {1: x}))(W).serialize(),
        ValueError,
        "strings as keys.\n  key: 1 of type int",
    ),
    "other platform": (
        lambda: export.export(dx.jit(f), platforms=["vax"])(P, 3),
        ValueError,
        "platforms: vax",
    ),
    "own function": (
        lambda: export.export(dx.jit(dx.ffi.ffi_call("mine", dx.ShapeDtypeStruct((3,), "float32"))))(W[0]),
        ValueError,
        r"DisabledSafetyCheck.custom_call\('mine'\)",
    ),
    "registered twice": (
        lambda: export.register_namedtuple_serialization(Pair, serialized_name="tests.Other"),
        ValueError,
        "registered for exported programs once",
    ),
    "no namedtuple": (
        lambda: export.register_namedtuple_serialization(dict, serialized_name="tests.Other"),
        ValueError,
        "takes a class of namedtuples",
    ),
    "not jitted": (lambda: export.export(f), TypeError, r"export\(jit\(f\)\)"),
    "callback": (
        lambda: export.export(dx.jit(lambda x: dx.pure_callback(np.sin, x, x)))(W),
        ValueError,
        "calls Python",
    ),
    "colours": (
        lambda: export.export(dx.jit(lambda x: x[::-1]))(dx.ShapeDtypeStruct((4,), RGB)),
        ValueError,
        r"numbers and random keys.\n  array: rgb_of_exports\[4\]",
    ),
    "types": (
        lambda: export.deserialize(DATA).call(P, 3.5, scale=2.0),
        TypeError,
        r"exported for: float32\[3\], int32",
    ),
    "no vjp": (lambda: export.deserialize(DATA).vjp(), ValueError, "larger vjp_order"),
    "no second vjp": (
        lambda: export.deserialize(saved(1)).vjp().vjp(),
        ValueError,
        "without its vjp.\n  program: f_vjp",
    ),
    "forward mode": (
        lambda: dx.jvp(lambda p: export.deserialize(saved(1)).call(p, 3, scale=2.0)["y"], (P,), (P,)),
        TypeError,
        "what stopped it: .*\n  reason: an exported program has no Python",
    ),
    "batch": (
        lambda: dx.vmap(lambda n: export.deserialize(DATA).call(P, n, scale=2.0))(np.arange(2)),
        Exception,
        "no Python",
    ),
}


def draws(key: Any, x: Any) -> Any:
    first, second = dx.random.split(key)
    return dx.random.split(second), dx.random.normal(first, x.shape) * dnp.sin(x)


def same_draws(loaded: export.Exported, key: Any) -> None:
    """Keys, numbers and slopes equal those of the function; a key that is given is used."""
    x = np.arange(3, dtype="float32")
    run, clone = dx.jit(loaded.call), dx.random.clone
    found, wanted = run(clone(key), x), draws(clone(key), x)
    np.testing.assert_array_equal(dx.random.key_data(found[0]), dx.random.key_data(wanted[0]))
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-6)
    assert found[0].dtype == key.dtype and loaded.in_avals[0].dtype == key.dtype
    with dx.debug_key_reuse("error"):
        slope = lambda f: dx.grad(lambda x: f(clone(key), x)[1].sum())(x)
        np.testing.assert_allclose(slope(loaded.call), slope(lambda *xs: draws(xs[0], xs[1])), rtol=1e-6)
        fresh = clone(key)
        loaded.call(fresh, x)
        with pytest.raises(dx.errors.KeyReuseError):
            dx.random.normal(fresh)


@pytest.mark.parametrize(
    "impl", ["threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32"]
)
def test_keys_are_arguments_and_results(impl: str) -> None:
    key, x = dx.random.key(3, impl=impl), dx.ShapeDtypeStruct((3,), "float32")
    same_draws(export.deserialize(export.export(dx.jit(draws))(key, x).serialize(vjp_order=1)), key)


@pytest.mark.cpu
def test_keys_of_jaxs_programs() -> None:
    same_draws(export.deserialize((HERE / "jax_keys.bin").read_bytes()), dx.random.key(3))


def test_keys_of_programs_for_any_size() -> None:
    x = dx.ShapeDtypeStruct(export.symbolic_shape("b"), "float32")
    drop = lambda key, x: dnp.where(dx.random.bernoulli(key, 0.5, x.shape), x, 0)
    loaded = export.deserialize(export.export(dx.jit(drop))(dx.random.key(0), x).serialize(vjp_order=1))
    for count in (1, 5):
        x, key = np.arange(1.0, count + 1, dtype="float32"), dx.random.key(count)
        np.testing.assert_array_equal(loaded.call(key, x), drop(dx.random.clone(key), x))
        slope = dx.grad(lambda x, key=key: loaded.call(dx.random.clone(key), x).sum())(x)
        np.testing.assert_array_equal(slope, drop(dx.random.clone(key), np.ones_like(x)))
        forward = dx.jvp(lambda x, key=key: loaded.call(dx.random.clone(key), x), (x,), (x,))[1]
        np.testing.assert_array_equal(forward, drop(dx.random.clone(key), x))


def test_derivatives_of_programs_for_any_size_that_return_whole_numbers() -> None:
    of = lambda x: (x**3, 3, np.arange(3))
    x = dx.ShapeDtypeStruct(export.symbolic_shape("b"), "float32")
    loaded = export.deserialize(export.export(dx.jit(of))(x).serialize(vjp_order=2))
    slope = lambda x: dx.grad(lambda x: loaded.call(x)[0].sum())(x)
    np.testing.assert_allclose(slope(W[0]), 3 * W[0] ** 2, rtol=1e-6)
    np.testing.assert_allclose(dx.grad(lambda x: slope(x).sum())(W[0]), 6 * W[0], rtol=1e-6)


def test_what_programs_for_any_size_hold_within_loops_and_calls() -> None:
    """Captured keys, arrays that a rule captured, and programs that are called, also where they are in a loop."""
    key, w = dx.random.key(1), dnp.arange(3.0)
    twice = export.deserialize(export.export(dx.jit(lambda x: x * x.sum()))(W[0]).serialize(vjp_order=1))

    @dx.custom_vjp
    def scaled(x: Any) -> Any:
        return x * 2

    def back(_: Any, ct: Any) -> Any:
        return (ct * w.sum() * dx.random.normal(key),)

    scaled.defvjp(lambda x: (scaled(x), None), back)

    def of(x: Any) -> Any:
        body = lambda c, y: (twice.call(c) * y, scaled(y))
        return dx.lax.scan(body, twice.call(w), x)[1] * dx.random.normal(key, x.shape) + twice.call(w).sum()

    x = dx.ShapeDtypeStruct(export.symbolic_shape("b"), "float32")
    exported = export.export(dx.jit(of))(x)
    assert exported.mlir_module().startswith("module")  # for jax, too
    loaded = export.deserialize(exported.serialize(vjp_order=1))
    slope = lambda f: dx.grad(lambda x: f(x).sum())(W[1])
    with dx.debug_key_reuse("off"):
        np.testing.assert_allclose(loaded.call(W[1]), of(W[1]), rtol=1e-6)
        np.testing.assert_allclose(slope(loaded.call), slope(of), rtol=1e-6)


def test_programs_for_any_size_differ_from_platform_to_platform() -> None:
    chosen = dx.jit(lambda x: dx.lax.platform_dependent(x, cpu=dnp.cos, default=dnp.sin))
    x = dx.ShapeDtypeStruct(export.symbolic_shape("b"), "float32")
    two = export.export(chosen, platforms=["tpu", "cpu", "cuda"])(x)
    two = export.deserialize(two.serialize(vjp_order=1))
    np.testing.assert_allclose(two.call(W[0]), chosen(W[0]), rtol=1e-6)
    slope = lambda f: dx.grad(lambda x: f(x).sum())(W[0])
    np.testing.assert_allclose(slope(two.call), slope(chosen), rtol=1e-6)
    assert two.mlir_module().startswith("# it computes differently from platform to platform")
    assert "sine" in export.export(chosen, platforms=["tpu"])(x).mlir_module()
    assert export.export(chosen, platforms=())(x).platforms == (dx.default_backend(),)


@pytest.mark.cpu
def test_a_program_for_other_platforms_runs_where_that_is_allowed() -> None:
    allowed = changed(platforms=["tpu"], checks=[{"kind": 0}])
    assert float(export.deserialize(allowed).call(np.float32(1))) == 2
    chosen = dx.jit(lambda x: dx.lax.platform_dependent(dnp.linalg.inv(x), cpu=dnp.cos, cuda=dnp.sin))
    two = export.export(chosen, platforms=["cuda", "cpu"])(W[:3, :3])
    two = export.deserialize(two.serialize(vjp_order=1))
    x = np.eye(3, dtype="float32") + W[:3, :3]
    np.testing.assert_allclose(two.call(x), chosen(x), rtol=1e-6)
    slope = lambda f: dx.grad(lambda x: f(x).sum())(x)
    np.testing.assert_allclose(slope(two.call), slope(chosen), rtol=1e-4)
    with pytest.raises(ValueError, match="exported for: cuda, this process: cpu"):
        export.export(chosen, platforms=["cuda"])(x).call(x)
    check = export.DisabledSafetyCheck.custom_call("mine")
    call = dx.ffi.ffi_call("mine", dx.ShapeDtypeStruct((3,), "float32"))
    found = export.export(dx.jit(call), disabled_checks=[check])(W[0])
    assert export.deserialize(found.serialize()).disabled_safety_checks == (check,)


@pytest.mark.parametrize(
    ("constraints", "fits"),
    [
        (["mod(n, 2) == 0"], [(3, 6), (2, 4), (2, 6)]),
        (["floordiv(n, 2) == b"], [(3, 6), (2, 4), (2, 5)]),
        (["n*b == 18"], [(3, 6)]),
        (["mod(n, 3) == 0", "n == 3*b"], [(2, 6)]),
    ],
)
def test_equal_sizes_that_are_no_names_are_checked_in_each_call(constraints: Any, fits: Any) -> None:
    shape = export.symbolic_shape("b, n", constraints=constraints)
    exported = export.export(dx.jit(lambda x: x.reshape(-1) * 2))(dx.ShapeDtypeStruct(shape, "float32"))
    assert f"break the constraint {constraints[0]}" in exported.mlir_module()  # what jax calls
    for call in (exported.call, export.deserialize(exported.serialize()).call):
        for other in [(3, 6), (2, 4), (2, 5), (2, 6), (1, 1)]:
            x = np.ones(other, np.float32)
            if other in fits:
                assert call(x).shape == (x.size,)
            else:
                with pytest.raises(ValueError):
                    call(x)


def test_damage_anywhere_is_an_error() -> None:
    """Files of jax have no checksum: their offsets are checked while they are read."""
    data = (HERE / "jax.bin").read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(data), 60):
        other = bytearray(data)
        other[position] ^= 1 << rng.integers(8)
        try:
            export.deserialize(other)
        except ValueError as error:
            assert "damaged" in str(error) or "exported program" in str(error).split("\n")[0]
    for length in (3, 40, len(data) // 2):
        with pytest.raises(ValueError, match="exported program"):
            export.deserialize(data[:length])


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, part = ERRORS[name]
    with pytest.raises(error, match=part):
        call()
