"""`debug_nans` names the operation that made the first NaN, its line and its pass, and lets pass what it should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.checkify import NaNError
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS


def line_of(f: Any, offset: int = 1) -> str:
    return f"{__file__}:{f.__code__.co_firstlineno + offset} ("


def log(x: Any) -> Any:
    return dnp.log(x)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "eager": log,
    "jit": dx.jit(log),
    "nested jit": dx.jit(lambda x: dx.jit(log)(x) + 1),
    "vmap": lambda x: dx.vmap(log)(x[None]),
    "jit of vmap": lambda x: dx.jit(dx.vmap(log))(x[None]),
    "jvp": lambda x: dx.jvp(log, (x,), (x,)),
    "grad": dx.grad(log),
    "grad of jit": dx.grad(dx.jit(log)),
    "jit of grad": dx.jit(dx.grad(lambda x: log(x) * x)),
    "scan": lambda x: lax.scan(lambda c, y: (log(c), None), x, dnp.arange(3))[0],
    "reversed scan": lambda x: lax.scan(lambda c, y: (c, log(y)), x, x + dnp.arange(2.0), reverse=True)[1],
    "while": lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, log(c[1])), (0, x))[1],
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: log(c), x),
    "cond": dx.jit(lambda x: lax.cond(x < 10, log, lambda x: x, x)),
    "checkpoint": dx.jit(dx.checkpoint(log)),
    "with a print": dx.jit(lambda x: lax.scan(lambda c, _: (dx.debug.print("{}", c), (log(c), None))[1], x, length=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_operation_and_its_line_are_named(name: str, capsys: Any):
    with dx.debug_nans(True):
        PROGRAMS[name](dnp.float32(30.0)) if name not in ("scan", "fori") else None
        capsys.readouterr()
        with pytest.raises(NaNError, match=r"primitive: log\n") as error:
            PROGRAMS[name](dnp.float32(-2.0))
    assert f"line: {line_of(log)}log)" in str(error.value)
    assert isinstance(error.value, FloatingPointError)
    assert len(capsys.readouterr().out.splitlines()) == (2 if name == "with a print" else 0)  # not repeated


def test_operands_and_result_are_shown():
    with dx.debug_nans(True), pytest.raises(NaNError) as error:
        log(dnp.array([1.0, -2.0]))
    text = str(error.value)
    assert text.startswith("An operation made a NaN out of numbers that hold none.\n")
    assert "equation: b:f32[2] = log a:f32[2]" in text
    assert "operand 0: float32[2] [ 1., -2.]" in text
    assert "result: float32[2] [ 0., nan], NaN in 1 of 2, first at (1,)" in text
    with dx.debug_nans(True), pytest.raises(NaNError, match=r"operand 0: float32\[20\] from -5\.0 to 14\.0"):
        log(dnp.arange(-5.0, 15.0))


@pytest.mark.parametrize(
    ("program", "place"),
    [
        (lambda x: lax.scan(lambda c, y: (c - y, log(c)), x, dnp.ones(5)), "step 3 of scan"),
        (
            lambda x: lax.while_loop(lambda c: c < 9, lambda c: lax.cond(c < -5, log, lambda c: -4 * c, c), x),
            "branch 1 of cond, in step 1 of while_loop",
        ),
        (dx.jit(lambda x: dx.jit(log)(x - 5)), "the jitted function log"),
    ],
)  # fmt: skip
def test_the_bodies_around_it_are_named(program: Any, place: str):
    with dx.debug_nans(True), pytest.raises(NaNError, match=f"inside of: {place}"):
        program(2.0)


BACKWARD = {
    "grad": dx.grad,
    "jit of grad": lambda f: dx.jit(dx.grad(f)),
    "grad of jit": lambda f: dx.grad(dx.jit(f)),
    "vjp": lambda f: lambda x: dx.vjp(f, x)[1](1.0),
}


@pytest.mark.parametrize("way", BACKWARD.values(), ids=BACKWARD)
def test_the_backward_pass_is_told_by_the_line_of_the_forward_pass(way: Any):
    def f(x: Any) -> Any:
        y = x * 2
        return dnp.sqrt(y) * 0.0

    with dx.debug_nans(True), pytest.raises(NaNError) as error:
        way(f)(0.0)
    assert line_of(f, 2) in str(error.value)
    assert ", in the backward pass\n" in str(error.value)


def test_the_forward_pass_is_not_called_the_backward_pass():
    with dx.debug_nans(True), pytest.raises(NaNError) as error:
        dx.jit(dx.grad(lambda x: log(x) ** 2))(-1.0)
    assert "backward" not in str(error.value)


def masked(x: Any) -> Any:
    return dnp.where(x > 0, dnp.log(x), 0.0)


def masked_then_wrong(x: Any) -> Any:
    y = dnp.where(x > 0, dnp.log(x), 0.0)
    return dnp.sqrt(y - 1.0)


@pytest.mark.parametrize("mode", [True, "outputs"])
def test_what_a_compiled_program_masks_is_let_pass(mode: Any):
    x = dnp.array([1.0, -1.0])
    with dx.debug_nans(mode):
        assert dx.jit(masked)(x).tolist() == [0.0, 0.0]
        assert dx.jit(dx.grad(lambda x: masked(x).sum()))(x).tolist() == [1.0, 0.0]
        assert lax.scan(lambda c, y: (c + masked(y), None), 0.0, x)[0] == 0.0


def test_outputs_names_the_first_whose_nan_arrives_and_on_the_first_of_all():
    x = dnp.array([1.0, -1.0])
    with dx.debug_nans(True), pytest.raises(NaNError, match="primitive: log"):
        dx.jit(masked_then_wrong)(x)
    with dx.debug_nans("outputs"), pytest.raises(NaNError, match="primitive: sqrt") as error:
        dx.jit(masked_then_wrong)(x)
    assert line_of(masked_then_wrong, 2) in str(error.value)


@pytest.mark.parametrize(
    "x",
    [
        dnp.array([1.0, -1.0]),
        dnp.array([1.0, *[-1.0] * NUMPY_MAX_ELEMENTS]),
        dx.device_put(dnp.array([1.0, -1.0]), dx.devices()[0]),
    ],
    ids=["small", "compiled", "placed"],
)
def test_eager_operations_are_looked_at_one_by_one_but_not_with_outputs(x: Any):
    with dx.debug_nans(True), pytest.raises(NaNError, match="primitive: log"):
        masked(x)
    with dx.debug_nans("outputs"):
        assert not masked(x).any()


@pytest.mark.parametrize("mode", [True, "outputs"])
def test_a_nan_that_came_in_is_nobodys_fault(mode: Any):
    x = dnp.array([np.nan, 1.0])
    with dx.debug_nans(mode):
        for f in (lambda x: x + 1, dnp.sin, dnp.sum, lambda x: dnp.concatenate([x, x]), lambda x: x[0]):
            assert dnp.isnan(dx.jit(f)(x)).any()
            assert dnp.isnan(f(x)).any()
        assert dnp.isnan(dnp.full(3, dnp.nan)).all()
        assert float(dx.jit(dnp.nanmean)(x)) == 1.0


def test_nothing_is_looked_at_when_it_is_off():
    f = dx.jit(log)
    assert np.isnan(f(-1.0))
    with dx.debug_nans(True), pytest.raises(NaNError):
        f(-1.0)
    assert np.isnan(f(-1.0))
    assert np.isnan(log(-1.0))
    with dx.debug_nans(True), dx.debug_nans(False):
        assert np.isnan(f(-1.0))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.complex64])
def test_every_inexact_dtype_is_looked_at(dtype: Any):
    x = dnp.zeros(3, dtype)
    for f in (lambda x: x / x, dx.jit(lambda x: x / x)):
        with dx.debug_nans(True), pytest.raises(NaNError, match="primitive: div"):
            f(x)


def test_large_arrays_and_donated_ones():
    x = dnp.zeros(100_000)
    with dx.debug_nans(True), pytest.raises(NaNError, match="NaN in 100000 of 100000"):
        dnp.log(x - 1)
    with dx.debug_nans(True), pytest.raises(NaNError, match="primitive: log"):
        dx.jit(lambda x: dnp.log(x - 1), donate_argnums=0)(x)


def test_infinities_have_an_option_of_their_own():
    for f in (lambda x: 1 / x, dx.jit(lambda x: 1 / x)):
        with dx.debug_nans(True):
            assert np.isinf(f(dnp.float32(0.0)))
        with dx.debug_infs(True), pytest.raises(NaNError, match="made an infinity") as error:
            f(dnp.float32(0.0))
        assert "debug_infs" in str(error.value)
    with dx.debug_infs(True):
        assert np.isinf(dnp.inf * dnp.ones(2)).all()
        assert float(dx.jit(dnp.max)(dnp.ones(3))) == 1.0  # -inf, where it starts, is not made


def test_a_program_whose_effects_give_results_is_not_run_again():
    calls: list[float] = []

    @dx.jit
    def f(x: Any) -> Any:
        y = dx.io_callback(lambda v: (calls.append(float(v)), v)[1], dx.ShapeDtypeStruct((), np.float32), x)
        return dnp.log(y)

    with dx.debug_nans(True), pytest.raises(NaNError, match="was not found"):
        f(-1.0)
    assert calls == [-1.0]


def test_the_option_is_set_by_jaxs_name_and_checked():
    dx.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(NaNError):
            log(-1.0)
    finally:
        dx.config.update("jax_debug_nans", False)
    with pytest.raises(ValueError, match="'off', 'on', 'outputs'"), dx.debug_nans("sometimes"):
        pass
