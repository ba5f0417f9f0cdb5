"""scan, fori_loop, while_loop, map and associative_scan under every transformation, compared with jax and Python."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.checks import assert_close, examples, first

F = Callable[..., Any]
XS = np.linspace(-0.6, 0.9, 6, dtype=np.float32).reshape(3, 2)


# --- Loops of many kinds --------------------------------------------------------------------------


def recurrence(m: ModuleType, x: Any) -> Any:
    """Constants, a carry, rows and outputs; nonlinear in all of them."""
    last, ys = m.lax.scan(lambda h, row: ((h2 := m.numpy.tanh(h * x + row)), h2 * h), x, m.numpy.asarray(XS))
    return last * ys.sum(axis=0)


def mixed_carry(m: ModuleType, x: Any) -> Any:
    """A counter beside floats, an integer output, a carry the body does not change."""

    def body(carry: Any, row: Any) -> Any:
        n, h, w = carry["n"], carry["h"], carry["w"]
        return {"n": n + 1, "h": m.numpy.sin(h + w * row) * (n + 1), "w": w}, (n, row)

    carry, (counts, rows) = m.lax.scan(
        body, {"n": 0, "h": x, "w": 2.0 * x}, m.numpy.asarray(XS), reverse=True
    )
    return carry["h"] * carry["w"] + counts.sum() * rows.sum(axis=0)


def no_rows(m: ModuleType, x: Any) -> Any:
    last, ys = m.lax.scan(lambda h, _: (m.numpy.cos(h) * x, h), x, None, length=4, unroll=3)
    return last + ys[1]


def zero_and_one_step(m: ModuleType, x: Any) -> Any:
    empty, ys = m.lax.scan(lambda h, row: (h * row, h + x), x, m.numpy.asarray(XS[:0]))
    once, zs = m.lax.scan(lambda h, row: (h * row, h + x), x, m.numpy.asarray(XS[:1]))
    return empty * once + zs[0] + ys.sum()


def powers(m: ModuleType, x: Any) -> Any:
    return m.lax.fori_loop(1, 4, lambda i, h: h * x + i, x)


def nested(m: ModuleType, x: Any) -> Any:
    """A scan and a cond in a scan; the inner loop closes over the outer carry."""

    def outer(h: Any, row: Any) -> Any:
        inner, _ = m.lax.scan(lambda g, r: (g * m.numpy.sin(r + h), None), h, m.numpy.asarray(XS[:2]))
        return m.lax.cond(row[0] > 0.0, lambda: m.numpy.exp(-inner), lambda: inner * x), inner

    last, ys = m.lax.scan(outer, x, m.numpy.asarray(XS))
    return last * ys.sum(axis=0)


def jitted_body(m: ModuleType, x: Any) -> Any:
    step = m.jit(lambda h, row: (m.numpy.sin(h) + row * x, h * row))
    last, ys = m.lax.scan(step, x, m.numpy.asarray(XS), unroll=2)
    return last + ys.sum(axis=0)


def updates(m: ModuleType, x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return a.at[i].set(m.numpy.sin(a[i]) * a[(i + 1) % 4])

    return m.lax.fori_loop(0, 4, body, m.numpy.concatenate([x, x * x]))[1:3]


def mapped(m: ModuleType, x: Any) -> Any:
    rows = m.lax.map(lambda row: m.numpy.sin(row * x), m.numpy.asarray(XS), batch_size=2)
    return rows.sum(axis=0) + m.lax.map(lambda y: y * x, x).sum(axis=0)


def affine_maps(m: ModuleType, x: Any) -> Any:
    """Composition of affine maps, as an associative scan along an inner axis."""
    a, b = m.numpy.sin(x)[None] * m.numpy.asarray(XS), m.numpy.asarray(XS) + x
    both = lambda f, g: (f[0] * g[0], g[0] * f[1] + g[1])
    out = m.lax.associative_scan(both, (a.T, b.T), reverse=True, axis=1)
    return out[0].sum(axis=1) * out[1][:, 0]


LOOPS = [
    recurrence,
    mixed_carry,
    no_rows,
    zero_and_one_step,
    powers,
    nested,
    jitted_body,
    updates,
    mapped,
    affine_maps,
]


def until_small(m: ModuleType, x: Any) -> Any:
    """The number of steps depends on the data, and so differs in a batch."""
    steps, last = m.lax.while_loop(
        lambda c: (m.numpy.abs(c[1]).sum() > 0.3) & (c[0] < 10),
        lambda c: (c[0] + 1, c[1] * m.numpy.cos(c[1] * x)),
        (0, x),
    )
    return last * steps


def counted(m: ModuleType, x: Any) -> Any:
    """A number of steps that all elements share, a constant that is batched."""
    return m.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * m.numpy.sin(x)), (0, x * 2.0))[1]


def traced_bounds(m: ModuleType, x: Any) -> Any:
    n = m.numpy.ceil(m.numpy.abs(x).sum()).astype("int32")
    return m.lax.fori_loop(0, n, lambda i, h: m.numpy.sin(h) + i, x)


def loops_in_loops(m: ModuleType, x: Any) -> Any:
    """A cond in a scan in a while, whose inner while must not see elements that are through."""

    def halve(h: Any) -> Any:
        return m.lax.while_loop(lambda g: g.max() > 0.5, lambda g: g * 0.5, h)

    def body(c: Any) -> Any:
        n, h = c
        h, _ = m.lax.scan(
            lambda h, row: (m.lax.cond(row[0] > 0.2, lambda: m.numpy.sin(h), lambda: h + 0.1 * x), None),
            h,
            m.numpy.asarray(XS),
        )
        return n + 1, halve(h)

    return m.lax.while_loop(lambda c: (c[1].sum() < 0.5) & (c[0] < 4), body, (0, x))[1]


FORWARD = [until_small, counted, traced_bounds, loops_in_loops]


# --- Compositions ---------------------------------------------------------------------------------


def table(m: ModuleType, functions: Any) -> F:
    """All functions at once, each of its own argument: one program for each composition."""
    return lambda xs: {f.__name__: f(m, xs[f.__name__]) for f in functions}


def grad(m: ModuleType, f: F) -> F:
    """Of the sum of all results; each argument's gradient is that of its own function."""
    return m.grad(lambda xs: sum(m.numpy.sum(y) for y in f(xs).values()))


