"""Behaviours at the edges of functions that programs written for JAX rely on, beside JAX where it has an answer."""

from __future__ import annotations

import array
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, random

X = np.arange(6.0, dtype="float32")
Z = np.array([1 + 2j, 1 - 1j, 5j], "complex64")
W = np.arange(1.0, 7.0, dtype="float32").reshape(2, 3)


class Described:
    """What tells where its numbers lie, as an image of Pillow does, and is no array."""

    def __init__(self, numbers: Any):
        self.__array_interface__ = numbers.__array_interface__
        self._numbers = numbers


# fun(library, numpy of it, lax of it)
SAME: dict[str, Callable[..., Any]] = {
    "scan unrolled whole": lambda d, n, l: l.scan(lambda c, x: (c + x, c), 0.0, X, unroll=0),
    "fori_loop unrolled whole": lambda d, n, l: l.fori_loop(0, 3, lambda i, x: x + i, 0.0, unroll=0),
    "grids": lambda d, n, l: [
        n.mgrid[3:],
        n.mgrid[0:],
        n.ogrid[:],
        n.mgrid[:],
        n.ogrid[1::2],
        n.ogrid[:3, :],
    ],
    "one_hot": lambda d, n, l: [
        n.take_along_axis(n.asarray(x), n.asarray(i), axis, mode="one_hot")
        for x, i, axis in [
            (X, np.array([1, 7, -1]), 0),
            (W, np.array([[2], [0]]), 1),
            (W > 3, np.array([[1, 0, 0]]), 0),
            (np.array([1, 2, 3], "int8"), np.array([2, -3, -4]), None),
        ]
    ],
    "ravel_multi_index": lambda d, n, l: [
        n.ravel_multi_index((np.array([4, -1]), np.array([1, 9])), (3, 4), mode=mode)
        for mode in ("wrap", "clip", "ignore")
    ],
    "average": lambda d, n, l: n.average(
        np.ones((4, 2, 3), "float32"), axis=(2, 1), weights=W.T, returned=True
    ),
    "weighted quantile": lambda d, n, l: n.quantile(X, 0.5, weights=X, method="inverted_cdf"),
    "complex extrema": lambda d, n, l: [
        n.max(n.asarray(Z)),
        n.min(n.asarray(Z)),
        n.maximum(Z, Z[::-1]),
    ],
    "complex logaddexp": lambda d, n, l: n.logaddexp(Z, Z[::-1]),
    "equal lists": lambda d, n, l: [
        n.array_equal([1, 2], [1, 2]),
        n.array_equal([1, 2], [1, 3]),
        n.array_equiv([1], [[1, 1]]),
    ],
    "equal float0": lambda d, n, l: [
        n.array_equal(np.zeros(2, d.float0), np.zeros(2, d.float0)),
        np.zeros(2, d.float0) == np.zeros(2, d.float0),
    ],
    "buffers": lambda d, n, l: [
        n.asarray(array.array("f", [1, 2])),
        n.array(bytearray(b"ab")),
        n.asarray(memoryview(X)),
        n.array(array.array("b", [3])),
        n.asarray(memoryview(np.array([2**40])), "float32"),
        n.asarray(array.array("q", [2**40]), "float32"),
    ],
    "updates by buffers": lambda d, n, l: [
        n.zeros(2).at[:].set(array.array("d", [1, 2])),
        n.zeros(2).at[:].add(memoryview(b"ab")),
    ],
    "numbers that an object tells of": lambda d, n, l: [
        n.asarray(Described(np.arange(6).reshape(2, 3))),
        n.array(Described(np.float32([1.5])), "int8"),
        n.array([Described(np.ones(2)), Described(np.zeros(2))]),
    ],
    "lists of buffers": lambda d, n, l: [
        n.array([array.array("i", [1, 2]), array.array("d", [1.5, 2])]),
        n.array([bytearray(b"ab"), memoryview(b"cd")]),
        n.array([range(3), [1.5, 2, 3]]),
        n.array([range(2), [True, False]], "int8"),
    ],
    "repeat nothing": lambda d, n, l: (
        [
            n.repeat(W[:, :0], repeats, axis=axis, total_repeat_length=3)
            for repeats, axis in [(2, 1), (np.zeros(0, "int32"), 1), (np.array([1, 2]), 0), (2, None)]
        ]
        + [d.vmap(lambda x, i: n.repeat(x, i, total_repeat_length=3))(W[:, :0], np.zeros((2, 0), "int32"))]
    ),
    "positions filled up": lambda d, n, l: [
        n.nonzero(X > 3, size=3, fill_value=(7,)),
        n.nonzero(W > 5, size=3, fill_value=(7, np.int32(8))),
        n.argwhere(W > 5, size=2, fill_value=np.array(9)),
    ],
    "integrals between points of fewer axes": lambda d, n, l: n.trapezoid(np.ones((2, 2, 3)), x=W),
    "numbers to the power of integers": lambda d, n, l: [
        l.pow(x, n.asarray(y))
        for x in (1.5, 2j)
        for y in (W.astype("int32"), np.int8(2), np.array([1], "uint8"))
    ],
    "size in an array": lambda d, n, l: n.setdiff1d(X, W, size=np.array(2)),
    "extract": lambda d, n, l: [
        n.extract(np.array([True, False]), X),
        n.extract(W > 2, W, size=5, fill_value=7),
        n.extract(np.array([1, 0]), np.float32(3)),
    ],
    "axes that are shifted twice": lambda d, n, l: [n.fft.fftshift(W, (1, 1)), n.fft.ifftshift(W, (0, -2))],
    "vectorize without a signature": lambda d, n, l: [
        n.vectorize(lambda x: x + np.arange(3))(X),
        n.vectorize(lambda x, y: x + y, excluded={0})(X, X),
    ],
    "vectorize with None": lambda d, n, l: [
        n.vectorize(lambda x, y: x if y is None else x + y)(X, None),
        n.vectorize(lambda x, y: x.sum() if y is None else x + y, signature="(n),()->()")(W, None),
    ],
}


