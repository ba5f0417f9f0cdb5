"""Eager evaluation: NumPy for small arrays, compiled programs for large, no warnings, safe among threads."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import image, lax, nn
from didax.api import whole_functions
from didax.core import config
from didax.core.primitive import Primitive
from didax.primitives import numpy_rules
from didax.primitives.elementwise import add, exp, mul, sin
from didax.primitives.gamma import lgamma as lgamma_p
from didax.runtime import eager, numpy_plans, program_plans
from didax.runtime.array import as_concrete
from didax.scipy import linalg as sla
from didax.scipy import ndimage, stats
from didax.xla import buffers
from tests.checks import first, python_calls


@pytest.mark.cpu
def test_small_arrays_are_evaluated_with_numpy_and_large_ones_compiled(monkeypatch: pytest.MonkeyPatch):
    compiled: list[object] = []
    original = program_plans.program_plan
    monkeypatch.setattr(
        program_plans, "program_plan", lambda *a, **k: compiled.append(a[0]) or original(*a, **k)
    )
    eager.clear_plans()
    small, large = np.ones(3, "float32"), np.ones(numpy_plans.NUMPY_MAX_ELEMENTS, "float32")
    np.testing.assert_allclose(np.asarray(sin(small)), np.sin(small), rtol=1e-6)
    assert compiled == []
    np.testing.assert_allclose(np.asarray(sin(large)), np.sin(large), rtol=1e-6)
    assert compiled == [sin]


@pytest.mark.cpu
def test_an_operation_on_a_few_numbers_runs_at_once(monkeypatch: pytest.MonkeyPatch):
    """Its results are host values that no later call changes, and the second call brings nothing to the device."""
    puts: list[object] = []
    original = buffers.put
    monkeypatch.setattr(buffers, "put", lambda *a, **k: puts.append(a[0]) or original(*a, **k))
    for use in ("operations_were_watched", "default_device_was_set"):  # another test of this process may have
        monkeypatch.setattr(config, use, False)
    eager.clear_plans()
    xs = [np.linspace(0.5, i, 6, dtype="float32").reshape(2, 3) for i in (1, 2, 3)]
    ys = [lgamma_p(dnp.asarray(x)) for x in xs]
    assert len(puts) == 1
    assert all([y._buffer is None for y in ys])
    expected = [math.lgamma(float(t)) for x in xs for t in x.flat]
    np.testing.assert_allclose(np.concatenate([np.ravel(y) for y in ys]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.ci
@pytest.mark.cpu
def test_threads_may_run_the_first_operation_on_a_few_numbers():
    """All of them find one client, and none of them the operands of another."""
    program = """
import threading
from collections.abc import Callable, Sequence
from typing import Any
import didax.numpy as dnp
from didax.primitives.gamma import lgamma

wrong, start = [], threading.Barrier(8)

def work(k):
    start.wait()
    for i in range(50):
        x = (k + i) % 5 + 1.0
        if abs(float(lgamma(dnp.full(3, x))[1]) - float(lgamma(dnp.float32(x)))) > 1e-6:
            wrong.append((k, i))

threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not wrong, wrong
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_floating_point_corners_do_not_warn():
    x = np.array([1e30, np.inf, np.nan], "float32")
    np.testing.assert_array_equal(np.asarray(mul(x, x)), [np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(np.asarray(exp(x)), [np.inf, np.inf, np.nan])


def test_the_users_numpy_settings_are_left_alone():
    before = np.geterr()
    exp(np.float32(1000))
    assert np.geterr() == before


def test_many_threads_evaluate_at_once():
    results: list[float] = []

    def work() -> None:
        x = as_concrete(np.float32(0))
        for _ in range(300):
            x = add(x, np.float32(1))
        results.append(float(x))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [300.0] * 8


def test_evaluation_may_be_entered_again_from_inside():
    assert (
        numpy_plans.run_quietly(lambda v: numpy_plans.run_quietly(np.sin, [v], {}), [np.float32(0)], {}) == 0
    )


def test_a_python_scalar_counts_as_its_default_dtype():
    assert sin(0.5).dtype == "float32" and sin(0.5).weak_type
    with dx.enable_x64():
        assert sin(0.5).dtype == "float64"


def test_parameters_that_are_zeros_of_either_sign_are_told_apart():
    """By the plans of eager evaluation, and where equal operations of a program are merged."""
    x = as_concrete(np.ones(2, np.float32))

    def filled(x):
        return [x.at[np.array([5])].get(mode="fill", fill_value=v)[0] for v in (0.0, -0.0, 0, 0.0)]

    for f in (filled, dx.jit(filled)):
        assert [bool(np.signbit(y)) for y in f(x)] == [False, True, False, False]

    class Signed(Primitive):
        def type(self, x, *, by):
            return x

        def eager(self, x, *, by):
            return np.copysign(x, x.dtype.type(by))

        def lower(self, ctx, x, *, by):
            sign = ctx.op("sign", [ctx.constant(np.copysign(1, by), x.aval)])
            return ctx.op("multiply", [ctx.op("abs", [x]), sign])

    signed = Signed("signed_of_a_test")

    def both(x):
        return signed.bind(x, by=0.0), signed.bind(x, by=-0.0)

    for f in (both, dx.jit(both)):
        assert [float(y[0]) for y in f(x)] == [1, -1]


def test_literals_that_are_zeros_of_either_sign_are_told_apart():
    """Where equal operations of a program are merged."""
    x = as_concrete(np.ones(2, np.float32))
    for f in (lambda x: (x * 0.0, x * -0.0), dx.jit(lambda x: (x * 0.0, x * -0.0))):
        assert [bool(np.signbit(y[0])) for y in f(x)] == [False, True]


def test_a_tracer_that_outlived_its_trace_is_reported():
    kept: list[dx.Array] = []
    dx.jit(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(TypeError, match="after the transformation that made it had ended"):
        sin(kept[0])


# --- Functions that are evaluated as a whole -----------------------------------------------------------------

WHOLE = {
    "softmax": nn.softmax,
    "log_softmax": lambda x: nn.log_softmax(x, axis=0),
    "logsumexp": lambda x: nn.logsumexp(x, -1, keepdims=True),
    "standardize": nn.standardize,
    "gelu": lambda x: nn.gelu(x, approximate=False),
    "elu": lambda x: nn.elu(x, 0.5),
    "relu6": nn.relu6,
    "mean": lambda x: x.mean(axis=(0, 1)),
    "var": lambda x: dnp.var(x, axis=0, ddof=1),
    "median": dnp.median,
    "quantile": lambda x: dnp.quantile(x, 0.3, axis=1),
    "nanmean": dnp.nanmean,
    "nan_to_num": lambda x: dnp.nan_to_num(x, nan=2.0),
    "where": lambda x: dnp.where(x > 0, x, -0.0),
    "clip": lambda x: dnp.clip(x, -1, 1),
    "isclose": lambda x: dnp.isclose(x, x * 1.0001),
    "cov": dnp.cov,
    "tril": lambda x: dnp.tril(x, -1),
    "norm": lambda x: dnp.linalg.norm(x, axis=0),
    "kron": lambda x: dnp.kron(x, x),
    "remainder": lambda x: dnp.remainder(x, 1.5),
    "floor_divide": lambda x: dnp.floor_divide(x, -0.5),
    "gcd": lambda x: dnp.gcd(x.astype("int32"), 12),
    "lcm": lambda x: dnp.lcm(x.astype("int32"), 12),
    "sinc": dnp.sinc,
    "sign": dnp.sign,
    "trunc": dnp.trunc,
    "copysign": lambda x: dnp.copysign(x, -1.0),
    "logaddexp": lambda x: dnp.logaddexp(x, 0.5),
    "gradient": lambda x: dnp.gradient(x, axis=0),
    "unwrap": dnp.unwrap,
    "frexp": lambda x: dnp.frexp(x)[0],
    "trapezoid": dnp.trapezoid,
    "diagonal": dnp.diagonal,
    "hstack": lambda x: dnp.hstack([x, x[:, :1]]),
    "block": lambda x: dnp.block([[x, x], [x, -x]]),
    "select": lambda x: dnp.select([x > 1, x < 0], [x, -x], 5),
    "polyadd": lambda x: dnp.polyadd(x[0], x[1, :2]),
    "polyint": lambda x: dnp.polyint(x[0], 2),
    "ldexp": lambda x: dnp.ldexp(x, 3),
    "argsort": dnp.argsort,
    "searchsorted": lambda x: dnp.searchsorted(dnp.sort(x[0]), x),
    "interp": lambda x: dnp.interp(x, dnp.arange(3.0), x[1]),
    "pad": lambda x: dnp.pad(x, ((1, 0), (0, 2)), constant_values=1.5),
    "pad with a ramp": lambda x: dnp.pad(x, 1, mode="linear_ramp"),
    "linspace": lambda x: dnp.linspace(x[0], x[1], 5),
    "geomspace": lambda x: dnp.geomspace(abs(x[0]) + 1, abs(x[1]) + 1, 4),
    "logspace": lambda x: dnp.logspace(x[0] % 3, x[1] % 3, 4, endpoint=False),
    "round": lambda x: dnp.round(x, 1),
    "flip": dnp.flip,
    "vander": lambda x: dnp.vander(x[0], 6),
    "atleast_2d": lambda x: dnp.atleast_2d(x[0]),
    "resize": lambda x: image.resize(x, (5, 2), "cubic"),
    "resize to the nearest": lambda x: image.resize(x, (5, 2), "nearest"),
    "map_coordinates": lambda x: ndimage.map_coordinates(x, [x[0] % 3, x[1] % 3], 1, mode="wrap"),
    "fftshift": dnp.fft.fftshift,
    "unpackbits": lambda x: dnp.unpackbits(abs(x).astype("uint8")),
    "setxor1d": lambda x: dnp.setxor1d(x, x[0], size=4),
    "intersect1d": lambda x: dnp.intersect1d(x, x[0], size=4),
    "unique": lambda x: dnp.unique(x, size=5, return_counts=True)[1],
    "unstack": lambda x: dnp.unstack(x, axis=1)[1],
    "broadcast_arrays": lambda x: dnp.broadcast_arrays(x, x[0])[1],
    "approx_min_k": lambda x: lax.approx_min_k(x.astype("float32"), 2)[0],
    "dynamic_update_index_in_dim": lambda x: lax.dynamic_update_index_in_dim(x, x[0], 1, 0),
    "ragged_dot": lambda x: lax.ragged_dot(x, x[None], dnp.asarray([2])),
    "tile": lambda x: lax.tile(x, (2, 1)),
    "mode": lambda x: stats.mode(x).mode,
    "rankdata": stats.rankdata,
    "norm.pdf": lambda x: stats.norm.pdf(x, 0.5, scale=2.0),
    "poisson.pmf": lambda x: stats.poisson.pmf(x, 1.5),
}
# These take no bfloat16.
LINEAR = {
    "inv": dnp.linalg.inv,
    "qr": lambda x: dnp.linalg.qr(x).R,
    "eigh": lambda x: dnp.linalg.eigh(x).eigenvectors,
    "svd": lambda x: dnp.linalg.svd(x[:2]).U,
    "slogdet": lambda x: dnp.linalg.slogdet(x)[1],
    "cholesky": lambda x: dnp.linalg.cholesky(x @ x.T),
    "lu": lambda x: sla.lu(x)[1],
    "lu_solve": lambda x: sla.lu_solve(sla.lu_factor(x), x[0]),
    "cho_solve": lambda x: sla.cho_solve((x, True), x[0]),
    "lstsq": lambda x: dnp.linalg.lstsq(x[:, :2], x[0])[0],
    "solve_triangular": lambda x: sla.solve_triangular(x, x, trans="C"),
    "expm": sla.expm,  # with a rule of NumPy
    "sqrtm": sla.sqrtm,
    "pinv": dnp.linalg.pinv,
    "eigvals": dnp.linalg.eigvals,
    "poly": lambda x: dnp.poly(x[0]),
    "rsf2csf": lambda x: sla.rsf2csf(x, x)[0],  # with a loop, which is a program
    "polar": lambda x: sla.polar(x)[1],
    "qdwh": lambda x: lax.linalg.qdwh(x.astype("float32"))[0],  # with a loop of many steps
    "fft": dnp.fft.fft,
    "toeplitz": lambda x: sla.toeplitz(x[0]),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in WHOLE for dtype in ("float32", "bfloat16", "int32")]
    + [(name, dtype) for name in LINEAR for dtype in ("float32", "int32")],
)
def test_functions_evaluated_as_a_whole_give_the_bits_of_single_operations(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
):
    f = (WHOLE | LINEAR)[name]
    first = np.array([[0.5, -0.0, 3.0], [-1.5, 0.0, 2.0], [1e30, 7.0, -0.25]], "float32")
    odd = np.array([[np.nan, -0.0, np.inf], [-np.inf, 1e-40, 2.0], [0.0, -7.0, np.nan]], "float32")
    x, y = [
        dnp.asarray(np.nan_to_num(a) % 100 if dtype == "int32" else a).astype(dtype) for a in (first, odd)
    ]
    with monkeypatch.context() as patch:
        patch.setattr(whole_functions, "_FIRST_CALLS", 1 << 30)
        dx.clear_caches()
        want = [f(x), f(y)]
    for _ in range(5):
        got = [f(x), f(y)]
    for a, b in zip(got, want, strict=True):
        assert a.aval is b.aval
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


CHOICES = {
    "sinc": dnp.sinc,
    "nanstd": dnp.nanstd,
    "nanmax": dnp.nanmax,
    "nan_to_num": dnp.nan_to_num,
    "floor_divide": lambda x: dnp.floor_divide(1.5, x),
    "frexp": lambda x: dnp.frexp(x)[0],
    "modf": lambda x: dnp.modf(x)[0],
    "logaddexp": lambda x: dnp.logaddexp(x, x[::-1]),
    "rows": lambda x: dnp.nanvar(dnp.stack([x, x + 1]), axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", CHOICES)
def test_cases_of_choices_are_left_out_where_no_element_takes_them(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    """The same kind of call with rare values in none, in some and in all of the elements."""
    f = CHOICES[name]
    rare = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 1e-4]
    values = [[0.5, -1.5, 3.25], *[[x] * 3 for x in rare], *[[x, 0.5, -x] for x in rare], [np.nan, 0, np.inf]]
    arrays = [dnp.asarray(np.array(x, "float32")) for x in values]
    with monkeypatch.context() as patch:
        patch.setattr(whole_functions, "_FIRST_CALLS", 1 << 30)
        dx.clear_caches()
        want = [np.array(f(x)) for x in arrays]
    for _ in range(3):
        f(arrays[0])
    got = [f(x) for x in arrays]
    kept = list(map(np.array, arrays))
    for y, z, x, value in zip(got, want, arrays, kept, strict=True):
        assert np.asarray(y).tobytes() == z.tobytes()
        dx.jit(lambda y: y * 0, donate_argnums=0)(y)
        np.testing.assert_array_equal(x, value)  # also where the result was the argument
    again = [f(x) for x in arrays]
    assert all(np.asarray(y).tobytes() == z.tobytes() for y, z in zip(again, want, strict=True))


# Calls with a Python float, and whether the float is an argument of the program that is remembered.
WITH_FLOATS = {
    "clip": (lambda x, t: dnp.clip(x, t, 7.5), True),
    "isclose": (lambda x, t: dnp.isclose(x, x[::-1], atol=t), True),
    "nan_to_num": (lambda x, t: dnp.nan_to_num(x, nan=t), True),
    "linspace": (lambda x, t: dnp.linspace(0.0, t, 7), True),
    "quantile": (lambda x, t: dnp.quantile(x, t), True),
    "where": (lambda x, t: dnp.where(x > 1, [t, 1.5, -t], x), True),
    "pad": (lambda x, t: dnp.pad(x, 1, constant_values=t), True),
    "elu": (lambda x, t: nn.elu(x, t), True),
    "norm": (lambda x, t: stats.norm.logpdf(x, t, scale=t), True),
    "t": (lambda x, t: stats.t.logpdf(x, t), True),
    "var": (lambda x, t: dnp.var(x, ddof=t), False),  # n - t is computed in 64 bits
    "percentile": (lambda x, t: dnp.percentile(x, t), False),  # as is t / 100
    "sum": (lambda x, t: dnp.sum(x, initial=t, dtype="int32"), False),  # the float is to be an integer
}
FLOATS = [
    0.5,
    1.5,
    -0.25,
    1e-45,
    1e-310,
    65519.9,
    3.0,
    -4.0,
    16777217.0,
    2.0**31,
    -1e300,
    1 / 3,
    0.0,
    -0.0,
    1.0,
    2.0,
]


# Calls with a Python integer, and whether it is an argument.
WITH_INTEGERS = {
    "clip": (lambda x, n: dnp.clip(x, 0, n), True),
    "isclose": (lambda x, n: dnp.isclose(x, n, atol=n), True),
    "nan_to_num": (lambda x, n: dnp.nan_to_num(x, nan=n), True),
    "elu": (lambda x, n: nn.elu(x, n), True),
    "max": (lambda x, n: dnp.max(x, initial=n), True),
    "where": (lambda x, n: dnp.where(x > 1, [n, 5, -n], x), True),
    "searchsorted": (lambda x, n: dnp.searchsorted(x, n), True),
    "polyval": (lambda x, n: dnp.polyval(x, n), True),
    "append": (lambda x, n: dnp.append(x, n), True),
    "linspace": (lambda x, n: dnp.linspace(0, n, 7), True),  # while the 7 is not
    "quantile": (lambda x, n: dnp.quantile(dnp.clip(x, -n, 300), 0.25), True),
    "take": (lambda x, n: dnp.take(x, n, mode="wrap"), False),  # an index counts from the end
    "roll": (lambda x, n: dnp.roll(x, n), False),
    "round": (lambda x, n: dnp.round(x + 0.5, n), False),
}
INTEGERS = [
    3, -4, 7, 100, 127, 128, -129, 255, 300, 65520, 2**24 + 1, 2**31 - 1, -(2**31), 2**31, -(2**40), 0, 1, 2, -1, True,
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_FLOATS)
@pytest.mark.parametrize("dtype", first(["float32", "float16", "int32"]))
def test_floats_that_change_from_call_to_call_are_arguments_and_the_bits_stay(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
):
    f, is_argument = WITH_FLOATS[name]
    values = [*FLOATS, math.inf, math.nan]
    check_numbers(f, dtype, is_argument, (0.1, 0.2, 0.3, 0.7, 0.4), values, monkeypatch)


@pytest.mark.parametrize("name", WITH_INTEGERS)
@pytest.mark.parametrize("dtype", first(["float32", "float16", "int32", "int8", "uint32"]))
def test_integers_that_change_from_call_to_call_are_arguments_and_the_bits_stay(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
):
    f, is_argument = WITH_INTEGERS[name]
    check_numbers(f, dtype, is_argument, (3, 4, 5, 7, 6), INTEGERS, monkeypatch)


@np.errstate(all="ignore")
def check_numbers(
    f: Callable[..., Any],
    dtype: str,
    is_argument: bool,
    first_ones: Sequence[float],
    values: Sequence[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Calls with other numbers have one program if they may, and give what single operations give."""
    x = dnp.asarray(np.array([3, 1, 6], dtype) if dtype == "uint32" else np.array([3, -1, 6], dtype))

    def found(t: float) -> object:
        try:
            y = f(x, t)
        except (TypeError, ValueError, OverflowError) as error:
            return str(error)
        return y.aval, np.asarray(y).tobytes()

    with monkeypatch.context() as patch:
        patch.setattr(whole_functions, "_FIRST_CALLS", 1 << 30)
        dx.clear_caches()
        want = list(map(found, values))
    dx.clear_caches()
    for t in first_ones[:-1]:
        found(t)
    kinds = len(whole_functions._remembered)
    last = first_ones[-1]
    assert found(last) == found(last)  # by number, too, where the number is no argument
    assert (len(whole_functions._remembered) == kinds) == is_argument or dtype != "float32"
    assert list(map(found, values)) == want
    assert list(map(found, values)) == want  # and once they have come again


def test_floats_that_are_arguments_keep_errors_and_the_programs_of_floats_that_come_again():
    x = dnp.arange(3.0)

    @whole_functions.evaluated_whole
    def f(x: dx.Array, t: float) -> dx.Array:
        if t > 100:
            raise ValueError("too large")
        return x * t

    for t in (0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4):
        np.testing.assert_array_equal(f(x, t), np.arange(3, dtype="float32") * np.float32(t))
    with pytest.raises(ValueError, match="too large"):
        f(x, 100.5)
    for _ in range(3):
        dnp.clip(x, 0.0, 1.5)
    kinds = len(whole_functions._remembered)
    again = python_calls(dnp.clip, x, 0.0, 1.5)
    for t in (0.1, 0.2, 0.3):
        dnp.clip(x, 0.0, t)
    assert python_calls(dnp.clip, x, 0.0, 1.5) == again
    assert len(whole_functions._remembered) <= kinds + 4


@pytest.mark.cpu
def test_a_function_evaluated_as_a_whole_is_few_python_calls(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "operations_were_watched", False)  # as where nobody has looked for NaNs yet
    dx.sharding.NamedSharding(dx.make_mesh((1,), ("a",)), dx.P())  # arrays that lie on no mesh stay as fast
    x = dnp.asarray(np.arange(6, dtype="float32").reshape(2, 3))
    limits = {nn.softmax: 28, nn.elu: 10, dnp.var: 18, dnp.median: 22, dnp.mean: 11, dnp.linalg.norm: 11}
    limits |= {dnp.sinc: 22, dnp.sign: 19, dnp.trunc: 18}  # ufuncs of several operations
    # Choices, casts and sums are no calls of Python.
    limits |= {dnp.nanstd: 20, nn.mish: 12, nn.log_softmax: 17}
    limits |= {dnp.sum: 11, dnp.any: 12, dnp.argmax: 14, dnp.max: 18}
    limits |= {stats.norm.pdf: 28, stats.mode: 70, stats.rankdata: 40, dnp.fft.fft: 16, dnp.fft.fftshift: 21}
    for f, limit in limits.items():
        assert python_calls(f, x) <= limit, f.__name__
    integers = x.astype("int32")
    assert python_calls(lambda: dnp.gcd(integers, integers)) <= 18
    assert python_calls(lambda: integers + 1) <= 31  # the limits of a dtype are not computed anew
    assert python_calls(lambda: integers // 2) <= 38
    # Slices, bits of another dtype, powers and broadcasts are none, either; nor are floats among the arguments.
    limits = {nn.log_softmax: 10, nn.standardize: 10, dnp.gradient: 11, dnp.frexp: 11, dnp.max: 9}
    for f, limit in limits.items():
        assert python_calls(f, x) <= limit, f.__name__
    assert python_calls(lambda: dnp.ldexp(x, integers)) <= 14
    assert python_calls(lambda: dnp.vander(x[0])) - python_calls(lambda: x[0]) <= 10
    assert python_calls(lambda: dnp.clip(x, 0.0, 1.0)) <= 9
    assert python_calls(lambda: lax.dynamic_index_in_dim(x, 1)) <= 58
    assert python_calls(lambda: image.resize(x, (5, 2), "linear")) <= 16
    assert python_calls(lambda: dnp.geomspace(x[0] + 1, x[1] + 1, 4)) <= 90
    limits = {
        dnp.round: 9,
        dnp.flip: 9,
        dnp.atleast_3d: 9,
        lambda x: ndimage.map_coordinates(x, [x, x], 1): 45,
    }
    limits |= {lambda x: dnp.poly(dnp.ravel(x)): 46}
    for f, limit in limits.items():
        assert python_calls(f, x) <= limit, f.__name__
    order = dnp.argsort(x, 1)
    assert python_calls(lambda: dnp.take_along_axis(x, order, 1)) <= 17
    assert python_calls(lambda: dnp.pad(x, 1)) <= 15
    assert python_calls(lambda: dnp.hstack([x, x])) <= 14
    assert python_calls(lambda: lax.broadcast_like(x, x)) <= 14
    assert python_calls(lambda: dnp.diagonal(x)) <= 12
    assert python_calls(lambda: dnp.unstack(x)) <= 16
    assert python_calls(lambda: dnp.intersect1d(x, x, size=6)) <= 90
    assert python_calls(lambda: lax.approx_min_k(x, 2)) <= 70
    assert python_calls(lambda: dnp.broadcast_arrays(x, x[0])) - python_calls(lambda: x[0]) <= 20
    assert python_calls(lambda: sla.block_diag(x)) <= 10  # a result that is an argument
    assert python_calls(lambda: dnp.block([[x, x], [x, x]])) <= 20
    x = dnp.asarray(np.diag(np.arange(1, 5, dtype="float32")))
    limits = {
        dnp.linalg.cholesky: 10,
        dnp.linalg.inv: 9,
        dnp.linalg.eigh: 18,
        dnp.linalg.qr: 19,
        sla.lu: 28,
        sla.expm: 24,
        sla.sqrtm: 24,
        sla.polar: 20,
        dnp.linalg.pinv: 40,
    }
    for f, limit in limits.items():
        assert python_calls(f, x) <= limit, f.__name__
    assert python_calls(lambda: x.at[1].set(0.0)) <= 26
    assert python_calls(dx.jit(lambda x: x + 1), np.ones(3, "float32")) <= 33  # an argument of NumPy


CORNERS = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -2.5,
    1e-45,
    3e9,
    -3e9,
    2.0**31,
    8388609.0,
]


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_rules_for_constants_give_the_bits_of_the_rules(dtype: str):
    """What a rule comes down to for a constant operand, and where its rare cases do not occur."""
    numbers = np.nan_to_num(CORNERS) % 100 - 7 if dtype == "int32" else np.array(CORNERS)
    x = np.repeat(numbers.astype(dtype), len(numbers))
    y = np.tile(numbers.astype(dtype), len(numbers))
    for rule in (numpy_rules.maximum, numpy_rules.minimum, numpy_rules.divide, numpy_rules.remainder):
        if dtype != "int32" and rule in (numpy_rules.divide, numpy_rules.remainder):
            continue
        want = rule(x, y)
        for a, b, z in zip(x, y, want, strict=True):
            for operands in ([np.asarray(a), None], [None, np.asarray(b)], [None, None]):
                known = numpy_rules.of_constants(rule, operands)(a[None], b[None])
                assert known.tobytes() == z[None].tobytes(), (rule, a, b, operands)
    if dtype != "int32":
        both_zero = (x == 0) & (y == 0)
        assert not np.signbit(numpy_rules.maximum(x, y))[both_zero & ~(np.signbit(x) & np.signbit(y))].any()
        assert np.signbit(numpy_rules.minimum(x, y))[both_zero & (np.signbit(x) | np.signbit(y))].all()


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_halves_are_rounded_away_from_zero(dtype: str):
    halves = np.arange(-9, 10).astype(dtype) / 2
    large = np.array([2.0**k + d for k in (21, 22, 23, 24, 51, 52, 53) for d in (-0.5, 0, 0.5, 1)], dtype)
    x = np.concatenate([halves, large, np.nextafter(halves, 9), np.nextafter(halves, -9)])
    x = np.concatenate([x.astype(dtype), np.array([np.nan, np.inf, -np.inf, -0.0, 1e30], dtype)])
    whole = np.trunc(x)
    want = np.where(abs(x - whole) >= 0.5, whole + np.copysign(1, x), np.copysign(whole, x))
    assert numpy_rules.round_away_from_zero(x).tobytes() == want.astype(dtype).tobytes()


def test_broadcasts_are_left_to_numpy_where_a_result_is_not_one():
    x = dnp.asarray([[1.0, 2.0], [3.0, 5.0]])
    for f in (
        lambda x: dx.lax.sub(x, dx.lax.broadcast_in_dim(x[0], (2, 2), (0,))),
        lambda x: dx.lax.broadcast_in_dim(x[0], (2, 2), (0,)),
        lambda x: dx.lax.add(*[dx.lax.broadcast_in_dim(x[:1], (3, 1, 2), (1, 2))] * 2),
        lambda x: dx.lax.select(x > 2, dx.lax.broadcast_in_dim(x[0], (2, 2), (1,)), x),
    ):
        compute = whole_functions.by_numpy(lambda x, f=f: [f(x)], [x.aval])
        assert compute is not None
        (found,) = compute(np.asarray(x))
        assert found.shape == f(x).shape and np.array_equal(found, f(x))


@pytest.mark.cpu
def test_small_results_of_calls_without_arrays_are_remembered_and_copied(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "operations_were_watched", False)
    for f in (
        lambda: dnp.geomspace(1.0, 8.0, 4),
        lambda: dnp.eye(3),
        lambda: dnp.hanning(5),
        lambda: sla.hilbert(3),
    ):
        first = np.array(f())
        results = [f() for _ in range(4)]
        assert python_calls(f) <= 22
        dx.jit(lambda x: x * 0, donate_argnums=0)(results[-1])
        results = [*results[:-1], f()]
        assert all(np.array_equal(y, first) for y in results)
    with dx.enable_x64(True):
        assert dnp.eye(3).dtype == np.float64
    large = [dnp.eye(40) for _ in range(5)]
    assert all(float(y.sum()) == 40 for y in large)


@pytest.mark.cpu
def test_numpy_arguments_are_evaluated_as_a_whole_by_the_digits_that_they_have_here(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(config, "operations_were_watched", False)
    x, i = np.array([0.1, 0.7, -2.0]), np.array([2, 0, 1])
    for dtype in ("float64", "float32", "int64", ">f4"):
        y = x.astype(dtype)
        want = np.asarray(dnp.std(dnp.asarray(y)))
        assert all(np.asarray(dnp.std(y)).tobytes() == want.tobytes() for _ in range(5))
    assert python_calls(dnp.std, x) <= 22
    assert python_calls(lambda: dnp.where(x > 0, x, np.float32(1))) <= 22
    assert python_calls(lambda: dnp.take(x, i)) <= 26
    values = np.array([16777217.0])  # float32 has no such number
    for _ in range(5):
        assert int(dnp.astype(values, "int32")[0]) == 16777217
        assert int(dnp.insert(dnp.arange(2), 0, values)[0]) == int(dnp.insert(np.arange(2), 0, values)[0])
        assert (
            dnp.insert(dnp.ones(2, "float16"), 0, np.array([2049 + 1e-9]))[0] == 2050
        )  # 2048 if rounded twice
        assert np.isnan(dnp.take(x, np.array([2**32]))[0])
        assert float(dnp.take(x, np.array([1]))[0]) == np.float32(0.7)
        assert dnp.where(x > 0, x, np.float32(2))[2] == 2 and dnp.where(x > 0, x, np.float32(3))[2] == 3
        with pytest.raises(ValueError, match="dtype"):
            dnp.std(np.array(["a"]))
    y = x.astype("float32")
    kept = [dnp.ravel(y) for _ in range(5)]
    y[0] = 9  # a result keeps the numbers of its call
    assert all(float(z[0]) == np.float32(0.1) for z in kept)


def test_lists_of_arrays_and_numbers_are_told_apart():
    x, y = dnp.asarray([1.0, 2.0]), dnp.asarray([[3.0, 4.0]])
    for _ in range(5):
        assert dnp.hstack([x, x]).shape == dnp.hstack((x, x)).shape == (4,)
        assert dnp.vstack([x, y]).shape == (2, 2)
        assert dnp.stack([x[0], 1]).dtype == np.float32
        assert float(dnp.stack([x[0], 2.5])[1]) == 2.5
        assert float(dnp.stack([x[0], 3.5])[1]) == 3.5
        assert np.signbit(dnp.stack([x[0], -0.0])[1]) and not np.signbit(dnp.stack([x[0], 0.0])[1])
        assert dnp.stack([2, 3]).dtype == np.int32 and dnp.stack([2.0, 3]).dtype == np.float32
        assert dnp.stack([x] * 20).shape == (20, 2)


def test_functions_evaluated_as_a_whole_notice_options_transformations_and_errors():
    x = dnp.asarray([1.0, 2.0, 3.0])
    for _ in range(5):
        dnp.std(x)
    with dx.debug_nans(True), pytest.raises(FloatingPointError):
        dnp.std(x * float("inf"))
    assert dx.vmap(nn.softmax)(x[:, None]).shape == (3, 1)
    assert dx.grad(lambda x: nn.softmax(x)[0])(x[:2]).shape == (2,)
    for _ in range(5):
        with pytest.raises(ValueError, match="axis"):
            dnp.mean(x, axis=3)
        assert dnp.mean(x, axis=0, keepdims=True).shape == (1,)
        assert dnp.mean(x, axis=0, keepdims=False).shape == ()
        assert nn.elu(x[:1], 1.0).dtype == nn.elu(x[:1], 1).dtype == np.float32
        assert np.signbit(dnp.where(x > 5, x, -0.0)[0]) and not np.signbit(dnp.where(x > 5, x, 0.0)[0])
        assert nn.relu(dnp.zeros(2)) is not nn.relu(dnp.zeros(2))


def test_places_of_repeated_indices_are_remembered():
    """Gathers at indices that come again: other operands, values out of bounds, and other dtypes of indices."""
    for dtype in ("float32", "int8"):
        for x in (
            np.arange(12).reshape(3, 4).astype(dtype),
            -np.arange(12).reshape(3, 4).astype(dtype).T.copy().T,
        ):
            array = dnp.asarray(x)
            for _ in range(3):
                np.testing.assert_array_equal(dnp.diagonal(array, 1), np.diagonal(x, 1))
                for index in (np.int32([2, -1, 0]), np.uint8([2, 1, 0])):
                    np.testing.assert_array_equal(dnp.take(array, index, axis=1), np.take(x, index, axis=1))
                filled = dnp.take(array, np.int32([7, 1]), axis=0, mode="fill", fill_value=5)
                np.testing.assert_array_equal(filled, np.stack([np.full(4, 5, dtype), x[1]]))


@pytest.mark.cpu
def test_kinds_of_calls_are_bounded_for_all_functions_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole_functions, "_KINDS_MAX", 8)
    monkeypatch.setattr(config, "operations_were_watched", False)
    dx.clear_caches()
    for f in (nn.softmax, dnp.var, dnp.median):
        for n in range(1, 6):
            f(dnp.ones(n))
            assert len(whole_functions._remembered) <= 8
    for _ in range(5):
        np.testing.assert_array_equal(nn.softmax(dnp.zeros(2)), [0.5, 0.5])
    calls = python_calls(nn.softmax, dnp.zeros(2))
    for n in range(20):  # numbers that do not come again take no others' place
        dnp.clip(dnp.zeros(3), 0.0, n + 0.5)
        assert len(whole_functions._remembered) <= 8
    assert python_calls(nn.softmax, dnp.zeros(2)) == calls


@pytest.mark.cpu
def test_an_eager_derivative_of_expm_finds_its_loop_compiled():
    """The squarings are a function of their own, which is staged once, and not in each call."""
    x = dnp.eye(3) * 2
    gradient = dx.grad(lambda x: sla.expm(x).sum())
    for _ in range(2):
        np.testing.assert_allclose(gradient(x), np.full((3, 3), np.exp(2)) * 1.0, rtol=1e-5)
    assert python_calls(gradient, x) <= 7000