EVERY: dict[str, Callable[[ModuleType, F], F]] = {
    "value": lambda m, f: f,
    "jit": lambda m, f: m.jit(f),
    "jvp(jit)": lambda m, f: lambda xs: m.jvp(m.jit(f), (xs,), (xs,)),
    "jit(linearize)": lambda m, f: m.jit(lambda xs: m.linearize(f, xs)[1](xs)),
    "jvp(jvp)": lambda m, f: m.jit(lambda xs: m.jvp(lambda ys: m.jvp(f, (ys,), (xs,))[1], (xs,), (xs,))),
}
REVERSE: dict[str, Callable[[ModuleType, F], F]] = {
    "grad": grad,
    "grad(jit)": lambda m, f: grad(m, m.jit(f)),
    "jit(grad(grad))": lambda m, f: m.jit(grad(m, grad(m, f))),
    "jvp(grad)": lambda m, f: m.jit(lambda xs: m.jvp(grad(m, f), (xs,), (xs,))),
    "grad(jvp)": lambda m, f: m.jit(grad(m, lambda xs: m.jvp(f, (xs,), (xs,))[1])),
}
BATCHED: dict[str, Callable[[ModuleType, F], F]] = {
    "jit(vmap)": lambda m, f: m.jit(m.vmap(f)),
    "jvp(vmap)": lambda m, f: m.jit(lambda xs: m.jvp(m.vmap(f), (xs,), (xs,))),
    "vmap(jvp)": lambda m, f: m.jit(m.vmap(lambda xs: m.jvp(f, (xs,), (xs,))[1])),
    "vmap(vmap)": lambda m, f: m.jit(
        lambda xs: m.vmap(m.vmap(f))(m.tree.map(lambda x: m.numpy.stack([x, -x]), xs))
    ),
}
BATCHED_REVERSE: dict[str, Callable[[ModuleType, F], F]] = {
    "jit(vmap(grad))": lambda m, f: m.jit(m.vmap(grad(m, f))),
    "jit(grad(vmap))": lambda m, f: m.jit(grad(m, m.vmap(f))),
    "vmap(grad(grad))": lambda m, f: m.jit(m.vmap(grad(m, grad(m, f)))),
}
ONE = np.array([0.7, 0.4], np.float32)
BATCH = np.array([[0.7, 0.4], [-0.3, 0.9], [0.05, 0.1]], np.float32)