@pytest.mark.parametrize("name", SAME)
def test_as_in_jax(name: str) -> None:
    theirs = jax.tree.leaves(SAME[name](jax, jnp, jax.lax))
    ours = dx.tree.leaves(SAME[name](dx, dnp, lax))
    for y, want in zip(ours, theirs, strict=True):
        assert y.dtype == want.dtype
        np.testing.assert_allclose(y, want, rtol=1e-6)


key = random.key(0)
ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "unroll": (
        lambda: lax.scan(lambda c, x: (c, x), 0, X, unroll=-1),
        ValueError,
        "0 or True unrolls the whole",
    ),
    "extract beyond the end": (
        lambda: dnp.extract(np.ones(3, bool), dnp.arange(2)),
        ValueError,
        "holds nowhere beyond the end",
    ),
    "a None with axes": (
        lambda: dnp.vectorize(lambda x, y: x, signature="(n),(m)->(n)")(X, None),
        ValueError,
        "argument 2: None, its part of the signature",
    ),
    "a mask of integers": (lambda: dnp.nanmean(X, where=np.ones(6, int)), ValueError, "where: int32"),
    "words as an index": (lambda: dnp.asarray(X)[np.array(["a"])], TypeError, "An index is made of"),
    "bytes in reverse as an index": (
        lambda: dnp.asarray(X)[np.array([1.0], ">f4")],
        TypeError,
        "An index is",
    ),
    "an object as an index": (lambda: dnp.asarray(X)[object()], IndexError, "An index is made of"),
    "where of a ufunc": (lambda: dnp.add(X, X, where=True), NotImplementedError, "and where=None"),
    "a table of counts": (lambda: dnp.bincount(np.ones((2, 2), int)), ValueError, "counts a vector"),
    "a vector as a bound": (lambda: dnp.arange(X), ValueError, "takes numbers, which say where"),
    "a mask of NumPy's": (lambda: dnp.sin(np.ma.masked_array([1.0])), ValueError, "have no masks"),
    "bytes": (lambda: dnp.asarray(b"ab"), TypeError, "array takes numbers"),
    "both": (
        lambda: random.wrap_key_data(np.zeros(2, "uint32"), impl="rbg", dtype=key.dtype),
        ValueError,
        "impl: 'rbg'",
    ),
    "key dtype": (lambda: random.key(0, dtype="float32"), TypeError, "dtype of key is that of keys"),
    "struct": (lambda: dx.ShapeDtypeStruct((3,), None), ValueError, "states a dtype"),
    "number of arguments": (
        lambda: dnp.vectorize(lambda x, y: x, signature="(n)->()")(X, X),
        TypeError,
        "1 arguments, call: 2 arguments",
    ),
    "number of results": (
        lambda: dnp.vectorize(lambda x: (x, x), signature="(n)->(n)")(X),
        TypeError,
        "1 results, call: 2 results",
    ),
    "negative": (lambda: dnp.vectorize(abs, excluded={-1}), ValueError, "counted from the front"),
    "no position": (lambda: dnp.vectorize(abs, excluded={1.5}), TypeError, "by position"),
    "fftfreq": (lambda: dnp.fft.fftfreq([3]), ValueError, "n: \\[3\\]"),
    "fftfreq of an array": (
        lambda: dnp.fft.fftfreq(np.array([3, 4])),
        ValueError,
        "takes a number of points",
    ),
    "points that are no number": (
        lambda: dnp.fft.fftfreq(2.5),
        TypeError,
        "takes a number of points.\n  n: 2.5",
    ),
    "fewer points than none": (
        lambda: dnp.fft.rfftfreq(-1),
        ValueError,
        "takes a number of points.\n  n: -1",
    ),
    "length of a scalar's type": (lambda: len(dx.ShapeDtypeStruct((), "int8")), TypeError, "unsized"),
    "order of ravel": (lambda: dnp.ravel(W, order="K"), ValueError, "ravel has 2 choices of order"),
    "a range that does not fit": (lambda: dnp.array([range(300, 301)], "uint8"), OverflowError, "300"),
    "fill values": (
        lambda: dnp.nonzero(X, size=3, fill_value=(1, 2)),
        ValueError,
        r"tuple of one for each axis.\n  a: float32\[6\], fill_value: \(1, 2\)\nPass a single number",
    ),
    "fill values in a list": (
        lambda: dnp.argwhere(W, size=9, fill_value=[1, 2]),
        ValueError,
        "fills up with",
    ),
    "unique under vmap": (
        lambda: dx.vmap(dnp.unique)(W),
        TypeError,
        r"unique depends .*\n  array: float32\[3\]",
    ),
    "fill value of an axis": (lambda: dnp.nonzero(X, size=3, fill_value=(X[:3],)), ValueError, "fills up"),
    "keys of lexsort": (
        lambda: dnp.lexsort((X, W)),
        ValueError,
        r"keys of one shape.\n  keys: float32\[6\], float32\[2,3\]\nBroadcast them first.",
    ),
    "keys of lexsort of which one is a number": (lambda: dnp.lexsort((1, X)), ValueError, "of one shape"),
    "fftfreq d": (lambda: dnp.fft.rfftfreq(3, d=[1.0]), ValueError, "one spacing"),
}


