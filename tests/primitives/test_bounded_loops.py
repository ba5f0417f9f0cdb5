"""Loops that reverse mode runs through: bounded, between traced bounds, checkpointed; their work and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import checkify, lax, random, tree
from didax.core.jaxpr import Jaxpr, Var
from tests.checks import assert_close, ci_unless, first

F = Callable[..., Any]
slow = pytest.mark.slow

HOW = [
    pytest.param({"max_steps": 12}, id="saved"),
    pytest.param({"max_steps": 40}, id="segments"),
    pytest.param({"checkpoints": 3}, id="checkpoints"),
]


def body(w: Any, c: Any) -> Any:
    """A counter, an integer that only looks on, two floats that mix, with a branch in it."""
    i, seen, x, y = c
    x, y = dnp.sin(x * w) + 0.5 * y, lax.cond(i % 2 == 0, lambda: x * y, lambda: y - x)
    return i + 1, seen + dnp.sum(x > 0).astype(seen.dtype), x, y


def start(x: Any) -> Any:
    return 0, np.int8(0), x, 0.3 * x


def loop(x: Any, w: Any, n: Any, how: dict[str, Any]) -> Any:
    return lax.while_loop(lambda c: c[0] < n, lambda c: body(w, c), start(x), **how)


def in_python(x: Any, w: Any, n: int, how: dict[str, Any]) -> Any:
    c = start(x)
    while c[0] < min(n, how.get("max_steps", n)):
        c = body(w, c)
    return c


def loss(f: F, n: Any, how: dict[str, Any]) -> F:
    def total(x: Any, w: Any) -> Any:
        x, y = f(x, w, n, how)[2:]
        return dnp.sum(x * y + x)

    return total


X, W = np.float32([0.3, 0.8]), np.float32(1.3)


# --- Values and derivatives -----------------------------------------------------------------------


@pytest.mark.parametrize("how", HOW)
def test_gradients_are_those_of_python(how: dict[str, Any]):
    """One compiled program for all numbers of steps; at once, and with a number that the program knows, for one."""
    compiled = dx.jit(lambda x, w, n: dx.value_and_grad(loss(loop, n, how), (0, 1))(x, w))
    for n in (0, 7, 41):
        want = dx.value_and_grad(loss(in_python, n, how), (0, 1))(X, W)
        assert_close(compiled(X, W, np.int32(n)), want, rtol=2e-4)
        if n == 7:
            assert_close(dx.value_and_grad(loss(loop, n, how), (0, 1))(X, W), want, rtol=2e-4)
    assert [str(y.dtype) for y in loop(X, W, 7, how)[1:]] == ["int8", "float32", "float32"]


@pytest.mark.parametrize("how", first(HOW))
def test_second_derivatives_are_those_of_python(how: dict[str, Any]):
    def second(f: F) -> F:
        return dx.grad(lambda x, w: dnp.sum(dx.grad(loss(f, 7, how))(x, w) ** 2), (0, 1))

    assert_close(dx.jit(second(loop))(X, W), second(in_python)(X, W), rtol=1e-3)


@pytest.mark.parametrize("how", [HOW[0], *(pytest.param(*h.values, id=h.id, marks=slow) for h in HOW[1:])])
def test_tangents_of_gradients_are_those_of_python(how: dict[str, Any]):
    def second(f: F) -> F:
        return lambda x, w: dx.jvp(dx.grad(loss(f, 7, how), (0, 1)), (x, w), (X, W))

    assert_close(dx.jit(second(loop))(X, W), second(in_python)(X, W), rtol=1e-3)


@pytest.mark.parametrize("how", HOW)
def test_forward_mode_and_linearize_agree(how: dict[str, Any]):
    f, g = loss(loop, 9, how), loss(in_python, 9, how)
    want = dx.jvp(g, (X, W), (X, W))
    assert_close(dx.jvp(f, (X, W), (X, W)), want, rtol=2e-4)
    y, linear = dx.linearize(f, X, W)
    assert_close((y, linear(X, W)), want, rtol=2e-4)
    y, linear = dx.linearize(dx.jit(f), X, W)
    assert_close((y, linear(X, W)), want, rtol=2e-4)


@pytest.mark.parametrize("how", HOW)
def test_elements_of_a_batch_take_as_many_steps_as_they_need(how: dict[str, Any]):
    ns = np.int32([0, 3, 11, 20])
    xs = np.random.default_rng(0).uniform(0.2, 1, (4, 2)).astype(np.float32)
    each = [dx.grad(loss(in_python, int(n), how), (0, 1))(x, W) for x, n in zip(xs, ns, strict=True)]
    want_x, want_w = np.stack([np.asarray(g[0]) for g in each]), np.stack([np.asarray(g[1]) for g in each])
    inside = dx.jit(dx.vmap(lambda x, n: dx.grad(loss(loop, n, how), (0, 1))(x, W)))
    assert_close(inside(xs, ns), (want_x, want_w), rtol=1e-3)
    outside = dx.jit(
        dx.grad(lambda x, w: dx.vmap(lambda x, n: loss(loop, n, how)(x, w))(x, ns).sum(), (0, 1))
    )
    assert_close(outside(xs, W), (want_x, want_w.sum()), rtol=1e-3)


@pytest.mark.parametrize("how", HOW)
def test_elements_that_are_through_do_not_spoil_a_gradient_that_is_shared(how: dict[str, Any]):
    """Where an element stops the body has no finite derivative."""

    def f(w: Any, x: Any) -> Any:
        return lax.while_loop(lambda x: x > 0.5, lambda x: w * dnp.sqrt(x - 0.5), x, **how)

    xs = np.float32([0.5, 0.9, 0.2])
    grad = dx.jit(dx.grad(lambda w: dx.vmap(f, (None, 0))(w, xs).sum()))(np.float32(0.7))
    assert_close(grad, np.sqrt(np.float32(0.4)), rtol=1e-5)
    grads = dx.vmap(dx.grad(f), (None, 0))(np.float32(0.7), xs)
    assert_close(grads, np.float32([0, math.sqrt(0.4), 0]), rtol=1e-5)


@pytest.mark.parametrize(
    "how", first([{"max_steps": 20}, {"checkpoints": 2}]), ids=["bounded", "checkpoints"]
)
def test_key_carries(how: dict[str, Any]):
    def f(scale: Any, key: Any) -> Any:
        def step(c: Any) -> Any:
            i, key, x = c
            key, now = random.split(key)
            return i + 1, key, x * scale + random.normal(now, dtype="float32")

        return lax.while_loop(lambda c: c[0] < 6, step, (0, key, np.float32(1)), **how)[2]

    key = random.key(3)
    by_hand = dx.grad(lambda s: _noise_in_python(s, key))(np.float32(0.9))
    assert_close(dx.jit(dx.grad(f))(np.float32(np.float32(0.9)), random.clone(key)), by_hand, rtol=1e-5)
    keys = random.split(random.clone(key), 3)
    each = [float(dx.grad(lambda s, k=k: _noise_in_python(s, k))(np.float32(0.9))) for k in keys]
    assert_close(
        dx.vmap(dx.grad(f), (None, 0))(np.float32(np.float32(0.9)), random.clone(keys)),
        np.float32(each),
        rtol=1e-5,
    )


def _noise_in_python(scale: Any, key: Any) -> Any:
    x = np.float32(1)
    key = random.clone(key)
    for _ in range(6):
        key, now = random.split(key)
        x = x * scale + random.normal(now, dtype="float32")
    return x


@pytest.mark.parametrize(
    "how", first([{"max_steps": 30}, {"checkpoints": 3}]), ids=["bounded", "checkpoints"]
)
def test_loops_in_loops(how: dict[str, Any]):
    """A while in a scan, in a while, in a cond."""

    def grow(x: Any, w: Any, while_loop: F) -> Any:
        return while_loop(lambda y: y < 4.0, lambda y: y * w, x)

    def nest(x: Any, w: Any, while_loop: F, scan: F) -> Any:
        def outer(c: Any) -> Any:
            i, x = c
            x, _ = scan(lambda x, a: (grow(x * a, w, while_loop), None), x, np.float32([0.3, 0.5]))
            return i + 1, x

        return while_loop(lambda c: c[0] < 3, outer, (0, x))[1]

    def whiles(cond: F, body: F, x: Any) -> Any:
        return lax.while_loop(cond, body, x, **how)

    def while_python(cond: F, body: F, x: Any) -> Any:
        while cond(x):
            x = body(x)
        return x

    def scan_python(f: F, x: Any, xs: Any) -> Any:
        for a in xs:
            x, _ = f(x, a)
        return x, None

    want = dx.value_and_grad(lambda x, w: nest(x, w, while_python, scan_python), (0, 1))(
        np.float32(1.1), np.float32(1.7)
    )
    f = lambda x, w: nest(x, w, whiles, lax.scan)
    chosen = lambda x, w, p: lax.cond(p, f, lambda x, w: x, x, w)
    found = dx.jit(dx.value_and_grad(chosen, (0, 1)))(np.float32(1.1), np.float32(1.7), True)
    assert_close(found, want, rtol=1e-4)
    both = dx.jit(dx.vmap(dx.grad(chosen, (0, 1)), (None, None, 0)))(
        np.float32(1.1), np.float32(1.7), np.array([True, False])
    )
    assert_close(both, (np.float32([want[1][0], 1]), np.float32([want[1][1], 0])), rtol=1e-4)


def generated(seed: int) -> F:
    """A body of floats in two widths, integers in two and a bool, which mix at random; some parts are never used."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, 6, 4)

    def mix(kind: int, a: Any, b: Any, w: Any, c: dict[str, Any]) -> Any:
        return [
            lambda: dnp.sin(a * w) + 0.5 * b,
            lambda: dnp.where(c["flag"], a * b, a - 0.1 * b),
            lambda: a * 0.5 + c["n"].astype("float32") * 0.01,
            lambda: lax.cond(c["i"] % 3 == 1, lambda: a * w, lambda: b),
            lambda: lax.scan(lambda h, x: (dnp.tanh(h + x), None), a, dnp.stack([b, w * b]))[0],
            lambda: lax.fori_loop(0, c["i"] % 2, lambda _, h: h * 0.9 + b, a, max_steps=3),
        ][kind]()

    def body(c: dict[str, Any], w: Any) -> dict[str, Any]:
        x = mix(picks[0], c["x"], c["y"], w, c)
        y = mix(picks[1], c["y"], c["x"], w, c)
        half = (c["half"].astype("float32") * 0.5 + dnp.sum(x)).astype("float16")
        unused = mix(picks[2], c["unused"], c["x"], w, c)
        flag = (dnp.sum(x) > 0) ^ c["flag"]
        n = c["n"] + flag.astype("uint8")
        return {"i": c["i"] + 1, "n": n, "flag": flag, "x": x, "y": y, "half": half, "unused": unused}

    return body


