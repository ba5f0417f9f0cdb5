"""Programs that XLA partitions: equal to those on one device, and no more communication than jax's."""

import functools
import re
import sys
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import NamedSharding, P, lax
from didax.sharding import IndivisibleError, Mesh

MESHES = {
    "1x8": ((1, 8), ("a", "b")),
    "2x4": ((2, 4), ("a", "b")),
    "8x1": ((8, 1), ("a", "b")),
    "2x2x2": ((2, 2, 2), ("a", "b", "c")),
}

# name -> a function of two matrices (8, 8), and how they are laid out; `n` is numpy, didax's or jax's
TABLE = {
    "sum of sines": (lambda n, x, y: (n.sin(x) * y).sum(), P("a", "b"), P("a", "b")),
    "product": (lambda n, x, y: x @ y, P("a", "b"), P("b", "a")),
    "product of rows": (lambda n, x, y: x @ y, P(("a", "b")), P()),
    "tensor parallel": (lambda n, x, y: n.tanh(x @ y) @ y.T, P("a"), P(None, "b")),
    "layer of sequences": (lambda n, x, y: n.tanh(n.tanh(x.reshape(4, 2, 8) @ y) @ y), P("a"), P(None, "b")),
    "softmax": (lambda n, x, y: n.exp(x) / n.exp(x).sum(1, keepdims=True) + y, P("a", "b"), P("a")),
    "mean and variance": (lambda n, x, y: (x - x.mean(0)) / n.sqrt(x.var(0) + 1) + y, P("b", "a"), P()),
    "transpose": (lambda n, x, y: x.T + y, P("a", "b"), P("b", "a")),
    "reshape": (lambda n, x, y: (x.reshape(64) * y.reshape(64)).reshape(4, 16), P("a"), P("b")),
    "concatenate": (lambda n, x, y: n.concatenate([x, y], 1), P("a"), P("a")),
    "slices": (lambda n, x, y: x[2:6, ::2] * y[1, 3], P("a", "b"), P("b")),
    "update": (lambda n, x, y: x.at[2:4].set(y[:2] ** 2), P("a", "b"), P("b")),
    "uneven update": (lambda n, x, y: x.at[:, 1:7].set(y[:, :6] * 2), P("a"), P(None, "b")),
    "sums of rows": (lambda n, x, y: x.at[n.array([3, 1])].add(y[:2] ** 2), P(("a", "b")), P(("a", "b"))),
    "gather": (lambda n, x, y: x[n.array([3, 1, 1])] + y[n.array([0, 2, 5])], P("b"), P(None, "a")),
    "sum in a window": (lambda n, x, y: x.at[2:5].add(2.0) * y, P("a"), P("a", "b")),
    "product in a window": (lambda n, x, y: x.at[4:].multiply(y[4:]), P(("a", "b")), P("a", "b")),
    "extremum in a window": (lambda n, x, y: x.at[2:6].min(y[2:6]), P("b", "a"), P(None, "a")),
    "constant in a window": (lambda n, x, y: x.at[2:5].set(0.0) * y, P("b"), P(None, "b")),
    "pad": (lambda n, x, y: n.pad(x, ((1, 1), (0, 0)))[:8] * y, P("b", "a"), P(None, "a")),
    "one-hot": (lambda n, x, y: ((n.arange(8) % 4)[:, None] == n.arange(8)) @ x + y, P(("a", "b")), P("a")),
    "sort": (lambda n, x, y: n.sort(x * y, 1), P("a"), P("a")),
    "sort of columns": (lambda n, x, y: n.sort(x, 0) + y, P("b"), P(None, ("a", "b"))),
    "cumulative product": (lambda n, x, y: n.cumprod(x * 0.5, 0) + y, P(("a", "b")), P(None, ("a", "b"))),
    "cumulative sum": (lambda n, x, y: n.cumsum(x, 0) + y, P("a"), P("b")),
    "extrema": (lambda n, x, y: n.maximum(x, y).max(0), P("a", "b"), P("b", "a")),
    "outer": (lambda n, x, y: n.einsum("ij,kj->ik", x, y), P("a"), P("b")),
}  # fmt: skip


