"""Products of matrices whose blocks have scales: `scaled_matmul`, and `scaled_dot_general`, which finds the scales.

A block of neighbours x is kept as x ~ s q, with one scale s for the block and narrow numbers q. The products are those
of the kept numbers, computed in float32: what hardware for such numbers computes, on any backend.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.custom import custom_vjp
from didax.api.results import array_function
from didax.core import dtypes
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike, DTypeLike, as_array
from didax.primitives.dot import free_axes

__all__ = ["get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"]


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


# --- Scales that are found -----------------------------------------------------------------------------------


@dataclasses.dataclass
class BlockScaleConfig:
    """How blocks are kept: how many neighbours share a scale, and the dtypes of the numbers and of the scales."""

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


@api_boundary
def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """Return how `scaled_dot_general` is to keep an operand: "mxfp8" or "nvfp4".

    "mxfp8": blocks of 32 numbers of float8_e4m3fn, whose scales are powers of two. "nvfp4": blocks of 16 numbers of
    float4_e2m1fn with scales of float8_e4m3fn, after division by `global_scale`, which is 1 if None.

    >>> from didax import nn
    >>> nn.get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode == "nvfp4":
        scale = dnp.ones(1, np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, scale, False)
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, None, False)
    rule = "Unsupported mode: a configuration is 'nvfp4' or 'mxfp8'."
    raise ValueError(message(rule, f"mode: {mode!r}", fix="Use one of these."))


@array_function
def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    preferred_element_type: DTypeLike = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: None = None,
) -> Array:
    """Return `lax.dot_general(lhs, rhs, dimension_numbers)` of operands that are kept as blocks with scales.

    Args:
      dimension_numbers: as in `lax.dot_general`. The axes that are summed over have, multiplied, a multiple of the
        block size.
      preferred_element_type: float32, float16 or bfloat16.
      configs: how to keep `lhs`, `rhs` and, in the derivative, the cotangent (`get_scaled_dot_general_config`); None
        does not scale. The derivative is that of `lax.dot_general`, of kept operands for "mxfp8". For "nvfp4" it is 0
        for elements that are too large for the blocks.

    >>> from didax import nn
    >>> configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    >>> x = dnp.full((1, 32), 1.1)
    >>> nn.scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs)  # 1.1 is kept as 1.125
    Array([[40.5]], dtype=float32)
    """
    x, y = as_array("scaled_dot_general", lhs, "lhs"), as_array("scaled_dot_general", rhs, "rhs")
    if configs is None:
        return lax.dot_general(x, y, dimension_numbers, preferred_element_type=preferred_element_type)
    dtype = dtypes.dtype(preferred_element_type)
    if dtype.name not in ("float32", "float16", "bfloat16"):
        rule = "scaled_dot_general returns float32, float16 or bfloat16."
        raise TypeError(message(rule, f"preferred_element_type: {dtype.name}", fix="Cast the result."))
    numbers: Any = tuple(tuple(tuple(axes) for axes in pair) for pair in dimension_numbers)
    if len(configs) != 3:
        rule = "scaled_dot_general takes three configs: of lhs, of rhs, and of the cotangent."
        raise ArgumentError(message(rule, f"configs: {len(configs)}", fix="Pass [config] * 3."))
    x_config, y_config, ct_config = configs

    @custom_vjp
    def product(x: Any, y: Any) -> Any:
        return _kept_product(x, y, numbers, (x_config, y_config)).astype(dtype)

    def back(operands: tuple[Any, Any], ct: Any) -> tuple[Any, Any]:
        x, y = operands
        (x_met, y_met), (x_batch, y_batch) = numbers
        swapped = (y_met, x_met), (y_batch, x_batch)
        x_ct = _cotangent(ct, x, y, numbers, (ct_config, y_config), swap=False)
        y_ct = _cotangent(ct, y, x, swapped, (ct_config, x_config), swap=True)
        return _in_range(x, x_ct, x_config), _in_range(y, y_ct, y_config)

    product.defvjp(lambda x, y: (product(x, y), (x, y)), back)
    return product(x, y)


