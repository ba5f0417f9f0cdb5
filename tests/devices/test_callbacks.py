"""Callbacks into Python from programs on several devices: once with whole values, or once on each device."""

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import NamedSharding, P, lax

MESH = dx.make_mesh((4, 2), ("x", "y"))
F32 = dx.ShapeDtypeStruct((), "float32")


def rows() -> dx.Array:
    return dx.device_put(dnp.arange(16.0).reshape(8, 2), NamedSharding(MESH, P("x")))


def test_a_partitioned_program_calls_once_with_the_whole_value(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[object] = []

    def doubled(a: np.ndarray) -> np.ndarray:
        calls.append(("pure", a.shape))
        return a * 2

    def counted(a: np.ndarray) -> np.ndarray:
        calls.append(("io", float(a)))
        return a + 1

    @dx.jit
    def f(x):
        y = dx.pure_callback(doubled, x, x) + x
        for i in range(3):
            dx.debug.callback(lambda a, i=i: calls.append((i, float(a))), x.sum() * i)
        dx.debug.print("sum {}", x.sum())
        steps = lax.scan(lambda c, _: (dx.io_callback(counted, F32, c, ordered=True), None), 0.0, None, 3)[0]
        first = lax.cond(steps > 2, lambda: dx.io_callback(counted, F32, 7.0, ordered=True), lambda: 0.0)
        return y + steps + first

    x = rows()
    found = f(x)
    np.testing.assert_allclose(found, np.asarray(x) * 3 + 11)
    dx.effects_barrier()
    assert capsys.readouterr().out == "sum 120.0\n"
    assert calls.count(("pure", (8, 2))) == 1
    assert [c for c in calls if c[0] == "io"] == [("io", 0.0), ("io", 1.0), ("io", 2.0), ("io", 7.0)]
    assert [c for c in calls if type(c[0]) is int] == [(0, 0.0), (1, 120.0), (2, 240.0)]


def test_each_device_calls_with_its_part() -> None:
    calls: list[tuple[int, list[float]]] = []

    @dx.jit
    @dx.shard_map(mesh=MESH, in_specs=P(("x", "y")), out_specs=P(("x", "y")))
    def f(a):
        for step in range(2):
            dx.debug.callback(
                lambda i, a: calls.append((int(i), a[0].tolist())), lax.axis_index(("x", "y")), a + step
            )
        return lax.psum(dx.pure_callback(lambda a: a + 1, a, a), "y")

    x = np.arange(16.0, dtype="float32").reshape(8, 2)
    expected = (x + 1).reshape(4, 2, 2).sum(1, keepdims=True) + np.zeros((4, 2, 2))
    np.testing.assert_allclose(f(rows()), expected.reshape(8, 2))
    for device in range(8):
        mine = [values for i, values in calls if i == device]
        assert mine == [x[device].tolist(), (x[device] + 1).tolist()], "once on each device, in order"


def test_what_a_callback_raises_is_raised() -> None:
    """Devices that wait for the one whose callback failed are not left waiting."""

    def fails(i: np.ndarray) -> np.ndarray:
        if i == 3:
            raise KeyError("three")
        return np.float32(i)

    @dx.jit
    @dx.shard_map(mesh=MESH, in_specs=P("x"), out_specs=P())
    def f(a):
        return lax.psum(dx.pure_callback(fails, F32, lax.axis_index("x")), "x")

    with pytest.raises(KeyError, match="three"):
        f(rows())
    with pytest.raises(KeyError, match="three"):
        dx.jit(lambda x: dx.pure_callback(lambda a: fails(3), F32, x) + x)(rows())


def test_a_shard_map_over_some_axes_calls_once_for_each_part() -> None:
    """Along the other axes the value is whole, however the partitioner cuts it."""
    calls: list[tuple[str, list[float]]] = []

    def doubled(a: np.ndarray) -> np.ndarray:
        calls.append(("pure", a.ravel().tolist()))
        return a * 2

    @dx.jit
    @dx.shard_map(mesh=MESH, in_specs=P("y"), out_specs=P("y"), axis_names={"y"})
    def f(a):
        steps = lax.select(lax.axis_index("y") == 0, 1, 2)  # of each part its own number
        a = lax.fori_loop(0, steps, lambda i, a: dx.pure_callback(doubled, a, a), a)
        for name in ("first", "second"):
            dx.debug.callback(lambda a, name=name: calls.append((name, [float(a)])), a.sum())
        inner = dx.shard_map(
            lambda b: dx.io_callback(doubled, b, b), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
        )
        return inner(a) + dx.io_callback(doubled, F32, lax.psum(a.sum(), "y"), ordered=True)

    x = np.arange(16.0, dtype="float32").reshape(8, 2)
    halves, later = [x[:4] * 2, x[4:] * 4], []
    np.testing.assert_allclose(f(rows()), np.concatenate(halves) * 2 + 2 * (56 + 368))
    for half in halves:
        sums = [call for call in calls if call[0] != "pure" and call[1] == [half.sum()]]
        assert sums == [("first", [half.sum()]), ("second", [half.sum()])]
        later += [*half.tolist(), [56 + 368]]
    first = [x[:4].ravel().tolist(), x[4:].ravel().tolist(), (x[4:] * 2).ravel().tolist()]
    assert sorted(values for kind, values in calls if kind == "pure") == sorted([*first, *later])


def test_what_fails_in_one_part_is_raised() -> None:
    def some(body):
        return dx.shard_map(
            body, mesh=MESH, in_specs=P("y"), out_specs=P(), axis_names={"y"}, check_vma=False
        )

    def fails(a: np.ndarray) -> np.ndarray:
        return np.float32({28.0: 0}[float(a)])

    def checked(a):
        dx.debug.check(a.sum() < 30, "{s} is too large", s=a.sum())
        return lax.psum(a.sum(), "y")

    def uneven(a):
        return lax.cond(a.sum() < 30, lambda s: lax.psum(s, "y"), lambda s: s, a.sum())

    with pytest.raises(KeyError, match="92"):
        some(lambda a: lax.psum(dx.pure_callback(fails, F32, a.sum()), "y"))(rows())
    with pytest.raises(dx.errors.CheckError, match=r"92.0 is too large"):
        dx.jit(some(checked))(rows())
    with pytest.raises(dx.errors.CheckError, match=r"along 'y' the condition, .* goes from 0 to 1"):
        some(uneven)(rows())


def test_callbacks_run_programs_on_the_same_devices() -> None:
    inner = dx.jit(lambda a: dnp.sin(a) @ a.T @ a)

    def nested(a: np.ndarray) -> np.ndarray:
        return np.asarray(inner(dx.device_put(a, NamedSharding(MESH, P("x")))))

    x = rows()
    found = dx.jit(lambda x: dx.pure_callback(nested, x, x))(x)
    np.testing.assert_allclose(found, inner(x), rtol=1e-5)
    backwards = NamedSharding(dx.make_mesh((4,), ("x",), devices=dx.devices()[6:2:-1]), P("x"))
    y = dx.device_put(dnp.arange(8.0), backwards)
    found = dx.jit(lambda y: dx.pure_callback(lambda a: a * 2, y, y) + y)(y)
    np.testing.assert_allclose(found, np.arange(8.0) * 3)
    assert found.sharding.device_set == set(dx.devices()[3:7])
