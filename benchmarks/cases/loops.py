"""Compiled loops: small bodies, many carries, recurrent nets, ODEs, sampling, updates in place, early exits.

Where only Didax has the function (a `while_loop` that reverse mode runs through), JAX runs what its users write
instead: a scan of the greatest length, whose steps do nothing once the condition no longer holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from benchmarks.cases import Library, both
from benchmarks.harness import Case, Sampler, repeated, wait

Program = Callable[..., Any]


def _normal(*shape: int, seed: int = 0, scale: float = 1.0) -> numpy.ndarray[Any, Any]:
    return numpy.random.default_rng(seed).standard_normal(shape, numpy.float32) * numpy.float32(scale)


def _case(
    name: str,
    title: str,
    program: Callable[[Library], Program],
    args: Callable[[], Sequence[Any]],
    budget: float = 1.0,
) -> Case:
    def build(lib: Library) -> Sampler:
        f = lib.api.jit(program(lib))
        arrays = [lib.np.asarray(x) for x in args()]
        return repeated(lambda: wait(f(*arrays)))

    return Case(f"loop.{name}", title, both(build), budget)


# --- Small bodies ---------------------------------------------------------------------------------


def _tiny(lib: Library) -> Program:
    return lambda x: lib.api.lax.scan(lambda c, _: (c * 0.999 + 0.001, None), x, None, length=10_000)[0]


def _carries(count: int) -> Callable[[Library], Program]:
    """The gradient of 614 steps of as many scalars, each of which meets its neighbour."""

    def program(lib: Library) -> Program:
        np = lib.np

        def step(c: tuple[Any, ...], x: Any) -> tuple[tuple[Any, ...], Any]:
            moved = tuple(np.tanh(a * 0.9 + b * x) for a, b in zip(c, (*c[1:], c[0]), strict=True))
            return moved, moved[0]

        def loss(start: Any, xs: Any) -> Any:
            _, ys = lib.api.lax.scan(step, tuple(start[i] for i in range(count)), xs)
            return np.sum(ys)

        return lib.api.grad(loss)

    return program


def _mandelbrot(lib: Library) -> Program:
    def steps(c: Any) -> Any:
        def inside(state: Any) -> Any:
            n, z = state
            return (n < 100) & (lib.np.real(z) ** 2 + lib.np.imag(z) ** 2 < 4.0)

        return lib.api.lax.while_loop(inside, lambda s: (s[0] + 1, s[1] * s[1] + c), (0, c * 0.0))[0]

    # The mean, because at the edge of the set a count depends on the last bit.
    return lambda plane: lib.np.mean(lib.api.vmap(steps)(plane))


def _plane() -> Sequence[Any]:
    x, y = numpy.meshgrid(numpy.linspace(-2, 0.5, 64), numpy.linspace(-1.2, 1.2, 64))
    return [(x + 1j * y).astype(numpy.complex64).ravel()]


# --- Recurrent nets -------------------------------------------------------------------------------


def _lstm(lib: Library) -> Program:
    np, nn = lib.np, lib.api.nn

    def step(weights: Any, state: Any, x: Any) -> Any:
        h, c = state
        gates = np.concatenate([x, h], 1) @ weights
        i, f, g, o = np.split(gates, 4, 1)
        c = nn.sigmoid(f + 1.0) * c + nn.sigmoid(i) * np.tanh(g)
        return (nn.sigmoid(o) * np.tanh(c), c), None

    def loss(weights: Any, xs: Any) -> Any:
        zero = np.zeros((xs.shape[1], weights.shape[1] // 4), xs.dtype)
        (h, _), _ = lib.api.lax.scan(lambda s, x: step(weights, s, x), (zero, zero), xs)
        return np.sum(h**2)

    return loss


def _rnn(lib: Library) -> Program:
    np = lib.np

    def loss(w: Any, u: Any, xs: Any) -> Any:
        zero = np.zeros((xs.shape[1], w.shape[0]), xs.dtype)
        h, _ = lib.api.lax.scan(lambda h, x: (np.tanh(h @ w + x @ u), None), zero, xs)
        return np.sum(h**2)

    return loss


def _gradient(program: Callable[[Library], Program]) -> Callable[[Library], Program]:
    def build(lib: Library) -> Program:
        return lib.api.grad(program(lib), (0, 1))

    return build


def _lstm_args() -> Sequence[Any]:
    return [_normal(64, 128, scale=0.1), _normal(1000, 8, 32, seed=1)]


def _rnn_args() -> Sequence[Any]:
    return [_normal(32, 32, scale=0.1), _normal(16, 32, seed=1), _normal(1000, 8, 16, seed=2)]


# --- Differential equations and sampling ----------------------------------------------------------


def _ode(lib: Library) -> Program:
    """A Lotka-Volterra system by the classical Runge-Kutta method, 1,000 steps, and its gradient."""
    np = lib.np

    def slope(p: Any, y: Any) -> Any:
        return np.stack([y[0] * (p[0] - p[1] * y[1]), y[1] * (p[2] * y[0] - p[3])])

    def step(p: Any, y: Any) -> Any:
        h = 0.01
        a = slope(p, y)
        b = slope(p, y + 0.5 * h * a)
        c = slope(p, y + 0.5 * h * b)
        d = slope(p, y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d)

    def loss(p: Any, y: Any) -> Any:
        return np.sum(lib.api.lax.fori_loop(0, 1000, lambda _, y: step(p, y), y) ** 2)

    return lib.api.grad(loss)


def _hmc(lib: Library) -> Program:
    """Hamiltonian Monte Carlo: 64 chains, 100 draws of 10 leapfrog steps, in 16 dimensions."""
    np, lax, random = lib.np, lib.api.lax, lib.api.random

    def energy(q: Any) -> Any:
        return 0.5 * np.sum(q**2) + 0.25 * np.sum(q**4)

    force = lib.api.grad(energy)

    def leapfrog(state: Any, _: Any) -> Any:
        q, p = state
        p = p - 0.05 * force(q)
        q = q + 0.1 * p
        return (q, p - 0.05 * force(q)), None

    def draw(q: Any, noise: Any) -> Any:
        p, threshold = noise
        (q_new, p_new), _ = lax.scan(leapfrog, (q, p), None, length=10)
        gain = energy(q) + 0.5 * np.sum(p**2) - energy(q_new) - 0.5 * np.sum(p_new**2)
        q = np.where(threshold < gain, q_new, q)
        return q, np.sum(q)

    def chain(seed: Any, q: Any) -> Any:
        momenta, thresholds = random.split(random.key(seed))
        noise = random.normal(momenta, (100, 16)), np.log(random.uniform(thresholds, (100,)))
        return lax.scan(draw, q, noise)[1]

    return lib.api.vmap(chain)


# --- Updates in place -----------------------------------------------------------------------------


def _growth(n: int) -> Callable[[Library], Sampler]:
    """Time of 2n updates of 2n elements over that of n updates of n: 2 where an update costs what it writes."""

    def build(lib: Library) -> Sampler:
        def fill(x: Any) -> Any:
            return lib.api.lax.fori_loop(0, x.shape[0], lambda i, x: x.at[i].set(x[i - 1] + 1.0), x)

        f = lib.api.jit(fill)
        arrays = [lib.np.zeros(size, "float32") for size in (n, 2 * n)]

        def once(x: Any) -> float:
            begin = time.perf_counter()
            wait(f(x))
            return time.perf_counter() - begin

        def seconds(x: Any) -> float:
            return min(once(x) for _ in range(5))

        for x in arrays:
            seconds(x)
        return Sampler(lambda: seconds(arrays[1]) / seconds(arrays[0]))

    return build


# --- Early exits ----------------------------------------------------------------------------------


def _newton(lib: Library) -> Program:
    """The derivative of a fixed point that takes some 60 of up to 1,000 steps."""
    np, lax = lib.np, lib.api.lax

    def step(w: Any, state: Any) -> Any:
        x, _ = state
        moved = np.tanh(w @ x) * 0.8 + 0.1
        return moved, np.max(np.abs(moved - x))

    def far(state: Any) -> Any:
        return state[1] > 1e-5

    def bounded(w: Any, state: Any) -> Any:
        return lax.while_loop(far, lambda s: step(w, s), state, max_steps=1000)

    def masked(w: Any, state: Any) -> Any:
        advance = lambda s, _: (lax.cond(far(s), lambda s: step(w, s), lambda s: s, s), None)
        return lax.scan(advance, state, None, length=1000)[0]

    run = bounded if lib.api.__name__ == "didax" else masked
    return lib.api.grad(lambda w, x: np.sum(run(w, (x, np.float32(1)))[0] ** 2))


CASES = [
    _case("tiny", "scan, tiny body, 10,000 steps", _tiny, lambda: [numpy.float32(0.5)]),
    _case("carries16", "gradient of 614 steps of 16 scalars", _carries(16),
          lambda: [_normal(16), _normal(614, scale=0.1)], 0.3),
    _case("carries60", "gradient of 614 steps of 60 scalars", _carries(60),
          lambda: [_normal(60), _normal(614, scale=0.1)], 0.3),
    _case("lstm", "LSTM, 1,000 steps, batch 8, forward", _lstm, _lstm_args, 0.7),
    _case("lstm_grad", "LSTM, 1,000 steps, batch 8, gradient", _gradient(_lstm), _lstm_args, 0.7),
    _case("rnn", "RNN, 1,000 steps, batch 8, forward", _rnn, _rnn_args, 0.7),
    _case("rnn_grad", "RNN, 1,000 steps, batch 8, gradient", _gradient(_rnn), _rnn_args, 0.7),
    _case("ode", "Runge-Kutta, 1,000 steps, gradient", _ode,
          lambda: [numpy.array([1.1, 0.4, 0.1, 0.4], "float32"), numpy.array([10, 5], "float32")]),
    _case("mandelbrot", "Mandelbrot set, 64 x 64, while_loop under vmap", _mandelbrot, _plane),
    _case("hmc", "Hamiltonian Monte Carlo, 64 chains", _hmc,
          lambda: [numpy.arange(64, dtype=numpy.int32), _normal(64, 16)]),
    Case("loop.updates", "400,000 updates in place, over 200,000", both(_growth(200_000)), 2.3, True, "x"),
    _case("newton", "gradient of a bounded while, 60 of 1,000 steps", _newton,
          lambda: [_normal(64, 64, scale=0.08), _normal(64, seed=1)]),
]  # fmt: skip
