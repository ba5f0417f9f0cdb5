"""Creation, rearranging, choosing and ordering agree with jax.numpy; their errors have three parts."""

from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core.errors import ConcretizationTypeError
from tests.numpy.oracle import check, sample

CREATION = [
    "np.zeros(3)", "np.zeros((2, 0), 'int8')", "np.ones((2, 2), bool)", "np.empty(2, np.bfloat16)",
    "np.full((2,), 3)", "np.full((2, 2), np.arange(2))", "np.full(2, 1, 'float16')", "np.zeros(())",
    "np.eye(3)", "np.eye(2, 3, 1, dtype=int)", "np.identity(2)", "np.arange(5)", "np.arange(2, 7, 2)",
    "np.arange(7, 2, -2)", "np.arange(3.0)", "np.arange(0, 1, 0.25)", "np.arange(5, dtype='float16')",
    "np.arange(3, 1)", "np.linspace(0, 1, 5)", "np.linspace(0, 1, 4, endpoint=False)",
    "np.linspace(0, 10, 4, dtype=int)", "np.linspace(np.zeros(2), np.arange(2.0), 3, axis=1)",
    "np.linspace(0, 1, 1)", "np.linspace(2.0, np.inf, 1)", "np.linspace(0, 1, 3, retstep=True)", "np.linspace(1, 2, 0)",
    "np.logspace(0, 2, 3)", "np.logspace(0, 2, 3, base=2)", "np.geomspace(1.0, 8.0, 4)", "np.tri(3)",
    "np.tri(2, 3, 1, dtype=int)", "np.meshgrid(np.arange(2), np.arange(3))",
    "np.meshgrid(np.arange(2), np.arange(3), indexing='ij')",
    "np.meshgrid(np.arange(2), np.arange(3), sparse=True)", "np.indices((2, 3))",
    "np.indices((2, 3), sparse=True)", "np.vander(np.array([1., 2.]), 3)", "np.array([1, 2.5])",
    "np.array([[1, 2], [3, 4]], 'int8')", "np.array([True, 2])", "np.array([])", "np.array(2.0)",
    "np.asarray(1j)", "np.array([np.float32(1), 2])", "np.array([np.arange(2), np.ones(2)])",
    "np.array(3, ndmin=2)", "np.array((1, 2))", "np.zeros_like(np.array([1, 2]))", "np.ones_like(2.0)",
    "np.full_like(np.zeros(2), 3)", "np.array([[], []])", "np.full_like(np.zeros(2, 'int8'), 2.7)",
    "np.zeros_like(np.zeros(2), shape=(3,), dtype=int)", "np.float32(1)", "np.bfloat16([1, 2])",
    "np.bool_(2)", "np.tril_indices(3)", "np.triu_indices(3, 1)", "np.fromfunction(np.add, (2, 2))",
    "np.array(range(3))", "np.array(np.array([1.0]), dtype='float32')",
]  # fmt: skip
SHAPES = [
    "np.reshape(x, (4, 6))", "np.reshape(x, (-1, 2))", "x.reshape(4, -1)", "np.reshape(x, (6, 4), order='F')",
    "np.reshape(x, np.array([4, -1]))", "np.flip(x, np.array([0, 2]))", "np.expand_dims(x, np.array([0, -1]))",
    "np.ravel(x)", "np.ravel(x, 'F')", "np.transpose(x)", "np.transpose(x, (1, 0, 2))",
    "x.transpose(2, 0, 1)", "x.T", "x.mT", "np.swapaxes(x, 0, -1)", "np.moveaxis(x, 0, -1)",
    "np.moveaxis(x, (0, 1), (-1, 0))", "np.rollaxis(x, 2)", "np.squeeze(x[:1])", "np.squeeze(x[:1], 0)",
    "np.expand_dims(x, (0, -1))", "np.broadcast_to(x[0, 0], (2, 4))", "np.broadcast_arrays(x[0], x[:, :1])",
    "np.atleast_1d(2.0)", "np.atleast_2d(x[0, 0], 1)", "np.atleast_3d(x[0])", "np.concatenate([x, x], 1)",
    "np.concatenate([x, x], None)", "np.concatenate([x, np.arange(24).reshape(2, 3, 4)])",
    "np.stack([x, x], -1)", "np.stack([1, 2.0])", "np.vstack([x[0, 0], x[0, 1]])", "np.hstack([x[0], x[0]])",
    "np.hstack([1, 2])", "np.dstack([x[0], x[0]])", "np.column_stack([x[0, 0], x[0, 1]])", "np.split(x, 2)",
    "np.split(x, [1, 3], 2)", "np.array_split(x, 3, axis=2)", "np.hsplit(x, 3)", "np.vsplit(x, 2)",
    "np.dsplit(x, 2)", "np.unstack(x, axis=1)", "np.tile(x, 2)", "np.tile(x, (2, 1, 1, 2))",
    "np.repeat(x, 2)", "np.repeat(x, 2, axis=1)", "np.append(x, 1)",
    "np.repeat(x, np.array([1, 0, 2]), axis=1)",
    "np.repeat(x[0, 0], np.array([1, 0, 2, 1]), total_repeat_length=6)",
    "np.repeat(x, 2, axis=1, total_repeat_length=4)", "np.flip(x)", "np.flip(x, (0, 2))", "np.fliplr(x)",
    "np.flipud(x)", *[f"np.rot90(x, {k})" for k in range(-1, 4)], "np.rot90(x, axes=(2, 1))", "np.roll(x, 5)",
    "np.roll(x, 2.0)", "np.roll(x, (1.0, -2), (0, 2))",
    "np.roll(x, -1, 1)", "np.roll(x, (1, 2), (0, 2))", "np.roll(x, 1, (0, 1))", "np.pad(x, 1)",
    "np.pad(x[0], ((1, 2), (0, 3)), constant_values=7)", "np.pad(x[0], (1, 2), constant_values=(3, 4))",
    "np.pad(x[0], ((1, 1),), constant_values=((1, 2), (3, 4)))",
    *[f"np.pad(x[0], ((1, 2), (2, 0)), mode='{m}')" for m in ("edge", "reflect", "symmetric", "wrap")],
    "np.diag(x[0, 0])", "np.diag(x[0, 0], -2)", "np.diag(x[0], 1)", "np.diagonal(x)",
    "np.diagonal(x, 1, 1, 2)", "np.diagonal(x, -1, 2, 0)", "np.diagflat(x[0], 1)", "np.tril(x)",
    "np.triu(x, 1)", "np.tril(x, -1)", "np.diff(x)", "np.diff(x[0, 0, 0], 0)", "np.diff(x, 2, axis=1)",
    "np.diff(x[0, 0], prepend=0, append=x[0, 1])", "np.diff(x[0, 0], append=2.5)",
    "np.diff((x > 0)[0, 0], prepend=0)", "np.diff(x.astype('int8'), prepend=0.5)", "np.diff(x > 0)",
    "np.delete(x, 1, 1)",
    "np.delete(x, slice(0, 2), 2)", "np.delete(x, np.array([0, 2]), 1)", "np.insert(x[0, 0], 1, 5)",
    "np.resize(x, (2, 7))", "np.resize(x, (0, 3))", "np.resize(x, (0,))",
    "np.resize(2.0, (0,))", "np.resize(np.broadcast_to(2, (0,)), (3,))",
    "np.insert(x[0], np.array([0, 2]), 9, axis=1)", "np.insert(x[0], 1, 9, axis=0)",
    "np.insert(x[0, 0], np.array([1, 1]), np.arange(2))", "x.astype(int)", "np.astype(x, 'complex64')",
    "x.flatten()", "np.matrix_transpose(x)", "np.concatenate([x[0, 0], x[1, 1]], dtype='int32')",
]  # fmt: skip
SELECTION = [
    "np.take(x, 1)", "np.take(x, np.array([0, 2]), axis=0)", "np.take(x, np.array([[0, 9], [-1, -9]]), 1)",
    "np.take(y, 9)", "np.take(x, np.array([0, 9, -9]), mode='clip')",
    "np.take(x, np.array([5, -6]), axis=0, mode='wrap')", "np.take(x, 99, fill_value=-1)",
    "np.take_along_axis(x, np.argsort(x, 1), 1)", "np.take_along_axis(x, np.array([[0]]), 0)",
    "np.take_along_axis(x, np.array([3, 9]), None)", "np.take_along_axis(x, np.array([[1], [9], [-1]]), 1)",
    "np.sort(x)", "np.sort(x, 0)", "np.sort(x, None)", "np.sort(x, descending=True)", "np.argsort(y)",
    "np.argsort(x, axis=0)", "np.argsort(y, descending=True)", "np.argsort(x, axis=None)",
    "np.lexsort((y, y % 2))", "np.searchsorted(np.sort(y), y)",
    "np.searchsorted(np.sort(y), np.array([[0, 99]]), side='right')",
    "np.searchsorted(x[0], x[1, 1], sorter=np.argsort(x[0]))", "np.searchsorted(np.zeros(0), 1.0)",
    "np.digitize(x, np.array([-1., 0., 1.]))", "np.digitize(y, np.array([1, 2]), right=True)",
    "np.isin(y, np.array([1, 3]))", "np.isin(x, x[0], invert=True)", "np.isin(y, np.array([], dtype=int))",
    "np.nonzero(x > 0)", "np.nonzero(y, size=6)", "np.nonzero(x, size=3, fill_value=7)",
    "np.nonzero(x > 0, size=9, fill_value=(5, 6))", "np.where(x > 0)", "np.where(x > 0, size=2)",
    "np.where(x > 0, x, 0)", "np.where(x > 0, x, y)", "np.where(y, 1, 2.0)", "np.where(True, 1, 2)",
    "np.nonzero(y, size=6, fill_value=2.5)",
    "np.flatnonzero(x > 0)", "np.argwhere(x > 0)", "np.argwhere(x > 0, size=3)", "np.extract(x > 0, x)",
    "np.extract(x > 0, x, size=2)", "np.unique(y)", "np.unique(x)",
    "np.unique(y, return_index=True, return_inverse=True, return_counts=True)", "np.unique(y, size=6)",
    "np.unique(y, True, True, True, size=2)", "np.unique(y, size=6, fill_value=9)", "np.unique(y > 1)",
    "np.unique(np.array([[1, 2], [1, 2], [0, 3]]), axis=0)",
    "np.unique(np.array([[1, 1, 0], [2, 2, 3]]), axis=1, return_counts=True)",
    "np.unique(np.array([1., np.nan, np.nan]))", "np.unique(np.array([1., np.nan, np.nan]), equal_nan=False)",
    "np.unique_counts(y)", "np.unique_inverse(x)", "np.unique_values(y)", "np.unique(np.zeros(0))",
    "np.bincount(y)", "np.bincount(y, length=3)", "np.bincount(y, x[0])", "np.bincount(y, minlength=9)",
    "np.select([x > 1, x < 0], [x, x * 2], 7)",
    "np.interp(np.array([-9., 0.3, 9.]), np.array([-1., 0., 2.]), np.array([1., 2., 0.]))",
    "np.interp(0.5, np.array([0., 1.]), np.array([1., 3.]), left=5)",
    "np.interp(np.array([-9., 9.]), np.arange(2.), np.arange(2.), 5, 6)",
    "np.interp(np.array([-9., 0.3]), np.array([0., 2.]), np.array([1., 2j]), period=3)",
    "np.trapezoid(x)",
    "np.trapezoid(x, dx=0.5, axis=0)", "np.trapezoid(x, x * x)", "np.array_equal(x, x)",
    "np.array_equal(x, y)", "np.array_equiv(y, y)", "np.isclose(x, x + 1e-7)", "np.allclose(x, x)",
    "np.isclose(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), equal_nan=True)", "np.shape(x)",
    "np.size(x, 1)", "np.ndim(2)", "np.isscalar(2)", "np.isscalar(x)", "np.iscomplexobj(x)",
    "np.clip(x, 0, 1)", "np.clip(x, min=y)", "np.clip(y, 0.5, 2)", "np.nan_to_num(x / 0)",
    "np.nan_to_num(x / 0, nan=1, posinf=2, neginf=3)", "np.round(x, 1)", "np.round(y)", "np.round(x * 1j, 1)",
    "np.angle(x + 1j)", "np.angle(x, deg=True)", "np.ldexp(x, y)", "np.modf(x)", "np.divmod(y, 2)",
    "np.divmod(x, 2)", "np.power(x, 3)", "np.power(y, 2)", "x ** -2", "y ** y", "np.power(y, 0.5)", "2 ** y",
    "2.0 ** x", "x ** 2.0",
]  # fmt: skip
SAME_BUT_STRONGER = {"np.angle(x + 1j)", "np.nan_to_num(x / 0)"}