def operands() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(size=(8, 8)).astype("float32"), random.normal(size=(8, 8)).astype("float32")


def quick_sample() -> list[Any]:
    """Every function with every mesh; all but one mesh of each function, in turns, are slow."""
    return [
        pytest.param(name, mesh, i % len(MESHES) != j, marks=[pytest.mark.slow] * (i % len(MESHES) != j))
        for i, name in enumerate(TABLE)
        for j, mesh in enumerate(MESHES)
    ]


@pytest.mark.parametrize("name, mesh, thorough", quick_sample())
def test_sharded_equals_unsharded(name: str, mesh: str, thorough: bool) -> None:
    f, spec_x, spec_y = TABLE[name]
    on = dx.make_mesh(*MESHES[mesh])
    x, y = map(dnp.asarray, operands())
    args = dx.device_put((x, y), (NamedSharding(on, spec_x), NamedSharding(on, spec_y)))

    def g(x, y):
        return f(dnp, x, y)

    each = (
        g,
        dx.grad(lambda x, y: (g(x, y) ** 2).sum(), argnums=(0, 1)),
        lambda x, y: dx.jvp(g, (x, y), (y, x))[1],
        lambda x, y: dx.vmap(lambda row: g(x + row, y))(y),
    )
    more = (
        dx.grad(lambda x, y: (dx.checkpoint(lambda x: g(dnp.sin(x), y))(x) ** 2).sum()),
        lambda x, y: lax.scan(lambda c, s: (c, g(c * s, y).sum()), x, dnp.arange(3.0))[1],
        lambda x, y: lax.cond(x.sum() > y.sum(), g, lambda x, y: g(y, x), x, y),
        lambda x, y: dx.jvp(dx.grad(lambda x: (g(x, y) ** 2).sum()), (x,), (y,))[1],
    )
    # XLA partitions four functions in one program sooner than in four
    for function in (*each, *more) if thorough else [lambda x, y: [h(x, y) for h in each]]:
        transformed = dx.jit(function)
        found, wanted = transformed(*args), transformed(x, y)
        for a, b in zip(dx.tree.leaves(found), dx.tree.leaves(wanted), strict=True):
            assert a.devices() == set(dx.devices())
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("mesh", ["1x8", "8x1"])
@pytest.mark.parametrize("name", ["product", "softmax", "update", "cumulative sum"])
def test_eager_operations_keep_to_the_devices(name: str, mesh: str) -> None:
    f, spec_x, spec_y = TABLE[name]
    on = dx.make_mesh(*MESHES[mesh])
    x, y = map(dnp.asarray, operands())
    found = f(dnp, dx.device_put(x, NamedSharding(on, spec_x)), dx.device_put(y, NamedSharding(on, spec_y)))
    assert found.devices() == set(dx.devices())
    np.testing.assert_allclose(np.asarray(found), np.asarray(f(dnp, x, y)), rtol=2e-5, atol=2e-5)


