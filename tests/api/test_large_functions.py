"""Functions of large arrays, which run as one program outside `jit`, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import nn
from didax.api import large_functions
from didax.runtime.compiled import Program
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS

N = 300
assert N * N > NUMPY_MAX_ELEMENTS


@pytest.fixture
def x() -> dx.Array:
    return dnp.asarray(np.random.RandomState(0).randn(N, N).astype("float32"))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that ran."""
    found: list[Program] = []
    run = Program.run

    def recorded(self: Program, *args: Any) -> Any:
        found.append(self)
        return run(self, *args)

    monkeypatch.setattr(Program, "run", recorded)
    dx.clear_caches()
    return found


CALLS: dict[str, Callable[[Any], Any]] = {
    "std": lambda x: x.std(0),
    "softmax": nn.softmax,
    "isclose": lambda x: dnp.isclose(x, 1.0, atol=0.37),
    "clip": lambda x: dnp.clip(x, -0.25, 0.75),
    "minus": lambda x: x - x[0],
    "and": lambda x: (x > 0) & dnp.logical_and(x, x[::-1]),
    "integers": lambda x: x * dnp.arange(N * N).reshape(N, N),
    "less": lambda x: x[:, :1] < x[0],
    "where": lambda x: dnp.where(x > 0, x, x[0]),
    "outer": lambda x: dnp.outer(x[0], x[1]),
    "linspace": lambda x: dnp.linspace(0.0, 2.0, N * N),
    "divmod": lambda x: dnp.divmod(x, 0.3),
    "average": lambda x: dnp.average(x, axis=0, weights=dnp.abs(x[::-1]) + 1),
}


@pytest.mark.cpu
@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_large_arrays_is_one_program_with_the_bits_of_jit(
    name: str, x: dx.Array, runs: list[Program]
):
    def of_rows(x: Any) -> Any:  # what is around the function is no part of it
        return CALLS[name](x)

    rows = dnp.asarray(np.asarray(x))
    first = of_rows(rows)
    runs.clear()
    again = of_rows(rows)
    assert len([p for p in runs if len(p.jaxpr.eqns) > 1]) == 1
    assert len(runs) < 6  # with those around the function
    want = dx.jit(of_rows)(rows)
    for y, z, w in zip(*map(dx.tree.leaves, (first, again, want)), strict=True):
        assert y.aval is z.aval is w.aval
        np.testing.assert_array_equal(y, w)
        np.testing.assert_array_equal(z, w)


TRANSFORMED: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "grad": lambda f, x: dx.grad(lambda x: dnp.sum(f(x) * x.sum(0)))(x),
    "jvp": lambda f, x: dx.jvp(f, (x,), (x[::-1],)),
    "vjp": lambda f, x: dx.vjp(f, x)[1](dnp.ones_like(f(x))),
    "vmap": lambda f, x: dx.vmap(f, 1)(x[None]),
    "second": lambda f, x: dx.jvp(dx.grad(lambda x: f(x * x[0])[:, 0].sum()), (x,), (x[::-1],)),
    "gradients of a batch": lambda f, x: dx.vmap(dx.grad(lambda x: dnp.sum(f(x) * x[0])))(x[None]),
}


@pytest.mark.cpu
@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_transformation_of_a_function_of_large_arrays_has_few_programs_with_the_values_of_jit(
    name: str, x: dx.Array, runs: list[Program]
):
    def of_rows(x: Any) -> Any:
        return TRANSFORMED[name](lambda x: dnp.clip(nn.log_softmax(x), -6.25, x) + dnp.roll(x, 1, 0), x)

    first = of_rows(x)
    made = set(runs)
    runs.clear()
    again = of_rows(x)
    assert set(runs) <= made  # nothing is compiled twice
    want = dx.jit(of_rows)(x)
    for y, z, w in zip(*map(dx.tree.leaves, (first, again, want)), strict=True):
        assert y.aval is z.aval is w.aval
        np.testing.assert_array_equal(y, z)
        np.testing.assert_allclose(y, w, 1e-5, 2e-5)
    composed = [p for p in made if len(p.jaxpr.eqns) > 2]
    assert composed and not {e.primitive.name for p in made - set(composed) for e in p.jaxpr.eqns} & {
        "exp",
        "log",
    }


@pytest.mark.cpu
def test_transformations_of_large_arrays_that_are_staged_or_watched_have_no_calls(x: dx.Array):
    assert "jit" not in str(dx.make_jaxpr(dx.grad(lambda x: dnp.std(x)))(x))
    assert "jit" not in str(dx.make_jaxpr(lambda x: dx.vmap(nn.softmax)(x))(x))
    kinds = set(large_functions.kinds)
    with dx.disable_jit():
        dx.grad(lambda x: dnp.var(x, 1, ddof=1).sum())(x)
    with dx.debug_nans(True), pytest.raises(FloatingPointError):
        dx.grad(lambda x: dnp.log(dnp.var(x * 0, ddof=1)))(x)
    assert set(large_functions.kinds) == kinds
    y = np.asarray(x).copy()
    _, pull = dx.vjp(lambda x: dnp.average(x, 0, weights=y**2), x)
    want, _ = pull(dnp.ones(N)), y.fill(0)  # the owner of an array may write to it
    np.testing.assert_array_equal(want[0], pull(dnp.ones(N))[0])
    leaked: list[Any] = []
    dx.vmap(lambda x: leaked.append(x) or x)(x[None])
    for run in (dnp.std, dx.grad(lambda y: dnp.std(leaked[0]) * y[0, 0])):
        with pytest.raises(dx.errors.UnexpectedTracerError):
            run(leaked[0] if run is dnp.std else x)


