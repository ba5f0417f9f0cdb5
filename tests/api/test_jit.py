"""jit: one trace per signature, pytrees, static and donated arguments, closures, stages, options."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import dataclasses
import functools
import gc
import inspect
import logging
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import config
from tests.checks import python_calls


class Counter:
    """A function that counts its traces."""

    def __init__(self, f):
        self.f = f
        self.count = 0
        self.__name__ = getattr(f, "__name__", "f")

    def __call__(self, *args, **kwargs):
        self.count += 1
        return self.f(*args, **kwargs)


@pytest.fixture
def x():
    return dnp.arange(3.0)


# --- Caching ------------------------------------------------------------------------------------------------


def test_traced_once_per_signature(x):
    f = Counter(lambda x: x * 2)
    jitted = dx.jit(f)
    for _ in range(3):
        np.testing.assert_array_equal(jitted(x), [0, 2, 4])
    jitted(np.ones(3, np.float32))
    assert f.count == 1
    jitted(dnp.ones(4))
    jitted(dnp.ones(3, dnp.int32))
    assert f.count == 3


def test_each_way_of_passing_an_array_is_one_signature(x):
    f = Counter(lambda x, y: x + y)
    jitted = dx.jit(f)
    for args in [(x, x), (np.asarray(x), x), (x, np.asarray(x)), (jitted(x, x), x)]:
        jitted(*args)
    assert f.count == 1


def test_weak_and_strong_scalars_are_two_signatures():
    f = Counter(lambda x: x * dnp.ones(2, dnp.float16))
    jitted = dx.jit(f)
    assert jitted(2.0).dtype == np.float16
    assert jitted(np.float32(2.0)).dtype == np.float32
    assert jitted(3.0).dtype == np.float16
    assert f.count == 2


def test_python_scalars_of_one_type_share_a_program():
    f = Counter(lambda x: x + 1)
    jitted = dx.jit(f)
    assert [float(jitted(v)) for v in (1.0, 2.0, -0.0)] == [2.0, 3.0, 1.0]
    assert f.count == 1
    assert jitted(1).dtype == np.int32 and jitted(True).dtype == np.int32
    assert f.count == 3


def test_options_are_part_of_the_signature():
    f = Counter(lambda: dnp.asarray(1.0) + 1)
    jitted = dx.jit(f)
    assert jitted().dtype == np.float32
    with dx.enable_x64(True):
        assert jitted().dtype == np.float64
    assert jitted().dtype == np.float32
    assert f.count == 2


def test_options_are_looked_at_by_the_hot_path(x):
    double = Counter(lambda x: x * 2)
    jitted = dx.jit(double)
    for _ in range(3):
        jitted(x)
    with config.override(default_matmul_precision="highest"):
        jitted(x), jitted(x)
    assert double.count == 2
    jitted(x)
    assert double.count == 2
    with pytest.MonkeyPatch.context() as patch:  # as config.update does
        patch.setattr(config, "global_state", config.state())
        config.update("default_matmul_precision", "high")
        jitted(x), jitted(x)
        assert double.count == 3


def test_a_call_for_one_array_is_two_python_calls(x):
    """What keeps calls cheap, counted instead of timed."""
    f = dx.jit(lambda x: x + x, compile_in_background=False)
    f(x), f(x)
    called: list[str] = []

    def count(frame, event, _):
        if event == "call" and "didax" in frame.f_code.co_filename:  # not the garbage collector's callbacks
            called.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        y = f(x)
    finally:
        sys.setprofile(None)
    assert called == ["__call__", "call"]
    assert (y.aval, y.committed, y.is_deleted()) == (x.aval, False, False)


def test_calls_of_every_kind_are_few_python_calls(x):
    jit = functools.partial(dx.jit, compile_in_background=False)
    add = jit(lambda x, y: x + y)
    state = [dnp.ones(3)]
    donating = jit(lambda x: x * 2, donate_argnums=0)

    def donate():
        state[0] = donating(state[0])

    assert python_calls(add, x, x) <= 2
    assert python_calls(add, x, y=x) <= 2
    assert python_calls(add, y=x, x=x) <= 2
    assert python_calls(jit(lambda x, n: x * n, static_argnums=1), x, 3) <= 2
    assert python_calls(jit(lambda x, n: x * len(n), static_argnames="n"), x, n="ab") <= 2
    assert python_calls(donate) <= 3
    assert python_calls(jit(lambda x: (x, x + 1)), x) <= 2
    assert python_calls(add, x, 2.5) <= 2
    for scalar in np.float32(2), np.float64(2), np.int64(3), np.bool_(True):
        assert python_calls(add, x, scalar) <= 2
    tree = {str(i): x for i in range(100)}
    # the four others are list comprehensions, which Python 3.11 counts
    assert python_calls(jit(lambda tree: [tree["0"], tree["99"]]), tree) <= 6


def test_calls_of_compiled_functions_are_few_python_calls(x):
    """As of the jitted function, from the third call of a kind on; others go the long way, as before."""
    tree = {"a": x, "b": x * 2}
    compiled = dx.jit(lambda x, tree, n: (x + n, {"c": tree["a"] * tree["b"]})).lower(x, tree, 3).compile()
    assert python_calls(compiled, x, tree, 3) <= 2
    assert python_calls(compiled, x, tree, 4) <= 2
    np.testing.assert_array_equal(compiled(x, tree, 4)[0], x + 4)
    np.testing.assert_array_equal(compiled(np.asarray(x), tree, 5)[0], x + 5)
    np.testing.assert_array_equal(compiled(x, tree, dnp.int32(6))[1]["c"], x * x * 2)
    with pytest.raises(TypeError, match="exactly"):
        compiled(x, tree, 1.5)
    with pytest.raises(TypeError, match="exactly"):
        compiled(x, [x, x], 3)
    with pytest.raises(TypeError, match="no traced arrays"):
        dx.jit(lambda x: compiled(x, tree, 3))(x)
    with dx.debug_nans(True):
        assert compiled(x, tree, 7)[0].shape == x.shape
    plain = dx.jit(lambda x: x + 1).lower(x).compile()
    assert python_calls(plain, x) <= 2
    dx.clear_caches()
    np.testing.assert_array_equal(plain(x), x + 1)


def test_compiled_functions_that_donate_take_the_memory_each_time(x):
    double = dx.jit(lambda x: x * 2, donate_argnums=0).lower(x).compile()
    for i in range(4):
        given = x + i
        np.testing.assert_array_equal(double(given), (x + i) * 2)
        assert given.is_deleted()


def with_buffers_made(f: Callable[[], Any]) -> tuple[Any, int]:
    """The result of a function, and how many buffers it made of values of the host."""
    made = 0

    def note(frame, event, called):
        nonlocal made
        # jaxlib asks for this sharding once for each buffer.
        made += event == "call" and frame.f_code.co_name == "_to_xla_hlo_sharding"

    sys.setprofile(note)
    try:
        return f(), made
    finally:
        sys.setprofile(None)


def test_numpy_arguments_are_written_into_buffers_of_earlier_calls(x):
    """jaxlib's way to make a buffer takes longer than all else of a call; so it is not gone after the first calls."""
    f = dx.jit(lambda a, b: (a, a[::-1] + b), compile_in_background=False)
    a, b = np.arange(3.0), np.float32([1, 2, 3])  # one is narrowed, one is copied as it stands
    for _ in range(3):
        f(a, b)
    outs, made = with_buffers_made(lambda: [f(a + i, b * i) for i in range(4)])
    assert made == 0
    for i, (same, turned) in enumerate(outs):  # earlier results are not written over
        np.testing.assert_array_equal(same, a + i)
        np.testing.assert_array_equal(turned, (a + i)[::-1] + b * i)
        assert same.dtype == turned.dtype == np.float32