def marks_of(seed: int, i: int) -> list[Any]:
    """The first body in the first way, then both ways of the first and one of the others, then all."""
    return ci_unless(seed == i == 0) if seed == 0 or (seed == 1) == (i == 1) else [slow]


@pytest.mark.parametrize(
    ("seed", "how"),
    [
        pytest.param(seed, how, id=f"{seed}-{name}", marks=marks_of(seed, i))
        for seed in range(3)
        for i, (name, how) in enumerate(
            {"bounded": {"max_steps": 30}, "checkpoints": {"checkpoints": 2}}.items()
        )
    ],
)
def test_generated_bodies(seed: int, how: dict[str, Any]):
    body = generated(seed)

    def begin(x: Any) -> dict[str, Any]:
        half, n, flag = dnp.float16(0.5), dnp.uint8(3), dnp.bool_(True)
        return {"i": 0, "n": n, "flag": flag, "x": x, "y": 0.4 * x, "half": half, "unused": x}

    def total(c: dict[str, Any]) -> Any:
        return dnp.sum(c["x"] * c["y"]) + c["half"].astype("float32") * 0.1

    def f(x: Any, w: Any, n: Any) -> Any:
        return total(lax.while_loop(lambda c: c["i"] < n, lambda c: body(c, w), begin(x), **how))

    def python(x: Any, w: Any, n: int) -> Any:
        c = dx.tree.map(dnp.asarray, begin(x))
        for _ in range(n):
            c = body(c, w)
        return total(c)

    ns = np.int32([6, 0])
    each = [dx.value_and_grad(python, (0, 1))(X, W, int(n)) for n in ns]
    batched = dx.jit(dx.vmap(dx.value_and_grad(f, (0, 1)), (None, None, 0)))(X, W, ns)
    for i, want in enumerate(each):
        assert_close(tree.map(lambda y, i=i: y[i], batched), want, rtol=5e-3)
    if seed == 2:
        assert_close(dx.jit(dx.value_and_grad(f, (0, 1)))(X, W, ns[0]), each[0], rtol=5e-3)


