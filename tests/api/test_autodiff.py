"""jvp, linearize, vjp, grad, Jacobians, linear_transpose: arguments, structures and dtypes of results."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import float0, lax
from tests.quickly import AS_USERS


class Params(NamedTuple):
    w: Any
    b: Any


def model(params, x):
    return dnp.tanh(x @ params.w + params.b).sum()


@pytest.fixture
def params():
    rng = np.random.default_rng(0)
    return Params(dnp.asarray(rng.normal(size=(3, 2)).astype("f4")), dnp.zeros(2))


@pytest.fixture
def x():
    return dnp.array([1.0, -2.0, 0.5])


def types_of(tree):
    return dx.tree.map(lambda y: (np.shape(y), np.asarray(y).dtype.name), tree)


# --- grad ---------------------------------------------------------------------------------------------------


def test_grad_has_the_structure_of_the_argument(params, x):
    g = dx.grad(model)(params, x)
    assert isinstance(g, Params)
    assert types_of(g) == types_of(params)
    slope = 1 - np.tanh(x @ params.w) ** 2
    np.testing.assert_allclose(g.b, slope, rtol=1e-5)
    np.testing.assert_allclose(g.w, np.outer(x, slope), rtol=1e-5)


@pytest.mark.parametrize(
    "argnums, wanted",
    [
        (0, 6.0),
        (1, 2.0),
        (-1, 12.0),
        ((0,), (6.0,)),
        ((0, 1), (6.0, 2.0)),
        ((2, 0), (12.0, 6.0)),
        ([1, -1], (2.0, 12.0)),
    ],
)
def test_argnums(argnums, wanted):
    f = lambda x, y, z: x * y + z**2 * 1.0
    g = dx.grad(f, argnums)(2.0, 6.0, 6.0)
    assert isinstance(g, tuple) == isinstance(wanted, tuple)
    np.testing.assert_allclose(np.array(g), wanted)


def test_keyword_arguments_are_passed_on():
    assert float(dx.grad(lambda x, *, k, n=3: x**n * k)(2.0, k=10.0)) == 120.0
    assert float(dx.grad(lambda x, *, k, n=3: x**n * k)(2.0, k=10.0, n=2)) == 40.0


def test_has_aux(x):
    f = lambda x: ((x**2).sum(), {"twice": 2 * x, "name": None})
    g, aux = dx.grad(f, has_aux=True)(x)
    np.testing.assert_allclose(g, 2 * x)
    np.testing.assert_allclose(aux["twice"], 2 * x)
    assert aux["name"] is None
    (value, aux), g = dx.value_and_grad(f, has_aux=True)(x)
    assert float(value) == 5.25
    _, f_vjp, aux = dx.vjp(f, x, has_aux=True)
    np.testing.assert_allclose(f_vjp(1.0)[0], 2 * x)
    _, out_dot, aux = dx.jvp(f, (x,), (x,), has_aux=True)
    assert float(out_dot) == 10.5
    _, f_lin, aux = dx.linearize(f, x, has_aux=True)
    assert float(f_lin(x)) == 10.5
    for jac in (dx.jacfwd, dx.jacrev):
        j, aux = jac(lambda x: (x**2, 2 * x), has_aux=True)(x)
        np.testing.assert_allclose(j, np.diag(2 * np.asarray(x)))
        np.testing.assert_allclose(aux, 2 * x)


def test_aux_that_is_no_array_stays_what_it_is(x):
    data = {"steps": 3, "name": "net", "host": np.ones(2), "none": None}
    f = lambda x: (x**2, {**data, "twice": 2 * x})
    for jac in (dx.jacfwd, dx.jacrev, functools.partial(dx.jacfwd, chunk_size=1)):
        _, aux = jac(f, has_aux=True)(x)
        assert all(aux[name] is data[name] for name in data)
        np.testing.assert_allclose(aux["twice"], 2 * x)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: dx.jit(f)], ids=["plain", "jit"])
def test_aux_carries_the_tangents_of_enclosing_transformations(wrap):
    inner = lambda x: dx.grad(wrap(lambda y: (y * x, x * x * y)), has_aux=True)(2.0)[1]
    assert float(dx.grad(inner)(3.0)) == 12.0
    inner = lambda x: dx.jvp(wrap(lambda y: (y * x, x * x * y)), (2.0,), (1.0,), has_aux=True)[2]
    assert float(dx.grad(inner)(3.0)) == 12.0
    np.testing.assert_array_equal(dx.vmap(inner)(dnp.arange(3.0)), [0, 2, 8])


def test_value_and_grad_keeps_the_value(params, x):
    value, _ = dx.value_and_grad(model)(params, x)
    np.testing.assert_allclose(value, model(params, x), rtol=1e-6)
    assert isinstance(value, dx.Array)
    _, (_, g1) = dx.value_and_grad(model, (0, 1))(params, x)
    assert g1.shape == (3,)


def test_allow_int():
    g = dx.grad(lambda n, x: x * n, argnums=(0, 1), allow_int=True)(3, 2.0)
    assert g[0].dtype == float0 and g[0].shape == ()
    assert float(g[1]) == 3.0
    tree = {"i": np.arange(3), "x": 2.0}
    g = dx.grad(lambda t: t["x"] * t["i"].sum(), allow_int=True)(tree)
    assert g["i"].dtype == float0 and g["i"].shape == (3,) and float(g["x"]) == 3.0


def test_holomorphic():
    g = dx.grad(lambda z: z**3, holomorphic=True)(1.0 + 2.0j)
    np.testing.assert_allclose(g, 3 * (1 + 2j) ** 2, rtol=1e-6)
    np.testing.assert_allclose(
        dx.jacfwd(dnp.sin, holomorphic=True)(dnp.array([1j, 1.0])), np.diag(np.cos([1j, 1.0])), rtol=1e-6
    )
    np.testing.assert_allclose(
        dx.jacrev(dnp.sin, holomorphic=True)(dnp.array([1j, 1.0])), np.diag(np.cos([1j, 1.0])), rtol=1e-6
    )


REAL_OF_COMPLEX = {
    "square of abs": lambda z: abs(z) ** 2,
    "real part": lambda z: (z * z).real,
    "two": lambda z: (z * z.conj()).real * z.imag,
}


@pytest.mark.parametrize("name", REAL_OF_COMPLEX)
def test_gradients_of_real_functions_of_complex_arguments_are_those_of_jax(name):
    import jax

    f = REAL_OF_COMPLEX[name]
    z, zs = np.complex64(1 + 2j), np.complex64([1 + 2j, 3 - 1j, 0.5j])
    wanted = jax.grad(f)(z)
    x_slope, y_slope = dx.grad(lambda x, y: f(x + 1j * y), (0, 1))(z.real, z.imag)
    np.testing.assert_allclose(wanted, complex(x_slope, -y_slope), rtol=1e-6)
    for g in (
        dx.grad(f),
        dx.jit(dx.grad(f)),
        dx.grad(dx.jit(f)),
        lambda z: dx.value_and_grad(f)(z)[1],
        dx.jacrev(f),
    ):
        found = g(z)
        assert found.dtype == np.complex64
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(dx.vmap(dx.grad(f))(zs), jax.vmap(jax.grad(f))(zs), rtol=1e-6)
    np.testing.assert_allclose(
        dx.grad(lambda z: f(z).sum())(zs), jax.grad(lambda z: f(z).sum())(zs), rtol=1e-6
    )
    np.testing.assert_allclose(dx.jacrev(f)(zs), jax.jacrev(f)(zs), rtol=1e-6)
    np.testing.assert_allclose(
        dx.grad(lambda z: abs(dx.grad(f)(z)))(z), jax.grad(lambda z: abs(jax.grad(f)(z)))(z), rtol=1e-5
    )


def test_gradients_of_real_and_complex_and_integer_arguments_together():
    tree = {"n": 3, "x": 2.0, "z": 1 + 2j}
    g = dx.grad(lambda t: t["n"] * t["x"] * abs(t["z"]) ** 2, allow_int=True)(tree)
    assert g["n"].dtype == float0 and float(g["x"]) == 15.0
    np.testing.assert_allclose(g["z"], 6 * (2 - 4j), rtol=1e-6)


def test_what_needs_holomorphic():
    """Complex results in reverse mode, complex arguments in forward mode; with it, all are complex."""
    square, modulus = lambda z: z * z, abs
    for transform, f, x in [
        (dx.grad, square, 1j), (dx.jacrev, square, 1j), (dx.jacrev, lambda x: x * 1j, 1.0),
        (dx.jacfwd, modulus, 1j), (dx.jacfwd, square, 1j), (dx.hessian, modulus, 1j),
    ]:  # fmt: skip
        with pytest.raises(TypeError, match="holomorphic=True"):
            transform(f)(x)
    for transform, f, x in [
        (dx.grad, modulus, 1j), (dx.jacrev, modulus, 1j), (dx.jacfwd, modulus, 1j), (dx.hessian, modulus, 1j),
        (dx.grad, square, 1.0), (dx.jacrev, square, 1.0), (dx.jacfwd, square, 1.0),
    ]:  # fmt: skip
        with pytest.raises(TypeError, match="holomorphic=True"):
            transform(f, holomorphic=True)(x)
    np.testing.assert_allclose(dx.jacfwd(lambda x: dnp.exp(1j * x))(0.0), 1j)
    np.testing.assert_allclose(dx.hessian(lambda z: z**3, holomorphic=True)(2j), 12j, rtol=1e-6)


def test_python_control_flow_on_values():
    @dx.grad
    def f(x):
        total = 0.0
        while total < 10:
            total = total + x * x if x > 0 else total + 1.0
        return total

    assert float(f(3.0)) == 12.0
    assert float(f(-3.0)) == 0.0


def test_grad_of_a_constant_is_zero():
    assert float(dx.grad(lambda x: 3.0)(1.0)) == 0.0
    g = dx.grad(lambda x: 3.0)(dnp.ones((2, 2)))
    np.testing.assert_array_equal(g, np.zeros((2, 2)))


def test_grad_stops_at_integers_and_comparisons(x):
    np.testing.assert_array_equal(
        dx.grad(lambda x: ((x > 0) * x).sum() + x.astype("int32").sum() * 1.0)(x), [1, 0, 1]
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_gradients_have_the_dtype_of_the_argument(dtype):
    with dx.enable_x64(dtype == "float64"):
        x = dnp.ones(3, dtype)
        assert dx.grad(lambda x: x.astype("float32").sum())(x).dtype == x.dtype
        assert dx.jvp(dnp.sin, (x,), (x,))[1].dtype == x.dtype


def test_weak_types_stay_weak():
    g = dx.grad(lambda x: x * x)(2.0)
    assert (g * dnp.ones(2, dnp.float16)).dtype == np.float16


def test_high_order():
    f = dnp.sin
    for k in range(1, 5):
        f = dx.grad(f)
        np.testing.assert_allclose(f(0.7), np.sin(0.7 + k * np.pi / 2), rtol=1e-5)


def test_perturbations_are_not_confused():
    assert float(dx.grad(lambda x: x * dx.grad(lambda y: x + y)(1.0))(1.0)) == 1.0
    assert float(dx.jvp(lambda x: x * dx.jvp(lambda y: x * y, (1.0,), (1.0,))[1], (2.0,), (1.0,))[1]) == 4.0
    assert float(dx.grad(lambda x: dx.grad(lambda y: x * y**2)(2.0) * x)(3.0)) == 24.0


def test_a_closure_over_an_outer_variable_differentiates_it():
    f = lambda x: dx.grad(lambda y: dnp.sin(x * y))(2.0)
    g = dx.grad(f)(3.0)
    np.testing.assert_allclose(g, np.cos(6.0) - 6 * np.sin(6.0), rtol=1e-5)


# --- jvp, linearize, vjp ------------------------------------------------------------------------------------


def test_jvp_of_pytrees(params, x):
    zeros = dx.tree.map(dnp.zeros_like, params)
    out, out_dot = dx.jvp(lambda p, x: {"y": x @ p.w, "b": p.b}, (params, x), (zeros, x))
    np.testing.assert_allclose(out_dot["y"], out["y"], rtol=1e-6)
    np.testing.assert_array_equal(out_dot["b"], [0, 0])


@pytest.mark.parametrize("transform", [dx.jit, lambda f: lambda x: dx.vmap(f)(x[None])[0]])
def test_arrays_of_float0_are_those_of_numpy_from_everywhere(transform):
    f = transform(dx.grad(lambda i: (i * 2.0).sum(), allow_int=True))
    for _ in range(2):
        g = f(np.arange(3))
        assert type(g) is np.ndarray and g.dtype == float0 and g.shape == (3,)
        assert (g == g).all()
    assert type(dx.jit(lambda x: (x, 1))(g)[0]) is np.ndarray
    assert dnp.asarray(g) is g


def test_jvp_of_integers_takes_and_gives_float0():
    _, y_dot = dx.jvp(lambda i, x: (i + 1, i * x), (3, 2.0), (np.zeros((), float0), 1.0))
    assert np.asarray(y_dot[0]).dtype == float0 and np.shape(y_dot[0]) == ()
    assert float(y_dot[1]) == 3.0


def test_linearize_repeats_no_work():
    calls = []

    def f(x):
        calls.append(x)
        return dnp.sin(x) * x

    _, f_lin = dx.linearize(f, 2.0)
    np.testing.assert_allclose(f_lin(1.0), np.cos(2.0) * 2 + np.sin(2.0), rtol=1e-6)
    np.testing.assert_allclose(f_lin(3.0), 3 * (np.cos(2.0) * 2 + np.sin(2.0)), rtol=1e-6)
    assert len(calls) == 1


def test_the_linear_function_can_itself_be_transformed(x):
    _, f_lin = dx.linearize(lambda x: dnp.sin(x) * x, x)
    slope = np.cos(x) * x + np.sin(x)
    np.testing.assert_allclose(dx.vmap(f_lin)(np.eye(3, dtype="f4")), np.diag(slope), rtol=1e-5)
    np.testing.assert_allclose(dx.jit(f_lin)(x), slope * x, rtol=1e-5)
    np.testing.assert_allclose(dx.grad(lambda t: f_lin(t).sum())(x), slope, rtol=1e-5)
    np.testing.assert_allclose(dx.linear_transpose(f_lin, x)(x)[0], slope * x, rtol=1e-5)


def test_vjp_of_several_arguments_and_results(params, x):
    _, f_vjp = dx.vjp(lambda p, x: {"y": x @ p.w, "x": x}, params, x)
    p_bar, x_bar = f_vjp({"y": dnp.ones(2), "x": dnp.zeros(3)})
    assert isinstance(p_bar, Params)
    np.testing.assert_array_equal(p_bar.b, [0, 0])
    np.testing.assert_allclose(p_bar.w, np.outer(x, np.ones(2)))
    np.testing.assert_allclose(x_bar, np.asarray(params.w).sum(1), rtol=1e-5)


def test_vjp_can_be_called_many_times_and_under_vmap(x):
    _, f_vjp = dx.vjp(lambda x: x * x, x)
    np.testing.assert_allclose(f_vjp(x)[0], f_vjp(x)[0])
    np.testing.assert_allclose(dx.vmap(f_vjp)(np.eye(3, dtype="f4"))[0], np.diag(2 * np.asarray(x)))
    np.testing.assert_allclose(dx.jit(f_vjp)(x)[0], 2 * x * x)


def test_vjp_with_integer_results_and_arguments():
    _, f_vjp = dx.vjp(lambda i, x: (i, x * i), 3, 2.0)
    i_bar, x_bar = f_vjp((np.zeros((), float0), 1.0))
    assert np.asarray(i_bar).dtype == float0
    assert float(x_bar) == 3.0


@pytest.mark.parametrize("ct", [7, 2.5, True, np.int32(3), np.zeros((), float0)])
def test_cotangents_of_integer_results_may_have_any_dtype(ct):
    """Nothing depends on them, so the results of the function are cotangents, too."""
    _, f_vjp = dx.vjp(lambda x: (x * 2.0, x > 0), np.float32(3.0))
    assert float(f_vjp((1.0, ct))[0]) == 2.0
    y, f_vjp = dx.vjp(lambda x: (x * x, dnp.floor(x).astype("int32")), np.float32([1.5, 2.5]))
    for run in (f_vjp, dx.jit(f_vjp)):
        np.testing.assert_allclose(run(y)[0], [2 * 1.5**3, 2 * 2.5**3])
    with pytest.raises(ValueError, match="a cotangent has the shape and dtype of its result"):
        f_vjp((y[0], 1))


def test_results_that_repeat_an_argument(x):
    _, f_vjp = dx.vjp(lambda x: (x, x, x + 0), x)
    np.testing.assert_array_equal(f_vjp((x, x, x))[0], 3 * x)
    _, (dot, _) = dx.jvp(lambda x: (x, 2.0), (x,), (x,))
    np.testing.assert_array_equal(dot, x)


def test_no_arguments():
    out, f_vjp = dx.vjp(lambda: 2.0)
    assert float(out) == 2.0 and f_vjp(1.0) == ()
    _, out_dot = dx.jvp(lambda: 2.0, (), ())
    assert float(out_dot) == 0.0


def test_complex_vjp_is_the_transpose_not_the_adjoint():
    z = dnp.array(1.0 + 2.0j)
    _, f_vjp = dx.vjp(lambda z: z * (2 + 3j), z)
    np.testing.assert_allclose(f_vjp(dnp.array(1.0 + 0j))[0], 2 + 3j)
    _, f_vjp = dx.vjp(dnp.real, z)
    np.testing.assert_allclose(f_vjp(1.0)[0], 1 + 0j)
    _, f_vjp = dx.vjp(dnp.imag, z)
    np.testing.assert_allclose(f_vjp(1.0)[0], -1j)
    g = dx.grad(lambda x: dnp.abs(x * (1 + 1j)) ** 2)(3.0)
    np.testing.assert_allclose(g, 12.0, rtol=1e-6)


# --- Jacobians ----------------------------------------------------------------------------------------------


def tree_function(m, p, x):
    return {"y": m.sin(x @ p.w), "z": (p.b * x[0], m.sum(x**2))}


@pytest.mark.parametrize("transform", ["jacfwd", "jacrev", "hessian"])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1,)])
def test_jacobians_of_pytrees_are_structured_as_jaxs(transform, argnums, params, x):
    import jax
    import jax.numpy as jnp

    found = getattr(dx, transform)(functools.partial(tree_function, dnp), argnums)(params, x)
    args = jax.tree.map(lambda y: jnp.asarray(np.asarray(y)), (Params(*params), x))
    wanted = getattr(jax, transform)(functools.partial(tree_function, jnp), argnums)(*args)
    flat, structure = jax.tree.flatten(wanted)
    found_flat, found_structure = jax.tree.flatten(found)
    assert found_structure == structure
    for a, b in zip(found_flat, flat, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_jacobians_of_scalars_and_empty_arrays():
    assert float(dx.jacfwd(lambda x: x**2)(3.0)) == float(dx.jacrev(lambda x: x**2)(3.0)) == 6.0
    assert float(dx.hessian(lambda x: x**3)(3.0)) == 18.0
    for jac in (dx.jacfwd, dx.jacrev):
        assert jac(lambda x: x * 2)(dnp.zeros((0, 2))).shape == (0, 2, 0, 2)


def test_jacobians_mix_dtypes():
    with dx.enable_x64(True):
        x = {"a": dnp.ones(2, "float32"), "b": dnp.ones(3, "float64")}
        f = lambda x: x["a"].astype("float64").sum() * x["b"]
        for jac in (dx.jacfwd, dx.jacrev):
            j = jac(f)(x)
            assert dx.tree.map(np.shape, j) == {"a": (3, 2), "b": (3, 3)}
            np.testing.assert_allclose(j["b"], 2 * np.eye(3))


def test_jacobians_under_jit_and_vmap(x):
    f = lambda x: dnp.sin(x) * x[0]
    j = dx.jacfwd(f)(x)
    np.testing.assert_allclose(dx.jit(dx.jacrev(f))(x), j, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx.vmap(dx.jacrev(f))(dnp.stack([x, x]))[1], j, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx.jacfwd(dx.jit(f))(x), j, rtol=1e-5, atol=1e-6)


def test_jacrev_allows_integers():
    j = dx.jacrev(lambda i, x: x * i, argnums=(0, 1), allow_int=True)(2, dnp.ones(2))
    assert np.asarray(j[0]).dtype == float0
    np.testing.assert_array_equal(j[1], 2 * np.eye(2))


# --- linear_transpose ---------------------------------------------------------------------------------------


def test_linear_transpose(x):
    a = np.arange(6.0, dtype="f4").reshape(2, 3)
    transposed = dx.linear_transpose(lambda x: dnp.asarray(a) @ x, x)
    np.testing.assert_allclose(transposed(dnp.ones(2))[0], a.sum(0))
    transposed = dx.linear_transpose(lambda t: {"s": t["u"] + 2 * t["v"], "u": t["u"]}, {"u": x, "v": x})
    (found,) = transposed({"s": x, "u": dnp.ones(3)})
    np.testing.assert_allclose(found["u"], x + 1)
    np.testing.assert_allclose(found["v"], 2 * x)


def test_what_linear_transpose_finds_known_python_may_look_at(x):
    def f(t):
        scale = float(dnp.arange(3.0).sum()) if dnp.ones(2).sum() > 1 else 0.0
        return scale * t * np.asarray(dnp.ones(3)) * dnp.nonzero(dnp.array([0, 1, 2]))[0].size

    for run in (f, dx.checkpoint(lambda t: 6.0 * t), dx.jit(lambda t: 6.0 * t)):
        np.testing.assert_array_equal(dx.linear_transpose(run, x)(x)[0], 6 * np.asarray(x))
    inner = dx.jit(lambda s: dx.linear_transpose(lambda t: dnp.sin(s) * t, x)(x)[0])
    np.testing.assert_allclose(inner(2.0), np.sin(2.0) * np.asarray(x), rtol=1e-6)


def test_linear_transpose_of_shapes_only():
    transposed = dx.linear_transpose(lambda x: x.sum() * 2.0, dx.ShapeDtypeStruct((3,), "float32"))
    np.testing.assert_array_equal(transposed(1.0)[0], [2, 2, 2])


def test_linear_transpose_of_jit(x):
    transposed = dx.linear_transpose(dx.jit(lambda x: x[::-1] * 3.0), x)
    np.testing.assert_allclose(transposed(x)[0], 3 * np.asarray(x)[::-1])


def test_linear_transpose_of_tangents_from_calls_and_loops(x):
    """The jvp of a call or a loop computes values and tangents in one; only the tangents are transposed."""
    f = lambda x: dnp.sin(x).sum()
    loop = lambda x: dx.lax.scan(lambda c, _: (dnp.sin(c), None), x, None, length=2)[0].sum()
    for function, wanted in (
        (dx.grad(lambda x: dx.grad(dx.jit(f))(x).sum()), -np.cos(x)),
        (dx.grad(loop), -np.sin(np.sin(x)) * np.cos(x) ** 2 - np.cos(np.sin(x)) * np.sin(x)),
    ):
        transposed = dx.linear_transpose(lambda t, f=function: dx.jvp(f, (x,), (t,))[1], x)
        np.testing.assert_allclose(dx.jit(transposed)(np.ones(3, "float32"))[0], wanted, rtol=1e-5)
    with pytest.raises(TypeError, match="Only functions that are linear"):
        dx.linear_transpose(dx.jit(lambda t: t * t), x)(x)


def _is_weak(f, *args):
    """The weak types of the results, which are the same eagerly, jitted and as types only."""
    found = [
        [bool(y.weak_type) for y in dx.tree.leaves(run(*args))]
        for run in (f, dx.jit(f), lambda *xs: dx.eval_shape(f, *xs))
    ]
    assert found[0] == found[1] == found[2]
    return found[0]


def _times(n, transformation, f):
    return f if n == 0 else transformation(_times(n - 1, transformation, f))


STRONG, WEAK = np.float32(2.0), 3.0


@pytest.mark.parametrize(
    ("f", "args", "weak"),
    [
        (lambda x: dx.grad(lambda z: z.real**2 + z.imag**2)(x), [3.0 + 4j], [False]),
        (lambda x: dx.grad(lambda z: 2.0 * WEAK, allow_int=True)(x), [3.0 + 4j], [True]),
        (lambda x: dx.grad(lambda z: z * dnp.float32(2))(x), [WEAK], [True]),
        (lambda x: dx.grad(lambda z: dnp.sin(z) + dnp.float32(2))(x), [WEAK], [True]),
        (lambda x: dx.grad(lambda z: dnp.where(z > 0, z, dnp.float32(2)))(x), [WEAK], [True]),
        (lambda x, y: dx.grad(dnp.dot)(x, y), [WEAK, STRONG], [True]),
        (
            lambda x, y: dx.grad(lambda a, b: dnp.dot(dnp.ravel(a), dnp.ravel(b)))(x, y),
            [WEAK, STRONG],
            [False],
        ),
        (lambda x: dx.grad(lambda z: dnp.stack([z, z])[0])(x), [WEAK], [False]),
        (lambda x, y: dx.vjp(dnp.sin, x)[1](y), [WEAK, STRONG], [False]),
        (lambda x, y: dx.vjp(dx.jit(dnp.sin), x)[1](y), [WEAK, STRONG], [False]),
        (lambda x, y: dx.vjp(dnp.sin, y)[1](x), [WEAK, STRONG], [False]),
        (lambda x, y: dx.jvp(dnp.sin, (x,), (y,)), [WEAK, STRONG], [True, True]),
        (lambda x, y: dx.jvp(dnp.add, (x, y), (x, y)), [WEAK, STRONG], [False, False]),
        (lambda x, y: dx.jvp(lambda z: z + y, (x,), (x,)), [WEAK, STRONG], [False, False]),
        (lambda x: dx.jacrev(lambda z: dnp.stack([z, z])[0])(x), [WEAK], [True]),
        (lambda x: dx.jacfwd(lambda z: z * dnp.float32(2))(x), [WEAK], [False]),
        (lambda x: _times(3, dx.grad, lambda z: dnp.sin(dnp.stack([z, 2 * z])).sum())(x), [WEAK], [True]),
        (lambda x: dx.grad(lambda z: dnp.split(dnp.stack([z, z]), 2)[1].sum())(x), [WEAK], [True]),
        (lambda x: dx.vjp(lambda z: dnp.unstack(dnp.stack([z, z]))[0], x)[1](x), [WEAK], [True]),
    ],
)
def test_derivatives_are_weakly_typed_where_jax_has_them_so(f, args, weak):
    assert _is_weak(f, *args) == weak


@pytest.mark.parametrize(
    "f",
    [
        dx.jit(dnp.sin),
        dx.checkpoint(dnp.sin),
        lambda x: dx.jit(lambda x: lax.cond(x > 0, dnp.sin, lambda x: 2.0 * x, x))(x),
        lambda x: lax.scan(lambda c, _: (dnp.sin(c), c), x, None, length=2)[0],
        lambda x: lax.fori_loop(0, 3, lambda i, x: dnp.sin(x), x),
    ],
    ids=["jit", "checkpoint", "cond", "scan", "fori_loop"],
)
def test_strong_cotangents_pass_through_programs_of_weak_types(f):
    assert _is_weak(lambda x, ct: dx.vjp(f, x)[1](ct), WEAK, STRONG) == [False]
    assert _is_weak(lambda x, ct: dx.vjp(f, x)[1](ct), WEAK, WEAK) == [True]


def test_linear_functions_of_one_function_have_one_structure():
    """However often it is linearised, eagerly or staged, at Python numbers or arrays."""

    def f(x, y):
        return dnp.sin(x) * y * 2.0

    structures = [
        dx.tree.structure(pull)
        for pull in (
            dx.vjp(f, 1.0, 5.0)[1],
            dx.vjp(f, 2.0, 2.0)[1],
            dx.vjp(f, dnp.asarray(1.0), dnp.asarray(3.0))[1],
            dx.jit(lambda x, y: dx.vjp(f, x, y)[1])(1.0, 2.0),
        )
    ]
    assert all(s == structures[0] and hash(s) == hash(structures[0]) for s in structures)
    assert dx.tree.structure(dx.vjp(lambda x, y: x * y, 1.0, 5.0)[1]) != structures[0]
    assert dx.tree.structure(dx.vjp(f, dnp.ones(3), 5.0)[1]) != structures[0]


@pytest.mark.parametrize("jitted", [False, True])
def test_linear_functions_are_results_of_branches_and_carries_of_loops(jitted):
    def f(x):
        return dnp.sin(x) * x

    def pull_at(p, x):
        return lax.cond(p, lambda x: dx.vjp(f, x + 1.0)[1], lambda x: dx.vjp(f, x)[1], x)(1.0)[0]

    def carried(x):
        last, _ = lax.scan(
            lambda push, _: (dx.linearize(f, push(x))[1], None), dx.linearize(f, x)[1], length=2
        )
        return last(1.0)

    wrap = dx.jit if jitted else lambda f: f
    derivative = dx.grad(f)
    np.testing.assert_allclose(wrap(pull_at)(True, 0.5), derivative(1.5), rtol=1e-6)
    once = 0.5 * derivative(0.5)
    np.testing.assert_allclose(wrap(carried)(0.5), derivative(0.5 * derivative(once)), rtol=1e-5)


@pytest.mark.ci
def test_jacobians_in_chunks_are_the_same_and_need_less_memory() -> None:
    """Peak memory is what the compiled program says of itself, compiled as users' programs are."""

    def f(p: Any) -> Any:
        x = dnp.concatenate([p["a"], p["b"].ravel()])
        for _ in range(3):
            x = dnp.tanh(dnp.cumsum(x) * x)
        return {"y": x * p["a"][0], "n": x.sum()}

    p = {"a": np.linspace(0, 1, 8).astype("float32"), "b": np.ones((2, 3), "float32")}
    energy = lambda p: f(p)["n"]
    cases = [(dx.jacfwd, f), (dx.jacrev, f), (dx.hessian, energy)]

    def every(p: Any, chunk_size: int | None) -> Any:
        return [jacobian(g, chunk_size=chunk_size)(p) for jacobian, g in cases]

    every = dx.jit(every, static_argnums=1)
    for size in (3, 14):
        dx.tree.map(
            functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6),
            every(p, size),
            every(p, None),
        )
    out, aux = dx.jacfwd(lambda x: (x**2, x.sum()), has_aux=True, chunk_size=2)(
        np.arange(3.0, dtype="float32")
    )
    np.testing.assert_array_equal(out, np.diag([0.0, 2.0, 4.0]))
    assert float(aux) == 3.0

    def temporaries(chunk_size: int | None) -> int:
        def g(x: Any) -> Any:
            rows = dnp.broadcast_to(x, (64, 256)) * dnp.arange(64.0)[:, None]
            return dnp.sort(dnp.sin(rows), 1).sum(0)

        jacobian = dx.jit(dx.jacfwd(g, chunk_size=chunk_size), compiler_options=AS_USERS)
        memory = jacobian.lower(np.ones(256, "float32")).compile().memory_analysis()
        return memory.temp_size_in_bytes

    assert temporaries(8) < temporaries(None) / 8


