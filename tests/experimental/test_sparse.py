"""Sparse arrays compute what dense ones do, in every layout: batch, sparse and dense axes, shared batches, padding."""

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse as theirs

import didax as dx
import didax.numpy as dnp
from didax import lax, nn
from didax.experimental import sparse
from didax.experimental.sparse import BCOO, BCSR, COO, CSC, CSR, sparsify


class Layout(NamedTuple):
    shape: tuple[int, ...]
    n_batch: int = 0
    n_dense: int = 0
    nse: int = 4
    shared: str = ""  # which buffer shares its first batch axis


LAYOUTS = [
    Layout((4, 5), nse=6),
    Layout((3, 4, 5), 1),
    Layout((3, 4, 5), 1, shared="data"),
    Layout((3, 4, 5), 1, shared="indices"),
    Layout((4, 5, 2), 0, 1),
    Layout((2, 3, 4, 2), 1, 1),
    Layout((2, 3, 4), 2, shared="data"),
    Layout((2, 3), 2, nse=2),
    Layout((3, 2), 1, 1, nse=2),
    Layout((5,), nse=3),
    Layout((0, 4), nse=2),
    Layout((3, 0, 2), 1, nse=2),
    Layout((4, 5), nse=0),
    Layout((1, 4), nse=3),
    Layout((1, 4), 1, nse=3),
    Layout((), nse=2),
]


def made(layout: Layout, dtype: str = "float32", seed: int = 0) -> BCOO:
    """An array with duplicates and with entries out of bounds, whose data are small integers."""
    rng = np.random.default_rng(seed)
    shape, n_batch, n_dense, nse, shared = layout
    n_sparse = len(shape) - n_batch - n_dense
    batch = {name: list(shape[:n_batch]) for name in ("data", "indices")}
    if shared:
        batch[shared][0] = 1
    data = rng.integers(-4, 5, (*batch["data"], nse, *shape[n_batch + n_sparse :])).astype(dtype)
    columns = [rng.integers(0, n + 1, (*batch["indices"], nse)) for n in shape[n_batch : n_batch + n_sparse]]
    empty = np.zeros((*batch["indices"], nse, 0), int)
    indices = (np.stack(columns, -1) if columns else empty).astype("int32")
    return BCOO((data, indices), shape=shape)


def reference(x: BCOO) -> np.ndarray:
    """The dense array, written with loops."""
    out = np.zeros(x.shape, x.dtype)
    n_batch = x.n_batch
    data, indices = map(np.asarray, x._bufs)
    data = np.broadcast_to(data, (*x.shape[:n_batch], *data.shape[n_batch:]))
    indices = np.broadcast_to(indices, (*x.shape[:n_batch], *indices.shape[n_batch:]))
    for at in np.ndindex(*x.shape[:n_batch], x.nse):
        place = tuple(indices[at])
        if all(i < n for i, n in zip(place, x.shape[n_batch:], strict=False)):
            out[(*at[:-1], *place)] += data[at]
    return out


def dense(x: Any) -> np.ndarray:
    return np.asarray(x.todense() if isinstance(x, sparse.JAXSparse) else x)


def check(found: Any, wanted: Any, what: str) -> None:
    found, wanted = dense(found), np.asarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=what)


