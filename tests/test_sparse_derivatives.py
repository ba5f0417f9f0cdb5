"""Sparse Jacobians and Hessians: patterns hold every entry, and are tight where programs are local."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import didax as dx
import didax.numpy as dnp
from didax import lax, tree
from didax.experimental.sparse_derivatives import sparse_hessian, sparse_jacobian
from didax.passes import colouring
from tests.checks import is_inexact
from tests.operations.row import Operation
from tests.test_operations import ROWS, mode_for

DIFFERENTIABLE = [(family, row) for family, row in ROWS if row.differentiable and "float64" in row.dtypes]
QUICK = {row.name for family, row in DIFFERENTIABLE if zlib.crc32(f"{row.name}{family}".encode()) % 11 == 0}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=() if row.name in QUICK else pytest.mark.slow, id=f"{family}-{row.name}")
        for family, row in DIFFERENTIABLE
    ],
)
def test_every_entry_is_in_the_pattern(row: Operation) -> None:
    with mode_for("float64"):
        args = row.args(np.random.default_rng(0), np.dtype("float64"))
        chosen = [i for i, x in enumerate(args) if row.argnums is None or i in row.argnums]
        for i in [i for i in chosen if all(map(is_inexact, tree.leaves(args[i])))]:

            def f(x: Any, i: int = i) -> Any:
                out = tree.leaves(row.fun(*args[:i], x, *args[i + 1 :]))
                return [y for y in out if dnp.issubdtype(y.dtype, dnp.floating)]

            if not f(args[i]):
                continue
            size = sum(np.size(x) for x in tree.leaves(args[i]))
            outs = f(args[i])
            dense = _matrix(tree.leaves(dx.jacfwd(f)(args[i])), outs, tree.leaves(args[i]))
            jacobian = sparse_jacobian(f)
            assert dense.shape == (sum(y.size for y in outs), size)
            assert not (dense != 0)[~jacobian.sparsity(args[i]).toarray()].any()
            np.testing.assert_allclose(jacobian(args[i]).toarray(), dense, rtol=1e-9, atol=1e-12)


def _matrix(blocks: list[Any], outs: list[Any], args: list[Any]) -> Any:
    """The blocks of a Jacobian, a row of them for each output, as one matrix."""
    shaped = [
        np.asarray(b).reshape(y.size, np.size(x))
        for b, (y, x) in zip(blocks, product(outs, args), strict=True)
    ]
    return np.block([shaped[k : k + len(args)] for k in range(0, len(shaped), len(args))])


N = 6
BANDED = np.diag(np.full(N, 2.0, "float32")) + np.diag(np.ones(N - 1, "float32"), 1)
TIGHT: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: dnp.sin(x) * x + dnp.exp(x),
    "differences": lambda x: x[1:] ** 2 - x[:-1],
    "rolled": lambda x: x * dnp.roll(x, 2),
    "gathered": lambda x: x[np.array([4, 0, 0, 2])] ** 2,
    "written": lambda x: x.at[2].set(3.0).at[np.array([0, 5])].add(x[:2]),
    "dynamic": lambda x: lax.dynamic_slice(x * 2, (np.int32(1),), (3,)),
    "chosen by values": lambda x: dnp.where(x > 0.3, x, 2 * x[::-1]),
    "sums of rows": lambda x: (x.reshape(3, 2) ** 2).sum(1),
    "largest of rows": lambda x: x.reshape(3, 2).max(1),
    "banded matrix": lambda x: BANDED @ dnp.sin(x),
    "convolution": lambda x: dnp.convolve(x**2, np.array([1.0, 2.0, 1.0], "float32"), "same"),
    "running sum": lambda x: dnp.cumsum(x**2),
    "scan with a carry": lambda x: lax.scan(lambda c, y: (y, c * y), x[0] * 0 + 1, x)[1],
    "fori_loop": lambda x: lax.fori_loop(1, N, lambda i, y: y.at[i].multiply(x[i - 1]), x),
    "branches": lambda x: lax.cond(x.sum() > 0, lambda x: x**2, lambda x: x * 3, x),
    "jit": dx.jit(lambda x: dx.jit(dnp.tanh)(x[1:]) * x[:-1]),
    "stop_gradient": lambda x: x * lax.stop_gradient(x[0]),
    "a gradient": dx.grad(lambda x: (x[1:] * x[:-1] ** 2).sum()),
    "constant": lambda x: dnp.floor(x),
}


@dx.custom_jvp
def _straight(x: Any) -> Any:
    return dnp.round(x)


_straight.defjvp(lambda primals, tangents: (_straight(primals[0]), tangents[0][::-1] * primals[0]))


@dx.custom_vjp
def _mirrored(x: Any) -> Any:
    return dnp.round(x)


_mirrored.defvjp(lambda x: (_mirrored(x), x), lambda x, ct: (ct[::-1] * x,))

TIGHT |= {
    "rule of tangents": lambda x: _straight(x),
    "rule of cotangents": lambda x: _mirrored(x) + x,
    "rules under vmap": lambda x: dx.vmap(_straight)(x.reshape(2, 3)).ravel(),
    "rules in a loop": lambda x: lax.scan(lambda c, _: (_mirrored(c), None), x + 1, None, length=2)[0],
    "scalars chosen by values": lambda x: lax.select_n(x > 0.3, x[0], x[1]),
    "imaginary part of a transform": lambda x: dnp.fft.irfft(lax.complex(0 * x[:3], x[:3]), n=4),
    "products of matrices": lambda x: (x.reshape(2, 3) @ x[::-1].reshape(3, 2)).ravel(),
    "products of batches": lambda x: dnp.einsum(
        "bji,bj->ib", x.reshape(3, 2, 1), x[::-1].reshape(3, 2)
    ).ravel(),
    "sorted rows": lambda x: dnp.sort(x.reshape(2, 3), axis=1).ravel(),
    "largest of columns": lambda x: lax.top_k(x.reshape(3, 2), 2, axis=0)[0].ravel(),
    "largest of windows": lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID"),
}

# What depends on values counts as there, and a running sum on all of its axis.
ONES = np.ones((N, N), bool)
WIDER = {
    "chosen by values": np.eye(N, dtype=bool) | np.eye(N, dtype=bool)[::-1],
    "largest of rows": np.kron(np.eye(3, dtype=bool), np.ones((1, 2), bool)),
    "running sum": ONES,
    "scalars chosen by values": np.arange(N) < np.full((N, 1), 2),
    "imaginary part of a transform": np.arange(N) < np.full((4, 1), 3),
    "sorted rows": np.kron(np.eye(2, dtype=bool), np.ones((3, 3), bool)),
    "largest of columns": np.kron(np.ones((2, 3), bool), np.eye(2, dtype=bool)),
    "largest of windows": np.kron(np.eye(3, dtype=bool), np.ones((1, 2), bool)),
}


def test_patterns_are_tight_where_programs_are_local() -> None:
    """For these functions the pattern is the set of entries that differ from zero at a point without zeros."""
    x = np.linspace(0.1, 0.9, N).astype("float32")

    def dense(x: Any) -> Any:
        return {name: dx.jacfwd(f)(x) for name, f in TIGHT.items()}

    for name, want in dx.jit(dense)(x).items():
        want = np.asarray(want)
        jacobian = sparse_jacobian(TIGHT[name])
        found = jacobian.sparsity(x).toarray()
        np.testing.assert_array_equal(found, WIDER.get(name, want != 0), err_msg=name)
        np.testing.assert_allclose(jacobian(x).toarray(), want, rtol=1e-6, err_msg=name)


def test_refs_and_other_changing_values_are_no_constants() -> None:
    """The pattern is found once, so it may not depend on what a Ref holds at that time."""
    x = np.ones(N, "float32")
    matrix, start = dx.new_ref(dnp.zeros((N, N))), dx.new_ref(0)
    products = sparse_jacobian(lambda x: matrix[...] @ x)
    reads = sparse_jacobian(lambda x: lax.dynamic_slice(x, (start[...],), (2,)))
    assert not products(x).toarray().any()
    np.testing.assert_array_equal(reads(x).toarray(), np.eye(N)[:2])
    matrix[...], start[...] = dnp.asarray(BANDED), 3
    np.testing.assert_array_equal(products(x).toarray(), BANDED)
    np.testing.assert_array_equal(reads(x).toarray(), np.eye(N)[3:5])


def test_a_band_of_a_thousand_takes_few_passes() -> None:
    counts: list[int] = []

    @dx.custom_jvp
    def counted(x: Any) -> Any:
        return x * 1

    @counted.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        dx.debug.callback(lambda t: counts.append(1), tangents[0])
        return primals[0], tangents[0]

    def f(x: Any) -> Any:
        x = counted(x)
        padded = dnp.pad(x, 2)
        return sum(dnp.sin(padded[i : i + 1000]) * x for i in range(5))

    x = np.linspace(0, 1, 1000).astype("float32")
    jacobian = sparse_jacobian(f)
    assert jacobian.passes(x) == 5
    found = jacobian(x)
    dx.effects_barrier()
    assert len(counts) == 5
    assert found.format == "csr"
    assert found.nnz == 4994
    _, column = dx.jvp(f, (x,), (np.eye(1000, dtype="float32")[500],))
    np.testing.assert_allclose(found[:, [500]].toarray()[:, 0], column, rtol=1e-6)
    energy = sparse_hessian(lambda x: (dnp.diff(x) ** 4).sum())
    assert energy.passes(x) == 3
    v = np.cos(x)
    wanted = dx.jvp(dx.grad(lambda x: (dnp.diff(x) ** 4).sum()), (x,), (v,))[1]
    np.testing.assert_allclose(energy(x) @ v, wanted, rtol=1e-4, atol=1e-7)


def test_many_small_products_take_as_many_passes_as_one() -> None:
    """Forces on the nodes of each of a thousand elements, whose stiffness depends on their places."""

    def forces(x: Any) -> Any:
        places = x.reshape(1000, 3)
        stiffness = dnp.cos(places[:, :, None] - places[:, None]) + dnp.eye(3)
        return dnp.einsum("bij,bj->bi", stiffness, places).ravel()

    x = np.linspace(0, 1, 3000).astype("float32")
    jacobian = sparse_jacobian(forces)
    assert jacobian.passes(x) == 3
    small = sparse_jacobian(lambda x, weights: (weights @ x.reshape(4, 2, 1)).ravel())
    assert small.passes(x[:8], np.ones((4, 2, 2), "float32")) == 2  # the weights are known when it is called
    np.testing.assert_array_equal(
        small(x[:8], np.ones((4, 2, 2), "float32")).toarray(), np.kron(np.eye(4), np.ones((2, 2)))
    )


def test_full_rows_and_columns_take_few_passes() -> None:
    x = np.linspace(0.1, 1, 300).astype("float32")
    arrow = lambda x: (x[0] * dnp.sin(x[1:])).sum() + (x**4).sum()
    assert sparse_hessian(arrow).passes(x) == 2
    np.testing.assert_allclose(sparse_hessian(arrow)(x).toarray(), dx.hessian(arrow)(x), rtol=1e-5, atol=1e-6)
    borders = lambda x: dnp.concatenate([(x**2).sum()[None], x[1:] * x[0], dnp.cos(x).sum()[None]])
    for f in (borders, lambda x: dnp.concatenate([x[0] * x[:-1] + x[1], x[2:]])):
        jacobian = sparse_jacobian(f)
        assert jacobian.passes(x) <= 4
        np.testing.assert_allclose(jacobian(x).toarray(), dx.jacfwd(f)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_every_colouring_finds_every_entry(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    m = int(rng.integers(1, 25))
    dense = rng.random((m, n)) < rng.choice([0.05, 0.2, 0.5])
    dense[: int(rng.integers(2))] = True
    dense[:, : int(rng.integers(2))] = True
    values = np.where(dense, rng.integers(1, 99, (m, n)), 0)
    for colour in (colouring.by_columns, colouring.by_rows, colouring.by_both, _cheapest):
        assert_found(values, colour(csr_array(dense)), dense)
    k = min(m, n)
    symmetric = values[:k, :k] + values[:k, :k].T
    wider = (symmetric != 0) | dense[::-1, ::-1][:k, :k]  # a pattern may have entries that vanish
    found = colouring.symmetric(csr_array(wider))
    assert_found(symmetric, found, wider)
    graph = csr_array(symmetric != 0)
    assert not any(graph[v, w] and found.columns[v] == found.columns[w] for v in range(k) for w in range(v))


def _cheapest(pattern: Any) -> colouring.Colouring:
    found = colouring.cheapest(pattern, is_symmetric=False)
    others = (colouring.by_columns, colouring.by_rows, colouring.by_both)
    assert found.passes <= min(colour(pattern).passes for colour in others)
    return found


def assert_found(values: Any, found: colouring.Colouring, dense: Any) -> None:
    m, n = values.shape
    columns = [values @ (found.columns == c) for c in range(found.columns.max(initial=-1) + 1)]
    rows = [values.T @ (found.rows == c) for c in range(found.rows.max(initial=-1) + 1)]
    results = np.concatenate([*columns, *rows, np.zeros(0, int)])
    assert len(results) == (found.columns.max(initial=-1) + 1) * m + (found.rows.max(initial=-1) + 1) * n
    np.testing.assert_array_equal(results[found.places], values[dense])


def test_rows_or_columns_pytrees_and_other_arguments() -> None:
    x = np.arange(1.0, 5.0, dtype="float32")
    assert sparse_jacobian(lambda x: x.sum()).passes(x) == 1  # one vjp, where jvps would be four
    assert sparse_jacobian(lambda x: x[0] * x).passes(x) == 2
    f = sparse_jacobian(lambda a, p: {"y": p["u"] * a, "z": p["v"] ** 2}, argnums=1, chunk_size=1)
    p = {"u": x, "v": np.float32(3)}
    found = f(np.float32(2), p).toarray()
    np.testing.assert_array_equal(found, np.diag([2, 2, 2, 2, 6]).astype("float32"))
    assert f(np.float32(5), p)[0, 0] == 5.0
    empty = sparse_jacobian(lambda x: x)(np.zeros(0, "float32"))
    assert empty.shape == (0, 0)
    last = sparse_jacobian(lambda x, y: x * y**2, argnums=-1)(np.float32([3, 4]), np.float32([1, 2]))
    np.testing.assert_array_equal(last.toarray(), [[6, 0], [0, 16]])


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda: sparse_jacobian(lambda x: x)(np.arange(3)), TypeError, "the argument: int32"),
        (lambda: sparse_jacobian(lambda x: x > 0)(np.ones(3, "float32")), TypeError, "the result: bool"),
        (lambda: dx.jit(sparse_jacobian(lambda x: x))(1.0), TypeError, "outside of jit"),
        (lambda: sparse_jacobian(lambda x: x, argnums=1)(1.0), ValueError, "positional arguments: 1"),
        (lambda: sparse_jacobian(lambda x, y: x, argnums=(0, 1)), TypeError, "argnums: .0, 1."),
        (lambda: sparse_jacobian(3), TypeError, "sparse_jacobian"),
        (lambda: sparse_hessian(lambda x: x, chunk_size=0)(1.0), ValueError, "chunk_size"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        call()
