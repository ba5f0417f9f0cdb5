"""Callbacks: what they get and return, under vmap, their errors, calling Didax from within, memory."""

import functools
import gc
import os
import re
import subprocess
import sys
import threading
import traceback
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.quickly import on_devices

WRAPS = [pytest.param(dx.jit, id="jit"), pytest.param(lambda f: f, id="eager")]
BIG = 1 << 20  # elements of float32: 4 MiB


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize(
    "dtype",
    ["bool", "int4", "uint8", "int64", "float16", "bfloat16", "float8_e4m3fn", "float64", "complex64"],
)
def test_arguments_are_read_only_arrays_of_their_dtype(dtype, wrap):
    x = dnp.ones((2, 3), dtype=dtype)
    seen: list[Any] = []

    def look(a: Any) -> Any:
        seen.append((type(a), a.dtype, a.shape, a.flags.writeable))
        return a

    y = wrap(lambda x: dx.pure_callback(look, x, x))(x)
    assert seen == [(np.ndarray, x.dtype, (2, 3), False)]
    assert y.dtype == x.dtype
    assert np.array_equal(np.asarray(y), np.asarray(x))


@pytest.mark.parametrize("wrap", WRAPS)
def test_arguments_and_results_keep_their_structure(wrap):
    def swap(pair: Any, *, scale: Any) -> Any:
        return {"sum": pair["a"] + pair["b"], "scaled": (pair["a"] * scale, 3)}

    def f(a: Any, b: Any) -> Any:
        out = {"sum": a, "scaled": (a, dx.ShapeDtypeStruct((), "int32"))}
        return dx.pure_callback(swap, out, {"a": a, "b": b}, scale=np.float32(2))

    out = wrap(f)(dnp.arange(3.0), dnp.ones(3))
    assert out["sum"].tolist() == [1, 2, 3]
    assert out["scaled"][0].tolist() == [0, 2, 4]
    assert int(out["scaled"][1]) == 3


@pytest.mark.parametrize("wrap", WRAPS)
def test_empty_arrays_no_arguments_no_results_and_random_keys(wrap):
    empty = dnp.zeros((0, 3))
    assert wrap(lambda x: dx.pure_callback(lambda a: a, x, x))(empty).shape == (0, 3)
    assert float(wrap(lambda: dx.pure_callback(lambda: 3, dx.ShapeDtypeStruct((), "float32")))()) == 3
    assert wrap(lambda x: dx.io_callback(lambda a: None, None, x))(1.0) is None
    keys: list[Any] = []
    key = dx.random.key(7)
    wrap(lambda k: dx.debug.callback(keys.append, k))(key)
    assert dx.random.key_data(keys[0]).tolist() == dx.random.key_data(key).tolist()


@pytest.mark.parametrize("wrap", WRAPS)
def test_what_a_callback_returns_is_dropped_where_nothing_is_declared(wrap):
    """As `update` of a progress bar, which says whether it has drawn."""
    assert wrap(lambda x: dx.experimental.io_callback(lambda x: True, None, x))(1.0) is None
    assert wrap(lambda x: dx.pure_callback(lambda x: {"drawn": [x, x]}, (), x))(1.0) == ()


def test_arguments_that_are_no_arrays_reach_debug_callbacks_as_they_are():
    seen: list[Any] = []
    dx.jit(lambda x: dx.debug.callback(lambda *a, **k: seen.append((a, k)), "name", x, None, mode="m"))(1.5)
    (((name, x, none), kwargs),) = seen
    assert (name, float(x), none, kwargs) == ("name", 1.5, None, {"mode": "m"})


# --- vmap -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]
)
@pytest.mark.parametrize("in_axes", [(0, None), (1, 0), (None, 0)])
@pytest.mark.parametrize("jit", [False, True])
def test_vmap_methods_are_those_of_jax(method, in_axes, jit):
    shapes: dict[str, list[Any]] = {"didax": [], "jax": []}
    x = np.arange(3 if in_axes[0] is None else 9, dtype="float32").reshape(-1, 3).squeeze()
    y = np.arange(3, dtype="float32") if in_axes[1] == 0 else np.float32(2)

    def run(library: Any, name: str) -> Any:
        def add(a: Any, b: Any) -> Any:
            shapes[name].append((np.shape(a), np.shape(b)))
            return np.asarray(a) + np.asarray(b)[..., None]

        spec = library.ShapeDtypeStruct((3,), np.dtype("float32"))
        f = library.vmap(lambda a, b: library.pure_callback(add, spec, a, b, vmap_method=method), in_axes)
        return np.asarray((library.jit(f) if jit else f)(x, y))

    assert np.array_equal(run(dx, "didax"), run(jax, "jax"))
    assert shapes["didax"] == shapes["jax"]