@pytest.mark.parametrize("text", CREATION)
def test_creation(text):
    check(text, jit=False)


@pytest.mark.parametrize("text", [
    "np.zeros(2)", "np.arange(4)", "np.linspace(0, 1, 3)", "np.array([1, 2])", "np.array(2.0)",
    "np.array(2**40)", "np.full(2, 1)", "np.eye(2)", "np.array([np.int64(2)])",
])  # fmt: skip
def test_default_widths_with_x64(x64, text):
    check(text, jit=False)


@pytest.mark.parametrize("text", SHAPES)
def test_rearranging(text):
    check(text, sample("float32", (2, 3, 4)), jit=False)


def test_rearranging_compiled():
    texts = [
        "np.roll(x, 5)",
        "np.pad(x[0], 1, mode='reflect')",
        "np.tile(x, (2, 1, 1))",
        "np.rot90(x)",
        "np.diag(x[0, 0], 1)",
    ]
    for text in texts:
        check(text, sample("float32", (2, 3, 4)))


@pytest.mark.parametrize("text", SELECTION)
def test_choosing_and_ordering(text):
    check(text, sample("float32", (3, 4)), np.array([3, 1, 1, 2]), jit=False)


def test_partition_has_smaller_elements_before_and_larger_ones_after():
    y = dnp.array([3, 1, 4, 1, 5])
    for k in range(5):
        ours = np.asarray(dnp.partition(y, k))
        assert ours[k] == np.sort(y)[k] and (ours[:k] <= ours[k]).all() and (ours[k:] >= ours[k]).all()
        assert (np.asarray(y)[np.asarray(dnp.argpartition(y, k))] == ours).all()