COLLECTIVES = re.compile(
    r"= (?:\([^)]*\)|\S+) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)


def collectives(text: str) -> Counter[str]:
    return Counter(COLLECTIVES.findall(text))


@pytest.mark.ci
@pytest.mark.parametrize("name", TABLE)
def test_no_more_collectives_than_jax(name: str) -> None:
    f, spec_x, spec_y = TABLE[name]
    mesh = dx.make_mesh(*MESHES["2x4"])
    auto = (jax.sharding.AxisType.Auto,) * 2
    theirs = jax.make_mesh(*MESHES["2x4"], auto)
    x, y = operands()
    laid = [dx.device_put(v, NamedSharding(mesh, s)) for v, s in ((x, spec_x), (y, spec_y))]
    given = [jax.device_put(v, jax.NamedSharding(theirs, jax.P(*s))) for v, s in ((x, spec_x), (y, spec_y))]
    for ours, wanted in (
        (lambda x, y: f(dnp, x, y), lambda x, y: f(jnp, x, y)),
        (
            dx.grad(lambda x, y: (f(dnp, x, y) ** 2).sum()),
            jax.grad(lambda x, y: (f(jnp, x, y) ** 2).sum()),
        ),
    ):
        found = collectives(dx.jit(ours).lower(*laid).compile().as_text())
        most = collectives(jax.jit(wanted).lower(*given).compile().as_text())
        assert found.total() <= most.total(), (found, most)


def test_windows_out_of_bounds_are_moved_inside() -> None:
    """A device that holds a part of an axis loses the window, or takes another one, where XLA has to move it."""
    x = dnp.asarray(operands()[0])
    laid = dx.device_put(x, NamedSharding(dx.make_mesh((2,), ("a",)), P(None, "a")))

    def read_and_written(x: Any, i: Any) -> Any:
        return lax.dynamic_update_slice(x, -lax.dynamic_slice(x, (i, i), (2, 1)), (i + 3, i))

    def f(x: Any, i: Any) -> Any:
        y, pull = dx.vjp(lambda x: read_and_written(x, i), x)
        return y, pull(y**2)

    g = dx.jit(f)
    for i in (np.int32(-5), np.int32(9)):
        for found, wanted in zip(g(laid, i), f(x, i), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_a_cumulative_sum_is_no_loop_of_exchanges() -> None:
    """In a loop devices would exchange each row; products and extrema of one array stay right beside its sums."""
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    x = (operands()[0] * 3).astype("int32")
    laid = dx.device_put(x, NamedSharding(mesh, P("a", "b")))
    f = dx.jit(lambda x: [lax.cumsum(x, 0), lax.cumsum(x, 1, reverse=True)])
    assert "while" not in f.lower(laid).compile().as_text()
    g = dx.jit(
        lambda x: [h(x, axis) for h in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin) for axis in (0, 1)]
    )
    for h in (f, g):
        for found, wanted in zip(h(laid), h(x), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_results_lie_as_in_jax() -> None:
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    theirs = jax.make_mesh((2, 4), ("a", "b"), (jax.sharding.AxisType.Auto,) * 2)
    x, _ = operands()
    for f in (
        lambda x: x + 1,
        lambda x: x.sum(0),
        lambda x: x @ x.T,
        lambda x: x.T,
        lambda x: x.reshape(64),
        lambda x: x[1],
    ):
        ours = dx.jit(f)(dx.device_put(x, NamedSharding(mesh, P("a", "b"))))
        wanted = jax.jit(f)(jax.device_put(x, jax.NamedSharding(theirs, jax.P("a", "b"))))
        assert list(ours.sharding.spec) == list(wanted.sharding.spec)


def test_results_lie_as_asked_where_meshes_of_several_shapes_meet() -> None:
    devices = np.array(dx.devices())
    by_rows, by_columns = (
        Mesh(devices.reshape(2, 4), ("a", "b")),
        Mesh(devices.reshape(4, 2), ("b", "a")),
    )
    x = dx.device_put(operands()[0], NamedSharding(by_rows, P("a")))
    wanted = NamedSharding(by_columns, P("b"))
    for f in (
        dx.jit(lambda x: x * 2, out_shardings=wanted),
        dx.jit(lambda x: (x.T, lax.with_sharding_constraint(x * 2, wanted))[1]),
        dx.shard_map(lambda x: x * 2, mesh=by_columns, in_specs=P("b"), out_specs=P("b")),
    ):
        found = f(x)
        assert found.sharding.is_equivalent_to(wanted, 2)
        assert [s.data.shape for s in found.addressable_shards] == [(2, 8)] * 8
        np.testing.assert_array_equal(found, np.asarray(x) * 2)


def test_a_constraint_is_kept_by_every_transformation() -> None:
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    laid = NamedSharding(mesh, P(None, "b"))
    x, _ = operands()

    def f(x):
        return lax.with_sharding_constraint(dnp.sin(x), laid)

    assert dx.jit(f)(x).sharding is laid and f(x).sharding is laid
    assert dx.jit(dx.grad(lambda x: f(x).sum()))(x).sharding is laid
    mapped = dx.jit(dx.vmap(f))(np.stack([x, x]))
    assert mapped.sharding.spec[-1] == "b"
    text = dx.jit(f).lower(x).as_text()
    assert 'sdy.mesh @mesh = <["a"=2, "b"=4]>' in text and "sdy.sharding_constraint" in text
    with dx.set_mesh(mesh):
        assert dx.jit(lambda x: lax.with_sharding_constraint(x, P("b")))(x).sharding.spec == P("b")


def test_a_constraint_may_cut_a_value_into_uneven_parts_and_no_array_is() -> None:
    """As in JAX: XLA pads the parts within a program; arguments, results and arrays are cut evenly."""
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    x = operands()[0][:7, :5]

    def f(x, constrain=lambda x, *spec: lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))):
        y = constrain(dnp.sin(x), "b", "a")
        z = constrain(y @ y.T, ("a", "b"))
        return z.sum(0), y[::-1].max(0), dnp.sort(z, 0)[2], dnp.argmax(y, 0), z

    def all_of(f, x):
        return f(x), dx.grad(lambda x: f(x)[0].sum())(x), dx.vmap(f)(dnp.stack([x, 2 * x]))

    found = dx.jit(lambda x: all_of(f, x))(x)
    wanted = dx.jit(lambda x: all_of(functools.partial(f, constrain=lambda x, *spec: x), x))(x)
    assert found[0][-1].sharding.is_fully_replicated
    for a, b in zip(dx.tree.leaves(found), dx.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    with pytest.raises(IndivisibleError, match="7 % 4 = 3"):
        lax.with_sharding_constraint(x, NamedSharding(mesh, P("b")))


def test_loops_branches_checkpoints_and_rules_of_the_users() -> None:
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    x = dnp.asarray(operands()[0])
    laid = dx.device_put(x, NamedSharding(mesh, P("a", "b")))

    @dx.custom_vjp
    def clipped(x):
        return dnp.sin(x)

    clipped.defvjp(lambda x: (dnp.sin(x), x), lambda x, ct: (dnp.clip(ct * dnp.cos(x), -0.1, 0.1),))
    for f in (
        lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), dnp.zeros(8), x)[0],
        lambda x: lax.fori_loop(0, 3, lambda i, c: dnp.tanh(c @ x), x),
        lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, x),
        dx.checkpoint(lambda x: dnp.tanh(dnp.tanh(x) @ x)),
        clipped,
        lambda x: dnp.linalg.solve(x @ x.T + dnp.eye(8), x[0]),
    ):
        for g in (f, dx.grad(lambda x: (f(x) ** 2).sum())):
            np.testing.assert_allclose(np.asarray(dx.jit(g)(laid)), np.asarray(g(x)), rtol=2e-3, atol=2e-3)


