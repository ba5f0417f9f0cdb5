"""custom_root, fixed_point and root: derivatives of solutions, whatever finds them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.experimental.implicit import fixed_point, root
from tests.checks import assert_close, check_grads


def bisection(f, x0):
    """A solver no derivative goes through."""

    def halve(ends):
        low, high = ends
        middle = (low + high) / 2
        return dnp.where(f(middle) < 0, middle, low), dnp.where(f(middle) < 0, high, middle)

    def wide(ends):
        return ends[1] - ends[0] > 1e-14

    return sum(lax.while_loop(wide, halve, (x0 - 3.0, x0 + 3.0))) / 2


def cube_root(a):
    return lax.custom_root(lambda x: x**3 - a, 1.5, bisection, lambda g, y: y / g(1.0))


FORMS = {
    "eager": lambda f: f,
    "jit": dx.jit,
    "vmap": lambda f: lambda a: dx.vmap(f)(a[None])[0],
    "scan": lambda f: lambda a: lax.scan(lambda c, x: (c + f(x), None), dnp.zeros_like(a), a[None])[0],
    "cond": lambda f: lambda a: lax.cond(a > 100, lambda a: a, f, a),
}


@pytest.mark.parametrize("form", FORMS)
def test_derivatives_of_a_root_to_the_third_order(x64, form):
    f = FORMS[form](cube_root)
    a = dnp.float64(5.0)
    for derivative in (dx.grad, dx.jacfwd):
        assert_close(derivative(f)(a), np.asarray(5 ** (-2 / 3) / 3), rtol=1e-10)
    assert_close(dx.grad(dx.grad(f))(a), np.asarray(-2 / 9 * 5 ** (-5 / 3)), rtol=1e-10)
    assert_close(dx.jacfwd(dx.grad(f))(a), np.asarray(-2 / 9 * 5 ** (-5 / 3)), rtol=1e-10)
    assert_close(dx.grad(dx.jacfwd(dx.grad(f)))(a), np.asarray(10 / 27 * 5 ** (-8 / 3)), rtol=1e-10)


def test_a_root_over_pytrees_with_auxiliary_data(x64):
    def solve(a):
        def newton(f, x):
            for _ in range(8):
                x = {"u": x["u"] - f(x)["u"] / (2 * x["u"]), "v": x["v"]}
            x = {"u": x["u"], "v": -x["u"] * a}
            return x, {"steps": 8, "size": dnp.sum(x["u"])}

        def tangent(g, y):
            return {
                "u": y["u"] / g({"u": 1.0, "v": 0.0})["u"],
                "v": y["v"] - a * y["u"] / g({"u": 1.0, "v": 0.0})["u"],
            }

        return lax.custom_root(
            lambda x: {"u": x["u"] ** 2 - a, "v": x["v"] + a * x["u"]},
            {"u": 1.0, "v": 0.0},
            newton,
            tangent,
            True,
        )

    x, aux = solve(4.0)
    assert_close(x, {"u": np.asarray(2.0), "v": np.asarray(-8.0)})
    assert (int(aux["steps"]), float(aux["size"])) == (8, 2.0)
    grads = dx.jacrev(lambda a: solve(a)[0])(4.0)
    assert_close(grads, {"u": np.asarray(0.25), "v": np.asarray(-3.0)})
    assert float(dx.grad(lambda a: solve(a)[1]["size"])(4.0)) == 0.0


def test_jax_agrees():
    def f(lib, np_, loop, a):
        newton = lambda f, x: loop.fori_loop(0, 9, lambda _, x: x - f(x) / lib.grad(f)(x), x)
        return loop.custom_root(lambda x: np_.exp(x) - a * np_.sin(a), 0.0, newton, lambda g, y: y / g(1.0))

    for transform in (
        lambda lib, f: f,
        lambda lib, f: lib.grad(f),
        lambda lib, f: lib.jvp(f, (2.0,), (3.0,)),
    ):
        ours = transform(dx, lambda a: f(dx, dnp, lax, a))
        theirs = transform(jax, lambda a: f(jax, jax.numpy, jax.lax, a))
        ours, theirs = [x(2.0) if callable(x) else x for x in (ours, theirs)]
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5)


W = np.array([[0.2, 0.4], [-0.3, 0.1]])


def settle(w, b):
    x = fixed_point(lambda x: {"h": dnp.tanh(w @ x["h"] + b)}, {"h": np.zeros(2)})
    return x["h"]


def test_fixed_point(x64):
    b = np.array([0.5, -1.0])
    x = np.asarray(settle(W, b))
    assert_close(x, np.tanh(W @ x + b), rtol=1e-14)
    j = (1 - x**2)[:, None] * W
    assert_close(dx.jacrev(settle, 1)(W, b), np.linalg.solve(np.eye(2) - j, np.diag(1 - x**2)))
    check_grads(dx.jit(settle), (W, b))
    batch = dx.vmap(dx.grad(lambda w, b: dnp.sum(settle(w, b))), (0, None))(np.stack([W, W.T]), b)
    assert_close(batch[1], dx.grad(lambda w, b: dnp.sum(settle(w, b)))(W.T, b))


def test_iterations_that_do_not_converge_give_nan():
    assert dnp.isnan(fixed_point(lambda x: 2 * x + 1, 1.0, max_steps=30))
    assert dnp.isnan(root(lambda x: x**2 + 1, 1.0))
    assert dnp.isnan(fixed_point(lambda x: x * dnp.nan, 1.0))


def test_root_of_several_unknowns(x64):
    def meet(r, s):
        return root(lambda p: (p[0] ** 2 + p[1] @ p[1] - r**2, p[1] - s * p[0]), (1.0, np.ones(2)))

    r, s = np.asarray(3.0), np.array([2.0, 2.0])
    assert_close(meet(r, s), (np.asarray(1.0), s))
    check_grads(meet, (r, s))
    assert_close(dx.vmap(meet, (None, 0))(r, s[None])[1], s[None])


def test_what_the_functions_return_is_checked():
    with pytest.raises(
        TypeError, match=r"The f of custom_root(?s:.*)_guess: float32\[\]; f returned float32\[2\]"
    ):
        root(lambda x: dnp.array([x, x]), 1.0)
    with pytest.raises(
        TypeError, match=r"The tangent_solve of custom_root(?s:.*)tangent_solve returned float32\[1\]"
    ):
        f = lambda a: lax.custom_root(lambda x: x - a, 1.0, lambda f, x: x, lambda g, y: y[None])
        dx.jvp(f, (1.0,), (1.0,))
    with pytest.raises(TypeError, match=r"custom_root solves for floating(?s:.*)initial_guess: int32"):
        root(lambda x: x, 1)