REFUSED = (NotImplementedError, ValueError)  # kinds of axes that an operation would mix

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "neg": operator.neg, "abs": abs, "double": lambda x: 2 * x, "half": lambda x: x / 2, "add": lambda x: x + x,
    "sub": lambda x: x - x, "mul": lambda x: x * x, "power": lambda x: x**3, "root": lambda x: (x * x) ** 0.5,
    "sin": dnp.sin, "tanh": dnp.tanh, "sqrt": lambda x: dnp.sqrt(abs(x)), "cast": lambda x: x.astype("int32"),
    "real": dnp.real, "conj": dnp.conj, "log1p": lambda x: dnp.log1p(abs(x)), "sign": lax.sign,
}  # fmt: skip
MOVING: dict[str, Callable[..., Any]] = {
    "sum": dnp.sum, "first": lambda x: x[0], "last": lambda x: x[-1], "tail": lambda x: x[1:],
    "back": lambda x: x[::-1],
    "steps": lambda x: x[..., ::2], "column": lambda x: x[..., 0], "rows": lambda x: x[np.array([0, 1, -1])],
    "traced": lambda x: lax.dynamic_slice_in_dim(x, 1, 1), "new": lambda x: x[None], "inner": lambda x: x[:, None],
    "end": lambda x: x[..., None], "flat": lambda x: x.reshape(-1), "grouped": lambda x: x.reshape(*x.shape, 1),
    "folded": lambda x: x.reshape(2, -1), "twice": lambda x: dnp.concatenate([x, x]), "T": lambda x: x.T,
    "side": lambda x: dnp.concatenate([x, x], -1), "stacked": lambda x: dnp.stack([x, 2 * x]),
    "swapped": lambda x: dnp.swapaxes(x, 0, 1), "ends": lambda x: dnp.swapaxes(x, -1, -2),
    "broad": lambda x: dnp.broadcast_to(x, (3, *x.shape)),
    "spread": lambda x: dnp.broadcast_to(x[:, None], (x.shape[0], 2, *x.shape[1:])),
}  # fmt: skip
LINEAR: dict[str, Callable[..., Any]] = {
    "times": lambda x, y: x * y, "over": lambda x, y: x / (y + 7), "plus": lambda x, y: x + y,
    "row": lambda x, y: x * y[..., :1], "first": lambda x, y: x * y[:1], "one": lambda x, y: x * y[0],
    "matvec": lambda x, y: x @ y.reshape(-1)[: x.shape[-1]],
    "matmat": lambda x, y: x @ y.reshape(-1)[: 3 * x.shape[-1]].reshape(-1, 3),
    "left": lambda x, y: y.reshape(-1)[: 2 * x.shape[-2]].reshape(2, -1) @ x, "inner": lambda x, y: dnp.vdot(x, y),
    "first axes": lambda x, y: dnp.tensordot(x, y, (0, 0)), "last axes": lambda x, y: dnp.tensordot(x, y, (-1, -1)),
    "crossed": lambda x, y: dnp.tensordot(y, x, (0, 0)), "outer": lambda x, y: dnp.tensordot(x, y.reshape(-1)[:2], 0),
    "batched": lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,)))),
    "batched last": lambda x, y: lax.dot_general(y, x, (((2,), (2,)), ((0,), (0,)))),
    "all": lambda x, y: lax.dot_general(x, y, (((0, 1), (0, 1)), ((), ()))),
}  # fmt: skip


def agree(f: Callable[..., Any], x: BCOO, what: str, *operands: Any) -> bool:
    """Whether the operation took the layout; its result is checked."""
    try:
        found = sparsify(f)(x, *operands)
    except (*REFUSED, TypeError, IndexError):
        return False
    check(found, f(dnp.asarray(reference(x)), *map(dense, operands)), f"{what} {x!r}")
    return True


@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(d, marks=pytest.mark.slow) for d in ("int16", "complex64"))]
)
def test_operations_of_one_array(dtype: str) -> None:
    taken = 0
    for layout in LAYOUTS:
        x = made(layout, dtype)
        check(x, reference(x), f"{layout}")
        for name, f in ELEMENTWISE.items():
            if not (dtype == "complex64" and name in ("cast", "log1p", "sqrt")):
                assert agree(f, x, name), (name, layout)
        taken += sum(agree(f, x, name) for name, f in MOVING.items())
        for axis in range(x.ndim):
            assert agree(lambda x, axis=axis: x.sum(axis, dtype=x.dtype), x, f"sum over {axis}")
    assert taken > 230


def test_operations_with_dense_arrays() -> None:
    rng = np.random.default_rng(1)
    taken = 0
    for layout in LAYOUTS:
        x = made(layout)
        y = dnp.asarray(rng.integers(-3, 4, layout.shape).astype("float32"))
        taken += sum(agree(f, x, name, y) for name, f in LINEAR.items())
    assert taken > 120


def test_operations_of_two_sparse_arrays() -> None:
    taken = 0
    for layout in LAYOUTS:
        x, y = made(layout), made(layout._replace(nse=3), seed=1)
        z = made(Layout(layout.shape, 0, layout.n_dense, 3), seed=2)
        for name, f in LINEAR.items():
            if name not in ("over", "matvec", "matmat", "left", "outer"):
                taken += agree(f, x, name, y) + agree(f, x, f"{name}, other layout", z)
    assert taken > 60