def test_arrays_without_a_place_go_where_the_others_are() -> None:
    mesh = dx.make_mesh((8,), ("a",))
    x = dx.device_put(np.ones((8, 2), "float32"), NamedSharding(mesh, P("a")))
    f = dx.jit(lambda x, y, z: x * y + z)
    y = f(x, np.arange(2, dtype="float32"), 3.0)
    assert y.sharding.spec == P("a")
    np.testing.assert_array_equal(np.asarray(y), np.ones((8, 2)) * [0, 1] + 3)
    assert f(np.ones((8, 2), "float32"), np.arange(2, dtype="float32"), 3.0).devices() == {dx.devices()[0]}


def test_captured_arrays_follow_arguments_that_were_placed() -> None:
    mesh, half = dx.make_mesh((8,), ("a",)), Mesh(np.array(dx.devices()[:4]), ("a",))
    x = dnp.arange(16.0).reshape(8, 2)
    places = [dx.devices()[2], NamedSharding(mesh, P("a")), NamedSharding(half, P("a")), dx.devices()[3]]
    for captured in places:
        w = dx.device_put(x + 1, captured)
        f = dx.jit(lambda x, w=w: x * w)
        g = dx.jit(lambda x, w=w: x - w, donate_argnums=0)
        for _ in range(3):
            for place in [*places, None]:
                placed = x if place is None else dx.device_put(x, place)
                devices = w.devices() if place is None else placed.devices()
                given = dx.device_put(placed + 0, place)
                for found, wanted in ((f(placed), x * (x + 1)), (g(given), -dnp.ones((8, 2)))):
                    assert found.devices() == devices
                    np.testing.assert_array_equal(found, wanted)