@pytest.mark.parametrize("donated", [(), (0,)])
def test_scalars_that_change_are_written_into_buffers_of_earlier_calls(donated):
    """Python's and NumPy's, beside those that stay."""

    @functools.partial(dx.jit, donate_argnums=donated, compile_in_background=False)
    def f(x, step, rate, scale, flag):
        return x + scale * dnp.where(flag, step, -step), rate

    for scalar in (float, np.float32, np.float64):
        calls = [(i, scalar(0.1), scalar(i / 8), bool(i % 2)) for i in range(1, 9)]
        for args in calls[:3]:
            f(dnp.zeros(3), *args)
        zeros = dx.jit(lambda: [dnp.zeros(3) for _ in range(8)], compile_in_background=False)()
        outs, made = with_buffers_made(lambda: [f(x, *args) for x, args in zip(zeros, calls, strict=True)])
        assert made == 0
        # Earlier results are not written over.
        for (y, rate), (step, _, scale, flag) in zip(outs, calls, strict=True):
            np.testing.assert_array_equal(y, [scale * (step if flag else -step)] * 3)
            assert rate == np.float32(0.1)
    with pytest.raises(OverflowError, match="must fit the integer dtype"):
        f(dnp.zeros(3), 2**31, 0.1, 0.5, True)


def test_scalars_that_change_beside_many_arrays():
    f = dx.jit(lambda xs, step, rate, by: [x * rate + step * by for x in xs], compile_in_background=False)
    xs = dx.jit(lambda: [dnp.full(3, float(i)) for i in range(20)])()
    calls = [(i, i / 4, np.float64(i % 2)) for i in range(12)]
    outs = [f(xs, *args) for args in calls]
    for ys, (step, rate, by) in zip(outs, calls, strict=True):
        np.testing.assert_array_equal(ys, [[i * rate + step * by] * 3 for i in range(20)])
    with pytest.raises(OverflowError, match="must fit the integer dtype"):
        f(xs, -(2**31) - 1, 0.5, np.float32(1))


@pytest.mark.parametrize("x64", [False, True])
def test_numpy_scalars_are_cast_alike_in_all_calls(x64):
    """Those of both widths are calls of one kind, the later ones of which write into a buffer."""
    with dx.enable_x64(x64):
        for wide, narrow in (
            ("float64", "float32"),
            ("int64", "int32"),
            ("uint64", "uint32"),
            ("complex128", "complex64"),
        ):
            f = dx.jit(lambda x: [x, x + x], compile_in_background=False)
            values = [0, 1, -0.0, np.pi] + ["inf", "nan"] * (np.dtype(wide).kind in "fc")
            scalars = [np.dtype(wide).type(v) for v in values] + [np.dtype(narrow).type(7)]
            scalars += [np.dtype(wide).type(2**40 + 3), np.dtype(wide).type(5)]
            kept = [dnp.asarray(x) for x in scalars]
            for _ in range(2):
                results = [f(x)[0] for x in scalars]
                for x, y in zip(kept, results, strict=True):
                    assert (y.dtype, y.weak_type) == (x.dtype, x.weak_type)
                    assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), (wide, x)
        g = dx.jit(lambda x, y: x * y, donate_argnums=0, compile_in_background=False)
        assert [float(g(np.float64(i), 2.0)) for i in range(5)] == [0, 2, 4, 6, 8]


