"""Factorisations of NumPy matrices: of small ones for eager evaluation on the CPU, of any for other platforms.

    routine("geqrf", x.dtype)(x)                  LAPACK's sgeqrf, d, c or z, as SciPy offers it
    by_matrix(f, x)                               f of each matrix of a batch
    lower_on_host(ctx, "schur", rule, [x])        a program's call of such a rule, where its platform has no routine

A compiled program of one operation takes ten to twenty microseconds around LAPACK's one to five. The compiled
operation calls the LAPACK of SciPy, so a rule that calls the same routine gives the same bits. This holds while LAPACK
needs no workspace for blocks, so rules are for the matrices that `are_small` admits. Read next: `eigen.py`.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.primitive import Rule
from didax.primitives.linalg.matrix import MatrixPrimitive, nan_of
from didax.xla.callbacks import HostCallback
from didax.xla.lowering import call_python
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value

_LENGTH_MAX = 32  # of rows and columns; LAPACK works on blocks above
_MATRICES_MAX = 16  # more of them are faster in a compiled program, which loops in C
_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


class Factorization(MatrixPrimitive):
    """A primitive whose eager rule calls LAPACK for each matrix; it has none for large matrices and for many."""

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Rule:
        return super().eager_for(avals) if are_small(avals) else None


def are_small(avals: Sequence[ShapedArray]) -> bool:
    """Whether operands have few matrices, neither large nor empty."""
    return all(
        [
            a.size and max(a.shape[-2:]) <= _LENGTH_MAX and math.prod(a.shape[:-2]) <= _MATRICES_MAX
            for a in avals
        ]
    )


@functools.cache
def routine(name: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """A routine of LAPACK or BLAS, named without the letter of its dtype."""
    library = importlib.import_module("scipy.linalg.blas" if name == "trsm" else "scipy.linalg.lapack")
    return getattr(library, _LETTERS[dtype.name] + name)


def by_matrix(f: Callable[..., Sequence[Any]], *operands: Any) -> list[Any]:
    """The results of `f`, which takes single matrices, for arrays with equal batch axes."""
    batch = operands[0].shape[:-2]
    if not batch:
        return list(f(*operands))
    each = zip(*[x.reshape(-1, *x.shape[len(batch) :]) for x in operands], strict=True)
    results = zip(*[f(*matrices) for matrices in each], strict=True)
    return [np.stack(y).reshape(*batch, *y[0].shape) for y in results]


def nan_if_failed(info: int, *results: Any) -> Sequence[Any]:
    """The results, or NaN where LAPACK's status tells that there are none."""
    return [np.full(y.shape, nan_of(y.dtype), y.dtype) for y in results] if info else results


def lower_on_host(
    ctx: FunctionContext, name: str, rule: Callable[..., Sequence[Any]], operands: Sequence[Value]
) -> list[Value]:
    """Write a call of an eager rule, for a platform whose own libraries lack the operation.

    The program brings the operands to the host, and the results back. NotImplementedError where it is exported: the
    process that will run it has no such rule.
    """
    if ctx.module.alone:
        facts = f"platform: {platform()}, operand: {operands[0].aval}"
        stated = f"{name} is computed on the host, by the process that runs the program, except for the CPU."
        fix = "Lower it for cpu, or call the function in this process."
        raise NotImplementedError(message(stated, facts, fix=fix))
    host = HostCallback(rule, [x.aval for x in operands], ctx.out_avals, name)
    return call_python(ctx, host, operands, side_effect=False)


def is_finite(x: Any) -> bool:
    """Whether all elements are finite; a sum that is finite tells it for less."""
    return bool(np.isfinite(np.add.reduce(x, None)) or np.isfinite(x).all())


def triangle(x: Any, lower: bool = False) -> Any:
    """The matrix on and above its diagonal (or below), zero elsewhere."""
    return np.where(_inside(*x.shape, lower), x, x.dtype.type(0))


@functools.cache
def _inside(rows: int, columns: int, lower: bool) -> Any:
    inside = np.tri(rows, columns, 0 if lower else -1, dtype=bool)
    return inside if lower else ~inside