def test_operations_stay_on_the_device_of_their_operand() -> None:
    x = dx.device_put(np.arange(4.0, dtype="float32"), dx.devices()[5])
    for y in (
        x + 1,
        dnp.sin(x)[1:],
        dx.jit(lambda x: x * 2)(x),
        dx.grad(lambda x: (x**2).sum())(x),
        x.at[0].set(3),
    ):
        assert y.devices() == {dx.devices()[5]}
    with pytest.raises(ValueError, match="same devices"):
        x + dx.device_put(np.ones(4), dx.devices()[2])


def test_extrema_keep_nan() -> None:
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    x = np.random.default_rng(2).normal(size=(64, 256)).astype("float32")
    x[3, 5] = x[40, 0] = x[9, 255] = np.nan
    laid = dx.device_put(x, NamedSharding(mesh, P("a", "b")))
    for axis in (0, 1, None):
        found = dx.jit(lambda x: dnp.max(dnp.exp(x), axis))(laid)
        np.testing.assert_allclose(np.asarray(found), np.exp(x).max(axis), rtol=1e-6)


def test_repeated_calls_take_the_hot_path() -> None:
    """A sharded call is one Python call for each kind that is tried; other layouts are another program."""
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    rows, columns = (dx.device_put(np.ones((8, 8), "float32"), NamedSharding(mesh, P(s))) for s in ("a", "b"))
    shift = dx.device_put(np.arange(8.0, dtype="float32"), NamedSharding(mesh, P("b")))
    f = dx.jit(lambda x: x * 2)
    g = dx.jit(lambda x, y, k=1.0: {"y": x * y + shift, "k": k * 2})
    called: list[str] = []

    def count(frame, event, _):
        if event == "call" and "didax" in frame.f_code.co_filename:
            called.append(frame.f_code.co_name)

    for _ in range(2):
        assert f(rows).sharding is rows.sharding and f(columns).sharding is columns.sharding
        assert f(dnp.ones((8, 8))).devices() == {dx.devices()[0]}
        assert f(dx.device_put(dnp.ones((8, 8)), dx.devices()[3])).devices() == {dx.devices()[3]}
        for args, k in (
            ((rows, columns), 2.0),
            ((rows, np.ones(8, "float32")), dnp.arange(2.0)),
            ((1.0, rows), 3),
        ):
            found = g(*args, k=k)
            np.testing.assert_array_equal(np.asarray(found["y"]), np.ones((8, 8)) + np.arange(8))
            np.testing.assert_array_equal(np.asarray(found["k"]), np.asarray(k) * 2)
    sys.setprofile(count)
    try:
        f(rows)
    finally:
        sys.setprofile(None)
    assert called == ["__call__", "call", "call"]  # `columns` are tried first
    with pytest.raises(ValueError, match="same devices"):
        g(rows, dx.device_put(dnp.ones(8), dx.devices()[3]))
    rows.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(rows)


