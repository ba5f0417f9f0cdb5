"""Elementwise primitives and conversions at their corners: NumPy rules against XLA, derivatives."""

from __future__ import annotations

import functools
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import dtypes
from didax.core.errors import MissingRuleError
from didax.core.primitive_names import by_name
from didax.primitives import elementwise as ops
from didax.primitives.families import Elementwise
from didax.runtime.array import as_concrete

DTYPES = (
    "bool",
    "int8",
    "int32",
    "int64",
    "uint8",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "float16",
    "bfloat16",
)
PARAMS: dict[str, list[dict[str, Any]]] = {
    "integer_pow": [{"y": y} for y in (0, 1, 2, 3, 7, -1, -2)],
    "round": [{"rounding_method": method} for method in ops.RoundingMethod],
}
# XLA's functions that err by more than the 4 units in the last place allowed to the others
ULPS = {
    ("cbrt", "float32"): 8, ("cbrt", "float64"): 60, ("sinh", "float64"): 9, ("cosh", "float64"): 9,
    ("logaddexp", "float32"): 16,  # of numbers next to the denormal ones, to which XLA adds no denormal ones
}  # fmt: skip


def cases() -> list[tuple[str, str]]:
    """Primitives of this folder and dtypes, that NumPy evaluates."""
    found = [
        p
        for p in by_name.values()
        if isinstance(p, Elementwise)
        and p.eager is not None
        and type(p).__module__.startswith("didax.primitives.")
    ]
    return [
        (p.name, name)
        for p in sorted(found, key=repr)
        for name in DTYPES
        if dtypes.kind_of(dtypes.dtype(name)) in p.numpy_kinds
        and not (p is ops.complex_ and name in ("float16", "bfloat16"))
    ]


CASES = cases()  # before other tests declare primitives of their own