def compare(composition: Callable[[ModuleType, F], F], functions: Any, x: Any) -> None:
    xs = {f.__name__: x for f in functions}
    theirs = jax.jit(composition(jax, table(jax, functions)))(xs)
    assert_close(composition(dx, table(dx, functions))(xs), theirs, rtol=3e-5)


@pytest.mark.parametrize("name", first(EVERY, 4))
def test_a_composition_is_what_jax_computes(name):
    compare(EVERY[name], LOOPS + FORWARD, ONE)


@pytest.mark.parametrize("name", first(REVERSE))
def test_a_composition_with_reverse_mode_is_what_jax_computes(name):
    compare(REVERSE[name], LOOPS, ONE)


@pytest.mark.parametrize("name", first(BATCHED))
def test_a_batched_composition_is_what_jax_computes(name):
    compare(BATCHED[name], LOOPS + FORWARD, BATCH)


@pytest.mark.parametrize("name", first(BATCHED_REVERSE))
def test_a_batched_composition_with_reverse_mode_is_what_jax_computes(name):
    compare(BATCHED_REVERSE[name], LOOPS, BATCH)


# --- Any small body, compared with Python ---------------------------------------------------------

OPERATIONS: dict[str, F] = {
    "mul": lambda h, x, w, n: (h * x, n),
    "sin": lambda h, x, w, n: (dnp.sin(h) + w, n),
    "count": lambda h, x, w, n: (h, n + 1),
    "use_n": lambda h, x, w, n: (h + 0.1 * n, n),
    "where": lambda h, x, w, n: (dnp.where(x > 0, h, w * x), n),
    "cond": lambda h, x, w, n: lax.cond(n > 1, lambda: (h * w, n), lambda: (h + x, n + 1)),
    "loop": lambda h, x, w, n: (lax.fori_loop(0, 2, lambda i, g: g * w + x * i, h), n),
    "drop_n": lambda h, x, w, n: (h * w, n * 0),
}