def test_found_positions_compiled_with_size():
    y = np.array([3, 1, 0, 1])
    for text in (
        "np.nonzero(x, size=3)",
        "np.unique(x, size=3)",
        "np.bincount(x, length=4)",
        "np.where(x, size=2)",
    ):
        check(text, y)


@pytest.mark.parametrize(
    "text",
    [
        "np.unique(np.array([2, 2, 1]), True, True, True, size=6)",  # a value that repeats comes before the end
        "np.unique_values(np.array([-3, -3, -1, -1]), size=4)",
        "np.unique(x, size=2, fill_value=5)",
        "np.unique(x, True, True, True)",
        "np.unique(x, True, True, True, axis=0)",
        "np.unique(x, True, True, True, axis=1)",
    ],
)
def test_distinct_values_filled_up_and_of_empty_arrays(text):
    check(text, np.zeros((0, 3), "float32"), jit="size" in text)


def test_distinct_values_of_no_elements_need_something_to_fill_up_with():
    with pytest.raises(ValueError, match=r"smallest value(.|\n)*ar: float32\[0\], size: 2(.|\n)*fill_value="):
        dnp.unique(dnp.zeros(0), size=2)
    values, counts = dnp.unique(dnp.zeros((0, 2)), return_counts=True, axis=0, size=2, fill_value=5)
    assert values.tolist() == [[5, 5], [5, 5]] and counts.tolist() == [0, 0]


