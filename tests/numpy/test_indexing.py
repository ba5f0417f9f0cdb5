"""x[index] and x.at[index]: derivatives, modes, dtypes, programs, errors. Values: test_indexing_generated.py."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.errors import MissingRuleError, NonConcreteBooleanIndexError
from didax.numpy.indexing import at, getitem
from didax.primitives.elementwise import gt, neg
from didax.runtime.array import as_concrete
from tests.checks import assert_close, check_grads, wide

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
@pytest.mark.parametrize("kind", ["multiply", "divide", "power"])
@pytest.mark.parametrize("traced", [False, True])
def test_derivatives_where_no_index_repeats(kind: str, traced: bool) -> None:
    """Static indices are seen to differ, also under jit; traced ones are promised to."""
    x, v = (as_concrete(np.random.default_rng(i).uniform(1, 2, n)) for i, n in enumerate([4, 2]))
    index = np.array([3, 1])

    def update(x: Any, v: Any, i: Any = index) -> Any:
        return getattr(at(x)[i], kind)(v, unique_indices=traced)

    for fun in (update, dx.jit(update)):
        check_grads((lambda x, v, fun=fun: fun(x, v, as_concrete(index))) if traced else fun, (x, v), order=1)


@pytest.mark.parametrize("index", [np.s_[1:3], np.array([1])], ids=["window", "index"])
@pytest.mark.parametrize("kind", ["min", "max"])
def test_extrema_in_windows_keep_nan_and_share_ties(kind: str, index: Any) -> None:
    x = np.array([1, np.nan, 3, 4], np.float32)
    v = np.array([2, np.nan], np.float32)[: len(x[index])]

    def total(x: Any, v: Any) -> Any:  # XLA's library of reductions loses NaN
        return dnp.sum(getattr(at(x)[index], kind)(v))

    assert np.isnan(dx.jit(total)(x, v)) and np.isnan(dx.jit(total)(np.nan_to_num(x), v + np.nan))
    equal = np.ones(4, np.float32)
    for gradient in (dx.grad(total, (0, 1)), dx.jit(dx.grad(total, (0, 1)))):
        by_x, by_v = gradient(equal, equal[index])
        wanted = equal.copy()
        wanted[index] = 0.5
        np.testing.assert_array_equal(by_x, wanted)
        np.testing.assert_array_equal(by_v, wanted[index])


def test_products_where_indices_may_repeat_have_no_derivative_by_the_values() -> None:
    with pytest.raises(MissingRuleError, match=r"indices may repeat(.|\n)*unique_indices=True"):
        dx.grad(lambda v: at(X)[0, np.array([1, 1])].multiply(v).sum())(np.ones(2, np.float32))


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


def test_losses_are_announced_at_the_users_line() -> None:
    for update in (lambda x: at(x)[0].set(1.5), lambda x: at(x)[np.array([0])].add(1.5)):
        with pytest.warns(FutureWarning) as caught:
            update(as_concrete(np.zeros(2, np.int32)))
        assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("index", [0, np.array([0, 0]), slice(None, None, 2)], ids=str)
@pytest.mark.parametrize("kind", ["set", "add", "multiply", "divide", "power", "min"])
def test_complex_values_do_not_fit_into_real_arrays(kind: str, index: Any) -> None:
    for value in (1j, np.complex64(1j)):
        with pytest.raises(
            TypeError, match=rf"{kind} keeps(.|\n)*values: complex64\[\], x: float32\[3\](.|\n)*real"
        ):
            getattr(at(as_concrete(np.zeros(3, np.float32)))[index], kind)(value)


def test_values_may_be_lists() -> None:
    x = as_concrete(np.zeros(3, np.float32))
    assert np.asarray(at(x)[1:].set([5, 6])).tolist() == [0, 5, 6]
    assert np.asarray(at(x)[:2].divide([2.0, 4.0])).tolist() == [0, 0, 0]
    assert np.asarray(dx.jit(lambda a: at(x)[1:].add([a, 2 * a]))(1.5)).tolist() == [0, 1.5, 3]


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


def test_the_options_of_an_update_are_named() -> None:
    with pytest.raises(
        TypeError, match=r"_IndexUpdateRef.add\(\) got an unexpected keyword argument 'modus'"
    ):
        at(X)[0].add(1.0, modus="clip")  # pyright: ignore[reportCallIssue]


def test_indices_that_are_sequences() -> None:
    """Lists, of integers, of booleans, empty, with traced elements; tuples inside of an index."""
    x = as_concrete(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    host = np.asarray(x)
    for index in (
        [0, 2],
        [],
        [[0], [2]],
        range(2),
        (slice(None), [True, False, True, False]),
        ((0, 1), (1, 2)),
    ):
        np.testing.assert_array_equal(np.asarray(getitem(x, index)), host[index])
        np.testing.assert_array_equal(np.asarray(dx.jit(lambda x, i=index: getitem(x, i))(x)), host[index])
    np.testing.assert_array_equal(np.asarray(dx.jit(lambda i: getitem(x, ([0, i], 1)))(2)), host[[0, 2], 1])


@pytest.mark.parametrize("top", [2**64 - 1, 2**63, 3])
def test_great_unsigned_positions_do_not_count_from_the_end(top: int) -> None:
    x, index = as_concrete(np.arange(3.0, dtype=np.float32)), np.array([0, top], np.uint64)
    for use in (lambda x: getitem(x, index), lambda x: at(x)[index].set(1.0)):
        for wrap in (lambda f: f, dx.jit):
            with pytest.raises(IndexError, match=f"index: {top}, axis 0"):
                wrap(use)(x)
    with dx.enable_x64(True):
        traced = dx.jit(lambda x, i: at(x)[i].get(mode="fill", fill_value=-1))(x, index)
    assert np.asarray(traced).tolist() == [0, -1]


def test_unwrapped_negative_positions_are_out_of_range() -> None:
    x = as_concrete(np.arange(3.0, dtype=np.float32))
    for index in (-1, np.array([0, -1])):
        with pytest.raises(IndexError, match="index: -1"):
            at(x)[index].get(wrap_negative_indices=False)
        filled = at(x)[index].get(wrap_negative_indices=False, mode="fill", fill_value=7)
        assert np.asarray(filled).ravel()[-1] == 7
        dropped = at(x)[index].set(9.0, wrap_negative_indices=False, mode="drop")
        assert np.asarray(dropped)[-1] == 2


def test_errors_end_at_the_users_line() -> None:
    for use in (lambda: X[7], lambda: X.at[7].set(1.0), lambda: X.at[0].get(mode="bounce")):
        with pytest.raises((IndexError, ValueError)) as caught:
            use()
        assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__


def test_assignment_names_the_way_out() -> None:
    with pytest.raises(TypeError, match=r"immutable(.|\n)*float32\[3,4\](.|\n)*x.at\[i\].set\(v\)"):
        X[0] = 1.0


def test_static_index_is_one_slice_and_a_scalar_one_dynamic_slice() -> None:
    def primitives(fun: Any, *args: Any) -> list[str]:
        return [eqn.primitive.name for eqn in dx.make_jaxpr(fun)(*args).jaxpr.eqns]

    x = np.zeros((3, 4), np.float32)
    assert primitives(lambda x: getitem(x, (slice(1, 3), -1)), x) == ["slice", "reshape"]
    assert "gather" not in primitives(lambda x, i: getitem(x, (slice(1, 3), i)), x, np.int32(1))
    assert primitives(lambda x: at(x)[1:3].set(0.0), x)[-1] == "dynamic_update_slice"
    assert primitives(lambda x: at(x)[2].get(), x) == ["slice", "reshape"]
    assert primitives(lambda x: getitem(x, slice(None)), x) == []
    mixed = dx.make_jaxpr(lambda x, i: getitem(x, (0, i)))(x, np.array([1, 2], np.int32))
    assert not mixed.consts  # the static position is no array of the program


@pytest.mark.parametrize("kind", ["add", "subtract", "multiply"])
def test_a_static_window_of_sums_or_products_has_short_derivatives(kind: str) -> None:
    x = as_concrete(np.arange(1, 25, dtype=np.float32).reshape(4, 6))
    v = as_concrete(np.arange(1, 5, dtype=np.float32))

    def update(x: Any, v: Any) -> Any:
        return getattr(getattr(at(x)[2, 1:5], kind)(v).at[1:, ::-1], kind)(x[:3] * v[0])

    wanted = jax.vjp(lambda x, v: getattr(getattr(x.at[2, 1:5], kind)(v).at[1:, ::-1], kind)(x[:3] * v[0]),
                     np.asarray(x), np.asarray(v))  # fmt: skip
    for fun in (update, dx.jit(update)):
        out, pull = dx.vjp(fun, x, v)
        assert_close(out, wanted[0])
        for found, expected in zip(pull(2 * out), wanted[1](2 * wanted[0]), strict=True):
            assert_close(found, expected)
    passed_on = dx.make_jaxpr(lambda ct: dx.vjp(lambda x: at(x)[1:3].add(1.0), x)[1](ct))(x)
    assert "pad" not in str(passed_on) and "dynamic_update_slice" not in str(passed_on)
    assert not dx.make_jaxpr(lambda x: at(x)[2, 1:5].add(1.0))(x).consts


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
        (lambda i: getitem(X, np.zeros(2)), TypeError, r"got: float64\[2\](.|\n)*astype\('int32'\)"),
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
        (lambda i: at(X)[0].get(mode="bounce"), ValueError, r"mode: 'bounce'"),
    ],
)
def test_error_texts(use: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        dx.jit(use)(np.int32(1))


BATCHED: dict[str, Callable[..., Any]] = {
    "x[i]": lambda x, i: x[i],
    "x[i] = 1": lambda x, i: x.at[i].set(1.0),
    "x[i] += 1": lambda x, i: x.at[i].add(1.0),
    "dynamic_slice": lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (1, 1)),
    "dynamic_update_slice": lambda x, i: lax.dynamic_update_slice(x, x[:1, :1], (i[0], i[1])),
    "searchsorted": lambda x, i: dnp.searchsorted(x[:, 0], x[:, 1]),
    "gradient of x[i]": dx.grad(lambda x, i: x[i].sum()),
    "gradient of sort": dx.grad(lambda x, i: (dnp.sort(x, 0) ** 2).sum()),
    "gradient of median": dx.grad(lambda x, i: dnp.median(x)),
}


@pytest.mark.parametrize("name", BATCHED)
def test_batches_of_nothing(name: str) -> None:
    x, i = np.zeros((2, 3, 2), np.float32), np.zeros((2, 4), np.int32)
    batched = dx.vmap(BATCHED[name])
    wanted = (0, *batched(x, i).shape[1:])
    assert batched(x[:0], i[:0]).shape == wanted
    assert dx.jit(batched)(x[:0], i[:0]).shape == wanted


@pytest.mark.parametrize("method", ["set", "add", "multiply", "max"])
def test_updates_beyond_an_axis_without_elements_are_dropped(method):
    """As any update out of range is that is not static, or that a mode is given for."""
    x, traced = dnp.zeros((0, 3)), dx.jit(lambda x, i: getattr(x.at[i], method)(1.0))
    assert traced(x, 1).shape == traced(x, np.array([0, 1])).shape == (0, 3)
    for mode in ("drop", "clip", "promise_in_bounds"):
        for index in (0, [0, 1], np.array([0, 1]), dnp.array([0, 1]), (slice(None), 1)):
            assert getattr(x.at[index], method)(1.0, mode=mode).shape == (0, 3)
    v = dnp.ones((2, 3))
    written = dx.grad(lambda v: getattr(x.at[dnp.array([0, 1])], method)(v, mode="drop").sum())
    assert not written(v).any()
    for wrong in (lambda: x.at[0].set(1.0), lambda: x[dnp.array([0])], lambda: x.at[0].get(mode="clip")):
        with pytest.raises(IndexError, match="An axis of length 0 has no elements"):
            wrong()
    with pytest.raises(ValueError, match=r"float32\[2\]"):
        getattr(x.at[dnp.array([0, 1])], method)(dnp.ones(2), mode="drop")


@pytest.mark.parametrize("dtype", ["int2", "int4", "uint2", "uint4"])
def test_positions_of_few_bits(dtype):
    i = np.array([1, 3 if dtype[0] == "u" else -1], dtype)
    x = np.arange(6)
    assert (
        dnp.asarray(x)[i].tolist()
        == x[i.astype(int)].tolist()
        == dx.jit(lambda i: dnp.asarray(x)[i])(i).tolist()
    )
    assert dnp.asarray(x).at[i].set(0).sum() == 15 - x[i.astype(int)].sum()


def test_mode_wrap_counts_on_from_the_other_end():
    x, i = np.arange(12.0, dtype="float32").reshape(3, 4), np.array([7, -9, 2], "int8")
    for index, wanted in [(7, 1), (dnp.array(7), 1), (i, i % 3), (dnp.array(i), i % 3)]:
        np.testing.assert_array_equal(dnp.asarray(x).at[index].get(mode="wrap"), x[wanted])
        np.testing.assert_array_equal(dnp.asarray(x).at[..., index, :].get(mode="wrap"), x[wanted])
    read = dx.jit(lambda x, i: x.at[1:, i].get(mode="wrap"))
    np.testing.assert_array_equal(read(x, i), x[1:, i % 4])
    written = dnp.zeros(3).at[dnp.array([4, -2, 5])].add(1.0, mode="wrap")
    np.testing.assert_array_equal(written, [0, 2, 1])
    np.testing.assert_array_equal(dx.grad(lambda x: x.at[i].get(mode="wrap").sum())(x)[:, 0], [1, 1, 1])
    assert dnp.zeros(300).at[dnp.array([-5], "int8")].get(mode="wrap").shape == (1,)
    assert dnp.arange(127).at[dnp.array([-128], "int8")].get(mode="wrap").tolist() == [126]  # -128 % 127
    with pytest.raises(IndexError, match="An axis of length 0 has no elements"):
        dnp.zeros(0).at[0].get(mode="wrap")
