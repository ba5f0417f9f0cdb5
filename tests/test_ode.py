"""odeint: order of convergence, derivatives in both modes against finite differences and jax, failures."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from jax.experimental import ode as jax_ode

import didax as dx
import didax.numpy as dnp
from didax.experimental import ode
from didax.experimental.ode import odeint
from tests.checks import assert_close, numerical_jvp, pairing, random_like

T = np.array([0.0, 0.4, 1.5])


def spring(y, t, k, drag):
    """A damped spring, with a push that depends on t."""
    return {"x": y["v"], "v": -k * y["x"] - drag["c"] * y["v"] * t}


Y0 = {"x": np.asarray(1.0), "v": np.array([0.5])[0]}
ARGS = (np.asarray(2.0), {"c": np.asarray(0.3)})


def total(solve, numpy):
    """One number made of all outputs."""

    def loss(y0, t, *args):
        ys = solve(spring, y0, t, *args)
        return sum(numpy.sum(numpy.sin(y) * numpy.arange(1, len(T) + 1)) for y in jax.tree.leaves(ys))

    return loss


LOSS = total(odeint, dnp)


def test_values_are_those_of_jax_and_scipy(x64):
    ys = odeint(spring, Y0, T, *ARGS)
    theirs = jax_ode.odeint(spring, jax.tree.map(jnp.asarray, Y0), T, *ARGS)
    assert_close(ys, jax.tree.map(np.asarray, theirs), rtol=2e-7)
    f = lambda t, y: [y[1], -2 * y[0] - 0.3 * y[1] * t]
    exact = scipy.integrate.solve_ivp(f, (0, 1.5), [1, 0.5], "DOP853", T, rtol=1e-12, atol=1e-13).y
    assert_close((ys["x"], ys["v"]), tuple(exact), rtol=1e-7)
    backward = odeint(spring, {k: y[-1] for k, y in ys.items()}, T[::-1].copy(), *ARGS)
    assert_close(backward["x"][::-1], ys["x"], rtol=1e-7)


def test_the_order_of_convergence_is_five(x64, monkeypatch):
    """With steps of fixed length, errors fall by 2**5 where the length is halved."""

    def fixed(n):
        everything = ode._Options(1e30, 1e30, np.inf, 1.0 / n)
        field, start, _, moved, others = ode._field(
            lambda y, t: y * dnp.cos(t), 1.0, dnp.array([0.0, 1.0]), ()
        )
        (y,) = ode._integrate(field, everything, start, dnp.array([0.0, 1.0]), moved, others)
        return abs(float(y[1]) - np.exp(np.sin(1.0)))

    errors = np.array([fixed(n) for n in (16, 32, 64)])
    orders = np.log2(errors[:-1] / errors[1:])
    assert np.all((orders > 4.6) & (orders < 5.6)), orders


def test_tolerances_bound_the_error(x64):
    exact = np.exp(-np.linspace(0, 3, 4))
    for tol in (1e-3, 1e-6, 1e-9):
        y = odeint(lambda y, t: -y, 1.0, np.linspace(0, 3, 4), rtol=tol, atol=tol)
        assert np.abs(np.asarray(y) - exact).max() < 5 * tol


def test_gradients_are_those_of_jax(x64):
    mine = dx.grad(LOSS, (0, 1, 2, 3))(Y0, T, *ARGS)
    theirs = jax.grad(total(jax_ode.odeint, jnp), (0, 1, 2, 3))(jax.tree.map(jnp.asarray, Y0), T, *ARGS)
    assert_close(mine, jax.tree.map(np.asarray, theirs), rtol=1e-6)


def test_modes_and_finite_differences_agree(x64):
    primals, rng = (Y0, T, *ARGS), np.random.default_rng(0)
    tangents = random_like(rng, primals)
    _, forward = dx.jvp(LOSS, primals, tangents)
    reverse = pairing(dx.grad(LOSS, (0, 1, 2, 3))(*primals), tangents)
    numerical, _ = numerical_jvp(LOSS, primals, tangents, eps=1e-9)
    assert_close(np.asarray([forward, reverse]), np.full(2, numerical), rtol=1e-6)


def test_second_derivatives(x64):
    """Of y(1) = 1 / (1 + k), reverse over reverse and forward over reverse."""

    def loss(k):
        return odeint(lambda y, t, k: -k * y * y, 1.0, dnp.array([0.0, 1.0]), k)[-1]

    assert_close(dx.jit(dx.grad(dx.grad(loss)))(1.0), np.asarray(0.25), rtol=1e-6)
    assert_close(dx.hessian(loss)(1.0), np.asarray(0.25), rtol=1e-6)


def test_transformations(x64):
    loss = lambda k: LOSS(Y0, T, k, ARGS[1])
    ks = np.array([1.0, 2.0])
    wanted = np.array([float(dx.grad(loss)(k)) for k in ks])
    assert_close(dx.grad(lambda ks: dnp.sum(dx.vmap(loss)(ks)))(ks), wanted, rtol=1e-6)
    assert_close(dx.jit(dx.vmap(dx.jit(dx.grad(loss))))(ks), wanted, rtol=1e-6)
    looped = dx.grad(lambda ks: dx.lax.scan(lambda c, k: (c + loss(k), None), 0.0, ks)[0])(ks)
    assert_close(looped, wanted, rtol=1e-6)


def test_what_the_function_closes_over_is_differentiated(x64):
    def closed(k):
        return odeint(lambda y, t: -k * y, 1.0, T)[-1]

    assert_close(dx.jit(dx.grad(closed))(0.5), np.asarray(-1.5 * np.exp(-0.75)), rtol=1e-7)
    assert_close(dx.jacfwd(closed)(0.5), np.asarray(-1.5 * np.exp(-0.75)), rtol=1e-7)


def test_complex_and_several_precisions(x64):
    y = odeint(lambda y, t: 1j * y, np.complex128(1.0), T)
    assert_close(y, np.exp(1j * T), rtol=1e-7)
    w_bar = dx.grad(lambda w: odeint(lambda y, t: 1j * w * y, np.complex128(1.0), T)[-1].real)(2.0)
    assert_close(w_bar, np.asarray(-1.5 * np.sin(3.0)), rtol=1e-6)
    low = odeint(lambda y, t: -y, np.float32([1.0]), np.float32(T))
    assert_close(low[:, 0], np.exp(-np.float32(T)), rtol=2e-6)


def test_one_time_and_equal_times():
    assert_close(odeint(lambda y, t: y, 2.0, dnp.array([1.0])), np.float32([2.0]))
    assert float(dx.grad(lambda y: odeint(lambda y, t: y, y, dnp.array([1.0]))[0])(2.0)) == 1.0
    assert_close(odeint(lambda y, t: y, 2.0, dnp.array([1.0, 1.0])), np.float32([2.0, 2.0]))


def test_failure_is_nan_and_ends():
    """A pole, a slope that is NaN, and too few steps."""
    late = odeint(lambda y, t: y * y, 1.0, dnp.array([0.0, 0.5, 2.0, 3.0]))
    np.testing.assert_allclose(late[:2], [1.0, 2.0], rtol=1e-4)
    assert np.isnan(late[2:]).all()
    assert np.isnan(odeint(lambda y, t: y * dnp.nan, 1.0, dnp.array([0.0, 1.0]))[1])
    assert np.isnan(odeint(lambda y, t: y, 1.0, dnp.array([0.0, 1.0]), mxstep=2)[1])


def test_what_cannot_be_integrated_is_refused():
    with pytest.raises(TypeError, match=r"integrates floating(?s:.*)y0\['n'\]: int32\[\]"):
        odeint(lambda y, t: y, {"n": 1}, T)
    with pytest.raises(TypeError, match=r"time derivative(?s:.*)y0: float32\[\]; func returned float32\[2\]"):
        odeint(lambda y, t: dnp.zeros(2), 1.0, T)
    with pytest.raises(ValueError, match=r"rank 1(?s:.*)t: float32\[\]"):
        odeint(lambda y, t: y, 1.0, 2.0)