@given(
    names=st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=3),
    length=st.integers(0, 4),
    reverse=st.booleans(),
    unroll=st.integers(1, 3),
    transform=st.sampled_from(["value", "jit", "grad", "vmap", "vmap(grad)", "grad(vmap)"]),
)
@examples(0.2)
def test_any_small_scan_is_the_loop_in_python(names, length, reverse, unroll, transform):
    rows = np.linspace(-0.8, 1.1, length, dtype=np.float32)

    def step(carry: Any, x: Any, w: Any) -> Any:
        h, n = carry
        for name in names:
            h, n = OPERATIONS[name](h, x, w, n)
        return (h, n), (h * x, x, n)

    def by_scan(h: Any, xs: Any, w: Any) -> Any:
        carry, ys = lax.scan(lambda c, x: step(c, x, w), (h, 0), xs, reverse=reverse, unroll=unroll)
        return carry[0] + (ys[0] * ys[1]).sum() + carry[1] + ys[2].sum()

    def by_python(h: Any, xs: Any, w: Any) -> Any:
        carry, total = (h, dnp.asarray(0)), 0.0
        for i in range(length)[:: -1 if reverse else 1]:
            carry, (y, x, n) = step(carry, xs[i], w)
            total = total + y * x + n
        return carry[0] + total + carry[1]

    args = np.float32(0.6), rows, np.float32(1.2)
    batch = lambda f: lambda h, xs, w: dx.vmap(f, (0, None, 0))(dnp.stack([h, h * 2]), xs, dnp.stack([w, -w]))
    transforms: dict[str, F] = {
        "value": lambda f: f,
        "jit": dx.jit,
        "grad": lambda f: dx.jit(dx.grad(f, (0, 1, 2))),
        "vmap": batch,
        "vmap(grad)": lambda f: dx.jit(batch(dx.grad(f, (0, 1, 2)))),
        "grad(vmap)": lambda f: dx.jit(dx.grad(lambda *a: batch(f)(*a).sum(), (0, 1, 2))),
    }
    transform = transforms[transform]
    assert_close(transform(by_scan)(*args), transform(by_python)(*args), rtol=1e-4)


# --- Weak types, structures, tracing --------------------------------------------------------------


def outcome(tree: Any) -> Any:
    return [(np.asarray(x).tolist(), x.dtype, x.weak_type) for x in dx.tree.leaves(tree)]


@pytest.mark.parametrize("loop", ["scan", "while", "fori"])
@pytest.mark.parametrize(
    ("init", "step"),
    [
        (0, lambda h: h + 1),
        (0, lambda h: h + 0.5),
        (0.0, lambda h: h + np.float32(1)),
        (0, lambda h: h + np.float16(0.5)),
        (1, lambda h: h * 1j),
        (np.float16(1), lambda h: h + 0.5),
    ],
)
def test_a_weakly_typed_carry_takes_the_type_the_body_makes_of_it(loop, init, step):
    def run(m: ModuleType) -> Any:
        if loop == "scan":
            return m.lax.scan(lambda h, _: (step(h), None), init, None, length=2)[0]
        if loop == "fori":
            return m.lax.fori_loop(0, 2, lambda _, h: step(h), init)
        return m.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, step(c[1])), (0, init))[1]

    assert outcome(run(dx)) == outcome(run(jax)) == outcome(dx.jit(lambda: run(dx))())


def test_results_of_weak_parts_of_a_carry_are_weak_as_in_jax():
    x = np.ones(2, np.float32)

    def weak(f: Any) -> list[bool]:
        found = [[y.weak_type for y in dx.tree.leaves(g())] for g in (f, dx.jit(f))]
        assert found[0] == found[1]
        return found[0]

    assert weak(lambda: lax.scan(lambda c, y: (c + y, (c, 2.0 * c, c + y)), 0.0, x)) == [
        False,
        True,
        True,
        False,
    ]
    assert weak(lambda: lax.scan(lambda c, y: ((c[0] + 1, c[1] * y), c), (0, 1.0), x)) == [
        True,
        False,
        True,
        True,
    ]
    assert weak(lambda: lax.scan(lambda c, y: (c + y, c), 0, x)) == [False, False]  # c is converted


def test_counters_are_weak_as_in_jax():
    three, count = np.int32(3), lambda i, c: i
    assert lax.fori_loop(np.int32(0), np.int32(3), lambda i, c: c + i, np.int8(0)).dtype == np.int8
    assert lax.fori_loop(three, 9, count, 0).weak_type
    assert dx.jit(lambda n: lax.fori_loop(0, n, count, 0))(three).weak_type
    assert not dx.jit(lambda n: lax.fori_loop(n, 9, count, 0))(three).weak_type


