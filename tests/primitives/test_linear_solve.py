"""custom_linear_solve: the derivatives of a solution, whatever finds it, under every transformation."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.checks import assert_close, assert_round_trips, check_grads, first

RNG = np.random.default_rng(0)
A = (RNG.normal(size=(3, 3)) + 4 * np.eye(3)).astype("float32")
B = RNG.normal(size=3).astype("float32")
MANY_A = np.stack([A, A.T + np.eye(3, dtype="float32")])
MANY_B = np.stack([B, 2 * B])


def jacobi(diagonal):
    """A solver with a while_loop, through which reverse mode does not go."""

    def solve(matvec, b):
        def step(state):
            i, x = state
            return i + 1, x + (b - matvec(x)) / diagonal

        return lax.while_loop(lambda s: s[0] < 60, step, (0, dnp.zeros_like(b)))[1]

    return solve


def by_iteration(a, b):
    solve = jacobi(dnp.diagonal(a))
    return lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)


def twice(a, b):
    return by_iteration(a.T, by_iteration(a, b))


def in_scan(a, b):
    return lax.scan(lambda x, _: (by_iteration(a, x), x), b, None, length=2)[0]


def in_cond(a, b):
    return lax.cond(dnp.sum(b) < 100, by_iteration, lambda a, b: b, a, b)


def direct(a, b):
    return dnp.linalg.solve(a, b)


FUNCTIONS = {
    "once": (by_iteration, direct),
    "twice": (twice, lambda a, b: direct(a.T, direct(a, b))),
    "scan": (in_scan, lambda a, b: direct(a, direct(a, b))),
    "cond": (in_cond, direct),
}


def sum_of_squares(f):
    return lambda *args: dnp.sum(f(*args) ** 2)


TRANSFORMED = {
    "itself": lambda f: f(A, B),
    "vmap-b": lambda f: dx.vmap(f, (None, 0))(A, MANY_B),
    "vmap-both": lambda f: dx.vmap(f, (0, 1), 1)(MANY_A, MANY_B.T),
    "jvp": lambda f: dx.jvp(f, (A, B), (A.T, B))[1],
    "jacrev": lambda f: dx.jacrev(f, (0, 1))(A, B),
    "grad": lambda f: dx.grad(sum_of_squares(f), (0, 1))(A, B),
    "vmap-grad": lambda f: dx.vmap(dx.grad(sum_of_squares(f), (0, 1)))(MANY_A, MANY_B),
    "grad-vmap": lambda f: dx.grad(sum_of_squares(dx.vmap(f)), (0, 1))(MANY_A, MANY_B),
    "hessian": lambda f: dx.hessian(sum_of_squares(f), 1)(A, B),
    "jvp-grad": lambda f: dx.jvp(dx.grad(sum_of_squares(f)), (A, B), (A.T, B))[1],
    "grad-jit": lambda f: dx.grad(sum_of_squares(dx.jit(f)))(A, B),
}


@pytest.mark.parametrize("case", first(FUNCTIONS))
def test_every_transformation_is_that_of_the_solution(case):
    """In one program, and for one of the functions at once as well."""
    f, wanted = FUNCTIONS[case]
    compiled = dx.jit(lambda: {name: transformed(f) for name, transformed in TRANSFORMED.items()})()
    for name, transformed in TRANSFORMED.items():
        assert_close(compiled[name], transformed(wanted), rtol=2e-4, what=name)
        if f is by_iteration:
            assert_close(transformed(f), compiled[name], rtol=1e-4, what=name)


def test_derivatives_of_both_orders(x64):
    check_grads(by_iteration, (A.astype("float64"), B.astype("float64")))


def test_pytrees_and_auxiliary_data():
    def f(s, b):
        def solve(matvec, b):
            return {"u": (b["u"][0] / 3,), "v": b["v"] / s}, {"steps": 1, "norm": dnp.sum(matvec(b)["v"])}

        return lax.custom_linear_solve(
            lambda x: {"u": (3 * x["u"][0],), "v": s * x["v"]}, b, solve, symmetric=True, has_aux=True
        )

    b = {"u": (np.float32(6),), "v": np.float32([2, 4])}
    x, aux = f(2.0, b)
    assert_close(x, {"u": (np.float32(2),), "v": np.float32([1, 2])})
    assert (int(aux["steps"]), float(aux["norm"])) == (1, 12.0)
    grads = dx.grad(lambda s, b: dnp.sum(f(s, b)[0]["v"]), (0, 1))(2.0, b)
    assert_close(grads, (np.float32(-1.5), {"u": (np.float32(0),), "v": np.float32([0.5, 0.5])}))
    _, aux_dot = dx.jvp(lambda s: f(s, b), (2.0,), (1.0,))[1]
    assert float(aux_dot["norm"]) == 0.0
    batched = dx.vmap(f, (0, None))(np.float32([1, 2]), b)
    assert batched[0]["u"][0].shape == (2,)
    assert batched[1]["norm"].shape == (2,)


def test_complex_systems_are_transposed_not_conjugated():
    a = A[:2, :2] + 1j * A[1:, 1:]
    b = B[:2] + 1j * B[1:]

    def f(a, b):
        return lax.custom_linear_solve(
            lambda x: a @ x, b, lambda _, b: direct(a, b), lambda _, b: direct(a.T, b)
        )

    y_bar = np.complex64([1, 2j])
    assert_close(dx.vjp(f, a, b)[1](y_bar), dx.vjp(direct, a, b)[1](y_bar), rtol=1e-4)


def test_the_solver_of_the_transpose_is_given_the_transpose():
    def check(vecmat, b):
        return direct(dx.jacfwd(vecmat)(b), b)

    def f(b):
        return lax.custom_linear_solve(lambda x: A @ x, b, lambda matvec, b: direct(A, b), check)

    assert_close(dx.jacrev(f)(B), np.linalg.inv(A), rtol=1e-4)


def test_jax_agrees():
    def f(lax, solve, a, b):
        return lax.custom_linear_solve(
            lambda x: a @ x, b, lambda _, b: solve(a, b), lambda _, b: solve(a.T, b)
        )

    got = dx.vjp(lambda a, b: f(lax, direct, a, b), A, B)
    want = jax.vjp(lambda a, b: f(jax.lax, jax.numpy.linalg.solve, a, b), A, B)
    assert_close(got[0], np.asarray(want[0]), rtol=1e-5)
    assert_close(got[1](B), [np.asarray(x) for x in want[1](B)], rtol=1e-4)


def test_the_jaxpr_reads_back():
    jaxpr = dx.make_jaxpr(
        lambda b: lax.custom_linear_solve(lambda x: 2 * x, b, lambda _, b: b / 2, symmetric=True)
    )
    assert_round_trips(jaxpr(B))
    assert "linear_solve" in str(jaxpr(B))


# --- Errors -------------------------------------------------------------------------------------------------


def test_reverse_mode_without_a_transposed_solver():
    f = lambda b: lax.custom_linear_solve(lambda x: 2 * x, b, lambda _, b: b / 2)
    assert_close(dx.jvp(f, (B,), (B,))[1], B / 2)
    with pytest.raises(ValueError, match=r"no solver was given(?s:.*)float32\[3\](?s:.*)transpose_solve="):
        dx.jacrev(f)(B)


@pytest.mark.parametrize(
    ("matvec", "solve", "text"),
    [
        (lambda x: x[:2], lambda _, b: b, r"The matvec(?s:.*)b: float32\[3\]; matvec returned float32\[2\]"),
        (lambda x: x, lambda _, b: (b, b), r"The solve(?s:.*)in the result of solve"),
        (lambda x: x, lambda _, b: b.astype("float16"), r"solve returned float16\[3\]"),
    ],
)
def test_results_unlike_the_right_hand_side(matvec, solve, text):
    with pytest.raises(TypeError, match=text):
        lax.custom_linear_solve(matvec, B, solve)


def test_integers_and_missing_pairs():
    with pytest.raises(TypeError, match=r"floating-point(?s:.*)b\['k'\]: int32\[2\](?s:.*)astype"):
        lax.custom_linear_solve(lambda x: x, {"k": np.int32([1, 2])}, lambda _, b: b)
    with pytest.raises(TypeError, match=r"has_aux=True the solve of(?s:.*)returned"):
        lax.custom_linear_solve(lambda x: x, B, lambda _, b: b, has_aux=True)
    with pytest.raises(ValueError, match="not in its operator"):
        dx.linear_transpose(lambda a: lax.custom_linear_solve(lambda x: a * x, B, lambda _, b: b / a), B)(B)