@pytest.mark.parametrize("how", HOW)
def test_loops_that_are_linear_are_transposed(how: dict[str, Any]):
    def f(x: Any, y: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0 + y, c[2]), (0, x, y), **how
        )[1:]

    for g in (f, dx.jit(f)):
        assert [float(y) for y in dx.linear_transpose(g, 1.0, 1.0)((1.0, 10.0))] == [8.0, 17.0]


@pytest.mark.parametrize("how", HOW)
def test_effects_happen_once_a_step(how: dict[str, Any]):
    seen: list[int] = []

    def step(c: Any) -> Any:
        dx.debug.callback(lambda i: seen.append(int(i)), c[0])
        return c[0] + 1, c[1] * c[1]

    f = lambda x: lax.while_loop(lambda c: c[0] < 4, step, (0, x), **how)[1]
    assert float(dx.jit(dx.grad(f))(1.0)) == 16.0
    dx.effects_barrier()
    assert sorted(seen) == [0, 1, 2, 3]


def test_checks_inside_of_a_bounded_loop():
    f = lambda x: lax.while_loop(lambda c: c > 1.5, lambda c: dnp.log(c - 2.0), x, max_steps=30)
    error, _ = checkify.checkify(dx.grad(f), errors=checkify.nan_checks)(1.8)
    assert "nan generated by primitive: log" in (error.get() or "")