@pytest.mark.parametrize("axis", [0, 1, None])
def test_delete_and_insert_are_those_of_numpy(axis):
    x, many = np.arange(80.0, dtype=np.float32).reshape(20, 4), np.arange(0, 40, 2)
    mask = np.arange(x.size if axis is None else x.shape[axis]) % 3 == 0
    for obj in (
        0,
        -1,
        slice(1, 3),
        slice(None, None, -2),
        slice(3, 3),
        np.array([3, 1, 1]),
        np.array([], int),
        mask,
    ):
        np.testing.assert_array_equal(dnp.delete(x, obj, axis), np.delete(x, obj, axis))
    for obj, values in (
        (0, 7), (-1, np.float32([1, 2, 3, 4])), (slice(0, 2), 5), (np.array([3, 1, 1]), 9), (np.array([2]), 1)
    ):  # fmt: skip
        values = values if axis == 0 else np.max(values)
        np.testing.assert_array_equal(dnp.insert(x, obj, values, axis), np.insert(x, obj, values, axis))
    columns = np.ones((2, 20), np.float32)  # the first axis of the values goes to the one position
    np.testing.assert_array_equal(dnp.insert(x, 1, columns, 1), np.insert(x, 1, columns, 1))
    np.testing.assert_array_equal(dnp.insert(x, [1], columns.T, 1), np.insert(x, [1], columns.T, 1))
    np.testing.assert_array_equal(dnp.delete(x, many), np.delete(x, many))
    np.testing.assert_array_equal(dnp.insert(x, many, many), np.insert(x, many, many))
    with pytest.raises(ValueError, match=r"mask for delete(.|\n)*axis of length 20"):
        dnp.delete(x, np.array([True, False]), 0)


