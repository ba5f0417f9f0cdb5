"""Concrete arrays: conversion, printing, copying, deletion, and what they refuse."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import re
import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.dtypes import ALL_DTYPES
from didax.core.errors import ConcretizationTypeError
from didax.primitives.elementwise import neg
from didax.runtime.array import ConcreteArray, as_concrete
from didax.xla import buffers

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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_no_view_can_be_made_writeable(dtype):
    """Nor can what it is a view of: the owner of memory may always be written to, says NumPy."""
    row = next(iter(as_concrete(np.ones((2, 3), dtype))))
    repeated = dx.numpy.broadcast_to(as_concrete(np.ones(3, dtype)), (2, 3))
    for x in (as_concrete(np.ones((2, 3), dtype)), as_concrete(np.ones((), dtype)) * 1, row, repeated):
        for view in (np.asarray(x), dx.device_get(x), np.asarray(x)[...], np.asarray(x).T):
            assert view.dtype == x.dtype
            while isinstance(view, np.ndarray):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    view.setflags(write=True)
                view = view.base
        assert np.shares_memory(np.asarray(x), np.asarray(x))


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
        (lambda: [1][array(False, "bool")], TypeError, "Only an integer array without axes is an index."),
        (lambda: bool(array([])), ValueError, "or x.size > 0 to ask whether it is empty."),
        (lambda: float(array(1j, "complex64")), TypeError, "A complex array has no float value."),
        (lambda: int(array(1j, "complex64")), TypeError, "Take x.real, x.imag or abs(x) first."),
        (lambda: f"{array([1.0]):.2f}", TypeError, "array: float32[1], format: '.2f'"),
        (lambda: array([1.0, 2.0]).item(), ValueError, "Say which, as in x.item(0)"),
        (lambda: dnp.array([1j], "float32"), TypeError, "number: 1j, dtype: float32"),
        (lambda: dnp.array([1j, 2], "int32"), TypeError, "number: 1j, dtype: int32"),
        (lambda: hash(array(0.0)), TypeError, "Arrays are not hashable."),
        (lambda: array([1.0]).__array__("int32", copy=False), ValueError, "A change of dtype needs a copy."),
    ],
)
def test_what_arrays_refuse(misuse: object, kind: type[Exception], text: str):
    with pytest.raises(kind) as error:
        misuse()  # type: ignore[operator]
    assert text in str(error.value)
    assert len(str(error.value).splitlines()) >= 3
    assert not [entry for entry in error.traceback if "/didax/" in str(entry.path)]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_value_and_type(protocol: int):
    with dx.enable_x64():
        for dtype in ALL_DTYPES:
            x = dnp.ones((2, 1), dtype)
            y = pickle.loads(pickle.dumps(x, protocol))
            assert y.aval is x.aval and np.array_equal(y, x)
    assert pickle.loads(pickle.dumps(as_concrete(2.0), protocol)).weak_type


def test_pickle_keeps_the_device_an_array_was_placed_on():
    x = pickle.loads(pickle.dumps(dx.device_put(array([1.0]), dx.devices()[0])))
    assert x.committed and x.device is dx.devices()[0] and float(x[0]) == 1
    elsewhere = x.__reduce__()[1][:2] + (("tpu", 7),)
    assert not x.__reduce__()[0](*elsewhere).committed


def test_a_class_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(ConcreteArray)) is ConcreteArray


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda x: x.copy(), dnp.copy, dnp.array])
def test_a_copy_outlives_a_donation_and_a_deletion(make: Callable[[Any], Any]):
    for x in (array([1.0, 2.0]), on_device(array([1.0, 2.0])), as_concrete(2.0), array([1.0], "bfloat16")):
        y, expected = make(x), np.array(x)
        assert y is not x and y.aval is x.aval
        dx.jit(lambda v: v + 1, donate_argnums=0)(x)
        x.delete()
        np.testing.assert_array_equal(np.asarray(y), expected)


# Functions that have nothing to do for an array with one axis.
IDLE: list[Callable[[Any], Any]] = [
    dnp.squeeze, dnp.ravel, dnp.transpose, dnp.positive, dnp.conj, dnp.real, dnp.atleast_1d, dnp.clip,
    dx.nn.identity, lax.stop_gradient, lambda x: x.flatten(), lambda x: x.T, lambda x: x.real, lambda x: +x,
    lambda x: x[:], lambda x: x[...], lambda x: x.view(), lambda x: x.view(x.dtype), lambda x: x.astype(x.dtype),
    lambda x: x.reshape(x.shape), lambda x: x.swapaxes(0, 0), lambda x: dnp.squeeze(a=x), lambda x: dnp.pad(x, 0),
    lambda x: dnp.roll(x, 0), lambda x: dnp.flip(x, ()), lambda x: dnp.sum(x, axis=()), lambda x: dnp.diff(x, 0),
    lambda x: dnp.broadcast_to(x, x.shape), lambda x: dnp.broadcast_arrays(x, x)[1], lambda x: dnp.split(x, 1)[0],
    dnp.from_dlpack, lambda x: dnp.hstack([x]), lambda x: dnp.block([x]),
    lambda x: dnp.meshgrid(x)[0], lambda x: dnp.einsum("i->i", x),
    lambda x: lax.reshape(x, x.shape), lambda x: lax.expand_dims(x, ()), lambda x: lax.convert_element_type(x, x.dtype),
    lambda x: lax.cond(True, lambda v: v, lambda v: v + 1, x), lambda x: lax.cond(True, lambda: x, lambda: x + 1),
    lambda x: dx.device_put(x, dx.devices()[0]), lambda x: dx.new_ref(x)[...], lambda x: dx.freeze(dx.new_ref(x)),
    lambda x: dx.vmap(lambda v: v.ravel(), in_axes=None, out_axes=None, axis_size=2)(x),
]  # fmt: skip


@pytest.mark.parametrize("size", [3, 70_000])
@pytest.mark.parametrize("on_host", [True, False])
def test_results_outlive_the_donation_and_the_deletion_of_the_argument(size: int, on_host: bool):
    numbers = np.arange(size, dtype="float32")
    consume = dx.jit(lambda v: v * -3 - 1, donate_argnums=0)
    for f in IDLE:
        for end in (consume, lambda x: x.delete()):
            x = dnp.array(numbers) if on_host else dx.jit(lambda v: v + 0)(numbers)
            y = f(x)
            assert y is not x and y.aval is x.aval
            end(x)
            assert x.is_deleted() or end is consume  # memory that NumPy looks at is lent, not given
            np.testing.assert_array_equal(np.asarray(y), numbers)


def test_a_result_may_be_donated_beside_its_argument_and_before_it():
    """Those that share a buffer are two arrays: neither is given away with the other, and the last one is for good."""
    f = dx.jit(lambda x, y: x + y, donate_argnums=0)
    x = dx.jit(lambda v: v + 0)(np.arange(70_000, dtype="float32"))
    y = dnp.ravel(x)
    np.testing.assert_array_equal(f(y, x)[:3], [0, 2, 4])
    assert y.is_deleted() and not x.is_deleted()
    dx.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert x.is_deleted()


def test_a_ref_outlives_what_was_written_to_it_and_what_was_read():
    x = dx.jit(lambda v: v + 0)(np.arange(3, dtype="float32"))
    ref = dx.new_ref(x)
    for gift in (x, ref[...]):
        dx.jit(lambda v: v * -3, donate_argnums=0)(gift)
        np.testing.assert_array_equal(np.asarray(ref[...]), [0, 1, 2])


USES: list[Callable[[Any], Any]] = [
    np.asarray, neg, dx.jit(neg), str, format, list, memoryview if sys.version_info >= (3, 12) else bytes,
    pickle.dumps, copy.copy, copy.deepcopy, dx.device_get, dnp.sum, np.from_dlpack,
    lambda x: x + x, lambda x: x[0], lambda x: x.at[0].set(1), lambda x: x.tolist(), lambda x: x.copy(),
    lambda x: x.item(0), lambda x: 1.0 in x, lambda x: x.__dlpack__(), lambda x: x.block_until_ready(),
    lambda x: x.is_ready(), lambda x: x.unsafe_buffer_pointer(), lambda x: x.on_device_size_in_bytes(),
    lambda x: x.copy_to_host_async(), lambda x: dx.device_put(x, dx.devices()[0]), lambda x: float(x[0]),
]  # fmt: skip


@pytest.mark.parametrize("how", ["host", "device", "placed", "donated"])
def test_a_deleted_array_says_so(how: str):
    x: Any = array([1.0, 2.0])
    if how == "device":
        x = on_device(x)
    if how == "placed":
        x = dx.device_put(x, dx.devices()[0])
    if how == "donated":
        x = on_device(x)
        dx.jit(lambda v: v + 1, donate_argnums=0)(x)
    else:
        x.delete()
    assert x.is_deleted() and repr(x) == "Array(deleted, shape=(2,), dtype=float32)"
    assert x.shape == (2,) and x.nbytes == 8 and x.device is dx.devices()[0]
    x.delete()  # again: nothing to do
    for use in USES:
        with pytest.raises(RuntimeError, match="donated") as error:
            use(x)
        assert "float32[2]" in str(error.value)


def test_arrays_know_their_type_and_place():
    x = array(np.zeros((2, 3)))
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize, x.weak_type) == ((2, 3), 2, 6, 24, 4, False)
    assert x.devices() == {dx.devices()[0]} and isinstance(x, dx.Array)
    assert x.block_until_ready() is x and x.is_ready()


@pytest.mark.cpu
def test_float32_on_the_device_is_viewed_without_a_copy():
    x = on_device(as_concrete(np.arange(4, dtype="float32")))
    assert x.host_value().__array_interface__["data"][0] == x.device_buffer().unsafe_buffer_pointer()


def test_conversions_of_every_dtype():
    with dx.enable_x64():
        for dtype in ALL_DTYPES:
            x = dnp.ones((), dtype)
            assert int(x.real) == 1 and float(x.real) == 1.0 and complex(x) == 1 and bool(x) and x.item() == 1
            assert f"{x.real:.2f}" in ("1.00", "1") and f"{x}" == str(np.asarray(x))


@pytest.mark.cpu
def test_iteration_makes_views_of_the_host_memory():
    x = dx.jit(lambda v: v * 1)(dnp.arange(12.0).reshape(4, 3))
    rows = list(x)
    assert [type(r) for r in rows] == [ConcreteArray] * 4 and rows[0].aval is x[0].aval
    assert rows[2].unsafe_buffer_pointer() == x.unsafe_buffer_pointer() + 24
    dx.jit(lambda v: v + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(rows[3], [9, 10, 11])
    assert [int(v) for v in reversed(dnp.arange(3))] == [2, 1, 0]
    assert next(iter(as_concrete(np.ones((1, 2))[0]))).weak_type is False


@pytest.mark.cpu
def test_iterating_needs_no_operation_for_each_row(monkeypatch: pytest.MonkeyPatch):
    from didax.core.primitive import EagerTrace

    x, calls, process = dnp.arange(2000), [], EagerTrace.process
    monkeypatch.setattr(EagerTrace, "process", lambda *args: calls.append(args) or process(*args))
    assert [int(v) for v in x] == list(range(2000)) and not calls


def not_in_place(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As on an accelerator, where the host sees only copies; the list fills with their sizes."""
    sizes: list[int] = []
    to_host = buffers.to_host
    monkeypatch.setattr(buffers, "reads_in_place", lambda aval: False)
    monkeypatch.setattr(buffers, "to_host", lambda b, aval: sizes.append(aval.size) or np.asarray(b))
    assert to_host is not buffers.to_host
    return sizes