def test_parts_of_a_carry_are_promoted_one_after_another():
    last, _ = lax.scan(lambda c, x: ((c[1], c[2], c[2] + x), None), (0, 0, 0), np.ones(2, np.float32))
    assert [x.dtype.name for x in last] == ["float32"] * 3
    assert [float(x) for x in last] == [0.0, 1.0, 2.0]


def test_a_weak_result_gives_way_to_a_strong_carry():
    last, _ = lax.scan(lambda c, x: (2.0, None), np.float16(1), None, length=3)
    assert (last.dtype, float(last), last.weak_type) == (np.float16, 2.0, False)


def test_a_body_is_traced_once_per_signature():
    traced = []

    def body(h: Any, x: Any) -> Any:
        traced.append("scan")
        return h + x, x

    def step(i: Any, h: Any) -> Any:
        traced.append("fori")
        return h + i

    def double(h: Any) -> Any:
        traced.append("while")
        return h * 2

    def small(h: Any) -> Any:
        traced.append("cond")
        return h < 9

    def square(x: Any) -> Any:
        traced.append("map")
        return x * x

    for k in range(3):
        lax.scan(body, np.float32(k), np.ones(4, np.float32))
        lax.fori_loop(0, 3, step, np.int32(k))
        lax.fori_loop(np.int8(k), np.int8(k + 3), step, np.int32(k))
        lax.while_loop(small, double, np.int32(1))
        lax.map(square, np.arange(4.0), batch_size=3)
    assert sorted(traced) == ["cond", "fori", "fori", "map", "scan", "while"]


def test_cleared_caches_forget_traced_bodies():
    traced = []
    body = lambda i, h: traced.append(1) or h + i
    for _ in range(2):
        lax.fori_loop(0, 3, body, 0)
        dx.clear_caches()
    assert len(traced) == 2


def test_eager_loops_run_one_compiled_program(monkeypatch):
    """Neither the body's lowering nor a compilation happens again for other values."""
    from didax.runtime import compiled

    def body(h: Any, x: Any) -> Any:
        return h * x, h

    lax.scan(body, np.float32(1), np.ones(3, np.float32))
    monkeypatch.setattr(compiled, "lower_module", lambda *args, **kwargs: pytest.fail("lowered again"))
    last, _ = lax.scan(body, np.float32(2), np.full(3, 2, np.float32))
    assert float(last) == 16.0


def test_a_body_that_captures_a_traced_value_is_traced_anew():
    def body(h: Any, x: Any) -> Any:
        return h * captured, None

    def f(x: Any) -> Any:
        nonlocal captured
        captured = x
        return lax.scan(body, 1.0, None, length=2)[0]

    captured = None
    assert [float(dx.grad(f)(v)) for v in (1.0, 3.0)] == [2.0, 6.0]


def test_without_jit_loops_are_plain_python():
    seen = []

    def body(h: Any, x: Any) -> Any:
        seen.append(float(x))
        return h + x, {"y": h}

    xs = np.array([1.0, 2.0, 4.0], np.float32)
    with dx.disable_jit():
        last, ys = lax.scan(body, np.float32(0), xs, reverse=True)
        assert lax.fori_loop(0, 3, lambda i, h: seen.append(i) or h + i, 0) == 3
        assert (
            int(lax.while_loop(lambda h: bool(h < 5), lambda h: seen.append(int(h)) or h * 2, np.int32(1)))
            == 8
        )
        assert lax.map(lambda x: seen.append(float(x)) or -x, xs[:1]).tolist() == [-1.0]
    assert seen == [4.0, 2.0, 1.0, 0, 1, 2, 1, 2, 4, 1.0]
    assert (float(last), ys["y"].tolist()) == (7.0, [6.0, 4.0, 0.0])


def test_without_jit_a_while_loop_whose_condition_is_mapped_is_a_program():
    n = np.array([1, 5], np.int32)
    with dx.disable_jit():
        assert dx.vmap(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 2, 0))(n).tolist() == [2, 6]
        few = dx.vmap(
            lambda n: lax.while_loop(lambda i: i < 7, lambda i: i + n, 0, max_steps=3)
        )  # mapped by the body
        assert few(n).tolist() == [3, 10]


