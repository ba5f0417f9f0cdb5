"""Iterative solvers against direct ones: values, derivatives, transformations, pytrees, misuse."""

from __future__ import annotations

import inspect

import jax.scipy.sparse.linalg
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.experimental import sparse
from didax.scipy.sparse import linalg
from tests.checks import assert_close, check_vjp

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(6, 6)) + 4 * np.eye(6)
SYMMETRIC = SQUARE @ SQUARE.T
B = RNG.normal(size=6)
METHODS = {"cg": SYMMETRIC, "bicgstab": SQUARE, "gmres": SQUARE}


@pytest.mark.parametrize("name", METHODS)
def test_values_and_derivatives(x64: None, name: str) -> None:
    a = METHODS[name]

    def solve(a, b):
        a = (a + a.T) / 2 if name == "cg" else a
        return getattr(linalg, name)(lambda v: a @ v, b, tol=1e-13)[0]

    check_vjp(dx.jit(solve), (a, B), RNG)
    found, wanted = [dx.jvp(f, (a, B), (a * a, B)) for f in (solve, dnp.linalg.solve)]
    assert_close(found, wanted, rtol=1e-9)
    batch = dx.vmap(solve, (None, 0))(a, np.stack([B, 0 * B, -B]))
    assert_close(batch, np.linalg.solve(a, np.stack([B, 0 * B, -B]).T).T, rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_guesses_preconditioners_and_limits(x64: None, name: str) -> None:
    a, method = METHODS[name], getattr(linalg, name)
    x = np.linalg.solve(a, B)
    assert_close(method(a, B, x0=x, maxiter=0)[0], x)
    assert_close(method(a, B, x0=B, tol=1e-13)[0], x, rtol=1e-9)
    assert_close(method(a, B, M=np.linalg.inv(a), maxiter=2, tol=1e-12)[0], x, rtol=1e-9)
    assert_close(method(a, B, atol=1e9)[0], 0 * B)
    mine, theirs = [inspect.signature(f).parameters for f in (method, getattr(jax.scipy.sparse.linalg, name))]
    assert [(p.name, p.default) for p in mine.values()] == [(p.name, p.default) for p in theirs.values()]


@pytest.mark.parametrize("name", METHODS)
def test_systems_that_are_not_finite_have_no_solution(name: str) -> None:
    a, b = METHODS[name].astype("float32"), B.astype("float32")
    systems = [
        (a, b * [np.nan, 1, 1, 1, 1, 1]),
        (a, b * [np.inf, 1, 1, 1, 1, 1]),
        (a * np.nan, b),
        (a, b * 1e30),
    ]
    matrices, sides = [np.stack(x).astype("float32") for x in zip(*systems, (a, b), strict=True)]
    x = dx.vmap(lambda a, b: getattr(linalg, name)(a, b)[0])(matrices, sides)
    assert np.isnan(x).all(1).tolist() == [True] * 4 + [False]


@pytest.mark.parametrize("name", METHODS)
def test_complex_systems_over_pytrees(name: str) -> None:
    a = (METHODS[name] + 1j * (SQUARE - SQUARE.T)).astype("complex64")
    b = (B + 1j * B[::-1]).astype("complex64")

    def matvec(x):
        whole = a @ dnp.concatenate([x["u"], x["v"].ravel()])
        return {"u": whole[:2], "v": whole[2:].reshape(2, 2)}

    x, info = getattr(linalg, name)(matvec, {"u": b[:2], "v": b[2:].reshape(2, 2)}, tol=1e-6)
    wanted = np.linalg.solve(a, b)
    assert_close(x, {"u": wanted[:2], "v": wanted[2:].reshape(2, 2)}, rtol=1e-3)
    assert info is None


def test_gmres_restarts_and_ends_early(x64: None) -> None:
    assert_close(linalg.gmres(SQUARE, B, restart=2, tol=1e-12)[0], np.linalg.solve(SQUARE, B), rtol=1e-8)
    assert_close(linalg.gmres(2 * np.eye(6), B)[0], B / 2)


@pytest.mark.parametrize("name", METHODS)
def test_sparse_matrices_are_operators(x64: None, name: str) -> None:
    a = METHODS[name] * (np.abs(np.subtract.outer(np.arange(6), np.arange(6))) < 2)
    a += 9 * np.eye(6)
    solve = lambda matrix, b: getattr(linalg, name)(matrix, b, tol=1e-12)[0]
    for kind in (sparse.BCOO, sparse.BCSR):
        matrix = kind.fromdense(a)
        assert_close(dx.jit(solve)(matrix, B), np.linalg.solve(a, B), rtol=1e-8)
    matrix = sparse.BCOO.fromdense(a)
    slope = dx.grad(lambda data: solve(sparse.BCOO((data, matrix.indices), shape=(6, 6)), B).sum())(
        matrix.data
    )
    wanted = dx.grad(lambda a: dnp.linalg.solve(a, B).sum())(dnp.asarray(a))
    assert_close(slope, np.asarray(wanted)[tuple(np.asarray(matrix.indices).T)], rtol=1e-6)
    with pytest.raises(ValueError, match=r"square matrix as A(?s:.*)A: BCOO\(float64\[2, 3\]"):
        linalg.cg(sparse.BCOO.fromdense(np.ones((2, 3))), np.ones(3))


def test_misuse() -> None:
    with pytest.raises(ValueError, match=r"square matrix as A(?s:.*)A: float32\[2,3\]"):
        linalg.cg(np.ones((2, 3)), np.ones(3))
    with pytest.raises(
        ValueError, match=r"The guess of gmres(?s:.*)b\['k'\]: float32\[2\], in x0 float32\[3\]"
    ):
        linalg.gmres(lambda x: x, {"k": np.ones(2)}, {"k": np.ones(3)})
    with pytest.raises(ValueError, match=r"solve_method: 'other'"):
        linalg.gmres(np.eye(2), np.ones(2), solve_method="other")