def test_products_of_arrays_that_broadcast() -> None:
    """They have an entry for each pair of entries: no axis is made longer before."""
    x, y = made(LAYOUTS[0]), made(Layout((4, 5), nse=3), seed=1)
    a, b = made(Layout((4,), nse=2)), made(Layout((5,), nse=3))
    cases: dict[str, tuple[Callable[..., Any], BCOO, BCOO, int]] = {
        "outer": (dnp.outer, a, b, 6),
        "kron": (dnp.kron, x, y, 18),
        "row": (lambda x, b: x * b, x, b, 18),
        "column": (lambda x, a: a[:, None] * x, x, a, 12),
        "batch": (lambda x, b: x * b, made(LAYOUTS[1]), b, 12),
    }
    for name, (f, one, other, nse) in cases.items():
        found = sparsify(f)(one, other)
        assert found.nse == nse, name
        check(found, f(dense(one), dense(other)), name)
        check(sparsify(dx.jit(f))(one, other), f(dense(one), dense(other)), f"{name}, compiled")
    with pytest.raises(NotImplementedError, match="Adding sparse dimensions with lengths != 1"):
        sparsify(lambda a: dnp.broadcast_to(a[:, None], (4, 3)))(a)


def test_layouts_of_one_array() -> None:
    for layout in LAYOUTS:
        x = made(layout)
        for n_batch in range(x.ndim + 1):
            for n_dense in range(x.ndim + 1 - n_batch):
                y = x.update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
                assert (y.n_batch, y.n_dense) == (n_batch, n_dense)
                check(y, reference(x), f"{layout} to {n_batch}, {n_dense}")
                z = BCOO.fromdense(reference(x), n_batch=n_batch, n_dense=n_dense)
                assert (z.n_batch, z.n_dense) == (n_batch, n_dense)
                check(z, reference(x), f"from dense, {n_batch}, {n_dense}")
        for again in (x.sort_indices(), x.sum_duplicates(), x.sum_duplicates(nse=5, remove_zeros=False)):
            check(again, reference(x), f"{layout}")


def test_entries_and_layout_are_those_of_jax() -> None:
    """Where jax has no fault: its results have the same buffers."""

    def changed(x: Any) -> list[Any]:
        summed = x.sum_duplicates(nse=3, remove_zeros=False), x.sum_duplicates(nse=3)
        return [x.sort_indices(), *summed, x.update_layout(n_batch=0), x[1:]]

    for layout in (LAYOUTS[0], LAYOUTS[1], LAYOUTS[5]):
        x = made(layout)
        y = theirs.BCOO(tuple(map(np.asarray, x._bufs)), shape=x.shape)
        for mine, other in zip(changed(x), jax.jit(changed)(y), strict=True):
            for a, b in zip(mine._bufs, other._bufs, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=str(layout))


def test_sparsify_composes_with_jit_vmap_and_programs() -> None:
    x = made(LAYOUTS[1])
    v = dnp.arange(5.0)

    def f(x: Any, v: Any) -> Any:
        y = lax.fori_loop(0, 2, lambda _, y: 2 * y, x)
        y = lax.cond(v[0] > 1, lambda y: y, lambda y: dnp.sin(y), y)
        y, _ = lax.scan(lambda y, _: (y * 3, None), y, None, length=2)
        return dnp.tanh(y / 100) @ v, sparse.todense(y).sum() + dx.jit(lambda y: sparse.todense(y) @ v)(
            y
        ).sum()

    wanted = f(dnp.asarray(reference(x)), v)
    for run in (sparsify(f), dx.jit(sparsify(f)), sparsify(dx.jit(f))):
        for one, other in zip(run(x, v), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4)
    mapped = dx.jit(dx.vmap(lambda x: (x @ v, x * 2)))(x)
    check(mapped[0], reference(x) @ np.asarray(v), "vmap")
    check(mapped[1], 2 * reference(x), "vmap")
    summed = lax.scan(lambda total, x: (total + x @ v, x.T), dnp.zeros(4), x)  # a row of the batch at a time
    check(summed[0], (reference(x) @ np.asarray(v)).sum(0), "scan")
    check(summed[1], reference(x).transpose(0, 2, 1), "scan")


