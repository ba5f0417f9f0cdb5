"""Rows for reductions over windows: strides, padding (also negative), dilations of both kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from didax import lax
from didax.lax.windows import reduce_window
from tests.operations.reductions import NARROW_RTOL, draw
from tests.operations.row import Operation

# name: shape, window, strides, padding, base dilation, window dilation
WINDOWS: dict[str, tuple[Any, ...]] = {
    "moving": ((9,), (3,), (1,), "VALID", None, None),
    "pooling": ((2, 5, 4), (1, 2, 2), (1, 2, 2), "SAME", None, None),
    "padded": ((5, 4), (3, 2), (2, 3), [(2, 1), (0, 2)], None, None),
    "cut off": ((6, 7), (2, 2), (1, 2), [(-1, 1), (1, -2)], None, None),
    "dilated": ((6, 5), (3, 2), (2, 1), [(2, 0), (1, 1)], (2, 1), (1, 3)),
    "nothing": ((3, 2), (1, 4), (1, 1), "VALID", None, None),
}
INITS = {"add": 0, "max": -np.inf, "min": np.inf}


def row(operation: str, layout: str) -> Operation:
    shape, *window = WINDOWS[layout]

    def init(x: Any) -> Any:
        if operation == "add" or x.dtype.kind not in "iu":
            return x.dtype.type(INITS[operation])
        return getattr(np.iinfo(x.dtype), {"max": "min", "min": "max"}[operation])

    def reference(x: Any) -> Any:
        import jax

        return np.asarray(jax.lax.reduce_window(x, init(x), getattr(jax.lax, operation), *window))

    return Operation(
        f"reduce_window {operation} {layout}",
        lambda x: reduce_window(x, init(x), getattr(lax, operation), *window),
        reference,
        lambda rng, dtype: (draw(rng, dtype, shape),),
        dtypes=("float32", "float64", "bfloat16", "int32"),
        rtol=NARROW_RTOL,
    )


ROWS = [row(operation, layout) for operation in INITS for layout in WINDOWS]