def test_jit_lays_out_arguments_and_results() -> None:
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    rows, columns = NamedSharding(mesh, P("a")), NamedSharding(mesh, P("b"))
    x = operands()[0]
    f = dx.jit(lambda x, y: (x + 1, {"y": y}), in_shardings=(rows, None), out_shardings=(None, columns))
    for args in ((x, x), (dx.device_put(x, rows), dx.device_put(x, columns)), (x, dx.device_put(x, rows))):
        for _ in range(2):
            out = f(*args)
            assert (out[0].sharding, out[1]["y"].sharding) == (rows, columns)
            np.testing.assert_array_equal(np.asarray(out[0]), x + 1)
    lowered = f.lower(x, x)
    compiled = lowered.compile()
    assert compiled.input_shardings == ((rows, columns), {}) and compiled.output_shardings == (
        rows,
        {"y": columns},
    )
    for info, first in (f.eval_shape(x, x), None), (lowered.out_info, None), (compiled.out_info, rows):
        assert (info[0].sharding, info[1]["y"].sharding) == (first, columns)
    state = dx.new_ref(dx.device_put(x, rows))
    add = lambda unused, x: dx.ref.addupdate(state, ..., x) or x * 2
    compiled = dx.jit(add).lower(x, x).compile()
    assert compiled.input_shardings[0][0] is None
    np.testing.assert_array_equal(compiled(x, x), x * 2)
    np.testing.assert_array_equal(state[...], x * 2)
    assert dx.grad(lambda x: f(x, x)[0].sum())(x).sharding is rows
    assert dx.vmap(f)(x[None], x[None])[1]["y"].sharding.spec == P(None, "b")
    assert dx.jit(lambda n, x: x * n, static_argnums=0, in_shardings=(rows,))(3, x).sharding is rows
    one = dx.jit(lambda x: x, in_shardings=dx.device_put(x, dx.devices()[3]).sharding)(x)
    assert one.devices() == {dx.devices()[3]}
    with dx.set_mesh(mesh):
        assert dx.jit(lambda x: x, in_shardings=P("b"), out_shardings=[P("a")][0])(x).sharding is rows
        assert dx.jit(lambda x: [x], in_shardings=[P("b")], out_shardings=[P("a")])(x)[0].sharding is rows
    ref = dx.new_ref(dnp.zeros((8, 8)))

    @functools.partial(dx.jit, in_shardings=(None, rows), out_shardings=columns)
    def accumulate(ref, x):
        ref[...] += x
        return x

    assert accumulate(ref, x).sharding is columns
    np.testing.assert_array_equal(np.asarray(ref[...]), x)


def test_jit_refuses_what_does_not_fit_its_shardings() -> None:
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    rows, columns = NamedSharding(mesh, P("a")), NamedSharding(mesh, P("b"))
    small = dx.make_mesh((2,), ("a",), devices=dx.devices()[:2])
    x = operands()[0]
    elsewhere = dx.device_put(x, dx.devices()[1])
    f = dx.jit(lambda x, y: x + y, in_shardings=(rows, None))
    for bad, error, says in (
        (lambda: f(dx.device_put(x, columns), x), ValueError, "argument x\n  in_shardings: NamedSharding"),
        (lambda: f(dx.device_put(x, dx.devices()[0]), x), ValueError, "placed by:    SingleDeviceSharding(device="),
        (lambda: f(x, y=x), ValueError, "keywords: y"),
        (lambda: f(x[:3], x), IndivisibleError, "argument x\n  shape: (3, 8), axis 0 has length 3"),
        (lambda: dx.jit(lambda x: x[:3], out_shardings=rows)(x), IndivisibleError, "result\n  shape: (3, 8)"),
        (lambda: dx.jit(lambda x: x[0, 0], out_shardings=rows)(x), ValueError, "with 1 entries; the array has 0 axes"),
        (lambda: dx.jit(lambda x, y: x, in_shardings=(rows,))(x, x), ValueError, "in_shardings is a tuple of 1"),
        (lambda: dx.jit(lambda x: x, out_shardings=(rows, rows))(x), ValueError, "out_shardings is a tuple of 2"),
        (lambda: dx.jit(lambda x: x, in_shardings="a")(x), TypeError, "takes a NamedSharding"),
        (lambda: dx.jit(lambda x: x, in_shardings=P("a"))(x), ValueError, "needs a mesh"),
        (lambda: dx.jit(lambda r: r[...], in_shardings=rows)(dx.new_ref(x)), ValueError, "A Ref lies where the array"),
        (lambda: f(x, dx.device_put(x, NamedSharding(small, P("a")))), ValueError, "same devices"),
        (lambda: dx.jit(lambda x: lax.with_sharding_constraint(x, rows))(elsewhere), ValueError, "same devices"),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            bad()
        assert says in str(caught.value), caught.value


def test_a_sharding_without_devices_means_the_mesh_in_force():
    mesh = dx.make_mesh((2, 4), ("a", "b"))
    abstract, x = NamedSharding(mesh.abstract_mesh, P("a")), dnp.ones((4, 2))
    with dx.set_mesh(mesh):
        f = lambda x: dx.lax.with_sharding_constraint(x, abstract)
        for out in (f(x), dx.jit(f)(x), dx.jit(lambda x: x, out_shardings=abstract)(x)):
            assert out.sharding == NamedSharding(mesh, P("a"))