def special(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Zeros, ones, halves, extremes, infinities, NaN."""
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info = np.iinfo(dtype)
        extremes = [info.max, info.max - 1, info.max // 2, info.min, info.min + 1]
        return np.array(
            [*extremes, 0, 1, 2, 3, 7, *([-1, -2, -3, -7] if kind == "i" else [8, 31, 63])], dtype
        )
    info = dtypes.finfo(dtype)
    eps, largest = float(info.eps), float(info.max)
    halves = [0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997]
    values = [0.0, -0.0, 1, -1, *halves, 2, 3, 0.1, -0.3, 10.3, -7.7, 100, -100, np.inf, -np.inf, np.nan]
    return np.array(
        [*values, largest, -largest, 2 * float(info.tiny), eps, 1 + eps, 1 - eps, 8388609.0], dtype
    )


def grid(x: np.ndarray[Any, Any], arity: int) -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(*[x] * arity))


def is_denormal(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """XLA on the CPU takes denormal float32, float64 and bfloat16 numbers for 0; NumPy keeps them."""
    if dtypes.kind_of(x.dtype) != "f" or x.dtype == np.float16:
        return np.zeros(x.shape, bool)
    return (x != 0) & (np.abs(x.astype(np.float64)) <= float(dtypes.finfo(x.dtype).tiny))


def ulps(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Distance in units in the last place; zeros of other sign, NaN and numbers are infinitely far."""
    if not dtypes.is_float(a.dtype):
        return np.where(a == b, 0, np.inf)
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    scale = np.maximum(np.abs(wide_a), np.abs(wide_b)) * float(dtypes.finfo(a.dtype).eps)
    far = ~np.isfinite(wide_a) | ~np.isfinite(wide_b) | (wide_a == 0) & (wide_b == 0)
    return np.where(same, 0, np.where(far, np.inf, np.abs(wide_a - wide_b) / np.where(scale == 0, 1, scale)))


def operands(name: str, dtype: str) -> tuple[np.ndarray[Any, Any], ...]:
    """All pairs or triples of the special values, for as many operands as the primitive has."""
    arity, x = by_name[name].arity, special(dtypes.dtype(dtype))
    return grid(x[::2] if arity == 3 else x, arity)


def parameters(name: str, dtype: str) -> list[dict[str, Any]]:
    is_integer = dtypes.kind_of(dtypes.dtype(dtype)) in "iu"
    return [params for params in PARAMS.get(name, [{}]) if not (is_integer and params.get("y", 0) < 0)]


@functools.cache
def compiled_at_corners(dtype: str) -> dict[str, list[np.ndarray[Any, Any]]]:
    """What XLA computes of all primitives, by name, in one program for the dtype."""
    names = [name for name, other in CASES if other == dtype]

    def all_of_them(args: dict[str, Any]) -> dict[str, list[Any]]:
        return {
            name: [by_name[name].bind(*args[name], **p) for p in parameters(name, dtype)] for name in names
        }

    return dx.tree.map(np.asarray, dx.jit(all_of_them)({name: operands(name, dtype) for name in names}))


@pytest.mark.parametrize("name, dtype", CASES)
@np.errstate(all="ignore")
def test_numpy_rules_equal_xla_at_corners(name: str, dtype: str) -> None:
    primitive = by_name[name]
    assert isinstance(primitive, Elementwise)
    args = operands(name, dtype)
    for params, compiled in zip(parameters(name, dtype), compiled_at_corners(dtype)[name], strict=True):
        eager = np.asarray(primitive.bind(*map(as_concrete, args), **params))
        assert eager.dtype == compiled.dtype
        pairs = (
            [(eager.real, compiled.real), (eager.imag, compiled.imag)]
            if eager.dtype.kind == "c"
            else [(eager, compiled)]
        )
        ignored = np.any([is_denormal(x) for x in (*args, eager, compiled) if x.dtype.kind != "c"], axis=0)
        for a, b in pairs:
            wrong = (ulps(a, b) > ULPS.get((name, dtype), 4)) & ~ignored
            first = [(*(arg[i] for arg in args), a[i], b[i]) for i in np.flatnonzero(wrong)[:5]]
            assert not wrong.any(), f"{params}: operands, NumPy, XLA: {first}"


@pytest.mark.cpu
@dx.compile_in_background(False)
def test_denormal_numbers_are_kept_eagerly_and_flushed_by_xla() -> None:
    """A known difference; when XLA on the CPU keeps them, `is_denormal` above can go."""
    tiny = np.float32(1e-45)
    assert np.asarray(lax.mul(tiny, 2.0)) == 2 * tiny
    assert float(dx.jit(lambda x: lax.mul(x, 2.0))(tiny)) == 0


SMALLEST = 1.2e-38
"""About the smallest normal float32: XLA on the CPU makes zeros of smaller numbers."""


def assert_rounded_once(found: Any, wanted: np.ndarray[Any, Any]) -> None:
    """That the float32 array `found` is `wanted`, an array of float64, within about half an ulp, with its signs."""
    found = np.asarray(found)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = wanted.astype(np.float32)
        assert (np.isnan(found) == np.isnan(wanted)).all()
        kept = (np.abs(wanted) > SMALLEST) & np.isfinite(rounded)
        error = np.abs(found - wanted) / np.spacing(np.abs(rounded))
    assert error[kept].max() < 0.51
    extreme = np.isinf(rounded) | (wanted == 0)
    assert (found == rounded)[extreme].all()
    assert (np.signbit(found) == np.signbit(wanted))[extreme | kept].all()


@pytest.mark.cpu
def test_trigonometric_functions_of_large_arrays_are_rounded_once() -> None:
    """They are polynomials instead of calls of the C library, over the whole range of float32."""
    x = np.linspace(0, 0x7F7FFFFF, 8000).astype(np.uint32).view(np.float32) * np.float32([1, -1] * 4000)
    x = np.float32([*x, 0, -0.0, 1, -1, 0.9999999, 2**-12, np.pi / 2, 1.5e9, *[np.inf, -np.inf, np.nan] * 70])
    functions = ["sin", "cos", "tan", "arctan", "arcsin", "arccos"]
    zeros_and_ends = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3])
    y = np.append(np.repeat(zeros_and_ends, 8), x[64:][::-1])
    x[:64] = np.tile(zeros_and_ends, 8)
    y[64:2000] = x[64:2000] * 0.7

    @dx.jit
    def program(x: Any, y: Any) -> Any:
        return [*(getattr(dnp, name)(x) for name in functions), dnp.arctan2(y, x)]

    assert not re.search(r"stablehlo.(sine|cosine|tan|atan2) |chlo", program.lower(x, y).as_text())
    with np.errstate(all="ignore"):
        wanted = [*(getattr(np, name)(x.astype(float)) for name in functions), np.arctan2(y.astype(float), x)]
    for found, value in zip(program(x, y), wanted, strict=True):
        assert_rounded_once(found, value)
    assert "stablehlo.sine" in dx.jit(dnp.sin).lower(x[:100]).as_text()


