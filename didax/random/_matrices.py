"""Random vectors and matrices: normal vectors with a covariance, and orthogonal matrices.

Read next: `didax/numpy/linalg.py`, whose factorisations these use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import didax.numpy as dnp
from didax.api.results import array_function
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.random._keys import canonical_shape
from didax.random._programs import compiled_program
from didax.random._samplers import arguments, normal_floats, normal_numbers, parameters
from didax.random._transformed import common_shape

METHODS = ("cholesky", "eigh", "svd")


@array_function
def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Any:
    """Return normal vectors with a mean (..., n) and a covariance (..., n, n).

    `shape` is the shape of the batch, by default the common batch shape of both; the result has shape
    (*shape, n), and by default the dtype to which both promote. `method` factors the covariance: 'cholesky',
    which is the fastest and needs a positive definite matrix, 'eigh' or 'svd'.

    >>> from didax import random
    >>> random.multivariate_normal(random.key(0), dnp.zeros(2), dnp.eye(2), (5,)).shape
    (5, 2)
    """
    m, c = aval_of(mean), aval_of(cov)
    if m.ndim < 1 or c.ndim < 2 or c.shape[-2:] != (m.shape[-1],) * 2:
        raise ValueError(
            message(
                "multivariate_normal takes a mean of shape (..., n) and a covariance of shape (..., n, n).",
                f"mean: {m}, cov: {c}",
                fix="Give both the same n.",
            )
        )
    if method not in METHODS:
        raise ValueError(
            message(
                "multivariate_normal does not know this method.",
                f"method: {method!r}",
                fix=f"Use one of {', '.join(map(repr, METHODS))}.",
            )
        )
    if shape is None:
        batches = {"mean": np.empty(m.shape[:-1]), "cov": np.empty(c.shape[:-2])}
        shape = common_shape("multivariate_normal", None, **batches)
    if dtype is None and dnp.issubdtype(found := dnp.result_type(mean, cov), dnp.floating):
        dtype = found
    words, shape, dtype = arguments("multivariate_normal", key, shape, dtype)
    n = m.shape[-1]
    wide = np.promote_types(dtype, np.float32)  # 16-bit floats have no factorisation
    (mean,) = parameters("multivariate_normal", (*shape, n), wide, mean=mean)
    (cov,) = parameters("multivariate_normal", (*(shape if c.ndim > 2 else ()), n, n), wide, cov=cov)
    return _multivariate_normal(words, mean, cov, shape=(*shape, n), dtype=dtype, method=method)


@compiled_program
def _multivariate_normal(
    words: Any, mean: Any, cov: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any], method: str
) -> Any:
    x = normal_floats(words, shape, aval_of(cov).dtype)
    return (mean + dnp.einsum("...ij,...j->...i", _factor(cov, method), x)).astype(dtype)


def _factor(cov: Any, method: str) -> Any:
    """Return F with F F^T = cov."""
    if method == "cholesky":
        return dnp.linalg.cholesky(cov)
    if method == "eigh":
        values, vectors = dnp.linalg.eigh(cov)
        return vectors * dnp.sqrt(values)[..., None, :]
    u, s, _ = dnp.linalg.svd(cov)
    return u * dnp.sqrt(s)[..., None, :]


@array_function
def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Any:
    """Return uniformly distributed orthogonal (for complex dtypes unitary) matrices: shape (*shape, n, n).

    With `m` their shape is (*shape, n, m): the columns are orthonormal, or the rows if there are fewer rows.

    >>> from didax import random
    >>> q = random.orthogonal(random.key(0), 3)
    >>> bool(dnp.allclose(q @ q.T, dnp.eye(3), atol=1e-5))
    True
    """
    rows, columns = canonical_shape("orthogonal", (n, n if m is None else m))
    words, shape, dtype = arguments("orthogonal", key, shape, dtype, "fc")
    return _orthogonal(words, shape=(*shape, rows, columns), dtype=dtype)


@compiled_program
def _orthogonal(words: Any, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return Q of the QR decomposition of a normal matrix, with signs that make the diagonal of R positive."""
    *batch, n, m = shape
    wide = np.promote_types(dtype, np.float32)  # 16-bit floats have no factorisation
    z = normal_numbers(words, (*batch, max(n, m), min(n, m)), wide)
    q, r = dnp.linalg.qr(z)
    d = dnp.diagonal(r, axis1=-2, axis2=-1)
    d = dnp.where(d == 0, 1, d)
    q = (q * (d / dnp.abs(d))[..., None, :]).astype(dtype)
    return dnp.swapaxes(q, -1, -2) if n < m else q