def _rows(x: Any, met: Sequence[int], batch: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """The operand with three axes (batch, free, summed), and the lengths of its free axes."""
    free = free_axes(x.ndim, tuple(met), tuple(batch))
    sizes = [[x.shape[axis] for axis in axes] for axes in (batch, free, met)]
    return dnp.transpose(x, (*batch, *free, *met)).reshape([math.prod(n) for n in sizes]), tuple(sizes[1])


def _kept_product(x: Any, y: Any, numbers: Any, configs: Sequence[BlockScaleConfig]) -> Any:
    (x_met, y_met), (x_batch, y_batch) = numbers
    rows, left = _rows(x, x_met, x_batch)
    others, right = _rows(y, y_met, y_batch)
    (a, a_scales), (b, b_scales) = (_kept(r, c) for r, c in zip((rows, others), configs, strict=True))
    out = scaled_matmul(a, b, a_scales, b_scales)
    for config in configs:
        if config.global_scale is not None:
            out = out * config.global_scale
    return out.reshape(*(x.shape[axis] for axis in x_batch), *left, *right)


def _kept(x: Any, config: BlockScaleConfig) -> tuple[Any, Any]:
    """The numbers and the scales of rows, in blocks along the last axis."""
    size = config.block_size
    if x.shape[2] % size or not x.shape[2]:
        rule = f"{config.mode} keeps blocks of {size} neighbours along the axes that are summed over."
        fix = "Pad the axes with zeros."
        raise ArgumentError(message(rule, f"elements that are summed over: {x.shape[2]}", fix=fix))
    blocks = x.astype(np.float32).reshape(*x.shape[:2], x.shape[2] // size, size)
    largest = float(dtypes.finfo(dtypes.dtype(config.data_type)).max)
    if config.global_scale is not None:
        blocks = blocks / config.global_scale
    scales = abs(blocks).max(-1, keepdims=True) / largest
    if config.mode == "mxfp8":
        scales = _power_of_two(scales)
    else:
        limit = float(dtypes.finfo(dtypes.dtype(config.scale_type)).max)
        scales = dnp.minimum(scales, limit).astype(config.scale_type).astype(np.float32)
    divisors = dnp.where(scales == 0, 1, scales)
    numbers = dnp.clip(blocks / divisors, -largest, largest).astype(config.data_type)
    return numbers.reshape(x.shape), scales[..., 0]


def _power_of_two(scales: Any) -> Any:
    """The least powers of two that are no smaller; for 0 the smallest normal number."""
    part, exponent = dnp.frexp(scales)
    exponent = dnp.where(part == 0.5, exponent - 1, exponent)
    return dnp.ldexp(dnp.ones_like(scales), dnp.where(scales == 0, -126, dnp.clip(exponent, -126, 127)))


def _cotangent(
    ct: Any, x: Any, y: Any, numbers: Any, configs: Sequence[BlockScaleConfig], *, swap: bool
) -> Any:
    """The cotangent of x, which is the first operand of the product, or with `swap` the second."""
    (x_met, y_met), (x_batch, y_batch) = numbers
    x_free, y_free = free_axes(x.ndim, x_met, x_batch), free_axes(y.ndim, y_met, y_batch)
    start = len(x_batch) + (0 if swap else len(x_free))
    with_y = (tuple(range(start, start + len(y_free))), y_free), (tuple(range(len(x_batch))), y_batch)
    if configs[0].mode == "nvfp4":
        out = lax.dot_general(ct.astype(np.float32), y.astype(np.float32), with_y, precision="highest")
    else:
        out = _kept_product(ct, y, with_y, configs)
    # What is left of y are the axes that were summed over, in the order of y.
    met = [x_met[i] for i in np.argsort(y_met)]
    return dnp.transpose(out, np.argsort([*x_batch, *x_free, *met]).tolist()).astype(x.dtype)


def _in_range(x: Any, ct: Any, config: BlockScaleConfig) -> Any:
    if config.mode != "nvfp4":
        return ct
    limits = [float(dtypes.finfo(dtypes.dtype(t)).max) for t in (config.data_type, config.scale_type)]
    return dnp.where(abs(x) <= config.global_scale * math.prod(limits), ct, 0).astype(ct.dtype)