def test_insert_before_traced_positions() -> None:
    """Where they are out of range, the nearer end is meant."""
    x = np.arange(12.0, dtype="float32").reshape(3, 4)
    cases: list[tuple[Any, Any, Any, int]] = [
        (1, 1, 5.0, 0), (-1, -1, x[0], 0), (9, 3, 5.0, 0), (-9, 0, 5.0, 1), (2, 2, x[:, :2].T, 1),
        ([2], [2], x[:, :2], 1), (np.array([3, -1, 1, 1], "int8"), [3, 3, 1, 1], np.float32([1, 2, 3, 4]), 1),
        (np.zeros(0, int), [], 5.0, 1),
    ]  # fmt: skip
    places = [np.asarray(traced) for traced, *_ in cases]
    f = dx.jit(lambda *places: [dnp.insert(x, i, c[2], c[3]) for i, c in zip(places, cases, strict=True)])
    for found, (_, static, values, axis) in zip(f(*places), cases, strict=True):
        wanted = np.insert(x, np.asarray(static, int) if isinstance(static, list) else static, values, axis)
        np.testing.assert_array_equal(found, wanted)
    rows = dx.vmap(lambda i: dnp.insert(x[0], i, 7))(np.arange(5))
    np.testing.assert_array_equal(rows, [np.insert(x[0], i, 7) for i in range(5)])


