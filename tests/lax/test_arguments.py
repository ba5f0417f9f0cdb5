"""How functions of `lax` take scalars: NumPy's 64-bit ones are narrow here, wherever they stand, in every function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.lax.scalar_calls import CALLS, NO_SCALARS

FUNCTIONS = {name: f for name in lax.__all__ if inspect.isfunction(f := getattr(lax, name))}
WIDE_AND_NARROW = {
    "f": (np.float64(0.5), np.float32(0.5)),
    "i": (np.int64(1), np.int32(1)),
    "c": (np.complex128(1 + 1j), np.complex64(1 + 1j)),
}
VECTORS = {"f": [0.5, 0.25, 0.75], "i": [1, 2, 3], "c": [1 + 2j, 2, 3j]}
ROWS = np.array([[0], [1]])
POINTS = lax.GatherDimensionNumbers((), (0,), (0,))
ONE = PLACES = lax.ScatterDimensionNumbers((), (0,), (0,))
ALL, NOWHERE = lax.ScatterDimensionNumbers((), (), ()), np.zeros(0, "int32")


def called(kind: str, text: str) -> Callable[[Any], Any]:
    """The call as a function of the scalar."""
    names = {"np": np, "lax": lax, "ROWS": ROWS, "POINTS": POINTS, "ONE": ONE, "PLACES": PLACES, "ALL": ALL}
    f = eval(f"lambda s, x, m, n, p: {text}", names | {"NOWHERE": NOWHERE})
    x, m = dnp.array(VECTORS[kind]), dnp.array([[0.5, 0.25], [0.1, 0.2]])
    rest = m, dnp.array([1, 2, 3]), dnp.array([True, False, True])
    if "'b'" in text:
        return lambda s: dx.vmap(lambda x: f(s, x, *rest), axis_name="b")(x)
    return lambda s: f(s, x, *rest)


def types(f: Callable[[], Any]) -> list[Any]:
    return [(y.shape, y.dtype, y.weak_type) for y in dx.tree.leaves(dx.eval_shape(f))]


@pytest.mark.parametrize("kind", CALLS)
def test_wide_scalars_of_numpy_are_narrow(kind: str) -> None:
    wide, narrow = WIDE_AND_NARROW[kind]
    for text in [text for texts in CALLS[kind].values() for text in texts]:
        call = called(kind, text)
        assert types(lambda: call(wide)) == types(lambda: call(narrow)), text


def test_every_function_takes_its_arguments_alike() -> None:
    """One decorator, for all of them, and a call of each in the test above."""
    door = lax.sin.__code__

    def is_other(f: Any) -> bool:
        return not isinstance(f, type) and f.__code__ is not door

    others = {name for name, f in FUNCTIONS.items() if is_other(f)}
    others |= {name for name, f in vars(lax.linalg).items() if name in lax.linalg.__all__ and is_other(f)}
    assert others == set()
    assert {name for names in CALLS.values() for name in names} | set(NO_SCALARS.split()) == set(FUNCTIONS)


def test_wide_scalars_keep_their_digits_where_a_dtype_is_stated() -> None:
    tenth = np.float64(0.1)
    for y in (
        lax.convert_element_type(tenth, "float64"),
        lax.convert_element_type(0.1, "float64"),
        lax.full((), tenth, "float64"),
        lax.full_like(np.zeros(()), 0.1, "float64"),
        lax.full_like(dnp.zeros((), "float64"), tenth),
    ):
        assert y.dtype == np.float64 and float(y) == 0.1
    assert lax.convert_element_type(np.int64(2**40), "float32") == 2.0**40
    with dx.enable_x64():
        assert lax.sin(tenth).dtype == np.float64


def test_results_are_arrays_where_nothing_is_to_do() -> None:
    for f in (
        lambda: lax.squeeze(0.5, ()),
        lambda: lax.squeeze(np.array(0.5), ()),
        lambda: lax.expand_dims(0.5, ()),
        lambda: lax.convert_element_type(True, bool),
        lambda: lax.bitcast_convert_type(0.5, "float32"),
        lambda: lax.convert_element_type(0.5j, "complex64"),
        lambda: lax.full((), 0.5j),
    ):
        y = f()
        assert isinstance(y, dx.Array) and y.dtype in (np.bool_, np.float32, np.complex64)


def test_sums_over_an_axis_of_wide_scalars() -> None:
    x = dnp.arange(3.0)
    for scalar in (np.float64(2), np.float32(2), 2.0):
        found = dx.vmap(lambda a, s=scalar: a * lax.psum(s, "i"), axis_name="i")(x)
        wanted = jax.vmap(lambda a, s=scalar: a * jax.lax.psum(s, "i"), axis_name="i")(jnp.arange(3.0))
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["add", "neg", "pad", "reshape", "psum", "reduce_sum", "select"])
def test_lists_are_no_arrays(name: str) -> None:
    args = {"add": ([1], 1), "pad": ([1], 0, [(0, 0, 0)]), "reshape": ([1], (1,)), "reduce_sum": ([1], (0,)),
            "select": (True, [1], [2])}  # fmt: skip
    call = args.get(name, ([1],))
    if name == "psum":  # a list is a pytree there
        assert dx.vmap(lambda _: lax.psum([1], "i")[0], axis_name="i")(dnp.ones(2)).tolist() == [2, 2]
        return
    with pytest.raises(TypeError):
        getattr(jax.lax, name)(*call)
    with pytest.raises(TypeError, match=r"Only arrays and scalars can enter an array program\.\n  got: \["):
        getattr(lax, name)(*call)
