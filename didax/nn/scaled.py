"""Products of matrices whose blocks have scales: `scaled_matmul`."""

from __future__ import annotations

import didax.numpy as dnp
from didax.api.results import array_function
from didax.core import dtypes
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike, DTypeLike, as_array

__all__ = ["scaled_matmul"]


@array_function
def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = "float32",
) -> Array:
    """Return the products `(scaled lhs) @ (scaled rhs)^T` of a batch, in the given dtype.

    `lhs` has shape (b, m, k) and `rhs` (b, n, k). Their scales have shapes (b, m, j) and (b, n, j'), where j and j'
    divide k: each scale multiplies k / j neighbours. The factors are multiplied in float32.

    >>> from didax import nn
    >>> nn.scaled_matmul(dnp.ones((1, 1, 4)), dnp.ones((1, 1, 4)), dnp.array([[[1.0, 3.0]]]), dnp.ones((1, 1, 1)))
    Array([[[8.]]], dtype=float32)
    """
    values = [as_array("scaled_matmul", x, name) for name, x in
              (("lhs", lhs), ("rhs", rhs), ("lhs_scales", lhs_scales), ("rhs_scales", rhs_scales))]  # fmt: skip
    x, y, x_scales, y_scales = values
    fits = all(v.ndim == 3 and v.shape[0] == x.shape[0] for v in values) and x.shape[2] == y.shape[2] and all(
        v.shape[1] == s.shape[1] and s.shape[2] and v.shape[2] % s.shape[2] == 0
        for v, s in ((x, x_scales), (y, y_scales))
    )  # fmt: skip
    if not fits:
        facts = f"lhs: {x.aval}, rhs: {y.aval}, lhs_scales: {x_scales.aval}, rhs_scales: {y_scales.aval}"
        fix = "Pass shapes (b, m, k), (b, n, k), (b, m, j) and (b, n, i), where j and i divide k."
        rule = "scaled_matmul takes batches of rows with scales for equal blocks."
        raise ArgumentError(message(rule, facts, fix=fix))
    product = dnp.einsum("bmk,bnk->bmn", _scaled(x, x_scales), _scaled(y, y_scales), precision="highest")
    return product.astype(dtypes.dtype(preferred_element_type))


def _scaled(x: Array, scales: Array) -> Array:
    wide = "float64" if x.dtype.itemsize == 8 else "float32"
    return x.astype(wide) * dnp.repeat(scales.astype(wide), x.shape[2] // scales.shape[2], axis=2)