def test_numbers_whose_bytes_are_reversed_are_converted() -> None:
    """JAX refuses most, and reads some wrongly."""
    x = np.array([1.5, -2], ">f4")
    for dtype in ("int8", "float32", "bfloat16", "complex64"):
        found = dnp.asarray(x, dtype)
        assert found.dtype == dtype and found.tolist() == np.asarray(x, found.dtype).tolist()
    assert dnp.array(memoryview(np.array([258], ">u2").astype("u2")), "int32").tolist() == [258]
    assert dnp.sort(x).tolist() == [-2, 1.5]


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, part = ERRORS[name]
    with pytest.raises(error, match=part):
        call()


def test_axes_and_paddings_are_no_floats() -> None:
    """A float among them is a mistake in the program, which cutting it off would hide."""
    image = np.ones((1, 1, 4), "float32")
    for call in (
        lambda l: l.transpose(W, (0.9, 1)),
        lambda l: l.transpose(W, "10"),
        lambda l: l.dot_general(W, W, (((1.2,), (1.7,)), ((), ()))),
        lambda l: l.conv_general_dilated(image, image, (1.5,), [(1, 2)]),
        lambda l: l.conv_general_dilated(image, image, (1,), [(1.7, 2)]),
        lambda l: l.conv_general_dilated(image, image, (1,), [(1, 2)], rhs_dilation=(1.5,)),
        lambda l: l.conv_general_dilated(image, image, (1,), "SAME", feature_group_count=1.5),
    ):
        for library in (lax, jax.lax):
            with pytest.raises((TypeError, ValueError)):
                call(library)


def test_keys_by_their_dtype() -> None:
    words = np.arange(4, dtype="uint32")
    rbg = random.key(1, impl="rbg")
    assert random.wrap_key_data(words, dtype=rbg.dtype).dtype == rbg.dtype
    assert random.key(1, dtype=rbg.dtype) == rbg


def test_structs_of_arrays() -> None:
    assert dx.ShapeDtypeStruct.like(dnp.ones(3)) == dx.ShapeDtypeStruct((3,), "float32")
    assert dx.ShapeDtypeStruct.like(2.0).weak_type
    assert dx.ShapeDtypeStruct.like(np.ones(2, "int8")).dtype == np.int8
    for number in (np.float64(2), np.int64(2), np.complex128(2)):  # a call narrows them
        like = dx.ShapeDtypeStruct.like(number)
        assert like.dtype == dx.typeof(number).dtype == dx.jit(lambda x: x)(number).dtype


@pytest.mark.cpu
@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has buffers of Python classes")
def test_an_array_is_a_buffer() -> None:
    x = dnp.arange(3, dtype="int32")
    view = memoryview(x)
    assert view.tolist() == [0, 1, 2]
    assert view.readonly
    np.testing.assert_array_equal(np.frombuffer(x, "int32"), x)


def test_the_bytes_of_an_array() -> None:
    for x in (
        dnp.arange(6, dtype="int16").reshape(2, 3).T,
        dnp.ones(2, "bfloat16"),
        dnp.int32(3),
        dnp.zeros((0, 2)),
    ):
        assert bytes(x) == np.asarray(x).tobytes()


