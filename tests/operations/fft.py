"""Rows for Fourier transforms: every type, odd and even lengths, one to three axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from didax import lax
from tests.operations.row import Operation

REAL, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
LENGTHS: list[tuple[int, ...]] = [(4,), (5,), (1,), (3, 4), (2, 3, 5)]


def operand_shape(kind: str, lengths: tuple[int, ...]) -> tuple[int, ...]:
    return (*lengths[:-1], lengths[-1] // 2 + 1) if kind == "IRFFT" else lengths


def row(kind: str, lengths: tuple[int, ...]) -> Operation:
    def reference(x: Any) -> Any:
        import jax

        return np.asarray(jax.lax.fft(x, kind, lengths))

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        shape = (2, *operand_shape(kind, lengths))
        x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.kind == "c" else 0)
        return (x.astype(dtype),)

    return Operation(
        f"{kind} {lengths}",
        lambda x: lax.fft(x, kind, lengths),
        reference,
        args,
        dtypes=REAL if kind == "RFFT" else COMPLEX,
        second_order=len(lengths) == 1,
        signed_zeros=False,
    )


ROWS = [row(kind, lengths) for kind in lax.FftType.__members__ for lengths in LENGTHS]
