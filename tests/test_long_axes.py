"""Axes of more than 2**31 elements, whose positions no int32 holds: by types and program texts, without the arrays."""

import re

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax

LONG = dx.ShapeDtypeStruct((2**31 + 5,), "int8")
INDEX = dx.ShapeDtypeStruct((3,), "int32")

POSITIONS = {
    "argmax": lambda x, i: dnp.argmax(x),
    "argmin": lambda x, i: dnp.argmin(x),
    "argsort": lambda x, i: dnp.argsort(x),
    "lexsort": lambda x, i: dnp.lexsort((x, x)),
    "nonzero": lambda x, i: dnp.nonzero(x, size=3)[0],
    "searchsorted": lambda x, i: dnp.searchsorted(x, i.astype("int8")),
}
READS = {
    "index": lambda x, i: x[i],
    "take": lambda x, i: dnp.take(x, i),
    "take_along_axis": lambda x, i: dnp.take_along_axis(x, i, 0),
    "at": lambda x, i: x.at[i].set(1),
    "dynamic_slice": lambda x, i: lax.dynamic_slice(x, (i[0],), (3,)),
    "dynamic_update_slice": lambda x, i: lax.dynamic_update_slice(x, i.astype("int8"), (i[0],)),
}


@pytest.mark.parametrize("name", [*POSITIONS, *READS])
def test_positions_are_refused_where_they_have_32_bits(name):
    f = {**POSITIONS, **READS}[name]
    with pytest.raises(OverflowError, match=r"(.|\n)*2147483\d+(.|\n)*enable_x64"):
        dx.eval_shape(f, LONG, INDEX)


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_have_64_bits_under_enable_x64(name):
    with dx.enable_x64(True):
        assert dx.eval_shape(POSITIONS[name], LONG, INDEX).dtype == np.int64


@pytest.mark.parametrize("name", READS)
def test_programs_read_and_write_at_64_bit_positions(name):
    with dx.enable_x64(True):
        text = dx.jit(READS[name]).lower(LONG, INDEX).as_text()
    found = re.search(r"stablehlo\.(dynamic_slice|dynamic_update_slice|gather|scatter)\b.*", text, re.DOTALL)
    assert found and re.search(r"tensor<(3x1x)?i64>", found[0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: dnp.pad(x, 1, mode="edge"),
        lambda x: dnp.pad(x, (3, 2), mode="reflect"),
        lambda x: dnp.pad(x, (3, 2), mode="wrap"),
        lambda x: dnp.delete(x, [-1, 7, 8]),
        lambda x: dnp.delete(x, slice(1, 2**30)),
        lambda x: dnp.insert(x, 5, 1),
        lambda x: dnp.insert(x, [5, 2, 5], np.int8([1, 2, 3])),
    ],
)
def test_shapes_with_static_positions_need_no_array_of_positions(f):
    program = dx.make_jaxpr(f)(LONG)
    assert all(np.size(c) <= 3 for c in program.consts)


def test_top_k_says_that_its_positions_have_32_bits():
    with dx.enable_x64(True), pytest.raises(OverflowError, match=r"int32 positions(.|\n)*argsort"):
        dx.eval_shape(lambda x: lax.top_k(x, 3), LONG)


def test_iota_does_not_wrap_around():
    with dx.enable_x64(True), pytest.raises(OverflowError, match=r"64-bit integers(.|\n)*int64"):
        dx.eval_shape(lambda: lax.iota("int32", 2**31 + 5))


def test_counters_do_not_wrap_around():
    with pytest.raises(OverflowError, match=r"integer: 2147483658, dtype: int32"):
        dx.make_jaxpr(lambda x: lax.fori_loop(0, 2**31 + 10, lambda i, c: c + i, x))(0)


@pytest.mark.parametrize("write", [lambda x: x.at[-1].set(1), lambda x: x.at[2**31 :].add(1)])
def test_static_positions_are_written_at_without_enable_x64(write):
    text = dx.jit(write).lower(LONG).as_text()
    assert re.search(r"dynamic_update_slice .*tensor<i64>", text)
    assert dx.eval_shape(lambda x: (x[-1], x[2**31 :]), LONG)[1].shape == (5,)


@pytest.mark.parametrize(
    "index",
    [
        np.array([2**31 + 1, 0]),
        [2**31 + 1, -(2**31) - 5],
        dnp.array([2**31 + 1, 0], "uint32"),
        (np.array([2**31 + 1, 0]), np.array([1, 0])),
    ],
    ids=["positions", "from the end", "unsigned", "of two axes"],
)
def test_static_positions_are_unsigned_without_enable_x64(index):
    x = dx.ShapeDtypeStruct((*LONG.shape, 2), "int8") if isinstance(index, tuple) else LONG
    for use in (lambda x: x[index], lambda x: x.at[index].set(1), lambda x: x.at[index].get(mode="fill")):
        (found,) = [np.asarray(c) for c in dx.make_jaxpr(use)(x).consts]
        assert found.dtype == np.uint32 and found[:, 0].tolist() == [2**31 + 1, 0]


def test_known_positions_of_32_bits_are_refused_where_they_are_of_an_array():
    index = dnp.array([-3, 0])
    with pytest.raises(OverflowError, match=r"(.|\n)*2147483\d+(.|\n)*enable_x64"):
        dx.eval_shape(lambda x: x[index], LONG)
    for static in (np.int32([-3, 0]), -3):
        assert dx.eval_shape(lambda x: x[static], LONG).dtype == np.int8
