"""Functions that have a NumPy rule give the results that they give as they are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.api import numpy_functions, whole_functions
from didax.api.numpy_functions import Declined, computed_by
from didax.numpy import linalg
from didax.scipy import linalg as sla
from didax.scipy import stats
from didax.xla import compile as xla_compile
from tests.checks import first

LINALG = {
    "expm": sla.expm,
    "expm of a triangle": lambda x: sla.expm(x, upper_triangular=True),
    "expm_frechet": lambda x: sla.expm_frechet(x, x.mT),
    "sqrtm": sla.sqrtm,
    "funm": lambda x: sla.funm(x, dnp.cos, disp=False)[0],
    "solve_sylvester": lambda x: sla.solve_sylvester(x, x + 9 * dnp.eye(3, dtype=x.dtype), x.mT),
    "polar": sla.polar,
    "polar of a wide one": lambda x: sla.polar(x[:2], "left", method="svd"),
    "pinv": linalg.pinv,
    "pinv of a Hermitian one": lambda x: linalg.pinv(x, hermitian=True),
    "convolve": lambda x: [dnp.convolve(x.ravel(), x[0], mode) for mode in ("full", "same", "valid")],
    "correlate": lambda x: [dnp.correlate(x[0, :2], x.ravel(), mode) for mode in ("full", "same", "valid")],
    "poly": lambda x: dnp.poly(x[0]),
    "lstsq": lambda x: linalg.lstsq(x[:, :2], x[:, 2]),
}
MATRICES = {
    "regular": [[2.0, 1.0, 0.5], [-1.0, 3.0, 0.25], [0.5, 0.0, 4.0]],
    "large": [[20.0, 1.0, 0.5], [-1.0, 30.0, 0.25], [0.5, 0.0, 40.0]],
    "unit": np.eye(3),
    "zero": np.zeros((3, 3)),
    "singular": [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]],
    "nan": [[np.nan, 1.0, 0.5], [-1.0, 3.0, 0.25], [0.5, 0.0, 4.0]],
    "infinite": [[2.0, np.inf, 0.5], [-1.0, 3.0, 0.25], [0.5, 0.0, 4.0]],
}
QUANTILES = {
    "median": dnp.median,
    "median of rows": lambda x: dnp.median(x, 1),
    "nanmedian": lambda x: dnp.nanmedian(x, -1, keepdims=True),
    **{
        f"{name} {method}": lambda x, name=name, method=method: getattr(dnp, name)(
            x, dnp.asarray([[0.3, 0.0], [np.nan, 1.0]]), axis=-1, method=method
        )
        for name in ("quantile", "nanquantile")
        for method in ("linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf")
    },
    **{
        f"{name} of one row {method}": lambda x, name=name, method=method: [
            getattr(dnp, name)(row, q, method=method) for row in x for q in (0.3, -0.0, 1.0, np.nan)
        ]
        for name in ("quantile", "nanquantile")
        for method in ("linear", "higher", "nearest", "midpoint")
    },
    "modes": lambda x: [stats.mode(y, keepdims=True) for y in (x, x[0], x.T, x > 0, dnp.tile(x, 2).T, x[:1])],
    "ranks": lambda x: [stats.rankdata(y, method) for method in RANKS for y in (x[0], x[1], x, x > 0)],
}
RANKS = ("average", "min", "max", "dense", "ordinal")
ROWS = np.array([[3, -0.0, 0.0, 1.5], [np.nan, 2, -1, 7], [np.inf, -np.inf, 1, 1], [np.nan] * 4], "float32")


def _both(monkeypatch: pytest.MonkeyPatch, f: Any, x: Any) -> tuple[list[Any], list[Any]]:
    """The results by the rules, of the first call and of a remembered one, and those of the function as written."""
    by_rule = [f(x) for _ in range(4)]
    with monkeypatch.context() as patch:
        patch.setattr(numpy_functions, "_may_ask", lambda *_: False)
        patch.setattr(whole_functions, "kind_of_call", lambda *_: None)
        written = f(x)
    return [dx.tree.leaves(y) for y in (by_rule[0], by_rule[-1])], dx.tree.leaves(written)


@pytest.mark.parametrize("kind", first(MATRICES))
@pytest.mark.parametrize("name", LINALG)
def test_rules_for_matrices(name: str, kind: str, monkeypatch: pytest.MonkeyPatch):
    if name.startswith("polar") and kind in ("zero", "singular"):
        pytest.skip("the unitary factor is not unique")
    for dtype in ("float32", "complex64"):
        x = dnp.asarray(np.asarray(MATRICES[kind], dtype))
        by_rule, written = _both(monkeypatch, LINALG[name], x)
        for found in by_rule:
            assert [y.aval for y in found] == [y.aval for y in written]
            for y, z in zip(found, written, strict=True):
                size = np.nanmax(abs(np.asarray(z)), where=np.isfinite(z), initial=1e-3)
                np.testing.assert_allclose(y / size, z / size, rtol=0, atol=2e-4)


@pytest.mark.parametrize("dtype", first(["float32", "bfloat16", "int32"]))
@pytest.mark.parametrize("name", QUANTILES)
def test_rules_for_quantiles_give_the_same_bits(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch):
    x = dnp.asarray(np.nan_to_num(ROWS, posinf=9, neginf=-9) if dtype == "int32" else ROWS).astype(dtype)
    by_rule, written = _both(monkeypatch, QUANTILES[name], x)
    for found in by_rule:
        assert [y.aval for y in found] == [y.aval for y in written]
        assert [np.asarray(y).tobytes() for y in found] == [np.asarray(y).tobytes() for y in written]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32"])
def test_rules_for_remainders_give_the_same_bits(dtype: str, monkeypatch: pytest.MonkeyPatch):
    """By zeros, at the least integer over -1, beside infinities, zeros of both signs and NaN, and for numbers."""
    dx.clear_caches()  # calls that other tests counted
    numbers, with_nan = np.array([0, 1, 2, 3, 7, -1, -3, 100, -128]).astype(dtype), []
    if dtype == "float32":
        numbers = np.array([0.0, -0.0, 1, -1, 0.3, -2.5, np.inf, -np.inf, 1e-45, 3e38], dtype)
        close = [
            *np.arange(-9, 9, 0.7),
            *np.nextafter(np.float32([3, 4.5, -6, 0.9, 1.2]), np.float32(9)),
            1e5,
            0.1,
        ]
        with_nan = [
            np.append(numbers, np.float32(np.nan)),
            np.array([*close, -0.0, 1e-40], dtype),
            np.float32(close),
        ]
    for some in (numbers, numbers[numbers != 0], *with_nan):
        x, y = [dnp.asarray(a.ravel()) for a in np.meshgrid(some, some)]
        for f in (dnp.remainder, dnp.floor_divide, lambda x, y: x % 3, lambda x, y: x // 2):
            by_rule, written = _both(monkeypatch, lambda x, f=f, y=y: f(x, y), x)
            for (found,) in by_rule:
                assert found.aval is written[0].aval
                assert np.asarray(found).tobytes() == np.asarray(written[0]).tobytes()
    for (f, *_), whole in whole_functions._remembered.items():
        if f.__name__ in ("_floor_divide_int", "_floor_divide_float", "_modulo_int", "_modulo"):
            # One operation and its parameters, or the steps, because the rule declines zeros and infinities.
            is_declined = f.__name__ == "_floor_divide_float" and not hasattr(whole, "compute")
            assert is_declined or len(whole.compute.__code__.co_names) <= 4


def test_long_vectors_are_convolved_by_numpy_which_is_faster_than_a_program(monkeypatch: pytest.MonkeyPatch):
    x = dnp.asarray(np.random.default_rng(0).standard_normal(300, np.float32))
    by_rule, written = _both(monkeypatch, lambda x: dnp.convolve(x, x[:200], "same"), x)
    for (found,) in by_rule:
        np.testing.assert_allclose(found, written[0], rtol=1e-4, atol=1e-4)
    assert any([np.asarray(found).tobytes() != np.asarray(written[0]).tobytes() for (found,) in by_rule])


def test_nothing_is_compiled_for_functions_with_rules(monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a program was compiled")

    dx.clear_caches()
    monkeypatch.setattr(xla_compile, "compile_text", refuse)
    x = dnp.asarray(np.asarray(MATRICES["regular"], "float32"))
    for f in (sla.expm, sla.sqrtm, sla.polar, linalg.pinv):
        f(x)
    f(x[:2])
    linalg.lstsq(x, x[0])


def test_a_rule_is_asked_for_eager_calls_with_small_strong_arrays_alone():
    asked: list[Any] = []

    def rule(x: Any, *, factor: Any) -> Any:
        asked.append(x)
        if x[0] < 0:
            raise Declined
        return x * factor

    @computed_by(rule)
    def scaled(x: Any, *, factor: Any) -> Any:
        return x * factor

    def times_of(call: Any) -> int:
        asked.clear()
        assert float(dx.tree.leaves(call())[0][0]) == 4.0
        return len(asked)

    x = dnp.asarray([2.0, 3.0])
    assert times_of(lambda: scaled(x, factor=2.0)) == 1
    assert times_of(lambda: scaled(-x, factor=-2.0)) == 1  # declined
    assert times_of(lambda: dx.jit(lambda x: scaled(x, factor=2.0))(x)) == 0
    assert times_of(lambda: dx.vmap(lambda x: scaled(x, factor=2.0))(x[:, None])[0]) == 0
    assert times_of(lambda: dx.jvp(lambda x: scaled(x, factor=2.0), (x,), (x,))) == 0
    assert times_of(lambda: scaled(x, factor=dnp.asarray(2.0))) == 0
    assert times_of(lambda: scaled(x.astype("bfloat16"), factor=2)) == 0
    assert times_of(lambda: scaled(dnp.full(1 << 17, 2.0), factor=2.0)) == 0
    with dx.debug_nans(True):
        assert times_of(lambda: scaled(x, factor=2.0)) == 0


def test_a_remembered_call_whose_rule_declines_is_evaluated_as_it_is_written():
    x = dnp.asarray(np.asarray(MATRICES["regular"], "float32"))
    for _ in range(5):
        sla.polar(x)
    assert bool(dnp.isnan(sla.polar(x * dnp.nan)[1]).all())
    with dx.enable_x64(True):
        assert sla.expm(x.astype("float64")).dtype == np.float64


@pytest.mark.parametrize("count", [40_000, 70_000])
def test_rules_take_arrays_of_any_size_that_numpy_evaluates(count: int):
    """An operation on an array of more than a third of that size is mostly a program; the rule of a function is not."""
    x = dnp.asarray(np.random.RandomState(0).randn(count).astype("float32"))
    calls = [
        lambda: x // 1.5,
        lambda: x % 1.5,
        lambda: dnp.divmod(x, 2.0),
        lambda: dnp.searchsorted(x[:9], x),
    ]
    for call in calls:
        first, *others = [dx.tree.leaves(call()) for _ in range(6)]
        assert all(np.array_equal(y, z) for ys in others for y, z in zip(first, ys, strict=True))