# --- fori_loop ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [*HOW, pytest.param({"max_steps": 40, "checkpoints": 3}, id="both")])
@pytest.mark.parametrize(("lower", "upper"), [(3, 1), (2, 3), (-2, 7), (1, 60)])
def test_fori_loop_between_traced_bounds(lower: int, upper: int, how: dict[str, Any]):
    def f(x: Any, w: Any, lower: Any, upper: Any) -> Any:
        step = lambda i, c: (dnp.sin(c[0] * w) + 0.1 * i * c[1], c[0] * c[1])
        x, y = lax.fori_loop(lower, upper, step, (x, x), **how)
        return dnp.sum(x + y)

    def python(x: Any, w: Any) -> Any:
        y = x
        for i in range(lower, upper)[: how.get("max_steps")]:
            x, y = dnp.sin(x * w) + 0.1 * i * y, x * y
        return dnp.sum(x + y)

    got = dx.jit(dx.grad(f, (0, 1)))(X, W, np.int32(lower), np.int32(upper))
    assert_close(got, dx.grad(python, (0, 1))(X, W), rtol=2e-4)


@pytest.mark.parametrize(
    "how", [{"max_steps": 300}, {"checkpoints": 2}, {"max_steps": 300, "checkpoints": 2}]
)
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64"])
def test_fori_loop_counts_in_any_integer_type(dtype: str, how: dict[str, Any]):
    lower, upper = (-100, 100) if dtype.startswith("i") else (3, 255)
    f = dx.jit(lambda a, b: lax.fori_loop(a, b, lambda i, c: c + 1, np.int32(0), **how))
    assert int(f(np.dtype(dtype).type(lower), np.dtype(dtype).type(upper))) == upper - lower
    assert int(f(np.dtype(dtype).type(upper), np.dtype(dtype).type(upper - 1))) == 0