def test_positions_that_the_default_integers_do_not_hold_are_out_of_range():
    x = np.float32([1, 2, 3])
    for big in (2**32, np.array([2**32]), np.uint64(2**63), np.array(-(2**32))):
        assert np.isnan(dnp.take(x, big)).all()
        assert dnp.take(x, big, mode="clip").ravel()[0] == x[0 if np.ravel(big)[0] < 0 else -1]
        assert dnp.take(x, big, mode="wrap").ravel()[0] == x[int(np.ravel(big)[0]) % 3]
    at = np.array([2**32])
    assert np.isnan(dnp.take_along_axis(x, at, 0)).all()
    np.testing.assert_array_equal(dnp.put(x, at, 9.0, inplace=False), x)
    np.testing.assert_array_equal(dnp.put_along_axis(x, at, 9.0, 0, inplace=False, mode="drop"), x)


def test_found_positions_need_a_size_under_jit():
    repeated = lambda repeats: dnp.repeat(dnp.arange(2), repeats)
    for function in (dnp.nonzero, dnp.unique, dnp.bincount, dnp.flatnonzero, dnp.argwhere, repeated):
        with pytest.raises(ConcretizationTypeError, match="depends on values") as caught:
            dx.jit(function)(dnp.array([1, 0]))
        assert "Give " in str(caught.value)


def test_lists_of_traced_values_become_arrays():
    assert dx.jit(lambda a, b: dnp.array([[a, 1.0], [b, 2]]))(1.0, 2).tolist() == [[1, 1], [2, 2]]
    assert dnp.array([dnp.float32(1), dnp.int8(2)]).dtype == np.float32
    roll = dx.jit(lambda *shifts: [dnp.roll(dnp.arange(3), by) for by in shifts])
    for rolled in roll(4, -(2**31), dnp.asarray(-5, "int4"), np.uint32(2**32 - 3)):
        assert rolled.tolist() == [2, 0, 1]


def test_a_stated_dtype_is_honoured_without_x64():
    assert dnp.zeros(2, "float64").dtype == np.float64
    assert dnp.asarray(np.array([2**40]), dtype="int64").tolist() == [2**40]
    assert dnp.array(2**40, "int64").item() == 2**40
    assert dnp.arange(3, dtype="int64").dtype == np.int64
    assert dnp.float64(0.1).item() == 0.1


def test_numpy_arrays_are_copied():
    x = np.ones(2, np.float32)
    ours = dnp.asarray(x)
    x[0] = 5
    assert ours.tolist() == [1, 1]


