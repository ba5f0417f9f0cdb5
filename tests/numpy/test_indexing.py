"""x[index] and x.at[index]: NumPy's results for generated indices, traced or not; modes, dtypes, errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

import didax as dx
from didax.array import as_concrete
from didax.core.errors import NonConcreteBooleanIndexError
from didax.numpy.indexing import at, getitem
from didax.primitives.elementwise import gt, neg
from tests.checks import check_grads, wide

BROADCASTABLE = [(), (1,), (3,), (2, 1), (2, 3)]


@st.composite
def slices(draw: Any, n: int) -> slice:
    bound = st.none() | st.integers(-n - 2, n + 2)
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))


@st.composite
def cases(draw: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    """An array, and an index that NumPy takes for it."""
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    x = np.arange(1.0, 1 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    items: list[Any] = []
    axis = 0
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    while axis < len(shape):
        n = shape[axis]
        kind = draw(
            st.sampled_from(["slice", "int", "array", "array", "None", "...", "mask", "flag", "stop"])
        )
        if kind == "stop":
            break
        if kind == "None":
            items.append(None)
        elif kind == "flag":
            items.append(draw(st.booleans()))
        elif kind == "...":
            if not any(i is Ellipsis for i in items):
                items.append(Ellipsis)
                axis += draw(st.integers(0, len(shape) - axis))
        elif kind == "mask":
            mask = rng.random(shape[axis : axis + draw(st.integers(1, 2))]) < 0.5
            items.append(mask)
            axis += mask.ndim
        elif kind == "slice" or n == 0:
            items.append(draw(slices(n)))
            axis += 1
        else:
            array = rng.integers(-n, n, draw(st.sampled_from(BROADCASTABLE)))
            items.append(array if kind == "array" else int(array.flat[0]))
            axis += 1
    try:
        x[tuple(items)]
    except IndexError:  # arrays that do not broadcast
        assume(False)
    return x, tuple(items)


def is_integers(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype != np.bool_


def with_arguments(apply: Callable[..., Any], index: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
    """`apply(index, *arrays)` as a function of the index's integer arrays too, and these arrays."""
    taken = [as_concrete(item.astype(np.int32)) for item in index if is_integers(item)]

    def fun(*args: Any) -> Any:
        given = iter(args[: len(taken)])
        return apply(tuple(next(given) if is_integers(item) else item for item in index), *args[len(taken) :])

    return fun, taken


@given(cases())
@settings(max_examples=150)
def test_eager_getitem_is_numpys(case: tuple[np.ndarray, tuple[Any, ...]]) -> None:
    x, index = case
    np.testing.assert_array_equal(np.asarray(getitem(as_concrete(x), index)), x[index])
    fun, taken = with_arguments(lambda index: getitem(as_concrete(x), index), index)
    np.testing.assert_array_equal(np.asarray(fun(*taken)), x[index])


@given(cases())
@settings(max_examples=25)
def test_traced_getitem_is_numpys(case: tuple[np.ndarray, tuple[Any, ...]]) -> None:
    """With traced integer arrays: compiled, and batched over the array and the indices."""
    x, index = case
    fun, taken = with_arguments(lambda index, x: getitem(x, index), index)
    np.testing.assert_array_equal(np.asarray(dx.jit(fun)(*taken, x)), x[index])
    other = tuple(item[::-1] if is_integers(item) and item.ndim else item for item in index)
    other_taken = [np.asarray(item, np.int32) for item in other if is_integers(item)]
    batches = [np.stack([np.asarray(a), b]) for a, b in zip([*taken, x], [*other_taken, -x], strict=True)]
    found = np.asarray(dx.vmap(fun)(*batches))
    np.testing.assert_array_equal(found[0], x[index])
    np.testing.assert_array_equal(found[1], -x[other])