@pytest.mark.parametrize("wrap", WRAPS)
def test_unordered_io_runs_for_each_element_and_ordered_is_refused(wrap):
    calls: list[float] = []

    def count(a: Any) -> Any:
        calls.append(float(a))
        return a * 2

    f = wrap(dx.vmap(lambda x: dx.io_callback(count, x, x)))
    assert f(dnp.arange(3.0)).tolist() == [0, 2, 4]
    assert sorted(calls) == [0, 1, 2]
    assert f(dnp.zeros(0)).shape == (0,)
    with pytest.raises(
        ValueError, match=r"ordered io_callback cannot be mapped(?s:.*)count(?s:.*)ordered=False"
    ):
        wrap(dx.vmap(lambda x: dx.io_callback(count, x, x, ordered=True)))(dnp.arange(3.0))


# --- Errors ---------------------------------------------------------------------------------------


class Mine(Exception):
    pass


def fails(x: Any) -> Any:
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        raise Mine("from within") from error


def in_scan(x: Any) -> Any:
    return lax.scan(lambda c, _: (dx.pure_callback(fails, c, c), None), x, None, length=3)[0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: dx.pure_callback(fails, x, x),
        lambda x: dx.debug.callback(fails, x),
        dx.jit(lambda x: dx.debug.callback(fails, x, ordered=True)),
        dx.jit(in_scan),
        in_scan,
        dx.jit(lambda x: lax.cond(x > 0, lambda: dx.io_callback(fails, x, x), lambda: x)),
        dx.grad(lambda x: (dx.debug.callback(fails, x), x)[1]),
        dx.jit(lambda x: dx.pure_callback(lambda v: dx.jit(in_scan)(v), x, x)),
    ],
    ids=["eager", "debug", "ordered", "scan", "eager scan", "cond", "grad", "nested"],
)
def test_the_exception_of_a_callback_is_the_one_that_the_user_meets(f):
    for _ in range(2):
        with pytest.raises(Mine, match="from within") as caught:
            f(np.float32(1))
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == "fails"
        assert not [frame for frame in frames if f"{os.sep}didax{os.sep}" in frame.filename]
    assert float(dx.jit(lambda x: dx.pure_callback(np.square, x, x))(3.0)) == 9.0


def test_an_exception_stops_the_program():
    calls: list[int] = []

    def third(i: Any) -> None:
        calls.append(int(i))
        if i == 3:
            raise Mine

    with pytest.raises(Mine):
        dx.jit(lambda: lax.fori_loop(0, 10, lambda i, c: (dx.debug.callback(third, i), c)[1], 0))()
    assert calls == [0, 1, 2, 3]


def test_what_is_no_ordinary_exception_passes_too():
    def interrupt(x: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dx.jit(lambda x: dx.debug.callback(interrupt, x))(1.0)


def test_each_thread_meets_its_own_exception():
    @dx.jit
    def f(k: Any) -> Any:
        def fail(k: Any) -> None:
            raise Mine(int(k))

        dx.debug.callback(fail, k)
        return k

    found: dict[int, Any] = {}

    def work(k: int) -> None:
        for _ in range(10):
            try:
                f(k)
            except Mine as error:
                found.setdefault(k, set()).add(error.args[0])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: {k} for k in range(6)}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (np.ones(4, "float32"), r"result 0: float32\[4\], declared: float32\[3\]"),
        (np.ones(3, "int32"), r"result 0: int32\[3\], declared: float32\[3\]"),
        (1j, r"result 0: complex128\[\], declared: float32\[3\]"),
        ("text", r"result 0: str.*\[\], declared: float32\[3\]"),
        ((np.ones(3), np.ones(3)), r"declared: float32\[3\]; returned: 2 values"),
        (None, r"declared: float32\[3\]; returned: 0 values"),
    ],
)
def test_wrong_results_are_errors(wrap, result, text):
    f = wrap(lambda x: dx.pure_callback(lambda a: result, x, x))
    with pytest.raises((TypeError, ValueError), match=text):
        f(dnp.ones(3))