def test_numpy_arguments_that_are_changed_after_a_call(x):
    """Of programs that run on after the call, too, whose buffers are not written again."""

    @functools.partial(dx.jit, compile_in_background=False)
    def slow(s, t):
        y = lax.fori_loop(0, 3, lambda _, y: y @ y / 100, dnp.ones((100, 100)) * s[0])
        return (
            (s, t),
            s.reshape(2, 2),
            s.sum() + 0 * y[0, 0],
            lax.while_loop(lambda c: c[0] < 20, lambda c: c + 1, s),
        )

    a = np.zeros(4)
    outs = []
    for i in range(20):
        a[:] = i
        outs.append(slow(a, float(i // 2)))
        a[:] = np.nan
    for i, ((same, half), square, total, counted) in enumerate(outs):
        assert (
            same.tolist() == [i] * 4
            and half == i // 2
            and square.tolist() == [[i] * 2] * 2
            and total == 4 * i
        )
        assert counted.tolist() == [20] * 4


@pytest.mark.ci
def test_numpy_arguments_of_threads_do_not_meet():
    f = dx.jit(lambda a, b: (a, b[::-1], a + b.sum()), compile_in_background=False)

    def work(seed):
        rng = np.random.default_rng(seed)
        given = [(rng.standard_normal(5, np.float32), rng.integers(0, 9, 3)) for _ in range(300)]
        for (a, b), (same, turned, total) in [(ab, f(*ab)) for ab in given]:
            np.testing.assert_array_equal(same, a)
            np.testing.assert_array_equal(turned, b[::-1])
            np.testing.assert_array_equal(total, a + np.float32(b.sum()))

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))


@pytest.mark.parametrize(
    "a",
    [
        np.float32([[1, 2, 3], [4, 5, 6]])[:, ::2],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(3),
        np.ones((2, 0)),
        np.array([-0.0, np.nan, np.inf, 1e-46]),
        np.array([2**40 + 5, -1]),
        np.arange(3, dtype=np.uint64),
        np.array([1 + 2j]),
        np.ones(2, np.float16),
        np.array([True, False]),
        np.ones(2, np.dtype(">f4")),
        np.ones(10_000, np.float32),
        *[
            np.float64(0.1),
            np.int64(-(2**40) + 5),
            np.uint64(2**33 + 1),
            np.longlong(3),
            np.int8(-3),
            np.bool_(True),
        ],
        *[
            0.1,
            -0.0,
            float("nan"),
            -(2**31),
            True,
            np.float16(0.1),
            np.complex128(1 + 0.1j),
        ],
    ],
)
def test_arguments_of_the_host_are_read_as_in_the_first_call(a):
    f, g = dx.jit(lambda x: x, compile_in_background=False), dx.jit(lambda x: x, compile_in_background=False)
    first, *others = [np.asarray(f(a)) for _ in range(4)]
    if not isinstance(a, np.ndarray):
        for other in [a, *[type(a)(i) for i in (1, 0, 3)]]:  # written over another number
            g(other)
        others += [np.asarray(g(a)) for _ in range(2)]
    for other in others:
        assert (other.dtype, other.tobytes()) == (first.dtype, first.tobytes())


def test_repeated_calls_with_keywords_and_static_arguments_are_told_apart(x):
    @functools.partial(dx.jit, static_argnames=("n", "by"), keep_unused=True)
    def f(x, y=0.0, *, n, by=1.0, **rest):
        out = x * n + y * by
        return out + rest["b"] - rest["a"] if rest else out

    y = x + 10
    for _ in range(3):
        for n in (2, 2.0, True, -0.0, 0.0):
            np.testing.assert_array_equal(f(x, n=n), x * n)
            np.testing.assert_array_equal(f(n=n, x=x, y=y), x * n + y)
            np.testing.assert_array_equal(f(y=x, x=y, n=n, by=3), y * n + x * 3)
            np.testing.assert_allclose(f(x, b=y, a=x, n=n), f(x, n=n, a=x, b=y), rtol=1e-6)
        assert np.signbit(f(dnp.ones(()), n=-0.0, y=-0.0)) and not np.signbit(f(dnp.ones(()), n=0.0))
        assert f(x, n=2).dtype == f(x, n=2.0).dtype == np.float32
        assert f(x.astype("int32"), dnp.int32(0), n=2, by=1).dtype == np.int32
    with pytest.raises(TypeError, match="hashable"):
        f(x, n=[2])


@dataclasses.dataclass(unsafe_hash=True)
class Scaling:
    by: Any
    label: str = dataclasses.field(default="", compare=False)


def test_a_call_is_compared_with_the_call_before_it_by_types_and_bits(x):
    """Each call is made three times, so that the code of the first serves the others, and then fails for the next."""
    told: list[Any] = []
    f = dx.jit(lambda c, *xs, **named: told.append(c) or xs, static_argnums=0, compile_in_background=False)
    zeros, nan = (0.0, -0.0), float("nan")
    numbers = [1, True, 1.0, 2, "1", b"1", None, *zeros, nan, 1j, (1, 2), (1, 2.0), (1, (2,)), (True, 2)]
    values = [*numbers, Scaling(1), Scaling(1.0), Scaling((1, -0.0)), Scaling((1, 0.0)), np.sin, int, dict]
    for value in values:
        for _ in range(3):
            f(value, x)
    assert len(told) == len(values) and all(a is b for a, b in zip(told, values, strict=True))
    scaling = Scaling(7)
    f(scaling, x), f(scaling, x), f(Scaling(7, "another label"), x)
    assert len(told) == len(values) + 1
    scaling.by = 8
    f(scaling, x)
    assert len(told) == len(values) + 2

    g = dx.jit(lambda *args, **named: (args, named), compile_in_background=False)
    wide, host = dnp.ones((2, 3)), np.ones(3, np.float32)
    calls = [(), (x,), (x, x), (wide, x), (x, wide), ([x],), ((x,),), ({"a": x},), ({"b": x},), ({1: x},)]
    calls += [({True: x},), ([x, None], x), (None, x), (x, 1), (x, 1.0), (x, True), (x, nan), (1, x), (host,)]
    calls += [(host.astype(int), x), (host[:2],), (host.astype("float64"),), (x, [host]), ([x], [wide, x])]
    for args in calls:
        for named in ({}, {"y": x}, {"y": [x]}, {"z": wide, "y": host}):
            for _ in range(3):
                got, rest = g(*args, **named)
                assert dx.tree.structure((got, rest)) == dx.tree.structure((args, named))
                pairs = zip(dx.tree.leaves((got, rest)), dx.tree.leaves((args, named)), strict=True)
                for leaf, given in pairs:
                    assert leaf.dtype == dnp.asarray(given).dtype and leaf.shape == np.shape(given)
                    np.testing.assert_array_equal(leaf, given)


def test_scalars_of_repeated_calls_keep_their_bits(x):
    f = dx.jit(lambda s, x: (s, x), compile_in_background=False)
    scalars = [
        0.0,
        -0.0,
        float("nan"),
        0,
        False,
        1,
        True,
        1.0,
        2**31 - 1,
        1j,
        -1j,
        complex(0.0, -0.0),
        float("inf"),
    ]
    for _ in range(3):
        for s in scalars:
            got, want = np.asarray(f(s, x)[0]), np.asarray(dnp.asarray(s))
            assert (got.dtype, got.tobytes()) == (want.dtype, want.tobytes())
    given = dx.jit(lambda s, x: (s * 2, x), donate_argnums=0, compile_in_background=False)
    assert [float(given(3.0, x)[0]) for _ in range(4)] == [6.0] * 4
    assert [float(f(3.0, x)[0]) for _ in range(4)] == [3.0] * 4


def test_repeated_calls_run_once_where_they_fail_and_are_placed_as_the_first(x):
    runs: list[Any] = []

    class Failing:
        def execute_sharded(self, buffers):
            runs.append(buffers)
            raise RuntimeError("out of memory")

    f = dx.jit(lambda x, y: (x * 2, y), donate_argnums=0, compile_in_background=False)
    for _ in range(3):
        f(x + 1, x)
    for call in f._cache.repeated_calls.values():
        call.code.__globals__["LOADED"] = Failing()
    with pytest.raises(RuntimeError, match="out of memory"):
        f(x + 1, x)
    assert len(runs) == 1

    placed = dx.device_put(x, dx.devices()[0])
    g = dx.jit(lambda x: x + placed, compile_in_background=False)
    assert [g(x).committed for _ in range(3)] == [True] * 3
    captured = weakref.ref(placed)
    gc.collect()
    gc.disable()  # what calls leave is in no cycle
    try:
        g = placed = None
        assert captured() is None
    finally:
        gc.enable()


def test_what_a_handler_raises_while_a_repeated_call_begins_is_raised(x):
    """A handler of a signal may raise at any line; here it is one that takes an argument apart."""

    class Alarm(Exception):
        pass

    class Pair:
        rings = False

        def __init__(self, *parts):
            self.parts = parts

        def flatten(self):
            if self.rings:
                self.rings = False
                raise Alarm
            return self.parts, None

    dx.tree_util.register_pytree_node(Pair, Pair.flatten, lambda _, parts: Pair(*parts))
    f = dx.jit(lambda pair, *, scale: pair.parts[0] * scale + pair.parts[1], compile_in_background=False)
    pair = Pair(x, x)
    for _ in range(3):
        f(pair, scale=2.0)
    pair.rings = True
    with pytest.raises(Alarm):
        f(pair, scale=2.0)
    np.testing.assert_array_equal(f(pair, scale=2.0), 3 * x)
    with pytest.raises(TypeError, match="size"):
        f(pair, size=2.0)


def test_repeated_calls_donate(x):
    f = dx.jit(lambda x, y: (x * 2, y + 1), donate_argnames="x", compile_in_background=False)
    copy = dx.jit(lambda x: x + 0, compile_in_background=False)  # what NumPy has seen is not donated
    y = copy(dnp.ones(3))
    for args, kwargs in (([], {"y": y}), ([y], {})):
        state = copy(dnp.ones(3))
        for i in range(4):
            before = state
            shared = dnp.asarray(before, copy=False) if i == 2 else None
            state, other = f(state, *args, **kwargs)
            assert before.is_deleted() and not y.is_deleted()
            np.testing.assert_array_equal(copy(state), [2 ** (i + 1)] * 3)
            np.testing.assert_array_equal(other, [2, 2, 2])
            assert shared is None or shared is before or shared.tolist() == [2**i] * 3
        with pytest.raises(RuntimeError, match="donated"):
            f(before, y)
        with pytest.raises(RuntimeError, match="twice"):
            f(state, state)


def test_each_kind_of_call_gives_the_same_by_the_hot_path(x):
    shift = dnp.arange(3.0) + 10
    f = dx.jit(lambda *args, **kwargs: sum(args) + sum(kwargs.values()))
    g = dx.jit(lambda *args, **kwargs: (args[0] + shift, [*args, *kwargs.values()][-1] * 2))
    host = np.ones(3, np.float32)
    calls = [((x,), {}), ((x, x), {}), ((x, 2.0), {}), ((x, host), {}), ((host,), {}), ((x,), {"y": x + 1})]
    for _ in range(3):
        for args, kwargs in calls:
            given = [np.asarray(v) for v in (*args, *kwargs.values())]
            np.testing.assert_array_equal(f(*args, **kwargs), sum(given))
            first, last = g(*args, **kwargs)
            np.testing.assert_array_equal(first, given[0] + np.asarray(shift))
            np.testing.assert_array_equal(last, given[-1] * 2)


def test_arguments_may_have_any_name(x):
    f = dx.jit(lambda self, x, rest: self - x + rest)
    np.testing.assert_array_equal(f(self=x, x=1.0, rest=2.0), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(f(x, x=1.0, rest=2.0), [1.0, 2.0, 3.0])


def test_jitting_a_function_twice_shares_its_programs(x):
    f = Counter(lambda x: x + 1)
    dx.jit(f)(x)
    dx.jit(f)(x)
    assert f.count == 1


def test_dropping_a_function_frees_its_programs_and_captured_arrays(x):
    def use_and_drop():
        captured = dnp.ones(1000)
        f = lambda x: x + captured.sum()
        dx.jit(f)(x)
        dx.grad(lambda x: dx.jit(f)(x).sum())(x)
        dx.vmap(dx.jit(f))(dnp.ones((2, 3)))
        return weakref.ref(f), weakref.ref(captured)

    function, captured = use_and_drop()
    gc.collect()
    assert function() is None
    assert captured() is None


def test_clear_caches_traces_again(x):
    f = Counter(lambda x: x + 1)
    jitted = dx.jit(f)
    jitted(x)
    dx.clear_caches()
    np.testing.assert_array_equal(jitted(x), [1, 2, 3])
    assert f.count == 2
    jitted.clear_cache()
    jitted(x)
    assert f.count == 3


def test_inner_functions_are_traced_once_for_all_outer_calls(x):
    f = Counter(lambda x: dnp.sin(x))
    inner = dx.jit(f)
    dx.jit(lambda x: inner(x) + inner(2 * x))(x)
    dx.grad(lambda x: inner(x).sum())(x)
    inner(x)
    assert f.count == 1


def test_the_reason_of_a_retrace_is_logged_in_plain_words(x, caplog):
    @dx.jit
    def f(x, y):
        return x + y

    with config.override(explain_cache_misses=True), caplog.at_level(logging.WARNING, "didax"):
        f(x, 1.0)
        f(x, 1)
        f(x.astype("int32"), 1)
    first, second, third = (
        record.getMessage()
        for record in caplog.records
        if " f (" in record.getMessage() or record.getMessage().startswith("f ")
    )
    assert first.endswith("is traced: this is its first call.")
    assert second.splitlines()[1:] == ["  y was float32[] (weak type), now is int32[] (weak type)"]
    assert third.splitlines()[1:] == ["  x was float32[3], now is int32[3]"]


def test_an_explanation_names_static_arguments_options_and_functions_made_again(x, caplog):
    f = dx.jit(lambda x, n, *, mode="a": x * n, static_argnames=("n", "mode"))

    def make() -> Any:
        return dx.jit(lambda x: x + 1)

    f(x, 2)
    with dx.explain_cache_misses(True), caplog.at_level(logging.WARNING, "didax"):
        f(x, 2)  # which is known: the option itself is no reason to trace again
        assert not caplog.records
        f(x, 3)
        f(x, 3, mode="b")
        with dx.enable_x64():
            f(x, 3)
        make()(x), make()(x)
    texts = [record.getMessage().splitlines() for record in caplog.records]
    assert texts[0][1:] == ["  static argument n was 2, now is 3"]
    assert texts[1][1:] == ["  static argument mode was not given, now is 'b'"]
    assert texts[2][1:] == ["  option enable_x64 was False, now is True"]
    assert len(texts[3]) == 1 and texts[3][0].endswith("is traced: this is its first call.")
    assert texts[4][1].startswith("  Another function of the same lines was traced before")


def test_threads_trace_independently(x):
    f = dx.jit(lambda x, n: (x * n).sum(), static_argnums=1)
    results: dict[int, float] = {}
    threads = [threading.Thread(target=lambda n=n: results.update({n: float(f(x, n))})) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 3.0 * n for n in range(8)}


def test_async_tasks_trace_independently(x):
    async def task(n):
        g = dx.grad(lambda x: (x * x * n).sum())
        await asyncio.sleep(0)
        return float(g(x)[1])

    async def main():
        return await asyncio.gather(*(task(n) for n in range(3)))

    assert asyncio.run(main()) == [0.0, 2.0, 4.0]


# --- Arguments and results ----------------------------------------------------------------------------------


class Point(NamedTuple):
    x: object
    y: object


def test_pytrees_in_and_out(x):
    @dx.jit
    def f(point, rest):
        return {"sum": point.x + point.y, "rest": (rest[0], None, [rest[1]["a"]])}, Point(1, point.x)

    found, point = f(Point(x, 2.0), [x, {"a": x + 1}])
    assert isinstance(point, Point) and int(point.x) == 1
    np.testing.assert_array_equal(found["sum"], [2, 3, 4])
    first, none, (last,) = found["rest"]
    assert none is None
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(last, x + 1)


def test_no_arguments_and_no_results():
    assert dx.jit(lambda: ())() == ()
    assert dx.jit(lambda x: None)(1.0) is None
    assert float(dx.jit(lambda: 3.0)()) == 3.0


def test_an_argument_returned_as_it_is(x):
    y, z = dx.jit(lambda x: (x, x))(x)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, x)


def test_keywords_defaults_and_variadics(x):
    @dx.jit
    def f(x, *args, scale=2.0, **kwargs):
        return x * scale + sum(args) + kwargs.get("c", 0.0)

    np.testing.assert_array_equal(f(x), 2 * np.arange(3.0))
    np.testing.assert_array_equal(f(x, 1.0, 2.0, scale=3.0, c=4.0), 3 * np.arange(3.0) + 7)
    np.testing.assert_array_equal(f(x, c=4.0, scale=3.0), f(x, scale=3.0, c=4.0))


def test_results_are_arrays_with_the_staged_types():
    y = dx.jit(lambda: (1, 1.0, True, np.float16(2), np.arange(2, dtype=np.int8)))()
    assert [z.dtype.name for z in y] == ["int32", "float32", "bool", "float16", "int8"]
    assert [z.weak_type for z in y] == [True, True, False, False, False]


def test_numpy_arguments_are_copied(x):
    given = np.arange(3.0, dtype=np.float32)
    f = dx.jit(lambda x: x)
    y = f(given)
    given[0] = 7
    np.testing.assert_array_equal(y, [0, 1, 2])
    np.testing.assert_array_equal(f(given), [7, 1, 2])


def test_zero_size_arrays():
    y = dx.jit(lambda x: (x * 2, x.sum()))(dnp.zeros((0, 3)))
    assert y[0].shape == (0, 3) and float(y[1]) == 0.0


# --- Static arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"static_argnums": 1}, {"static_argnames": "n"}, {"static_argnums": (-1,)}])
def test_static_arguments(how, x):
    def power(x, n):
        assert isinstance(n, int)
        return x**n if n else dnp.ones_like(x)

    f = Counter(power)
    f.__wrapped__ = power  # its signature, for names
    jitted = dx.jit(f, **how)
    np.testing.assert_array_equal(jitted(x, 2), [0, 1, 4])
    np.testing.assert_array_equal(jitted(x, 2), [0, 1, 4])
    assert f.count == 1
    np.testing.assert_array_equal(jitted(x, 0), [1, 1, 1])
    assert f.count == 2


def test_static_arguments_by_keyword(x):
    @functools.partial(dx.jit, static_argnames=("axis", "keepdims"))
    def total(x, axis=None, *, keepdims=False):
        return dnp.sum(x, axis, keepdims=keepdims)

    assert total(x).shape == ()
    assert total(x, 0, keepdims=True).shape == (1,)
    assert total(x, axis=0).shape == ()


def test_static_values_that_are_equal_but_of_other_types_are_told_apart():
    f = dx.jit(lambda n: n, static_argnums=0)
    assert [f(v).dtype.name for v in (1, 1.0, True)] == ["int32", "float32", "bool"]
    g = dx.jit(lambda pair: pair[0], static_argnums=0)
    assert [g((v, 2)).dtype.name for v in (1, 1.0, True)] == ["int32", "float32", "bool"]


def test_static_zeros_of_either_sign_are_told_apart_and_a_nan_is_known_again():
    traced = []
    f = dx.jit(lambda x, s: traced.append(s) or dnp.copysign(x, dnp.real(s[-1])), static_argnums=1)
    for zero in (0.0, 0j, np.float64(0), np.float32(0)):
        assert [float(f(1.0, (s,))) for s in (zero, -zero, zero)] == [1, -1, 1]
        assert float(f(1.0, ("x", (zero,))[1])) == 1
    count = len(traced)
    for _ in range(3):
        f(1.0, (float("nan"),))
    assert len(traced) == count + 1
    h = dx.checkpoint(lambda x, s: dnp.copysign(x, s), static_argnums=1)
    assert [float(h(1.0, s)) for s in (0.0, -0.0)] == [1, -1]


@dx.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Scaled:
    x: Any
    by: Any = dataclasses.field(default=None, metadata={"static": True})


class _ScaledNode(_Scaled):
    """The same, registered by functions, with its factor in a tuple beside a text."""


dx.tree_util.register_pytree_node(
    _ScaledNode,
    lambda n: ((n.x,), ("by", n.by)),
    lambda metadata, children: _ScaledNode(*children, metadata[1]),
)


@pytest.mark.parametrize("numbers", [(0.0, -0.0), (1, 1.0), (np.float32(0), -np.float32(0))], ids=str)
def test_metadata_and_keys_of_dicts_are_compared_by_type_and_bits(numbers):
    """Two equal numbers, where the program depends on which one it is."""

    def told(s):
        return type(s.by).__name__, str(s.by)

    def by_key(d):
        return told(_Scaled(*reversed(*d.items())))

    def by_scan(s):
        return dx.lax.scan(scanned, s, None, length=1)[1]

    seen: list[Any] = []
    scanned = lambda s, _: (s, seen.append(told(s)))
    wanted = [(type(n).__name__, str(n)) for n in numbers]
    makes = {
        _Scaled: told,
        _ScaledNode: told,
        (lambda x, n: {n: x}): by_key,
        (lambda x, n: [_Scaled(x, n)]): lambda a: told(*a),
    }
    for make, tell in makes.items():
        seen.clear()
        f = dx.jit(lambda s, tell=tell: seen.append(tell(s)))
        for n in numbers * 2:
            f(make(1.0, n))
        assert seen == wanted
    seen.clear()
    for n in numbers * 2:
        by_scan(_Scaled(1.0, n))
    assert seen == wanted
    compiled = dx.jit(lambda s: s.x).lower(_Scaled(1.0, numbers[0])).compile()
    assert compiled(_Scaled(2.0, numbers[0])) == 2
    with pytest.raises(TypeError, match="exactly the types"):
        compiled(_Scaled(2.0, numbers[1]))


def test_fields_of_static_dataclasses_are_compared_by_type_and_bits():
    traced = []
    f = dx.jit(lambda x, s: traced.append(s) or x * s.by, static_argnums=1)
    for by in (1, 1.0, True, 1, 1.0, True):
        assert f(np.int32(2), _Scaled("", by)).dtype == ("float32" if type(by) is float else "int32")
    assert [type(s.by) for s in traced] == [int, float, bool]


def test_lists_in_static_dataclasses_with_a_hash_of_their_own_are_compared_by_type_and_bits():
    @dataclasses.dataclass(eq=True)
    class Names:
        factors: list[Any]

        def __hash__(self) -> int:
            return hash(tuple(self.factors))

    traced = []
    f = dx.jit(lambda s, x: traced.append(s) or x * s.factors[0], static_argnums=0)
    for factor in (1, 1.0, 1, 0.0, -0.0, -0.0):
        f(Names([factor]), np.int32(2))
    assert [repr(s.factors[0]) for s in traced] == ["1", "1.0", "0.0", "-0.0"]


def test_static_argument_in_the_middle(x):
    f = dx.jit(lambda a, n, b: (a * n, b), static_argnums=1)
    y, b = f(x, 3, 5.0)
    np.testing.assert_array_equal(y, [0, 3, 6])
    assert float(b) == 5.0
    g = dx.grad(lambda x: f(x, 3, 5.0)[0].sum())(x)
    np.testing.assert_array_equal(g, [3, 3, 3])


# --- Closures -----------------------------------------------------------------------------------------------


def test_captured_arrays_are_inputs_not_literals(x):
    weights = dnp.asarray(np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32))
    f = dx.jit(lambda x: weights @ x)
    np.testing.assert_allclose(f(x), np.asarray(weights) @ np.asarray(x), rtol=1e-5)
    text = f.lower(x).as_text()
    assert "dense" not in text and "tensor<50x3xf32>" in text


