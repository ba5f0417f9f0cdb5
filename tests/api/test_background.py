"""`compile_in_background`: calls do not wait for XLA, and nobody can tell from what they do.

What is compiled when follows from counts and estimates, so these tests count, and wait for compilations only.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import config
from didax.runtime.compiled import Program

pytestmark = pytest.mark.cpu  # on accelerators every call waits for its program

CALLS = 500  # more than enough to make any program here worth compiling


@pytest.fixture
def compiled(monkeypatch) -> Iterator[list[str]]:
    """The names of the programs that are compiled, those of single operations left out."""
    names: list[str] = []
    compile = Program._compile

    def counted(self, *args):
        if not self._cheap:
            names.append(self.jaxpr.name)
        return compile(self, *args)

    monkeypatch.setattr(Program, "_compile", counted)
    yield names
    dx.wait_for_compilations()


def in_background(f, **options):
    return dx.jit(f, compile_in_background=True, **options)


def test_a_function_is_evaluated_until_it_is_compiled(compiled):
    def polynomial(x):
        return 2 * x * x + dnp.sin(x)

    f, x = in_background(polynomial), dnp.arange(5.0)
    want = np.asarray(dx.jit(polynomial, compile_in_background=False)(x))
    compiled.clear()
    np.testing.assert_allclose(f(x), want, rtol=1e-6)
    f(x)
    assert compiled == [], "a function that is called once or twice on small arrays is never compiled"
    for _ in range(CALLS):
        f(x)
    dx.wait_for_compilations()
    assert compiled == ["polynomial"]
    y = f(x)
    assert y._value is None, "the compiled program has run"
    np.testing.assert_allclose(y, want, rtol=1e-6)
    for _ in range(CALLS):
        f(x)
    dx.wait_for_compilations()
    assert compiled == ["polynomial"], "nothing is compiled twice"


def test_thousands_of_shapes_compile_nothing(compiled):
    f = in_background(dx.grad(lambda x: (x * x).sum()))
    for n in range(1, 300):
        assert f(np.ones(n, np.float32)).shape == (n,)
    assert compiled == []


def test_the_option_and_the_keyword(compiled):
    x = dnp.ones(3)
    with dx.compile_in_background():
        dx.jit(lambda x: x + 1)(x)
        dx.jit(lambda x: dx.jit(lambda x: x * 2)(x) + 1)(x)
        dx.grad(dx.jit(lambda x: (x * 3).sum()))(x)
        lax.scan(lambda c, x: (c + x, c), 0.0, x)
        assert compiled == []
        dx.jit(lambda x: x + 2, compile_in_background=False)(x)
    assert len(compiled) == 1
    with dx.compile_in_background(False):
        dx.jit(lambda x: x + 3)(x)
        assert len(compiled) == 2
    in_background(lambda x: x + 4).lower(x).compile()
    assert len(compiled) == 3, "whoever asks for a compiled program gets one"
    config.option_named("jax_compile_in_background")


def test_long_work_waits_for_its_program(compiled):
    def steps(n):
        return lax.fori_loop(0, n, lambda i, x: x + i, 0)

    def rows(x):
        return lax.scan(lambda c, x: (c + x, None), 0.0, x)[0]

    def until(n):
        return lax.while_loop(lambda x: x < n, lambda x: x + 1, 0)

    assert float(in_background(rows)(np.ones(100_000, np.float32))) == 100_000
    assert compiled == ["rows"], "the number of steps is known to be large"
    assert int(in_background(until)(3)) == 3
    assert int(in_background(steps)(3)) == 3
    assert compiled == ["rows"]
    assert int(in_background(until)(1_000_000)) == 1_000_000
    assert compiled == ["rows", "until"], "the loop turned out long"


# Programs of every kind of control flow, calls, effects of types.

RNG = np.random.default_rng(0)
X = RNG.standard_normal(6).astype(np.float32)
M = RNG.standard_normal((4, 4)).astype(np.float32)


@dx.custom_vjp
def clipped(x):
    return dnp.sin(x)


clipped.defvjp(lambda x: (dnp.sin(x), x), lambda x, ct: (dnp.clip(ct * dnp.cos(x), -1, 1),))


def accumulated(x):
    ref = dx.new_ref(dnp.zeros(6))
    ref[...] += x
    ref[1] = 3.0
    return ref[...] * 2


PROGRAMS = {
    "nothing": (lambda x: (x, x, 2.0, 3), X),
    "weak types": (lambda s: (s * 2, s + X, dnp.float32(1) * s), 3.0),
    "reverse scan": (lambda x: lax.scan(lambda c, x: (c * 0.5 + x, dnp.sin(c)), 1.0, x, reverse=True), X),
    "empty scan": (lambda x: lax.scan(lambda c, x: (c + x, {"a": c}), 0.0, x), X[:0]),
    "while": (lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5), (0, x)), X),
    "fori": (lambda x: lax.fori_loop(2, 6, lambda i, x: x + i, x), X),
    "cond": (lambda x: [lax.cond(x[i] > 0, dnp.sin, dnp.cos, x) for i in range(3)], X),
    "switch": (lambda i: lax.switch(i, [lambda x: x, lambda x: -x], 2.0), 7),
    "grad of scan": (dx.grad(lambda x: lax.scan(lambda c, x: (dnp.tanh(c + x), c * x), 0.5, x)[0]), X),
    "grad of grad": (dx.vmap(dx.grad(dx.grad(lambda x: dnp.sin(x) ** 3))), X),
    "vmapped while": (dx.vmap(lambda x: lax.while_loop(lambda x: x < 3, lambda x: x + 1, x)), X),
    "custom_vjp": (dx.grad(lambda x: (clipped(x) * 9).sum()), X),
    "checkpoint": (dx.grad(dx.checkpoint(lambda x: (dnp.sin(dnp.cos(x)) ** 2).sum())), X),
    "solve": (lambda m: dnp.linalg.solve(m @ m.T + dnp.eye(4), m), M),
    "cholesky": (dx.grad(lambda m: dnp.linalg.cholesky(m @ m.T + dnp.eye(4)).sum()), M),
    "sort": (lambda x: (dnp.sort(x), dnp.argsort(x), lax.top_k(x, 2)), X),
    "indices": (lambda x: x.at[dnp.array([1, 9])].add(2.0)[::-1], X),
    "keys": (lambda s: dx.random.normal(dx.random.split(dx.random.key(s))[0], (3,)), 3),
    "integers": (lambda x: (x // 3, x % 3, x >> 1, x.astype("bfloat16")), np.arange(-4, 4)),
    "Refs": (accumulated, X),
    "complex": (lambda x: dnp.fft.fft(x), X),
    "nested jit": (lambda x: dx.jit(lambda x: (x * 2, x.sum()))(x), X),
    "callback": (lambda x: dx.pure_callback(np.sin, x, x, vmap_method="sequential") + 1, X),
    "float0": (lambda n: dx.vjp(lambda n, x: x * n, n, 2.0)[1](1.0), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_evaluated_and_compiled_results_agree(name, compiled):
    f, x = PROGRAMS[name]
    evaluated = in_background(f)(x)
    assert compiled == []
    expected = dx.jit(f, compile_in_background=False)(x)
    assert dx.tree.structure(evaluated) == dx.tree.structure(expected)
    for got, want in zip(dx.tree.leaves(evaluated), dx.tree.leaves(expected), strict=True):
        assert getattr(got, "aval", got.dtype) is getattr(want, "aval", want.dtype)
        got, want = np.asarray(got), np.asarray(want)
        if got.dtype.kind != "V":
            np.testing.assert_allclose(got.astype(want.dtype), want, rtol=2e-5, atol=1e-6)


def test_results_are_arrays_of_their_own():
    x = dnp.arange(4.0)
    y, z = in_background(lambda x: (x, x))(x)
    assert y is not x and y is not z
    x.delete()
    z.delete()
    assert y.tolist() == [0, 1, 2, 3]


def test_effects_happen_once_and_in_order(compiled):
    seen: list[int] = []

    def step(c, x):
        dx.experimental.io_callback(lambda i: seen.append(int(i)), None, x, ordered=True)
        return c + x, c

    f = in_background(lambda x: lax.scan(step, 0, x)[0])
    for _ in range(2):
        assert int(f(dnp.arange(3))) == 3
    assert seen == [0, 1, 2, 0, 1, 2] and compiled == []
    seen.clear()
    for _ in range(CALLS):
        f(dnp.arange(3))
    dx.wait_for_compilations()
    f(dnp.arange(3))
    assert seen == [0, 1, 2] * (CALLS + 1)
    assert len(compiled) == 1


def test_pure_callbacks_that_nobody_needs_are_not_called(compiled):
    seen: list[int] = []

    def noted(number):
        return lambda x: (seen.append(number), x)[1]

    one, two = noted(1), noted(2)

    def f(x):
        dx.pure_callback(one, x, x)
        return dx.pure_callback(two, x, x) + dx.pure_callback(two, x, x)  # equal calls are one

    assert float(in_background(f)(1.0)) == 2
    assert (seen, compiled) == ([2], [])


def test_a_barrier_waits_for_calls_that_are_evaluated_in_other_threads(compiled):
    began, may_go, log = threading.Event(), threading.Event(), []

    def slow(x):
        dx.effects_barrier()  # does not wait for itself
        began.set()
        may_go.wait(30)
        log.append(float(x))

    thread = threading.Thread(target=lambda: in_background(lambda x: dx.debug.callback(slow, x))(1.0))
    thread.start()
    assert began.wait(30)
    threading.Timer(0.05, may_go.set).start()
    dx.effects_barrier()
    assert (log, compiled) == ([1.0], [])
    thread.join()


def test_effects_in_a_loop_of_unknown_length_are_compiled(compiled):
    seen: list[int] = []

    def body(i):
        dx.debug.callback(lambda i: seen.append(int(i)), i, ordered=True)
        return i + 1

    f = in_background(lambda n: lax.while_loop(lambda i: i < n, body, 0))
    assert int(f(3)) == 3
    dx.effects_barrier()
    assert seen == [0, 1, 2]
    assert len(compiled) == 1, "such a loop could not be given up halfway"


DONATED = [
    (lambda x: x + 1),
    (lambda x: x.sum()),
    (lambda x: x.reshape(2, 2)),
    (lambda x: x[:2] * 2),
    (lambda x: x.astype("int32")),
    (lambda x: x.astype("float16")),
]


@pytest.mark.filterwarnings("ignore:Some donated buffers")  # of results in other types
@pytest.mark.parametrize("f", DONATED)
def test_the_same_arguments_are_donated(f):
    def run(**options):
        x = dnp.arange(4.0) + 1
        x.device_buffer()
        y = dx.jit(f, donate_argnums=0, **options)(x)
        return x.is_deleted(), np.asarray(y).tolist(), x

    deleted, y, x = run(compile_in_background=True)
    assert (deleted, y) == run(compile_in_background=False)[:2]
    if deleted:
        with pytest.raises(RuntimeError, match="donated"):
            _ = x + 1
        with pytest.raises(RuntimeError, match="donated"):
            dx.jit(f, compile_in_background=True)(x)
        with pytest.raises(RuntimeError, match="donated"):
            dx.jit(f, compile_in_background=False)(x)


def test_donated_in_one_place_and_passed_in_another():
    x = dnp.ones(3) + 1
    with pytest.raises(RuntimeError, match="twice"):
        in_background(lambda x, y: x + y, donate_argnums=0)(x, x)
    with pytest.raises(RuntimeError, match=r"also one that the compiled function captured\.\n  argument y: "):
        in_background(lambda y: y + x, donate_argnums=0)(x)


def test_a_donation_that_is_of_no_use_is_a_warning_of_the_first_call(compiled):
    f = in_background(lambda x: x.sum(), donate_argnums=0)
    with pytest.warns(UserWarning, match="not usable") as warned:
        f(dnp.ones(3))
    assert [w.filename for w in warned] == [__file__]
    for _ in range(CALLS):
        f(dnp.ones(3))
    dx.wait_for_compilations()
    assert compiled == ["<lambda>"]  # without a second warning, which would be an error


def test_errors_are_those_of_the_call():
    def fail(x):
        raise KeyError("mine")

    f = in_background(lambda x: dx.pure_callback(fail, x, x) + 1)
    with pytest.raises(KeyError, match="mine"):
        f(dnp.ones(3))

    def wrong(x):
        return x @ dnp.ones(7)

    with pytest.raises(TypeError) as evaluated:
        in_background(wrong)(dnp.ones(3))
    with pytest.raises(TypeError) as compiled:
        dx.jit(wrong)(dnp.ones(3))
    assert str(evaluated.value) == str(compiled.value)


def test_a_program_that_does_not_compile_is_the_error_of_a_later_call(monkeypatch):
    f, x = in_background(lambda x: dnp.sin(x) * 2), dnp.ones(20_000)

    def refuse(self, *args):
        raise RuntimeError("XLA does not take it")

    f(x)
    monkeypatch.setattr(Program, "_compile", refuse)
    with pytest.raises(RuntimeError, match="XLA does not take it"):
        for _ in range(CALLS):
            f(x)
            dx.wait_for_compilations()
    monkeypatch.undo()
    np.testing.assert_allclose(f(x), 2 * np.sin(1.0), rtol=1e-6)


def test_a_program_is_compiled_under_the_options_of_its_calls(compiled):
    f = in_background(lambda x: x * 2 + 0.5)
    with dx.enable_x64():
        x = dnp.ones(30_000)
        while not (program := next(iter(f._cache.specializations.values()), None)) or not (
            program.program.uncompiled.requested
        ):
            assert f(x).dtype == np.float64
    dx.wait_for_compilations()
    assert len(compiled) == 1
    with dx.enable_x64():
        y = f(x)
    assert y._value is None and y.dtype == np.float64


def test_functions_that_are_gone_are_not_compiled(compiled, monkeypatch):
    from didax.runtime import background

    monkeypatch.setattr(background, "_start_worker", lambda: None)

    def called():
        f = in_background(lambda x: x * 3)
        for _ in range(CALLS):
            f(dnp.ones(30_000))

    called()
    gc.collect()
    assert len(background._waiting) == 1
    monkeypatch.undo()
    dx.wait_for_compilations()
    assert compiled == [] and not background._waiting


def test_keys_are_used_once_in_a_call():
    key = dx.random.key(0)
    f = in_background(lambda key: dx.random.uniform(key, (2,)))
    with dx.debug_key_reuse("error"):
        f(key)
        with pytest.raises(dx.errors.KeyReuseError):
            f(key)


def test_checks_of_values_look_at_compiled_programs():
    f = in_background(lambda x: dnp.log(x).sum())
    with dx.debug_nans(), pytest.raises(FloatingPointError):
        f(dnp.asarray([-1.0, 1.0]))


def test_a_program_that_calls_python_may_be_compiled_at_the_end_of_a_call(compiled, monkeypatch):
    seen: list[int] = []

    @in_background
    def f(x):
        dx.experimental.io_callback(lambda x: seen.append(int(x)), None, x)
        return x + 1

    def partition_for(self, args):  # which is asked when the call is to be remembered
        if self.jaxpr.name == "f":
            self.executable()
        return None

    assert f(0) == 1 and compiled == []
    with monkeypatch.context() as patched:
        patched.setattr(Program, "partition_for", partition_for)
        assert f(1) == 2 and compiled == ["f"]
    assert [int(f(i)) for i in (2, 3, 4)] == [3, 4, 5]
    assert seen == [0, 1, 2, 3, 4]