@pytest.mark.cpu
def test_powers_of_large_arrays_are_rounded_once() -> None:
    """They are polynomials over the whole range of float32, but for exponents that XLA knows."""
    special = np.float32(
        [0, 1, 2, 0.5, 3, 2.5, np.inf, 2**23 + 1, 2**24, 1 + 2**-23, 1 - 2**-24, 1e-30, 3e38]
    )
    special = np.float32([*special, *-special, np.nan])
    x, y = map(np.ravel, np.meshgrid(special, special))
    bits = np.linspace(0, 0x7F7FFFFF, 6000).astype(np.uint32)
    bases, near_1 = bits.view(np.float32), 1 + np.linspace(-1e-3, 1e-3, 6000)
    x = np.float32([*x, *bases, *near_1, *-bases])
    exponents = np.float32([*bases[::-1], *np.linspace(-1e5, 1e5, 6000), *np.arange(-3000, 3000)])
    y = np.float32([*y, *exponents])
    # XLA on the CPU takes such small numbers as zeros.
    x, y = [np.where(np.abs(v) < SMALLEST, np.copysign(0, v), v) for v in (x, y)]

    program = dx.jit(lambda x, y: x**y)
    assert "stablehlo.power" not in program.lower(x, y).as_text()
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(float), y.astype(float))
    assert_rounded_once(program(x, y), wanted)
    assert "stablehlo.power" in dx.jit(lambda x: x**0.5).lower(x).as_text()
    assert "stablehlo.power" in program.lower(x[:100], y[:100]).as_text()


@pytest.mark.cpu
@pytest.mark.parametrize(("name", "operation"), [("exp2", "power"), ("cbrt", "cbrt")])
def test_functions_of_large_arrays_are_rounded_once(name: str, operation: str) -> None:
    x = np.linspace(0, 0x7F800000, 8000).astype(np.uint32).view(np.float32) * np.float32([1, -1] * 4000)
    ends = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1, -27, -125.5, 127.99999, 128, 1e-30])
    x = np.concatenate([ends, np.linspace(-130, 130, 2000, dtype=np.float32), x[np.abs(x) > SMALLEST]])
    program, reference = dx.jit(getattr(dnp, name)), getattr(np, name)
    assert operation not in program.lower(x).as_text().replace(name, "")
    with np.errstate(all="ignore"):
        wanted = reference(x.astype(float))
    assert_rounded_once(program(x), wanted)
    assert f"stablehlo.{operation}" in program.lower(x[:100]).as_text()


def test_constants_are_divided_by_zero_as_arrays_are() -> None:
    """XLA would do so itself while it compiles, and end the process."""
    for dtype in ("int8", "uint32", "int4"):
        x, zero = np.array([5, 0]).astype(dtype), np.zeros(2).astype(dtype)
        got = dx.jit(lambda: [f(dnp.full(2, 5, dtype), dnp.zeros(2, dtype)) for f in (lax.div, lax.rem)])()
        np.testing.assert_array_equal(got, [np.asarray(f(x[[0, 0]], zero)) for f in (lax.div, lax.rem)])
    assert [int(x) for x in dx.jit(lambda: (dnp.floor_divide(1, 0), dnp.remainder(1, 0)))()] == [
        int(dnp.floor_divide(1, 0)),
        int(dnp.remainder(1, 0)),
    ]