def test_fori_loop_counts_in_traced_floats():
    """As in JAX: the counter is a float, and the last step is the one below the upper bound."""
    count = dx.jit(lambda a, b: lax.fori_loop(a, b, lambda i, c: c * 2 + i, 1.0))
    assert [float(count(a, b)) for a, b in ((0.0, 3.0), (0.5, 3.0), (3.0, 1.0))] == [12, 15.5, 1]


def test_fori_loop_with_batched_bounds():
    f = lambda x, n: lax.fori_loop(0, n, lambda i, x: x * 2.0 + i, x, max_steps=20)
    ns = np.int32([0, 5, 19])
    assert_close(dx.jit(dx.vmap(dx.grad(f)))(np.ones(3, np.float32), ns), np.float32([1, 2**5, 2**19]))


# --- scan -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checkpoint", "reverse"),
    first([("sqrt", True), (4, False), (11, False)])
    + [
        pytest.param(n, reverse, marks=slow)
        for n, reverse in [
            ("sqrt", False),
            (1, False),
            (1, True),
            (4, True),
            (7, False),
            (7, True),
            (11, True),
        ]
    ],
)
def test_checkpointed_scans_agree_with_jax(checkpoint: Any, reverse: bool):
    """Eleven steps: segments of unequal length, of one, and of all."""
    xs = {
        "a": np.random.default_rng(0).normal(size=(11, 2)).astype(np.float32),
        "i": np.arange(11, dtype=np.int16),
    }

    def f(lib: Any, np_: Any, **how: Any) -> F:
        def step(w: Any, c: Any, x: Any) -> Any:
            h = np_.tanh(c["h"] * w + x["a"] * x["i"].astype("float32"))
            return {"h": h, "n": c["n"] + 1}, (h * x["a"], c["n"])

        def run(w: Any, a: Any) -> Any:
            init = {"h": np_.ones(2, np.float32), "n": np.int32(0)}
            last, (ys, ns) = lib.scan(
                lambda c, x: step(w, c, x), init, {**xs, "a": a}, reverse=reverse, **how
            )
            return (last["h"] ** 2).sum() + (ys**3).sum() * last["n"] + ns.sum()

        return run

    want = jax.value_and_grad(f(jax.lax, jnp), (0, 1))(np.float32(0.7), xs["a"])
    run = f(lax, dnp, checkpoint=checkpoint)
    assert_close(dx.jit(dx.value_and_grad(run, (0, 1)))(np.float32(0.7), xs["a"]), want, rtol=2e-3)
    assert_close(dx.value_and_grad(run, (0, 1))(np.float32(0.7), xs["a"]), want, rtol=2e-3)
    batched = dx.vmap(dx.grad(run), (0, None))(np.float32([0.7, 0.2]), xs["a"])
    assert_close(batched[0], want[1][0], rtol=2e-3)
    if checkpoint == 4:
        hessian = jax.grad(jax.grad(f(jax.lax, jnp)))(np.float32(0.7), xs["a"])
        assert_close(dx.jit(dx.grad(dx.grad(run)))(np.float32(0.7), xs["a"]), hessian, rtol=2e-3)


@pytest.mark.parametrize("length", [0, 1])
def test_checkpointed_scans_of_few_steps(length: int):
    f = lambda x: lax.scan(lambda c, x: (c * x, c), 2.0, x, checkpoint="sqrt")[0]
    x = np.full(length, 3, np.float32)
    assert_close(dx.grad(f)(x), np.full(length, 2, np.float32))


# --- Work and memory ------------------------------------------------------------------------------