def test_loops_and_branches_keep_what_is_known_of_indices() -> None:
    sorted_ = sparse.BCOO.fromdense(dnp.eye(3))
    plain = sparse.BCOO((sorted_.data, sorted_.indices), shape=(3, 3))
    known = lambda f, *xs: [
        (y.indices_sorted, y.unique_indices) for y in dx.tree.leaves(f(*xs), is_leaf=sparse_leaf)
    ]
    sparse_leaf = lambda x: isinstance(x, sparse.BCOO)
    loop = lambda step: sparsify(lambda x: lax.fori_loop(0, 3, lambda _, x: step(x), x))
    assert known(loop(lambda x: 2 * x), sorted_) == [(True, True)]
    assert known(loop(lambda x: x.T), sorted_) == [(False, True)]
    assert known(loop(lambda xs: xs[::-1]), (sorted_, plain)) == [(False, False)] * 2  # each was the other
    for length in (0, 2):
        scanned = sparsify(lambda x, n=length: lax.scan(lambda x, _: (2 * x, None), x, None, length=n)[0])
        assert known(scanned, sorted_) == [(True, True)]
    either = dx.jit(sparsify(lambda x, p: lax.cond(p, lambda x: x, lambda x: x.T, x)))
    assert known(either, sorted_, True) == [(False, True)]