@pytest.mark.parametrize("y", [0, 1, 63, 64, 255, 2**31 - 1])
def test_powers_of_integers_wrap_for_any_exponent(y: int) -> None:
    """XLA's own power errs beyond 6 bits of exponent."""
    x = np.array([0, 1, 2, 3, -1, -2, -3, 2**31 - 1], np.int32)
    want = np.array([pow(int(v), y, 2**32) for v in x], np.uint64).astype(np.uint32).view(np.int32)
    np.testing.assert_array_equal(lax.pow(x, np.int32(y)), want)
    np.testing.assert_array_equal(dx.jit(lax.pow)(x, np.int32(y)), want)


def test_scalars_stretch_and_python_scalars_take_the_dtype() -> None:
    x = np.arange(3, dtype=ml_dtypes.bfloat16)
    assert lax.mul(x, 2.5).dtype == x.dtype
    np.testing.assert_array_equal(lax.sub(np.float32(1), np.float32([1, 2])), [0, -1])
    np.testing.assert_array_equal(dx.jit(lax.sub)(np.float32(1), np.float32([1, 2])), [0, -1])
    scalar_bar = dx.grad(lambda s: reduce(lax.mul(s, np.float32([1, 2, 3]))))(np.float32(2))
    assert float(scalar_bar) == 6 and scalar_bar.shape == ()


def reduce(x: Any) -> Any:
    from didax.primitives.shape import reduce_sum

    return reduce_sum(x, tuple(range(x.ndim)))


# --- derivatives at corners ---------------------------------------------------------------------------------


def both_grads(f: Any, *args: Any) -> list[float]:
    argnums = tuple(range(len(args)))
    eager = dx.grad(f, argnums)(*args)
    compiled = dx.jit(dx.grad(f, argnums))(*args)
    np.testing.assert_array_equal(np.asarray(eager), np.asarray(compiled))
    return [float(x) for x in eager]


def test_grads_of_max_and_min_split_evenly_at_ties() -> None:
    for f in (lax.max, lax.min):
        assert both_grads(f, 1.0, 1.0) == [0.5, 0.5]
    assert both_grads(lax.max, 2.0, 1.0) == [1, 0]
    assert both_grads(lax.min, 2.0, 1.0) == [0, 1]
    assert both_grads(lax.max, np.float32(np.nan), 1.0) == [0, 0]


def test_grads_of_pow_are_finite_at_zero() -> None:
    assert both_grads(lax.pow, 0.0, 2.0) == [0, 0]
    assert both_grads(lax.pow, 0.0, 1.0) == [1, 0]
    assert both_grads(lax.pow, 0.0, 0.0) == both_grads(lax.pow, -0.0, -0.0) == [0, 0]
    assert both_grads(lambda x: lax.integer_pow(x, 0), 0.0) == [0]
    assert both_grads(dx.grad(lambda x: lax.pow(x, np.float32(2))), 0.0) == [2]
    assert both_grads(dx.grad(lambda x: lax.integer_pow(x, 2)), 0.0) == [2]
    assert both_grads(dx.grad(lambda x: lax.integer_pow(x, 1)), 0.0) == [0]
    assert both_grads(lambda x: 1 / (x**0 - 1), 2.0) == [0]  # not infinity times zero


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_grads_of_atan2_neither_overflow_nor_vanish(scale: float) -> None:
    found = both_grads(lax.atan2, np.float32(scale), np.float32(scale))
    np.testing.assert_allclose(found, [0.5 / scale, -0.5 / scale], rtol=1e-6)


@pytest.mark.parametrize("f", [lax.tanh, lax.logistic, lax.atan, lax.asinh, lax.erf, lax.erfc])
def test_grads_vanish_where_the_function_is_flat(f: Any) -> None:
    for x in (-1e30, 1e30):
        assert both_grads(f, np.float32(x)) == [0]