def test_numbers_take_the_declared_dtype_where_they_fit():
    def f(result: Any, dtype: str) -> Any:
        return dx.jit(lambda: dx.pure_callback(lambda: result, dx.ShapeDtypeStruct((), dtype)))()

    assert float(f(2, "float32")) == 2.0
    assert float(f(2.5, "bfloat16")) == 2.5
    assert bool(f(True, "bool"))
    assert float(f(np.float64(2.5), "float32")) == 2.5  # of the default width
    assert f(2.5, "float64").dtype == np.float64
    with pytest.raises(TypeError, match=r"float64\[\], declared: int32\[\]"):
        f(2.5, "int32")
    with pytest.raises(TypeError, match=r"float64\[\], declared: float16\[\]"):
        f(np.float64(2.5), "float16")


def test_misuse_is_explained():
    x = dnp.ones(2)
    with pytest.raises(ValueError, match=r"cannot be differentiated(?s:.*)callback: sin(?s:.*)custom_jvp"):
        dx.grad(lambda x: dx.pure_callback(np.sin, x, x))(1.0)
    with pytest.raises(ValueError, match=r"io_callback cannot be differentiated"):
        dx.jvp(lambda x: dx.io_callback(np.sin, x, x), (1.0,), (1.0,))
    with pytest.raises(NotImplementedError, match=r"Pass vmap_method: one of 'sequential'"):
        dx.vmap(lambda x: dx.pure_callback(np.sin, x, x))(x)
    with pytest.raises(ValueError, match=r"vmap_method: 'fast'(?s:.*)'broadcast_all'"):
        dx.pure_callback(np.sin, x, x, vmap_method="fast")
    with pytest.raises(TypeError, match=r"holds 3\.0 of type float"):
        dx.pure_callback(np.sin, 3.0, x)
    with pytest.raises(TypeError, match=r"pure_callback takes a function"):
        dx.pure_callback(3, x, x)
    with pytest.raises(TypeError, match=r"argument x: 'a' of type str"):
        dx.pure_callback(np.sin, x, "a")
    with pytest.raises(TypeError, match=r"returns numbers, and .* is none"):
        dx.pure_callback(np.sin, dx.random.key(0), x)
    with pytest.raises(NotImplementedError, match="called from one device"):
        dx.pure_callback(np.sin, x, x, sharding="everywhere")
    assert dx.pure_callback(np.sin, x, x, sharding=x.sharding).shape == (2,)


def test_integers_are_not_differentiated():
    def f(x: Any) -> Any:
        return x * dx.pure_callback(np.argmax, dx.ShapeDtypeStruct((), "int64"), dnp.stack([x, x + 1]))

    assert float(dx.grad(f)(3.0)) == 1.0
    assert float(dx.jit(dx.grad(f))(3.0)) == 1.0


# --- Printing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", WRAPS)
def test_print_formats_like_str_format(wrap, capsys):
    def f(x: Any) -> None:
        dx.debug.print("{0} {x:.2f} {y} {{}} {0.shape} {name!r}", dnp.arange(3), x=x, y=None, name="n")
        dx.debug.print("plain")
        dx.debug.print(ordered=True)("twice {}", x)

    wrap(f)(1.234)
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == ["[0 1 2] 1.23 None {} (3,) 'n'", "plain", "twice 1.2339999675750732"]


def test_log_writes_to_the_log(caplog):
    with caplog.at_level("INFO", logger="didax.debug"):
        dx.jit(lambda x: dx.debug.log("x is {} %d", x))(1.5)
        dx.debug.log(ordered=True)("twice {x}", x=2)
    found = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    assert found == [("didax.debug", "INFO", "x is 1.5 %d"), ("didax.debug", "INFO", "twice 2")]
    with pytest.raises(TypeError, match=r"debug.log takes a format string first(?s:.*)Write debug.log"):
        dx.debug.log(3)
    with pytest.raises(
        ValueError, match=r"debug.log formats every value(?s:.*)debug.log\(\"x is \{x\}\", x=x\)"
    ):
        dx.debug.log("x", 3)


def test_print_keeps_numpys_print_options(capsys):
    with np.printoptions(precision=2):
        f = dx.jit(lambda x: dx.debug.print("{}", x))
        f(dnp.asarray([1.23456]))
    f(dnp.asarray([1.23456]))
    assert capsys.readouterr().out == "[1.23]\n[1.23]\n"


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "text"),
    [
        (("{}",), {}, IndexError, r"a value for each(?s:.*)place: \{0\}, values: 0"),
        (("{x}",), {}, KeyError, "x"),
        (("a", 1), {}, ValueError, r"not in the format string: argument 0"),
        (("a",), {"x": 1}, ValueError, r"not in the format string: x(?s:.*)f-string"),
        (
            ("x is Traced<float32[]>(jit)",),
            {},
            ValueError,
            r"An f-string formats tracers(?s:.*)Leave the f out",
        ),
        ((3,), {}, TypeError, r"takes a format string first(?s:.*)got: 3"),
    ],
)
def test_formats_are_checked_while_tracing(args, kwargs, error, text):
    with pytest.raises(error, match=text):
        dx.make_jaxpr(lambda: dx.debug.print(*args, **kwargs))()


