"""Concrete arrays: conversion, printing, copying, deletion, and what they refuse."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import didax as dx
from didax.array import ConcreteArray, as_concrete
from didax.primitives.elementwise import neg

DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
]


def array(value: object, dtype: str = "float32") -> ConcreteArray:
    return as_concrete(np.asarray(value, dtype))


def on_device(x: ConcreteArray) -> ConcreteArray:
    """The same contents, held by a device buffer only."""
    return ConcreteArray(x.aval, None, x.device_buffer())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3)])
def test_contents_survive_the_way_to_the_device_and_back(dtype: str, shape: tuple[int, ...]):
    rng = np.random.default_rng(0)
    value = (rng.random(shape) * 5).astype(dtype)
    with dx.enable_x64():
        back = on_device(as_concrete(value)).__array__()
    assert back.dtype == value.dtype and back.shape == value.shape
    np.testing.assert_array_equal(back, value)


def test_a_numpy_array_is_copied_in_so_later_writes_do_not_show():
    value = np.zeros(3, np.float32)
    x = as_concrete(value)
    value[:] = 1
    assert not np.asarray(x).any()


def test_numpy_gets_a_view_it_cannot_write_to():
    x = array([1.0, 2.0])
    for view in (np.asarray(x), np.asarray(on_device(x))):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5
    assert np.array(x).flags.writeable


def test_python_scalars_are_weak_and_print_so():
    assert repr(as_concrete(2)) == "Array(2, dtype=int32, weak_type=True)"
    assert repr(as_concrete(np.float32(2))) == "Array(2., dtype=float32)"
    assert repr(array([1.5, 2.0])) == "Array([1.5, 2. ], dtype=float32)"
    assert repr(as_concrete(np.zeros((0, 3), "float32"))) == "Array([], shape=(0, 3), dtype=float32)"
    assert repr(array([1.0], "bfloat16")) == "Array([1], dtype=bfloat16)"


def test_conversions_to_python_values():
    assert float(array(1.5)) == 1.5 and int(array(3, "int32")) == 3 and complex(array(2.0)) == 2
    assert bool(array([1.0])) is True
    assert [10, 20, 30][array(1, "int32")] == 20
    assert f"{array(1.25):.1f}" == "1.2"


@pytest.mark.parametrize(
    ("misuse", "kind", "text"),
    [
        (lambda: bool(array([1.0, 2.0])), ValueError, "Only an array of one element has a truth value."),
        (lambda: float(array([1.0])), TypeError, "Only an array without axes converts to float."),
        (lambda: int(array([1.0, 2.0])), TypeError, "Only an array without axes converts to int."),
        (lambda: [1][array(0.0)], TypeError, "Only an integer array without axes is an index."),
        (lambda: hash(array(0.0)), TypeError, "Arrays are not hashable."),
        (lambda: array([1.0]).__array__("int32", copy=False), ValueError, "A change of dtype needs a copy."),
    ],
)
def test_what_arrays_refuse(misuse: object, kind: type[Exception], text: str):
    with pytest.raises(kind) as error:
        misuse()  # type: ignore[operator]
    assert text in str(error.value)
    assert len(str(error.value).splitlines()) >= 3 or kind is TypeError


@pytest.mark.parametrize("make", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_pickle_and_copy_keep_value_and_type(make: object):
    for x in (array([1.0, 2.0]), as_concrete(2.0), array([1.0], "bfloat16")):
        y = make(x)  # type: ignore[operator]
        assert y.aval is x.aval
        np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


def test_a_deleted_array_says_so():
    x = on_device(array([1.0, 2.0]))
    x.delete()
    assert x.is_deleted() and repr(x) == "Array(deleted, shape=(2,), dtype=float32)"
    for use in (lambda: np.asarray(x), lambda: neg(x), lambda: dx.jit(neg)(x)):
        with pytest.raises(RuntimeError, match="donated to a jitted function, or deleted"):
            use()


def test_arrays_know_their_type_and_place():
    x = array(np.zeros((2, 3)))
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize, x.weak_type) == ((2, 3), 2, 6, 24, 4, False)
    assert x.devices() == {dx.devices()[0]} and isinstance(x, dx.Array)
    assert x.block_until_ready() is x and x.is_ready()


def test_float32_on_the_device_is_viewed_without_a_copy():
    x = on_device(as_concrete(np.arange(4, dtype="float32")))
    assert x.host_value().__array_interface__["data"][0] == x.device_buffer().unsafe_buffer_pointer()
