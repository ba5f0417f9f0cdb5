"""Compiled programs of several devices as bytes: they are loaded for the same devices, or for as many others."""

from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import NamedSharding, P, lax
from didax.experimental.serialize_executable import deserialize_and_load, serialize
from didax.sharding import AxisType, Mesh, SingleDeviceSharding

X, W = np.arange(128, dtype="float32").reshape(8, 16) / 100, np.ones((16, 4), "float32")


def meshes() -> tuple[Mesh, Mesh, Mesh]:
    explicit = dx.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
    half = Mesh(np.array(dx.devices()[4:][::-1]).reshape(2, 2), ("a", "b"))
    return dx.make_mesh((2, 4), ("a", "b")), explicit, half


def cases() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    mesh, explicit, half = meshes()
    put = lambda x, mesh, *spec: dx.device_put(x, NamedSharding(mesh, P(*spec)))
    w, summed = put(W, mesh, "b"), lambda x: lax.psum(x, "a")
    manual = dx.shard_map(summed, mesh=mesh, in_specs=P("a", "b"), out_specs=P(None, "b"))
    laid = {"in_shardings": NamedSharding(mesh, P("a")), "out_shardings": NamedSharding(mesh, P(None, "b"))}
    pinned = SingleDeviceSharding(dx.devices()[0], memory_kind="pinned_host")
    return {
        "captured arrays": (dx.jit(lambda x: (x @ w, x @ W)), (put(X, mesh, "a", "b"),)),
        "explicit axes": (dx.jit(lambda x: (dnp.tanh(x), x.sum(1))), (put(X, explicit, "a", "b"),)),
        "shard_map": (dx.jit(manual), (put(X, mesh, "a", "b"),)),
        "donated": (dx.jit(lambda x: x + x.sum(), donate_argnums=0), (put(X, mesh, "a"),)),
        "stated layouts": (dx.jit(lambda x: x * 2, **laid), (X,)),
        "four devices": (dx.jit(lambda x: x @ W), (put(X, half, "a", "b"),)),
        "memory of the host": (dx.jit(lambda x: x + 1), (dx.device_put(X, pinned),)),
    }


@pytest.mark.parametrize("case", cases())
def test_a_loaded_program_is_the_one_that_was_saved(case: str) -> None:
    f, args = cases()[case]
    compiled = f.lower(*args).compile()
    data, exchanges = serialize(compiled), len(compiled.collectives())
    want = dx.tree.leaves(compiled(*args))
    args = cases()[case][1]
    dx.clear_caches()
    again = deserialize_and_load(*data)
    got = dx.tree.leaves(again(*args))
    assert again.input_shardings == compiled.input_shardings
    assert again.output_shardings == compiled.output_shardings
    assert len(again.collectives()) == exchanges
    for x, y in zip(want, got, strict=True):
        assert (dx.typeof(x), x.sharding, x.committed) == (dx.typeof(y), y.sharding, y.committed)
        np.testing.assert_array_equal(x, y)
    assert args[0].is_deleted() == (case == "donated") if isinstance(args[0], dx.Array) else True


def test_it_runs_on_other_devices_that_are_asked_for() -> None:
    f, args = cases()["four devices"]
    data = serialize(f.lower(*args).compile())
    there = dx.devices()[:4]
    y = deserialize_and_load(*data, execution_devices=there)(X)
    assert y.devices() == set(there)
    np.testing.assert_array_equal(y, f(*args))
    for wrong in (there[:2], dx.devices()):
        with pytest.raises(ValueError, match=f"of 4; execution_devices: {len(wrong)}"):
            deserialize_and_load(*data, execution_devices=wrong)


def test_a_program_of_one_device_runs_where_its_arguments_are_or_where_it_was_loaded_for() -> None:
    data = serialize(dx.jit(lambda x: x + 1).lower(X).compile())
    first, *_, other, last = dx.devices()
    anywhere, there = deserialize_and_load(*data), deserialize_and_load(*data, execution_devices=[last])
    assert anywhere(X).devices() == {first} and anywhere(dx.device_put(X, other)).devices() == {other}
    with dx.default_device(other):
        assert anywhere(X).devices() == {other} and there(X).devices() == {last}
    assert there.output_shardings.device_set == {last}
    with pytest.raises(ValueError, match="takes arguments that lie there, or nowhere in particular"):
        there(dx.device_put(X, other))


def test_missing_devices_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    f, args = cases()["four devices"]
    data = serialize(f.lower(*args).compile())
    from didax.xla.client import backend

    monkeypatch.setattr(backend(), "devices", dx.devices()[:5])
    with pytest.raises(
        ValueError, match=r"of devices \[7, 6, 5, 4\]\n  there is none of number 7, but 5 in all"
    ):
        deserialize_and_load(*data)