def test_gradients_inside_of_sparsified_functions() -> None:
    """Cotangents that are one number everywhere meet operations that have no sparse operand."""
    x, p = made(LAYOUTS[0]), dnp.arange(5.0)
    loss = lambda x, p: ((x @ p - 1) ** 2).sum()
    wanted = dx.value_and_grad(loss, 1)(dnp.asarray(reference(x)), p)
    for one, other in zip(sparsify(dx.value_and_grad(loss, 1))(x, p), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def with_rules() -> list[Callable[[Any], Any]]:
    by_jvp, by_vjp = dx.custom_jvp(lambda x: dnp.sin(x) * 2), dx.custom_vjp(lambda x: dnp.sinh(x) * 3)
    by_jvp.defjvp(lambda primals, tangents: (by_jvp(*primals), 5 * tangents[0]))
    by_vjp.defvjp(lambda x: (by_vjp(x), None), lambda _, ct: (7 * ct,))
    return [by_jvp, by_vjp]


def test_axes_in_front_of_rows() -> None:
    """Which `x[None]` makes: a batch of one."""
    rows = BCSR.fromdense(dnp.eye(2, 3))
    for wrap in (lambda f: f, dx.jit):
        found = wrap(sparsify(lambda x: x[None, None]))(rows)
        assert isinstance(found, BCSR) and found.todense().tolist() == [[[[1, 0, 0], [0, 1, 0]]]]
    with pytest.raises(NotImplementedError, match="by axes of length 1 in front of it only"):
        sparsify(lambda x: x.reshape(3, 2))(rows)


def test_every_function_that_is_zero_at_zero() -> None:
    """Whatever it is made of: the steps between may be other than 0 where there are no entries."""
    functions = [
        dnp.sign, dnp.trunc, dnp.rint, dnp.nan_to_num, dnp.cbrt, nn.relu, nn.relu6, nn.gelu, nn.silu, nn.elu, nn.selu,
        nn.leaky_relu, nn.mish, nn.soft_sign, lambda x: dnp.maximum(x, 0), lambda x: dnp.clip(x, -1, 2.5),
        lambda x: dnp.cos(x) - 1, lambda x: x**2.5, lambda x: dnp.where(x > 1, x, 0), lambda x: dnp.exp(x) * x,
        lambda x: x > 0, *with_rules(),
    ]  # fmt: skip
    every = lambda x: [f(x) for f in functions]
    x = made(LAYOUTS[0])
    rows = BCSR.from_bcoo(x.sum_duplicates(nse=6))
    for array in (x, rows):
        for run in (sparsify(every), dx.jit(sparsify(every))):
            for i, (one, other) in enumerate(zip(run(array), every(array.todense()), strict=True)):
                assert type(one) is type(array)
                np.testing.assert_allclose(
                    one.todense(), other, rtol=1e-5, atol=1e-6, err_msg=str(functions[i])
                )
    for f, factor in zip(with_rules(), (5, 7), strict=True):
        loss = lambda data, f=f: sparsify(lambda x: f(x).sum())(BCOO((data, x.indices), shape=x.shape))
        inside = (np.asarray(x.indices) < np.array(x.shape)).all(1)
        np.testing.assert_allclose(dx.grad(loss)(x.data), factor * inside)


def test_gradients_are_those_at_the_entries() -> None:
    for layout in LAYOUTS[:6]:
        x = made(layout)
        weights = dnp.asarray(np.random.default_rng(3).normal(size=x.shape).astype("float32"))

        def loss(x: Any, w: Any) -> Any:
            return (
                dnp.sin(x * w) if isinstance(x, dx.Array) else sparsify(dnp.sin)(x * w).todense()
            ).sum() + (w * w).sum()

        value, (by_x, by_w) = sparse.value_and_grad(loss, (0, 1))(x, weights)
        of_dense = dx.grad(loss, (0, 1))(dnp.asarray(reference(x)), weights)
        np.testing.assert_allclose(value, loss(dnp.asarray(reference(x)), weights), rtol=1e-4)
        np.testing.assert_allclose(by_w, of_dense[1], rtol=1e-4, atol=1e-4)
        if layout.shared != "data":
            at = sparse.bcoo_extract(x, of_dense[0], assume_unique=True)
            np.testing.assert_allclose(by_x.data, at.data, rtol=1e-4, atol=1e-4)
    m, v = made(LAYOUTS[0]), dnp.arange(5.0)
    forward, backward = sparse.jacfwd(operator.matmul)(m, v), sparse.jacrev(operator.matmul)(m, v)
    check(forward, dense(backward), "jacobians")
    assert forward.shape == (4, 4, 5) and forward.n_batch == 1
    np.testing.assert_allclose(sparse.jacrev(operator.matmul, 1)(m, v), reference(m))
    gradient, aux = sparse.grad(lambda m: ((m @ v).sum(), "aux"), has_aux=True)(m)
    assert aux == "aux" and isinstance(gradient, BCOO)


def test_row_formats_and_scipy() -> None:
    rng = np.random.default_rng(0)
    mat = scipy.sparse.random(5, 4, 0.4, random_state=0, dtype="float32")
    wanted, v, w = (
        mat.toarray(),
        rng.normal(size=4).astype("float32"),
        rng.normal(size=(5, 2)).astype("float32"),
    )
    rows, coordinates = BCSR.from_scipy_sparse(mat), BCOO.from_scipy_sparse(mat)
    for x in (rows, coordinates, COO.fromdense(wanted), CSR.fromdense(wanted), CSC.fromdense(wanted)):
        check(x, wanted, repr(x))
        check(x @ v, wanted @ v, repr(x))
        assert dx.jit(lambda x: x)(x).shape == (5, 4)
    for x in (COO.fromdense(wanted), CSR.fromdense(wanted), CSC.fromdense(wanted)):
        check(x.T, wanted.T, repr(x))
        check(x.T @ w, wanted.T @ w, repr(x))
    few, theirs_few = (kind.fromdense(wanted, nse=3) for kind in (CSC, theirs.CSC))
    check(few, theirs_few.todense(), "the first entries by columns")
    with pytest.raises(ValueError, match="CSC must have ndim=2"):
        CSC.fromdense(v)
    with pytest.raises(ValueError, match="COO must have ndim=2"):
        COO.from_bcoo(BCOO.fromdense(wanted[None], n_batch=1))
    check(sparse.csr_matmat(CSR.fromdense(wanted), w, transpose=True), wanted.T @ w, "matmat")
    check(sparse.coo_matvec(COO.fromdense(wanted), v), wanted @ v, "matvec")
    check(rows.to_bcoo(), wanted, "to BCOO")
    check(sparsify(lambda x: dnp.sin(x) @ v)(rows), np.sin(wanted) @ v, "sparsify")
    check(sparsify(lambda x: dnp.concatenate([x, x]))(rows), np.concatenate([wanted, wanted]), "concatenate")
    for layout in LAYOUTS[1:6]:
        x = made(layout)
        if x.n_sparse == 2:
            check(BCSR.from_bcoo(x), reference(x), f"{layout}")
            check(sparse.bcsr_sum_duplicates(BCSR.from_bcoo(x)), reference(x), f"{layout}")


def test_arrays_made_of_nothing() -> None:
    for k in (-5, -1, 0, 2, 4):
        for options in (
            {},
            {"n_batch": 1},
            {"n_dense": 1},
            {"sparse_format": "csr"},
            {"sparse_format": "coo"},
        ):
            check(
                sparse.eye(3, 4, k, dtype="int32", **options),
                np.eye(3, 4, k, dtype="int32"),
                f"{k}, {options}",
            )
    for name in ("bcoo", "bcsr", "coo", "csr", "csc"):
        check(sparse.empty((2, 3), sparse_format=name), np.zeros((2, 3), "float32"), name)
    x = sparse.random_bcoo(dx.random.key(0), (3, 4, 5), nse=0.3, n_batch=1, sorted_indices=True)
    y = theirs.random_bcoo(
        jax.random.key(0), (3, 4, 5), dtype="float32", nse=0.3, n_batch=1, sorted_indices=True
    )
    np.testing.assert_array_equal(x.indices, y.indices)
    np.testing.assert_array_equal(x.data, y.data)
    flat = np.asarray(x.indices) @ [5, 1]
    assert x.nse == 6 and all(len(set(row)) == 6 for row in flat.tolist())


def test_sampled_products_and_convolutions() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 3)).astype("float32"), rng.normal(size=(3, 5)).astype("float32")
    x = made(LAYOUTS[0])
    for numbers, left, right in (((((1,), (0,)), ((), ())), a, b), ((((), ()), ((), ())), a[:, 0], b[0])):
        found = sparse.bcoo_dot_general_sampled(left, right, x.indices, dimension_numbers=numbers)
        whole = lax.dot_general(left, right, numbers)
        check(found, sparse.bcoo_extract(x, whole, assume_unique=True).data, f"{numbers}")
    line = BCOO.fromdense(rng.integers(-1, 2, (1, 1, 9)).astype("float32"), nse=11)
    window = rng.normal(size=(1, 1, 3)).astype("float32")
    for padding in ("SAME", "VALID", [(2, 1)]):
        found = sparse.bcoo_conv_general_dilated(line, window, window_strides=(1,), padding=padding)
        check(found, lax.conv_general_dilated(dense(line), window, (1,), padding), f"{padding}")


