"""Rows: changing the dtype, iota and full, identities that transformations see; against jax.lax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from didax import lax
from didax.primitives.convert import copy_p, materialize_p
from tests.operations.elementwise import SHAPE, numbers, special_floats, special_integers
from tests.operations.row import BOOL, COMPLEX, FLOATS, INTS, NARROW, UINTS, Operation

REAL = (*FLOATS, *NARROW)


def values(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return rng.choice([False, True], SHAPE)
    return rng.integers(0, 100, SHAPE).astype(dtype) if dtype.kind in "iu" else numbers(rng, dtype)


def extremes(dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    """Numbers at and beyond the limits of narrower dtypes."""
    if dtype.kind in "bc":
        return []
    if dtype.kind in "iu":
        return [(special_integers(dtype),)]
    large = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64, 100)]
    with np.errstate(over="ignore"):
        return [
            (special_floats(dtype),),
            (np.array([*large, *(-x for x in large), 255.6, -0.7]).astype(dtype),),
        ]


def identity_like(
    name: str, fun: Any, reference: Any, dtypes: Sequence[str] = FLOATS, **more: Any
) -> Operation:
    """A row of one operand."""
    return Operation(name, fun, reference, lambda rng, dtype: (values(rng, dtype),), tuple(dtypes), **more)


def conversion(target: str, dtypes: Sequence[str]) -> Operation:
    def reference(x: Any) -> Any:
        if target == "bool":  # jax looks at the real part of a complex number only
            return x != 0
        with jax.enable_x64(True):  # in Didax a dtype the user writes is honoured
            # As an array of jax: from 0.11 on jax lets NumPy convert NumPy's arrays, and NumPy converts numbers that
            # are out of range differently from XLA.
            x = jax.numpy.asarray(x.real if target[0] != "c" else x)
            return np.asarray(jax.lax.convert_element_type(x, target))

    return identity_like(
        f"convert_element_type-{target}",
        lambda x: lax.convert_element_type(x, target),
        reference,
        dtypes,
        corners=extremes,
        rtol={"float64": 1e-2}
        if target in NARROW
        else {"float64": 1e-5}
        if target in ("float32", "complex64")
        else {},
        second_order=target not in NARROW,
    )


def bitcast(target: str, dtypes: Sequence[str]) -> Operation:
    return identity_like(
        f"bitcast_convert_type-{target}",
        lambda x: lax.bitcast_convert_type(x, target),
        lambda x: np.asarray(jax.lax.bitcast_convert_type(x, target)),
        dtypes,
        differentiable=False,
    )


def constant(name: str, fun: Any, reference: Any) -> Operation:
    return Operation(name, fun, reference, lambda rng, dtype: (), ("float32",))


ROWS = [
    *[
        conversion(target, (*FLOATS, "bfloat16", "int32", "complex64", "bool"))
        for target in ("float32", "int8", "uint8", "bool")
    ],
    *[
        conversion(target, ("float32", "float64", "int32", "complex128"))
        for target in ("float64", "complex64", "complex128")
    ],
    *[
        conversion(target, (*REAL, *INTS, *UINTS))
        for target in ("int32", "uint32", "int64", "uint64", "bfloat16", "float16")
    ],
    *[conversion(target, ("float32", "int32")) for target in ("int16", "uint16")],
    bitcast("uint32", ("float32", "int32")),
    bitcast("uint16", ("float32", "float64", "bfloat16", "int16")),
    bitcast("uint8", ("float32",)),
    Operation(
        "bitcast_convert_type-wider",
        lambda x: lax.bitcast_convert_type(x, "float32"),
        lambda x: np.asarray(jax.lax.bitcast_convert_type(x, "float32")),
        lambda rng, dtype: (rng.integers(0, 100, (2, 3, 4 // dtype.itemsize)).astype(dtype),),
        ("uint16", "uint8"),
    ),
    identity_like(
        "reduce_precision",
        lambda x: lax.reduce_precision(x, 5, 10),
        lambda x: np.asarray(jax.lax.reduce_precision(x, 5, 10)),
        REAL,
        corners=extremes,
        differentiable=False,  # its tangents are rounded too: tests/primitives/test_elementwise.py
    ),
    identity_like("stop_gradient", lax.stop_gradient, lambda x: x, (*FLOATS, "int32"), differentiable=False),
    identity_like("copy", copy_p.bind, lambda x: x, (*FLOATS, *COMPLEX, "int32", *BOOL)),
    Operation(
        "optimization_barrier",
        lambda x, n: lax.optimization_barrier((x, n)),
        lambda x, n: (x, n),
        lambda rng, dtype: (numbers(rng, dtype), np.arange(3, dtype=np.int32)),
        (*FLOATS, "complex64"),
    ),
    Operation(
        "materialize",
        lambda x, n: materialize_p.bind(x, n),
        lambda x, n: (x, n),
        lambda rng, dtype: (numbers(rng, dtype), np.arange(3, dtype=np.int32)),
        (*FLOATS, "complex64"),
    ),
    *[
        constant(
            f"iota-{dtype}",
            lambda dtype=dtype: lax.broadcasted_iota(dtype, (2, 300), 1),
            lambda dtype=dtype: np.asarray(jax.lax.broadcasted_iota(dtype, (2, 300), 1)),
        )
        for dtype in ("int32", "float32", "int8", "uint8", "bfloat16", "complex64")
    ],
    constant("iota-1d", lambda: lax.iota("int32", 5), lambda: np.arange(5, dtype=np.int32)),
    Operation(
        "full",
        lambda x: lax.full((2, 3), x),
        lambda x: np.full((2, 3), x),
        lambda rng, dtype: (np.asarray(2.5, dtype),),
        (*FLOATS, "complex64", "int32"),
    ),
    identity_like(
        "full_like", lambda x: lax.full_like(x, 7), lambda x: np.full_like(x, 7), (*FLOATS, "int32")
    ),
]
