"""Vector quantisation: the nearest vector of a code book."""

from __future__ import annotations

from typing import TYPE_CHECKING

import didax.numpy as dnp
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike, promote_dtypes

__all__ = ["vq"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Return the row of `code_book` that is nearest to each row of `obs`, and the distance to it.

    Where both are vectors, each number is a row. `check_finite` is accepted.

    >>> from didax.scipy.cluster.vq import vq
    >>> vq(dnp.array([[0.0, 1.0], [5.0, 5.0]]), dnp.array([[0.0, 0.0], [5.0, 6.0]]))
    (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    x, book = [dnp.asarray(v) for v in promote_dtypes("vq", obs, code_book, to_inexact=True)]
    if x.ndim != book.ndim or x.ndim not in (1, 2) or x.shape[1:] != book.shape[1:] or not book.shape[0]:
        fix = "Pass obs of shape (m, d) and code_book of shape (k, d), or two vectors."
        facts = f"obs: {x.aval}, code_book: {book.aval}"
        raise ArgumentError(message("vq takes observations and codes of one length.", facts, fix=fix))
    if x.ndim == 1:
        x, book = x[:, None], book[:, None]
    distances = dnp.linalg.norm(x[:, None] - book, axis=-1)
    code = dnp.argmin(distances, axis=-1)
    return code, dnp.take_along_axis(distances, code[:, None], 1)[:, 0]