def test_captured_tracers_of_enclosing_transformations(x):
    def f(x):
        return dx.jit(lambda y: x * y)(2.0).sum()

    np.testing.assert_array_equal(dx.grad(f)(x), [2, 2, 2])
    np.testing.assert_array_equal(dx.vmap(f)(dnp.ones((2, 3))), [6, 6])
    np.testing.assert_array_equal(dx.jit(f)(x), 6)
    np.testing.assert_array_equal(dx.grad(dx.jit(dx.grad(lambda x: f(x) ** 2)))(1.0), 8)


def test_a_captured_numpy_array_is_read_when_traced(x):
    table = np.array([1.0, 2.0, 3.0], np.float32)
    f = dx.jit(lambda x: x + table)
    np.testing.assert_array_equal(f(x), [1, 3, 5])


# --- Methods and wrapping -----------------------------------------------------------------------------------


class Model:
    def __init__(self, w):
        self.w = w

    @functools.partial(dx.jit, static_argnums=0)
    def apply(self, x):
        """Scale."""
        return self.w * x

    @dx.jit
    def fails(self, x):
        return x

    @staticmethod
    @dx.jit
    def double(x):
        return 2 * x


def test_methods(x):
    np.testing.assert_array_equal(Model(3.0).apply(x), [0, 3, 6])
    np.testing.assert_array_equal(Model(4.0).apply(x), [0, 4, 8])
    np.testing.assert_array_equal(Model.double(x), [0, 2, 4])
    assert Model.apply.__doc__ == "Scale." and Model.apply.__name__ == "apply"