def test_options_come_in_the_first_of_two_calls():
    with pytest.raises(TypeError, match=r"debug\.callback\(ordered=\.\.\.\)(?s:.*)keywords x"):
        dx.debug.callback(x=1)


# --- Calling Didax from within ---------------------------------------------------------------------


def product(a: Any) -> Any:
    """Large enough for XLA's threads."""
    return a @ a @ a * 1e-6


@functools.cache
def calls_back(depth: int) -> Any:
    inner = dx.jit(product) if depth == 0 else calls_back(depth - 1)
    return dx.jit(lambda a: sum(dx.pure_callback(lambda v: inner(v), a, a + i) for i in range(2)))


def test_callbacks_call_compiled_programs_from_many_threads():
    a = np.full((300, 300), 1e-2, "float32")
    expected = np.asarray(product(dnp.asarray(a)) + product(dnp.asarray(a) + 1))
    found: list[Any] = []

    def work() -> None:
        for _ in range(2):  # the argument is not there yet when the program starts
            found.append(np.asarray(calls_back(0)(dx.jit(lambda x: product(x) * 0 + x)(a))))

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    for y in found:
        np.testing.assert_allclose(y, expected, rtol=1e-4)


def test_callbacks_call_programs_that_call_back():
    a = np.full((300, 300), 1e-2, "float32")
    threads = [threading.Thread(target=lambda: np.asarray(calls_back(2)(a))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(np.asarray(product(dnp.asarray(a) + n)) * k for n, k in ((0, 1), (1, 3), (2, 3), (3, 1)))
    np.testing.assert_allclose(calls_back(2)(a), total, rtol=1e-4)


@pytest.mark.ci
def test_one_thread_is_enough():
    program = (
        "import numpy as np, didax as dx\n"
        "a = np.full((300, 300), 1e-2, 'float32')\n"
        "inner = dx.jit(lambda a: a @ a @ a)\n"
        "outer = dx.jit(lambda a: sum(dx.pure_callback(lambda v: inner(v), a, a + i) for i in range(3)))\n"
        "for y in [outer(inner(a)) for _ in range(10)]: np.asarray(y)\n"
    )
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "NPROC": "1"}, check=True, timeout=120)


def test_options_of_the_thread_hold_in_a_callback():
    def wide(a: Any) -> Any:
        return dnp.sin(dnp.asarray(1.0)).dtype == np.float64

    f = dx.jit(lambda x: dx.pure_callback(wide, dx.ShapeDtypeStruct((), "bool"), x @ x))
    x = dnp.ones((300, 300), dtype="float32")
    with dx.enable_x64():
        assert bool(f(x))
    assert not f(x)


# --- Memory ---------------------------------------------------------------------------------------


@pytest.mark.cpu
@pytest.mark.parametrize("wrap", WRAPS)
def test_large_arguments_are_not_copied(wrap):
    x = dnp.ones(25_000_000, dtype="float32")  # 100 MB
    seen: list[Any] = []

    def look(a: Any) -> Any:
        seen.append((a.__array_interface__["data"][0], a.flags.owndata, a.flags.writeable))
        return a[0]

    wrap(lambda x: dx.pure_callback(look, dx.ShapeDtypeStruct((), "float32"), x))(x)
    assert seen == [(x.unsafe_buffer_pointer(), False, False)]


@pytest.mark.cpu
def test_small_arguments_may_be_kept_and_large_ones_say_that_they_may_not():
    kept: list[Any] = []
    f = dx.jit(lambda x: dx.debug.callback(lambda a: kept.append(a[1:]), x * 2))
    f(dnp.ones(3))
    assert kept.pop().tolist() == [2, 2]
    with pytest.raises(RuntimeError, match=rf"float32\[{BIG}\](?s:.*)x\.copy\(\)") as caught:
        f(dnp.ones(BIG))
    assert "view of memory" in str(caught.value)
    kept.clear()
    g = dx.jit(lambda x: dx.debug.callback(lambda a: kept.append(a.copy()), x * 2))
    g(dnp.ones(BIG))
    assert float(kept[0].sum()) == 2 * BIG


