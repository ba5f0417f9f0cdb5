"""Generated indices: what NumPy reads and writes, Didax reads and writes, and what NumPy refuses, Didax refuses.

Some 850 examples, or (`make test-all`) four times as many. Outside of transformations a small array is indexed by
NumPy itself, so each example goes through jvp or vmap as well, where every read is a slice, a dynamic_slice or a
gather and every write a dynamic_update_slice or a scatter, not compiled. A smaller number is compiled and compared
with JAX.
"""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given

import didax as dx
import didax.numpy as dnp
from tests.checks import examples, wide

DTYPES = [np.dtype(d) for d in ("float32", "int8", "uint16", "bool", "complex64", ml_dtypes.bfloat16)]
INDEX_DTYPES = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
BROADCASTS: list[tuple[int, ...]] = [(), (1,), (3,), (2,), (2, 1), (2, 3), (1, 3), (0,), (2, 0)]
KINDS = ["slice", "int", "array", "array", "scalar", "list", "mask", "None", "...", "flag", "stop"]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(seed).integers(0, 100, shape)).astype(dtype)


class Items:
    """Items of one index, drawn by numbers from a seed; their arrays broadcast to one shape, most of the time."""

    def __init__(self, broadcast: tuple[int, ...], seed: int):
        self.broadcast, self.dots = broadcast, False
        self.rng = np.random.default_rng(seed)

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def integers(self, n: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        dtype = np.dtype(INDEX_DTYPES[self.below(len(INDEX_DTYPES))])
        return np.asarray(self.rng.integers(0 if dtype.kind == "u" else -n, n, shape)).astype(dtype)

    def shape_of_array(self) -> tuple[int, ...]:
        shape = self.broadcast[self.below(len(self.broadcast) + 1) :]
        return tuple([1 if n > 1 and self.below(5) == 0 else n for n in shape])

    def slice(self, n: int) -> slice:
        start, stop = [None if self.below(4) == 0 else int(self.rng.integers(-n - 2, n + 3)) for _ in "ab"]
        return slice(start, stop, (None, 1, 2, 3, -1, -2)[self.below(6)])

    def mask(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """A mask with as many hits as the arrays are long, where there is room for them."""
        wanted = self.broadcast[-1] if self.broadcast else self.below(4)
        mask = np.zeros(math.prod(shape), bool)
        mask[self.rng.permutation(mask.size)[:wanted]] = True
        return mask.reshape(shape)

    def item(self, kind: str, shape: tuple[int, ...]) -> tuple[Any, int]:
        """An item for the axes of these lengths, and how many of them it is for."""
        n = shape[0]
        if kind in ("None", "flag"):
            return (None, 0) if kind == "None" else (self.below(3) > 0, 0)
        if kind == "..." and not self.dots:
            self.dots = True
            return Ellipsis, self.below(len(shape) + 1)
        if kind == "mask":
            count = 1 + self.below(min(2, len(shape)))
            return self.mask(shape[:count]), count
        array = self.shape_of_array()
        if kind in ("slice", "...") or (n == 0 and (kind not in ("array", "list") or 0 not in array)):
            return self.slice(n), 1
        if kind == "int":
            return int(self.rng.integers(-n, n)), 1
        if kind == "scalar":
            found = self.integers(n, ())
            return (found if self.below(2) else found[()]), 1
        found = self.integers(max(n, 1), array)
        return (found.tolist() if kind == "list" and found.ndim and found.size else found), 1


SEEDS = st.integers(0, 2**20)


@st.composite
def indices(draw: Any, shape: tuple[int, ...], kinds: list[str] = KINDS) -> tuple[Any, ...]:
    """An index for an array of that shape; it may leave out its last axes."""
    drawn, items, axis = Items(draw(st.sampled_from(BROADCASTS)), draw(SEEDS)), [], 0
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=len(shape), max_size=len(shape) + 3)):
        if axis == len(shape) or kind == "stop":
            break
        item, count = drawn.item(kind, shape[axis:])
        items.append(item)
        axis += count
    return tuple(items)


@st.composite
def cases(draw: Any, kinds: list[str] = KINDS) -> tuple[tuple[int, ...], Any]:
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    return shape, draw(indices(shape, kinds))


def arrays_of(index: tuple[Any, ...], where: bool = True) -> tuple[Any, ...]:
    """The index with its integer arrays as Didax's, as they come out of other operations."""
    return tuple([dnp.asarray(i) if where and is_integers(i) else i for i in index])