def test_bound_methods_partials_and_callables(x):
    class Scale:
        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            return self.w * x

        def method(self, x):
            return self.w * x

    scale = Scale(3.0)
    for f in (scale, scale.method, functools.partial(lambda w, x: w * x, 3.0), functools.partial(scale)):
        np.testing.assert_array_equal(dx.jit(f)(x), [0, 3, 6])
        assert dx.jit(f).trace(x).jaxpr.out_avals[0].shape == (3,)
        assert dx.make_jaxpr(f)(x).out_avals[0].shape == (3,)
    traced = dx.jit(functools.partial(functools.partial(dnp.add), 1.0)).trace(x)
    assert traced.fun_name == "add" and "module @jit_add " in traced.lower().as_text()


def test_as_decorator_with_options(x):
    @dx.jit(static_argnames="n")
    def f(x, n):
        return x * n

    np.testing.assert_array_equal(f(x, n=2), [0, 2, 4])


def test_a_generator_of_side_effects_runs_once(capsys, x):
    @dx.jit
    def f(x):
        print("tracing")
        return x

    f(x), f(x)
    assert capsys.readouterr().out == "tracing\n"


# --- Donation -----------------------------------------------------------------------------------------------


def test_a_donated_array_is_gone():
    f = dx.jit(lambda x: x + 1, donate_argnums=0)
    x = dx.device_put(np.arange(4.0, dtype=np.float32))
    np.testing.assert_array_equal(f(x), [1, 2, 3, 4])
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="donated"):
        x + 1
    with pytest.raises(RuntimeError, match="donated or deleted array"):
        f(x)
    assert "deleted" in repr(x)


def test_xla_writes_nothing_of_a_donated_array_that_is_used(capfd):
    f = dx.jit(lambda x: x + 1, donate_argnums=0, compile_in_background=False)
    for _ in range(4):  # the long way at first, then that of repeated calls
        x = dnp.ones(100_000) * 2
        f(x)
        for use in (f, lambda x: x * 2, dx.grad(lambda x: (x * x).sum())):
            with pytest.raises(RuntimeError, match="donated or deleted array"):
                use(x)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("numbers", [0, 1, (0, 1)])