def work(f: F, *args: Any) -> int:
    """How often `f` takes a sine, in loops too."""
    count = 0

    def run(jaxpr: Jaxpr, args: Sequence[Any], place: str = "") -> list[Any]:
        nonlocal count
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            inputs = [env[x] if type(x) is Var else x.val for x in eqn.invars]
            primitive = eqn.primitive
            count += primitive.name == "sin"
            if primitive.run_jaxprs is not None:
                out = primitive.run_jaxprs(run, *inputs, **eqn.params)
            elif "jaxpr" in eqn.params:
                out = run(eqn.params["jaxpr"], inputs)
            else:
                out = primitive.bind(*inputs, **eqn.params)
            env.update(zip(eqn.outvars, out if primitive.multiple_results else [out], strict=True))
        return [env[x] if type(x) is Var else x.val for x in jaxpr.outvars]

    closed = dx.make_jaxpr(f)(*args)
    leaves = tree.leaves(args)
    assert_close(run(closed.jaxpr, [*closed.consts, *leaves]), tree.leaves(f(*args)), rtol=1e-5)
    return count


def sines(x: Any, n: Any, how: dict[str, Any]) -> Any:
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, dnp.sin(c[1])), (0, x), **how)[1]


@pytest.mark.parametrize("n", [0, 1, 5, 30])
@pytest.mark.parametrize("bound", [30, 100_000])
def test_work_is_that_of_the_steps_taken(n: int, bound: int):
    """Forward each step runs once; backward once more, for the derivative is of saved values."""
    how = {"max_steps": bound}
    assert work(lambda x, n: sines(x, n, how), np.float32(0.5), np.int32(n)) == n
    assert work(lambda x, n: dx.grad(lambda x: sines(x, n, how))(x), np.float32(0.5), np.int32(n)) == 2 * n
    flat = {"max_steps": 16}
    assert work(lambda x, n: dx.grad(lambda x: sines(x, n, flat))(x), np.float32(0.5), np.int32(n)) == min(
        n, 16
    )


def test_work_for_a_batch_is_that_of_its_longest_element():
    xs, ns = np.float32([0.1, 0.2, 0.3]), np.int32([3, 20, 0])
    f = dx.vmap(lambda x, n: dx.grad(lambda x: sines(x, n, {"max_steps": 1000}))(x))
    assert work(f, xs, ns) == 2 * 20


@pytest.mark.parametrize(("n", "k"), [(1, 1), (6, 1), (6, 2), (20, 3), (56, 3), (57, 3), (60, 8), (60, 100)])
def test_work_by_checkpoints_is_binomial(n: int, k: int):
    """No step runs more often than r times, the least number for which k + r over r is at least n."""
    r = next(r for r in range(1, n + 1) if math.comb(k + r, r) >= n)
    how = {"checkpoints": k}
    steps = work(lambda x, n: dx.grad(lambda x: sines(x, n, how))(x), np.float32(0.5), np.int32(n))
    assert steps <= r * n


def residual_bytes(f: F, x: Any) -> int:
    """Size of what `linearize` saves of `f`: all that the linear function holds."""
    _, linear = dx.linearize(f, x)
    closed = dx.make_jaxpr(linear)(x)
    return sum(np.asarray(c).nbytes for c in closed.consts)


def temporary_bytes(f: F, x: Any) -> int:
    return dx.jit(dx.grad(f)).lower(x).compile().memory_analysis().temp_size_in_bytes


STEPS = [100, 10_000, 1_000_000]


def _while(n: int) -> F:
    body = lambda c: (c[0] + 1, dnp.sin(c[1]))
    return lambda x: lax.while_loop(lambda c: c[0] < 60, body, (0, x), max_steps=n)[1].sum()


def _scan(n: int) -> F:
    return lambda x: lax.scan(lambda c, _: (dnp.sin(c), None), x, None, length=n, checkpoint="sqrt")[0].sum()


@pytest.mark.parametrize("make", [_while, _scan])
def test_memory_grows_as_the_square_root(make: F):
    """About two square roots of carries: those saved, and what one segment saves. The program does not grow."""
    x = np.ones(100, np.float32)
    programs = [str(dx.make_jaxpr(dx.grad(make(n)))(x)) for n in STEPS]
    assert len({text.count("\n") for text in programs}) == 1
    for n in STEPS:
        assert temporary_bytes(make(n), x) <= 2.2 * math.sqrt(n) * x.nbytes + 4096


