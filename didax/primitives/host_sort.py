"""Sorting integers by NumPy, from within compiled programs on the CPU.

NumPy sorts with vector instructions, XLA one comparison at a time. Milliseconds of the processor for 1,000,000 elements
(fastest of many, a loaded AMD EPYC with AVX2), XLA -> NumPy, the call and what stands around it included: float32
56 -> 10, int32 53 -> 9, rows of 1,000 float32 29 -> 8, with a second operand 54 -> 20, float64 360 -> 21. A call costs
0.1 to 0.2 ms, so NumPy is asked from 32,768 elements on. A program that calls Python waits for its end, and does not
reuse the memory of donated arguments. On several devices, on other platforms, and in programs that are exported, XLA
sorts.

XLA's threads take denormal floats for zeros, in NumPy too. So floats are sorted as integers in their order.
Read next: `sort.py`, which asks for this; `xla/callbacks.py`, how a program calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.xla.callbacks import HostCallback
from didax.xla.lowering import call_python
from didax.xla.text import FunctionContext, Value

MIN_SIZE = 1 << 15


def pays(ctx: FunctionContext, keys: ShapedArray) -> bool:
    """Whether NumPy is to sort an array of this size, in the program that is written."""
    return not ctx.module.alone and keys.size >= MIN_SIZE and ctx.module.on_one_cpu


def lower_host_sort(ctx: FunctionContext, keys: Value, dimension: int, zeros: bool = False) -> Value:
    """The integers in ascending order along an axis. With `zeros`, -1 equals 0, and they stay in the order they had."""
    last = keys.aval.ndim - 1
    order = [*(i for i in range(last + 1) if i != dimension), dimension]
    rows = keys if dimension == last else ctx.transpose(keys, order)
    host = HostCallback(_sorted_zeros if zeros else _sorted, [rows.aval], [rows.aval], "sort")
    out = call_python(ctx, host, [rows], side_effect=False)[0]
    return out if dimension == last else ctx.transpose(out, sorted(range(last + 1), key=order.__getitem__))


def _sorted(keys: Any) -> list[Any]:
    # NumPy's stable sort of numbers of up to two bytes goes by their digits.
    return [np.sort(keys, axis=-1, kind="stable" if keys.itemsize <= 2 else None)]


def _sorted_zeros(keys: Any) -> list[Any]:
    (out,) = _sorted(keys)
    if (out == -1).any():
        # Both have as many in each row, and in `out` these are neighbours.
        places, given = [(x == -1) | (x == 0) for x in (out, keys)]
        out[places] = keys[given]
    return [out]