def test_structures_come_back():
    carry, ys = lax.scan(
        lambda c, x: [c, (x["a"], None)], {"k": (1.0, [])}, {"a": np.ones((2, 3)), "b": None}
    )
    assert dx.tree.structure(carry) == dx.tree.structure({"k": (1.0, [])})
    assert ys[0].shape == (2, 3)
    assert ys[1] is None


@pytest.mark.usefixtures("any_use_of_keys")
def test_keys_are_carried_stacked_and_mapped():
    key = dx.random.key(0)

    def body(key: Any, x: Any) -> Any:
        key, now = dx.random.split(key)
        return key, (dx.random.normal(now) * x, now)

    def in_python(key: Any, xs: Any) -> list[float]:
        keys = [key := dx.random.split(key)[0] for _ in xs]
        return [
            float(dx.random.normal(dx.random.split(k)[1]) * x)
            for k, x in zip([start, *keys], xs, strict=False)
        ]

    start, xs = key, np.float32([1, 2, 3])
    last, (draws, keys) = lax.scan(body, key, xs)
    np.testing.assert_allclose(draws, in_python(key, xs), rtol=1e-6)
    assert (last.dtype, keys.shape) == (key.dtype, (3,))
    np.testing.assert_allclose(lax.map(dx.random.normal, keys, batch_size=2) * xs, draws, rtol=1e-6)
    np.testing.assert_allclose(
        dx.grad(lambda xs: lax.scan(body, key, xs)[1][0].sum())(xs), draws / xs, rtol=1e-6
    )

    def rejection(key: Any) -> Any:
        return lax.while_loop(
            lambda c: c[1] < 1.0, lambda c: (dx.random.split(c[0])[0], dx.random.normal(c[0])), (key, 0.0)
        )[1]

    batch = dx.random.split(key, 4)
    found = dx.jit(dx.vmap(rejection))(batch)
    np.testing.assert_array_equal(found, [rejection(k) for k in batch])
    assert min(found.tolist()) >= 1.0


def test_wide_counters(x64):
    assert int(lax.fori_loop(2**40, 2**40 + 3, lambda i, h: h + (i - 2**40), 0)) == 3
    assert lax.fori_loop(np.int8(0), np.int8(3), lambda i, h: h + i, np.int8(0)).dtype == np.int8


def test_an_empty_range_runs_nothing():
    for lower, upper in ((3, 3), (5, 2), (np.int32(5), 2)):
        assert float(lax.fori_loop(lower, upper, lambda i, h: h * 0, 7.0)) == 7.0
        assert float(dx.jit(lambda a, b: lax.fori_loop(a, b, lambda i, h: h * 0, 7.0))(lower, upper)) == 7.0


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8])
def test_an_associative_scan_of_any_length(n):
    x = np.arange(1.0, n + 1, dtype=np.float32)
    calls = []
    out = lax.associative_scan(lambda a, b: calls.append(1) or a * b, x)
    assert out.tolist() == np.cumprod(x).tolist()
    assert len(calls) <= 2 * max(n, 1).bit_length()
    booleans = lax.associative_scan(lambda a, b: a ^ b, x % 3 == 0, reverse=True)
    assert booleans.tolist() == np.logical_xor.accumulate((x % 3 == 0)[::-1])[::-1].tolist()
    weak = dx.eval_shape(
        lambda y: lax.associative_scan(lax.add, y), dx.ShapeDtypeStruct((n,), np.float32, weak_type=True)
    )
    assert weak.weak_type == (n < 2)  # as in jax