def is_integers(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype != np.bool_


def same(found: Any, want: Any) -> None:
    value = np.asarray(found)
    assert (value.shape, value.dtype) == (np.shape(want), np.asarray(want).dtype)
    np.testing.assert_array_equal(wide(value), wide(want))


# --- Reading ------------------------------------------------------------------------------------------------


@given(cases(), st.sampled_from(DTYPES), st.booleans())
@examples(8)
@example(((2, 3, 4), (np.array([0, 1]), slice(None), np.array([[0], [3]]))), DTYPES[0], False)
@example(((2, 3, 4), (0, ..., np.array([0, 1]))), DTYPES[0], True)
@example(((300,), (np.array([255, 200], np.uint8),)), DTYPES[0], True)
@example(((300,), (np.array([-128, 127], np.int8),)), DTYPES[0], True)
def test_reads_are_numpys(case: tuple[tuple[int, ...], Any], dtype: Any, wraps: bool) -> None:
    """Eagerly, through jvp (floats) or vmap (others)."""
    shape, index = case
    x, y = numbers(shape, dtype), numbers(shape, dtype, 1)
    ours = arrays_of(index, wraps)
    try:
        want = x[index]
    except IndexError:  # arrays that do not broadcast, positions out of range
        with pytest.raises(IndexError):
            dnp.asarray(x)[index]
        with pytest.raises(IndexError):
            dx.vmap(lambda x: x[index])(np.stack([x, y]))
        return
    same(dnp.asarray(x)[ours], want)
    if dtype == np.float32:
        found = dx.jvp(lambda x: x[ours], (x,), (y,))
    else:
        found = dx.vmap(lambda x: x[ours])(np.stack([x, y]))
    same(found[0], want)
    same(found[1], y[index])


# --- Writing ------------------------------------------------------------------------------------------------

UPDATES: dict[str, Any] = {
    "set": lambda x, index, v: x.__setitem__(index, v),
    "add": np.add.at,
    "subtract": np.subtract.at,
    "multiply": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


def updated(kind: str, x: np.ndarray[Any, Any], index: Any, values: Any) -> np.ndarray[Any, Any]:
    x = x.copy()
    with np.errstate(all="ignore"):
        UPDATES[kind](x, index, values)
    return x


@st.composite
def writes(draw: Any) -> tuple[tuple[int, ...], Any, tuple[int, ...]]:
    """A shape, an index that NumPy takes, and a shape of values that broadcasts to what it reads."""
    shape, index = draw(cases().filter(lambda case: is_taken(*case)))
    read = np.zeros(shape)[index].shape
    rng = np.random.default_rng(draw(SEEDS))
    kept = read[rng.integers(len(read) + 1) :]
    return shape, index, tuple([1 if rng.random() < 0.2 else n for n in kept])


def is_taken(shape: tuple[int, ...], index: Any) -> bool:
    try:
        np.zeros(shape)[index]
    except IndexError:
        return False
    return True


@given(writes(), st.sampled_from(list(UPDATES)), st.sampled_from([np.float32, np.int16]), st.booleans())
@examples(5)
def test_writes_are_numpys(case: Any, kind: str, dtype: Any, wraps: bool) -> None:
    """Repeated indices count repeatedly, and the last value that is set stays; eagerly and through vmap."""
    shape, index, value_shape = case
    x, v = numbers(shape, dtype), numbers(value_shape, dtype, 1)
    y, w = numbers(shape, dtype, 2), numbers(value_shape, dtype, 3)
    ours = arrays_of(index, wraps)

    def update(x: Any, v: Any) -> Any:
        return getattr(x.at[ours], kind)(v)

    want = updated(kind, x, index, v)
    same(update(dnp.asarray(x), dnp.asarray(v)), want)
    found = dx.vmap(update)(np.stack([x, y]), np.stack([v, w]))
    same(found[0], want)
    same(found[1], updated(kind, y, index, w))
    if dtype == np.float32 and kind in ("set", "add", "subtract"):  # linear in array and values together
        _, tangent = dx.jvp(update, (x, v), (y, w))
        same(tangent, updated(kind, y, index, w))


# --- Out of range -------------------------------------------------------------------------------------------


@st.composite
def outside(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...], int]:
    """A shape, an index with one position out of range, and the axis where that is."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(shape) - 1))
    drawn = Items(draw(st.sampled_from(BROADCASTS)), draw(SEEDS))
    items: list[Any] = []
    for n in shape[:axis]:
        items += [None] * (drawn.below(4) == 0)
        items.append(drawn.item(("slice", "int", "array")[drawn.below(3)], (n,))[0])
    n, by = shape[axis], drawn.below(200)
    position = n + by if drawn.below(2) else -n - 1 - by
    if drawn.below(2):
        array = drawn.rng.integers(-n, max(n, 1), [(), (1,), (3,), (2, 3)][drawn.below(4)])
        array = np.asarray(array, (np.int16, np.int64)[drawn.below(2)])
        array.flat[-1] = position
        items.append(array)
    else:
        items.append((int, np.int16, np.int64)[drawn.below(3)](position))
    items += [[], [...], [None], [slice(None)] * (len(shape) - axis - 1)][drawn.below(4)]
    return shape, tuple(items), axis


@given(outside())
@examples(3)
def test_positions_out_of_range_raise(case: tuple[tuple[int, ...], tuple[Any, ...], int]) -> None:
    """Integers and arrays of them, at every axis, read and written, eagerly and while tracing."""
    shape, index, axis = case
    x = numbers(shape)
    text = (
        f"out of range(.|\n)*axis {axis} of length {shape[axis]}, array" if is_broadcastable(index) else None
    )
    for use in (lambda x: x[index], lambda x: x.at[index].set(0.0), lambda x: x.at[index].add(1.0)):
        with pytest.raises(IndexError, match=text):
            use(dnp.asarray(x))
        with pytest.raises(IndexError, match=text):
            dx.make_jaxpr(use)(x)


def is_broadcastable(index: tuple[Any, ...]) -> bool:
    try:
        np.broadcast_shapes(*[np.shape(i) for i in index if isinstance(i, np.ndarray)])
    except ValueError:
        return False
    return True


# --- Compiled, and against JAX ------------------------------------------------------------------------------


def programs(lib: Any, apply: Any, index: tuple[Any, ...]) -> Any:
    """The value, the gradient and a batch of `apply(x, index)`, integer arrays as arguments, as one program."""
    static = [not is_integers(item) for item in index]

    def program(x: Any, other: Any, taken: Any, weights: Any) -> Any:
        def read(x: Any, taken: Any) -> Any:
            given = iter(taken)
            return apply(
                x, tuple([i if fixed else next(given) for i, fixed in zip(index, static, strict=True)])
            )

        gradient = lib.grad(lambda x: (read(x, taken) * weights).sum())(x)
        both = [lib.numpy.stack([a, a[::-1] if a.ndim else a]) for a in taken]
        batch = lib.vmap(read)(lib.numpy.stack([x, other]), both)
        rows = lib.vmap(lambda taken, _: read(x, taken))(both, lib.numpy.arange(2))
        return read(x, taken), gradient, batch, rows

    return lib.jit(program)


def agree(apply: Any, shape: tuple[int, ...], index: tuple[Any, ...], out: tuple[int, ...]) -> None:
    import jax

    taken = [i.astype(np.int32) for i in index if is_integers(i)]
    args = numbers(shape) + 1, numbers(shape, seed=2), taken, numbers(out, seed=1)
    wants = programs(jax, apply, index)(*args)
    for found, want in zip(programs(dx, apply, index)(*args), wants, strict=True):
        assert (found.shape, found.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-6)


# JAX fails on some flags beside empty axes.
WELL_KNOWN = ["slice", "int", "array", "array", "scalar", "mask", "None", "..."]


@given(cases(WELL_KNOWN).filter(lambda case: is_taken(*case)))
@examples(0.6)
def test_compiled_reads_are_jaxs(case: Any) -> None:
    shape, index = case
    agree(lambda x, index: x[index], shape, index, np.zeros(shape)[index].shape)


@given(
    cases(WELL_KNOWN).filter(lambda case: is_taken(*case)), st.sampled_from(["set", "add", "multiply", "max"])
)
@examples(0.4)
def test_compiled_writes_are_jaxs(case: Any, kind: str) -> None:
    """Indices may repeat."""
    shape, index = case
    agree(lambda x, index: getattr(x.at[index], kind)(3.5), shape, index, shape)