ERRORS = [
    (lambda: dnp.array([[1], [1, 2]]), ValueError, r"equal lengths\.\n  items of length: 1, 2\nPad"),
    (lambda: dnp.array("a"), TypeError, r"array takes numbers.*\n  got: 'a' of type str\nPass"),
    (
        lambda: dnp.array([None]),
        TypeError,
        r"array takes numbers.*\n  got: None of type NoneType\nPass numbers; replace",
    ),
    (lambda: dnp.array([1, "a"]), TypeError, r"array takes numbers.*\n  got: 'a' of type str\nPass"),
    (lambda: dnp.array(2**40), OverflowError, r"integer: 1099511627776, dtype: int32"),
    (lambda: dnp.zeros((2, -1)), ValueError, r"lengths of at least 0\.\n  shape: \(2, -1\)"),
    (lambda: dnp.zeros(2.5), TypeError, r"shape of integers\.\n  shape: 2.5"),
    (lambda: dnp.reshape(dnp.zeros(5), (2, -1)), TypeError, r"at most one length.*\n.*\(2, -1\)\nChoose"),
    (lambda: dnp.reshape(dnp.zeros(5), (2, 3)), TypeError, r"keeps the number of elements"),
    (lambda: dnp.squeeze(dnp.zeros(2), 0), ValueError, r"length 1\.\n  a: float32\[2\], axis: 0"),
    (
        lambda: dnp.concatenate([dnp.zeros(2), 1.0]),
        ValueError,
        r"same number of axes.*\n  shapes: \(2,\), \(\)",
    ),
    (
        lambda: dnp.concatenate([dnp.zeros((2, 2)), dnp.zeros((3, 3))]),
        ValueError,
        r"agree in all axes but one",
    ),
    (lambda: dnp.concatenate([]), ValueError, "at least one array"),
    (lambda: dnp.stack([dnp.zeros(2), dnp.zeros(3)]), ValueError, r"one shape\.\n  shapes: \(2,\), \(3,\)"),
    (
        lambda: dnp.split(dnp.zeros(5), 2),
        ValueError,
        r"equal parts\.\n  a: float32\[5\], axis: 0, parts: 2\nUse a divisor",
    ),
    (lambda: dnp.broadcast_to(dnp.zeros(3), (2,)), ValueError, r"array: float32\[3\], shape: \(2,\)"),
    (lambda: dnp.take(dnp.zeros(3), 1.5), TypeError, r"integer positions\.\n  indices: float32\[\]"),
    (lambda: dnp.swapaxes(dnp.zeros(3), 0, 1), IndexError, r"axis: 1, array of 1 axes"),
    (lambda: dnp.pad(dnp.zeros(3), -1), ValueError, r"pad makes arrays longer\.\n  pad_width: -1"),
    (
        lambda: dnp.pad(dnp.zeros(3), 1, mode="other"),
        NotImplementedError,
        r"no such mode\.\n  mode: 'other'\nUse one of 'constant'",
    ),
    (lambda: dnp.searchsorted(dnp.zeros((2, 2)), 1), ValueError, r"searches a vector\.\n  a: float32\[2,2\]"),
    (lambda: dnp.clip(1j, 0, 1), TypeError, r"no order to clip by\.\n  arr: complex64\[\]"),
    (lambda: dnp.round(dnp.array([1]), -1), NotImplementedError, r"a: int32\[1\], decimals=-1"),
    (lambda: dnp.linspace(0, 1, -1), ValueError, r"num: -1"),
    (
        lambda: dnp.where(True, 1, None),
        TypeError,
        r"where takes both x and y, or neither\.\n  condition: bool\[\], y: None",
    ),
    (lambda: dnp.arange(0, 1, 0), ZeroDivisionError, "step: 0"),
    (lambda: dnp.zeros((2**40, 2**40)), ValueError, "has fewer than 2..63 bytes"),
    (lambda: dnp.tile(dnp.ones(3), (2**40, 2**40)), ValueError, "has fewer than 2..63 bytes"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text) as caught:
        call()
    frames = [entry.path for entry in caught.traceback]
    assert not [path for path in frames if "didax/" in str(path) and "tests" not in str(path)], (
        "internal frames are shown"
    )


def test_a_traced_shape_is_explained():
    with pytest.raises(ConcretizationTypeError, match="part of a shape"):
        dx.jit(lambda n: dnp.zeros((2, n)))(3)


@pytest.mark.parametrize(
    "name", ["concatenate", "concat", "stack", "vstack", "hstack", "dstack", "column_stack"]
)
def test_rows_of_an_array_are_joined_as_a_whole(name):
    x = np.arange(12, dtype="float32").reshape(3, 4)
    join = getattr(dnp, name)
    np.testing.assert_array_equal(join(dnp.asarray(x)), getattr(np, name)(list(x)))
    assert len(dx.make_jaxpr(join)(np.zeros((100, 4))).eqns) <= 6
    if name == "concatenate":
        for axis in (None, 0):
            assert join(dnp.asarray(x), axis=axis, dtype="int8").dtype == "int8"


def test_trapezoid_reads_the_values_once():
    for values in ([np.inf, 1.0, 2.0], [1.0, 3.0], [5.0], [0.5, 1.0, 4.0, 2.0]):
        x = np.float32(values)
        np.testing.assert_array_equal(dnp.trapezoid(x, dx=0.5), np.trapezoid(x, dx=0.5))
    eqns = dx.make_jaxpr(dnp.trapezoid)(np.zeros(9, "float32")).eqns
    assert (
        max([e.outvars[0].aval.size for e in eqns]) == 7 and sum(e.primitive.name == "add" for e in eqns) == 2
    )