def test_rows_of_an_array_on_an_accelerator_stay_there(monkeypatch: pytest.MonkeyPatch):
    x = on_device(as_concrete(np.arange(250, dtype="float32")))
    not_in_place(monkeypatch)
    rows = list(x)
    assert all(row._value is None for row in rows)
    assert [float(row) for row in rows] == list(range(250))


@pytest.mark.parametrize("shape", [(200_000,), (300, 400), (2, 70_000), (60, 60, 60), (7, 30_000)])
def test_printing_a_large_array_brings_only_what_is_shown(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
):
    value = np.random.default_rng(0).normal(size=shape).astype("float32")
    x = on_device(as_concrete(value))
    expected = repr(as_concrete(value)), str(value)
    sizes = not_in_place(monkeypatch)
    assert (repr(x), str(x)) == expected
    # The last slices are small enough to be taken on the host here; an accelerator brings 7 elements of each axis.
    assert max(sizes) < x.size / 10 and x._value is None


@pytest.mark.parametrize("value", [
    np.arange(3), np.arange(2000), np.ones((2, 3)), np.zeros((0, 3)), np.array(True), np.ones((40, 40)),
    np.array([1 + 2j]), np.array([np.nan, np.inf]), np.arange(30).reshape(1, 30, 1),
])  # fmt: skip
def test_repr_is_that_of_jax(value: np.ndarray):
    found = repr(dnp.asarray(value))
    assert found.split() == repr(jnp.asarray(value)).split()
    assert max(map(len, found.splitlines())) <= 75


