"""Making positions and grids, choosing and writing by position: as in jax.numpy, eager and jitted; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core.errors import ConcretizationTypeError
from tests.numpy.oracle import check, sample

M = sample("float32", (4, 3))
V = np.arange(5, dtype=np.float32)
INTS = np.array([0, 1, 1], np.int32)


@pytest.mark.parametrize(
    "text",
    [
        "np.diag_indices(3)",
        "(np.argwhere(5), np.argwhere(0))",
        "np.diag_indices(2, 3)",
        "np.diag_indices(0)",
        "np.mask_indices(3, np.triu, 1)",
        "np.mask_indices(3, np.tril, size=8)",
        "np.ix_()",
        "np.ravel_multi_index((1, 2), (2, 3))",
        "np.ravel_multi_index((1, 5), (2, 3), mode='wrap')",
        "np.ravel_multi_index((1, 5), (2, 3), 'clip', 'F')",
        "np.ravel_multi_index((1, 1), (2, 3), dtype='int8')",
        "np.mgrid[0:3, 0:2]",
        "np.mgrid[0:1:3j, 0:2]",
        "np.mgrid[3:0:-2]",
        "np.mgrid[()]",
        "np.ogrid[0:3, 0.5:2]",
        "np.ogrid[:3]",
        "np.ogrid[()]",
        "np.r_[1, 2.5, 3]",
        "np.r_[0:1:5j, 1:3, [7, 8]]",
        "np.r_['0,2', [1, 2], [3, 4]]",
        "np.r_['1,2,0', [1, 2], [3, 4]]",
        "np.r_['0,3,-2', [1, 2], [3, 4]]",
        "np.r_['c', 1, 2]",
        "np.c_['r', 1, 2]",
        "np.c_[1:3, [3, 4]]",
        "np.r_[True, 2]",
    ],
)
def test_what_is_made_of_numbers(text: str) -> None:
    check(text, weak=False, jit=False)


@pytest.mark.parametrize(
    "text, arrays",
    [
        ("np.ix_(x, y)", (INTS, np.array([2, 0]))),
        ("np.diag_indices_from(x)", (np.eye(3, dtype="float32"),)),
        ("np.tril_indices_from(x, 1)", (M,)),
        ("np.triu_indices_from(x, -1)", (M,)),
        ("np.unravel_index(x, (2, 3))", (np.array([[5, -1], [100, -100]], np.int32),)),
        ("np.unravel_index(x, 6)", (np.uint8(3),)),
        ("np.unravel_index(x, np.array([2, 3], 'int8'))", (3,)),
        ("np.ravel_multi_index(x, (2, 3), mode='clip')", (np.array([[1, 0], [2, -1]]),)),
        ("np.choose(x, [y, 10.0, y * 2], mode='wrap')", (INTS + 7, V[:3])),
        ("np.choose(x, y, mode='clip')", (INTS - 1, M)),
        ("np.compress(x, y, size=3, fill_value=-1)", (INTS > 0, V)),
        ("np.compress(x, y, axis=1, size=2)", (INTS, M)),
        ("np.compress(np.ones(5, bool), x, size=2)", (INTS,)),
        ("np.put(x, y, z, inplace=False)", (V, np.array([0, 7, -1]), np.array([9.0, 8.0], np.float32))),
        ("np.put(x, y, 3, 'clip', inplace=False)", (M, np.array([[0, 70], [-1, -90]]))),
        ("np.put(x, y, 3, 'wrap', inplace=False)", (M, np.array([[0, 70], [-1, -90]]))),
        ("np.put(x, y, 3, inplace=False)", (M, np.zeros(0, int))),
        ("np.put_along_axis(x, y, 7.0, 1, inplace=False)", (M, np.array([[0], [1], [-1], [9]]))),
        ("np.put_along_axis(x, y, 7.0, 1, False, mode='clip')", (M, np.array([[0], [1], [-1], [9]]))),
        ("np.put_along_axis(x, y, z, None, inplace=False)", (M, np.array([0, 11]), V[:2])),
        ("np.put_along_axis(x, y, z, 0, inplace=False)", (M, np.array([[0, 1, 0]]), V[:3])),
        ("np.put_along_axis(x, y, 7.0, 1, inplace=False)", (M[:1], np.array([[0], [1]]))),
        ("np.place(x, y, z, inplace=False)", (M, M > 0, V[1:3])),
        ("np.place(x, y, z, inplace=False)", (INTS, INTS > 0, np.array([True]))),
        ("np.fill_diagonal(x, 9.0, inplace=False)", (M,)),
        ("np.fill_diagonal(x, y, inplace=False)", (M.T, V[:2])),
        ("np.fill_diagonal(x, 9, inplace=False)", (np.zeros((2, 2, 2), np.int8),)),
        ("np.digitize(x, y)", (V, np.array([4.0, 2.0, 0.0], np.float32))),
        ("np.digitize(x, y, right=True)", (V, np.array([4.0, 2.0, 0.0], np.float32))),
        ("np.argwhere(x, size=1)", (np.float32(3),)),
        ("np.r_[x, y, 3.5]", (INTS, V)),
        ("np.r_['-1', x, x]", (M,)),
        ("np.c_[x, np.arange(4)]", (M,)),
    ],
)
def test_what_is_made_of_arrays(text: str, arrays: tuple[Any, ...]) -> None:
    check(text, *arrays)


def test_what_jax_lacks_is_numpys() -> None:
    """Masks in ix_, wrapped diagonals, and conditions whose number of hits is known."""
    for ours, theirs in zip(dnp.ix_(INTS, V > 2), np.ix_(INTS, V > 2), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)
    for shape in ((7, 2), (5, 3), (2, 5)):
        want = np.zeros(shape, np.float32)
        np.fill_diagonal(want, 1, wrap=True)
        found = dnp.fill_diagonal(dnp.zeros(shape), 1.0, wrap=True, inplace=False)
        np.testing.assert_array_equal(np.asarray(found), want)
    for condition in ([True], [0, 3, 0], [True, False, True, False, True]):
        found = dnp.compress(np.array(condition), V)
        np.testing.assert_array_equal(np.asarray(found), np.compress(condition, V))
    found = dnp.unravel_index(np.array([5, -1], np.int8), (2, 200))  # more elements than the dtype can count
    np.testing.assert_array_equal(np.asarray(found), [[0, 1], [5, 199]])
    np.testing.assert_array_equal(np.asarray(dnp.choose(INTS, [V[:3], 7.0])), np.choose(INTS, [V[:3], 7]))
    assert not dnp.choose(INTS, [0.4, 1.0]).weak_type  # and what it is made of is:
    assert dx.grad(lambda q: dnp.choose(INTS, [q, 1.0]).sum())(0.4).weak_type


def test_losses_are_announced() -> None:
    with pytest.warns(FutureWarning, match=r"values: float32\[\], x: int32"):
        found = dnp.place(INTS, INTS > 0, 2.5, inplace=False)
    np.testing.assert_array_equal(np.asarray(found), [0, 2, 2])


def test_expressions_are_kept() -> None:
    assert dnp.s_[1:2, ...] == (slice(1, 2), ...) and dnp.s_[1] == 1
    assert dnp.index_exp[1:2, ...] == (slice(1, 2), ...) and dnp.index_exp[1] == (1,)
    assert [repr(x) for x in (dnp.r_, dnp.ogrid, dnp.s_)] == [
        f"didax.numpy.{x}" for x in ("r_", "ogrid", "s_")
    ]


def test_writes_and_choices_have_derivatives() -> None:
    x, v = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([5.0, 7.0], np.float32)
    weights = np.arange(1.0, 7, dtype=np.float32).reshape(2, 3)
    writes = [
        lambda x, v: dnp.put(x, np.array([0, 4]), v, inplace=False),
        lambda x, v: dnp.put_along_axis(x, np.array([[0], [1]]), v[:, None], 1, inplace=False),
        lambda x, v: dnp.fill_diagonal(x, v, inplace=False),
        lambda x, v: dnp.place(x, np.eye(2, 3, dtype=bool), v, inplace=False),
    ]
    for write in writes:
        x_bar, v_bar = dx.jit(dx.grad(lambda x, v, f=write: (f(x, v) * weights).sum(), argnums=(0, 1)))(x, v)
        np.testing.assert_array_equal(np.asarray(x_bar), weights * (1 - np.eye(2, 3)))
        np.testing.assert_array_equal(np.asarray(v_bar), [1, 5])
    picked = dx.grad(lambda v: dnp.choose(np.array([1, 0, 1]), [v[0], v[1]]).sum())(v)
    np.testing.assert_array_equal(np.asarray(picked), [1, 2])
    rows = dx.vmap(lambda x, i: dnp.put(x, i, 9.0, inplace=False))(x, np.array([[0], [2]]))
    np.testing.assert_array_equal(np.asarray(rows), [[9, 1, 2], [3, 4, 9]])


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda: dnp.put(V, 0, 1.0), ValueError, r"put cannot change(.|\n)*float32\[5\](.|\n)*inplace=False"),
        (lambda: dnp.put_along_axis(M, INTS, 1.0, 0), ValueError, r"put_along_axis cannot change"),
        (lambda: dnp.place(V, V > 0, 1.0), ValueError, r"place cannot change"),
        (lambda: dnp.fill_diagonal(M, 1.0), ValueError, r"fill_diagonal cannot change"),
        (lambda: dnp.put(V, 0, 1.0, "raise", inplace=False), ValueError, r"mode: 'raise'"),
        (lambda: dnp.put(V, V, 1.0, inplace=False), TypeError, r"integer positions(.|\n)*ind: float32\[5\]"),
        (lambda: dnp.put_along_axis(M, INTS, 1, 0, False), ValueError, r"as many axes(.|\n)*indices: int32\[3\]"),
        (lambda: dnp.put_along_axis(M, M[:, :2] > 9, 1, 1, False), TypeError, r"indices: bool\[4,2\]"),
        (lambda: dnp.put_along_axis(M, INTS[None].repeat(2, 0), 1, 1, False), ValueError, r"put_along_axis"),
        (lambda: dnp.place(M, INTS > 0, 1, inplace=False), ValueError, r"mask: bool\[3\]"),
        (lambda: dnp.place(M, M > 0, np.zeros(0), inplace=False), ValueError, r"vals: float32\[0\]"),
        (lambda: dnp.fill_diagonal(V, 1, inplace=False), ValueError, r"at least two axes(.|\n)*float32\[5\]"),
        (lambda: dnp.diag_indices_from(M), ValueError, r"same length(.|\n)*float32\[4,3\]"),
        (lambda: dnp.diag_indices(-1), ValueError, r"n: -1, ndim: 2"),
        (lambda: dnp.triu_indices_from(V), ValueError, r"takes a matrix(.|\n)*shape \(5,\)"),
        (lambda: dnp.ix_(M), ValueError, r"takes vectors(.|\n)*argument 1: float32\[4,3\]"),
        (lambda: dnp.unravel_index(1.0, (2, 3)), TypeError, r"indices: float32\[\]"),
        (lambda: dnp.unravel_index(1, (2, -3)), ValueError, r"shape: \(2, -3\)"),
        (lambda: dnp.ravel_multi_index((1,), (2, 3)), ValueError, r"positions for 1 axes, dims: \(2, 3\)"),
        (lambda: dnp.ravel_multi_index((1, 5), (2, 3)), ValueError, r"out of range(.|\n)*allowed: 0 to 2"),
        (lambda: dnp.ravel_multi_index((1, 5), (2, 3), "no"), ValueError, r"mode: 'no'"),
        (lambda: dnp.choose(INTS, [1]), ValueError, r"choose got a position out of range(.|\n)*allowed: 0 to 0"),
        (lambda: dx.jit(lambda i: dnp.choose(i, [1, 2]))(INTS), ConcretizationTypeError, r"traced(.|\n)*mode='clip'"),
        (lambda: dnp.compress(M > 0, M), ValueError, r"vector of conditions(.|\n)*condition: bool\[4,3\]"),
        (lambda: dnp.compress(V, INTS), ValueError, r"nowhere beyond(.|\n)*axis of length 3"),
        (lambda: dx.jit(lambda c: dnp.compress(c, V))(V > 0), ConcretizationTypeError, r"size="),
        (lambda: dnp.select([], []), ValueError, r"at least one(.|\n)*conditions: 0"),
        (lambda: dnp.mgrid[3], TypeError, r"mgrid is indexed by slices(.|\n)*got: 3"),
        (lambda: dnp.r_["x", 1], ValueError, r"directive: 'x'"),
        (lambda: dnp.r_[1, "0,2"], ValueError, r"a directive before them"),
        (lambda: dnp.r_[()], ValueError, r"index: \(\)"),
    ],
)  # fmt: skip
def test_error_texts(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint32", "bool", "complex64"])
def test_searchsorted_finds_where_sort_would_put_the_values(dtype):
    """A long vector is left as it is, a short one is made keys of; NaN, signed zeros and equal elements in both."""
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 1, 1, 3], np.float32)
    if dtype == "complex64":  # whose parts XLA compares as floats, and takes denormal numbers for 0
        special[5] = 0.5
    special = special if np.dtype(dtype).kind in "fc" else special[3:]
    short = np.sort(special.astype(dtype))
    long = np.sort(np.concatenate([np.repeat(short, 8), short[:1]]))
    for x, values in [
        (short, np.tile(short, 3)),
        (long, short[-2:]),
        (short, np.resize(short, 4099)),  # so many that their keys are written to memory
        (long[:0], short),
        (short[:1], short[0]),
    ]:
        for side in ("left", "right"):
            expected = np.searchsorted(x, values, side)
            np.testing.assert_array_equal(dnp.searchsorted(x, values, side), expected)
            np.testing.assert_array_equal(
                dx.jit(dnp.searchsorted, static_argnums=2)(x, values, side), expected
            )


def test_take_along_axis_makes_no_positions_of_the_other_axes():
    program = dx.make_jaxpr(lambda x, i: dnp.take_along_axis(x, i, 1))(M, np.zeros((4, 2), np.int32))
    assert not {"iota", "concatenate"} & {eqn.primitive.name for eqn in program.eqns}


def test_take_along_no_axis_takes_positions_of_a_vector():
    with pytest.raises(ValueError, match="as many axes as the array"):
        dnp.take_along_axis(M, np.array([[0]]), None)