@pytest.mark.cpu
def test_columns_in_chunks_are_written_where_they_belong() -> None:
    """A chunked Jacobian in forward mode, or result along a later axis, is not stacked first and transposed then."""
    matrix = np.cos(np.arange(128.0 * 128, dtype="float32")).reshape(128, 128)
    f, x = lambda x: dnp.tanh(matrix @ x), np.ones(128, "float32")

    def temporaries(g: Any) -> int:
        compiled = dx.jit(g, compiler_options=AS_USERS).lower(x).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    mapped = lambda x: dx.vmap(lambda i: f(x * i), out_axes=1, chunk_size=5)(dnp.arange(128.0))
    energy = lambda x: f(x).sum()
    for g in (dx.jacfwd(f, chunk_size=8), dx.hessian(energy, chunk_size=8), mapped):
        assert temporaries(g) < matrix.nbytes / 2
    # derivatives and batches of it; chunks that do not divide the length
    x = np.linspace(0, 1, 7, dtype="float32")
    g = lambda x: dnp.stack([dnp.sin(x * x[::-1]), x**2], 1)
    for size in (2, 3):
        chunked, whole = dx.jacfwd(g, chunk_size=size), dx.jacfwd(g)
        for derivative in (dx.jacfwd, dx.jacrev):
            np.testing.assert_allclose(derivative(chunked)(x), derivative(whole)(x), rtol=1e-6)
        rows = np.stack([x, 2 * x])
        np.testing.assert_allclose(dx.vmap(chunked)(rows), dx.vmap(whole)(rows), rtol=1e-6)
        assert chunked(x).shape == (7, 2, 7)
    with pytest.raises(ValueError, match="axis 3"):
        dx.vmap(g, out_axes=3, chunk_size=2)(np.ones((4, 7)))