@pytest.mark.parametrize("size", [3, 100_000])
def test_an_array_donated_and_passed_twice_is_an_error_that_says_so(numbers, size):
    f = dx.jit(lambda x, y, z: (x + y * z, y - z), donate_argnums=numbers)
    x = dnp.arange(float(size))
    with pytest.raises(
        RuntimeError,
        match=r"passed to a compiled function twice\.\n  argument x and argument y: (.|\n)*x.copy\(\)",
    ):
        f(x, x, 1.0)
    np.testing.assert_array_equal(f(x.copy(), x.copy(), 1.0)[0][1:3], [2, 4])


def test_errors_name_the_argument_that_was_donated_before():
    """By its place in the user's call, also where other arguments are not used, or are Refs."""

    @functools.partial(dx.jit, donate_argnums=1, donate_argnames="k")
    def f(unused, state, ref, *, k):
        ref[...] += k
        return {"w": state["w"] + 1, "k": 2 * k}

    ref, state, k = dx.new_ref(dnp.zeros(3)), {"w": dnp.ones(3)}, dnp.ones(3)
    f(0, state, ref, k=k)
    for given, name in [((state, dnp.ones(3)), r"state\['w'\]"), (({"w": dnp.ones(3)}, k), "k")]:
        with pytest.raises(RuntimeError, match=rf"donated or deleted.*\n  argument {name}: float32\[3\]\n"):
            f(0, given[0], ref, k=given[1])


def test_donation_with_static_arguments_takes_the_right_one():
    f = dx.jit(lambda n, x, y: (x * n, y + 0), static_argnums=0, donate_argnums=1)
    x, y = (dx.device_put(np.arange(4.0, dtype=np.float32)) for _ in range(2))
    f(2, x, y)
    assert x.is_deleted() and not y.is_deleted()


def test_donation_by_name():
    f = dx.jit(lambda x, state: (state["a"] + x, state["b"]), donate_argnames="state")
    x = dx.device_put(np.float32(1))
    state = {k: dx.device_put(np.full(3, 2.0, np.float32)) for k in "ab"}
    a, b = f(x, state=state)
    np.testing.assert_array_equal(a, [3, 3, 3])
    np.testing.assert_array_equal(b, [2, 2, 2])
    assert not x.is_deleted() and state["a"].is_deleted()


def test_an_array_donated_and_captured_is_an_error_that_says_so():
    x = dnp.arange(3.0)
    f = dx.jit(lambda y: y + x, donate_argnums=0)
    with pytest.raises(
        RuntimeError, match=r"also one that the compiled function captured(.|\n)*float32\[3\]"
    ):
        f(x)
    assert f(dnp.ones(3)).tolist() == [1.0, 2.0, 3.0]


def test_a_donated_numpy_array_stays():
    f = dx.jit(lambda x: x + 1, donate_argnums=0)
    x = np.arange(4.0, dtype=np.float32)
    f(x)
    np.testing.assert_array_equal(x, [0, 1, 2, 3])
    np.testing.assert_array_equal(f(x), [1, 2, 3, 4])


# --- Stages -------------------------------------------------------------------------------------------------


def test_stages(x):
    traced = dx.jit(lambda x, y: {"z": x @ y}).trace(x, y=x)
    assert traced.out_info == {"z": dx.ShapeDtypeStruct((), "float32")}
    assert "dot_general" in str(traced.jaxpr)
    lowered = traced.lower()
    assert "stablehlo.dot_general" in lowered.as_text()
    compiled = lowered.compile()
    assert float(compiled(x, y=x)["z"]) == 5.0
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 24
    assert "HloModule" in compiled.as_text()
    for stage in (traced, lowered, compiled):
        with pytest.raises(TypeError, match="belong to their process, and cannot be pickled"):
            pickle.dumps(stage)
        assert copy.copy(stage) is stage


@pytest.mark.parametrize("name", ["exec_time_optimization_effort", "memory_fitting_effort"])
def test_options_of_a_compilation_that_are_no_flags(name, x):
    if not version("jaxlib").startswith("0.10."):
        with pytest.raises(RuntimeError, match=f"No such compile option: '{name}'"):
            dx.jit(dnp.sin, compiler_options={name: 0.5})(x)
        return
    np.testing.assert_allclose(dx.jit(dnp.sin, compiler_options={name: 0.5})(x), np.sin(x), rtol=1e-6)
    with pytest.raises(TypeError):
        dx.jit(dnp.sin).lower(x).compile(compiler_options={name: "much"})


def test_shapes_of_results_have_the_shardings_that_jit_is_asked_for(x):
    sharding = dx.sharding.SingleDeviceSharding(dx.devices()[0])
    found = dx.eval_shape(dx.jit(lambda x: (x, x), out_shardings=(sharding, None)), x)
    assert [struct.sharding for struct in found] == [sharding, None]


def test_every_stage_knows_arguments_and_results(x):
    f = dx.jit(lambda p, y, *, z: {"a": p["u"] + 1.0, "b": [y.sum() * z]}, donate_argnums=0)
    traced = f.trace({"u": dx.ShapeDtypeStruct((3,), "float32")}, x, z=2)
    compiled = traced.lower().compile(compiler_options={"xla_cpu_enable_fast_math": False})
    for stage in (traced, traced.lower(), compiled):
        (params, y), named = stage.args_info
        assert isinstance(params["u"], dx.stages.ArgInfo)
        assert (params["u"].shape, params["u"].dtype, params["u"].donated) == ((3,), np.float32, True)
        assert (y.donated, named["z"].donated) == (False, False)
        assert stage.donate_argnums == (0,)
        assert str(stage.in_avals) == f"(({{'u': float32[3]}}, {dx.typeof(x)}), {{'z': int32[]}})"
        assert stage.out_info["a"].update(sharding=None) == dx.ShapeDtypeStruct((3,), "float32")
    assert str(traced.out_avals["b"][0]) == "float32[]"
    found = compiled.call({"u": dnp.zeros(3)}, x, z=2)
    np.testing.assert_allclose(found["b"][0], 2 * np.sum(x), rtol=1e-6)
    assert compiled.runtime_executable().hlo_modules()


def test_lowered_programs_in_other_forms(x):
    lowered = dx.jit(lambda x: x * x).lower(x)
    assert "stablehlo.multiply" in str(lowered.compiler_ir())
    assert "multiply" in lowered.as_text("hlo")
    assert lowered.compiler_ir("hlo").as_hlo_module().name.startswith("jit")
    assert lowered.cost_analysis()["flops"] == x.size
    errors = {
        "no such dialect.\n  dialect: 'xla'": lambda: lowered.as_text("xla"),
    }
    for part, call in errors.items():
        with pytest.raises(ValueError, match=part):
            call()


def chosen(x):
    return dx.lax.platform_dependent(
        x, cpu=lambda x: x + 1, cuda=lambda x: dnp.linalg.qr(x)[0], default=dnp.sin
    )