def test_linear_algebra() -> None:
    rng = np.random.default_rng(0)
    mat = rng.normal(size=(30, 30)).astype("float32")
    mat = mat + mat.T + 20 * np.diag(np.arange(30)).astype("float32")
    wanted = np.linalg.eigvalsh(mat)[::-1][:3]
    start = rng.normal(size=(30, 3)).astype("float32")
    for A in (mat, BCOO.fromdense(mat), lambda x: dnp.asarray(mat) @ x):
        w, V, steps = sparse.linalg.lobpcg_standard(A, start)
        np.testing.assert_allclose(w, wanted, rtol=1e-4)
        np.testing.assert_allclose(mat @ V, V * w, atol=2e-2)
        assert steps < 100
    with pytest.raises(ValueError, match=r"search dim \* 5 < matrix dim"):
        sparse.linalg.lobpcg_standard(mat, rng.normal(size=(30, 6)))
    A = (
        scipy.sparse.random(6, 6, 0.3, random_state=0, dtype="float32").tocsr()
        + scipy.sparse.eye(6, dtype="float32", format="csr") * 3
    )
    b = rng.normal(size=6).astype("float32")

    def solve(data: Any, b: Any) -> Any:
        return sparse.linalg.spsolve(data, A.indices, A.indptr, b)

    np.testing.assert_allclose(solve(A.data, b), np.linalg.solve(A.toarray(), b), rtol=1e-4)
    found = dx.jit(dx.grad(lambda data, b: (solve(data, b) ** 2).sum(), (0, 1)))(dnp.asarray(A.data), b)
    x = np.linalg.solve(A.toarray(), b)
    ct = np.linalg.solve(A.toarray().T, 2 * x)
    rows = np.repeat(np.arange(6), np.diff(A.indptr))
    np.testing.assert_allclose(found[1], ct, rtol=1e-3)
    np.testing.assert_allclose(found[0], -ct[rows] * x[A.indices], rtol=1e-3, atol=1e-5)


