"""Attention: the result for a query is a mean of the values, weighted by how well the query fits their keys.

    softmax(q kᵀ / sqrt(H) + bias) v

Read next: `activations.py` (`softmax`), `didax/numpy/linear.py` (`einsum`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.core import dtypes
from didax.core.dims import is_symbolic, max_dim
from didax.core.errors import api_boundary, message
from didax.core.value import Array
from didax.nn.activations import logsumexp, softmax


@api_boundary
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """Return scaled dot-product attention of N heads over T queries and S keys, each of H numbers.

    Args:
      query: floats of shape (B, T, N, H), or (T, N, H) without a batch.
      key, value: the same dtype, shape (B, S, K, H); each of the K heads serves N / K heads of queries.
      bias, mask: `bias` is added to the logits; `mask` is true where a query sees a key. Both broadcast to
        (B, N, T, S). A query that sees no key weights all keys equally.
      scale: multiplies the logits, 1 / sqrt(H) by default.
      is_causal: query t sees the keys up to t.
      query_seq_lengths, key_value_seq_lengths: B integers, the numbers of queries and keys before the padding. Results
        of padding are 0.
      local_window_size: query t sees the keys from t - left to t + right: one number for both, or two.
      implementation: "xla", the only one there is.
      return_residual: also return the logsumexp of the logits, of shape (B, T, N) and the dtype of `key`. It has
        no derivative, as in JAX.

    Logits and softmax are computed in float32 at least. The result is an array like `query`. Raises ValueError where
    shapes or dtypes do not fit.

    >>> import didax.numpy as dnp
    >>> x = dnp.ones((1, 5, 8, 4))
    >>> dot_product_attention(x, x, x, is_causal=True).shape
    (1, 5, 8, 4)
    """
    if implementation not in (None, "xla"):
        fix = "Leave implementation out, or pass 'xla'."
        facts = f"implementation: {implementation!r}"
        raise NotImplementedError(message("Attention is computed by XLA here.", facts, fix=fix))
    q, k, v = [dnp.asarray(x) for x in (query, key, value)]
    has_batch = q.ndim == 4
    _check_shapes(q, k, v)
    if not has_batch:
        q, k, v = q[None], k[None], v[None]
    sizes = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])  # B, N, T, S
    logits = _logits(q, k, scale, bias, sizes)
    queries = _lengths("query_seq_lengths", query_seq_lengths, sizes[0])
    keys = _lengths("key_value_seq_lengths", key_value_seq_lengths, sizes[0])
    visible = _visibility(sizes, mask, is_causal, queries, keys, local_window_size)
    if visible is not None:
        # Finite, so no NaN follows.
        logits = dnp.where(visible, logits, -0.7 * float(dtypes.finfo(logits.dtype).max))
    groups = (sizes[0], k.shape[2], sizes[1] // k.shape[2], *sizes[2:])
    weights = softmax(logits, axis=-1).astype(v.dtype).reshape(groups)
    out = dnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(q.shape)
    if queries is not None:
        is_query = dnp.arange(sizes[2])[None] < queries[:, None]
        out = dnp.where(is_query[:, :, None, None], out, 0)
    results = [out]
    if return_residual:
        results += [dnp.moveaxis(logsumexp(lax.stop_gradient(logits), axis=-1), 1, 2).astype(k.dtype)]
    results = results if has_batch else [x[0] for x in results]
    return tuple(results) if return_residual else results[0]


def _check_shapes(q: Array, k: Array, v: Array) -> None:
    facts = f"query: {q.aval}, key: {k.aval}, value: {v.aval}"
    if q.ndim not in (3, 4) or k.ndim != q.ndim or k.shape != v.shape or _common_axes(q) != _common_axes(k):
        rule = (
            "Attention takes a query (B, T, N, H), and a key and a value (B, S, K, H), all with or without B."
        )
        raise ValueError(
            message(rule, facts, fix="Transpose or split the heads; keys and values have one shape.")
        )
    if not dtypes.is_float(q.dtype) or not q.dtype == k.dtype == v.dtype:
        raise ValueError(message("Attention takes floats of one dtype.", facts, fix="Cast them (x.astype)."))
    if not k.shape[-2] or q.shape[-2] % k.shape[-2]:
        rule = "The heads of the query must be a multiple of the heads of the key."
        raise ValueError(message(rule, facts, fix="Repeat the heads of one of them, or drop some."))


def _common_axes(x: Array) -> tuple[int, ...]:
    """Return the axes that queries and keys have in common."""
    return (*x.shape[:-3], x.shape[-1])


def _logits(q: Array, k: Array, scale: Any, bias: Any, sizes: tuple[int, ...]) -> Array:
    batch, heads, length, _ = sizes
    grouped = q.reshape(batch, length, k.shape[2], heads // k.shape[2], q.shape[3])
    wide = dtypes.at_least_single(q.dtype)
    logits = dnp.einsum("btkgh,bskh->bkgts", grouped, k, preferred_element_type=wide).reshape(sizes)
    if scale is None:
        width = max_dim(q.shape[3], 1)
        scale = width**-0.5 if is_symbolic(width) else 1 / math.sqrt(width)
    logits = logits * scale
    if bias is not None:
        logits = logits + dnp.broadcast_to(_per_query_and_key("bias", bias, sizes), sizes)
    return logits.astype(wide)


def _per_query_and_key(name: str, given: Any, sizes: tuple[int, ...]) -> Array:
    x = dnp.asarray(given)
    if len(x.shape) > 4 or any(n not in (1, m) for n, m in zip(x.shape[::-1], sizes[::-1], strict=False)):
        rule, facts = f"{name} broadcasts to (B, N, T, S).", f"{name}: {x.aval}, to broadcast to {sizes}"
        raise ValueError(message(rule, facts, fix="Give it axes of length 1, or of these lengths."))
    return x[(None,) * (4 - len(x.shape))]


def _lengths(name: str, given: Any, batch: int) -> Array | None:
    if given is None:
        return None
    x = dnp.asarray(given)
    if x.shape != (batch,) or not dtypes.is_integer(x.dtype):
        facts = f"{name}: {x.aval}, batch: {batch}"
        raise ValueError(
            message(f"{name} is a vector of integers, one per sequence.", facts, fix="Cast or tile it.")
        )
    return x


def _visibility(
    sizes: tuple[int, ...],
    mask: Any,
    is_causal: bool,
    queries: Array | None,
    keys: Array | None,
    window: int | tuple[int, int] | None,
) -> Array | None:
    """Return the mask of which query sees which key; None where each query sees all keys."""
    conditions = []
    if mask is not None:
        x = _per_query_and_key("mask", mask, sizes)
        if x.dtype != np.bool_:
            fix = "Compare it with something, or pass it as bias if it is to be added."
            facts = f"mask: {dnp.asarray(mask).aval}"
            raise ValueError(message("The mask of attention is boolean.", facts, fix=fix))
        conditions.append(x)
    t, s = dnp.arange(sizes[2])[None, None, :, None], dnp.arange(sizes[3])[None, None, None]
    if is_causal:
        conditions.append(s <= t)
    if window is not None:
        left, right = window if isinstance(window, tuple) else (window, window)
        conditions += [s >= t - left, s <= t + right]
    if queries is not None:
        conditions.append(t < queries[:, None, None, None])
    if keys is not None:
        conditions.append(s < keys[:, None, None, None])
    visible = None
    for condition in conditions:
        visible = condition if visible is None else dnp.logical_and(visible, condition)
    return visible