def test_cotangents_of_strong_results_are_strong():
    x = np.float32(1)
    for jit in (lambda f: f, dx.jit):
        assert not jit(lambda: dx.vjp(lambda x: 3.0 * x, x)[1](1.0)[0])().weak_type
        assert not jit(lambda: dx.linear_transpose(lambda x: 3.0 * x, x)(1.0)[0])().weak_type
        assert jit(lambda: dx.linear_transpose(lambda x: 3.0 * x, 1.0)(1.0)[0])().weak_type


def test_cotangents_that_are_numbers_of_numpy():
    """They have the default width, as arguments have; a float64 result takes them as they are."""
    two = np.float64(2)
    for x in (np.float32(1), dnp.ones((), "float64")):
        assert dx.vjp(lambda x: 3 * x, x)[1](two)[0].dtype == x.dtype

    @dx.custom_vjp
    def f(x):
        return 3 * x

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (two,))
    assert dx.grad(f)(1.0) == 2


def test_jacobians_at_a_number_of_numpy() -> None:
    x = np.float64(0.5)
    for derivative in (dx.jacfwd(lambda x: x**2), dx.jacrev(lambda x: x**2), dx.hessian(lambda x: x**3 / 3)):
        assert derivative(x).dtype == np.float32 and float(derivative(x)) == 1
