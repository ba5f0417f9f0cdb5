"""Memory does not grow with what is no longer used: objects are counted, which no load of a machine changes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core.avals import ShapedArray, _interned


def left_behind(work: Callable[[int], None], warm: int, count: int, first: int = 0) -> Counter[str]:
    """How many objects of each type `count` steps of work leave after `warm` of them.

    Types of arrays and the keys of their table, which is never emptied, are left out.
    """

    def objects() -> Counter[str]:
        dx.clear_caches()
        gc.collect()
        kept = {id(key) for key in _interned}
        found = [x for x in gc.get_objects() if type(x) is not ShapedArray and id(x) not in kept]
        return Counter(type(x).__qualname__ for x in found)

    for i in range(first, first + warm):
        work(i)
    before = objects()
    for i in range(first + warm, first + warm + count):
        work(i)
    return objects() - before


def call(i: int) -> None:
    _step(_array)


def signature(i: int) -> None:
    dx.jit(lambda x: dnp.sin(x) * 2 + x)(np.ones(i + 1, "float32"))


def callback(i: int) -> None:
    _calling(_array)


def transformed(i: int) -> None:
    dx.grad(lambda x: (dnp.sin(x) * i).sum())(_array)
    dx.vmap(lambda x: dnp.cos(x) * i)(_array)


def staged(i: int) -> None:
    dx.make_jaxpr(dx.jit(lambda x: dnp.sin(x) * i))(_array)


_array = dnp.ones(3)
_step = dx.jit(lambda x: x * 2 + 1)
_calling = dx.jit(lambda x: dx.pure_callback(lambda x: x, x, x))
KINDS = [(call, 500, 10_000), (signature, 8, 2_000), (callback, 100, 10_000)]
KINDS += [(transformed, 100, 2_000), (staged, 50, 2_000)]


@pytest.mark.parametrize(("work", "count", "_many"), KINDS, ids=lambda x: getattr(x, "__name__", ""))
def test_what_is_no_longer_used_leaves_nothing(work: Callable[[int], None], count: int, _many: int):
    left = left_behind(work, 5, count)
    assert left.total() < max(count // 2, 40), left.most_common(5)  # other tests' garbage comes and goes


@pytest.mark.slow
@pytest.mark.parametrize(("work", "_few", "count"), KINDS, ids=lambda x: getattr(x, "__name__", ""))
def test_thousands_of_what_is_no_longer_used_leave_nothing(
    work: Callable[[int], None], _few: int, count: int
):
    left = left_behind(work, 20, count, first=30)
    assert left.total() < 200, left.most_common(5)
