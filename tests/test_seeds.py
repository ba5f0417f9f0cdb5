"""The printed results of Autodidax, parts 3 to 5: jit, linearize, vjp, grad and cond, in 64 bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import grad, jit, jvp, linearize, vjp, vmap
from didax.core.jaxpr_parse import parse_jaxpr
from didax.lax import cond
from didax.numpy import cos, sin
from didax.transforms.jvp import jvp_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr

F = Callable[..., object]


@pytest.fixture(autouse=True)
def in_64_bits() -> Iterator[None]:
    with dx.enable_x64(True):
        yield


def assert_is(found: object, wanted: object) -> None:
    """Equal to the last bit or two: the printed results come from another version of XLA."""
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=4e-16, atol=0)
    assert np.asarray(found).dtype == np.float64


def f(x):
    y = sin(x) * 2.0
    z = -y + x
    return z


def deriv(f: F) -> F:
    return lambda x: jvp(f, (x,), (1.0,))[1]


# --- Part 3: jit --------------------------------------------------------------------------------------------


def test_a_jitted_function_is_traced_once(capsys):
    @jit
    def f(x, y):
        print("tracing!")
        return sin(x) * cos(y)

    assert_is(f(3.0, 4.0), -0.09224219304455371)
    assert capsys.readouterr().out == "tracing!\n"
    assert_is(f(4.0, 5.0), -0.21467624978306993)
    assert capsys.readouterr().out == ""


def test_jit_of_a_reduction():
    @jit
    def f(x):
        return dnp.sum(x, axis=0)

    assert_is(f(np.array([1.0, 2.0, 3.0])), 6.0)


def test_jit_of_a_second_derivative():
    assert_is(deriv(deriv(f))(3.0), 0.2822400161197344)
    assert_is(jit(deriv(deriv(f)))(3.0), 0.2822400161197344)


def test_jvp_and_vmap_of_jit_trace_once(capsys):
    @jit
    def f(x):
        print("tracing!")
        y = sin(x) * 2.0
        z = -y + x
        return z

    x, xdot = 3.0, 1.0
    for _ in range(2):
        y, ydot = jvp(f, (x,), (xdot,))
        assert_is(y, 2.7177599838802657)
        assert_is(ydot, 2.979984993200891)
    assert capsys.readouterr().out == "tracing!\n"
    ys = vmap(f, (0,))(np.arange(3.0))
    np.testing.assert_allclose(ys, [0.0, -0.68294197, 0.18140515], atol=5e-9)


def test_results_of_jit_duck_type_ndarray():
    y = jit(f)(3.0)
    assert isinstance(y, dx.Array)
    assert (y.dtype, y.shape, y.ndim) == (np.float64, (), 0)
    assert str(y) == "2.7177599838802657"
    assert_is(-y, -2.7177599838802657)
    assert_is(y + 1.0, 3.7177599838802657)
    assert_is(1.0 + y, 3.7177599838802657)
    assert_is(2.0 * y, 2 * 2.7177599838802657)
    assert bool(y > 2.0) and not bool(y < 2.0)


# --- Part 4: linearize, vjp, grad ---------------------------------------------------------------------------

# "Partial evaluation unzips one computation into two": the function, its jvp, and the jvp's two halves.
SIN_NEG = """\
{ lambda ; a:f64[]. let
    b:f64[] = sin a
    c:f64[] = neg b
  in (c,) }"""
JVP = """\
{ lambda ; a:f64[] b:f64[]. let
    c:f64[] = sin a
    d:f64[] = cos a
    e:f64[] = mul b d
    f:f64[] = neg c
    g:f64[] = neg e
  in (f, g) }"""
KNOWN = """\
{ lambda ; a:f64[]. let
    b:f64[] = sin a
    c:f64[] = cos a
    d:f64[] = neg b
  in (d, c) }"""
UNKNOWN = """\
{ lambda ; a:f64[] b:f64[]. let
    c:f64[] = mul b a
    d:f64[] = neg c
  in (d,) }"""


def test_the_jaxprs_of_partial_evaluation():
    jaxpr = dx.make_jaxpr(lambda x: -sin(x))(np.float64(3.0)).jaxpr
    assert str(jaxpr) == SIN_NEG
    derivative, nonzero = jvp_jaxpr(jaxpr, (True,))
    assert str(derivative) == JVP and nonzero == (True,)
    split = partial_eval_jaxpr(derivative, (False, True))
    assert str(split.known) == KNOWN
    assert str(split.unknown) == UNKNOWN
    assert split.unknown_out == (False, True)
    assert str(parse_jaxpr(JVP)) == JVP


def test_python_control_flow_under_grad():
    g = grad(lambda x: x**2 if x > 0 else 0.0)
    assert_is(g(3.0), 6.0)
    assert_is(g(-3.0), 0.0)


def test_linearize():
    y, sin_lin = linearize(sin, 3.0)
    assert_is(y, 0.1411200080598672)
    assert_is(sin(3.0), 0.1411200080598672)
    assert_is(sin_lin(1.0), -0.9899924966004454)
    assert_is(cos(3.0), -0.9899924966004454)


def test_linearize_of_jit():
    y, f_lin = linearize(jit(f), 3.0)
    assert_is(y, 2.7177599838802657)
    assert_is(f_lin(1.0), 2.979984993200891)


def test_linearize_of_jit_of_jit():
    @jit
    def f(x):
        y = sin(x) * 2.0
        z = g(x, y)
        return z

    @jit
    def g(x, y):
        return cos(x) + y

    y, f_lin = linearize(f, 3.0)
    assert_is(y, -0.7077524804807109)
    assert_is(f_lin(1.0), -2.121105001260758)


def test_vjp():
    _, f_vjp = vjp(sin, 3.0)
    (x_bar,) = f_vjp(1.0)
    assert_is(x_bar, -0.9899924966004454)


def test_grad():
    assert_is(grad(f)(3.0), 2.979984993200891)


def test_grad_of_jit_of_jit():
    @jit
    def f(x):
        y = x * 2.0
        z = g(y)
        return z

    @jit
    def g(x):
        return cos(x) * 2.0

    assert_is(grad(f)(3.0), 1.1176619927957034)


# The composability stress test: nested jits, with closures over tracers, inside jvp.
def foo(x):
    @jit
    def bar(y):
        def baz(w):
            q = jit(lambda x: y)(x)
            q = q + jit(lambda: y)()
            q = q + jit(lambda y: w + y)(y)
            q = jit(lambda w: jit(sin)(x) * y)(1.0) + q
            return q

        p, t = jvp(baz, (x + 1.0,), (y,))
        return t + (x * p)

    return bar(x)


BOTH = pytest.mark.parametrize("f", [f, foo])


def foo_by_hand(x):
    """`foo` written out: the tangent of baz along y is y itself."""
    return x + x * (4 * x + 1 + np.sin(x) * x)


def assert_allclose(*vals):
    for v1, v2 in itertools.pairwise(vals):
        np.testing.assert_allclose(v1, v2)


def test_foo_is_what_it_says():
    assert_allclose(foo(3.0), foo_by_hand(3.0))
    assert_allclose(grad(foo)(3.0), 1 + 8 * 3 + 1 + 2 * 3 * np.sin(3) + 9 * np.cos(3))
    assert_allclose(grad(grad(foo))(3.0), 8 + 2 * np.sin(3) + 12 * np.cos(3) - 9 * np.sin(3))


@BOTH
def test_four_ways_to_the_value(f):
    ans1 = f(3.0)
    ans2 = jit(f)(3.0)
    ans3, _ = jvp(f, (3.0,), (5.0,))
    ans4, _ = jvp(jit(f), (3.0,), (5.0,))
    assert_allclose(ans1, ans2, ans3, ans4)


@BOTH
def test_five_derivatives(f):
    deriv1 = grad(f)(3.0)
    deriv2 = grad(jit(f))(3.0)
    deriv3 = jit(grad(jit(f)))(3.0)
    _, deriv4 = jvp(f, (3.0,), (1.0,))
    _, deriv5 = jvp(jit(f), (3.0,), (1.0,))
    assert_allclose(deriv1, deriv2, deriv3, deriv4, deriv5)


@BOTH
def test_seven_hessians(f):
    hess1 = grad(grad(f))(3.0)
    hess2 = grad(grad(jit(f)))(3.0)
    hess3 = grad(jit(grad(f)))(3.0)
    hess4 = jit(grad(grad(f)))(3.0)
    _, hess5 = jvp(grad(f), (3.0,), (1.0,))
    _, hess6 = jvp(jit(grad(f)), (3.0,), (1.0,))
    _, hess7 = jvp(grad(jit(f)), (3.0,), (1.0,))
    assert_allclose(hess1, hess2, hess3, hess4, hess5, hess6, hess7)


# --- Part 5: cond -------------------------------------------------------------------------------------------


def test_cond():
    out = cond(True, lambda: 3, lambda: 4)
    assert str(out) == "3"


def test_jvp_of_cond():
    _, out_tan = jvp(lambda x: cond(True, lambda: x * x, lambda: 0.0), (1.0,), (1.0,))
    assert_is(out_tan, 2.0)


def test_vmap_of_cond():
    xs = np.array([1.0, 2.0, 3])
    out = vmap(lambda x: cond(True, lambda: x + 1.0, lambda: 0.0), (0,))(xs)
    assert_is(out, [2.0, 3.0, 4.0])


def test_jit_of_cond():
    out = jit(lambda: cond(False, lambda: 1, lambda: 2))()
    assert str(out) == "2"


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_linearize_of_cond(wrap):
    _, f_lin = linearize(wrap(lambda x: cond(True, lambda: x, lambda: 0.0)), 1.0)
    assert_is(f_lin(3.14), 3.14)


def test_grad_of_cond():
    out = grad(lambda x: cond(True, lambda: x * x, lambda: 0.0))(1.0)
    assert_is(out, 2.0)
