"""Rows for cumulative reductions, along each axis and both ways, in a loop and in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from didax import lax
from tests.operations.reductions import NARROW_RTOL, NUMBERS, draw, real_corners
from tests.operations.row import Operation

REALS = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "uint8", "uint32")
FLOATS = ("float32", "float64", "float16", "bfloat16", "complex64")
ACCEPTED = {
    "cumsum": NUMBERS,
    "cumprod": NUMBERS,
    "cummax": (*REALS, "complex64"),
    "cummin": (*REALS, "complex64"),
    "cumlogsumexp": FLOATS,
}


def by_jax(name: str, axis: int, reverse: bool) -> Callable[[Any], Any]:
    def reference(x: Any) -> Any:
        import jax

        return np.asarray(getattr(jax.lax, name)(x, axis, reverse))

    return reference


UFUNCS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cumlogsumexp": np.logaddexp}


def by_numpy(name: str, axis: int, reverse: bool) -> Callable[[Any], Any]:
    def reference(x: Any) -> Any:
        way = (slice(None),) * axis + (slice(None, None, -1 if reverse else 1),)
        return UFUNCS[name].accumulate(x[way], axis, x.dtype)[way]

    return reference


def row(
    name: str,
    axis: int,
    reverse: bool,
    shape: tuple[int, ...] = (2, 5, 2),
    reference: Callable[..., Any] = by_jax,
    **more: Any,
) -> Operation:
    settings: dict[str, Any] = {"dtypes": ACCEPTED[name], "corners": real_corners, **more}
    return Operation(
        f"{name} {shape} {axis}{' reverse' if reverse else ''}",
        lambda x: getattr(lax, name)(x, axis, reverse),
        reference(name, axis, reverse),
        lambda rng, dtype: (draw(rng, dtype, shape),),
        rtol={**NARROW_RTOL, "float32": 5e-5},
        signed_reference="sum" not in name,  # jax adds the first element to 0.0, NumPy and we do not
        **settings,
    )


# in blocks: NumPy's cumulative sum rounds as often as there are elements, so float64 is compared
LONG: dict[str, Any] = {
    "reference": by_numpy,
    "shape": (2, 2500),
    "dtypes": ("float64", "int32"),
    "differentiable": False,
    "corners": None,
}

ROWS = [
    *(row(name, 1, False) for name in ACCEPTED),
    *(
        row(name, axis, True, second_order=False, dtypes=("float32", "float64"))
        for name in ACCEPTED
        for axis in (0, 2)
    ),
    *(row(name, 1, reverse, **LONG) for name in ("cumsum", "cumprod", "cummax") for reverse in (False, True)),
    row("cumlogsumexp", 1, True, **{**LONG, "dtypes": ("float64",)}),
]
