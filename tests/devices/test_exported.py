"""Exported programs of several devices, and those of one device in programs of several."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import NamedSharding, P, export

FILES = Path(__file__).parent.parent / "exported"  # see test_export.py
X = np.arange(8, dtype="float32").reshape(4, 2) / 9
W = np.arange(6, dtype="float32").reshape(2, 3) / 9


def read(name: str) -> export.Exported:
    return export.deserialize((FILES / name).read_bytes())


def of(x: Any, w: Any) -> Any:
    return dnp.tanh((x * x).sum() * x @ w)


def slopes(f: Any) -> Any:
    return dx.jit(dx.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1)))


def test_files_of_jax_for_several_devices() -> None:
    """Collectives and constraints run on the devices of the arguments, or else on the first ones."""
    loaded = read("jax_devices.bin")
    assert loaded.nr_devices == 4
    last = dx.sharding.Mesh(dx.devices()[4:], "rows")
    placed = dx.device_put(X, NamedSharding(last, P("rows")))
    again = export.deserialize(loaded.serialize(vjp_order=1))
    for program, x in ((loaded, X), (loaded, placed), (again, X)):
        y, twice = program.call(x, W)
        np.testing.assert_allclose(y, of(X, W), rtol=1e-5)
        np.testing.assert_allclose(twice, W * 2, rtol=1e-6)
        assert y.devices() == set(dx.devices()[4:] if x is placed else dx.devices()[:4])
        assert {part.data.shape for part in y.addressable_shards} == {(2, 3)}
    for found, wanted in zip(slopes(lambda *xs: again.call(*xs)[0])(X, W), slopes(of)(X, W), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    both = dx.jit(lambda x: (loaded.call(x, W)[0], loaded.call(x * 2, W)[0]))(X)  # one function, called twice
    np.testing.assert_allclose(both[1], of(X * 2, W), rtol=1e-5)
    elsewhere = dx.device_put(X, NamedSharding(dx.sharding.Mesh(dx.devices()[:2], "rows"), P("rows")))
    with pytest.raises(ValueError, match="same devices"):
        loaded.call(elsewhere, W)


def test_programs_for_several_devices_are_saved() -> None:
    mesh = dx.make_mesh(
        (2, 2), ("x", "y"), devices=dx.devices()[:4], axis_types=(dx.sharding.AxisType.Auto,) * 2
    )
    rows, blocks = NamedSharding(mesh, P("x")), P("x", "y")
    scaled = dx.shard_map(
        lambda x: dx.lax.psum((x * x).sum(), ("x", "y")) * x, mesh=mesh, in_specs=blocks, out_specs=blocks
    )
    split = dx.jit(lambda x, w: dnp.tanh(scaled(x) @ w), in_shardings=(rows, None), out_shardings=rows)
    exported = export.export(split)(X, W)
    assert (exported.nr_devices, exported.vjp().nr_devices) == (4, 4)
    loaded = export.deserialize(exported.serialize(vjp_order=1))
    for program in (exported, loaded):
        assert program.in_shardings_jax(mesh) == (rows, None)
        assert program.out_shardings_jax(mesh) == (rows,)
        y = program.call(X, W)
        np.testing.assert_allclose(y, of(X, W), rtol=1e-5)
        assert y.sharding.spec == P("x")
    with pytest.raises(ValueError, match=r"exported with: {'x': 2, 'y': 2}, mesh: Mesh\('y': 4"):
        loaded.in_shardings_jax(dx.make_mesh((4,), ("y",), devices=dx.devices()[:4]))
    for found, wanted in zip(slopes(loaded.call)(X, W), slopes(of)(X, W), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_keys_and_integers_are_arguments_of_programs_for_several_devices() -> None:
    mesh = dx.make_mesh((4,), ("x",), devices=dx.devices()[:4], axis_types=(dx.sharding.AxisType.Auto,))
    rows = NamedSharding(mesh, P("x"))
    f = dx.jit(lambda key, n, x: (dx.random.normal(key, x.shape) * x * n, n), in_shardings=(None, None, rows))
    loaded = export.deserialize(export.export(f)(dx.random.key(0), 3, X).serialize(vjp_order=1))
    slope = lambda f: dx.grad(lambda x: f(dx.random.key(0), 3, x)[0].sum())(X)
    np.testing.assert_allclose(slope(loaded.call), slope(f), rtol=1e-5)


def test_explicit_axes_in_force_are_no_part_of_a_program() -> None:
    mesh = dx.make_mesh((4,), ("x",), axis_types=(dx.sharding.AxisType.Explicit,))
    with dx.set_mesh(mesh):
        for shape in ((4, 2), export.symbolic_shape("b, 2")):
            exported = export.export(dx.jit(lambda x: dnp.sin(x) * 2))(dx.ShapeDtypeStruct(shape, "float32"))
            loaded = export.deserialize(exported.serialize(vjp_order=1))
            assert (loaded.nr_devices, loaded.vjp().nr_devices) == (1, 1)
        split = dx.device_put(X, NamedSharding(mesh, P("x")))
        np.testing.assert_allclose(loaded.call(split), np.sin(X) * 2, rtol=1e-6)


def test_programs_of_one_device_in_programs_of_several() -> None:
    loaded = read("jax_one_device.bin")
    mesh = dx.make_mesh((2,), ("rows",), axis_types=(dx.sharding.AxisType.Auto,))
    x = dx.device_put(X, NamedSharding(mesh, P("rows")))
    np.testing.assert_allclose(dx.jit(loaded.call)(x, W)[0], of(X, W), rtol=1e-5)
    each = dx.shard_map(
        lambda x: loaded.call(dnp.tile(x, (2, 1)), W)[0], mesh=mesh, in_specs=P("rows"), out_specs=P("rows")
    )
    wanted = np.concatenate([of(np.tile(part, (2, 1)), W) for part in (X[:2], X[2:])])
    np.testing.assert_allclose(dx.jit(each)(x), wanted, rtol=1e-5)


def test_meshes_of_devices_need_one_platform_and_known_lengths() -> None:
    rows = NamedSharding(dx.sharding.Mesh(dx.devices()[:2], "rows"), P("rows"))
    placed = dx.jit(lambda x: x, in_shardings=rows)
    rule = "no place for what.*\n  program: <lambda>, operation: sharding_constraint"
    with pytest.raises(NotImplementedError, match=rule):
        export.export(placed)(dx.ShapeDtypeStruct(export.symbolic_shape("2*b"), "float32"))
    with pytest.raises(NotImplementedError, match="for one platform"):
        export.export(placed, platforms=["cpu", "cuda"])(X)
