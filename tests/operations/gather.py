"""Rows for gather and the scatter family: every mode, indices that repeat or are out of bounds, batching."""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.lax import slicing as lax
from tests.operations.row import Operation
from tests.operations.slicing import draw

DTYPES = ("float32", "float64", "uint32", "bool")
NUMBERS = ("float32", "float64", "bfloat16", "complex64", "int8")
REALS = ("float32", "float64", "int8")

# name, dimension numbers, shape of the operand, of the index arrays, sizes of the windows
LAYOUTS = [
    ("rows", ((1,), (0,), (0,)), (5, 3), (2, 1), (1, 3)),
    ("elements", ((), (0, 1), (1, 0)), (4, 5), (3, 2), (1, 1)),
    ("windows", ((0, 2), (), (0, 1)), (4, 5), (3, 2), (2, 3)),
    ("one window", ((0,), (1,), (1,)), (3, 4), (1,), (3, 1)),
    ("batched", ((2,), (), (1,), (0,), (1,)), (2, 5), (3, 2, 1), (1, 2)),
    ("no windows", ((1,), (0,), (0,)), (5, 3), (0, 1), (1, 3)),
]


def result_shape(layout: Any) -> tuple[int, ...]:
    _, (offset, collapsed, _, *batching), _, indices, sizes = layout
    left_out = {*collapsed, *(batching[0] if batching else ())}
    window = iter([n for i, n in enumerate(sizes) if i not in left_out])
    batch = iter(indices[:-1])
    return tuple(next(window if i in offset else batch) for i in range(len(offset) + len(indices) - 1))


def indices_for(rng: np.random.Generator, layout: Any, outside: bool, unique: bool) -> np.ndarray:
    _, (_, _, axes, *_), shape, indices, sizes = layout
    columns = [
        rng.integers(-1, shape[a] + 1, indices[:-1]) if outside
        else _distinct(rng, shape[a] - sizes[a] + 1, indices[:-1]) if unique
        else rng.integers(0, shape[a] - sizes[a] + 1, indices[:-1])
        for a in axes
    ]  # fmt: skip
    return np.stack(columns, -1).astype(np.int32)


def _distinct(rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> np.ndarray:
    return rng.permutation(n)[: int(np.prod(shape))].reshape(shape)


def gather_row(layout: Any, mode: str, outside: bool = False, fill: Any = None) -> Operation:
    name, dims, shape, _, sizes = layout

    def fun(x: Any, i: Any) -> Any:
        return lax.gather(x, i, lax.GatherDimensionNumbers(*dims), sizes, mode=mode, fill_value=fill)

    def reference(x: Any, i: Any) -> np.ndarray:
        import jax

        return np.asarray(
            jax.lax.gather(x, i, jax.lax.GatherDimensionNumbers(*dims), sizes, mode=mode, fill_value=fill)
        )

    return Operation(
        f"gather {name} {mode}{' outside' if outside else ''}{'' if fill is None else f' with {fill}'}",
        fun,
        reference,
        lambda rng, dtype: (*draw(rng, dtype, shape), indices_for(rng, layout, outside, False)),
        dtypes=DTYPES if mode == "fill" else DTYPES[:2],
        differentiable=not outside or mode != "fill" or fill is not None,  # finite differences of NaN are NaN
    )


def scatter_row(
    name: str, layout: Any, mode: str, outside: bool = False, unique: bool = False, **more: Any
) -> Operation:
    place, dims, shape, *_ = layout

    def fun(x: Any, i: Any, u: Any) -> Any:
        return getattr(lax, name)(
            x, i, u, lax.ScatterDimensionNumbers(*dims), mode=mode, unique_indices=unique
        )

    def reference(x: Any, i: Any, u: Any) -> np.ndarray:
        import jax

        numbers = jax.lax.ScatterDimensionNumbers(*dims)
        return np.asarray(getattr(jax.lax, name)(x, i, u, numbers, mode=mode, unique_indices=unique))

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        x, u = draw(rng, dtype, shape, result_shape(layout))
        return x, indices_for(rng, layout, outside, unique), u

    words = [name, place, mode, *(["outside"] if outside else []), *(["unique"] if unique else [])]
    return Operation(" ".join(words), fun, reference, args, **more)


def combinations(name: str, **more: Any) -> list[Operation]:
    """Every layout in the mode that is usual, and the modes for indices out of bounds."""
    return [
        *[scatter_row(name, layout, "drop", **more) for layout in LAYOUTS],
        *[scatter_row(name, LAYOUTS[2], mode, outside=True, **more) for mode in ("drop", "clip")],
    ]


ROWS = [
    *[gather_row(layout, "fill") for layout in LAYOUTS],
    *[gather_row(LAYOUTS[i], mode, outside=True) for i in (0, 2, 4) for mode in ("fill", "clip")],
    *[gather_row(LAYOUTS[i], "fill", outside=True, fill=7) for i in (0, 1, 2)],
    gather_row(LAYOUTS[1], "promise_in_bounds"),
    *combinations("scatter", dtypes=DTYPES),
    scatter_row("scatter", LAYOUTS[0], "promise_in_bounds", unique=True),
    *combinations("scatter_add", dtypes=NUMBERS, rtol={"bfloat16": 0.05}),
    scatter_row("scatter_sub", LAYOUTS[2], "drop", dtypes=NUMBERS, rtol={"bfloat16": 0.05}),
    scatter_row("scatter_mul", LAYOUTS[2], "drop", dtypes=("float32", "float64", "int8"), argnums=(0,)),
    scatter_row("scatter_mul", LAYOUTS[1], "drop", unique=True),
    *combinations("scatter_min", dtypes=REALS),
    *combinations("scatter_max", dtypes=REALS),
    scatter_row(
        "scatter_max",
        ("complex elements", *LAYOUTS[1][1:]),
        "drop",
        dtypes=("complex64",),
        second_order=False,
    ),
]