@pytest.mark.parametrize("batch_size", [None, 1, 2, 4, 5, 9])
def test_a_map_in_batches_of_any_size(batch_size):
    w = dnp.arange(3.0)
    out = lax.map(lambda x: (x["a"] * w, x["a"] > 2), {"a": np.arange(5.0)}, batch_size=batch_size)
    assert out[0].tolist() == (np.arange(5.0)[:, None] * np.arange(3.0)).tolist()
    assert out[1].tolist() == (np.arange(5.0) > 2).tolist()


# --- Errors ---------------------------------------------------------------------------------------


def error(f: F) -> str:
    with pytest.raises((TypeError, ValueError)) as caught:
        f()
    return str(caught.value)


def test_a_carry_of_another_type():
    def body(carry: Any, x: Any) -> Any:
        return {"h": dnp.ones((3,)), "n": carry["n"] + 0.5, "ok": carry["ok"]}, None

    init = {"h": np.ones(2, np.float32), "n": np.int32(0), "ok": 1.0}
    text = error(lambda: lax.scan(body, init, None, length=2))
    assert text.splitlines()[:3] == [
        "The body of scan changed the type of its carry.",
        "  carry['h']: float32[2] went in, float32[3] came out",
        "  carry['n']: int32[] went in, float32[] came out",
    ]
    assert "body: body (" in text
    assert text.splitlines()[-1].startswith("Cast or broadcast inside the body")


def test_a_carry_of_another_structure():
    text = error(lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: [c[0], c[1]], (0, 1.0)))
    assert text.splitlines()[:2] == [
        "The body of while_loop changed the structure of its carry.",
        "  init_val is a tuple of 2 in what went in, a list of 2 in what came out",
    ]


@pytest.mark.parametrize("out", [1.0, (1.0, 2.0, 3.0), {"a": 1.0, "b": 2.0}, None])
def test_a_body_that_returns_no_pair(out):
    text = error(lambda: lax.scan(lambda c, x: out, 0.0, np.ones(2)))
    assert text.startswith("The function given to scan must return a pair: the next carry, and an output.")
    assert text.endswith("Return (carry, y), with None as y for no output.")


def test_lengths_that_contradict_each_other():
    text = error(lambda: lax.scan(lambda c, x: (c, None), 0.0, {"a": np.ones(3), "b": np.ones((4, 2))}))
    assert text.splitlines()[:3] == [
        "scan runs along the leading axes of its xs, which must have one length.",
        "  xs['a']: float32[3]",
        "  xs['b']: float32[4,2]",
    ]
    assert "length: 5" in error(lambda: lax.scan(lambda c, x: (c, None), 0.0, np.ones(3), length=5))
    text = error(lambda: lax.map(lambda x: x, {"a": np.ones(3), "b": 1.0}))
    assert text.endswith("xs['b']: float32[]\nClose over numbers and arrays without axes.")
    assert "Pass arrays, or a length." in error(lambda: lax.scan(lambda c, x: (c, None), 0.0, None))
    for length in (-1, 2.5):
        assert f"length: {length}" in error(lambda n=length: lax.scan(lambda c, x: (c, None), 0.0, None, n))


@pytest.mark.parametrize("unroll", [-1, 1.5, "2", None])
def test_an_unroll_that_is_no_number_of_steps(unroll):
    text = error(lambda: lax.scan(lambda c, x: (c, None), 0.0, None, length=2, unroll=unroll))
    assert "Pass a positive integer; 0 or True unrolls the whole loop." in text
    assert f"unroll: {unroll!r}" in text


def test_unrolling_takes_known_bounds():
    text = error(lambda: dx.jit(lambda n: lax.fori_loop(0, n, lambda i, h: h, 0.0, unroll=2))(3))
    assert text.startswith("fori_loop unrolls only between bounds that are known while tracing.")
    assert float(lax.fori_loop(0, 5, lambda i, h: h + 1, 0.0, unroll=True)) == 5.0