@pytest.mark.parametrize("n", STEPS[:2])
def test_residuals_grow_as_the_square_root(n: int):
    x = np.ones(100, np.float32)
    assert residual_bytes(_scan(n), x) <= 1.1 * math.sqrt(n) * x.nbytes + 64
    assert residual_bytes(_while(n), x) <= 1.1 * math.sqrt(n) * (x.nbytes + 8) + 64


@pytest.mark.parametrize("k", [1, 4, 20])
def test_memory_by_checkpoints_does_not_depend_on_steps(k: int):
    f = lambda x, n: lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, dnp.sin(c[1])), (0, x), checkpoints=k
    )
    x = np.ones(1000, np.float32)
    assert residual_bytes(lambda x: f(x, 50)[1], x) <= (k + 2) * (x.nbytes + 16) + 64
    compiled = dx.jit(dx.grad(lambda x, n: f(x, n)[1].sum())).lower(x, 50).compile()
    assert compiled.memory_analysis().temp_size_in_bytes <= (k + 8) * x.nbytes + 8192


# --- Misuse ---------------------------------------------------------------------------------------


def test_the_error_of_an_unbounded_loop_names_the_ways_out():
    f = lambda x: lax.while_loop(lambda x: x < 9.0, lambda x: 2.0 * x, x)
    with pytest.raises(ValueError, match=r"it carries: float(32|64)\[\]") as error:
        dx.grad(f)(1.0)
    for way in ("max_steps=N", "checkpoints=k", "fori_loop", "Python integers", "scan", "forward mode"):
        assert way in str(error.value)


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        ({"max_steps": -1}, ValueError, "max_steps: -1 of type int"),
        ({"max_steps": 2**31}, ValueError, "from 0 to 2147483647"),
        ({"max_steps": 2.5}, TypeError, "max_steps: 2.5 of type float"),
        ({"max_steps": True}, TypeError, "max_steps: True of type bool"),
        ({"checkpoints": 0}, ValueError, "checkpoints: 0 of type int"),
        ({"checkpoints": "sqrt"}, TypeError, "checkpoints: 'sqrt' of type str"),
    ],
)
def test_limits_that_are_none(how: dict[str, Any], kind: type[Exception], text: str):
    with pytest.raises(kind, match=text.replace("(", "\\(")):
        lax.while_loop(lambda x: x < 9, lambda x: x + 1, 0, **how)
    with pytest.raises(kind, match="of fori_loop is an integer"):
        lax.fori_loop(0, 3, lambda i, x: x, 0, **how)


def test_a_traced_limit():
    with pytest.raises(TypeError, match="mark the argument that it comes from as static"):
        dx.jit(lambda n: lax.while_loop(lambda x: x < 9, lambda x: x + 1, 0, max_steps=n))(3)


@pytest.mark.parametrize(
    ("checkpoint", "kind"),
    [(0, ValueError), (6, ValueError), ("log", ValueError), (1.5, TypeError), (True, TypeError)],
)
def test_checkpoints_of_scan_that_are_none(checkpoint: Any, kind: type[Exception]):
    with pytest.raises(kind, match="the number of segments of its steps") as error:
        lax.scan(lambda c, x: (c, x), 0, np.arange(5), checkpoint=checkpoint)
    assert f"checkpoint: {checkpoint!r}" in str(error.value)
    assert "steps: 5" in str(error.value)


def test_unroll_out_of_range():
    with pytest.raises(ValueError, match="unroll: -1 of type int"):
        lax.scan(lambda c, x: (c, x), 0, np.arange(5), unroll=-1)
    with pytest.raises(ValueError, match="max_steps or checkpoints given"):
        lax.fori_loop(0, 5, lambda i, x: x, 0, unroll=2, max_steps=5)


def test_a_bounded_loop_stops_at_its_bound():
    f = lambda **how: lax.while_loop(lambda x: True, lambda x: x + 1, 0, **how)
    assert int(f(max_steps=7)) == int(f(max_steps=70)) // 10 == int(f(max_steps=7, checkpoints=2)) == 7
    with dx.disable_jit():
        assert int(f(max_steps=7)) == 7