def test_complex_numbers_are_clamped_in_lexicographic_order() -> None:
    np.testing.assert_array_equal(lax.clamp(Z, Z[::-1], Z), Z)
    np.testing.assert_array_equal(lax.clamp(0j, Z, 1j + 1), [1 + 1j, 1 - 1j, 5j])


def test_vmap_says_what_it_is() -> None:
    def f(x: Any) -> Any:
        """Of one example."""
        return x

    assert "Vectorized version of f" in dx.vmap(f).__doc__
    assert dx.vmap(f).__doc__.endswith("Of one example.")
    assert dx.vmap(dx.vmap(lambda x: x)).__doc__.count("Vectorized version of <lambda>") == 2


def test_linear_functions_show_their_arguments() -> None:
    _, f_lin = dx.linearize(lambda x, y: x * y, 2.0, 3.0)
    assert repr(f_lin) == "<LinearizedFunction of float32[], float32[], linear steps: 3>"
    _, f_vjp = dx.vjp(lambda xs: sum(xs), [1.0] * 6)
    assert repr(f_vjp).startswith("<VJPFunction of float32[], float32[], float32[], float32[], ..., linear")


def test_cotangents_into_refs() -> None:
    calls: list[int] = []

    @dx.custom_vjp
    def noted(x: Any) -> Any:
        return x

    noted.defvjp(lambda x: (x, None), lambda _, ct: (calls.append(1) or ct,))
    _, f_vjp = dx.vjp(lambda p, y: dnp.sin(p["a"]) * y + noted(y), {"a": X}, 2.0 * X)
    total = dx.new_ref(dnp.ones(6))
    want = f_vjp(np.ones(6, "float32"))
    calls.clear()
    found = f_vjp.with_refs({"a": total}, dx.ad.DontWant())(np.ones(6, "float32"))
    assert not calls
    assert repr(found) == "({'a': GradRef()}, DidntWant())"
    np.testing.assert_allclose(total[...], want[0]["a"] + 1, rtol=1e-6)
    kept, same = f_vjp.with_refs({"a": dx.ad.DontWant()}, dx.ad.GradValue())(np.ones(6, "float32"))
    assert dx.tree.leaves(kept) == []
    np.testing.assert_array_equal(same, want[1])
    for wrong, error in (((1.0, total), TypeError), ((total,), TypeError)):
        with pytest.raises(error, match=r"ad\.GradValue"):
            f_vjp.with_refs(*wrong)


def test_a_donation_that_cannot_be_used_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"not usable.*\n  donated: float32\[5\]") as found:
        dx.jit(lambda x, y: (x.sum(), y + 1), donate_argnums=(0, 1))(dnp.ones(5), dnp.ones(3))
    assert found[0].filename == __file__


def test_a_donation_that_a_result_of_another_type_uses_is_no_warning() -> None:
    for f in (lambda x: x.astype("int32"), lambda x: x.reshape(2, 3) * 2, lambda x: (x.sum(), x[:3] + 1j)):
        x = dnp.arange(6.0)
        dx.jit(f, donate_argnums=0)(x)
        assert x.is_deleted()


def test_arguments_by_the_names_of_jax() -> None:
    where = dx.sharding.SingleDeviceSharding(dx.devices()[0])
    assert dx.dtypes.canonicalize_dtype(dtype="float64", allow_extended_dtype=True) == "float32"
    assert dx.dtypes.result_type(1, np.float32(2), return_weak_type_flag=True) == (np.float32, False)
    assert dx.dtypes.result_type(1, 2.0, return_weak_type_flag=True) == (np.float32, True)
    assert dx.dtypes.finfo(dtype="float16").bits == dx.dtypes.itemsize_bits(dtype="bfloat16") == 16
    assert dx.dtypes.iinfo(int_type="int8").max == dnp.iinfo(int_type="int8").max == 127
    assert dx.dlpack.from_dlpack(external_array=X).tolist() == X.tolist()
    for x in (lax.full((3,), 1, "int8", sharding=where), lax.full_like(X[:3], 1, "int8", sharding=where)):
        assert (x.shape, x.dtype, x.sharding) == ((3,), "int8", where)
    pads = lax.padtype_to_pads(in_shape=(5,), window_shape=(2,), window_strides=(1,), padding="SAME")
    assert pads == [(0, 1)]


def test_formats_are_checked_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    dx.debug.print("x is {x}", x=3, y=4, skip_format_check=True, partitioned=False)
    dx.effects_barrier()
    assert capsys.readouterr().out == "x is 3\n"
    with pytest.raises(NotImplementedError, match="print shows whole arrays"):
        dx.debug.print("{}", 3, partitioned=True)