@pytest.mark.parametrize("other", [[1, 2], (1, 2), {}, {1}])
@pytest.mark.parametrize(
    "use", [operator.add, operator.mul, operator.matmul, operator.eq, operator.ne, operator.lt, divmod]
)
def test_operators_refuse_containers(use, other):
    """Python would take an array for unequal to the list of its elements."""
    x = dnp.array([1, 2])
    text = rf"argument 2: {re.escape(repr(other))} of type {type(other).__name__}\nConvert it first"
    with pytest.raises(TypeError, match=text):
        use(x, other)
    with pytest.raises(TypeError, match="takes arrays and scalars"):
        dx.jit(lambda x: use(other, x))(x)


def test_operators_leave_other_values_to_python():
    class Length(list):
        def __radd__(self, other):
            return "sum"

    assert dnp.ones(2) + Length() == "sum"
    assert [0] * dnp.array(2) == dnp.array(2) * [0] == [0, 0]
    assert (dnp.ones(2) == "a") is False and (dnp.ones(2) != None) is True  # noqa: E711


def test_what_is_printed_of_a_type_is_array():
    assert type(array(1.0)).__name__ == "Array"
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Array' and 'str'"):
        array(1.0) + "a"  # type: ignore[operator]


@pytest.mark.cpu
def test_copies_for_numpy_follow_its_rules():
    x = array([1.0, 2.0])
    assert np.asarray(x, copy=False).__array_interface__["data"][0] == x.unsafe_buffer_pointer()
    mine = np.array(x, copy=True)
    mine[0] = 5
    assert float(x[0]) == 1.0
    assert np.asarray(x, dtype="float64").dtype == "float64"
    # from Python 3.12 on NumPy reads the buffer, and refuses in its own words
    with pytest.raises(ValueError, match=r"wanted: float64, copy=False|Unable to avoid copy"):
        np.asarray(x, dtype="float64", copy=False)