def test_grads_of_abs_at_zero() -> None:
    assert both_grads(lax.abs, 0.0) == [0]
    for z, want in [(0, 0), (3 + 4j, 0.6 - 0.8j)]:
        (z_bar,) = dx.vjp(lax.abs, np.complex64(z))[1](np.float32(1))
        np.testing.assert_allclose(z_bar, want, rtol=1e-6)


def test_second_derivatives_of_complex_abs_at_zero() -> None:
    """The way back through them agrees with the way forward: both are 0 there."""
    z = np.array([0, 3 + 4j], np.complex64)
    gradient = dx.grad(lambda z: lax.abs(z).sum())
    forward = dx.jvp(gradient, (z,), (np.ones_like(z),))[1]
    (back,) = dx.vjp(gradient, z)[1](np.ones_like(z))
    np.testing.assert_allclose(back, forward, rtol=1e-6)
    assert back[0] == 0


def test_grads_of_clamp() -> None:
    assert both_grads(lambda low, x, high: lax.clamp(low, x, high), 0.0, 0.5, 1.0) == [0, 1, 0]
    assert both_grads(lambda low, x, high: lax.clamp(low, x, high), 0.0, -0.5, 1.0) == [1, 0, 0]
    assert both_grads(lambda low, x, high: lax.clamp(low, x, high), 0.0, 1.5, 1.0) == [0, 0, 1]


def test_acosh_has_the_derivative_of_its_principal_branch() -> None:
    z, h = np.complex128(-0.5 + 0.7j), 1e-6
    difference = (np.arccosh(z + h) - np.arccosh(z - h)) / (2 * h)
    with dx.enable_x64():
        np.testing.assert_allclose(dx.grad(lax.acosh, holomorphic=True)(z), difference, rtol=1e-8)


def test_stop_gradient_is_constant_to_any_order() -> None:
    f = lambda x: lax.mul(lax.mul(x, x), lax.stop_gradient(x))
    assert both_grads(f, 3.0) == [18]
    assert both_grads(dx.grad(f), 3.0) == [6]
    assert float(dx.jvp(dx.grad(f), (3.0,), (1.0,))[1]) == 6
    assert both_grads(lambda x: lax.stop_gradient({"a": x, "n": 1})["a"], 2.0) == [0]


def test_reduce_precision_rounds_tangents_too() -> None:
    f = lambda x: lax.reduce_precision(x, 8, 7)
    y, y_dot = dx.jvp(f, (np.float32(1 + 2**-10),), (np.float32(1 + 2**-10),))
    assert (float(y), float(y_dot)) == (1, 1)
    assert float(dx.vjp(f, np.float32(2))[1](np.float32(1 + 2**-10))[0]) == 1


def test_tangents_through_integers_vanish() -> None:
    f = lambda x: lax.mul(x, lax.convert_element_type(lax.convert_element_type(x, "int32"), "float32"))
    assert both_grads(f, 2.5) == [2]


def test_conversion_from_complex() -> None:
    z = np.complex64([1 + 2j, 2j, 0])
    np.testing.assert_array_equal(lax.convert_element_type(z, "float32"), [1, 0, 0])
    np.testing.assert_array_equal(lax.convert_element_type(z, "bool"), [True, True, False])
    (z_bar,) = dx.vjp(lambda z: lax.convert_element_type(z, "float32"), z)[1](np.float32([1, 2, 3]))
    np.testing.assert_array_equal(z_bar, np.complex64([1, 2, 3]))


def test_convert_element_type_drops_the_weak_type_and_nothing_else() -> None:
    x = dx.device_put(np.float32([1, 2]))
    y = lax.convert_element_type(x, "float32")
    assert y.aval is x.aval and y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()  # nothing is computed
    assert dx.jit(lambda x: lax.convert_element_type(x))(2.0).weak_type is False


def test_optimization_barrier_keeps_symbolic_zeros() -> None:
    def f(x: Any) -> Any:
        y, n = lax.optimization_barrier((x, np.float32(3)))
        return lax.mul(y, n)

    assert both_grads(f, 2.0) == [3]