@pytest.mark.cpu
def test_programs_are_lowered_for_platforms_that_the_process_has_not():
    traced = dx.jit(chosen).trace(np.ones((2, 2), "float32"))
    texts = [traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda", "tpu")]
    for text, said in zip(texts, ("stablehlo.add", "@cusolver_geqrf_ffi", "stablehlo.sine"), strict=True):
        assert [said in found for found in texts] == [found is text for found in texts]
    both = traced.lower(lowering_platforms=("cpu", "cuda"))
    assert '"stablehlo.case"(%platform)' in both.as_text() and "@cusolver_geqrf_ffi" in both.as_text()
    assert "stablehlo.case" in str(both.compiler_ir()) and both.as_text(debug_info=True).count("loc(")
    factors = dx.jit(lambda x: dnp.linalg.qr(x)).trace(np.ones((2, 2), "float32"))
    printed = dx.jit(lambda x: dx.debug.print("{}", x)).trace(1.0)
    schur = dx.jit(dx.scipy.linalg.schur).trace(np.ones((2, 2), "float32"))
    for bad, error, says in (
        (lambda: traced.lower(lowering_platforms=("vax",)), ValueError, "lowering_platforms: vax"),
        (lambda: traced.lower(lowering_platforms=("cpu", "cpu")), ValueError, "each named once"),
        (lambda: both.compile(), ValueError, "lowering_platforms: cpu, cuda, this process: cpu"),
        (
            lambda: printed.lower(lowering_platforms=("cuda",)),
            ValueError,
            "calls no Python.\n.*platform: cuda",
        ),
        (lambda: factors.lower(lowering_platforms=("tpu",)), NotImplementedError, "tpu, routine: geqrf"),
        (
            lambda: schur.lower(lowering_platforms=("cuda",)),
            NotImplementedError,
            "schur is computed on the host",
        ),
    ):
        with pytest.raises(error, match=says):
            bad()


def test_stating_numbers_and_names_of_static_arguments_states_all_of_them():
    """So a wrapper may take other positional arguments than the function whose signature it shows."""

    @functools.wraps(lambda module, a, b: None)
    def wrapped(tag, a, rest, **kwargs):
        return a, kwargs["b"]

    f = dx.jit(lambda *args, **kwargs: (args[1], len(kwargs["b"])), static_argnums=0, static_argnames="b")
    assert f("tag", 1.0, b="hi")[1] == 2
    g = dx.jit(wrapped, static_argnums=(0,), static_argnames=["b"])
    assert dx.make_jaxpr(lambda r: g("tag", 1.0, r, b=7)[0])({"x": 2.0}) is not None


def test_stages_from_shapes_only():
    compiled = dx.jit(lambda x: x * 2).lower(dx.ShapeDtypeStruct((3,), "float32")).compile()
    np.testing.assert_array_equal(compiled(np.ones(3, np.float32)), [2, 2, 2])


def test_stages_with_static_arguments(x):
    compiled = dx.jit(lambda x, n: x * n, static_argnums=1).lower(x, 3).compile()
    np.testing.assert_array_equal(compiled(x), [0, 3, 6])


def test_a_compiled_function_refuses_other_types(x):
    compiled = dx.jit(lambda x: x * 2).lower(x).compile()
    for wrong in (dnp.ones(4), dnp.ones(3, dnp.int32), (x,)):
        with pytest.raises(TypeError, match="exactly the types it was compiled for"):
            compiled(wrong)


def test_eval_shape_of_a_function_that_returns_types():
    struct = dx.ShapeDtypeStruct((2,), "float32")
    found = dx.eval_shape(lambda x: {"given": struct, "computed": x}, 1)
    assert found == {"given": struct, "computed": dx.ShapeDtypeStruct((), "int32", weak_type=True)}
    with pytest.raises(TypeError, match=r"must return arrays(.|\n)*result\[1\]: 'text' of type str"):
        dx.eval_shape(lambda x: (struct, "text"), 1)


def test_eval_shape_and_make_jaxpr_compute_nothing(capsys):
    def f(x, n):
        return {"y": dnp.zeros((n, x.shape[0])) + x}

    shape = dx.eval_shape(lambda x: f(x, 1000), dx.ShapeDtypeStruct((7,), "float32"))
    assert shape == {"y": dx.ShapeDtypeStruct((1000, 7), "float32")}
    jaxpr, info = dx.make_jaxpr(f, static_argnums=1, return_shape=True)(dnp.ones(7), 3)
    assert info == {"y": dx.ShapeDtypeStruct((3, 7), "float32")}
    assert jaxpr.in_avals[0].shape == (7,)


# --- disable_jit --------------------------------------------------------------------------------------------


def test_disable_jit_runs_python_each_time(x):
    f = Counter(lambda x: x + 1 if float(x[0]) >= 0 else x)
    jitted = dx.jit(f)
    with dx.disable_jit():
        jitted(x)
        np.testing.assert_array_equal(jitted(x), [1, 2, 3])
    assert f.count == 2
    with pytest.raises(TypeError):
        jitted(x)


def test_disable_jit_with_static_and_keyword_arguments(x):
    f = dx.jit(lambda x, n, *, k: x * n + k, static_argnums=1, static_argnames="k")
    with dx.disable_jit():
        np.testing.assert_array_equal(f(x, 2, k=1), [1, 3, 5])


# --- Arrays that come out -----------------------------------------------------------------------------------


@dx.compile_in_background(False)
def test_results_stay_on_the_device_between_calls(x):
    f = dx.jit(lambda x: x + 1)
    y = f(f(x))
    assert y._value is None, "read back before anyone asked"
    assert y.block_until_ready() is y and y.is_ready()
    assert y.devices() == {dx.devices()[0]}


def test_results_copy_and_pickle(x):
    y = dx.jit(lambda x: x * 2.0)(2.0)
    again = pickle.loads(pickle.dumps(y))
    assert float(again) == 4.0 and again.weak_type == y.weak_type
    assert float(copy.deepcopy(y)) == 4.0


def test_numpy_leaves_operators_to_arrays_and_takes_them_in_functions(x):
    for y in (np.ones(3, np.float32), np.float32(1), np.int32(1)):
        for z in (y + x, y * x, y - x, y < x, y == x):
            assert isinstance(z, dx.Array)
    np.testing.assert_allclose(np.sin(x), np.sin([0.0, 1.0, 2.0]), rtol=1e-6)
    assert isinstance(np.add(x, np.ones(3)), np.ndarray)


# --- Arguments that no result depends on ---------------------------------------------------------------------


def test_unused_arguments_are_not_handed_to_the_program():
    table = dnp.arange(4.0)

    @dx.jit
    def f(used, unused, more):
        dead = dnp.sin(unused) + table.sum()
        return used * 2 + more["b"], dead.shape

    args = dnp.arange(3.0), dnp.ones((5, 5)), {"a": dnp.ones(7), "b": 1.0}
    for _ in range(3):  # traced, then by the hot path
        np.testing.assert_array_equal(f(*args)[0], [1.0, 3.0, 5.0])
    text = f.lower(*args).as_text()
    # Used and more["b"], neither the table nor what only dead code reads.
    assert "%arg1" in text and "%arg2" not in text
    kept = dx.jit(lambda x, y: y, keep_unused=True).lower(*args[:2]).as_text()
    assert "%arg1" in kept and "%arg1" not in dx.jit(lambda x, y: y).lower(*args[:2]).as_text()


def test_a_function_of_none_of_its_arguments():
    f = dx.jit(lambda x: dnp.full(3, 7.0))
    g = dx.jit(lambda x, y: 1.0)
    for _ in range(3):
        np.testing.assert_array_equal(f(dnp.ones(2)), [7.0] * 3)
        assert g(dnp.ones(2), dnp.ones(3)) == 1.0


def test_donation_of_an_unused_argument_leaves_it_alive():
    f = dx.jit(lambda x, y: y + 1, donate_argnums=(0, 1))
    x, y = dnp.ones(5000), dnp.ones(5000)
    assert f(x, y)[0] == 2
    assert y.is_deleted() and not x.is_deleted()


# --- The hot path: what a second and a third call do -----------------------------------------------------------


def in_callback(f):
    """`f` of arrays, called by Python that a program calls: eager evaluation, with the axes of the program around."""

    def called(x):
        return dx.pure_callback(
            lambda x: np.asarray(f(dnp.asarray(x))),
            dx.ShapeDtypeStruct((), x.dtype),
            x,
            vmap_method="sequential",
        )

    return called


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x, x)], ids=["an array", "a tree"])
def test_a_program_staged_under_a_named_axis_serves_that_axis_only(wrap):
    f = dx.jit(lambda x: wrap(x * dx.lax.axis_size("i")))
    first = in_callback(lambda x: dx.tree.leaves(f(x))[0])
    for size in (4, 4, 5):
        rows = dx.vmap(first, axis_name="i")(dnp.ones(size))
        np.testing.assert_array_equal(rows, np.full(size, float(size)))
    with pytest.raises(NameError):
        f(dnp.float32(1))


