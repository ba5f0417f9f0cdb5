"""`Operation`: one row of the table of operations that drives the harness (tests/test_operations.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOATS = ("float32", "float64")
NARROW = ("float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTS = ("int8", "int16", "int32", "int64")
UINTS = ("uint8", "uint16", "uint32", "uint64")
BOOL = ("bool",)
INEXACT = FLOATS + NARROW + COMPLEX
NUMERIC = INEXACT + INTS + UINTS


@dataclass(frozen=True)
class Operation:
    """An operation, its reference, and arguments to try it on.

    `fun` takes Didax arrays, with parameters closed over; `reference` takes NumPy arrays and returns what jax or NumPy
    gives. `args(rng, dtype)` makes one tuple of NumPy arguments for a dtype, away from kinks and poles;
    `corners(dtype)` makes tuples of values at the corners (NaN, infinities, zeros, extremes) that only value and
    dtype are compared on. The harness checks every row x dtype: value, dtype and shape against the reference; eager =
    jit; jaxpr check and print/parse round trip; vmap against a loop over each argument; and, where `differentiable`,
    jvp against finite differences, vjp against jvp, and second order.
    """

    name: str
    fun: Callable[..., Any]
    reference: Callable[..., Any]
    args: Callable[[np.random.Generator, np.dtype[Any]], tuple[Any, ...]]
    dtypes: tuple[str, ...] = FLOATS
    differentiable: bool = True
    argnums: tuple[int, ...] | None = None  # arguments to differentiate; None: all inexact ones
    corners: Callable[[np.dtype[Any]], list[tuple[Any, ...]]] | None = None
    # Relative tolerances by dtype, where the default is too tight.
    rtol: dict[str, float] = field(default_factory=dict[str, float])
    second_order: bool = True
    batchable: bool = True
    signed_zeros: bool = True  # False where a sum may begin with a zero of either sign
    signed_reference: bool = True  # False where the reference has zeros of the other sign
    has_text: bool = True  # False where its jaxprs hold Python functions, which cannot be parsed back
    # True where a program takes a second to compile and there is no NumPy rule, so that eager results come from the
    # same lowering, compiled. `make test` then neither compiles corners and batches once more within one program, nor
    # anything with the settings of users' programs.
    is_costly: bool = False
