"""Sparse arrays within exported programs whose shapes are symbolic: they give what the plain function gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
from didax import export
from didax.experimental import sparse

ENTRIES = 7


def _sparse(x: Any) -> sparse.BCOO:
    return sparse.BCOO.fromdense(x, nse=ENTRIES)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "todense": lambda x: _sparse(x).todense(),
    "sum": lambda x: sparse.sparsify(lambda a: a.sum(0))(_sparse(x)).todense(),
    "sum of all": lambda x: _sparse(x).sum(),
    "times": lambda x: sparse.sparsify(lambda a, b: a * b)(_sparse(x), x + 1).todense(),
    "sum of two": lambda x: sparse.sparsify(lambda a, b: a + b)(_sparse(x), _sparse(2 * x)).todense(),
    "duplicates": lambda x: _sparse(x).sum_duplicates(nse=ENTRIES).todense(),
    "product": lambda x: _sparse(x) @ x.T,
    "product of two": lambda x: (_sparse(x) @ _sparse(x).T).todense(),
    "product of batches": lambda x: sparse.bcoo_dot_general(
        sparse.BCOO.fromdense(x, n_batch=1, nse=3),
        sparse.BCOO.fromdense(x + 1, n_batch=1, nse=3),
        dimension_numbers=(((1,), (1,)), ((0,), (0,))),
    ).todense(),
    "reshape": lambda x: sparse.sparsify(lambda a: a.reshape(-1))(_sparse(x)).todense(),
    "slice": lambda x: sparse.sparsify(lambda a: a[1:])(_sparse(x)).todense(),
    "new axis": lambda x: sparse.sparsify(lambda a: a[None])(_sparse(x)).todense(),
    "rows": lambda x: sparse.BCSR.fromdense(x, nse=ENTRIES).todense(),
    "gradient": dx.grad(lambda x: (_sparse(x).todense() ** 3).sum()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_exported_programs_of_sparse_arrays(name: str) -> None:
    f = FUNCTIONS[name]
    (rows,) = export.symbolic_shape("rows", constraints=["rows >= 2"])
    exported = export.export(dx.jit(f))(dx.ShapeDtypeStruct((rows, 3), "float32"))
    for n in (2, 4):
        x = np.where(np.arange(3 * n) % 2, np.arange(3.0 * n) - 2, 0).astype("float32").reshape(n, 3)
        np.testing.assert_allclose(exported.call(x), f(x), rtol=1e-6)
