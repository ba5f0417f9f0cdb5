"""Rows: jit, checkpoint and cond, against NumPy, and collectives over the axis of a vmap, against jax."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.operations.row import FLOATS, INEXACT, Operation

SHAPE = (2, 4)


def numbers(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    real = rng.uniform(0.3, 1.5, shape)
    return np.asarray(real + 1j * rng.uniform(0.3, 1.5, shape) if dtype.kind == "c" else real).astype(dtype)


def one(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return (numbers(rng, dtype),)


def nested(x: Any, y: Any) -> Any:
    """A jitted call in a jitted call, one result of which nobody uses."""
    inner = dx.jit(lambda a, b: (lax.mul(a, b), lax.sin(a), b))
    return dx.jit(lambda a, b: lax.add(inner(a, b)[0], inner(b, a)[2]))(x, y)


def checkpointed(x: Any, y: Any) -> Any:
    """A checkpointed call in a checkpointed call; the inner one saves a value by its name."""
    policy = dx.checkpoint_policies.save_only_these_names("s")
    inner = dx.checkpoint(lambda a, b: (lax.mul(a, dx.checkpoint_name(lax.sin(b), "s")), b), policy=policy)
    return dx.checkpoint(lambda a, b: lax.add(inner(a, b)[0], lax.mul(a, b)))(x, y)


def branches(pred: Any, x: Any) -> Any:
    return lax.cond(pred, lambda y: (lax.mul(y, y), y), lambda y: (lax.neg(y), lax.full_like(y, 2)), x)


def chosen(index: Any, x: Any) -> Any:
    return lax.switch(index, [lambda y: y, lax.sin, lambda y: lax.mul(y, y)], x)


def over_axis(f: Any, m: Any = dx) -> Any:
    """`f` of each row, with the rows' axis named 'i'."""
    return lambda x: m.vmap(f, axis_name="i")(x)


def collective(name: str, *args: Any, dtypes: tuple[str, ...] = FLOATS, **kwargs: Any) -> Operation:
    def by_jax(x: np.ndarray) -> Any:
        return jax.tree.map(
            np.asarray, over_axis(lambda row: getattr(jax.lax, name)(row, "i", *args, **kwargs), jax)(x)
        )

    label = "-".join([name, *(f"{k}={v}" for k, v in kwargs.items())])
    return Operation(
        label, over_axis(lambda row: getattr(lax, name)(row, "i", *args, **kwargs)), by_jax, one, dtypes
    )


ROWS = [
    Operation("jit", nested, lambda x, y: x * y + x, lambda rng, d: (*one(rng, d), *one(rng, d)), INEXACT),
    Operation(
        "checkpoint",
        checkpointed,
        lambda x, y: x * np.sin(y) + x * y,
        lambda rng, d: (*one(rng, d), *one(rng, d)),
        (*FLOATS, "complex64"),
    ),
    Operation("checkpoint_name", lambda x: dx.checkpoint_name(x, "x"), lambda x: x, one, INEXACT),
    Operation(
        "cond",
        branches,
        lambda pred, x: (x * x, x) if pred else (-x, np.full_like(x, 2)),
        lambda rng, dtype: (np.asarray(rng.random() > 0.5), *one(rng, dtype)),
        (*FLOATS, "complex64"),
    ),
    Operation(
        "switch",
        chosen,
        lambda index, x: [x, np.sin(x), x * x][int(np.clip(index, 0, 2))],
        lambda rng, dtype: (np.asarray(rng.integers(-1, 4), np.int32), *one(rng, dtype)),
    ),
    *[collective(name, dtypes=(*FLOATS, "complex64")) for name in ("psum", "pmean", "all_gather")],
    *[collective(name) for name in ("pmax", "pmin")],
    collective("all_gather", axis=1, tiled=False),
    collective("all_gather", axis=0, tiled=True),
    collective("psum_scatter", scatter_dimension=0, tiled=True),
    collective("all_to_all", split_axis=0, concat_axis=0, tiled=True),
    collective("ppermute", perm=[(0, 1), (1, 0)]),
    Operation(
        "ppermute-partial",
        over_axis(lambda row: lax.ppermute(row, "i", [(0, 1)])),
        lambda x: np.stack([np.zeros_like(x[0]), x[0]]),  # who receives from nobody gets zeros
        one,
    ),
    Operation(
        "axis_index",
        over_axis(lambda row: dnp.multiply(row, lax.axis_index("i"))),
        lambda x: x * np.arange(2, dtype=x.dtype)[:, None],
        one,
    ),
]