@pytest.mark.cpu
def test_arrays_of_numpy_are_arguments_of_such_a_program_by_the_digits_that_they_have_here(
    runs: list[Program],
):
    for dtype in ("float32", "float64", "int32", "int64", "complex128"):
        x = (np.random.RandomState(0).randn(N, N) * 100).astype(dtype)
        runs.clear()
        y = dnp.var(x, 0)
        assert dtype == "int64" or len([p for p in runs if len(p.jaxpr.eqns) > 1]) == 1
        z = dnp.var(dnp.asarray(x), 0)
        assert y.aval is z.aval
        np.testing.assert_allclose(np.asarray(y), np.asarray(z), 1e-6 if dtype == "int64" else 0)
        x[:] = 0  # the owner may write to it
        assert not np.asarray(dnp.var(x, 0)).any() and np.asarray(y).all()
    x = np.full(N * N, 2049 + 1e-9)
    assert (dnp.append(x, np.ones(2, "float16")) == dnp.append(dnp.asarray(x), np.ones(2, "float16"))).all()


@pytest.mark.cpu
def test_numbers_of_calls_with_large_arrays_are_arguments_or_have_few_programs(
    x: dx.Array, runs: list[Program]
):
    for k in range(20):
        want = np.clip(np.asarray(x), np.float32(-0.1 * k), np.float32(k))
        np.testing.assert_array_equal(np.asarray(dnp.clip(x, -0.1 * k, k)), want)
    assert len(set(runs)) == 5  # calls with 0, 1, 2 and -1.0 are kinds of their own
    for k in range(3, 20):
        np.testing.assert_array_equal(np.asarray(dnp.roll(x, k, 1)), np.roll(np.asarray(x), k, 1))
    (kind,) = [found for (f, _), found in large_functions.kinds.items() if f.__name__ == "roll"]
    assert len(kind.programs) == large_functions._STATIC_MAX
    for dtype in ("float16", "bfloat16"):  # numbers are rounded once
        half = x.astype(dtype)
        for t in (0.1, 1 / 3, 1.00048828125 + 2**-30):
            assert (dnp.clip(half, t, 5.0) == dnp.maximum(half, dnp.asarray(t, dtype))).all()


@pytest.mark.cpu
def test_calls_with_large_arrays_notice_options_transformations_and_errors(x: dx.Array, runs: list[Program]):
    for _ in range(3):
        with pytest.raises(ValueError, match="axis"):
            dnp.std(x, axis=3)
        with pytest.raises(ValueError, match="Incompatible shapes"):
            x - x[0, :5]
        with dx.debug_nans(True), pytest.raises(FloatingPointError):
            dnp.std(x * float("inf"))
        assert dx.grad(lambda x: dnp.var(x - x[0]))(x).shape == (N, N)
        assert dx.vmap(nn.softmax)(x[None]).shape == (1, N, N)
    dnp.std(x)
    runs.clear()
    with dx.disable_jit():
        dnp.std(x)
    assert all(len(p.jaxpr.eqns) == 1 for p in runs)
    kinds = len(large_functions.kinds)
    for n in range(large_functions._KINDS_MAX + 5):
        large_functions.kinds[n] = large_functions.kinds[next(iter(large_functions.kinds))]
    dnp.ptp(x)
    assert kinds < len(large_functions.kinds) <= large_functions._KINDS_MAX


@pytest.mark.cpu
def test_arrays_of_numpys_size_that_are_too_many_together_are_of_one_program(runs: list[Program]):
    """An operation on two of them and a result is compiled by itself; those that move elements are views of NumPy."""
    rng = np.random.RandomState(1)
    x, y = (dnp.asarray(rng.randn(200, 200).astype("float32")) for _ in range(2))
    calls = {
        "std": lambda k: dnp.std(x, 0),
        "softmax": lambda k: nn.softmax(x),
        "isclose": lambda k: dnp.isclose(x, y, atol=0.01 * k),
        "clip": lambda k: dnp.clip(x, -0.3 * k, 0.3 * k),
        "floor_divide": lambda k: x // (0.01 * k),
        "remainder": lambda k: x % (0.01 * k),
        "divmod": lambda k: dnp.divmod(x, 0.01 * k)[1],
    }
    for name, call in calls.items():
        dnp.ones(3).block_until_ready()
        runs.clear()
        found = [call(k) for k in range(3, 9)]
        assert len(runs) == 6 and len(set(runs)) == 1, name
        for k, z in zip(range(3, 9), found, strict=True):
            want = dx.jit(call, static_argnums=0)(k)
            assert z.aval is want.aval
            np.testing.assert_allclose(np.asarray(z), np.asarray(want), 1e-6, 1e-7)
    runs.clear()
    for _ in range(4):
        dnp.flip(x, 1), dnp.roll(x, 7, 0), dnp.sum(x, 0), dnp.convolve(x[0], x[1])
    with dx.disable_jit():
        dnp.std(x, 0)
    assert all(len(p.jaxpr.eqns) == 1 for p in runs)


@pytest.mark.cpu
def test_the_first_call_of_a_kind_tells_whether_arrays_are_large_together(monkeypatch: pytest.MonkeyPatch):
    """A position that changes from call to call is not traced anew."""
    x = dnp.asarray(np.arange(40_000.0, dtype="float32").reshape(200, 200))
    dx.clear_caches()
    traced: list[Any] = []
    largest = large_functions._largest
    monkeypatch.setattr(large_functions, "_largest", lambda *args: traced.append(args) or largest(*args))
    for k in range(3, 20):
        np.testing.assert_array_equal(dnp.take(x, k, 0), np.asarray(x)[k])
        np.testing.assert_array_equal(dnp.tril(x, k), np.tril(x, k))
    assert len(traced) <= 2