def test_numpy_sees_no_device_memory_without_a_copy(monkeypatch: pytest.MonkeyPatch):
    x = on_device(array([1.0, 2.0]))
    not_in_place(monkeypatch)
    with pytest.raises(ValueError, match="cannot see a device's memory without a copy"):
        np.asarray(x, copy=False)
    with pytest.raises(BufferError, match=r"array: float32\[2\] on .*\nCopy it to the host: numpy.asarray"):
        x.__buffer__(0)
    assert np.asarray(x).tolist() == [1.0, 2.0]


def test_the_buffer_protocol_is_read_only():
    view = array([[1.0, 2.0]]).__buffer__(0)
    assert view.readonly and view.shape == (1, 2) and view.format == "f"
    if sys.version_info >= (3, 12):  # from which on Python asks classes for it
        assert bytes(array([1.0])) == np.ones(1, "float32").tobytes()


@pytest.mark.cpu
def test_where_an_array_is():
    x = array([[1.0, 2.0]])
    (shard,) = x.addressable_shards
    assert shard.device is x.device and shard.index == (slice(None), slice(None)) and shard.data is x
    assert x.addressable_data(0) is x and x.is_fully_addressable and x.is_fully_replicated
    assert x.platform() == "cpu" and x.on_device_size_in_bytes() == 8 and x.copy_to_host_async() is None
    assert x.sharding.device_set == x.devices()
    np.testing.assert_array_equal(x.to_device(dx.devices()[0]), x)
    with pytest.raises(ValueError, match="takes no stream"):
        x.to_device(x.device, stream=1)  # type: ignore[arg-type]