def test_entries_of_arrays_without_elements() -> None:
    """Entries that can only be out of bounds are zeros in every operation with a dense array."""
    x = BCOO((dnp.ones(2), np.zeros((2, 2), "int32")), shape=(0, 4))
    empty = dnp.ones((0, 4))
    assert (x * empty).todense().shape == sparse.bcoo_extract(x, empty).shape == (0, 4)
    assert BCOO.fromdense(empty, nse=3).data.tolist() == [0, 0, 0]
    assert (dnp.ones((2, 0)) @ x).tolist() == np.zeros((2, 4)).tolist()
    sampled = sparse.bcoo_dot_general_sampled(
        empty, dnp.ones((4, 3)), x.indices, dimension_numbers=(((1,), (0,)), ((), ()))
    )
    assert sampled.tolist() == [0, 0]


def test_entries_out_of_bounds_count_for_nothing_whatever_they_are() -> None:
    """In products with dense arrays NaN and infinity, too; zero times NaN would be NaN."""
    data, indices = dnp.array([np.nan, 1.0, np.inf]), dnp.array([[2, 0], [0, 1], [0, 2]])
    a, v = sparse.BCOO((data, indices), shape=(2, 2)), dnp.array([1.0, 2.0])
    assert (a @ v).tolist() == [2, 0] and (v @ a).tolist() == [0, 1]
    assert (sparse.BCSR.from_bcoo(a) @ v).tolist() == [2, 0] and (a @ v[:, None]).tolist() == [[2], [0]]
    slopes = dx.grad(lambda d, v: (sparse.BCOO((d, indices), shape=(2, 2)) @ v).sum(), (0, 1))(data, v)
    assert [s.tolist() for s in slopes] == [[0, 2, 0], [0, 1]]


def test_several_entries_without_sparse_axes_are_at_one_place() -> None:
    a = sparse.BCOO(
        (dnp.array([[1.0, -2.0]] * 2), dnp.zeros((2, 2, 0), int)), shape=(2,), unique_indices=True
    )
    assert (
        not a.unique_indices
        and not a.sum_duplicates(nse=3).unique_indices
        and a.sum_duplicates().unique_indices
    )
    assert sparse.bcoo_extract(a.sum_duplicates(nse=3), dnp.array([5.0, 6.0])).todense().tolist() == [5, 6]
    assert abs(a).todense().tolist() == [1, 1]


def test_gathered_slices() -> None:
    x = made(Layout((4, 5), nse=6))
    rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    at = np.array([[2], [0], [2]])
    for mode in (None, "clip", "fill"):
        fill = 0 if mode == "fill" else None
        found = sparse.bcoo_gather(x, at, rows, (1, 5), mode=mode, fill_value=fill)
        np.testing.assert_array_equal(dense(found), reference(x)[[2, 0, 2]])
    with pytest.raises(NotImplementedError, match="with zeros alone"):
        sparse.bcoo_gather(x, at, rows, (1, 5), mode="fill")


def test_scalars_and_truth_values() -> None:
    scalar = made(Layout((), nse=2))
    assert float(scalar + 1) == float(scalar.todense()) + 1
    assert scalar.sum().tolist() == scalar.todense().tolist()
    flags = BCOO((np.array([True, True]), np.array([[0, 1], [1, 1]])), shape=(2, 2))
    counts = sparse.bcoo_reduce_sum(flags, axes=(0,))
    assert counts.dtype == "int32" and counts.todense().tolist() == [0, 2]
    x = made(LAYOUTS[0])
    check(sparse.bcoo_reduce_sum(x, axes=(-1,)), reference(x).sum(-1), "a negative axis")


def test_the_sum_with_an_array_made_in_the_function_is_dense() -> None:
    x = made(LAYOUTS[0])
    found = sparsify(lambda x: (x + dnp.ones(x.shape), dnp.full(x.shape, 2.0) + x, dnp.log1p(x)))(x)
    assert [type(y) is BCOO for y in found] == [False, False, True]
    check(found[0], reference(x) + 1, "ones")
    check(found[1], reference(x) + 2, "twos")