@pytest.mark.parametrize(
    ("condition", "found"),
    [(lambda h: h, "float32[]"), (lambda h: dnp.ones(2) > h, "bool[2]"), (lambda h: (h > 0,), "(*,)")],
)
def test_a_condition_that_is_no_bool_scalar(condition, found):
    text = error(lambda: lax.while_loop(condition, lambda h: h, np.float32(1)))
    assert text.startswith("The condition of while_loop must return a bool scalar.")
    assert found in text


def test_bounds_that_are_no_integers():
    for lower, upper in ((0.0, 3), (0, np.ones(2, np.int32)), (np.int32(0), np.int16(3)), ("a", 2)):
        text = error(lambda a=lower, b=upper: lax.fori_loop(a, b, lambda i, h: h, 0))
        assert text.startswith("fori_loop counts between two integers of one dtype without axes.")


def test_bounds_that_are_whole_floats():
    jax = pytest.importorskip("jax")
    for bounds in ((0.0, 3.0), (np.float32(-1), np.float32(2)), (2.0, 0.0)):
        ours, theirs = [x.fori_loop(*bounds, lambda i, c: 2 * c + i, 1.0) for x in (lax, jax.lax)]
        assert float(ours) == float(theirs)
    assert float(dx.grad(lambda x: lax.fori_loop(0.0, 3.0, lambda i, c: c * x, 1.0))(2.0)) == 12.0
    assert float(dx.grad(lambda n: lax.fori_loop(0.0, n, lambda i, c: c * n, 1.0))(3.0)) == 27.0
    text = error(lambda: lax.fori_loop(0.0, 3.5, lambda i, h: h, 0))
    assert text.startswith(
        "fori_loop counts in whole steps: floats that are known while tracing must be whole"
    )
    assert "lower: 0.0\n  upper: 3.5\nRound them" in text
    assert "upper: nan" in error(lambda: lax.fori_loop(0.0, np.nan, lambda i, h: h, 0))


def test_leaves_that_are_no_arrays():
    assert "init['a']: 'x' of type str" in error(
        lambda: lax.scan(lambda c, x: (c, x), {"a": "x"}, np.ones(2))
    )
    assert "xs[1]: 'x' of type str" in error(lambda: lax.scan(lambda c, x: (c, x), 0, (np.ones(2), "x")))
    assert "result[1]" in error(lambda: lax.scan(lambda c, x: (c, "x"), 0.0, np.ones(2)))


def test_a_combination_of_another_type():
    text = error(lambda: lax.associative_scan(lambda a, b: {"a": a["a"] > b["a"]}, {"a": np.ones(3)}))
    assert "elems['a']: float32[1] was given, bool[1] returned" in text
    assert "axis: 1" in error(lambda: lax.associative_scan(lax.add, np.ones(3), axis=1))
    for size in (0, 2.0):
        assert f"batch_size: {size}" in error(lambda n=size: lax.map(lambda x: x, np.ones(3), batch_size=n))


def test_reverse_mode_through_a_while_loop_of_arrays_without_elements():
    def f(x, y):
        _, x = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * y), (0, x * y))
        return x

    x = np.zeros((0, 2), "float32")
    for g in (lambda x, y: f(x, y).sum(), dx.jit(lambda x, y: f(x, y).sum())):
        slopes = dx.grad(g, (0, 1))(x, 2.0)
        assert (slopes[0].shape, float(slopes[1])) == ((0, 2), 0.0)


def test_reverse_mode_through_a_while_loop():
    text = error(lambda: dx.grad(lambda x: lax.while_loop(lambda h: h < 9, lambda h: h * x, x))(2.0))
    assert text.startswith("Reverse mode does not run through a while_loop")
    assert "while_loop(..., max_steps=N)" in text
    bounded = dx.jit(dx.grad(lambda x, n: lax.fori_loop(0, n, lambda i, h: h * x, x)))
    assert error(lambda: bounded(2.0, 3)) == text.replace(
        "float32[], float32[]", "int32[], float32[], float32[]"
    )