NEEDS_MEMORY: list[Callable[[Any], Any]] = [
    float, int, complex, bool, [1].__getitem__, np.asarray, np.from_dlpack, pickle.dumps,
    lambda x: f"{x:.2f}", lambda x: x.tolist(), lambda x: x.tobytes(), lambda x: x.item(), lambda x: x.devices(),
    lambda x: x.device, lambda x: x.sharding, lambda x: x.addressable_shards, lambda x: x.delete(),
    lambda x: x.is_ready(), lambda x: x.unsafe_buffer_pointer(), lambda x: x.__dlpack_device__(),
]  # fmt: skip


@pytest.mark.parametrize("use", NEEDS_MEMORY)
def test_tracers_refuse_what_needs_their_numbers(use: Callable[[Any], Any]):
    with pytest.raises(ConcretizationTypeError) as error:
        dx.jit(use)(1)
    text = str(error.value)
    assert "value: int32[], traced by jit of" in text and len(text.splitlines()) >= 3
    assert not hasattr(dx.Array, "device") or "argument" in text


def test_tracers_have_what_needs_no_numbers():
    def f(x: Any) -> Any:
        assert isinstance(x, dx.Array) and not hasattr(x, "device") and f"{x}" == repr(x)
        assert copy.copy(x) is x and copy.deepcopy(x) is x and x.block_until_ready() is x
        assert x.__array_namespace__() is dnp and x.to_device(dx.devices()[0]) is x
        return sum(reversed(x)) + x.copy()

    np.testing.assert_array_equal(dx.jit(f)(dnp.arange(3)), [3, 4, 5])


def test_numpy_functions_under_grad_do_not_drop_the_derivative():
    with pytest.raises(ConcretizationTypeError, match=r"lose its derivative.*\n  value: float32\[\]"):
        dx.grad(lambda x: np.sin(x))(1.0)
    for number in (float, complex, math.sin, lambda x: x.item()):
        with pytest.raises(
            ConcretizationTypeError, match=r"lose its derivative.*\n  value: float32\[\]"
        ) as error:
            dx.grad(lambda x: x * number(x))(3.0)
        assert "lax.stop_gradient(x)" in str(error.value)


def test_numbers_of_known_tracers_that_no_derivative_goes_through():
    def f(x: Any) -> Any:
        fixed = dx.lax.stop_gradient(x)
        assert f"{x:.1f}" == "3.0" and int(x) == 3 and float(fixed) == fixed.item() == 3.0
        return x * float(fixed) * int(x) * dnp.arange(2.0, x).sum()

    assert float(dx.grad(f)(3.0)) == 18.0


def test_methods_have_the_names_that_users_know():
    x = dnp.ones(3)
    for name in (
        "compress",
        "copy",
        "item",
        "reshape",
        "tobytes",
        "to_device",
        "tolist",
        "transpose",
        "view",
    ):
        assert getattr(type(x), name).__name__ == name
    with pytest.raises(
        TypeError, match=r"^Array\.view\(\) takes from 1 to 3 positional arguments but 4 were given"
    ):
        x.view(3, 1, 1)
    rule = (
        r"An index stands in brackets after `at`\.\n  array: float32\[3\], called with: 0\nWrite x\.at\[i\]"
    )
    with pytest.raises(TypeError, match=rule):
        x.at(0)