# --- errors -------------------------------------------------------------------------------------------------


ERRORS = {
    "elementwise-dtypes": (
        lambda: lax.add(np.float32(1), np.int32(1)),
        "add takes operands of one dtype.\n  operands: float32[], int32[]\n"
        "Cast one of them (x.astype), or use didax.numpy.add, which promotes.",
    ),
    "elementwise-shapes": (
        lambda: lax.add(np.ones(2, "f4"), np.ones(3, "f4")),
        "add takes arrays of one shape (or scalars).\n  operands: float32[2], float32[3]\n"
        "Broadcast them first.",
    ),
    "elementwise-kinds": (
        lambda: lax.sin(1),
        "sin takes floating point, complex operands.\n  operands: int32[]\nCast the operands (x.astype).",
    ),
    "elementwise-python-scalars": (
        lambda: lax.add(np.int32(1), 2.5),
        "A Python float does not fit an array of int32.\n  scalar: 2.5\n"
        "Cast the array first (x.astype), or use didax.numpy, which promotes.",
    ),
    "integer_pow": (
        lambda: lax.integer_pow(2, -1),
        "Integers have no negative powers.\n  integer_pow of int32[] with y=-1\n"
        "Use a power of at least 0, or cast to a floating-point dtype first.",
    ),
    "complex": (
        lambda: lax.complex(np.float16(1), np.float16(1)),
        "complex takes float32 or float64 operands.\n  operands: float16[], float16[]\n"
        "Cast them first: x.astype('float32').",
    ),
    "select_n-which": (
        lambda: lax.select_n(np.float32(1), 1.0, 2.0),
        "select_n chooses by a bool or int32 array.\n  which: float32[], cases: float32[], float32[]\n"
        "Cast `which` (which.astype('int32')).",
    ),
    "select_n-bool": (
        lambda: lax.select_n(np.bool_(1), 1.0, 2.0, 3.0),
        "select_n chooses between at most two cases by a bool.\n"
        "  which: bool[], cases: float32[], float32[], float32[]\nChoose by an int32 array.",
    ),
    "select_n-cases": (
        lambda: lax.select_n(np.bool_(1), np.ones(2, "f4"), np.ones(3, "f4")),
        "select_n takes cases of one dtype, and arrays of one shape (or scalars).\n"
        "  which: bool[], cases: float32[2], float32[3]\nCast or broadcast them first.",
    ),
    "select_n-none": (
        lambda: lax.select_n(np.bool_(1)),
        "select_n needs at least one case.\n  which: bool[], cases: none\nAdd the arrays to choose from.",
    ),
    "select": (
        lambda: lax.select(np.float32(1), 1.0, 2.0),
        "select chooses by booleans.\n  pred: float32[]\n"
        "Compare it with something (lax.ne(pred, 0)), or choose by integers with select_n.",
    ),
    "bitcast-wider": (
        lambda: lax.bitcast_convert_type(np.zeros((2, 3), "uint8"), "uint32"),
        "A uint32 is read from the 4 uint8 of the last axis.\n  operand: uint8[2,3]\n"
        "Reshape the operand so that its last axis has length 4.",
    ),
    "bitcast-complex": (
        lambda: lax.bitcast_convert_type(np.complex64(1), "float32"),
        "Only the bits of integers and floats of whole bytes can be read as another dtype.\n"
        "  operand: complex64[], dtype: complex64\n"
        "Convert the values (convert_element_type), or take the parts of complex numbers first.",
    ),
    "reduce_precision": (
        lambda: lax.reduce_precision(1, 5, 10),
        "reduce_precision rounds floats to at least one bit of exponent and none of mantissa.\n"
        "  operand: int32[], exponent_bits: 5, mantissa_bits: 10\n"
        "Cast the operand to a float dtype; count bits as in float16: 5 and 10.",
    ),
    "iota": (
        lambda: lax.broadcasted_iota("int32", (2, 3), 2),
        "iota counts in a numeric dtype along one axis of a shape.\n"
        "  dtype: int32, shape: (2, 3), dimension: 2\n"
        "Choose an integer, floating-point or complex dtype and an axis of the shape.",
    ),
    "full": (
        lambda: lax.full((2,), np.ones(2, "f4")),
        "full repeats a scalar.\n  fill_value: float32[2], shape: (2,)\n"
        "Use didax.numpy.broadcast_to or didax.numpy.full to repeat an array.",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error_texts(case: str) -> None:
    call, text = ERRORS[case]
    for run in (call, lambda: dx.make_jaxpr(lambda: call())()):
        with pytest.raises(TypeError) as caught:
            run()
        assert str(caught.value) == text


def test_unknown_derivatives_are_refused() -> None:
    with pytest.raises(MissingRuleError, match="polygamma has no derivative by its order"):
        dx.grad(lax.polygamma)(2.0, 3.0)


def test_derivatives_of_zeta_by_the_exponent_at_its_edges() -> None:
    slope = dx.vmap(dx.grad(lax.zeta))
    s, q = np.float32([1, 2, 0.5, 2, 3, np.nan]), np.float32([2, 0, 1, -0.5, np.inf, 1])
    np.testing.assert_array_equal(slope(s, q), np.float32([-np.inf, np.inf, np.nan, np.nan, 0, np.nan]))


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_powers_of_complex_numbers_at_corners(evaluate: Any) -> None:
    inf, nan = np.inf, np.nan
    cases = [
        (1j, complex(0, inf), 0),  # e**(-inf + i nan)
        (1 + 1j, complex(0, inf), 0),
        (2, complex(inf, 0), complex(inf, 0)),
        (0.5, complex(-inf, 0), complex(inf, 0)),
        (complex(inf, 0), 2, complex(inf, 0)),
        (complex(-inf, 1), -2, 0),
        (complex(inf, -2), 1, complex(inf, -2)),
        (complex(nan, 3), 0, 1),
        (0, 0, 1),
        (0, 0.5 + 2j, 0),
        (0, -1, complex(nan, nan)),
        (1e30, 4 - 4j, complex(inf, inf)),
        (-1e-30j, 1.5, 0),
        (1e25, 0.5, 3.1622777e12),
    ]
    z, w, expected = [np.complex64(column) for column in zip(*cases, strict=True)]
    found = np.asarray(evaluate(lax.pow)(z, w))
    infinite = np.isinf(expected.real) | np.isinf(expected.imag)
    assert np.isinf(np.abs(found[infinite])).all()
    np.testing.assert_allclose(found[~infinite], expected[~infinite], rtol=1e-6, atol=1e-44)
    below = np.asarray(evaluate(lax.pow)(np.complex64([complex(-1, -0.0)]), np.complex64([0.5])))
    np.testing.assert_allclose(below, [-1j], atol=1e-6)


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_each_part_of_a_complex_rsqrt_has_its_digits(evaluate: Any) -> None:
    z = np.complex64([-2, -2 + 1e-3j, complex(-2, -0.0), 1e30j, 1e-30, complex(np.inf, 1)])
    found = np.asarray(evaluate(lax.rsqrt)(z))
    expected = 1 / np.sqrt(z.astype(complex))
    np.testing.assert_allclose(found.real, expected.real, rtol=1e-6)
    np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-6)


@pytest.mark.parametrize("shapes", [((2, 1), (2, 3)), ((1, 3), (2, 1)), ((1,), (0,)), ((3, 1), ())], ids=str)
def test_axes_of_length_one_stretch(shapes: tuple[tuple[int, ...], ...]) -> None:
    """Also where a batch has the axis and the other operand has not."""
    x, y = [np.linspace(1, 2, int(np.prod(shape)), dtype="float32").reshape(shape) for shape in shapes]
    f = lambda x, y: lax.mul(lax.sub(x, y), x)
    np.testing.assert_allclose(f(x, y), (x - y) * x, rtol=1e-6)
    gradients = dx.grad(lambda x, y: f(x, y).sum(), (0, 1))
    assert [ct.shape for ct in gradients(x, y)] == [x.shape, y.shape]
    np.testing.assert_allclose(gradients(x, y)[0].sum(), (2 * x - y).sum(), rtol=1e-5)
    batch, places = np.stack([x, x + 1]), (0, None)
    for g in (f, gradients):
        alone = [dx.tree.leaves(g(v, y)) for v in batch]
        for found, *wanted in zip(dx.tree.leaves(dx.vmap(g, places)(batch, y)), *alone, strict=True):
            np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64", "uint64"])
def test_select_n_chooses_by_any_integer(dtype: str) -> None:
    which = np.array([0, 1, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    found = lax.select_n(dnp.asarray(which, dtype), *np.float32([[1] * 4, [2] * 4, [3] * 4]))
    assert found.tolist() == [1, 2, 3, 1]


@pytest.mark.parametrize("name", ["asin", "acos", "asinh", "acosh", "atanh", "sqrt", "log"])
def test_derivatives_at_branch_cuts_are_those_of_the_side_of_a_signed_zero(name):
    """On the axes beside each of four numbers: the derivative a little further on the same side of the axis."""
    f, at = getattr(dx.lax, name), np.array([-2.0, -0.5, 0.5, 2.0])
    zero, near = (np.repeat([z, -z], 4) for z in (0.0, 1e-6))
    cuts, beside = (
        np.concatenate([_complex(np.tile(at, 2), e), _complex(e, np.tile(at, 2))]) for e in (zero, near)
    )
    derivatives = dx.jit(dx.vmap(dx.grad(f, holomorphic=True)))
    np.testing.assert_allclose(derivatives(cuts), derivatives(beside), rtol=1e-4, atol=1e-5)


def _complex(real, imag):
    both = np.empty(real.shape, np.complex64)
    both.real, both.imag = real, imag
    return both


@pytest.mark.cpu
def test_remainders_of_large_arrays_have_the_bits_of_small_ones() -> None:
    """By quotients where all of them are small; what is not finite, denormal or far apart is left to XLA."""
    rng = np.random.default_rng(0)
    n = 1 << 13
    y = (rng.integers(0x20000000, 0x50000000, n)).astype(np.uint32).view(np.float32)
    multiples = (rng.integers(1, 1 << 20, n).astype(np.float32) * y).astype(np.float32)
    pairs = [
        rng.standard_normal((2, n)).astype(np.float32),
        (np.nextafter(multiples, np.float32(0)), -y),
        (np.float32(-1) * multiples, y),  # remainders 0 with the sign of x
        ((2.0 ** rng.uniform(0, 26.9, n) * y).astype(np.float32), y),
        rng.integers(0, 1 << 32, (2, n)).astype(np.uint32).view(np.float32),
        (np.full(n, 1e-41, np.float32), np.full(n, 3e-39, np.float32)),
        (
            np.float32([3, np.inf, np.nan, -0.0, 5]).repeat(n // 4)[:n],
            np.float32([2, 0, np.inf, 1]).repeat(n // 4),
        ),
    ]
    xs, ys = np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])
    assert "stablehlo.case" in dx.jit(lax.rem).lower(xs[0], ys[0]).as_text()
    rows = lambda xs, ys: [lax.rem(x, y) for x, y in zip(xs, ys, strict=True)]
    large = np.stack(dx.jit(rows)(list(xs), list(ys)))
    parts = [a.reshape(-1, n // 2) for a in (xs, ys)]  # too small to be large
    small = np.stack(dx.jit(rows)(list(parts[0]), list(parts[1]))).reshape(xs.shape)
    np.testing.assert_array_equal(large, small)
    assert (np.signbit(large) == np.signbit(xs))[~np.isnan(large)].all()
    np.testing.assert_array_equal(large[:4], np.fmod(xs[:4], ys[:4]))
    halves = (xs[0].astype(np.float16), ys[0].astype(np.float16))
    np.testing.assert_array_equal(np.asarray(dx.jit(lax.rem)(*halves)), np.fmod(*halves))