def test_errors_name_the_rule_and_the_way_out() -> None:
    x = made(LAYOUTS[0])
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: sparsify(dnp.cos)(x), NotImplementedError, "sparse rule for cos is not implemented because"),
        (lambda: sparsify(dnp.cumsum)(x), NotImplementedError, "sparse rule for .* is not implemented"),
        (lambda: x == 0, NotImplementedError, "would result in dense output"),
        (lambda: x + 1, NotImplementedError, "sparse rule for add is not implemented because"),
        (lambda: sparsify(lambda x: dnp.cos(x) @ dnp.ones(5))(x), NotImplementedError, "sparse rule for cos is not"),
        (lambda: x - dnp.ones((4, 5)), NotImplementedError, "Subtraction between sparse and dense array"),
        (lambda: 1 / x, NotImplementedError, "Division by a sparse array"),
        (lambda: sparse.bcoo_multiply_dense(x, dnp.ones((3, 4, 5))), NotImplementedError, "output shape matches"),
        (lambda: x**-1, NotImplementedError, "sparse rule for integer_pow is not implemented because"),
        (lambda: dx.vmap(lambda x: x)(x), ValueError, "must correspond to a batch dimension"),
        (lambda: dx.vmap(lambda v: x, out_axes=1)(dnp.ones(2)), ValueError, "out_axes of vmap for a sparse array"),
        (lambda: x.update_layout(n_batch=1), sparse.SparseEfficiencyError, "inefficient storage"),
        (lambda: x.update_layout(n_batch=3), ValueError, "cannot be larger than mat.ndim=2"),
        (lambda: x.transpose((0, 0)), TypeError, "isn't a permutation"),
        (lambda: sparse.bcoo_reduce_sum(x, axes=(9,)), ValueError, r"bcoo_reduce_sum takes an axis(.|\n)*axis: 9"),
        (lambda: sparse.bcoo_squeeze(made(Layout((1, 4))), dimensions=(2,)), ValueError, "bcoo_squeeze takes an axis"),
        (lambda: made(LAYOUTS[1]).transpose((1, 0, 2)), NotImplementedError, "cannot permute batch axes"),
        (lambda: dx.jit(BCOO.fromdense)(dnp.ones((2, 2))), ValueError, "nse must be specified"),
        (lambda: dx.jit(BCOO.fromdense)(dnp.ones((2, 2))), dx.errors.ConcretizationTypeError, "nse must be"),
        (lambda: BCOO.fromdense(dnp.ones((2, 2)), nse=-1), ValueError, "takes a number of entries.\n  nse: -1"),
        (lambda: dx.jit(lambda x: x.sum_duplicates())(x), ValueError, "nse must be specified"),
        (lambda: BCOO((np.ones(3), np.zeros((2, 2), int)), shape=(4, 5)), ValueError, "Invalid data"),
        (lambda: BCOO((np.ones(2), np.zeros((2, 2))), shape=(4, 5)), TypeError, "are integers"),
        (lambda: BCSR.fromdense(np.ones(3)), ValueError, "must have 2 sparse dimensions"),
        (lambda: CSR.fromdense(np.eye(2)) @ CSR.fromdense(np.eye(2)), NotImplementedError, "matmul between two sparse"),
        (lambda: CSR.fromdense(np.eye(2)) * 2, NotImplementedError, "CSR has no __mul__"),
        (lambda: sparse.empty((2,), sparse_format="dia"), ValueError, "A sparse format is one of"),
    ]  # fmt: skip
    for run, error, text in cases:
        with pytest.raises(error, match=text):
            run()
    with pytest.warns(sparse.SparseEfficiencyWarning):
        x.update_layout(n_dense=1, on_inefficient="warn")
    with warnings.catch_warnings():
        assert repr(x) == "BCOO(float32[4, 5], nse=6)" and len(x) == 4 and x.size == math.prod(x.shape)
    assert repr(made(LAYOUTS[5])) == "BCOO(float32[2, 3, 4, 2], nse=4, n_batch=1, n_dense=1)"