def test_a_large_argument_may_be_returned_and_used_in_programs():
    double = dx.jit(lambda a: a * 2)
    x = dnp.ones(BIG)
    assert float(dx.jit(lambda x: dx.pure_callback(lambda a: a, x, x + 1))(x).sum()) == 2 * BIG
    assert float(dx.jit(lambda x: dx.pure_callback(lambda a: double(a), x, x + 1))(x).sum()) == 4 * BIG


@pytest.mark.cpu
def test_a_failed_callback_leaves_no_view_of_freed_memory():
    def fail(a: Any) -> None:
        raise Mine

    with pytest.raises(Mine) as caught:
        dx.jit(lambda x: dx.debug.callback(fail, x + 1))(dnp.ones(BIG))
    frames = [
        frame for frame, _ in traceback.walk_tb(caught.value.__traceback__) if frame.f_code is fail.__code__
    ]
    assert [frame.f_locals for frame in frames] == [{}]


def test_results_in_any_layout_are_read_right():
    x = np.arange(6, dtype="float32").reshape(2, 3)
    f = dx.jit(lambda x: dx.pure_callback(lambda a: np.asfortranarray(a), x, x.T.T))
    assert np.array_equal(f(x), x)
    transposed = dx.jit(lambda x: dx.pure_callback(lambda a: a.copy(), x.T, dnp.transpose(x)))
    assert np.array_equal(transposed(x), x.T)


def test_callbacks_live_as_long_as_their_program():
    class Identity:
        def __call__(self, a: Any) -> Any:
            return a

    identity = Identity()
    alive = weakref.ref(identity)
    f = dx.jit(lambda x, identity=identity: dx.pure_callback(identity, x, x))
    del identity
    assert float(f(1.0)) == 1.0
    assert alive() is not None
    del f
    gc.collect()
    assert alive() is None


def test_new_callbacks_in_an_old_program_compile_nothing(monkeypatch):
    def program(k: int) -> Any:
        return dx.jit(lambda x: dx.pure_callback(lambda a: a + np.float32(k), x, x))

    assert float(program(1)(1.0)) == 2.0
    monkeypatch.setattr("didax.xla.compile._compile", lambda *args: pytest.fail("compiled"))
    assert float(program(2)(1.0)) == 3.0


def test_ten_thousand_callbacks_in_a_loop():
    total = [0]

    def add(a: Any) -> Any:
        total[0] += 1
        return a

    f = dx.jit(lambda x: lax.fori_loop(0, 10_000, lambda i, c: c + dx.pure_callback(add, i, i), 0))
    assert int(f(0)) == 10_000 * 9_999 // 2
    assert total == [10_000]
    blocks = sys.getallocatedblocks()
    f(0)
    assert sys.getallocatedblocks() - blocks < 1000


# --- Placement, donation, the hot path --------------------------------------------------------------


@pytest.mark.parametrize("size", [3, BIG])
def test_donated_arguments_are_gone(size):
    f = dx.jit(lambda x: (dx.debug.callback(lambda a: None, x), x + 1)[1], donate_argnums=0)
    x = dnp.ones(size)
    assert float(f(x)[0]) == 2.0
    assert x.is_deleted()


@pytest.mark.ci
def test_results_stay_on_the_device_of_the_arguments():
    program = (
        "import numpy as np, didax as dx\n"
        "x = dx.device_put(np.arange(3.0, dtype='float32'), dx.devices()[1])\n"
        "y = dx.jit(lambda x: dx.pure_callback(lambda a: a * 2, x, x))(x)\n"
        "print(y.devices() == {dx.devices()[1]}, y.tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=on_devices(2), capture_output=True, text=True, check=True
    )
    assert done.stdout == "True [0.0, 2.0, 4.0]\n"


@dx.compile_in_background(False)
def test_programs_with_callbacks_do_not_take_the_hot_path():
    f = dx.jit(lambda x: dx.pure_callback(np.sin, x, x))
    g = dx.jit(dnp.sin)
    x = dnp.ones(())
    for h in (f, g):
        h(x), h(x)
    assert f.one_array_call(x.aval) is None
    assert g.one_array_call(x.aval) is not None


def test_a_jaxpr_shows_the_callback():
    text = str(dx.make_jaxpr(lambda x: dx.pure_callback(fails, x, x))(1.0))
    assert re.search(r"pure_callback\[.*callback=<fails \(.*test_callbacks\.py:\d+\)>", text)


def test_what_a_debug_callback_returns_is_not_used():
    f = lambda x: (dx.debug.callback(lambda a: {"of": a * 2}, x), x)[1]
    assert float(f(3.0)) == float(dx.jit(f)(3.0)) == 3.0