def test_numpy_scalars_get_the_default_width_whatever_was_staged_before():
    with dx.enable_x64():
        wide = dnp.float64(1.0)
    f = dx.jit(lambda args: args[0] * 2)
    for _ in range(2):
        assert f([wide]).dtype == np.float64
        assert f([np.float64(1.0)]).dtype == np.float32


@pytest.mark.parametrize("first", [False, True])
def test_results_are_committed_where_an_argument_is(x, first):
    placed = dx.device_put(x, dx.devices()[0])
    one, two, tree = dx.jit(lambda x: x + 1), dx.jit(lambda x, y: x + y), dx.jit(lambda args: [args[0] + 1])
    for committed in (first, first, not first, first, not first):
        y = placed if committed else x
        assert one(y).committed is committed
        assert two(x, y).committed is committed and two(y, 1.0).committed is committed
        assert tree([y])[0].committed is committed


class Checked:
    """A pytree whose constructor may raise, once."""

    made = 0
    fails = False

    def __init__(self, x):
        self.x = x

    @classmethod
    def unflatten(cls, _, children):
        cls.made += 1
        if cls.fails:
            cls.fails = False
            raise ValueError("refused")
        return cls(*children)


dx.tree_util.register_pytree_node(Checked, lambda c: ((c.x,), None), Checked.unflatten)


def test_an_error_of_a_pytree_is_raised_and_its_python_runs_once(x):
    f = dx.jit(lambda x: Checked(x + 1))
    f(x), f(x)
    Checked.made, Checked.fails = 0, True
    with pytest.raises(ValueError, match="refused"):
        f(x)
    assert Checked.made == 1


def test_a_report_that_raises_is_raised(monkeypatch):
    f = dx.jit(lambda key: dx.random.normal(key, (3,)))
    f(dx.random.key(0)), f(dx.random.key(1))
    key = dx.random.key(2)
    f(key)

    def refuse(*args, **kwargs):
        raise LookupError("a filter of the user's")

    monkeypatch.setattr("warnings.warn_explicit", refuse)
    with pytest.raises(LookupError):
        f(key)


def test_a_program_staged_while_options_change_is_not_kept(x):
    f = Counter(lambda x: (config.update("numpy_rank_promotion", "warn"), x * 2)[1])
    jitted = dx.jit(f)
    try:
        for _ in range(2):
            config.update("numpy_rank_promotion", "allow")
            np.testing.assert_array_equal(jitted(x), [0, 2, 4])
        assert f.count == 2 and config.state().numpy_rank_promotion == "warn"
        jitted(x), jitted(x)
        assert f.count == 3
    finally:
        config.update("numpy_rank_promotion", "allow")


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_is_jitted_in_the_same_way(x, how):
    def f(x, n):
        return x * n

    jitted = dx.jit(f, static_argnames="n")
    jitted.tag = "mine"
    jitted(x, 2)
    copied = how(jitted)
    assert copied is not jitted and copied.tag == "mine"
    np.testing.assert_array_equal(copied(x, n=3), [0, 3, 6])


@dx.jit
def known_by_name(x):
    return x + 1


def twice(x):
    return x * 2


def test_jitted_functions_pickle(x):
    known_by_name(x)
    assert pickle.loads(pickle.dumps(known_by_name)) is known_by_name
    assert copy.deepcopy({"f": known_by_name})["f"] is known_by_name
    other = dx.jit(twice)  # goes by its function, which has the name
    other(x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(other))(x), [0, 2, 4])
    other.note = "an attribute of its own"
    copied = pickle.loads(pickle.dumps(dx.jit(dnp.negative)))  # an object whose attributes cannot be pickled
    np.testing.assert_array_equal(copied(x), [0, -1, -2])
    assert copied.__wrapped__ is dnp.negative
    assert pickle.loads(pickle.dumps(other)).note == "an attribute of its own"


def test_caches_are_cleared_while_other_threads_jit():
    kept = [dx.jit(lambda x, n=n: x + n) for n in range(500)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        done = threading.Event()

        def make():
            while not done.is_set():
                dx.jit(lambda x: x)

        threads = [threading.Thread(target=make) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(200):
                dx.api.jit_cache.clear_functions()
        finally:
            done.set()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(kept) == 500


def test_signatures_for_inspection():
    def f(x, y=2, *, z=3):
        return x

    assert inspect.getfullargspec(dx.jit(f)) == inspect.getfullargspec(jax.jit(f))
    assert inspect.signature(dx.jit(f)) == inspect.signature(f)


@pytest.mark.parametrize("around", [lambda f: f, lambda f: functools.wraps(f)(lambda *args: f(*args))])
def test_wrappers_of_wrappers_ask_once_for_the_signature(around, monkeypatch):
    def f(x, y=2):
        return x

    asked, signature = [], inspect.signature
    monkeypatch.setattr(inspect, "signature", lambda f: asked.append(f) or signature(f))
    wrapped = f
    for _ in range(12):
        wrapped = dx.jit(around(wrapped))
    assert inspect.signature(wrapped) == signature(f)
    assert len(asked) < 100  # 4,000, where each asks the one within twice
    known = dx.jit(copy.copy)
    assert inspect.signature(known) == signature(copy.copy)
    assert "__signature__" not in vars(pickle.loads(pickle.dumps(known)))


def test_types_in_the_place_of_arrays():
    for struct in (dx.ShapeDtypeStruct((2, 3), "float32"), dnp.ones((2, 3)).aval):
        assert (dnp.shape(struct), dnp.ndim(struct), dnp.size(struct), dnp.size(struct, 1)) == (
            (2, 3),
            2,
            6,
            3,
        )
        assert dnp.result_type(struct, "int8", 1.0) == dx.dtypes.result_type(struct, "int8") == np.float32
        assert dnp.zeros_like(struct).shape == dx.lax.full_like(struct, 2).shape == (2, 3)
        found = dx.jit(lambda x: x.sum(0)).eval_shape(struct)
        assert found == dx.eval_shape(lambda x: x.sum(0), struct) == dx.ShapeDtypeStruct((3,), "float32")
        assert (
            dx.jit(lambda x: x.sum(0)).lower(struct).out_info
            == dx.jit(lambda x: x.sum(0)).trace(struct).out_info
        )
        with pytest.raises(TypeError, match="Only arrays with numbers"):
            dx.jit(lambda x: x)(struct)
    changed = dx.ShapeDtypeStruct((2,), "float32", sharding=None).update(dtype="int8")
    assert changed == dx.ShapeDtypeStruct((2,), "int8") and changed.sharding is None
    with pytest.raises(TypeError, match="A sharding says on which devices"):
        dx.ShapeDtypeStruct((2,), "float32", sharding="gpu")


def test_objects_may_have_names_that_are_no_strings() -> None:
    """Modules of libraries have whatever attributes their fields have."""

    class Model:
        def __init__(self) -> None:
            self.__name__ = self.__qualname__ = self.__annotations__ = np.ones(2)  # pyright: ignore

        def __call__(self, x: dx.Array) -> dx.Array:
            return (x * x).sum()

    model: Any = Model()
    x = np.float32([1.0, 2.0])
    assert (
        dx.jit(model)(x)
        == dx.named_call(model)(x)
        == dx.checkpoint(model)(x)
        == dx.value_and_grad(model)(x)[0]
        == 5
    )
    for transformed in (
        dx.grad(model),
        dx.jacfwd(model),
        dx.jacrev(model),
        dx.jit(dx.grad(model)),
        dx.vmap(model),
    ):
        assert transformed(x).shape == (2,)
    assert dx.eval_shape(model, x).shape == dx.make_jaxpr(model)(x).out_avals[0].shape == ()