UPDATES = {
    "set": lambda x, index, v: x.__setitem__(index, v),
    "add": np.add.at,
    "subtract": np.subtract.at,
    "multiply": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


@given(cases(), st.sampled_from(list(UPDATES)), st.booleans())
@settings(max_examples=150)
def test_updates_are_numpys(case: tuple[np.ndarray, tuple[Any, ...]], kind: str, traced: bool) -> None:
    x, index = case
    values = np.random.default_rng(0).normal(size=x[index].shape).astype(np.float32)
    want = x.copy()
    UPDATES[kind](want, index, values)
    fun, taken = with_arguments(lambda index, x, v: getattr(at(x)[index], kind)(v), index)
    fun = fun if not traced or len(repr(index)) % 4 else dx.jit(fun)  # compile some of them
    np.testing.assert_allclose(np.asarray(fun(*taken, as_concrete(x), as_concrete(values))), want, rtol=1e-5)
    if kind == "set":
        found = at(as_concrete(x))[index].set(0)
        want[index] = 0
        np.testing.assert_array_equal(np.asarray(found), want)


GRIDS = [
    (slice(None, None, -1), 1),
    (np.array([[0, 2], [2, 2]]), slice(1, None, 2)),
    (np.array([True, False, True]), None, np.array([0, 3])),
    (Ellipsis, np.array([1, 1])),
]


@pytest.mark.parametrize("index", GRIDS, ids=str)
@pytest.mark.usefixtures("x64")
def test_derivatives(index: Any) -> None:
    x = as_concrete(np.random.default_rng(0).normal(size=(3, 4)))
    shape = getitem(x, index).shape
    v = as_concrete(np.random.default_rng(1).normal(size=shape))
    check_grads(lambda x: getitem(x, index), (x,), order=1)
    for kind in ("set", "add", "subtract", "min", "max"):
        check_grads(lambda x, v, kind=kind: getattr(at(x)[index], kind)(v), (x, v), order=1)


@pytest.mark.usefixtures("x64")
def test_derivative_of_multiply_by_distinct_indices() -> None:
    x, v = (as_concrete(np.random.default_rng(i).normal(size=n)) for i, n in enumerate([4, 2]))
    check_grads(lambda x, v: at(x)[np.array([3, 1])].multiply(v, unique_indices=True), (x, v), order=1)


def test_batched_scalar_index_reads_and_writes_rows() -> None:
    x, i = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.array([2, -1, 0], np.int32)
    found = dx.vmap(lambda i: getitem(as_concrete(x), i))(i)
    np.testing.assert_array_equal(np.asarray(found), x[i])
    found = dx.vmap(lambda x, i: at(x)[i].set(9.0))(x, i)
    want = x.copy()
    want[np.arange(3), i] = 9
    np.testing.assert_array_equal(np.asarray(found), want)


# --- Out of bounds ------------------------------------------------------------------------------------------

MODES = [None, "fill", "drop", "clip", "promise_in_bounds"]
TRACED = [np.int32(7), np.int32(-4), np.int32(-1), np.array([5, -9, 1, -3], np.int32)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", TRACED, ids=str)
@pytest.mark.parametrize("jit", [False, True])
def test_traced_indices_out_of_bounds_are_as_in_jax(mode: str | None, index: Any, jit: bool) -> None:
    import jax

    x = np.arange(1.0, 4.0, dtype=np.float32)
    values = np.arange(10.0, 10.0 + np.size(index), dtype=np.float32).reshape(np.shape(index))
    ours, theirs = (dx.jit, jax.jit) if jit else (lambda f: f, lambda f: f)
    concrete = index if jit else as_concrete(index)
    found = ours(lambda x, i: at(x)[i].get(mode=mode, fill_value=-1))(as_concrete(x), concrete)
    want = theirs(lambda x, i: x.at[i].get(mode=mode, fill_value=-1))(
        jax.numpy.asarray(x), jax.numpy.asarray(index)
    )
    np.testing.assert_array_equal(np.asarray(found), np.asarray(want))
    for kind in ("set", "add"):
        found = ours(lambda x, i, kind=kind: getattr(at(x)[i], kind)(values, mode=mode))(
            as_concrete(x), concrete
        )
        want = theirs(lambda x, i, kind=kind: getattr(x.at[i], kind)(values, mode=mode))(
            jax.numpy.asarray(x), jax.numpy.asarray(index)
        )
        np.testing.assert_array_equal(np.asarray(found), np.asarray(want), err_msg=kind)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("index", [3, -4, (slice(None), 4), np.array([0, 3])], ids=str)
def test_static_index_out_of_range_raises(index: Any, jit: bool) -> None:
    """Eagerly and while tracing, reading and writing; an explicit mode says what to do instead."""
    x = as_concrete(np.zeros((3, 4), np.float32))
    wrap = dx.jit if jit else lambda f: f
    axis, n = (1, 4) if isinstance(index, tuple) else (0, 3)
    text = (
        rf"index is out of range(.|\n)*axis {axis} of length {n}, array: float32\[3,4\]\nUse -{n} to {n - 1}"
    )
    for use in (lambda x: getitem(x, index), lambda x: at(x)[index].set(1.0)):
        with pytest.raises(IndexError, match=text):
            wrap(use)(x)
    assert np.isnan(np.asarray(wrap(lambda x: at(x)[index].get(mode="fill"))(x))).any()
    dropped = np.asarray(wrap(lambda x: at(x)[index].add(1.0, mode="drop"))(x))
    assert dropped.sum() == (4 if isinstance(index, np.ndarray) else 0)


def test_fill_values_of_every_kind() -> None:
    import jax.numpy as jnp

    for dtype in ("float32", "bfloat16", "int16", "uint8", "bool", "complex64"):
        x, i = np.zeros(2, dtype), np.array([5], np.int32)
        found, want = (
            at(as_concrete(x))[as_concrete(i)].get(mode="fill"),
            jnp.asarray(x).at[i].get(mode="fill"),
        )
        np.testing.assert_array_equal(wide(np.asarray(found)), wide(np.asarray(want)))


# --- Dtypes and the other updates ---------------------------------------------------------------------------


def test_divide_power_and_apply() -> None:
    x = as_concrete(np.array([1.0, 2.0, 8.0], np.float32))
    index = np.array([2, 2, 1])
    np.testing.assert_array_equal(np.asarray(at(x)[index].divide(2.0)), [1, 1, 2])
    np.testing.assert_array_equal(np.asarray(at(x)[1].power(3)), [1, 8, 8])
    np.testing.assert_array_equal(np.asarray(at(x)[index].apply(neg)), [1, -2, -8])
    halves = at(as_concrete(np.array([1, 2], np.int32)))[0].divide(2)
    assert halves.dtype == np.float32 and np.asarray(halves)[0] == 0.5


def test_narrower_values_are_cast_and_losses_announced() -> None:
    x = as_concrete(np.zeros(2, np.int32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert at(x)[0].set(np.int8(3)).dtype == np.int32
        assert at(as_concrete(np.zeros(2, "bfloat16")))[0].set(np.float32(3)).dtype.name == "bfloat16"
    for index in (0, as_concrete(np.array([0, 1], np.int32))):
        with pytest.warns(
            FutureWarning, match=r"loses part of them(.|\n)*values: float32\[\], x: int32\[2\]"
        ):
            found = at(x)[index].add(2.7)
        assert found.dtype == np.int32 and np.asarray(found)[0] == 2


def test_booleans_are_or_ed_and_and_ed() -> None:
    x = as_concrete(np.array([True, False, True]))
    for index in (np.array([1, 2]), slice(1, 3)):
        np.testing.assert_array_equal(np.asarray(at(x)[index].add(True)), [True, True, True])
        np.testing.assert_array_equal(np.asarray(at(x)[index].multiply(False)), [True, False, False])


def test_traced_mask_with_a_scalar_value_is_a_where() -> None:
    x = np.array([1.0, -2.0, 3.0], np.float32)
    found = dx.jit(lambda x: at(x)[gt(x, 0.0)].set(0.0))(x)
    np.testing.assert_array_equal(np.asarray(found), [0, -2, 0])


def test_large_arrays_are_read_by_one_program() -> None:
    """Reading every element of a large array must not compile a program for each of them."""
    from didax.xla import compile as xla_compile

    x = as_concrete(np.arange(100_000, dtype=np.float32))
    getitem(x, 0)
    before = len(xla_compile._memory)
    assert [float(getitem(x, i)) for i in (5, 99_999, -2)] == [5, 99_999, 99_998]
    assert len(xla_compile._memory) == before


def test_static_index_is_one_slice_and_a_scalar_one_dynamic_slice() -> None:
    def primitives(fun: Any, *args: Any) -> list[str]:
        return [eqn.primitive.name for eqn in dx.make_jaxpr(fun)(*args).jaxpr.eqns]

    x = np.zeros((3, 4), np.float32)
    assert primitives(lambda x: getitem(x, (slice(1, 3), -1)), x) == ["slice", "reshape"]
    assert "gather" not in primitives(lambda x, i: getitem(x, (slice(1, 3), i)), x, np.int32(1))
    assert primitives(lambda x: at(x)[1:3].set(0.0), x)[-1] == "dynamic_update_slice"
    assert primitives(lambda x: getitem(x, slice(None)), x) == []


# --- Errors -------------------------------------------------------------------------------------------------

X = as_concrete(np.zeros((3, 4), np.float32))


@pytest.mark.parametrize(
    "use, kind, text",
    [
        (
            lambda i: getitem(X, (0, 0, 0)),
            IndexError,
            r"at most one entry for each axis(.|\n)*\[0, 0, 0\], which is for 3",
        ),
        (lambda i: getitem(X, (..., 0, ...)), IndexError, r"at most once"),
        (lambda i: getitem(X, 1.0), TypeError, r"integers, slices(.|\n)*got: 1.0 of type float"),
        (lambda i: getitem(X, np.zeros(2)), TypeError, r"got: float32\[2\](.|\n)*astype\('int32'\)"),
        (lambda i: getitem(X, "name"), TypeError, r"got: 'name' of type str"),
        (lambda i: getitem(X, slice("a", None)), TypeError, r"got: slice\('a', None, None\)"),
        (
            lambda i: getitem(X, slice(0, i)),
            TypeError,
            r"cannot be traced(.|\n)*axis 0 of float32\[3,4\](.|\n)*dynamic_slice",
        ),
        (
            lambda i: getitem(X, gt(i, 0)),
            NonConcreteBooleanIndexError,
            r"mask: bool\[\](.|\n)*nonzero\(mask, size=",
        ),
        (lambda i: getitem(X, np.ones(4, bool)), IndexError, r"lengths of the axes(.|\n)*mask: bool\[4\]"),
        (lambda i: getitem(X, (np.zeros(2, int), np.zeros(3, int))), IndexError, r"shapes: \(2,\), \(3,\)"),
        (lambda i: at(X)[0].set(np.zeros(3)), ValueError, r"x\[...\] has shape \(4,\)"),
        (lambda i: at(X)[0].set("a"), TypeError, r"x.at\[...\].set takes arrays"),
        (lambda i: at(X)[0].get(mode="wrap"), ValueError, r"mode: 'wrap'"),
    ],
)
def test_error_texts(use: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        dx.jit(use)(np.int32(1))
